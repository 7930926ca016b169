"""Least costs inside by the room that is left in one level, which several tensors share.

Prices on capacity leave a gap where a level has room for few tiles, whose sizes are few. Here the room that is left in
one level is part of the state, so that no chain overfills it; the other levels keep their prices. Amounts of room that
suffice for the same sums of bits, which the nodes to come may take, are one class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polymap.poly import Kind, Numbers
from polymap.resources import OutOfTime
from polymap.search.dividing.bounds import (
    Move,
    Multipliers,
    State,
    final_cost,
    first_states,
    graph_of,
    priced_cost,
    priced_final,
    shared_levels,
    usable_bits,
)
from polymap.search.dividing.cost_tables import Tables
from polymap.search.dividing.tuning import TUNING
from polymap.search.problem import IntArray, minimum_below

_Bits = dict[tuple[int, int], IntArray]  # that a node of the level may take, each number once


@dataclass(frozen=True, slots=True)
class _Rows:
    """Least costs of a joint state: [row, *lattice], the first row infeasible. needs: sums of bits that its nodes to
    come may take, ascending; with room for the first k of them, the row is row[k] (0: nobody asks for it)."""

    needs: IntArray
    row: IntArray
    costs: Numbers

    def of(self, room: IntArray) -> IntArray:
        """Return the rows of amounts of room."""
        return self.row[np.searchsorted(self.needs, room, side="right")]


@dataclass(frozen=True, slots=True, eq=False)
class RoomCosts:
    """Least costs inside by the room in a level, at multipliers of the others; costs of each node, priced. most: room
    in which nothing else is."""

    level: int
    most: int
    multipliers: Multipliers
    costs: dict[tuple[int, int], Numbers]
    reach: dict[State, _Rows]

    def through(self, tables: Tables, move: Move, room: IntArray) -> Numbers:
        """Return the least costs of a move's node and everything inside it: [room, *lattice]."""
        arithmetic, shape, after = tables.arithmetics[0], tables.lattice.shape, self.reach.get(move.after)
        if after is None:
            return np.full((len(room), *shape), arithmetic.never, dtype=arithmetic.dtype)
        if move.edge_of(tables).level == self.level:
            rows = after.of(room.reshape(-1, *(1,) * len(shape)) - move.cost(tables).bits)
            flat = np.broadcast_to(rows, (len(room), *shape)).reshape(len(room), -1)
            inner = after.costs.reshape(len(after.costs), -1)
            inner = inner[flat, np.arange(flat.shape[1])].reshape(len(room), *shape)
        else:
            inner = after.costs[after.of(room)]
        return arithmetic.plus(self.costs[move.key], inner)


def scarce_level(tables: Tables, multipliers: Multipliers) -> int | None:
    """Return the smallest level that tensors share, of those whose room costs something at multipliers if there are any
    (None: tensors share none, or numbers are so long that tables take more time than a search)."""
    if tables.arithmetics[0].kind is not Kind.NARROW:
        return None
    levels = shared_levels(tables)
    return min(levels, key=lambda level: (not multipliers.price(level), usable_bits(tables, level)), default=None)


def room_costs(tables: Tables, level: int, multipliers: Multipliers) -> RoomCosts:
    """Return the least costs inside by the room in a level, at multipliers but for this level's (none: no prices).
    Raises OutOfTime."""
    most = usable_bits(tables, level) or 0
    priced = _without(tables, level, multipliers)
    moves = {move.key: move for own in graph_of(tables).moves.values() for move in own}
    costs = {key: priced_cost(tables, move, 0, priced) for key, move in moves.items()}
    found = RoomCosts(level, most, priced, costs, {})
    bits = {key: _bits_of(tables, found, one) for key, one in moves.items() if one.edge_of(tables).level == level}
    needs = _needs(tables, most, bits)
    asked = _room_classes(tables, most, bits, needs)
    for state in (state for layer in graph_of(tables).layers for state in layer if len(asked.get(state, ()))):
        found.reach[state] = _rows(tables, found, state, needs[state], asked[state])
    return found


