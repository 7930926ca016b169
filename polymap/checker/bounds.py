"""Lower bounds over all mappings of a structure, by the recurrences of docs/certificate.md; integers only.

Arrays hold 64-bit integers where every number that can occur fits, else Python's integers. `never`, above all of them,
stands for what cannot be; it tells which kind of numbers is in use.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache, reduce
from itertools import combinations, count, pairwise, permutations, product
from math import gcd, isqrt, lcm, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymap.checker.model import Structure, Tensor, Tile, need, spread, sums, tick

NEVER, FITS = 1 << 60, 1 << 58  # of 64-bit integers; numbers below FITS can be added and halved beside NEVER
Array = NDArray[Any]
Places = tuple[tuple[tuple[int, int], int], ...]  # ((level below the fan-outs, dim), temporal extent inside them)
Crossing = tuple[tuple[tuple[int, str], ...], bool, int]  # (factor, merge) from inside; above the node; place or 0
Climb = tuple[int, int, Array, Array]  # a loop over a dim: the dim, its iterations; pairs with it, pairs inside it
# A node: state before, state after, level; over the grid: cost per part (never where it cannot be), bits.
Edge = tuple[int, int, int, list[Array], Array]
WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
DECIDED = 3_317_044_064_679_887_385_961_981  # the first number on which these may err (Sorenson and Webster 2015)


def never_above(numbers: int) -> int:
    """Return what stands for "cannot be" beside numbers that are all below `numbers`."""
    return NEVER if numbers < FITS else 1 << numbers.bit_length() + 2


def kind_of(never: int) -> Any:
    """Return the kind of numbers beside which `never` stands."""
    return np.int64 if never == NEVER else object


def is_prime(number: int) -> bool:
    """Return whether an odd number above 41 is prime, by the test of Miller and Rabin with enough bases."""
    need(number < DECIDED, "an extent has a factor so long that it is not known to be prime")
    twos = (number - 1 & 1 - number).bit_length() - 1
    for base in WITNESSES:
        powers = [pow(base, number - 1 >> twos - i, number) for i in range(twos)]
        if powers[0] != 1 and number - 1 not in powers:
            return False
    return True


def factor_of(number: int) -> int:
    """Return a proper factor of a number that is not prime, by Pollard's rho."""
    if isqrt(number) ** 2 == number:
        return isqrt(number)
    for shift in count(1):
        slow, fast, common = 2, 2, 1
        while common == 1:
            tick()
            slow, fast = (slow * slow + shift) % number, ((fast * fast + shift) ** 2 + shift) % number
            common = gcd(slow - fast, number)
        if common < number:
            return common
    raise AssertionError  # count() has no end


