"""What the tensor that is accumulated into moves in one loop tree: stays of its elements, and the partial sums between.

A part of the referee's own counter (exhaustive_counts): every stay is listed, nothing is estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polymap.search.enumeration.arrays import Ints, changes, join, starts, sum_by, unique
from polymap.search.enumeration.counts import Nest, Node, Numbers, Siblings


@dataclass(frozen=True, slots=True)
class Moves:
    """Elements moved at one level, per instance of it; fills and drains are summed."""

    reads: Ints
    writes: Ints
    fills: int
    drains: int


@dataclass(frozen=True, slots=True)
class _Stays:
    """Runs of steps in which an instance holds an element, sorted by element, instance and start.

    start and end count the existing steps of the node's clock; partial: the stay began with a partial sum.
    """

    element: Ints
    instance: Ints
    start: Ints
    end: Ints
    instances: int
    partial: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Chain:
    """Holders of the output from the outermost level inwards: the stays of the last, and per holder what it exchanges
    with the others and its first tile."""

    stays: _Stays
    moves: tuple[Moves, ...]
    tiles: tuple[int, ...]


class WriteCounter:
    """Counts the partial sums of the tensor that is accumulated into."""

    def __init__(self, nest: Nest, tensor: str) -> None:
        self.nest = nest
        elements, self.size = nest.elements((nest.workload.statements[0].target,))
        self.elements = elements[0]
        self.initial = nest.workload.tensor(tensor).initial
        self._known: dict[tuple[Node, Numbers], tuple[_Stays, Ints]] = {}
        zeros = np.zeros(self.size, dtype=np.int64)
        stays = _Stays(np.arange(self.size), zeros, zeros, zeros, 1, np.full(self.size, self.initial))
        self._outermost = _Chain(stays, (Moves(zeros[:1], zeros[:1], 0, 0),), (self.size,))
        self._chains: dict[tuple[tuple[Node, ...], Numbers], _Chain] = {}

    def exchanges(self, nodes: Sequence[Node], spatial: Numbers) -> tuple[tuple[Moves, ...], tuple[int, ...], Ints]:
        """Return what the holders exchange, the outermost level first (nodes are those below it).

        Also their first tiles, and per instance of the innermost how many of its stays began at zero.
        """
        chain = self._chain(nodes, spatial)
        stays = chain.stays
        return chain.moves, chain.tiles, sum_by(stays.instance[~stays.partial], stays.instances)

    def _chain(self, nodes: Sequence[Node], spatial: Numbers) -> _Chain:
        if not nodes:
            return self._outermost
        *outer, node = nodes
        key = (tuple(nodes), self.nest.above(spatial, node.level))
        if key not in self._chains:
            holder = outer[-1] if outer else Node(0, ())
            self._chains[key] = self._longer(self._chain(outer, spatial), holder, node, spatial)
        return self._chains[key]

    def _longer(self, outer: _Chain, holder: Node, node: Node, spatial: Numbers) -> _Chain:
        """Return the chain with one more node, which exchanges with the last so far, the holder."""
        nest = self.nest
        inner, times = self._stays(node, spatial)
        siblings = nest.siblings(spatial, holder.level, node.level)
        owner = _owning(outer.stays, inner, siblings, times // nest.size(node.clock[len(holder.clock) :]))
        inner, own, above = _exchange(outer.stays, inner, owner, siblings)
        tile = int(np.count_nonzero((inner.instance == 0) & (inner.start == 0)))
        return _Chain(inner, (*outer.moves[:-1], _added(outer.moves[-1], above), own), (*outer.tiles, tile))

    def _stays(self, node: Node, spatial: Numbers) -> tuple[_Stays, Ints]:
        """Return the stays at a node (not yet which began as partial sums), and the clock value of each step."""
        key = (node, self.nest.above(spatial, node.level))
        if key not in self._known:
            self._known[key] = self._listed(*key)
        return self._known[key]

    def _listed(self, node: Node, loops: Numbers) -> tuple[_Stays, Ints]:
        instance, instances = self.nest.number(loops), self.nest.size(loops)
        now = self.nest.number(node.clock)
        times = unique(now)
        span = len(times) + 1  # keeps runs of different elements apart
        held = unique((self.elements * instances + instance) * span + np.searchsorted(times, now))
        begin = starts(held)
        last = np.append(begin[1:], len(held)) - 1
        who = held[begin] // span
        none = np.zeros(len(begin), dtype=np.bool_)
        return _Stays(who // instances, who % instances, held[begin] % span, held[last] % span, instances, none), times

    def arrivals(self, holder: int, clock: Numbers, spatial: Numbers) -> Ints:
        """Return the writes of the compute unit per instance of the innermost holder."""
        nest = self.nest
        siblings = nest.siblings(spatial, holder, nest.levels)
        unit = nest.number(nest.above(spatial, nest.levels))
        owner, apart, time = siblings.owner[unit], siblings.apart[unit], nest.number(clock)
        arrivals = unique(join(owner, apart, time, self.elements))
        inner = (int(apart.max()) + 1) * (int(time.max()) + 1) * self.size
        return sum_by(arrivals // inner, siblings.owners)


def _owning(outer: _Stays, inner: _Stays, siblings: Siblings, outer_time: Ints) -> Ints:
    """Return per inner stay the position of the owner's stay that it lies in; outer_time: of each inner step."""
    outer_turn = np.cumsum(changes(outer_time)) - 1  # inner steps are in order, so the outer ones are
    steps = len(outer_time)
    begins = (outer.element * outer.instances + outer.instance) * steps + outer.start
    wanted = (inner.element * outer.instances + siblings.owner[inner.instance]) * steps + outer_turn[inner.start]
    return np.searchsorted(begins, wanted, side="right") - 1


