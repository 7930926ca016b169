"""The bound over tiles of any size exceeds nothing that walking every legal tree finds, and mappings are as it says.

The search itself walks small spaces tree by tree; here its regions and cells are asked directly, so that the walk
(polymap/search/enumeration/trees.py, which shares no code with them) is their referee.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from polymap.arch.document import arch_from_document
from polymap.costmodel.evaluation import evaluate, simulate
from polymap.inputs.parsing import parse_json
from polymap.inputs.reading import read_text
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, MemoryLevel, Node
from polymap.search.any_size.engine import RegionSearch
from polymap.search.enumeration.trees import exhaustive
from polymap.search.objective.measure import measure_of, objective_values
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.problem import analyse
from polymap.workload.einsums import einsum
from tests.referee.problems import random_problem

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers" / "peers.json"
_BATCHES, _BATCH, _QUICK = 12, 5, 0


def _machine(case: str) -> Architecture:
    document: Any = parse_json(read_text(PEERS), str(PEERS))
    return arch_from_document(next(one["arch"] for one in document["cases"] if one["id"] == case))


def _with_long_energies(rng: random.Random, arch: Architecture) -> Architecture:
    """Return the machine with energies of one to nine digits, from 10^-6 to 10^6 pJ."""

    def energy() -> Fraction:
        digits = rng.randint(1, 9)
        return Fraction(rng.randrange(10**digits)) * Fraction(10) ** rng.randint(-6, 6 - digits)

    def one(node: Node) -> Node:
        if isinstance(node, MemoryLevel):
            return replace(node, read_pj=energy(), write_pj=energy())
        return node

    return replace(arch, nodes=tuple(map(one, arch.nodes)))


def _search(workload: Workload, arch: Architecture, objective: str, checks: int) -> RegionSearch:
    """Return a search that stops after some looks at its clock."""
    goal = parse_objective(objective, arch)
    problem = analyse(workload, arch)
    assert problem.reason is None
    ticks = count()
    return RegionSearch(problem, goal, measure_of(goal, workload, arch), lambda: next(ticks) / checks, None)


def _marked(batch: int) -> pytest.MarkDecorator | tuple[()]:
    return pytest.mark.soak if batch >= _BATCHES else pytest.mark.slow if batch >= _QUICK else ()


@pytest.mark.parametrize("batch", [pytest.param(n, marks=_marked(n)) for n in range(20 * _BATCHES)])
def test_no_tree_is_below_the_bound(batch: int) -> None:
    rng = random.Random(f"any tiles {batch}")
    checked = 0
    while checked < _BATCH:
        problem = random_problem(rng, most=30_000, tiles="any")
        problem = replace(problem, arch=_with_long_energies(rng, problem.arch))
        goal = parse_objective(problem.objective, problem.arch)
        if goal.parts or analyse(problem.workload, problem.arch).reason is not None:
            continue
        true = exhaustive(problem.workload, problem.arch, problem.objective, "any")
        if true is None or true.value is None:
            continue
        checked += 1
        measure = measure_of(goal, problem.workload, problem.arch)
        search = _search(problem.workload, problem.arch, problem.objective, 40)
        found = search.run(lambda _best, _value, _bound: None)
        is_met = found.best is not None and found.best[1] == true.value
        if found.bound is not None:
            assert is_met or measure.unscaled(found.bound) <= true.value, f"{problem}\n{found}\n{true}"
        else:
            assert is_met, f"{problem}\n{found} {true}"
        if found.best is not None:
            assert found.best[1] >= true.value, f"{problem}\n{found} {true}"
            cost = simulate(problem.workload, problem.arch, found.best[0])
            assert cost.legal
            assert objective_values(problem.workload, problem.arch, goal, cost)[0] == found.best[1]


def test_a_prime_matrix_product_is_proven() -> None:
    """127 x 127 x 127 on 256 PEs, where dividing tiles use one: the value is what the machine must move at least."""
    gemm = einsum("C[m,n] += A[m,k] * B[k,n]", m=127, n=127, k=127, bits=8)
    arch = _machine("gemm_flat3keep_energy")
    search = _search(gemm, arch, "energy", 10_000)
    found = search.run(lambda _best, _value, _bound: None)
    assert found.best is not None
    assert found.bound is not None
    assert found.best[1] == search.measure.unscaled(found.bound) == 20_532_217
    assert evaluate(gemm, arch, found.best[0]).energy_pj == 20_532_217


@pytest.mark.slow
def test_dividing_tiles_are_the_best_of_all_for_a_small_matrix_product() -> None:
    """The value that AccelForge 1.0.467 proves over dividing tiles (30.5 CPU s) holds over tiles of any size."""
    gemm = einsum("C[m,n] += A[m,k] * B[k,n]", m=512, n=256, k=32, bits=8)
    search = _search(gemm, _machine("gemm_flat3_energy"), "energy", 100_000)
    found = search.run(lambda _best, _value, _bound: None)
    assert found.best is not None
    assert found.bound is not None
    assert found.best[1] == search.measure.unscaled(found.bound) == 42_729_472
