"""The search finds what walking every legal tree finds: 200 random small problems with dividing tiles, 40 with any.

The problems (tests/referee/problems.py prints how they are distributed) have windows, bypass rules, up to two fan-outs
of mixed policies, partial sums to begin with, binding capacities and all objectives.
"""

from __future__ import annotations

import random
from fractions import Fraction
from statistics import median

import pytest

from polymap.costmodel.simulate import count_by_simulation
from polymap.schedules.check import check_mapping, placement_violations
from polymap.search.exhaustive import ExhaustiveResult, exhaustive, scored_trees
from polymap.search.result import SearchResult
from polymap.search.search import search
from tests.referee.problems import LARGE, Problem, random_problem

_BATCHES, _BATCH = 20, 10


def _problems(batch: int, tiles: str) -> list[Problem]:
    rng = random.Random(f"{tiles} {batch}")
    return [random_problem(rng, tiles=tiles) for _ in range(_BATCH)]


def _told(problem: Problem, found: SearchResult, true: ExhaustiveResult) -> str:
    return f"{problem}\nsearch: {found.status} {found.value} {found.best}\nall trees: {true.value} {true.best}"


def _answers(problem: Problem) -> tuple[SearchResult, ExhaustiveResult, str]:
    true = exhaustive(problem.workload, problem.arch, problem.objective, problem.tiles)
    found = search(problem.workload, problem.arch, problem.objective, problem.tiles, time_limit_s=120)
    assert true is not None
    return found, true, _told(problem, found, true)


def _same(found: float | None, true: Fraction) -> bool:
    """Return whether a printed value is the exact one, rounded once."""
    return found is not None and float(found) == float(true)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(_BATCHES))
def test_the_optimum_over_dividing_tiles_is_the_least_of_all_trees(batch: int) -> None:
    for problem in _problems(batch, "divide"):
        found, true, told = _answers(problem)
        assert found.space.legal == true.legal, told
        if true.value is None:
            assert found.status == "INFEASIBLE", told
            continue
        assert found.status == "OPTIMAL", told
        assert _same(found.value, true.value), told
        assert found.best is not None
        check_mapping(problem.workload, problem.arch, found.best)
        assert placement_violations(problem.workload, problem.arch, found.best) == ()


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(4))
def test_with_any_tiles_the_bound_is_below_the_optimum_and_the_value_not(batch: int) -> None:
    for problem in _problems(batch, "any"):
        found, true, told = _answers(problem)
        assert found.space.legal == true.legal, told
        if true.value is None:
            assert found.status in ("INFEASIBLE", "TIMEOUT"), told
            continue
        if found.bound is not None:
            assert float(found.bound) <= float(true.value), told
        if found.value is not None:
            assert float(found.value) >= float(true.value), told
        if found.status == "OPTIMAL":
            assert _same(found.value, true.value), told


@pytest.mark.slow
def test_half_of_the_spaces_are_large_and_every_feature_is_there() -> None:
    problems = [problem for batch in range(_BATCHES) for problem in _problems(batch, "divide")]
    assert len(problems) >= 200
    assert median(problem.legal for problem in problems) > LARGE
    assert max(problem.legal for problem in problems) > 10 * LARGE
    wanted = (
        "window|strided|dilated|depthwise|three|batched|matvec|gemm|energy|latency|edp|traffic"
        "|2 levels|3 levels|4 levels|2 fan-out(s)|two groups|holds/must_hold|mixed fan-out policies"
    )
    for feature in wanted.split("|"):
        assert sum(feature in problem.features for problem in problems) >= 8, feature


@pytest.mark.parametrize("seed", range(5))
def test_the_walk_scores_trees_as_the_simulator_does(seed: int) -> None:
    problem = random_problem(random.Random(seed), most=20_000)
    trees = scored_trees(problem.workload, problem.arch, problem.objective, problem.tiles, every=problem.legal // 3)
    for tree in trees:
        assert tree.steps == count_by_simulation(problem.workload, problem.arch, tree.mapping).steps
