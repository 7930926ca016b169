"""Products of energy and latency: the search finds the least of all trees, and proves layers with little work."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

import polymap as pm
from polymap.costmodel.referees.trees import exhaustive
from polymap.explore import search
from polymap.ir.machine import Architecture, MemoryLevel
from tests.property.test_long_numbers import long_machine
from tests.referee.problems import random_problem
from tests.times import few


def _conv(channels: int, size: int) -> pm.Workload:
    sizes = {"k": channels, "c": channels, "p": size, "q": size, "r": 3, "s": 3}
    return pm.einsum("O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", bits=8, sizes=sizes)


def test_a_layer_whose_energy_and_latency_pull_apart_is_proven_with_little_work() -> None:
    """DRAM costs least per byte and is slow: the least energy and the least latency are of different trees."""
    found = search(_conv(16, 8), long_machine(), "edp", "divide", time_limit_s=60, work_limit=1000)
    assert found.status == "OPTIMAL"


@pytest.mark.soak
@pytest.mark.parametrize(
    ("channels", "size", "value"), [(512, 28, 3.3701088590325114e17), (64, 56, 1318922849584868.5)]
)
def test_layers_of_networks_are_proven(channels: int, size: int, value: float) -> None:
    found = search(_conv(channels, size), long_machine(), "edp", "divide", time_limit_s=120)
    assert (found.status, found.value) == ("OPTIMAL", value)


@pytest.mark.parametrize("seed", few(range(24), 4))
def test_the_least_of_all_trees_is_found_whatever_the_bandwidths(seed: int) -> None:
    rng = random.Random(f"tradeoff {seed}")
    problem = random_problem(rng, most=4_000, tiles="divide")
    arch = _with_bandwidths(rng, problem.arch)
    objective = rng.choice(("edp", "ed2p", "ed2p", "energy"))
    true = exhaustive(problem.workload, arch, objective, "divide")
    found = search(problem.workload, arch, objective, "divide", time_limit_s=60)
    assert true is not None
    assert found.status == ("INFEASIBLE" if true.value is None else "OPTIMAL")
    assert true.value is None or float(found.value or 0) == float(true.value)


def _with_bandwidths(rng: random.Random, arch: Architecture) -> Architecture:
    nodes = [
        replace(
            node,
            bandwidth_bits_per_cycle=Fraction(rng.choice((1, 2, 4, 8, 16, 33, 64)), rng.choice((1, 1, 3))),
            read_pj=Fraction(rng.randrange(1, 10 ** rng.randrange(1, 9)), 1000),
            leak_pj_per_cycle=Fraction(rng.choice((0, 0, 0, 1, 5)), 7),
        )
        if isinstance(node, MemoryLevel) and rng.random() < 0.8
        else node
        for node in arch.nodes
    ]
    return replace(arch, nodes=tuple(nodes), overlap=rng.random() < 0.6)
