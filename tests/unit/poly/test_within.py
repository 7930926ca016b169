"""Questions that may take long: asked here with a small budget, then in a process that is ended when time is over."""

from __future__ import annotations

import os
import sys
import time

import pytest

from polymap.ir.errors import BudgetError, SolverError, WorkloadError
from polymap.ir.quasi_affine import dim
from polymap.poly import deadlines as module
from polymap.poly.budgets import budget, check_clock, is_exhausted
from polymap.poly.deadlines import Effort, at_first, in_a_process, within, within_work
from polymap.poly.tables import Table
from polymap.resources.clocks import ending_within
from polymap.workload.dependence_analysis import dependence_relations, dependences
from polymap.workload.einsums import einsum
from tests.nests import NESTS

SIDE = 60


def box_tally(side: int) -> int:
    """Return the number of points of a triangle, counted with isl."""
    with budget():
        return Table.box([("i", side), ("j", side)], [dim("i") - dim("j")]).count()


def test_what_is_answered_at_once_is_answered_here() -> None:
    assert within(10, "the triangle", os.getpid) == os.getpid()
    assert within(10, "the triangle", box_tally, SIDE) == SIDE * (SIDE + 1) // 2


def test_a_process_answers_what_the_first_budget_does_not_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    nest = NESTS["floyd-warshall"][0]
    assert in_a_process(60, "a process", os.getpid) != os.getpid()
    truth = dependences(nest)
    monkeypatch.setattr(module, "TUNING", module.TUNING._replace(first_operations=1))
    dependence_relations.cache_clear()
    with pytest.raises(BudgetError, match="PM510 dependence analysis needs more than 1 operations") as raised:
        at_first(10, "a nest", dependences, nest)
    assert is_exhausted(raised.value)
    assert within(60, "a nest", dependences, nest) == truth


def test_a_process_is_ended_when_a_users_time_is_over() -> None:
    with pytest.raises(BudgetError, match=r"PM510 a nap takes more than 60 s") as raised, ending_within(0.5):
        in_a_process(60, "a nap", time.sleep, 3600)
    assert is_exhausted(raised.value)


@pytest.mark.parametrize("size", [1, 2**16, 100_000, 3_000_000])
def test_questions_and_answers_of_any_length_are_delivered(size: int) -> None:
    text = "ä" * size
    assert in_a_process(60, "a text", str.upper, text) == "Ä" * size


def complain(size: int, code: int) -> None:
    """Write a lot on stderr, and end."""
    sys.stderr.write("x" * size + "\nno luck é\n")
    sys.stderr.flush()
    os._exit(code)


def test_what_a_process_complains_of_is_told() -> None:
    with pytest.raises(SolverError, match="PM517 the process that was asked for the end ended with code 4: no luck"):
        in_a_process(60, "the end", complain, 200_000, 4)


def test_no_process_is_started_when_time_is_over_before() -> None:
    with pytest.raises(BudgetError, match="PM510 a nap takes more than 0 s"):
        in_a_process(-1.0, "a nap", time.sleep, 3600)


def test_mistakes_cross_from_the_process() -> None:
    with pytest.raises(WorkloadError) as here:
        einsum("C[i] += A[i")
    with pytest.raises(WorkloadError) as there:
        in_a_process(60, "an einsum", einsum, "C[i] += A[i")
    assert there.value.mistakes == here.value.mistakes


def test_a_process_that_dies_is_told() -> None:
    with pytest.raises(SolverError, match="PM517 the process that was asked for the end ended with code 3"):
        in_a_process(60, "the end", os._exit, 3)  # pyright: ignore[reportPrivateUsage]


def test_the_clock_is_looked_at_between_calls() -> None:
    with pytest.raises(BudgetError, match="PM510 the tally takes more than 0 s"), budget(seconds=0, what="the tally"):
        check_clock()
    with pytest.raises(BudgetError, match="PM510"), budget(seconds=0):
        box_tally(SIDE)  # the outermost budget decides
    check_clock()
    assert box_tally(SIDE) == SIDE * (SIDE + 1) // 2


def spin() -> None:
    """Use isl a little, then compute for ever."""
    box_tally(SIDE)
    while True:
        pass


@pytest.mark.slow
def test_work_is_limited_by_operations_and_by_cpu_time() -> None:
    truth = SIDE * (SIDE + 1) // 2
    assert within_work(Effort(1_000_000, 60), "the triangle", box_tally, SIDE) == truth
    assert within_work(Effort(1_000_000, 60, first=1), "the triangle", box_tally, SIDE) == truth
    with pytest.raises(BudgetError, match="PM510 .* needs more than 1 operations") as raised:
        within_work(Effort(1, 60), "the triangle", box_tally, SIDE)
    assert is_exhausted(raised.value)
    with pytest.raises(BudgetError, match="PM510 a loop takes more than 0 s"):
        within_work(Effort(1_000_000, 0, first=1), "a loop", spin)


def test_a_process_ends_with_the_search_that_waits_for_it() -> None:
    asked: list[float] = []

    def is_over() -> bool:
        asked.append(time.monotonic())
        return len(asked) > 2

    with pytest.raises(BudgetError, match="PM510 a loop takes"):
        within_work(Effort(1_000_000, 600, is_over=is_over, first=1), "a loop", spin)
    assert len(asked) == 3
