"""Windows of a written tensor below fan-outs: which elements stay at a carry, and what happened to them before.

Where no loop over the window's own dims is spread, an element is held by the one sibling or not at all, and stays what
it is over the steps at which the first and the last tile have it. Otherwise the steps of the window are written out
(`window_tables`), once per distinct chain of tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from typing import NamedTuple

import numpy as np

from polymap.costmodel.closed_form import TEMPORAL, Axes, Axis, Chain, Cut, Cuts, Loop, Part, WindowKind, window_table
from polymap.costmodel.tables.digits import Digit
from polymap.costmodel.tables.factors import OfWindow, digits_of_axes, one_by_one
from polymap.costmodel.tables.loops import Booleans, Integers, Many, quotient
from polymap.costmodel.tables.window_histories import Carry, is_tabled, window_tables


class Ask(NamedTuple):
    """stays, enters: whether an element may be dropped, or taken, by a sibling. place: where given, the last change
    before must have come with a loop outside of this column; starts: or with this one, and a sibling started at it."""

    stops: bool
    starts: bool
    place: int | None = None
    started: bool = False

    def approves(self, kind: WindowKind) -> bool:
        if (kind.stops and not self.stops) or (kind.starts and not self.starts):
            return False
        if self.started:
            return kind.place == self.place and kind.started
        return self.place is None or kind.place < self.place


def is_spread(axes: Axes) -> bool:
    """Return whether siblings hold an element of a window through different offsets."""
    return any(part is not Part.TIME and part is not Part.FREE for _, _, chain in axes for _, part, _ in chain)


@dataclass(frozen=True, slots=True)
class WindowWhole(OfWindow):
    """Elements that any of the compared siblings holds, over all steps."""

    carries: tuple[Carry, ...]

    def count(self, tiles: Sequence[Integers]) -> Many:
        columns = tuple(column for _, _, chain in self.axes for column, _, _ in chain)
        if tiles and is_tabled(self.axes):
            return window_tables(self.axes, digits_of_axes(self.axes, tiles), columns, self.carries).whole
        return one_by_one(lambda axes: _written_out(axes, columns, self.carries)[0], self.axes, tiles)


@dataclass(frozen=True, slots=True)
class WindowStays(OfWindow):
    """Elements and steps of a carry that one asks for. cuts: of the window's dims at it. carries: all of the tree."""

    carries: tuple[Carry, ...]
    carry: Carry
    cuts: Cuts
    ask: Ask

    def count(self, tiles: Sequence[Integers]) -> Many:
        columns = tuple(column for _, _, chain in self.axes for column, _, _ in chain)
        if tiles and is_spread(self.axes) and is_tabled(self.axes):
            table = window_tables(self.axes, digits_of_axes(self.axes, tiles), columns, self.carries)
            approved = (often for kind, often in table.kinds[self.carry].items() if self.ask.approves(kind))
            return sum(approved, np.zeros(len(tiles[0]), dtype=np.int64))
        count = partial(_of_one, columns=columns, carries=self.carries, carry=self.carry, ask=self.ask)
        if not tiles or not self._is_in_reach():
            return one_by_one(count, self.axes, tiles)
        digits = digits_of_axes(self.axes, tiles)
        values, wrong = np.broadcast_arrays(*self._held(digits), tiles[0])[:2]
        if wrong.any():
            values = values.copy()
            values[wrong] = one_by_one(count, self.axes, [tile[wrong] for tile in tiles])
        return values

    def _is_in_reach(self) -> bool:
        factors = [abs(factor) for factor, _, _ in self.axes]
        timed = all(part is Part.TIME for _, _, chain in self.axes for _, part, _ in chain)
        return len(factors) == 2 and min(factors) == 1 and timed

    def _held(self, digits: Sequence[Sequence[Digit]]) -> tuple[Many, Booleans]:
        """Return the values, and where they do not hold."""
        place = self.ask.place
        if place is None or not self.ask.started:
            return _held_since(self.axes, digits, self.cuts, place)
        later = [column for _, _, chain in self.axes for column, _, _ in chain if column > place]
        whole, odd = _held_since(self.axes, digits, self.cuts, min(later, default=None))
        inside, wrong = _held_since(self.axes, digits, self.cuts, place)
        return whole - inside, odd | wrong


