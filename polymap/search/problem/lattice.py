"""The divisor lattice of temporal tiles: one axis per dim and prime, ordered by divisibility.

A point is a vector of temporal tiles, one divisor of the temporal extent per dim, stored as exponents. Arrays over the
lattice have one axis per (dim, prime). So "divides" means "no exponent is larger", and the minimum over all points
below is a running minimum along each axis. Example: extents m = 12, n = 3 give axes (m, 2), (m, 3), (n, 3) and shape
(3, 2, 2) up to the order of axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymap.poly import Numbers, count_type, split

IntArray = NDArray[Any]  # counts: int64, or Python ints where those may not fit (see limits.py)


def prime_factors(number: int) -> tuple[tuple[int, int], ...]:
    """Return (prime, exponent) pairs of a positive integer, primes ascending.

    A long factor that could not be split counts as a prime (see `split`).
    """
    return split(number)[0]


def rounded_up(number: int, bits: int, most_prime: int) -> int:
    """Return a positive integer with a prime factor above `most_prime` rounded up to one with so many significant bits;
    any other as it is."""
    if prime_factors(number)[-1:] <= ((most_prime, number.bit_length()),):
        return number
    step = 1 << max(0, number.bit_length() - bits)
    return -(-number // step) * step


def divisors(number: int) -> tuple[int, ...]:
    """Return the divisors of a positive integer, ascending."""
    found = [1]
    for prime, exponent in prime_factors(number):
        found = [value * prime**power for value in found for power in range(exponent + 1)]
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class Lattice:
    """The lattice below `extents` (dim -> temporal extent, in order).

    axes: (dim, prime) per array axis. shape: exponent + 1 per axis. values: dim -> the dim's tile at every point,
    broadcastable to shape.
    """

    extents: tuple[tuple[str, int], ...]
    axes: tuple[tuple[str, int], ...]
    shape: tuple[int, ...]
    values: Mapping[str, IntArray]

    def point(self, index: tuple[int, ...]) -> dict[str, int]:
        """Return dim -> tile at the exponents `index`."""
        tiles = {dim: 1 for dim, _ in self.extents}
        for (dim, prime), exponent in zip(self.axes, index, strict=True):
            tiles[dim] *= prime**exponent
        return tiles

    def index(self, point: Mapping[str, int]) -> tuple[int, ...]:
        """Return the exponents of a point (dim -> tile)."""
        exponents: list[int] = []
        for dim, prime in self.axes:
            rest, exponent = point[dim], 0
            while rest % prime == 0:
                rest //= prime
                exponent += 1
            exponents.append(exponent)
        return tuple(exponents)

    @property
    def top(self) -> tuple[int, ...]:
        return tuple(length - 1 for length in self.shape)


def lattice_below(extents: tuple[tuple[str, int], ...]) -> Lattice:
    """Return the divisor lattice of the temporal extents."""
    # Long axes last: running minima along them then touch memory in order.
    powers_of = sorted(
        ((exponent + 1, dim, prime) for dim, extent in extents for prime, exponent in prime_factors(extent)),
        key=lambda axis: axis[0],
    )
    axes = tuple((dim, prime) for _, dim, prime in powers_of)
    shape = tuple(length for length, _, _ in powers_of)
    values: dict[str, IntArray] = {}
    kind = count_type(max((extent for _, extent in extents), default=1))
    for dim, _ in extents:
        tile = np.ones((1,) * len(axes), dtype=kind)
        for axis, (owner, prime) in enumerate(axes):
            if owner == dim:
                powers = np.array([prime**power for power in range(shape[axis])], dtype=kind)
                tile = tile * powers.reshape([-1 if a == axis else 1 for a in range(len(axes))])
        values[dim] = tile
    return Lattice(extents, axes, shape, values)


def restrict_table(table: Numbers, outer: Lattice, inner: Lattice) -> Numbers:
    """Return a table over the lattice `outer` (possibly of length 1 along some axes), restricted to the points of
    `inner`."""
    lengths = dict(zip(inner.axes, inner.shape, strict=True))
    part = table[tuple(slice(0, lengths.get(axis, 1)) for axis in outer.axes)]
    order = [outer.axes.index(axis) for axis in inner.axes]
    gone = [place for place in range(len(outer.axes)) if place not in order]
    return part.transpose(*order, *gone).reshape([part.shape[place] for place in order])


def minimum_below(tables: Numbers) -> None:
    """Replace every entry of a stack of tables [n, *lattice] by the least entry at the points that divide its point.

    For any dtype; complex numbers compare by their real, then by their imaginary part.
    """
    whole, before = tables.size, len(tables)
    for length in tables.shape[1:]:
        view = tables.reshape(before, length, whole // (before * length))
        for position in range(1, length):
            np.minimum(view[:, position], view[:, position - 1], out=view[:, position])
        before *= length


def minimum_above(table: Numbers) -> Numbers:
    """Return a table over a lattice whose entries are the least of one at the points that its point divides."""
    flipped = tuple(slice(None, None, -1) for _ in table.shape)
    found = np.array(table[flipped])[None]
    minimum_below(found)
    return np.asarray(found[0][flipped])
