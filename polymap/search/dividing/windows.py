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
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from itertools import pairwise, permutations, product
from math import prod

import numpy as np

from polymap.ir import Multicast
from polymap.search.problem import IndexGroup, IntArray, divisors, lattice_below

UNREACHED = 1 << 50  # above every count: problem.py leaves windows out whose counts could reach it


@dataclass(frozen=True, slots=True)
class Crossing:
    """The spatial loops over one dim in one group of fan-outs, as a node sees them.

    parts: (factor, how siblings' loads are merged towards the node's parent; None: not between the two), innermost
    first. fixed: they choose the instance of the node. may_stand_above: they may (fixed ones must) stand above the
    node. place: the temporal extent of the dim inside them, None while that is open.
    """

    parts: tuple[tuple[int, Multicast | None], ...]
    fixed: bool
    may_stand_above: bool
    place: int | None = None

    @property
    def factor(self) -> int:
        return prod(factor for factor, _ in self.parts)


@dataclass(frozen=True, slots=True)
class DimStep:
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


@lru_cache(maxsize=200_000)
def dim_steps(extent: int, tile: int, inside: int, crossings: tuple[Crossing, ...]) -> tuple[DimStep, ...]:
    """Return what the dim may look like from a node with temporal tile `tile` when loops up to `inside` are passed.

    extent: temporal extent; tile | inside | extent. One entry per way in which the spatial loops may cross; none where
    loops that reach `inside` cannot respect the decided places.
    """
    found: dict[DimStep, None] = {}
    for order in _crossing_orders(extent, tile, inside, crossings):
        found[dim_step(tile, inside, crossings, order)] = None
    return tuple(found)


Order = tuple[tuple[int, int], ...]


def _crossing_orders(extent: int, tile: int, inside: int, crossings: tuple[Crossing, ...]) -> Iterator[Order]:
    """Yield (crossing, temporal extent inside it), innermost first; nothing where decided places forbid such passes."""
    choices: list[list[int]] = []
    above = [y for y in divisors(extent) if y % tile == 0 and (y % inside == 0 or inside % y == 0)]
    for one in crossings:
        below = [] if one.fixed else list(divisors(tile))
        free = above if one.fixed else sorted({*above, *below}) if one.may_stand_above else below
        choices.append(free if one.place is None else [y for y in free if y == one.place])
    for places in product(*choices):
        for sequence in permutations(range(len(crossings))):
            ordered = tuple((index, places[index]) for index in sequence)
            if all(b[1] % a[1] == 0 for a, b in pairwise(ordered)):
                yield ordered


