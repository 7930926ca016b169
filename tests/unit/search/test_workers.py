"""Searches in several processes: the same value for any number of them, the same mapping however fast they are."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from multiprocessing import active_children

import pytest

from polymap import conv2d, evaluate, explore, matmul
from polymap.explore import search
from polymap.ir.loopnest import Workload
from polymap.resources import worker_pool
from polymap.search import dividing
from polymap.search.dividing import engine
from polymap.search.dividing.tuning import TUNING
from polymap.search.result import Progress, SearchResult
from tests.unit.search.machines import two_levels
from tests.unit.search.ticks import Ticks

GEMM = matmul(m=16, n=24, k=8)
LAYER = conv2d(K=4, C=4, H=6, W=6, R=3, S=1, padding=0)
TWO = two_levels(512)
CASES = [
    (GEMM, "energy"),
    (LAYER, "energy"),
    (GEMM, "edp"),
    (GEMM, "ed2p"),
    (GEMM, "lex:latency,energy"),
    (GEMM, "pareto:energy,latency"),
]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let several processes take part from the first step on, and that step come soon, of products, too."""
    monkeypatch.setattr(dividing, "best_product_tiles", lambda *_: None)
    monkeypatch.setattr(engine, "TUNING", replace(TUNING, steps_alone=0, drawn=50))


def told(found: SearchResult) -> object:
    """Return what does not depend on time."""
    return found.status, found.best, found.values, found.bounds, [(p.best, p.status) for p in found.front], found.space


@pytest.mark.parametrize(("workload", "objective"), CASES, ids=("gemm", "layer", "edp", "ed2p", "lex", "front"))
def test_the_values_do_not_depend_on_the_number_of_workers(
    workload: Workload, objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = explore(workload, TWO, objective, tiles="divide")
    monkeypatch.setattr(worker_pool, "can_start", lambda: False)  # the same order of work, without its processes
    found = explore(workload, TWO, objective, tiles="divide", workers=2)
    assert found.status == alone.status == "OPTIMAL"
    assert (found.value, found.values, found.bounds) == (alone.value, alone.values, alone.bounds)
    assert [point.values for point in found.front] == [point.values for point in alone.front]


@pytest.mark.slow
def test_the_answer_does_not_depend_on_which_process_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    here: list[Progress] = []
    there: list[Progress] = []
    apart = explore(GEMM, TWO, tiles="divide", workers=2, on_progress=there.append)
    monkeypatch.setattr(worker_pool, "can_start", lambda: False)
    alone = explore(GEMM, TWO, tiles="divide", workers=2, on_progress=here.append)
    assert told(apart) == told(alone)
    assert [(p.best, p.bound) for p in there] == [(p.best, p.bound) for p in here]
    assert len(here) > 3


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["energy", "pareto:energy,latency"])
def test_a_limit_leaves_a_valid_bound_and_work_to_go_on_with(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = explore(GEMM, TWO, objective, tiles="divide")
    monkeypatch.setattr(worker_pool, "can_start", lambda: False)
    clock = Ticks()
    search(GEMM, TWO, objective, "divide", time_limit_s=10**9, workers=2, clock=clock)
    ended = (
        search(GEMM, TWO, objective, "divide", time_limit_s=most, workers=2, clock=Ticks())
        for most in range(clock.now * 3 // 4, 1, -1)
    )
    answers = [next(found for found in ended if found.status == "FEASIBLE")]
    while answers[-1].status == "FEASIBLE" and len(answers) < 9:
        answers.append(answers[-1].resume(clock.now))
    assert answers[-1].status == "OPTIMAL"
    assert (answers[-1].value, answers[-1].values) == (whole.value, whole.values)
    for one, after in pairwise(answers):
        assert (one.bound or 0) <= (after.bound or 0)
        assert (one.bound or 0) <= (whole.value or 0) <= (one.value or 0)


Started = Callable[[], list[int]]


@pytest.fixture
def started() -> Started:
    """Return what lists the workers that live."""
    return lambda: [one.pid for one in active_children() if one.pid is not None]


@pytest.mark.slow
def test_a_killed_process_changes_nothing_but_time(started: Started) -> None:
    shot: list[int] = []

    def shoot(_progress: Progress) -> None:
        if not shot:
            shot.extend(started())
            for pid in shot[:1]:
                os.kill(pid, signal.SIGKILL)

    truth = explore(GEMM, TWO, tiles="divide")
    with pytest.warns(RuntimeWarning, match="a process of the search was killed"):
        found = explore(GEMM, TWO, tiles="divide", workers=2, on_progress=shoot)
    assert (found.status, found.value) == (truth.status, truth.value)
    assert found.best is not None
    assert evaluate(GEMM, TWO, found.best) == found.cost
    assert started() == []


def test_an_error_of_the_callback_ends_all_processes(started: Started) -> None:
    seen: list[int] = []

    def fail(_progress: Progress) -> None:
        seen.extend(started())
        if seen:
            raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        explore(GEMM, TWO, tiles="divide", workers=2, on_progress=fail)
    assert len(seen) == 2
    assert started() == []


def test_short_searches_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "TUNING", replace(TUNING, drawn=50))
    monkeypatch.setattr(worker_pool._Worker, "start", lambda _self: pytest.fail("started a process"))
    assert explore(GEMM, TWO, tiles="divide", workers=2).status == "OPTIMAL"
