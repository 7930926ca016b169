"""The least cost of a structure without joint capacities: one backward pass over holder states and the lattice.

A mapping is a chain of tiles N >= T1 >= T2 >= ... with one storage node per entry. inside[s][T] is the least cost of
everything below tile T if state s says which level holds each tensor. The recursion places a node at T, or moves to a
smaller tile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from polymap.poly import Arithmetic, Numbers
from polymap.resources import OutOfTime
from polymap.search.dividing.cost_tables import Edge, NodeCost, State, Tables
from polymap.search.dividing.tuning import TUNING
from polymap.search.problem import Lattice, minimum_above, minimum_below, restrict_table


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """Least costs inside.

    reach: per joint state, the minimum over the tile and all tiles that divide it. costs: of each node, priced, by
    (tensor, number of its edge). arithmetic: of all these numbers. lattice: the tiles.
    """

    reach: dict[State, Numbers]
    costs: dict[tuple[int, int], Numbers]
    arithmetic: Arithmetic
    lattice: Lattice


@dataclass(frozen=True, slots=True)
class Multipliers:
    """Lagrange multipliers of capacities, in 1/unit of component 0. per_level: per bit held (empty: no prices).
    allowance: the sum of price x capacity."""

    per_level: tuple[int, ...] = ()
    unit: int = 1
    allowance: int = 0

    def price(self, level: int) -> int:
        """Return the price of a bit held in a level."""
        return self.per_level[level] if self.per_level else 0

    def spent(self, used: tuple[int, ...]) -> int:
        """Return the price of bits per level."""
        return sum(price * bits for price, bits in zip(self.per_level, used, strict=False))


FREE = Multipliers()


@dataclass(frozen=True, slots=True)
class Move:
    """A node that may be placed next in a joint state.

    tensor, edge: its tensor and the number of its edge. after: the next state.
    """

    tensor: int
    edge: int
    after: State

    @property
    def key(self) -> tuple[int, int]:
        """The key of the node's cost in `Inside.costs`."""
        return self.tensor, self.edge

    def edge_of(self, tables: Tables) -> Edge:
        return tables.tensors[self.tensor].edges[self.edge]

    def cost(self, tables: Tables) -> NodeCost:
        """Return the node's own cost."""
        return self.edge_of(tables).cost


@dataclass(frozen=True, slots=True)
class StateGraph:
    """Joint states in layers, each after all layers that its moves lead to; moves per state."""

    layers: tuple[tuple[State, ...], ...]
    moves: Mapping[State, tuple[Move, ...]]


def graph_of(tables: Tables) -> StateGraph:
    """Return the joint states of the tables, of those that chains may be in."""
    return tables.caches.memo(_graph, 1024)(
        tuple(tuple((e.source, e.target) for e in table.edges) for table in tables.tensors),
        tuple(len(table.graph.levels) for table in tables.tensors),
        tuple(table.graph.first for table in tables.tensors),
        tables.only,
    )


def _graph(
    edges: tuple[tuple[tuple[int, int], ...], ...],
    counts: tuple[int, ...],
    first: tuple[tuple[int, ...], ...],
    only: frozenset[State] | None,
) -> StateGraph:
    depths = [_depths(own, count) for own, count in zip(edges, counts, strict=True)]
    layers: dict[int, list[State]] = {}
    moves: dict[State, tuple[Move, ...]] = {}
    for state in product(*map(_reachable_states, edges, first)):
        if only is not None and state not in only:
            continue
        layers.setdefault(sum(depth[s] for depth, s in zip(depths, state, strict=True)), []).append(state)
        every = (
            Move(tensor, number, _state_after(state, tensor, target))
            for tensor, own in enumerate(edges)
            for number, (source, target) in enumerate(own)
            if source == state[tensor]
        )
        moves[state] = tuple(move for move in every if only is None or move.after in only)
    return StateGraph(tuple(tuple(layers[depth]) for depth in sorted(layers)), moves)


def _state_after(state: State, tensor: int, target: int) -> State:
    return (*state[:tensor], target, *state[tensor + 1 :])


