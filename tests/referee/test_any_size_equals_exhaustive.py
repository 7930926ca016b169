"""The first problems of tests/any_size_tally.py: what a search over tiles of any size answers, against all trees."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from polymap.explore import explore
from polymap.inputs.presets import load_arch
from polymap.search.any_size.joint import JointBound
from polymap.search.any_size.sibling_search import SiblingSearch
from polymap.search.problem import problem
from polymap.search.problem.problem import analyse
from polymap.workload.einsums import einsum
from tests import any_size_tally
from tests.any_size_tally import answer_of, check, check_wired, fault_of, question_of
from tests.search_tally import Tally

SAMPLE = 2  # problems per batch


def batches(quick: int, count: int) -> list[Any]:
    """Return the numbers of batches, of which the first ones are tests and the others belong to `make soak`."""
    return [pytest.param(n, marks=pytest.mark.soak if n >= quick else pytest.mark.slow) for n in range(count)]


def tally_of(first: int, count: int) -> Tally:
    tally = Tally()
    for seed in range(first, first + count):
        check(seed, tally)
    return tally


@pytest.mark.parametrize("batch", batches(1, 50))
def test_no_answer_and_no_bound_is_wrong(batch: int) -> None:
    tally = tally_of(batch * SAMPLE, SAMPLE)
    assert tally.wrong == []
    assert tally.problems == SAMPLE
    assert tally.outcomes["structures bounded"] > SAMPLE


@pytest.mark.parametrize("batch", batches(1, 50))
def test_with_wires_no_answer_and_no_bound_is_wrong(batch: int) -> None:
    tally = Tally()
    for seed in range(SAMPLE * batch, SAMPLE * batch + SAMPLE):
        check_wired(seed, tally)
    assert tally.wrong == []
    assert tally.features["wires"] == SAMPLE


@pytest.mark.parametrize("seed", [3, 5, *(pytest.param(n, marks=pytest.mark.soak) for n in range(10, 200))])
def test_nests_of_too_many_tiles_for_tables_are_answered_like_others(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    question, truth = question_of(seed)
    monkeypatch.setattr(problem, "TUNING", replace(problem.TUNING, most_axes=-1))
    assert analyse(question.problem.workload, question.problem.arch).is_too_large
    assert fault_of(question, truth, answer_of(question)) == ""


def test_siblings_bound_a_window_too_long_for_tables() -> None:
    """The arithmetic alone costs 4.6e18 pJ; words move for it, too."""
    size = 2**31 - 1
    workload, arch = einsum("O[p] += I[3*p+r] * W[r]", p=size, r=size), load_arch("simple3")
    for tiles in ("any", "divide"):
        found = explore(workload, arch, tiles=tiles, work_limit=20)
        assert found.bound is not None
        assert found.value is not None
        assert 1.6 * size**2 < found.bound <= found.value


@pytest.mark.parametrize("batch", batches(1, 20))
def test_fronts_of_small_spaces_are_whole(batch: int) -> None:
    """Where the search may walk all trees it finds every point, under constraints too."""
    seed = checked = 0
    while checked < 2:
        seed += 1
        question, truth = question_of(1_000 * batch + seed)
        problem = question.problem
        if not problem.objective.startswith("pareto") or (truth.least is None and checked % 2):
            continue
        checked += 1
        found = explore(problem.workload, problem.arch, problem.objective, constraints=question.demands or None)
        assert found.status == ("INFEASIBLE" if truth.least is None else "OPTIMAL")
        assert fault_of(question, truth, found) == ""


@pytest.mark.slow
def test_a_structure_bounded_too_high_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    true: Any = any_size_tally.refine

    def wrong(*args: Any) -> JointBound:
        found: JointBound = true(*args)
        return JointBound(None if found.bound is None else found.bound * 2 + 1, found.chain)

    monkeypatch.setattr(any_size_tally, "refine", wrong)
    assert any(tally_of(seed, 1).wrong for seed in range(4))


@pytest.mark.slow
def test_a_search_that_bounds_too_high_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    true: Any = SiblingSearch.go_on

    def wrong(*args: Any, **named: Any) -> Fraction | None:
        found: Fraction | None = true(*args, **named)
        return None if found is None else found * 2 + 1

    monkeypatch.setattr(SiblingSearch, "go_on", wrong)
    assert any(tally_of(seed, 1).wrong for seed in range(4))
