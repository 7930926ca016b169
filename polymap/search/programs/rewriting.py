"""A program with other loops: the same instances in an order that keeps its dependences, over other dims.

A rewriting gives every statement its place in the text and its new loops, each an affine function of the old counters:
renamed loops can be fused by a loop tree; shifted and skewed ones can be tiled where the original ones cannot. A
statement may get more loops than it had: it then runs in one iteration of the others.
"""

from __future__ import annotations

from collections.abc import Mapping as Table
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

import numpy as np

from polymap.ir import Affine, Dim, Floor, Statement, Workload, affine, dim, substituted, with_indices
from polymap.search.programs.instances import (
    Ints,
    ProgramArrays,
    arrays_of,
    evaluate_affine,
    keeps_order,
    points_of,
    program_order,
)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What a statement becomes. position: its place in the text (as `Statement.position`); loops: (name, value over the
    old dims) of its new loops, outermost first."""

    statement: str
    position: tuple[int, ...]
    loops: tuple[tuple[str, Affine], ...]


Rewriting = tuple[Rewrite, ...]  # one per statement, in the order of the new text; (): the program as it is


def rewrite_arrays(arrays: ProgramArrays, rewriting: Rewriting) -> ProgramArrays | None:
    """Return the program over its new dims, each of which begins at 0; None where old counters are no integer affine
    functions of new ones.

    The new text must keep the order of accesses that depend on each other.
    """
    workload = arrays.workload
    numbers = {each.name: number for number, each in enumerate(workload.statements)}
    order = [numbers[each.statement] for each in rewriting]
    columns: dict[tuple[int, str], Ints] = {}
    for number, rewrite in zip(order, rewriting, strict=True):
        old = dict(zip(workload.statements[number].dims, arrays.points[number], strict=True))
        length = arrays.points[number].shape[1]
        columns |= {(number, name): evaluate_affine(value, old, length) for name, value in rewrite.loops}
    low, extent = _ranges(workload, rewriting, columns, numbers)
    statements: list[Statement] = []
    for rewrite in rewriting:
        statement = _statement(workload, rewrite, low, extent)
        if statement is None:
            return None
        statements.append(statement)
    points = tuple(
        np.stack([columns[number, name] - low[name] for name, _ in rewrite.loops]).astype(np.int32)
        if rewrite.loops
        else arrays.points[number]
        for number, rewrite in zip(order, rewriting, strict=True)
    )
    dims = tuple(_dim(workload, name, extent[name]) for name in extent)
    new = replace(workload, dims=dims, statements=tuple(statements))
    return replace(arrays, workload=new, points=points, first=tuple(arrays.first[number] for number in order))


def _ranges(
    workload: Workload, rewriting: Rewriting, columns: Table[tuple[int, str], Ints], numbers: Table[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the least value of every new dim, and how many values it has. A loop that is at most renamed has its whole
    extent."""
    extents = workload.extents()
    low: dict[str, int] = {}
    high: dict[str, int] = {}
    for rewrite in rewriting:
        for name, value in rewrite.loops:
            column = columns[numbers[rewrite.statement], name]
            if len(value.dims) == 1 and value == dim(value.dims[0]):
                least, most = 0, extents[value.dims[0]] - 1
            elif len(column):
                least, most = int(column.min()), int(column.max())
            else:
                continue
            low[name], high[name] = min(low.get(name, least), least), max(high.get(name, most), most)
    for name in dict.fromkeys(name for _, name in columns if name not in low):
        low[name] = high[name] = 0
    return low, {name: high[name] - low[name] + 1 for name in low}


def _dim(workload: Workload, name: str, extent: int) -> Dim:
    return next((each for each in workload.dims if (each.name, each.extent) == (name, extent)), Dim(name, extent))


def _statement(workload: Workload, rewrite: Rewrite, low: Table[str, int], extent: Table[str, int]) -> Statement | None:
    """Return the statement over its new dims."""
    statement, extents = workload.statement(rewrite.statement), workload.extents()
    values = inverse(statement.dims, {name: value - low[name] for name, value in rewrite.loops})
    if values is None:
        return None
    constraints = [substituted(each, values) for each in statement.constraints]
    for old in statement.dims:
        renamed = len(values[old].dims) == 1 and values[old] == dim(values[old].dims[0])
        if not renamed:
            constraints.append(values[old])
        if not renamed or extents[old] != extent[values[old].dims[0]]:
            constraints.append(-values[old] + (extents[old] - 1))
    for name, value in rewrite.loops:
        rest = dim(name) - (substituted(value, values) - low[name])
        constraints += [rest, -rest]
    return replace(
        with_values(statement, values),
        dims=tuple(name for name, _ in rewrite.loops),
        position=rewrite.position,
        constraints=tuple(each for each in dict.fromkeys(constraints) if each.terms),
    )


