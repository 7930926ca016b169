"""Nests whose output is dead after the run, of which on-chip levels write nothing back, against all trees."""

from __future__ import annotations

from fractions import Fraction

import pytest

from polymap.costmodel import evaluate
from polymap.explore import explore
from polymap.ir import Architecture, ComputeUnit, MemoryLevel
from polymap.workload import einsum
from tests.referee.all_trees import all_trees


@pytest.mark.parametrize(("text", "sizes"), [("C[m] += A[m,k]", {"m": 2, "k": 4}), ("C[m] += A[m] * A[m+1]", {"m": 4})])
def test_no_answer_is_above_the_best_tree(text: str, sizes: dict[str, int]) -> None:
    level = MemoryLevel("DRAM", read_pj=Fraction(3), write_pj=Fraction(50))
    buffer = MemoryLevel("Buf", capacity_bits=64, read_pj=Fraction(1), write_pj=Fraction(1))
    arch = Architecture("two levels", (level, buffer, ComputeUnit("MAC")))
    work = einsum(text, sizes=sizes, temporary=["C"])
    costs = [evaluate(work, arch, tree) for tree in all_trees(work, arch, "divide", legal=True)]
    least = min(cost.energy_pj_exact for cost in costs if cost.legal)
    found = explore(work, arch, tiles="divide", work_limit=200, time_limit_s=60)
    assert found.bound is not None, "there are mappings"
    assert found.bound <= least, "what stays on chip is never written"
    assert found.value == least, "so few trees are all seen by the climb"
