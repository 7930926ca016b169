"""Fusion of neighbouring statements and Halide's blur.

Source: lecture slides of the ML systems textbook, chapter Hardware Acceleration, rows A1 (matrix product, then
max(C, 0)), B1 (batch normalisation), F3 and F4 (blur of 2048 x 3072, from the Halide paper). Exact.
"""

from __future__ import annotations

import numpy as np
import pytest

import polymap as pm
from benchmarks.fusion import BLUR as SCHEDULES, CASES, Case, blur_cost, fused, is_as_by_hand, one_buffer
from polymap.ir.loopnest import Workload
from polymap.ir.quasi_affine import Affine, Floor, affine, dim
from polymap.poly.budgets import budget
from polymap.poly.counting import count
from polymap.schedules.fusions import forbidden_fusions
from polymap.schedules.legality import schedule_violations
from polymap.schedules.nests import nests
from polymap.workload.c.reader import from_c
from polymap.workload.dependence_analysis import domain_of
from tests.referee.value_flow import value_based_flow

GEMM_RELU = """
float A[128][8], B[8][32], C[128][32], D[128][32];
#pragma scop
for (int m = 0; m < 128; m++) for (int n = 0; n < 32; n++) for (int k = 0; k < 8; k++) C[m][n] += A[m][k] * B[k][n];
for (int p = 0; p < 128; p++) for (int q = 0; q < 32; q++) D[p][q] = fmaxf(C[p][q], 0.0f);
#pragma endscop
"""

BATCH_NORM = """
float x[16][8], y[16][8], mean[8];
#pragma scop
for (int f = 0; f < 8; f++) for (int b = 0; b < 16; b++) mean[f] += x[b][f];
for (int f = 0; f < 8; f++) mean[f] = mean[f] * 0.0625f;
for (int f = 0; f < 8; f++) for (int b = 0; b < 16; b++) y[b][f] = x[b][f] - mean[f];
#pragma endscop
"""


def tile(name: str, size: int) -> Affine:
    return affine(((1, Floor(dim(name), size)),))


def number(value: int) -> Affine:
    return Affine((), value)


def test_a1_the_maximum_after_k_inside_a_tile_is_legal_and_inside_k_it_is_not() -> None:
    work = from_c(GEMM_RELU)
    first, second = (tile("m", 64), tile("n", 16)), (tile("p", 64), tile("q", 16))
    after = {
        "S0": (*first, number(0), dim("m"), dim("n"), dim("k")),
        "S1": (*second, number(1), dim("p"), dim("q"), number(0)),
    }
    assert schedule_violations(work, after) == ()
    inside = {
        "S0": (*first, dim("m"), dim("n"), dim("k"), number(0)),
        "S1": (*second, dim("p"), dim("q"), number(0), number(1)),
    }
    (broken,) = schedule_violations(work, inside)
    assert broken.message.startswith("A flow dependence of C is broken: S1[p=0, q=0] must come after S0[m=0, n=0, k=1]")


def test_b1_batch_normalisation_fuses_on_the_features_and_not_on_the_batch() -> None:
    work = from_c(BATCH_NORM)
    assert [(pair.first, pair.second, pair.broken is None) for pair in nests(work).neighbours] == [
        ("f", "f_2", True),
        ("f_2", "f_3", True),
    ]
    features = {
        "S0": (dim("f"), number(0), dim("b")),
        "S1": (dim("f_2"), number(1), number(0)),
        "S2": (dim("f_3"), number(2), dim("b_2")),
    }
    assert schedule_violations(work, features) == ()
    batch = {
        "S0": (dim("b"), number(0), dim("f")),
        "S1": (number(15), number(1), dim("f_2")),
        "S2": (dim("b_2"), number(2), dim("f_3")),
    }
    assert schedule_violations(work, batch) != ()


HEAD = "float in[2048][3072], bx[2048][3072], out[2046][3072];\n#pragma scop\n"
BLUR = {
    "breadth first": ("for (int y = 0; y < 2048; y++) for (int x = 0; x < 3072; x++) bx[y][x] = in[y][x];", 6_291_456),
    "inlined": (
        "for (int y = 0; y < 2046; y++) for (int x = 0; x < 3072; x++) for (int r = 0; r < 3; r++) "
        "out[y][x] += in[y + r][x];",
        18_855_936,
    ),
    "sliding window": (
        "for (int y = 0; y < 2046; y++) for (int r = (y == 0 ? 0 : 2); r < 3; r++) for (int x = 0; x < 3072; x++) "
        "bx[y + r][x] = in[y + r][x];",
        6_291_456,
    ),
    "strips of 8": (
        "for (int s = 0; s < 2046; s += 8) for (int y = s; y < 2048 && y < s + 10; y++) "
        "for (int x = 0; x < 3072; x++) bx[y][x] = in[y][x];",
        7_858_176,
    ),
}


@pytest.mark.parametrize("schedule", BLUR)
def test_f3_evaluations_of_the_producer_in_the_schedules_of_blur(schedule: str) -> None:
    text, expected = BLUR[schedule]
    work = from_c(f"{HEAD}{text}\n#pragma endscop")
    with budget():
        assert count(domain_of(work, work.statements[0])) == expected


