"""The counts of many mappings of one tree shape at once, where all tiles divide: `uniform` on arrays.

Every count is at most the number of statement instances times a small factor, so int64 holds them all where the caller
has made sure that it holds that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from polymap.costmodel.closed_form import (
    TEMPORAL,
    AlikeNode,
    MachineModel,
    Node,
    Row,
    TensorModel,
    WorkloadModel,
    rows_where_alike,
)
from polymap.costmodel.tables.loops import Busy, Columns, Integers, Many, Place, Shape
from polymap.costmodel.tables.windows import Tiles, is_simple, sum_size, tiles_of


def is_in_reach(model: WorkloadModel, machine: MachineModel, shape: Shape) -> bool:
    """Return whether arrays can count the trees of a shape.

    They cannot where a written tensor has windows, a window has more than two dims or no unit coefficient, a loop that
    a window's tile spans stands outside one that fixes it, or siblings along a window are united, or are given by three
    loops over both its dims.
    """
    for tensor, nodes in zip(model.tensors, shape.holders, strict=True):
        if tensor.windows and (tensor.written or not all(is_simple(window) for window in tensor.windows)):
            return False
        for parent, node in zip((nodes[0], *nodes), nodes, strict=False):
            if tensor.windows and not _windows_are_simple(machine, tensor, shape, parent, node):
                return False
    return True


def _windows_are_simple(machine: MachineModel, tensor: TensorModel, shape: Shape, parent: Node, node: Node) -> bool:
    spans: set[int] = set()
    siblings: list[int] = []
    for loop in shape.loops:
        if tensor.kinds[loop.dim] != 2:
            continue
        if not _fixes(loop, node):
            spans.add(loop.dim)
        elif loop.dim in spans:
            return False
        elif loop.fanout >= parent.fans and not machine.repeats[loop.fanout]:
            if machine.unites[loop.fanout]:
                return False
            siblings.append(loop.dim)
    loops = [[siblings.count(dim) for dim, _ in window.terms] for window in tensor.windows]
    return all(0 in numbers or sum(numbers) == 2 for numbers in loops)


def _fixes(loop: Place, node: Node) -> bool:
    """Return whether the loop's digit fixes the node's tile."""
    return loop.position < node.position if loop.fanout == TEMPORAL else loop.fanout < node.fans


def _product(arrays: Iterable[Integers]) -> Many:
    total: Many = 1
    for array in arrays:
        total = array if isinstance(total, int) else total * array
    return total


class Spot:
    """One node of one tensor among the loops. instances: how many. here: siblings with different elements below one
    parent instance. tile: elements held. entries: elements that enter one instance in all."""

    __slots__ = ("_columns", "_loops", "_node", "_parent", "_tensor", "entries", "here", "instances", "singles", "tile")

    def __init__(self, columns: Columns, tensor: TensorModel, shape: Shape, parent: Node, node: Node) -> None:
        self._columns, self._tensor, self._loops = columns, tensor, shape.loops
        self._parent, self._node = parent, node
        kinds, trips = tensor.kinds, columns.trips
        self.instances = _product(trips[loop.column] for loop in shape.loops if 0 <= loop.fanout < node.fans)
        self.here = _product(trips[loop.column] for loop in self.siblings() if kinds[loop.dim] == 1)
        self.singles = _product(
            trips[loop.column] for loop in shape.loops if kinds[loop.dim] == 1 and not _fixes(loop, node)
        )
        windows = [tiles_of(window, self._lengths(columns)) for window in tensor.windows]
        self.tile = _product([window.size for window in windows]) * self.singles
        if node.level <= 0:
            self.entries: Many = self.tile
        else:
            self.entries = self._sliding(windows) if windows else self._whole()

    def siblings(self) -> list[Place]:
        """Return the loops in which the instances below one parent instance differ."""
        return [loop for loop in self._loops if self._parent.fans <= loop.fanout < self._node.fans]

    def _lengths(self, columns: Columns) -> dict[int, Integers]:
        """Return the length of the index set along each dim of a window."""
        lengths: dict[int, Integers] = {}
        for loop in self._loops:
            if loop.dim not in lengths:
                lengths[loop.dim] = columns.enclosing[loop.column]
            if _fixes(loop, self._node):
                lengths[loop.dim] = columns.tiles[loop.column]
        return lengths

    def _above(self) -> list[Place]:
        return [loop for loop in self._loops if loop.fanout == TEMPORAL and loop.position < self._node.position]

    def _whole(self) -> Many:
        """Return tile x steps of the loops down to the innermost one that changes the tile."""
        visits: Many = 1
        for loop in self._above():
            if self._tensor.kinds[loop.dim] == 1:
                visits = np.where(self._columns.moves[loop.column], self._columns.after[loop.column], visits)
        return self.tile * visits

    def _sliding(self, windows: Sequence[Tiles]) -> Many:
        """Return tile x steps without what each carry keeps of the windows while the singles stand still."""
        columns, tensor = self._columns, self._tensor
        above = self._above()
        if not above:
            return self.tile
        kept: Many = 0
        stands: Many = 1
        wraps: list[Many] = [0] * len(windows)
        for loop in reversed(above):
            tile, kind = columns.tiles[loop.column], tensor.kinds[loop.dim]
            if kind == 1:
                stands = stands * ~columns.moves[loop.column]
                continue
            shifts = list(wraps)
            if kind == 2:
                window, factor = _window(tensor, loop.dim)
                shifts[window] = wraps[window] - factor * tile
                wraps[window] = wraps[window] + factor * (columns.enclosing[loop.column] - tile)
            times = (columns.after[loop.column] - columns.before[loop.column]) * stands
            for tiles, shift in zip(windows, shifts, strict=True):
                times = times * (tiles.size if isinstance(shift, int) else tiles.overlap(shift))
            kept = times + kept
        steps = columns.after[above[-1].column]
        return self.singles * (steps * _product([tiles.size for tiles in windows]) - kept)

    def messages(self, machine: MachineModel) -> Many:
        """Return the elements that one parent instance reads for what this node loads."""
        copies: Many = self.here
        alike: dict[int, list[Place]] = {}
        for loop in self.siblings():
            kind = self._tensor.kinds[loop.dim]
            if kind == 2 and not machine.repeats[loop.fanout]:
                alike.setdefault(_window(self._tensor, loop.dim)[0], []).append(loop)
            elif kind == 2 or (kind == 0 and machine.repeats[loop.fanout]):
                copies = copies * self._columns.trips[loop.column]
        for loops in alike.values():
            copies = copies * self._offsets(loops)
        if self._node.level < 0:
            return copies * (self._columns.steps * self._tensor.reads)
        return copies * self.entries

    def _offsets(self, loops: list[Place]) -> Many:
        """Return how many of the siblings along one window stand at different places."""
        trips = [self._columns.trips[loop.column] for loop in loops]
        if len({loop.dim for loop in loops}) == 1:
            return _product(trips)
        factors = [abs(_window(self._tensor, loop.dim)[1]) for loop in loops]
        strides = [factor * self._columns.tiles[loop.column] for factor, loop in zip(factors, loops, strict=True)]
        return sum_size(strides[0], trips[0], strides[1], trips[1])

    def arrivals(self, machine: MachineModel) -> Many:
        """Return how many drains, of the compute unit results, reach one parent instance."""
        copies: Many = self.here
        for loop in self.siblings():
            if self._tensor.kinds[loop.dim] == 0 and not machine.adds[loop.fanout]:
                copies = copies * self._columns.trips[loop.column]
        return copies * (self._columns.steps if self._node.level < 0 else self.entries)


def _window(tensor: TensorModel, dim: int) -> tuple[int, int]:
    """Return (number of the window that has the dim, the dim's coefficient in it)."""
    for number, window in enumerate(tensor.windows):
        for member, factor in window.terms:
            if member == dim:
                return number, factor
    raise AssertionError("the dim is in a window")


def count_arrays(
    model: WorkloadModel, machine: MachineModel, shape: Shape, columns: Columns
) -> tuple[list[Row[Many]], dict[int, Busy]]:
    """Return the rows of all tensors, in the order of `Counts.traffic`, and the busiest instance per level; only
    mappings that divide are right."""
    rows: list[Row[Many]] = []
    busy: dict[int, Busy] = {}
    for tensor, nodes in zip(model.tensors, shape.holders, strict=True):
        spots = [
            Spot(columns, tensor, shape, parent, node) for parent, node in zip((nodes[0], *nodes), nodes, strict=False)
        ]
        served = [spot.arrivals(machine) if tensor.written else spot.messages(machine) for spot in spots[1:]]
        alike = [
            AlikeNode(node.level, spot.instances, spot.here, spot.tile, spot.entries, below)
            for node, spot, below in zip(nodes, spots, served, strict=False)
        ]
        for row, (reads, writes) in rows_where_alike(tensor, alike):
            rows.append(row)
            last = busy.get(row.level, Busy())
            read, written = reads * tensor.bits + last.read, writes * tensor.bits + last.written
            busy[row.level] = Busy(read, written, read + written)
    return sorted(rows, key=lambda row: (row.level, row.tensor)), busy