def _without(tables: Tables, level: int, multipliers: Multipliers) -> Multipliers:
    """Return the multipliers without the price of a level."""
    saved = multipliers.price(level) * (usable_bits(tables, level) or 0)
    per_level = tuple(0 if one == level else price for one, price in enumerate(multipliers.per_level))
    return replace(multipliers, per_level=per_level, allowance=multipliers.allowance - saved)


def _needs(tables: Tables, most: int, bits: _Bits) -> dict[State, IntArray]:
    """Return the sums of bits that nodes of a level may take from a state on, ascending: some of many, the least first,
    as which those between two of them count."""
    graph, needs = graph_of(tables), dict[State, IntArray]()
    for state in (state for layer in graph.layers for state in layer):
        found = [np.zeros(0 if final_cost(tables, state, 0) is None else 1, dtype=np.int64)]
        for move in graph.moves[state]:
            after = needs[move.after]
            found.append((bits[move.key][:, None] + after).ravel() if move.key in bits else after)
        own = np.unique(np.concatenate(found))
        own = own[own <= most]
        if len(own) > TUNING.most_rooms:
            own = own[np.arange(TUNING.most_rooms) * len(own) // TUNING.most_rooms]
        needs[state] = own
    return needs


def _bits_of(tables: Tables, costs: RoomCosts, move: Move) -> IntArray:
    """Return the bits that a move's node may take, each once."""
    allowed, bits = tables.arithmetics[0].possible(costs.costs[move.key]), move.cost(tables).bits
    return np.unique(np.broadcast_to(bits, np.broadcast_shapes(bits.shape, allowed.shape))[allowed])


def _room_classes(tables: Tables, most: int, bits: _Bits, needs: dict[State, IntArray]) -> dict[State, IntArray]:
    """Return, per state, the classes of room in which chains may come to it, which begin with all of it: the number of
    needs that it suffices for."""
    graph = graph_of(tables)
    found = {state: np.searchsorted(needs[state], [most], side="right") for state in first_states(tables)}
    for state in (state for layer in reversed(graph.layers) for state in layer if state in found):
        own = found[state] = found[state][found[state] > 0]
        room = _most_room(needs[state], own, most)
        for move in graph.moves[state]:
            left = (room[:, None] - bits[move.key]).ravel() if move.key in bits else room
            classes = np.searchsorted(needs[move.after], left, side="right")
            found[move.after] = np.unique(np.concatenate([found.get(move.after, classes[:0]), classes]))
    return found


def _most_room(needs: IntArray, classes: IntArray, most: int) -> IntArray:
    """Return the most room of each class."""
    return np.append(needs[1:] - 1, most)[classes - 1]


def _rows(tables: Tables, costs: RoomCosts, state: State, needs: IntArray, classes: IntArray) -> _Rows:
    """Return the least costs of a state with the most room of each class, those of the states after it known."""
    arithmetic, shape, room = tables.arithmetics[0], tables.lattice.shape, _most_room(needs, classes, costs.most)
    if tables.stop():
        raise OutOfTime
    end = priced_final(tables, state, 0, costs.multipliers)
    block: Numbers = np.full((len(classes) + 1, *shape), arithmetic.never if end is None else end, dtype=np.int64)
    block[0] = arithmetic.never
    for move in graph_of(tables).moves[state]:
        np.minimum(block[1:], costs.through(tables, move, room), out=block[1:])
    minimum_below(block)
    arithmetic.clip(block)
    row: IntArray = np.zeros(len(needs) + 1, dtype=np.int64)
    row[classes] = np.arange(1, len(classes) + 1)
    return _Rows(needs, row, block)


def room_bound(tables: Tables, costs: RoomCosts) -> int | None:
    """Return a lower bound of component 0 over all chains (None: nothing fits)."""
    room, top = np.array([costs.most]), tables.lattice.top
    rows = (costs.reach[state] for state in first_states(tables) if state in costs.reach)
    found = [tables.arithmetics[0].number(one.costs[(int(one.of(room)[0]), *top)]) for one in rows]
    least = min((cost for cost in found if cost is not None), default=None)
    return None if least is None else -((costs.multipliers.allowance - least) // costs.multipliers.unit)
