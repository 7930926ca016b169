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
    a, b = (rng.integers(-9, 9, size).astype(np.float32) for size in ((3, terms), (terms, 1)))
    product = pm.compile(pm.matmul(3, 1, terms, bits=32), "cpu_avx512", threads=1)
    assert ("#pragma omp simd" in product.source) == is_in_lanes
    assert product.source.index("< 3; ++d0") < product.source.index(f"< {terms}; ++d2")
    assert np.array_equal(product(a, b), a @ b)


COLUMNS = [
    ("O[m,n] += A[m,k] * B[k,n]", {"m": 37, "n": 2, "k": 33}),
    ("O[m,n] += A[m,k] * B[n,k]", {"m": 16, "n": 3, "k": 32}),
    ("O[n,m] += A[m,k] * B[k,n]", {"m": 21, "n": 3, "k": 17}),
    ("O[n,m] += X[n,k] * W[m,k]", {"m": 50, "n": 2, "k": 48}),
    ("O[m] += x[k] * W[m,k]", {"m": 5, "k": 31}),
    ("O[b,m,n] += A[b,m,k] * B[b,k,n]", {"b": 3, "m": 18, "n": 2, "k": 19}),
    ("O[b,c,m] += A[c,m,k] * B[b,k]", {"b": 2, "c": 3, "m": 33, "k": 40}),
    ("O[b,n,m] += A[b,m,k] * B[b,n,k]", {"b": 2, "m": 19, "n": 5, "k": 67}),
    ("O[m,n] += A[m,k,l] * B[k,l,n]", {"m": 12, "n": 1, "k": 4, "l": 9}),
]


@pytest.mark.parametrize("machine", ["cpu_avx512 float32", "cpu_avx2 float64", "cpu_avx512 int32"])
@pytest.mark.parametrize(("text", "sizes"), COLUMNS)
def test_products_of_few_columns_have_exact_values(text: str, sizes: dict[str, int], machine: str) -> None:
    arch, kind = machine.split()
    w = pm.einsum(text, sizes=sizes, types=kind)
    started = pm.einsum(text, sizes=sizes, types=kind, initial=("O",))
    rng = default_rng(sum(sizes.values()))
    read = [access.tensor for access in w.statements[0].reads]
    a, b, start = (rng.integers(-9, 9, w.tensor(name).shape).astype(kind) for name in (*read, "O"))
    target, operands = text.replace(" ", "").split("+=")
    subs = [each[each.index("[") + 1 : -1].replace(",", "") for each in (*operands.split("*"), target)]
    expected = np.einsum(f"{subs[0]},{subs[1]}->{subs[2]}", a, b)
    product = pm.compile(w, arch, threads=1)
    assert "_lanes" in product.source
    assert not product.reason
    assert np.array_equal(product(a, b), expected)
    added = pm.compile(started, arch, threads=1, tail=["relu"])
    assert np.array_equal(added(a, b, out=start.copy()), np.maximum(start + expected, 0))


def test_rows_of_few_columns_do_not_read_their_neighbours() -> None:
    a = np.ones((20, 24), np.float32)
    a[3, 23], a[7, 0], a[19, 23] = np.inf, np.nan, -np.inf
    product = pm.compile(pm.matmul(20, 1, 24, bits=32), "cpu_avx512", threads=1)
    expected = np.full((20, 1), 24, np.float32)
    expected[[3, 7, 19], 0] = np.inf, np.nan, -np.inf
    assert np.array_equal(product(a, np.ones((24, 1), np.float32)), expected, equal_nan=True)


def test_sums_of_few_columns_in_order_have_no_lanes_along_their_terms() -> None:
    w = pm.matmul(40, 1, 32, bits=32, associative=False)
    assert "_lanes" not in pm.compile(w, "cpu_avx512", threads=1).source


@pytest.mark.parametrize(
    ("columns", "kind"),
    [(17, "float32"), (20, "float64"), (24, "float32"), (33, "int32"), (40, "float32"), (50, "float64")],
)
def test_last_vectors_are_no_longer_than_their_lanes(columns: int, kind: str) -> None:
    """Few and many rows, sums that begin from zero and from values, the matrix as it lies and packed."""
    rng = default_rng(columns)
    is_short = False
    for rows, terms in ((9, 37), (1, 40), (40, 700)):
        a, b = (rng.integers(-9, 9, size).astype(kind) for size in ((rows, terms), (terms, columns)))
        start = rng.integers(-9, 9, (rows, columns)).astype(kind)
        for initial in ((), ("C",)):
            product = pm.compile(pm.matmul(rows, columns, terms, types=kind, initial=initial), "cpu_avx512")
            expected = a @ b + (start if initial else 0)
            is_short |= "vec_" in product.source
            for matrix in (b, product.pack_weights(b)):
                whole = np.full((rows + 2, columns), 77, kind)
                whole[1:-1] = start
                product(a, matrix, out=whole[1:-1])
                assert np.array_equal(whole[1:-1], expected)
                assert (whole[0] == 77).all()
                assert (whole[-1] == 77).all()
    assert is_short


@pytest.mark.parametrize(("layout", "groups"), [("NHWC", 1), ("NCHW", 1), ("NHWC", 24), ("NCHW", 24)])
@pytest.mark.parametrize("stride", [1, 2])
def test_layers_with_short_last_vectors(layout: str, groups: int, stride: int) -> None:
    rng, side = default_rng(stride), 21
    x = rng.integers(-9, 9, (1, 24, side, side)).astype(np.float32)
    w = rng.integers(-9, 9, (24, 24 // groups, 3, 3)).astype(np.float32)
    layer = pm.conv2d(K=24, C=24, H=side, W=side, R=3, S=3, padding=1, stride=stride, groups=groups, bits=32)
    padded, count = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), -(-side // stride)
    expected = np.zeros((1, 24, count, count), np.float32)
    for r in range(3):
        for s in range(3):
            seen = padded[:, :, r : r + side : stride, s : s + side : stride]
            expected += (
                np.einsum("nchw,kc->nkhw", seen, w[:, :, r, s])
                if groups == 1
                else seen * w[None, :, 0, None, None, r, s]
            )
    function = pm.compile(layer, "cpu_avx512", layout=layout)
    if layout == "NHWC":
        x, w, expected = (np.ascontiguousarray(np.moveaxis(each, 1, 3)) for each in (x, w, expected))
    assert np.array_equal(function(x, w), expected)
