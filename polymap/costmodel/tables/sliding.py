"""Sums over the kinds of steps of one window of two dims, for many mappings at once: `window_sums` on arrays.

In reach is a window with a coefficient 1 or -1 whose dims have temporal loops and inside them at most one spatial loop:
then all siblings that one step compares hold and load the same but for an offset, as long as the spatial loop divides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from polymap.costmodel.closed_form import Axes, Cut, Part, Sums
from polymap.costmodel.tables.digits import Digit
from polymap.costmodel.tables.loops import Booleans, Integers, Many, quotient
from polymap.costmodel.tables.windows import sum_size


class Kind(NamedTuple):
    """Steps of one dim. often: how many, instances that count on their own included. now, before: the lengths of the
    tiles. rise: how much lower the tile before lay. stride, siblings: of those that one step compares."""

    often: Many
    now: Many
    before: Many
    rise: Many
    stride: Many
    siblings: Many


def is_in_reach(axes: Axes, cuts: Sequence[Cut | None]) -> bool:
    """Return whether arrays count a window; cuts: of its dims at a carry, None: for all steps."""
    if len(axes) != 2 or min(abs(factor) for factor, _, _ in axes) != 1:
        return False
    for (_, _, chain), cut in zip(axes, cuts, strict=True):
        parts = [part for _, part, _ in chain]
        times = parts.count(Part.TIME)
        if parts[:times].count(Part.TIME) < times or len(parts) > times + 1:
            return False
        if parts[times:] in ([Part.FREE], [Part.UNITED]):
            return False
        if parts[times:] and cut is not None and times > cut.outside + cut.moved:
            return False  # the instances' inner loops do not end together
    return True


def kinds_of(extent: int, digits: Sequence[Digit], cut: Cut | None) -> tuple[list[Kind], Many]:
    """Return the kinds of steps of one dim, and 1 where the last of the siblings that are compared is shorter."""
    states: list[tuple[Many, Many, Many, Many]] = [(1, extent, extent, 0)]  # how many, now, before, rise
    outside = len(digits) if cut is None else cut.outside
    for tile, part, pin in digits:
        if part is Part.TIME:
            states = list(_timed(states, tile, Cut(outside, cut is not None and cut.moved)))
            outside -= 1
            continue
        if part is Part.MERGED:
            rests = [np.where(often > 0, now - quotient(now, tile) * tile, 0) for often, now, _, _ in states]
            kinds = [Kind(often, tile, tile, rise, tile, quotient(now, tile)) for often, now, _, rise in states]
            return kinds, np.logical_or.reduce([rest > 0 for rest in rests])
        if part is Part.PINNED:
            return [_pinned(state, tile, pin) for state in states], 0
        return [kind for state in states for kind in _each(state, tile)], 0
    return [Kind(*state, 0, 1) for state in states], 0


def _timed(
    states: list[tuple[Many, Many, Many, Many]], tile: Integers, cut: Cut
) -> Iterator[tuple[Many, Many, Many, Many]]:
    """Yield the states below a TIME loop; the cut counts from here, and is negative inside the carry."""
    full: Many = 0
    for often, now, before, rise in states:
        whole = quotient(now, tile)
        rest = now - whole * tile
        if cut.outside > 0:  # before is as now
            full = full + often * whole
            yield often * (rest > 0), rest, rest, rise
        elif cut.outside == 0 and cut.moved:
            yield often * np.maximum(whole - 1, 0), tile, tile, tile
            yield often * ((rest > 0) & (whole > 0)), rest, tile, tile
        else:
            last = quotient(before + (tile - 1), tile) - 1
            yield often, np.minimum(now, tile), before - last * tile, rise - last * tile
    if cut.outside > 0:
        yield full, tile, tile, 0


def _each(state: tuple[Many, Many, Many, Many], tile: Integers) -> Iterator[Kind]:
    """Yield the kinds of instances along a spatial loop, each counted on its own: full tiles, and the rest."""
    often, now, before, rise = state
    whole = quotient(now, tile)
    rest = now - whole * tile
    yield Kind(often * whole, tile, tile, rise, 0, 1)
    yield Kind(often * (rest > 0), rest, np.minimum(before - whole * tile, tile), rise, 0, 1)


def _pinned(state: tuple[Many, Many, Many, Many], tile: Integers, pin: Many) -> Kind:
    often, now, before, rise = state
    rest = now - pin * tile
    return Kind(often * (rest > 0), np.minimum(rest, tile), np.minimum(before - pin * tile, tile), rise, 0, 1)


class Tile(NamedTuple):
    """{low + stride x + y : x < many, y < run}; solid: an interval of `length`."""

    low: Many
    stride: int
    many: Many
    run: Many

    @property
    def length(self) -> Many:
        return self.stride * (self.many - 1) + self.run

    @property
    def solid(self) -> Booleans:
        return (self.run >= self.stride) | np.equal(self.many, 1)

    @property
    def size(self) -> Many:
        return self.length if self.stride == 1 else np.where(self.solid, self.length, self.many * self.run)


def tile_at(axes: Axes, lengths: Sequence[Many], offset: Many) -> Tile:
    """Return the tile of a window of two dims, its dims' index sets of these lengths and with offset 0."""
    low: Many = offset
    for (factor, _, _), length in zip(axes, lengths, strict=True):
        if factor < 0:
            low = low + factor * (length - 1)
    one, other = (0, 1) if abs(axes[1][0]) == 1 else (1, 0)
    return Tile(low, abs(axes[one][0]), lengths[one], lengths[other])


