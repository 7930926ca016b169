"""The search finds what walking every legal tree finds: 100 random small problems with dividing tiles, 20 with any.

The problems (tests/referee/problems.py prints how they are distributed) have windows with stride and dilation, groups,
bypass rules, up to four levels and three fan-outs of mixed policies, partial sums to begin with, binding capacities
and all objectives. The first 30 are in `make quick`; `make soak` has 4,000 more. With tiles of any size the search
walks small spaces itself; here it may not, so that its bound has a referee.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import count
from statistics import median

import pytest

from polymap.costmodel.referees.trees import ExhaustiveResult, exhaustive, scored_trees
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.explore import search
from polymap.schedules.check import check_mapping, placement_violations
from polymap.search import provers as run
from polymap.search.options import TUNING
from polymap.search.result import SearchResult
from tests.referee.problems import LARGE, Problem, random_problem
from tests.search_tally import Tally, check
from tests.times import few

_BATCH = 5
_DIVIDE, _ANY = 20, 8  # batches
LONG_WALK = 3  # a seed whose trees take three minutes to walk
_LOOKS = 40  # at its clock, after which a search over tiles of any size ends


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


def _check_divide(problem: Problem) -> None:
    found, true, told = _answers(problem)
    assert found.space.legal == true.legal == problem.legal, told
    if true.value is None:
        assert found.status == "INFEASIBLE", told
        return
    assert found.status == "OPTIMAL", told
    assert _same(found.value, true.value), told
    assert found.best is not None
    check_mapping(problem.workload, problem.arch, found.best)
    assert placement_violations(problem.workload, problem.arch, found.best) == ()


def _check_any(problem: Problem) -> None:
    true = exhaustive(problem.workload, problem.arch, problem.objective, "any")
    assert true is not None
    ticks = count()
    found = search(
        problem.workload, problem.arch, problem.objective, "any", time_limit_s=_LOOKS, clock=lambda: float(next(ticks))
    )
    told = _told(problem, found, true)
    assert found.space.legal in (None, true.legal), told
    assert problem.legal == true.legal, told
    if true.value is None:
        assert found.status in ("INFEASIBLE", "TIMEOUT"), told
        return
    if found.bound is not None:
        assert float(found.bound) <= float(true.value), told
    if found.value is not None:
        assert float(found.value) >= float(true.value), told
    if found.status == "OPTIMAL":
        assert _same(found.value, true.value), told


@pytest.mark.parametrize("batch", few(range(_DIVIDE), 5))
def test_the_optimum_over_dividing_tiles_is_the_least_of_all_trees(batch: int) -> None:
    for problem in _problems(batch, "divide"):
        _check_divide(problem)


@pytest.mark.slow
@pytest.mark.parametrize("batch", few(range(_ANY), 3))
def test_with_any_tiles_the_bound_is_below_the_optimum_and_the_value_not(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "TUNING", replace(TUNING, few_trees=0))
    for problem in _problems(batch, "any"):
        _check_any(problem)


@pytest.mark.slow
@pytest.mark.parametrize("batch", few(range(4), 1))
def test_with_long_numbers_the_optimum_is_the_least_of_all_trees(batch: int) -> None:
    """The first problems of tests/search_tally.py: extents up to a million, all objectives, constraints."""
    tally = Tally()
    seeds = [seed for seed in range(15 * batch, 15 * batch + 15) if seed != LONG_WALK]
    for seed in seeds:
        check(seed, tally)
    assert tally.wrong == []
    assert tally.outcomes["OPTIMAL"] >= 8
    assert tally.features["long"] == sum(seed % 2 for seed in seeds)
    assert tally.features["constraints"] >= 3


@pytest.mark.soak
def test_an_outer_product_under_many_constraints_is_infeasible() -> None:
    tally = Tally()
    check(LONG_WALK, tally)
    assert tally.wrong == []


@pytest.mark.soak
@pytest.mark.parametrize("batch", range(_DIVIDE, _DIVIDE + 600))
def test_more_problems_with_dividing_tiles(batch: int) -> None:
    for problem in _problems(batch, "divide"):
        _check_divide(problem)


@pytest.mark.soak
@pytest.mark.parametrize("batch", range(_ANY, _ANY + 200))
def test_more_problems_with_any_tiles(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "TUNING", replace(TUNING, few_trees=0))
    for problem in _problems(batch, "any"):
        _check_any(problem)


@pytest.mark.slow
def test_half_of_the_spaces_are_large_and_every_feature_is_there() -> None:
    problems = [problem for batch in range(_DIVIDE) for problem in _problems(batch, "divide")]
    problems += [problem for batch in range(_ANY) for problem in _problems(batch, "any")]
    assert median(problem.legal for problem in problems) > LARGE
    assert max(problem.legal for problem in problems) > 9 * LARGE
    wanted = (
        "gemm|matvec|dot|maximum|batched|outer|window|two windows|strided|dilated|strided, dilated|depthwise"
        "|grouped|reversed|three|energy|latency|edp|ed2p|traffic|2 levels|3 levels|4 levels|0 fan-out(s)"
        "|1 fan-out(s)|2 fan-out(s)|3 fan-out(s)|several groups|multicast identical|multicast union|multicast none"
        "|no reduction|fan-out dims|holds|must_hold|leak|buffering 2|shared bandwidth|separate bandwidths"
        "|no overlap|initial|mixed bits|prime extent"
    )
    for feature in wanted.split("|"):
        assert any(feature in problem.features for problem in problems), feature


@pytest.mark.parametrize("seed", range(5))
def test_the_walk_scores_trees_as_the_simulator_does(seed: int) -> None:
    problem = random_problem(random.Random(seed), most=20_000)
    trees = scored_trees(problem.workload, problem.arch, problem.objective, problem.tiles, every=problem.legal // 3)
    for tree in trees:
        assert tree.steps == count_by_simulation(problem.workload, problem.arch, tree.mapping).steps
