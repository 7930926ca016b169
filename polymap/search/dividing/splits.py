"""Branches on what one node holds, to raise the bound of a structure.

The chain of least cost may exceed the capacity of a level that several tensors share. Prices on capacity close a part
of the gap, not all of it: sizes of tiles are few. So the bound branches on the bits that one node of an overfull level
holds: fewer than now, or as many and more, which leaves the other tensors the rest. Neither half has the chain; every
chain that fits is in one of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from polymap.resources import BestFirst
from polymap.search.dividing.bounds import Multipliers, costs_inside, no_multipliers, root_bound, usable_bits
from polymap.search.dividing.branch_and_bound import SearchNode, StructureSearch, at
from polymap.search.dividing.cost_tables import Rooms, Tables
from polymap.search.dividing.lagrange import improve_multipliers
from polymap.search.dividing.tuning import TUNING


class Half(NamedTuple):
    """Chains whose nodes hold what some rooms allow: multipliers that suit them, and the cheapest of them where no
    prices are paid (None: the bound refutes them)."""

    rooms: Rooms
    multipliers: Multipliers | None
    cheapest: SearchNode | None


def split_bound(search: StructureSearch, limit: int, start: Multipliers | None) -> tuple[int, Multipliers | None]:
    """Return a lower bound of component 0 over all chains of a structure, at most `limit`, which refutes, and
    multipliers that suit it. start: multipliers of another structure."""
    tables = search.tables
    whole = _bounded(search, {}, limit, start, TUNING.rounds)
    if whole is None:
        return limit, None
    halves, looked = BestFirst[int, Half](parts=[whole]), 1
    while halves and halves.first.cheapest is not None and looked < TUNING.most_halves:
        least = halves.bound or 0
        rooms = _split(tables, halves.first)
        if least >= limit or rooms is None:
            break
        parent = halves.take()
        for one in rooms:
            looked += 1
            half = _bounded(search, one, limit, parent.multipliers, TUNING.split_rounds)
            if half is not None:
                halves.add(max(least, half[0]), half[1])
    return min(limit, limit if halves.bound is None else halves.bound), whole[1].multipliers


def _bounded(
    search: StructureSearch, rooms: Rooms, limit: int, start: Multipliers | None, rounds: int
) -> tuple[int, Half] | None:
    """Return the bound of the chains that some rooms allow (None: there are none)."""
    tables = replace(search.tables, rooms=rooms)
    inside = costs_inside(tables, 0, no_multipliers(tables))
    if root_bound(tables, inside)[0] is None:
        return None
    own = StructureSearch(tables, (), search.incumbent)
    # Scoring takes long where a tensor is read through windows.
    found = improve_multipliers(own, inside, limit, start, scores=own.window is None, rounds=rounds)
    return found.bound, Half(rooms, found.multipliers or start, found.cheapest if found.bound < limit else None)


def _split(tables: Tables, half: Half) -> tuple[Rooms, Rooms] | None:
    """Return the rooms of two halves that hold all chains that fit, and not the cheapest (None: it fits)."""
    assert half.cheapest is not None
    held, fullest = _held(tables, half.cheapest), list[tuple[float, int, int]]()
    for level, used in enumerate(half.cheapest.used):
        capacity = usable_bits(tables, level)
        if capacity is not None and used > capacity:
            fullest.append((used / max(capacity, 1), level, capacity))
    if not fullest:
        return None
    _, level, capacity = max(fullest)
    tensor = max((bits, tensor) for (tensor, at_level), bits in held.items() if at_level == level)[1]
    bits = held[tensor, level]
    least, most = half.rooms.get((tensor, level), (0, capacity))
    more = half.rooms | {(tensor, level): (bits, most)}
    tensors = range(len(tables.tensors))
    taken = {other: more.get((other, level), (0, capacity))[0] for other in tensors}
    for other in tensors:
        if other != tensor:
            fewest, usual = more.get((other, level), (0, capacity))
            more[other, level] = fewest, min(usual, capacity - sum(taken.values()) + taken[other])
    return half.rooms | {(tensor, level): (least, bits - 1)}, more


def _held(tables: Tables, node: SearchNode) -> dict[tuple[int, int], int]:
    """Return the bits that each node of a chain holds, by tensor and level."""
    found: dict[tuple[int, int], int] = {}
    for move, placed in zip(node.moves, node.chain, strict=True):
        index = tables.lattice.index(dict(zip(tables.problem.dims, placed.tile, strict=True)))
        found[placed.tensor, placed.level] = int(at(move.cost(tables).bits, index))
    return found
