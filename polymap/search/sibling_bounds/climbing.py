"""Bounds of structures and mappings looked for where they are least, in turn, until they meet."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from polymap.ir import Mapping
from polymap.search.heuristics import TreeClimber
from polymap.search.resources import Stop, Work
from polymap.search.sibling_bounds.engine import SiblingSearch
from polymap.search.sibling_bounds.tuning import TUNING

Known = tuple[Mapping, Fraction]
Report = Callable[[Mapping, Fraction, Fraction], None]


def climb_structures(
    structures: SiblingSearch, climber: TreeClimber | None, best: Known | None, stop: Stop, work: Work, report: Report
) -> Known | None:
    """Return the best mapping after steps of the queue of structures and rounds of climbing in turn, until it is
    proven to be the best, neither goes on, or `stop` says so.

    climber: looks for better mappings (None: nobody does). report: is told the best mapping, its value and the bound.
    Raises AssertionError where a mapping is better than the bound.
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
            climber.walk(TUNING.rounds_at_once, stop)
            work.add(TUNING.rounds_at_once)
            best = climber.best
