"""`choose_tiles` finds what `explore` finds over dividing tiles, without its report."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import polymap as pm
from polymap.search.problem import exact_score, parse_objective

MACHINES = ("flat3", "eyeriss_like", "cluster4")


def product(m: int, n: int, k: int) -> pm.Workload:
    document = {"name": "product", "einsum": "C[m,n] += A[m,k] * B[k,n]", "sizes": {"m": m, "n": n, "k": k}}
    return pm.io.workload_from_document(document)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("objective", ["energy", "edp", "latency"])
def test_values_are_those_of_explore(machine: str, objective: str) -> None:
    rng = random.Random(f"{machine} {objective}")
    arch = pm.load_arch(machine)
    for _ in range(3):
        workload = product(*(rng.choice((6, 8, 12, 13, 16, 24, 30, 32)) for _ in range(3)))
        choice = pm.choose_tiles(workload, arch, objective)
        found = pm.explore(workload, arch, objective, tiles="divide")
        assert choice.is_proven
        assert found.status == "OPTIMAL"
        assert choice.value is not None
        assert float(choice.value) == found.value
        assert choice.mapping is not None
        score = exact_score(workload, arch, parse_objective(objective, arch), choice.mapping)
        assert score is not None
        assert (score.value, score.excess) == (choice.value, 0)


def test_what_is_not_covered_is_refused() -> None:
    arch, workload = pm.load_arch("flat3"), product(4, 4, 4)
    with pytest.raises(pm.errors.OptionError, match="PM550"):
        pm.choose_tiles(workload, arch, "pareto:energy,latency")
    with pytest.raises(pm.errors.OptionError, match="PM504"):
        pm.choose_tiles(workload, arch, time_limit_s=0)


def test_a_machine_without_room_has_no_choice() -> None:
    flat3 = pm.load_arch("flat3")
    small = [
        replace(node, capacity_bits=8, must_hold=("A", "B", "C")) if getattr(node, "name", "") == "RF" else node
        for node in flat3.nodes
    ]
    choice = pm.choose_tiles(product(4, 4, 4), replace(flat3, nodes=tuple(small)))
    assert (choice.mapping, choice.value, choice.is_proven) == (None, None, True)