def _reachable_states(edges: tuple[tuple[int, int], ...], first: tuple[int, ...]) -> list[int]:
    """Return the states of one tensor that nodes lead to from the first ones, in order."""
    found = set(first)
    while more := {target for source, target in edges if source in found} - found:
        found |= more
    return sorted(found)


def _depths(edges: tuple[tuple[int, int], ...], count: int) -> list[int]:
    depth = [0] * count
    for _ in range(count):
        for source, target in edges:
            depth[source] = max(depth[source], depth[target] + 1)
    return depth


def final_cost(tables: Tables, state: State, component: int) -> int | None:
    """Return the cost of the statement instances in a state (None: some tensor may not remain there)."""
    own = list(zip(tables.tensors, state, strict=True))
    if not all(table.graph.final[s] for table, s in own):
        return None
    return sum(table.end(s)[component] for table, s in own)


def first_states(tables: Tables) -> tuple[State, ...]:
    """Return the states before any node: outputs may start with any plan of levels to come."""
    every = product(*(table.graph.first for table in tables.tensors))
    return tuple(state for state in every if tables.only is None or state in tables.only)


def costs_inside(
    tables: Tables,
    component: int,
    multipliers: Multipliers,
    only: frozenset[State] | None = None,
    above: Inside | None = None,
) -> Inside:
    """Return the least costs inside for one component x unit, plus the prices of the multipliers.

    A node that alone exceeds its level's capacity is never placed. only: the states to bound (None: all). above: the
    least costs inside by the tables that these are below, of which all that follows no node of a window tensor is kept.
    Raises OutOfTime where the tables are large.
    """
    graph, shape, arithmetic = graph_of(tables), tables.shape, tables.arithmetics[component]
    costs: dict[tuple[int, int], Numbers] = {}
    reach: dict[State, Numbers] = {}
    if above is not None:
        costs, reach = _kept_below(tables, above, only)
    for layer in graph.layers:
        states = [state for state in layer if state not in reach and (only is None or state in only)]
        if not states:
            continue
        block: Numbers = np.empty((len(states), *shape), dtype=arithmetic.dtype)
        for row, state in enumerate(states):
            if block.size > TUNING.long_table and tables.stop():
                raise OutOfTime
            end = priced_final(tables, state, component, multipliers)
            block[row] = arithmetic.never if end is None else arithmetic.scalar(end)
            for move in graph.moves[state]:
                if move.key not in costs:
                    costs[move.key] = priced_cost(tables, move, component, multipliers)
                here = block[row, ...]  # a view also where every loop is spatial and the lattice has no axis
                np.minimum(here, arithmetic.plus(costs[move.key], reach[move.after]), out=here)
            reach[state] = block[row, ...]
        minimum_below(block.reshape(-1, *tables.lattice.shape))
        arithmetic.clip(block)
    return Inside(reach, costs, arithmetic, tables.lattice)


def _kept_below(
    tables: Tables, above: Inside, only: frozenset[State] | None
) -> tuple[dict[tuple[int, int], Numbers], dict[State, Numbers]]:
    """Return the costs of nodes, and the least costs inside, that are those of the tables above, at fewer tiles: they
    depend on the chain above them only where a node of a window tensor may follow."""
    windows = [number for number, table in enumerate(tables.tensors) if table.term.is_window]
    changing = {(number, edge.source) for number in windows for edge in tables.tensors[number].edges}
    costs = {
        key: restrict_table(cost, above.lattice, tables.lattice)
        for key, cost in above.costs.items()
        if key[0] not in windows
    }
    reach = {
        state: restrict_table(least, above.lattice, tables.lattice)
        for state, least in above.reach.items()
        if (only is None or state in only) and not any((number, state[number]) in changing for number in windows)
    }
    return costs, reach


def priced_final(tables: Tables, state: State, component: int, multipliers: Multipliers) -> int | None:
    """Return final_cost x unit."""
    end = final_cost(tables, state, component)
    return None if end is None else end * multipliers.unit