def lines(modulus: int) -> Workload:
    return from_c(
        f"""
        float in[12][4], bx[{modulus}][4], out[10][4];
        #pragma scop
        for (int y = 0; y < 12; y++) {{
          for (int x = 0; x < 4; x++) bx[y % {modulus}][x] = in[y][x];
          for (int x = 0; x < 4; x++)
            if (y >= 2) {{
              out[y - 2][x] = bx[(y - 2) % {modulus}][x];
              out[y - 2][x] += bx[(y - 1) % {modulus}][x];
              out[y - 2][x] += bx[y % {modulus}][x];
            }}
        }}
        #pragma endscop
        """
    )


@pytest.mark.parametrize(("modulus", "ages"), [(2, (0, 1, 0)), (3, (2, 1, 0)), (4, (2, 1, 0))])
def test_f4_three_line_buffers_suffice_and_two_do_not(modulus: int, ages: tuple[int, ...]) -> None:
    """Readers of the rows y - 2, y - 1 and y get the values written that many iterations of y before."""
    flow = {each.sink: each.distances for each in value_based_flow(lines(modulus)) if each.tensor == "bx"}
    assert flow == {f"S{number}": ((age,),) for number, age in enumerate(ages, 1)}


def test_f1_relu_scale_shift_moves_six_arrays_unfused_and_two_fused() -> None:
    """25.17 MB and 8.39 MB at 1024 x 1024 FP32: 24 and 8 bytes per element, at any size that does not fit on chip."""
    case = CASES["relu, scale, shift"]
    assert (case.fused, case.intermediate) == (2 * 12 * 12, 4 * 12 * 12)
    assert (24 * 1024**2, 8 * 1024**2) == (25_165_824, 8_388_608)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_fused_programs_move_what_they_do_by_hand(name: str) -> None:
    case, found = CASES[name], fused(CASES[name])
    assert is_as_by_hand(case, found)
    assert found.pays
    more = round(found.unfused_value / 32) - case.fused
    assert found.saved_elements("DRAM") == more
    assert f"DRAM: {case.fused} elements moved instead of {case.fused + more}, {more} saved." in str(found)
    assert pm.simulate(found.workload, one_buffer(case.words), found.mapping).traffic == found.cost.traffic
    outside = [row for row in found.cost.traffic if row.level == "DRAM" and row.tensor in case.temporary]
    assert all(row.reads == row.writes == 0 for row in outside)
    if "attention" in name:
        check_attention(case, found.workload)


def check_attention(case: Case, work: pm.Workload) -> None:
    """The values are those of numpy."""
    m, n, k, d = (case.sizes[dim] for dim in "mnkd")
    fn = pm.compile(work, "cpu_avx2", mapping=pm.Schedule.original(work))
    rng = np.random.default_rng(7)
    given = {name: rng.random(shape, np.float32) for name, shape in (("Q", (m, k)), ("K", (n, k)), ("V", (n, d)))}
    rows = np.exp(given["Q"].astype(float) @ given["K"].T)
    result = fn(*(given[form.tensor] for form in fn.function.arrays if form.tensor in given))
    np.testing.assert_allclose(result, rows @ given["V"] / rows.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("name", SCHEDULES)
def test_f3_schedules_of_blur_cost_what_they_do_by_hand(name: str) -> None:
    schedule = SCHEDULES[name]
    assert blur_cost(schedule) == (schedule.evaluations, schedule.moved, schedule.held)


@pytest.mark.slow
def test_p_the_two_statements_share_a_row_of_the_matrix_where_it_fits() -> None:
    """Fused over rows A is read and written once; nest after nest it is read once more (rows P3 and P5)."""
    size = 12
    text = f"""
    double A[{size}][{size}], u1[{size}], v1[{size}], u2[{size}], v2[{size}], x[{size}], y[{size}];
    #pragma scop
    for (int i = 0; i < {size}; i++) for (int j = 0; j < {size}; j++) A[i][j] += u1[i] * v1[j] + u2[i] * v2[j];
    for (int k = 0; k < {size}; k++) for (int l = 0; l < {size}; l++) x[k] += A[l][k] * y[l];
    #pragma endscop
    """
    arch = one_buffer(2 * (7 * size + 4))  # words of 32 bits
    found = pm.study.fusion(from_c(text), arch, "traffic:DRAM", time_limit_s=10)
    assert found.value == 64 * (2 * size**2 + 5 * size + 2 * size)
    assert found.unfused_value == 64 * (3 * size**2 + 5 * size + 2 * size)
    assert pm.simulate(found.workload, arch, found.mapping).traffic == found.cost.traffic
    assert {(each.first, each.second) for each in found.forbidden} == {("i", "k"), ("j", "l")}


def test_batch_normalisation_over_the_batch_and_the_second_product_inside_k_are_refused() -> None:
    refused = {(each.first, each.second): str(each) for each in forbidden_fusions(from_c(BATCH_NORM))}
    assert refused["b", "b_2"] == "b with b_2: S2[f_3=0, b_2=0] must come after S0[f=0, b=1] (through mean)."
    assert ("f", "f_3") not in refused
    products = pm.program(["T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]"], m=4, n=4, k=4, p=4)
    refused = {(each.first, each.second): str(each) for each in forbidden_fusions(products)}
    assert refused["k", "p"] == "k with p: S1[m=0, p=0, n=0] must come after S0[m=0, n=0, k=1] (through T)."
    assert ("m", "m") not in refused
