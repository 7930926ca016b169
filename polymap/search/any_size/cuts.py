"""Cuts of boxes of mappings: at integer numbers of siblings and integer tiles, preferred by the rise of bounds so
far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import floor, log

import numpy as np

from polymap.poly import FloatArray
from polymap.search.any_size.geometric_programs import Box, BoxPrograms, Ints
from polymap.search.any_size.tuning import TUNING


@dataclass(frozen=True, slots=True)
class BoxCut:
    """A cut of a box in two, at the count of siblings of a (class, dim) or the tile of a (node, dim); the lower part is
    up to `at`.

    below, above: lower bounds on the distance (of the logarithm) by which the parts move the program's point.
    """

    of_counts: bool
    place: tuple[int, int]
    at: int
    below: float
    above: float

    @property
    def key(self) -> tuple[bool, tuple[int, int]]:
        return self.of_counts, self.place


def cuts_of(programs: BoxPrograms, box: Box, point: FloatArray) -> list[BoxCut]:
    """Return the cuts of a box that separate a program's point from both parts, or from one; the farthest first."""
    found = [*_cuts_of_counts(programs, box, point), *_cuts_of_tiles(programs, box, point)]
    found.sort(key=lambda cut: (-min(cut.below, cut.above), -max(cut.below, cut.above), cut.key))
    return found[: TUNING.most_cuts]


def parts_of(programs: BoxPrograms, box: Box, cut: BoxCut) -> tuple[Box, Box]:
    """Return both parts of a cut box."""
    low, high = (box.low, box.high) if cut.of_counts else (box.least, box.most)
    left, right = high.copy(), low.copy()
    left[cut.place], right[cut.place] = cut.at, cut.at + 1
    if cut.of_counts:
        return replace(box, high=left), replace(box, low=right)
    outside = programs.shape(box.order).outside
    return replace(box, most=_nest_sizes(left, outside)), replace(
        box, least=_nest_sizes(right[::-1], outside[::-1], -1)[::-1]
    )


def _nest_sizes(sizes: Ints, outside: FloatArray, sign: int = 1) -> Ints:
    """Return the largest sizes of tiles (sign -1: the least, from the innermost), as tiles of one unit only shrink."""
    found = sizes.copy()
    for at in range(1, len(found)):
        if (outside[at] == outside[at - 1]).all():
            found[at] = sign * np.minimum(sign * found[at], sign * found[at - 1])
    return found


def _cuts_of_counts(programs: BoxPrograms, box: Box, point: FloatArray) -> Iterable[BoxCut]:
    """Yield cuts between counts of siblings with different visits."""
    factors = programs.variables.factors
    logs = point[programs.variables.inner :]
    for place, (group, d) in enumerate(factors):
        low, high = int(box.low[group, d]), int(box.high[group, d])
        others = sum(float(x) for (one, e), x in zip(factors, logs, strict=True) if one == group and e != d)
        factor = float(logs[place])
        for at in _ends_near(programs.problem.extents[d], low, high, float(np.exp(factor))):
            above = others - log(programs.sizes[group] / (at + 1))
            below = factor - log(at)
            if max(below, above) > TUNING.least_move:
                yield BoxCut(of_counts=True, place=(group, d), at=at, below=max(0.0, below), above=max(0.0, above))


def _ends_near(extent: int, low: int, high: int, factor: float) -> Iterable[int]:
    """Yield the last counts of ranges of equal visits near a factor, from low to below high."""
    near = min(high, max(low, floor(factor + 1e-6)))
    shares = -(-extent // near)
    last = extent if shares == 1 else (extent - 1) // (shares - 1)
    for end in sorted({-(-extent // shares) - 1, last}):
        if low <= end < high:
            yield end


def _cuts_of_tiles(programs: BoxPrograms, box: Box, point: FloatArray) -> Iterable[BoxCut]:
    if not box.least.size:
        return
    rows = programs.shape(box.order).limit_rows[-2 * programs.variables.inner :][: box.least.size]
    logs = (rows @ point).reshape(box.least.shape)
    tiles = np.clip(np.exp(logs), box.least, box.most)
    for at in zip(*np.nonzero(box.least < box.most), strict=True):
        whole = int(min(max(floor(tiles[at] + 1e-6), box.least[at]), box.most[at] - 1))
        below, above = log(tiles[at] / whole), log((whole + 1) / tiles[at])
        if min(below, above) > TUNING.least_move:
            place = int(at[0]), int(at[1])
            yield BoxCut(of_counts=False, place=place, at=whole, below=below, above=above)


class Gains:
    """The average rise of bounds by cuts of an order's variables, per move of the point."""

    def __init__(self) -> None:
        self._sums: dict[tuple[int, tuple[bool, tuple[int, int]], bool], tuple[float, int]] = {}

    def note(self, order: int, cut: BoxCut, *, above: bool, gain: float) -> None:
        """Record the rise of the logarithm of the bound in one part of a cut."""
        move = cut.above if above else cut.below
        if move > TUNING.least_move:
            total, count = self._sums.get((order, cut.key, above), (0.0, 0))
            self._sums[order, cut.key, above] = total + gain / move, count + 1

    def expected(self, order: int, cut: BoxCut) -> float | None:
        """Return a score of a cut, higher where both parts should rise more; None where nothing is recorded."""
        sides: list[float] = []
        for above, move in ((False, cut.below), (True, cut.above)):
            known = self._sums.get((order, cut.key, above))
            if known is None and move > TUNING.least_move:
                return None
            sides.append(0.0 if known is None else known[0] / known[1] * move)
        return score_of(*sides)


def score_of(first: float, second: float) -> float:
    """Return the score of a cut from the rises of both parts."""
    return max(first, 1e-7) * max(second, 1e-7)