@lru_cache(maxsize=1 << 14)
def _written_out(
    axes: Axes, columns: tuple[int, ...], carries: tuple[Carry, ...]
) -> tuple[int, dict[Carry, list[WindowKind]]]:
    """Return the elements that siblings hold over all steps, and the kinds of elements at each carry."""
    left = iter(columns)
    table = window_table(
        tuple(
            Axis(factor, extent, chain, tuple(Loop(0, tile, 0, TEMPORAL, next(left)) for tile, _, _ in chain))
            for factor, extent, chain in axes
        )
    )
    return table.whole(), {carry: table.kinds(carry[0], moved=carry[1]) for carry in carries}


def _of_one(axes: Axes, columns: tuple[int, ...], carries: tuple[Carry, ...], carry: Carry, ask: Ask) -> int:
    _, kinds = _written_out(axes, columns, carries)
    return sum(kind.often for kind in kinds[carry] if ask.approves(kind))


class Run(NamedTuple):
    """Steps of one dim: how often, the length now, and of the first and the last tile before that count the length and
    how much lower they lay."""

    often: Many
    now: Many
    first: Many
    first_rise: Many
    last: Many
    last_rise: Many


def _held_since(
    axes: Axes, digits: Sequence[Sequence[Digit]], cuts: Sequence[Cut], place: int | None
) -> tuple[Many, Booleans]:
    """Return how many elements a carry keeps that were held ever since the loops from a column on started again (None:
    that were held just before), and where that is not so: tiles with gaps."""
    total: Many = 0
    wrong: Booleans = np.zeros(1, dtype=np.bool_)
    per_dim = [
        _runs(extent, chain, each, cut, place) for (_, extent, chain), each, cut in zip(axes, digits, cuts, strict=True)
    ]
    steep = 0 if abs(axes[0][0]) > 1 else 1
    stride = abs(axes[steep][0])
    for runs in product(*per_dim):
        low: Many = 0
        high: Many = 1
        low_before: Many = 0
        high_before: Many = 1
        often: Many = 1
        for (factor, _, _), run in zip(axes, runs, strict=True):
            often = often * run.often
            ends = (factor * (run.now - 1), factor * (run.first - 1 - run.first_rise), -factor * run.last_rise)
            if factor > 0:
                high, low_before, high_before = high + ends[0], low_before + ends[2], high_before + ends[1]
            else:
                low, low_before, high_before = low + ends[0], low_before + ends[1], high_before + ends[2]
        kept = np.minimum(high, high_before) - np.maximum(low, low_before)
        total = total + often * np.maximum(kept, 0)
        if stride > 1:
            many, across = runs[steep], runs[1 - steep]
            short = np.minimum(np.minimum(across.now, across.first), across.last) < stride
            gaps = np.maximum(np.maximum(many.now, many.first), many.last) > 1
            wrong = wrong | (short & gaps & np.greater(often, 0))
    return total, wrong


def _runs(extent: int, chain: Chain, digits: Sequence[Digit], cut: Cut, place: int | None) -> list[Run]:
    """Return the steps of one dim of TIME loops."""
    found = [Run(1, extent, extent, 0, extent, 0)]
    outside = cut.outside
    for (column, _, _), (tile, _, _) in zip(chain, digits, strict=True):
        following: list[Run] = []
        for run in found:
            whole = quotient(run.now, tile)
            rest = run.now - whole * tile
            if outside > 0:
                following.append(Run(run.often * whole, tile, tile, 0, tile, 0))
                following.append(Run(run.often * (rest > 0), rest, rest, 0, rest, 0))
            elif outside == 0 and cut.moved:
                following.append(Run(run.often * np.maximum(whole - 1, 0), tile, tile, tile, tile, tile))
                following.append(Run(run.often * ((rest > 0) & (whole > 0)), rest, tile, tile, tile, tile))
            else:
                shift = (quotient(run.last + (tile - 1), tile) - 1) * tile
                last, rise = run.last - shift, run.last_rise - shift
                swept = place is not None and column >= place
                first, first_rise = (np.minimum(run.first, tile), run.first_rise) if swept else (last, rise)
                following.append(Run(run.often, np.minimum(run.now, tile), first, first_rise, last, rise))
        outside -= 1
        found = following
    return found
