"""Counts of many mappings of one tree shape at once, for tiles of any size: `Counter` and `busiest` as plans.

A plan is a sum of products of factors that depends only on the tree's shape.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise, product
from math import prod
from typing import NamedTuple

import numpy as np

from polymap.costmodel.closed_form import (
    TEMPORAL,
    Busiest,
    DimKind,
    MachineModel,
    Node,
    Pins,
    Row,
    TensorModel,
    Wire,
    WorkloadModel,
    rows_of,
    wires_of,
)
from polymap.costmodel.tables.digits import most_runs
from polymap.costmodel.tables.loops import Booleans, Integers, Many, Shape
from polymap.costmodel.tables.planned_sums import NO_TERMS, Nested, Rows, Terms, evaluated, nested
from polymap.costmodel.tables.plans import Plans
from polymap.costmodel.tables.tuning import TUNING


class Candidate(NamedTuple):
    """One kind of instance of a level. works: 1 where it has work. reads, writes: in bits."""

    works: Nested
    reads: Nested
    writes: Nested


class PartialPlan:
    """The plan of one tree. metered: the levels whose busiest instance is needed."""

    __slots__ = (
        "_alone",
        "_bits",
        "_busy",
        "_doubts",
        "_levels",
        "_metered",
        "_plans",
        "_rows",
        "_steps",
        "_uneven",
        "_wires",
    )

    def __init__(self, model: WorkloadModel, machine: MachineModel, shape: Shape, metered: Collection[int]) -> None:
        self._plans = Plans(model.extents, machine, shape)
        self._metered, self._levels = metered, len(machine.levels)
        self._bits = [tensor.bits for tensor in model.tensors]
        self._uneven: set[int] = set()  # dims whose tiles must divide for the plan to hold
        self._doubts: list[tuple[Nested, frozenset[int] | None]] = []  # sums that must be 0 where such a dim is uneven
        rows: list[Row[Terms]] = []
        for tensor, nodes in zip(model.tensors, shape.holders, strict=True):
            rows += self._rows_of(tensor, nodes)
            self._require_equal_loads(machine, tensor, nodes)
        rows.sort(key=lambda row: (row.level, row.tensor))
        self._rows = [Row(row.level, row.tensor, *map(nested, row[2:])) for row in rows]
        wires = wires_of(self._plans, machine, model, shape.holders, rows, NO_TERMS)
        self._wires = [Wire(wire.fanout, wire.tensor, *map(nested, wire[2:])) for wire in wires]
        self._steps = nested(self._plans.steps())
        fans = dict(machine.levels.values())
        self._alone = [level for level in metered if not fans[level]]
        self._busy = {level: self._candidates(model, shape, level, fans[level]) for level in metered if fans[level]}
        self._doubts += [(nested(terms), None) for terms in self._plans.planned.doubts]

    def _rows_of(self, tensor: TensorModel, nodes: tuple[Node, ...]) -> Iterator[Row[Terms]]:
        """Yield the rows of a tensor; record the conditions under which they hold."""
        for node, row in zip(nodes, rows_of(self._plans, tensor, nodes, NO_TERMS), strict=False):
            if tensor.written and node.level and node.level in self._metered:
                self._require_equal_shares(tensor, node, row.fills)
            yield row

    def _require_equal_shares(self, tensor: TensorModel, node: Node, fills: Terms) -> None:
        """Record that no partial sum may be taken where siblings take unequal shares.

        Their shares are unequal where they may hold an element at different offsets of a window, or enter it while
        others hold it.
        """
        spread = {loop.dim for loop in self._plans.nest.loops if 0 <= loop.fanout < node.fans}
        if tensor.windows and any(tensor.kinds[dim] is DimKind.WINDOW for dim in spread):
            self._doubts.append((nested(fills), None))
        elif tensor.windows and (idle := frozenset(dim for dim in spread if tensor.kinds[dim] is DimKind.IDLE)):
            self._doubts.append((nested(fills), idle))

    def _require_equal_loads(self, machine: MachineModel, tensor: TensorModel, nodes: tuple[Node, ...]) -> None:
        """Record the singles of which no tile may be partial.

        Siblings united along them might differ in whether they load, while others are merged along a window.
        """
        if tensor.written or not tensor.windows:
            return
        for parent, node in pairwise(nodes[:-1]):
            between = [loop for loop in self._plans.nest.loops if parent.fans <= loop.fanout < node.fans]
            if any(
                tensor.kinds[loop.dim] is DimKind.WINDOW
                and not (machine.unites[loop.fanout] or machine.repeats[loop.fanout])
                for loop in between
            ):
                self._uneven |= {
                    loop.dim
                    for loop in between
                    if tensor.kinds[loop.dim] is DimKind.SINGLE and machine.unites[loop.fanout]
                }

    def _candidates(self, model: WorkloadModel, shape: Shape, level: int, fans: int) -> list[Candidate]:
        """Return the kinds of instances of a level that may be the busiest, with their reads and writes."""
        here = [
            (tensor, number, nodes)
            for tensor, nodes in zip(model.tensors, shape.holders, strict=True)
            for number, node in enumerate(nodes)
            if node.level == level
        ]
        found: list[Candidate] = []
        for pins in self._kinds_of_instances([tensor for tensor, _, _ in here], fans):
            reads = writes = NO_TERMS
            for tensor, number, nodes in here:
                moves = self._plans.accesses(tensor, nodes, number, pins)
                reads, writes = reads + moves.reads * tensor.bits, writes + moves.writes * tensor.bits
            found.append(Candidate(nested(self._plans.works(pins)), nested(reads), nested(writes)))
        return found

    def _kinds_of_instances(self, tensors: list[TensorModel], fans: int) -> list[Pins]:
        """Return, per kind of instance that may be the busiest, position of a spatial loop -> run of digits.

        Only along windows, or along dims that the target lacks, may another instance than the first do more. Where a
        tile is partial, too many kinds are left to `Counter`, as are siblings in two loops over a dim that the target
        lacks.
        """
        loops: list[int] = []
        kinds: list[range] = []
        may_exceed: set[int] = set()
        simple = True
        for dim, chain in enumerate(self._plans.nest.chains):
            lacking = any(tensor.written and tensor.kinds[dim] is DimKind.IDLE for tensor in tensors)
            doubted = lacking or any(tensor.kinds[dim] is DimKind.WINDOW for tensor in tensors)
            spatial = [
                (number, loop) for number, loop in enumerate(chain) if loop.fanout != TEMPORAL and loop.fanout < fans
            ]
            simple &= not lacking or len(spatial) < 2
            loops += [loop.position for _, loop in spatial]
            kinds += [range(most_runs(number) if doubted else 1) for number, _ in spatial]
            if doubted and spatial:
                may_exceed.add(dim)
        simple &= not any(tensor.written and tensor.windows for tensor in tensors)
        if not simple or prod(len(each) for each in kinds) > TUNING.busiest_candidates:
            self._uneven |= may_exceed
            kinds = [range(1)] * len(loops)
        return [dict(zip(loops, chosen, strict=True)) for chosen in product(*kinds)]

    def rows_of(self, tiles: list[Integers]) -> Rows:
        """Return the rows of a table of tiles, none larger than the enclosing one."""
        return Rows(tiles, len(self._plans.planned.numbering.known))

    def count(
        self, rows: Rows, even: dict[int, Booleans]
    ) -> tuple[list[Row[Many]], tuple[Busiest[Many], ...], Integers, list[Wire[Many]]]:
        """Return counts, busiest instances, steps and wires for the current rows; record in `rows` those for which they
        fail.

        even: per dim, where all its tiles divide.
        """
        found = [Row(row.level, row.tensor, *(self._value(each, rows) for each in row[2:])) for row in self._rows]
        nothing: Busiest[Many] = Busiest(0, 0, 0)
        busy = [nothing] * self._levels
        for level in self._alone:
            busy[level] = self._bits_of_only_instance(found, level)
        for level, candidates in self._busy.items():
            for each in candidates:
                works = self._value(each.works, rows)
                read, written = self._value(each.reads, rows) * works, self._value(each.writes, rows) * works
                busy[level] = Busiest(*map(np.maximum, busy[level], (read, written, read + written)))
        for dim in sorted(self._uneven):
            rows.failed |= ~even[dim]
        for doubt, dims in self._doubts:
            wrong = self._value(doubt, rows) != 0
            if dims is not None:
                wrong = wrong & ~np.logical_and.reduce([even[dim] for dim in sorted(dims)])
            rows.failed |= wrong
        wires = [
            Wire(wire.fanout, wire.tensor, *(self._value(each, rows) for each in wire[2:])) for wire in self._wires
        ]
        steps = self._value(self._steps, rows) + np.zeros_like(rows.failed, dtype=np.int64)
        return found, tuple(busy), steps, wires

    def _value(self, plan: Nested, rows: Rows) -> Many:
        return evaluated(plan, rows, self._plans.planned.numbering.known)

    def _bits_of_only_instance(self, rows: list[Row[Many]], level: int) -> Busiest[Many]:
        """Return the bits that the only instance of a level reads and writes."""
        read: Many = 0
        written: Many = 0
        for row in rows:
            if row.level == level:
                read = row.reads * self._bits[row.tensor] + read
                written = row.writes * self._bits[row.tensor] + written
        return Busiest(read, written, read + written)
