"""With energies on fan-outs the search finds what walking every legal tree finds, each tree counted by itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import count, groupby
from typing import Any

import pytest

from polymap.costmodel import evaluate
from polymap.explore import search
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Mapping, Storage
from polymap.search.problem import analyse, objective_values, parse_objective
from tests.case_machines import with_wires
from tests.referee.all_trees import all_trees
from tests.referee.problems import Problem, random_problem
from tests.times import few

OBJECTIVES = ("energy", "energy", "edp", "weighted:2*energy+3*latency")
_LOOKS = 40  # at its clock, after which a search over tiles of any size ends


def wired_problems(seeds: range, tiles: str, most: int) -> Iterator[tuple[int, Problem, Architecture, str]]:
    """Yield problems with energies on some fan-out, of those that the search over dividing tiles covers."""
    for seed in seeds:
        rng = random.Random(f"wires {seed}")
        problem = random_problem(rng, most=most, tiles=tiles)
        arch, objective = with_wires(rng, problem.arch), rng.choice(OBJECTIVES)
        if arch.has_wire_energies and analyse(problem.workload, arch).reason is None:
            yield seed, problem, arch, objective


def least_value(problem: Problem, arch: Architecture, objective: str, tiles: str) -> Fraction | None:
    """Return the least value of all legal trees within capacities, each evaluated by itself."""
    goal = parse_objective(objective, arch)
    values: list[Fraction] = []
    for tree in all_trees(problem.workload, arch, tiles, legal=True):
        cost = evaluate(problem.workload, arch, in_order_of_levels(arch, tree))
        if cost.legal:
            values.append(objective_values(problem.workload, arch, goal, cost)[0])
    return min(values, default=None)


def in_order_of_levels(arch: Architecture, tree: Mapping) -> Mapping:
    """Return a canonical tree with the nodes between two loops in the order of the machine's levels."""
    nodes: list[Any] = []
    for is_storage, group in groupby(tree.nodes, key=lambda node: isinstance(node, Storage)):
        run: list[Any] = list(group)
        nodes += sorted(run, key=lambda node: arch.level_index(node.level)) if is_storage else run
    return Mapping(tuple(nodes))


def check_divide(seeds: range, most: int) -> int:
    """Compare the search with all trees; return how many problems had a mapping."""
    met = 0
    for seed, problem, arch, objective in wired_problems(seeds, "divide", most):
        true = least_value(problem, arch, objective, "divide")
        found = search(problem.workload, arch, objective, "divide", time_limit_s=60)
        told = f"seed {seed}: {objective} {found.status} {found.value}, all trees {true}"
        if true is None:
            assert found.status == "INFEASIBLE", told
            continue
        assert found.status == "OPTIMAL", told
        assert found.value == float(true), told
        met += 1
    return met


def check_any(seeds: range, most: int) -> int:
    """Hold bound and value of a short search over tiles of any size against all trees; return how many were proven."""
    proven = 0
    for seed, problem, arch, objective in wired_problems(seeds, "any", most):
        true = least_value(problem, arch, objective, "any")
        ticks = count()
        found = search(
            problem.workload, arch, objective, "any", time_limit_s=_LOOKS, clock=lambda ticks=ticks: float(next(ticks))
        )
        told = f"seed {seed}: {objective} {found.status} {found.value} >= {found.bound}, all trees {true}"
        if true is None:
            assert found.status in ("INFEASIBLE", "TIMEOUT"), told
            continue
        assert found.bound is None or found.bound <= float(true), told
        assert found.value is None or found.value >= float(true), told
        if found.status == "OPTIMAL":
            assert found.value == float(true), told
            proven += 1
    return proven


@pytest.mark.slow
@pytest.mark.parametrize("block", few(range(3), 1))
def test_with_wires_the_optimum_is_the_least_of_all_trees(block: int) -> None:
    assert check_divide(range(10 * block, 10 * block + 10), 600) > 1


@pytest.mark.slow
def test_with_wires_bounds_over_any_tiles_are_below_the_optimum() -> None:
    check_any(range(500, 504), 600)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
def test_with_wires_the_optimum_is_the_least_of_all_trees_in_larger_spaces(block: int) -> None:
    check_divide(range(1000 + 10 * block, 1010 + 10 * block), 3000)
    check_any(range(2000 + 5 * block, 2005 + 5 * block), 2000)
