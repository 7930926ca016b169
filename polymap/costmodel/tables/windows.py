"""Sizes and overlaps of tiles along a window of two dims, for many mappings at once.

The tile is {a x + y : x < many, y < run} up to a translation and a reflection, a > 0: every window of two dims of which
one has the coefficient 1 or -1.
"""

from __future__ import annotations

import numpy as np

from polymap.costmodel.closed_form import Window
from polymap.costmodel.tables.loops import Integers


class Tiles:
    """stride: a. size: elements."""

    __slots__ = ("_length", "_many", "_run", "_solid", "_stride", "size")

    def __init__(self, stride: int, many: Integers, run: Integers) -> None:
        self._stride, self._many, self._run = stride, many, run
        self._length: Integers = stride * (many - 1) + run
        if stride == 1:
            self._solid = None
            self.size: Integers = self._length
        else:
            self._solid = (run >= stride) | (many == 1)
            self.size = np.where(self._solid, self._length, many * run)

    def overlap(self, shift: Integers) -> Integers:
        """Return how many elements each tile has in common with itself moved by `shift`."""
        away = np.abs(shift)
        solid = np.maximum(self._length - away, 0)
        if self._solid is None:
            return solid
        whole, rest = np.divmod(away, self._stride)
        near = np.maximum(self._many - whole, 0) * np.maximum(self._run - rest, 0)
        far = np.maximum(self._many - whole - 1, 0) * np.maximum(self._run - (self._stride - rest), 0)
        return np.where(self._solid, solid, near + far)


def sum_size(stride: Integers, many: Integers, other_stride: Integers, other_many: Integers) -> Integers:
    """Return the elements of {0, stride, ...} + {0, other_stride, ...}.

    Two sums are equal where the digits differ by multiples of other_stride / g and stride / g, g the greatest common
    divisor: all but the least of each such chain are counted once too often.
    """
    common = np.gcd(stride, other_stride)
    twice = np.maximum(many - other_stride // common, 0) * np.maximum(other_many - stride // common, 0)
    return many * other_many - twice


def is_simple(window: Window) -> bool:
    """Return whether the tiles of a window are of this kind."""
    return len(window.terms) == 2 and min(abs(factor) for _, factor in window.terms) == 1


def tiles_of(window: Window, lengths: dict[int, Integers]) -> Tiles:
    """Return the tiles along a simple window; lengths: of the index set along each dim."""
    (one, other) = window.terms
    if abs(one[1]) == 1:
        one, other = other, one
    return Tiles(abs(one[1]), lengths[one[0]], lengths[other[0]])