def dim_step(tile: int, inside: int, crossings: tuple[Crossing, ...], order: Order) -> DimStep:
    """Return one dim as a node sees it when the spatial loops stand as `order` says, innermost first.

    A loop's stride is the extent inside it: of the temporal loops, times the factors of the spatial loops.
    """
    indices, reach = 1, 0
    siblings: dict[Multicast | None, int] = dict.fromkeys((*Multicast, None), 1)
    inner = 1
    for index, place in order:
        one, step = crossings[index], place * inner
        if not one.fixed:
            indices = _spread(indices, one.factor, step)
        for factor, merge in one.parts if one.fixed else ():
            siblings[merge] = _spread(siblings[merge], factor, step)
            step *= factor
        inner *= one.factor
    passed = indices
    stops = sorted({1, tile, inside, *(place for _, place in order if place <= inside)})
    for start, stop in pairwise(stops):
        stride = start * _factors(crossings, order, start)
        if stop <= tile:
            indices = _spread(indices, stop // start, stride)
        passed = _spread(passed, stop // start, stride)
        if stop > tile:
            reach += (stop // start - 1) * stride
    carried = inside * _factors(crossings, order, inside) - reach
    return DimStep(indices, passed, siblings[Multicast.UNION], siblings[Multicast.IDENTICAL], carried, reach)


def _factors(crossings: tuple[Crossing, ...], order: Order, extent: int) -> int:
    """Return the product of the spatial loops inside a temporal extent."""
    return prod(crossings[index].factor for index, place in order if place <= extent)


def _spread(indices: int, count: int, stride: int) -> int:
    total, done = indices, 1
    while done < count:
        more = min(done, count - done)  # doubled, as long as that is not too many
        total |= total << more * stride
        done += more
    return total


@lru_cache(maxsize=100_000)
def form_set(coefficients: tuple[int, ...], index_sets: tuple[int, ...]) -> int:
    """Return {sum coefficient * index} as a bit mask, moved so that its least element is 0."""
    total = 1
    for coefficient, indices in zip(coefficients, index_sets, strict=True):
        size = abs(coefficient)
        last = indices.bit_length() - 1
        if indices == (1 << last + 1) - 1:  # without gaps, it is its own mirror image
            total = _spread(total, last + 1, size)
            continue
        if coefficient == 1 and total.bit_count() < indices.bit_count():
            total, indices = indices, total  # the sum of two sets, by the elements of the smaller one
            last = indices.bit_length() - 1
        spread = 0
        for position in range(last + 1):
            if indices >> position & 1:
                # A negative coefficient mirrors the set, which is then moved to start at 0.
                place = position if coefficient > 0 else last - position
                spread |= total << (place * size)
        total = spread
    return total


class Count(Enum):
    """What is counted: elements written into a node (fills), or read for it at its parent where messages unite."""

    FILLS = "fills"
    READS = "reads"


def tile_counts(coefficients: tuple[int, ...], steps: tuple[DimStep, ...], count: Count) -> tuple[int, int, list[int]]:
    """Return (elements of a tile, elements that need no new message across a loop outside the group, the same across a
    loop over each dim of the group).

    READS: of the union of siblings P = A + O; across a loop, what is not reached by the new parts: P without Q,
    Q = (A without the tile before) + O.
    """
    elements = form_set(coefficients, tuple(step.indices for step in steps))
    offsets = 1 if count is Count.FILLS else form_set(coefficients, tuple(step.united for step in steps))
    back = [c * step.reach for c, step in zip(coefficients, steps, strict=True)]
    moves = [-sum(back)]
    moves.extend(c * step.carried - (sum(back) - own) for c, step, own in zip(coefficients, steps, back, strict=True))
    stays = [_stays(elements, offsets, move) for move in moves]
    return _sum_size(elements, offsets), stays[0], stays[1:]


@lru_cache(maxsize=400_000)
def _stays(elements: int, offsets: int, move: int) -> int:
    """Return how many elements of `elements` + `offsets` no new part reaches when the tile has moved by `move`."""
    before = elements >> move if move >= 0 else elements << -move
    if offsets == 1:
        return (elements & before).bit_count()
    return _sum_size(elements, offsets) - _sum_size(elements & ~before, offsets)


@lru_cache(maxsize=100_000)
def _sum_size(first: int, second: int) -> int:
    total = 0
    while second:
        low = second & -second
        total |= first << (low.bit_length() - 1)
        second ^= low
    return total.bit_count()


def tile_messages(coefficients: tuple[int, ...], steps: tuple[DimStep, ...]) -> int:
    """Return the number of different loads among the siblings that share a message where it is equal."""
    return form_set(coefficients, tuple(step.distinct for step in steps)).bit_count()


@lru_cache(maxsize=100_000)
def least_messages(
    coefficients: tuple[int, ...],
    extents: tuple[int, ...],
    tile: tuple[int, ...],
    crossings: tuple[tuple[Crossing, ...], ...],
) -> int:
    """Return the fewest different loads along a group, over all ways in which the spatial loops may cross."""
    options = [dim_steps(e, t, t, crossing) for e, t, crossing in zip(extents, tile, crossings, strict=True)]
    return min((tile_messages(coefficients, steps) for steps in product(*options)), default=1)


@lru_cache(maxsize=100_000)
def least_size(
    coefficients: tuple[int, ...], extents: tuple[int, ...], crossings: tuple[tuple[Crossing, ...], ...]
) -> int:
    """Return the fewest elements that one message of single elements may have."""
    options = [dim_steps(e, 1, 1, crossing) for e, crossing in zip(extents, crossings, strict=True)]
    return min((tile_counts(coefficients, steps, Count.READS)[0] for steps in product(*options)), default=1)


@lru_cache(maxsize=100_000)
def least_passed(
    coefficients: tuple[int, ...],
    extents: tuple[int, ...],
    crossings: tuple[tuple[Crossing, ...], ...],
    count: Count,
) -> int:
    """Return the fewest elements that all tiles of a whole run may have together."""
    options = [dim_steps(e, 1, e, crossing) for e, crossing in zip(extents, crossings, strict=True)]
    return min((_passed_size(coefficients, steps, count) for steps in product(*options)), default=1)


def unmerged(crossings: tuple[tuple[Crossing, ...], ...]) -> tuple[tuple[Crossing, ...], ...]:
    """Return the crossings without how siblings merge, which fills do not see."""
    return tuple(tuple(replace(one, parts=((one.factor, None),)) for one in own) for own in crossings)


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The pairs (tile T, passed extents X) of a lattice with T | X, and their points (flat indices).

    points: tile per dim. at[X, T]: number of the pair, -1 where T does not divide X. axes: (dim, prime, stride of the
    flat index). before[axis][pair]: the pair with X / prime, -1 where T does not divide that. rank: primes from T to X.
    """

    axes: tuple[tuple[str, int, int], ...]
    points: IntArray
    outer: IntArray
    inner: IntArray
    at: IntArray
    before: tuple[IntArray, ...]
    rank: IntArray


@lru_cache(maxsize=256)
def pairs_of(extents: tuple[tuple[str, int], ...]) -> Pairs:
    """Return the pairs of the lattice below `extents`."""
    lattice = lattice_below(extents)
    strides = [int(np.prod(lattice.shape[axis + 1 :], dtype=np.int64)) for axis in range(len(lattice.shape))]
    places = list(np.ndindex(lattice.shape))
    exponents = np.array(places, dtype=np.int64).reshape(len(places), len(lattice.shape))
    values = [np.broadcast_to(lattice.values[dim], lattice.shape).ravel() for dim, _ in extents]
    divides = (exponents[:, None, :] >= exponents[None, :, :]).all(axis=2)
    outer, inner = np.nonzero(divides)
    at = np.full(divides.shape, -1, dtype=np.int64)
    at[outer, inner] = np.arange(len(outer), dtype=np.int64)
    before = tuple(
        np.where(exponents[outer, axis] > exponents[inner, axis], at[outer - stride, inner], -1)
        for axis, stride in enumerate(strides)
    )
    axes = tuple((dim, prime, stride) for (dim, prime), stride in zip(lattice.axes, strides, strict=True))
    rank = (exponents[outer] - exponents[inner]).sum(axis=1)
    return Pairs(axes, np.stack(values, axis=1), outer, inner, at, before, rank)


@dataclass(frozen=True, slots=True, eq=False)
class GroupTables:
    """One index group over its own lattice: size per tile T, the others per pair of T and passed extents X.

    size: fewest elements. passed: fewest elements of all tiles together (UNREACHED where no loops give the pair). kept:
    most elements kept across a loop over a dim outside the group. carried[dim]: the same across a loop over `dim`.
    """

    pairs: Pairs
    size: IntArray
    passed: IntArray
    kept: IntArray
    carried: dict[str, IntArray]


@lru_cache(maxsize=2048)
def group_tables(
    group: IndexGroup, extents: tuple[int, ...], crossings: tuple[tuple[Crossing, ...], ...], count: Count
) -> GroupTables:
    """Return the tables of a group; `extents` are the temporal extents of its dims, `crossings` per dim."""
    pairs = pairs_of(tuple(zip(group.dims, extents, strict=True)))
    total = len(pairs.outer)
    points = [tuple(int(tile) for tile in point) for point in pairs.points]
    size = [UNREACHED] * len(points)
    passed, kept, carried = [UNREACHED] * total, [0] * total, [[0] * total for _ in group.dims]
    for number in range(total):
        x, t = int(pairs.outer[number]), int(pairs.inner[number])
        options = [dim_steps(*one) for one in zip(extents, points[t], points[x], crossings, strict=True)]
        for steps in product(*options):
            elements, outside, own = tile_counts(group.coefficients, steps, count)
            size[t] = min(size[t], elements)
            passed[number] = min(passed[number], _passed_size(group.coefficients, steps, count))
            kept[number] = max(kept[number], outside)
            for position, one in enumerate(own):
                carried[position][number] = max(carried[position][number], one)
    return GroupTables(
        pairs,
        np.array(size, dtype=np.int64),
        np.array(passed, dtype=np.int64),
        np.array(kept, dtype=np.int64),
        {dim: np.array(own, dtype=np.int64) for dim, own in zip(group.dims, carried, strict=True)},
    )


def _passed_size(coefficients: tuple[int, ...], steps: tuple[DimStep, ...], count: Count) -> int:
    """Return how many elements all tiles together have: each is loaded, or read, at least once."""
    elements = form_set(coefficients, tuple(step.passed for step in steps))
    if count is Count.FILLS:
        return elements.bit_count()
    return _sum_size(elements, form_set(coefficients, tuple(step.united for step in steps)))
