"""Exact numbers of any length: divisors, and grids of tiles. Arrays hold 64-bit integers where every number that can
occur fits, else Python's. `never`, above all of them, stands for what cannot be, and tells which kind is in use."""

from functools import cache, lru_cache
from math import gcd, isqrt, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymap.checker.model import Tile, tick
from polymap.checker.rules import need

NEVER, FITS = 1 << 60, 1 << 58  # of 64-bit integers; numbers below FITS can be added and halved beside NEVER
Array = NDArray[Any]
WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
DECIDED = 3_317_044_064_679_887_385_961_981  # the first number on which these may err (Sorenson and Webster 2015)


def never_above(numbers: int) -> int:
    """Return what stands for "cannot be" beside numbers that are all below `numbers`."""
    return NEVER if numbers < FITS else 1 << numbers.bit_length() + 2


def kind_of(never: int) -> Any:
    """Return the kind of numbers beside which `never` stands."""
    return np.int64 if never == NEVER else object


def is_prime(number: int) -> bool:
    """Return whether an odd number above 41 is prime, by the test of Miller and Rabin with enough bases."""
    twos = (number - 1 & 1 - number).bit_length() - 1
    for base in WITNESSES:
        powers = [pow(base, number - 1 >> twos - i, number) for i in range(twos)]
        if powers[0] != 1 and number - 1 not in powers:
            return False
    need(number < DECIDED, "an extent has a factor so long that it is not known to be prime")
    return True


def factor_of(number: int) -> int:
    """Return a proper factor of a number that is not prime, by Pollard's rho."""
    if isqrt(number) ** 2 == number:
        return isqrt(number)
    common, shift = number, 0
    while common == number:
        slow, fast, common, shift = 2, 2, 1, shift + 1
        while common == 1:
            tick()
            slow, fast = (slow * slow + shift) % number, ((fast * fast + shift) ** 2 + shift) % number
            common = gcd(slow - fast, number)
    return common


@cache
def primes(number: int) -> Tile:
    """Return the prime factors, ascending, repeated."""
    if number == 1:
        return ()
    first = next((factor for factor in range(2, min(isqrt(number), 1000) + 1) if number % factor == 0), 0)
    if not first and (number < 1_000_000 or is_prime(number)):
        return (number,)
    first = first or factor_of(number)
    return tuple(sorted((*primes(first), *primes(number // first))))


@cache
def divisors(number: int) -> Tile:
    """Return the divisors, ascending."""
    found = [1]
    for prime in sorted({*primes(number)}):
        found = [known * prime**power for known in found for power in range(primes(number).count(prime) + 1)]
        need(len(found) <= 1 << 16, "an extent has too many divisors")
    return tuple(sorted(found))


class Grid:
    """The tiles that divide `top`: axes (dim, prime, flat stride), tiles in flat order, values per dim (broadcast)."""

    def __init__(self, top: Tile, kind: Any = np.int64) -> None:
        axes = [(d, p) for d, extent in enumerate(top) for p in sorted({*primes(extent)})]
        axes = axes or [(0, 2)] * bool(top)  # of a single tile: numbers stay in arrays, which do not wrap
        self.top, self.shape = top, tuple(primes(top[d]).count(p) + 1 for d, p in axes)
        need(prod(self.shape) <= 1 << 20 and len(axes) < 31, "the problem is too large")
        self.axes = [(d, p, prod(self.shape[a + 1 :])) for a, (d, p) in enumerate(axes)]
        steps = zip(axes, np.indices(self.shape, sparse=True), strict=True)
        powers = [(d, p ** exponent.astype(kind)) for (d, p), exponent in steps]
        self.values = [np.asarray(prod(one for e, one in powers if e == d), kind) for d in range(len(top))]

    @property
    def tiles(self) -> Array:
        """Return the tiles in flat order."""
        return np.stack([np.broadcast_to(value, self.shape).ravel() for value in self.values], axis=1)

    def index(self, tile: Tile) -> Tile:
        """Return the place of a tile along every axis."""
        return tuple(primes(tile[d]).count(p) for d, p, _ in self.axes)

    def flat(self, tile: Tile) -> int:
        """Return the place of a tile among `tiles`."""
        return sum(place * axis[2] for place, axis in zip(self.index(tile), self.axes, strict=True))


grid_of = lru_cache(maxsize=1_000)(Grid)


@lru_cache(maxsize=1_000)
def within(top: Tile, dims: Tile, whole: Tile) -> Array:
    """Return, over the grid of `top`, the flat places of the tiles' parts in the grid of some dims of `whole`."""
    grid, own = grid_of(top, object), grid_of(tuple(whole[d] for d in dims), object)
    strides = {(dims[d], p): stride for d, p, stride in own.axes}
    steps = zip(grid.axes, np.indices(grid.shape, sparse=True), strict=True)
    return np.asarray(sum(index * strides.get(axis[:2], 0) for axis, index in steps), np.int64)
