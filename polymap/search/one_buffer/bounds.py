"""What no loop tree beats at the outermost level, for every size of the only buffer (docs/buffer_curves.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import ceil

import numpy as np

from polymap.arithmetic import FloatArray
from polymap.search.one_buffer.first_tiles import FirstTiles, Ints
from polymap.search.one_buffer.question import Operand, Question

MARGIN = 1e-12  # relative; of sums of a few products of whole numbers and ratios


@dataclass(frozen=True, slots=True)
class Relaxed:
    """The least bits over all cells for one order of held tensors, and the cells in the order of what they allow."""

    order: tuple[Operand, ...]
    bits: float
    cells: Ints


class OrderBound:
    """The bound for one order of held tensors, the first place first: cells sorted by what the first node holds."""

    def __init__(self, tiles: FirstTiles, order: tuple[Operand, ...]) -> None:
        self.tiles, self.order = tiles, order
        self.fixed = float(tiles.question.bypassing(order))
        if order:
            self.first_bits = tiles.words(order[0]) * order[0].bits
            self.first = order[0].weight * tiles.loads_first(order[0]) - order[0].saved

    def least(self, room: int) -> tuple[float, Ints]:
        """Return the least bits with so much room in the buffer, inf where nothing fits, and the cells from the best
        one on."""
        if not self.order:
            return self.fixed, np.zeros(0, dtype=np.int64)
        rest = sum(one.bits for one in self.order[1:])
        cells = np.flatnonzero(self.first_bits <= room - rest)
        if not len(cells):
            return float("inf"), cells
        left = room - self.first_bits[cells] - rest
        total = self.first[cells] + self.fixed
        for place, one in enumerate(self.order[1:], 1):
            words = np.floor((left + one.bits) / one.bits)
            loads = self._later(place, one, words, left, cells)
            total = total + one.weight * loads - one.saved
        best = np.argsort(total, kind="stable")[:64]
        return float(total[best[0]]), cells[best]

    def _later(self, place: int, one: Operand, words: FloatArray, left: FloatArray, cells: Ints) -> FloatArray:
        """Return the loads of a tensor whose node stands further in and holds so many elements, at least."""
        visits = self.tiles.visits(one)[cells]
        if one.windows:
            return self._of_window(one, words, visits, cells)
        kept = _most_kept(self.tiles, one, words, cells)
        loads = one.elements * (visits - (visits - 1) * kept)
        if place == 2:
            loads = np.maximum(loads, self._limited(one, left, visits, kept, cells))
        return loads

    def _of_window(self, one: Operand, words: FloatArray, visits: FloatArray, cells: Ints) -> FloatArray:
        tiles = self.tiles
        slabs = tiles.slabs(one)[cells] * visits
        whole = np.ones(len(cells))
        may_keep = np.ones(len(cells), dtype=np.bool_)
        for d in one.plain:
            is_whole = tiles.is_whole[d][cells]
            whole = whole * np.where(is_whole, float(tiles.question.extents[d]), 1.0)
        may_keep = words >= whole
        kept = np.maximum(slabs - (tiles.all_pieces[cells] - 1) * words, float(one.elements))
        return np.where(may_keep, kept, np.maximum(slabs, one.elements))

    def _limited(self, one: Operand, left: FloatArray, visits: FloatArray, kept: FloatArray, cells: Ints) -> FloatArray:
        """Return the loads of the tensor of the third node that follow from how few elements the second one holds."""
        tiles, second = self.tiles, self.order[1]
        shared = [d for d in one.lacking if d in second.own]
        others = tuple(d for d in one.lacking if d not in second.own)
        instances = float(np.prod([tiles.question.extents[d] for d in shared], initial=1))
        held = np.floor((left + second.bits) / second.bits)
        boxes = np.maximum(instances / held, 1) * tiles.product(tiles.pieces, others)[cells]
        base = visits - (visits - 1) * kept
        return one.elements * (base * (2 / 3) + np.maximum(boxes, base) / 3)


def _most_kept(tiles: FirstTiles, one: Operand, words: FloatArray, cells: Ints) -> FloatArray:
    """Return which share of a tensor's elements may stay from one box of the dims it lacks to the next, at most."""
    found: FloatArray = np.zeros(len(cells))
    extents = tiles.question.extents
    for cut in _subsets(one.plain):
        held, least, most = np.ones(len(cells)), np.ones(len(cells)), np.ones(len(cells))
        for d in one.plain:
            if d in cut:
                least, most = least * tiles.least_rest[d][cells], most * tiles.most_rest[d][cells]
            else:
                held = held * tiles.low[d][cells]
        share = np.minimum(most, np.floor(words / held)) / float(np.prod([extents[d] for d in cut]))
        found = np.maximum(found, np.where(words >= held * least, share, 0.0))
    return found


def _subsets(dims: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield all subsets but the empty one."""
    for count in range(1, len(dims) + 1):
        yield from combinations(dims, count)


def least_bits(question: Question, rooms: list[int]) -> list[tuple[int, list[Relaxed]]]:
    """Return, per room, the bits that no loop tree goes below, and what each order of nodes says."""
    tiles = FirstTiles(question)
    found: list[list[Relaxed]] = [[] for _ in rooms]
    for order in question.orders():
        bound = OrderBound(tiles, order)
        for place, room in enumerate(rooms):
            bits, cells = bound.least(room)
            if np.isfinite(bits):
                found[place].append(Relaxed(order, bits, cells))
    return [(ceil(min(one.bits for one in each) * (1 - MARGIN)), each) for each in found]
