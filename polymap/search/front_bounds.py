"""What bounds of the first of two parts, below limits of the second one, prove of a front."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import isqrt

Values = tuple[Fraction, ...]
_NEAR = Fraction(5, 4)  # values that are no farther apart are neighbours
_MOST_ASKED = 2  # times that one limit is asked about: first with little effort, then with more


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
        """Take that the first part is at least `bound` where the second is at most `limit`; None: it never is."""
        if limit in self._known:
            old = self._known[limit]
            bound = None if old is None or bound is None else max(old, bound)
        self._known[limit] = bound
        self._asked[limit] += 1

    def below(self, limit: Fraction) -> Fraction | None:
        """Return the best bound of the first part where the second is at most `limit` (None: it never is)."""
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
        if self._is_near_a_limit(point) and last > first * _NEAR:
            middle = isqrt(int(first / self.unit) * int(last / self.unit)) * self.unit
            limit = middle if first < middle < last else last
        if self._asked[limit] >= _MOST_ASKED:
            return None
        return float(1 - bound / following[0]) * float(1 - first / point[1]), limit

    def _is_closed(self, limit: Fraction, point: Values) -> bool:
        """Return whether nothing below a limit has a better first part than a point."""
        bound = self.below(limit)
        return bound is None or bound >= point[0]

    def _is_near_a_limit(self, point: Values) -> bool:
        """Return whether a point was found, or may have been, just below a limit: then its neighbours are many."""
        return any(point[1] <= limit <= point[1] * _NEAR for limit in self._known)
