"""Tables of the elements of a window's tiles, computed once per search."""

from __future__ import annotations

import numpy as np

from polymap.poly import FloatArray
from polymap.resources import SearchCaches
from polymap.search.any_size import fewest_in_box
from polymap.search.single_level.tuning import TUNING

Pair = tuple[int, int]


class WindowTables:
    """The tables [size - 1, size - 1] of all windows, kept in a search's caches."""

    def __init__(self, caches: SearchCaches) -> None:
        self.caches = caches
        self.fewest = caches.memo(fewest_table, TUNING.kept_windows)
        self.pieces = caches.memo(pieces_table, TUNING.kept_windows)


def fewest_table(extents: Pair, coefficients: Pair) -> FloatArray:
    """Return the least elements that a tile of a window touches, [size - 1, size - 1]."""
    sizes = [range(1, extent + 1) for extent in extents]
    return np.array([[float(fewest_in_box(coefficients, (x, z))) for z in sizes[1]] for x in sizes[0]])


def pieces_table(extents: Pair, coefficients: Pair) -> FloatArray:
    """Return, per tile size of a window, the elements that its pieces of the whole touch at least, summed."""
    touched = np.pad(fewest_table(extents, coefficients), ((1, 0), (1, 0)))
    (n, m), x, z = extents, np.arange(1, extents[0] + 1), np.arange(1, extents[1] + 1)
    full, fulls = (n // x)[:, None], (m // z)[None, :]
    rest, rests = (n % x)[:, None], (m % z)[None, :]
    across = fulls * touched[x[:, None], z[None, :]] + touched[x[:, None], rests]
    return full * across + fulls * touched[rest, z[None, :]] + touched[rest, rests]
