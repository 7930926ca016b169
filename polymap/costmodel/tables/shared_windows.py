"""Windows of a written tensor below fan-outs: the elements that stay at a carry, by their history before it.

Where no loop over the window's own dims is spatial, one sibling holds an element or none does. Then an element stays
over a range of steps if both the first and the last tile of the range contain it. Otherwise the steps of the window are
listed (`window_tables`), once per distinct chain of tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from polymap.costmodel.closed_form import (
    Ask,
    Axes,
    Carry,
    CarryPlace,
    Cuts,
    Loops,
    Part,
    elements_held_by_any,
    elements_staying,
    is_spread,
)
from polymap.costmodel.tables.digits import Digit
from polymap.costmodel.tables.factors import OfWindow, count_row_by_row, digits_of_axes
from polymap.costmodel.tables.loops import Booleans, Integers, Many, quotient
from polymap.costmodel.tables.window_histories import is_tabled, window_tables


@dataclass(frozen=True, slots=True)
class WindowWhole(OfWindow):
    """Elements that at least one of the compared siblings holds, summed over steps."""

    loops: Loops
    carries: tuple[Carry, ...]

    def count(self, tiles: Sequence[Integers]) -> Many:
        if tiles and is_tabled(self.axes):
            return window_tables(
                self.axes, digits_of_axes(self.axes, tiles), self.loops, self.carries
            ).elements_held_by_any
        return count_row_by_row(partial(elements_held_by_any, loops=self.loops), self.axes, tiles)


@dataclass(frozen=True, slots=True)
class WindowStays(OfWindow):
    """Pairs (element, step of a carry) that `ask` accepts. cuts: of the window's dims. carries: all of the tree."""

    loops: Loops
    carries: tuple[Carry, ...]
    carry: Carry
    cuts: Cuts
    ask: Ask

    def count(self, tiles: Sequence[Integers]) -> Many:
        if not tiles or self.ask.visit or is_spread(self.axes) or not self._is_in_reach():
            return self._count_points(tiles)
        digits = digits_of_axes(self.axes, tiles)
        values, unknown = np.broadcast_arrays(*self._staying_elements(digits), tiles[0])[:2]
        if unknown.any():
            values = values.copy()
            values[unknown] = self._count_points([tile[unknown] for tile in tiles])
        return values

    def _count_points(self, tiles: Sequence[Integers]) -> Many:
        """Return the values from the points of the window's box: for all rows at once, or one by one."""
        if not tiles or self.ask.visit or not is_tabled(self.axes):
            count = partial(elements_staying, loops=self.loops, carry=self.carry, ask=self.ask)
            return count_row_by_row(count, self.axes, tiles)
        table = window_tables(self.axes, digits_of_axes(self.axes, tiles), self.loops, self.carries)
        approved = (often for kind, often in table.kinds[self.carry].items() if self.ask.approves(kind))
        return sum(approved, np.zeros(len(tiles[0]), dtype=np.int64))

    def _is_in_reach(self) -> bool:
        factors = [abs(factor) for factor, _, _ in self.axes]
        timed = all(part is Part.TIME for _, _, chain in self.axes for _, part, _ in chain)
        return len(factors) == 2 and min(factors) == 1 and timed

    def _staying_elements(self, digits: Sequence[Sequence[Digit]]) -> tuple[Many, Booleans]:
        """Return the values, and a mask of the rows for which they do not hold."""
        place = self.ask.place
        if place is None or not self.ask.started:
            return self._staying_since(digits, place)
        later = [position for loops in self.loops for position in loops if position > place]
        since_later, odd = self._staying_since(digits, min(later, default=None))
        inside, unknown = self._staying_since(digits, place)
        return since_later - inside, odd | unknown

    def _staying_since(self, digits: Sequence[Sequence[Digit]], place: int | None) -> tuple[Many, Booleans]:
        """Return the elements that the carry keeps and that were held since the loops from position `place` on
        restarted.

        None: that were held in the step before. Also return a mask of the rows without an answer: tiles with gaps.
        """
        per_dim = [
            _runs(extent, loops, each, cut, place)
            for (_, extent, _), loops, each, cut in zip(self.axes, self.loops, digits, self.cuts, strict=True)
        ]
        return _common_elements(self.axes, per_dim)


class Run(NamedTuple):
    """Steps of one dim. often: their number. now: the length at the step. first, last: the lengths of the first and the
    last tile of the range before it. first_rise, last_rise: by how much lower these begin."""

    often: Many
    now: Many
    first: Many
    first_rise: Many
    last: Many
    last_rise: Many


def _common_elements(axes: Axes, per_dim: Sequence[Sequence[Run]]) -> tuple[Many, Booleans]:
    """Return the elements that this tile and both earlier ones share, and a mask of the rows without an answer
    (gaps)."""
    total: Many = 0
    unknown: Booleans = np.zeros(1, dtype=np.bool_)
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
            unknown = unknown | (short & gaps & np.greater(often, 0))
    return total, unknown


def _runs(extent: int, loops: Sequence[int], digits: Sequence[Digit], cut: CarryPlace, place: int | None) -> list[Run]:
    """Return the steps of one dim of TIME loops."""
    found = [Run(1, extent, extent, 0, extent, 0)]
    outside = cut.outside
    for position, (tile, _, _) in zip(loops, digits, strict=True):
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
                swept = place is not None and position >= place
                first, first_rise = (np.minimum(run.first, tile), run.first_rise) if swept else (last, rise)
                following.append(Run(run.often, np.minimum(run.now, tile), first, first_rise, last, rise))
        outside -= 1
        found = following
    return found
