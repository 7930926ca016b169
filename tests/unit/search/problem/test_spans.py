"""Nodes that stand where so many indices are left: the search over dividing tiles against all trees."""

from __future__ import annotations

from fractions import Fraction

import pytest

import polymap as pm
from polymap.ir import Architecture, Workload
from polymap.resources import never
from polymap.search.dividing import solve
from polymap.search.problem import Rules, Span, analyse, measure_of, parse_objective, refusals
from polymap.search.problem.rules import rule_text
from tests.referee.all_trees import all_trees

LEVELS = [{"level": "DRAM", "read_pj": 50, "write_pj": 50}, {"level": "G", "capacity_bits": 48, "read_pj": 2}]


def least_of_all_trees(work: Workload, arch: Architecture, rules: Rules) -> Fraction | None:
    found = list[Fraction]()
    for tree in all_trees(work, arch, "divide", legal=True):
        cost = pm.evaluate(work, arch, tree)
        if cost.legal and not refusals(work, arch, rules, tree, cost):
            found.append(Fraction(cost.energy_pj))
    return min(found, default=None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spans", "fanout"),
    [
        ([("C", "m", 4, 4)], 1),
        ([("C", "m", 1, 2), ("B", "k", 2, 2)], 2),
        ([("A", "m", 2, 2), ("A", "k", 1, 1)], 1),
        ([("C", "m", 3, 3), ("A", "m", 1, 2)], 1),
    ],
)
def test_the_search_finds_the_best_of_the_trees_that_meet_spans(
    spans: list[tuple[str, str, int, int]], fanout: int
) -> None:
    below = [{"fanout": "X", "size": 2}] if fanout > 1 else []
    arch = pm.io.arch_from_document({"name": "small", "nodes": [*LEVELS, *below, {"compute": "PE", "pj": 1}]})
    work = pm.einsum("C[m] += A[m,k] * B[k]", m=4, k=2, bits=8)
    rules = tuple(Span("G", tensor, "G", dim, least, most) for tensor, dim, least, most in spans)
    measure = measure_of(parse_objective("energy", arch), work, arch)
    outcome = solve(analyse(work, arch, rules), measure, never, lambda _found, _bound: None)
    assert outcome.left == (), "the search ends"
    assert measure.unscaled(outcome.found[0][0]) == least_of_all_trees(work, arch, rules), "the least energy"


def test_a_span_is_told() -> None:
    told = rule_text(Span("G", "A", "G", "m", 2, 4))
    assert told == "A stands in G where 2 to 4 indices of m are left to an instance of G", "the sentence"
