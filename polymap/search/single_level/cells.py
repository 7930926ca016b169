"""Lower bounds on what loop trees move whose nodes have tiles of given ranges (docs/buffer_curves.md).

A cell holds, for every place of an order of tensors (outermost first) and every dim, the least and the greatest size of
the tile there, and whether it is the tile of the next place further out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from polymap.poly import FloatArray
from polymap.search.single_level.question import Operand, Question, Window
from polymap.search.single_level.tuning import TUNING
from polymap.search.single_level.window_sums import Sums, WindowSums, window_sums
from polymap.search.single_level.window_tables import WindowTables

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
CUT, SAME, EITHER = 0, 1, 2
SAFE = 2.0**-47  # more than 60 roundings


@dataclass(frozen=True, slots=True)
class Cells:
    """low, high: sizes [place, dim, cell]. tie: CUT, SAME or EITHER [place, dim, cell]."""

    low: Ints
    high: Ints
    tie: Ints

    def __len__(self) -> int:
        return self.low.shape[2]

    def taken(self, chosen: Mask | Ints) -> Cells:
        """Return some of the cells."""
        return Cells(self.low[:, :, chosen], self.high[:, :, chosen], self.tie[:, :, chosen])

    @staticmethod
    def joined(parts: list[Cells]) -> Cells:
        """Return the cells of all parts."""
        return Cells(
            np.concatenate([part.low for part in parts], axis=2),
            np.concatenate([part.high for part in parts], axis=2),
            np.concatenate([part.tie for part in parts], axis=2),
        )

    def tightened(self) -> tuple[Cells, Mask]:
        """Return the cells with sizes that agree, and which of them hold any."""
        low, high, tie = self.low.copy(), self.high.copy(), self.tie.copy()
        for _ in range(2):
            for place in range(1, len(low)):
                cut, same = _masks(tie[place])
                np.minimum(high[place], high[place - 1] - cut.astype(np.int64), out=high[place])
                held: Ints = np.where(same, low[place - 1], 1)
                np.maximum(low[place], held, out=low[place])
            for place in range(len(low) - 1, 0, -1):
                cut, same = _masks(tie[place])
                np.maximum(low[place - 1], low[place] + cut.astype(np.int64), out=low[place - 1])
                high[place - 1][same] = np.minimum(high[place - 1], high[place])[same]
        for place in range(1, len(low)):
            either = tie[place] == EITHER
            tie[place][either & (high[place] < low[place - 1])] = CUT
            tie[place][either & (low[place] >= high[place - 1])] = SAME
        empty: Mask = low > high
        fits = ~np.logical_or.reduce(empty.reshape(-1, low.shape[2]), axis=0)
        return Cells(low, high, tie), fits


def _masks(tie: Ints) -> tuple[Mask, Mask]:
    """Return where a tile is smaller than that of the next place further out, and where it is the same one."""
    return np.equal(tie, CUT), np.equal(tie, SAME)


class CellBounds:
    """Bounds of cells for one order of the tensors that the buffer holds."""

    def __init__(self, question: Question, order: tuple[Operand, ...], tables: WindowTables) -> None:
        self.question, self.order = question, order
        self.extents = np.array(question.extents, dtype=np.int64)
        self.sums: dict[tuple[int, int], WindowSums | None] = {}
        for one in order:
            for window in one.windows:
                extents = question.extents[window.dims[0]], question.extents[window.dims[1]]
                memo = tables.caches.memo(window_sums)
                self.sums[window.dims] = memo(extents, window.coefficients, tables.caches)

        self.alike = _exchangeable_dims(question)
        memo = tables.caches.memo(_most_pieces)
        self._most_pieces = {d: memo(question.extents[d]) for dims in self.sums for d in dims}

    def whole(self) -> Cells:
        """Return one cell of all trees."""
        shape = (len(self.order), len(self.extents), 1)
        high = np.broadcast_to(self.extents[None, :, None], shape).copy()
        return Cells(np.ones(shape, dtype=np.int64), high, np.full(shape, EITHER, dtype=np.int64))

    def bits(self, cells: Cells) -> Ints:
        """Return the least bits that the nodes hold."""
        found: Ints = np.zeros(len(cells), dtype=np.int64)
        for place, one in enumerate(self.order):
            found = found + one.bits * self._words(place, cells)
        return found

    def _words(self, place: int, cells: Cells) -> Ints:
        one, tile = self.order[place], cells.low[place]
        if place == 2 and not one.windows:
            return np.ones(len(cells), dtype=np.int64)
        found: Ints = np.ones(len(cells), dtype=np.int64)
        for d in one.plain:
            found = found * tile[d]
        for window in one.windows:
            found = found * self._touched(window.dims, tile)
        return found

    def _touched(self, dims: tuple[int, int], tile: Ints) -> Ints:
        sums, (p, r) = self.sums[dims], dims
        if sums is None:
            return tile[p] + tile[r] - 1
        return sums.touched[tile[p] - 1, tile[r] - 1].astype(np.int64)

    def fitting(self, cells: Cells, room: int) -> tuple[Cells, Mask]:
        """Return the cells without sizes that do not fit, and which of them hold any tree."""
        low, high = cells.low.copy(), cells.high.copy()
        for p, q in self.alike:
            np.maximum(low[0, p], low[0, q], out=low[0, p])
            np.minimum(high[0, q], high[0, p], out=high[0, q])
        cells, fits = Cells(low, high, cells.tie).tightened()
        cells = Cells(np.minimum(cells.low, self.extents[None, :, None]), np.maximum(cells.high, 1), cells.tie)
        held = self.bits(cells)
        fits &= held <= room
        high = cells.high.copy()
        for place, one in enumerate(self.order):
            if place == 2 and not one.windows:
                continue
            words = self._words(place, cells)
            most = np.maximum((room - held) // one.bits + words, 0)
            for d in one.plain:
                np.minimum(high[place, d], most // (words // cells.low[place, d]), out=high[place, d])
            for window in one.windows:
                others = words // self._touched(window.dims, cells.low[place])
                for d, other in (window.dims, window.dims[::-1]):
                    np.minimum(high[place, d], most // others - cells.low[place, other] + 1, out=high[place, d])
        cells, fits_too = Cells(cells.low, np.maximum(high, 0), cells.tie).tightened()
        return cells, fits & fits_too

    def moved(self, cells: Cells, room: int, enough: float = inf) -> FloatArray:
        """Return the least bits that trees in the cells move; infinite where none fits. What reaches `enough` may be
        less than what is proven."""
        held = self.bits(cells)
        found: FloatArray = np.full(len(cells), float(self.question.bypassing(self.order)))
        for place, one in enumerate(self.order):
            loads = one.elements if one.windows else self._loads(place, cells, room - held)
            found = found + one.weight * loads - one.saved
        found = np.where(held <= room, found, inf)
        left = np.flatnonzero(found < enough)
        if not any(one.windows for one in self.order) or not len(left):
            return found
        cells = cells.taken(left)
        for place, one in enumerate(self.order):
            if one.windows:
                more = self._loads(place, cells, room - held[left]) - one.elements
                found[left] += one.weight * np.maximum(more, 0)
        return found

    def _loads(self, place: int, cells: Cells, left: Ints) -> FloatArray:
        one = self.order[place]
        if not one.own:
            return np.full(len(cells), float(one.elements))
        if one.windows:
            return prod(self.question.extents[d] for d in one.plain) * self._of_window(place, cells)
        return one.elements * self._of_plain(place, cells, left)

    def _visits(self, one: Operand, cells: Cells, place: int) -> FloatArray:
        """Return the least number of boxes into which the dims that a tensor lacks are cut at a place."""
        found: FloatArray = np.ones(len(cells))
        for d in one.lacking:
            pieces = self._pieces(d, cells.high[0, d])
            for i in range(1, place + 1):
                # All pieces but one are full, and a full one is cut.
                nested: Ints = np.where(cells.tie[i, d] == CUT, 2 * pieces - 1, pieces)
                pieces = np.maximum(nested, self._pieces(d, cells.high[i, d]))
            found = found * pieces
        return found

    def _of_plain(self, place: int, cells: Cells, left: Ints) -> FloatArray:
        """Return how often an element is loaded, on average."""
        one = self.order[place]
        outer = self._visits(one, cells, 0)
        if place == 0:
            return outer
        last = min(place, 1)
        visits = self._visits(one, cells, last)
        if place == 1:
            stay = self._share_of_short(one, place, cells)
            again = self._short_within(one, place, cells)
        else:
            words = left // one.bits + 1
            stay = self._short_of_words(one, words, cells, 0)
            again = np.maximum(stay, self._short_of_words(one, words, cells, 1))
        base = outer * (1 - stay) + stay
        return base + (1 - again) * np.maximum(visits - outer, 0)

    def _rest(self, d: int, tile: Ints, cells: Cells) -> FloatArray:
        """Return the largest share of a dim's indices in a short last piece at the first place that a tile holds."""
        n = int(self.extents[d])
        low, high = cells.low[0, d], cells.high[0, d]
        most = np.minimum(np.minimum(tile, high - 1), (n - 1) // 2)
        rest = n % high
        exact = np.where((rest > 0) & (rest <= tile), rest, 0)
        most = np.where(low == high, exact, most)
        return np.where(low == n, 0, np.maximum(most, 0)) / n

    def _share_of_short(self, one: Operand, place: int, cells: Cells) -> FloatArray:
        """Return the largest share of elements whose pieces at the first place are no larger than the tile, in some dim
        that is cut further."""
        surely, possibly, any_sure = np.ones(len(cells)), np.zeros(len(cells)), np.zeros(len(cells), dtype=np.bool_)
        for d in one.plain:
            share = self._rest(d, cells.high[place, d], cells)
            cut = self._is_cut(place, d, cells)
            surely = np.where(cut, surely * share, surely)
            any_sure |= cut
            possibly = np.maximum(possibly, np.where(cells.low[place, d] < cells.high[0, d], share, 0))
        return np.where(any_sure, surely, possibly)

    def _is_cut(self, place: int, d: int, cells: Cells) -> Mask:
        """Return whether the tile of a place is surely smaller than the first place's."""
        return (cells.high[place, d] < cells.low[0, d]) | (cells.tie[1 : place + 1, d] == CUT).any(axis=0)

    def _short_within(self, one: Operand, place: int, cells: Cells) -> FloatArray:
        """Return the largest share of elements that any nest of loops leaves in pieces no larger than the tile."""
        found: FloatArray = np.zeros(len(cells))
        for d in one.plain:
            tile = cells.high[place, d]
            found = np.maximum(found, _short_share(tile, tile + 1))
        return found

    def _short_of_words(self, one: Operand, words: Ints, cells: Cells, at: int) -> FloatArray:
        """Return the largest share of elements in short pieces at a place that tiles of so many elements hold."""
        found: FloatArray = np.zeros(len(cells))
        for cut in one.cuts:
            held: FloatArray = np.ones(len(cells))
            for d in one.plain:
                if d not in cut:
                    held = held * cells.low[at, d]
            most = np.floor(words / held)
            share: FloatArray = np.ones(len(cells))
            for d in cut:
                tile = np.minimum(most, cells.high[1, d]).astype(np.int64)
                share = share * np.where(tile >= 1, self._share_at(d, np.maximum(tile, 1), cells, at), 0)
            if len(cut) > 1 and at == 0:
                share = np.minimum(share, most / float(prod(self.question.extents[d] for d in cut)))
            found = np.maximum(found, np.where(most >= 1, share, 0))
        return found

    def _share_at(self, d: int, tile: Ints, cells: Cells, at: int) -> FloatArray:
        rest = self._rest(d, tile, cells)
        if at == 0:
            return rest
        longer = np.maximum(cells.low[1, d], tile + 1)
        nested = np.where(cells.tie[1, d] == SAME, rest, _short_share(tile, longer))
        return np.where(cells.low[1, d] == self.extents[d], 0, nested)

    def _of_window(self, place: int, cells: Cells) -> FloatArray:
        """Return the least loads of a tensor with windows, per index of its plain dims."""
        one = self.order[place]
        last = min(place, 2)
        visits = self._visits(one, cells, last)
        outer = self._visits(one, cells, 0)
        ones = np.ones(len(cells))
        least = self._once(one)
        if place == 0:
            return self._in_boxes(place, None, ones, visits, cells)
        free = self._in_boxes(place, None, ones, visits, cells)
        stay = self._share_of_short(one, place, cells)
        inner = outer
        if place == 2:
            nested = self._short_within(one, place, cells)
            inner = outer + (1 - nested) * np.maximum(visits - outer, 0)
        boxes = self._in_boxes(place, 0, outer, inner, cells)
        alike = boxes if place == 1 else self._in_boxes(place, 0, outer, outer, cells)
        kept = outer * self._kept(place, 0, cells)
        free = np.maximum(free, _lower_difference(boxes, kept))
        joined = np.maximum(_lower_difference(alike, kept), least)
        apart = (1 - stay) * boxes + stay * joined
        found = self._choose_by_cuts(one, cells, (place, 0), apart, free)
        if place == 2:
            visited = self._visits(one, cells, 1)
            short: FloatArray = np.zeros(len(cells))
            sure: FloatArray = np.ones(len(cells))
            for d in one.plain:
                share = self._share_at(d, cells.high[2, d], cells, 1)
                short = np.maximum(short, np.where(cells.tie[2, d] != SAME, share, 0))
                sure = np.where(cells.tie[2, d] == CUT, np.minimum(sure, share), sure)
            short = np.minimum(short, sure)
            boxes = self._in_boxes(place, 1, visited, visited, cells)
            together = _lower_difference(boxes, visited * self._kept(place, 1, cells))
            within = _lower_difference(boxes, visited * self._kept(place, 1, cells, apart=True))
            is_apart = np.zeros(len(cells), dtype=np.bool_)
            for d in one.plain:
                is_apart |= self._is_cut(place, d, cells)
            within = np.where(is_apart, (1 - stay) * within + stay * together, together)
            found = np.maximum(found, np.maximum(together, within))
            rest = np.maximum(short - stay, 0) * np.maximum(alike, together)
            apart = (1 - short) * boxes + rest + np.minimum(short, stay) * np.maximum(joined, together)
            found = self._choose_by_cuts(one, cells, (place, 1), apart, found)
        return np.maximum(found, least)

    def _kept(self, place: int, box: int, cells: Cells, *, apart: bool = False) -> FloatArray:
        """Return the most elements that stay from one box of the tile of a place to the next, over all boxes of one
        visit.

        The next box is one step further along a dim of one window (and begins anew in the others), or the same one.
        apart: nothing stays where the box of the first place changes.
        """
        windows = self.order[place].windows
        dims = [d for window in windows for d in window.dims]
        boxes = {d: self._most_boxes(box, d, cells).astype(np.float64) for d in dims}
        everything = _product(list(boxes.values()), len(cells))
        short = sum((self._short_boxes(place, box, d, cells) for d in dims), np.zeros(len(cells)))
        found: list[FloatArray] = []
        for with_short in (False, True):
            still = [self._still(place, box, window, cells, with_short=with_short) for window in windows]
            stays = _product(still, len(cells))
            total = stays * everything
            most = stays
            for number, window in enumerate(windows):
                others = _product([each for i, each in enumerate(still) if i != number], len(cells))
                for axis, d in enumerate(window.dims):
                    moved = others * self._moved(place, box, window, axis, cells, with_short=with_short)
                    fixed = self._pieces(d, cells.high[0, d]) if apart else 1
                    steps = np.maximum(boxes[d] - fixed, 0) * everything / boxes[d]
                    total = total + steps * np.maximum(moved - stays, 0)
                    most = np.maximum(most, moved)
            found.append(most * everything * np.minimum(short, 1) if with_short else total)
        return found[0] + found[1]

    def _short_boxes(self, place: int, box: int, d: int, cells: Cells) -> FloatArray:
        """Return the share of the boxes that are short along a dim, where these are a single tile."""
        size = cells.low[box, d]
        rest = self.extents[d] % size
        is_short = self._is_grid(box, d, cells) & (rest > 0) & (rest <= cells.high[place, d])
        return np.where(is_short, 1 / self._pieces(d, size), 0.0)

    def _is_grid(self, box: int, d: int, cells: Cells) -> Mask:
        """Return whether one loop at most cuts a dim into the boxes, of a given size."""
        low, high = cells.low[box, d], cells.high[box, d]
        return (low == high) & ((box == 0) | (cells.tie[1, d] == SAME) | (low == self.extents[d]))

    def _pieces(self, d: int, tile: Ints) -> Ints:
        return -(-self.extents[d] // tile)

    def _most_boxes(self, box: int, d: int, cells: Cells) -> Ints:
        """Return the most pieces into which the loops above a place cut a dim: one at the first place, two at the
        second."""
        pieces = self._pieces(d, cells.low[0, d])
        if box == 0:
            return pieces
        most = self._most_pieces[d]
        low = cells.low[1, d]
        nested = np.where(low == self.extents[d], 1, 2 * self._pieces(d, low)) if most is None else most[low]
        return np.where(cells.tie[1, d] == SAME, pieces, nested)

    def _still(self, place: int, box: int, window: Window, cells: Cells, *, with_short: bool) -> FloatArray:
        """Return the most elements that the last tile in a box of a window shares with the first one."""
        tile = cells.high[place]
        most = self._most_touched(window, tile)
        if not _is_rising(window):
            return most
        left = np.ones(len(cells))
        for d, c in zip(window.dims, window.coefficients, strict=True):
            left = left + c * (tile[d] - 1 - self._offset(place, box, d, cells, with_short=with_short))
        return np.minimum(most, np.maximum(left, 0))

    def _most_touched(self, window: Window, tile: Ints) -> FloatArray:
        p, r = window.dims
        most = (tile[p] * tile[r]).astype(np.float64)
        if not _is_rising(window):
            return most
        span = 1 + sum(c * (tile[d] - 1) for d, c in zip(window.dims, window.coefficients, strict=True))
        return np.minimum(most, span)

    def _offset(self, place: int, box: int, d: int, cells: Cells, *, with_short: bool) -> Ints:
        """Return where the last tile in a box starts at the earliest. with_short: also in short boxes of one tile."""
        low, tile = cells.low[box, d], cells.high[place, d]
        found = np.where(tile < low, np.maximum(low - tile, tile), 0)
        rest = self.extents[d] % low
        of_rest = np.where(rest > tile, np.maximum(rest - tile, tile), 0 if with_short else found)
        of_rest = np.where(rest == 0, found, of_rest)
        return np.where(self._is_grid(box, d, cells), np.minimum(found, of_rest), 0)

    def _moved(self, place: int, box: int, window: Window, axis: int, cells: Cells, *, with_short: bool) -> FloatArray:
        """Return the most elements that the last tile in a box shares with the first one in the next box along a dim of
        a window.

        That box begins where the last tile ends. Along the other dim it may begin anew: then the last tile was at most
        at the end of all.
        """
        tile = cells.high[place]
        most = self._most_touched(window, tile)
        d, other = window.dims[axis], window.dims[1 - axis]
        if _is_rising(window):
            c, e = window.coefficients[axis], window.coefficients[1 - axis]
            until_end = e * (self.extents[other] - 1) + 1 - c
            offset = self._offset(place, box, other, cells, with_short=with_short)
            from_begin = c * (2 * tile[d] - 1) + 1 + e * (tile[other] - 1 - offset)
            kept = np.maximum(np.minimum(until_end, from_begin), 0)
            if c == 1:
                kept = np.where(2 * tile[d] <= e, 0, kept)  # other residues
            most = np.minimum(most, kept)
        return np.where(cells.low[box, d] < self.extents[d], most, 0)

    def _once(self, one: Operand) -> float:
        return float(one.elements // prod(self.question.extents[d] for d in one.plain))

    def _choose_by_cuts(
        self, one: Operand, cells: Cells, between: tuple[int, int], apart: FloatArray, free: FloatArray
    ) -> FloatArray:
        """Return `apart` where a plain dim is cut between two places, `free` where none is, the lesser where one may
        be."""
        place, box = between
        surely, possibly = np.zeros(len(cells), dtype=np.bool_), np.zeros(len(cells), dtype=np.bool_)
        for d in one.plain:
            ties = cells.tie[box + 1 : place + 1, d]
            surely |= (ties == CUT).any(axis=0) | (cells.high[place, d] < cells.low[box, d])
            possibly |= (ties != SAME).any(axis=0)
        return np.where(surely, apart, np.where(possibly, np.minimum(apart, free), free))

    def _in_boxes(
        self, place: int, box: int | None, passes: FloatArray, visits: FloatArray, cells: Cells
    ) -> FloatArray:
        """Return the least loads over all boxes of the tile of a place (None: one box holds all).

        passes: how often all boxes are visited; visits: how often a tile is.
        """
        one = self.order[place]
        loads: list[FloatArray] = []
        afresh: list[FloatArray] = []
        further: list[list[FloatArray]] = []
        uncut = np.ones(len(cells), dtype=np.bool_)
        for window in one.windows:
            cuts: list[Mask] = []
            for d in window.dims:
                low, high = self._box(box, d, cells)
                ties = cells.tie[(box or 0) + 1 : place + 1, d]
                uncut &= (cells.high[place, d] >= low) & ~(ties == CUT).any(axis=0)
                cut = cells.low[place, d] < high
                cuts.append(cut if box is None else cut & ~(ties == SAME).all(axis=0))
            once, tiles, again = self._window_sums(place, box, window, cells)
            loads.append(once)
            afresh.append(np.maximum(tiles, once))
            further.append([np.where(cut, each, np.inf) for cut, each in zip(cuts, again, strict=True)])
        found: FloatArray = np.full(len(cells), np.inf)
        for number, each in enumerate(further):
            others = _product([x for i, x in enumerate(loads) if i != number], len(cells)) * passes
            tiles = _product([x for i, x in enumerate(afresh) if i != number], len(cells)) * visits
            for again in each:
                again = np.minimum(again, np.where(np.isfinite(again), loads[number], np.inf))
                total = (
                    others * (loads[number] - np.where(np.isfinite(again), again, 0))
                    + np.maximum(tiles, others) * again
                )
                found = np.minimum(found, total)
        none = passes * _product(afresh, len(cells))
        return np.where(uncut, np.minimum(found, none), found)

    def _window_sums(
        self, place: int, box: int | None, window: Window, cells: Cells
    ) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
        """Return the loads of one pass over the boxes of one window, the elements of all tiles, and the loads of each
        further pass, by the dim of the innermost loop."""
        sums = self.sums[window.dims]
        if sums is None:
            elements = np.full(len(cells), float(self._elements(window.dims)))
            return elements, elements, [np.zeros(len(cells))] * 2
        ranges = [self._box(box, d, cells) for d in window.dims]
        tile = cells.high[place, window.dims[0]] - 1, cells.high[place, window.dims[1]] - 1
        at = (ranges[0][1] - 1, ranges[1][1] - 1, *tile)
        is_one = np.ones(len(cells), dtype=np.bool_)
        for d, (low, high) in zip(window.dims, ranges, strict=True):
            is_one &= (low == high) & (cells.low[place, d] == cells.high[place, d])
        any_one = bool(is_one.any())
        found: list[FloatArray] = []
        for least, exact in zip(
            self._tables(sums.least, place, box), self._tables(sums.exact, place, box), strict=True
        ):
            index = at if least.ndim == 4 else tile
            values = least[index]
            if any_one:
                values[is_one] = exact[tuple(each[is_one] for each in index)]
            found.append(values)
        once, tiles, *again = found
        return once, tiles, again

    def _tables(self, sums: Sums, place: int, box: int | None) -> list[FloatArray]:
        again = sums.nested if box == 1 else tuple(each[place] for each in sums.again)
        return [sums.loose if box == 1 else sums.loads, sums.afresh, *again]

    def _elements(self, dims: tuple[int, int]) -> int:
        return max(self.question.extents[dims[0]], self.question.extents[dims[1]])

    def _box(self, box: int | None, d: int, cells: Cells) -> tuple[Ints, Ints]:
        if box is None:
            n = np.full(len(cells), self.extents[d])
            return n, n
        return cells.low[box, d], cells.high[box, d]


def _lower_difference(boxes: FloatArray, kept: FloatArray) -> FloatArray:
    """Return a difference of positive numbers, rounded down by more than their errors."""
    return boxes * (1 - SAFE) - kept * (1 + SAFE)


def _short_share(tile: Ints, longer: Ints) -> FloatArray:
    """Return the largest share of indices in last pieces of at most `tile` that two nested loops leave beside full
    pieces of at least `longer`."""
    full = longer / (longer + tile)
    return 1 - full * full


def _product(values: list[FloatArray], count: int) -> FloatArray:
    found: FloatArray = np.ones(count)
    for value in values:
        found = found * value
    return found


def _most_pieces(extent: int) -> Ints | None:
    """Return, per size, the most pieces into which up to two loops cut a dim, the inner one into pieces of this size or
    larger; None for extents too large to work it out."""
    if extent > TUNING.most_nested:
        return None
    found = np.ones(extent + 1, dtype=np.int64)
    outer = np.arange(1, extent + 1)
    for size in range(1, extent):
        longer = outer[size:]
        nested = extent // longer * -(-longer // size) + -(-(extent % longer) // size)
        found[size] = max(int(nested.max()), -(-extent // size))
    return np.maximum.accumulate(found[::-1])[::-1]


def _exchangeable_dims(question: Question) -> list[tuple[int, int]]:
    """Return the first dims of two windows of one tensor that can be exchanged with each other in all tensors: the tile
    of the one is taken to be no smaller than that of the other at the first place."""
    found: list[tuple[int, int]] = []
    for one in question.operands:
        for first, second in combinations(one.windows, 2):
            swap = {d: d for d in range(len(question.extents))}
            for p, q in zip(first.dims, second.dims, strict=True):
                swap[p], swap[q] = q, p
            if not found and first.coefficients == second.coefficients and _is_invariant(question, swap):
                found.append((first.dims[0], second.dims[0]))
    return found


def _is_invariant(question: Question, swap: dict[int, int]) -> bool:
    extents = question.extents
    return all(extents[d] == extents[e] for d, e in swap.items()) and all(
        {swap[d] for d in one.plain} == set(one.plain)
        and {swap[d] for d in one.lacking} == set(one.lacking)
        and {(swap[w.dims[0]], swap[w.dims[1]], w.coefficients) for w in one.windows}
        == {(*w.dims, w.coefficients) for w in one.windows}
        for one in question.operands
    )


def _is_rising(window: Window) -> bool:
    """Return whether the elements of a tile move up with both dims, and the tiles of one dim leave no gaps."""
    return min(window.coefficients) == 1