def priced_cost(tables: Tables, move: Move, component: int, multipliers: Multipliers) -> Numbers:
    """Return the node's cost x unit plus the prices of the multipliers; infeasible where it does not fit."""
    arithmetic, edge, node = tables.arithmetics[component], move.edge_of(tables), move.cost(tables)
    cost, bits = node.costs[component], node.bits
    capacity = usable_bits(tables, edge.level)
    allowed = arithmetic.possible(cost)
    if capacity is not None:
        allowed = allowed & np.asarray(bits <= capacity, dtype=np.bool_)
    total = cost if multipliers.unit == 1 else np.where(allowed, cost, 0) * multipliers.unit
    if price := multipliers.price(edge.level):
        total = arithmetic.plus(total, arithmetic.sum_of([(bits, price)]))
    return arithmetic.where(allowed, total)


def usable_bits(tables: Tables, level: int) -> int | None:
    """Return the capacity available to tiles (None: unlimited)."""
    return tables.problem.arch.levels[level].usable_bits


def shared_levels(tables: Tables) -> tuple[int, ...]:
    """Return the levels with a capacity that more than one tensor may use."""
    problem = tables.problem
    return tuple(
        level
        for level in range(1, problem.level_count)
        if usable_bits(tables, level) is not None and sum(level in term.may_hold for term in problem.terms) > 1
    )


def root_bound(tables: Tables, inside: Inside) -> tuple[int | None, State]:
    """Return the least cost from the top over all first states (None: nothing fits), and a state that attains it."""
    found: list[tuple[int, State]] = []
    for state in first_states(tables):
        cost = least_from(tables, inside, state)
        if cost is not None:
            found.append((cost, state))
    return min(found, default=(None, next(iter(first_states(tables)), ())))


def root_bounds(tables: Tables, inside: Inside) -> list[int | None]:
    """Return what `root_bound` says of each of several groups side by side."""
    at = np.arange(len(tables.tops)), *np.array(tables.tops, dtype=np.int64).T
    column = [inside.reach[state][at] for state in first_states(tables)]
    return [inside.arithmetic.number(entry) for entry in np.min(column, axis=0)]


def least_from(tables: Tables, inside: Inside, state: State) -> int | None:
    """Return the least cost from the top in a state (None: nothing fits)."""
    return inside.arithmetic.number(inside.reach[state][tables.lattice.top])


def winning_states(tables: Tables, inside: Inside, most: int) -> frozenset[State]:
    """Return the joint states that are on a chain of a cost inside of at most `most`, in the units of the multipliers.

    The chains so far are least costs, too: from the top, over all tiles that a tile divides.
    """
    graph, arithmetic, shape = graph_of(tables), inside.arithmetic, tables.lattice.shape
    outside: dict[State, Numbers] = {}
    start: Numbers = np.empty(shape, dtype=arithmetic.dtype)
    start[...] = arithmetic.never
    start[tables.lattice.top] = arithmetic.scalar(0)
    for state in first_states(tables):
        outside[state] = start
    found: set[State] = set()
    for layer in reversed(graph.layers):
        for state in layer:
            if state not in outside:
                continue
            so_far = minimum_above(outside[state])
            arithmetic.clip(so_far)
            if not _is_at_most(arithmetic, arithmetic.plus(so_far, inside.reach[state]), most):
                continue
            found.add(state)
            for move in graph.moves[state]:
                placed = arithmetic.plus(so_far, inside.costs[move.key])
                known = outside.get(move.after)
                outside[move.after] = placed if known is None else np.minimum(known, placed)
    return frozenset(found)


def _is_at_most(arithmetic: Arithmetic, costs: Numbers, most: int) -> bool:
    return bool(np.any(arithmetic.possible(costs) & np.asarray(costs <= arithmetic.scalar(most), dtype=np.bool_)))


def reach_from(tables: Tables, state: State) -> frozenset[State]:
    """Return the joint states that can follow `state`, itself included."""
    moves = graph_of(tables).moves
    found = {state}
    todo = [state]
    while todo:
        for move in moves[todo.pop()]:
            if move.after not in found:
                found.add(move.after)
                todo.append(move.after)
    return frozenset(found)
