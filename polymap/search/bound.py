"""The least cost of a structure, capacity aside: one backward pass over holder states and the lattice.

A mapping is a chain of tiles N >= T1 >= T2 >= ... with one storage node per entry. inside[s][T] is the least cost of
everything below tile T when the tensors are held as state s says: place a node here, or go to a smaller tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from polymap.search.lattice import IntArray, minimum_below
from polymap.search.tables import FORBIDDEN, Edge, Tables

State = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """Least costs inside, per joint state: place[s] where the next node is placed at the tile itself, reach[s] at
    the tile or at any tile that divides it."""

    reach: dict[State, IntArray]


def edges_from(tables: Tables, state: State) -> list[tuple[int, Edge, State]]:
    """Return (tensor, edge, state after it) for every node that may be placed next."""
    found: list[tuple[int, Edge, State]] = []
    for tensor, table in enumerate(tables.tensors):
        for edge in table.edges:
            if edge.source == state[tensor]:
                found.append((tensor, edge, (*state[:tensor], edge.target, *state[tensor + 1 :])))
    return found


def is_crossed(tables: Tables, state: State, level: int) -> bool:
    """Return whether some tensor is already held below fan-outs that stand below `level`."""
    deepest = max(table.holders[s] for table, s in zip(tables.tensors, state, strict=True))
    return any(level < one.below <= deepest for one in tables.problem.classes)


def edge_cost(tables: Tables, edge: Edge, state: State, component: int) -> IntArray:
    """Return the edge's cost from a joint state."""
    if edge.costs_crossed is not None and is_crossed(tables, state, edge.level):
        return edge.costs_crossed[component]
    return edge.costs[component]


def edge_bits(tables: Tables, edge: Edge, state: State) -> IntArray:
    """Return the bits that the edge's node holds, from a joint state."""
    if edge.bits_crossed is not None and is_crossed(tables, state, edge.level):
        return edge.bits_crossed
    return edge.bits


def final_cost(tables: Tables, state: State, component: int) -> int | None:
    """Return what the statement instances cost in a state (None: some tensor may not stay there)."""
    total = 0
    for table, s in zip(tables.tensors, state, strict=True):
        cost = table.final[s]
        if cost is None:
            return None
        total += cost[component]
    return total


def first_states(tables: Tables) -> tuple[State, ...]:
    """Return the states before any node: outputs may start with any plan of levels to come."""
    choices: list[list[int]] = []
    for table in tables.tensors:
        targets = {edge.target for edge in table.edges}
        choices.append([s for s, holder in enumerate(table.holders) if holder == 0 and s not in targets])
    return tuple(product(*choices))


@lru_cache(maxsize=64)
def _backward_order(shape: tuple[tuple[tuple[int, int], ...], ...], counts: tuple[int, ...]) -> tuple[State, ...]:
    """Return the joint states, each after all states that its edges lead to."""
    depths: list[dict[int, int]] = []
    for edges, count in zip(shape, counts, strict=True):
        depth = dict.fromkeys(range(count), 0)
        for _ in range(count):
            for source, target in edges:
                depth[source] = max(depth[source], depth[target] + 1)
        depths.append(depth)
    states = product(*(range(count) for count in counts))
    return tuple(sorted(states, key=lambda s: (sum(d[x] for d, x in zip(depths, s, strict=True)), s)))


def costs_inside(
    tables: Tables, component: int, prices: tuple[int, ...], price_unit: int, only: frozenset[State] | None = None
) -> Inside:
    """Return the least costs inside for one component x price_unit, plus prices[level] per bit held.

    A node that alone exceeds its level's capacity is never placed. only: the states that are wanted (None: all).
    """
    shape = tuple(tuple((edge.source, edge.target) for edge in table.edges) for table in tables.tensors)
    counts = tuple(len(table.holders) for table in tables.tensors)
    full = tables.lattice.shape
    reach: dict[State, IntArray] = {}
    for state in _backward_order(shape, counts):
        if only is not None and state not in only:
            continue
        end = final_cost(tables, state, component)
        best = np.full(full, FORBIDDEN if end is None else end * price_unit, dtype=np.int64)
        placed = False
        for _, edge, after in edges_from(tables, state):
            cost = priced(tables, edge, state, component, prices, price_unit)
            np.minimum(best, cost + reach[after], out=best)
            placed = True
        reach[state] = np.minimum(minimum_below(best), FORBIDDEN) if placed else best
    return Inside(reach)


def priced(
    tables: Tables, edge: Edge, state: State, component: int, prices: tuple[int, ...], price_unit: int
) -> IntArray:
    """Return the edge's cost x price_unit plus the price of the bits that it holds; FORBIDDEN where it does not fit."""
    cost = edge_cost(tables, edge, state, component)
    bits = edge_bits(tables, edge, state)
    capacity = usable_bits(tables, edge.level)
    total = cost if price_unit == 1 else cost * price_unit
    if prices[edge.level]:
        total = total + bits * prices[edge.level]
    barred = cost >= FORBIDDEN if capacity is None else (cost >= FORBIDDEN) | (bits > capacity)
    return np.where(barred, FORBIDDEN, total)


def usable_bits(tables: Tables, level: int) -> int | None:
    """Return the capacity that tiles may fill (None: unlimited)."""
    memory = tables.problem.arch.levels[level]
    return None if memory.capacity_bits is None else memory.capacity_bits // memory.buffering


def root_bound(tables: Tables, inside: Inside) -> tuple[int, State]:
    """Return the least cost from the top over all first states, and the state that has it."""
    top = tables.lattice.top
    return min((int(inside.reach[state][top]), state) for state in first_states(tables))


def reach_from(tables: Tables, state: State) -> frozenset[State]:
    """Return the joint states that can follow `state`, itself included."""
    found = {state}
    todo = [state]
    while todo:
        for _, _, after in edges_from(tables, todo.pop()):
            if after not in found:
                found.add(after)
                todo.append(after)
    return frozenset(found)
