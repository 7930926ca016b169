"""Tiles of any size structure by structure: floors that rise, and mappings looked for where the bound is least."""

from __future__ import annotations

from fractions import Fraction

from polymap.ir import Mapping
from polymap.search.any_size import has_region_bound
from polymap.search.heuristics import TreeClimber
from polymap.search.objective import measure_under
from polymap.search.resources import Stop
from polymap.search.run.options import TUNING
from polymap.search.run.state import Search
from polymap.search.sibling_bounds import SiblingSearch

Known = tuple[Mapping, Fraction]


def raise_floors(
    search: Search, value: Fraction | None, stop: Stop, *, steps: int | None = None, refined: bool = True
) -> None:
    """Raise the floors, one per part of the objective, by so many steps of each queue (None: any number).

    value: the best one of the first part. refined: whether single structures are looked at.
    """
    if not search.siblings:
        measures = [measure_under(one, search.workload, search.arch, search.rules) for one in search.objective.singles]
        search.siblings = tuple(SiblingSearch(search.problem, one) for one in measures)
    for place, one in enumerate(search.siblings):
        found = one.go_on(value if place == 0 else None, stop, search.limits.work, steps=steps, refined=refined)
        if found is not None:
            rest = search.floors[place + 1 :]
            search.floors = (*search.floors[:place], max(found, search.floors[place]), *rest)


def search_structures(search: Search, best: Known | None, stop: Stop) -> Known | None:
    """Return the best mapping after steps of the queues and rounds of climbing in turn, until it is proven to be the
    best, neither goes on, or `stop` says so."""
    climber = _climber(search, best)
    while True:
        before = [one.steps for one in search.siblings]
        raise_floors(search, None if best is None else best[1], stop, steps=TUNING.structure_steps)
        if best is not None:
            if search.floors[0] > best[1]:
                raise AssertionError("a mapping is better than what siblings say that no mapping can beat")
            if len(search.siblings) == 1:
                search.report(*best, search.floors[0])
                if search.floors[0] == best[1]:
                    return best
        if stop():
            return best
        if climber is not None:
            climber.structures = search.siblings[0].leading(TUNING.structures_climbed)
            climber.walk(TUNING.climbing_rounds, stop)
            search.limits.work.add(TUNING.climbing_rounds)
            best = climber.best
        elif before == [one.steps for one in search.siblings]:
            return best


def _climber(search: Search, best: Known | None) -> TreeClimber | None:
    """Return what climbs from the best mapping; None where there is none, or trees could break rules."""
    if best is None or search.rules or not has_region_bound(search.objective):
        return None
    if search.climber is None:
        question = search.workload, search.arch, search.objective
        search.climber = TreeClimber(*question, search.problem.classes, seed=search.asked.seed)
    search.climber.know(*best)
    return search.climber
