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
    structures: SiblingSearch,
    climber: TreeClimber | None,
    best: Known | None,
    stop: Stop,
    work: Work,
    report: Report,
    *,
    until_stalled: bool = False,
) -> Known | None:
    """Return the best mapping after alternating steps of the structures' queue and rounds of local search.

    It ends when the mapping is proven optimal, neither side makes progress, or `stop` returns True. until_stalled: also
    when the bound, worked out with the most effort, closes little of the gap. Where that is so, local search gets twice
    the rounds of the turn before. climber: the local search (None: none). report: called with the incumbent, its value
    and the bound. Raises AssertionError where a mapping is below the bound.
    """
    if climber is not None and best is not None:
        climber.know(*best)
    rounds = TUNING.rounds_at_once
    while True:
        before, known = structures.steps, structures.value
        bound = structures.go_on(None if best is None else best[1], stop, work, steps=TUNING.steps_at_once)
        if best is not None:
            if bound is None or bound > best[1]:
                raise AssertionError("a mapping is better than what siblings say that no mapping can beat")
            report(*best, bound)
            if bound == best[1]:
                return best
        if stop() or (structures.steps == before and (climber is None or best is None)):
            return best
        is_stalled = _is_stalled(structures, known, best)
        if is_stalled and until_stalled:
            return best
        rounds = min(2 * rounds, TUNING.most_rounds) if is_stalled else TUNING.rounds_at_once
        if climber is not None and best is not None:
            climber.hints = structures.leading(TUNING.structures_climbed)
            climber.walk_rounds(rounds, stop)
            work.add(rounds)
            best = climber.best


def _is_stalled(structures: SiblingSearch, before: Fraction | None, best: Known | None) -> bool:
    """Return whether the bound closed little of the gap in a turn, although the structure that has it was worked out
    with all lesser efforts."""
    bound = structures.value
    if best is None or before is None or bound is None or structures.refined < len(TUNING.efforts) - 1:
        return False
    return bound - before < Fraction(TUNING.least_closed) * (best[1] - before)
