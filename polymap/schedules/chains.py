"""The number of chains of tiles from a dim's extent to 1, per tile rule.

A chain is the sequence of tiles of one dim's loops, outermost first: strictly decreasing, ending at 1; with dividing
tiles each divides the one before. `any`: a chain of k loops picks k - 1 tiles between 1 and the extent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from math import comb, prod

import numpy as np
from numpy.typing import NDArray

from polymap.poly import split
from polymap.schedules.tuning import TUNING

Table = NDArray[np.int64]
Trips = tuple[int, ...]


class TileRule(StrEnum):
    """The tiles that a loop may have. DIVIDE: divisors of the enclosing tile; ANY: all smaller ones."""

    DIVIDE = "divide"
    ANY = "any"


def prime_exponents(number: int) -> tuple[int, ...]:
    """Return the exponents of the prime factorisation, by rising prime."""
    return tuple(exponent for _, exponent in split(number)[0])


@cache
def chains(rule: TileRule, extent: int, loops: int) -> int:
    """Return the number of chains of exactly `loops` loops from `extent` to 1."""
    if extent == 1 or loops == 0:
        return int(extent == 1 and loops == 0)
    if rule is TileRule.ANY:
        return comb(extent - 2, loops - 1)
    exponents = prime_exponents(extent)
    return sum(
        (-1) ** (loops - kept) * comb(loops, kept) * prod(comb(e + kept - 1, kept - 1) for e in exponents)
        for kept in range(1, loops + 1)
    )


def longest_chain(rule: TileRule, extent: int) -> int:
    """Return the largest number of loops of a chain."""
    return extent - 1 if rule is TileRule.ANY else sum(prime_exponents(extent))


@dataclass(frozen=True, slots=True, order=True)
class Spread:
    """One dim over some fan-outs. trips: of its loop on each (1: none). stands: the fan-outs of its loops, outermost
    first, at the places of these fan-outs."""

    trips: Trips
    stands: Trips


def spreads(rule: TileRule, extent: int, sizes: Sequence[int], orders: Iterable[Trips]) -> Iterator[Spread]:
    """Yield all ways to spread one dim over fan-outs of these sizes. orders: those with a loop, outermost first."""
    for order in orders:
        stands = dict(zip(sorted(order), order, strict=True))
        for trips in spatial_trips(rule, extent, [sizes[fanout] for fanout in order]):
            own = dict(zip(order, trips, strict=True))
            every = range(len(sizes))
            yield Spread(tuple(own.get(f, 1) for f in every), tuple(stands.get(f, f) for f in every))


def spatial_trips(rule: TileRule, extent: int, sizes: Sequence[int]) -> Iterator[Trips]:
    """Yield all tuples of trip counts above 1 of one dim over fan-outs of these sizes."""
    if not sizes:
        yield ()
        return
    most = min(sizes[0], extent)
    for trips in divisors_up_to(extent, most)[1:] if rule is TileRule.DIVIDE else range(2, most + 1):
        inner = extent // trips if rule is TileRule.DIVIDE else (extent - 1) // (trips - 1)
        for rest in spatial_trips(rule, inner, sizes[1:]):
            yield (trips, *rest)


def divisors_up_to(extent: int, most: int) -> list[int]:
    """Return the divisors of an extent up to a limit, ascending (of what could not be split into primes those that its
    known primes make)."""
    found = [1]
    for prime, exponent in split(extent)[0]:
        found = [one * prime**power for one in found for power in range(exponent + 1) if one * prime**power <= most]
    return sorted(found)


def dividing_table(extent: int, trips: Sequence[Trips], longest: int, prime: int) -> Table:
    """Return [temporal loops 0..longest, trips] -> number of dividing chains, modulo `prime`.

    Where the spatial loops stand among the temporal ones makes no difference.
    """
    counts = [[chains(TileRule.DIVIDE, extent // prod(t), k) % prime for t in trips] for k in range(longest + 1)]
    return np.array(counts, dtype=np.int64)


def unlimited_table(rule: TileRule, extent: int, orders: Sequence[Trips], longest: int, prime: int) -> Table:
    """Return [temporal loops 0..longest, 0] -> chains with spatial loops in any of these orders."""
    loops = [len(order) for order in orders]
    counts = [[sum(chains(rule, extent, k + spatial) for spatial in loops) % prime] for k in range(longest + 1)]
    return np.array(counts, dtype=np.int64)


def any_table(extent: int, units: Sequence[int], trips: Sequence[Trips], longest: Sequence[int], prime: int) -> Table:
    """Return [loops before unit 0, between 0 and 1, ..., after the last, trips] -> chains of any tiles, mod `prime`.

    units: number of fan-outs per group of spatial loops, in the order in which they stand, as do the trip counts.
    longest: the most temporal loops per region (one more than units).
    """
    if not units:
        counts = [[chains(TileRule.ANY, extent, loops) % prime] * len(trips) for loops in range(longest[0] + 1)]
        return np.array(counts, dtype=np.int64)
    regions = {0: longest[0]}  # after how many fan-outs a region of temporal loops begins
    for number, most in zip(range(len(units)), longest[1:-1], strict=False):
        regions[sum(units[: number + 1])] = most
    known: dict[Trips, Table] = {}

    def after(prefix: Trips) -> Table:
        """Return [loops so far, ..., tile] after the first fan-outs and the temporal loops that follow them."""
        if prefix not in known:
            ways = _spatial(after(prefix[:-1]), prefix[-1], prime) if prefix else _start(extent)
            inner = regions.get(len(prefix)) if len(prefix) < sum(units) else None
            known[prefix] = ways if inner is None else _temporal(ways, inner, prime)
        return known[prefix]

    ends = _ends(extent, longest[-1], prime)
    columns = [residue_product(after(counts), ends.T, prime) for counts in trips]
    return np.stack(columns, axis=-1)


def residues(values: Table, prime: int) -> Table:
    """Return values modulo prime (numpy divides faster than it takes remainders)."""
    return values - values // prime * prime


def residue_product(left: NDArray[np.generic], right: NDArray[np.generic], prime: int) -> Table:
    """Return left @ right modulo prime (below 2^17), in parts whose sums stay below 2^53, where float64 is exact."""
    total = np.zeros((*left.shape[:-1], right.shape[-1]), dtype=np.int64)
    for first in range(0, left.shape[-1], TUNING.summed_at_once):
        part = slice(first, first + TUNING.summed_at_once)
        some, others = (each.astype(np.float64, copy=False) for each in (left[..., part], right[part]))
        total += residues((some @ others).astype(np.int64), prime)
    return residues(total, prime)


def _ends(extent: int, most: int, prime: int) -> Table:
    """Return [loops 0..most, tile] -> chains of temporal loops from the tile to 1."""
    rows = np.zeros((most + 1, extent + 1), dtype=np.int64)
    rows[0, 1] = 1
    for loops in range(most):
        rows[loops + 1, 2:] = np.cumsum(rows[loops, 1:-1]) % prime
    return rows


def _start(extent: int) -> Table:
    """Return tile -> ways (0 is no tile): all stand at the extent."""
    ways = np.zeros(extent + 1, dtype=np.int64)
    ways[extent] = 1
    return ways


def _temporal(ways: Table, most: int, prime: int) -> Table:
    """Return [..., loops, tile]: after 0..most temporal loops, each to any smaller tile >= 1."""
    layers = [ways]
    for _ in range(most):
        larger = np.zeros_like(ways)
        sums = np.cumsum(layers[-1][..., ::-1], axis=-1)[..., ::-1]
        larger[..., 1:-1] = sums[..., 2:]
        layers.append(larger % prime)
    return np.stack(layers, axis=-2)


def _spatial(ways: Table, trips: int, prime: int) -> Table:
    """Return [..., tile] after one spatial loop of exactly `trips` iterations: ceil(tile before / tile) = trips."""
    if trips == 1:
        return ways
    extent = ways.shape[-1] - 1
    sums = np.concatenate([np.zeros_like(ways[..., :1]), np.cumsum(ways, axis=-1)], axis=-1)
    tiles = np.arange(1, extent + 1, dtype=np.int64)
    after = np.zeros_like(ways)
    after[..., 1:] = (
        sums[..., np.minimum(trips * tiles, extent) + 1] - sums[..., np.minimum((trips - 1) * tiles, extent) + 1]
    )
    return after % prime
