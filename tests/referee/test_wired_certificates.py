"""Certificates of machines whose fan-outs cost energy: what the checker counts on wires is what the cost model counts,
its bounds are below every tree, and what it proves is the least of all trees, each evaluated by itself."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from polymap import explore, verify
from polymap.checker import Rows, least
from polymap.checker.any_size import Siblings, bounds
from polymap.costmodel import evaluate
from polymap.ir.errors import OptionError
from polymap.search.problem import objective_values, parse_objective
from tests.case_machines import with_wires
from tests.property.test_seeded_search_bugs import Bug, assert_seen
from tests.referee.all_trees import all_trees
from tests.referee.problems import Problem, random_problem
from tests.referee.test_checker import (
    bounds_hold,
    checked_of,
    first_siblings,
    is_doubted,
    rules_hold,
    same_counts,
    siblings,
)
from tests.referee.test_wired_search import in_order_of_levels, least_value, wired_problems
from tests.sample import sample_mapping


def wired_problem(rng: random.Random, **limits: Any) -> Problem:
    """Return a random problem on a machine with energies on some fan-out."""
    while True:
        problem = random_problem(rng, **limits)
        arch = with_wires(rng, problem.arch)
        if arch.has_wire_energies:
            return replace(problem, arch=arch)


def optima(seeds: range, most: int = 600) -> tuple[int, int, int]:
    """Return how many optima were certified, how many in full, and how many worse mappings: none is proven the best."""
    certified = proven = worse = 0
    for seed, problem, arch, objective in wired_problems(seeds, "divide", most):
        true, told = least_value(problem, arch, objective, "divide"), f"seed {seed}"
        found = explore(problem.workload, arch, objective, tiles="divide", time_limit_s=60)
        try:
            verdict = verify(found.certificate())
        except OptionError:  # there is no mapping, or it is of another kind than those that are certified
            continue
        assert not verdict.reason, f"{told}: {verdict.reason}"
        assert true is not None, told
        assert verdict.value == true, told
        certified, proven = certified + 1, proven + verdict.proven
        asked, rng = replace(problem, arch=arch, objective=objective), random.Random(seed)
        for mapping in (sample_mapping(problem.workload, arch, "divide", rng) for _ in range(2)):
            cost = evaluate(problem.workload, arch, mapping)
            goal = parse_objective(objective, arch)
            if cost.legal and true < objective_values(problem.workload, arch, goal, cost)[0]:
                assert is_doubted(asked, mapping), f"{told}: {mapping}"
                worse += 1
    return certified, proven, worse


def any_sizes_hold(seeds: range, most: int = 600) -> int:
    """Return how many structures were bounded over tiles of any size: none above its own cheapest tree."""
    structures = 0
    for seed, problem, arch, objective in wired_problems(seeds, "any", most):
        checked, goal = checked_of(replace(problem, arch=arch), objective), parse_objective(objective, arch)
        best = dict[Rows, Fraction]()
        for tree in all_trees(problem.workload, arch, "any", legal=True):
            cost = evaluate(problem.workload, arch, in_order_of_levels(arch, tree))
            if cost.legal:
                value, rows = objective_values(problem.workload, arch, goal, cost)[0], first_siblings(checked, tree)
                best[rows] = min(best.get(rows, value), value)
        for rows, value in best.items():
            found = siblings(checked, rows)
            *parts, steps = (int(np.ravel(one)[0]) for one in (*bounds(found), found.steps()))
            assert checked.value(parts, steps) <= value * checked.scale, f"seed {seed}: {rows}"
        assert not best or least(checked)[1] <= min(best.values()) * checked.scale, f"seed {seed}"
        structures += len(best)
    return structures


def any_mappings_hold(seed: int, count: int, most: int = 20_000) -> tuple[int, int]:
    """Return how many structures of random mappings over any sizes were bounded, none above the mapping, and how many
    bounds were met: problems too large for all trees, which tests of all trees cannot see."""
    rng, structures, met = random.Random(f"wired sizes {seed}"), 0, 0
    while structures < count:
        problem = wired_problem(rng, most=most, tiles="any")
        checked, goal = checked_of(problem, problem.objective), parse_objective(problem.objective, problem.arch)
        for mapping in (sample_mapping(problem.workload, problem.arch, "any", rng) for _ in range(8)):
            cost = evaluate(problem.workload, problem.arch, mapping)
            if cost.legal:
                found = siblings(checked, first_siblings(checked, mapping))
                *parts, steps = (int(np.ravel(one)[0]) for one in (*bounds(found), found.steps()))
                value = objective_values(problem.workload, problem.arch, goal, cost)[0] * checked.scale
                assert checked.value(parts, steps) <= value, f"{problem}\n{mapping}"
                structures, met = structures + 1, met + (checked.value(parts, steps) == value)
    return structures, met


@pytest.mark.parametrize("tiles", ["divide", "any"])
def test_the_checker_counts_wires_as_the_cost_model_does(tiles: str) -> None:
    assert same_counts(0, 60, tiles, wired_problem) < 20


def test_no_bound_with_wires_is_above_a_mapping() -> None:
    bounds_hold(0, 40, wired_problem)


@pytest.mark.slow
def test_constraints_with_wires_are_read_as_they_are_meant() -> None:
    taken, refused = rules_hold(0, 10, wired_problem)
    assert refused >= taken // 2


@pytest.mark.slow
def test_certified_values_with_wires_are_the_least_of_all_trees_and_worse_ones_are_not_proven() -> None:
    certified, proven, worse = optima(range(4))
    assert proven >= certified // 2
    assert worse >= certified - 1


@pytest.mark.slow
def test_no_bound_with_wires_over_any_sizes_is_above_a_tree() -> None:
    assert any_sizes_hold(range(500, 503)) > 5


def _random_mappings() -> None:
    structures, met = any_mappings_hold(0, 24)
    assert met > structures // 8


@pytest.mark.slow
def test_no_bound_with_wires_over_any_sizes_is_above_a_random_mapping() -> None:
    _random_mappings()


BUGS = (
    Bug("siblings below an end are apart", Siblings.moved, "between = above[end:]", "between = above[end + 1 :]"),
    Bug(
        "siblings of all kinds are apart",
        Siblings.moved,
        "apart = [g for g in above if g not in merging]",
        "apart = above",
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_puts_a_bound_above_a_random_mapping(bug: Bug) -> None:
    assert_seen(bug, (_random_mappings,))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 5))
def test_certificates_with_wires_hold_in_many_cases(seed: int) -> None:
    for tiles in ("divide", "any"):
        same_counts(seed, 600, tiles, wired_problem)
    bounds_hold(seed, 80, wired_problem)
    optima(range(100 * seed, 100 * seed + 60))
    any_sizes_hold(range(1000 * seed, 1000 * seed + 60))
    any_mappings_hold(seed, 300)
