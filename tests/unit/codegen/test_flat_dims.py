"""Dims that are one in memory: the loops of the flat workload touch the same elements, element for element."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

import polymap as pm
from polymap.codegen.native import flatten
from polymap.codegen.native.arrays import array_forms

LAYERS = {
    "1x1": pm.conv2d(N=2, K=3, C=4, H=3, W=5, R=1, S=1, bits=32),
    "1x1 of one image": pm.conv2d(N=1, K=3, C=4, H=3, W=5, R=1, S=1, bits=32),
    "3x3": pm.conv2d(N=2, K=3, C=2, H=5, W=5, R=3, S=3, bits=32),
    "1x1 by steps": pm.conv2d(N=2, K=3, C=4, H=5, W=5, R=1, S=1, stride=2, bits=32),
    "1x1 padded": pm.conv2d(N=2, K=3, C=4, H=3, W=3, R=1, S=1, padding=1, bits=32),
    "whole image": pm.conv2d(N=5, K=3, C=4, H=3, W=3, R=3, S=3, bits=32),
    "grouped": pm.conv2d(N=2, K=4, C=4, H=3, W=3, R=1, S=1, groups=2, bits=32),
    "depthwise": pm.depthwise(C=3, H=4, W=4, R=1, S=1, N=2, bits=32),
    "product": pm.einsum("C[a,b,n] += A[a,b,k] * B[k,n]", a=3, b=4, n=5, k=2, bits=32),
    "rows apart": pm.einsum("C[a,n,b] += A[a,b,k] * B[k,n]", a=3, b=4, n=5, k=2, bits=32),
    "two of two": pm.einsum("C[a,b,c,d] += A[a,b,k] * B[k,c,d]", a=3, b=2, c=4, d=5, k=2, bits=32),
    "an array twice": pm.einsum("C[a,b] += A[a,b,k] * A[a,b,k]", a=3, b=2, k=2, bits=32),
    "a name that is taken": pm.einsum("C[a,b,ab] += A[a,b,k] * B[k,ab]", a=3, b=2, ab=4, k=2, bits=32),
}
FLAT = {
    ("1x1", "NHWC"): {"npq", "k", "c"},
    ("1x1", "NCHW"): {"n", "pq", "k", "c"},
    ("1x1 of one image", "NHWC"): {"pq", "k", "c"},
    ("1x1 of one image", "NCHW"): {"pq", "k", "c"},
    ("product", "NHWC"): {"ab", "n", "k"},
    ("two of two", "NHWC"): {"ab", "cd", "k"},
    ("a name that is taken", "NHWC"): {"ab_", "ab", "k"},
    ("depthwise", "NHWC"): {"npq", "g"},
    ("depthwise", "NCHW"): {"n", "g", "pq"},
}


def touched(workload: pm.Workload, layout: str) -> Counter[tuple[int, ...]]:
    """Return how often a step touches some place in each array, over all steps."""
    forms = {form.tensor: form for form in array_forms(workload, layout)}
    (statement,) = workload.statements
    lines = [forms[access.tensor].linear(access) for access in (statement.target, *statement.reads)]
    names = statement.dims
    steps = product(*(range(workload.extents()[name]) for name in names))
    return Counter(
        tuple(line.constant + sum(line.of(name) * i for name, i in zip(names, step, strict=True)) for line in lines)
        for step in steps
    )


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("name", LAYERS)
def test_the_same_elements_are_touched(name: str, layout: str) -> None:
    flat = flatten(LAYERS[name], layout)
    expected = FLAT.get((name, layout))
    if expected is not None:
        assert flat is not None, "these dims are one in memory"
        assert {dim.name for dim in flat.dims} == expected
    if flat is not None:
        assert touched(flat, layout) == touched(LAYERS[name], layout)


def test_a_tail_keeps_the_channels() -> None:
    sums = pm.einsum("C[a,b] += A[a,b,k]", a=3, b=5, k=2, bits=32)
    plain, kept = flatten(sums, "NHWC"), flatten(sums, "NHWC", has_tail=True)
    assert plain is not None
    assert {dim.name for dim in plain.dims} == {"ab", "k"}
    assert kept is None


@pytest.mark.parametrize("n", [3, 15, 16, 17, 24, 31, 33, 47, 100])
@pytest.mark.parametrize("initial", [False, True])
def test_last_vectors_overlap_and_count_once(n: int, *, initial: bool) -> None:
    """Sums of the lanes that two vectors share are stored by both, and added to what was there once."""
    generator = np.random.default_rng(n)
    product = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=5, n=n, k=7, bits=32, initial=["C"] if initial else [])
    function = pm.compile(product, "cpu_avx512")
    a, b = (generator.integers(-9, 9, shape).astype(np.float32) for shape in ((5, 7), (7, n)))
    out = generator.integers(-9, 9, (5, n)).astype(np.float32) if initial else np.full((5, n), np.nan, np.float32)
    expected = a @ b + (out if initial else 0)
    np.testing.assert_array_equal(function(a, b, out=out), expected)
