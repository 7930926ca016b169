"""The best tiles of one order of nodes in one structure: all choices of its cuts, those that cannot win left out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.poly import Numbers, count_type
from polymap.search.dividing.product_bounds import Number, PartValues
from polymap.search.dividing.product_plans import ONE, Order
from polymap.search.dividing.product_tuning import TUNING
from polymap.search.problem import divisors


@dataclass(frozen=True, slots=True)
class Place:
    """A plan in a structure: temporal extents per dim; per component what one visit of each node costs, and all of the
    plan where each is visited once; compute cycles; per node the bits that it takes with tiles of one index; usable:
    bits of each level that has limited room; spans: (node, dim, least, most) that are left there."""

    whole: tuple[int, ...]
    weights: list[list[int]]
    once: list[int]
    cycles: int
    bits: list[int]
    usable: dict[int, int]
    spans: list[tuple[int, int, int, int]]


@dataclass(frozen=True, slots=True)
class BestTiles:
    """The least value, its parts per component, and the tiles of the order's cuts."""

    value: int
    parts: tuple[int, ...]
    tiles: tuple[int, ...]


divisors_of = lru_cache(maxsize=1 << 14)(divisors)


def best_tiles(place: Place, order: Order, values: PartValues, limit: Number) -> BestTiles | None:
    """Return the least value below `limit` of the nodes in this order, with the tiles of its cuts (None: no such)."""
    ranges = _ranges(place, order)
    if ranges is None:
        return None
    bits, fixed = place.bits, list(place.once)
    visits: list[tuple[int, ...]] = []
    for cut, visited in zip(order.cuts, order.visited, strict=True):
        once = [sum([weights[node] for node in visited]) for weights in place.weights]
        fixed = [part - own for part, own in zip(fixed, once, strict=True)]
        visits.append(tuple([own * place.whole[cut.dim] for own in once]))
    rooms = [_Room(place.usable[level], tuple((bits[node], cuts) for node, cuts in own)) for level, own in order.rooms]
    question = _Question(order, rooms, visits, fixed, place.cycles, values)
    choices = [divisors_of(place.whole[cut.dim]) for cut in order.cuts]
    if place.spans:
        pairs = zip(choices, ranges, strict=True)
        choices = [tuple(t for t in own if low <= t <= high) for own, (low, high) in pairs]
    return _best_choice(question, choices, limit) if all(choices) else None


def _ranges(place: Place, order: Order) -> list[tuple[int, int]] | None:
    """Return the least and the most that the tile of each cut may be; None where a tile that is not cut is neither."""
    ranges = [(1, place.whole[cut.dim]) for cut in order.cuts]
    for node, dim, least, most in place.spans:
        tile = order.tiles[order.nodes.index(node)][dim]
        low, high = ranges[tile] if tile >= 0 else (1, 1) if tile == ONE else (place.whole[dim],) * 2
        low, high = max(low, least), min(high, most)
        if low > high:
            return None
        if tile >= 0:
            ranges[tile] = low, high
    return ranges


@dataclass(frozen=True, slots=True)
class _Room:
    """A level's limit: usable bits, and of each node there its bits and the cuts that its tile has."""

    usable: int
    nodes: tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked of the tiles t of the cuts: the least value of the parts, each fixed + sum of visits / t, where all
    rooms suffice. visits: [cut][component]."""

    order: Order
    rooms: list[_Room]
    visits: list[tuple[int, ...]]
    fixed: list[int]
    cycles: int
    values: PartValues


_Choices = list[tuple[int, ...]]


def _best_choice(question: _Question, choices: _Choices, limit: Number) -> BestTiles | None:
    """Return the best of these choices: trimmed, then all at once, or halves of one cut's tiles where they are many."""
    trimmed = _trim_choices(question, choices, limit)
    if trimmed is None:
        return None
    left, caps = trimmed
    if prod(len(own) for own in left) <= TUNING.most_choices:
        return _best_of_all(question, left, caps, limit)
    longest = max(range(len(left)), key=lambda cut: len(left[cut]))
    half = len(left[longest]) // 2
    best = None
    for own in (left[longest][half:], left[longest][:half]):
        found = _best_choice(question, [*left[:longest], own, *left[longest + 1 :]], limit)
        if found is not None:
            best, limit = found, found.value
    return best


