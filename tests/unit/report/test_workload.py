"""Workloads as text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from polymap.ir.loopnest import Apply, Index, Number, Operator, Read
from polymap.ir.quasi_affine import dim
from polymap.workload.c.reader import from_c
from polymap.workload.text import expression_text, statement_text, workload_text
from tests.unit.report.shared import CONVOLUTION


def test_the_text(golden: Callable[[str, str], None]) -> None:
    (statement,) = CONVOLUTION.statements
    triangle = replace(statement, constraints=(dim("h") - dim("w"),))
    odd = replace(CONVOLUTION, statements=(triangle,), associative=False)
    golden("report/workloads.txt", "\n\n".join((workload_text(CONVOLUTION), workload_text(odd))) + "\n")


def test_expressions_have_the_brackets_they_need() -> None:
    reads = ("A[i]", "B")
    a, b, two = Read(0), Read(1), Number("2.0")
    cases = {
        "A[i] * (B + 2.0)": Apply("*", (a, Apply("+", (b, two)))),
        "A[i] - (B - 2.0)": Apply("-", (a, Apply("-", (b, two)))),
        "A[i] - B - 2.0": Apply("-", (Apply("-", (a, b)), two)),
        "-(A[i] + B)": Apply("neg", (Apply("+", (a, b)),)),
        "max(A[i], sqrt(B))": Apply("max", (a, Apply("sqrt", (b,)))),
        "(A[i] < B ? A[i] : 2.0)": Apply("?:", (Apply("<", (a, b)), a, two)),
        "(i + 1) * B": Apply("*", (Index(dim("i") + 1), b)),
    }
    assert {expression_text(value, reads): value for value in cases.values()} == cases


def test_statements_show_their_operator() -> None:
    (statement,) = CONVOLUTION.statements
    assert statement_text(statement) == "O[m,h,w] += I[h+r,w+s] * W[m,r,s]"
    assert statement_text(replace(statement, operator=Operator.MAX)).startswith("O[m,h,w] max= ")


def test_loops_that_share_a_variable_are_told_apart() -> None:
    text = """
    for (int i = 0; i < 4; i++)
      x[i] = 0;
    for (int i = 0; i < 4; i++)
      for (int j = 0; j < 3; j++)
        x[i] += A[i][j];
    """
    program = from_c(f"#pragma scop\n{text}\n#pragma endscop")
    assert "for i < 4, i_2 < 4, j < 3" in workload_text(program)
    assert "S1: x[i_2] += A[i_2,j]" in workload_text(program)


def test_casts_of_the_text_are_shown_and_other_conversions_are_not() -> None:
    program = from_c(
        "void f(double x[4], int A[4]) { for (int i = 0; i < 4; i++) x[i] = (signed char)(A[i] + i) / 2; }"
    )
    assert "S0: x[i] = (int8) (A[i] + i) / 2" in workload_text(program)
