"""How often an element is used while it stays, where a tensor is read through windows: bounds for tiles of any size.

A tile of t1 x t2 indices of a window c1 p + c2 r touches at least t1 + t2 - 1 elements. While it stands still, an
element serves at most t1 t2 / elements pairs. When the innermost loop that moves the tile is over p, each step brings
at least t1 new elements for t1 t2 pairs. Where an outer loop over r moves while p starts again, the tile may come back
to where it was, so a run of n >= 2 steps may load for n - 1 of them only. Only one group slides at a time: what moves
the other as well brings a whole tile of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from math import ceil, gcd, prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from polymap.search.problem.problem import IndexGroup, Problem

FloatArray = NDArray[np.float64]


class Sizes(Protocol):
    """The sizes of tiles of a level per dim and cell (any_tables.AnySizes)."""

    problem: Problem

    def sizes(self, level: int) -> tuple[tuple[list[int], list[float]], ...]: ...
    def shaped(self, dim: int, values: list[int] | list[float]) -> FloatArray: ...
    def is_spread(self, dim: int, level: int) -> bool: ...


@lru_cache(maxsize=4096)
def fewest_elements(
    coefficients: tuple[int, ...], axes: tuple[tuple[int, ...], ...], spread: tuple[bool, ...]
) -> FloatArray:
    """Return how many elements of an index group a tile of at least these sizes has, over the product of the axes.

    spread: whether the indices of a dim may have gaps.
    """
    grid = np.meshgrid(*(np.array(axis, dtype=np.float64) for axis in axes), indexing="ij")
    return _elements(coefficients, grid, spread)


def _elements(coefficients: tuple[int, ...], sizes: Sequence[FloatArray], spread: tuple[bool, ...]) -> FloatArray:
    """Return a lower bound of the size of {sum c_i x_i}, x_i in a set of sizes[i] indices; exact for an interval r in
    c p + r."""
    least: FloatArray = np.maximum(1.0, sum(sizes) - (len(sizes) - 1))
    if len(sizes) == 2:
        for p, r in ((0, 1), (1, 0)):
            if abs(coefficients[r]) == 1 and not spread[r]:
                step = np.minimum(float(abs(coefficients[p])), sizes[r])
                least = np.maximum(least, step * (sizes[p] - 1) + sizes[r])
    return least


def most_reuse(sizes: Sizes, groups: list[IndexGroup], level: int) -> FloatArray:
    """Return how many index vectors of the groups one load of an element serves at most, per cell."""
    still = [_still(sizes, group, level) for group in groups]
    moving = [np.maximum(s, _moving(sizes, group, level)) for s, group in zip(still, groups, strict=True)]
    choices = [
        reduce(np.multiply, [moving[g] if g == one else still[g] for g in range(len(groups))])
        for one in range(len(groups))
    ]
    extents = sizes.problem.workload.extents()
    most = prod(_most_on_diagonal(group, [extents[dim] for dim in group.dims]) for group in groups)
    return np.minimum(reduce(np.maximum, choices), float(most))


def _most_on_diagonal(group: IndexGroup, extents: list[int]) -> int:
    """Return how many index vectors of a box share an element at most."""
    if len(group.dims) == 2:
        first, second = (abs(c) for c in group.coefficients)
        common = gcd(first, second)
        return min(ceil(extents[1] * common / first), ceil(extents[0] * common / second))
    return prod(extents) // max(extents)


def _axes(sizes: Sizes, group: IndexGroup, level: int) -> list[FloatArray]:
    dims = [sizes.problem.dims.index(dim) for dim in group.dims]
    return [sizes.shaped(d, sizes.sizes(level)[d][1]) for d in dims]


def _spread(sizes: Sizes, group: IndexGroup, level: int) -> tuple[bool, ...]:
    return tuple(sizes.is_spread(sizes.problem.dims.index(dim), level) for dim in group.dims)


def _still(sizes: Sizes, group: IndexGroup, level: int) -> FloatArray:
    """Return the reuse while the tile stands still."""
    most = _axes(sizes, group, level)
    return reduce(np.multiply, most) / _elements(group.coefficients, most, _spread(sizes, group, level))


def _moving(sizes: Sizes, group: IndexGroup, level: int) -> FloatArray:
    """Return the reuse while the group's loops move the tile, at most."""
    most, spread = _axes(sizes, group, level), _spread(sizes, group, level)
    best: FloatArray = np.zeros((1,) * len(sizes.problem.dims))
    for i in range(len(group.dims)):
        others = [j for j in range(len(group.dims)) if j != i]
        pure = reduce(np.multiply, [most[j] for j in others])
        if len(others) == 1 and abs(group.coefficients[others[0]]) == 1 and not spread[others[0]]:
            pure = pure / np.minimum(float(abs(group.coefficients[i])), most[others[0]])
        back = np.ones((1,) * len(sizes.problem.dims))
        for j in others:
            d = sizes.problem.dims.index(group.dims[j])
            extent = sizes.problem.extents[d]
            fewest = sizes.sizes(level)[d][0]
            back = np.maximum(back, sizes.shaped(d, [1.0 if n >= extent else 2.0 for n in fewest]))
        best = np.maximum(best, pure * back)
    return best
