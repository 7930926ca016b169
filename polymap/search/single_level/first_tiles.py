"""All tiles of the outermost node of a loop tree, dim by dim, with the bounds that follow for every tensor.

The *place* of a node is right inside the innermost loop over its tensor's own dims that has two iterations or more.
Above the outermost place there is at most one loop per dim, as no other node is above it. So the tiles T there cut
every dim into ceil(n / T) pieces, all full but the last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.arithmetic import FloatArray
from polymap.search.parallelism_bounds import fewest_in_box, group_starts
from polymap.search.single_level.question import Operand, Question, Window
from polymap.search.single_level.tuning import TUNING
from polymap.search.single_level.window_tables import WindowTables

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SizeGroups:
    """Tile sizes of one dim in groups, each of sizes that make equally many pieces.

    low, high: the least and the largest size. pieces: how many. least_rest, most_rest: the least and the most indices
    of a short last piece (0: none is short).
    """

    low: Ints
    high: Ints
    pieces: Ints
    least_rest: Ints
    most_rest: Ints

    @staticmethod
    def of(extent: int, *, finely: bool) -> SizeGroups:
        """Return the groups of a dim. finely: split groups with few pieces further, by the length of the last piece."""
        starts = group_starts(extent, extent)
        ends = [*(start - 1 for start in starts[1:]), extent]
        if finely:
            few = [(a, b) for a, b in zip(starts, ends, strict=True) if a < b and -(-extent // a) <= TUNING.few_pieces]
            starts = sorted({*starts, *(size for a, b in few for size in (a + 1, (a + b) // 2 + 1))})
        low = np.array(starts, dtype=np.int64)
        high = np.append(low[1:] - 1, extent)
        pieces = -(-extent // low)
        least = extent - (pieces - 1) * high
        most = np.minimum(extent - (pieces - 1) * low, high - 1)
        has_short = (pieces > 1) & (least <= most)
        return SizeGroups(low, high, pieces, np.where(has_short, least, 0), np.where(has_short, most, 0))


@dataclass(frozen=True, slots=True)
class OfTensor:
    """Lower bounds for one tensor, per cell.

    words: elements of the least tile. visits: boxes of the dims that it lacks. slabs: elements that all boxes of its
    own dims use, summed. loads_first: its loads if its node is the outermost.
    """

    words: FloatArray
    visits: FloatArray
    slabs: FloatArray
    loads_first: FloatArray


class FirstTiles:
    """The grid of size groups of all dims, flattened into cells. index[dim, cell]: the group."""

    def __init__(self, question: Question, tables: WindowTables) -> None:
        self.question, self.tables = question, tables
        self._known: dict[int, OfTensor] = {}
        finely = not any(one.windows for one in question.operands)
        self.groups = [SizeGroups.of(extent, finely=finely) for extent in question.extents]
        shape = [len(one.low) for one in self.groups]
        cells = np.indices(shape, dtype=np.int32)
        self.index: NDArray[np.int32] = cells.reshape(len(shape), -1)
        self.count = int(prod(shape))
        self.low = [one.low[i].astype(np.float64) for one, i in zip(self.groups, self.index, strict=True)]
        self.pieces = [one.pieces[i].astype(np.float64) for one, i in zip(self.groups, self.index, strict=True)]
        self.least_rest = [one.least_rest[i].astype(np.float64) for one, i in zip(self.groups, self.index, strict=True)]
        self.most_rest = [one.most_rest[i].astype(np.float64) for one, i in zip(self.groups, self.index, strict=True)]
        self.is_whole = [one.pieces[i] == 1 for one, i in zip(self.groups, self.index, strict=True)]

    def product(self, values: list[FloatArray], dims: tuple[int, ...]) -> FloatArray:
        """Return the products of one value per dim."""
        found: FloatArray = np.ones(self.count)
        for d in dims:
            found = found * values[d]
        return found

    @cached_property
    def all_pieces(self) -> FloatArray:
        """Return the number of boxes into which the tiles cut all statement instances."""
        return self.product(self.pieces, tuple(range(len(self.groups))))

    def of(self, operand: Operand) -> OfTensor:
        """Return a tensor's bounds per cell."""
        if operand.number not in self._known:
            parts = self._words(operand), self._visits(operand), self._slabs(operand), self._loads_first(operand)
            self._known[operand.number] = OfTensor(*parts)
        return self._known[operand.number]

    def _words(self, operand: Operand) -> FloatArray:
        """Return a lower bound on the elements of a tensor's tile, per cell."""
        found = self.product(self.low, operand.plain)
        for window in operand.windows:
            extents = self.question.extents[window.dims[0]], self.question.extents[window.dims[1]]
            low = np.ix_(*(self.groups[d].low - 1 for d in window.dims))
            found = found * self._over_window(window, self.tables.fewest(extents, window.coefficients)[low])
        return found

    def _visits(self, operand: Operand) -> FloatArray:
        """Return the number of boxes into which the dims that a tensor lacks are cut."""
        return self.product(self.pieces, operand.lacking)

    def _slabs(self, operand: Operand) -> FloatArray:
        """Return a lower bound on the elements that all boxes of a tensor's own dims use, summed."""
        found = np.full(self.index.shape[1], float(prod(self.question.extents[d] for d in operand.plain)))
        for window in operand.windows:
            found = found * self._over_window(window, self._pieces_of_window(window))
        return found

    def _loads_first(self, operand: Operand) -> FloatArray:
        """Return the loads of a tensor whose node is the outermost."""
        visits = self._visits(operand)
        if not operand.windows:
            return visits * operand.elements
        ones: FloatArray = np.ones(self.count)
        once: FloatArray = ones * float(operand.elements)
        again: FloatArray = ones * np.inf
        whole = np.ones(self.index.shape[1], dtype=np.bool_)
        for window in operand.windows:
            extents = self.question.extents[window.dims[0]], self.question.extents[window.dims[1]]
            others = operand.elements / fewest_in_box(window.coefficients, extents)
            tables = self.tables.passes(extents, window.coefficients)
            cut = ~(self.is_whole[window.dims[0]] & self.is_whole[window.dims[1]])
            whole &= ~cut
            if tables is None:
                again = np.asarray(np.where(cut, 0.0, again), dtype=np.float64)
                continue
            here = self._over_window(window, self._least(window, tables[0])) * others
            once = np.asarray(np.maximum(once, here), dtype=np.float64)
            repeated = np.full_like(tables[1], np.inf)
            repeated[0, :-1, :], repeated[1, :, :-1] = tables[1][0, :-1, :], tables[1][1, :, :-1]
            more = self._over_window(window, self._least(window, repeated.min(axis=0))) * others
            again = np.asarray(np.where(cut, np.minimum(again, more), again), dtype=np.float64)
        for d in operand.plain:
            again = np.asarray(np.where(self.is_whole[d], again, np.minimum(again, once)), dtype=np.float64)
            whole &= self.is_whole[d]
        return np.where(whole, float(operand.elements), once + (visits - 1) * np.where(whole, 0.0, again))

    def _pieces_of_window(self, window: Window) -> FloatArray:
        """Return, per pair of groups, a lower bound on the elements that all pairs of pieces touch, summed."""
        extents = self.question.extents[window.dims[0]], self.question.extents[window.dims[1]]
        return self._least(window, self.tables.pieces(extents, window.coefficients))

    def _least(self, window: Window, table: FloatArray) -> FloatArray:
        """Return the minimum of a table [size - 1, size - 1] over every pair of groups."""
        for axis, d in enumerate(window.dims):
            table = np.minimum.reduceat(table, self.groups[d].low - 1, axis=axis)
        return table

    def _over_window(self, window: Window, table: FloatArray) -> FloatArray:
        """Return a table of pairs of groups as values per cell."""
        return table[self.index[window.dims[0]], self.index[window.dims[1]]]
