"""Cost tables of one structure: what each storage node would add, as a function of its temporal tile.

Per tensor the graph of its holder states (problem/holding.py); an edge places one node. An edge's costs are arrays over
the lattice, one per component of the objective, all integers.
The formulas are those of docs/closed_form.md for tiles that divide, with nodes raised over loops that do not change
their tile; for tensors read through windows they are lower bounds (window_paths.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymap.arithmetic import INT64, Arithmetic, Kind, Numbers, arithmetic_for, count_type
from polymap.search.dividing.node_costs import (
    Context,
    Members,
    StructureFactors,
    covers_intrinsics,
    read_weights,
    root_context,
    spans_enough,
    update_end,
    update_terms,
)
from polymap.search.dividing.window_paths import (
    Crossing,
    WindowCounts,
    WindowModel,
    unmerged,
    window_counts,
)
from polymap.search.problem import (
    Component,
    HolderEdge,
    HolderGraph,
    IntArray,
    Lattice,
    Measure,
    Problem,
    Structure,
    TensorTerm,
    holder_graph,
    lattice_below,
    most_costed,
    most_counted,
    node_weights,
    restricted,
    standing_tiles,
    zero_start,
)
from polymap.search.resources import SearchCaches, never

Rooms = dict[tuple[int, int], tuple[int, int]]  # (tensor, level): fewest and most bits that its node holds
State = tuple[int, ...]  # of all tensors: which of its holder states each is in


@dataclass(frozen=True, slots=True, eq=False)
class NodeCost:
    """What a node adds at every tile: cost per component, bits that one instance holds (fewest)."""

    costs: tuple[Numbers, ...]
    bits: IntArray


class Edge:
    """One storage node of a tensor: from state `source` to state `target`, held by `level`, loaded from `parent`.

    Its cost is worked out when it is first asked for: many edges are on no chain that may win.
    """

    __slots__ = ("_cost", "_cost_of", "level", "parent", "source", "target")

    def __init__(self, edge: HolderEdge | Edge, cost_of: Callable[[], NodeCost]) -> None:
        self.source, self.target, self.parent, self.level = edge.source, edge.target, edge.parent, edge.level
        self._cost_of = cost_of
        self._cost: NodeCost | None = None

    @property
    def cost(self) -> NodeCost:
        """What the node adds at every tile."""
        if self._cost is None:
            self._cost = self._cost_of()
        return self._cost


@dataclass(frozen=True, slots=True, eq=False)
class TensorTable:
    """The holder states of one tensor; what its edges cost, in order; and per state and component what the statement
    instances read and write there (None: the tensor may not stay there)."""

    term: TensorTerm
    graph: HolderGraph
    edges: tuple[Edge, ...]
    final: tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Everything that the bound of one structure needs. start: cost present before any node, per component;
    arithmetics: how each component's costs are kept; stop: tells long steps whether a limit is reached; caches: of the
    search; only: the joint states that chains may be in (None: any), those on no chain that may win left out; rooms:
    what nodes may hold, where less than their levels' capacity; others: structures of its group, of all of which these
    are the least costs."""

    problem: Problem
    structure: Structure
    factors: StructureFactors
    measure: Measure
    context: Context
    lattice: Lattice
    tensors: tuple[TensorTable, ...]
    start: tuple[int, ...]
    compute_cycles: int
    arithmetics: tuple[Arithmetic, ...]
    stop: Callable[[], bool]
    caches: SearchCaches
    only: frozenset[State] | None = None
    rooms: Rooms = field(default_factory=dict[tuple[int, int], tuple[int, int]])
    others: tuple[Structure, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Setting:
    """What the tables of all tensors share. whole: temporal extents per dim; steps: their product; counts: the dtype of
    counts; arithmetics: how each component's costs are kept; windows: counts of what is read through windows.

    members: the structures that the tables are of; factors: of the first of these, equal for all between two levels.
    """

    problem: Problem
    measure: Measure
    lattice: Lattice
    factors: StructureFactors
    members: Members
    context: Context
    whole: dict[str, int]
    steps: int
    counts: np.dtype[Any]
    arithmetics: tuple[Arithmetic, ...]
    windows: WindowCounts

    @property
    def everywhere(self) -> NDArray[np.bool_]:
        """Return the mask of all tiles, broadcastable to the lattice."""
        return np.ones((1,) * len(self.lattice.shape), dtype=np.bool_)

    @property
    def ones(self) -> IntArray:
        """Return the count 1 at every tile, broadcastable to the lattice."""
        return np.ones((1,) * len(self.lattice.shape), dtype=self.counts)


def _setting(
    problem: Problem,
    structures: tuple[Structure, ...],
    measure: Measure,
    context: Context,
    arithmetics: tuple[Arithmetic, ...],
    caches: SearchCaches,
) -> _Setting:
    """Return the setting of tables below the last tile of the context."""
    whole = dict(zip(problem.dims, context.tiles[0], strict=True))
    lattice = caches.memo(lattice_below)(tuple(zip(problem.dims, context.tiles[-1], strict=True)))
    members = Members(problem, structures, context.places)
    counts = count_type(most_counted(problem.workload))
    steps, windows = prod(whole.values()), window_counts(caches)
    factors = members.each[0]
    return _Setting(problem, measure, lattice, factors, members, context, whole, steps, counts, arithmetics, windows)


def build_tables(
    problem: Problem,
    structure: Structure,
    measure: Measure,
    context: Context,
    stop: Callable[[], bool] = never,
    caches: SearchCaches | None = None,
    others: tuple[Structure, ...] = (),
    only: frozenset[State] | None = None,
) -> Tables:
    """Return the tables of a structure below the last tile of the context. caches: of the search (None: new ones).

    others: structures of its group (groups.py). Every cost is then the least over the structure and these: chains cost
    no less in any of them. only: the joint states that chains may be in (None: any).
    """
    caches = caches or SearchCaches()
    arithmetics = tuple(arithmetic_of(problem, component) for component in measure.components)
    setting = _setting(problem, (structure, *others), measure, context, arithmetics, caches)
    tensors = tuple(_tensor_table(setting, term) for term in problem.terms)
    start = tuple(sum(zero_start(term, component) for term in problem.terms) for component in measure.components)
    cycles = -(-setting.steps // problem.arch.compute.per_cycle)
    shared = problem, structure, setting.factors, measure, context, setting.lattice
    return Tables(*shared, tensors, start, cycles, arithmetics, stop, caches, only, others=others)


def tree_tables(problem: Problem, structure: Structure, measure: Measure) -> Tables:
    """Return tables without costs: all that the tree of a chain asks for where no tensor is read through windows."""
    context, factors = root_context(problem, structure), StructureFactors(problem, structure)
    start = tuple(sum(zero_start(term, component) for term in problem.terms) for component in measure.components)
    cycles = -(-prod(context.tiles[0]) // problem.arch.compute.per_cycle)
    shared = problem, structure, factors, measure, context, lattice_below(())
    return Tables(*shared, (), start, cycles, (), never, SearchCaches())


def arithmetic_of(problem: Problem, component: Component) -> Arithmetic:
    """Return the arithmetic in which a component's costs, summed over any chain, are exact."""
    found = arithmetic_for(most_costed(problem.workload, problem.arch, component))
    counts = count_type(most_counted(problem.workload))
    return found if counts == INT64 else Arithmetic(Kind.LONG, found.limit)


def tables_below(tables: Tables, context: Context) -> Tables:
    """Return the tables below the last tile of a context that goes on from that of `tables`.

    What a node costs depends on the chain above it only for a tensor that is read through windows.
    """
    members = tables.structure, *tables.others
    setting = _setting(tables.problem, members, tables.measure, context, tables.arithmetics, tables.caches)
    lattice = setting.lattice
    found = tuple(
        replace(table, edges=_edges(setting, table.term, table.graph))
        if table.term.is_window
        else _table_below(table, tables.lattice, lattice)
        for table in tables.tensors
    )
    return replace(tables, context=context, lattice=lattice, tensors=found)


def _table_below(table: TensorTable, outer: Lattice, inner: Lattice) -> TensorTable:
    """Return the table for the tiles of a lattice inside its own."""

    def below(cost: NodeCost) -> NodeCost:
        return NodeCost(tuple(restricted(one, outer, inner) for one in cost.costs), restricted(cost.bits, outer, inner))

    def lowered(edge: Edge) -> Edge:
        return Edge(edge, lambda: below(edge.cost))

    return replace(table, edges=tuple(map(lowered, table.edges)))


def _tensor_table(setting: _Setting, term: TensorTerm) -> TensorTable:
    graph = holder_graph(term, setting.problem.level_count)
    final_of = _output_final if term.is_output else _read_final
    final = tuple(
        final_of(setting, term, level) if ok else None for level, ok in zip(graph.levels, graph.final, strict=True)
    )
    return TensorTable(term, graph, _edges(setting, term, graph), final)


def _edges(setting: _Setting, term: TensorTerm, graph: HolderGraph) -> tuple[Edge, ...]:
    cost_of = _output_cost if term.is_output else _read_cost

    def begun(edge: HolderEdge) -> Edge:
        def cost() -> NodeCost:
            found = cost_of(setting, term, edge)
            return replace(found, costs=_standing(setting, term, edge.level, found.costs))

        return Edge(edge, cost)

    return tuple(map(begun, graph.edges))


def _standing(setting: _Setting, term: TensorTerm, level: int, costs: tuple[Numbers, ...]) -> tuple[Numbers, ...]:
    """Return the costs, infeasible where the node cannot stand.

    Spatial loops over fan-outs above its level are outside its tile, along its own dims: along others the node is
    charged as if it stood above loops that do not change its tile, which may be outside. Those below its level are
    inside the tile of a window tensor or outside, along all of its dims. Which of the two is open, whatever nodes of
    further levels are above it in the chain: charged for more loops than stand above them, they may stand below it, or
    it below them.
    """
    ok = setting.everywhere
    for group in setting.factors.groups():
        outside = inside = setting.everywhere
        for (below, dim), place in setting.context.places:
            if below == group and dim in term.dims:
                tile = setting.lattice.values[dim]
                outside, inside = outside & (place % tile == 0), inside & (tile % place == 0)
        if group <= level:
            ok = ok & outside
        elif term.is_window:
            ok = ok & (outside | inside)
    if setting.problem.rules:
        ok = ok & _allowed_by_rules(setting, term, level)
    return costs if ok.all() else _only(setting, ok, costs)


def _only(setting: _Setting, ok: NDArray[np.bool_], costs: tuple[Numbers, ...]) -> tuple[Numbers, ...]:
    """Return the costs, infeasible where not `ok`."""
    return tuple(arithmetic.where(ok, cost) for arithmetic, cost in zip(setting.arithmetics, costs, strict=True))


def _allowed_by_rules(setting: _Setting, term: TensorTerm, level: int) -> NDArray[np.bool_]:
    """Return where the rules let a node of a tensor in a level stand."""
    problem, lattice, ok = setting.problem, setting.lattice, setting.everywhere
    ok = ok & covers_intrinsics(setting.factors, level, lattice.values)
    ok = ok & spans_enough(setting.factors, term, level, lattice.values)
    standing = standing_tiles(problem.rules, lattice, setting.whole)
    return ok if standing is None else ok & standing


def _messages(
    setting: _Setting, factors: StructureFactors, term: TensorTerm, levels: tuple[int, int], cut: int = 0
) -> IntArray:
    """Return the messages per load at every tile in a structure with these factors (at least; exact where all places
    are decided). cut: of an instance below so many fan-outs."""
    parent, level = levels
    total = setting.ones * factors.messages(term, parent, level, cut)
    for group in term.groups:
        if group.is_window and any(factors.factor(d, parent, level) > 1 for d in group.dims):
            extent = dict(setting.lattice.extents)
            inner = setting.windows.lattice_below(tuple((dim, extent[dim]) for dim in group.dims))
            extents = tuple(setting.whole[dim] for dim in group.dims)
            crossings = tuple(factors.crossings(dim, parent, level, cut=cut) for dim in group.dims)
            known = setting.windows.messages_below(group.coefficients, extents, inner.extents, crossings)
            total = total * known[setting.windows.tile_index(setting.lattice, inner)]
    return total


@dataclass(frozen=True, slots=True, eq=False)
class _NodeLoads:
    """Of one instance of a node in the whole run, at every tile: elements loaded, elements held.

    stands: where decided places let the node stand (None: everywhere).
    """

    fills: IntArray
    held: IntArray
    stands: NDArray[np.bool_] | None = None


def _plain_loads(setting: _Setting, term: TensorTerm, level: int) -> tuple[IntArray, IntArray]:
    """Return the elements that a node holds, and how often it is filled, for all loops but those over window dims."""
    held, trips, windows = setting.ones, setting.ones, _window_dims(term)
    for dim, _ in setting.lattice.extents:
        if dim not in windows:
            tiles = setting.lattice.values[dim].astype(setting.counts, copy=False)
            trips = trips * (setting.whole[dim] // tiles)
            if dim in term.dims:
                held = held * (tiles * setting.factors.factor(dim, level, setting.problem.level_count))
    return held, trips


def _window_dims(term: TensorTerm) -> list[str]:
    return [dim for group in term.groups if group.is_window for dim in group.dims]


def _node_loads(setting: _Setting, term: TensorTerm, parent: int, level: int) -> _NodeLoads:
    """Return what a node of `level` loads from level `parent`."""
    held, trips = _plain_loads(setting, term, level)
    if not term.is_window:
        return _NodeLoads(held * trips, held)
    seen = tuple(setting.factors.crossings(dim, parent, level) for dim in _window_dims(term))
    fills = _window_model(setting, term, unmerged(seen))
    loads, stands = _window_loads(setting, term, fills)
    size = np.where(stands, fills.overlaps.size[setting.windows.tile_index(setting.lattice, fills.pairs.lattice)], 0)
    return _NodeLoads(held * loads, held * size, stands)


def _node_reads(
    setting: _Setting, factors: StructureFactors, term: TensorTerm, levels: tuple[int, int], loads: _NodeLoads
) -> IntArray:
    """Return the elements read at the parent for one message of a node's siblings, in a structure with these factors:
    equal to those loaded where no fan-out unites."""
    if not term.is_window or not factors.unites(*levels):
        return loads.fills
    seen = tuple(factors.crossings(dim, *levels) for dim in _window_dims(term))
    reads, _ = _window_loads(setting, term, _window_model(setting, term, seen))
    return _plain_loads(setting, term, levels[1])[0] * reads


def _window_model(setting: _Setting, term: TensorTerm, crossings: tuple[tuple[Crossing, ...], ...]) -> WindowModel:
    groups = tuple(group for group in term.groups if group.is_window)
    extents = tuple((dim, setting.whole[dim]) for dim in _window_dims(term))
    return setting.windows.window_model(groups, extents, crossings)


def _window_loads(setting: _Setting, term: TensorTerm, model: WindowModel) -> tuple[IntArray, NDArray[np.bool_]]:
    """Return the loads per element of the plain axes' tile, and where the node can stand (elsewhere the loads are 0):
    loops below the chain's last tile in their best order, then the loops between the chain's tiles, outwards."""
    lattice, context, dims = setting.lattice, setting.context, setting.problem.dims
    windows = dict(model.pairs.lattice.extents)
    plain = [d for d, dim in enumerate(dims) if dim in term.dims and dim not in windows]
    other = [d for d, dim in enumerate(dims) if dim not in term.dims]
    marks = [model.point(dict(zip(dims, tile, strict=True))) for tile in context.tiles]
    repeats, trips = (_iterations(setting, own) for own in (other, plain))
    where = setting.windows.tile_index(lattice, model.pairs.lattice)
    loads, again, feasible = setting.windows.least_loads(model, marks[-1])
    stands = feasible[where]
    first = (loads[where] + (repeats - 1) * again[where]) * trips
    outside = setting.steps // prod(context.tiles[-1])
    if outside == 1:
        return first, stands
    saved = _saved_outside(setting, model, marks, plain, other)
    return first * outside - np.where(stands & (trips == 1), saved[where], 0), stands


def _iterations(setting: _Setting, dims: list[int]) -> IntArray:
    """Return the iterations of loops over these dims inside the chain's last tile, around every tile."""
    total = setting.ones
    for d in dims:
        tiles = setting.lattice.values[setting.problem.dims[d]].astype(setting.counts, copy=False)
        total = total * (setting.context.tiles[-1][d] // tiles)
    return total


def _saved_outside(
    setting: _Setting, model: WindowModel, marks: list[int], plain: list[int], other: list[int]
) -> IntArray:
    """Return the most that overlaps save in the loops between the chain's tiles, per window tile that divides the last
    of these; loops over a plain dim of the tensor change the whole tile, so that nothing is kept outside them."""
    context, saved = setting.context, np.zeros(len(model.overlaps.size), dtype=np.int64)
    for position in range(len(marks) - 1, 0, -1):
        inner, outer = context.tiles[position], context.tiles[position - 1]
        after = prod(context.tiles[0]) // prod(outer)
        trips = prod(outer[d] // inner[d] for d in plain)
        repeat = prod(outer[d] // inner[d] for d in other)
        saved = saved + setting.windows.most_saved(model, marks[position], marks[position - 1], repeat, after * trips)
        if trips > 1:
            break
    return saved


def _read_cost(setting: _Setting, term: TensorTerm, edge: HolderEdge) -> NodeCost:
    levels = edge.parent, edge.level
    loads = _node_loads(setting, term, *levels)
    each = [
        _costs_of_loads(setting, factors, term, levels, loads, _node_reads(setting, factors, term, levels, loads))
        for factors in setting.members.distinct(term, *levels)
    ]
    costs = tuple(reduce(np.minimum, column) for column in zip(*each, strict=True))
    return NodeCost(
        costs if loads.stands is None else _only(setting, loads.stands, costs), loads.held * term.tensor.bits
    )


def _costs_of_loads(
    setting: _Setting,
    factors: StructureFactors,
    term: TensorTerm,
    levels: tuple[int, int],
    loads: _NodeLoads,
    reads: IntArray,
) -> list[Numbers]:
    """Return what a node at levels[1], loaded from levels[0], costs per component in a structure with these factors.
    reads: elements read at the parent for one message."""
    reads = reads * _messages(setting, factors, term, levels)
    found: list[Numbers] = []
    for component, arithmetic in zip(setting.measure.components, setting.arithmetics, strict=True):
        wired = term.is_window and component.wires
        written, read, held = read_weights(factors, term, component, *levels, (lambda _: 0) if wired else None)
        terms = [(loads.fills, written), (reads, read)]
        if wired:
            terms += _window_wires(setting, factors, term, component, levels, loads.fills)
        found.append(arithmetic.sum_of([*terms, (loads.held, held)] if held else terms))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class LoadWeight:
    """What loads of a node of the window tensor cost more where they are more than its table says.

    cost: of component 0, at every tile, per load of an element of the window axes' tile. model: of these loads. loads:
    how many of them the table counts at every tile.
    """

    cost: IntArray
    model: WindowModel
    loads: IntArray


def load_weights(tables: Tables, term: TensorTerm, edge: Edge) -> tuple[LoadWeight, ...]:
    """Return what more loads of a node cost, by tables before any node is placed: those that fill it and those that are
    read at its parent, together where they are as many. In each of a group at least: reads that some of its members
    unite are left out."""
    shared = tables.context, tables.arithmetics, tables.caches
    setting = _setting(tables.problem, (tables.structure, *tables.others), tables.measure, *shared)
    factors, levels = setting.factors, (edge.parent, edge.level)
    seen = tuple(factors.crossings(dim, *levels) for dim in _window_dims(term))
    plain, _ = _plain_loads(setting, term, edge.level)
    united = any(one.unites(*levels) for one in setting.members.each)
    ways = [(plain, plain * int(not united), unmerged(seen))]
    if united and not tables.others:
        ways.append((plain * 0, plain, seen))
    found: list[LoadWeight] = []
    for fills, reads, crossings in ways:
        model, loads = _window_model(setting, term, crossings), _NodeLoads(fills, plain * 0)
        each = [
            _costs_of_loads(setting, one, term, levels, loads, reads)[0]
            for one in setting.members.distinct(term, *levels)
        ]
        found.append(LoadWeight(reduce(np.minimum, each), model, _window_loads(setting, term, model)[0]))
    return tuple(found)


def _window_wires(
    setting: _Setting,
    factors: StructureFactors,
    term: TensorTerm,
    component: Component,
    levels: tuple[int, int],
    fills: IntArray,
) -> list[tuple[IntArray, int]]:
    """Return the terms of what crosses the fan-outs between two levels, of a tensor that is read through windows."""
    weights = node_weights(setting.problem, term, component, levels[0], levels[1:])
    return [
        (fills * _messages(setting, factors, term, levels, cut), price * factors.above(cut))
        for cut, price in weights.crossings()
    ]


def _read_final(setting: _Setting, term: TensorTerm, holder: int) -> tuple[int, ...]:
    last = setting.problem.level_count
    each = [
        _reads_by_statement(setting, factors, term, holder) for factors in setting.members.distinct(term, holder, last)
    ]
    return tuple(map(min, zip(*each, strict=True)))


def _reads_by_statement(setting: _Setting, factors: StructureFactors, term: TensorTerm, holder: int) -> tuple[int, ...]:
    last = setting.problem.level_count

    def messages_below(cut: int) -> int:
        found = factors.messages(term, holder, last, cut)
        for group in term.groups:
            if group.is_window:
                extents, ones = tuple(setting.whole[dim] for dim in group.dims), (1,) * len(group.dims)
                seen = tuple(factors.crossings(dim, holder, last, cut=cut) for dim in group.dims)
                found *= setting.windows.least_messages(group.coefficients, extents, ones, seen)
        return found

    messages = factors.messages(term, holder, last)
    for group in term.groups:
        if group.is_window:
            extents, ones = tuple(setting.whole[dim] for dim in group.dims), (1,) * len(group.dims)
            crossings = tuple(factors.crossings(dim, holder, last) for dim in group.dims)
            messages *= setting.windows.least_messages(group.coefficients, extents, ones, crossings)
            messages *= setting.windows.least_union(group.coefficients, extents, ones, crossings)
    components = setting.measure.components
    weights = [read_weights(factors, term, component, holder, last, messages_below) for component in components]
    return tuple((read * messages + crossing) * setting.steps for crossing, read, _ in weights)


def _output_cost(setting: _Setting, term: TensorTerm, edge: HolderEdge) -> NodeCost:
    levels = edge.parent, edge.level
    node, distinct = _node_loads(setting, term, *levels), tuple(setting.members.distinct(term, *levels))
    costs: list[Numbers] = []
    for component, arithmetic in zip(setting.measure.components, setting.arithmetics, strict=True):
        each: list[Numbers] = []
        for factors in distinct:
            terms, credit = update_terms(factors, term, component, levels, edge.levels, node.fills)
            if component.held:
                terms.append((node.held, component.held[edge.level][term.index]))
            each.append(arithmetic.plus(arithmetic.sum_of(terms), -credit))
        costs.append(reduce(np.minimum, each))
    return NodeCost(tuple(costs), node.held * term.tensor.bits)


def _output_final(setting: _Setting, term: TensorTerm, holder: int) -> tuple[int, ...]:
    each = setting.members.distinct(term, holder, setting.problem.level_count)
    return tuple(
        min(update_end(factors, term, component, holder, setting.steps) for factors in each)
        for component in setting.measure.components
    )
