"""Searches without proof: legal, repeatable, never below what is proven; genomes are trees of the mapping space."""

from __future__ import annotations

import random
from fractions import Fraction
from functools import cache

import pytest

from benchmarks.heuristics.dataflow_templates import Dataflow, rule_of_thumb
from benchmarks.heuristics.genome import (
    crossover,
    genome_space,
    neighbour,
    plain_genome,
    random_genome,
    tree_of_genome,
)
from benchmarks.heuristics.methods import BaselineResult, Method, baseline
from polymap.costmodel.evaluation import evaluate
from polymap.costmodel.referees.trees import exhaustive
from polymap.explore import explore
from polymap.inputs.presets import load_arch
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.ir.mapping import Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.schedules.check import check_mapping, placement_violations
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import objective_value
from polymap.workload.c.reader import from_c
from polymap.workload.einsums import einsum
from polymap.workload.layers import conv2d
from polymap.workload.networks import builtin_workload

pytestmark = pytest.mark.slow

METHODS = [one.value for one in Method]
SEARCHES = ("random", "hill_climbing", "simulated_annealing", "genetic")

GEMM = einsum("C[m,n] += A[m,k] * B[k,n]", m=8, n=12, k=4)
WINDOW = einsum("O[k,p] += I[p+r] * W[k,r]", k=4, p=6, r=3)
MACHINE = Architecture(
    "small",
    (
        MemoryLevel("DRAM", None, 8, Fraction(100), Fraction(100), bandwidth_bits_per_cycle=Fraction(16)),
        MemoryLevel("GLB", 512, 8, Fraction(6), Fraction(6)),
        Fanout("X", 4),
        Fanout("Y", 3, dims=("k", "m", "p")),
        MemoryLevel("RF", 64, 8, Fraction(1), Fraction(1), must_hold=("@output",)),
        ComputeUnit("MAC", Fraction(1)),
    ),
)
CASES = {"gemm": GEMM, "window": WINDOW}


@cache
def found(name: str, method: str, objective: str, seed: int = 0) -> BaselineResult:
    return baseline(CASES[name], MACHINE, method, objective, budget=150, seed=seed)


@cache
def proven(name: str, objective: str) -> float:
    result = explore(CASES[name], MACHINE, objective, tiles="divide")
    assert result.status == "OPTIMAL"
    assert result.value is not None
    return result.value


