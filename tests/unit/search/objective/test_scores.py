"""The exact score of a mapping: its objective, and how far it is beyond capacities."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from polymap.costmodel.evaluation import evaluate
from polymap.ir.errors import PolymapError
from polymap.ir.machine import Architecture, ComputeUnit, MemoryLevel
from polymap.ir.mapping import Compute, Mapping, Storage, Temporal
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import objective_value
from polymap.search.problem.scores import exact_score
from polymap.workload.einsums import einsum
from tests.cases import random_case

GEMM = einsum("C[m,n] += A[m,k] * B[k,n]", m=4, n=2, k=2)
TREE = Mapping(
    (
        Temporal("m", 2),
        Storage("BUF", ("A", "B", "C")),
        Temporal("k", 1),
        Temporal("n", 1),
        Temporal("m", 1),
        Storage("RF", ("C",)),
        Compute("S"),
    )
)


def machine(buffer_bits: int | None, register_bits: int | None, buffering: int = 1) -> Architecture:
    return Architecture(
        "two",
        (
            MemoryLevel("DRAM", None, 8, Fraction(7), Fraction(9)),
            MemoryLevel("BUF", buffer_bits, 8, Fraction(2), Fraction(3), buffering=buffering),
            MemoryLevel("RF", register_bits, 8, Fraction(1), Fraction(1)),
            ComputeUnit("MAC", Fraction(1, 3)),
        ),
    )


# A tile is 2 x 2 of A, 2 x 2 of B and 2 x 2 of C, 12 elements of 8 bits; a register file holds one of C.
@pytest.mark.parametrize(
    ("buffer_bits", "register_bits", "buffering", "excess"),
    [
        (96, 8, 1, Fraction(0)),
        (1000, None, 1, Fraction(0)),
        (95, 8, 1, Fraction(1, 95)),
        (96, 8, 2, Fraction(1)),
        (48, 4, 1, Fraction(2)),
        (64, None, 3, Fraction(7, 2)),
    ],
)
def test_the_excess_is_the_sum_of_what_is_beyond_each_capacity_as_a_share_of_it(
    buffer_bits: int, register_bits: int | None, buffering: int, excess: Fraction
) -> None:
    arch = machine(buffer_bits, register_bits, buffering)
    found = exact_score(GEMM, arch, parse_objective("energy", arch), TREE)
    assert found is not None
    assert found.excess == excess


@pytest.mark.parametrize("text", ["energy", "latency", "edp", "traffic:L1"])
def test_the_value_is_that_of_the_cost_and_what_is_no_program_has_none(text: str) -> None:
    scored = 0
    for seed in range(40):
        case = random_case(random.Random(f"scores {seed}"))
        objective = parse_objective(text, case.arch)
        found = exact_score(case.workload, case.arch, objective, case.mapping)
        cost = evaluate(case.workload, case.arch, case.mapping)
        if found is not None:
            scored += 1
            assert found.value == objective_value(case.workload, case.arch, objective, cost)
            assert replace(found.cost, legal=False, violations=()) == replace(cost, legal=False, violations=())
            assert (found.excess > 0) == any(one.kind == "capacity" for one in cost.violations)
    assert scored >= 10


def test_a_tree_that_cannot_be_read_has_no_score() -> None:
    arch = machine(None, None)
    broken = Mapping((Storage("RF", ("C",)), Compute("S")))
    with pytest.raises(PolymapError, match="PM"):
        evaluate(GEMM, arch, broken)
    assert exact_score(GEMM, arch, parse_objective("energy", arch), broken) is None


def test_a_tensor_where_it_may_not_be_has_no_score() -> None:
    arch = machine(None, None)
    nodes = tuple(replace(node, holds=("A",)) if node.name == "RF" else node for node in arch.nodes)
    picky = replace(arch, nodes=nodes)
    assert exact_score(GEMM, picky, parse_objective("energy", picky), TREE) is None
