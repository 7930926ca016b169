"""Orders and fronts, part by part: each part under limits of the others is another question to the driver."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from polymap.resources import Stop
from polymap.search.dividing import Count
from polymap.search.driver import Engines, Kind, Search, counted_space
from polymap.search.evidence import Evidence, Incumbent
from polymap.search.front_bounds import FrontBounds, FrontLimits, Values
from polymap.search.problem import AtMost, Goal, Rules, beyond_sums, measure_of
from polymap.search.timed_nests import size_of_few_trees

_SHARE_OF_EARLIER = 0.8  # of what is left of the limit, for each part of an order but the last
_SHARES_OF_EXTREMES = (1 / 2, 1 / 2)  # of what is left of the limit, for the least value of one part of a front
_SHARE_OF_LIMIT = 1 / 6  # and for one limit of the second part


def search_order(search: Search, evidence: Evidence, _stop: Stop) -> Evidence:
    """Find the mapping that is best by the first part, by the next one among those that are as good, ..."""
    known = KnownMappings(search, evidence)
    singles = search.objective.singles
    limits: Rules = ()
    least: list[Fraction] = []  # of the parts up to the first that is not proven
    proven = 0
    for place, single in enumerate(singles):
        value, bound = known.ask(place, limits, 1 if place == len(singles) - 1 else _SHARE_OF_EARLIER)
        if bound is None and not known.incumbents:
            return known.refuted()
        if place == proven and bound is not None:
            least.append(bound)
            proven += value == bound
        if value is None:
            break
        limits = (*limits, AtMost(single, value))
    return known.closed(() if proven == len(singles) else ((*least, *evidence.floors[len(least) :]),))


def search_front(search: Search, evidence: Evidence, _stop: Stop) -> Evidence:
    """Find the least value of every part, then what is between the points of the front, and what bounds between its
    points prove of it."""
    known = KnownMappings(search, evidence)
    extremes, left = set(range(len(search.objective.singles))), (evidence.floors,)
    for share in _SHARES_OF_EXTREMES:
        for place in sorted(extremes):
            value, bound = known.ask(place, (), share)
            if bound is None and not known.incumbents:
                return known.refuted()
            known.evidence = known.evidence.with_floor(place, bound)
            extremes -= {place} if value == bound else set()
        left = _stretches(search, known)
        if not extremes or search.limits():
            break
    return known.closed(left)


def _stretches(search: Search, known: KnownMappings) -> tuple[Values, ...]:
    """Search the stretches between the points of a front of two parts; return bounds of all that is left."""
    floors = known.evidence.floors
    _, second, *others = search.objective.singles
    if others:
        return (floors,)
    bounds = FrontBounds(measure_of(second, search.workload, search.arch).unscaled(1), floors)
    limits = search.engines.made(FrontLimits, FrontLimits)
    for limit, bound in limits.items():
        bounds.note(limit, bound)
    while not search.limits() and (limit := bounds.next_limit([one.values for one in known.incumbents])) is not None:
        _, limits[limit] = known.ask(0, (AtMost(second, limit),), _SHARE_OF_LIMIT)
        bounds.note(limit, limits[limit])
    return bounds.left()


def search_parts_by_tree(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Find an order or a front of which each part's trees are counted by themselves (timed_nests.py)."""
    is_nest = beyond_sums(search.arch, search.rules, search.objective) and len(search.workload.statements) == 1
    if not is_nest or len(search.objective.singles) == 1:
        return evidence
    of_parts = search_front if search.objective.goal is Goal.PARETO else search_order
    return of_parts(search, evidence, stop)


class KnownMappings:
    """What is known of an order or a front while its parts are asked for: at first the mappings with dividing tiles."""

    def __init__(self, search: Search, evidence: Evidence) -> None:
        self.search, self.evidence = search, evidence
        self._evaluated = evidence.nodes
        is_beyond = beyond_sums(search.arch, search.rules, search.objective)
        self._by_tree = bool(is_beyond) and size_of_few_trees(search) is not None

    @property
    def incumbents(self) -> tuple[Incumbent, ...]:
        return self.evidence.incumbents

    def ask(self, place: int, limits: Rules, share: float) -> tuple[Fraction | None, Fraction | None]:
        """Return the least value of a part under limits of the others (None: no mapping is known that keeps them), and
        what no mapping beats (None: there is none), after so much of what is left of the search."""
        search = self.search
        single = search.objective.singles[place]
        asked = replace(search.asked, objective=single, rules=(*search.rules, *limits))
        from polymap.search.any_size import SiblingSearch  # questions of one part do without

        engines = Engines() if limits else search.engines.only(SiblingSearch)
        begin = self._least(place, limits)
        start = () if begin is None else (replace(begin, values=(begin.values[place],)),)
        kind = Kind.DIVIDING if search.divides else Kind.PART
        kind = Kind.PROGRAM if self._by_tree or beyond_sums(search.arch, asked.rules, single) else kind
        found, part = search.ask(asked, kind, share, () if kind is Kind.DIVIDING else start, engines)
        self._evaluated += found.space.evaluated
        own = None
        if found.best is not None:
            mapping = search.incumbent(found.best, found.cost)
            own, self.evidence = mapping.values[place], self.evidence.with_incumbents((mapping,))
        least = self._least(place, limits)
        if found.status == "INFEASIBLE" and least is None:
            return None, None
        self._report()
        value = None if least is None else least.values[place]
        is_proven = found.status == "OPTIMAL" and own == value  # what is known of other parts may refute it
        return value, value if is_proven else min(part.floors[0], value or part.floors[0])

    def refuted(self) -> Evidence:
        """Return the evidence that there is no mapping."""
        return replace(self.evidence, clash=self.evidence.dividing_clash)

    def closed(self, left: tuple[Values, ...]) -> Evidence:
        """Return the evidence at the end. left: lower bounds of all that was not searched."""
        space = counted_space(self.evidence.size, Count(evaluated=self._evaluated))
        return replace(self.evidence, left=left, space=space)

    def _least(self, place: int, limits: Rules) -> Incumbent | None:
        """Return the mapping with the least value of a part that keeps the limits."""
        most = {limit.objective: limit.most for limit in limits if isinstance(limit, AtMost)}
        singles = self.search.objective.singles
        kept = [
            one
            for one in self.incumbents
            if all(value <= most.get(single, value) for single, value in zip(singles, one.values, strict=True))
        ]
        return min(kept, key=lambda one: one.values[place]) if kept else None

    def _report(self) -> None:
        best = self.evidence.best
        several = self.incumbents if self.search.objective.goal is Goal.PARETO else ()
        front = tuple(one.mapping for one in several)
        mapping, value = best or (None, None)
        self.search.report(mapping, value, self.evidence.floors[0], front)
