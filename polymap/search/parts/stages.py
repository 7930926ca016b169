"""The stages that answer orders and fronts part by part. Each returns None for other objectives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from polymap.costmodel import evaluate
from polymap.ir import Mapping
from polymap.search.dividing import Count
from polymap.search.objective import measure_of, objective_values
from polymap.search.parts.front_bounds import FrontBounds, Values
from polymap.search.problem import AtMost, Goal, Rules
from polymap.search.result import SearchResult
from polymap.search.run import (
    Search,
    Stages,
    anneal_near_mappings,
    begin_at,
    bound_products,
    bound_structures,
    climb_to_the_end,
    counted_space,
    covers,
    meet_rules,
    refine_structures,
    search_dividing_tiles,
)

_SHARE_OF_EARLIER = 0.8  # of what is left of the limit, for each part of an order but the last
_SHARES_OF_EXTREMES = (1 / 2, 1 / 2)  # of what is left of the limit, for the least value of one part of a front
_SHARE_OF_LIMIT = 1 / 6  # and for one limit of the second part


@dataclass(frozen=True, slots=True)
class PartAnswer:
    """The least value of one part under limits of others (None: no mapping is known that keeps them), what no mapping
    beats (None: there is no such mapping), and the mapping."""

    value: Fraction | None
    bound: Fraction | None

    @property
    def is_proven(self) -> bool:
        return self.value == self.bound


def search_order(search: Search) -> SearchResult | None:
    """Answer with the mapping that is best by the first part, by the next one among those that are as good, ..."""
    if search.objective.goal is not Goal.LEXICOGRAPHIC:
        return None
    known = KnownMappings(search)
    singles = search.objective.singles
    limits: Rules = ()
    least: list[Fraction] = []  # of the parts up to the first that is not proven
    proven = 0
    for place, single in enumerate(singles):
        found = known.ask(place, limits, 1 if place == len(singles) - 1 else _SHARE_OF_EARLIER)
        if found.bound is None and not known.mappings:
            return search.infeasible(known.clash)
        if place == proven and found.bound is not None:
            least.append(found.bound)
            proven += found.is_proven
        if found.value is None:
            break
        limits = (*limits, AtMost(single, found.value))
    left = () if proven == len(singles) else ((*least, *search.floors[len(least) :]),)
    return known.closed(known.order()[:1], left)


def search_front(search: Search) -> SearchResult | None:
    """Answer with the front of all mappings that are known, from the least value of every part on, and what bounds
    between its points prove of it."""
    if search.objective.goal is not Goal.PARETO:
        return None
    known = KnownMappings(search)
    extremes, left = set(range(len(search.objective.singles))), (search.floors,)
    for share in _SHARES_OF_EXTREMES:
        for place in sorted(extremes):
            found = known.ask(place, (), share)
            if found.bound is None and not known.mappings:
                return search.infeasible(known.clash)
            search.raise_floor(place, found.bound)
            extremes -= {place} if found.is_proven else set()
        left = _stretches(search, known)
        if not extremes or search.limits():
            break
    return known.closed(known.front(), left)


def _stretches(search: Search, known: KnownMappings) -> tuple[Values, ...]:
    """Search the stretches between the points of a front of two parts; return bounds of all that is left."""
    _, second, *others = search.objective.singles
    if others:
        return (search.floors,)
    bounds = FrontBounds(measure_of(second, search.workload, search.arch).unscaled(1), search.floors)
    for limit, bound in search.front_limits.items():
        bounds.note(limit, bound)
    while not search.limits() and (limit := bounds.next_limit(known.front())) is not None:
        found = known.ask(0, (AtMost(second, limit),), _SHARE_OF_LIMIT)
        search.front_limits[limit] = found.bound
        bounds.note(limit, found.bound)
    return bounds.left()


class KnownMappings:
    """The mappings that a search knows, by their exact values per part: at first those with dividing tiles."""

    def __init__(self, search: Search) -> None:
        assert search.divided is not None
        self.search, self.mappings = search, search.known
        self.clash = search.divided.result.clash
        self._evaluated = search.divided.outcome.nodes
        for mapping in search.divided.mappings:
            self._add(mapping)

    def ask(self, place: int, limits: Rules, share: float) -> PartAnswer:
        """Return the least value of a part under limits of the others, after so much of what is left of the search."""
        search = self.search
        asked = replace(search.asked, objective=search.objective.singles[place], rules=(*search.rules, *limits))
        part = Search(asked, search.limits.part(share), search.processes, search.settings)
        if not limits:
            part.siblings = search.siblings[place : place + 1]
        start = self._least(place, limits)
        near = self._stages(None if start is None else self.mappings[start])
        found = part.answer((search_dividing_tiles,) if search.divides else near)
        search.limits.work.add(part.limits.work.done)
        self._evaluated += found.space.evaluated
        own = None if found.best is None else self._add(found.best)[place]
        least = self._least(place, limits)
        if found.status == "INFEASIBLE" and least is None:
            return PartAnswer(None, None)
        value = None if least is None else least[place]
        self._report()
        is_proven = found.status == "OPTIMAL" and own == value  # what is known of other parts may refute it
        return PartAnswer(value, value if is_proven else min(part.floors[0], value or part.floors[0]))

    def _stages(self, start: Mapping | None) -> Stages:
        """Return the stages of a part over tiles of any size, which begin at a mapping."""
        return (
            partial(begin_at, start),
            bound_structures,
            meet_rules,
            refine_structures,
            anneal_near_mappings,
            bound_products,
            climb_to_the_end,
        )

    def order(self) -> list[Values]:
        """Return the values of all mappings, best first."""
        return sorted(self.mappings)

    def front(self) -> list[Values]:
        """Return the values that no other ones are as good as in every part, by rising first part."""
        kept: list[Values] = []
        for values in self.order():  # what covers values comes before them
            if not any(covers(other, values) for other in kept):
                kept.append(values)
        return kept

    def closed(self, points: list[Values], left: tuple[Values, ...]) -> SearchResult:
        """Return the answer with the mappings of these values. left: lower bounds of all that was not searched."""
        space = counted_space(self.search.size, Count(evaluated=self._evaluated))
        return self.search.closed(tuple(self.mappings[values] for values in points), left, space, tuple(points))

    def _least(self, place: int, limits: Rules) -> Values | None:
        """Return the values of the mapping with the least value of a part that keeps the limits."""
        most = {limit.objective: limit.most for limit in limits if isinstance(limit, AtMost)}
        singles = self.search.objective.singles
        kept = [
            values
            for values in self.order()
            if all(value <= most.get(single, value) for single, value in zip(singles, values, strict=True))
        ]
        return min(kept, key=lambda values: values[place]) if kept else None

    def _add(self, mapping: Mapping) -> Values:
        """Keep a mapping; return its values."""
        search = self.search
        cost = evaluate(search.workload, search.arch, mapping)
        values = objective_values(search.workload, search.arch, search.objective, cost)
        self.mappings.setdefault(values, mapping)
        return values

    def _report(self) -> None:
        points = self.front() if self.search.objective.goal is Goal.PARETO else self.order()[:1]
        front = tuple(self.mappings[values] for values in points)
        best = front[0] if front else None
        value = points[0][0] if points else None
        several = front if self.search.objective.goal is Goal.PARETO else ()
        self.search.report(best, value, self.search.floors[0], several)
