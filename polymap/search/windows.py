"""Least loads of a tensor that is read through windows (p + r), for every tile at once.

For a fixed loop order the loads of a tile T under loops that reach the extents X follow one linear recursion: putting a
loop of n iterations over d around them gives n V(X) - (n - 1) overlap_d(T, X), because the last tile of one iteration
and the first of the next overlap by an amount that depends on what is inside, not on its order. So the least loads over
all orders and splits are a shortest path on the divisor lattice. Where spatial loops cross between these loops is not
decided here: every possible crossing of each dim is tried on its own, and the largest overlap and smallest tile are
taken, which keeps the result a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, permutations, product
from math import prod

import numpy as np

from polymap.search.lattice import IntArray, Lattice, divisors, lattice_below, prime_factors
from polymap.search.problem import IndexGroup

UNREACHED = 1 << 50


@dataclass(frozen=True, slots=True)
class Crossing:
    """A spatial loop over one dim: its factor, whether it chooses the instance of the node, whether it may (or, fixed,
    must) stand above the node; place: the temporal extent of the dim inside it, None while that is open."""

    factor: int
    fixed: bool
    may_stand_above: bool
    place: int | None = None


@dataclass(frozen=True, slots=True)
class DimStep:
    """A dim seen from a node: its index set (a bit mask), the distance from the last index of one pass to the first of
    the next when it is carried, and from the first to the last index of a pass."""

    indices: int
    carried: int
    reach: int


@lru_cache(maxsize=200_000)
def dim_steps(extent: int, tile: int, inside: int, crossings: tuple[Crossing, ...]) -> tuple[DimStep, ...]:
    """Return what the dim may look like from a node with temporal tile `tile` when loops up to `inside` are passed.

    extent: temporal extent; tile | inside | extent. One entry per way in which the spatial loops may cross.
    """
    found: dict[DimStep, None] = {}
    for order in _crossing_orders(extent, tile, inside, crossings):
        found[dim_step(tile, inside, crossings, order)] = None
    return tuple(found)


Order = tuple[tuple[int, int], ...]


def _crossing_orders(extent: int, tile: int, inside: int, crossings: tuple[Crossing, ...]) -> Iterator[Order]:
    """Yield (crossing, temporal extent inside it), innermost first."""
    choices: list[list[int]] = []
    for one in crossings:
        if one.place is not None:
            choices.append([one.place])
            continue
        above = [y for y in divisors(extent) if y % tile == 0 and (y % inside == 0 or inside % y == 0)]
        below = list(divisors(tile)) if not one.fixed else []
        if one.fixed:
            choices.append(above)
        elif one.may_stand_above:
            choices.append(sorted({*above, *below}))
        else:
            choices.append(below)
    for places in product(*choices):
        for sequence in permutations(range(len(crossings))):
            ordered = tuple((index, places[index]) for index in sequence)
            if all(b[1] % a[1] == 0 for a, b in pairwise(ordered)):
                yield ordered


def dim_step(tile: int, inside: int, crossings: tuple[Crossing, ...], order: Order) -> DimStep:
    """Return one dim as a node sees it when the spatial loops stand as `order` says, innermost first."""
    indices, reach, spread = 1, 0, 1
    passed = 1
    pending = list(order)
    while passed < inside or (pending and pending[0][1] <= inside):
        if pending and pending[0][1] == passed:
            index, _ = pending.pop(0)
            one = crossings[index]
            if not one.fixed:
                indices = _spread(indices, one.factor, passed * spread)
            spread *= one.factor
            continue
        # The next boundary at which the stride or the meaning of a loop changes.
        stops = [inside, *(place for _, place in pending if place <= inside), *((tile,) if passed < tile else ())]
        stop = min(place for place in stops if place > passed)
        trips = stop // passed
        if passed < tile:
            indices = _spread(indices, trips, passed * spread)
        else:
            reach += (trips - 1) * passed * spread
        passed = stop
    for index, place in pending:
        # Free spatial loops above all that was passed still belong to the node's index set.
        one = crossings[index]
        if not one.fixed:
            inner = 1
            for other, _ in order[: [item[0] for item in order].index(index)]:
                inner *= crossings[other].factor
            indices = _spread(indices, one.factor, place * inner)
    return DimStep(indices, inside * spread - reach, reach)


def _spread(indices: int, count: int, stride: int) -> int:
    total = 0
    for position in range(count):
        total |= indices << (position * stride)
    return total


@lru_cache(maxsize=100_000)
def form_set(coefficients: tuple[int, ...], index_sets: tuple[int, ...]) -> int:
    """Return {sum coefficient * index} as a bit mask, moved so that its least element is 0."""
    total = 1
    for coefficient, indices in zip(coefficients, index_sets, strict=True):
        size = abs(coefficient)
        last = indices.bit_length() - 1
        spread = 0
        for position in range(last + 1):
            if indices >> position & 1:
                # A negative coefficient mirrors the set, which is then moved to start at 0.
                place = position if coefficient > 0 else last - position
                spread |= total << (place * size)
        total = spread
    return total


@lru_cache(maxsize=400_000)
def overlap(elements: int, distance: int) -> int:
    """Return how many elements a set (a bit mask) shares with itself moved by `distance`."""
    return (elements & (elements >> abs(distance))).bit_count()


@dataclass(frozen=True, slots=True)
class GroupTables:
    """One index group over its own lattice of tiles T and passed extents X (flat indices).

    size[T]: fewest elements. kept[X, T]: most elements kept across a loop over a dim outside the group.
    carried[dim][X, T]: the same across a loop over `dim`.
    """

    lattice: Lattice
    size: IntArray
    kept: IntArray
    carried: dict[str, IntArray]


@lru_cache(maxsize=512)
def group_tables(
    group: IndexGroup, extents: tuple[int, ...], crossings: tuple[tuple[Crossing, ...], ...]
) -> GroupTables:
    """Return the tables of a group; `extents` are the temporal extents of its dims, `crossings` per dim."""
    lattice = lattice_below(tuple(zip(group.dims, extents, strict=True)))
    points = [tuple(lattice.point(index).values()) for index in np.ndindex(lattice.shape)]
    count = len(points)
    size = np.full(count, UNREACHED, dtype=np.int64)
    kept = np.zeros((count, count), dtype=np.int64)
    carried = {dim: np.zeros((count, count), dtype=np.int64) for dim in group.dims}
    for t, tile in enumerate(points):
        for x, inside in enumerate(points):
            if any(b % a for a, b in zip(tile, inside, strict=True)):
                continue
            seen = _group_steps(group, extents, crossings, tile, inside)
            size[t] = min(size[t], min(step[0] for step in seen))
            kept[x, t] = max(step[1] for step in seen)
            for position, dim in enumerate(group.dims):
                carried[dim][x, t] = max(step[2][position] for step in seen)
    return GroupTables(lattice, size, kept, carried)


def _group_steps(
    group: IndexGroup,
    extents: tuple[int, ...],
    crossings: tuple[tuple[Crossing, ...], ...],
    tile: tuple[int, ...],
    inside: tuple[int, ...],
) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return (size, kept, carried per dim) for every combination of crossings."""
    options = [
        dim_steps(extent, t, x, crossing)
        for extent, t, x, crossing in zip(extents, tile, inside, crossings, strict=True)
    ]
    found: list[tuple[int, int, tuple[int, ...]]] = []
    for steps in product(*options):
        elements = form_set(group.coefficients, tuple(step.indices for step in steps))
        back = [c * step.reach for c, step in zip(group.coefficients, steps, strict=True)]
        total = sum(back)
        ahead = tuple(
            overlap(elements, c * step.carried - (total - own))
            for c, step, own in zip(group.coefficients, steps, back, strict=True)
        )
        found.append((elements.bit_count(), overlap(elements, total), ahead))
    return found


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
        own = group_tables(group, tuple(temporal[d] for d in group.dims), tuple(of_dim[d] for d in group.dims))
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


