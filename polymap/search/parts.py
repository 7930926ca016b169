"""Lexicographic orders and Pareto fronts, part by part. Each part, under limits on the others, is a question of its own
to the driver. Bounds of the first of two parts below limits of the second one prove a front."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import isqrt

from polymap.resources import Stop
from polymap.search.dividing import Count
from polymap.search.driver import Engines, Kind, Search, counted_space
from polymap.search.evidence import Evidence, Incumbent
from polymap.search.in_order import is_covered
from polymap.search.options import TUNING
from polymap.search.problem import AtMost, Goal, Rules, beyond_sums, measure_of
from polymap.search.provers import few_timed_trees


def search_order(search: Search, evidence: Evidence, _stop: Stop) -> Evidence:
    """Find the lexicographic optimum: the least value of the first part, then of the next one among the mappings that
    attain it, and so on."""
    known = KnownMappings(search, evidence)
    singles = search.objective.singles
    limits: Rules = ()
    least: list[Fraction] = []  # of the parts up to the first that is not proven
    proven = 0
    for place, single in enumerate(singles):
        value, bound = known.ask(place, limits, 1 if place == len(singles) - 1 else TUNING.earlier_share)
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
    for share in TUNING.extreme_shares:
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
        _, limits[limit] = known.ask(0, (AtMost(second, limit),), TUNING.front_share)
        bounds.note(limit, limits[limit])
    return bounds.left()


def search_parts_by_tree(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Find an order or a front of which each part's trees are counted by themselves (provers.py)."""
    is_nest = beyond_sums(search.arch, search.rules, search.objective) and len(search.workload.statements) == 1
    if not is_nest or len(search.objective.singles) == 1:
        return evidence
    of_parts = search_front if search.objective.goal is Goal.PARETO else search_order
    return of_parts(search, evidence, stop)


@dataclass(frozen=True, slots=True)
class Stage:
    """The question of one part under limits of others, the last one asked, so that a search that goes on begins where
    it ended."""

    limits: Rules
    evidence: Evidence
    engines: Engines


class KnownMappings:
    """What is known of an order or a front while its parts are asked for: at first the mappings with dividing tiles."""

    def __init__(self, search: Search, evidence: Evidence) -> None:
        self.search, self.evidence = search, evidence
        self._evaluated = evidence.nodes
        is_beyond = beyond_sums(search.arch, search.rules, search.objective)
        self._by_tree = bool(is_beyond) and few_timed_trees(search) is not None

    @property
    def incumbents(self) -> tuple[Incumbent, ...]:
        return self.evidence.incumbents

    def ask(self, place: int, limits: Rules, share: float) -> tuple[Fraction | None, Fraction | None]:
        """Return the least value of a part under limits of the others (None: no mapping is known that keeps them), and
        what no mapping beats (None: there is none), after so much of what is left of the search."""
        search = self.search
        single = search.objective.singles[place]
        asked = replace(search.asked, objective=single, rules=(*search.rules, *limits))
        begin = self._least(place, limits)
        kind = Kind.DIVIDING if search.divides else Kind.PART
        kind = Kind.PROGRAM if self._by_tree or not is_covered(asked, search.problem) else kind
        stage = self._stage(place, limits) or Stage(limits, Evidence(asked.floors()), self._engines(limits))
        begun = stage.evidence.renewed()
        if begin is not None and kind is not Kind.DIVIDING:
            begun = begun.with_incumbents((replace(begin, values=(begin.values[place],)),))
        found, part = search.ask(asked, kind, share, begun, stage.engines)
        search.engines.keep(replace(stage, evidence=part), (place, bool(limits)))
        self._evaluated += found.space.evaluated
        own = None
        if found.best is not None:
            mapping = search.incumbent(found.best, found.cost)
            own, self.evidence = mapping.values[place], self.evidence.with_incumbents((mapping,))
        least = self._least(place, limits)
        if found.status == "INFEASIBLE" and least is None:
            return None, None
        self.search.tell(self.evidence)
        value = None if least is None else least.values[place]
        is_proven = found.status == "OPTIMAL" and own == value  # what is known of other parts may refute it
        return value, value if is_proven else min(part.floors[0], value or part.floors[0])

    def _stage(self, place: int, limits: Rules) -> Stage | None:
        """Return what was left when the same was asked before."""
        stage = self.search.engines.get(Stage, (place, bool(limits)))
        return stage if stage is not None and stage.limits == limits else None

    def _engines(self, limits: Rules) -> Engines:
        """Return what a question that was not asked before goes on from."""
        from polymap.search.any_size import SiblingSearch  # questions of one part do without

        return Engines() if limits else self.search.engines.only(SiblingSearch)

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


