"""Loads and sizes of a storage node at every tile of the lattice, given the chain above it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymap.arithmetic import Arithmetic
from polymap.search.dividing.spread import Context, Spread
from polymap.search.dividing.window_paths import WindowModel, least_loads, most_saved, window_model
from polymap.search.dividing.windows import UNREACHED, Count, Crossing, unmerged
from polymap.search.objective import Measure
from polymap.search.problem import IntArray, Lattice, Problem, TensorTerm


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What the tables of all tensors share. whole: temporal extents per dim; steps: their product; counts: the dtype of
    counts; arithmetics: how each component's costs are kept."""

    problem: Problem
    measure: Measure
    lattice: Lattice
    spread: Spread
    context: Context
    whole: dict[str, int]
    steps: int
    counts: np.dtype[Any]
    arithmetics: tuple[Arithmetic, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NodeLoads:
    """Of one instance of a node in the whole run, at every tile: elements loaded, elements read at the parent for one
    message of its siblings (the same where no fan-out unites), elements held.

    stands: where decided places let the node stand (None: everywhere).
    """

    fills: IntArray
    reads: IntArray
    held: IntArray
    stands: NDArray[np.bool_] | None = None


def node_loads(setting: Setting, term: TensorTerm, parent: int, level: int, *, above: bool) -> NodeLoads:
    """Return what a node of `level` loads from level `parent`.

    above: the node stands below spatial loops over fan-outs below its level (windows: their index sets have gaps).
    """
    lattice, spread = setting.lattice, setting.spread
    last = setting.problem.level_count
    windows = [dim for g in term.groups if g.is_window for dim in g.dims]
    held = np.ones((1,) * len(lattice.shape), dtype=setting.counts)
    trips = np.ones((1,) * len(lattice.shape), dtype=setting.counts)
    for dim, _ in lattice.extents:
        tiles = lattice.values[dim].astype(setting.counts, copy=False)
        if dim in term.dims and dim not in windows:
            held = held * (tiles * spread.factor(dim, level, last))
        if dim not in windows:
            trips = trips * (setting.whole[dim] // tiles)
    if not windows:
        return NodeLoads(held * trips, held * trips, held)
    seen = tuple(spread.crossings(dim, parent, level, above=above) for dim in windows)
    fills = _model(setting, term, unmerged(seen), Count.FILLS)
    loads, stands = _window_loads(setting, term, fills)
    size = np.where(stands, fills.size[_place_in(setting, fills)], 0)
    if not spread.unites(parent, level):
        return NodeLoads(held * loads, held * loads, held * size, stands)
    reads, _ = _window_loads(setting, term, _model(setting, term, seen, Count.READS))
    return NodeLoads(held * loads, held * reads, held * size, stands)


def _model(
    setting: Setting, term: TensorTerm, crossings: tuple[tuple[Crossing, ...], ...], count: Count
) -> WindowModel:
    groups = tuple(group for group in term.groups if group.is_window)
    dims = [dim for group in groups for dim in group.dims]
    return window_model(groups, tuple((dim, setting.whole[dim]) for dim in dims), crossings, count)


def _place_in(setting: Setting, model: WindowModel) -> IntArray:
    """Return, at every point of the lattice, the flat index of its window tile in the model."""
    return _places(setting.lattice.axes, setting.lattice.shape, model.passes.axes)


@lru_cache(maxsize=1024)
def _places(
    axes: tuple[tuple[str, int], ...], shape: tuple[int, ...], own: tuple[tuple[str, int, int], ...]
) -> IntArray:
    total = np.zeros((1,) * len(shape), dtype=np.int64)
    for dim, prime, stride in own:
        if (dim, prime) in axes:
            position = axes.index((dim, prime))
            along = [-1 if a == position else 1 for a in range(len(shape))]
            total = total + stride * np.arange(shape[position], dtype=np.int64).reshape(along)
    return total


def _window_loads(setting: Setting, term: TensorTerm, model: WindowModel) -> tuple[IntArray, NDArray[np.bool_]]:
    """Return the loads per element of the plain axes' tile, and where the node can stand (elsewhere the loads are 0):
    loops below the chain's last tile in their best order, then the loops between the chain's tiles, outwards."""
    lattice, context, dims = setting.lattice, setting.context, setting.problem.dims
    plain = [d for d, dim in enumerate(dims) if dim in term.dims and dim not in model.carried]
    other = [d for d, dim in enumerate(dims) if dim not in term.dims]
    whole = dict(zip(dims, context.tiles[0], strict=True))
    marks = [_flat_tile(model, dict(zip(dims, tile, strict=True))) for tile in context.tiles]
    reps = np.ones((1,) * len(lattice.shape), dtype=setting.counts)
    inner_trips = np.ones((1,) * len(lattice.shape), dtype=setting.counts)
    for d in other:
        reps = reps * (context.tiles[-1][d] // lattice.values[dims[d]].astype(setting.counts, copy=False))
    for d in plain:
        inner_trips = inner_trips * (context.tiles[-1][d] // lattice.values[dims[d]].astype(setting.counts, copy=False))
    where = _place_in(setting, model)
    loads, again = least_loads(model, marks[-1])
    stands = loads < UNREACHED
    loads, again, stands = np.where(stands, loads, 0), np.where(stands, again, 0), stands[where]
    first = (loads[where] + (reps - 1) * again[where]) * inner_trips
    outside = prod(whole.values()) // prod(context.tiles[-1])
    if outside == 1:
        return first, stands
    saved = _saved_outside(context, model, marks, plain, other)
    return first * outside - np.where(stands & (inner_trips == 1), saved[where], 0), stands


def _flat_tile(model: WindowModel, tile: dict[str, int]) -> int:
    total = 0
    for dim, prime, stride in model.passes.axes:
        rest = tile[dim]
        while rest % prime == 0:
            rest //= prime
            total += stride
    return total


def _saved_outside(
    context: Context, model: WindowModel, marks: list[int], plain: list[int], other: list[int]
) -> IntArray:
    """Return the most that overlaps save in the loops between the chain's tiles, per window tile."""
    saved = np.zeros(len(model.size), dtype=np.int64)
    passed_plain = False
    for position in range(len(marks) - 1, 0, -1):
        inner, outer = context.tiles[position], context.tiles[position - 1]
        after = prod(context.tiles[0]) // prod(outer)
        trips = prod(outer[d] // inner[d] for d in plain)
        repeat = prod(outer[d] // inner[d] for d in other)
        if not passed_plain:
            ends = marks[position], marks[position - 1], marks[-1]
            saved = saved + _most_saved_from(model, ends, repeat, after * trips)
        passed_plain = passed_plain or trips > 1
    return saved


def _most_saved_from(model: WindowModel, ends: tuple[int, int, int], repeat: int, after: int) -> IntArray:
    """Return most_saved from ends[0] to ends[1], for the tiles that divide ends[2] (others 0)."""
    inner, outer, last = ends
    saved = most_saved(model, inner, outer, repeat, after)
    kept = np.zeros_like(saved)
    kept[model.passes.below[last]] = saved[model.passes.below[last]]
    return kept


def window_index(lattice: Lattice, inner: Lattice) -> IntArray:
    """Return, at every point of the lattice, the flat index of its tile in a lattice of some of its dims."""
    total = np.zeros((1,) * len(lattice.shape), dtype=np.int64)
    for axis, (dim, prime) in enumerate(inner.axes):
        stride = int(np.prod(inner.shape[axis + 1 :], dtype=np.int64))
        position = lattice.axes.index((dim, prime))
        shape = [-1 if a == position else 1 for a in range(len(lattice.shape))]
        total = total + stride * np.arange(inner.shape[axis], dtype=np.int64).reshape(shape)
    return total
