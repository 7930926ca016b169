"""All tiles of the outermost node of a loop tree, dim by dim, with the bounds that follow for every tensor.

The *place* of a node is right inside the innermost loop over its tensor's own dims that has two iterations or more.
Above the outermost place there is at most one loop per dim, as no other node is above it. So the tiles T there cut
every dim into ceil(n / T) pieces, all full but the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.poly import FloatArray
from polymap.search.any_size import group_starts
from polymap.search.single_level.question import Operand, Question
from polymap.search.single_level.tuning import TUNING

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
    def of(extent: int) -> SizeGroups:
        """Return the groups of a dim. Those with few pieces are split further, by the length of the last piece."""
        starts = group_starts(extent, extent)
        ends = [*(start - 1 for start in starts[1:]), extent]
        few = [(a, b) for a, b in zip(starts, ends, strict=True) if a < b and -(-extent // a) <= TUNING.few_pieces]
        starts = sorted({*starts, *(size for a, b in few for size in (a + 1, (a + b) // 2 + 1))})
        low = np.array(starts, dtype=np.int64)
        high = np.append(low[1:] - 1, extent)
        pieces = -(-extent // low)
        least = extent - (pieces - 1) * high
        most = np.minimum(extent - (pieces - 1) * low, high - 1)
        has_short = (pieces > 1) & (least <= most)
        return SizeGroups(low, high, pieces, np.where(has_short, least, 0), np.where(has_short, most, 0))

    def part(self, some: slice) -> SizeGroups:
        """Return some of the groups."""
        columns = (self.low, self.high, self.pieces, self.least_rest, self.most_rest)
        return SizeGroups(*(column[some] for column in columns))


@dataclass(frozen=True, slots=True)
class OfTensor:
    """Lower bounds for one tensor, per cell.

    words: elements of the least tile. visits: boxes of the dims that it lacks. loads_first: its loads where its node is
    the outermost.
    """

    words: FloatArray
    visits: FloatArray
    loads_first: FloatArray


class FirstTiles:
    """A part of the grid of size groups of all dims, flattened into cells."""

    def __init__(self, question: Question, groups: Sequence[SizeGroups]) -> None:
        self.question = question
        self._known: dict[int, OfTensor] = {}
        index = np.indices([len(one.low) for one in groups], dtype=np.int32).reshape(len(groups), -1)
        self.count = index.shape[1]
        cells = [
            [column[i].astype(np.float64) for column in (one.low, one.pieces, one.least_rest, one.most_rest)]
            for one, i in zip(groups, index, strict=True)
        ]
        self.low, self.pieces, self.least_rest, self.most_rest = map(list, zip(*cells, strict=True))

    @staticmethod
    def parts(question: Question) -> Iterator[FirstTiles]:
        """Yield the grid in parts of some `TUNING.cells_looked_at` cells."""
        first, *others = (SizeGroups.of(extent) for extent in question.extents or (1,))
        step = max(1, TUNING.cells_looked_at // prod(len(one.low) for one in others))
        for start in range(0, len(first.low), step):
            yield FirstTiles(question, (first.part(slice(start, start + step)), *others))

    def product(self, values: list[FloatArray], dims: tuple[int, ...]) -> FloatArray:
        """Return the products of one value per dim."""
        found: FloatArray = np.ones(self.count)
        for d in dims:
            found = found * values[d]
        return found

    def of(self, operand: Operand) -> OfTensor:
        """Return a tensor's bounds per cell."""
        if operand.number not in self._known:
            words, visits = self.product(self.low, operand.plain), self.product(self.pieces, operand.lacking)
            self._known[operand.number] = OfTensor(words, visits, visits * operand.elements)
        return self._known[operand.number]
