"""Steps of a search on entries of its queue: what raises a structure's bound, and the search of its trees.

Bounds are worked out in stages, each dearer than the one before, while a structure is at the head of the queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import IntEnum

from polymap.poly import Kind
from polymap.resources import OutOfTime
from polymap.search.dividing.bounds import FREE, Multipliers, first_states, least_from, winning_states
from polymap.search.dividing.branch_and_bound import BoundTables, BranchPath, StructureSearch, bounds_at
from polymap.search.dividing.cost_tables import State, Tables, tables_at
from polymap.search.dividing.groups import (
    Group,
    bound_by_room,
    group_bound,
    is_searched_at_once,
    least_value,
    member_bounds,
    open_tables,
    relaxed_bound,
)
from polymap.search.dividing.lagrange import improve_multipliers
from polymap.search.dividing.marks import costs_below_marks, nodes_before_marks
from polymap.search.dividing.node_costs import Places, choices_of_places
from polymap.search.dividing.progress import Entry, GroupBound, Incumbent
from polymap.search.dividing.tuning import TUNING
from polymap.search.problem import Measure, Problem, Structure


class Stage(IntEnum):
    """How much of a structure's bound is worked out: tensor by tensor; all tensors together; that with branches on what
    a node holds, while trees are searched."""

    SINGLE_TENSORS = 0
    ALL_TENSORS = 1
    SPLIT = 2


Box = tuple[int, Places]  # a lower bound of the trees with spatial loops at some places, the others open


@dataclass(frozen=True, slots=True)
class StopPoint:
    """Where the search inside an entry was ended, or begins: its multipliers, the joint states of its chains, which
    first state, the way down from there, whether it knows the costs below marks, the choices of places that are
    left with lower bounds, that at which it was ended first, and of a group the members that may win (none: all)."""

    multipliers: Multipliers
    only: frozenset[State] | None
    start: int
    way: BranchPath
    is_marked: bool = False
    left: tuple[Box, ...] = ()
    members: tuple[Structure, ...] = ()


StopPoints = dict[Entry, StopPoint]


def step_on(
    problem: Problem,
    measure: Measure,
    structure: Structure,
    entry: Entry,
    incumbent: Incumbent,
    stop_points: StopPoints,
    group: Group,
    most: int | None = None,
) -> Iterator[Entry]:
    """Do one step on an entry of the queue, and yield the entries that replace it. Trees and the bound of the
    structure's group are recorded in the incumbent; at a limit the entry keeps a stop point. most: nodes of a search,
    then it comes back (None: all)."""
    bound, stage, number = entry
    known = incumbent.groups.get(group.number)
    members = group.members if is_searched_at_once(problem, measure, group) else (structure,)
    # Few trees of a product are searched sooner than bounded by room; of windows these bounds say nothing more.
    few_first = measure.is_linear and not any(term.is_window for term in problem.terms)

    def searched(nodes: int | None) -> int | None:
        """Return the bound of the trees that are left, at a stop point of the entry (None: all are searched)."""
        value = incumbent.value
        upto = None if value is None or few_first else bound + max(1, (value - bound) // TUNING.least_raise)
        ended = solve_structures(problem, measure, members, incumbent, stop_points.get(entry), known, nodes, upto)
        if ended is None:
            stop_points.pop(entry, None)
            return None
        stop_points[entry] = ended
        if incumbent.out_of_time() or (nodes is None and (upto is None or ended.left[0][0] < upto)):
            raise OutOfTime
        return max(bound, ended.left[0][0])

    match Stage(-stage):
        case Stage.SINGLE_TENSORS:
            for own, then in _bound_together(problem, measure, entry, structure, group, incumbent):
                yield max(own, bound), -then, number
        case Stage.ALL_TENSORS if few_first:
            yield bound, -Stage.SPLIT, number
        case Stage.ALL_TENSORS:
            yield _to_search(problem, measure, members, entry, incumbent, stop_points, known)
        case Stage.SPLIT:
            first = few_first and entry not in stop_points and incumbent.value is not None
            least = searched(min(TUNING.nodes_before_room, most or TUNING.nodes_before_room) if first else most)
            if least is None:
                return
            if first:
                tables = open_tables(problem, measure, members, incumbent, known.only if known else None)
                least = max(least, _room_bound(tables, incumbent))
            stop_points[own := _raise_bound(entry, least)] = stop_points.pop(entry)
            yield own


def _to_search(
    problem: Problem,
    measure: Measure,
    members: tuple[Structure, ...],
    entry: Entry,
    incumbent: Incumbent,
    stop_points: StopPoints,
    known: GroupBound | None,
) -> Entry:
    """Return the entry of a structure, or of a group, to be searched: of those members that may win by themselves
    (least costs of unlike members together may be no member's), by the room in the scarcest level, at multipliers of
    their own."""
    value, only, alive, least = incumbent.value, known.only if known else None, members, 0
    if not measure.is_linear or value is None:
        return _raise_bound(entry, 0)
    if len(members) > 1:
        together = open_tables(problem, measure, members, incumbent, only)
        each = zip(member_bounds(together, incumbent.multipliers), members, strict=True)
        winning = [(bound, own) for bound, own in each if bound is not None and bound < value]
        alive, least = tuple(own for _, own in winning), min((bound for bound, _ in winning), default=value)
    if not alive:
        return _raise_bound(entry, value)
    tables = open_tables(problem, measure, alive, incumbent, only)
    bounds, search = BoundTables(tables), StructureSearch(tables, FREE, incumbent)
    is_refuted = least_value(bounds) is None or _first_multipliers(search, bounds, scores=False)[1]
    own = _raise_bound(entry, value if is_refuted else max(least, _room_bound(tables, incumbent)))
    stop_points[own] = StopPoint(incumbent.multipliers, only, 0, (), left=_undecided_boxes(tables), members=alive)
    return own


def _raise_bound(entry: Entry, least: int) -> Entry:
    """Return the entry of a structure to be searched, by its bound and another one."""
    return max(entry[0], least), -Stage.SPLIT, entry[2]


def _bound_together(
    problem: Problem, measure: Measure, entry: Entry, structure: Structure, group: Group, incumbent: Incumbent
) -> Iterator[tuple[int, Stage]]:
    """Yield what follows the bound of single tensors: it once more, raised to what bounds the group, or where that is
    no more, the bound of all tensors together. Nothing where nothing fits, or another entry stands for the group."""
    bound, _, number = entry
    known = incumbent.groups.get(group.number)
    if known is not None and known.leader not in (None, number):
        return
    is_rough = known is not None and known.is_rough and known.bound is not None and known.bound > bound
    if known is None or not is_rough:
        known = group_bound(problem, measure, group, incumbent)
    if known.bound is None:
        return
    if not is_rough and is_searched_at_once(problem, measure, group):
        incumbent.groups[group.number] = replace(known, leader=number)
        yield known.bound, Stage.ALL_TENSORS
    elif known.bound > bound:
        yield known.bound, Stage.SINGLE_TENSORS
    elif len(group.members) == 1:  # the group's bound is its own
        yield bound, Stage.ALL_TENSORS
    else:
        tables = open_tables(problem, measure, (structure,), incumbent, known.only)
        own, _ = relaxed_bound(tables, incumbent.multipliers)
        if own is not None:
            yield own, Stage.ALL_TENSORS


def _room_bound(tables: Tables, incumbent: Incumbent) -> int:
    """Return a bound by the room in the scarcest level; 0 where numbers are so long that it takes more time than the
    search."""
    assert incumbent.value is not None, "bounds are held against a value"
    if tables.arithmetics[0].kind is not Kind.NARROW:
        return 0
    found = bound_by_room(tables, incumbent.multipliers)
    return incumbent.value if found is None else found


def solve_structures(
    problem: Problem,
    measure: Measure,
    members: tuple[Structure, ...],
    incumbent: Incumbent,
    stop_point: StopPoint | None,
    known: GroupBound | None,
    most: int | None = None,
    upto: int | None = None,
    *,
    decides: bool = True,
) -> StopPoint | None:
    """Search all trees of a structure, or of all of a group; return where that was ended, if it was. stop_point: where
    an earlier search was ended, from which this one goes on. known: of the group. most: nodes to visit (None: all).
    upto: a bound; the search ends where what is left has no lower one (None: it goes on). decides: whether places of
    spatial loops are decided before trees are searched, which takes longer than a few nodes."""
    alive = stop_point.members if stop_point else ()
    tables = open_tables(problem, measure, alive or members, incumbent, known.only if known else None)
    left, before = stop_point.left if stop_point else _undecided_boxes(tables), incumbent.nodes
    if stop_point is not None and stop_point.multipliers.per_level:
        incumbent.multipliers = stop_point.multipliers
    while left and incumbent.beats(left[0][0]):
        spent = incumbent.nodes - before
        goes_on = stop_point is not None and bool(stop_point.way)
        if (spent and most is not None and spent >= most) or (upto is not None and left[0][0] >= upto and not goes_on):
            return StopPoint(incumbent.multipliers, known.only if known else None, 0, (), left=left, members=alive)
        is_open = not decides or goes_on or len(left) > TUNING.decided_places
        decided = None if is_open else _decide_place(tables, incumbent, left[0])
        if decided is not None:
            left = tuple(sorted((*left[1:], *decided)))
            continue
        own = replace(tables, only=stop_point.only) if stop_point else tables
        more = None if most is None else most - spent
        ended = _solve_at(tables_at(own, left[0][1]), incumbent, stop_point, more)
        if ended is not None:
            return replace(ended, left=left, members=alive)
        stop_point, left = None, left[1:]
    return None


def _undecided_boxes(tables: Tables) -> tuple[Box, ...]:
    """Return the box of all trees: places of spatial loops that have one choice are decided, the others open."""
    every = choices_of_places(tables.problem, tables.structure, ordered=not tables.others)
    return ((0, tuple(one for choices in every if len(choices) == 1 for one in choices)),)


def _decide_place(tables: Tables, incumbent: Incumbent, box: Box) -> list[Box] | None:
    """Return the parts of a box in which one more place is decided, those that may win (None: all are, or the measure
    is no sum: each choice would take multipliers of its own). tables: without places."""
    bound, places = box
    known = {(one.below, one.dim) for one in places}
    every = choices_of_places(tables.problem, tables.structure, ordered=not tables.others)
    choices = next((own for own in every if (own[0].below, own[0].dim) not in known), None)
    if choices is None or not tables.measure.is_linear:
        return None
    longer = [(*places, one) for one in choices]
    bounds = (relaxed_bound(tables_at(tables, one), incumbent.multipliers)[0] for one in longer)
    pairs = zip(bounds, longer, strict=True)
    return [(max(bound, own), one) for own, one in pairs if own is not None and incumbent.beats(own)]


def _solve_at(tables: Tables, incumbent: Incumbent, stop_point: StopPoint | None, most: int | None) -> StopPoint | None:
    """Search all trees with spatial loops at the places of the tables."""
    bounds, measure = BoundTables(tables), tables.measure
    if least_value(bounds) is None:
        return None
    search = StructureSearch(tables, FREE, incumbent, most)
    multipliers = FREE if stop_point is None else stop_point.multipliers
    goes_on = stop_point is not None and (bool(stop_point.way) or stop_point.start > 0)  # from a state in this order
    if not goes_on:
        multipliers, refuted = _first_multipliers(search, bounds)
        if refuted:
            return None
    search.multipliers, bounds = multipliers, bounds_at(bounds, multipliers)
    if stop_point is not None and stop_point.is_marked:
        return _search_below_marks(search, bounds, most, stop_point)
    if measure.is_linear and search.window is not None and incumbent.value is not None and not goes_on:
        bounds = _of_winning_states(search, bounds)
        search = StructureSearch(bounds.tables, search.multipliers, incumbent, most)
    before = None if incumbent.value is None else nodes_before_marks(tables)
    if before is None or (most is not None and most <= before):
        return _search_trees(search, bounds, stop_point)
    ended = _search_trees(StructureSearch(search.tables, search.multipliers, incumbent, before), bounds, stop_point)
    if ended is None or incumbent.out_of_time():
        return ended
    with suppress(OutOfTime):  # the costs below marks take long; the next search goes on from where this one ended
        return _search_below_marks(search, bounds, None if most is None else most - before, None)
    return ended


def _of_winning_states(search: StructureSearch, bounds: BoundTables) -> BoundTables:
    """Return the bounds of the joint states on chains that may beat the incumbent at the multipliers."""
    tables, value = search.tables, search.incumbent.value
    assert value is not None, "chains win against a value"
    room = value - 1 - tables.measure.value(tables.start, tables.compute_cycles)
    most = room * search.multipliers.unit + search.multipliers.allowance
    only = winning_states(tables, bounds.priced, most)
    return bounds_at(BoundTables(replace(tables, only=only)), search.multipliers)


def _search_trees(search: StructureSearch, bounds: BoundTables, stop_point: StopPoint | None) -> StopPoint | None:
    """Search all trees of a structure from the stop point on; return where that was ended, if it was."""
    tables = search.tables
    least = {first: least_from(tables, bounds.insides[0], first) for first in first_states(tables)}
    order = sorted(least, key=lambda state: (least[state] is None, least[state] or 0))
    begin = 0 if stop_point is None else stop_point.start
    for number, first in enumerate(order[begin:], begin):
        try:
            search.run(bounds, first, None if stop_point is None or number > begin else stop_point.way)
        except OutOfTime:
            return StopPoint(search.multipliers, tables.only, number, search.ended_at(), search.marked is not None)
    return None


def _search_below_marks(
    search: StructureSearch, bounds: BoundTables, most: int | None, stop_point: StopPoint | None
) -> StopPoint | None:
    """Search all trees of a structure, knowing the costs below marks, which many of them do not come through. They are
    of the joint states that may win when they are first worked out."""
    if stop_point is None:
        bounds = _of_winning_states(search, bounds)
    tables = bounds.tables
    marked = costs_below_marks(tables, bounds.priced, search.multipliers)
    search = StructureSearch(tables, search.multipliers, search.incumbent, most, marked)
    return _search_trees(search, bounds, stop_point)


def _first_multipliers(
    search: StructureSearch, bounds: BoundTables, *, scores: bool = True
) -> tuple[Multipliers, bool]:
    """Return the multipliers for the search of a structure, and whether there is nothing left to search. scores: see
    improve_multipliers."""
    tables, measure, incumbent = search.tables, search.tables.measure, search.incumbent
    if not measure.is_linear:
        return FREE, False
    constant = measure.value(tables.start, tables.compute_cycles)
    limit = None if incumbent.value is None else incumbent.value - constant
    # Scoring takes long with windows. The search that follows does it; one of few nodes may not come to it, and that of
    # fewest is not to take longer.
    is_short = TUNING.nodes_near < search.nodes_left <= TUNING.probed_nodes
    scores = scores and (search.window is None or incumbent.value is None or is_short)
    found = improve_multipliers(search, bounds.insides[0], limit, scores=scores)
    if found.multipliers.per_level:
        incumbent.multipliers = found.multipliers
    return found.multipliers, found.is_solved or (limit is not None and found.bound >= limit)