def common(one: Tile, other: Tile) -> tuple[Many, Booleans]:
    """Return how many elements two tiles have in common, and where that is not so: an interval and one with gaps."""
    shift = other.low - one.low
    solid = _along(shift, one.length, other.length)
    if one.stride == 1:
        return solid, np.zeros(1, dtype=np.bool_)
    whole = np.floor_divide(shift, one.stride)
    rest = shift - whole * one.stride
    gaps = _along(whole, one.many, other.many) * _along(rest, one.run, other.run) + _along(
        whole + 1, one.many, other.many
    ) * _along(rest - one.stride, one.run, other.run)
    return np.where(one.solid, solid, gaps), one.solid != other.solid


def _along(shift: Many, one: Many, other: Many) -> Many:
    """Return how many of 0 .. one - 1 lie in shift .. shift + other - 1."""
    return np.maximum(np.minimum(one, shift + other) - np.maximum(shift, 0), 0)


def sums(axes: Axes, digits: Sequence[Sequence[Digit]], cuts: Sequence[Cut | None]) -> tuple[dict[str, Many], Booleans]:
    """Return the sums of `Sums` by name, and for which mappings they do not hold."""
    total: dict[str, Many] = dict.fromkeys(Sums._fields, 0)
    wrong: Booleans = np.zeros(1, dtype=np.bool_)
    per_dim: list[list[Kind]] = []
    for (_, extent, _), each, cut in zip(axes, digits, cuts, strict=True):
        kinds, uneven = kinds_of(extent, each, cut)
        per_dim.append(kinds)
        wrong = wrong | np.asarray(uneven, dtype=np.bool_)
    for kinds in product(*per_dim):
        tile = tile_at(axes, [kind.now for kind in kinds], 0)
        rise: Many = 0
        for (factor, _, _), kind in zip(axes, kinds, strict=True):
            rise = rise - factor * kind.rise
        kept, odd = common(tile, tile_at(axes, [kind.before for kind in kinds], rise))
        often = kinds[0].often * kinds[1].often * _offsets(axes, kinds)
        wrong = wrong | (odd & (often != 0))
        _add(total, tile.size, kept, often)
    return total, wrong


def _add(total: dict[str, Many], size: Many, kept: Many, often: Many) -> None:
    """Add steps at which so many distinct tiles of one size keep so much."""
    all_kept = often * np.equal(kept, size)
    part = often * ((kept > 0) & (kept < size))
    for name, value in (
        ("kept", all_kept * size),
        ("part", part * size),
        ("news", part * (size - kept)),
        ("tiles", part * size),
        ("rest", part * kept),
        ("unread", often * kept),
    ):
        total[name] = total[name] + value


def _offsets(axes: Axes, kinds: tuple[Kind, ...]) -> Many:
    """Return how many different offsets the siblings that one step compares have."""
    one, other = kinds
    if isinstance(one.siblings, int) or isinstance(other.siblings, int):
        return one.siblings * other.siblings
    strides = [abs(factor) * np.asarray(kind.stride) for (factor, _, _), kind in zip(axes, kinds, strict=True)]
    return sum_size(strides[0], one.siblings, strides[1], other.siblings)


def first_size(axes: Axes, digits: Sequence[Sequence[Digit]]) -> Many:
    """Return the elements of the first tile of the first instance, no loop being FREE."""
    lengths: list[Many] = []
    for (_, extent, _), each in zip(axes, digits, strict=True):
        length: Many = extent
        for tile, _, _ in each:
            length = np.minimum(length, tile)
        lengths.append(length)
    return tile_at(axes, lengths, 0).size
