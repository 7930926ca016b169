"""Arrays of exact integers agree with Python's own, in every arithmetic; what cannot be is no number."""

from __future__ import annotations

import random
from math import prod

import numpy as np
import pytest

from polymap.poly.exact import Arithmetic, Kind, arithmetic_for, count_type
from polymap.poly.primes import is_prime, split
from tests.times import few

KINDS = {Kind.NARROW: 57, Kind.WIDE: 94, Kind.LONG: 1500}


def _drawn(rng: random.Random, arithmetic: Arithmetic, bits: int) -> tuple[np.ndarray, list[int]]:
    """Return counts x weights, some below zero, and the same as Python ints. Neighbours are often close or equal."""
    weight = rng.randrange(1 << max(1, bits - 30))
    counts = [rng.randrange(1 << 28) for _ in range(40)]
    counts += [counts[0] + delta for delta in (-1, 0, 0, 1)]
    low = rng.randrange(-(1 << 20), 1 << 20)
    array = arithmetic.sum_of([(np.array(counts), weight), (np.arange(44), low)])
    return array, [count * weight + place * low for place, count in enumerate(counts)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", few(range(20), 12))
def test_sums_and_orders_are_those_of_python(kind: Kind, seed: int) -> None:
    rng = random.Random(f"{kind} {seed}")
    arithmetic = arithmetic_for((1 << KINDS[kind]) - 1)
    assert arithmetic.kind is kind
    (a, first), (b, second) = (_drawn(rng, arithmetic, KINDS[kind] - 4) for _ in range(2))
    one = rng.randrange(-(1 << KINDS[kind] - 4), 1 << KINDS[kind] - 4)
    assert arithmetic.numbers(a) == first
    assert arithmetic.numbers(arithmetic.plus(a, b)) == [x + y for x, y in zip(first, second, strict=True)]
    assert arithmetic.numbers(arithmetic.plus(a, one)) == [x + one for x in first]
    assert arithmetic.numbers(np.minimum(a, b)) == [min(x, y) for x, y in zip(first, second, strict=True)]
    assert (a < b).tolist() == [x < y for x, y in zip(first, second, strict=True)]
    for limit in (first[0], first[0] + 1, first[3] - 1, 1 << 2000, -(1 << 2000)):
        assert (a < arithmetic.scalar(limit)).tolist() == [x < limit for x in first]
    assert int(np.argmin(a)) == first.index(min(first))
    assert [arithmetic.number(entry) for entry in a] == first


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_stays_so_whatever_is_added(kind: Kind) -> None:
    most = (1 << KINDS[kind]) - 1
    arithmetic = arithmetic_for(most)
    numbers = arithmetic.sum_of([(np.array([1, 1, -1, -1]), most)])
    allowed = np.array([True, False, True, False])
    barred = arithmetic.where(allowed, numbers)
    for more in (numbers, barred):
        total = arithmetic.plus(barred, more)
        assert arithmetic.possible(total).tolist() == allowed.tolist()
        assert arithmetic.possible(np.minimum(total, numbers)).all()
        arithmetic.clip(total)
        assert arithmetic.number(total[1]) is None


def test_long_counts_are_python_ints() -> None:
    assert count_type((1 << 62) - 1) == np.int64
    assert count_type(1 << 62).kind == "O"


def test_factors_multiply_to_the_number_and_are_prime() -> None:
    rng = random.Random(7)
    for bits in (3, 10, 20, 40, 60, 80):
        for _ in range(8):
            number = rng.randrange(1, 1 << bits)
            factors, complete = split(number)
            assert prod(prime**exponent for prime, exponent in factors) == number
            assert complete
            assert all(is_prime(prime) for prime, _ in factors)
    small = [n for n in range(2, 5000) if all(n % d for d in range(2, int(n**0.5) + 1))]
    assert [n for n in range(2, 5000) if is_prime(n)] == small
    # Strong pseudoprimes to base 2, Carmichael numbers, and primes beyond 64 bits.
    assert not any(is_prime(n) for n in (2047, 3215031751, 561, 3825123056546413051, 10**30 + 1))
    assert is_prime(1287836182261 * 2575672364521) is None, "a strong pseudoprime to all bases"
    assert all(is_prime(n) for n in (2**61 - 1, 10**30 + 57, 2**127 - 1))
