"""Lower bounds over all mappings of a structure, by the recurrences of docs/certificate.md; integers only."""

from collections.abc import Callable, Iterator
from functools import cache, lru_cache, reduce
from itertools import combinations, pairwise, permutations, product
from math import isqrt, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymap.checker.model import Problem, Rows, Tensor, Tile, need, spread, sums

NEVER = 1 << 60
Array = NDArray[np.int64]
Places = tuple[tuple[tuple[int, int], int], ...]  # ((level below the fan-outs, dim), temporal extent inside them)
Crossing = tuple[tuple[tuple[int, str], ...], bool, int]  # (factor, merge) from inside; above the node; place or 0
Edge = tuple[
    int, int, int, list[Array], Array
]  # a node: state before, after, level; over the grid: cost per part, bits


@cache
def primes(number: int) -> Tile:
    """Return the prime factors, ascending, repeated."""
    first = next((factor for factor in range(2, isqrt(number) + 1) if number % factor == 0), number)
    return (first, *primes(number // first)) if number > 1 else ()


@cache
def divisors(number: int) -> Tile:
    """Return the divisors, ascending."""
    return tuple(sorted({prod(chosen) for chosen in product(*((1, prime) for prime in primes(number)))}))


def scaled(amounts: Array, factor: Any) -> Array:
    """Return the product, NEVER where the amount is."""
    return np.where(amounts >= NEVER, NEVER, np.where(amounts >= NEVER, 0, amounts) * factor)


class Grid:
    """The tiles that divide `top`: axes (dim, prime, flat stride), tiles in flat order, values per dim (broadcast)."""

    def __init__(self, top: Tile) -> None:
        axes = [(d, p) for d, extent in enumerate(top) for p in sorted({*primes(extent)})]
        self.top, self.shape = top, tuple(primes(top[d]).count(p) + 1 for d, p in axes)
        need(prod(self.shape) <= 1 << 19, "the problem is too large")
        self.axes = [(d, p, prod(self.shape[a + 1 :])) for a, (d, p) in enumerate(axes)]
        powers = [(d, p**exponent) for (d, p), exponent in zip(axes, np.indices(self.shape, sparse=True), strict=True)]
        self.values = [np.asarray(prod(one for e, one in powers if e == d), np.int64) for d in range(len(top))]
        self.tiles: Array = np.stack([np.broadcast_to(value, self.shape).ravel() for value in self.values], axis=1)

    def index(self, tile: Tile) -> Tile:
        """Return the place of a tile along every axis."""
        return tuple(primes(tile[d]).count(p) for d, p, _ in self.axes)

    def flat(self, tile: Tile) -> int:
        """Return the place of a tile among `tiles`."""
        return sum(place * axis[2] for place, axis in zip(self.index(tile), self.axes, strict=True))

    def places(self, values: list[Array]) -> Array:
        """Return the flat places of the tiles with these values per dim."""
        ones, total = [1] * len(values), np.zeros((), np.int64)
        for d, value in enumerate(values):
            own = [self.flat((*ones[:d], tile, *ones[d + 1 :])) for tile in divisors(self.top[d])]
            total = total + np.array(own)[np.searchsorted(divisors(self.top[d]), value)]
        return total


grid_of = lru_cache(maxsize=1_000)(Grid)


@lru_cache(maxsize=1_000)
def within(top: Tile, dims: Tile) -> Array:
    """Return, over the grid of `top`, the flat places of the tiles' parts in the grid of some dims."""
    return grid_of(tuple(top[d] for d in dims)).places([grid_of(top).values[d] for d in dims])


NOTHING = np.ones((2, 1), np.int64)


@lru_cache(maxsize=100_000)
def looks(extent: int, tile: int, passed: int, crossings: tuple[Crossing, ...]) -> set[Tile]:
    """Return (index set, offsets of siblings whose equal loads are shared, distance to the next pass, length of a
    pass) of a dim, seen from a node with this tile when loops up to `passed` have run, for every place of its spatial
    loops."""
    found: set[Tile] = set()
    for places in product(*((place,) if place else divisors(extent) for _, _, place in crossings)):
        pairs = [(y, above) for y, (_, above, _) in zip(places, crossings, strict=True)]
        if any((y % tile and (above or tile % y)) or (y % passed and passed % y) for y, above in pairs):
            continue
        for order in permutations(range(len(places))):
            if any(places[b] % places[a] for a, b in pairwise(order)):
                continue
            indices, offsets, reach, factors, inner = 1, 1, 0, 1, list[tuple[int, int]]()
            for number in order:
                for factor, merge in crossings[number][0]:
                    step, factors = places[number] * factors, factors * factor
                    inner.append((places[number], factor))
                    if not crossings[number][1]:
                        indices = spread(indices, factor, step)
                    elif merge == "identical":
                        offsets = spread(offsets, factor, step)
            stops = sorted({1, tile, passed, *(y for y in places if y <= passed)})
            strides = [stop * prod(factor for y, factor in inner if y <= stop) for stop in stops]
            for (a, b), stride in zip(pairwise(stops), strides, strict=False):
                indices, reach = (
                    (spread(indices, b // a, stride), 0) if b <= tile else (indices, reach + (b // a - 1) * stride)
                )
            found.add((indices, offsets, strides[-1] - reach, reach))
    return found


@lru_cache(maxsize=100_000)
def form(weights: Tile, masks: Tile) -> int:
    """Return the set of sums of weight x index, up to a translation."""
    copies = [(abs(weight), mask) for weight, mask in zip(weights, masks, strict=True)]
    wide = [sum(1 << i * weight for i in range(mask.bit_length()) if mask >> i & 1) for weight, mask in copies]
    return reduce(sums, wide)


@lru_cache(maxsize=10_000)
def axis(weights: Tile, top: Tile, crossings: tuple[tuple[Crossing, ...], ...]) -> tuple[Array, Array]:
    """Return of an axis of several dims, over the flat tiles of these: (size, messages) [2, T] at least, and the part
    of T that is kept at most across a loop around loops that reach X [dim, X, T]; last dim: any other. -1: never."""
    grid, count = grid_of(top), len(weights)
    need(len(grid.tiles) <= 128, "the windows are too large")
    least, kept = np.full((2, len(grid.tiles)), NEVER), np.full((count + 1, *[len(grid.tiles)] * 2), -1)
    tiles: list[Tile] = list(map(tuple, grid.tiles.tolist()))
    for (t, tile), (x, passed) in product(enumerate(tiles), repeat=2):
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
def pairs(top: Tile) -> tuple[Array, Array, Array, list[Array]]:
    """Return all T that divide X: (T, X, prime steps between them, per axis the pair a step before or -1)."""
    grid = grid_of(top)
    tiles, steps = grid.tiles, np.indices(grid.shape).sum(axis=0).ravel()
    need(len(tiles) <= 1 << 10, "the windows are too large")
    t, x = np.nonzero((tiles[None] % tiles[:, None] == 0).all(axis=2))
    order = np.argsort(steps[x] - steps[t], kind="stable")
    t, x = t[order], x[order]
    number = np.full((len(tiles), len(tiles)), -1)
    number[t, x] = np.arange(len(t))
    before = [np.where(tiles[x, d] % (tiles[t, d] * p) == 0, number[t, x - stride], -1) for d, p, stride in grid.axes]
    return t, x, steps[x] - steps[t], before


@lru_cache(maxsize=10_000)
def window(
    groups: tuple[tuple[Tile, Tile], ...], top: Tile, crossings: tuple[tuple[Crossing, ...], ...], repeat: int
) -> tuple[Array, Array]:
    """Return of a window tensor's axes of several dims, over the flat tiles of these: (size, messages) [2, T] at least,
    and the least loads [number of divisor of repeat, T] with so many iterations over dims that the tensor lacks."""
    grid, (t, x, steps, before) = grid_of(top), pairs(top)
    least, kept = np.ones((2, len(grid.tiles)), np.int64), np.ones((len(top) + 1, len(t) + 1), np.int64)
    for dims, weights in groups:
        own = grid_of(tuple(top[d] for d in dims))
        at, (sizes, stays) = (
            np.broadcast_to(within(top, dims), grid.shape).ravel(),
            axis(weights, own.top, tuple(crossings[d] for d in dims)),
        )
        stays = stays[[dims.index(d) if d in dims else -1 for d in range(len(top) + 1)]][:, at[x], at[t]]
        kept[:, :-1] = np.where((stays < 0) | (kept[:, :-1] < 0), -1, kept[:, :-1] * stays)
        least = np.where((sizes[:, at] < 0) | (least < 0), -1, least * sizes[:, at])
    kept[:, -1] = -1
    above = np.where(t == x, -1, kept[-1, :-1])  # nothing that changes no tile stands right above a node
    repeats = divisors(repeat)
    need(len(repeats) * len(t) <= 1 << 24, "the windows are too large")
    best = np.full((len(repeats), len(t) + 1), NEVER)
    best[0, :-1] = np.where((t == x) & (least[0, t] >= 0), least[0, t], NEVER)

    def around(loads: Array, trips: int, stay: Array) -> Array:
        never = (loads >= NEVER) | (stay < 0)
        return np.where(never, NEVER, loads + (trips - 1) * np.maximum(np.where(never, 0, loads - stay), 0))

    for step in range(steps[-1] + 1):
        own = slice(*np.searchsorted(steps, (step, step + 1)))
        for (d, prime, _), last in zip(grid.axes, before, strict=True):
            np.minimum(best[:, own], around(best[:, last[own]], prime, kept[d, last[own]]), out=best[:, own])
        for m, prime in ((m, p) for m, repeated in enumerate(repeats) for p in {*primes(repeated)}):
            inner = best[repeats.index(repeats[m] // prime), own]
            np.minimum(best[m, own], around(inner, prime, above[own]), out=best[m, own])
    ends = x == len(grid.tiles) - 1
    loads = np.full((len(repeats), len(grid.tiles)), NEVER)
    loads[:, t[ends]] = best[:, :-1][:, ends]
    if least[0, -1] >= 0:  # the whole: each pass loads it again
        loads[:, -1] = least[0, -1] * np.array(repeats)
    return least, loads


class Tables:
    """What the nodes of a structure cost over the grid of all tiles of `top`.

    only: the tensors looked at. edges: per tensor. ends: per tensor and state what the compute units cost, per part, or
    None. firsts: the joint states before any node. start: the cost before any node.
    """

    def __init__(self, problem: Problem, rows: Rows, only: Tile, places: Places, top: Tile) -> None:
        self.problem, self.places, self.last = problem, dict(places), len(problem.levels)
        self.spread = [(problem.fanouts[own[0]], row) for own, row in zip(problem.classes, rows, strict=True)]
        self.grid, self.all = grid_of(top), tuple(range(len(problem.dims)))
        self.steps = prod(problem.extents) // self.factor(self.all, -1, self.last)
        self.start, self.edges, self.ends = [0] * len(problem.parts), list[list[Edge]](), list[list[list[int] | None]]()
        firsts: list[list[int]] = []
        for t in only:
            tensor = problem.tensors[t]
            plans = [c for n in range(self.last) for c in combinations(sorted(tensor.may), n) if tensor.must <= {*c}]
            states = sorted({(0, *plan)[i:] for plan in plans for i in range(len(plan) + 1)})
            moves = [(s, states.index(state[1:]), state[1]) for s, state in enumerate(states) if len(state) > 1]
            if not tensor.is_output:  # the levels to come matter to outputs alone
                moves = sorted({(a, b, b) for plan in plans for a, b in pairwise((0, *plan))})
                states = [(level,) for level in range(self.last)]
            zero = prod(problem.extents[d] for d in tensor.dims) * (tensor.is_output and not tensor.initial)
            stays = [len(state) == 1 and max({0, *tensor.must}) <= state[0] for state in states]
            costs = [[int(cost) for cost in self._node(t, state, self.last, zero)[0]] for state in states]
            self.ends.append([cost if ok else None for cost, ok in zip(costs, stays, strict=True)])
            self.edges.append([(s, after, level, *self._node(t, states[s], level, zero)) for s, after, level in moves])
            self.start = [a - zero * part.read[0][t] for a, part in zip(self.start, problem.parts, strict=True)]
            firsts.append([s for s, state in enumerate(states) if state[0] == 0])
        need(prod(map(len, self.ends)) * prod(self.grid.shape) <= 1 << 25, "the problem is too large")
        self.firsts = list(product(*firsts))

    def factor(self, dims: Any, after: int, upto: int) -> int:
        """Return the product of the dims' spatial factors between two levels."""
        return prod(row[int(d)] for fan, row in self.spread if after < fan.below <= upto for d in dims)

    def _node(self, t: int, state: Tile, level: int, zero: int) -> tuple[list[Array], Array]:
        """Return what a node of `level` (or the compute units) costs per part in a state (holder, levels to come), and
        the bits that it holds. zero: elements that start from zero."""
        tensor, (parent, *coming), costs = self.problem.tensors[t], state, list[Array]()
        held, loads, messages = self._loads(tensor, parent, level)
        there, here = self.factor(self.all, -1, parent), self.factor(self.all, -1, level)
        differ, inside = self.factor(tensor.dims, parent, level), self.factor(tensor.dims, -1, level)
        slow = [row for fan, row in self.spread if parent < fan.below <= level and not fan.adds]
        apart = prod(row[d] for row in slow for d in self.all if d not in tensor.dims)
        for part in self.problem.parts:
            read, write = ([row[t] for row in side] + [0] for side in (part.read, part.write))
            both = [r + w for r, w in zip(read, write, strict=True)]
            up, down = (1, 1) if part.band else (there, here)
            if not tensor.is_output:
                costs.append(scaled(loads, write[level] * down + messages * read[parent] * up))
            elif part.band:
                costs.append(loads * (both[level] + differ * apart * both[parent]) - both[level] * (zero // inside))
            else:
                merged, further = loads * (differ * there), sum(both[inner] for inner in coming[1:])
                elided = (loads * here - merged) * further + both[level] * zero
                costs.append(merged * (both[level] + apart * both[parent]) - elided)
        return costs, scaled(held, tensor.bits)

    def _loads(self, tensor: Tensor, parent: int, level: int) -> tuple[Array, Array, Any]:
        """Return elements held, loaded by one instance in the whole run, and messages per load."""
        grid, own = self.grid, tensor.dims - {*tensor.window}
        between = [(fan, row) for fan, row in self.spread if parent < fan.below <= level]
        messages = prod(prod(row) if fan.merge == "none" else prod(row[d] for d in own) for fan, row in between)
        held = np.asarray(prod((grid.values[d] for d in own), start=self.factor(own, level, self.last)), np.int64)
        (size, apart), loads = self._window(tensor, parent, level) if tensor.window else (NOTHING, None)
        if level == self.last:
            return held, np.asarray(self.steps), messages * max(int(apart[0]), 1)
        if loads is None:
            return held, np.asarray(prod((grid.top[d] // grid.values[d] for d in self.all), start=held)), messages
        lacks, where, repeats = (
            {*self.all} - tensor.dims,
            within(grid.top, tensor.window),
            divisors(self._repeat(tensor)),
        )
        trips, again = (
            np.asarray(prod(grid.top[d] // grid.values[d] for d in dims), np.int64) for dims in (own, lacks)
        )
        around = scaled(loads[np.searchsorted(repeats, again), where], trips)
        elements, loads = (np.where(size[where] < 0, NEVER, one) for one in (held * size[where], scaled(around, held)))
        return elements, loads, messages * np.maximum(apart[where], 1)

    def _repeat(self, tensor: Tensor) -> int:
        return prod(self.problem.extents[d] for d in self.all if d not in tensor.dims)

    def _window(self, tensor: Tensor, parent: int, level: int) -> tuple[Array, Array]:
        """Return the tables of the tensor's axes of several dims as a node sees them."""
        seen: list[tuple[Crossing, ...]] = []
        for d in tensor.window:
            own = [(fan.below, row[d], fan.merge) for fan, row in self.spread[::-1] if row[d] > 1]
            between = {below: parent < below <= level for below, _, _ in own}
            parts = {
                b: tuple((f, merge if between[b] else "") for a, f, merge in own if a == b) for b in sorted(between)
            }
            seen.append(tuple((parts[b], b <= level, self.places.get((b, d), 0)) for b in parts))
        groups = [group for group in tensor.groups if len(group) > 1]
        axes = [(tuple(tensor.window.index(d) for d, _ in one), tuple(weight for _, weight in one)) for one in groups]
        return window(tuple(axes), tuple(self.grid.top[d] for d in tensor.window), tuple(seen), self._repeat(tensor))

    def moves(self, state: Tile) -> Iterator[tuple[int, Edge, Tile]]:
        """Yield (position of the tensor, node, state after it) for every node that may come next."""
        for i, own in enumerate(self.edges):
            for edge in (one for one in own if one[0] == state[i]):
                yield i, edge, (*state[:i], edge[1], *state[i + 1 :])

    def inside(self, part: int, prices: Tile) -> Callable[[Tile], Array]:
        """Return, as a function of the joint state, the least cost inside of a part, x unit, with the bits' prices."""
        unit, *per_bit = prices or (1, *(0 for _ in self.problem.room))
        known, nodes = dict[Tile, Array](), dict[int, Array]()
        for edge in (edge for own in self.edges for edge in own):
            _, _, level, costs, bits = edge
            room, cost = self.problem.room[level], scaled(costs[part], unit)
            barred = (cost >= NEVER) | (bits > (NEVER - 1 if room is None else room))
            nodes[id(edge)] = np.where(barred, NEVER, cost + np.where(barred, 0, bits) * per_bit[level])

        def reach(state: Tile) -> Array:
            if state not in known:
                ends = [own[s] for own, s in zip(self.ends, state, strict=True)]
                here = np.full(self.grid.shape, NEVER if None in ends else unit * sum(end[part] for end in ends if end))
                for _, edge, after in self.moves(state):
                    np.minimum(here, nodes[id(edge)] + reach(after), out=here)
                for axis in range(here.ndim):
                    np.minimum.accumulate(here, axis=axis, out=here)
                known[state] = np.minimum(here, NEVER)
            return known[state]

        return reach

    def least(self, part: int, prices: Tile = ()) -> int:
        """Return the least (priced) cost of a part, NEVER where nothing fits."""
        reach = self.inside(part, prices)
        return min(NEVER, *(int(reach(state)[(-1,) * len(self.grid.shape)]) for state in self.firsts))