def _exchange(outer: _Stays, inner: _Stays, owner: Ints, siblings: Siblings) -> tuple[_Stays, Moves, Moves]:
    """Return the inner stays with how they begin, the moves at the inner node, and those it causes at the outer one.

    Per outer stay the events are put in order: a drain arrives (kind 0) or the partial sum is asked for (kind 1, after
    the drains of the same step). The copy is a partial sum after an arrival, zero after it was asked for.
    """
    steps = int(inner.end.max()) + 2
    apart = int(siblings.apart.max()) + 1
    asks = owner * steps + inner.start
    asked = unique(asks * 2 + 1) * apart
    arrived = unique((owner * steps + inner.end + 1) * 2 * apart + siblings.apart[inner.instance])
    events = np.sort(np.concatenate([asked, arrived])) // apart
    stay, kind = events // 2 // steps, events % 2
    after_arrival = np.empty(len(kind), dtype=np.bool_)
    after_arrival[0] = False
    np.equal(kind[:-1], 0, out=after_arrival[1:])
    partial = np.where(changes(stay), outer.partial[stay], after_arrival)
    order = np.lexsort((inner.instance, asks))  # of those that ask together, the first instance takes it
    takers = order[changes(asks[order])][partial[kind == 1]]
    begins_partial = np.zeros(len(asks), dtype=np.bool_)
    begins_partial[takers] = True
    reads = sum_by(outer.instance[stay[partial]], outer.instances)
    writes = sum_by(outer.instance[stay[kind == 0]], outer.instances)
    fills = sum_by(inner.instance[takers], inner.instances)
    drains = sum_by(inner.instance, inner.instances)
    known = _Stays(inner.element, inner.instance, inner.start, inner.end, inner.instances, begins_partial)
    return known, Moves(drains, fills, len(takers), len(asks)), Moves(reads, writes, 0, 0)


def _added(one: Moves, other: Moves) -> Moves:
    return Moves(one.reads + other.reads, one.writes + other.writes, one.fills + other.fills, one.drains + other.drains)
