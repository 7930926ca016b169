"""One step on an entry of the queue: the bound of a structure, worked out further, or the search of its trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import product

from polymap.search.dividing.bounds import Multipliers, first_states, least_from, root_bound
from polymap.search.dividing.branch_and_bound import BranchPath, Descent, View, priced_view, view_of
from polymap.search.dividing.cost_tables import build_tables
from polymap.search.dividing.incumbents import Incumbent
from polymap.search.dividing.lagrange import improve_prices, improve_tradeoffs, is_refuted
from polymap.search.dividing.node_costs import Places, StructureFactors, root_context
from polymap.search.objective import BARRED, Measure
from polymap.search.problem import Problem, Structure, divisors
from polymap.search.resources import OutOfTime

Stop = Callable[[], bool]
Entry = tuple[int, int, int, Places]  # bound, minus the stage, number of the structure, places of its spatial loops


class Stage(IntEnum):
    """How much of a structure's bound is worked out: tensor by tensor, all tensors together, spatial loops placed."""

    APART = 0
    TOGETHER = 1
    PLACED = 2


@dataclass(frozen=True, slots=True)
class Mark:
    """Where the search inside an entry was ended: its prices, which first state, the way down from there."""

    prices: tuple[Multipliers, ...]
    start: int
    way: BranchPath


Marks = dict[Entry, Mark]


def view_bound(view: View) -> int | None:
    """Return a lower bound of the objective over all mappings below the view's top (None: none fits)."""
    whole: list[int] = []
    for inside, start in zip(view.insides, view.tables.start, strict=True):
        part = root_bound(view.tables, inside)[0]
        if part is None:
            return None
        whole.append(part + start)
    value = view.tables.measure.value(tuple(whole), view.tables.compute_cycles)
    return value if value < BARRED else None


def step_on(
    problem: Problem, measure: Measure, structure: Structure, entry: Entry, incumbent: Incumbent, marks: Marks
) -> Iterator[Entry]:
    """Work on an entry of the queue: yield those that replace it. What is found goes to the incumbent; where limits end
    it inside, a mark is left."""
    bound, stage, number, places = entry
    if -stage == Stage.PLACED:
        ended = _solve_places(problem, measure, structure, places, incumbent, marks.get(entry))
        if ended is not None:
            marks[entry] = ended
            raise OutOfTime
        marks.pop(entry, None)
        return
    stop = incumbent.out_of_time
    for own, then, _, where in _refined(problem, measure, structure, number, Stage(-stage + 1), stop):
        yield max(own, bound), then, number, where


def _refined(
    problem: Problem, measure: Measure, structure: Structure, number: int, stage: Stage, stop: Stop
) -> Iterator[Entry]:
    """Yield the queue's entries for a structure at the next stage; what fits nowhere yields none."""
    choices = places_of(problem, structure)
    if len(choices) == 1:
        stage = Stage.PLACED
    elif stage is Stage.TOGETHER:
        choices = ((),)
    for places in choices:
        context = root_context(problem, structure, places)
        bound = view_bound(view_of(build_tables(problem, structure, measure, context, stop), ()))
        if bound is not None:
            yield bound, -stage, number, places


def _solve_places(
    problem: Problem,
    measure: Measure,
    structure: Structure,
    places: Places,
    incumbent: Incumbent,
    mark: Mark | None,
) -> Mark | None:
    """Search all trees of a structure with these places; return where that was ended, if it was. mark: where an
    earlier search was ended, from which this one goes on."""
    context = root_context(problem, structure, places)
    tables = build_tables(problem, structure, measure, context, incumbent.out_of_time)
    view = view_of(tables, ())
    descent = Descent(tables, (), incumbent)
    prices = () if mark is None else mark.prices
    if mark is None or not mark.way:
        prices, refuted = _improved(descent, view)
        if refuted:
            return None
    if prices:
        descent.prices, view = prices, priced_view(view, prices)
        if not measure.is_linear and is_refuted(descent, view):
            return None
    known = {first: least_from(tables, view.insides[0], first) for first in first_states(tables)}
    order = sorted(known, key=lambda state: (known[state] is None, known[state] or 0))
    begin = 0 if mark is None else mark.start
    for number, first in enumerate(order[begin:], begin):
        try:
            descent.run(view, first, None if mark is None or number > begin else mark.way)
        except OutOfTime:
            return Mark(prices, number, descent.ended_at())
    return None


def _improved(descent: Descent, view: View) -> tuple[tuple[Multipliers, ...], bool]:
    """Return the prices for the search of a structure, and whether there is nothing left to search."""
    tables, measure, incumbent = descent.tables, descent.tables.measure, descent.incumbent
    if not measure.is_linear:
        prices = improve_tradeoffs(descent, view, incumbent.prices)
        incumbent.prices = prices or incumbent.prices
        return prices, False
    constant = measure.value(tables.start, tables.compute_cycles)
    limit = None if incumbent.value is None else incumbent.value - constant
    start = incumbent.prices[0] if incumbent.prices else None
    found, finished, bound = improve_prices(descent, view.insides[0], limit, start)
    prices = () if found is None else (found,)
    incumbent.prices = prices or incumbent.prices
    return prices, finished or (incumbent.value is not None and bound + constant >= incumbent.value)


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
