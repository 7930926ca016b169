"""Tiles along one window for many mappings at once: sizes, overlaps, and sums over the kinds of steps.

Where the coefficients are 1 and one other number a, of either sign, a tile is {a x + y : x < many, y < run} up to a
translation, if no loop that it spans is outside of one that chooses it.

`sums` counts windows whose dims have temporal loops with at most one spatial loop inside. If the spatial loop divides,
all siblings that one step compares hold and load translates of the same sets. If siblings differ in more than an offset
(the last is shorter, or inner loops end at other times), their loads are listed (`listed_windows`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from functools import reduce
from itertools import product
from typing import NamedTuple

import numpy as np

from polymap.costmodel.closed_form import Axes, CarryPlace, CountedSteps, Part, Sums, Window
from polymap.costmodel.tables.digits import Digit
from polymap.costmodel.tables.loops import Booleans, Integers, Many, quotient


class StepSum(Enum):
    """What is summed over steps; the values name the sums.

    TILES: elements of distinct tiles. KEPT: elements that siblings keep, each by itself. ROLES: `Sums`.
    """

    TILES = ("tiles",)
    KEPT = ("kept",)
    ROLES = Sums._fields


def sum_size(stride: Many, many: Many, other_stride: Many, other_many: Many) -> Many:
    """Return the number of elements of {0, stride, ...} + {0, other_stride, ...}.

    Two sums are equal if the digits differ by multiples of other_stride / g and stride / g, where g is the greatest
    common divisor. Equal sums form chains, of which all but the least element are counted once too often.
    """
    divisor = np.gcd(stride, other_stride)
    # A chain of length n of equal sums is counted n times: once too often for each of its n - 1 neighbours.
    twice = np.maximum(many - other_stride // divisor, 0) * np.maximum(other_many - stride // divisor, 0)
    return many * other_many - twice


def is_simple(window: Window) -> bool:
    """Return whether a window has two dims, one of them with coefficient 1 or -1."""
    return len(window.terms) == 2 and min(abs(factor) for _, factor in window.terms) == 1


State = tuple[Many, Many, Many, Many]  # how often, the length now, the length before, how much lower the latter lay


class Kind(NamedTuple):
    """Steps of one dim. often: their number times the separately counted instances. now, before: the lengths of the
    tiles. rise: by how much lower the tile before begins. stride, siblings: of the siblings that one step compares."""

    often: Many
    now: Many
    before: Many
    rise: Many
    stride: Many
    siblings: Many

    @property
    def has_siblings(self) -> bool:
        return not isinstance(self.siblings, int)


def steep_coefficient(axes: Axes) -> int | None:
    """Return the coefficient that is not 1 of a window, without sign (1: there is none); None where there are more, or
    no 1."""
    found = {abs(factor) for factor, _, _ in axes}
    return max(found) if 1 in found and len(found) < 3 else None


def is_in_reach(axes: Axes, cuts: Sequence[CarryPlace | None]) -> bool:
    """Return whether `sums` counts a window. cuts: of its dims at a carry; None: over all steps."""
    if steep_coefficient(axes) is None:
        return False
    for (_, _, chain), cut in zip(axes, cuts, strict=True):
        parts = [part for _, part, _ in chain]
        if not {Part.FREE, Part.UNITED}.isdisjoint(parts) or Part.MERGED in parts[:-1]:
            return False
        if cut is None:
            continue
        if any(part is not Part.TIME for part in parts[:-1]):
            return False  # siblings' own TIME loops
        if parts.count(Part.TIME) > cut.outside + cut.moved and parts[-1] in (Part.EACH, Part.MERGED):
            return False  # the instances' inner loops do not end together
    return sum(part is Part.MERGED for _, _, chain in axes for _, part, _ in chain) < 3


def kinds_of(
    extent: int, digits: Sequence[Digit], cut: CarryPlace | None, counted: CountedSteps
) -> tuple[list[Kind], Many]:
    """Return the kinds of steps of one dim, and 1 where the last of the compared siblings is shorter."""
    states: list[State] = [(1, extent, extent, 0)]
    outside = len(digits) if cut is None else cut.outside
    moved = cut is not None and cut.moved
    need: Many = 0
    if digits and digits[-1].part is Part.PINNED and counted is CountedSteps.OWN:
        need = digits[-1].pin * digits[-1].tile
    for tile, part, pin in digits:
        if part is Part.TIME:
            states = list(states_below(states, tile, CarryPlace(outside, moved), need))
            outside -= 1
        elif part is Part.PINNED:
            states = [state_of_pin(state, tile, pin) for state in states]
        elif part is Part.MERGED:
            rests = [np.where(often > 0, now - quotient(now, tile) * tile, 0) for often, now, _, _ in states]
            kinds = [Kind(often, tile, tile, rise, tile, quotient(now, tile)) for often, now, _, rise in states]
            return kinds, np.logical_or.reduce([rest > 0 for rest in rests])
        elif cut is None:
            states = list(states_below(states, tile, CarryPlace(1, moved=False)))
        else:
            return [kind for state in states for kind in _each(state, tile)], 0
    return [Kind(*state, 0, 1) for state in states], 0


def states_below(states: Sequence[State], tile: Integers, cut: CarryPlace, need: Many = 0) -> Iterator[State]:
    """Yield the states below a TIME loop. The cut counts from here, and is negative inside the carry.

    need: the instance's offset further in, which the tile before reached.
    """
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
            last = quotient(before - need + (tile - 1), tile) - 1
            yield often, np.minimum(now, tile), np.minimum(before - last * tile, tile), rise - last * tile
    if cut.outside > 0:
        yield full, tile, tile, 0


def _each(state: State, tile: Integers) -> Iterator[Kind]:
    """Yield the kinds of separately counted instances along a spatial loop: full tiles, and the rest."""
    often, now, before, rise = state
    whole = quotient(now, tile)
    rest = now - whole * tile
    yield Kind(often * whole, tile, tile, rise, 0, 1)
    yield Kind(often * (rest > 0), rest, np.minimum(before - whole * tile, tile), rise, 0, 1)


def state_of_pin(state: State, tile: Integers, pin: Many) -> State:
    """Return the state below one digit. The length before is not positive where the instance was idle."""
    often, now, before, rise = state
    rest = now - pin * tile
    return often * (rest > 0), np.minimum(rest, tile), np.minimum(before - pin * tile, tile), rise


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
    """Return the tile of a window. lengths: of the dims' index sets, which begin at 0."""
    low, many, run = offset, 1, 1
    stride = max(abs(factor) for factor, _, _ in axes)
    for (factor, _, _), length in zip(axes, lengths, strict=True):
        if factor < 0:
            low = low + factor * (length - 1)
        if abs(factor) > 1:
            many = many + (length - 1)
        else:
            run = run + (length - 1)
    return Tile(low, stride, many, run)


