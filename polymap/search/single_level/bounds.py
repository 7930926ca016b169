"""Lower bounds on the outermost level's traffic over all loop trees and sizes of one buffer (docs/buffer_curves.md).

`OrderBound` is for questions without windows; `branching.py` has those with windows. `bound_at_once` takes other
costs than bits.

Rounding, with u = 2**-53 and d dims. What fits is decided without any: a question has less than 2**53 bits of tensors
(question.py), so sizes, elements and room are integers that float64 holds; a quotient of two of them, rounded and cut
to an integer, is never below the true one, and more room or elements only lower a bound. Traffic is rounded:

- a product of pieces over dims: (d - 1) u; times elements, `visits` of the first node: d u.
- visits - (visits - 1) kept with kept at most a half, since a short last piece has at most half of the indices: the
  result is at least visits / 2, so (3 d + 1) u; with the third node's limit, a sum of positive terms, (3 d + 7) u.
- weight * loads - saved is at least half of weight * loads (else `margin_of` takes more): twice the relative error of
  loads, and 3 u.
- the sum over three tensors and what bypasses the buffer, none negative: 4 u.

Together at most (12 d + 40) u; `margin_of` takes (16 d + 64) u, and the last step is in exact fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, inf, isfinite, prod

import numpy as np

from polymap.poly import FloatArray
from polymap.resources import OutOfTime, Stop, never
from polymap.search.problem import Measure, Problem
from polymap.search.single_level.first_tiles import FirstTiles, Ints
from polymap.search.single_level.question import Operand, Question, margin_of as margin_of, priced_question


class OrderBound:
    """The bound for one order of the tensors that the buffer holds, by the positions of their nodes, outermost
    first."""

    def __init__(self, tiles: FirstTiles, order: tuple[Operand, ...]) -> None:
        self.tiles, self.order = tiles, order
        self.fixed = float(tiles.question.bypassing(order))
        if order:
            first, later = order[0], order[1:]
            self._bits = tiles.of(first).words * first.bits + sum(one.bits for one in later)
            self._first = first.weight * tiles.of(first).loads_first - first.saved + self.fixed
            self._least_later = sum(one.weight * one.elements - one.saved for one in later)

    def least(self, room: int, known: float) -> float:
        """Return the least bits for a buffer of `room`, up to rounding; at most `known`."""
        if not self.order:
            return min(self.fixed, known)
        room = min(room, self.tiles.question.bits)
        cells = np.flatnonzero((self._bits <= room) & (self._first + self._least_later < known))
        if not len(cells):
            return known
        left, total = room - self._bits[cells], self._first[cells]
        for place, one in enumerate(self.order[1:], 1):
            words = np.floor(left / one.bits) + 1
            total = total + one.weight * self._later(place, one, words, left, cells) - one.saved
        return min(float(total.min()), known)

    def _later(self, place: int, one: Operand, words: FloatArray, left: FloatArray, cells: Ints) -> FloatArray:
        """Return a lower bound on the loads of a tensor whose node is further in and holds so many elements."""
        visits = self.tiles.of(one).visits[cells]
        kept = _most_kept(self.tiles, one, words, cells)
        loads = one.elements * (visits - (visits - 1) * kept)
        if place == 2:
            loads = np.maximum(loads, self._loads_by_room(one, left, visits, kept, cells))
        return loads

    def _loads_by_room(
        self, one: Operand, left: FloatArray, visits: FloatArray, kept: FloatArray, cells: Ints
    ) -> FloatArray:
        """Return the loads of the third node's tensor that follow from the number of elements that the second one
        holds."""
        tiles, second = self.tiles, self.order[1]
        shared = [d for d in one.lacking if d in second.own]
        others = tuple(d for d in one.lacking if d not in second.own)
        instances = float(prod(tiles.question.extents[d] for d in shared))
        held = np.floor(left / second.bits) + 1
        boxes = np.maximum(instances / held, 1) * tiles.product(tiles.pieces, others)[cells]
        base = visits - (visits - 1) * kept
        return one.elements * (base * (2 / 3) + np.maximum(boxes, base) / 3)


def _most_kept(tiles: FirstTiles, one: Operand, words: FloatArray, cells: Ints) -> FloatArray:
    """Return an upper bound on the share of a tensor's elements that stay from one box of the dims it lacks to the
    next."""
    found: FloatArray = np.zeros(len(cells))
    extents = tiles.question.extents
    for cut in one.cuts:
        held, least, most = np.ones(len(cells)), np.ones(len(cells)), np.ones(len(cells))
        for d in one.plain:
            if d in cut:
                least, most = least * tiles.least_rest[d][cells], most * tiles.most_rest[d][cells]
            else:
                held = held * tiles.low[d][cells]
        share = np.minimum(most, np.floor(words / held)) / float(prod(extents[d] for d in cut))
        found = np.maximum(found, np.where(words >= held * least, share, 0.0))
    return found


def least_bits(
    question: Question, rooms: Sequence[int], known: Sequence[int | None], stop: Stop = never
) -> list[int | None]:
    """Return, per size of the buffer in bits, a lower bound over all loop trees; None where no tree fits.

    known: the bits of a known mapping per size (None: none), which the bound does not exceed. Raises OutOfTime where
    `stop` says so.
    """
    margin = margin_of(question)
    # what a bound need not exceed
    found = [inf if bits is None else float(bits) * float(1 + 4 * margin) for bits in known]
    for tiles in FirstTiles.parts(question):
        if stop():
            raise OutOfTime
        for order in question.orders():
            bound = OrderBound(tiles, order)
            found = [bound.least(room, least) for room, least in zip(rooms, found, strict=True)]
    return [_least_integer(least, value, margin, question.grain) for least, value in zip(found, known, strict=True)]


def bound_at_once(problem: Problem, measure: Measure, stop: Stop = never) -> Fraction | None:
    """Return a lower bound on a linear measure without windows over all mappings; None unless on two levels without
    fan-outs, with few enough tiles, and with time for all."""
    priced = priced_question(problem, measure)
    if priced is None or any(one.windows for one in priced[0].operands):
        return None
    usable, (question, besides) = problem.arch.levels[1].usable_bits, priced
    try:
        (least,) = least_bits(question, [question.bits if usable is None else usable], [None], stop)
    except OutOfTime:
        return None
    return None if least is None else measure.unscaled(least + besides)


def _least_integer(least: float, known: int | None, margin: Fraction, grain: int) -> int | None:
    """Return the least multiple of the grain that is consistent with a float64 bound of `least`."""
    if not isfinite(least):
        return known
    bits = grain * ceil(Fraction(least) * (1 - margin) / grain)
    return bits if known is None else min(bits, known)
