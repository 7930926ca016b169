"""Loads of a tensor that is read through windows (p + r): least over all loop orders, for every tile at once.

For a fixed loop order the loads of a tile T under loops that reach the extents X follow one linear recurrence: a loop
of n iterations over d around them gives n V(X) - (n - 1) overlap_d(T, X), because the last tile of an iteration and the
first of the next overlap by an amount that depends on what is inside, not on its order. So the least loads over all
orders and splits are a shortest path on the divisor lattice. Where the places of spatial loops are open, every place
of each dim is tried on its own, and the largest overlap and smallest tile are taken, which keeps the result a lower
bound; where they are decided, the loads are exact. Fills are counted through crossings that merge nothing
(`forget_merging`), reads at the parent through crossings that say how siblings' loads become one message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, permutations, product
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.ir import Multicast
from polymap.poly import count_type
from polymap.resources import SearchCaches
from polymap.search.problem import IndexGroup, IntArray, Lattice, divisors, lattice_below, prime_factors


@dataclass(frozen=True, slots=True)
class GroupCrossing:
    """The spatial loops over one dim in one group of fan-outs, as a node sees them.

    orders: (factor, how siblings' loads are merged towards the node's parent; None: not between the two), innermost
    first, in every order in which they may stand. fixed: they choose the instance of the node, and stand above it;
    others may, too. place: the temporal extent of the dim inside them, None while that is open.
    """

    orders: tuple[tuple[tuple[int, Multicast | None], ...], ...]
    fixed: bool
    place: int | None = None

    @property
    def factor(self) -> int:
        return prod(factor for factor, _ in self.orders[0])


@dataclass(frozen=True, slots=True)
class DimView:
    """A dim seen from a node. Sets are bit masks.

    indices: its index set. passed: the indices of all tiles together. united: offsets of siblings whose loads become
    one message. distinct: offsets of siblings that share a message only if it is equal. carried: the distance from the
    last index of one pass to the first of the next; reach: from the first to the last index of a pass.
    """

    indices: int
    passed: int
    united: int
    distinct: int
    carried: int
    reach: int


def dim_views(extent: int, tile: int, inside: int, crossings: tuple[GroupCrossing, ...]) -> tuple[DimView, ...]:
    """Return what the dim may look like from a node with temporal tile `tile` when loops up to `inside` are passed.

    extent: temporal extent; tile | inside | extent. One entry per way in which the spatial loops may cross; none where
    loops that reach `inside` cannot respect the decided places.
    """
    found: dict[DimView, None] = {}
    choices = [[replace(one, orders=(o,)) for o in one.orders] if len(one.orders) > 1 else [one] for one in crossings]
    for order in _crossing_orders(extent, tile, inside, crossings):
        for ordered in product(*choices):
            found[dim_view(tile, inside, ordered, order)] = None
    return tuple(found)


Order = tuple[tuple[int, int], ...]


def _crossing_orders(extent: int, tile: int, inside: int, crossings: tuple[GroupCrossing, ...]) -> Iterator[Order]:
    """Yield (crossing, temporal extent inside it), innermost first; nothing where decided places forbid such passes."""
    choices: list[list[int]] = []
    above = [y for y in divisors(extent) if y % tile == 0 and (y % inside == 0 or inside % y == 0)]
    for one in crossings:
        below = [] if one.fixed else list(divisors(tile))
        free = above if one.fixed else sorted({*above, *below})
        choices.append(free if one.place is None else [y for y in free if y == one.place])
    for places in product(*choices):
        for sequence in permutations(range(len(crossings))):
            ordered = tuple((index, places[index]) for index in sequence)
            if all(b[1] % a[1] == 0 for a, b in pairwise(ordered)):
                yield ordered


def dim_view(tile: int, inside: int, crossings: tuple[GroupCrossing, ...], order: Order) -> DimView:
    """Return one dim as a node sees it when the spatial loops stand as `order` says, innermost first, each crossing's
    own in its first order.

    A loop's stride is the extent inside it: of the temporal loops, times the factors of the spatial loops.
    """
    indices, reach = 1, 0
    siblings: dict[Multicast | None, int] = dict.fromkeys((*Multicast, None), 1)
    inner = 1
    for index, place in order:
        one, step = crossings[index], place * inner
        if not one.fixed:
            indices = _copies(indices, one.factor, step)
        for factor, merge in one.orders[0] if one.fixed else ():
            siblings[merge] = _copies(siblings[merge], factor, step)
            step *= factor
        inner *= one.factor
    passed = indices
    stops = sorted({1, tile, inside, *(place for _, place in order if place <= inside)})
    for start, stop in pairwise(stops):
        stride = start * _factors(crossings, order, start)
        if stop <= tile:
            indices = _copies(indices, stop // start, stride)
        passed = _copies(passed, stop // start, stride)
        if stop > tile:
            reach += (stop // start - 1) * stride
    carried = inside * _factors(crossings, order, inside) - reach
    return DimView(indices, passed, siblings[Multicast.UNION], siblings[Multicast.IDENTICAL], carried, reach)


def _factors(crossings: tuple[GroupCrossing, ...], order: Order, extent: int) -> int:
    """Return the product of the spatial loops inside a temporal extent."""
    return prod(crossings[index].factor for index, place in order if place <= extent)


def _copies(indices: int, count: int, stride: int) -> int:
    total, done = indices, 1
    while done < count:
        more = min(done, count - done)  # doubled, as long as that is not too many
        total |= total << more * stride
        done += more
    return total


def form_set(coefficients: tuple[int, ...], index_sets: tuple[int, ...]) -> int:
    """Return {sum coefficient * index} as a bit mask, moved so that its least element is 0."""
    total = 1
    for coefficient, indices in zip(coefficients, index_sets, strict=True):
        size = abs(coefficient)
        last = indices.bit_length() - 1
        if indices == (1 << last + 1) - 1:  # without gaps, it is its own mirror image
            total = _copies(total, last + 1, size)
            continue
        if coefficient == 1 and total.bit_count() < indices.bit_count():
            total, indices = indices, total  # the sum of two sets, by the elements of the smaller one
            last = indices.bit_length() - 1
        spread = 0
        for position in _elements(indices):
            # A negative coefficient mirrors the set, which is then moved to start at 0.
            place = position if coefficient > 0 else last - position
            spread |= total << (place * size)
        total = spread
    return total


def _elements(mask: int) -> Iterator[int]:
    """Yield the elements of a set that is a bit mask; its digits are looked at once, however many there are."""
    digits = bin(mask)[:1:-1]
    place = digits.find("1")
    while place >= 0:
        yield place
        place = digits.find("1", place + 1)


def _sum_size(first: int, second: int) -> int:
    total = 0
    for place in _elements(second):
        total |= first << place
    return total.bit_count()


def forget_merging(crossings: tuple[tuple[GroupCrossing, ...], ...]) -> tuple[tuple[GroupCrossing, ...], ...]:
    """Return the crossings without how siblings merge, which fills do not depend on."""
    return tuple(tuple(replace(one, orders=(((one.factor, None),),)) for one in own) for own in crossings)


def _tile_index(
    axes: tuple[tuple[str, int], ...], shape: tuple[int, ...], inner: tuple[tuple[tuple[str, int], int], ...]
) -> IntArray:
    total = np.zeros((1,) * len(shape), dtype=np.int64)
    for axis, stride in inner:
        if axis in axes:
            position = axes.index(axis)
            along = [-1 if a == position else 1 for a in range(len(shape))]
            total = total + stride * np.arange(shape[position], dtype=np.int64).reshape(along)
    return total


def _strides(lattice: Lattice) -> tuple[int, ...]:
    return tuple(prod(lattice.shape[axis + 1 :]) for axis in range(len(lattice.shape)))


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The pairs (tile T, passed extents X) of a lattice with T | X; points are flat indices.

    tiles[point, dim]. outer, inner: X and T per pair. at[X, T]: number of the pair, -1 where T does not divide X.
    below[X]: all T that divide it. layers: pairs by the number of primes from T to X (from one on), each with, per pair
    and axis, the pair with X / prime (the number of pairs where T does not divide that).
    """

    lattice: Lattice
    tiles: IntArray
    outer: IntArray
    inner: IntArray
    at: NDArray[np.int32]
    below: tuple[IntArray, ...]
    layers: tuple[tuple[IntArray, IntArray], ...]


