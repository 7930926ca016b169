"""The traffic of the accumulated tensor in one loop tree: residencies of its elements, and the partial sums between
nodes.

It is a part of the referee's own counter (counts.py): every residency is listed, nothing is estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polymap.costmodel.referees.arrays import Ints, changes, join, starts, sum_by, unique
from polymap.costmodel.referees.counts import Crossing, Nest, Node, Numbers, Siblings


@dataclass(frozen=True, slots=True)
class Moves:
    """Elements moved at one level: reads and writes per instance, fills and drains in total."""

    reads: Ints
    writes: Ints
    fills: int
    drains: int


@dataclass(frozen=True, slots=True)
class _Residencies:
    """Runs of steps in which an instance holds an element, sorted by element, instance and start.

    start, end: numbers of steps of the node's clock. partial: the residency began with a partial sum.
    """

    element: Ints
    instance: Ints
    start: Ints
    end: Ints
    instances: int
    partial: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Chain:
    """Nodes of the output from the outermost level inwards: residencies of the last; moves and first tile of each; what
    crosses fan-outs that cost energy."""

    stays: _Residencies
    moves: tuple[Moves, ...]
    tiles: tuple[int, ...]
    crossings: tuple[Crossing, ...] = ()


class WriteCounter:
    """Counts the partial sums of the accumulated tensor."""

    def __init__(self, nest: Nest, tensor: str) -> None:
        self.nest = nest
        elements, self.size = nest.elements((nest.workload.statements[0].target,))
        self.elements = elements[0]
        self.initial = nest.workload.tensor(tensor).initial
        self._known: dict[tuple[Node, Numbers], tuple[_Residencies, Ints]] = {}
        zeros = np.zeros(self.size, dtype=np.int64)
        stays = _Residencies(np.arange(self.size), zeros, zeros, zeros, 1, np.full(self.size, self.initial))
        self._outermost = _Chain(stays, (Moves(zeros[:1], zeros[:1], 0, 0),), (self.size,))
        self._chains: dict[tuple[tuple[Node, ...], Numbers], _Chain] = {}

    def exchanges(self, nodes: Sequence[Node], spatial: Numbers) -> tuple[tuple[Moves, ...], tuple[int, ...], Ints]:
        """Return the moves of each node, the outermost level first (`nodes` are those below it).

        Also their first tiles, and per instance of the innermost the number of its residencies that began at zero.
        """
        chain = self._chain(nodes, spatial)
        stays = chain.stays
        return chain.moves, chain.tiles, sum_by(stays.instance[~stays.partial], stays.instances)

    def crossings(self, nodes: Sequence[Node], spatial: Numbers) -> tuple[Crossing, ...]:
        """Return what the partial sums between the nodes send over the fan-outs that cost energy."""
        return self._chain(nodes, spatial).crossings

    def _chain(self, nodes: Sequence[Node], spatial: Numbers) -> _Chain:
        if not nodes:
            return self._outermost
        *outer, node = nodes
        key = (tuple(nodes), self.nest.above(spatial, node.level))
        if key not in self._chains:
            holder = outer[-1] if outer else Node(0, ())
            self._chains[key] = self._extended_chain(self._chain(outer, spatial), holder, node, spatial)
        return self._chains[key]

    def _extended_chain(self, outer: _Chain, holder: Node, node: Node, spatial: Numbers) -> _Chain:
        """Return the chain with one more node, which exchanges partial sums with the last one so far, `holder`."""
        nest = self.nest
        inner, times = self._residencies(node, spatial)
        siblings = nest.siblings(spatial, holder.level, node.level)
        owner = _enclosing_residencies(
            outer.stays, inner, siblings, times // nest.size(node.clock[len(holder.clock) :])
        )
        inner, own, above = _exchange(outer.stays, inner, owner, siblings)
        tile = int(np.count_nonzero((inner.instance == 0) & (inner.start == 0)))
        moves = (*outer.moves[:-1], _sum_of_moves(outer.moves[-1], above), own)
        crossed = tuple(
            Crossing(
                passed.fanout,
                own.fills,
                own.fills,
                _count_arrivals(passed.inside, inner.instance, inner.end, inner.element),
                _count_arrivals(passed.outside, inner.instance, inner.end, inner.element),
            )
            for passed in nest.passed(spatial, holder.level, node.level)
        )
        return _Chain(inner, moves, (*outer.tiles, tile), (*outer.crossings, *crossed))

    def _residencies(self, node: Node, spatial: Numbers) -> tuple[_Residencies, Ints]:
        """Return the residencies at a node (whether they begin with partial sums is set later), and the clock value of
        each step."""
        key = (node, self.nest.above(spatial, node.level))
        if key not in self._known:
            self._known[key] = self._list_residencies(*key)
        return self._known[key]

    def _list_residencies(self, node: Node, loops: Numbers) -> tuple[_Residencies, Ints]:
        instance, instances = self.nest.number(loops), self.nest.size(loops)
        now = self.nest.number(node.clock)
        times = unique(now)
        span = len(times) + 1  # keeps runs of different elements apart
        held = unique((self.elements * instances + instance) * span + np.searchsorted(times, now))
        begin = starts(held)
        last = np.append(begin[1:], len(held)) - 1
        who = held[begin] // span
        none = np.zeros(len(begin), dtype=np.bool_)
        return _Residencies(
            who // instances, who % instances, held[begin] % span, held[last] % span, instances, none
        ), times

    def arrivals(self, holder: int, clock: Numbers, spatial: Numbers) -> Ints:
        """Return the writes of the compute unit per instance of the innermost node."""
        nest = self.nest
        siblings = nest.siblings(spatial, holder, nest.levels)
        unit = nest.number(nest.above(spatial, nest.levels))
        owner, apart, time = siblings.owner[unit], siblings.apart[unit], nest.number(clock)
        arrivals = unique(join(owner, apart, time, self.elements))
        inner = (int(apart.max()) + 1) * (int(time.max()) + 1) * self.size
        return sum_by(arrivals // inner, siblings.owners)

    def collections(self, holder: int, clock: Numbers, spatial: Numbers) -> list[Crossing]:
        """Return what the writes of the compute unit send over the fan-outs that cost energy."""
        nest = self.nest
        unit, time = nest.number(nest.above(spatial, nest.levels)), nest.number(clock)
        return [
            Crossing(
                one.fanout,
                0,
                0,
                *(_count_arrivals(each, unit, time, self.elements) for each in (one.inside, one.outside)),
            )
            for one in nest.passed(spatial, holder, nest.levels)
        ]


def _count_arrivals(siblings: Siblings, instance: Ints, time: Ints, element: Ints) -> int:
    """Return how many elements arrive at the owners if the instances send `element` at `time`."""
    return len(unique(join(siblings.owner[instance], siblings.apart[instance], time, element)))


def _enclosing_residencies(outer: _Residencies, inner: _Residencies, siblings: Siblings, outer_time: Ints) -> Ints:
    """Return, per inner residency, the number of the owner's residency that contains it. outer_time: of each inner
    step."""
    outer_turn = np.cumsum(changes(outer_time)) - 1  # inner steps are in order, so the outer ones are
    steps = len(outer_time)
    begins = (outer.element * outer.instances + outer.instance) * steps + outer.start
    wanted = (inner.element * outer.instances + siblings.owner[inner.instance]) * steps + outer_turn[inner.start]
    return np.searchsorted(begins, wanted, side="right") - 1


def _exchange(
    outer: _Residencies, inner: _Residencies, owner: Ints, siblings: Siblings
) -> tuple[_Residencies, Moves, Moves]:
    """Return the inner residencies with how they begin, the moves at the inner node, and the moves caused at the outer
    node.

    Per outer residency the events are sorted: a drain arrives (kind 0), or the partial sum is requested (kind 1, after
    the drains of the same step). The copy is a partial sum after an arrival, and zero after a request.
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
    known = _Residencies(inner.element, inner.instance, inner.start, inner.end, inner.instances, begins_partial)
    return known, Moves(drains, fills, len(takers), len(asks)), Moves(reads, writes, 0, 0)


def _sum_of_moves(one: Moves, other: Moves) -> Moves:
    return Moves(one.reads + other.reads, one.writes + other.writes, one.fills + other.fills, one.drains + other.drains)
