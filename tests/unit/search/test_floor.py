"""What no mapping can beat: never above the true optimum, found by listing every tree or proven by the search."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from polymap.costmodel.referees.trees import exhaustive
from polymap.explore import explore
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.search.problem.floors import floor_of
from polymap.search.problem.goals import parse_objective
from polymap.workload.einsums import einsum
from tests.referee.problems import random_problem
from tests.times import few


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(12), 4))
def test_the_floor_is_never_above_the_best_of_all_trees(seed: int) -> None:
    problem = random_problem(random.Random(1000 + seed), most=20_000)
    workload, arch = problem.workload, problem.arch
    objectives = ["energy", "latency", "edp", "ed2p", *(f"traffic:{level.name}" for level in arch.levels)]
    for text in [problem.objective, objectives[seed % len(objectives)]]:
        truth = exhaustive(workload, arch, text, problem.tiles)
        assert truth is not None
        if truth.value is not None:
            assert floor_of(workload, arch, parse_objective(text, arch)) <= truth.value


GEMM = einsum("C[m,n] += A[m,k] * B[k,n]", m=4, n=4, k=4)
# Everything fits below the outermost level, and nothing else costs: compulsory traffic is reached.
ROOMY = Architecture(
    "roomy",
    (
        MemoryLevel("DRAM", read_pj=Fraction(3), write_pj=Fraction(5), bandwidth_bits_per_cycle=Fraction(8)),
        Fanout("X", 4),
        MemoryLevel("RF"),
        ComputeUnit("MAC", Fraction(2)),
    ),
)


@pytest.mark.parametrize("text", ["energy", "latency", "traffic:DRAM"])
def test_the_floor_is_reached_where_only_compulsory_traffic_costs(text: str) -> None:
    floor = floor_of(GEMM, ROOMY, parse_objective(text, ROOMY))
    expected = {"energy": 64 * 2 + 32 * 3 + 16 * 5, "latency": 48, "traffic:DRAM": 48 * 8}
    assert floor == expected[text]
    result = explore(GEMM, ROOMY, text, tiles="divide")
    assert (result.status, result.value) == ("OPTIMAL", floor)


def test_without_a_bandwidth_every_unit_works_in_every_step() -> None:
    free = replace(ROOMY, nodes=(replace(ROOMY.levels[0], bandwidth_bits_per_cycle=None), *ROOMY.nodes[1:]))
    assert floor_of(GEMM, free, parse_objective("latency", free)) == 64 // 4
    assert floor_of(GEMM, free, parse_objective("edp", free)) == 16 * (64 * 2 + 32 * 3 + 16 * 5)
    assert floor_of(GEMM, free, parse_objective("ed2p", free)) == 16**2 * (64 * 2 + 32 * 3 + 16 * 5)


def test_leakage_of_the_least_cycles_is_part_of_the_floor() -> None:
    leaking = replace(ROOMY, nodes=(replace(ROOMY.levels[0], leak_pj_per_cycle=Fraction(1, 2)), *ROOMY.nodes[1:]))
    objective = parse_objective("energy", leaking)
    assert floor_of(GEMM, leaking, objective) == floor_of(GEMM, ROOMY, objective) + Fraction(48, 2)
