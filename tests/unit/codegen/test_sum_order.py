"""Sums of workloads that are not associative: layers and products add them up in the order of the text, in vectors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from numpy.random import default_rng

import polymap as pm

Floats = npt.NDArray[np.float32]
SHAPES = {
    "one reduction": ("O[m,n] += A[m,k] * B[k,n]", {"m": 5, "n": 24, "k": 37}),
    "memory has another order": ("O[m,n] += B[k,l,n] * A[m,l,k]", {"m": 10, "n": 33, "k": 16, "l": 6}),
    "few rows together": ("O[m,n] += A[m,k] * B[k,n]", {"m": 1, "n": 500, "k": 30}),
    "scattered lanes": ("O[n,m] += A[m,k] * B[k,n]", {"m": 3, "n": 40, "k": 50}),
    "taps go backwards": ("O[p,c] += A[p - r + 4,c] * B[r,c]", {"p": 20, "c": 32, "r": 5}),
    "taps and channels": ("O[p,m] += A[p + r,c] * B[c,r,m]", {"p": 20, "m": 33, "c": 9, "r": 3}),
}


def in_order(w: pm.Workload, arrays: dict[str, Floats], start: Floats) -> Floats:
    """Return the output, each sum added up product by product over the dims in the order of the text."""
    (statement,), sums = w.statements, start.copy()
    for point in np.ndindex(*w.extents().values()):
        at = dict(zip(w.extents(), map(int, point), strict=True))
        first, second = (
            arrays[access.tensor][tuple(index.evaluate(at) for index in access.index)] for access in statement.reads
        )
        place = tuple(index.evaluate(at) for index in statement.target.index)
        sums[place] = np.float32(sums[place] + np.float32(first * second))
    return sums


@pytest.mark.parametrize("is_begun", [False, True], ids=["", "begun"])
@pytest.mark.parametrize("name", SHAPES)
def test_sums_have_the_bits_of_the_order_of_the_text(name: str, is_begun: bool) -> None:
    text, sizes = SHAPES[name]
    begun = ("O",) if is_begun else ()
    w = pm.einsum(text, sizes=sizes, types="float32", associative=False, initial=begun)
    product, rng = pm.compile(w, "cpu_avx512", threads=1), default_rng(5)
    assert not product.reason
    shapes = {tensor.name: tensor.shape for tensor in w.tensors}
    arrays = {  # products with powers of two are exact, so that fused and rounded ones are the same
        "A": (rng.standard_normal(shapes["A"]) * 10.0 ** rng.integers(-3, 4, shapes["A"])).astype(np.float32),
        "B": np.exp2(rng.integers(-3, 4, shapes["B"])).astype(np.float32),
    }
    out = rng.standard_normal(shapes["O"]).astype(np.float32) * np.float32(100) if is_begun else None
    start = np.zeros(shapes["O"], np.float32) if out is None else out.copy()
    reads = [arrays[access.tensor] for access in w.statements[0].reads]
    assert np.array_equal(product(*reads, out=out), in_order(w, arrays, start))