def _trim_choices(question: _Question, choices: _Choices, limit: Number) -> tuple[_Choices, list[Number]] | None:
    """Return the tiles that may be part of a choice below the limit, and what each part may be there (None: there is
    none)."""
    left = list(choices)
    while True:
        before = [len(own) for own in left]
        for room in question.rooms:
            if not _is_trimmed_by(room, left):
                return None
        least = list(question.fixed)
        for visits, own in zip(question.visits, left, strict=True):
            for number, v in enumerate(visits):
                least[number] += v // own[-1]
        caps = question.values.caps(least, question.cycles, limit)
        if caps is None:
            return None
        for cut, visits in enumerate(question.visits):
            for v, part, cap in zip(visits, least, caps, strict=True):
                most = cap - part + v // left[cut][-1]
                if v // left[cut][0] > most:
                    left[cut] = tuple([t for t in left[cut] if v // t <= most])
        for outer, inner in question.order.nested:
            first, last = left[inner][0], left[outer][-1]
            if first > last:
                return None
            left[outer] = tuple([t for t in left[outer] if t >= first])
            left[inner] = tuple([t for t in left[inner] if t <= last])
        if before == [len(own) for own in left]:
            return left, caps


def _is_trimmed_by(room: _Room, left: _Choices) -> bool:
    """Leave out the tiles for which a level has no room even beside the smallest others; return whether some are
    left of each cut."""
    least = [own[0] for own in left]
    taken = 0
    slopes: dict[int, int] = {}
    for bits, cuts in room.nodes:
        own = bits * prod(least[cut] for cut in cuts)
        taken += own
        for cut in cuts:
            slopes[cut] = slopes.get(cut, 0) + own // least[cut]
    free = room.usable - taken
    if free < 0:
        return False
    for cut, slope in slopes.items():
        most = least[cut] + free // slope
        if left[cut][-1] > most:
            left[cut] = tuple([t for t in left[cut] if t <= most])
    return True


def _best_of_all(question: _Question, choices: _Choices, caps: list[Number], limit: Number) -> BestTiles | None:
    """Return the best of all choices, looked at side by side."""
    grid = np.ix_(*(np.array(own, dtype=np.int64) for own in choices)) if choices else ()
    parts: list[Numbers] = []
    kept = count_type(2 * sum(map(abs, [*question.fixed, *(each for own in question.visits for each in own)])))
    ok: NDArray[np.bool_] = np.ones(tuple(map(len, choices)), dtype=np.bool_)
    for number, (fixed, cap) in enumerate(zip(question.fixed, caps, strict=True)):
        total: Numbers = np.full(ok.shape, fixed, dtype=kept)
        for visits, axis in zip(question.visits, grid, strict=True):
            if visits[number]:
                total += np.array(visits[number], dtype=kept) // axis
        parts.append(total)
        ok &= np.asarray(total <= cap, dtype=np.bool_)
    for room in question.rooms:
        taken: NDArray[np.int64] | int = 0
        for bits, cuts in room.nodes:
            own: NDArray[np.int64] | int = bits
            for cut in cuts:
                own = own * grid[cut]
            taken = taken + own
        ok &= np.asarray(taken <= room.usable)
    for outer, inner in question.order.nested:
        ok &= grid[outer] % grid[inner] == 0
    places = np.flatnonzero(ok)
    found = question.values.best(np.stack([part.ravel()[places] for part in parts]), question.cycles, limit)
    if found is None:
        return None
    value, number = found
    place = int(places[number])
    index = np.unravel_index(place, ok.shape) if choices else ()
    tiles = tuple(own[int(i)] for own, i in zip(choices, index, strict=True))
    return BestTiles(value, tuple(int(part.ravel()[place]) for part in parts), tiles)
