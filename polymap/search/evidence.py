"""The evidence of a search: bounds and mappings that its provers have found, as frozen data that can be joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

from polymap.costmodel import Cost
from polymap.ir import Mapping, Workload
from polymap.resources import OutOfTime
from polymap.schedules import SpaceSize
from polymap.search.answer import Values, covers
from polymap.search.result import SearchResult, SpaceCount

Known = tuple[Mapping, Fraction]  # a mapping with its exact value


@dataclass(frozen=True, slots=True)
class Incumbent:
    """A legal mapping with its exact values, one per part of the objective. workload: of which it is one; programs are
    searched with their loops renamed, shifted or skewed too."""

    values: Values
    mapping: Mapping
    cost: Cost
    workload: Workload


@dataclass(frozen=True, slots=True)
class Evidence:
    """What provers know of a question.

    floors: what no mapping beats, per part of the objective. incumbents: the mappings that no other known one is as
    good as in every part, by rising values. dividing: the answer over dividing tiles (None: not searched), and the
    nodes of that search. size: of the space (None: not counted).
    Of one call of the driver: left: lower bounds of all that was not searched (None: the floors; (): nothing beats the
    incumbents). clash: why there is no mapping (None: there may be one). space: where it was searched.
    """

    floors: Values
    incumbents: tuple[Incumbent, ...] = ()
    dividing: SearchResult | None = None
    nodes: int = 0
    size: SpaceSize | None = None
    left: tuple[Values, ...] | None = None
    clash: tuple[str, ...] | None = None
    space: SpaceCount | None = None

    def joined(self, other: Evidence) -> Evidence:
        """Return the union of two pieces of evidence: the largest bounds, the best mappings, and the other one's
        remaining fields."""
        return Evidence(
            tuple(max(pair) for pair in zip(self.floors, other.floors, strict=True)),
            other.with_incumbents(self.incumbents).incumbents,
            other.dividing or self.dividing,
            other.nodes if other.dividing else self.nodes,
            other.size or self.size,
            self.left if other.left is None else other.left,
            self.clash if other.clash is None else other.clash,
            other.space or self.space,
        )

    def with_floor(self, place: int, bound: Fraction | None) -> Evidence:
        """Return the evidence with a lower bound of one part over all mappings (None: none is known)."""
        if bound is None:
            return self
        floor = max(bound, self.floors[place])
        return replace(self, floors=(*self.floors[:place], floor, *self.floors[place + 1 :]))

    def with_incumbents(self, found: Iterable[Incumbent]) -> Evidence:
        """Return the evidence with more mappings. Of those with the same values the first is kept."""
        kept: list[Incumbent] = []
        for one in sorted((*self.incumbents, *found), key=lambda incumbent: incumbent.values):
            if not any(covers(other.values, one.values) for other in kept):  # what covers values comes before them
                kept.append(one)
        return replace(self, incumbents=tuple(kept))

    def nearer(self, before: Evidence) -> float:
        """Return by what part of what they were apart the best values and the floors came nearer to each other; 1 where
        no mapping was known."""
        if not before.incumbents:
            return float(bool(self.incumbents))
        scale = before._least()
        apart = before._apart(scale)
        return float(1 - self._apart(scale) / apart) if apart else 0.0

    def _least(self) -> list[Fraction]:
        return [min(one.values[place] for one in self.incumbents) for place in range(len(self.floors))]

    def _apart(self, scale: list[Fraction]) -> Fraction:
        """Return how far the best values and the floors are apart, as parts of these values."""
        pairs = zip(self._least(), self.floors, scale, strict=True)
        return sum(((best - floor) / by for best, floor, by in pairs if by), Fraction(0))

    def renewed(self) -> Evidence:
        """Return the evidence that a resumed search begins with: without how the last call ended, unless that was a
        proof."""
        return self if self.left == () else replace(self, left=None, clash=None, space=None)

    @property
    def is_closed(self) -> bool:
        """Return whether there is nothing left to search."""
        return self.clash is not None or self.left == ()

    @property
    def is_met(self) -> bool:
        """Return whether a mapping attains the floors, which makes it optimal."""
        return any(each.values == self.floors for each in self.incumbents)

    @property
    def best(self) -> Known | None:
        """Return the best mapping, with the value of its first part."""
        return (self.incumbents[0].mapping, self.incumbents[0].values[0]) if self.incumbents else None

    @property
    def dividing_clash(self) -> tuple[str, ...]:
        """Return why no mapping has dividing tiles."""
        return () if self.dividing is None else self.dividing.clash

    @property
    def dividing_is_final(self) -> bool:
        return self.dividing is not None and self.dividing.status in ("OPTIMAL", "INFEASIBLE")


def least_of_forms(forms: Sequence[Iterator[Fraction]]) -> Fraction | None:
    """Return what no tree of some forms of a program costs less than, None where that is not known. forms: what is
    known of each, more and more; the one with the least is asked for more."""
    found: list[Fraction] | None = None
    with suppress(OutOfTime):
        every = [next(each, None) for each in forms]
        while None not in every:
            found = [least for least in every if least is not None]
            at = found.index(min(found))
            every[at] = next(forms[at], None)  # each bounds all trees
    return None if found is None else min(found)
