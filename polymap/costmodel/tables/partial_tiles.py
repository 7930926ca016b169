"""Counts of many mappings of one tree shape at once, for tiles of any size: `Counter` and `busiest` as plans.

A plan is a sum of products of factors that depends only on the tree's shape.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise, product
from math import prod
from typing import NamedTuple

import numpy as np

from polymap.costmodel.closed_form import (
    TEMPORAL,
    Busiest,
    DimKind,
    Loop,
    MachineModel,
    NestCounts,
    Node,
    Pins,
    Row,
    Shape,
    Siblings,
    TensorModel,
    Wire,
    WorkloadModel,
    bits_of_only_instance,
    rows_of,
    wires_of,
)
from polymap.costmodel.tables.digits import most_runs, run_starts
from polymap.costmodel.tables.loops import Booleans, Extent, ExtentColumn, Integers, Many, quotient
from polymap.costmodel.tables.planned_sums import NO_TERMS, NestedSum, Rows, Terms, evaluate_sum, nest_terms
from polymap.costmodel.tables.plans import Plans
from polymap.costmodel.tables.tuning import TUNING


class Shares(NamedTuple):
    """Partial sums that an instance takes, in bits. alike: where siblings take equal shares. most: an upper bound.

    fills: elements that all instances take; 0 where none does. dims: shares differ only where a tile of one of these is
    partial; None: wherever there are fills.
    """

    alike: NestedSum
    most: NestedSum
    fills: NestedSum
    dims: frozenset[int] | None


class Candidate(NamedTuple):
    """Kinds of instances of a level that are counted alike. pinned: the spatial loops whose digits tell them apart, and
    whether a digit is above 0. works: 1 where an instance has work. reads, writes: in bits, without `shares`, which are
    read and written, too."""

    pinned: tuple[tuple[Loop[int], bool], ...]
    works: NestedSum
    reads: NestedSum
    writes: NestedSum
    shares: tuple[Shares, ...]


class Candidates(NamedTuple):
    """Kinds of instances of a level. joint: one list of those that may be the busiest. Else they are bounds: a list per
    tensor, the first instance first, of which the largest is not exceeded."""

    joint: bool
    lists: list[list[Candidate]]


class PartialPlan:
    """The plan of one tree. metered: the levels whose busiest instance is needed; where instances of too many kinds may
    be the busiest, it is bounded tensor by tensor."""

    __slots__ = (
        "_alone",
        "_busy",
        "_doubts",
        "_extents",
        "_first_pin",
        "_grouping",
        "_levels",
        "_loops",
        "_model",
        "_plans",
        "_rows",
        "_steps",
        "_uneven",
        "_wires",
    )

    def __init__(
        self,
        model: WorkloadModel,
        extents: Sequence[Extent],
        machine: MachineModel,
        shape: Shape,
        metered: Collection[int],
        *,
        looks_back: bool = False,
    ) -> None:
        self._plans, self._extents = Plans(extents, machine, shape, looks_back=looks_back), extents
        self._loops = len(shape.loops)  # columns: tiles, extents that differ, digits of the loops
        self._first_pin = self._loops + sum(isinstance(extent, ExtentColumn) for extent in extents)
        self._levels = len(machine.levels)
        self._model = model
        self._uneven: set[int] = set()  # dims whose tiles must divide for the plan to hold
        rows: list[Row[Terms]] = []
        for tensor, nodes in zip(model.tensors, shape.holders, strict=True):
            rows += rows_of(self._plans, tensor, nodes, NO_TERMS)
            self._require_equal_loads(machine, tensor, nodes)
        rows.sort(key=lambda row: (row.level, row.tensor))
        self._rows = [Row(row.level, row.tensor, *map(nest_terms, row[2:])) for row in rows]
        wires = wires_of(self._plans, machine, model, shape.holders, rows, NO_TERMS)
        self._wires = [Wire(wire.fanout, wire.tensor, *map(nest_terms, wire[2:])) for wire in wires]
        self._steps = nest_terms(self._plans.steps())
        fans = dict(machine.levels.values())
        self._alone = [level for level in metered if not fans[level]]
        self._busy = {
            level: self._candidates_of_level(model, shape, rows, level, fans[level]) for level in metered if fans[level]
        }
        self._doubts = [nest_terms(terms) for terms in self._plans.planned.doubts]  # sums that must be 0
        self._grouping = self._plans.planned.numbering.grouping()

    def _unequal_shares(self, tensor: TensorModel, node: Node) -> frozenset[int] | None:
        """Return the dims of which one must be uneven for siblings to take unequal shares of partial sums; None:
        whatever the tiles.

        Their shares are unequal where they may hold an element at different offsets of a window, or enter it while
        others hold it and no formula tells which of them is the first.
        """
        spread = [loop.dim for loop in self._plans.nest.loops if 0 <= loop.fanout < node.fans]
        if any(tensor.kinds[dim] is DimKind.WINDOW for dim in spread):
            return None
        idle = [dim for dim in spread if tensor.kinds[dim] is DimKind.IDLE]
        return frozenset(idle if tensor.windows or len(set(idle)) < len(idle) else ())

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

    def _candidates_of_level(
        self, model: WorkloadModel, shape: Shape, rows: list[Row[Terms]], level: int, fans: int
    ) -> Candidates:
        """Return the kinds of instances of a level that may be the busiest: of all tensors, or, where there are too
        many, a list per tensor."""
        fills = {row.tensor: nest_terms(row.fills) for row in rows if row.level == level}
        here = [
            (tensor, number, nodes)
            for tensor, nodes in zip(model.tensors, shape.holders, strict=True)
            for number, node in enumerate(nodes)
            if node.level == level
        ]
        classes = self._classes_of_instances([tensor for tensor, _, _ in here], fans)
        if classes is not None:
            return Candidates(joint=True, lists=[self._candidates(here, fills, classes)])
        first = {loop.position: 0 for loop in self._plans.nest.loops if 0 <= loop.fanout < fans}
        found: list[list[Candidate]] = []
        for each in here:
            classes = self._classes_of_instances([each[0]], fans)
            bounds = [self._bound(*each, first)] if classes is None else []
            others = [pins for pins in classes or () if pins != first]
            found.append(self._candidates([each], fills, [first, *others]) + bounds)
        return Candidates(joint=False, lists=found)

    def _candidates(
        self, here: list[tuple[TensorModel, int, tuple[Node, ...]]], fills: dict[int, NestedSum], kinds: Sequence[Pins]
    ) -> list[Candidate]:
        """Return kinds of instances with what they read and write of some tensors.

        here: tensor, number of its node, all its nodes. fills: per tensor, those of all instances.
        """
        found: list[Candidate] = []
        for pins in kinds:
            reads = writes = NO_TERMS
            shares: list[Shares] = []
            for tensor, number, nodes in here:
                unequal = self._unequal_shares(tensor, nodes[number]) if tensor.written else frozenset[int]()
                if unequal is None or unequal:
                    moved = self._plans.arrivals(tensor, nodes[number], nodes[number + 1], pins) * tensor.bits
                    reads, writes = reads + moved, writes + moved
                    shares.append(self._shares(tensor, nodes, number, pins, fills[tensor.index], unequal))
                    continue
                moves = self._plans.accesses(tensor, nodes, number, pins)
                reads, writes = reads + moves.reads * tensor.bits, writes + moves.writes * tensor.bits
            works = nest_terms(self._plans.works(pins))
            idle = {
                dim
                for tensor, _, _ in here
                if tensor.written
                for dim, kind in enumerate(tensor.kinds)
                if kind is DimKind.IDLE
            }
            pinned = tuple((loop, loop.dim in idle) for loop in self._plans.nest.loops if pins.get(loop.position))
            found.append(Candidate(pinned, works, nest_terms(reads), nest_terms(writes), tuple(shares)))
        return found

    def _bound(self, tensor: TensorModel, number: int, nodes: tuple[Node, ...], first: Pins) -> Candidate:
        """Return what no instance exceeds: each tile of the first one, and of those below it, enters anew in each step.

        Other instances have no more steps and no larger tiles.
        """
        node, below = nodes[number : number + 2]
        entered, served = (
            self._plans.elements_of_all_steps(self._plans.node(tensor, between, Siblings.APART, first)) * tensor.bits
            for between in ((node, node), (node, below))
        )
        if tensor.written:
            both = nest_terms(entered + served)
            return Candidate((), NestedSum(1, ()), both, both, ())
        return Candidate((), NestedSum(1, ()), nest_terms(served * max(1, tensor.reads)), nest_terms(entered), ())

    def _shares(
        self,
        tensor: TensorModel,
        nodes: tuple[Node, ...],
        number: int,
        pins: Pins,
        fills: NestedSum,
        unequal: frozenset[int] | None,
    ) -> Shares:
        """Return the partial sums that the instance with these digits takes at node `number`: at most all it enters."""
        parent, node = nodes[number - 1], nodes[number]
        later = any(
            pins[loop.position]
            for loop in self._plans.nest.loops
            if 0 <= loop.fanout < node.fans and tensor.kinds[loop.dim] is DimKind.IDLE
        )
        # Where shares are equal, the first of the siblings takes all; where they differ in a window, there are none.
        alike = NO_TERMS
        if unequal is not None and not later:
            alike = self._plans.partial_sums_taken(tensor, nodes, number, pins) * tensor.bits
        most = self._plans.entries(tensor, parent, node, pins) * tensor.bits
        return Shares(nest_terms(alike), nest_terms(most), fills, unequal)

    def _classes_of_instances(self, tensors: list[TensorModel], fans: int) -> list[Pins] | None:
        """Return classes of the instances that may be the busiest in these tensors: position of a spatial loop -> the
        column of its digit, or 0 for the first digit; None where there are too many kinds.

        Plans tell the first digit from later ones only along dims that a written tensor lacks.
        """
        most, choices = 1, dict[int, tuple[int, ...]]()
        for dim, chain in enumerate(self._plans.nest.chains):
            may_exceed = any(tensor.may_be_busier(dim) for tensor in tensors)
            told = any(tensor.written and tensor.kinds[dim] is DimKind.IDLE for tensor in tensors)
            for number, loop in enumerate(chain):
                if loop.fanout != TEMPORAL and loop.fanout < fans:
                    most *= most_runs(number) if may_exceed else 1
                    pin = self._first_pin + loop.tile
                    choices[loop.position] = (0, pin) if told else (pin,) if may_exceed else (0,)
        chosen = product(*choices.values())
        return [dict(zip(choices, each, strict=True)) for each in chosen] if most <= TUNING.most_candidates else None

    def rows_of(self, tiles: list[Integers]) -> Rows:
        """Return the rows of a table of tiles, none larger than the enclosing one."""
        return Rows(tiles, self._grouping)

    def count(self, rows: Rows, even: dict[int, Booleans]) -> tuple[NestCounts[Many], tuple[Busiest[Many], ...]]:
        """Return the counts of the current rows, and lower bounds of the busiest instances; record in `rows` those for
        which they fail (of others see `doubtful`).

        even: per dim, where all its tiles divide. The busiest instances of the counts are upper bounds, which differ
        from the lower ones where siblings take unequal shares of partial sums or instances are of too many kinds.
        """
        found = [Row(row.level, row.tensor, *(self._value(each, rows) for each in row[2:])) for row in self._rows]
        nothing: Busiest[Many] = Busiest(0, 0, 0)
        least, most = [nothing] * self._levels, [nothing] * self._levels
        for level in self._alone:
            least[level] = most[level] = bits_of_only_instance(self._model, found, level)
        for level, candidates in self._busy.items():
            for kinds in candidates.lists:
                bounds = [self._bits_of_instances(each, rows, even) for each in kinds]
                low = _largest([low for low, _ in bounds]) if candidates.joint else bounds[0][0]
                high = _largest([high for _, high in bounds])
                least[level], most[level] = _sum(least[level], low), _sum(most[level], high)
        for dim in sorted(self._uneven):
            rows.failed |= ~even[dim]
        wires = [
            Wire(wire.fanout, wire.tensor, *(self._value(each, rows) for each in wire[2:])) for wire in self._wires
        ]
        steps = self._value(self._steps, rows) + np.zeros_like(rows.failed, dtype=np.int64)
        return NestCounts(found, most, steps, wires), tuple(least)

    def doubtful(self, rows: Rows) -> Booleans:
        """Return a mask of the current rows whose counts do not hold, as something that must be 0 is not."""
        found = np.zeros_like(rows.failed)
        for doubt in self._doubts:
            found |= self._value(doubt, rows) != 0
        return found

    def _bits_of_instances(
        self, candidate: Candidate, rows: Rows, even: dict[int, Booleans]
    ) -> tuple[Busiest[Many], Busiest[Many]]:
        """Return a lower and an upper bound on the bits that the busiest of these instances reads and writes."""
        if not candidate.pinned:
            return self._bits_of_instance(candidate, rows, even)
        tiles, number = rows.tiles(), len(rows.failed)
        most = prod(most_runs(self._loops_outside(loop)) for loop, _ in candidate.pinned)
        bounds = np.zeros((6, number), dtype=np.int64)
        for start in range(0, number, max(1, TUNING.chain_rows // most)):
            stretch = slice(start, start + max(1, TUNING.chain_rows // most))
            here, pinned = self._pinned([tile[stretch] for tile in tiles], candidate)
            if not len(here):
                continue
            own = Rows(pinned, self._grouping)
            found = self._bits_of_instance(candidate, own, {dim: each[stretch][here] for dim, each in even.items()})
            firsts = np.flatnonzero(np.diff(here, prepend=-1))
            for bound, values in zip(bounds, (*found[0], *found[1]), strict=True):
                values = np.broadcast_to(values, len(here))
                bound[start + here[firsts]] = np.maximum.reduceat(values, firsts)
            rows.failed[start + here[firsts]] |= np.logical_or.reduceat(own.failed, firsts)
        return Busiest[Many](*bounds[:3]), Busiest[Many](*bounds[3:])

    def _loops_outside(self, loop: Loop[int]) -> int:
        return self._plans.nest.chains[loop.dim].index(loop)

    def _pinned(self, tiles: list[Integers], candidate: Candidate) -> tuple[Integers, list[Integers]]:
        """Return the numbers of the rows, ascending, each as often as it has such instances, and their columns, digits
        last."""
        here = np.arange(len(tiles[0]))
        digits: dict[int, Integers] = {}
        for loop, later in candidate.pinned:
            extent = self._extents[loop.dim]
            lengths: list[Many] = [extent if isinstance(extent, int) else tiles[extent.column]]
            for outer in self._plans.nest.chains[loop.dim][: self._loops_outside(loop)]:
                tile = tiles[outer.tile]
                lengths = [tile, *(length - quotient(length, tile) * tile for length in lengths)]
            starts = np.stack(np.broadcast_arrays(*run_starts(lengths, tiles[loop.tile])), axis=1)[here]
            there = starts > 0
            there[:, 0] = not later
            which, run = np.nonzero(there)
            here, digits = here[which], {column: each[which] for column, each in digits.items()}
            digits[loop.tile] = starts[which, run]
        idle = np.zeros_like(here)
        return here, [*(tile[here] for tile in tiles), *(digits.get(each, idle) for each in range(self._loops))]

    def _bits_of_instance(
        self, candidate: Candidate, rows: Rows, even: dict[int, Booleans]
    ) -> tuple[Busiest[Many], Busiest[Many]]:
        """Return a lower and an upper bound on the bits that an instance reads and writes."""
        works = self._value(candidate.works, rows)
        moved = [self._value(each, rows) for each in (candidate.reads, candidate.writes)]
        taken: list[Many] = [0, 0]
        for shares in candidate.shares:
            unequal = np.not_equal(self._value(shares.fills, rows), 0)
            if shares.dims is not None:
                unequal = unequal & ~np.logical_and.reduce([even[dim] for dim in sorted(shares.dims)])
            alike = self._value(shares.alike, rows)
            for number, other in enumerate((0, self._value(shares.most, rows))):
                taken[number] = taken[number] + np.where(unequal, other, alike)
        reads, writes = moved
        low, high = (
            Busiest[Many]((reads + each) * works, (writes + each) * works, (reads + writes + 2 * each) * works)
            for each in taken
        )
        return low, high

    def _value(self, plan: NestedSum, rows: Rows) -> Many:
        return evaluate_sum(plan, rows)


def _largest(found: list[Busiest[Many]]) -> Busiest[Many]:
    total, *others = found
    for each in others:
        total = Busiest[Many](*map(np.maximum, total, each))
    return total


def _sum(one: Busiest[Many], other: Busiest[Many]) -> Busiest[Many]:
    return Busiest[Many](*(a + b for a, b in zip(one, other, strict=True)))
