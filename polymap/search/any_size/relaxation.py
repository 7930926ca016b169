"""The bound over mappings with tiles of any size: least costs over all chains, by dynamic programming on cells.

A chain places the nodes one after the other, outermost first; no tile is larger than the one before in any dim. With
prices on the bits held, capacity couples nothing any more, and the least cost inside a tile is a minimum over the next
node plus the least cost inside its tile: one pass per joint state, running minima along the axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from polymap.search.any_size.node_costs import AnyTables

FloatArray = NDArray[np.float64]
State = tuple[int, ...]
States = tuple[tuple[State, tuple[tuple[int, int, State], ...]], ...]  # each with its moves: tensor, edge, state after
Moves = frozenset[tuple[State, int, int]]  # joint states with a tensor and its edge
# Relative; the floats are sums of some ten terms, each a product of about as many factors: true to 1e-14.
MARGIN = 1e-10


def never() -> bool:
    """Return False: there is no limit."""
    return False


@dataclass(frozen=True, slots=True)
class Placed:
    """A node of a chain: tensor number, level, the unit in which its tile is measured, and its cell per dim."""

    tensor: int
    level: int
    unit: int
    cell: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Relaxed:
    """The least cost over all chains at some prices (per level, per bit), net of what capacities are worth and of a
    margin for rounding; the chain that has it, and bits it holds beyond capacity per level (negative: free)."""

    cost: float
    chain: tuple[Placed, ...]
    excess: tuple[float, ...]


@lru_cache(maxsize=64)
def _graph(edges: tuple[tuple[tuple[int, int], ...], ...], counts: tuple[int, ...]) -> States:
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


def _allowed(tables: AnyTables, allowed: Moves | None) -> States:
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


def joint_states(tables: AnyTables) -> States:
    """Return the joint states with their moves, innermost first."""
    edges = tuple(tuple((e.source, e.target) for e in table.edges) for table in tables.tensors)
    return _graph(edges, tuple(len(table.holders) for table in tables.tensors))


def first_states(tables: AnyTables) -> tuple[State, ...]:
    """Return the states before any node."""
    choices: list[list[int]] = []
    for table in tables.tensors:
        entered = {edge.target for edge in table.edges}
        choices.append([s for s, holder in enumerate(table.holders) if holder == 0 and s not in entered])
    return tuple(product(*choices))


def capacities(tables: AnyTables) -> tuple[float, ...]:
    """Return the bits that tiles may fill per level; inf where unlimited."""
    levels = tables.problem.arch.levels
    return tuple(np.inf if one.usable_bits is None else one.usable_bits for one in levels)


@dataclass(frozen=True, slots=True)
class Phase:
    """How tiles are measured: in `unit`; open: a node further in was placed last, so that one of the unit's own must
    follow. From a phase that is not open the chain may go on in a unit further in."""

    unit: int
    open: bool


class TimeIsUp(Exception):
    """A limit was reached before the bound was known."""


def relax(
    tables: AnyTables,
    component: int,
    prices: tuple[float, ...],
    allowed: Moves | None = None,
    is_over: Callable[[], bool] = never,
) -> Relaxed | None:
    """Return the least cost of a component over all chains at these prices; None where nothing fits.

    allowed: the only moves that chains may make (None: all). is_over: asked between joint states; raises TimeIsUp.
    """
    walk = _Walk(tables, component, prices, allowed)
    walk.fill(is_over)
    at = tuple(length - 1 for length in tables.shape(0))
    outermost = Phase(0, open=False)
    first = min(first_states(tables), key=lambda s: (float(walk.reach[outermost, s][at]), s))
    least = float(walk.reach[outermost, first][at])
    if not np.isfinite(least):
        return None
    chain = walk.chain(first)
    room = capacities(tables)
    worth = sum(p * r for p, r in zip(prices, room, strict=True) if p)
    sizes = abs(least) + worth + abs(tables.start[component]) + tables.least_cost(component)
    net = least - worth - MARGIN * sizes
    excess = tuple(u - r for u, r in zip(walk.held(chain), room, strict=True))
    return Relaxed(net + tables.start[component], chain, excess)


class _Walk:
    """One pass of the dynamic program: reach[phase, state] is the least cost inside every cell."""

    def __init__(self, tables: AnyTables, component: int, prices: tuple[float, ...], allowed: Moves | None) -> None:
        self.tables = tables
        self.states = _allowed(tables, allowed)
        self.component = component
        self.units = len(tables.ends)
        self.reach: dict[tuple[Phase, State], FloatArray] = {}
        room = capacities(tables)
        self.costs: dict[tuple[int, int, int], FloatArray] = {}
        for t, table in enumerate(tables.tensors):
            for number, edge in enumerate(table.edges):
                for unit, (cost, bits) in enumerate(zip(edge.costs, edge.bits, strict=True)):
                    price, own = prices[edge.level], cost[component]
                    priced = own + bits * price if price else own
                    fits = bits <= room[edge.level] * (1 + MARGIN)
                    self.costs[t, number, unit] = np.where(fits, priced, np.inf)
        self.barred = {(u, v): _barred(tables, (u, v)) for u in range(self.units) for v in range(u + 1, self.units)}
        self.inward = {
            (u, v): tuple(_inward(tables, (u, v), d) for d in range(len(tables.ends[u])))
            for u in range(self.units)
            for v in range(u + 1, self.units)
        }

    def fill(self, is_over: Callable[[], bool]) -> None:
        """Work out all states, innermost first."""
        for state, moves in self.states:
            if is_over():
                raise TimeIsUp
            for unit in reversed(range(self.units)):
                for is_open in (True, False):
                    if is_open and unit == self.units - 1:
                        continue
                    phase = Phase(unit, open=is_open)
                    best = np.full(self.tables.shape(unit), self._end(phase, state))
                    for _, value in self._options(phase, state, moves):
                        np.minimum(best, value, out=best)
                    minimum_inside(best)
                    self.reach[phase, state] = best

    def _end(self, phase: Phase, state: State) -> float:
        if phase.open:
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
                then = Phase(phase.unit, open=edge.unit > phase.unit)
                value = self.costs[tensor, number, phase.unit] + self.reach[then, after]
                yield (tensor, number, then, after), value
        if not phase.open:
            for unit in range(phase.unit + 1, self.units):
                then = Phase(unit, open=False)
                inner = self.reach[then, state][np.ix_(*self.inward[phase.unit, unit])]
                yield (-1, 0, then, state), inner + self.barred[phase.unit, unit]

    def chain(self, first: State) -> tuple[Placed, ...]:
        """Return the chain that has the least cost."""
        moves_of = dict(self.states)
        phase, state = Phase(0, open=False), first
        at = tuple(length - 1 for length in self.tables.shape(0))
        chain: list[Placed] = []
        while True:
            wanted = float(self.reach[phase, state][at])
            if self._end(phase, state) <= wanted:
                return tuple(chain)
            phase, state, at, placed = self._step(phase, state, at, moves_of[state], wanted)
            chain += [placed] if placed is not None else []

    def _step(
        self,
        phase: Phase,
        state: State,
        at: tuple[int, ...],
        moves: tuple[tuple[int, int, State], ...],
        wanted: float,
    ) -> tuple[Phase, State, tuple[int, ...], Placed | None]:
        """Return the phase, state and cell after one step of the chain, and the node that it places."""
        inside = tuple(slice(0, i + 1) for i in at)
        for (tensor, number, then, after), values in self._options(phase, state, moves):
            part = values[inside]
            if float(part.min()) <= wanted:
                # The largest cell among equals: the last of the flat positions.
                flat = part.size - 1 - int(np.argmin(part.reshape(-1)[::-1]))
                cell = tuple(int(i) for i in np.unravel_index(flat, part.shape))
                if tensor < 0:
                    inward = self.inward[phase.unit, then.unit]
                    return then, after, tuple(int(inward[d][i]) for d, i in enumerate(cell)), None
                level = self.tables.tensors[tensor].edges[number].level
                return then, after, cell, Placed(tensor, level, phase.unit, cell)
        raise AssertionError("a least cost that no step has")

    def held(self, chain: tuple[Placed, ...]) -> list[float]:
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


def _barred(tables: AnyTables, units: tuple[int, int]) -> FloatArray:
    """Return inf in the cells of the outer unit whose tiles are too small for the factors of the fan-outs, else 0."""
    total = np.zeros(tables.shape(units[0]))
    for dim, ends in enumerate(tables.ends[units[0]]):
        least = tables.region.used(dim, units, tables.problem, high=False)
        shape = [-1 if d == dim else 1 for d in range(total.ndim)]
        total = total + np.array([np.inf if end < least else 0.0 for end in ends]).reshape(shape)
    return total


def _inward(tables: AnyTables, units: tuple[int, int], dim: int) -> NDArray[np.intp]:
    """Return per cell of the outer unit the largest cell of the inner unit that tiles inside it reach."""
    outer, inner = (np.array(tables.ends[unit][dim], dtype=np.float64) for unit in units)
    low = float(tables.region.used(dim, units, tables.problem, high=False))
    if tables.region.points:
        found = np.searchsorted(inner, np.ceil(outer / low - 1e-9) + 1e-9, side="right") - 1
    else:
        # Cells are open below; the margin only lets more in.
        found = np.searchsorted(inner, outer / low * (1 + 1e-9), side="left")
    return np.clip(found, 0, len(inner) - 1)
