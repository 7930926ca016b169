"""Products of bytes four at a time: equal to numpy's sums in 32 bits, with and without dot-product instructions; those
of bfloat16 two at a time: in their stated order and rounding, within the bound of float32's sums."""

from __future__ import annotations

import ctypes
import math
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import polymap as pm
from polymap.codegen.native import in_words

KINDS = [(first, second) for first in ("uint8", "int8") for second in ("uint8", "int8")]
BASELINES = [
    ("-march=x86-64", "cpu_avx2"),
    ("-march=x86-64-v3", "cpu_avx2"),
    ("-march=x86-64-v4", "cpu_avx512"),
]
SIZES = [
    (1, 1, 4),
    (3, 17, 4),
    (20, 37, 24),
    (5, 64, 100),
    (33, 16, 8),
    (2, 3, 7),
    (9, 33, 5),
    (20, 40, 39),
    (3, 18, 2),
    (40, 2, 101),
]
FILTERS = [(3, 1, 1), (3, 1, 2), (1, 0, 1), (5, 2, 1), (3, 0, 1)]


def drawn(kind: str, shape: tuple[int, ...], seed: int = 0) -> NDArray[np.int64]:
    """Return bytes, those at the ends of their range among them."""
    info, generator = np.iinfo(kind), np.random.default_rng(seed)
    values = generator.integers(info.min, info.max + 1, shape)
    return np.where(generator.random(shape) < 0.2, info.min, np.where(generator.random(shape) < 0.2, info.max, values))


def shorts(shape: tuple[int, ...], seed: int, spread: int = 3, middle: int = 0) -> NDArray[np.uint16]:
    """Return bits of bfloat16, their exponents within a spread around a middle."""
    generator = np.random.default_rng(seed)
    exponents = generator.integers(127 + middle - spread, 128 + middle + spread, shape)
    bits = generator.integers(0, 2, shape) << 15 | exponents << 7 | generator.integers(0, 128, shape)
    return bits.astype(np.uint16)


def widened(bits: NDArray[np.uint16]) -> NDArray[np.float64]:
    """Return the values of bfloat16, by the bits of float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def allowed(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far sums of float32 may be from a @ b: each of k products is rounded with its sum and on its own, and
    what is below 2^-126 counts as zero, in operands, products and sums."""
    k, unit, tiny = a.shape[1], 2.0**-24, 2.0**-126
    steps = 2 * k * unit / (1 - 2 * k * unit)
    lost = tiny * (np.abs(a).sum(1)[:, None] + np.abs(b).sum(0)[None, :]) + 2 * k * tiny
    return steps * (np.abs(a) @ np.abs(b)) + lost


def rounded(value: Fraction) -> Fraction:
    """Return the float32 nearest to a value, the even one of two, without limits of the exponent."""
    if not value:
        return value
    unit = Fraction(2) ** (math.frexp(float(value))[1] - 24)
    return round(value / unit) * unit


