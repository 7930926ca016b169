"""Products of few lanes or few terms: vectors no longer than what fills them, short sums one by one; exact values."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import default_rng

import polymap as pm

SHAPES = [(1, 4, 128), (1, 7, 9), (1, 3, 5), (1, 2, 40), (2, 5, 6), (9, 7, 20), (40, 2, 8), (33, 12, 3), (1, 15, 4)]


@pytest.mark.parametrize("kind", ["float32", "float64", "int32"])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_of_few_lanes_have_exact_values(shape: tuple[int, int, int], kind: str) -> None:
    m, n, k = shape
    rng = default_rng(m * n * k)
    a, b = (rng.integers(-9, 9, size).astype(kind) for size in ((m, k), (k, n)))
    start = rng.integers(-9, 9, (m, n)).astype(kind)
    w = pm.matmul(m, n, k, types=kind, initial=("C",))
    product = pm.compile(w, "cpu_avx512", threads=1, tail=["relu"])
    assert np.array_equal(product(a, b, out=start.copy()), np.maximum(start + a @ b, 0))
    packed = product.pack_weights(b)
    assert np.array_equal(product(a, packed, out=start.copy()), np.maximum(start + a @ b, 0))


@pytest.mark.parametrize(("shape", "bytes_"), [((1, 4, 128), 16), ((1, 7, 9), 16), ((9, 7, 20), 32), ((9, 20, 9), 64)])
def test_vectors_are_no_longer_than_what_fills_them(shape: tuple[int, int, int], bytes_: int) -> None:
    source = pm.compile(pm.matmul(*shape, bits=32), "cpu_avx512", threads=1).source
    assert f"typedef float vec __attribute__((vector_size({bytes_})));" in source


@pytest.mark.parametrize(("terms", "is_in_lanes"), [(3, False), (7, False), (31, False), (32, True), (50, True)])
def test_short_sums_of_rows_are_added_one_by_one(terms: int, is_in_lanes: bool) -> None:
    rng = default_rng(terms)
    a, b = (rng.integers(-9, 9, size).astype(np.float32) for size in ((50, terms), (terms, 1)))
    product = pm.compile(pm.matmul(50, 1, terms, bits=32), "cpu_avx512", threads=1)
    assert ("#pragma omp simd" in product.source) == is_in_lanes
    assert product.source.index("< 50; ++d0") < product.source.index(f"< {terms}; ++d2")
    assert np.array_equal(product(a, b), a @ b)
