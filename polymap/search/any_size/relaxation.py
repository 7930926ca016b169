"""The bound over mappings with tiles of any size: least costs over all chains, by dynamic programming on cells.

A chain is a sequence of storage nodes, outermost first, in which no tile is larger than the one before in any dim.
Capacities enter through Lagrange multipliers on the bits held, so that nodes do not compete for room: the least cost
inside a tile is a minimum over the next node plus the least cost inside its tile, one pass per joint state (which level
holds each tensor), with running minima along the axes. Derivation: docs/any_tiles.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from polymap.arithmetic import FloatArray
from polymap.search.any_size.node_costs import CostTables
from polymap.search.resources import OutOfTime, never

State = tuple[int, ...]
States = tuple[tuple[State, tuple[tuple[int, int, State], ...]], ...]  # each with its moves: tensor, edge, state after
Moves = frozenset[tuple[State, int, int]]  # joint states with a tensor and its edge
# Relative; the floats are sums of some ten terms, each a product of about as many factors: true to 1e-14.
MARGIN = 1e-10


@dataclass(frozen=True, slots=True)
class ChainNode:
    """A node of a chain: tensor number, level, the unit in which its tile is measured, and its cell per dim."""

    tensor: int
    level: int
    unit: int
    cell: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RelaxedChain:
    """The least cost over all chains at some multipliers (per level, per bit), less multipliers x capacities and less a
    margin for rounding; a chain of that cost, and the bits it holds beyond capacity per level (negative: free)."""

    cost: float
    chain: tuple[ChainNode, ...]
    excess: tuple[float, ...]


def _joint_graph(edges: tuple[tuple[tuple[int, int], ...], ...], counts: tuple[int, ...]) -> States:
    """Return the joint states, innermost first, with their moves (tensor, edge, state after)."""
    depths = [_depths(own, count) for own, count in zip(edges, counts, strict=True)]
    found: list[tuple[int, State, tuple[tuple[int, int, State], ...]]] = []
    for state in product(*(range(count) for count in counts)):
        moves = tuple(
            (tensor, number, (*state[:tensor], target, *state[tensor + 1 :]))
            for tensor, own in enumerate(edges)
            for number, (source, target) in enumerate(own)
            if source == state[tensor]
        )
        found.append((sum(d[s] for d, s in zip(depths, state, strict=True)), state, moves))
    return tuple((state, moves) for _, state, moves in sorted(found))


def _states_of_moves(tables: CostTables, allowed: Moves | None) -> States:
    """Return the joint states that allowed moves join, with these moves only."""
    states = joint_states(tables)
    if allowed is None:
        return states
    kept: dict[State, tuple[tuple[int, int, State], ...]] = {}
    reached = set(first_states(tables))
    for state, moves in states:
        kept[state] = tuple(move for move in moves if (state, move[0], move[1]) in allowed)
        reached.update(after for _, _, after in kept[state])
    return tuple((state, moves) for state, moves in kept.items() if moves or state in reached)


def _depths(edges: tuple[tuple[int, int], ...], count: int) -> list[int]:
    depth = [0] * count
    for _ in range(count):
        for source, target in edges:
            depth[source] = max(depth[source], depth[target] + 1)
    return depth


def joint_states(tables: CostTables) -> States:
    """Return the joint states with their moves, innermost first."""
    edges = tuple(tuple((e.source, e.target) for e in table.edges) for table in tables.tensors)
    return tables.caches.memo(_joint_graph)(edges, tuple(len(table.holders) for table in tables.tensors))


def first_states(tables: CostTables) -> tuple[State, ...]:
    """Return the states before any node."""
    choices: list[list[int]] = []
    for table in tables.tensors:
        entered = {edge.target for edge in table.edges}
        choices.append([s for s, holder in enumerate(table.holders) if holder == 0 and s not in entered])
    return tuple(product(*choices))


def capacities(tables: CostTables) -> tuple[float, ...]:
    """Return the bits that tiles may fill per level; inf where unlimited."""
    levels = tables.problem.arch.levels
    return tuple(np.inf if one.usable_bits is None else one.usable_bits for one in levels)


@dataclass(frozen=True, slots=True)
class Phase:
    """unit: in which the chain's tiles are measured now. pending: the last node belongs to an inner unit, so a node of
    this unit must follow before the chain moves inward."""

    unit: int
    pending: bool


def relax(
    tables: CostTables,
    component: int,
    multipliers: tuple[float, ...],
    allowed: Moves | None = None,
    is_over: Callable[[], bool] = never,
) -> RelaxedChain | None:
    """Return the least cost of a component over all chains at these multipliers; None where nothing fits.

    allowed: the only moves that chains may make (None: all). Raises OutOfTime where is_over, which is asked between
    joint states, says so.
    """
    recurrence = _CellRecurrence(tables, component, multipliers, allowed)
    recurrence.fill(is_over)
    at = tuple(length - 1 for length in tables.shape(0))
    outermost = Phase(0, pending=False)
    first = min(first_states(tables), key=lambda s: (float(recurrence.least[outermost, s][at]), s))
    least = float(recurrence.least[outermost, first][at])
    if not np.isfinite(least):
        return None
    chain = recurrence.chain(first)
    room = capacities(tables)
    worth = sum(p * r for p, r in zip(multipliers, room, strict=True) if p)
    sizes = abs(least) + worth + abs(tables.start[component]) + tables.least_cost(component)
    net = least - worth - MARGIN * sizes
    excess = tuple(u - r for u, r in zip(recurrence.held(chain), room, strict=True))
    return RelaxedChain(net + tables.start[component], chain, excess)


class _CellRecurrence:
    """One pass of the dynamic program: least[phase, state] is the least cost of a chain's rest inside every cell."""

    def __init__(
        self, tables: CostTables, component: int, multipliers: tuple[float, ...], allowed: Moves | None
    ) -> None:
        self.tables = tables
        self.states = _states_of_moves(tables, allowed)
        self.component = component
        self.units = len(tables.ends)
        self.least: dict[tuple[Phase, State], FloatArray] = {}
        room = capacities(tables)
        self.costs: dict[tuple[int, int, int], FloatArray] = {}
        for t, table in enumerate(tables.tensors):
            for number, edge in enumerate(table.edges):
                for unit, (cost, bits) in enumerate(zip(edge.costs, edge.bits, strict=True)):
                    multiplier, own = multipliers[edge.level], cost[component]
                    relaxed = own + bits * multiplier if multiplier else own
                    fits = bits <= room[edge.level] * (1 + MARGIN)
                    self.costs[t, number, unit] = np.where(fits, relaxed, np.inf)
        self.empty = {(u, v): _empty_cells(tables, (u, v)) for u in range(self.units) for v in range(u + 1, self.units)}
        self.inward = {
            (u, v): tuple(inner_cells(tables, (u, v), d) for d in range(len(tables.ends[u])))
            for u in range(self.units)
            for v in range(u + 1, self.units)
        }

    def fill(self, is_over: Callable[[], bool]) -> None:
        """Work out all states, innermost first."""
        for state, moves in self.states:
            if is_over():
                raise OutOfTime
            for unit in reversed(range(self.units)):
                for pending in (True, False):
                    if pending and unit == self.units - 1:
                        continue
                    phase = Phase(unit, pending=pending)
                    best = np.full(self.tables.shape(unit), self._end(phase, state))
                    for _, value in self._options(phase, state, moves):
                        np.minimum(best, value, out=best)
                    minimum_inside(best)
                    self.least[phase, state] = best

    def _end(self, phase: Phase, state: State) -> float:
        if phase.pending:
            return float(np.inf)
        ends = [table.final[s] for table, s in zip(self.tables.tensors, state, strict=True)]
        return float(sum(end[self.component] if end is not None else np.inf for end in ends))

    def _options(
        self, phase: Phase, state: State, moves: tuple[tuple[int, int, State], ...]
    ) -> Iterator[tuple[tuple[int, int, Phase, State], FloatArray]]:
        """Yield what may come next (tensor or -1 for a change of unit, edge, phase and state after) and its costs."""
        for tensor, number, after in moves:
            edge = self.tables.tensors[tensor].edges[number]
            if edge.unit >= phase.unit:
                then = Phase(phase.unit, pending=edge.unit > phase.unit)
                value = self.costs[tensor, number, phase.unit] + self.least[then, after]
                yield (tensor, number, then, after), value
        if not phase.pending:
            for unit in range(phase.unit + 1, self.units):
                then = Phase(unit, pending=False)
                inner = self.least[then, state][np.ix_(*self.inward[phase.unit, unit])]
                yield (-1, 0, then, state), inner + self.empty[phase.unit, unit]

    def chain(self, first: State) -> tuple[ChainNode, ...]:
        """Return the chain that has the least cost."""
        moves_of = dict(self.states)
        phase, state = Phase(0, pending=False), first
        at = tuple(length - 1 for length in self.tables.shape(0))
        chain: list[ChainNode] = []
        while True:
            cost = float(self.least[phase, state][at])
            if self._end(phase, state) <= cost:
                return tuple(chain)
            phase, state, at, placed = self._step(phase, state, at, moves_of[state], cost)
            chain += [placed] if placed is not None else []

    def _step(
        self,
        phase: Phase,
        state: State,
        at: tuple[int, ...],
        moves: tuple[tuple[int, int, State], ...],
        cost: float,
    ) -> tuple[Phase, State, tuple[int, ...], ChainNode | None]:
        """Return the phase, state and cell after one step of the chain, and the node that it places."""
        inside = tuple(slice(0, i + 1) for i in at)
        for (tensor, number, then, after), values in self._options(phase, state, moves):
            part = values[inside]
            if float(part.min()) <= cost:
                # The largest cell among equals: the last of the flat positions.
                flat = part.size - 1 - int(np.argmin(part.reshape(-1)[::-1]))
                cell = tuple(int(i) for i in np.unravel_index(flat, part.shape))
                if tensor < 0:
                    inward = self.inward[phase.unit, then.unit]
                    return then, after, tuple(int(inward[d][i]) for d, i in enumerate(cell)), None
                level = self.tables.tensors[tensor].edges[number].level
                return then, after, cell, ChainNode(tensor, level, phase.unit, cell)
        raise AssertionError("a least cost that no step has")

    def held(self, chain: tuple[ChainNode, ...]) -> list[float]:
        """Return the bits that a chain holds per level, at least."""
        used = [0.0] * self.tables.problem.level_count
        for node in chain:
            edges = self.tables.tensors[node.tensor].edges
            bits = next(edge.bits for edge in edges if edge.level == node.level)
            used[node.level] += float(bits[node.unit][node.cell])
        return used


