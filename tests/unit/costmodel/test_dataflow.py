"""Dataflows are named from reuse counts (the textbook's orders; a row-stationary nest of Eyeriss)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from polymap.costmodel.dataflows import Dataflow, dataflow, reuse_counts, window_dims
from polymap.inputs.presets import load_arch
from polymap.workload.einsums import einsum
from tests.unit.report.shared import CONVOLUTION, FLAT, OUTPUTS_STAY, PRODUCT, TUTORIAL, WEIGHTS_STAY, cost_of, nest

MATRIX = einsum("Z[i,j] += W[i,k] * X[k,j]", i=3, j=4, k=5, bits=32, roles={"W": "weight", "X": "input", "Z": "output"})


def named(workload, arch, mapping) -> Dataflow:  # type: ignore[no-untyped-def]
    return dataflow(workload, arch, mapping, cost_of(workload, arch, mapping))


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("ijk", Dataflow.OUTPUT_STATIONARY),
        ("jik", Dataflow.OUTPUT_STATIONARY),
        ("ikj", Dataflow.WEIGHT_STATIONARY),
        ("kij", Dataflow.WEIGHT_STATIONARY),
        ("jki", Dataflow.INPUT_STATIONARY),
        ("kji", Dataflow.INPUT_STATIONARY),
    ],
)
def test_the_six_orders_of_a_product(order: str, expected: Dataflow) -> None:
    tree = " ".join(f"{name}1" for name in order)
    assert named(MATRIX, TUTORIAL, nest(f"{tree} WREG:W IREG:X OREG:Z")) is expected


def test_the_small_convolution() -> None:
    assert named(CONVOLUTION, TUTORIAL, WEIGHTS_STAY) is Dataflow.WEIGHT_STATIONARY
    assert named(CONVOLUTION, TUTORIAL, OUTPUTS_STAY) is Dataflow.OUTPUT_STATIONARY
    uses = {
        item.tensor: item.uses
        for item in reuse_counts(CONVOLUTION, TUTORIAL, cost_of(CONVOLUTION, TUTORIAL, WEIGHTS_STAY))
    }
    assert uses == {"W": 12, "I": 1, "O": 1}


def test_nothing_next_to_the_compute_is_no_local_reuse() -> None:
    assert named(PRODUCT, FLAT, nest("GLB:A,B,C m1 n1 k1")) is Dataflow.NO_LOCAL_REUSE


def test_equal_uses_have_no_single_name() -> None:
    square = einsum("C[m,n] += A[m,k] * B[k,n]", m=4, n=4, k=4, bits=8)
    assert named(square, FLAT, nest("RF:A,B,C m1 n1 k1")) is Dataflow.MIXED


def test_rows_kept_and_spread_are_row_stationary() -> None:
    layer = einsum("O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", k=2, c=2, p=3, q=4, r=3, s=3, bits=16)
    rows = nest("c1 GLB:I,O p1@X r1@Y k1 WRF:W q1 PRF:O IRF:I s1")
    eyeriss = load_arch("eyeriss_like")
    assert window_dims(layer) == (("p", "r"), ("q", "s"))
    uses = {item.tensor: item.uses for item in reuse_counts(layer, eyeriss, cost_of(layer, eyeriss, rows))}
    assert uses["W"] == 4
    assert uses["O"] == 3
    assert uses["I"] > 1
    assert named(layer, eyeriss, rows) is Dataflow.ROW_STATIONARY
    rows_in_turn = nest("c1 GLB:I,O p1@X r1 k1 WRF:W q1 PRF:O IRF:I s1")
    assert named(layer, eyeriss, rows_in_turn) is Dataflow.WEIGHT_STATIONARY


def test_uses_are_exact() -> None:
    deep = replace(FLAT, name="deep")
    partial = nest("m3 RF:A m1 n1 k1")
    uses = {item.tensor: item.uses for item in reuse_counts(PRODUCT, deep, cost_of(PRODUCT, deep, partial))}
    assert uses == {"A": Fraction(4), "B": 1, "C": 1}
