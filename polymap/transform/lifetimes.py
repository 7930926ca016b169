"""When two elements of a tensor must not share a cell: lifetimes of values under a schedule.

A value lives from the write of an instance w to its last read r. Another write w' in between may not go to the same
cell (w' = r may: an instance reads before it writes). What is forbidden is a set of differences of elements; moduli are
legal if and only if no forbidden difference is a multiple of them along every axis (Lefebvre and Feautrier, 1998).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial, reduce
from itertools import product
from math import prod

from polymap.ir import Access, Affine, BudgetError, Floor, Mistake, Operator, Violation, affine, dim
from polymap.poly import (
    Clock,
    Map,
    Set,
    budget,
    coalesced,
    count,
    differences,
    dim_bounds,
    ends_of,
    first_pair,
    flow_of_values,
    function,
    may_precede,
    nonnegative,
    points_of,
    same_value,
)
from polymap.schedules import Fold, LoopKind, Schedule, instance_text, point
from polymap.transform.tuning import TUNING
from polymap.workload import domain_of

_LOOSE = (LoopKind.PARALLEL, LoopKind.VECTOR)


def fold_violations(schedule: Schedule) -> Iterator[Violation]:
    """Yield one violation per folded tensor that loses a value: the instance that wrote it, and the one that overwrites
    it before it is read."""
    for fold in schedule.folds:
        with budget(TUNING.lifetimes_operations, seconds=TUNING.lifetimes_s, what=f"the lifetimes of {fold.tensor}"):
            for writer, other, pairs in _overlaps(schedule, fold.tensor):
                cells = [_cells(schedule, name, fold.moduli) for name in (writer, other)]
                elements = [_cells(schedule, name, None) for name in (writer, other)]
                lost = pairs.intersect(same_value(*cells)).subtract(same_value(*elements))
                pair = first_pair(lost)
                if pair is not None:
                    first = point(schedule.workload, writer, pair[0])
                    second = point(schedule.workload, other, pair[1])
                    message = (
                        f"{fold.tensor} folded by {fold.moduli} loses a value: {instance_text(second)} overwrites what "
                        f"{instance_text(first)} wrote before its last read."
                    )
                    yield Violation("dependence", message, (first, second))
                    break


def smallest_moduli(schedule: Schedule, tensor: str) -> tuple[int, ...]:
    """Return the legal moduli of smallest product, the lexicographically smallest of these."""
    axes = len(schedule.workload.tensor(tensor).shape)
    with budget(TUNING.lifetimes_operations, seconds=TUNING.lifetimes_s, what=f"the lifetimes of {tensor}"):
        forbidden = forbidden_differences(schedule, tensor)
        if forbidden is None:
            return (1,) * axes
        bounds = [max(abs(low), abs(high)) for low, high in dim_bounds(forbidden)]
        choices = [_alone(forbidden, axes, axis, most) for axis, most in enumerate(bounds)]
        small = count(forbidden) <= TUNING.most_points
        most = TUNING.most_candidates if small else TUNING.most_questions
        if prod(map(len, choices)) > most:
            text = f"{tensor} has more than {most:,} moduli to try"
            raise BudgetError(Mistake("PM435", text, "Smaller sizes, or moduli that you name, would help."))
        keeps = _by_points(forbidden) if small else partial(_by_sets, forbidden)
        for moduli in sorted(product(*choices), key=lambda each: (prod(each), each)):
            if keeps(moduli):
                return moduli
    raise AssertionError("beyond the largest difference no two elements share a cell")


def _alone(forbidden: Set, axes: int, axis: int, most: int) -> list[int]:
    """Return the moduli of an axis of which no forbidden difference along this axis alone is a multiple."""
    line = forbidden
    for other in range(axes):
        if other != axis:
            line = nonnegative(nonnegative(line, dim(f"a{other}")), -dim(f"a{other}"))
    values = {point[axis] for point in points_of(line)}
    return [size for size in range(1, most + 2) if not any(value % size == 0 for value in values)]


def _by_points(forbidden: Set) -> Callable[[tuple[int, ...]], bool]:
    """Return a function that tells whether no forbidden difference is a multiple of the moduli, from a list of all."""
    import numpy as np

    table = np.array(points_of(forbidden), dtype=np.int64)
    return lambda moduli: not bool((table % np.array(moduli) == 0).all(axis=1).any())


def _by_sets(forbidden: Set, moduli: tuple[int, ...]) -> bool:
    """Return whether no forbidden difference is a multiple of the moduli, by isl."""
    for axis, modulus in enumerate(moduli):
        forbidden = nonnegative(forbidden, -_modulo(dim(f"a{axis}"), modulus))
    return forbidden.is_empty()


def forbidden_differences(schedule: Schedule, tensor: str) -> Set | None:
    """Return { element of w' - element of w } over all w, w' whose elements must not share a cell, or None (inside
    `with budget():`)."""
    names = [f"a{axis}" for axis in range(len(schedule.workload.tensor(tensor).shape))]
    parts: list[Set] = []
    for writer, other, pairs in _overlaps(schedule, tensor):
        elements = [_cells(schedule, name, None) for name in (writer, other)]
        apart = pairs.subtract(same_value(*elements))
        if not apart.is_empty():
            parts.append(differences(apart, elements[0], elements[1], names))
    return coalesced(reduce(lambda one, other: one.union(other), parts)) if parts else None


def _overlaps(schedule: Schedule, tensor: str) -> Iterator[tuple[str, str, Map]]:
    """Yield (writer, other writer, { w -> w' }): w' may run after w and before a read of w's value."""
    work = schedule.workload
    writers = [each.name for each in work.statements if each.target.tensor == tensor]
    clocks = {each.name: Clock(each.name, each.dims, schedule.times[each.name]) for each in work.statements}
    for flow in flow_of(schedule, tensor):
        writer, reader = ends_of(flow)
        for other in writers:
            after = may_precede(clocks[writer], clocks[other], _loose(schedule, writer, other))
            until = may_precede(clocks[other], clocks[reader], _loose(schedule, other, reader))
            domain = domain_of(work, work.statement(other))
            pairs = flow.apply_range(until.reverse()).intersect(after).intersect_range(domain)
            if not pairs.is_empty():
                yield writer, other, pairs


def flow_of(schedule: Schedule, tensor: str) -> tuple[Map, ...]:
    """Return { writer -> reader } of the values of the tensor, under the schedule's order (inside `with budget():`)."""
    work = schedule.workload
    reads: list[Map] = []
    writes: list[Map] = []
    times: list[Map] = []
    for each in work.statements:
        domain = domain_of(work, each)
        times.append(function(each.name, each.dims, schedule.times[each.name]).intersect_domain(domain))
        accesses: list[Access] = [read for read in dict.fromkeys(each.reads) if read.tensor == tensor]
        if each.target.tensor == tensor:
            writes.append(_cells(schedule, each.name, None).intersect_domain(domain))
            accesses += [each.target] if each.operator is not Operator.ASSIGN else []
        for access in dict.fromkeys(accesses):
            reads.append(function(each.name, each.dims, access.index, tensor).intersect_domain(domain))
    return flow_of_values(reads, writes, times) if reads and writes else ()


def _loose(schedule: Schedule, one: str, other: str) -> set[int]:
    """Return the places at which both statements run in no order."""
    pairs = zip(schedule.scattering(one).places, schedule.scattering(other).places, strict=True)
    return {at for at, (a, b) in enumerate(pairs) if a.kind in _LOOSE or b.kind in _LOOSE}


def _cells(schedule: Schedule, statement: str, moduli: tuple[int, ...] | None) -> Map:
    """Return { instance -> cell that it writes }; without moduli { instance -> element }."""
    own = schedule.workload.statement(statement)
    index = own.target.index if moduli is None else folded_index(own.target.index, moduli)
    return function(own.name, own.dims, index, own.target.tensor)


def folded_index(index: tuple[Affine, ...], moduli: tuple[int, ...]) -> tuple[Affine, ...]:
    """Return `index mod moduli`, axis by axis."""
    return tuple(_modulo(each, modulus) for each, modulus in zip(index, moduli, strict=True))


@lru_cache(maxsize=256)
def _modulo(value: Affine, modulus: int) -> Affine:
    if not value.terms:
        return Affine((), value.constant % modulus)
    return value - affine(((1, Floor(value, modulus)),)) * modulus if modulus > 1 else Affine()


def is_foldable(schedule: Schedule, tensor: str) -> str:
    """Return why a tensor cannot live in a circular buffer, "" where it can."""
    found = next((each for each in schedule.workload.tensors if each.name == tensor), None)
    if found is None:
        return f"The workload has no tensor {tensor!r}"
    if not found.temporary or found.initial:
        return f"{tensor} outlives the program: all its elements are kept"
    return ""


def with_fold(schedule: Schedule, fold: Fold) -> tuple[Fold, ...]:
    """Return the folds with this one in place of an older one of its tensor."""
    return (*(each for each in schedule.folds if each.tensor != fold.tensor), fold)
