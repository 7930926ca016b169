"""Crews: results in the order of their tasks, whatever happens to the processes, and none of them is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from polymap.ir.errors import OptionError, SolverError
from polymap.search.resources import worker_pool as crew_module
from polymap.search.resources.memory import resident_mb
from polymap.search.resources.worker_pool import Crew, Hands
from tests import crew_work


def never() -> bool:
    return False


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_results_come_in_the_order_of_their_tasks_and_no_process_is_left() -> None:
    hands = Hands(2)
    with Crew(hands, crew_work.bench, (100,), crew_work.add, never) as crew:
        pids = list(hands.pids)
        assert len(pids) == 2
        assert all(lives(pid) for pid in pids)
        assert resident_mb(pids) > resident_mb()
        for task in range(8):
            crew.give(task)
        assert crew.waiting == 8
        found = [crew.take() for _ in range(8)]
    assert [value for value, _ in found] == list(range(100, 108))
    assert {pid for _, pid in found} <= set(pids)
    assert hands.pids == []
    assert not any(lives(pid) for pid in pids)


def test_without_an_interpreter_to_start_the_boss_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "can_start", lambda: False)
    with Crew(Hands(2), crew_work.bench, (5,), crew_work.add, never) as crew:
        crew.give(9)
        assert crew.take() == (14, os.getpid())


def test_the_work_of_processes_that_are_killed_is_done_by_the_boss_at_last() -> None:
    hands = Hands(2)
    with Crew(hands, crew_work.bench, (7,), crew_work.die_unless, never) as crew:
        for _ in range(3):
            crew.give(os.getpid())
        with pytest.warns(RuntimeWarning, match=r"was killed \(signal 9\); the search goes on") as said:
            assert [crew.take() for _ in range(3)] == [7, 7, 7]
    assert str(said[-1].message).endswith("goes on in one process")
    assert hands.pids == []


def test_time_that_is_up_stops_the_work_under_way() -> None:
    begin = time.monotonic()
    with Crew(Hands(1), crew_work.bench, (0,), crew_work.until_stopped, lambda: time.monotonic() > begin) as crew:
        crew.give(0)
        crew.give(1)
        assert crew.take()
        assert crew.take()


@pytest.mark.parametrize(
    ("task", "error", "text"),
    [
        ("option", OptionError, "PM999 a mistake\n      Mend it.\nPM998 another"),
        ("memory", MemoryError, "^$"),
        ("other", SolverError, "PM594 a process of the search failed at crew_work.py:.*: KeyError: 'other'"),
    ],
)
def test_what_a_process_raises_is_raised_by_the_boss(task: str, error: type[Exception], text: str) -> None:
    hands = Hands(1)
    with Crew(hands, crew_work.bench, (0,), crew_work.fail, never) as crew:
        pids = list(hands.pids)
        crew.give(task)
        with pytest.raises(error, match=text):
            crew.take()
    assert not any(lives(pid) for pid in pids)


def test_a_state_that_cannot_be_made_is_an_error() -> None:
    with Crew(Hands(1), crew_work.broken_bench, (), crew_work.add, never) as crew:
        crew.give(0)
        with pytest.raises(SolverError, match="ValueError: no state at all"):
            crew.take()


def test_an_interrupt_leaves_no_process_and_reaches_none_of_them(capfd: pytest.CaptureFixture[str]) -> None:
    hands = Hands(1)
    pids: list[int] = []

    def work() -> None:
        with Crew(hands, crew_work.bench, (0,), crew_work.until_stopped, never) as crew:
            pids.extend(hands.pids)
            crew.give(0)
            os.kill(pids[0], signal.SIGINT)  # as a terminal does, which sends it to the whole group
            os.kill(os.getpid(), signal.SIGINT)
            crew.take()

    with pytest.raises(KeyboardInterrupt):
        work()
    assert not any(lives(pid) for pid in pids)
    assert capfd.readouterr().err == ""


def test_workers_end_with_their_boss() -> None:
    """A boss that is killed closes its ends of the lines: a worker that waits ends, one that works is told to stop."""
    ended: list[Callable[[], str]] = []
    for work in (crew_work.add, crew_work.until_stopped):
        crew = Crew(Hands(1), crew_work.bench, (0,), work, never)
        crew.give(0)
        (worker,) = crew._workers
        worker.line.close()
        ended.append(lambda pid=worker.pid: str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
    assert [one() for one in ended] == ["0", "0"]
