"""The best tiles of one order of nodes in one structure: all choices of its cuts, those that cannot win left out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.search.dividing.product_plans import Order
from polymap.search.dividing.product_tuning import TUNING
from polymap.search.problem import divisors


@dataclass(frozen=True, slots=True)
class Place:
    """A plan in a structure: temporal extents per dim; per node what one visit costs and the bits that it takes with
    tiles of one index; usable: bits of each level that has limited room; free: what such tiles leave of them."""

    whole: tuple[int, ...]
    weights: list[int]
    bits: list[int]
    usable: dict[int, int]
    free: dict[int, int]


divisors_of = lru_cache(maxsize=1 << 14)(divisors)


def best_tiles(place: Place, order: Order, base: int, limit: int) -> tuple[int, tuple[int, ...]] | None:
    """Return the least cost below `limit` of the nodes in this order, and the tiles of its cuts (None: no such).

    base: the cost with every node visited once.
    """
    weights, bits, free = place.weights, place.bits, place.free
    visits: list[int] = []
    fixed = least = base
    for cut, visited, crowd in zip(order.cuts, order.visited, order.crowds, strict=True):
        most = extent = place.whole[cut.dim]
        for level, nodes in crowd:
            most = min(most, 1 + free[level] // sum([bits[node] for node in nodes]))
        once = sum([weights[node] for node in visited])
        visits.append(once * extent)
        fixed -= once
        least += once * extent // most - once
    if least >= limit:
        return None
    rooms = [_Room(place.usable[level], tuple((bits[node], cuts) for node, cuts in own)) for level, own in order.rooms]
    question = _Question(order, rooms, visits, fixed)
    return _best_choice(question, [divisors_of(place.whole[cut.dim]) for cut in order.cuts], limit)


@dataclass(frozen=True, slots=True)
class _Room:
    """A level's limit: usable bits, and of each node there its bits and the cuts that its tile has."""

    usable: int
    nodes: tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked of the tiles t of the cuts: the least of fixed + sum of visits / t where all rooms suffice."""

    order: Order
    rooms: list[_Room]
    visits: list[int]
    fixed: int


_Choices = list[tuple[int, ...]]


def _best_choice(question: _Question, choices: _Choices, limit: int) -> tuple[int, tuple[int, ...]] | None:
    """Return the best of these choices: trimmed, then all at once, or halves of one cut's tiles where they are many."""
    left = _trimmed(question, choices, limit)
    if left is None:
        return None
    if prod(len(own) for own in left) <= TUNING.most_choices:
        return _best_of_all(question, left, limit)
    longest = max(range(len(left)), key=lambda cut: len(left[cut]))
    half = len(left[longest]) // 2
    best = None
    for own in (left[longest][half:], left[longest][:half]):
        found = _best_choice(question, [*left[:longest], own, *left[longest + 1 :]], limit)
        if found is not None:
            best, limit = found, found[0]
    return best


def _trimmed(question: _Question, choices: _Choices, limit: int) -> _Choices | None:
    """Return the tiles that may be part of a choice below the limit (None: there is none)."""
    left, visits = list(choices), question.visits
    while True:
        before = [len(own) for own in left]
        for room in question.rooms:
            if not _is_trimmed_by(room, left):
                return None
        slack = limit - question.fixed - sum(v // own[-1] for v, own in zip(visits, left, strict=True))
        if slack <= 0:
            return None
        for cut, (v, own) in enumerate(zip(visits, left, strict=True)):
            most = slack + v // own[-1]
            left[cut] = tuple(t for t in own if v // t < most)
        for outer, inner in question.order.nested:
            least, most = left[inner][0], left[outer][-1]
            left[outer] = tuple(t for t in left[outer] if t >= least)
            left[inner] = tuple(t for t in left[inner] if t <= most)
            if not left[outer] or not left[inner]:
                return None
        if before == [len(own) for own in left]:
            return left


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
            left[cut] = tuple(t for t in left[cut] if t <= most)
    return True


def _best_of_all(question: _Question, choices: _Choices, limit: int) -> tuple[int, tuple[int, ...]] | None:
    """Return the best of all choices, looked at side by side."""
    if not choices:
        return (question.fixed, ()) if question.fixed < limit else None
    grid = np.ix_(*(np.array(own, dtype=np.int64) for own in choices))
    total: NDArray[np.int64] = np.full((1,) * len(choices), question.fixed, dtype=np.int64)
    for v, axis in zip(question.visits, grid, strict=True):
        total = total + v // axis
    ok = total < limit
    for room in question.rooms:
        taken: NDArray[np.int64] | int = 0
        for bits, cuts in room.nodes:
            own: NDArray[np.int64] | int = bits
            for cut in cuts:
                own = own * grid[cut]
            taken = taken + own
        ok = ok & (taken <= room.usable)
    for outer, inner in question.order.nested:
        ok = ok & (grid[outer] % grid[inner] == 0)
    if not ok.any():
        return None
    place = int(np.argmin(np.where(ok, total, limit)))
    index = np.unravel_index(place, ok.shape)
    return int(total[index]), tuple(own[int(i)] for own, i in zip(choices, index, strict=True))
