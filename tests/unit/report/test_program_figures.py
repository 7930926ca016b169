"""Figures of programs hold what the analysis says, and are pictures."""

from __future__ import annotations

from xml.etree import ElementTree

import polymap as pm
from polymap.report.programs.statements import StatementEdge

GEMVER = """
float A[N][N], u[N], v[N], x[N], y[N];
#pragma scop
for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) A[i][j] += u[i] * v[j];
for (int k = 0; k < N; k++) for (int l = 0; l < N; l++) x[k] += A[l][k] * y[l];
#pragma endscop
"""
STENCIL = "void f(double A[20]) { for (int s = 0; s < 4; s++) for (int i = 1; i < 19; i++) A[i] = A[i-1] + A[i+1]; }"


def test_the_graph_holds_one_edge_per_pair_kind_and_array() -> None:
    figure = pm.dependence_graph(pm.from_c(GEMVER, {"N": 5}))
    assert [name for name, _ in figure.statements] == ["S0", "S1"]
    assert figure.edges == (
        StatementEdge("S0", "S1", "flow", "A", ()),
        StatementEdge("S1", "S1", "reduction", "x", ((0, None),)),
    )


def test_edges_of_a_stencil_carry_their_distances() -> None:
    work = pm.from_c(STENCIL)
    figure = pm.dependence_graph(work)
    expected = {(each.kind.value, distance) for each in pm.dependences(work) for distance in each.distances}
    assert {(each.kind, distance) for each in figure.edges for distance in each.distances} == expected
    root = ElementTree.fromstring(pm.dependence_graph_svg(figure))
    titles = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 1 + len(figure.edges)
    assert any("flow of A" in each and "(0, 1)" in each for each in titles)


def test_matrices_times_counters_are_the_times() -> None:
    work = pm.from_c(STENCIL)
    order = pm.transform.tile(pm.transform.skew(pm.Schedule.original(work), "i", by="s"), {"s": 2, "i": 8})
    (matrix,) = pm.schedule_figure(order).matrices
    assert matrix.columns == ("s", "i", "floor((s)/2)", "floor((s + i)/8)", "1")
    for s, i in ((0, 0), (1, 7), (3, 17)):
        values = (s, i, s // 2, (s + i) // 8, 1)
        found = tuple(sum(a * b for a, b in zip(row, values, strict=True)) for row in matrix.rows)
        assert found == tuple(time.evaluate({"s": s, "i": i}) for time in order.times["S0"])


def test_the_schedule_is_drawn_with_its_functions() -> None:
    work = pm.from_c(GEMVER, {"N": 5})
    order = pm.transform.schedule_from_text(work, "S0[i,j] -> [j, i, 0]\nS1[k,l] -> [k, l, 1]")
    figure = pm.schedule_figure(order)
    assert [each.rows for each in figure.matrices] == [
        ((0, 1, 0), (1, 0, 0), (0, 0, 0)),
        ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    ]
    root = ElementTree.fromstring(pm.schedule_svg(figure))
    words = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"[i, j] -> [j, i, 0]", "[k, l] -> [k, l, 1]"} <= set(words)
