"""The least loads of a window tensor over all loop orders: shortest paths on the lattice of its window dims."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.arithmetic import count_type
from polymap.search.dividing.windows import UNREACHED, Count, Crossing, Pairs, group_tables, pairs_of
from polymap.search.problem import IndexGroup, IntArray, divisors, prime_factors


@dataclass(frozen=True, slots=True, eq=False)
class Passes:
    """Pairs (T, X) of all window dims together, a product of the groups' pairs, in layers by their rank.

    axes: (dim, prime, stride of the flat index). tiles[point, dim]. at[X, T]: number of a pair, -1 where T does not
    divide X. layers: (pairs, per pair and axis the pair before it or the number of pairs where there is none).
    """

    axes: tuple[tuple[str, int, int], ...]
    dims: tuple[str, ...]
    tiles: IntArray
    at: NDArray[np.int32]
    layers: tuple[tuple[IntArray, IntArray], ...]
    below: tuple[IntArray, ...]


@dataclass(frozen=True, slots=True, eq=False)
class WindowModel:
    """All index groups of a window tensor together.

    size[T]: fewest elements. kept[pair], carried[dim][pair]: most elements kept across a loop outside loops that reach
    X (over a dim that is in no window; over a window dim). loads[pair]: least loads of the loops over window dims up to
    X. again[pair]: least loads that one more iteration of loops over other dims adds, in all the loops up to X.
    """

    passes: Passes
    size: IntArray
    kept: IntArray
    carried: dict[str, IntArray]
    loads: IntArray
    again: IntArray


@lru_cache(maxsize=48)
def window_model(
    groups: tuple[IndexGroup, ...],
    extents: tuple[tuple[str, int], ...],
    crossings: tuple[tuple[Crossing, ...], ...],
    count: Count,
) -> WindowModel:
    """Return the model of window `groups`; extents and crossings per dim of all groups, in that order."""
    of_dim = dict(zip((dim for dim, _ in extents), crossings, strict=True))
    temporal = dict(extents)
    tables = [
        group_tables(group, tuple(temporal[d] for d in group.dims), tuple(of_dim[d] for d in group.dims), count)
        for group in groups
    ]
    passes = _passes(tuple(tuple((d, temporal[d]) for d in group.dims) for group in groups))
    size = _reached([one.size for one in tables])
    passed = _reached([one.passed for one in tables])
    kept = _outer([one.kept for one in tables])
    carried = {dim: _outer([one.carried.get(dim, one.kept) for one in tables]) for dim, _ in extents}
    loads, again = _least(passes, size, passed, kept, carried)
    return WindowModel(passes, size, kept, carried, loads, again)


def _outer(parts: list[IntArray]) -> IntArray:
    """Return the products of one entry of each part, flat, the last part's entries side by side."""
    total = np.ones(1, dtype=np.int64)
    for part in parts:
        total = (total[:, None] * part).ravel()
    return total


def _reached(parts: list[IntArray]) -> IntArray:
    """Return the products, UNREACHED where a part is."""
    reached = _outer([(part < UNREACHED).astype(np.int64) for part in parts])
    return np.where(reached > 0, _outer([np.where(part < UNREACHED, part, 0) for part in parts]), UNREACHED)


@lru_cache(maxsize=96)
def _passes(extents: tuple[tuple[tuple[str, int], ...], ...]) -> Passes:
    parts = [pairs_of(own) for own in extents]
    counts = [len(part.points) for part in parts]
    total = prod(len(part.outer) for part in parts)
    axes: list[tuple[str, int, int]] = []
    before: list[IntArray] = []
    for number, part in enumerate(parts):
        stride = prod(counts[number + 1 :])
        for axis, (dim, prime, own) in enumerate(part.axes):
            axes.append((dim, prime, own * stride))
            before.append(_joint([part.before[axis] if one is part else None for one in parts], parts))
    rank = np.zeros(1, dtype=np.int64)
    for part in parts:
        rank = (rank[:, None] + part.rank).ravel()
    sources = np.stack(before, axis=1) if before else np.zeros((total, 0), dtype=np.int64)
    sources[sources < 0] = total
    layers = [np.flatnonzero(rank == value) for value in range(1, int(rank.max()) + 1)]
    at = _grid([part.at for part in parts], [len(part.outer) for part in parts])
    tiles = np.concatenate([part.points[_digit(counts, number)] for number, part in enumerate(parts)], axis=1)
    below = tuple(np.flatnonzero(row >= 0) for row in at)
    dims = tuple(dim for own in extents for dim, _ in own)
    return Passes(tuple(axes), dims, tiles, at, tuple((rows, sources[rows]) for rows in layers), below)


def _digit(counts: list[int], number: int) -> IntArray:
    """Return digit `number` of every flat index whose digits have `counts` values."""
    after = prod(counts[number + 1 :])
    return np.arange(prod(counts), dtype=np.int64) // after % counts[number]


def _joint(changed: list[IntArray | None], parts: list[Pairs]) -> IntArray:
    """Return flat pairs whose digits are the groups' pairs, of one group `changed` (its -1: the whole is -1)."""
    counts = [len(part.outer) for part in parts]
    total = np.zeros(prod(counts), dtype=np.int64)
    missing = np.zeros(prod(counts), dtype=bool)
    for number, change in enumerate(changed):
        digit = _digit(counts, number)
        if change is not None:
            digit = change[digit]
            missing |= digit < 0
        total = total * counts[number] + digit
    return np.where(missing, -1, total)


