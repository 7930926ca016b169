"""Sorting and grouping of integer columns, for the referee's counters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def sum_by(group: Ints, size: int, values: Ints | None = None) -> Ints:
    """Return the sums of small integers per group."""
    return np.bincount(group, values, size).astype(np.int64)


def unique(values: Ints) -> Ints:
    """Return the distinct values, sorted (like np.unique, with less overhead)."""
    ordered = np.sort(values, axis=None)
    new = np.empty(len(ordered), dtype=np.bool_)
    new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def join(*columns: Ints) -> Ints:
    """Return one number per row that sorts as the columns do, the first most significant."""
    code = columns[0]
    for column in columns[1:]:
        code = code * (int(column.max()) + 1) + column
    return code


def changes(values: Ints) -> NDArray[np.bool_]:
    """Return where a value differs from its predecessor; the first one does."""
    new = np.empty(len(values), dtype=np.bool_)
    new[:1] = True
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return new


def starts(codes: Ints) -> Ints:
    """Return the positions at which runs of consecutive integers begin in a strictly increasing array."""
    new = np.empty(len(codes), dtype=np.bool_)
    new[:1] = True
    np.not_equal(codes[1:], codes[:-1] + 1, out=new[1:])
    return np.flatnonzero(new)
