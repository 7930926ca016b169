"""Programs in the order of isl's scheduler access every element in the order of the original, by enumeration."""

from __future__ import annotations

from itertools import groupby

import pytest

from polymap.ir.loopnest import Operator, Workload
from polymap.search.programs.alignments import merged_rewritings, scheduled_rewritings, skewed_rewritings
from polymap.search.programs.instances import program_arrays
from polymap.search.programs.rewriting import rewritten
from polymap.workload.c.reader import from_c
from tests.nests import instances

CHOLESKY = """void f(double A[5][5]) {
  for (int i = 0; i < 5; i++) {
    for (int j = 0; j < i; j++) {
      for (int k = 0; k < j; k++) A[i][j] -= A[i][k] * A[j][k];
      A[i][j] /= A[j][j];
    }
    for (int k = 0; k < i; k++) A[i][i] -= A[i][k] * A[i][k];
    A[i][i] = sqrt(A[i][i]);
  }
}"""
JACOBI = """void f(double A[6], double B[6]) {
  for (int t = 0; t < 3; t++) {
    for (int i = 1; i < 5; i++) B[i] = A[i - 1] + A[i] + A[i + 1];
    for (int i = 1; i < 5; i++) A[i] = B[i - 1] + B[i] + B[i + 1];
  }
}"""
SEIDEL = """void f(double A[5][5]) {
  for (int t = 0; t < 3; t++)
    for (int i = 1; i < 4; i++)
      for (int j = 1; j < 4; j++) A[i][j] = A[i - 1][j] + A[i][j - 1] + A[i][j + 1] + A[i + 1][j];
}"""

Events = dict[tuple[str, tuple[int, ...]], list[tuple[str, list[str]]]]


def events(work: Workload) -> Events:
    """Return per element what is done to it, in order: runs of accesses that may change places, and by whom."""
    found: dict[tuple[str, tuple[int, ...]], list[tuple[str, str]]] = {}
    for number, (statement, point) in enumerate(instances(work)):
        values = dict(zip(statement.dims, point, strict=True))
        kind = f"write {number}" if statement.operator is Operator.ASSIGN else statement.operator.value
        accesses = [(each, "read") for each in dict.fromkeys(statement.reads)] + [(statement.target, kind)]
        for access, what in accesses:
            element = tuple(index.evaluate(values) for index in access.index)
            found.setdefault((access.tensor, element), []).append((what, statement.name))
    return {
        element: [
            (kind.split()[0], sorted(name for _, name in run)) for kind, run in groupby(every, key=lambda one: one[0])
        ]
        for element, every in found.items()
    }


@pytest.mark.parametrize("source", [CHOLESKY, JACOBI, SEIDEL])
def test_rewritten_programs_keep_the_order_of_every_element(source: str) -> None:
    work = from_c(source)
    arrays = program_arrays(work)
    scheduled = scheduled_rewritings(work, lambda: False)
    assert scheduled
    for rewriting in (*scheduled, *merged_rewritings(work)[1:], *skewed_rewritings(work)):
        found = rewritten(arrays, rewriting)
        assert found is not None
        assert events(found.workload) == events(work)
        points = sum(each.shape[1] for each in found.points)
        assert points == len(list(instances(found.workload))) == len(list(instances(work)))
