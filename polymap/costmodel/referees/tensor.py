"""The columns of one tensor at all its placements in a word; each distinct situation is counted once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from polymap.costmodel.referees.arrays import Ints
from polymap.costmodel.referees.counts import Nest, Node, Numbers, ReadCounter
from polymap.costmodel.referees.places import Place
from polymap.costmodel.referees.score import Columns
from polymap.costmodel.referees.stays import WriteCounter


class Situation(Protocol):
    """The part of a word that one tensor's traffic depends on.

    clocks[gap]: the temporal loops above a gap. key: identifies the possible placements. lockstep: no instance is idle
    while another works.
    """

    @property
    def clocks(self) -> Sequence[Numbers]: ...
    @property
    def spatial(self) -> Numbers: ...
    @property
    def key(self) -> tuple[object, ...]: ...
    @property
    def lockstep(self) -> bool: ...


class TensorScore:
    """Rows of columns for one tensor of a workload."""

    def __init__(self, nest: Nest, number: int, *, divides: bool) -> None:
        """divides: whether all tiles do."""
        statement = nest.workload.statements[0]
        name = nest.workload.tensors[number].name
        self.nest = nest
        self.number = number
        self._divides = divides
        accesses = [a for a in (statement.target, *statement.reads) if a.tensor == name]
        self.dims = {dim for access in accesses for index in access.index for dim in index.dims}
        self.reader = None if statement.target.tensor == name else ReadCounter(nest, name)
        self.writer = WriteCounter(nest, name) if self.reader is None else None
        self._rows: dict[tuple[object, ...], tuple[Ints, Ints]] = {}
        self._plans: dict[tuple[object, ...], tuple[list[tuple[int, int, int]], Ints]] = {}
        self._clocks: dict[tuple[Numbers, bool], Numbers] = {}

    def rows(self, columns: Columns, word: Situation, places: Sequence[Place]) -> tuple[Ints, Ints]:
        """Return [placement, column], and [placement, 4 x level + (reads, writes, fills, drains)]."""
        if self.reader is None:
            found = [self._written_row(columns, word, place) for place in places]
            return np.array([row for row, _ in found]), np.array([traffic for _, traffic in found])
        pairs, plan = self._plan(word, places)
        found = [self._pair(columns, word, *pair) for pair in pairs]
        rows = np.array([row for row, _ in found] + [columns.empty()])
        traffic = np.array([moved for _, moved in found] + [columns.no_traffic()])
        return rows[plan].sum(axis=1), traffic[plan].sum(axis=1)

    def _plan(self, word: Situation, places: Sequence[Place]) -> tuple[list[tuple[int, int, int]], Ints]:
        """Return all pairs (holder, level, gap), and per placement the numbers of its pairs, padded with a last one.

        level: of the node that loads from the holder, located at the gap; -1: the compute unit.
        """
        if word.key not in self._plans:
            pairs: dict[tuple[int, int, int], int] = {}
            chains: list[list[int]] = []
            for place in places:
                holder, chain = 0, list[int]()
                for level, gap in (*place, (-1, 0)):
                    chain.append(pairs.setdefault((holder, level, gap), len(pairs)))
                    holder = level
                chains.append(chain)
            longest = max(len(chain) for chain in chains)
            padded = [chain + [len(pairs)] * (longest - len(chain)) for chain in chains]
            self._plans[word.key] = list(pairs), np.array(padded, dtype=np.int64)
        return self._plans[word.key]

    def _pair(self, columns: Columns, word: Situation, holder: int, level: int, gap: int) -> tuple[Ints, Ints]:
        if level < 0:
            clock = tuple(sorted(word.clocks[-1]))
        else:
            clock = self._equivalent_clock(word.clocks[gap], free=word.lockstep)
        key = (holder, level, clock, word.spatial)
        if key not in self._rows:
            self._rows[key] = self._count_pair(columns, holder, Node(level, clock), word)
        return self._rows[key]

    def _count_pair(self, columns: Columns, holder: int, node: Node, word: Situation) -> tuple[Ints, Ints]:
        assert self.reader is not None
        level, clock, spatial = node.level, node.clock, word.spatial
        row, traffic = columns.empty(), columns.no_traffic()
        if level < 0:
            reads = self.reader.compute_reads(holder, clock, spatial)
            crossings = self.reader.compute_deliveries(holder, clock, spatial)
        else:
            fills, reads, first = self.reader.fills(holder, node, spatial, divides=self._divides)
            crossings = self.reader.deliveries(holder, node, spatial)
            columns.held(row, self.number, level, first)
            columns.moved(row, traffic, self.number, level, writes=fills, fills=int(fills.sum()))
        columns.moved(row, traffic, self.number, holder, reads=reads)
        columns.crossed(row, self.number, crossings)
        return row, traffic

    def _written_row(self, columns: Columns, word: Situation, place: Place) -> tuple[Ints, Ints]:
        nodes: list[tuple[int, Numbers]] = []
        clock: Numbers = ()
        for level, gap in place:
            clock += self._equivalent_clock(word.clocks[gap][len(clock) :], free=word.lockstep)
            nodes.append((level, clock))
        compute = self._arrivals(columns, nodes[-1][0] if nodes else 0, tuple(sorted(word.clocks[-1])), word.spatial)
        key = (tuple(nodes), word.spatial)
        if key not in self._rows:
            self._rows[key] = self._count_written(columns, *key)
        known = self._rows[key]
        return known[0] + compute[0], known[1] + compute[1]

    def _arrivals(self, columns: Columns, holder: int, temporal: Numbers, spatial: Numbers) -> tuple[Ints, Ints]:
        """Return the compute unit's moves at the innermost node, as if no residency began at zero."""
        assert self.writer is not None
        key = (holder, temporal, spatial)
        if key not in self._rows:
            row, traffic = columns.empty(), columns.no_traffic()
            writes = self.writer.arrivals(holder, temporal, spatial)
            columns.moved(row, traffic, self.number, holder, writes, writes)
            columns.crossed(row, self.number, self.writer.collections(*key))
            self._rows[key] = row, traffic
        return self._rows[key]

    def _count_written(
        self, columns: Columns, nodes: Sequence[tuple[int, Numbers]], spatial: Numbers
    ) -> tuple[Ints, Ints]:
        """Return the nodes' moves, minus the reads that the compute unit saves where a residency began at zero."""
        assert self.writer is not None
        row, traffic = columns.empty(), columns.no_traffic()
        chain = [Node(*node) for node in nodes]
        moves, tiles, zero = self.writer.exchanges(chain, spatial)
        columns.crossed(row, self.number, self.writer.crossings(chain, spatial))
        levels = [0, *(level for level, _ in nodes)]
        for level, move, tile in zip(levels, moves, tiles, strict=True):
            columns.moved(
                row, traffic, self.number, level, move.reads, move.writes, fills=move.fills, drains=move.drains
            )
            columns.held(row, self.number, level, tile)
        columns.moved(row, traffic, self.number, levels[-1], -zero)
        return row, traffic

    def _equivalent_clock(self, clock: Numbers, *, free: bool) -> Numbers:
        """Return a clock with the same residencies: irrelevant loops directly above the node dropped, runs of them
        sorted.

        Only if `free` (lock step): an instance that is idle for a while would see another order of its steps.
        """
        key = (clock, free)
        if key not in self._clocks:
            used = len(clock)
            while free and used and self.nest.loops[clock[used - 1]].dim not in self.dims:
                used -= 1
            self._clocks[key] = self._sorted_runs(clock[:used], free=free)
        return self._clocks[key]

    def _sorted_runs(self, clock: Numbers, *, free: bool) -> Numbers:
        """Return the clock with each run of loops over dims that the tensor lacks sorted, if `free`."""
        if not free:
            return clock
        done: list[int] = []
        run: list[int] = []
        for number in clock:
            if self.nest.loops[number].dim in self.dims:
                done += sorted(run, key=self._rank)
                done.append(number)
                run = []
            else:
                run.append(number)
        return tuple(done + sorted(run, key=self._rank))

    def _rank(self, number: int) -> tuple[str, int]:
        return self.nest.loops[number].dim, -self.nest.loops[number].tiles[-1]
