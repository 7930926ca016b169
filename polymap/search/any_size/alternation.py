"""Alternates steps of the bound with local search around the least bound, until both meet."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from polymap.ir import Mapping
from polymap.resources import Stop, Work
from polymap.search.any_size.sibling_search import SiblingSearch
from polymap.search.any_size.tuning import TUNING
from polymap.search.local import TreeClimber

Known = tuple[Mapping, Fraction]
Report = Callable[[Mapping, Fraction, Fraction], None]


def climb_structures(
    structures: SiblingSearch, climber: TreeClimber | None, best: Known | None, stop: Stop, work: Work, report: Report
) -> Known | None:
    """Return the best mapping after alternating steps of the structures' queue and rounds of local search.

    It ends when the mapping is proven optimal, neither side makes progress, or `stop` returns True. climber: the local
    search (None: none). report: called with the incumbent, its value and the bound. Raises AssertionError where a
    mapping is below the bound.
    """
    if climber is not None and best is not None:
        climber.know(*best)
    while True:
        before = structures.steps
        bound = structures.go_on(None if best is None else best[1], stop, work, steps=TUNING.steps_at_once)
        if best is not None:
            if bound is None or bound > best[1]:
                raise AssertionError("a mapping is better than what siblings say that no mapping can beat")
            report(*best, bound)
            if bound == best[1]:
                return best
        if stop() or (structures.steps == before and (climber is None or best is None)):
            return best
        if climber is not None and best is not None:
            climber.hints = structures.leading(TUNING.structures_climbed)
            climber.walk_rounds(TUNING.rounds_at_once, stop)
            work.add(TUNING.rounds_at_once)
            best = climber.best
