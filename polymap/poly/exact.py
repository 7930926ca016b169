"""Exact integers in numpy arrays, whatever their length, with a place for "cannot be" that is no number.

Who builds a table first derives a limit that the magnitude of every number in it stays below (see `limits.py`); the
arithmetic follows from the limit. Below 2^59 numbers are int64. Below 2^96 they are two limbs in a complex128, high x
2^48 + low with 0 <= low < 2^48, both exact in a float64: numpy orders complex numbers by their real and then by their
imaginary part, so `np.minimum`, `<` and `argmin` are exact as they are, and infinity stands for what cannot be. Longer
numbers are Python's own integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from polymap.poly.progression import COUNT_LIMIT

Numbers = NDArray[Any]  # of the dtype that an arithmetic says
FloatArray = NDArray[np.float64]
Term = tuple[NDArray[Any], int]  # counts (int64 or Python ints) and what each weighs

NARROW_BITS, WIDE_BITS = 59, 96
_LOW_BITS = 48
_BASE = float(1 << _LOW_BITS)
_LOW = np.uint64((1 << _LOW_BITS) - 1)
_SHIFT = np.uint64(_LOW_BITS)
_TOP = float(1 << 64 - _LOW_BITS)
INT64: np.dtype[Any] = np.dtype(np.int64)
PYTHON: np.dtype[Any] = np.dtype(object)
_LIMBS: np.dtype[Any] = np.dtype(np.complex128)


class Kind(Enum):
    """How numbers are kept: int64, two limbs, Python ints."""

    NARROW = "int64"
    WIDE = "two limbs"
    LONG = "python"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Arrays of numbers whose magnitude, and that of all their sums that are asked for, is below `limit`.

    Entries that cannot be are `never`: such an entry stays one when numbers, or one more such entry, are added.
    """

    kind: Kind
    limit: int

    @property
    def never(self) -> int | complex:
        return complex(np.inf, 0) if self.kind is Kind.WIDE else 4 * self.limit

    @property
    def dtype(self) -> np.dtype[Any]:
        if self.kind is Kind.NARROW:
            return INT64
        return _LIMBS if self.kind is Kind.WIDE else PYTHON

    def scalar(self, number: int) -> int | complex:
        """Return a number as arrays compare with it; any that is beyond the limit is as good as the limit."""
        if self.kind is not Kind.WIDE:
            return number
        cut = max(-self.limit, min(number, self.limit))
        return complex(cut >> _LOW_BITS, cut & (1 << _LOW_BITS) - 1)

    def number(self, entry: Any) -> int | None:
        """Return one entry of an array (None: cannot be)."""
        if self.kind is Kind.WIDE:
            return None if np.isinf(entry.real) else (int(entry.real) << _LOW_BITS) + int(entry.imag)
        return None if entry >= self.limit else int(entry)

    def numbers(self, array: Numbers) -> list[int]:
        """Return the entries of a flat array, none of which may be one that cannot be."""
        if self.kind is not Kind.WIDE:
            return array.tolist()
        high, low = _halves(array)
        return [(int(h) << _LOW_BITS) + int(w) for h, w in zip(high.tolist(), low.tolist(), strict=True)]

    def floats(self, array: Numbers) -> NDArray[np.float64] | None:
        """Return the entries, each rounded (None: they may be too long for that)."""
        if self.kind is Kind.LONG:
            return None
        if self.kind is Kind.NARROW:
            return array.astype(np.float64)
        high, low = _halves(array)
        return high * _BASE + low

    def possible(self, array: Numbers) -> NDArray[np.bool_]:
        """Return where an array has numbers."""
        if self.kind is Kind.WIDE:
            return np.isfinite(_halves(array)[0])
        return np.asarray(array < self.limit, dtype=np.bool_)

    def where(self, allowed: NDArray[np.bool_], array: Numbers) -> Numbers:
        """Return the array with everything that is not allowed as what cannot be."""
        return np.where(allowed, array, np.array(self.never, dtype=self.dtype))

    def plus(self, first: Numbers, second: Numbers | int) -> Numbers:
        """Return the sums."""
        if self.kind is Kind.NARROW:
            return np.asarray(first + second)
        if self.kind is Kind.LONG:
            return np.asarray(first + second, dtype=object)
        total = np.asarray(first + (self.scalar(second) if isinstance(second, int) else second))
        high, low = _halves(total)  # views
        carry = np.floor(low * (1 / _BASE))
        high += carry
        low -= carry * _BASE
        return total

    def sum_of(self, terms: Sequence[Term]) -> Numbers:
        """Return the sum of counts x weight, of one term or more; entries may be anything where the true sum, or one
        of its terms, is beyond the limit."""
        if self.kind is Kind.LONG:
            return np.asarray(sum(np.asarray(counts).astype(object) * weight for counts, weight in terms), dtype=object)
        if self.kind is Kind.NARROW:
            return np.asarray(sum(np.multiply(counts, weight) for counts, weight in terms), dtype=np.int64)
        return _limbs(terms)

    def clip(self, array: Numbers) -> None:
        """Make every entry that cannot be the same, in place."""
        if self.kind is not Kind.WIDE:
            np.minimum(array, np.array(self.never, dtype=self.dtype), out=array)


def _halves(array: Numbers) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    limbs = cast("NDArray[np.complex128]", array)
    return limbs.real, limbs.imag


def _limbs(terms: Sequence[Term]) -> Numbers:
    """Return the sums as two limbs: modulo 2^64 they are exact, and a float64 tells them to less than 2^63."""
    shape = np.broadcast_shapes(*(counts.shape for counts, _ in terms))
    about, wrapped = np.zeros(shape), np.zeros(shape, dtype=np.uint64)
    for counts, weight in terms:
        about = np.add(about, np.multiply(counts, float(weight)))
        modulo = np.array(weight % (1 << 64), dtype=np.uint64)
        wrapped = np.add(wrapped, np.multiply(counts.astype(np.int64).view(np.uint64), modulo))
    low = np.bitwise_and(wrapped, _LOW).astype(np.float64)
    top = np.right_shift(wrapped, _SHIFT).astype(np.float64)  # the high limb modulo 2^16
    high = top + _TOP * np.round(((about - low) / _BASE - top) / _TOP)
    total = np.empty(shape, dtype=np.complex128)
    total.real, total.imag = high, low
    return total


@lru_cache(maxsize=1024)
def arithmetic_for(most: int) -> Arithmetic:
    """Return the arithmetic for numbers of magnitude up to `most`, with room for as much again."""
    bits = most.bit_length() + 1
    if bits <= NARROW_BITS:
        return Arithmetic(Kind.NARROW, 1 << NARROW_BITS)
    if bits <= WIDE_BITS:
        return Arithmetic(Kind.WIDE, 1 << WIDE_BITS)
    return Arithmetic(Kind.LONG, 1 << bits)


def count_type(most: int) -> np.dtype[Any]:
    """Return the dtype of arrays of counts up to `most`."""
    return INT64 if most < COUNT_LIMIT else PYTHON
