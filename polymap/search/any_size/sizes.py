"""Tile sizes of the joint dynamic program: intervals per dim, and which share of a dim's indices full tiles cover.

Sizes with the same ceil(n / size) stand together; neighbouring groups are joined at first and cut where the relaxed
chain lies. A cell (low, high) holds at least what tiles of `low` hold, and visits at least as often as tiles of `high`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from polymap.poly import FloatArray
from polymap.resources import SearchCaches
from polymap.search.any_size.tuning import TUNING

Sizes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Axis:
    """Cells of the tile sizes 1 .. last of one dim: starts[i] .. starts[i + 1] - 1.

    whole: of a dim that siblings cut, the least size at a place that no temporal loop over the dim is outside of. Such
    places have a cell of their own, the last one; the others are for places inside of such a loop.
    """

    starts: tuple[int, ...]
    last: int
    whole: int | None = None

    @property
    def low(self) -> Sizes:
        return np.array(self.starts if self.whole is None else (*self.starts, self.whole), dtype=np.int64)

    @property
    def high(self) -> Sizes:
        ends = [*(s - 1 for s in self.starts[1:]), self.last]
        return np.array(ends if self.whole is None else (*ends, self.last), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.starts) + (self.whole is not None)

    def cell(self, size: int, *, is_whole: bool = False) -> int:
        """Return the cell of a size, or the last one."""
        return len(self) - 1 if is_whole else bisect_right(self.starts, size) - 1

    def ends(self, cell: int) -> tuple[int, int]:
        """Return the least and the largest size of a cell."""
        return int(self.low[cell]), int(self.high[cell])

    def cut(self, cell: int, extent: int, *, in_two: bool) -> Axis:
        """Return the axis with a cell cut: into its first and last group of sizes with equal visits, and halves of the
        rest.

        in_two: into two only. A cell of one such group is cut into single sizes.
        """
        low, high = self.ends(cell)
        if low == high or cell == len(self.starts):
            return self
        groups = [s for s in group_starts(extent, high) if low < s]
        if not groups:
            return replace(self, starts=tuple(sorted({*self.starts, low + 1, (low + high + 1) // 2, high})))
        middle = groups[len(groups) // 2]
        if in_two:
            return replace(self, starts=tuple(sorted({*self.starts, middle})))
        return replace(self, starts=tuple(sorted({*self.starts, groups[0], middle, groups[-1]})))


def group_starts(extent: int, last: int) -> list[int]:
    """Return the least size of each group of sizes up to `last` with the same ceil(extent / size), rising."""
    found = [1]
    while True:
        visits = -(-extent // found[-1])
        if visits == 1:
            break
        after = -(-extent // (visits - 1))
        if after > last:
            break
        found.append(after)
    return found


def coarse_axis(extent: int, last: int) -> Axis:
    """Return an axis with few cells: size 1, groups joined up to a ratio, and the group of one visit."""
    starts = group_starts(extent, last)
    kept = [1]
    for start in starts[1:]:
        if start == 2 or start >= TUNING.cell_ratio * kept[-1]:
            kept.append(start)
    if starts[-1] != kept[-1]:
        kept.append(starts[-1])
    return Axis(tuple(kept), last)


def _full_counts(extent: int) -> tuple[Sizes, ...]:
    """Return, per number of outer loops k and tile t, the fewest of `extent` indices that lie in a tile of more than t
    indices when up to k nested loops with larger tiles cut the extent first."""
    tiles = np.arange(extent + 1)
    sizes = np.arange(extent + 1)[:, None]
    direct = np.where(sizes > tiles[None, :], sizes, 0)  # [size, tile]
    found, last = [direct[extent]], direct
    for _ in range(TUNING.most_loops):
        new = direct.copy()
        for size in range(2, extent + 1):
            loops = np.arange(1, size)
            own = (size // loops)[:, None] * last[loops] + last[size % loops]
            own[loops[:, None] <= tiles[None, :]] = size
            np.minimum(new[size], own.min(axis=0), out=new[size])
        found.append(new[extent])
        last = new
    return tuple(found)


def full_share(extent: int, tiles: Sizes, outer_loops: int, caches: SearchCaches) -> FloatArray:
    """Return, per tile t below the extent, at least which share of the indices have a loop to t with two iterations or
    more, where up to so many further loops with larger tiles stand outside of it.

    Each outer loop leaves a rest of at most t indices beside every full tile of t + 1 or more: of t + 1 + k t indices
    at least t + 1 lie under such a loop (by induction on the loops).
    """
    if outer_loops == 0:
        return np.ones(len(tiles))
    if extent <= TUNING.most_tabled and outer_loops <= TUNING.most_loops:
        return caches.memo(_full_counts, 64)(extent)[outer_loops][tiles] / extent
    t = tiles.astype(np.float64)
    return np.maximum((t + 1) / extent, (t + 1) / (t + 1 + outer_loops * t))
