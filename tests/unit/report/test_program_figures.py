"""Figures of programs hold what the analysis says, and are pictures."""

from __future__ import annotations

from itertools import product
from xml.etree import ElementTree

import pytest

import polymap as pm
from polymap.report.figures.domain import domain_figure
from polymap.report.figures.programs import (
    StatementEdge,
    dependence_graph,
    dependence_graph_svg,
    schedule_figure,
    schedule_svg,
)

GEMVER = """
float A[N][N], u[N], v[N], x[N], y[N];
#pragma scop
for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) A[i][j] += u[i] * v[j];
for (int k = 0; k < N; k++) for (int l = 0; l < N; l++) x[k] += A[l][k] * y[l];
#pragma endscop
"""
STENCIL = "void f(double A[20]) { for (int s = 0; s < 4; s++) for (int i = 1; i < 19; i++) A[i] = A[i-1] + A[i+1]; }"


JACOBI = """
double A[12], B[12];
#pragma scop
for (int t = 0; t < 4; t++) {
  for (int i = 1; i < 11; i++) B[i] = A[i-1] + A[i] + A[i+1];
  for (int k = 1; k < 11; k++) A[k] = B[k];
}
#pragma endscop
"""
VARYING = "void f(double A[40]) { for (int s = 0; s < 4; s++) for (int i = 0; i < 8; i++) A[s + 2*i] = A[3*s] + A[i]; }"
THROUGH = """
double A[9][9], T[9];
#pragma scop
for (int i = 0; i < 8; i++) {
  for (int j = 1; j < 9; j++) A[i][j] = A[i][j-1] + T[i];
  T[i+1] = A[i][8];
}
#pragma endscop
"""


def _longest_chains(work: pm.Workload, statement: str) -> tuple[int, ...]:
    """Return per instance of a statement how many of its instances precede it on the longest chain, pair by pair."""
    extents = work.extents()
    events: list[tuple[tuple[int, ...], str, set[tuple[str, tuple[int, ...]]], set[tuple[str, tuple[int, ...]]]]] = []
    for each in work.statements:
        for values in product(*(range(extents[dim]) for dim in each.dims)):
            at = dict(zip(each.dims, values, strict=True))
            if all(rule.evaluate(at) >= 0 for rule in each.constraints):
                when = [*each.position[:1]]
                for value, position in zip(values, each.position[1:], strict=True):
                    when += [value, position]
                places = [(one.tensor, tuple(index.evaluate(at) for index in one.index)) for one in each.reads]
                target = each.target.tensor, tuple(index.evaluate(at) for index in each.target.index)
                events.append((tuple(when), each.name, {*places, target}, {target}))
    events.sort(key=lambda event: event[0])
    chains: list[int] = []
    for place, (_, _, touched, written) in enumerate(events):
        earlier = [
            chains[one] + (events[one][1] == statement)
            for one in range(place)
            if written & events[one][2] or touched & events[one][3]
        ]
        chains.append(max(earlier, default=0))
    return tuple(chain for chain, event in zip(chains, events, strict=True) if event[1] == statement)


@pytest.mark.parametrize(
    ("text", "statement"), [(JACOBI, "S0"), (JACOBI, "S1"), (STENCIL, "S0"), (VARYING, "S0"), (THROUGH, "S0")]
)
def test_wavefronts_respect_every_dependence_of_the_program(text: str, statement: str) -> None:
    work = pm.from_c(text)
    figure = domain_figure(work, statement)
    assert figure.wavefronts == _longest_chains(work, statement)


def test_wavefronts_through_other_statements_are_counted() -> None:
    assert max(domain_figure(pm.from_c(JACOBI), "S0").wavefronts) == 3  # one after each step of time
    assert max(domain_figure(pm.from_c(THROUGH), "S0").wavefronts) == 63  # T makes all rows wait


def test_the_graph_holds_one_edge_per_pair_kind_and_array() -> None:
    figure = dependence_graph(pm.from_c(GEMVER, {"N": 5}))
    assert [name for name, _ in figure.statements] == ["S0", "S1"]
    assert figure.edges == (
        StatementEdge("S0", "S1", "flow", "A", ()),
        StatementEdge("S1", "S1", "reduction", "x", ((0, None),)),
    )


def test_edges_of_a_stencil_carry_their_distances() -> None:
    work = pm.from_c(STENCIL)
    figure = dependence_graph(work)
    expected = {(each.kind.value, distance) for each in pm.dependences(work) for distance in each.distances}
    assert {(each.kind, distance) for each in figure.edges for distance in each.distances} == expected
    root = ElementTree.fromstring(dependence_graph_svg(figure))
    titles = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 1 + len(figure.edges)
    assert any("flow of A" in each and "(0, 1)" in each for each in titles)


def test_matrices_times_counters_are_the_times() -> None:
    work = pm.from_c(STENCIL)
    order = pm.transform.tile(pm.transform.skew(pm.Schedule.original(work), "i", by="s"), {"s": 2, "i": 8})
    (matrix,) = schedule_figure(order).matrices
    assert matrix.columns == ("s", "i", "floor((s)/2)", "floor((s + i)/8)", "1")
    for s, i in ((0, 0), (1, 7), (3, 17)):
        values = (s, i, s // 2, (s + i) // 8, 1)
        found = tuple(sum(a * b for a, b in zip(row, values, strict=True)) for row in matrix.rows)
        assert found == tuple(time.evaluate({"s": s, "i": i}) for time in order.times["S0"])


def test_the_schedule_is_drawn_with_its_functions() -> None:
    work = pm.from_c(GEMVER, {"N": 5})
    order = pm.transform.schedule_from_text(work, "S0[i,j] -> [j, i, 0]\nS1[k,l] -> [k, l, 1]")
    figure = schedule_figure(order)
    assert [each.rows for each in figure.matrices] == [
        ((0, 1, 0), (1, 0, 0), (0, 0, 0)),
        ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    ]
    root = ElementTree.fromstring(schedule_svg(figure))
    words = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"[i, j] -> [j, i, 0]", "[k, l] -> [k, l, 1]"} <= set(words)
