"""One step on an entry of the queue: the bound of a structure, worked out further, or the search of its trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import product

from polymap.search.dividing.bounds import Multipliers, first_states, least_from, root_bound
from polymap.search.dividing.branch_and_bound import BoundTables, BranchPath, StructureSearch, bound_tables, bounds_at
from polymap.search.dividing.cost_tables import build_tables
from polymap.search.dividing.lagrange import improve_multipliers, is_refuted, tradeoff_multipliers
from polymap.search.dividing.node_costs import Places, StructureFactors, root_context
from polymap.search.dividing.progress import Incumbent
from polymap.search.objective import INFEASIBLE, Measure
from polymap.search.problem import Problem, Structure, divisors
from polymap.search.resources import OutOfTime, Stop

Entry = tuple[int, int, int, Places]  # bound, minus the stage, number of the structure, places of its spatial loops


class Stage(IntEnum):
    """How much of a structure's bound is worked out: tensor by tensor, all tensors together, spatial loops placed."""

    SINGLE_TENSORS = 0
    ALL_TENSORS = 1
    PLACED = 2


@dataclass(frozen=True, slots=True)
class StopPoint:
    """Where the search inside an entry was ended: its multipliers, which first state, the way down from there."""

    multipliers: tuple[Multipliers, ...]
    start: int
    way: BranchPath


StopPoints = dict[Entry, StopPoint]


def least_value(bounds: BoundTables) -> int | None:
    """Return a lower bound of the objective over all mappings below the top (None: none fits)."""
    whole: list[int] = []
    for inside, start in zip(bounds.insides, bounds.tables.start, strict=True):
        part = root_bound(bounds.tables, inside)[0]
        if part is None:
            return None
        whole.append(part + start)
    value = bounds.tables.measure.value(tuple(whole), bounds.tables.compute_cycles)
    return value if value < INFEASIBLE else None


def step_on(
    problem: Problem,
    measure: Measure,
    structure: Structure,
    entry: Entry,
    incumbent: Incumbent,
    stop_points: StopPoints,
) -> Iterator[Entry]:
    """Work on an entry of the queue: yield those that replace it. What is found goes to the incumbent; where limits end
    it inside, a stop point is kept."""
    bound, stage, number, places = entry
    if -stage == Stage.PLACED:
        ended = _solve_places(problem, measure, structure, places, incumbent, stop_points.get(entry))
        if ended is not None:
            stop_points[entry] = ended
            raise OutOfTime
        stop_points.pop(entry, None)
        return
    stop = incumbent.out_of_time
    for own, then, _, where in _next_entries(problem, measure, structure, number, Stage(-stage + 1), stop):
        yield max(own, bound), then, number, where


def _next_entries(
    problem: Problem, measure: Measure, structure: Structure, number: int, stage: Stage, stop: Stop
) -> Iterator[Entry]:
    """Yield the queue's entries for a structure at the next stage; what fits nowhere yields none."""
    choices = places_of(problem, structure)
    if len(choices) == 1:
        stage = Stage.PLACED
    elif stage is Stage.ALL_TENSORS:
        choices = ((),)
    for places in choices:
        context = root_context(problem, structure, places)
        bound = least_value(bound_tables(build_tables(problem, structure, measure, context, stop), ()))
        if bound is not None:
            yield bound, -stage, number, places


def _solve_places(
    problem: Problem,
    measure: Measure,
    structure: Structure,
    places: Places,
    incumbent: Incumbent,
    stop_point: StopPoint | None,
) -> StopPoint | None:
    """Search all trees of a structure with these places; return where that was ended, if it was. stop_point: where an
    earlier search was ended, from which this one goes on."""
    context = root_context(problem, structure, places)
    tables = build_tables(problem, structure, measure, context, incumbent.out_of_time)
    bounds = bound_tables(tables, ())
    search = StructureSearch(tables, (), incumbent)
    multipliers = () if stop_point is None else stop_point.multipliers
    if stop_point is None or not stop_point.way:
        multipliers, refuted = _first_multipliers(search, bounds)
        if refuted:
            return None
    if multipliers:
        search.multipliers, bounds = multipliers, bounds_at(bounds, multipliers)
        if not measure.is_linear and is_refuted(search, bounds):
            return None
    known = {first: least_from(tables, bounds.insides[0], first) for first in first_states(tables)}
    order = sorted(known, key=lambda state: (known[state] is None, known[state] or 0))
    begin = 0 if stop_point is None else stop_point.start
    for number, first in enumerate(order[begin:], begin):
        try:
            search.run(bounds, first, None if stop_point is None or number > begin else stop_point.way)
        except OutOfTime:
            return StopPoint(multipliers, number, search.ended_at())
    return None


def _first_multipliers(search: StructureSearch, bounds: BoundTables) -> tuple[tuple[Multipliers, ...], bool]:
    """Return the multipliers for the search of a structure, and whether there is nothing left to search."""
    tables, measure, incumbent = search.tables, search.tables.measure, search.incumbent
    if not measure.is_linear:
        multipliers = tradeoff_multipliers(search, bounds, incumbent.multipliers)
        incumbent.multipliers = multipliers or incumbent.multipliers
        return multipliers, False
    constant = measure.value(tables.start, tables.compute_cycles)
    limit = None if incumbent.value is None else incumbent.value - constant
    start = incumbent.multipliers[0] if incumbent.multipliers else None
    found, finished, bound = improve_multipliers(search, bounds.insides[0], limit, start)
    multipliers = () if found is None else (found,)
    incumbent.multipliers = multipliers or incumbent.multipliers
    return multipliers, finished or (incumbent.value is not None and bound + constant >= incumbent.value)


def places_of(problem: Problem, structure: Structure) -> tuple[Places, ...]:
    """Return every choice of how much of each window dim's temporal loops stands inside its spatial loops."""
    windows = [dim for term in problem.terms for g in term.groups if g.is_window for dim in g.dims]
    choices: list[list[tuple[tuple[int, str], int]]] = []
    whole = dict(zip(problem.dims, root_context(problem, structure).tiles[0], strict=True))
    factors = StructureFactors(problem, structure)
    for below in factors.groups():
        for dim in windows:
            if factors.group_factor(dim, below) > 1:
                choices.append([((below, dim), place) for place in divisors(whole[dim])])
    return tuple(product(*choices))
