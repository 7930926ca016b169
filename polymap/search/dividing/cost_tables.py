"""Cost tables of one structure: what each storage node would add, as a function of its temporal tile.

Per tensor the graph of its holder states (problem/holding.py); an edge places one node. An edge's costs are arrays over
the lattice, one per component of the objective, all integers.
The formulas are those of docs/closed_form.md for tiles that divide, with nodes raised over loops that do not change
their tile; for tensors read through windows they are lower bounds (window_paths.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial, reduce
from math import lcm, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymap.ir import Multicast
from polymap.poly import INT64, Arithmetic, Kind, Numbers, arithmetic_for, count_type
from polymap.resources import SearchCaches, never
from polymap.search.dividing.node_costs import (
    AlikeMembers,
    Context,
    Members,
    Places,
    SpatialFactors,
    StackedMembers,
    StructureFactors,
    covers_intrinsics,
    read_weights,
    root_context,
    spans_enough,
    update_end,
    update_weight,
)
from polymap.search.dividing.window_paths import GroupCrossing, WindowCounts, WindowModel, forget_merging, window_counts
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
    restrict_table,
    standing_tiles,
    zero_start,
)

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
    """The holder states of one tensor; what its edges cost, in order; and of a state per component what the statement
    instances read and write there, where the tensor may stay, worked out when it is first asked for."""

    term: TensorTerm
    graph: HolderGraph
    edges: tuple[Edge, ...]
    end: Callable[[int], tuple[int, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Everything that the bound of one structure needs. start: cost present before any node, per component;
    arithmetics: how each component's costs are kept; stop: tells long steps whether a limit is reached; caches: of the
    search; only: the joint states that chains may be in (None: any), those on no chain that may win left out;
    others: structures of its group, of all of which these are the least costs; alone: the tables of it and of each of
    these, all places of spatial loops open; tops: of groups side by side (stacked_tables), the point of the lattice
    from which the tiles of each go down."""

    problem: Problem
    structure: Structure
    members: Members
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
    others: tuple[Structure, ...] = ()
    alone: Callable[[], tuple[Tables, ...]] = tuple
    tops: tuple[tuple[int, ...], ...] = ()

    @property
    def factors(self) -> StructureFactors:
        """Return the factors of the structure."""
        return self.members.each[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of costs at every tile."""
        return (len(self.tops), *self.lattice.shape) if self.tops else self.lattice.shape


def _setting_of(tables: Tables, context: Context, members: Members) -> _Setting:
    """Return the setting of tables in another context."""
    shared = context, tables.arithmetics, tables.caches
    return _setting(tables.problem, members, tables.measure, *shared)


@dataclass(frozen=True, slots=True, eq=False)
class _Setting:
    """What the tables of all tensors share. whole: temporal extents per dim; steps: their product; counts: the dtype of
    counts; arithmetics: how each component's costs are kept; windows: counts of what is read through windows.

    members: the structures that the tables are of; factors: of the first of these; shared: those between two levels,
    equal for all. Of groups side by side, extents that differ, steps and shared are arrays [group, 1, ...].
    """

    problem: Problem
    measure: Measure
    lattice: Lattice
    factors: StructureFactors
    shared: SpatialFactors[Any]
    members: Members
    context: Context
    whole: dict[str, Any]
    steps: Any
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
    members: Members,
    measure: Measure,
    context: Context,
    arithmetics: tuple[Arithmetic, ...],
    caches: SearchCaches,
    extents: tuple[int, ...] | None = None,
) -> _Setting:
    """Return the setting of tables below some extents (None: the last tile of the context)."""
    whole = dict(zip(problem.dims, context.tiles[0], strict=True))
    lattice = caches.memo(lattice_below)(tuple(zip(problem.dims, extents or context.tiles[-1], strict=True)))
    counts = count_type(most_counted(problem.workload))
    steps, windows = prod(whole.values()), window_counts(caches)
    own = members.each[0], members.shared, members
    return _Setting(problem, measure, lattice, *own, context, whole, steps, counts, arithmetics, windows)


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
    members = Members(StructureFactors(problem, one, context.places) for one in (structure, *others))
    setting = _setting(problem, members, measure, context, arithmetics, caches)
    tensors = tuple(_tensor_table(setting, term) for term in problem.terms)
    start = tuple(sum(zero_start(term, component) for term in problem.terms) for component in measure.components)
    cycles = -(-setting.steps // problem.arch.compute.per_cycle)
    shared = problem, structure, members, measure, context, setting.lattice

    @cache
    def alone() -> tuple[Tables, ...]:
        root = replace(context, places=())
        return tuple(build_tables(problem, one, measure, root, stop, caches) for one in (structure, *others))

    return Tables(*shared, tensors, start, cycles, arithmetics, stop, caches, only, others=others, alone=alone)


def stacked_tables(
    problem: Problem,
    groups: Sequence[Sequence[Structure]],
    measure: Measure,
    stop: Callable[[], bool],
    caches: SearchCaches,
) -> Tables:
    """Return the tables of several groups side by side, no node placed: arrays [group, *lattice].

    All groups spread the window dims alike between the same levels, and costs are in 63 bits. The lattice is below the
    least common multiples of their extents; what is said of tiles that do not divide a group's own means nothing.
    """
    first = groups[0][0]
    tiles = [root_context(problem, own[0]).tiles[0] for own in groups]
    extents = tuple(lcm(*own) for own in zip(*tiles, strict=True))
    lattice = caches.memo(lattice_below)(tuple(zip(problem.dims, extents, strict=True)))
    column = (-1, *(1,) * len(lattice.shape))
    whole: tuple[Any, ...] = tuple(
        own[0] if len(set(own)) == 1 else np.array(own, dtype=np.int64).reshape(column)
        for own in zip(*tiles, strict=True)
    )
    numbers = np.repeat(np.arange(len(groups)), [len(own) for own in groups])
    members = StackedMembers(
        (StructureFactors(problem, one) for own in groups for one in own), numbers, len(lattice.shape)
    )
    context, arithmetics = Context((whole,), ()), tuple(arithmetic_of(problem, c) for c in measure.components)
    setting = _setting(problem, members, measure, context, arithmetics, caches, extents)
    tensors = tuple(_tensor_table(setting, term) for term in problem.terms)
    start = tuple(sum(zero_start(term, component) for term in problem.terms) for component in measure.components)
    tops = tuple(lattice.index(dict(zip(problem.dims, tile, strict=True))) for tile in tiles)
    shared = problem, first, members, measure, context, lattice
    return Tables(*shared, tensors, start, 0, arithmetics, stop, caches, tops=tops)


def tree_tables(problem: Problem, structure: Structure, measure: Measure) -> Tables:
    """Return tables without costs: all that the tree of a chain asks for where no tensor is read through windows."""
    context, members = root_context(problem, structure), Members((StructureFactors(problem, structure),))
    start = tuple(sum(zero_start(term, component) for term in problem.terms) for component in measure.components)
    cycles = -(-prod(context.tiles[0]) // problem.arch.compute.per_cycle)
    shared = problem, structure, members, measure, context, lattice_below(())
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
    setting = _setting_of(tables, context, tables.members)
    lattice = setting.lattice
    found = tuple(
        replace(table, edges=_edges(setting, table.term, table.graph))
        if table.term.is_window
        else _table_below(table, tables.lattice, lattice)
        for table in tables.tensors
    )
    return replace(tables, context=context, lattice=lattice, tensors=found)


def tables_at(tables: Tables, places: Places) -> Tables:
    """Return the tables with the spatial loops at some places, before any node is placed.

    What a node costs depends on them only for a tensor that is read through windows; where it may stand does for all.
    """
    if not places:
        return tables
    context, members = replace(tables.context, places=places), tables.members.placed(places)
    setting = _setting_of(tables, context, members)
    found = tuple(
        _tensor_table(setting, table.term) if table.term.is_window else _table_standing(setting, table)
        for table in tables.tensors
    )
    return replace(tables, context=context, members=members, tensors=found)


def _table_standing(setting: _Setting, table: TensorTable) -> TensorTable:
    """Return the table, infeasible where places do not let nodes stand."""

    def placed(edge: Edge) -> Edge:
        def cost() -> NodeCost:
            return replace(edge.cost, costs=_standing_costs(setting, table.term, edge.level, edge.cost.costs))

        return Edge(edge, cost)

    return replace(table, edges=tuple(map(placed, table.edges)))


def _table_below(table: TensorTable, outer: Lattice, inner: Lattice) -> TensorTable:
    """Return the table for the tiles of a lattice inside its own."""

    def below(cost: NodeCost) -> NodeCost:
        return NodeCost(
            tuple(restrict_table(one, outer, inner) for one in cost.costs), restrict_table(cost.bits, outer, inner)
        )

    def lowered(edge: Edge) -> Edge:
        return Edge(edge, lambda: below(edge.cost))

    return replace(table, edges=tuple(map(lowered, table.edges)))


def _tensor_table(setting: _Setting, term: TensorTerm) -> TensorTable:
    graph = holder_graph(term, setting.problem.level_count)
    end_of = _output_final if term.is_output else _read_final

    @cache
    def end(state: int) -> tuple[int, ...]:
        return end_of(setting, term, graph.levels[state])

    return TensorTable(term, graph, _edges(setting, term, graph), end)


def _edges(setting: _Setting, term: TensorTerm, graph: HolderGraph) -> tuple[Edge, ...]:
    cost_of = _output_cost if term.is_output else _read_cost

    def begun(edge: HolderEdge) -> Edge:
        def cost() -> NodeCost:
            found = cost_of(setting, term, edge)
            return replace(found, costs=_standing_costs(setting, term, edge.level, found.costs))

        return Edge(edge, cost)

    return tuple(map(begun, graph.edges))


def _standing_costs(setting: _Setting, term: TensorTerm, level: int, costs: tuple[Numbers, ...]) -> tuple[Numbers, ...]:
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
        for place in setting.context.places:
            if place.below == group and place.dim in term.dims:
                tile, own = setting.lattice.values[place.dim], place.inside
                outside, inside = outside & (own % tile == 0), inside & (tile % own == 0)
        if group <= level:
            ok = ok & outside
        elif term.is_window:
            ok = ok & (outside | inside)
    if setting.problem.rules:
        ok = ok & _allowed_by_rules(setting, term, level)
    return costs if ok.all() else _costs_where(setting, ok, costs)


def _costs_where(setting: _Setting, ok: NDArray[np.bool_], costs: tuple[Numbers, ...]) -> tuple[Numbers, ...]:
    """Return the costs, infeasible where not `ok`."""
    return tuple(arithmetic.where(ok, cost) for arithmetic, cost in zip(setting.arithmetics, costs, strict=True))


def _allowed_by_rules(setting: _Setting, term: TensorTerm, level: int) -> NDArray[np.bool_]:
    """Return where the rules let a node of a tensor in a level stand."""
    problem, lattice, ok = setting.problem, setting.lattice, setting.everywhere
    ok = ok & covers_intrinsics(setting.factors, level, lattice.values)
    ok = ok & spans_enough(setting.factors, term, level, lattice.values)
    standing = standing_tiles(problem.rules, lattice, setting.whole)
    return ok if standing is None else ok & standing


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
    held, trips, windows = setting.ones, setting.ones, term.window_dims
    for dim, _ in setting.lattice.extents:
        if dim not in windows:
            tiles = setting.lattice.values[dim].astype(setting.counts, copy=False)
            trips = trips * (setting.whole[dim] // tiles)
            if dim in term.dims:
                held = held * (tiles * setting.shared.factor(dim, level, setting.problem.level_count))
    return held, trips


def _node_loads(setting: _Setting, term: TensorTerm, parent: int, level: int) -> _NodeLoads:
    """Return what a node of `level` loads from level `parent`."""
    held, trips = _plain_loads(setting, term, level)
    if not term.is_window:
        return _NodeLoads(held * trips, held)
    seen = tuple(setting.factors.crossings(dim, parent, level) for dim in term.window_dims)
    fills = _window_model(setting, term, forget_merging(seen))
    loads, stands = _window_loads(setting, term, fills)
    size = np.where(stands, fills.overlaps.size[setting.windows.tile_index(setting.lattice, fills.pairs.lattice)], 0)
    return _NodeLoads(held * loads, held * size, stands)


def _window_model(setting: _Setting, term: TensorTerm, crossings: tuple[tuple[GroupCrossing, ...], ...]) -> WindowModel:
    groups = tuple(group for group in term.groups if group.is_window)
    extents = tuple((dim, setting.whole[dim]) for dim in term.window_dims)
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
    outside = 1 if len(context.tiles) == 1 else setting.steps // prod(context.tiles[-1])
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

    def reads_of(factors: StructureFactors) -> IntArray:
        if not factors.unites(term.window_dims, *levels):
            return loads.fills  # those of one message are those of one sibling
        seen = tuple(factors.crossings(dim, *levels) for dim in term.window_dims)
        reads, _ = _window_loads(setting, term, _window_model(setting, term, seen))
        return _plain_loads(setting, term, edge.level)[0] * reads

    costs = _costs_of_loads(setting, term, levels, loads, reads_of)
    return NodeCost(
        costs if loads.stands is None else _costs_where(setting, loads.stands, costs), loads.held * term.tensor.bits
    )


def _costs_of_loads(
    setting: _Setting,
    term: TensorTerm,
    levels: tuple[int, int],
    loads: _NodeLoads,
    reads_of: Callable[[StructureFactors], IntArray],
) -> tuple[Numbers, ...]:
    """Return what a node at levels[1], loaded from levels[0], costs per component: the least over the members.
    reads_of: elements read at the parent for one message of siblings."""
    components, found = setting.measure.components, list[list[Numbers]]()
    units = _costs_per_load(setting, term, levels) if len(setting.context.tiles) > 1 else None
    if units is not None:
        held = [one.held[levels[1]][term.index] if one.held else 0 for one in components]
        return tuple(loads.fills * unit + loads.held * weight for unit, weight in zip(units, held, strict=True))
    for kind in setting.members.kinds(term, *levels):
        messages, reads = _messages_of(setting, kind.first, term, levels), reads_of(kind.first)
        each = zip(components, setting.arithmetics, strict=True)
        found.append([_least_of_loads(kind, term, levels, one, loads, reads, messages) for one in each])
    return tuple(reduce(np.minimum, column) for column in zip(*found, strict=True))


def _costs_per_load(setting: _Setting, term: TensorTerm, levels: tuple[int, int]) -> tuple[IntArray, ...] | None:
    """Return what a node costs per load at every tile, per component: it depends on no tile further out, so it is
    worked out once for all tables below (None: some members unite loads, or numbers are long)."""
    known, asked = setting.members.per_load, (term.index, *levels)
    if asked not in known:
        known[asked] = None
        is_narrow = all(one.kind is Kind.NARROW for one in setting.arithmetics)
        if is_narrow and not any(one.unites(term.window_dims, *levels) for one in setting.members.each):
            lattice = setting.windows.lattice_below(tuple(setting.whole.items()))
            root = replace(setting, lattice=lattice, context=replace(setting.context, tiles=setting.context.tiles[:1]))
            one = _NodeLoads(root.ones, root.ones * 0)
            costs = _costs_of_loads(root, term, levels, one, lambda _: one.fills)
            known[asked] = lattice, costs
    found = known[asked]
    return None if found is None else tuple(restrict_table(cost, found[0], setting.lattice) for cost in found[1])


def _messages_of(
    setting: _Setting, factors: StructureFactors, term: TensorTerm, levels: tuple[int, int]
) -> Callable[[int], IntArray | None]:
    """Return a function of the number of outer fan-outs: messages along window dims per load of siblings, at every
    tile, to an instance below these (at least; exact where all places are decided); None where loads are equal."""

    @cache
    def messages(cut: int) -> IntArray | None:
        total: IntArray | None = None
        for group in term.groups if term.is_window else ():
            crossings = tuple(factors.crossings(dim, *levels, cut=cut) for dim in group.dims if group.is_window)
            if any(merge is Multicast.IDENTICAL for own in crossings for one in own for _, merge in one.orders[0]):
                extent = dict(setting.lattice.extents)
                inner = setting.windows.lattice_below(tuple((dim, extent[dim]) for dim in group.dims))
                extents = tuple(setting.whole[dim] for dim in group.dims)
                known = setting.windows.messages_below(group.coefficients, extents, inner.extents, crossings)
                along = known[setting.windows.tile_index(setting.lattice, inner)]
                total = along if total is None else total * along
        return total

    return messages


def _least_of_loads(
    kind: AlikeMembers,
    term: TensorTerm,
    levels: tuple[int, int],
    component: tuple[Component, Arithmetic],
    loads: _NodeLoads,
    reads: IntArray,
    messages: Callable[[int], IntArray | None],
) -> Numbers:
    """Return the least cost over members whose window dims are spread alike. Counts are equal in them: one weight of
    each count per member, so that those count whose weights no other's cover."""
    weights = [read_weights(factors, term, component[0], *levels) for factors in kind.each]
    counts, own = [loads.fills], [[one.fill] for one in weights]
    for place, cut in enumerate((0, *(cut for cut, _ in weights[0].sent))):
        shared, elements = messages(cut), loads.fills if place else reads
        several = [one.sent[place - 1][1] if place else one.read for one in weights]
        if shared is None and elements is loads.fills:
            own = [[first + more, *rest] for (first, *rest), more in zip(own, several, strict=True)]
        else:
            counts.append(elements if shared is None else elements * shared)
            own = [[*first, more] for first, more in zip(own, several, strict=True)]
    held = [(loads.held, weights[0].held)] if weights[0].held else []
    each = (component[1].sum_of([*zip(counts, one, strict=True), *held]) for one in kind.uncovered(own))
    return kind.among(component[1], reduce(np.minimum, each))


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
    setting = _setting_of(tables, tables.context, tables.members)
    factors, levels = setting.factors, (edge.parent, edge.level)
    seen = tuple(factors.crossings(dim, *levels) for dim in term.window_dims)
    plain, _ = _plain_loads(setting, term, edge.level)
    united = any(one.unites(term.window_dims, *levels) for one in setting.members.each)
    ways = [(plain, plain * int(not united), forget_merging(seen))]
    if united and not tables.others:
        ways.append((plain * 0, plain, seen))
    found: list[LoadWeight] = []
    for fills, reads, crossings in ways:
        model, loads = _window_model(setting, term, crossings), _NodeLoads(fills, plain * 0)
        costs = _costs_of_loads(setting, term, levels, loads, lambda _, reads=reads: reads)
        found.append(LoadWeight(costs[0], model, _window_loads(setting, term, model)[0]))
    return tuple(found)


def _read_final(setting: _Setting, term: TensorTerm, holder: int) -> tuple[int, ...]:
    levels, windows = (holder, setting.problem.level_count), setting.windows
    found: list[list[Any]] = []
    for kind in setting.members.kinds(term, *levels):
        along = partial(_least_along, setting, kind.first, term, levels)
        elements, messages = along(windows.least_union, 0), cache(partial(along, windows.least_messages))
        weights = [
            [read_weights(one, term, component, *levels) for one in kind.each]
            for component in setting.measure.components
        ]
        found.append(
            [
                kind.least(
                    messages(0) * elements * one.read + sum(messages(cut) * weight for cut, weight in one.sent)
                    for one in own
                )
                for own in weights
            ]
        )
    return tuple(_least_value(column) * setting.steps for column in zip(*found, strict=True))


def _least_value(values: tuple[Any, ...]) -> Any:
    """Return the least of integers, or of arrays of them."""
    return values[0] if len(values) == 1 else min(values) if isinstance(values[0], int) else reduce(np.minimum, values)


def _least_along(
    setting: _Setting,
    factors: StructureFactors,
    term: TensorTerm,
    levels: tuple[int, int],
    count: Callable[..., int],
    cut: int,
) -> int:
    """Return a count of what statement instances load along window dims in one step, to below so many fan-outs."""
    found = 1
    for group in term.groups:
        crossings = tuple(factors.crossings(dim, *levels, cut=cut) for dim in group.dims)
        if group.is_window and any(crossings):
            extents, ones = tuple(setting.whole[dim] for dim in group.dims), (1,) * len(group.dims)
            found *= count(group.coefficients, extents, ones, crossings)
    return found


def _output_cost(setting: _Setting, term: TensorTerm, edge: HolderEdge) -> NodeCost:
    levels = edge.parent, edge.level
    node, (kind,) = _node_loads(setting, term, *levels), setting.members.kinds(term, *levels)
    costs: list[Numbers] = []
    for component, arithmetic in zip(setting.measure.components, setting.arithmetics, strict=True):
        held = [(node.held, component.held[edge.level][term.index])] if component.held else []
        each = [update_weight(factors, term, component, levels, edge.levels) for factors in kind.each]
        weight = kind.least(weight for weight, _ in each)
        credit = kind.least(credit for _, credit in each)  # equal in all members
        costs.append(arithmetic.plus(arithmetic.sum_of([(node.fills, weight), *held]), -credit))
    return NodeCost(tuple(costs), node.held * term.tensor.bits)


def _output_final(setting: _Setting, term: TensorTerm, holder: int) -> tuple[int, ...]:
    (kind,) = setting.members.kinds(term, holder, setting.problem.level_count)
    return tuple(
        kind.least(update_end(factors, term, component, holder, 1) for factors in kind.each) * setting.steps
        for component in setting.measure.components
    )
