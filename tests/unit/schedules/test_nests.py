"""Loops, bands, skews and neighbours of known programs."""

from __future__ import annotations

from polymap.report.summary import nests_text
from polymap.schedules.nests import nests
from polymap.workload.c.reader import from_c

JACOBI = """
double A[20], B[20];
for (int t = 0; t < 10; t++) {
  for (int i = 1; i < 19; i++) B[i] = A[i - 1] + A[i] + A[i + 1];
  for (int i = 1; i < 19; i++) A[i] = B[i];
}"""

LU = """
double A[20][20];
for (int i = 0; i < 20; i++) {
  for (int j = 0; j < i; j++) {
    for (int k = 0; k < j; k++) A[i][j] -= A[i][k] * A[k][j];
    A[i][j] /= A[j][j];
  }
  for (int j = i; j < 20; j++)
    for (int k = 0; k < i; k++) A[i][j] -= A[i][k] * A[k][j];
}"""

SEIDEL = """
double A[20][20];
for (int t = 0; t < 10; t++) for (int i = 1; i < 19; i++) for (int j = 1; j < 19; j++)
  A[i][j] = (A[i-1][j-1] + A[i-1][j] + A[i-1][j+1] + A[i][j-1] + A[i][j] + A[i][j+1]
             + A[i+1][j-1] + A[i+1][j] + A[i+1][j+1]) / 9;
"""


def test_loops_of_jacobi_are_parallel_under_time() -> None:
    assert nests_text(nests(from_c(JACOBI))).splitlines() == [
        "t      sequential  (S0 S1)",
        "  i    parallel, vectorizable  (S0)",
        "  i_2  parallel, vectorizable  (S1)",
        "i and i_2 cannot be fused: anti of A, S0 to S1",
    ]


def test_loops_of_lu() -> None:
    assert nests_text(nests(from_c(LU))).splitlines() == [
        "i        sequential  (S0 S1 S2)",
        "  j      sequential  (S0 S1)",
        "    k    parallel if its sums are added up afterwards, vectorizable  (S0)",
        "  j_2    parallel  (S2)",
        "    k_2  parallel if its sums are added up afterwards, vectorizable  (S2)",
        "band j_2 k_2: permutable, tilable",
        "j and j_2 can be fused",
    ]


def test_gauss_seidel_is_tilable_after_the_known_skew() -> None:
    assert nests_text(nests(from_c(SEIDEL))).splitlines()[-1] == (
        "band t i j: permutable within t | i | j; tilable after the skew i := i + t, j := j + 2 t + i"
    )
