"""Dependences of a region with symbolic parameters, and the schedules and parallel loops that they allow.

Dependences are memory-based: two instances depend on each other if both touch one element and one of them writes it. A
time is a map { S[i, ...] -> [t0, t1, ...] }, all of one length, compared lexicographically.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from polymap.codegen.source.region import Reference, Region, SourceStatement
from polymap.ir import Affine
from polymap.poly import Counter, Frame, Map, at_equal_dims, example_of, same_prefix
from polymap.workload import interleaved

Times = Mapping[str, Map]


@dataclass(frozen=True, slots=True, eq=False)
class Conflict:
    """Pairs { source -> sink } of instances that touch one element of an array, the source first in program order.

    accumulates: both only add to the element (or multiply it), so that their order only affects rounding. living: the
    pairs of `relation` in which both access the same variable; None for arrays that no loop declares. exact: the
    accumulations give the same result in every order (maxima and minima of integers). kinds: "flow", "anti", "output",
    as many as apply, or "reduction" alone; none where other pairs of the same accumulations contain these.
    """

    source: str
    sink: str
    array: str
    relation: Map
    accumulates: bool
    living: Map | None
    kinds: tuple[str, ...]
    exact: bool = False

    def is_free(self, *, reorder_sums: bool) -> bool:
        """Return whether the instances may run in either order."""
        return self.exact or (reorder_sums and self.accumulates)


def original_times(region: Region) -> dict[str, Map]:
    """Return the program's own times, in which textual positions and loop variables alternate."""
    length = 2 * max(len(each.dims) for each in region.statements) + 1
    return {each.name: time_map(each, _pad_times([*interleaved(each)], length)) for each in region.statements}


def _pad_times(times: Sequence[Affine], length: int) -> tuple[Affine, ...]:
    return (*times, *(Affine(),) * (length - len(times)))


def time_map(statement: SourceStatement, times: Sequence[Affine]) -> Map:
    """Return { S[...] -> [times] } over a statement's instances. times: of its loops, which count up as they run."""
    counters = tuple(Counter(name, name, 0, sign) for name, sign in zip(statement.dims, statement.signs, strict=True))
    return Frame(statement.name, counters, (), {}).function(times).intersect_domain(statement.domain)


def conflicts_of(region: Region) -> tuple[Conflict, ...]:
    """Return all pairs of instances whose order matters."""
    times = original_times(region)
    found: list[Conflict] = []
    for first in region.statements:
        for second in region.statements:
            order = times[first.name].lex_lt_map(times[second.name])
            for one, other in _pairs(first.references, second.references):
                relation = one.elements.apply_range(other.elements.reverse()).intersect(order).coalesce()
                if relation.is_empty():
                    continue
                living = None
                if one.declared is not None or other.declared is not None:
                    living = _same_variable(relation, one, other)
                sums = accumulate(first, one, second, other)
                exact = sums and first.accumulates in ("max", "min")
                kinds = _kinds(one, other, sums=sums)
                found.append(Conflict(first.name, second.name, one.array, relation, sums, living, kinds, exact))
    return tuple(found)


def _kinds(one: Reference, other: Reference, *, sums: bool) -> tuple[str, ...]:
    holds = {
        "flow": one.writes and other.reads,
        "anti": one.reads and other.writes,
        "output": one.writes and other.writes,
    }
    return ("reduction",) * holds["output"] if sums else tuple(kind for kind, each in holds.items() if each)


def accumulate(first: SourceStatement, one: Reference, second: SourceStatement, other: Reference) -> bool:
    """Return whether both references are updates of one kind, whose order only affects rounding."""
    both = one.reads and one.writes and other.reads and other.writes
    updates = bool(first.accumulates) and first.accumulates == second.accumulates
    return updates and (both or _is_accumulation(first, one, second, other))


def _is_accumulation(first: SourceStatement, one: Reference, second: SourceStatement, other: Reference) -> bool:
    """Return whether both references are to the elements that their statements accumulate onto."""
    targets = first.references[-1], second.references[-1]
    return all(
        each.array == target.array and each.elements.is_equal(target.elements)
        for each, target in zip((one, other), targets, strict=True)
    )


def _pairs(first: Iterable[Reference], second: Sequence[Reference]) -> Iterator[tuple[Reference, Reference]]:
    for one in first:
        for other in second:
            if one.array == other.array and (one.writes or other.writes):
                yield one, other


def _same_variable(relation: Map, one: Reference, other: Reference) -> Map:
    if one.declared != other.declared or one.declared is None:
        return relation.subtract(relation)
    return at_equal_dims(relation, one.declared.depth)


def violated_conflicts(
    conflicts: Iterable[Conflict], times: Times, *, reorder_sums: bool
) -> Iterator[tuple[Conflict, Map]]:
    """Yield the conflicts with a sink that does not run after its source, and these pairs; none for legal times."""
    for each in conflicts:
        if each.is_free(reorder_sums=reorder_sums):
            continue
        wrong = each.relation.intersect(times[each.source].lex_ge_map(times[each.sink]))
        if not wrong.is_empty():
            yield each, wrong


def carried_conflict(
    conflicts: Iterable[Conflict], times: Times, place: int, inside: Container[str], private: Container[str] = ()
) -> tuple[Conflict, Map] | None:
    """Return a conflict between statements `inside` that the loop at a position of the schedule carries.

    None: the iterations of that loop are independent. Variables in `private` have one copy per iteration.
    """
    for each in conflicts:
        if each.source in inside and each.sink in inside and each.array not in private:
            source, sink = times[each.source], times[each.sink]
            pairs = each.relation.intersect(same_prefix(source, sink, place))
            pairs = pairs.subtract(same_prefix(source, sink, place + 1))
            if not pairs.is_empty():
                return each, pairs
    return None


def by_level(conflicts: Iterable[Conflict], times: Times) -> Iterator[Map]:
    """Yield the pairs of conflicts, separated by the loop that carries them.

    isl's scheduler carries a relation as a whole or not at all. On relations that join two levels it was observed to
    fail with "unable to carry dependences".
    """
    for each in conflicts:
        source, sink, rest = times[each.source], times[each.sink], each.relation
        place = 0
        while not rest.is_empty():
            place += 1
            same = same_prefix(source, sink, place)
            carried_here = rest.subtract(same)
            if not carried_here.is_empty():
                yield carried_here
            rest = rest.intersect(same)


def stays_within(conflict: Conflict, times: Times, place: int) -> bool:
    """Return whether instances that access the same variable have equal times up to a position."""
    assert conflict.living is not None
    together = same_prefix(times[conflict.source], times[conflict.sink], place + 1)
    return conflict.living.is_subset(together)


def instances(pairs: Map, first: SourceStatement, second: SourceStatement) -> tuple[str, str, str]:
    """Return two instances of a relation as text, and values of the parameters for which they exist ("" for none)."""
    values, pair = example_of(pairs)
    texts = [
        f"{each.name}[{', '.join(f'{name}={number}' for name, number in zip(each.dims, at, strict=True))}]"
        for each, at in zip((first, second), pair, strict=True)
    ]
    return texts[0], texts[1], ", ".join(f"{name}={number}" for name, number in values.items())