def minimum_inside(table: FloatArray) -> None:
    """Replace every entry by the least among the cells that are not larger in any dim."""
    before = 1
    for length in table.shape:
        view = table.reshape(before, length, -1)
        if view.shape[2] < 8:
            np.minimum.accumulate(view, axis=1, out=view)
        else:
            for position in range(1, length):
                np.minimum(view[:, position], view[:, position - 1], out=view[:, position])
        before *= length


def _empty_cells(tables: CostTables, units: tuple[int, int]) -> FloatArray:
    """Return inf in the cells of the outer unit whose tiles are too small for the factors of the fan-outs, else 0."""
    total = np.zeros(tables.shape(units[0]))
    for dim, ends in enumerate(tables.ends[units[0]]):
        least = tables.region.factor_product(dim, units, tables.problem, high=False)
        shape = [-1 if d == dim else 1 for d in range(total.ndim)]
        total = total + np.array([np.inf if end < least else 0.0 for end in ends]).reshape(shape)
    return total


def inner_cells(tables: CostTables, units: tuple[int, int], dim: int) -> NDArray[np.intp]:
    """Return per cell of the outer unit the largest cell of the inner unit that tiles inside it reach."""
    outer, inner = (np.array(tables.ends[unit][dim], dtype=np.float64) for unit in units)
    low = float(tables.region.factor_product(dim, units, tables.problem, high=False))
    if tables.region.single_tiles:
        found = np.searchsorted(inner, np.ceil(outer / low - 1e-9) + 1e-9, side="right") - 1
    else:
        # Cells are open below; the margin only lets more in.
        found = np.searchsorted(inner, outer / low * (1 + 1e-9), side="left")
    return np.clip(found, 0, len(inner) - 1)
