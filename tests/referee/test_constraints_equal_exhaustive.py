"""With constraints the search finds the best of all trees that meet them: 300 random small problems.

What a constraint means is read off each finished tree by tests/referee/demands.py, which shares no code with it.
"""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from polymap.search.exhaustive import scored_trees
from polymap.search.search import search
from tests.referee.demands import Table, meets, random_demands
from tests.referee.problems import Problem, random_problem

_BATCHES, _BATCH = 15, 20


def _cases(batch: int) -> list[tuple[Problem, Table, Fraction | None]]:
    """Return problems, constraints and the least objective among the trees that meet them (None: there is none)."""
    rng = random.Random(f"demands {batch}")
    return [_case(rng) for _ in range(_BATCH)]


def _case(rng: random.Random) -> tuple[Problem, Table, Fraction | None]:
    problem = random_problem(rng, most=3_000, tiles="divide")
    workload, arch = problem.workload, problem.arch
    demands = random_demands(rng, workload, arch)
    names = ["energy", "latency", "edp", f"traffic:{arch.levels[0].name}", f"capacity:{arch.levels[-1].name}"]
    other = rng.choice([name for name in names if name != problem.objective])
    both = f"lex:{problem.objective},{other}"
    trees = [tree for tree in scored_trees(workload, arch, both, "divide") if tree.fits]
    most = float("inf")
    if trees and rng.random() < 0.4:
        most = float(rng.choice(trees).values[1])
        demands["limits"] = {other: most}
    good = [
        tree.value
        for tree in trees
        if float(tree.values[1]) <= most and meets(demands, workload, arch, tree.mapping, tree.steps)
    ]
    return problem, demands, min(good, default=None)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(_BATCHES))
def test_the_optimum_under_constraints_is_the_least_of_the_trees_that_meet_them(batch: int) -> None:
    for problem, demands, least in _cases(batch):
        workload, arch = problem.workload, problem.arch
        found = search(workload, arch, problem.objective, "divide", time_limit_s=120, constraints=demands)
        told = f"{problem}\n{demands}\nsearch: {found.status} {found.value} {found.best}\nall trees: {least}"
        if least is None:
            assert found.status == "INFEASIBLE", told
            assert found.clash, told
            continue
        assert found.status == "OPTIMAL", told
        assert found.value is not None, told
        assert float(found.value) == float(least), told
        assert found.best is not None, told
        assert found.cost is not None, told
        steps = found.cost.compute_cycles * arch.compute.per_cycle
        if arch.compute.per_cycle == 1:
            assert meets(demands, workload, arch, found.best, steps), told


@pytest.mark.slow
def test_every_kind_of_constraint_is_there_and_some_clash() -> None:
    cases = [case for batch in range(_BATCHES) for case in _cases(batch)]
    for kind in ("order", "outermost", "innermost", "fanouts", "store", "intrinsic", "min_utilization", "limits"):
        assert sum(kind in demands for _, demands, _ in cases) >= 20, kind
    assert 20 <= sum(least is None for _, _, least in cases) <= len(cases) // 2