def _grid(grids: list[IntArray], counts: list[int]) -> NDArray[np.int32]:
    """Return at[X, T] of all groups together, -1 where it is so in one of them."""
    total = np.zeros((1, 1), dtype=np.int64)
    for grid, count in zip(grids, counts, strict=True):
        left, right = total[:, None, :, None], grid[None, :, None, :]
        joined = np.where((left < 0) | (right < 0), -1, left * count + right)
        total = joined.reshape(len(total) * len(grid), -1)
    return total.astype(np.int32)


def _least(
    passes: Passes, size: IntArray, passed: IntArray, kept: IntArray, carried: dict[str, IntArray]
) -> tuple[IntArray, IntArray]:
    """Return (loads, again) per pair: a loop of n iterations turns the loads V into n V - (n - 1) overlap.

    Loops over other dims: in every iteration but the first they repeat what is inside them, but for what is kept;
    where they stand is chosen for `again` alone, which keeps loads + (m - 1) x again a lower bound for m iterations.
    """
    total = len(passed)
    loads = np.full(total + 1, UNREACHED, dtype=np.int64)
    start = passes.at[np.arange(len(size)), np.arange(len(size))]
    loads[start] = np.where(passed[start] < UNREACHED, size, UNREACHED)
    again = loads.copy()
    primes = np.array([prime for _, prime, _ in passes.axes], dtype=np.int64)
    saved = np.stack([(prime - 1) * carried[dim] for dim, prime, _ in passes.axes], axis=1) if len(primes) else None
    for rows, sources in passes.layers:
        assert saved is not None
        old, reached = loads[sources], loads[sources] < UNREACHED
        gain = np.take_along_axis(saved, np.minimum(sources, total - 1), axis=0)
        grown = np.maximum(primes * np.where(reached, old, 0) - gain, old)
        new = np.maximum(grown.min(axis=1), passed[rows])
        loads[rows] = np.minimum(new, UNREACHED)
        repeated = np.where(reached, primes * np.where(reached, again[sources], 0), UNREACHED)
        more = np.minimum(repeated.min(axis=1), np.maximum(loads[rows] - kept[rows], 0))
        again[rows] = np.where(loads[rows] < UNREACHED, more, UNREACHED)
    return loads[:total], again[:total]


@lru_cache(maxsize=1024)
def least_loads(model: WindowModel, outer: int) -> tuple[IntArray, IntArray]:
    """Return (loads, again) per tile T under loops that reach the tile `outer` (flat index).

    m iterations of loops over dims that the tensor lacks, none of them directly above the node, load at least
    loads + (m - 1) x again. UNREACHED where T does not divide `outer`, or decided places forbid it.
    """
    row = model.passes.at[outer]
    return (
        np.where(row >= 0, model.loads[row], UNREACHED),
        np.where(row >= 0, model.again[row], UNREACHED),
    )


@lru_cache(maxsize=4096)
def most_saved(model: WindowModel, inner: int, outer: int, repeat: int, after: int) -> IntArray:
    """Return, per tile T dividing `inner`, the most loads that overlaps save in loops from `inner` to `outer`.

    repeat: iterations of loops over other dims among them; after: iterations of everything outside. A loop of n
    iterations saves (n - 1) x overlap in each pass of what is outside it.
    """
    passes, repeats = model.passes, divisors(repeat)
    rows = passes.below[inner]
    window = _iterations(passes, inner, outer)
    most = max(int(one.max(initial=0)) for one in (model.kept, *model.carried.values()))
    kind = count_type(2 * most * window * repeat * after)
    kept = model.kept.astype(kind, copy=False)
    carried = {dim: one.astype(kind, copy=False) for dim, one in model.carried.items()}
    best: dict[tuple[int, int], IntArray] = {}
    for x in passes.below[outer].tolist():
        if passes.at[x, inner] < 0:
            continue
        done = _iterations(passes, inner, x)
        steps = [(x - stride, prime, dim) for dim, prime, stride in passes.axes if _has(passes, x, stride, prime, dim)]
        for m, passed in enumerate(repeats):
            left = window // done * (repeat // passed) * after
            saved = np.zeros(len(rows), dtype=kind)
            for before, prime, dim in steps:
                if (before, m) in best:
                    gain = (prime - 1) * left * carried[dim][passes.at[before, rows]]
                    np.maximum(saved, best[before, m] + gain, out=saved)
            for prime, _ in prime_factors(passed):
                gain = (prime - 1) * left * kept[passes.at[x, rows]]
                np.maximum(saved, best[x, repeats.index(passed // prime)] + gain, out=saved)
            best[x, m] = saved
    total = np.zeros(len(model.size), dtype=kind)
    total[rows] = best[outer, len(repeats) - 1]
    return total


def _has(passes: Passes, x: int, stride: int, prime: int, dim: str) -> bool:
    """Return whether the tile's extent along the dim has the prime."""
    return stride <= x and int(passes.tiles[x, passes.dims.index(dim)]) % prime == 0


def _iterations(passes: Passes, inner: int, outer: int) -> int:
    """Return the iterations of loops over window dims from the tile `inner` to `outer`."""
    return int((passes.tiles[outer] // passes.tiles[inner]).prod())
