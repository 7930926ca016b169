"""Branch and bound over cells of tile sizes: the least bits that any loop tree moves, for one size of the buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, inf

import numpy as np

from polymap.poly import FloatArray
from polymap.resources import BestFirst
from polymap.search.single_level.cells import CUT, EITHER, SAME, CellBounds, Cells, Ints
from polymap.search.single_level.question import Operand, Question, margin_of
from polymap.search.single_level.tuning import TUNING
from polymap.search.single_level.window_tables import WindowTables

EXACT = 1 << 38  # below, float64 bounds are off by far less than half a bit


@dataclass
class OpenParts:
    """What is left of one order of tensors: parts of cells with their bounds, each part by rising bound.

    weights: per place and dim, how much a split of its sizes may say.
    """

    bounds: CellBounds
    parts: BestFirst[float, tuple[Cells, FloatArray]]
    weights: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.weights = _weights(self.bounds)

    def least(self) -> float:
        """Return the least bound of what is left."""
        return inf if self.parts.bound is None else self.parts.bound

    def add(self, cells: Cells, least: FloatArray) -> None:
        """Add cells with their bounds."""
        order = np.argsort(least, kind="stable")
        for start in range(0, len(order), TUNING.cells_per_part):
            some = order[start : start + TUNING.cells_per_part]
            self.parts.add(float(least[some[0]]), (cells.taken(some), least[some]))

    def take(self, batch: int) -> tuple[Cells, FloatArray]:
        """Remove and return about so many cells of least bound."""
        taken: list[tuple[Cells, FloatArray]] = []
        count = 0
        while count < batch and len(self.parts):
            taken.append(self.parts.take())
            count += len(taken[-1][1])
        return Cells.joined([cells for cells, _ in taken]), np.concatenate([least for _, least in taken])


def _weights(bounds: CellBounds) -> FloatArray:
    """Return, per place and dim, how much a split of its sizes may say."""
    order = bounds.order
    found = np.full((len(order), len(bounds.extents)), TUNING.own_weight)
    for place, one in enumerate(order):
        for d in range(len(bounds.extents)):
            if bounds.extents[d] == 1 or (place == 2 and not one.windows):
                found[place, d] = 0
            elif d not in one.own:
                found[place, d] = 0.5
            elif _in_window(one, d) or any(d not in other.own or _in_window(other, d) for other in order[place + 1 :]):
                found[place, d] = 1
    return found


def _in_window(one: Operand, d: int) -> bool:
    return any(d in window.dims for window in one.windows)


def cell_bounds(question: Question, tables: WindowTables) -> list[CellBounds]:
    """Return the bounds of all orders of tensors that the buffer may hold."""
    return [CellBounds(question, order, tables) for order in question.orders()]


class SizeSearch:
    """The search for one size of the buffer, in bits. Goes on where it ended.

    known: the bits of a known mapping, or what no mapping exceeds. What moves less moves at least the question's grain
    less: cells that leave no room for that are refuted.
    """

    def __init__(self, bounds: Sequence[CellBounds], room: int, known: int) -> None:
        self.room, self.work = room, 0
        self._margin = margin_of(bounds[0].question)
        self._floor = inf  # the least bound of refuted cells, where bounds are not exact
        self._grain = bounds[0].question.grain
        self.know(known)
        self._fits = False
        self.leaves: list[tuple[CellBounds, Cells, FloatArray]] = []
        self.open: list[OpenParts] = []
        for each in bounds:
            cells, _ = each.whole().tightened()
            least = each.moved(cells, room)
            self._fits |= bool(np.isfinite(least[0]))
            if not each.order:
                self.leaves.append((each, cells, least))
            elif least[0] < self.refuted:
                self.open.append(OpenParts(each, BestFirst()))
                self.open[-1].add(cells, least)

    def know(self, known: int) -> None:
        """Take the bits of a mapping."""
        self.known = known = self._grain * -(-known // self._grain)
        self.refuted = known - self._grain / 2 if known < EXACT else known * (1 - 4 * float(self._margin))

    @property
    def bound(self) -> float:
        """Return the least bits of all cells left, at most the known ones."""
        return min([float(self.known), self._of_leaves(), *(each.least() for each in self.open)])

    def _of_leaves(self) -> float:
        return min((float(least.min()) for _, _, least in self.leaves), default=inf)

    def go_on(self, work: int) -> None:
        """Split cells of least bound, until so many are bounded, or nothing can move less than what is known."""
        end = self.work + work
        while self.work < end and self.open:
            first = min(self.open, key=OpenParts.least)
            if first.least() >= self.refuted:
                for each in self.open:
                    self._floor = min(self._floor, each.least())
                self.open = []
                break
            self._split_cells(first)
            self.open = [each for each in self.open if len(each.parts)]

    def least_bits(self) -> int | None:
        """Return a lower bound in whole bits; None where no tree fits."""
        if not self._fits:
            return None
        least = self.bound if self.known < EXACT else min(self.bound, self._floor)
        return min(self.known, self._grain * ceil(Fraction(least) * (1 - self._margin) / self._grain))

    def cells_by_bound(self) -> Iterator[tuple[float, CellBounds, Cells, int]]:
        """Yield cells that are not split further and not refuted, by rising bound: bound, cells, number among them."""
        listed = [
            (float(least[at]), number, at)
            for number, (_, _, least) in enumerate(self.leaves)
            for at in range(len(least))
        ]
        for least, number, at in sorted(listed):
            if least >= self.refuted:
                return
            bounds, cells, _ = self.leaves[number]
            yield least, bounds, cells, at

    def _drop(self, least: FloatArray) -> None:
        """Take the bounds of cells that are refuted into account."""
        self._floor = min(self._floor, float(least.min(where=least >= self.refuted, initial=inf)))

    def _split_cells(self, one: OpenParts) -> None:
        cells, least = one.take(TUNING.cells_at_once)
        self._drop(least)
        keep = least < self.refuted
        cells, least = cells.taken(keep), least[keep]
        if not len(least):
            return
        scores = self._scores(one, cells)
        ended = scores.max(axis=0) <= TUNING.least_score
        if ended.any():
            self.leaves.append((one.bounds, cells.taken(ended), least[ended]))
        cells, least, scores = cells.taken(~ended), least[~ended], scores[:, ~ended]
        if not len(least):
            return
        columns = np.argsort(-scores, axis=0, kind="stable")[: TUNING.tried_splits]
        children, bounds = self._children(one, cells, least, columns)  # bounds [half, column, cell]
        cap = np.maximum(self.refuted - least, 1)
        less, more = np.minimum(bounds - least, cap)
        gains = less * more + TUNING.sum_share * cap * (less + more)
        best = np.argmax(np.where(np.take_along_axis(scores, columns, axis=0) > 0, gains, -1), axis=0)
        count = len(cells)
        picked = np.concatenate([(half * len(columns) + best) * count + np.arange(count) for half in (0, 1)])
        self._drop(bounds.ravel()[picked])
        picked = picked[bounds.ravel()[picked] < self.refuted]
        if len(picked):
            one.add(children.taken(picked), bounds.ravel()[picked])

    def _children(self, one: OpenParts, cells: Cells, least: FloatArray, columns: Ints) -> tuple[Cells, FloatArray]:
        """Return both halves of every cell along every column, flattened [half, column, cell], with their bounds
        (infinite for empty ones)."""
        repeated = cells.taken(np.tile(np.arange(len(cells)), len(columns)))
        halved = Cells.joined(list(halves(one.bounds, repeated, columns.ravel())))
        tight, fits = one.bounds.fitting(halved, self.room)
        bound = np.full(len(tight), inf)
        if fits.any():
            bound[fits] = one.bounds.moved(tight.taken(fits), self.room, self.refuted)
        self.work += int(fits.sum())
        return tight, np.maximum(bound.reshape(2, len(columns), -1), least)

    def _scores(self, one: OpenParts, cells: Cells) -> FloatArray:
        """Return, per variable and cell, how promising a split is [2 places dims, cell]: sizes, then ties."""
        extents = one.bounds.extents[None, :, None]
        weights = one.weights[:, :, None]
        pieces = np.log(-(-extents // cells.low)) - np.log(-(-extents // cells.high))
        score = weights * (pieces + TUNING.size_weight * (np.log(cells.high) - np.log(cells.low)))
        score = np.where(cells.tie == SAME, 0, score)  # the next place further out has it
        ties = np.where((cells.tie == EITHER) & (weights > 0), TUNING.tie_score, 0)
        ties[0] = 0
        return np.concatenate([score, ties]).reshape(-1, len(cells))


def halves(bounds: CellBounds, cells: Cells, column: Ints) -> tuple[Cells, Cells]:
    """Return the cells split in two along one variable each: place and dim, of sizes, then of ties."""
    places, dims, _ = cells.low.shape
    at = np.arange(len(cells))
    is_tie = column >= places * dims
    place, dim = (column % (places * dims)) // dims, column % dims
    low, high = cells.low[place, dim, at], cells.high[place, dim, at]
    n = bounds.extents[dim]
    middle = _middle(n, low, high)
    # Whole dims first where the tensor lacks them.
    lacks = np.array([[d not in one.own for d in range(dims)] for one in bounds.order])[place, dim]
    middle = np.where(lacks & (high == n), n - 1, middle)
    below, above = _copy(cells), _copy(cells)
    below.high[place, dim, at] = np.where(is_tie, high, middle)
    above.low[place, dim, at] = np.where(is_tie, low, middle + 1)
    tie = cells.tie[place, dim, at]
    below.tie[place, dim, at] = np.where(is_tie, CUT, tie)
    above.tie[place, dim, at] = np.where(is_tie, SAME, tie)
    return below, above


def _copy(cells: Cells) -> Cells:
    return Cells(cells.low.copy(), cells.high.copy(), cells.tie.copy())


def _middle(n: Ints, low: Ints, high: Ints) -> Ints:
    """Return where to split ranges of sizes: between two numbers of pieces, if there are two."""
    middle = np.clip(np.sqrt(low.astype(np.float64) * high).astype(np.int64), low, np.maximum(low, high - 1))
    pieces = -(-n // middle)
    end = np.where(pieces == 1, n, -(-n // np.maximum(pieces - 1, 1)) - 1)
    start = -(-n // pieces)
    middle = np.where(end < high, end, np.where(start > low, start - 1, middle))
    return np.clip(middle, low, np.maximum(low, high - 1))
