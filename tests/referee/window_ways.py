"""The fewest words that a pair of statements with a window between them moves through one buffer where the rows between
are kept, made again, or fetched again: each way written out in sets of elements.

It shares nothing with the search. T[.., y] is made row by row (`y`) and read at rows `step * v + a`. Legs: every order
of a statement's loops, all of tile 1, and for each tensor a place among them where it is held, whole, as it stands
below. What a tile shares with the one before stays. Loops around both legs run over tiles of v; tensors that lack v may
be held around them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product
from math import inf

Point = dict[str, int]
Ranges = tuple[tuple[str, int, int], ...]  # dim, first, end
Index = Callable[[Point], tuple[int, ...]]


@dataclass(frozen=True)
class Leg:
    """A statement: its dims, the tensors that it reads with what indexes them, and the one that it adds to."""

    dims: str
    reads: tuple[tuple[str, Index], ...]
    writes: tuple[str, Index]


@dataclass(frozen=True)
class Pair:
    """T is made by the first leg over y, and read by the second one at rows step * v + a, so many of them (taps)."""

    first: Leg
    second: Leg
    step: int
    taps: int
    sizes: tuple[tuple[str, int], ...]


def least_words(pair: Pair, room: int) -> dict[str, float]:
    """Return the fewest words by way: kept, again, fetched, lines; inf where there is no room."""
    sizes = dict(pair.sizes)
    whole = tuple((name, 0, many) for name, many in pair.sizes)
    size = len(_elements(pair.first.writes[1], _of(pair.first, whole)))
    kept = [_leg(each, whole, room - size, frozenset("T")) for each in (pair.first, pair.second)]
    fetched = [_leg(each, whole, room, frozenset()) for each in (pair.first, pair.second)]
    tiles = [tile for tile in range(1, sizes["v"]) if sizes["v"] % tile == 0]
    again = min((_in_tiles(pair, tile, room, is_again=True) for tile in tiles), default=inf)
    lines = _in_tiles(pair, 1, room, is_again=False) if pair.taps > pair.step else inf
    return {"kept": sum(kept), "fetched": sum(fetched), "again": again, "lines": lines}


def _in_tiles(pair: Pair, tile: int, room: int, *, is_again: bool) -> float:
    """Return the fewest words where each iteration makes the rows of T that a tile of v needs, all or those that are
    new; these before the first iteration pass outside. held: tensors around the loop."""
    sizes, best = dict(pair.sizes), inf
    names = [name for leg in (pair.first, pair.second) for name, _ in (*leg.reads, leg.writes) if name != "T"]
    lacking = [name for name in names if not _moves(pair, name)]
    shared = pair.taps - pair.step
    for held in (
        frozenset(name for name, on in zip(lacking, chosen, strict=True) if on) for chosen in _choices(lacking)
    ):
        words, left = 0.0, room
        for leg in (pair.first, pair.second):
            for name, index in leg.reads:
                if name in held:
                    many = len(_elements(index, _of(leg, tuple((n, 0, e) for n, e in pair.sizes))))
                    words, left = words + many, left - many
        for begin in range(0, sizes["v"], tile):
            low, high = pair.step * begin, pair.step * (begin + tile - 1) + pair.taps
            need = tuple((n, low, high) if n == "y" else (n, 0, e) for n, e in pair.sizes)
            size = len(_elements(pair.first.writes[1], _of(pair.first, need)))
            made = tuple(
                (n, low + (0 if is_again else shared), high) if n == "y" else each for each in need for n in each[:1]
            )
            ends = tuple((n, begin, begin + tile) if n == "v" else (n, 0, e) for n, e in pair.sizes)
            words += _leg(pair.first, made, left - size, held | {"T"}) + _leg(
                pair.second, ends, left - size, held | {"T"}
            )
        if not is_again:
            ahead = tuple((n, 0, shared) if n == "y" else (n, 0, e) for n, e in pair.sizes)
            words += _leg(pair.first, ahead, room, frozenset()) + len(
                _elements(pair.first.writes[1], _of(pair.first, ahead))
            )
        best = min(best, words)
    return best


def _choices(names: Sequence[str]) -> Iterator[tuple[bool, ...]]:
    return product((False, True), repeat=len(names))


def _moves(pair: Pair, name: str) -> bool:
    """Return whether other rows touch other elements of a tensor, or it is written."""
    for leg, row in ((pair.first, "y"), (pair.second, "v")):
        for one, index in leg.reads:
            zero = dict.fromkeys(leg.dims, 0)
            if one == name and index(zero) != index(zero | {row: 1}):
                return True
        if leg.writes[0] == name:
            return True
    return False


def _of(leg: Leg, ranges: Ranges) -> Ranges:
    return tuple(each for each in ranges if each[0] in leg.dims)


@cache
def _elements(index: Index, ranges: Ranges) -> frozenset[tuple[int, ...]]:
    names = [name for name, _, _ in ranges]
    points = product(*(range(first, end) for _, first, end in ranges))
    return frozenset(index(dict(zip(names, point, strict=True))) for point in points)


@cache
def _leg(leg: Leg, ranges: Ranges, room: int, given: frozenset[str]) -> float:
    """Return the fewest words of a statement over some ranges through so much room, some tensors given."""
    best = inf
    for order in permutations(_of(leg, ranges)):
        tensors = [(index, name == leg.writes[0]) for name, index in (*leg.reads, leg.writes) if name not in given]
        ways = {0: 0.0}  # words, by room that is taken
        for index, is_written in tensors:
            places = [_held(index, order, depth, is_written) for depth in range(len(order) + 1)]
            sums = [(a + b, words + more) for a, words in ways.items() for b, more in places if a + b <= room]
            ways = {taken: min(words for other, words in sums if other == taken) for taken, _ in sums}
        best = min(best, *ways.values()) if ways else best
    return best


@cache
def _held(index: Index, order: Ranges, depth: int, is_written: bool) -> tuple[int, float]:
    """Return the room that a tensor takes below so many loops, and the words that it moves."""
    outer, inner = order[:depth], order[depth:]
    before, most, entered, seen = frozenset[tuple[int, ...]](), 0, 0, set[tuple[int, ...]]()
    for point in product(*(range(first, end) for _, first, end in outer)):
        own = tuple((name, at, at + 1) for (name, _, _), at in zip(outer, point, strict=True))
        now = _elements(index, (*own, *inner))
        entered, most = entered + len(now - before), max(most, len(now))
        before = now
        seen |= now
    return most, 2 * entered - len(seen) if is_written else entered
