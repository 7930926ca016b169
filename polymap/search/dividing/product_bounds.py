"""What limited room costs at least beyond one visit per node: many pairs of a plan and a structure at once.

Of the nodes of one level, or of all nodes, the outermost one, X, has the dims that the others lack, so its tile takes
bits x a x b where a and b are the tiles, of these dims, that decide how often the others are visited: n / a and m / b
times at least. The least of w n / a + v m / b with a <= n, b <= m, a b <= room has a b = room and
a = sqrt(w n room / v m), or the end of a that is next to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_ERROR = 1e-9  # of any sum here, relative to its terms: far above what float64 loses


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The nodes of a tensor, per pair: what one visit of each costs together, bits that the least tile of the outermost
    takes (0: there is none), bits that its level may hold, the temporal extent of the dim that the tensor lacks."""

    weight: Floats
    bits: Floats
    usable: Floats
    extent: Floats


def least_excess(sides: list[Side]) -> NDArray[np.int64]:
    """Return at least what visits beyond the first cost, rounded down. Each side lacks another dim."""
    once = sum((side.weight for side in sides), start=np.zeros(len(sides[0].bits)))
    least = np.full(len(once), np.inf)
    for outer, others in _outermost(sides):
        cost = outer.weight + _least(others, outer.usable / np.maximum(outer.bits, 1))
        least = np.minimum(least, np.where(outer.bits > 0, cost, np.inf))
    excess = np.where(np.isfinite(least), least, once) * (1 - _ERROR) - once
    return np.floor(np.maximum(excess, 0)).astype(np.int64)


def _outermost(sides: list[Side]) -> Iterator[tuple[Side, list[Side]]]:
    for place, side in enumerate(sides):
        yield side, [*sides[:place], *sides[place + 1 :]]


def _least(others: list[Side], room: Floats) -> Floats:
    """Return the least cost of the others, of which the two first are bounded together."""
    first = others[0].weight * others[0].extent
    if len(others) == 1:
        return np.maximum(others[0].weight, first / room)
    second = others[1].weight * others[1].extent
    rest = sum((side.weight for side in others[2:]), start=np.zeros(len(room)))
    even = np.sqrt(first * room / np.maximum(second, 1))
    tile = np.minimum(np.maximum(even, room / others[1].extent), others[0].extent)
    return np.maximum(first / tile + second * tile / room, others[0].weight + others[1].weight) + rest
