"""The least loads of a window tensor over all loop orders: shortest paths on the lattice of its window dims."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from polymap.search.lattice import IntArray, Lattice, divisors, lattice_below, prime_factors
from polymap.search.problem import IndexGroup
from polymap.search.windows import UNREACHED, Count, Crossing, group_tables


@dataclass(frozen=True, slots=True, eq=False)
class WindowModel:
    """All index groups of a window tensor together, over the lattice of all window dims (flat indices).

    tiles[T]: temporal tiles. size[T]: fewest elements. kept[X, T], carried[dim][X, T]: most elements kept across a loop
    outside loops that reach X (over a dim that is in no window; over a window dim). below[X]: the tiles that divide X.
    """

    lattice: Lattice
    tiles: IntArray
    size: IntArray
    kept: IntArray
    carried: dict[str, IntArray]
    below: tuple[IntArray, ...]
    strides: tuple[int, ...]


@lru_cache(maxsize=48)
def window_model(
    groups: tuple[IndexGroup, ...],
    extents: tuple[tuple[str, int], ...],
    crossings: tuple[tuple[Crossing, ...], ...],
    count: Count,
) -> WindowModel:
    """Return the model of window `groups`; extents and crossings per dim of all groups, in that order."""
    lattice = lattice_below(extents)
    of_dim = dict(zip((dim for dim, _ in extents), crossings, strict=True))
    temporal = dict(extents)
    points = [lattice.point(index) for index in np.ndindex(lattice.shape)]
    tiles = np.array([list(point.values()) for point in points], dtype=np.int64)
    size = np.ones(len(points), dtype=np.int64)
    kept = np.ones((len(points), len(points)), dtype=np.int64)
    carried = {dim: kept.copy() for dim, _ in extents}
    for group in groups:
        own = group_tables(group, tuple(temporal[d] for d in group.dims), tuple(of_dim[d] for d in group.dims), count)
        place = np.array([_flat(own.lattice, point) for point in points])
        pairs = np.ix_(place, place)
        size *= own.size[place]
        kept *= own.kept[pairs]
        for dim in carried:
            carried[dim] *= own.carried[dim][pairs] if dim in own.carried else own.kept[pairs]
    below = tuple(np.flatnonzero((tile % tiles == 0).all(axis=1)) for tile in tiles)
    strides = tuple(int(np.prod(lattice.shape[axis + 1 :], dtype=np.int64)) for axis in range(len(lattice.shape)))
    return WindowModel(lattice, tiles, size, kept, carried, below, strides)


def _flat(lattice: Lattice, point: dict[str, int]) -> int:
    inner = {dim: point[dim] for dim, _ in lattice.extents}
    return int(np.ravel_multi_index(lattice.index(inner), lattice.shape)) if lattice.shape else 0


@lru_cache(maxsize=1024)
def least_loads(model: WindowModel, outer: int, repeat: int) -> IntArray:
    """Return loads[T, m] under loops that reach the tile `outer` (flat index), for repeats m = divisors(repeat)[m].

    m: iterations of loops over dims that the tensor lacks, none of them directly above the node. UNREACHED where T
    does not divide `outer`.
    """
    repeats = divisors(repeat)
    # Element [m] of `others` lists (index of m / prime, prime): a loop over a dim that the tensor lacks.
    others = [[(repeats.index(m // p), p) for p, _ in prime_factors(m)] for m in repeats]
    count = len(model.size)
    best: dict[int, IntArray] = {}
    for x in _points(model.below[outer]):
        here = np.full((count, len(repeats)), UNREACHED, dtype=np.int64)
        here[x, 0] = model.size[x]
        for before, prime, dim in _steps_to(model, x):
            rows = model.below[before]
            old = best[before][rows]
            saved = (prime - 1) * model.carried[dim][before, rows]
            here[rows] = np.minimum(here[rows], np.maximum(prime * old - saved[:, None], old))
        rows: IntArray = model.below[x][model.below[x] != x]
        for m, sources in enumerate(others):
            for source, prime in sources:
                old = here[rows, source]
                saved = (prime - 1) * model.kept[x, rows]
                here[rows, m] = np.minimum(here[rows, m], np.maximum(prime * old - saved, old))
        best[x] = np.minimum(here, UNREACHED)
    # Nothing but other dims' loops above: each pass loads the whole tile again.
    best[outer][outer] = model.size[outer] * np.array(repeats, dtype=np.int64)
    return best[outer]


def _iterations(model: WindowModel, inner: int, outer: int) -> int:
    """Return the iterations of loops over window dims from the tile `inner` to `outer`."""
    ends = zip(model.tiles[outer].tolist(), model.tiles[inner].tolist(), strict=True)
    return prod(int(a) // int(b) for a, b in ends)


def _points(flat: IntArray) -> list[int]:
    return [int(x) for x in flat]


def _steps_to(model: WindowModel, x: int) -> Iterator[tuple[int, int, str]]:
    """Yield (point before, prime, dim) for every loop of prime length that reaches x."""
    rest = x
    for stride, (dim, prime) in zip(model.strides, model.lattice.axes, strict=True):
        if rest // stride:
            yield x - stride, prime, dim
        rest %= stride


@lru_cache(maxsize=4096)
def most_saved(model: WindowModel, inner: int, outer: int, repeat: int, after: int) -> IntArray:
    """Return, per tile T dividing `inner`, the most loads that overlaps save in loops from `inner` to `outer`.

    repeat: iterations of loops over other dims among them; after: iterations of everything outside. A loop of n
    iterations saves (n - 1) x overlap in each pass of what is outside it.
    """
    repeats = divisors(repeat)
    rows = model.below[inner]
    window = _iterations(model, inner, outer)
    best: dict[tuple[int, int], IntArray] = {}
    for x in _points(model.below[outer]):
        if (model.tiles[x] % model.tiles[inner]).any():
            continue
        done = _iterations(model, inner, x)
        for m, passed in enumerate(repeats):
            left = window // done * (repeat // passed) * after
            saved = np.zeros(len(rows), dtype=np.int64)
            for before, prime, dim in _steps_to(model, x):
                if (before, m) in best:
                    gain = (prime - 1) * left * model.carried[dim][before, rows]
                    np.maximum(saved, best[before, m] + gain, out=saved)
            for prime, _ in prime_factors(passed):
                gain = (prime - 1) * left * model.kept[x, rows]
                np.maximum(saved, best[x, repeats.index(passed // prime)] + gain, out=saved)
            best[x, m] = saved
    total = np.zeros(len(model.size), dtype=np.int64)
    total[rows] = best[outer, len(repeats) - 1]
    return total
