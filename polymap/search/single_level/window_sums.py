"""Least loads of a window's tiles inside boxes that cut the whole, summed over the boxes.

A node's tile t of a window moves inside each box Y in turn. `loads`: of one pass over every box, from an empty buffer.
`again`: of each further pass over every box, where the innermost loop of the node is over a dim of this window (the
tables of `search/any_size/window_passes.py`, box by box). `afresh`: elements of all tiles, summed.
All tables decrease as boxes and tiles grow: an entry is the least over smaller ones, so that one lookup bounds a cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polymap.poly import FloatArray
from polymap.resources import SearchCaches
from polymap.search.any_size import box_passes
from polymap.search.single_level.window_tables import fewest_table, pieces_table

Pair = tuple[int, int]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
MOST_LOOPS = 3  # over one dim above a node: one per block between nodes


@dataclass(frozen=True, slots=True)
class Sums:
    """Tables [box, box, tile, tile] of sizes less 1, and of tiles [tile, tile].

    afresh: elements of all tiles. loads: of one pass over the boxes of a grid. loose: over boxes that any loops make.
    again[axis][depth - 1]: of a further pass over the boxes of a grid, with the innermost loop over one dim, and at
    most so many loops per dim inside a box. nested[axis]: over boxes that any loops make, with at most three loops per
    dim.
    """

    afresh: FloatArray
    loads: FloatArray
    loose: FloatArray
    again: tuple[tuple[FloatArray, ...], ...]
    nested: tuple[FloatArray, ...]

    def falling(self) -> Sums:
        """Return the least entries over all smaller or equal sizes."""
        return Sums(
            _least_below(self.afresh),
            _least_below(self.loads),
            _least_below(self.loose),
            tuple(tuple(map(_least_below, each)) for each in self.again),
            tuple(map(_least_below, self.nested)),
        )


@dataclass(frozen=True, slots=True)
class WindowSums:
    """Tables of one window. touched: of a tile. exact: of given sizes. least: over all sizes up to given ones."""

    touched: FloatArray
    exact: Sums
    least: Sums


def window_sums(extents: Pair, coefficients: Pair, caches: SearchCaches) -> WindowSums | None:
    """Return the tables of a window; None where they would be too large."""
    passes = box_passes(extents, coefficients, caches)
    if passes is None:
        return None
    once, around = passes
    boxes = [_further_passes(around, axis, MOST_LOOPS) for axis in (0, 1)]  # [axis][depth - 1]
    again = tuple(tuple(_sum_boxes(each, axis, _over_grid) for each in of_axis) for axis, of_axis in enumerate(boxes))
    nested = tuple(_sum_boxes(each[-1], axis, _at_rates) for axis, each in enumerate(boxes))
    loads = _over_grid(_over_grid(once, 0), 1)[1:, 1:]
    exact = Sums(pieces_table(extents, coefficients), loads, _over_boxes(once), again, nested)
    return WindowSums(fewest_table(extents, coefficients), exact, exact.falling())


def _further_passes(around: FloatArray, axis: int, depth: int) -> list[FloatArray]:
    """Return, per number of loops over one dim, the least loads of a further pass over every box whose innermost loop
    is over that dim.

    A pass is repeated around blocks of the box; in a block with a single tile along the dim it costs nothing.
    """
    other = 1 - axis
    is_cut = _longer(range(around.shape[axis]), axis)
    table = np.where(is_cut, around, 0.0)
    table = _least_parts(table, other)
    found = [table]
    for _ in range(depth - 1):
        found.append(_one_loop_more(found[-1], is_cut, axis))
    return found


def _least_parts(table: FloatArray, axis: int) -> FloatArray:
    """Return, per size of one axis, the least sum over parts that make this size."""
    table = np.moveaxis(table, axis, 0)
    best = table.copy()
    for total in range(1, len(table)):
        for y in range(1, total):
            np.minimum(best[total], best[total - y] + table[y], out=best[total])
    return np.moveaxis(best, 0, axis)


def _one_loop_more(table: FloatArray, is_cut: Mask, axis: int) -> FloatArray:
    """Return the least sums over the blocks of one loop, or of none, whose full blocks are cut further."""
    table, is_cut = np.moveaxis(table, axis, 0), np.moveaxis(is_cut, axis, 0)
    best = table.copy()
    for x in range(2, len(table)):
        for y in range(1, x):
            blocks = np.where(is_cut[y], (x // y) * table[y] + table[x % y], np.inf)
            np.minimum(best[x], blocks, out=best[x])
    return np.moveaxis(best, 0, axis)


def _least_below(table: FloatArray) -> FloatArray:
    """Return the least entry over all smaller or equal sizes."""
    for axis in range(table.ndim):
        table = np.minimum.accumulate(table, axis=axis)
    return table


def _over_boxes(once: FloatArray) -> FloatArray:
    """Return, per largest box, the least sum over partitions of the whole into boxes at most as large.

    once: [box, box, tile, tile], where row 0 is the empty box.
    """
    across = _compose_parts(once, 0)[1:]
    return _compose_parts(across, 1)[:, 1:]


def _compose_parts(table: FloatArray, axis: int) -> FloatArray:
    """Return, per size y of one axis (row 0: empty), the least sum over parts of at most y that make the last size."""
    table = np.moveaxis(table, axis, 0)
    extent = len(table) - 1
    best = np.full_like(table, np.inf)
    best[0] = 0
    found = np.full_like(table, np.inf)
    for y in range(1, extent + 1):
        for total in range(y, extent + 1):
            np.minimum(best[total], best[total - y] + table[y], out=best[total])
        found[y] = best[extent]
    return np.moveaxis(found, 0, axis)


def _over_grid(table: FloatArray, axis: int) -> FloatArray:
    """Return, per size y, the sum over the parts of size y and the last one."""
    table = np.moveaxis(table, axis, 0)
    extent = len(table) - 1
    y = np.arange(1, extent + 1)
    full = (extent // y).reshape(-1, *[1] * (table.ndim - 1))
    found = np.concatenate([np.full_like(table[:1], np.inf), full * table[y] + table[extent % y]])
    return np.moveaxis(found, 0, axis)


def _at_rates(table: FloatArray, axis: int) -> FloatArray:
    """Return, per size y, a lower bound on the sum over parts that any nest of loops makes.

    At least every second part is full: nested loops cut blocks of y indices or more, each with at most one short part.
    """
    table = np.moveaxis(table, axis, 0)
    extent = len(table) - 1
    found = np.full_like(table, np.inf)
    for y in range(1, extent + 1):
        rests = np.arange(0, y).reshape(-1, *[1] * (table.ndim - 1))
        found[y] = (extent * (table[y] + table[:y]) / (y + rests)).min(axis=0)
    found[extent] = table[extent]
    return np.moveaxis(found, 0, axis)


def _sum_boxes(table: FloatArray, axis: int, summed: Callable[[FloatArray, int], FloatArray]) -> FloatArray:
    """Return the sums over boxes that the innermost loop, over one dim, cuts."""
    table = summed(summed(table, 0), 1)[1:, 1:]
    is_cut = _longer(range(1, table.shape[axis] + 1), axis)
    return np.where(is_cut, table, np.inf)


def _longer(boxes: range, axis: int) -> Mask:
    """Return where boxes are longer than tiles of 1 index or more along one axis, [box, box, tile, tile]."""
    sizes: Ints = np.array(boxes, dtype=np.int64)
    tiles = sizes[sizes > 0]
    if axis == 0:
        return sizes[:, None, None, None] > tiles[None, None, :, None]
    return sizes[None, :, None, None] > tiles[None, None, None, :]
