"""The numpy reference against plain loops over every statement instance, and its bound on rounding."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from polymap.codegen.interpret import Data
from polymap.codegen.lower.elements import element_types
from polymap.codegen.reference import reference
from polymap.codegen.run import random_data, rounding_bound
from polymap.ir.loopnest import Access, Workload
from polymap.workload.c.reader import from_c
from polymap.workload.einsums import einsum
from polymap.workload.layers import conv2d

WORKLOADS = {
    "matmul": einsum("C[m,n] += A[m,k] * B[k,n]", m=3, n=4, k=5),
    "onto": einsum("C[m] += A[m,k] * B[k]", m=3, k=5, initial=("C",)),
    "conv": conv2d(K=2, C=3, H=7, W=6, R=3, S=2, stride=2, padding=1),
    "grouped": conv2d(K=4, C=4, H=5, W=5, R=3, S=3, groups=2),
    "depthwise": conv2d(K=3, C=3, H=5, W=5, R=3, S=3, groups=3, dilation=2),
    "mirrored": einsum("O[p] += I[p-r+2] * W[r]", p=5, r=3),
    "scatter": einsum("O[p+r] += I[p] * W[r]", p=5, r=3),
    "diagonal": einsum("S[] += A[i,i]", i=4),
    "three": einsum("O[i] += A[i,j] * B[j] * A[j,i]", i=4, j=4),
    "largest": einsum("O[i] max= A[i,j] * B[j]", i=4, j=3),
    "smallest": einsum("O[i] min= A[i,j]", i=4, j=3, initial=("O",)),
    "repeated": einsum("C[m,n] += A[m]", m=3, n=4),
    "one value": einsum("C[m,n] += A[]", m=3, n=4, initial=("C",)),
    "a row per window": einsum("O[k,p] += I[p+2*r] * W[r]", k=3, p=4, r=2),
    "outer": einsum("O[i,j] = A[i] * B[j]", i=4, j=3),
}


def by_loops(workload: Workload, data: Data) -> Data:
    """Return the result of the one statement, instance by instance; products of all reads."""
    (statement,) = workload.statements
    tensor = workload.tensor(statement.target.tensor)
    out = data[tensor.name].copy() if tensor.initial else np.zeros(tensor.shape, dtype=np.int64)
    started = np.full(tensor.shape, tensor.initial)

    def where(access: Access, point: dict[str, int]) -> tuple[int, ...]:
        origin = workload.tensor(access.tensor).origin
        return tuple(form.evaluate(point) - first for form, first in zip(access.index, origin, strict=True))

    for values in product(*(range(workload.extents()[dim]) for dim in statement.dims)):
        point = dict(zip(statement.dims, values, strict=True))
        value = 1
        for access in statement.reads:
            value *= int(data[access.tensor][where(access, point)])
        at = where(statement.target, point)
        before = int(out[at])
        combined = {"+=": before + value, "max=": max(before, value), "min=": min(before, value), "=": value}
        out[at] = combined[statement.operator.value] if started[at] else value
        started[at] = True
    return {tensor.name: out}


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_reference_equals_plain_loops(name: str) -> None:
    workload = WORKLOADS[name]
    data = random_data(workload, element_types(workload), seed=3)
    found, expected = reference(workload, data).values, by_loops(workload, data)
    assert list(found) == list(expected)
    for tensor, values in expected.items():
        np.testing.assert_array_equal(found[tensor], values)


def test_a_program_of_several_statements_runs_in_textual_order() -> None:
    source = """
    void f(int A[6], int B[6]) {
        int t;
        for (int i = 1; i < 6; i++) {
            t = A[i - 1] / 2;
            if (i % 2 == 0)
                A[i] = t > B[i] ? t - B[i] : -3;
            B[i] += A[i];
        }
    }
    """
    workload = from_c(source)
    a, b = [5, -7, 9, 4, -2, 8], [1, 2, -3, 4, 5, -6]
    data: Data = {"A": np.array(a), "B": np.array(b)}
    found = reference(workload, data).values
    for i in range(1, 6):
        t = int(a[i - 1] / 2)
        if i % 2 == 0:
            a[i] = t - b[i] if t > b[i] else -3
        b[i] += a[i]
    assert found["A"].tolist() == a
    assert found["B"].tolist() == b


def test_sums_in_any_order_stay_within_the_bound() -> None:
    generator = np.random.default_rng(5)
    terms = generator.uniform(-1, 1, 3000).astype(np.float32)
    exact = float(np.sum(terms.astype(np.float64)))
    bound = rounding_bound(3000, np.float32) * float(np.sum(np.abs(terms)))
    for _ in range(5):
        total = np.float32(0)
        for term in generator.permutation(terms):
            total += term
        assert abs(float(total) - exact) <= bound
    assert bound < 0.5