def shared_elements(one: Tile, other: Tile) -> tuple[Many, Booleans]:
    """Return the number of elements that two tiles share, and a mask of the rows without an answer (tiles with
    gaps)."""
    shift = other.low - one.low
    solid = _interval_overlap(shift, one.length, other.length)
    if one.stride == 1:
        return solid, np.zeros(1, dtype=np.bool_)
    whole = np.floor_divide(shift, one.stride)
    rest = shift - whole * one.stride
    gaps = _interval_overlap(whole, one.many, other.many) * _interval_overlap(
        rest, one.run, other.run
    ) + _interval_overlap(whole + 1, one.many, other.many) * _interval_overlap(rest - one.stride, one.run, other.run)
    return np.where(one.solid, solid, gaps), one.solid != other.solid


def _interval_overlap(shift: Many, one: Many, other: Many) -> Many:
    """Return the size of the intersection of [0, one) and [shift, shift + other)."""
    return np.maximum(np.minimum(one, shift + other) - np.maximum(shift, 0), 0)


def sums(
    axes: Axes,
    digits: Sequence[Sequence[Digit]],
    cuts: Sequence[CarryPlace | None],
    summed: StepSum,
    counted: CountedSteps,
) -> tuple[list[Many], Booleans]:
    """Return sums over steps, and a mask of the mappings for which they do not hold."""
    total: list[Many] = [0] * len(summed.value)
    unknown: Booleans = np.zeros(1, dtype=np.bool_)
    per_dim: list[list[Kind]] = []
    for (_, extent, _), each, cut in zip(axes, digits, cuts, strict=True):
        kinds, uneven = kinds_of(extent, each, cut, counted)
        per_dim.append([kind for kind in kinds if np.any(kind.often)])
        unknown = unknown | np.asarray(uneven, dtype=np.bool_)
    for kinds in product(*per_dim):
        tile = tile_at(axes, [kind.now for kind in kinds], 0)
        rise: Many = 0
        often = _offsets(axes, kinds)
        for (factor, _, _), kind in zip(axes, kinds, strict=True):
            rise = rise - factor * kind.rise
            often = often * kind.often
        kept, odd = shared_elements(tile, tile_at(axes, [kind.before for kind in kinds], rise))
        if counted is CountedSteps.MACHINE:
            kept = kept * reduce(np.logical_and, (np.greater(kind.before, 0) for kind in kinds))
        unknown = unknown | (odd & (often != 0))
        total = [sum_ + each for sum_, each in zip(total, _of_equal_tiles(summed, tile.size, kept, often), strict=True)]
    return total, unknown


def _of_equal_tiles(summed: StepSum, size: Many, kept: Many, often: Many) -> tuple[Many, ...]:
    """Return what steps add to the sums at which distinct tiles of one size keep `kept` elements each."""
    if summed is StepSum.TILES:
        return (often * size,)
    if summed is StepSum.KEPT:
        return (often * kept,)
    all_kept = often * np.equal(kept, size) * size
    part = often * ((kept > 0) & (kept < size))
    in_part = part * size
    return Sums[Many](
        held=all_kept + in_part,
        pairs_held=in_part,
        pairs_kept=part * kept,
        all_kept=all_kept,
        new=part * (size - kept),  # smaller than the tiles, so that none of them is one
        part=in_part,
        part_and_new=0,
        kept=all_kept,
        kept_and_new=0,
        whole=0,
        whole_and_kept=0,
    )


def _offsets(axes: Axes, kinds: tuple[Kind, ...]) -> Many:
    """Return the number of different offsets of the siblings that one step compares."""
    spread = [(abs(factor), kind) for (factor, _, _), kind in zip(axes, kinds, strict=True) if kind.has_siblings]
    if len(spread) < 2:
        return spread[0][1].siblings if spread else 1
    (one, kind), (other, other_kind) = spread
    return sum_size(one * kind.stride, kind.siblings, other * other_kind.stride, other_kind.siblings)


def first_size(axes: Axes, digits: Sequence[Sequence[Digit]]) -> Many:
    """Return the elements of the first tile of the first instance; no loop may be FREE."""
    lengths: list[Many] = []
    for (_, extent, _), each in zip(axes, digits, strict=True):
        length: Many = extent
        for tile, _, _ in each:
            length = np.minimum(length, tile)
        lengths.append(length)
    return tile_at(axes, lengths, 0).size
