"""`pm.compile` equals numpy on random layers and processors, from the search to the call.

The values are small integers, which sums hold exactly in every type, so that results are compared bit for bit.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable

import numpy as np
import pytest

import polymap as pm
from tests.native_cases import KINDS, random_conv, types_of
from tests.times import few

Values = np.ndarray
PROCESSORS = ("host_cpu", "cpu_avx512", "cpu_avx2", "cpu_neon")
PRODUCTS = ("mk,kn->mn", "km,nk->mn", "bmk,bkn->bmn", "k,kn->n", "nk,k->n", "mkl,lnk->mn", "mk,kn->nm")
_DTYPES = {"float32": np.float32, "float64": np.float64, "int": np.int8, "bfloat16": np.float32}


def _operand(rng: random.Random, shape: tuple[int, ...], kind: str) -> Values:
    """Return integers of at most 9, which eight bits of mantissa hold."""
    drawn = np.random.default_rng(rng.randrange(2**32)).integers(-9, 10, shape)
    return drawn.astype(_DTYPES[kind])


def _stored(values: Values, kind: str) -> Values:
    """Return an operand as it is passed: bfloat16 by its bits."""
    return (values.view(np.uint32) >> 16).astype(np.uint16) if kind == "bfloat16" else values


def _agrees(fn: pm.CompiledFunction, operands: list[Values], reference: Callable[..., Values], kind: str) -> None:
    given = [np.ascontiguousarray(_stored(each, kind)) for each in operands]
    wide = [each.astype(np.int64) for each in operands]
    expected = reference(*wide)
    before = [each.copy() for each in given]
    found = fn(*given)
    assert found.shape == expected.shape
    assert (found.astype(np.int64) == expected).all(), fn.workload.name
    packed = next((n for n, form in enumerate(fn.function.arrays) if form.tensor == fn.packed), len(given) - 1)
    out = np.full(found.shape, 77, found.dtype)
    fn(*given[:packed], fn.pack_weights(given[packed]), *given[packed + 1 :], out=out)
    assert (out == found).all()
    assert all((now == then).all() for now, then in zip(given, before, strict=True))


def _conv_case(seed: int) -> None:
    rng = random.Random(seed)
    conv, kind = random_conv(rng), KINDS[seed % len(KINDS)]
    layout, threads = rng.choice(["NHWC", "NCHW"]), rng.choice([1, 1, 2, 3])
    workload = conv.workload(kind, skip_padding=conv.padding > 0 and rng.random() < 0.7)
    fn = pm.compile(workload, rng.choice(PROCESSORS), layout=layout, threads=threads)
    x = _operand(rng, (conv.N, conv.H, conv.W, conv.C), kind)
    w = _operand(rng, (conv.K, conv.R, conv.S, conv.C // conv.groups), kind)
    if layout == "NHWC":
        _agrees(fn, [x, w], conv.reference, kind)
        return

    def reference(x: Values, w: Values) -> Values:
        return conv.reference(x.transpose(0, 2, 3, 1), w.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)

    _agrees(fn, [x.transpose(0, 3, 1, 2).copy(), w.transpose(0, 3, 1, 2).copy()], reference, kind)


def _product_case(seed: int) -> None:
    rng = random.Random(seed)
    subscripts, kind = rng.choice(PRODUCTS), KINDS[seed % len(KINDS)]
    reads, written = subscripts.split("->")
    first, second = reads.split(",")
    sizes = {letter: rng.choice([1, 2, 3, 5, 8, 16, 17, 31, 37, 64, 97, 127]) for letter in first + second}
    if "b" in sizes:
        sizes["b"] = rng.choice([1, 2, 3])
    text = f"C[{','.join(written)}] += A[{','.join(first)}] * B[{','.join(second)}]"
    workload = pm.einsum(text, sizes=sizes, types=types_of(kind, ("C", "A", "B")))
    fn = pm.compile(workload, rng.choice(PROCESSORS), threads=rng.choice([1, 1, 2, 3]))
    operands = [_operand(rng, tuple(sizes[letter] for letter in letters), kind) for letters in (first, second)]
    _agrees(fn, operands, lambda a, b: np.einsum(subscripts, a, b), kind)


@pytest.mark.parametrize("seed", few(range(4), 2))
def test_compiled_convolutions_equal_numpy(seed: int) -> None:
    _conv_case(seed)


@pytest.mark.parametrize("seed", few(range(4), 2))
def test_compiled_products_equal_numpy(seed: int) -> None:
    _product_case(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(4, 12), 2))
def test_more_compiled_layers_equal_numpy(seed: int) -> None:
    _conv_case(seed)
    _product_case(seed)


@pytest.mark.soak
@pytest.mark.parametrize("cc", ["gcc", "clang"])
@pytest.mark.parametrize("batch", range(10))
def test_many_compiled_layers_equal_numpy(batch: int, cc: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which(cc) is None:
        pytest.fail(f"{cc} is not installed")
    monkeypatch.setenv("CC", cc)
    for seed in range(100 + 20 * batch, 120 + 20 * batch):
        _conv_case(seed)
        _product_case(seed)


@pytest.mark.parametrize("name", ["WIDE", "NAN", "INFINITY", "WNOHANG", "vec", "int", "restrict", "sum", "at", "s0_0"])
def test_names_that_mean_something_in_C_are_printed_otherwise(name: str) -> None:
    a, b = np.ones((5, 3), np.float32), np.ones((3, 32), np.float32)
    fn = pm.compile(pm.einsum(f"{name}[m,n] += A[m,k] * B[k,n]", m=5, n=32, k=3, bits=32), "cpu_avx512")
    assert (fn(a, b) == 3).all()
    fn = pm.compile(pm.einsum(f"C[m,n] += {name}[m,k] * B[k,n]", m=5, n=32, k=3, bits=32), "cpu_avx512")
    assert (fn(a, b) == 3).all()