def pairs_of(extents: tuple[tuple[str, int], ...]) -> Pairs:
    """Return the pairs of the lattice below `extents`."""
    lattice = lattice_below(extents)
    count = prod(lattice.shape)
    exponents = np.indices(lattice.shape).reshape(len(lattice.shape), count)
    divides = np.ones((count, count), dtype=np.bool_)
    for own in exponents:
        divides &= own[:, None] >= own[None, :]
    outer, inner = np.nonzero(divides)
    at = np.full((count, count), -1, dtype=np.int32)
    at[outer, inner] = np.arange(len(outer), dtype=np.int32)
    sources = np.full((len(outer), len(exponents)), len(outer), dtype=np.int64)
    for axis, (own, stride) in enumerate(zip(exponents, _strides(lattice), strict=True)):
        further = own[outer] > own[inner]
        sources[further, axis] = at[outer[further] - stride, inner[further]]
    primes = exponents.sum(axis=0)
    rank = primes[outer] - primes[inner]
    layers = [np.flatnonzero(rank == value) for value in range(1, int(rank.max()) + 1)]
    tiles = np.stack([np.broadcast_to(lattice.values[dim], lattice.shape).ravel() for dim, _ in extents], axis=1)
    below = tuple(np.flatnonzero(row >= 0) for row in at)
    return Pairs(lattice, tiles, outer, inner, at, below, tuple((rows, sources[rows]) for rows in layers))


