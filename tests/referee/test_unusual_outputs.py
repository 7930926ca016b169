"""Nests whose output is dead after the run, or leaves elements of its box untouched, against all trees."""

from __future__ import annotations

from fractions import Fraction

import pytest

from polymap.costmodel import evaluate
from polymap.explore import explore
from polymap.ir import Architecture, ComputeUnit, MemoryLevel, Workload
from polymap.workload import einsum
from tests.referee.all_trees import all_trees

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
