"""Tails of native functions equal numpy bit for bit: every step and type, random trees and layers, both compilers.

Sums are of small integers, which every type holds exactly, so that they are the same in any order.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polymap as pm
from polymap.codegen.native import ArrayForm, NativeFunction
from tests.native_cases import DTYPES, SANITIZED, exact, machine, printed, random_conv, random_tree, results, types_of
from tests.times import few

KINDS = ("float32", "float64", "int", "bfloat16")
PRODUCTS = (("C[m,n] += A[m,k] * B[k,n]", "mk,kn->mn"), ("C[n,m] += A[m,k] * B[k,n]", "mk,kn->nm"))
LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-(2**15), 2**15 - 1), "uint16": (0, 2**16 - 1)}
Values = np.ndarray
Tail = Sequence[str | pm.Requantize]


def random_tail(rng: random.Random, kind: str) -> list[str | pm.Requantize]:
    steps: list[str | pm.Requantize] = [rng.choice(["bias", "add", "relu"]) for _ in range(rng.randint(1, 3))]
    if kind != "float64" and rng.random() < 0.5:
        to = rng.choice(list(LIMITS))
        zero = rng.randint(*LIMITS[to]) if rng.random() < 0.7 else 0
        steps.append(pm.Requantize(rng.choice([None, 0.5, 0.013, 3.7e-3, 12.5]), zero, to))
    return steps[-1:] if rng.random() < 0.2 else steps


def with_tail(sums: Values, tail: Tail, given: list[Values], layout: str) -> Values:
    """Return what numpy makes of exact sums; given: the arrays that the steps take, in order."""
    left = iter(given)
    channels = (1, -1, 1, 1) if layout == "NCHW" and sums.ndim == 4 else (-1,)
    for step in tail:
        match step:
            case "bias":
                sums = sums + next(left).reshape(channels).astype(sums.dtype)
            case "add":
                sums = sums + next(left).astype(sums.dtype)
            case "relu":
                sums = np.maximum(sums, 0)
            case pm.Requantize(scale, zero_point, to):
                factor = next(left).reshape(channels) if scale is None else np.float32(scale)
                product = np.rint(sums.astype(np.float32) * factor.astype(np.float32)).astype(np.float64)
                low, high = LIMITS[to]
                return np.clip(product + zero_point, low, high).astype(to)
            case _:
                raise AssertionError(step)
    return sums


def drawn(rng: np.random.Generator, form: ArrayForm) -> Values:
    """Return integers of at most 9; of scales, numbers whose products are halves now and then."""
    if form.tensor.startswith("scale"):
        return rng.choice([0.5, 0.25, 0.01, 1.5, 7e-4], form.shape).astype(np.float32)
    values = rng.integers(-9, 10, form.shape)
    if form.kind == "bfloat16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(DTYPES[form.c_type])


def check(
    function: NativeFunction,
    sums: Any,
    tail: Tail,
    layout: str,
    where: Path,
    *,
    seed: int,
    cc: str,
    flags: Sequence[str],
) -> None:
    rng = np.random.default_rng(seed)
    arrays = [drawn(rng, form) for form in function.arrays]
    operands = [exact(form, array).astype(np.int64) for form, array in zip(function.arrays[:2], arrays, strict=False)]
    wanted = with_tail(sums(*operands), tail, arrays[2:-1], layout)
    for found in results(function, arrays, where, cc, tuple(flags)):
        assert found.dtype == (wanted.dtype if isinstance(tail[-1], pm.Requantize) else arrays[-1].dtype)
        assert np.array_equal(found.astype(np.float64), wanted.astype(np.float64)), (seed, tail, function.reason)


def tree_case(seed: int, where: Path, cc: str = "gcc", flags: tuple[str, ...] = (*SANITIZED, "-fopenmp")) -> str:
    rng = random.Random(seed)
    kind, threads = KINDS[seed % len(KINDS)], rng.choice([1, 1, 2])
    tail, layout, arch = random_tail(rng, kind), rng.choice(["NHWC", "NCHW"]), machine(rng.choice([4, 8]), threads)
    if seed % 3 == 0:
        text, subscripts = rng.choice(PRODUCTS)
        sizes = {"m": rng.choice([1, 5, 13]), "n": rng.choice([4, 16, 17, 37]), "k": rng.choice([1, 7, 23])}
        workload = pm.einsum(text, sizes=sizes, types=types_of(kind, ("C", "A", "B")))

        def sums(a: Values, b: Values) -> Values:
            return np.einsum(subscripts, a, b)

    else:
        conv = random_conv(rng)
        workload = conv.workload(kind, skip_padding=conv.padding > 0 and rng.random() < 0.7)

        def sums(a: Values, b: Values) -> Values:
            if layout == "NHWC":
                return conv.reference(a, b)
            return conv.reference(a.transpose(0, 2, 3, 1), b.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)

    tree = random_tree(rng, workload, arch, threads=threads)
    function = printed(workload, arch, tree, seed, layout=layout, threads=threads, tail=tail)
    check(function, sums, tail, layout, where, seed=seed, cc=cc, flags=flags)
    return function.reason


@pytest.mark.parametrize("seed", few(range(12), 3))
def test_tails_of_random_trees_equal_numpy(seed: int, tmp_path: Path) -> None:
    tree_case(seed, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("cc", ["gcc", "clang"])
@pytest.mark.parametrize("batch", range(10))
def test_tails_of_many_random_trees_equal_numpy(batch: int, cc: str, tmp_path: Path) -> None:
    assert shutil.which(cc) is not None
    plain = 0
    safe = (*SANITIZED, "-fopenmp") if cc == "gcc" else ("-O1", "-Wno-unknown-pragmas")
    fast = ("-O3", "-march=native", "-ffast-math", "-Wno-psabi", safe[-1])
    for seed in range(1000 + 40 * batch, 1040 + 40 * batch):
        plain += bool(tree_case(seed, tmp_path, cc, safe if seed % 2 else fast))
    assert plain < 20


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_quantised_layer_from_the_search_to_the_call(layout: str) -> None:
    layer = pm.conv2d(K=21, C=6, H=9, W=7, R=3, S=3, padding=1, types={"I": "uint8", "W": "int8", "O": "int32"})
    tail = ("bias", "relu", pm.Requantize(zero_point=-3, to="int8"))
    fn = pm.compile(layer, "cpu_avx2", layout=layout, tail=tail)
    plain = pm.compile(layer, "cpu_avx2", layout=layout)
    rng = np.random.default_rng(1)
    x, w, bias, scale = (drawn(rng, form) for form in fn.function.arrays[:-1])
    sums = plain(x, w).astype(np.int64)
    wanted = with_tail(sums, tail, [bias, scale], layout)
    assert np.array_equal(fn(x, fn.pack_weights(w), bias, scale), wanted)
    assert fn(x, w, bias, scale).dtype == np.int8
    with pytest.raises(pm.errors.InputError, match=r"PM632 bias has shape \(20\), expected \(21\)"):
        fn(x, w, bias[:20], scale)
    with pytest.raises(pm.errors.InputError, match=r"(?s)PM636 .*: 2.*bias: int32\[21\], scale: float32\[21\]"):
        fn(x, w)


def test_sums_that_are_no_numbers_stay_so() -> None:
    fn = pm.compile(pm.matmul(m=3, n=8, k=1, types="float32"), "cpu_avx2", tail=["relu"])
    found = fn(np.array([[np.nan], [-1], [2]], np.float32), np.ones((1, 8), np.float32))
    assert np.array_equal(found, np.repeat([[np.nan], [0], [2]], 8, axis=1), equal_nan=True)


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (["tanh"], "PM623 the tail has the step 'tanh'"),
        ("relu", "PM623 tail is 'relu'"),
        ([pm.Requantize(0.5), "relu"], "PM623 a step of the tail stands behind"),
        ([pm.Requantize(0.5, to="int4")], "PM623 requantisation is asked to 'int4'"),
        ([pm.Requantize(0.5, to=["int8"])], "PM623 requantisation is asked to a list"),  # type: ignore[arg-type]
        ([pm.Requantize(0.5, zero_point=128)], "PM623 the zero point is 128"),
        ([pm.Requantize(-1.0)], "PM623 the scale is -1.0"),
        ([pm.Requantize(1e-60)], "PM623 the scale is 1e-60"),
        ([pm.Requantize(0.5)], "PM623 sums of float64 are requantised"),
    ],
)
def test_tails_without_meaning_are_refused(tail: Tail, message: str) -> None:
    with pytest.raises(pm.errors.OptionError, match=message):
        pm.compile(pm.matmul(m=3, n=8, k=2, types="float64"), "cpu_avx2", tail=tail)


def test_sums_that_begin_from_the_output_have_tails_of_their_own_type() -> None:
    layer = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=3, n=8, k=2, types="float32", initial=["C"])
    a, b, c = np.ones((3, 2), np.float32), np.ones((2, 8), np.float32), np.full((3, 8), -3, np.float32)
    fn = pm.compile(layer, "cpu_avx2", tail=["bias", "relu"])
    assert np.array_equal(fn(a, b, np.arange(8, dtype=np.float32), out=c)[0], np.maximum(np.arange(8) - 1, 0))
    with pytest.raises(pm.errors.OptionError, match="PM623 sums of C begin from its values"):
        pm.compile(layer, "cpu_avx2", tail=[pm.Requantize(0.5)])


def test_programs_have_no_tail() -> None:
    work = pm.program(["T[i] = max(X[i], 0)", "Y[i] = sqrt(T[i])"], i=3, types="float64")
    with pytest.raises(pm.errors.OptionError, match="PM623 a program has a tail"):
        pm.compile(work, "cpu_avx2", tail=["relu"])
