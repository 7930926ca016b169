"""What refused steps advise: true, with names, and in one kind of index."""

from __future__ import annotations

import pytest

import polymap as pm
from polymap import transform as t
from polymap.transform.advice import parallel_advice
from tests.wild_programs import random_function

FOLDED = """void f(int IN[13], int OUT[2][8]) {
  int T1[11];
  for (int tt = 0; tt < 2; tt++) {
    for (int x = 0; x < 11; x++) T1[x] = IN[x] + IN[x + 2];
    for (int x = 0; x < 8; x++) OUT[tt][x] = T1[x] + T1[x + 3];
  }
}"""


def test_a_circular_buffer_that_keeps_a_loop_in_order_is_named() -> None:
    expanded = t.expand(pm.Schedule.original(pm.from_c(FOLDED)), "T1", loops=["tt"])
    folded = t.contract(expanded, "T1")
    with pytest.raises(pm.errors.ScheduleError, match="loses a value") as refused:
        t.parallelize(folded, "tt")
    advice = str(refused.value).splitlines()[1].strip()
    assert advice == (
        "Legal without the circular buffer of T1: parallelize first, contract then. Loops that can: x, x_2."
    )
    assert t.contract(t.parallelize(expanded, "tt"), "T1").folds  # as advised
    assert t.parallelize(folded, "x_2")


def test_loops_of_one_iteration_a_wavefront_are_not_advised() -> None:
    """Along A[i] = A[i-1] each wavefront of (t, i) has one instance: nothing is gained by running it in parallel."""
    text = "void f(int A[9]) { for (int t = 0; t < 1; t++) for (int i = 1; i < 9; i++) A[i] = A[i - 1] + 1; }"
    schedule = pm.Schedule.original(pm.from_c(text)).normal()
    advice = parallel_advice(schedule, schedule.loop("i"))
    assert "is parallel" not in advice
    assert "Loops that can" not in advice


def test_wavefronts_of_several_iterations_are_advised() -> None:
    loops = "for (int i = 1; i < 9; i++) for (int j = 1; j < 9; j++)"
    text = f"void f(int A[9][9]) {{ {loops} A[i][j] = A[i-1][j] + A[i][j-1]; }}"
    schedule = pm.Schedule.original(pm.from_c(text)).normal()
    assert 'After skew "j" by="i" factor=1' in parallel_advice(schedule, schedule.loop("i"))


def test_messages_tell_how_the_texts_values_follow_from_counters() -> None:
    text = "void f(int A[40], int B[40]) {{ for (int i = {}) A[i] = A[{}] + B[i]; }}"
    for head, other, told in (
        ("10; i < 19; i++", "i - 1", "i = 10 + counter"),
        ("19; i > 10; i--", "i + 1", "i = 19 - counter"),
        ("4; i < 19; i += 2", "i - 2", "i = 4 + 2 * counter"),
    ):
        schedule = pm.Schedule.original(pm.from_c(text.format(head, other)))
        with pytest.raises(pm.errors.ScheduleError, match="PM433 reverse i is illegal") as refused:
            t.reverse(schedule, "i")
        assert f"Schedules and arguments count from 0: {told}." in str(refused.value)
        with pytest.raises(pm.errors.ScheduleError, match="PM432 at=40 leaves a part of S0 empty") as refused:
            t.split_index_set(schedule, "S0", loop="i", at=40)
        assert f"iterations of i are counted from 0 (of the text: {told})." in str(refused.value)


def test_isl_says_where_it_finds_no_order() -> None:
    """A dependence that isl cannot carry is no bug of polymap."""
    workload = pm.from_c(random_function(17).text, {"n": 6})
    with pytest.raises(pm.errors.ScheduleError, match="PM285 isl's scheduler finds no order"):
        t.isl_schedule(workload)