def pair_by_pair(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of products of which the second of each pair is added first, each addition rounded once."""
    m, k, n = a.shape[0], a.shape[1], b.shape[1]
    order = [at for first in range(0, k, 2) for at in (first + 1, first) if at < k]
    sums = np.zeros((m, n))
    for i, j in np.ndindex(m, n):
        total = Fraction(0)
        for at in order:
            total = rounded(total + Fraction(a[i, at]) * Fraction(b[at, j]))
        sums[i, j] = float(total)
    return sums


def as_built(function: pm.CompiledFunction, flag: str, where: Path, *given: NDArray[Any]) -> NDArray[np.float32]:
    """Return what a product's text computes on its operands, compiled with a flag."""
    source, library = where / "product.c", where / "product.so"
    source.write_text(function.source, encoding="ascii")
    command = ["cc", "-O2", "-ffp-contract=fast", flag, "-w", "-shared", "-fPIC", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    c = np.zeros((given[0].shape[0], given[1].shape[1]), np.float32)
    ctypes.CDLL(str(library)).polymap_native(*(ctypes.c_void_p(each.ctypes.data) for each in (*given, c)))
    return c


def product_of(kinds: tuple[str, str], m: int, n: int, k: int, text: str = "B[k,n]") -> pm.Workload:
    types = {"A": kinds[0], "B": kinds[1], "C": "int32"}
    return pm.einsum(f"C[m,n] += A[m,k] * {text}", m=m, n=n, k=k, types=types)


@pytest.mark.parametrize("number", range(len(SIZES)))
@pytest.mark.parametrize("text", ["B[k,n]", "B[n,k]"])
def test_products_of_bytes(number: int, text: str) -> None:
    (m, n, k), kinds = SIZES[number], KINDS[(number + len(text)) % 4]
    function = pm.compile(product_of(kinds, m, n, k, text), "cpu_avx512")
    a, b = drawn(kinds[0], (m, k)), drawn(kinds[1], (k, n), 1)
    given = (a.astype(kinds[0]), np.ascontiguousarray(b if text == "B[k,n]" else b.T).astype(kinds[1]))
    np.testing.assert_array_equal(function(*given), (a @ b).astype(np.int32))
    np.testing.assert_array_equal(function(given[0], function.pack_weights(given[1])), (a @ b).astype(np.int32))
    assert ("DOT_" in function.source) == (k >= 4 and min(m, n) > 1), "shorter sums have no words"


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize(("flag", "machine"), BASELINES)
def test_processors_without_the_instructions(kinds: tuple[str, str], flag: str, machine: str, tmp_path: Path) -> None:
    """All pairs of bytes, at each of the four places of a word."""
    if "v4" in flag and "avx512bw" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip("the processor has no AVX-512")
    function = pm.compile(product_of(kinds, 1024, 256, 4), machine)
    source, library = tmp_path / "product.c", tmp_path / "product.so"
    source.write_text(function.source, encoding="ascii")
    subprocess.run(["cc", "-O2", flag, "-w", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    first, second = (np.arange(256) + np.iinfo(kind).min for kind in kinds)
    a, b = np.kron(np.eye(4, dtype=np.int64), first[:, None]), np.tile(second, (4, 1))
    c = np.zeros((1024, 256), np.int32)
    given = [a.astype(kinds[0]), b.astype(kinds[1]), c]
    ctypes.CDLL(str(library)).polymap_native(*(ctypes.c_void_p(each.ctypes.data) for each in given))
    np.testing.assert_array_equal(c, np.tile(np.outer(first, second), (4, 1)))


@pytest.mark.parametrize("kinds", KINDS)
def test_sums_beyond_32_bits_wrap_around(kinds: tuple[str, str]) -> None:
    m, n, k = 2, 17, 150_000
    a, b = (np.full(shape, np.iinfo(kind).min or 255) for shape, kind in zip(((m, k), (k, n)), kinds, strict=True))
    assert abs(k * int(a[0, 0]) * int(b[0, 0])) > 2**31, "the sum has no place in 32 bits"
    found = pm.compile(product_of(kinds, m, n, k), "cpu_avx512")(a.astype(kinds[0]), b.astype(kinds[1]))
    np.testing.assert_array_equal(found, ((a @ b) & 0xFFFFFFFF).astype(np.uint32).view(np.int32))


def convolved(x: NDArray[np.int64], w: NDArray[np.int64], padding: int, stride: int) -> NDArray[np.int64]:
    """Return the sums of x[H,W,C] and w[K,R,S,C] as [P,Q,K], by the definition."""
    x = np.pad(x, ((padding, padding), (padding, padding), (0, 0)))
    taps = range(w.shape[1])
    size = (x.shape[0] - w.shape[1]) // stride + 1
    total = np.zeros((size, size, w.shape[0]), np.int64)
    for r in taps:
        for s in taps:
            part = x[r : r + stride * size : stride, s : s + stride * size : stride][:size, :size]
            total += part @ w[:, r, s].T
    return total


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("number", range(len(FILTERS)))
def test_convolutions_of_bytes(number: int, layout: str) -> None:
    (taps, padding, stride), kinds = FILTERS[number], KINDS[(1, 3)[number % 2]]
    types = {"I": kinds[0], "W": kinds[1], "O": "int32"}
    layer = pm.conv2d(K=19, C=8, H=9, W=9, R=taps, S=taps, padding=padding, stride=stride, types=types)
    function = pm.compile(layer, "cpu_avx512", layout=layout)
    x, w = drawn(kinds[0], (9, 9, 8)), drawn(kinds[1], (19, taps, taps, 8), 1)
    expected = convolved(x, w, padding, stride)
    images = x[None] if layout == "NHWC" else np.moveaxis(x, 2, 0)[None]
    filters = w if layout == "NHWC" else np.moveaxis(w, 3, 1)
    found = function(
        *(np.ascontiguousarray(each).astype(kind) for each, kind in zip((images, filters), kinds, strict=True))
    )
    np.testing.assert_array_equal(found[0] if layout == "NHWC" else np.moveaxis(found[0], 0, 2), expected)
    assert "DOT_" in function.source, "images with channels far apart are copied"


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("groups", [1, 2])
def test_tiles_whose_steps_have_several_vectors(groups: int, kind: str) -> None:
    """Of two groups, or two words in one step: each vector has its own part in what is too much."""
    types = {"I": kind, "W": kind, "O": "int32"}
    work = pm.einsum("O[g,k,p] += I[g,c,p] * W[g,k,c]", g=groups, k=20, p=49, c=8, types=types)
    x, w = drawn(kind, (groups, 8, 49)), drawn(kind, (groups, 20, 8), 1)
    found = pm.compile(work, "cpu_avx512")(x.astype(kind), w.astype(kind))
    np.testing.assert_array_equal(found, (w @ x).astype(np.int32))


def test_a_requantised_tail_and_sums_that_begin_with_values() -> None:
    types = {"A": "uint8", "B": "int8", "C": "int32"}
    a, b = drawn("uint8", (5, 12)), drawn("int8", (12, 40), 1)
    given = a.astype(np.uint8), b.astype(np.int8)
    sums = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=5, n=40, k=12, types=types, initial=["C"])
    start = np.arange(200, dtype=np.int32).reshape(5, 40)
    found = pm.compile(sums, "cpu_avx512")(*given, out=start.copy())
    np.testing.assert_array_equal(found, a @ b + start)
    tail = ["relu", pm.Requantize(scale=0.5**8, to="uint8")]
    narrow = pm.compile(product_of(("uint8", "int8"), 5, 40, 12), "cpu_avx512", tail=tail)
    expected = np.clip(np.rint(np.maximum(a @ b, 0) / 256), 0, 255)
    np.testing.assert_array_equal(narrow(*given), expected)


@pytest.mark.parametrize("limit_s", [0.001, 10])
def test_a_limit_that_leaves_no_mapping_leaves_the_value(limit_s: float) -> None:
    workload = pm.einsum(
        "O[m,n] += B[n,k,b]*A[m,k,b]", m=31, k=32, b=23, n=63, types={"A": "int8", "B": "int8", "O": "int32"}
    )
    b, a = drawn("int8", (63, 32, 23)).astype(np.int8), drawn("int8", (31, 32, 23), 1).astype(np.int8)
    found = pm.compile(workload, "cpu_avx512", time_limit_s=limit_s)(b, a)
    np.testing.assert_array_equal(found, np.einsum("nkb,mkb->mn", b, a, dtype=np.int32))


SHORTS = ("bfloat16", "bfloat16")


def shorts_of(m: int, n: int, k: int, text: str = "B[k,n]", *, associative: bool = True) -> pm.Workload:
    types = {"A": "bfloat16", "B": "bfloat16", "C": "float32"}
    return pm.einsum(f"C[m,n] += A[m,k] * {text}", m=m, n=n, k=k, types=types, associative=associative)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("text", ["B[k,n]", "B[n,k]"])
def test_products_of_bfloat16(size: tuple[int, int, int], text: str) -> None:
    m, n, k = size
    function = pm.compile(shorts_of(m, n, k, text), "host_cpu")
    a, b = shorts((m, k), 0), shorts((k, n), 1)
    given = a, b if text == "B[k,n]" else np.ascontiguousarray(b.T)
    first, second = widened(a), widened(b)
    for found in (function(*given), function(given[0], function.pack_weights(given[1]))):
        assert (np.abs(found - first @ second) <= allowed(first, second)).all()
    assert ("DOT_BB" in function.source) == (min(m, n) > 1)


@pytest.mark.parametrize("flag", [flag for flag, _ in BASELINES[1:]] + ["-march=native"])
@pytest.mark.parametrize("k", [8, 7])
def test_pairs_are_added_in_their_order_and_rounded_once(flag: str, k: int, tmp_path: Path) -> None:
    """With the instruction and without it, to the bit; values from 2^-6 to 2^7 leave nothing below 2^-126."""
    if flag != "-march=native" and (
        "v4" in flag and "avx512bw" not in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    ):
        pytest.skip("the processor has no AVX-512")
    a, b = shorts((5, k), 2), shorts((k, 37), 3)
    found = as_built(pm.compile(shorts_of(5, 37, k), "cpu_avx512"), flag, tmp_path, a, b)
    np.testing.assert_array_equal(found, pair_by_pair(widened(a), widened(b)))


@pytest.mark.parametrize("flag", ["-march=x86-64", "-march=native"])
@pytest.mark.parametrize("middles", [(-64, -64), (-122, 100), (-122, -3)])
def test_values_below_those_of_float32(flag: str, middles: tuple[int, int], tmp_path: Path) -> None:
    a, b = shorts((5, 24), 4, 5, middles[0]), shorts((24, 37), 5, 5, middles[1])
    found = as_built(pm.compile(shorts_of(5, 37, 24), "cpu_avx512"), flag, tmp_path, a, b)
    first, second = widened(a), widened(b)
    assert (np.abs(found - first @ second) <= allowed(first, second)).all()


def test_what_is_not_associative_is_read_one_by_one() -> None:
    assert in_words(shorts_of(5, 37, 24), "NHWC", 16) is not None
    assert in_words(shorts_of(5, 37, 24, associative=False), "NHWC", 16) is None


@pytest.mark.parametrize("kinds", [*KINDS, SHORTS])
@pytest.mark.parametrize("m", [1, 3])
def test_a_matrix_that_few_rows_read_is_read_where_it_lies(kinds: tuple[str, str], m: int) -> None:
    n, k = 75, 40
    types = {"A": kinds[0], "B": kinds[1], "C": "float32" if kinds == SHORTS else "int32"}
    function = pm.compile(pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=m, n=n, k=k, types=types), "cpu_avx512")
    assert "words_at(" in function.source
    if kinds == SHORTS:
        a, b = shorts((m, k), 8), shorts((k, n), 9)
        found, first, second = function(a, b), widened(a), widened(b)
        assert (np.abs(found - first @ second) <= allowed(first, second)).all()
        return
    a, b = drawn(kinds[0], (m, k)), drawn(kinds[1], (k, n), 1)
    np.testing.assert_array_equal(function(a.astype(kinds[0]), b.astype(kinds[1])), a @ b)
