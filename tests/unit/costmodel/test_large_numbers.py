"""Counts beyond 2^63 and 10^30: exact through evaluate, formulas and JSON, with numbers worked out by hand."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

import polymap as pm
from polymap.costmodel.counts import Traffic
from polymap.ir.errors import BudgetError
from polymap.ir.mapping import Compute, Mapping, Spatial, Storage, Temporal
from polymap.search.documents import cost_document, json_text

LONG = 10**11  # three of them: 10^33 multiplications
GEMM = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=LONG, n=LONG, k=LONG)
ONE_PJ = Fraction(1)
MACHINE = pm.Architecture(
    "large",
    (
        pm.MemoryLevel("DRAM", read_pj=ONE_PJ, write_pj=ONE_PJ, bandwidth_bits_per_cycle=ONE_PJ),
        pm.MemoryLevel("Buf"),
        pm.Fanout("X", 1000),
        pm.ComputeUnit("MAC"),
    ),
)
BLOCK = 10**5


def rows(cost: pm.Cost) -> dict[tuple[str, str], Traffic]:
    return {(row.level, row.tensor): row for row in cost.traffic}


def tiled(*, n_inner: int) -> Mapping:
    """Return blocks of 10^5 x 10^5 outputs whose rows are spread over X, `n_inner` blocks of n side by side."""
    return Mapping(
        (
            Temporal("m", BLOCK),
            Temporal("n", BLOCK),
            Storage("Buf", ("A", "B", "C")),
            Temporal("k", 1),
            Temporal("m", 1),
            Temporal("n", n_inner),
            Spatial("n", 1, "X"),
            Compute("S"),
        )
    )


def test_a_product_of_10_33_multiplications_is_counted_to_the_last_word() -> None:
    cost = pm.evaluate(GEMM, MACHINE, tiled(n_inner=1000))
    assert (cost.method, cost.instances) == ("closed form", 10**33)
    found = rows(cost)
    # A: all of it for every block of n, but it stays while n blocks follow one another (the tile is a block of rows).
    assert found["Buf", "A"].fills == LONG * LONG
    assert found["Buf", "B"].fills == LONG * LONG * (LONG // BLOCK)
    assert found["Buf", "C"].drains == LONG * LONG
    assert found["Buf", "C"].fills == 0
    assert found["Buf", "A"].reads == 10**33 // 1000  # siblings along n share a word
    assert found["Buf", "B"].reads == 10**33
    assert found["Buf", "C"].writes == 10**33
    assert found["Buf", "C"].reads == 10**33  # the first accumulation reads nothing, the drain does
    assert cost.compute_cycles == 10**30
    moved = 8 * (LONG**2 + LONG**2 * 10**6 + LONG**2)
    assert cost.latency_cycles == max(10**30, moved)
    assert cost.energy_pj == float(moved // 8)


def test_tiles_that_do_not_divide_are_counted_exactly_too() -> None:
    workload = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=LONG + 1, n=LONG + 3, k=LONG + 7)
    cost = pm.evaluate(workload, MACHINE, tiled(n_inner=1000))
    instances = (LONG + 1) * (LONG + 3) * (LONG + 7)
    assert instances > 10**33
    assert (cost.method, cost.instances) == ("closed form", instances)
    found = rows(cost)
    blocks = -(-(LONG + 1) // BLOCK)
    assert found["Buf", "B"].fills == (LONG + 7) * (LONG + 3) * blocks
    assert found["Buf", "C"].writes == instances
    assert found["Buf", "A"].reads == (LONG + 1) * (LONG + 7) * -(-(LONG + 3) // 1000)
    assert cost.compute_cycles == (LONG + 1) * (LONG + 7) * -(-(LONG + 3) // 1000)


def test_a_sliding_window_of_10_30_positions() -> None:
    long = 10**30
    layer = pm.einsum("O[p] += I[p+r] * W[r]", p=long, r=3)
    machine = pm.Architecture("two", (pm.MemoryLevel("DRAM"), pm.MemoryLevel("Buf"), pm.ComputeUnit("MAC")))
    mapping = Mapping((Temporal("p", 1), Storage("Buf", ("I",)), Temporal("r", 1), Compute("S")))
    cost = pm.evaluate(layer, machine, mapping)
    assert rows(cost)["Buf", "I"].fills == long + 2
    assert cost.formula("Buf", "I").fills == long + 2


def test_large_counts_are_text_in_json() -> None:
    document = cost_document(pm.evaluate(GEMM, MACHINE, tiled(n_inner=1000)))
    read = json.loads(json_text(document))
    assert read == document
    assert read["instances"] == str(10**33)
    assert read["compute_cycles"] == str(10**30)
    by_name = {(row["level"], row["tensor"]): row for row in read["traffic"]}
    assert by_name["Buf", "B"]["reads"] == str(10**33)
    assert by_name["Buf", "B"]["drains"] == 0
    sizes = pm.io.workload_from_document(json.loads(json.dumps(pm.io.workload_to_document(GEMM)))).extents()
    assert sizes == GEMM.extents()


def test_an_energy_beyond_floats_is_refused_with_its_size() -> None:
    long = 10**90
    huge = pm.einsum("C[i,j,m,n] += A[i,j] * B[m,n]", i=long, j=long, m=long, n=long)
    mapping = Mapping((*(Temporal(dim, 1) for dim in "ijmn"), Compute("S")))
    with pytest.raises(BudgetError, match=r"PM491 an energy of about 10\^360 pJ is beyond what a float can hold"):
        pm.evaluate(huge, MACHINE, mapping)