@dataclass(frozen=True, slots=True, eq=False)
class Overlaps:
    """Sizes per tile T and overlaps per pair of T and passed extents X, of one index group or of several together.

    feasible[pair]: some places of the spatial loops let loops reach X around T; all else is 0 where none do. size[T]:
    fewest elements. passed[pair]: fewest elements of all tiles together. kept[pair], carried[dim][pair]: most elements
    kept across a loop outside loops that reach X, over a dim outside the group, and over `dim`.
    """

    pairs: Pairs
    feasible: NDArray[np.bool_]
    size: IntArray
    passed: IntArray
    kept: IntArray
    carried: dict[str, IntArray]


@dataclass(frozen=True, slots=True, eq=False)
class WindowModel:
    """All index groups of a window tensor together, per pair (T, X).

    reached: whether loops over window dims can lead from T to X. loads: the least loads of these. again: least loads
    that one more iteration of loops over other dims adds, in all the loops up to X.
    """

    overlaps: Overlaps
    reached: NDArray[np.bool_]
    loads: IntArray
    again: IntArray

    @property
    def pairs(self) -> Pairs:
        return self.overlaps.pairs

    def point(self, tile: dict[str, int]) -> int:
        """Return the flat index of a tile (of these dims and others)."""
        exponents = self.pairs.lattice.index(tile)
        return sum(one * stride for one, stride in zip(exponents, _strides(self.pairs.lattice), strict=True))


def _least_paths(overlaps: Overlaps) -> tuple[NDArray[np.bool_], IntArray, IntArray]:
    """Return (reached, loads, again) per pair: a loop of n iterations turns the loads V into n V - (n - 1) overlap.

    Loops over other dims: in every iteration but the first they repeat what is inside them, but for what is kept;
    where they stand is chosen for `again` alone, which keeps loads + (m - 1) x again a lower bound for m iterations.
    """
    pairs, total, most = overlaps.pairs, len(overlaps.passed), np.iinfo(np.int64).max
    reached, loads = np.zeros(total + 1, dtype=np.bool_), np.zeros(total + 1, dtype=np.int64)
    points = np.arange(len(overlaps.size))
    start = pairs.at[points, points]
    reached[start] = overlaps.feasible[start]
    loads[start] = np.where(reached[start], overlaps.size, 0)
    again = loads.copy()
    axes = pairs.lattice.axes
    primes = np.array([prime for _, prime in axes], dtype=np.int64)
    saved = [np.append((prime - 1) * overlaps.carried[dim], 0) for dim, prime in axes]
    for rows, sources in pairs.layers:
        old, open_ = loads[sources], reached[sources]
        gain = np.stack([own[column] for own, column in zip(saved, sources.T, strict=True)], axis=1)
        grown = np.where(open_, np.maximum(primes * old - gain, old), most).min(axis=1)
        repeated = np.where(open_, primes * again[sources], most).min(axis=1)
        here = open_.any(axis=1) & overlaps.feasible[rows]
        reached[rows] = here
        loads[rows] = np.where(here, np.maximum(grown, overlaps.passed[rows]), 0)
        more = np.minimum(repeated, np.maximum(loads[rows] - overlaps.kept[rows], 0))
        again[rows] = np.where(here, more, 0)
    return reached[:total], loads[:total], again[:total]