@cache
def primes(number: int) -> Tile:
    """Return the prime factors, ascending, repeated."""
    if number == 1:
        return ()
    first = next((factor for factor in range(2, min(isqrt(number), 1000) + 1) if number % factor == 0), 0)
    if not first and (number < 1_000_000 or is_prime(number)):
        return (number,)
    first = first or factor_of(number)
    return tuple(sorted((*primes(first), *primes(number // first))))


@cache
def divisors(number: int) -> Tile:
    """Return the divisors, ascending."""
    found = [1]
    for prime in sorted({*primes(number)}):
        found = [known * prime**power for known in found for power in range(primes(number).count(prime) + 1)]
        need(len(found) <= 1 << 16, "an extent has too many divisors")
    return tuple(sorted(found))


class Grid:
    """The tiles that divide `top`: axes (dim, prime, flat stride), tiles in flat order, values per dim (broadcast)."""

    def __init__(self, top: Tile, kind: Any = np.int64) -> None:
        axes = [(d, p) for d, extent in enumerate(top) for p in sorted({*primes(extent)})]
        self.top, self.shape = top, tuple(primes(top[d]).count(p) + 1 for d, p in axes)
        need(prod(self.shape) <= 1 << 20 and len(axes) < 31, "the problem is too large")
        self.axes = [(d, p, prod(self.shape[a + 1 :])) for a, (d, p) in enumerate(axes)]
        steps = zip(axes, np.indices(self.shape, sparse=True), strict=True)
        powers = [(d, p ** exponent.astype(kind)) for (d, p), exponent in steps]
        self.values = [np.asarray(prod(one for e, one in powers if e == d), kind) for d in range(len(top))]

    @property
    def tiles(self) -> Array:
        """Return the tiles in flat order."""
        return np.stack([np.broadcast_to(value, self.shape).ravel() for value in self.values], axis=1)

    def index(self, tile: Tile) -> Tile:
        """Return the place of a tile along every axis."""
        return tuple(primes(tile[d]).count(p) for d, p, _ in self.axes)

    def flat(self, tile: Tile) -> int:
        """Return the place of a tile among `tiles`."""
        return sum(place * axis[2] for place, axis in zip(self.index(tile), self.axes, strict=True))


grid_of = lru_cache(maxsize=1_000)(Grid)


@lru_cache(maxsize=1_000)
def within(top: Tile, dims: Tile, whole: Tile) -> Array:
    """Return, over the grid of `top`, the flat places of the tiles' parts in the grid of some dims of `whole`."""
    grid, own = grid_of(top, object), grid_of(tuple(whole[d] for d in dims), object)
    strides = {(dims[d], p): stride for d, p, stride in own.axes}
    steps = zip(grid.axes, np.indices(grid.shape, sparse=True), strict=True)
    return np.asarray(sum(index * strides.get(axis[:2], 0) for axis, index in steps), np.int64)


@lru_cache(maxsize=100_000)
def looks(extent: int, tile: int, passed: int, crossings: tuple[Crossing, ...]) -> set[Tile]:
    """Return (index set, offsets of siblings whose equal loads are shared, distance to the next pass, length of a
    pass) of a dim, seen from a node with this tile when loops up to `passed` have run, for every place of its spatial
    loops."""
    found: set[Tile] = set()
    for places in product(*((place,) if place else divisors(extent) for _, _, place in crossings)):
        tick()
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
    return reduce(sums, [mask if weight == 1 else stretched(mask, weight) for weight, mask in copies])


def stretched(mask: int, weight: int) -> int:
    """Return the set of an element times weight."""
    total = 0
    while mask:
        tick()
        total, mask = total | 1 << ((mask & -mask).bit_length() - 1) * weight, mask & mask - 1
    return total


@lru_cache(maxsize=10_000)
def axis(weights: Tile, top: Tile, crossings: tuple[tuple[Crossing, ...], ...]) -> tuple[Array, Array]:
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
def seams(
    groups: tuple[tuple[Tile, Tile], ...], top: Tile, crossings: tuple[tuple[Crossing, ...], ...], never: int
) -> tuple[Array, Array]:
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
    from the loads `start` [row, pair] on. above: kept across these others."""
    need(len(start) * len(repeats) * start.shape[1] <= 1 << 24, "the windows are too large")
    best = np.full((len(start), len(repeats), start.shape[1]), never, kind_of(never))
    best[:, 0] = start

    def around(loads: Array, trips: int, stay: Array) -> Array:
        barred = (loads >= never) | (stay < 0)
        return np.where(barred, never, loads + (trips - 1) * np.maximum(np.where(barred, 0, loads - stay), 0))

    for own, climbs in pairs(top)[2]:
        tick()
        for d, prime, to, inner in climbs:
            best[..., to] = np.minimum(best[..., to], around(best[..., inner], prime, kept[d, inner]))
        for m, prime in ((m, p) for m, repeated in enumerate(repeats) for p in {*primes(repeated)}):
            inner = best[:, repeats.index(repeats[m] // prime), own]
            np.minimum(best[:, m, own], around(inner, prime, above[own]), out=best[:, m, own])
    return best


@lru_cache(maxsize=10_000)
def window(
    groups: tuple[tuple[Tile, Tile], ...],
    top: Tile,
    crossings: tuple[tuple[Crossing, ...], ...],
    blocks: tuple[tuple[Tile, int, int, int], ...],
    never: int,
) -> tuple[Array, Array, Array]:
    """Return sizes and messages, and the least loads [number of divisor of repeats in the first block, T] in that block
    and in the whole run. blocks, innermost first: outer end, iterations over dims that the tensor lacks, over its dims
    of one axis, of all loops outside."""
    (least, kept), (t, x, _), grid = seams(groups, top, crossings, never), pairs(top), grid_of(top)
    kind = kind_of(never)
    if not blocks:
        return least, least, least
    (end, repeat, _, _), repeats = blocks[0], divisors(blocks[0][1])
    at, loads = grid.flat(end), np.full((len(repeats), prod(grid.shape)), never, kind)
    start = np.where((t == x) & (least[0, t] >= 0), least[0, t], never)[None]
    above = np.where(t == x, -1, kept[-1])  # nothing that changes no tile stands right above a node
    loads[:, t[x == at]] = climb(top, kept, above, start, repeats, never)[0][:, x == at]
    if least[0, at] >= 0:  # the whole: each pass loads it again
        loads[:, at] = least[0, at] * np.array(repeats, kind)
    first = loads
    for outer, repeat, trips, outside in blocks[1:]:
        start = np.full((len(repeats), len(t)), never, kind)
        start[:, x == at] = loads[:, t[x == at]]
        at, loads = grid.flat(outer), np.full_like(first, never)
        found = climb(top, kept, kept[-1], start, divisors(repeat), never)[:, -1]
        loads[:, t[x == at]] = found[:, x == at]
        if trips > 1:  # nothing is kept across these, nor outside
            return least, first, np.where(loads >= never, never, np.where(loads >= never, 0, loads) * (trips * outside))
    return least, first, loads


class Tables:
    """What the nodes of the tensors `only` cost over the grid of all tiles of the last of `marks`, their bits priced.
    prices: a unit, and the price of a bit per level. Where the structure stands for many, arrays have a first axis for
    them, and `places` are theirs, one after the other.

    edges: per tensor. ends: per tensor and state what the compute units cost, per part, or None. firsts: the joint
    states before any node. start: the cost before any node.
    """

    def __init__(
        self,
        structure: Structure,
        only: Tile,
        marks: tuple[Tile, ...],
        places: Sequence[Places] = ((),),
        prices: Tile = (),
    ) -> None:
        self.structure, self.problem = structure, structure.problem
        self.unit, *self.prices = prices or (1, *(0 for _ in self.problem.room))
        self.never = never_above(self.unit * self.problem.reach + sum(self.prices) * self.problem.most_bits)
        self.kind, self.only, self.marks = kind_of(self.never), only, list(marks)
        self.grid, self.start = grid_of(marks[-1], self.kind), [self.unit * cost for cost in structure.start(only)]
        self.places = list(dict.fromkeys(places))
        rank = (len(places), *(1 for _ in self.grid.shape))
        numbers = np.array([self.places.index(one) for one in places]).reshape(rank)
        self.which: Any = numbers if len(self.places) > 1 else 0
        # Beside tiles of its own, a structure among many sees larger ones, which no sum of its own meets.
        tops = zip(self.grid.values, structure.top, strict=True)
        self.values = [value if len(marks) > 1 else np.minimum(value, top) for value, top in tops]
        self.shape = np.broadcast_shapes(np.shape(structure.steps), np.shape(self.which), self.grid.shape)
        self.edges, self.ends, firsts = list[list[Edge]](), list[list[list[Any] | None]](), list[list[int]]()
        for t in only:
            tensor, last = self.problem.tensors[t], structure.last
            plans = [c for n in range(last) for c in combinations(sorted(tensor.may), n) if tensor.must <= {*c}]
            states = sorted({(0, *plan)[i:] for plan in plans for i in range(len(plan) + 1)})
            moves = [(s, states.index(state[1:]), state[1]) for s, state in enumerate(states) if len(state) > 1]
            lacks = [d for d in structure.all if d not in tensor.dims]
            if not tensor.is_output or np.max(structure.factor(lacks, -1, last - 2)) == 1:
                # The levels to come matter to outputs with siblings above a node that is not the innermost.
                moves = sorted({(a, b, b) for plan in plans for a, b in pairwise((0, *plan))})
                states = [(level,) for level in range(last)]
            stays = [len(state) == 1 and max({0, *tensor.must}) <= state[0] for state in states]
            self.ends.append([self._node(t, s, last)[0] if ok else None for s, ok in zip(states, stays, strict=True)])
            self.edges.append([(s, after, level, *self._node(t, states[s], level)) for s, after, level in moves])
            firsts.append([s for s, state in enumerate(states) if state[0] == 0])
        need(prod(map(len, self.ends)) * prod(self.shape) <= 1 << 25, "the problem is too large")
        self.firsts = list(product(*firsts))

    def _node(self, t: int, state: Tile, level: int) -> tuple[list[Array], Array]:
        """Return what a node of `level` (or the compute units) costs per part in a state (holder, levels to come),
        never where it cannot be, and the bits that it holds."""
        tick()
        tensor, problem = self.problem.tensors[t], self.problem
        held, loads, messages = self._loads(tensor, state[0], level)
        costs = self.structure.node(t, state, level, loads, loads * messages)
        if level == self.structure.last:
            return [self.unit * cost for cost in costs], held
        bits, room = held * tensor.bits, problem.room[level]
        barred = (held < 0) | (bits > (self.never if room is None else room)) | self._breaks(tensor, level)
        priced = [self.unit * cost for cost in costs]
        priced[0] = priced[0] + self.prices[level] * bits
        return [np.where(barred, self.never, cost) for cost in priced], bits

    def _breaks(self, tensor: Tensor, level: int) -> Any:
        """Return where the rules let no node of `level` be, as far as the dims tell that this table looks at."""
        rules, dims = self.problem.rules, sorted(tensor.dims) if len(self.only) == 1 else self.structure.all
        broken: Any = False
        for d, size in rules.multiples:
            if d in dims:
                broken = broken | (self.values[d] * self.structure.factor((d,), level, self.structure.last) % size > 0)
        return broken | np.logical_not(rules.standing(self.values, self.structure.top, dims))

    def _loads(self, tensor: Tensor, parent: int, level: int) -> tuple[Array, Array, Any]:
        """Return elements held (-1: impossible), loaded by one instance in the whole run, and messages per load."""
        grid, own, structure = self.grid, tensor.dims - {*tensor.window}, self.structure
        between = [(fan, row) for fan, row in structure.spread if parent < fan.below <= level]
        messages = prod(prod(row) if fan.merge == "none" else prod(row[d] for d in own) for fan, row in between)
        first = structure.factor(own, level, structure.last)
        held = np.asarray(prod((self.values[d] for d in own), start=first), self.kind)
        whole = [
            extent if len(self.only) > 1 or top > 1 else 1 for extent, top in zip(structure.top, grid.top, strict=True)
        ]
        outside = [np.asarray(extent // value, self.kind) for extent, value in zip(whole, self.values, strict=True)]
        if not tensor.window or level == structure.last:
            if tensor.window and between:
                apart = self._window(tensor, parent, level, ())[0][1]
                messages = messages * np.maximum(apart[self.which, 0], 1)
            if level == structure.last:
                return held, np.asarray(structure.steps, self.kind), messages
            return held, np.asarray(prod(outside, start=held), self.kind), messages
        lacks, blocks = [d for d in structure.all if d not in tensor.dims], list[tuple[Tile, int, int, int]]()
        ends = [(1,) * len(grid.top), *self.marks[::-1]]
        for inner, outer in pairwise(ends if len(self.marks) > 1 else ()):
            again, trips = (prod(outer[d] // inner[d] for d in dims) for dims in (lacks, own))
            end = tuple(outer[d] for d in tensor.window)
            blocks.append((end, again, trips, prod(self.marks[0]) // prod(outer)))
        if not blocks:  # the same for all structures that spread the window dims alike
            repeat = prod(self.problem.extents[d] for d in lacks)
            blocks = [(tuple(grid.top[d] for d in tensor.window), repeat, 1, 1)]
        (size, apart), first, through = self._window(tensor, parent, level, tuple(blocks))
        below, where = whole if len(self.marks) == 1 else self.marks[-1], within(grid.top, tensor.window, self.marks[0])
        left = [np.asarray(below[d] // value, self.kind) for d, value in enumerate(self.values)]
        trips, again = (np.asarray(prod(left[d] for d in dims), self.kind) for dims in (own, lacks))
        at = self.which, np.searchsorted(np.array(divisors(blocks[0][1]), self.kind), again), where
        size, chosen = size[self.which, where], np.where(trips > 1, first[at], through[at])
        never = (size < 0) | (chosen >= self.never)
        loads = np.where(never, 0, np.where(trips > 1, chosen * trips * blocks[0][3], chosen)) * held
        return np.where(never, -1, held * size), loads, messages * np.maximum(apart[self.which, where], 1)

    def _window(
        self, tensor: Tensor, parent: int, level: int, blocks: tuple[tuple[Tile, int, int, int], ...]
    ) -> tuple[tuple[Array, Array], Array, Array]:
        """Return the tables of the tensor's axes of several dims as a node sees them, a first axis for the places."""
        groups = [group for group in tensor.groups if len(group) > 1]
        axes = [(tuple(tensor.window.index(d) for d, _ in one), tuple(weight for _, weight in one)) for one in groups]
        top, found = tuple(self.marks[0][d] for d in tensor.window), list[tuple[Array, Array, Array]]()
        for places in map(dict, self.places):
            seen: list[tuple[Crossing, ...]] = []
            for d in tensor.window:
                own = [(fan.below, row[d], fan.merge) for fan, row in self.structure.spread[::-1] if row[d] > 1]
                between, crossings = {below: parent < below <= level for below, _, _ in own}, list[Crossing]()
                for b in sorted(between):
                    here = tuple((f, merge if between[b] else "") for a, f, merge in own if a == b)
                    crossings.append((here, b <= level, places.get((b, d), 0)))
                seen.append(tuple(crossings))
            found.append(window(tuple(axes), top, tuple(seen), blocks, self.never))
        least, first, through = (np.stack(tables) for tables in zip(*found, strict=True))
        return (least[:, 0], least[:, 1]), first, through

    def moves(self, state: Tile) -> Iterator[tuple[int, Edge, Tile]]:
        """Yield (position of the tensor, node, state after it) for every node that may come next."""
        for i, own in enumerate(self.edges):
            for edge in (one for one in own if one[0] == state[i]):
                yield i, edge, (*state[:i], edge[1], *state[i + 1 :])

    def end(self, state: Tile) -> list[Any] | None:
        """Return what all compute units cost per part in a joint state, None where nodes are missing."""
        ends = [own[s] for own, s in zip(self.ends, state, strict=True)]
        known = [end for end in ends if end is not None]
        return None if len(known) < len(ends) else [sum(amounts) for amounts in zip(*known, strict=True)]

    def inside(self, part: int) -> Callable[[Tile], Array]:
        """Return, as a function of the joint state, the least cost of a part inside every tile."""
        known = dict[Tile, Array]()

        def reach(state: Tile) -> Array:
            if state not in known:
                tick()
                end = self.end(state)
                here = np.full(self.shape, self.never if end is None else end[part], self.kind)
                for _, edge, after in self.moves(state):
                    np.minimum(here, edge[3][part] + reach(after), out=here)
                for (_, _, stride), count in zip(self.grid.axes, self.grid.shape, strict=True):
                    lines = here.reshape(-1, count, stride)  # faster than np.minimum.accumulate
                    for i in range(1, count):
                        np.minimum(lines[:, i], lines[:, i - 1], out=lines[:, i])
                known[state] = np.minimum(here, self.never)
            return known[state]

        return reach

    def least(self) -> list[list[int]]:
        """Return the least cost per part of every structure, one after the other; half of `never` or more: nothing
        fits."""
        own = [value if whole > 1 else 1 for value, whole in zip(self.structure.top, self.grid.top, strict=True)]
        tops = np.stack(np.broadcast_arrays(*map(np.ravel, (*own, self.structure.steps))), axis=1).tolist()
        at = [sum(i * axis[2] for i, axis in zip(self.grid.index(top), self.grid.axes, strict=True)) for top in tops]
        at = at if len(at) > 1 else at * (prod(self.shape) // prod(self.grid.shape))
        found = list[list[int]]()
        for part, start in enumerate(self.start):
            reach = self.inside(part)
            inner = np.minimum.reduce([reach(state) for state in self.firsts]).reshape(len(at), -1)
            found.append((inner[np.arange(len(at)), at] + start).tolist())
        return [list(parts) for parts in zip(*found, strict=True)]
