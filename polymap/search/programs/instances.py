"""A program as arrays: its statement instances, the elements that each access touches, and which accesses must keep
their order. Built once per program; trees of it are then ordered and counted with numpy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polymap.ir import Access, Affine, Operator, Statement, Tensor, Workload
from polymap.poly import count_type
from polymap.resources import OutOfTime, Stop, never
from polymap.search.programs.tuning import TUNING

Ints = NDArray[np.signedinteger[Any]]  # int32 where counts of instances and elements suffice
Part = TypeVar("Part")
READ, ASSIGN = 0, 1  # kinds of an access; accumulations are ACCUMULATE plus the number of their operator
ACCUMULATE = 2
_OPERATORS = tuple(Operator)
_MOST_NUMBERED = (
    2**31 - 1
)  # elements of a tensor that are numbered as they lie: `_runs` joins their numbers with others


@dataclass(frozen=True, slots=True)
class Accesses:
    """All accesses of a program to one tensor, one entry per statement instance and distinct access.

    instance: numbers of statement instances. element: flattened index, of large tensors the number among those touched.
    kind: READ, ASSIGN or ACCUMULATE + operator.
    """

    instance: Ints
    element: Ints
    kind: NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Runs:
    """Which accesses must keep their order. An element's accesses in the program's order fall into runs of reads, of
    accumulations that may be reordered, or of one write; each run must end before the next one of its element begins.

    instance, writes: of every access, run by run (1 where it writes). start: where each run begins in them. follows:
    runs whose predecessor is of the same element.
    """

    instance: Ints
    writes: Ints
    start: Ints
    follows: Ints


@dataclass(frozen=True, slots=True)
class ProgramArrays:
    """points: per statement an array [dims, instances], in the program's order; first: the number of its first
    instance; count: of all instances. accesses, runs: per tensor (runs of written ones alone). order: the place of
    every instance in the program's order. folding: values of temporary tensors that no instance reads any more leave
    no trace, as in circular buffers (contraction.py); else they are written back where they leave a node too early."""

    workload: Workload
    points: tuple[Ints, ...]
    first: tuple[int, ...]
    count: int
    accesses: dict[str, Accesses]
    runs: dict[str, Runs]
    order: Ints
    scales: dict[str, float] = field(default_factory=dict[str, float])
    folding: bool = False


def thin_accesses(arrays: ProgramArrays, part: int) -> ProgramArrays:
    """Return the program with the accesses to one in `part` elements of every large tensor: for estimates. scales: how
    many elements one of them stands for."""
    accesses: dict[str, Accesses] = dict(arrays.accesses)
    scales: dict[str, float] = {}
    for name, own in arrays.accesses.items():
        kept = (own.element * 2654435761 >> 11) % part == 0
        elements, left = (len(np.unique(each)) for each in (own.element, own.element[kept]))
        if left >= TUNING.fewest_elements:
            accesses[name] = Accesses(own.instance[kept], own.element[kept], own.kind[kept])
            scales[name] = elements / left
    return replace(arrays, accesses=accesses, scales=scales)


def instance_bound(workload: Workload) -> int:
    """Return how many points the boxes around all statements hold; one of more than six dims counts for as many as take
    its room."""
    extents = workload.extents()
    return sum(prod(extents[dim] for dim in each.dims) * max(6, len(each.dims)) // 6 for each in workload.statements)


def program_arrays(workload: Workload, stop: Stop = never) -> ProgramArrays:
    """Return the program's instances and accesses as arrays; raises OutOfTime where it is told to stop."""
    return arrays_of(workload, points_of(workload, stop), stop)


def points_of(workload: Workload, stop: Stop = never) -> tuple[Ints, ...]:
    """Return the instances of every statement, an array [dims, instances] in the program's order."""
    return tuple(_points(workload, each) for each in _parts_until(workload.statements, stop))


def _parts_until(parts: Iterable[Part], stop: Stop) -> Iterator[Part]:
    """Yield the parts, with a look at the limits before each."""
    for part in parts:
        if stop():
            raise OutOfTime
        yield part


def keeps_order(arrays: ProgramArrays, clock: Ints) -> bool:
    """Return whether every dependence keeps its order where each instance runs at its time on a clock."""
    for runs in arrays.runs.values():
        time = (clock[runs.instance] << 1) + runs.writes
        last = np.maximum.reduceat(time, runs.start)
        first = np.minimum.reduceat(time, runs.start)
        if (last[runs.follows - 1] >= first[runs.follows]).any():
            return False
    return True


def arrays_of(workload: Workload, points: tuple[Ints, ...], stop: Stop = never) -> ProgramArrays:
    """Return the arrays of a program whose instances are known, each statement's in the program's order; raises
    OutOfTime where it is told to stop."""
    first: list[int] = []
    count = 0
    for each in points:
        first.append(count)
        count += each.shape[1]
    order = program_order(workload, points, count)
    accesses: dict[str, Accesses] = {}
    runs: dict[str, Runs] = {}
    for tensor in _parts_until(workload.tensors, stop):
        found = _accesses(workload, tensor, points, first)
        accesses[tensor.name] = found
        if (found.kind != READ).any():
            runs[tensor.name] = _runs(found, order, associative=workload.associative)
    return ProgramArrays(workload, points, tuple(first), count, accesses, runs, order)


