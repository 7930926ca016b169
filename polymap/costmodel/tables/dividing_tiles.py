"""Counts of many mappings of one tree shape at once, where all tiles divide.

Every count is at most the number of statement instances times a small factor; the caller ensures that int64 holds it.
"""

from __future__ import annotations

from math import prod

import numpy as np

from polymap.costmodel import closed_form
from polymap.costmodel.tables.loops import Columns, Many
from polymap.costmodel.tables.window_sums import Tile, is_simple, shared_elements, sum_size
from polymap.poly import too_large


def is_in_reach(model: closed_form.WorkloadModel, machine: closed_form.MachineModel, shape: closed_form.Shape) -> bool:
    """Return whether array formulas count the trees of a shape.

    They do not where a written tensor has windows; a window has more than two dims or no unit coefficient; a loop that
    a window's tile spans is outside one that chooses it; or siblings along a window are united, or are in three loops
    over both its dims.
    """
    for tensor, nodes in zip(model.tensors, shape.holders, strict=True):
        if tensor.windows and (tensor.written or not all(is_simple(window) for window in tensor.windows)):
            return False
        for parent, node in zip((nodes[0], *nodes), nodes, strict=False):
            if tensor.windows and not _windows_are_simple(machine, tensor, shape, parent, node):
                return False
    return True


def _windows_are_simple(
    machine: closed_form.MachineModel,
    tensor: closed_form.TensorModel,
    shape: closed_form.Shape,
    parent: closed_form.Node,
    node: closed_form.Node,
) -> bool:
    spans: set[int] = set()
    siblings: list[int] = []
    for loop in shape.loops:
        if tensor.kinds[loop.dim] is not closed_form.DimKind.WINDOW:
            continue
        if not _chooses_tile(loop, node):
            spans.add(loop.dim)
        elif loop.dim in spans:
            return False
        elif loop.fanout >= parent.fans and not machine.repeats[loop.fanout]:
            if machine.unites[loop.fanout]:
                return False
            siblings.append(loop.dim)
    loops = [[siblings.count(dim) for dim, _ in window.terms] for window in tensor.windows]
    return all(0 in numbers or sum(numbers) == 2 for numbers in loops)


def _chooses_tile(loop: closed_form.LoopColumn, node: closed_form.Node) -> bool:
    """Return whether the loop's digit chooses the node's tile."""
    return loop.position < node.position if loop.fanout == closed_form.TEMPORAL else loop.fanout < node.fans


class ArrayProgressions:
    """Sums of progressions over arrays, for trees that `is_in_reach` accepts.

    Tiles are along one or two dims; siblings are along one dim, or in one loop over each of two.
    """

    __slots__ = ()
    one: Many = 1
    loops_move = False

    def tile(self, steps: closed_form.Steps[Many]) -> Tile:
        """Return the sum of progressions, at most one per dim of the window; strides are the dims' coefficients."""
        ((stride, many), (_, run)) = sorted(
            [(abs(int(stride)), count) for stride, count in (*steps, (1, 1), (1, 1))[:2]], key=lambda step: -step[0]
        )
        return Tile(0, stride, many, run)

    def count(self, steps: closed_form.Steps[Many]) -> Many:
        """Return the number of elements of a sum of progressions; a product if all are over one dim."""
        if len(steps) == 2:
            (stride, many), (other_stride, other_many) = steps
            return sum_size(np.abs(stride), many, np.abs(other_stride), other_many)
        return prod((count for _, count in steps), start=self.one)

    def overlap(self, tile: Tile, shift: Many) -> Many:
        """Return the number of elements that each tile shares with its translate by `shift`."""
        return tile.size if isinstance(shift, int) and not shift else shared_elements(tile, tile._replace(low=shift))[0]

    def spread_size(self, tile: Tile, steps: closed_form.Steps[Many]) -> Many:
        """Raise BudgetError: siblings united along a window are out of reach."""
        raise too_large()

    def new_size(self, tile: Tile, shift: Many, steps: closed_form.Steps[Many]) -> Many:
        """Raise BudgetError: siblings united along a window are out of reach."""
        raise too_large()


_ARRAYS = ArrayProgressions()


def count_arrays(
    model: closed_form.WorkloadModel, machine: closed_form.MachineModel, shape: closed_form.Shape, columns: Columns
) -> tuple[list[closed_form.Row[Many]], tuple[closed_form.Busiest[Many], ...], list[closed_form.Wire[Many]]]:
    """Return the rows of all tensors in the order of `Counts.traffic`, the busiest instance per level, and the wires.

    They hold only for mappings whose tiles divide.
    """
    last = {loop.dim: loop.column for loop in shape.loops}
    loops = [
        closed_form.Loop(
            loop.dim,
            1 if last[loop.dim] == loop.column else columns.tiles[loop.column],  # elsewhere the row is no program
            columns.trips[loop.column],
            loop.fanout,
            loop.position,
        )
        for loop in shape.loops
    ]
    rows, busy = closed_form.count_dividing(_ARRAYS, model, machine, loops, shape.holders)
    wires = closed_form.wires_of(
        closed_form.DividingCrossings(_ARRAYS, machine, loops), machine, model, shape.holders, rows, 0
    )
    return sorted(rows, key=lambda row: (row.level, row.tensor)), busy, wires
