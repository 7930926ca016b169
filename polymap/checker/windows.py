"""How often a tensor that is read through windows is loaded, at least: integers only (docs/certificate.md)."""

from functools import lru_cache, reduce
from itertools import pairwise, permutations, product
from math import prod

import numpy as np

from polymap.checker.grids import NEVER, Array, divisors, grid_of, kind_of, primes, within
from polymap.checker.model import Tile, spread, sums, tick
from polymap.checker.rules import need

# (factor, merge) from inside, in every order; above the node; place or 0
Crossing = tuple[tuple[tuple[tuple[int, str], ...], ...], bool, int]
Groups = tuple[tuple[Tile, Tile], ...]  # dims and weights of every axis
Seen = tuple[tuple[Crossing, ...], ...]  # per dim
Blocks = tuple[tuple[Tile, int, int, int], ...]
Climb = tuple[int, int, Array, Array]  # a loop over a dim: the dim, its iterations; pairs with it, pairs inside it


@lru_cache(maxsize=100_000)
def looks(extent: int, tile: int, passed: int, crossings: tuple[Crossing, ...]) -> set[Tile]:
    """Return (index set, offsets of siblings whose equal loads are shared, distance to the next pass, length of a
    pass) of a dim, seen from a node with this tile when loops up to `passed` have run, for every place and order of its
    spatial loops."""
    found: set[Tile] = set()
    for places in product(*((place,) if place else divisors(extent) for _, _, place in crossings)):
        tick()
        pairs = [(y, above) for y, (_, above, _) in zip(places, crossings, strict=True)]
        if any((y % tile and (above or tile % y)) or (y % passed and passed % y) for y, above in pairs):
            continue
        for order, chosen in product(permutations(range(len(places))), product(*(orders for orders, *_ in crossings))):
            if any(places[b] % places[a] for a, b in pairwise(order)):
                continue
            indices, offsets, reach, factors, inner = 1, 1, 0, 1, list[tuple[int, int]]()
            for number in order:
                for factor, merge in chosen[number]:
                    step, factors = places[number] * factors, factors * factor
                    inner.append((places[number], factor))
                    if not crossings[number][1]:
                        indices = spread(indices, factor, step)
                    elif merge == "identical":
                        offsets = spread(offsets, factor, step)
            stops = sorted({1, tile, passed, *(y for y in places if y <= passed)})
            strides = [stop * prod(factor for y, factor in inner if y <= stop) for stop in stops]
            for (a, b), stride in zip(pairwise(stops), strides, strict=False):
                if b <= tile:
                    indices = spread(indices, b // a, stride)
                else:
                    reach += (b // a - 1) * stride
            found.add((indices, offsets, strides[-1] - reach, reach))
    return found


@lru_cache(maxsize=100_000)
def form(weights: Tile, masks: Tile) -> int:
    """Return the set of sums of weight x index, up to a translation."""
    copies = [(abs(weight), mask) for weight, mask in zip(weights, masks, strict=True)]
    zeros = ["0" * (weight - 1) for weight, _ in copies]
    wide = [f"{mask:b}".translate({48: pad + "0", 49: pad + "1"}) for (_, mask), pad in zip(copies, zeros, strict=True)]
    return reduce(sums, (int(bits, 2) for bits in wide))


@lru_cache(maxsize=10_000)
def axis(weights: Tile, top: Tile, crossings: Seen) -> tuple[Array, Array]:
    """Return of an axis of several dims, over the flat tiles of these: (size, messages) [2, T] at least, and the part
    of T that is kept at most across a loop around loops that reach X [dim, X, T]; last dim: any other. -1: never."""
    tiles: list[Tile] = list(map(tuple, grid_of(top).tiles.tolist()))
    need(len(tiles) <= 128, "the windows are too large")
    least, kept = np.full((2, len(tiles)), NEVER), np.full((len(weights) + 1, *[len(tiles)] * 2), -1)
    for (t, tile), (x, passed) in product(enumerate(tiles), repeat=2):
        tick()
        if any(b % a for a, b in zip(tile, passed, strict=True)):
            continue
        for seen in product(*(looks(*one) for one in zip(top, tile, passed, crossings, strict=True))):
            elements, offsets = (form(weights, tuple(look[i] for look in seen)) for i in (0, 1))
            least[:, t] = np.minimum(least[:, t], (elements.bit_count(), offsets.bit_count()))
            back = sum(weight * look[3] for weight, look in zip(weights, seen, strict=True))
            ahead = [weight * (look[2] + look[3]) for weight, look in zip(weights, seen, strict=True)]
            for d, move in enumerate([*ahead, 0]):
                by = move - back
                stay = (elements & (elements >> by if by >= 0 else elements << -by)).bit_count()
                kept[d, x, t] = max(kept[d, x, t], stay)
    return np.where(least < NEVER, least, -1), kept


@lru_cache(maxsize=1_000)
def pairs(top: Tile) -> tuple[Array, Array, list[tuple[slice, list[Climb]]]]:
    """Return all T that divide X, those with fewest prime steps between them first: T, X, and for every number of steps
    the pairs and how they are reached from pairs one step before."""
    grid = grid_of(top)
    tiles, steps = grid.tiles, np.indices(grid.shape).sum(axis=0).ravel()
    need(len(tiles) <= 1 << 10, "the windows are too large")
    t, x = np.nonzero((tiles[None] % tiles[:, None] == 0).all(axis=2))
    order = np.argsort(steps[x] - steps[t], kind="stable")
    t, x = t[order], x[order]
    number, ends = np.zeros((len(tiles), len(tiles)), np.int64), np.cumsum(np.bincount(steps[x] - steps[t])).tolist()
    number[t, x] = np.arange(len(t))
    stages = [(slice(first, end), list[Climb]()) for first, end in pairwise([0, *ends])]
    for own, climbs in stages:
        for d, p, stride in grid.axes:
            to = own.start + np.flatnonzero(tiles[x[own], d] % (tiles[t[own], d] * p) == 0)
            climbs.append((d, p, to, number[t[to], x[to] - stride]))
    return t, x, stages


@lru_cache(maxsize=10_000)
def seams(groups: Groups, top: Tile, crossings: Seen, never: int) -> tuple[Array, Array]:
    """Return of a window tensor's axes of several dims: (size, messages) [2, T] at least, over the flat tiles of these,
    and the part of T that is kept at most across a loop [dim, pair]; last dim: one that the tensor lacks."""
    grid, (t, x, _), kind = grid_of(top), pairs(top), kind_of(never)
    least, kept = np.ones((2, prod(grid.shape)), kind), np.ones((len(top) + 1, len(t)), kind)
    for dims, weights in groups:
        sizes, stays = axis(weights, tuple(top[d] for d in dims), tuple(crossings[d] for d in dims))
        at = np.broadcast_to(within(top, dims, top), grid.shape).ravel()
        stays = stays[[dims.index(d) if d in dims else -1 for d in range(len(top) + 1)]][:, at[x], at[t]]
        kept = np.where((stays < 0) | (kept < 0), -1, kept * stays)
        least = np.where((sizes[:, at] < 0) | (least < 0), -1, least * sizes[:, at])
    return least, kept


def climb(top: Tile, kept: Array, above: Array, start: Array, repeats: Tile, never: int) -> Array:
    """Return the least loads [row, repeats, pair] around loops over window dims and so many iterations over others,
    from the loads `start` [row, pair] on. kept: [dim, pair]; above: across these others."""
    shape = (start.shape[0], len(repeats), start.shape[1])
    need(prod(shape) <= 1 << 24, "the windows are too large")
    best = np.full(shape, never, kind_of(never))
    best[:, 0] = start

    def around(loads: Array, trips: int, stay: Array) -> Array:
        barred = (loads >= never) | (stay < 0)
        return np.where(barred, never, loads + (trips - 1) * np.maximum(np.where(barred, 0, loads - stay), 0))

    for own, climbs in pairs(top)[2]:
        tick()
        for d, prime, to, inner in climbs:
            best[..., to] = np.minimum(best[..., to], around(best[..., inner], prime, kept[d, inner]))
        for m, prime in ((m, p) for m, repeated in enumerate(repeats) for p in sorted({*primes(repeated)})):
            inner = best[:, repeats.index(repeats[m] // prime), own]
            np.minimum(best[:, m, own], around(inner, prime, above[own]), out=best[:, m, own])
    return best


@lru_cache(maxsize=10_000)
def window(groups: Groups, top: Tile, seen: Seen, blocks: Blocks, never: int) -> tuple[Array, Array, Array]:
    """Return sizes and messages [2, T], and the least loads [number of divisor of repeats in the first block, T] in
    that block and in the whole run. blocks, innermost first: outer end, iterations over dims that the tensor lacks,
    over its dims of one axis, of all loops outside."""
    least, kept = seams(groups, top, seen, never)
    (t, x, _), grid, kind = pairs(top), grid_of(top), kind_of(never)
    if not blocks:
        return least, least, least
    (end, repeat, _, _), repeats = blocks[0], divisors(blocks[0][1])
    at, loads = grid.flat(end), np.full((len(repeats), prod(grid.shape)), never, kind)
    start = np.where((t == x) & (least[0, t] >= 0), least[0, t], never)[None]
    above = np.where(t == x, -1, kept[-1])  # nothing that changes no tile stands right above a node
    loads[..., t[x == at]] = climb(top, kept, above, start, repeats, never)[0][..., x == at]
    whole = least[0, at] * np.array(repeats, kind)  # the whole: each pass loads it again
    loads[..., at] = np.where(whole >= 0, whole, loads[..., at])
    first = loads
    for outer, repeat, trips, outside in blocks[1:]:
        start = np.full((len(repeats), len(t)), never, kind)
        start[..., x == at] = loads[..., t[x == at]]
        at, loads = grid.flat(outer), np.full_like(first, never)
        found = climb(top, kept, kept[-1], start, divisors(repeat), never)[:, -1]
        loads[..., t[x == at]] = found[..., x == at]
        if trips > 1:  # nothing is kept across these, nor outside
            return least, first, np.where(loads >= never, never, np.where(loads >= never, 0, loads) * (trips * outside))
    return least, first, loads