def evaluate_affine(expression: Affine, columns: dict[str, Ints], length: int) -> Ints:
    """Return the values of a quasi-affine expression at points given by columns."""
    total = np.full(length, expression.constant, dtype=np.int64)
    for coefficient, atom in expression.terms:
        if isinstance(atom, str):
            total += coefficient * columns[atom]
        else:
            total += coefficient * (evaluate_affine(atom.argument, columns, length) // atom.divisor)
    return total


def _points(workload: Workload, statement: Statement) -> Ints:
    extents = workload.extents()
    shape = tuple(extents[dim] for dim in statement.dims)
    grid = np.indices(shape, dtype=np.int32).reshape(len(shape), prod(shape))
    columns = dict(zip(statement.dims, grid, strict=True))
    inside = np.ones(prod(shape), dtype=bool)
    for constraint in statement.constraints:
        inside &= evaluate_affine(constraint, columns, len(inside)) >= 0
    return np.ascontiguousarray(grid[:, inside])


def program_order(workload: Workload, points: tuple[Ints, ...], count: int) -> Ints:
    """Return the place of every instance in the program's own order."""
    if len(points) == 1:
        return np.arange(count)
    depth = max(len(each.dims) for each in workload.statements)
    columns = np.zeros((2 * depth + 1, count), dtype=np.int64)
    at = 0
    for statement, table in zip(workload.statements, points, strict=True):
        here = slice(at, at + table.shape[1])
        for place, position in enumerate(statement.position):
            columns[2 * place, here] = position
        for place in range(len(statement.dims)):
            columns[2 * place + 1, here] = table[place]
        at += table.shape[1]
    rank = np.empty(count, dtype=np.int32)
    rank[_order_of_columns(columns)] = np.arange(count, dtype=np.int32)
    return rank


def _order_of_columns(columns: Ints) -> Ints:
    """Return what sorts instances by these columns, the first the most significant; none is negative."""
    sizes: list[int] = [size + 1 for size in columns.max(axis=1).tolist()]
    if prod(sizes) >= 1 << 62:  # one number per instance would be too long
        return np.lexsort(columns[::-1])
    key = np.zeros(columns.shape[1], dtype=np.int64)
    for column, size in zip(columns, sizes, strict=True):
        key = key * size + column
    return order_of(key)


def order_of(key: Ints) -> Ints:
    """Return what sorts distinct numbers from 0 on."""
    bits = len(key).bit_length()
    if not len(key) or int(key.max()).bit_length() + bits > 62:
        return np.argsort(key)
    packed = key.astype(np.int64) << bits
    packed += np.arange(len(key))
    packed.sort()  # quicker than argsort
    return packed & (1 << bits) - 1


def _accesses(workload: Workload, tensor: Tensor, points: tuple[Ints, ...], first: list[int]) -> Accesses:
    instances, elements, kinds = [_none()], [_none()], [np.zeros(0, dtype=np.int8)]
    for statement, table, begin in zip(workload.statements, points, first, strict=True):
        length = table.shape[1]
        numbers = np.arange(begin, begin + length, dtype=np.int64)
        columns = {dim: table[place] for place, dim in enumerate(statement.dims)}
        for access in dict.fromkeys(statement.reads):
            if access.tensor == tensor.name:
                instances.append(numbers)
                elements.append(_element(tensor, access, columns, length))
                kinds.append(np.full(length, READ, dtype=np.int8))
        if statement.target.tensor == tensor.name:
            kind = ASSIGN if statement.operator is Operator.ASSIGN else _accumulation(statement)
            instances.append(numbers)
            elements.append(_element(tensor, statement.target, columns, length))
            kinds.append(np.full(length, kind, dtype=np.int8))
    element = np.concatenate(elements)
    if prod(tensor.shape) > _MOST_NUMBERED:
        element = np.unique(element, return_inverse=True)[1].reshape(-1)
    return Accesses(np.concatenate(instances), element, np.concatenate(kinds))


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)


def _accumulation(statement: Statement) -> int:
    return ACCUMULATE + _OPERATORS.index(statement.operator)


def _element(tensor: Tensor, access: Access, columns: dict[str, Ints], length: int) -> Ints:
    total = np.zeros(length, dtype=count_type(prod(tensor.shape)))
    for index, size, low in zip(access.index, tensor.shape, tensor.origin, strict=True):
        total = total * size + (evaluate_affine(index, columns, length) - low)
    return total


def _runs(accesses: Accesses, order: Ints, *, associative: bool) -> Runs:
    bits = len(order).bit_length()
    writes = (accesses.kind != READ).astype(np.int64)
    key = (((accesses.element << bits) + order[accesses.instance] << 1) + writes << 3) + accesses.kind
    key.sort()  # quicker than a permutation of four arrays
    kind = (key & 7).astype(np.int8)
    writes = (key >> 3 & 1).astype(np.int32)
    element = (key >> 4 + bits).astype(np.int32)
    at = np.empty(len(order), dtype=np.int32)
    at[order] = np.arange(len(order))
    breaks = np.ones(len(key), dtype=bool)
    breaks[1:] = (element[1:] != element[:-1]) | (kind[1:] != kind[:-1]) | (kind[1:] == ASSIGN)
    if not associative:
        breaks[1:] |= kind[1:] != READ
    start = np.flatnonzero(breaks)
    follows = np.flatnonzero(element[start][1:] == element[start][:-1]) + 1
    return Runs(at[key >> 4 & (1 << bits) - 1], writes, start, follows)