@lru_cache(maxsize=100_000)
def least_offsets(
    coefficients: tuple[int, ...],
    extents: tuple[int, ...],
    tile: tuple[int, ...],
    loops: tuple[tuple[tuple[int, int, int | None], ...], ...],
) -> int:
    """Return the fewest distinct offsets of siblings along a linear form.

    loops: per dim and fan-out group (outermost first) the factor, the part of it whose siblings may share a message,
    and the temporal extent inside (None: any multiple of the tile).
    """
    choices: list[list[frozenset[int]]] = []
    for coefficient, extent, own, groups in zip(coefficients, extents, tile, loops, strict=True):
        found: dict[frozenset[int], None] = {}
        for places in product(*(_open_places(extent, own, factor, place) for factor, _, place in groups)):
            for order in permutations(range(len(groups))):
                if all(places[b] % places[a] == 0 for a, b in pairwise(order)):
                    found[_offsets(coefficient, [(groups[g][0], groups[g][1], places[g]) for g in order])] = None
        choices.append(list(found))
    return min(len(_sumset(sets)) for sets in product(*choices))


def _open_places(extent: int, tile: int, factor: int, place: int | None) -> list[int]:
    if factor == 1:
        return [1]
    return [y for y in divisors(extent) if y % tile == 0] if place is None else [place]


def _offsets(coefficient: int, loops: list[tuple[int, int, int]]) -> frozenset[int]:
    offsets, spread = {0}, 1
    for factor, shared, place in loops:
        step = coefficient * place * spread
        offsets = {offset + step * i for offset in offsets for i in range(shared)}
        spread *= factor
    return frozenset(offsets)


def _sumset(sets: tuple[frozenset[int], ...]) -> set[int]:
    total = {0}
    for one in sets:
        total = {a + b for a in total for b in one}
    return total