def least_loads(model: WindowModel, outer: int) -> tuple[IntArray, IntArray, NDArray[np.bool_]]:
    """Return (loads, again, feasible) per tile T under loops that reach the tile `outer` (flat index).

    m iterations of loops over dims that the tensor lacks, none of them directly above the node, load at least
    loads + (m - 1) x again. Not feasible (loads 0) where T does not divide `outer`, or decided places forbid it.
    """
    row = model.pairs.at[outer]
    feasible = (row >= 0) & model.reached[row]
    return np.where(feasible, model.loads[row], 0), np.where(feasible, model.again[row], 0), feasible


def most_saved(model: WindowModel, inner: int, outer: int, repeat: int, after: int) -> IntArray:
    """Return, per tile T dividing `inner`, the most loads that overlaps save in loops from `inner` to `outer`.

    repeat: iterations of loops over other dims among them; after: iterations of everything outside. A loop of n
    iterations saves (n - 1) x overlap in each pass of what is outside it.
    """
    pairs, overlaps, repeats = model.pairs, model.overlaps, divisors(repeat)
    lattice, rows = pairs.lattice, pairs.below[inner]
    iterations = (pairs.tiles // pairs.tiles[inner]).prod(axis=1).tolist()
    window = iterations[outer]
    most = max(int(one.max(initial=0)) for one in (overlaps.kept, *overlaps.carried.values()))
    kind = count_type(2 * most * window * repeat * after)
    kept = overlaps.kept.astype(kind, copy=False)
    carried = {dim: one.astype(kind, copy=False) for dim, one in overlaps.carried.items()}
    steps = [(stride, dim, prime) for (dim, prime), stride in zip(lattice.axes, _strides(lattice), strict=True)]
    best: dict[tuple[int, int], IntArray] = {}
    for x in pairs.below[outer].tolist():
        if pairs.at[x, inner] < 0:
            continue
        for m, passed in enumerate(repeats):
            left = window // iterations[x] * (repeat // passed) * after
            saved = np.zeros(len(rows), dtype=kind)
            for stride, dim, prime in steps:
                before = x - stride
                if before >= 0 and pairs.at[x, before] >= 0 and (before, m) in best:
                    gain = (prime - 1) * left * carried[dim][pairs.at[before, rows]]
                    np.maximum(saved, best[before, m] + gain, out=saved)
            for prime, _ in prime_factors(passed):
                gain = (prime - 1) * left * kept[pairs.at[x, rows]]
                np.maximum(saved, best[x, repeats.index(passed // prime)] + gain, out=saved)
            best[x, m] = saved
    total = np.zeros(len(overlaps.size), dtype=kind)
    total[rows] = best[outer, len(repeats) - 1]
    return total


def most_saved_outside(model: WindowModel, repeat: int) -> IntArray:
    """Return, per divisor of `repeat` and pair (T, X), the most loads that overlaps save in loops from X to the whole
    extents, so many iterations of loops over other dims among them: most_saved for every tile that loops pass through.
    """
    pairs, overlaps, repeats = model.pairs, model.overlaps, divisors(repeat)
    whole, strides = pairs.tiles[-1].prod(), _strides(pairs.lattice)
    steps = [(stride, dim, prime) for (dim, prime), stride in zip(pairs.lattice.axes, strides, strict=True)]
    exponents = np.indices(pairs.lattice.shape).reshape(len(steps), len(pairs.tiles))
    saved = np.zeros((len(repeats), len(pairs.outer)), dtype=np.int64)
    order: list[int] = np.argsort(-exponents.sum(axis=0), kind="stable").tolist()  # all tiles before their divisors
    for x in order:
        rows, outside = pairs.below[x], whole // pairs.tiles[x].prod()
        at, own = pairs.at[x, rows], exponents[:, x].tolist()
        further = [step for step, now, length in zip(steps, own, pairs.lattice.shape, strict=True) if now + 1 < length]
        for m, left in enumerate(repeats):
            for stride, dim, prime in further:
                gain = (prime - 1) * (outside // prime) * left * overlaps.carried[dim][at]
                saved[m, at] = np.maximum(saved[m, at], saved[m, pairs.at[x + stride, rows]] + gain)
            for prime, _ in prime_factors(left):
                gain = (prime - 1) * outside * (left // prime) * overlaps.kept[at]
                saved[m, at] = np.maximum(saved[m, at], saved[repeats.index(left // prime), at] + gain)
    return saved


class WindowCounts:
    """What tensors that are read through windows load, keep and share, remembered as long as the caches live."""

    def __init__(self, caches: SearchCaches) -> None:
        self.dim_view = caches.memo(dim_view, 100_000)
        self.least_messages = caches.memo(self._least_messages, 100_000)
        self.least_union = caches.memo(self._least_union, 200_000)
        self.messages_below = caches.memo(self._messages_below)
        self.window_model = caches.memo(self._window_model, 48)
        self.least_loads = caches.memo(least_loads, 1024)
        self.most_saved = caches.memo(most_saved)
        self.most_saved_outside = caches.memo(most_saved_outside, 256)
        self._dim_views = caches.memo(dim_views, 200_000)
        self._form_set = caches.memo(form_set, 100_000)
        self._sum_size = caches.memo(_sum_size, 100_000)
        self._kept_size = caches.memo(self._kept_size_of, 400_000)
        self._group_overlaps = caches.memo(self._overlaps_of, 2048)
        self._pairs_of = caches.memo(pairs_of, 256)
        self._tile_index = caches.memo(_tile_index, 1024)
        self.lattice_below = caches.memo(lattice_below)

    def tile_counts(
        self, coefficients: tuple[int, ...], views: tuple[DimView, ...], *, united: bool = True
    ) -> tuple[int, int, list[int]]:
        """Return (elements of a tile, elements already present after one step of an outer loop, and after one step of
        each loop of the group).

        united: of the union P = A + O over siblings whose loads become one message; present are the elements of P
        outside Q = (A without the tile before) + O. Otherwise of one instance.
        """
        elements = self._form_set(coefficients, tuple(view.indices for view in views))
        offsets = self._form_set(coefficients, tuple(view.united for view in views)) if united else 1
        back = [c * view.reach for c, view in zip(coefficients, views, strict=True)]
        moves = [-sum(back)]
        moves.extend(
            c * view.carried - (sum(back) - own) for c, view, own in zip(coefficients, views, back, strict=True)
        )
        kept = [self._kept_size(elements, offsets, move) for move in moves]
        return self._sum_size(elements, offsets), kept[0], kept[1:]

    def tile_messages(self, coefficients: tuple[int, ...], views: tuple[DimView, ...]) -> int:
        """Return the number of different loads among the siblings that share a message where it is equal."""
        return self._form_set(coefficients, tuple(view.distinct for view in views)).bit_count()

    def _least_messages(
        self,
        coefficients: tuple[int, ...],
        extents: tuple[int, ...],
        tile: tuple[int, ...],
        crossings: tuple[tuple[GroupCrossing, ...], ...],
    ) -> int:
        """Return the fewest different loads along a group, over all places of the spatial loops."""
        options = [self._dim_views(e, t, t, crossing) for e, t, crossing in zip(extents, tile, crossings, strict=True)]
        return min((self.tile_messages(coefficients, views) for views in product(*options)), default=1)

    def _least_union(
        self,
        coefficients: tuple[int, ...],
        extents: tuple[int, ...],
        passed: tuple[int, ...],
        crossings: tuple[tuple[GroupCrossing, ...], ...],
    ) -> int:
        """Return the fewest elements that all tiles of loops up to `passed` may have together, over all places of the
        spatial loops (passed = 1, ..., 1: of one message of single elements)."""
        options = [
            self._dim_views(e, 1, x, crossing) for e, x, crossing in zip(extents, passed, crossings, strict=True)
        ]
        return min((self._passed_size(coefficients, views) for views in product(*options)), default=1)

    def _messages_below(
        self,
        coefficients: tuple[int, ...],
        extents: tuple[int, ...],
        inner: tuple[tuple[str, int], ...],
        crossings: tuple[tuple[GroupCrossing, ...], ...],
    ) -> IntArray:
        """Return the fewest different loads along a group at every tile of the lattice below `inner`, flat."""
        lattice = self.lattice_below(inner)
        points = [tuple(lattice.point(index).values()) for index in np.ndindex(lattice.shape)]
        return np.array([self.least_messages(coefficients, extents, one, crossings) for one in points], dtype=np.int64)

    def tile_index(self, lattice: Lattice, inner: Lattice) -> IntArray:
        """Return, at every point of a lattice, the flat index of its tile in one of some of its dims; broadcastable."""
        return self._tile_index(lattice.axes, lattice.shape, tuple(zip(inner.axes, _strides(inner), strict=True)))

    def _window_model(
        self,
        groups: tuple[IndexGroup, ...],
        extents: tuple[tuple[str, int], ...],
        crossings: tuple[tuple[GroupCrossing, ...], ...],
    ) -> WindowModel:
        """Return the model of window `groups`; extents and crossings per dim of all groups, in that order."""
        of_dim = dict(zip((dim for dim, _ in extents), crossings, strict=True))
        temporal = dict(extents)
        parts = [
            self._group_overlaps(group, tuple(temporal[d] for d in group.dims), tuple(of_dim[d] for d in group.dims))
            for group in groups
        ]
        overlaps = self._joint_overlaps(self._pairs_of(extents), parts)
        return WindowModel(overlaps, *_least_paths(overlaps))

    def _overlaps_of(
        self, group: IndexGroup, extents: tuple[int, ...], crossings: tuple[tuple[GroupCrossing, ...], ...]
    ) -> Overlaps:
        """Return the overlaps of a group; `extents` are the temporal extents of its dims, `crossings` per dim."""
        pairs = self._pairs_of(tuple(zip(group.dims, extents, strict=True)))
        total = len(pairs.outer)
        points = [tuple(int(tile) for tile in point) for point in pairs.tiles]
        sizes: list[int | None] = [None] * len(points)
        unions: list[int | None] = [None] * total
        kept, carried = [0] * total, [[0] * total for _ in group.dims]
        for number in range(total):
            x, t = int(pairs.outer[number]), int(pairs.inner[number])
            options = [self._dim_views(*one) for one in zip(extents, points[t], points[x], crossings, strict=True)]
            for views in product(*options):
                elements, outside, own = self.tile_counts(group.coefficients, views)
                size, union = sizes[t], unions[number]
                passed = self._passed_size(group.coefficients, views)
                sizes[t] = elements if size is None else min(size, elements)
                unions[number] = passed if union is None else min(union, passed)
                kept[number] = max(kept[number], outside)
                for position, one in enumerate(own):
                    carried[position][number] = max(carried[position][number], one)
        return Overlaps(
            pairs,
            np.array([union is not None for union in unions], dtype=np.bool_),
            np.array([size or 0 for size in sizes], dtype=np.int64),
            np.array([union or 0 for union in unions], dtype=np.int64),
            np.array(kept, dtype=np.int64),
            {dim: np.array(own, dtype=np.int64) for dim, own in zip(group.dims, carried, strict=True)},
        )

    def _joint_overlaps(self, pairs: Pairs, parts: list[Overlaps]) -> Overlaps:
        """Return the overlaps of several groups together: products of those of each."""
        ones: IntArray = np.ones(len(pairs.outer), dtype=np.int64)
        feasible, size = ones > 0, np.ones(len(pairs.tiles), dtype=np.int64)
        passed, kept, carried = ones, ones, {dim: ones for dim, _ in pairs.lattice.extents}
        shape = pairs.lattice.shape
        for part in parts:
            own = np.broadcast_to(self.tile_index(pairs.lattice, part.pairs.lattice), shape).ravel()
            at = part.pairs.at[own[pairs.outer], own[pairs.inner]]
            feasible, size = feasible & part.feasible[at], size * part.size[own]
            passed, kept = passed * part.passed[at], kept * part.kept[at]
            carried = {dim: old * part.carried.get(dim, part.kept)[at] for dim, old in carried.items()}
        return Overlaps(pairs, feasible, size, passed, kept, carried)

    def _passed_size(self, coefficients: tuple[int, ...], views: tuple[DimView, ...]) -> int:
        """Return how many elements all tiles of a pass have together, of siblings whose loads become one message."""
        elements = self._form_set(coefficients, tuple(view.passed for view in views))
        return self._sum_size(elements, self._form_set(coefficients, tuple(view.united for view in views)))

    def _kept_size_of(self, elements: int, offsets: int, move: int) -> int:
        """Return how many elements of `elements` + `offsets` no new part reaches when the tile has moved by `move`."""
        before = elements >> move if move >= 0 else elements << -move
        if offsets == 1:
            return (elements & before).bit_count()
        return self._sum_size(elements, offsets) - self._sum_size(elements & ~before, offsets)


def window_counts(caches: SearchCaches) -> WindowCounts:
    """Return the counts that these caches remember."""
    return caches.memo(WindowCounts)(caches)
