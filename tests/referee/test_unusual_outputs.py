"""Nests whose output is dead after the run, or leaves elements of its box untouched, against all trees."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from polymap.costmodel import evaluate
from polymap.explore import explore
from polymap.ir import Architecture, ComputeUnit, Fanout, MemoryLevel, Workload
from polymap.workload import einsum
from tests.referee.all_trees import all_trees
from tests.times import few

BUFFER = MemoryLevel("Buf", capacity_bits=64, read_pj=Fraction(1), write_pj=Fraction(1))
DRAM = MemoryLevel("DRAM", read_pj=Fraction(3), write_pj=Fraction(50))
ARCH = Architecture("two levels", (DRAM, BUFFER, ComputeUnit("MAC")))


def least_energy(workload: Workload) -> Fraction:
    costs = [evaluate(workload, ARCH, tree) for tree in all_trees(workload, ARCH, "divide", legal=True)]
    return min(cost.energy_pj_exact for cost in costs if cost.legal)


@pytest.mark.parametrize(("text", "sizes"), [("C[m] += A[m,k]", {"m": 2, "k": 4}), ("C[m] += A[m] * A[m+1]", {"m": 4})])
def test_what_is_dead_is_never_written(text: str, sizes: dict[str, int]) -> None:
    work = einsum(text, sizes=sizes, temporary=["C"])
    least = least_energy(work)
    found = explore(work, ARCH, tiles="divide", work_limit=200, time_limit_s=60)
    assert found.bound is not None, "there are mappings"
    assert found.bound <= least, "what stays on chip is never written"
    assert found.value == least, "so few trees are all seen by the climb"


@pytest.mark.parametrize("seed", few(range(8), 4))
def test_nests_whose_output_is_dead_are_proven(seed: int) -> None:
    rng = random.Random(f"dead {seed}")
    text = rng.choice(["C[m] += A[m,k]", "C[m] += A[m,k] * B[k]", "C[m] += A[m+k] * B[k]", "C[m] max= A[m,k] * B[m]"])
    initial, tiles = ["C"] if rng.random() < 0.3 else [], ("divide", "any")[seed % 2]
    work = einsum(text, m=rng.choice([2, 3]), k=rng.choice([2, 3]), bits=8, temporary=["C"], initial=initial)
    fanout = Fanout("X", rng.choice([2, 4]), reduction=rng.random() < 0.5)
    buffer = replace(BUFFER, capacity_bits=rng.choice([16, 24, 64]))
    nodes = [fanout, buffer] if seed % 4 < 2 else [buffer, fanout]
    arch = Architecture("small", (DRAM, *nodes, ComputeUnit("MAC")))
    costs = [evaluate(work, arch, tree) for tree in all_trees(work, arch, tiles, legal=True)]
    found = explore(work, arch, tiles=tiles, time_limit_s=60)
    least = min(cost.energy_pj_exact for cost in costs if cost.legal)
    assert (found.status, found.value) == ("OPTIMAL", least), "the least of all trees"


@pytest.mark.parametrize("target", ["C[m,m]", "C[2*m]", "C[5-m]"])
def test_elements_that_nothing_adds_to_are_no_sums_that_start_from_zero(target: str) -> None:
    work = einsum(f"{target} += A[m,k]", m=3, k=2)
    found = explore(work, ARCH, tiles="divide", time_limit_s=60)
    assert (found.status, found.value) == ("OPTIMAL", least_energy(work)), "proven, and the least of all trees"
    least = explore(
        work, ARCH, "capacity:Buf", tiles="divide", constraints={"limits": {"energy": int(found.value) + 1}}
    )
    assert least.cost is not None, "the mapping of least energy keeps the limit"
    assert least.cost.energy_pj <= found.value + 1, "as every answer"