@pytest.mark.parametrize("objective", ["energy", "edp", "ed2p"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CASES)
def test_no_baseline_is_better_than_the_proven_optimum(name: str, method: str, objective: str) -> None:
    result = found(name, method, objective)
    assert result.value is not None
    assert result.value >= proven(name, objective)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_legal_and_costs_what_is_said(name: str, method: str) -> None:
    result = found(name, method, "energy")
    assert result.best is not None
    cost = evaluate(CASES[name], MACHINE, result.best)
    assert cost.legal
    assert cost == result.cost
    assert objective_value(CASES[name], MACHINE, parse_objective("energy", MACHINE), cost) == result.value
    assert result.improvements[-1][1] == result.value
    values = [value for _, value in result.improvements]
    assert values == sorted(set(values), reverse=True)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_answer(method: str) -> None:
    first = found("gemm", method, "energy")
    assert baseline(GEMM, MACHINE, method, "energy", budget=150, seed=0) == first


@pytest.mark.parametrize("method", SEARCHES)
def test_another_seed_takes_another_way(method: str) -> None:
    assert found("gemm", method, "energy", seed=1).improvements != found("gemm", method, "energy").improvements


@pytest.mark.parametrize("method", SEARCHES)
def test_the_budget_is_kept_and_more_of_it_is_no_worse(method: str) -> None:
    results = [baseline(GEMM, MACHINE, method, budget=budget, seed=3) for budget in (1, 60, 240)]
    assert [result.evaluated for result in results] == [1, 60, 240]
    assert all(result.legal <= result.evaluated for result in results)
    if method != "simulated_annealing":  # its temperature falls over the budget, so its way depends on it
        values = [result.value for result in results[1:] if result.value is not None]
        assert values == sorted(values, reverse=True)


VECTOR = einsum("y[m] += A[m,k] * x[k]", m=3, k=2)


@cache
def best_of_all(tiles: str) -> Fraction:
    truth = exhaustive(VECTOR, MACHINE, "energy", tiles)
    assert truth is not None
    assert truth.value is not None
    return truth.value


@pytest.mark.parametrize("method", SEARCHES)
def test_a_tiny_problem_is_solved(method: str) -> None:
    assert baseline(VECTOR, MACHINE, method, budget=1500, seed=0).value == best_of_all("divide")


@pytest.mark.parametrize("method", SEARCHES)
def test_tiles_of_any_size_are_tried_and_never_below_the_best_of_all_trees(method: str) -> None:
    result = baseline(VECTOR, MACHINE, method, tiles="any", budget=400, seed=0)
    assert result.value is not None
    assert result.value >= best_of_all("any")


def checked(workload: Workload, mapping: Mapping, *, divide: bool) -> None:
    """Fail if the tree is not of the mapping space: unreadable, outside fan-outs or holds, a dim twice in a block."""
    check_mapping(workload, MACHINE, mapping)
    assert placement_violations(workload, MACHINE, mapping) == ()
    tiles, block = workload.extents(), set[tuple[str, str]]()
    for node in mapping.nodes:
        match node:
            case Temporal(dim, tile) | Spatial(dim, tile, _):
                assert tile < tiles[dim]
                assert not divide or tiles[dim] % tile == 0
                assert (dim, kind(node)) not in block
                tiles[dim] = tile
                block.add((dim, kind(node)))
            case Storage():
                block.clear()
            case _:
                assert isinstance(node, Compute)
    assert set(tiles.values()) == {1}


def kind(node: MappingNode) -> str:
    return node.fanout if isinstance(node, Spatial) else "time"


@pytest.mark.parametrize("divide", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_every_genome_is_a_tree_of_the_mapping_space(name: str, divide: bool) -> None:
    workload, rng = CASES[name], random.Random(7)
    space = genome_space(workload, MACHINE, divide=divide)
    genome, other = plain_genome(space), random_genome(space, rng)
    trees: set[Mapping] = set()
    for _ in range(150):
        genome = neighbour(space, genome, rng)
        other = crossover(space, other, random_genome(space, rng), rng)
        for one in (genome, other):
            tree = tree_of_genome(space, one)
            checked(workload, tree, divide=divide)
            trees.add(tree)
    assert len(trees) > 200
    divided = [all_divide(workload, tree) for tree in trees]
    assert all(divided) == divide


def all_divide(workload: Workload, mapping: Mapping) -> bool:
    tiles = workload.extents()
    for node in mapping.nodes:
        if isinstance(node, Temporal | Spatial):
            if tiles[node.dim] % node.tile:
                return False
            tiles[node.dim] = node.tile
    return True


@pytest.mark.parametrize(
    ("workload", "dataflow"),
    [
        (conv2d(K=8, C=4, H=8, W=8, R=3, S=3), Dataflow.WEIGHT_STATIONARY),
        (GEMM, Dataflow.WEIGHT_STATIONARY),
        (builtin_workload("bert_base.ffn_up"), Dataflow.WEIGHT_STATIONARY),
        (builtin_workload("bert_base.scores"), Dataflow.INPUT_STATIONARY),
        (builtin_workload("bert_base.context"), Dataflow.INPUT_STATIONARY),
    ],
)
def test_the_textbook_keeps_weights_still_and_in_attention_the_input(workload: Workload, dataflow: Dataflow) -> None:
    assert rule_of_thumb(workload) is dataflow


@pytest.mark.parametrize(("method", "still"), [("weight_stationary", "B"), ("input_stationary", "A")])
def test_a_stationary_tensor_moves_less_than_under_another_rule(method: str, still: str) -> None:
    gemm = einsum("C[m,n] += A[m,k] * B[k,n]", m=64, n=64, k=64)
    moved: dict[str, int] = {}
    for rule in ("weight_stationary", "input_stationary"):
        cost = baseline(gemm, load_arch("flat3"), rule).cost
        assert cost is not None
        moved[rule] = sum(row.fills for row in cost.traffic if (row.level, row.tensor) == ("RF", still))
    assert moved[method] == min(moved.values()) < max(moved.values())


def test_where_nothing_fits_there_is_no_answer() -> None:
    full = Architecture("full", (MemoryLevel("DRAM"), MemoryLevel("RF", 8, must_hold=("A", "B")), ComputeUnit("MAC")))
    for method in METHODS:
        result = baseline(GEMM, full, method, budget=40)
        assert (result.best, result.cost, result.value, result.legal) == (None, None, None, 0)


def test_mistakes_are_refused() -> None:
    with pytest.raises(ValueError, match="'anneling' is not a valid Method"):
        baseline(GEMM, MACHINE, "anneling")
    with pytest.raises(ValueError, match="tiles is 'some'"):
        baseline(GEMM, MACHINE, "random", tiles="some")
    with pytest.raises(ValueError, match="budget is 0"):
        baseline(GEMM, MACHINE, "random", budget=0)
    twice = from_c("void f(int a[4], int b[4]) { for (int i = 0; i < 4; i++) { a[i] = 1; b[i] = 2; } }", sizes={})
    with pytest.raises(ValueError, match="the workload has 2 statements"):
        baseline(twice, MACHINE, "random")
