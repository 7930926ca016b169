"""The divisor lattice: factors, divisors, places, and the running minimum against looking at every divisor."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, strategies as st

from polymap.search.problem.lattice import divisors, lattice_below, minimum_below, prime_factors, restrict_table

EXTENTS = [(("m", 1),), (("m", 12), ("n", 1)), (("m", 6), ("n", 9), ("k", 10)), (("p", 7), ("q", 8))]


@given(st.integers(1, 3000))
def test_divisors_are_the_numbers_that_divide(number: int) -> None:
    assert divisors(number) == tuple(d for d in range(1, number + 1) if number % d == 0)


@given(st.integers(1, 100_000))
def test_prime_factors_multiply_to_the_number(number: int) -> None:
    factors = prime_factors(number)
    assert prod(prime**exponent for prime, exponent in factors) == number
    assert [prime for prime, _ in factors] == sorted({prime for prime, _ in factors})
    assert all(divisors(prime) == (1, prime) for prime, _ in factors)


@pytest.mark.parametrize("extents", EXTENTS)
def test_every_place_is_a_vector_of_divisors_and_back(extents: tuple[tuple[str, int], ...]) -> None:
    lattice = lattice_below(extents)
    places = list(np.ndindex(lattice.shape))
    points = [lattice.point(place) for place in places]
    assert len(places) == prod(len(divisors(extent)) for _, extent in extents)
    assert len({tuple(point.values()) for point in points}) == len(places)
    assert [lattice.index(point) for point in points] == places
    assert lattice.point(lattice.top) == dict(extents)
    for dim, _ in extents:
        values = np.broadcast_to(lattice.values[dim], lattice.shape)
        assert [int(values[place]) for place in places] == [point[dim] for point in points]


@pytest.mark.parametrize("extents", EXTENTS)
def test_minimum_below_is_the_least_over_all_points_that_divide(extents: tuple[tuple[str, int], ...]) -> None:
    lattice = lattice_below(extents)
    tables = np.random.default_rng(0).integers(0, 1000, size=(3, *lattice.shape), dtype=np.int64)
    before = tables.copy()
    minimum_below(tables)
    places = list(np.ndindex(lattice.shape))
    for place in places:
        outer = lattice.point(place)
        below = [at for at in places if all(outer[dim] % tile == 0 for dim, tile in lattice.point(at).items())]
        for number in range(3):
            assert tables[(number, *place)] == min(before[(number, *at)] for at in below)


INSIDE = [
    ((("m", 12), ("n", 6)), (("m", 4), ("n", 6))),
    ((("m", 12), ("n", 6)), (("m", 3), ("n", 1))),
    ((("m", 60), ("n", 8)), (("m", 10), ("n", 2))),
    ((("m", 4), ("n", 1)), (("m", 1), ("n", 1))),
]


@pytest.mark.parametrize(("outer", "inner"), INSIDE)
def test_a_restricted_table_has_the_entries_of_the_same_tiles(
    outer: tuple[tuple[str, int], ...], inner: tuple[tuple[str, int], ...]
) -> None:
    whole, part = lattice_below(outer), lattice_below(inner)
    table = np.arange(prod(whole.shape), dtype=np.int64).reshape(whole.shape)
    found = restrict_table(table, whole, part)
    assert found.shape == part.shape
    for place in np.ndindex(part.shape):
        assert found[place] == table[whole.index(part.point(place))]