Values = tuple[Fraction, ...]


class FrontLimits(dict[Fraction, Fraction | None]):
    """What the first part of a front is at least below limits of the second one (None: nothing is)."""


class FrontBounds:
    """Lower bounds of the first part of a front of two, by limits of the second one.

    unit: of the second part, whose values are its multiples. floors: what no mapping beats, part by part.
    """

    def __init__(self, unit: Fraction, floors: Values) -> None:
        self.unit, self.floors = unit, floors
        self._known: dict[Fraction, Fraction | None] = {}
        self._asked: Counter[Fraction] = Counter()

    def note(self, limit: Fraction, bound: Fraction | None) -> None:
        """Record that the first part is at least `bound` where the second is at most `limit` (None: no mapping keeps
        the limit)."""
        if limit in self._known:
            old = self._known[limit]
            bound = None if old is None or bound is None else max(old, bound)
        self._known[limit] = bound
        self._asked[limit] += 1

    def below(self, limit: Fraction) -> Fraction | None:
        """Return the best lower bound of the first part where the second is at most `limit` (None: no mapping keeps
        it)."""
        found = self.floors[0]
        for most, bound in self._known.items():
            if most >= limit:
                if bound is None:
                    return None
                found = max(found, bound)
        return found if limit >= self.floors[1] else None

    def left(self) -> tuple[Values, ...]:
        """Return lower bounds of both parts, a pair for each stretch between two limits: every mapping has values that
        one of the pairs covers."""
        found: list[Values] = []
        bound = self.floors[0]
        for limit in sorted(self._known, reverse=True):
            if limit < self.floors[1]:
                break
            found.append((bound, limit + self.unit))
            own = self._known[limit]
            if own is None:
                return tuple(found)
            bound = max(bound, own)
        return (*found, (bound, self.floors[1]))

    def next_limit(self, points: Sequence[Values]) -> Fraction | None:
        """Return the limit to ask about next: where the first part's bound is farthest below that of the next point of
        the front, and the stretch between two points is widest. None: there is nothing to be asked."""
        asks = [ask for pair in pairwise(points) if (ask := self._ask(*pair)) is not None]
        return max(asks)[1] if asks else None

    def _ask(self, point: Values, following: Values) -> tuple[float, Fraction] | None:
        """Return how much there is to be known between two points, and the limit that tells."""
        last = point[1] - self.unit
        bound = self.below(last)
        if bound is None or bound >= following[0]:
            return None
        first = max([following[1], *(most for most in self._known if most < last and self._is_closed(most, following))])
        limit = last
        if self._is_near_a_limit(point) and last > first * TUNING.neighbours_apart:
            middle = isqrt(int(first / self.unit) * int(last / self.unit)) * self.unit
            limit = middle if first < middle < last else last
        if self._asked[limit] >= TUNING.most_asked_limits:
            return None
        return float(1 - bound / following[0]) * float(1 - first / point[1]), limit

    def _is_closed(self, limit: Fraction, point: Values) -> bool:
        """Return whether nothing below a limit has a better first part than a point."""
        bound = self.below(limit)
        return bound is None or bound >= point[0]

    def _is_near_a_limit(self, point: Values) -> bool:
        """Return whether a point was found, or may have been, just below a limit: then its neighbours are many."""
        return any(point[1] <= limit <= point[1] * TUNING.neighbours_apart for limit in self._known)
