"""Tile sizes on both sides of a group of fan-outs: bounds on the inner size given the outer one, and the reverse.

Sizes are measured in units: a size in unit u is the number of indices of one instance below u groups of fan-outs. A
dim's spatial loops cut a tile of M indices into c tiles of T. Then M <= c T, and M >= (c - a) T + a with a outer
iterations (a = 1 for one loop): every full outer tile has at most one short inner tile, and each of c siblings has an
index. Example: M = 10, c = 3 siblings, a = 1 give 4 <= T: from 10 <= 3 T; and T <= 4: from 2 T + 1 <= 10.

A node further in may stay over loops outside of the spatial ones. Then its share of M comes in pieces, and the boxes of
one instance and visit are counted instead: at least n / max(T, M / c) along a dim of n indices (docs/any_tiles.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.search.any_size.single_tensor import Counts
from polymap.search.problem import Problem

Ints = NDArray[np.int64]


def sibling_ranges(problem: Problem, counts: Counts) -> tuple[Counts, Counts]:
    """Return the least and the largest numbers of siblings that make as many visits as these, for all tiles."""
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

    low, high: the least and the largest numbers of siblings. covered: an upper bound on M / T, at most the number of
    siblings, and less where the last tiles are known to be short.
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
        """Whether every sibling can have an index."""
        return all(n > 0 for n in self.last[-1])

    def unit(self, level: int) -> int:
        """Return the unit in which tiles of a level are measured."""
        return sum(below <= level for below in self.groups)

    def classes_of(self, group: int) -> list[int]:
        return [g for g, one in enumerate(self.problem.classes) if one.below == self.groups[group]]

    def least_siblings(self, group: int, d: int) -> int:
        """Return a lower bound on the siblings of a group with work along a dim in the first parent instance."""
        return 1 + sum(self.low[g][d] - 1 for g in self.classes_of(group))

    def most_siblings(self, d: int, first: int, last: int) -> int:
        """Return an upper bound on the siblings over the groups first .. last - 1 with work along a dim."""
        total = 1
        for group in range(first, last):
            for g in self.classes_of(group):
                total = min(total * self.high[g][d], self.problem.extents[d])
        return total

    def most_covered(self, d: int, first: int, last: int) -> int:
        """Return an upper bound on the ratio of a size in unit `first` to the size in unit `last` inside it."""
        total = 1
        for group in range(first, last):
            for g in self.classes_of(group):
                total = min(total * self.covered[g][d], self.problem.extents[d])
        return total

    def most_at_once(self, d: int, first: int, last: int) -> int:
        """Return an upper bound on the indices that siblings over the groups first .. last - 1 hold at once, as a
        multiple of what one holds: with two loops of a class, both with a short last tile, more than M / T are at
        work."""
        total = 1
        for group in range(first, last):
            for g in self.classes_of(group):
                several = sum(self._may(fanout, d) for fanout in self.problem.classes[g].fanouts) > 1
                total = min(total * (self.high if several else self.covered)[g][d], self.problem.extents[d])
        return total

    def may_be_split(self, g: int, d: int) -> bool:
        """Return whether no other class of its group spreads the dim: then a LoadBalance bounds `g` alone."""
        group = self.groups.index(self.problem.classes[g].below)
        return all(self.high[h][d] == 1 for h in self.classes_of(group) if h != g)

    def outer_loops(self, d: int, unit: int) -> int:
        """Return an upper bound on the spatial loops over a dim above the levels of a unit."""
        classes = [g for group in range(unit) for g in self.classes_of(group) if self.high[g][d] > 1]
        return sum(
            self.problem.arch.fanouts[f].may_spread(self.problem.dims[d])
            for g in classes
            for f in self.problem.classes[g].fanouts
        )

    def _inner_sizes(self, group: int, d: int) -> Ints:
        """Return the largest inner size per outer size 0 .. extent (0: not every sibling can have an index)."""
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
        """Return (slope, offset) of the least outer size as a function of the inner size, for one class."""
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
        """Return whether several groups spread a dim.

        Their loops may be in any order. Then inner sizes are rounded up, without offsets, and an instance's indices may
        have gaps.
        """
        groups = [u for u in range(self.units - 1) if any(self.high[g][d] > 1 for g in self.classes_of(u))]
        return len(groups) > 1

    def outer_least(self, sizes: Ints, d: int, unit: int, inner: int) -> Ints:
        """Return a lower bound on the sizes in `unit` of tiles with these sizes in the unit `inner`."""
        found = sizes
        for group in reversed(range(unit, inner)):
            found = np.searchsorted(self.inner[group][d], found, side="left").astype(np.int64)
        return found
