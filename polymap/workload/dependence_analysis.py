"""Memory-based dependences of a program.

A dependence is a relation { source[x] -> sink[y] }: both access one element, at least one writes it, and the source
runs first. Two accumulations with one operator have a dependence of kind REDUCTION only; they may be reordered if the
workload is associative. Memory-based dependences contain all such pairs, not only consecutive ones, so that dropping
the reductions loses no other dependence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import product
from math import prod
from typing import Protocol

from polymap.ir import Access, Affine, BudgetError, Operator, Shown, Statement, Tensor, Workload, dim as variable
from polymap.poly import (
    Map,
    Set,
    budget,
    check_clock,
    coalesced,
    constants_of,
    differences,
    first_point,
    function,
    integer_set,
    same_value,
    signs_of,
    sooner,
)
from polymap.workload.tuning import TUNING


class Kind(StrEnum):
    """FLOW: written, then read. ANTI: read, then overwritten. OUTPUT: written twice. REDUCTION: accumulated twice."""

    FLOW = "flow"
    ANTI = "anti"
    OUTPUT = "output"
    REDUCTION = "reduction"


@dataclass(frozen=True, slots=True, repr=False)
class Dependence(Shown):
    """All pairs of one kind between two statements through one tensor.

    dims: the loops that both share, outermost first. distances: sink minus source along these, in iterations, one
    vector per pair of accesses and carrying loop; None where it varies. signs: every combination of signs (-1, 0, 1)
    of the distances that occurs, sorted. relation_text: the relation as isl prints it, over loop counters from 0.
    """

    source: str
    sink: str
    kind: Kind
    tensor: str
    relation_text: str
    dims: tuple[str, ...]
    distances: tuple[tuple[int | None, ...], ...]
    signs: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class _Event:
    """A statement's access to a tensor, and its kind."""

    statement: Statement
    access: Access
    reads: bool
    writes: bool


def dependences(workload: Workload) -> tuple[Dependence, ...]:
    """Return the memory-based dependences, tensor by tensor in program order (BudgetError if isl gives up)."""
    return tuple(dependence for dependence, _ in dependence_relations(workload))


@lru_cache(maxsize=64)
def dependence_relations(workload: Workload) -> tuple[tuple[Dependence, Map], ...]:
    """Return each memory-based dependence with its relation (use that only inside `with budget():`)."""
    pieces: dict[tuple[str, str, Kind, str], list[Map]] = {}
    with budget(TUNING.step_operations, seconds=TUNING.seconds, what="dependence analysis", renewed=True):
        for tensor in workload.tensors:
            events = _events(workload, tensor.name)
            maps = [_access_map(workload, event) for event in events]
            for first, first_map in zip(events, maps, strict=True):
                for second, second_map in zip(events, maps, strict=True):
                    kinds = _kinds(first, second)
                    if not kinds:
                        continue
                    check_clock()
                    ordered = _in_program_order(same_value(first_map, second_map), first.statement, second.statement)
                    for kind in kinds:
                        key = (first.statement.name, second.statement.name, kind, tensor.name)
                        pieces.setdefault(key, []).extend(ordered)
        return tuple(_described(workload, key, parts) for key, parts in pieces.items() if parts)


def unset_read(workload: Workload, tensor: str) -> tuple[Statement, tuple[int, ...]] | None:
    """Return an instance that reads an element which no earlier instance wrote, or None.

    Accumulations read their target. Always None for tensors that are never written. If isl exceeds its budget, the
    program is run instead if it is small enough (else BudgetError).
    """
    events = _events(workload, tensor)
    try:
        with budget(TUNING.run_operations, what="which values are set before they are read"):
            return _unset_by_sets(workload, events)
    except BudgetError:
        if sum(_box_size(workload, statement) for statement in workload.statements) <= TUNING.most_run_instances:
            return _unset_by_running(workload, tensor)
    with budget(
        TUNING.step_operations, seconds=TUNING.seconds, what="which values are set before they are read", renewed=True
    ):
        return _unset_by_sets(workload, events)


def _unset_by_sets(workload: Workload, events: list[_Event]) -> tuple[Statement, tuple[int, ...]] | None:
    maps = [_access_map(workload, event) for event in events]
    for event, event_map in zip(events, maps, strict=True):
        if not event.reads:
            continue
        unset = event_map.domain()
        for writer, writer_map in zip(events, maps, strict=True):
            if writer.writes and not unset.is_empty():
                pairs = same_value(writer_map, event_map)
                for part in _in_program_order(pairs, writer.statement, event.statement):
                    unset = unset.subtract(part.range())
        found = first_point(unset)
        if found is not None:
            return event.statement, found
    return None


def leaves_unwritten(workload: Workload, tensor: Tensor) -> bool:
    """Return whether the program leaves some element of a tensor unwritten (True if isl cannot decide)."""
    try:
        with budget(TUNING.run_operations, what="which elements are written"):
            axes = [(f"a{place}", size) for place, size in enumerate(tensor.shape)]
            rest = integer_set(tensor.name, axes)
            for event in _events(workload, tensor.name):
                if event.writes:
                    pairs = zip(event.access.index, tensor.origin, strict=True)
                    moved = replace(event.access, index=tuple(index - low for index, low in pairs))
                    rest = rest.subtract(_access_map(workload, replace(event, access=moved)).range())
            return not rest.is_empty()
    except BudgetError:
        return True


