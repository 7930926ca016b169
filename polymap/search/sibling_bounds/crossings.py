"""What a group of fan-outs makes of tile sizes: how large an inner share can be of an outer tile, and the reverse.

Sizes are measured in units: unit u counts the indices that one instance below u groups of fan-outs has. A dim's
spatial loops cut a tile of M indices into c tiles of T. Then M <= c T, and M >= (c - a) T + a with a outer iterations
(a = 1 for one loop): every full outer tile has one inner tile that may be short, and each of c siblings has an index.
A node further in may stay over loops outside of the spatial ones. Its share of M then comes in pieces, and the boxes of
one instance and visit are counted instead: at least n / max(T, M / c) along a dim of n indices (docs/any_tiles.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.search.problem import Problem
from polymap.search.sibling_bounds.single_tensor import Counts

Ints = NDArray[np.int64]


def sibling_ranges(problem: Problem, counts: Counts) -> tuple[Counts, Counts]:
    """Return the least and the largest numbers of siblings that make as many visits as these, whatever the tiles."""
    low: list[tuple[int, ...]] = []
    high: list[tuple[int, ...]] = []
    for one, row in zip(problem.classes, counts, strict=True):
        shares = [-(-n // c) for n, c in zip(problem.extents, row, strict=True)]
        least = [-(-n // v) for n, v in zip(problem.extents, shares, strict=True)]
        size = prod(problem.arch.fanouts[f].size for f in one.fanouts)
        room = [max(c, size * c // prod(row)) for c in row]
        most = [n if v == 1 else (n - 1) // (v - 1) for n, v in zip(problem.extents, shares, strict=True)]
        low.append(tuple(least))
        high.append(tuple(min(m, r) for m, r in zip(most, room, strict=True)))
    return tuple(low), tuple(high)


@dataclass(frozen=True, slots=True)
class LoadBalance:
    """The interval of M / T where the spatial loops of a fan-out class cut M indices of a dim into tiles of T indices.

    above < M / T <= most. M / T is the number of siblings where all tiles are full, and less where the last is short.
    """

    fanout_class: int
    dim: int
    above: int
    most: int


class Crossings:
    """The sizes on both sides of every group of fan-outs, for one structure.

    low, high: the numbers of siblings, at least and at most. covered: of how many inner tiles the outer one has the
    indices, at most; the number of siblings, or less where the last tiles are known to be short.
    """

    def __init__(self, problem: Problem, counts: Counts, evenness: tuple[LoadBalance, ...] = ()) -> None:
        self.problem = problem
        self.low, self.high = sibling_ranges(problem, counts)
        covered = [list(row) for row in self.high]
        self.above = [[0] * len(row) for row in self.high]
        for one in evenness:
            g, d = one.fanout_class, one.dim
            covered[g][d] = min(covered[g][d], one.most)
            self.above[g][d] = max(self.above[g][d], one.above)
        self.covered: Counts = tuple(map(tuple, covered))
        self.groups = tuple(sorted({one.below for one in problem.classes}))
        self.units = len(self.groups) + 1
        self.inner = tuple(
            tuple(self._inner_sizes(u, d) for d in range(len(problem.dims))) for u in range(self.units - 1)
        )
        self.last = [list(problem.extents)]
        for u in range(self.units - 1):
            self.last.append([int(table[n]) for table, n in zip(self.inner[u], self.last[u], strict=True)])

    @property
    def is_possible(self) -> bool:
        """Return whether every sibling can have an index."""
        return all(n > 0 for n in self.last[-1])

    def unit(self, level: int) -> int:
        """Return in which unit tiles of a level are measured."""
        return sum(below <= level for below in self.groups)

    def classes_of(self, group: int) -> list[int]:
        return [g for g, one in enumerate(self.problem.classes) if one.below == self.groups[group]]

    def high_of(self, group: int, d: int) -> int:
        """Return how many siblings of a group work along a dim below one instance, at most."""
        return self.most_siblings(d, group, group + 1)

    def least_siblings(self, group: int, d: int) -> int:
        """Return how many siblings of a group have work along a dim in the first parent instance, at least."""
        return 1 + sum(self.low[g][d] - 1 for g in self.classes_of(group))

    def most_siblings(self, d: int, first: int, last: int) -> int:
        """Return how many siblings over the groups first .. last - 1 have work along a dim, at most."""
        total = 1
        for group in range(first, last):
            for g in self.classes_of(group):
                total = min(total * self.high[g][d], self.problem.extents[d])
        return total

    def most_covered(self, d: int, first: int, last: int) -> int:
        """Return how many times as many indices the unit `first` may have as the unit `last` inside it, at most."""
        total = 1
        for group in range(first, last):
            for g in self.classes_of(group):
                total = min(total * self.covered[g][d], self.problem.extents[d])
        return total

    def may_be_split(self, g: int, d: int) -> bool:
        """Return whether no other class of its group spreads the dim: then a LoadBalance bounds `g` alone."""
        group = self.groups.index(self.problem.classes[g].below)
        return all(self.high[h][d] == 1 for h in self.classes_of(group) if h != g)

    def outer_loops(self, d: int, unit: int) -> int:
        """Return how many spatial loops over a dim stand above the levels of a unit, at most."""
        classes = [g for group in range(unit) for g in self.classes_of(group) if self.high[g][d] > 1]
        return sum(
            self.problem.arch.fanouts[f].may_spread(self.problem.dims[d])
            for g in classes
            for f in self.problem.classes[g].fanouts
        )

    def _inner_sizes(self, group: int, d: int) -> Ints:
        """Return the largest inner size per outer size 0 .. extent (0: not every sibling has an index)."""
        sizes = np.arange(self.problem.extents[d] + 1, dtype=np.int64)
        spread = [g for g in self.classes_of(group) if self.high[g][d] > 1]
        if not spread:
            return sizes
        least = self.least_siblings(group, d)
        if least == 1:
            return sizes
        slope, offset = (1, least - 1) if len(spread) > 1 else self._slope(spread[0], d)
        above, covered = self.above[spread[0]][d], self.most_covered(d, group, group + 1)
        if self.is_spread_twice(d):
            direct = -(-sizes // max(slope, above))
        else:
            direct = (sizes - offset) // slope
            direct = np.minimum(direct, (sizes - 1) // above) if above else direct
        found = np.minimum(np.maximum(direct, -(-sizes // min(least, covered))), sizes)
        found[sizes < least] = 0
        return found

    def _slope(self, g: int, d: int) -> tuple[int, int]:
        """Return (slope, offset) of the least outer size for an inner one, of one class."""
        least = self.low[g][d]
        sizes = [f.size for f in (self.problem.arch.fanouts[i] for i in self.problem.classes[g].fanouts)]
        free = [s for s, i in zip(sizes, self.problem.classes[g].fanouts, strict=True) if s > 1 and self._may(i, d)]
        if len(free) > 2:
            return 1, least - 1
        outer = 1 if len(free) < 2 else max(1, min(max(free), (least + 1) // 2))
        return least - outer, outer

    def _may(self, fanout: int, d: int) -> bool:
        return self.problem.arch.fanouts[fanout].may_spread(self.problem.dims[d])

    def is_spread_twice(self, d: int) -> bool:
        """Return whether several groups spread a dim: their loops may stand in any order, so that inner sizes are
        rounded up, without offsets, and what one instance has may have gaps."""
        groups = [u for u in range(self.units - 1) if any(self.high[g][d] > 1 for g in self.classes_of(u))]
        return len(groups) > 1

    def outer_least(self, sizes: Ints, d: int, unit: int, inner: int) -> Ints:
        """Return the least size in `unit` of what has these sizes in the unit `inner`."""
        found = sizes
        for group in reversed(range(unit, inner)):
            found = np.searchsorted(self.inner[group][d], found, side="left").astype(np.int64)
        return found
