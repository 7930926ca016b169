"""What other mappers reach on the same machines: the search proves values that are never worse.

Sources: AccelForge 1.0.467, its own proven optima over dividing tiles (energy); for EDP the best mappings known for
timeloop-model, written by hand (Timeloop's own mapper ends above them). Machines and workloads: benchmarks/peers.
No tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from polymap.costmodel.evaluation import evaluate
from polymap.explore import explore
from polymap.inputs.machines import arch_from_document
from polymap.inputs.parsing import parse_json
from polymap.inputs.reading import read_text
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import objective_value
from polymap.search.result import SearchResult
from polymap.workload.document import workload_from_document

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers" / "peers.json"


@dataclass(frozen=True, slots=True)
class Case:
    """A peer's case: what was asked."""

    workload: Workload
    arch: Architecture
    objective: str


@cache
def case(name: str) -> Case:
    document = parse_json(read_text(PEERS), "peers")
    assert isinstance(document, dict)
    for entry in document["cases"]:
        if entry["id"] == name:
            return Case(
                workload_from_document(entry["workload"]), arch_from_document(entry["arch"]), entry["objective"]
            )
    raise KeyError(name)


@cache
def answer(name: str) -> SearchResult:
    asked = case(name)
    return explore(asked.workload, asked.arch, asked.objective, tiles="divide", time_limit_s=300)


CASES = ("gemm_flat3_energy", "gemm_flat3keep_energy", "gemm_simple3_edp")


def test_accelforge_optimum_of_a_matrix_product_is_reached_exactly() -> None:
    assert answer("gemm_flat3_energy").value == 42_729_472


def test_keeping_everything_costs_less_than_accelforge_answers() -> None:
    # AccelForge: 54,050,816; its default space has fewer orders of storage nodes.
    assert answer("gemm_flat3keep_energy").value == 53_993_472


def test_edp_of_a_matrix_product_is_below_the_best_mapping_known_for_timeloop() -> None:
    value = answer("gemm_simple3_edp").value
    assert value is not None
    assert value <= 7.26e11


@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_proven_and_its_mapping_evaluates_to_it(name: str) -> None:
    asked, result = case(name), answer(name)
    assert (result.status, result.gap) == ("OPTIMAL", 0)
    assert result.bound == result.value
    assert result.best is not None
    cost = evaluate(asked.workload, asked.arch, result.best)
    assert cost.legal
    assert cost == result.cost
    objective = parse_objective(asked.objective, asked.arch)
    assert objective_value(asked.workload, asked.arch, objective, cost) == result.value
