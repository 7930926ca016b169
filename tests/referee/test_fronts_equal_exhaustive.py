"""Fronts, orders and weighted sums are what walking every legal tree finds: 200 random small problems.

The walk (polymap/costmodel/referees/trees.py) reads the objectives itself and shares no code with the search.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from polymap.costmodel.referees.trees import exhaustive
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.explore import search
from polymap.schedules.check import check_mapping, placement_violations
from polymap.search import provers
from polymap.search.result import SearchResult
from tests.referee.problems import Problem, joined_objective, random_problem
from tests.times import few

_BATCHES, _BATCH = 20, 10


def _problems(batch: int) -> list[Problem]:
    rng = random.Random(f"joined {batch}")
    problems = (random_problem(rng, most=60_000, tiles="divide") for _ in range(_BATCH))
    return [replace(problem, objective=joined_objective(rng, problem.arch)) for problem in problems]


def _values(found: SearchResult) -> tuple[float, ...]:
    """Return the values of an answer, one per part of its objective."""
    return tuple(float(value) for _, value in found.values) or (float(found.value or 0),)


def _floats(exact: tuple[Fraction, ...]) -> tuple[float, ...]:
    return tuple(float(value) for value in exact)


@pytest.mark.slow
@pytest.mark.parametrize("batch", few(range(_BATCHES), 2))
def test_several_objectives_have_the_optima_of_all_trees(batch: int) -> None:
    for problem in _problems(batch):
        true = exhaustive(problem.workload, problem.arch, problem.objective, "divide")
        found = search(problem.workload, problem.arch, problem.objective, "divide", time_limit_s=120)
        assert true is not None
        told = f"{problem}\nsearch: {found.status} {_values(found)} {[_values(p) for p in found.front]}\nall: {true}"
        if true.value is None:
            assert found.status == "INFEASIBLE", told
            continue
        assert found.status == "OPTIMAL", told
        assert _values(found) == _floats(true.values), told
        assert [_values(point) for point in found.front] == [_floats(values) for values in true.front], told
        for point in found.front or (found,):
            assert point.status == "OPTIMAL", told
            assert point.bound == point.value, told
            assert point.best is not None
            assert point.cost is not None
            check_mapping(problem.workload, problem.arch, point.best)
            assert placement_violations(problem.workload, problem.arch, point.best) == ()
            assert point.cost.traffic == count_by_simulation(problem.workload, problem.arch, point.best).traffic


@pytest.mark.slow
@pytest.mark.parametrize("batch", few(range(0, _BATCHES, 4), 1))
def test_the_same_part_by_part(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provers, "TUNING", replace(provers.TUNING, joint_share=-1.0))
    proven = 0
    for problem in _problems(batch):
        if problem.objective.startswith("weighted"):
            continue
        true = exhaustive(problem.workload, problem.arch, problem.objective, "divide")
        found = search(problem.workload, problem.arch, problem.objective, "divide", time_limit_s=60)
        assert true is not None
        told = f"{problem}\nsearch: {found.status} {_values(found)} {[_values(p) for p in found.front]}\nall: {true}"
        if true.value is None:
            assert found.status in ("INFEASIBLE", "TIMEOUT"), told
            continue
        proven += found.status == "OPTIMAL"
        assert found.status == "OPTIMAL" or not problem.objective.startswith("lex"), told
        assert found.bound is not None, told
        assert found.bound <= float(true.value), told
        if found.status == "OPTIMAL":
            assert _values(found) == _floats(true.values), told
            assert [_values(point) for point in found.front] == [_floats(values) for values in true.front], told
    assert proven


@pytest.mark.slow
def test_fronts_have_several_points_and_every_kind_of_objective_is_there() -> None:
    problems = [problem for batch in range(_BATCHES // 2) for problem in _problems(batch)]
    for word in ("pareto:", "lex:", "weighted:", "capacity:", "energy", "latency", "edp", "ed2p", "traffic:"):
        assert sum(word in problem.objective for problem in problems) >= 10, word
    several = most = 0
    for problem in problems:
        if problem.objective.startswith("pareto:") and (several < 10 or most < 7):
            points = len(search(problem.workload, problem.arch, problem.objective, "divide").front)
            several, most = several + (points >= 2), max(most, points)
    assert several >= 10
    assert most >= 7
