"""Accepts or refuses certificates: every structure once, every bound derived again (docs/certificate.md)."""

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache, lru_cache
from itertools import combinations, pairwise, permutations, product
from math import isqrt, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymap.checker.model import Problem, Refused, Rows, Tensor, Tile, cost, need, parsed, rational, spread

NEVER = 1 << 60
Array = NDArray[np.int64]
Places = tuple[tuple[tuple[int, int], int], ...]  # ((level below the fan-outs, dim), temporal extent inside them)
Crossing = tuple[tuple[tuple[int, str], ...], bool, int]  # (factor, merge) from inside; above the node; place or 0


@cache
def primes(number: int) -> Tile:
    """Return the prime factors, ascending, repeated."""
    for factor in range(2, isqrt(number) + 1):
        if number % factor == 0:
            return (factor, *primes(number // factor))
    return (number,) if number > 1 else ()


@cache
def divisors(number: int) -> Tile:
    """Return the divisors, ascending."""
    found = {1}
    for prime in primes(number):
        found |= {one * prime for one in found}
    return tuple(sorted(found))


class Grid:
    """The tiles that divide `top`, one axis per dim and prime. axes: (dim, prime, flat stride). values: per dim, broadcast."""

    def __init__(self, top: Tile) -> None:
        axes = [(d, p) for d, extent in enumerate(top) for p in sorted(set(primes(extent)))]
        self.top, self.shape = top, tuple(primes(top[d]).count(p) + 1 for d, p in axes)
        need(prod(self.shape) <= 1 << 19, "the problem is too large")
        self.axes = [(d, p, prod(self.shape[a + 1 :])) for a, (d, p) in enumerate(axes)]
        exponents = np.indices(self.shape, sparse=True)
        owned = [[p ** exponents[a] for a, (e, p) in enumerate(axes) if e == d] for d in range(len(top))]
        self.values = [np.asarray(prod(own), np.int64) for own in owned]
        self.tiles = np.stack([np.broadcast_to(value, self.shape).ravel() for value in self.values], axis=1)

    def index(self, tile: Tile) -> Tile:
        """Return the place of a tile along every axis."""
        return tuple(primes(tile[d]).count(p) for d, p, _ in self.axes)

    def flat(self, tile: Any) -> int:
        """Return the place of a tile among `tiles`."""
        return sum(place * axis[2] for place, axis in zip(self.index(tuple(map(int, tile))), self.axes, strict=True))

    def places(self, values: list[Array]) -> Array:
        """Return the flat places of the tiles with these values per dim."""
        total = np.zeros((), np.int64)
        for d, value in enumerate(values):
            known = divisors(self.top[d])
            own = [self.flat([tile if e == d else 1 for e in range(len(values))]) for tile in known]
            total = total + np.array(own)[np.searchsorted(known, value)]
        return total


@lru_cache(maxsize=100_000)
def looks(extent: int, tile: int, passed: int, crossings: tuple[Crossing, ...]) -> set[Tile]:
    """Return (index set, offsets of siblings whose equal loads are shared, distance to the next pass, length of a pass)
    of a dim, seen from a node with this tile when loops up to `passed` have run, for every place of its spatial loops."""
    found: set[Tile] = set()
    for places in product(*(((place,) if place else divisors(extent)) for _, _, place in crossings)):
        fits = all(
            y % tile == 0 or (not crossing[1] and tile % y == 0) for y, crossing in zip(places, crossings, strict=True)
        )
        if not fits or any(y % passed and passed % y for y in places):
            continue
        for order in permutations(range(len(places))):
            if all(places[b] % places[a] == 0 for a, b in pairwise(order)):
                indices, offsets, reach, factors = 1, 1, 0, 1
                for number in order:
                    for factor, merge in crossings[number][0]:
                        step, factors = places[number] * factors, factors * factor
                        indices = indices if crossings[number][1] else spread(indices, factor, step)
                        offsets = (
                            spread(offsets, factor, step) if crossings[number][1] and merge == "identical" else offsets
                        )
                inner = [(y, prod(factor for factor, _ in crossings[i][0])) for i, y in enumerate(places)]
                stops = sorted({1, tile, passed, *(y for y in places if y <= passed)})
                strides = [stop * prod(factor for y, factor in inner if y <= stop) for stop in stops]
                for (a, b), stride in zip(pairwise(stops), strides, strict=False):
                    indices = spread(indices, b // a, stride) if b <= tile else indices
                    reach += (b // a - 1) * stride if b > tile else 0
                found.add((indices, offsets, strides[-1] - reach, reach))
    return found


@lru_cache(maxsize=100_000)
def sums(weights: Tile, masks: Tile) -> int:
    """Return the set of sums of weight x index, up to a translation."""
    total = 1
    for weight, mask in zip(weights, masks, strict=True):
        copies = [total << place * abs(weight) for place in range(mask.bit_length()) if mask >> place & 1]
        total = 0
        for copy in copies:
            total |= copy
    return total


class Window:
    """A window tensor's axes over the grid of their dims (flat): size[T] and messages[T] at least, kept[d][X, T] at
    most across a loop over d around loops that reach X; last d: over a dim that the tensor lacks. -1: impossible."""

    def __init__(
        self, groups: tuple[tuple[Tile, Tile], ...], top: Tile, crossings: tuple[tuple[Crossing, ...], ...]
    ) -> None:
        self.grid, self.known = Grid(top), dict[Any, tuple[Array, Array]]()
        count = len(self.grid.tiles)
        need(count <= 1 << 10, "the windows are too large")
        found = [np.ones(shape, np.int64) for shape in (count, count, (len(top) + 1, count, count))]
        for dims, weights in groups:
            own = Grid(tuple(top[d] for d in dims))
            least = np.full((2, len(own.tiles)), NEVER)
            kept = np.full((len(dims) + 1, len(own.tiles), len(own.tiles)), -1)
            for (t, tile), (x, passed) in product(enumerate(own.tiles.tolist()), repeat=2):
                if not any(b % a for a, b in zip(tile, passed, strict=True)):
                    options = (looks(*one, crossings[d]) for *one, d in zip(own.top, tile, passed, dims, strict=True))
                    for seen in product(*options):
                        self._look(weights, seen, least[:, t], kept[:, x, t])
            which = [own.flat([tile[d] for d in dims]) for tile in self.grid.tiles]
            pairs = np.ix_(which, which)
            order = [dims.index(d) if d in dims else -1 for d in range(len(top) + 1)]
            tables = least[0, which], least[1, which], np.stack([kept[d][pairs] for d in order])
            found = [np.where((a < 0) | (b < 0) | (b >= NEVER), -1, a * b) for a, b in zip(found, tables, strict=True)]
        self.size, self.messages, self.kept = found

    def _look(self, weights: Tile, seen: tuple[Tile, ...], least: Array, kept: Array) -> None:
        elements, offsets = (sums(weights, tuple(look[i] for look in seen)) for i in (0, 1))
        np.minimum(least, (elements.bit_count(), offsets.bit_count()), out=least)
        back = [weight * look[3] for weight, look in zip(weights, seen, strict=True)]
        moves = [weight * look[2] + b - sum(back) for weight, look, b in zip(weights, seen, back, strict=True)]
        for d, move in enumerate([*moves, -sum(back)]):
            stay = elements & (elements >> move if move >= 0 else elements << -move)
            kept[d] = max(kept[d], stay.bit_count())

    def _climb(self, start: Array, ends: tuple[int, int], repeat: int, *, first: bool) -> Array:
        """Return the least loads [repeats, columns] around loops from tile ends[0] to ends[1] (flat) and `repeat`
        iterations over dims that the tensor lacks; in the first block none of these are right above the node.
        start[X, column]: loads before; the columns' tiles are those of the grid, again and again."""
        repeats, tiles = divisors(repeat), self.grid.tiles
        columns = np.arange(start.shape[1]) % len(tiles)
        between = (tiles % tiles[ends[0]] == 0).all(axis=1) & (tiles[ends[1]] % tiles == 0).all(axis=1)
        best: dict[int, Array] = {}

        def around(loads: Array, trips: int, kept: Array) -> Array:
            after = np.maximum(trips * np.minimum(loads, NEVER // trips) - (trips - 1) * kept, loads)
            return np.where((loads >= NEVER) | (kept < 0), NEVER, np.minimum(after, NEVER))

        for x in map(int, np.flatnonzero(between)):
            best[x] = np.full((len(repeats), len(columns)), NEVER)
            best[x][0] = start[x]
            for d, prime, stride in self.grid.axes:
                if tiles[x, d] % prime == 0 and x - stride in best:
                    np.minimum(best[x], around(best[x - stride], prime, self.kept[d, x - stride, columns]), out=best[x])
            above = np.where((columns == x) & first, -1, self.kept[-1, x, columns])
            for m, prime in ((m, p) for m, repeated in enumerate(repeats) for p in set(primes(repeated))):
                before = best[x][repeats.index(repeats[m] // prime)]
                np.minimum(best[x][m], around(before, prime, above), out=best[x][m])
        return best[ends[1]]

    def loads(self, blocks: tuple[tuple[int, int, int, int], ...]) -> tuple[Array, Array]:
        """Return the least loads [repeats in the first block, tile] in that block, and in the whole run. blocks:
        innermost first (outer end, iterations over dims that the tensor lacks, over its dims of one axis, of all loops
        outside)."""
        if blocks in self.known:
            return self.known[blocks]
        count, (end, repeat, _, _) = len(self.size), blocks[0]
        first = np.where(np.eye(count, dtype=bool) & (self.size >= 0), self.size, NEVER)
        first = self._climb(first, (0, end), repeat, first=True)
        if self.size[end] >= 0:  # the tile of the block's end: each pass loads it again
            first[:, end] = self.size[end] * np.array(divisors(repeat))
        loads = first.ravel()
        for outer, repeat, trips, outside in blocks[1:]:
            start = np.full((count, first.size), NEVER)
            start[end] = loads
            loads, end = self._climb(start, (end, outer), repeat, first=False)[-1], outer
            if trips > 1:  # from here on nothing is kept
                loads = scaled(loads, trips * outside)
                break
        self.known[blocks] = first, loads.reshape(first.shape)
        return self.known[blocks]


window = lru_cache(maxsize=128)(Window)


def scaled(amounts: Array, factor: Any) -> Array:
    """Return the product, NEVER where the amount is."""
    return np.where(amounts >= NEVER, NEVER, np.where(amounts >= NEVER, 0, amounts) * factor)


class Edge(NamedTuple):
    """A storage node of a tensor, from one of its states to another: cost per part, bits held, over the grid."""

    source: int
    target: int
    level: int
    costs: list[Array]
    bits: Array


class Tables:
    """What the nodes of a structure cost below the last of `marks`, tiles that all loop orders pass, the whole first.

    only: the tensors looked at. edges: per tensor. ends: per tensor and state what the compute units cost, per part, or
    None. firsts: the joint states before any node. start: the cost before any node.
    """

    def __init__(self, problem: Problem, rows: Rows, only: Tile, places: Places, marks: tuple[Tile, ...]) -> None:
        self.problem, self.only, self.places, self.marks = problem, only, dict(places), marks
        self.spread = [(problem.fanouts[own[0]], row) for own, row in zip(problem.classes, rows, strict=True)]
        self.grid, self.last, self.all = Grid(marks[-1]), len(problem.levels), tuple(range(len(problem.dims)))
        self.steps = prod(problem.extents) // self.factor(self.all, -1, self.last)
        self.edges: list[list[Edge]] = []
        self.ends: list[list[list[int] | None]] = []
        firsts: list[list[int]] = []
        for t in only:
            tensor = problem.tensors[t]
            plans = [c for n in range(self.last) for c in combinations(sorted(tensor.may), n) if tensor.must <= {*c}]
            states = sorted({(0, *plan)[i:] for plan in plans for i in range(len(plan) + 1)})
            following = [state[1:2] for state in states]
            if not tensor.is_output:  # the levels to come matter to outputs alone
                following = [
                    sorted({b for plan in plans for a, b in pairwise((0, *plan)) if a == p}) for p in range(self.last)
                ]
                states = [(level,) for level in range(self.last)]
            stays = [len(state) == 1 and not any(must > state[0] for must in tensor.must) for state in states]
            firsts.append([s for s, state in enumerate(states) if state[0] == 0])
            self.ends.append(
                [
                    [int(c) for c in self._node(t, s, self.last)[0]] if ok else None
                    for s, ok in zip(states, stays, strict=True)
                ]
            )
            self.edges.append([
                Edge(number, states.index(state[1:] or (level,)), level, *self._node(t, state, level))
                for number, state in enumerate(states) for level in following[number]
            ])  # fmt: skip
        self.firsts = list(product(*firsts))
        zeros = [(t, prod(problem.extents[d] for d in problem.tensors[t].dims)) for t in only if self._starts(t)]
        self.start = [-sum(zero * part.read[0][t] for t, zero in zeros) for part in problem.parts]

    def _starts(self, t: int) -> bool:
        return self.problem.tensors[t].is_output and not self.problem.tensors[t].initial

    def factor(self, dims: Any, after: int, upto: int) -> int:
        """Return the product of the dims' spatial factors between two levels."""
        return prod(row[d] for fan, row in self.spread if after < fan.below <= upto for d in dims)

    def _node(self, t: int, state: Tile, level: int) -> tuple[list[Array], Array]:
        """Return what a node of `level` (or the compute units) costs per part in a state (holder, levels to come), and
        the bits that it holds."""
        tensor, (parent, *coming) = self.problem.tensors[t], state
        held, loads, messages = self._loads(tensor, parent, level)
        there, here = self.factor(self.all, -1, parent), self.factor(self.all, -1, level)
        differ, inside = self.factor(tensor.dims, parent, level), self.factor(tensor.dims, -1, level)
        between = [(fan, row) for fan, row in self.spread if parent < fan.below <= level]
        apart = prod(row[d] for fan, row in between if not fan.adds for d in self.all if d not in tensor.dims)
        zero = prod(self.problem.extents[d] for d in tensor.dims) * self._starts(t)
        costs: list[Array] = []
        for part in self.problem.parts:
            read, write = ([row[t] for row in side] + [0] for side in (part.read, part.write))
            if not tensor.is_output:
                costs.append(
                    scaled(
                        loads,
                        write[level] * (1 if part.band else here)
                        + messages * read[parent] * (1 if part.band else there),
                    )
                )
                continue
            both = [r + w for r, w in zip(read, write, strict=True)]
            if part.band:
                costs.append(loads * (both[level] + differ * apart * both[parent]) - both[level] * (zero // inside))
            else:
                merged, further = loads * (differ * there), sum(both[inner] for inner in coming[1:])
                elided = (loads * here - merged) * further
                costs.append(merged * (both[level] + apart * both[parent]) - elided - both[level] * zero)
        return costs, scaled(held, tensor.bits)

    def _loads(self, tensor: Tensor, parent: int, level: int) -> tuple[Array, Array, Array]:
        """Return elements held, loaded by one instance in the whole run, and messages per load."""
        values, whole, below, own = self.grid.values, self.marks[0], self.marks[-1], tensor.dims - set(tensor.window)
        between = [(fan, row) for fan, row in self.spread if parent < fan.below <= level]
        messages = prod(prod(row) if fan.merge == "none" else prod(row[d] for d in own) for fan, row in between)
        held = np.asarray(prod((values[d] for d in own), start=self.factor(own, level, self.last)), np.int64)
        model = self._window(tensor, parent, level) if tensor.window else None
        if level == self.last:
            return held, np.int64(self.steps), messages * (max(int(model.messages[0]), 1) if model else 1)
        if model is None:
            return held, np.asarray(prod((whole[d] // values[d] for d in self.all), start=held)), np.int64(messages)
        blocks: list[tuple[int, int, int, int]] = []
        for inner, outer in zip([(1,) * len(whole), *self.marks[::-1]], self.marks[::-1], strict=False):
            lacks, trips = (
                prod(outer[d] // inner[d] for d in self.all if d in dims) for dims in ({*self.all} - tensor.dims, own)
            )
            blocks.append(
                (model.grid.flat([outer[d] for d in tensor.window]), lacks, trips, prod(whole) // prod(outer))
            )
        first, through = model.loads(tuple(blocks))
        again = np.asarray(prod(below[d] // values[d] for d in self.all if d not in tensor.dims))
        where = model.grid.places([values[d] for d in tensor.window])
        trips, at = (
            np.asarray(prod(below[d] // values[d] for d in own)),
            (np.searchsorted(divisors(blocks[0][1]), again), where),
        )
        loads = np.where(trips > 1, scaled(first[at], trips * blocks[0][3]), through[at])
        bad = model.size[where] < 0
        return (
            np.where(bad, NEVER, held * model.size[where]),
            np.where(bad, NEVER, scaled(loads, held)),
            messages * np.maximum(model.messages[where], 1),
        )

    def _window(self, tensor: Tensor, parent: int, level: int) -> Window:
        """Return the tables of the tensor's axes of several dims as a node sees them."""
        seen: list[tuple[Crossing, ...]] = []
        for d in tensor.window:
            crossings: list[Crossing] = []
            for below in sorted({fan.below for fan, _ in self.spread}):
                own = [(row[d], fan.merge) for fan, row in self.spread[::-1] if fan.below == below and row[d] > 1]
                parts = tuple((factor, merge if parent < below <= level else "") for factor, merge in own)
                crossings += [(parts, below <= level, self.places.get((below, d), 0))] if parts else []
            seen.append(tuple(crossings))
        where = {d: position for position, d in enumerate(tensor.window)}
        groups = [tuple((where[d], weight) for d, weight in group) for group in tensor.groups if len(group) > 1]
        axes = tuple((tuple(d for d, _ in one), tuple(weight for _, weight in one)) for one in groups)
        return window(axes, tuple(self.marks[0][d] for d in tensor.window), tuple(seen))

    def moves(self, state: Tile) -> Iterator[tuple[int, Edge, Tile]]:
        """Yield (position of the tensor, node, state after it) for every node that may come next."""
        for i, own in enumerate(self.edges):
            for edge in (one for one in own if one.source == state[i]):
                yield i, edge, (*state[:i], edge.target, *state[i + 1 :])

    def inside(self, part: int, prices: Tile) -> Callable[[Tile], Array]:
        """Return, as a function of the joint state, the least cost inside of a part, x unit, with the bits' prices."""
        unit, *per_bit = prices or (1, *(0 for _ in self.problem.room))
        known: dict[Tile, Array] = {}
        nodes: dict[int, Array] = {}
        for edge in (edge for own in self.edges for edge in own):
            room, cost = self.problem.room[edge.level], scaled(edge.costs[part], unit)
            barred = (cost >= NEVER) | (edge.bits >= NEVER if room is None else edge.bits > room)
            nodes[id(edge)] = np.where(barred, NEVER, cost + np.where(barred, 0, edge.bits) * per_bit[edge.level])

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


class Spot(NamedTuple):
    """A chain: joint state, tile, cost so far per part, bits used per level, tiles passed, last node (level, tensor)."""

    state: Tile
    tile: Tile
    parts: list[int]
    used: list[int]
    marks: tuple[Tile, ...]
    last: tuple[int, int]


class Prover:
    """Derives bounds and searches for one problem. value: what is to be refuted; deadline: on the CPU's clock."""

    def __init__(self, problem: Problem, value: int, deadline: float) -> None:
        self.problem, self.value, self.deadline = problem, value, deadline
        self.known: dict[Any, list[int]] = {}
        self.window = [t for t, tensor in enumerate(problem.tensors) if tensor.window]

    def structures(self) -> list[Rows]:
        """Return every structure, ascending: per class of fan-outs the factor of every dim."""
        extents, found = self.problem.extents, {()}
        for own in self.problem.classes:
            known = {(1,) * len(extents)}
            for fan in (self.problem.fanouts[f] for f in own):
                vectors: list[Tile] = [()]
                for d, extent in enumerate(extents):
                    free = divisors(extent) if d in fan.dims else (1,)
                    vectors = [(*v, x) for v in vectors for x in free if prod(v) * x <= fan.size]
                need(len(known) * len(vectors) < 1 << 22, "there are too many structures")
                known = {tuple(a * b for a, b in zip(one, v, strict=True)) for one in known for v in vectors}
                known = {one for one in known if all(e % x == 0 for e, x in zip(extents, one, strict=True))}
            need(len(known) * len(found) < 1 << 22, "there are too many structures")
            found = {(*rows, row) for rows in found for row in known}
            found = {
                rows for rows in found if all(e % prod(row[d] for row in rows) == 0 for d, e in enumerate(extents))
            }
        return sorted(found)

    def top(self, rows: Rows) -> Tile:
        """Return the temporal extents of a structure."""
        return tuple(extent // prod(row[d] for row in rows) for d, extent in enumerate(self.problem.extents))

    def tables(self, rows: Rows, places: Places, marks: tuple[Tile, ...] = ()) -> Tables:
        """Return the tables of all tensors below marks (none: of the whole)."""
        return Tables(self.problem, rows, tuple(range(len(self.problem.tensors))), places, marks or (self.top(rows),))

    def apart(self, rows: Rows) -> int | None:
        """Return the bound of every tensor at its own best (None: nothing fits)."""
        total, top = [0] * len(self.problem.parts), self.top(rows)
        for t, tensor in enumerate(self.problem.tensors):
            key = (t, *((tuple(row[d] for d in sorted(tensor.dims)), prod(row)) for row in rows))
            if key not in self.known:
                own = tuple(extent if d in tensor.dims else 1 for d, extent in enumerate(top))
                tables = Tables(self.problem, rows, (t,), (), (own,))
                self.known[key] = [tables.least(part) + start for part, start in enumerate(tables.start)]
            total = [a + b for a, b in zip(total, self.known[key], strict=True)]
        return None if max(total) >= NEVER // 2 else self.problem.value(total, prod(top))

    def joint(self, rows: Rows, places: Places, prices: Tile) -> int | None:
        """Return the bound of all tensors together, capacity priced (None: nothing fits)."""
        tables, room = self.tables(rows, places), self.problem.room
        parts = [tables.least(part, prices) for part in range(len(self.problem.parts))]
        if max(parts) >= NEVER // 2:
            return None
        if prices:  # rounded up: the objective is an integer
            parts[0] = -((sum(p * (r or 0) for p, r in zip(prices[1:], room, strict=True)) - parts[0]) // prices[0])
        return self.problem.value([a + b for a, b in zip(parts, tables.start, strict=True)], tables.steps)

    def places(self, rows: Rows) -> list[Places]:
        """Return every choice of places for the spatial loops over window dims."""
        below, top = [self.problem.fanouts[own[0]].below for own in self.problem.classes], self.top(rows)
        dims = [d for t in self.window for d in self.problem.tensors[t].window]
        wide = sorted({(b, d) for b, row in zip(below, rows, strict=True) for d in dims if row[d] > 1})
        return list(product(*([(one, y) for y in divisors(top[one[1]])] for one in wide)))

    def descend(self, rows: Rows, places: Places, prices: Tile, most: int) -> int:
        """Return how many chains the search for one below the value visits; refuse where it meets one, or visits more."""
        problem, visited = self.problem, [0]

        def view(marks: tuple[Tile, ...]) -> tuple[Tables, list[Callable[[Tile], Array]]]:
            tables = self.tables(rows, places, marks)
            kinds = [*((part, ()) for part in range(len(problem.parts))), *([(0, prices)] if prices else [])]
            return tables, [tables.inside(*kind) for kind in kinds]

        def visit(tables: Tables, reach: list[Callable[[Tile], Array]], spot: Spot) -> None:
            visited[0] += 1
            need(visited[0] <= most, "a search visits more nodes than listed")
            need(time.process_time() < self.deadline, "time is up before the end of the check")
            ends = [own[s] for own, s in zip(tables.ends, spot.state, strict=True)]
            if None not in ends:
                total = [part + sum(end[n] for end in ends if end) for n, part in enumerate(spot.parts)]
                need(problem.value(total, tables.steps) >= self.value, "a search meets a chain that costs less")
            if spot.marks != tables.marks and any(i in self.window for i, _, _ in tables.moves(spot.state)):
                tables, reach = view(spot.marks)
            for child in [
                one for move in tables.moves(spot.state) for one in self._children(tables, reach, spot, move, prices)
            ]:
                visit(tables, reach, child)

        tables, reach = view(())
        for state in tables.firsts:
            visit(tables, reach, Spot(state, tables.marks[0], tables.start, [0] * tables.last, tables.marks, (-1, -1)))
        return visited[0]

    def _children(
        self,
        tables: Tables,
        reach: list[Callable[[Tile], Array]],
        spot: Spot,
        move: tuple[int, Edge, Tile],
        prices: Tile,
    ) -> Iterator[Spot]:
        """Yield the chains with one more node that may still cost less than the value."""
        (i, edge, after), problem, shape = move, self.problem, tables.grid.shape
        region = tuple(slice(0, place + 1) for place in tables.grid.index(spot.tile))
        bits, *costs = (np.broadcast_to(one, shape)[region] for one in (edge.bits, *edge.costs))
        parts = [cost + part for cost, part in zip(costs, spot.parts, strict=True)]
        totals = [part + inside(after)[region] for part, inside in zip(parts, reach, strict=False)]
        left = [None if room is None else room - used for room, used in zip(problem.room, spot.used, strict=True)]
        wins = (totals[0] < NEVER // 2) & (bits <= (NEVER if left[edge.level] is None else left[edge.level]))
        if problem.is_linear:
            wins &= totals[0] < self.value - problem.fixed
        if prices:
            spare = sum(price * (room or 0) for price, room in zip(prices[1:], left, strict=True))
            priced = np.where(wins, parts[0] * prices[0] + np.where(wins, bits, 0) * prices[edge.level + 1], 0)
            wins &= priced + reach[-1](after)[region] < (self.value - problem.fixed) * prices[0] + spare
        for place in map(tuple, np.argwhere(wins).tolist()):
            if problem.is_linear or problem.value([int(total[place]) for total in totals], tables.steps) < self.value:
                tile = tuple(int(np.broadcast_to(value, shape)[place]) for value in tables.grid.values)
                own, used = (edge.level, i), [*spot.used]
                used[edge.level] += int(bits[place])
                if tile != spot.tile or own > spot.last:  # nodes of one tile stand in one order
                    marks = spot.marks if tile == spot.tile else (*spot.marks, tile)
                    yield Spot(after, tile, [int(part[place]) for part in parts], used, marks, own)


class Verdict(NamedTuple):
    """accepted: the value is the optimum, but for `words` structures that the solver alone vouches for. reason: why not.
    value: in pJ, cycles, pJ x cycle or bits. head: SHA-256 of workload, machine and objective. seconds: of CPU."""

    accepted: bool
    reason: str
    objective: str
    value: Fraction | None
    structures: int
    words: int
    head: str
    seconds: float


def digest(lines: list[str]) -> str:
    """Return the SHA-256 of lines."""
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def integer(word: str, most: int = 1 << 62) -> int:
    """Return the integer that a word says."""
    need(re.fullmatch("0|-?[1-9][0-9]{0,30}", word) and int(word) <= most, "a number is malformed or too large")
    return int(word)


class Check:
    """A certificate, read line by line."""

    def __init__(self, text: str, deadline: float) -> None:
        need(
            len(text) <= 1 << 24 and text.isascii() and text[-1:] == "\n",
            "the text is cut short, too long or not ASCII",
        )
        self.lines, self.at, self.words, self.proven = text[:-1].split("\n"), 0, 0, list[bool]()
        need(self.lines[-1] == f"end {digest(self.lines[:-1])}", "the last line does not belong to the text")
        need(self._next("polymap") == "certificate 1", "the format is unknown")
        workload, machine, self.objective = (self._next(word) for word in ("workload", "machine", "objective"))
        self.head = digest(self.lines[1:4])
        need(self._next("sha256") == self.head, "the head does not belong to its SHA-256")
        self.problem = Problem(parsed(workload), parsed(machine), self.objective)
        self.value = rational(self._next("value"))
        scaled_value = cost(self.problem, parsed(self._next("mapping")))
        need(Fraction(scaled_value, self.problem.scale) == self.value, "the mapping does not cost the value")
        self.prover = Prover(self.problem, scaled_value, deadline)

    def _next(self, word: str) -> str:
        line, self.at = self.lines[self.at], self.at + 1
        need(line.startswith(f"{word} "), f"line {self.at} should begin with '{word}'")
        return line[len(word) + 1 :]

    def run(self) -> int:
        """Check everything below the head; return the number of structures."""
        images: list[Tile] = []
        while self.lines[self.at].startswith("symmetry "):
            images.append(self._symmetry(self._next("symmetry").split(",")))
        wanted = self.prover.structures()
        need(self._next("structures") == str(len(wanted)), f"there are {len(wanted)} structures, not as many as listed")
        for rows in wanted:
            proof = self._next("/".join(",".join(map(str, row)) for row in rows) or "-").split(" ")
            need(time.process_time() < self.prover.deadline, "time is up before the end of the check")
            if proof[0] == "as":
                line, image = (integer(word, len(self.lines)) - 1 for word in proof[1:])
                need(
                    0 <= line < len(self.proven) and self.proven[line] and image >= 0, f"line {self.at}: no proof there"
                )
                moved = tuple(tuple(row[images[image].index(d)] for d in range(len(row))) for row in wanted[line])
                need(moved == rows, f"line {self.at}: the symmetry does not lead here")
            self.proven.append(proof[0] != "as" and self._is_proven(rows, (), proof))
            self.words += proof[0] != "as" and not self.proven[-1]
        self._next("end")
        need(self.at == len(self.lines), "lines follow the end")
        return len(wanted)

    def _symmetry(self, names: list[str]) -> Tile:
        image, problem = tuple(map(self.problem.dims.index, names)), self.problem
        need(sorted(image) == list(range(len(problem.dims))), "a symmetry does not rename all dims")
        for d, e in enumerate(image):
            alike = all((d in fan.dims) == (e in fan.dims) for fan in problem.fanouts)
            need(alike and problem.extents[d] == problem.extents[e], "a symmetry changes the problem")
        for tensor in problem.tensors:
            moved = {frozenset((image[d], weight) for d, weight in group) for group in tensor.groups}
            need(moved == set(map(frozenset, tensor.groups)), "a symmetry changes the problem")
        return image

    def _prices(self, word: str) -> Tile:
        unit, *prices = (integer(one, 1 << 58) for one in word.replace(":", ",").split(","))
        need(self.problem.is_linear and unit > 0 and unit * self.problem.reach < 1 << 58, "no such unit of prices")
        for price, room in zip(prices, self.problem.room, strict=True):
            need(price >= 0 and price * (room or 1 << 58) < 1 << 58, "no such price")
        return (unit, *prices)

    def _is_proven(self, rows: Rows, places: Places, proof: list[str]) -> bool:
        """Check a proof; return whether it is one, and not the solver's word."""
        kind, prover, line = proof[0], self.prover, f"line {self.at}"
        if kind == "places" and not places:
            choices = prover.places(rows)
            need(len(choices) > 1 and proof[1:] == [str(len(choices))], f"{line}: there are {len(choices)} places")
            below = [(one, self._next("  " + ",".join(str(y) for _, y in one)).split(" ")) for one in choices]
            return min([self._is_proven(rows, one, words) for one, words in below])
        counts = {"apart": 2, "word": 2, "joint": 3, "empty": 1, "search": 4}
        need(len(proof) == counts.get(kind), f"{line}: no such proof")
        prices = self._prices(proof[1]) if kind in ("joint", "search") and proof[1] != "-" else ()
        found = prover.apart(rows) if kind in ("apart", "word") else prover.joint(rows, places, prices)
        if kind == "empty":
            need(found is None, f"{line}: something fits")
            return True
        need(found is not None and str(found) == proof[1 + (len(proof) > 2)], f"{line}: the bound is {found}")
        if kind == "search":
            need(
                prover.descend(rows, places, prices, integer(proof[3])) == int(proof[3]),
                f"{line}: the search is shorter",
            )
        need(kind in ("search", "word") or (found or 0) >= prover.value, f"{line}: the bound does not refute")
        return kind != "word"


def verify(text: str, seconds: float = 600) -> Verdict:
    """Return whether a certificate's text proves its claim, within `seconds` of CPU time."""
    begin, check, count, reason = time.process_time(), None, 0, ""
    try:
        check = Check(text, begin + seconds)
        count = check.run()
    except Refused as refusal:
        reason = str(refusal)
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        reason = f"the text is malformed ({type(error).__name__})"
    about = (check.objective, check.value, count, check.words, check.head) if check else ("", None, 0, 0, "")
    return Verdict(not reason, reason, *about, time.process_time() - begin)
