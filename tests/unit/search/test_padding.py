"""Extents a little longer than a product's, with many divisors."""

from __future__ import annotations

import time
from math import prod

import pytest

import polymap as pm
from polymap.explore import search
from polymap.search.dividing.product_padding import _longer
from polymap.search.dividing.product_spread import _rows
from polymap.search.dividing.product_tuning import TUNING
from polymap.search.problem import divisors

HUGE = (10**9, 2**31, 2**63, 10**30)


@pytest.mark.parametrize("extent", [3, 7, 127, 997, 4099])
def test_short_extents_are_all_looked_at(extent: int) -> None:
    every = range(extent + 1, extent + max(4, extent * 6 // 100) + 1)
    most = sorted(every, key=lambda n: (-len(divisors(n)), n))[: TUNING.extents_per_dim]
    assert _longer(extent) == (extent, *sorted(most))


@pytest.mark.parametrize("extent", HUGE)
def test_of_long_extents_a_few_thousand_are(extent: int) -> None:
    found = _longer(extent)
    assert len(found) == 1 + TUNING.extents_per_dim
    assert all(extent < longer <= extent * 106 // 100 for longer in found[1:])


@pytest.mark.parametrize("extent", HUGE)
@pytest.mark.parametrize("name", ["A", "B"])
def test_a_product_with_a_huge_extent_is_answered(extent: int, name: str) -> None:
    product = pm.einsum(f"C[m,n] += A[m,k] * {name}[n,k]", m=extent, n=8, k=8)
    found = search(product, "flat3", time_limit_s=1, clock=time.process_time)
    if name == "A" and extent > 1 << 40:  # the union of such intervals is not counted
        assert (found.status, found.best) == ("TIMEOUT", None)
        return
    assert found.best is not None
    assert found.bound <= found.value


def test_factors_whose_product_is_beyond_64_bits_are_not_taken_for_small_ones() -> None:
    rows = _rows(((1, 1 << 16),) * 4, 1 << 16).tolist()
    assert sorted(map(prod, rows)) == [1, *[1 << 16] * 4]
