"""Tiles of any size, from the best dividing mapping on: all trees where they are few, else regions, else a walk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from polymap.ir import Mapping
from polymap.search.any_size.tuning import TUNING, Tuning
from polymap.search.enumeration import Walking
from polymap.search.heuristics import Annealer
from polymap.search.objective import Measure
from polymap.search.problem import Objective, Problem
from polymap.search.resources import Limits, Stop, Work

if TYPE_CHECKING:
    from polymap.search.any_size.engine import Entry, RegionOutcome

Known = tuple[Mapping, Fraction]  # a mapping with its exact value
Report = Callable[[Mapping | None, Fraction | None, Fraction], None]


@dataclass(frozen=True, slots=True)
class AnySizeAnswer:
    """The best mapping (None: none was found), a lower bound in the objective's unit (None: nothing is left, or none is
    known), work done.

    evaluated: mappings scored or regions bounded. pruned: regions refuted. queue: what is left to search. distinct:
    different costs, where all trees were walked. is_final: nothing is left. front: the mappings of a front.
    """

    best: Mapping | None
    bound: Fraction | None
    evaluated: int
    pruned: int
    queue: tuple[Entry, ...] = ()
    distinct: int | None = None
    is_final: bool = False
    front: tuple[Mapping, ...] = ()


def enumeration_answer(walking: Walking, stop: Stop) -> AnySizeAnswer | None:
    """Return the answer that looking at every tree gives; None where a limit ends that."""
    found = walking.go_on(stop)
    if found is None:
        return None
    return AnySizeAnswer(
        found.best, None, found.legal, 0, distinct=found.distinct, is_final=True, front=found.front_trees
    )


def anneal_mappings(
    annealer: Annealer,
    stop: Stop,
    work: Work,
    report: Callable[[Mapping, Fraction], None],
    *,
    until_found: bool,
    tuning: Tuning = TUNING,
) -> None:
    """Walk over mappings until `stop` says so, or until one is found, else until enough are scored."""
    done = 0
    while not stop() and (annealer.best is None if until_found else done < tuning.annealed_without_bound):
        some = tuning.annealed_at_once if work.left is None else min(tuning.annealed_at_once, work.left)
        better = annealer.walk(some, stop)
        work.add(some)
        done += some
        if better and annealer.best is not None:
            report(*annealer.best)


def solve_regions(
    problem: Problem,
    objective: Objective,
    measure: Measure,
    limits: Limits,
    first: Known | None,
    report: Report,
    annealer: Annealer | None = None,
    before: AnySizeAnswer | None = None,
    floor: Fraction = Fraction(0),
) -> AnySizeAnswer:
    """Return the best mapping over tiles of any size, or the best found when a limit is reached.

    first: the best mapping so far. annealer: looks for better ones now and then. before: an answer to the same question
    to go on from. floor: what no mapping beats.
    """

    def told(best: Mapping | None, value: Fraction | None, bound: int) -> None:
        report(best, value, measure.unscaled(bound))

    from polymap.search.any_size.engine import RegionSearch  # searches over dividing tiles do without
    from polymap.search.any_size.node_costs import floats_suffice

    if not floats_suffice(problem, measure):
        return AnySizeAnswer(first and first[0], Fraction(0), 0, 0)
    search = RegionSearch(problem, objective, measure, limits.share, first, limits.work, annealer, floor)
    if before is not None and before.queue:
        return _answer(measure, search.go_on(list(before.queue), told))
    return _answer(measure, search.run(told))


def _answer(measure: Measure, found: RegionOutcome) -> AnySizeAnswer:
    """Return what a search of regions says."""
    bound = None if found.bound is None else measure.unscaled(found.bound)
    if found.best is None:
        return AnySizeAnswer(None, bound, found.regions, found.refuted, found.queue, is_final=bound is None)
    value = found.best[1] if bound is None else min(bound, found.best[1])
    return AnySizeAnswer(found.best[0], value, found.regions, found.refuted, found.queue)
