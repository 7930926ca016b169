"""Random legal mappings: legal, canonical, and every legal tree has a chance."""

from __future__ import annotations

from random import Random

import pytest

from polymap.costmodel.evaluation import evaluate
from polymap.inputs.presets import load_arch
from polymap.ir.errors import BudgetError
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.ir.mapping import Mapping
from polymap.schedules.check import check_mapping, placement_violations
from polymap.schedules.legality import dependence_violations
from polymap.schedules.size import legal_count
from polymap.workload.einsums import einsum
from tests.referee.all_trees import all_trees
from tests.referee.problems import random_problem
from tests.sample import one_node_per_tensor, sample_mapping
from tests.times import few

pytestmark = pytest.mark.slow

_SMALL = Architecture(
    "small",
    (MemoryLevel("DRAM"), Fanout("X", 2), Fanout("Y", 3), MemoryLevel("L", holds=("@output", "A")), ComputeUnit("MAC")),
)


@pytest.mark.parametrize(
    "text, sizes, tiles",
    [
        ("C[m] += A[m,k]", {"m": 4, "k": 2}, "divide"),
        ("C[m] += A[m,k]", {"m": 2, "k": 2}, "any"),
        ("y[] += A[k]", {"k": 6}, "divide"),
        ("y[] += A[k]", {"k": 4}, "any"),
    ],
)
def test_every_legal_tree_is_drawn_and_no_other(text: str, sizes: dict[str, int], tiles: str) -> None:
    workload = einsum(text, sizes=sizes)
    legal = all_trees(workload, _SMALL, tiles, legal=True)
    rng = Random(0)
    drawn: set[Mapping] = set()
    for _ in range(500 * len(legal)):
        drawn.add(one_node_per_tensor(sample_mapping(workload, _SMALL, tiles, rng)))
        if drawn >= legal:
            break
    assert drawn == legal
    assert len(legal) == legal_count(workload, _SMALL, tiles)


@pytest.mark.parametrize("seed", few(range(12), 6))
def test_samples_of_random_problems_are_legal(seed: int) -> None:
    rng = Random(seed)
    problem = random_problem(rng, most=20_000)
    for _ in range(20):
        mapping = sample_mapping(problem.workload, problem.arch, problem.tiles, rng)
        check_mapping(problem.workload, problem.arch, mapping)
        assert placement_violations(problem.workload, problem.arch, mapping) == ()


@pytest.mark.parametrize("name", ["flat3", "eyeriss_like", "cluster4", "simba_like", "tpu_like"])
def test_samples_of_a_real_layer_are_legal(name: str) -> None:
    workload = einsum("O[n,k,p,q] += I[n,c,p+r,q+s] * W[k,c,r,s]", n=1, k=64, c=64, p=56, q=56, r=3, s=3)
    workload_arch = load_arch(name)
    rng = Random(1)
    for tiles in ("divide", "any"):
        for _ in range(20):
            mapping = sample_mapping(workload, workload_arch, tiles, rng)
            check_mapping(workload, workload_arch, mapping)
            assert placement_violations(workload, workload_arch, mapping) == ()


def test_the_same_seed_gives_the_same_mapping() -> None:
    workload = einsum("C[m,n] += A[m,k] * B[k,n]", m=12, n=9, k=10)
    first, second = (sample_mapping(workload, load_arch("flat3"), "any", Random(7)) for _ in range(2))
    assert first == second


def test_samples_can_be_held_to_the_capacity() -> None:
    workload = einsum("C[m,n] += A[m,k] * B[k,n]", m=8, n=8, k=8)
    arch = Architecture("tight", (MemoryLevel("DRAM"), MemoryLevel("L", 128, must_hold=("A", "B")), ComputeUnit("MAC")))
    rng = Random(3)
    free = [sample_mapping(workload, arch, "divide", rng) for _ in range(20)]
    assert not all(evaluate(workload, arch, mapping).legal for mapping in free)
    for _ in range(5):
        mapping = sample_mapping(workload, arch, "divide", rng, accept=lambda m: evaluate(workload, arch, m).legal)
        assert evaluate(workload, arch, mapping).legal


def test_samples_keep_an_accumulation_order_that_is_fixed() -> None:
    workload = einsum("C[m] += A[m,k]", m=4, k=4, associative=False)
    arch = Architecture("two", (MemoryLevel("DRAM"), MemoryLevel("L"), Fanout("X", 4), ComputeUnit("MAC")))
    rng = Random(5)
    for _ in range(10):
        assert dependence_violations(workload, sample_mapping(workload, arch, "divide", rng)) == ()


def test_requirements_that_leave_nothing_are_told() -> None:
    workload = einsum("C[m] += A[m,k]", m=4, k=4)
    arch = Architecture(
        "none", (MemoryLevel("DRAM"), MemoryLevel("L", holds=("A",), must_hold=("C",)), ComputeUnit("MAC"))
    )
    with pytest.raises(BudgetError, match="PM521 no acceptable mapping .* 'none'"):
        sample_mapping(workload, arch, "divide", Random(0))