def reorder_arrays(arrays: ProgramArrays, workload: Workload) -> ProgramArrays | None:
    """Return the arrays of a program whose statements are those of `arrays` over other loops (`Statement.counters`);
    None where it does not run every instance once, in an order that keeps all dependences."""
    points = points_of(workload)
    order = program_order(workload, points, sum(table.shape[1] for table in points))
    names = [each.name for each in arrays.workload.statements]
    if sorted(each.name for each in workload.statements) != sorted(names) or len(order) != arrays.count:
        return None
    clock, begin = np.zeros(arrays.count, dtype=np.int64), 0
    for statement, table in zip(workload.statements, points, strict=True):
        instances = _old_instances(arrays, names.index(statement.name), statement, table)
        if instances is None:
            return None
        clock[instances] = order[begin : begin + table.shape[1]]
        begin += table.shape[1]
    return arrays_of(workload, points) if keeps_order(arrays, clock) else None


def _old_instances(arrays: ProgramArrays, number: int, statement: Statement, table: Ints) -> Ints | None:
    """Return the numbers of a statement's instances in the old program; None where they are not all of them."""
    extents, old, length = arrays.workload.extents(), arrays.points[number], table.shape[1]
    if old.shape[1] != length:
        return None
    columns, values = dict(zip(statement.dims, table, strict=True)), dict(statement.counters)
    new_key, old_key = np.zeros(length, dtype=np.int64), np.zeros(length, dtype=np.int64)
    for name, column in zip(arrays.workload.statements[number].dims, old, strict=True):
        value = evaluate_affine(values[name], columns, length)
        if ((value < 0) | (value >= extents[name])).any():
            return None
        new_key, old_key = new_key * extents[name] + value, old_key * extents[name] + column
    by_new, by_old = np.argsort(new_key, kind="stable"), np.argsort(old_key, kind="stable")
    if (new_key[by_new] != old_key[by_old]).any():
        return None
    found = np.empty(length, dtype=np.int64)
    found[by_new] = by_old + arrays.first[number]
    return found


def with_values(statement: Statement, values: Table[str, Affine]) -> Statement:
    """Return the statement with its counters replaced in accesses and expressions; loops and constraints stay."""
    known = statement.counters or tuple((name, dim(name)) for name in statement.dims)
    counters = tuple((name, substituted(value, values)) for name, value in known)
    return replace(with_indices(statement, values), counters=counters)


def inverse(olds: tuple[str, ...], new: Table[str, Affine]) -> dict[str, Affine] | None:
    """Return every old dim as an integer affine function of new ones, given as functions of the old; None where some
    is not."""
    rows = [name for name, value in new.items() if not any(isinstance(atom, Floor) for _, atom in value.terms)]
    for names in combinations(rows, len(olds)):
        matrix = [[Fraction(_coefficient(new[name], old)) for old in olds] for name in names]
        solved = _invert_matrix(matrix)
        if solved is not None and all(each.denominator == 1 for row in solved for each in row):
            return {
                old: affine(
                    tuple((int(factor), name) for factor, name in zip(row, names, strict=True) if factor),
                    -sum(int(factor) * new[name].constant for factor, name in zip(row, names, strict=True)),
                )
                for old, row in zip(olds, solved, strict=True)
            }
    return None


def _coefficient(value: Affine, name: str) -> int:
    return next((factor for factor, atom in value.terms if atom == name), 0)


def _invert_matrix(matrix: list[list[Fraction]]) -> list[list[Fraction]] | None:
    """Return the inverse by Gauss-Jordan elimination, None of a singular matrix."""
    size = len(matrix)
    rows = [[*row, *(Fraction(place == number) for place in range(size))] for number, row in enumerate(matrix)]
    for place in range(size):
        pivot = next((number for number in range(place, size) if rows[number][place]), None)
        if pivot is None:
            return None
        rows[place], rows[pivot] = rows[pivot], rows[place]
        rows[place] = [each / rows[place][place] for each in rows[place]]
        for number in range(size):
            if number != place and rows[number][place]:
                factor = rows[number][place]
                rows[number] = [a - factor * b for a, b in zip(rows[number], rows[place], strict=True)]
    return [row[size:] for row in rows]
