"""Least loads of a window of two dims over all nests of loops: of one pass, and of each further pass of other loops.

A tile of t_p x t_r indices moves over x_p x x_r of them; elements are {c_p p + c_r r}. Let the outermost loop cut the
box into blocks of y indices along one dim: the blocks' loads add up, less what the last tile of a block has in common
with the first tile of the next one. That tile starts at index 0; the last one ends with the block and, where there are
several, does not start before index t. The least over all loops and sizes is what no nest goes below, partial tiles
included.

Loops over other dims may repeat the window's loops, anywhere outside of the innermost of these (over dim j, from more
than t_j indices to t_j; loops further in leave the tile as it is). With V the loads of one pass, a pass repeated
around a box x costs V(x) less what the first tile has in common with the last one (nothing around a single tile);
around blocks of x it costs their sum. Hence m passes load at least V + (m - 1) R, R the least of these, by induction
over the loops from inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np
from numpy.typing import NDArray

from polymap.poly import FloatArray
from polymap.resources import SearchCaches
from polymap.search.any_size.tuning import TUNING

_Length = int | NDArray[np.int64]
_Box = tuple[_Length, _Length]


def pass_tables(
    extents: tuple[int, int], coefficients: tuple[int, int], caches: SearchCaches
) -> tuple[FloatArray, FloatArray] | None:
    """Return the least loads per tile [t_p - 1, t_r - 1] of one pass, and of each further pass [2, t_p - 1, t_r - 1].

    The latter by whether the innermost loop is over the first or the second dim. None: the tables would be too large.
    """
    n, m = extents
    if float(n * m) ** 2 * (n + m) > TUNING.most_window_work or max(map(abs, coefficients)) > TUNING.most_coefficient:
        return None
    passes = caches.memo(_filled_passes, TUNING.kept_windows)(extents, coefficients)
    return passes.once[n, m], passes.again[:, n, m]


def box_passes(
    extents: tuple[int, int], coefficients: tuple[int, int], caches: SearchCaches
) -> tuple[FloatArray, FloatArray] | None:
    """Return the least loads of one pass over every box [x, z, t_p - 1, t_r - 1], and of a further pass around it.

    Row 0 is the empty box. None: the tables would be too large.
    """
    n, m = extents
    if float(n * m) ** 2 * (n + m) > TUNING.most_box_work or max(map(abs, coefficients)) > TUNING.most_coefficient:
        return None
    passes = caches.memo(_filled_passes, TUNING.kept_windows)(extents, coefficients)
    return passes.once, passes.around


def ordered_passes(
    extents: tuple[int, int], coefficients: tuple[int, int], axis: int, above: int, most: int, caches: SearchCaches
) -> FloatArray:
    """Return the least loads of one pass per tile, over the nests with one order of cuts.

    They cut the dim `axis` for the first time when more than `above` and at most `most` indices of the other dim
    remain. Where they do not cut it, the result is that of `pass_tables`.
    """
    passes = caches.memo(_filled_passes, TUNING.kept_windows)(extents, coefficients)
    found = caches.memo(_in_order, TUNING.kept_windows)(passes, axis, above, min(most, extents[1 - axis]))
    whole = passes.tiles[axis] == extents[axis]
    return np.asarray(np.where(whole, passes.once[-1, -1], found), dtype=np.float64)


def _in_order(passes: _Passes, axis: int, above: int, most: int) -> FloatArray:
    """Return the loads per tile if more than `above` and at most `most` indices of the other dim are left when `axis`
    is cut (inf for larger tiles): of boxes that loops over the other dim leave, one length after the other. A short
    last block of at most `most` may be cut along `axis`, whatever it is."""
    n, other = passes.extents[axis], 1 - axis
    full = [np.full_like(passes.once[-1, -1], np.inf)]
    short = [np.zeros_like(passes.once[-1, -1])]
    for length in range(1, passes.extents[other] + 1):
        first = passes.first[axis][(n, length) if axis == 0 else (length, n)]
        least = np.where(passes.tiles[other] <= length, first, np.inf) if above < length <= most else full[0]
        y = np.arange(above + 1, length)
        if len(y):
            counts, rests = (length // y)[:, None, None], (length % y)[:, None, None]
            sizes = y[:, None, None]
            block, after = ((n, sizes), (n, rests)) if axis == 0 else ((sizes, n), (rests, n))
            total = counts * np.stack(full[above + 1 :]) - (counts - 1) * passes.shared(block, block, other, sizes)
            rest = np.stack([short[each] for each in length % y]) - passes.shared(block, after, other, sizes)
            least = np.minimum(least, (total + np.where(rests > 0, rest, 0.0)).min(axis=0))
        full.append(least)
        short.append(np.minimum(first, least) if length <= most else least)
    return full[-1]


def _filled_passes(extents: tuple[int, int], coefficients: tuple[int, int]) -> _Passes:
    passes = _Passes(extents, coefficients)
    for x in range(1, extents[0] + 1):
        for z in range(1, extents[1] + 1):
            passes.fill(x, z)
    return passes


class _Passes:
    """The recursion for all tiles at once. once[x, z], again[j, x, z]: per tile, for a box of x times z indices.

    around[x, z]: of a further pass around the whole box. first[d][x, z]: of one pass whose outermost loop is over dim
    d.
    """

    def __init__(self, extents: tuple[int, int], coefficients: tuple[int, int]) -> None:
        n, m = extents
        self.extents, self.coefficients = extents, coefficients
        self.tiles = (np.arange(1, n + 1)[:, None], np.arange(1, m + 1)[None, :])
        self.once = np.zeros((n + 1, m + 1, n, m))
        self.again = np.zeros((2, n + 1, m + 1, n, m))
        self.around = np.zeros((n + 1, m + 1, n, m))
        self.first = np.full((2, n + 1, m + 1, n, m), np.inf)

    def fill(self, x: int, z: int) -> None:
        """Compute one box after all smaller ones."""
        box = (x, z)
        elements = float(fewest_in_box(self.coefficients, box))
        best = np.where((x <= self.tiles[0]) & (z <= self.tiles[1]), elements, np.inf)
        again = np.full((2, *best.shape), np.inf)
        for axis in (0, 1):
            if box[axis] > 1:
                blocks, once, repeated = self._cut(box, axis)
                closed = np.where(blocks >= self.tiles[axis], once, np.inf)
                self.first[axis, x, z] = np.maximum(closed.min(axis=0), elements)
                np.minimum(best, self.first[axis, x, z], out=best)
                for j in (0, 1):
                    own = repeated[:, j]
                    limit = self.tiles[axis] + (axis == j)
                    np.minimum(again[j], np.where(blocks >= limit, own, np.inf).min(axis=0), out=again[j])
        self.once[x, z] = np.maximum(best, elements)
        around = self.around[x, z] = np.maximum(self.once[x, z] - self.shared(box, box, None, 0), 0.0)
        for j in (0, 1):
            np.minimum(again[j], around, out=again[j])
            self.again[j, x, z] = again[j]

    def _cut(self, box: tuple[int, int], axis: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the block lengths [y, 1, 1] of a loop over one dim of the box, and the blocks' loads per block length
        and tile.

        The loads are of one pass, and of each further pass [y, j, tile].
        """
        length = box[axis]
        y = np.arange(1, length)
        count, rest = length // y, length % y
        blocks, rests = (y, rest) if axis == 0 else (box[0], box[0])
        other, others = (box[1], box[1]) if axis == 0 else (y, rest)
        counts, has_rest = count[:, None, None], (rest > 0)[:, None, None]
        full, last = self.once[blocks, other], self.once[rests, others]
        sizes = y[:, None, None]
        block = (sizes, box[1]) if axis == 0 else (box[0], sizes)
        short = rest[:, None, None]
        after = (short, box[1]) if axis == 0 else (box[0], short)
        once = counts * full - (counts - 1) * self.shared(block, block, axis, sizes)
        once = once + np.where(has_rest, last - self.shared(block, after, axis, sizes), 0.0)
        again = [counts * self.again[j][blocks, other] + self.again[j][rests, others] * has_rest for j in (0, 1)]
        return sizes.astype(np.float64), once, np.stack(again, axis=1)

    def shared(self, box: _Box, after: _Box, axis: int | None, step: _Length) -> FloatArray:
        """Return an upper bound on the elements shared by the last tile of a box and the first one of the next box.

        The next box starts `step` indices further along a dim.
        """
        last = [(np.maximum(n - t, np.where(n > t, t, 0)), n - 1) for n, t in zip(box, self.tiles, strict=True)]
        starts = [step if axis == d else 0 for d in (0, 1)]
        lengths = [np.minimum(t, n) for t, n in zip(self.tiles, after, strict=True)]
        first = [(start, start + length - 1) for start, length in zip(starts, lengths, strict=True)]
        (low, high), (least, most) = self._ends(last), self._ends(first)
        ends = np.maximum(low, least), np.minimum(high, most)
        overlap = ends[1] - ends[0] + 1
        for axis in (0, 1):
            step = abs(self.coefficients[axis])
            other = 1 - axis
            modulus = step // gcd(*self.coefficients)
            if modulus > 1:
                # Elements with the same residue have indices of the other dim with the same residue.
                found: _Length = 0
                for residue in range(modulus):
                    is_met = (_count(*last[other], residue, modulus) > 0) & (
                        _count(*first[other], residue, modulus) > 0
                    )
                    found = found + np.where(is_met, _count(*ends, self.coefficients[other] * residue, step), 0)
                overlap = np.minimum(overlap, found)
        return np.clip(overlap, 0, lengths[0] * lengths[1]).astype(np.float64)

    def _ends(self, tile: Sequence[tuple[_Length, _Length]]) -> tuple[_Length, _Length]:
        """Return the least and the greatest element of a tile given as (first, last) index per dim."""
        pairs = [(c * first, c * last) for c, (first, last) in zip(self.coefficients, tile, strict=True)]
        low = np.minimum(*pairs[0]) + np.minimum(*pairs[1])
        return low, np.maximum(*pairs[0]) + np.maximum(*pairs[1])


def _count(low: _Length, high: _Length, residue: int, modulus: int) -> NDArray[np.int64]:
    """Return the number of integers in [low, high] with a residue (at most 0 where there are none)."""
    return np.asarray((high - residue) // modulus - (low - 1 - residue) // modulus)


def fewest_in_box(coefficients: tuple[int, int], box: tuple[int, int]) -> int:
    """Return a lower bound on the elements of a window over intervals; exact where a coefficient is 1 or -1."""
    least = box[0] + box[1] - 1
    for p, r in ((0, 1), (1, 0)):
        if abs(coefficients[r]) == 1:
            least = max(least, (box[p] - 1) * min(abs(coefficients[p]), box[r]) + box[r])
    return least
