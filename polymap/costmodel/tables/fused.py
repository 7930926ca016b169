"""Tables of trees with branches: `BranchCounter` on columns, so a child's nest is counted for all mappings at once.

The tiles that a run gets differ between mappings: where loops above a branch cut a dim, its extent in the nests below
is a column, too. Dependences do not look at how long tiles are, only at which loops have several iterations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from polymap.costmodel.closed_form import (
    TEMPORAL,
    BranchCounter,
    Length,
    LoopColumn,
    MachineModel,
    NestCounts,
    OutOfReach,
    Shape,
    WorkloadModel,
    loops_of_tree,
    machine_model,
    shape_of_tree,
    workload_model,
)
from polymap.costmodel.coherence import may_be_stale
from polymap.costmodel.evaluation import is_in_order
from polymap.costmodel.tables.cost_columns import BatchFigures, Pricing, within_fanouts
from polymap.costmodel.tables.digits import lengths_below
from polymap.costmodel.tables.dividing_tiles import count_arrays, is_in_reach
from polymap.costmodel.tables.loops import Booleans, Columns, ExtentColumn, Integers, Many, with_tiles
from polymap.costmodel.tables.partial_tiles import PartialPlan
from polymap.costmodel.tables.tuning import TUNING
from polymap.ir import Architecture, Branch, Compute, Mapping, MappingNode, Spatial, Temporal, Workload, accesses_of

NestKey = tuple[Workload, Mapping, tuple[int, ...]]


@dataclass(slots=True)
class NestColumns:
    """One nest of a tree, planned. loops: the number of the column of each of its loops. varying: dims whose extents
    are columns."""

    model: WorkloadModel
    machine: MachineModel
    shape: Shape
    loops: tuple[int, ...]
    varying: tuple[int, ...]
    metered: tuple[int, ...]
    plan: PartialPlan | None = None

    @staticmethod
    def of(key: NestKey, machine: MachineModel, metered: tuple[int, ...]) -> NestColumns:
        """Raises OutOfReach where array formulas do not count the nest."""
        nest, mapping, varying = key
        model = workload_model(nest)
        shape = None if model is None else shape_of_tree(model, machine, mapping)
        if model is None or shape is None:
            raise OutOfReach(nest.statements[0].name)
        loops = tuple(node.tile for node in mapping.nodes if isinstance(node, Temporal | Spatial))
        return NestColumns(model, machine, shape, loops, varying, metered)

    def count_dividing(self, columns: Columns) -> NestCounts[Many]:
        """Return the counts of mappings whose tiles all divide."""
        if not is_in_reach(self.model, self.machine, self.shape):
            raise OutOfReach(self.model.statement)
        rows, busy, wires = count_arrays(self.model, self.machine, self.shape, columns)
        return NestCounts(rows, busy, columns.steps, wires)

    def count_partial(self, columns: Columns, extents: Sequence[Many]) -> tuple[NestCounts[Many], Booleans]:
        """Return the counts of mappings with tiles of any size, and a mask of those for which they do not hold."""
        if self.plan is None:
            places = {dim: ExtentColumn(len(self.loops) + number) for number, dim in enumerate(self.varying)}
            own = [places.get(dim, extent) for dim, extent in enumerate(self.model.extents)]
            self.plan = PartialPlan(self.model, own, self.machine, self.shape, self.metered)
        given = (np.asarray(extents[dim]) for dim in self.varying)
        rows = self.plan.rows_of([*columns.tiles, *given])
        rows.move(slice(0, columns.rows))
        counts, least = self.plan.count(rows, columns.even)
        rows.failed |= self.plan.doubtful(rows)
        for bounds in zip(counts.busy, least, strict=True):
            for high, low in zip(*bounds, strict=True):
                rows.failed |= np.not_equal(high, low)
        return counts, rows.failed


@dataclass(slots=True)
class ColumnRuns:
    """Numbers that are columns of a table (`closed_form.branches.Numbers`). columns: the tiles of all loops, at last
    ones. divides: all tiles divide. failed: mappings that are not counted."""

    workload: Workload
    machine: MachineModel
    metered: tuple[int, ...]
    nests: dict[NestKey, NestColumns]
    columns: list[Integers]
    divides: bool
    failed: Booleans

    @property
    def unit(self) -> int:
        return len(self.columns) - 1

    def tile(self, loop: Temporal | Spatial) -> Many:
        return self.columns[loop.tile]

    def least(self, one: Many, other: Many) -> Many:
        return np.minimum(one, other)

    def most(self, one: Many, other: Many) -> Many:
        return np.maximum(one, other)

    def quotient(self, dividend: Many, divisor: Many) -> Many:
        return dividend // divisor

    def equal(self, one: Many, other: Many) -> Many:
        return np.equal(one, other).astype(np.int64)

    def lengths(self, extent: Many, tiles: Sequence[Many]) -> Sequence[Length[Many]]:
        lengths: list[tuple[Many, Many]] = [(extent, 1)]
        first = extent
        for tile in tiles:
            first = np.minimum(tile, first)
            lengths = lengths_below(lengths, first)
            lengths = lengths[:1] if self.divides else lengths
        found: list[Length[Many]] = [Length(0, first, 1, is_first=True)]
        for kind, (length, number) in enumerate(lengths):
            others = number if kind else number - 1
            if np.any(others):
                found.append(Length(kind, np.where(others > 0, length, first), others, is_first=False))
        return found

    def refuse(self, refused: Any, times: Many, why: str) -> None:
        self.failed |= np.logical_and(refused, np.greater(times, 0))

    def extents(self, extents: dict[str, Many]) -> dict[str, int]:
        whole = self.workload.extents()
        return {name: whole[name] for name in extents}

    def count(self, nest: Workload, extents: dict[str, Many], mapping: Mapping, times: Many) -> NestCounts[Many]:
        own = [extents[each.name] for each in nest.dims]
        varying = tuple(number for number, each in enumerate(own) if isinstance(each, np.ndarray))
        key = nest, mapping, varying
        if key not in self.nests:
            self.nests[key] = NestColumns.of(key, self.machine, self.metered)
        planned = self.nests[key]
        columns = Columns(own, planned.shape, [self.columns[each] for each in planned.loops], len(self.failed))
        if self.divides:
            return planned.count_dividing(columns)
        counts, failed = planned.count_partial(columns, own)
        self.refuse(failed, times, "a nest")
        return counts


@dataclass(frozen=True, slots=True)
class Way:
    """The loops from the root to a statement. dims: of the statement, by number."""

    shape: Shape
    loops: tuple[int, ...]
    dims: frozenset[int]


@dataclass(slots=True)
class FusedBatch:
    """Tables of a tree with branches. tree: the number of its column as each loop's tile. ways: one per statement.
    ordering: columns of the loops that dependences look at. legal: which of these loops have several iterations ->
    whether dependences allow that."""

    workload: Workload
    arch: Architecture
    tree: Mapping
    pricing: Pricing
    placed: bool
    ways: tuple[Way, ...]
    ordering: tuple[int, ...]
    nests: dict[NestKey, NestColumns] = field(default_factory=dict[NestKey, NestColumns])
    legal: dict[bytes, bool] = field(default_factory=dict[bytes, bool])

    def count_dividing(self, table: Integers) -> tuple[BatchFigures, Booleans] | None:
        return self._counted(table, divides=True)

    def count_partial(self, table: Integers) -> Iterator[tuple[slice | Integers, BatchFigures, Booleans]]:
        for start in range(0, len(table), TUNING.fused_rows):
            stretch = slice(start, min(start + TUNING.fused_rows, len(table)))
            found = self._counted(table[stretch], divides=False)
            if found is not None:
                yield stretch, *found

    def _counted(self, table: Integers, *, divides: bool) -> tuple[BatchFigures, Booleans] | None:
        positive = np.maximum(table, 1)
        columns = list(np.ascontiguousarray(positive.T))
        right: Booleans = (positive == table).all(axis=1)
        legal, moves = np.full(len(table), self.placed), np.zeros_like(table, dtype=np.bool_)
        extents, names = tuple(self.workload.extents().values()), tuple(self.workload.extents())
        for way in self.ways:
            own = Columns(extents, way.shape, [columns[each] for each in way.loops], len(table))
            for dim, end in own.ends.items():
                right &= (end == 1) | (dim not in way.dims)
                right &= own.even[dim] | (not divides)
            legal &= within_fanouts(names, self.arch, way.shape, own)
            for column, trips in zip(way.loops, own.trips, strict=True):
                moves[:, column] = trips > 1
        if not right.any():
            return None
        runs = self.runs([*columns, np.ones(len(table), dtype=np.int64)], divides=divides)
        try:
            counts, held = BranchCounter(self.workload, self.arch, runs, metered=True).counts(self.tree)
        except OutOfReach:
            return None
        right &= ~runs.failed
        legal &= self._in_order(table, moves[:, self.ordering], right)
        return self.pricing.figures(counts, held, legal), right

    def _in_order(self, table: Integers, moves: Booleans, right: Booleans) -> Booleans:
        """Return a mask of the mappings that dependences allow. moves: per loop of `ordering`. right: those to look
        at."""
        allowed = np.zeros(len(table), dtype=np.bool_)
        some = np.flatnonzero(right)
        patterns, first, which = np.unique(moves[some], axis=0, return_index=True, return_inverse=True)
        for number, (pattern, row) in enumerate(zip(patterns, first, strict=True)):
            key = pattern.tobytes()
            if key not in self.legal:
                mapping = Mapping(with_tiles(self.tree.nodes, iter(table[some[row]].tolist())))
                self.legal[key] = is_in_order(self.workload, self.arch, mapping)
            allowed[some[which.reshape(-1) == number]] = self.legal[key]
        return allowed

    def runs(self, columns: list[Integers], *, divides: bool) -> ColumnRuns:
        metered = tuple(number for number, level in enumerate(self.arch.levels) if level.has_bandwidth)
        failed = np.zeros(len(columns[-1]), dtype=np.bool_)
        return ColumnRuns(
            self.workload, machine_model(self.arch), metered, self.nests, columns, divides=divides, failed=failed
        )


def batch_of_branches(workload: Workload, arch: Architecture, tree: Mapping, *, placed: bool) -> FusedBatch | None:
    """Return the counter of the tables of a tree with branches, or None where rows must be counted one by one."""
    pricing = Pricing(workload, arch)
    if not (pricing.fits and _orders_by_loops(workload)):
        return None
    numbered = Mapping(with_tiles(tree.nodes, count()))
    loops = sum(1 for _ in loops_of_tree(tree.nodes))
    is_by_branches = workload.associative and not may_be_stale(workload, arch, tree)
    ordering = tuple(_loops_above_branches(numbered.nodes)) if is_by_branches else tuple(range(loops))
    ways = tuple(_ways(workload, arch, numbered.nodes, ()))
    batch = FusedBatch(workload, arch, numbered, pricing, placed, ways, ordering)
    one = np.ones(1, dtype=np.int64)
    try:
        BranchCounter(workload, arch, batch.runs([one] * (loops + 1), divides=False), metered=True).counts(numbered)
    except OutOfReach:
        return None
    return batch


def _orders_by_loops(workload: Workload) -> bool:
    """Return whether dependences depend on which loops have several iterations alone: what is written is touched alike
    by all, one dim an axis."""
    for tensor in dict.fromkeys(each.target.tensor for each in workload.statements):
        accesses = {access for each in workload.statements for access in accesses_of(each, tensor)}
        if len(accesses) > 1 or any(access.dims_alone < set(access.dims) for access in accesses):
            return False
    return True


def _loops_above_branches(nodes: Sequence[MappingNode]) -> Iterator[int]:
    """Yield the columns of the loops above branches."""
    last = nodes[-1]
    if isinstance(last, Branch):
        yield from (node.tile for node in nodes if isinstance(node, Temporal | Spatial))
        for child in last.children:
            yield from _loops_above_branches(child)


def _ways(
    workload: Workload, arch: Architecture, nodes: Sequence[MappingNode], above: tuple[Temporal | Spatial, ...]
) -> Iterator[Way]:
    """Yield the way to each statement. above: the loops so far."""
    loops = (*above, *(node for node in nodes if isinstance(node, Temporal | Spatial)))
    match nodes[-1]:
        case Branch(children):
            for child in children:
                yield from _ways(workload, arch, child, loops)
        case Compute(name):
            fanouts = {fanout.name: number for number, fanout in enumerate(arch.fanouts)}
            dims = {each: number for number, each in enumerate(workload.extents())}
            on = [fanouts[each.fanout] if isinstance(each, Spatial) else TEMPORAL for each in loops]
            columns = enumerate(zip(loops, on, strict=True))
            shape = Shape(tuple(LoopColumn(n, dims[each.dim], at, n, each.tile) for n, (each, at) in columns), ())
            own = frozenset(dims[each] for each in workload.statement(name).dims)
            yield Way(shape, tuple(loop.tile for loop in loops), own)
        case _:
            pass