def _unset_by_running(workload: Workload, tensor: str) -> tuple[Statement, tuple[int, ...]] | None:
    touching = [each for each in workload.statements if _touches(each, tensor)]
    order = sorted(
        (clock, number, point) for number, each in enumerate(touching) for clock, point in _runs(workload, each)
    )
    written: set[tuple[int, ...]] = set()
    for _, number, point in order:
        statement = touching[number]
        at = dict(zip(statement.dims, point, strict=True))
        reads = [*statement.reads, *([statement.target] if statement.operator is not Operator.ASSIGN else [])]
        for access in reads:
            if access.tensor == tensor and tuple(index.evaluate(at) for index in access.index) not in written:
                return statement, point
        if statement.target.tensor == tensor:
            written.add(tuple(index.evaluate(at) for index in statement.target.index))
    return None


def _touches(statement: Statement, tensor: str) -> bool:
    return any(access.tensor == tensor for access in (statement.target, *statement.reads))


def _box_size(workload: Workload, statement: Statement) -> int:
    extents = workload.extents()
    return prod(extents[dim] for dim in statement.dims)


def _runs(workload: Workload, statement: Statement) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield (place in time, counters) of the statement's instances."""
    extents = workload.extents()
    for point in product(*(range(extents[dim]) for dim in statement.dims)):
        at = dict(zip(statement.dims, point, strict=True))
        if all(constraint.evaluate(at) >= 0 for constraint in statement.constraints):
            yield tuple(place.evaluate(at) for place in interleaved(statement)), point


def domain_of(workload: Workload, statement: Statement) -> Set:
    """Return the statement's instances as a set of tuples named after it (inside `with budget():`)."""
    extents = workload.extents()
    return integer_set(statement.name, [(dim, extents[dim]) for dim in statement.dims], statement.constraints)


class Nested(Protocol):
    """A statement in its loops, as `Statement`."""

    @property
    def name(self) -> str: ...

    @property
    def dims(self) -> tuple[str, ...]: ...

    @property
    def position(self) -> tuple[int, ...]: ...


def shared_dims(first: Nested, second: Nested) -> tuple[str, ...]:
    """Return the loops around both statements, outermost first."""
    shared: list[str] = []
    for place, (one, other) in enumerate(zip(first.dims, second.dims, strict=False)):
        if first.position[place] != second.position[place] or one != other:
            break
        shared.append(one)
    return tuple(shared)


def runs_first(first: Statement, second: Statement) -> bool:
    """Return whether `first` comes before `second` inside the loops that they share."""
    place = len(shared_dims(first, second))
    return first.position[place] < second.position[place]


def _events(workload: Workload, tensor: str) -> list[_Event]:
    """Return the accesses to a tensor that some statement writes, in program order (none if nothing writes it)."""
    if all(statement.target.tensor != tensor for statement in workload.statements):
        return []
    events: list[_Event] = []
    for statement in workload.statements:
        distinct = dict.fromkeys(read for read in statement.reads if read.tensor == tensor)
        events.extend(_Event(statement, read, reads=True, writes=False) for read in distinct)
        if statement.target.tensor == tensor:
            accumulates = statement.operator is not Operator.ASSIGN
            events.append(_Event(statement, statement.target, reads=accumulates, writes=True))
    return events


def _kinds(first: _Event, second: _Event) -> tuple[Kind, ...]:
    """Return the kinds of dependence from an access to a later one."""
    operators = (first.statement.operator, second.statement.operator)
    if first.writes and second.writes and operators[0] is operators[1] and operators[0] is not Operator.ASSIGN:
        return (Kind.REDUCTION,)
    kinds = (
        (Kind.FLOW, first.writes and second.reads),
        (Kind.ANTI, first.reads and second.writes),
        (Kind.OUTPUT, first.writes and second.writes),
    )
    return tuple(kind for kind, holds in kinds if holds)


def _in_program_order(relation: Map, first: Statement, second: Statement) -> list[Map]:
    """Return the parts { x -> y } in which x runs before y, one per loop that carries it and one for equal loops."""
    parts: list[Map] = []
    for dim in shared_dims(first, second):
        if relation.is_empty():
            return parts
        counters = [function(each.name, each.dims, [variable(dim)]) for each in (first, second)]
        carried = relation.intersect(sooner(*counters))
        if not carried.is_empty():
            parts.append(carried)
        relation = relation.intersect(same_value(*counters))
    if first.name != second.name and runs_first(first, second) and not relation.is_empty():
        parts.append(relation)
    return parts


def _described(workload: Workload, key: tuple[str, str, Kind, str], parts: list[Map]) -> tuple[Dependence, Map]:
    source, sink = workload.statement(key[0]), workload.statement(key[1])
    shared = shared_dims(source, sink)
    outputs = [variable(dim) for dim in shared]
    start, end = (function(each.name, each.dims, outputs) for each in (source, sink))
    deltas = [differences(part, start, end, shared) for part in parts]
    relation = parts[0]
    for part in parts[1:]:
        relation = relation.union(part)
    relation = coalesced(relation)
    distances = tuple(dict.fromkeys(constants_of(delta) for delta in deltas))
    signs = tuple(sorted({sign for delta in deltas for sign in signs_of(delta)}))
    return Dependence(*key, relation.to_str(), shared, distances, signs), relation


def _access_map(workload: Workload, event: _Event) -> Map:
    """Return { instance -> element } of the access."""
    statement, access = event.statement, event.access
    elements = function(statement.name, statement.dims, access.index, access.tensor)
    return elements.intersect_domain(domain_of(workload, statement))


def interleaved(statement: Nested) -> Iterator[Affine]:
    """Yield a statement's place in time: its textual place before each loop, the loop, and its place inside all."""
    for place, dim in zip(statement.position[:-1], statement.dims, strict=True):
        yield Affine((), place)
        yield variable(dim)
    yield Affine((), statement.position[-1])
