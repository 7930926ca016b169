"""What parents read for the loads of a read-only tensor with windows: distinct messages, where tiles need not divide.

A load is the tile without what the instance kept: a product over singles and windows of tiles, less the product of the
kept parts. docs/closed_form.md says when two such loads are equal.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

from polymap.arithmetic import Placed, Shape, same, too_large
from polymap.costmodel.closed_form.carries import Axes
from polymap.costmodel.closed_form.digits import Clock
from polymap.costmodel.closed_form.window_sums import (
    Cuts,
    Load,
    classes,
    distinct_news,
    distinct_pairs,
    distinct_tiles,
    loads,
)

_MAX_LISTED = 100_000

Step = tuple[int, list[Load]]  # how often, and what the siblings load


@lru_cache(maxsize=1 << 14)
def distinct_elements(axes: Axes) -> int:
    """Return the elements of the distinct tiles of siblings along one window, over all steps."""
    return sum(
        times * distinct_tiles(loads(axes, siblings, whole=True)) for times, siblings in classes(axes, None, Clock.OWN)
    )


@lru_cache(maxsize=1 << 14)
def elements_not_read(windows: tuple[Axes, ...], cuts: tuple[Cuts, ...]) -> int:
    """Return how many elements fewer than those of the distinct tiles are read, over the windows' steps of one carry
    at which everything else stands still."""
    steps = [_steps(axes, cut) for axes, cut in zip(windows, cuts, strict=True)]
    if len(steps) == 1:
        return _sums(steps[0]).unread
    return _by_kind([_sums(per_window) for per_window in steps]) + _listed(steps)


def _steps(axes: Axes, cuts: Cuts) -> list[Step]:
    """Return the kinds of steps of one window at one carry."""
    return [(times, loads(axes, siblings, whole=False)) for times, siblings in classes(axes, cuts, Clock.OWN)]


class Sums(NamedTuple):
    """One window's elements over the steps of one carry. kept: of distinct tiles, where all siblings keep all. part:
    the same where all keep a part; news: what is loaded then, each distinct set once; tiles, rest: elements held, and
    of them those kept, of the distinct pairs of both. mixed: steps at which siblings differ in this."""

    kept: int
    part: int
    news: int
    tiles: int
    rest: int
    mixed: int
    unread: int


@lru_cache(maxsize=1 << 12)
def sums_of_window(axes: Axes, cuts: Cuts) -> Sums:
    """Return the sums that say, where nothing is mixed, what several windows together leave unread (`_by_kind`)."""
    return _sums(_steps(axes, cuts))


def _kind(found: list[Load]) -> str:
    """Return "kept" (nothing is loaded), "whole", "part", or "mixed" where siblings differ."""
    kinds = {"kept" if load.new is None else "whole" if load.is_whole else "part" for load in found}
    return kinds.pop() if len(kinds) == 1 else "mixed"


def _sums(steps: list[Step]) -> Sums:
    kept = part = news = pair_tiles = pair_kept = mixed = unread = 0
    for times, found in steps:
        kind = _kind(found)
        if kind == "whole":
            continue
        held = times * distinct_tiles(found)
        loaded = times * distinct_news(found)
        unread += held - loaded
        if kind == "kept":
            kept += held
        elif kind == "part":
            part += held
            news += loaded
            tiles, rest = distinct_pairs(found)
            pair_tiles += times * tiles
            pair_kept += times * rest
        else:
            mixed += times
    return Sums(kept, part, news, pair_tiles, pair_kept, mixed, unread)


def _by_kind(windows: list[Sums]) -> int:
    """Return the elements not read at steps at which along each window all siblings keep all, or all keep a part."""
    total = 0
    for kinds in product(("kept", "part"), repeat=len(windows)):
        kept = prod(sums.kept for sums, kind in zip(windows, kinds, strict=True) if kind == "kept")
        parts = [sums for sums, kind in zip(windows, kinds, strict=True) if kind == "part"]
        if len(parts) == 1:
            total -= kept * parts[0].news
        elif len(parts) > 1:
            total -= kept * (prod(sums.tiles for sums in parts) - prod(sums.rest for sums in parts))
        total += kept * prod(sums.part for sums in parts)
    return total


def _listed(steps: list[list[Step]]) -> int:
    """Return the same for steps at which along some window the siblings differ in kind: loads are listed and compared
    one by one."""
    total = 0
    for combination in product(*steps):
        if all(_kind(found) != "mixed" for _, found in combination):
            continue
        times = prod(count for count, _ in combination)
        known: list[Shape] = []
        siblings = [_one_by_one(found, known) for _, found in combination]
        if prod(len(each) for each in siblings) > _MAX_LISTED:
            raise too_large()
        read = {_load(parts) for parts in product(*siblings)}
        total += times * (prod(distinct_tiles(found) for _, found in combination) - sum(size for size, *_ in read))
    return total


Part = tuple[Placed, Placed | None]  # tile, and what of it is new


def _one_by_one(found: list[Load], known: list[Shape]) -> set[Part]:
    """Return what each sibling holds and loads. known: shapes seen so far, one for all forms of a set."""
    listed: set[Part] = set()
    for load in found:
        if prod(many for _, many in load.runs) > _MAX_LISTED:
            raise too_large()
        tile = _known(load.tile.shape, known)
        part = None if load.new is None else _known(load.new.shape, known)
        for digits in product(*(range(many) for _, many in load.runs)):
            at = load.base + sum(digit * stride for digit, (stride, _) in zip(digits, load.runs, strict=True))
            new = None if load.new is None or part is None else Placed(load.new.low + at, part)
            listed.add((Placed(load.tile.low + at, tile), new))
    return listed


def _known(shape: Shape, known: list[Shape]) -> Shape:
    """Return the shape first seen for a set."""
    for other in known:
        if same(Placed(0, other), Placed(0, shape)):
            return other
    known.append(shape)
    return shape


def _load(parts: tuple[Part, ...]) -> tuple[int, tuple[Part | Placed, ...]]:
    """Return (size, what tells it from other loads) of one sibling's load."""
    tiles = tuple(tile for tile, _ in parts)
    size = prod(tile.size for tile in tiles)
    changing = [number for number, (tile, new) in enumerate(parts) if new is None or new.size < tile.size]
    part = [number for number in changing if parts[number][1] is not None]
    if len(changing) < len(parts):  # along some window all is new: the load is the whole tile
        return size, tiles
    if not part:
        return 0, ()
    if len(part) == 1:
        new = parts[part[0]][1]
        assert new is not None
        box = tuple(new if number == part[0] else tile for number, tile in enumerate(tiles))
        return prod(side.size for side in box), box
    kept = prod(tile.size - (new.size if new is not None else 0) for tile, new in parts)
    return size - kept, parts
