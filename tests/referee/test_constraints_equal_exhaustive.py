"""With constraints the search finds the best of all trees that meet them: 300 random small problems.

What a constraint means is read off each finished tree by tests/referee/demands.py, which shares no code with it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction

import pytest

from polymap.costmodel.referees.trees import scored_trees
from polymap.explore import search
from tests.referee.demands import Table, meets, random_demands
from tests.referee.problems import Problem, random_problem
from tests.times import few

_BATCHES, _BATCH = 10, 30


@dataclass(frozen=True, slots=True)
class _Case:
    """A problem and constraints. limit: (another objective, the fitting tree whose value of it is the most allowed, as
    a share of their number)."""

    problem: Problem
    demands: Table
    other: str
    limit: float | None


def _cases(batch: int) -> list[_Case]:
    rng = random.Random(f"demands {batch}")
    return [_case(rng) for _ in range(_BATCH)]


def _case(rng: random.Random) -> _Case:
    problem = random_problem(rng, most=3_000, tiles="divide")
    demands = random_demands(rng, problem.workload, problem.arch)
    outer, inner = problem.arch.levels[0].name, problem.arch.levels[-1].name
    names = ["energy", "latency", "edp", "ed2p", f"traffic:{outer}", f"capacity:{inner}"]
    other = rng.choice([name for name in names if name != problem.objective])
    return _Case(problem, demands, other, rng.random() if rng.random() < 0.4 else None)


def _truth(case: _Case) -> tuple[Table, Fraction | None]:
    """Return the constraints with the limit, and the least objective among the trees that meet them (None: none)."""
    workload, arch = case.problem.workload, case.problem.arch
    both = f"lex:{case.problem.objective},{case.other}"
    trees = [tree for tree in scored_trees(workload, arch, both, "divide") if tree.fits]
    demands, most = case.demands, float("inf")
    if trees and case.limit is not None:
        most = float(trees[int(case.limit * len(trees))].values[1])
        demands = {**demands, "limits": {case.other: most}}
    for tree in sorted(trees, key=lambda tree: tree.value):
        if float(tree.values[1]) <= most and meets(demands, workload, arch, tree.mapping, tree.steps):
            return demands, tree.value
    return demands, None


def _check(case: _Case) -> bool:
    """Hold the search against all trees; return whether there is a mapping."""
    workload, arch = case.problem.workload, case.problem.arch
    demands, least = _truth(case)
    found = search(workload, arch, case.problem.objective, "divide", time_limit_s=120, constraints=demands)
    told = f"{case.problem}\n{demands}\nsearch: {found.status} {found.value} {found.best}\nall trees: {least}"
    if least is None:
        assert found.status == "INFEASIBLE", told
        assert found.clash, told
        return False
    assert found.status == "OPTIMAL", told
    assert found.value is not None, told
    assert float(found.value) == float(least), told
    assert found.best is not None, told
    assert found.cost is not None, told
    steps = found.cost.compute_cycles * arch.compute.per_cycle
    if arch.compute.per_cycle == 1:
        assert meets(demands, workload, arch, found.best, steps), told
    return True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch", "cases"), few([(0, _BATCH // 2), *((batch, _BATCH) for batch in range(_BATCHES))], 1)
)
def test_the_optimum_under_constraints_is_the_least_of_the_trees_that_meet_them(batch: int, cases: int) -> None:
    feasible = [_check(case) for case in _cases(batch)[:cases]]
    assert 2 <= feasible.count(False) <= 2 * cases // 3  # some clash


@pytest.mark.slow
@pytest.mark.parametrize(("batches", "least"), few([(2, 5), (4, 10)], 1))
def test_every_kind_of_constraint_is_there(batches: int, least: int) -> None:
    cases = [case for batch in range(batches) for case in _cases(batch)]
    for kind in ("order", "outermost", "innermost", "fanouts", "store", "intrinsic", "min_utilization"):
        assert sum(kind in case.demands for case in cases) >= least, kind
    stores = [own for case in cases for own in case.demands.get("store", {}).values()]  # type: ignore[attr-defined]
    assert sum(bool(own.get("least")) for own in stores) >= least
    assert sum(case.limit is not None for case in cases) >= 3 * least
