"""Polyhedral examples of the lecture slides that go with the ML systems textbook, chapter Hardware Acceleration.

Source: lecture slides, rows P1, P3, P4, P5, P7 (two statements of gemver), Q1, Q2 (product of two polynomials). Exact.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import polymap as pm
from polymap.ir.loopnest import Operator, Workload
from polymap.ir.quasi_affine import Affine, dim
from polymap.schedules.legality import Parallel, parallel_loops, parallel_places, schedule_violations
from polymap.workload.c.reader import from_c
from polymap.workload.dependence_analysis import Kind, dependences, unset_read
from tests.c_to_c import Job, compiled, flags_of, parameters_of, run_jobs
from tests.referee.value_flow import value_based_flow

GEMVER = """
float A[N][N], u1[N], v1[N], u2[N], v2[N], x[N], y[N];
#pragma scop
for (int i = 0; i < N; i++)
  for (int j = 0; j < N; j++)
    A[i][j] += u1[i] * v1[j] + u2[i] * v2[j];
for (int k = 0; k < N; k++)
  for (int l = 0; l < N; l++)
    x[k] += A[l][k] * y[l];
#pragma endscop
"""

GEMVER_FUNCTION = """
void gemver(int N, double A[N][N], double u1[N], double v1[N], double u2[N], double v2[N], double x[N], double y[N]) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++)
      A[i][j] += u1[i] * v1[j] + u2[i] * v2[j];
  for (int k = 0; k < N; k++)
    for (int l = 0; l < N; l++)
      x[k] += A[l][k] * y[l];
}
"""

P7 = """
void gemver(int N, double A[N][N], double u1[N], double v1[N], double u2[N], double v2[N], double x[N], double y[N]) {
{
    #pragma omp parallel for
    for (long c0 = 0; c0 < N; ++c0) {
        for (long c1 = 0; c1 < N; ++c1) {
            {
                const long i = c1;
                const long j = c0;
                A[i][j] += u1[i] * v1[j] + u2[i] * v2[j];
            }
            {
                const long k = c0;
                const long l = c1;
                x[k] += A[l][k] * y[l];
            }
        }
    }
}
}
"""

PRODUCT = """
void product(int n, int a[n + 1], int b[n + 1], int c[2 * n + 1]) {
  for (int i = 0; i <= n; i++)
    for (int j = n; j >= 0; j--)
      if (i == 0 || j == n)
        c[i + j] = a[i] * b[j];
      else
        c[i + j] += a[i] * b[j];
}
"""


def schedule(first: str, second: str) -> dict[str, tuple[Affine, ...]]:
    """Return the schedule of both statements; a digit stands for itself, a letter for a loop."""

    def places(text: str) -> tuple[Affine, ...]:
        return tuple(Affine((), int(each)) if each.isdigit() else dim(each) for each in text)

    return {"S0": places(first), "S1": places(second)}


@pytest.fixture
def gemver() -> Workload:
    return from_c(GEMVER, {"N": 6})


@pytest.fixture
def product() -> Workload:
    return from_c(PRODUCT, {"n": 5})


def test_p1_flow_from_the_update_to_its_transposed_use(gemver: Workload) -> None:
    expected = "{ S0[i, j] -> S1[k = j, l = i] : 0 <= i <= 5 and 0 <= j <= 5 }"
    for found in (dependences(gemver), value_based_flow(gemver)):
        (flow,) = (each for each in found if each.source == "S0" and each.sink == "S1")
        assert (flow.kind, flow.tensor, flow.relation_text) == (Kind.FLOW, "A", expected)


def test_p3_fused_with_the_first_statement_transposed_is_legal_and_parallel_outside(gemver: Workload) -> None:
    places = schedule("ji0", "kl1")
    assert schedule_violations(gemver, places, strict=True) == ()
    outer, inner, _ = parallel_places(gemver, places)
    assert outer is Parallel.YES
    assert inner is Parallel.REDUCTION


def test_p4_fused_as_written_is_illegal(gemver: Workload) -> None:
    (broken,) = schedule_violations(gemver, schedule("ij0", "kl1"))
    first, second = broken.witness
    assert (str(first), str(second)) == (
        "InstancePoint(statement='S0', values=(('i', 1), ('j', 0)))",
        "InstancePoint(statement='S1', values=(('k', 0), ('l', 1)))",
    )


def test_p5_fused_with_the_second_statement_transposed_is_legal_and_parallel_inside(gemver: Workload) -> None:
    places = schedule("ij0", "lk1")
    assert schedule_violations(gemver, places, strict=True) == ()
    outer, inner, _ = parallel_places(gemver, places)
    assert outer is Parallel.REDUCTION
    assert inner is Parallel.YES


def test_q1_every_accumulation_finds_an_earlier_assignment_of_its_element(product: Workload) -> None:
    assert [each.operator for each in product.statements] == [Operator.ASSIGN, Operator.ADD]
    assert unset_read(product, "c") is None
    assert not product.tensor("c").initial


def test_q2_only_the_inner_loop_is_parallel_and_interchange_with_a_rising_j_is_illegal(product: Workload) -> None:
    assert parallel_loops(product) == (("i", Parallel.NO), ("j", Parallel.YES))
    rising = -dim("j") + 5
    broken = schedule_violations(product, {"S0": (rising, dim("i")), "S1": (rising, dim("i"))})
    assert "flow" in {each.message.split()[1] for each in broken}


def test_p7_the_code_of_p3_is_one_nest_with_both_statements(tmp_path: Path) -> None:
    workload = from_c(GEMVER_FUNCTION, {"N": 6})
    order = pm.transform.schedule_from_text(workload, "S0[i,j] -> [parallel j, i, 0]\nS1[k,l] -> [parallel k, l, 1]")
    text = pm.transform_c(GEMVER_FUNCTION, schedule=order)
    assert re.sub(r"/\*.*?\*/\n", "", text, flags=re.DOTALL).split() == P7.split()
    flags = flags_of("gcc", sanitized=False)
    paths = [
        compiled(each, tmp_path / f"{number}.so", "gcc", flags) for number, each in enumerate((GEMVER_FUNCTION, text))
    ]
    listed = tuple((each.name, each.dtype, each.shape) for each in parameters_of(GEMVER_FUNCTION, "gemver"))
    assert run_jobs([Job(paths[0], paths[1], "gemver", listed, ({"N": 13}, {"N": 1}))]) == [[]]
