"""Worker pools: results in the order of their tasks, whatever happens to the processes, and none of them is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polymap.ir.errors import OptionError, SolverError
from polymap.resources import worker_pool as pool_module
from polymap.resources.limits import Processes
from polymap.resources.memory import resident_mb
from polymap.resources.worker_pool import WorkerPool
from tests import pool_work


def never() -> bool:
    return False


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_results_come_in_the_order_of_their_tasks_and_no_process_is_left() -> None:
    processes = Processes(2)
    with WorkerPool(processes, pool_work.bench, (100,), pool_work.add, never) as pool:
        for task in range(8):
            pool.submit(task)
        pids = list(processes.pids)
        assert len(pids) == 2
        assert all(lives(pid) for pid in pids)
        assert resident_mb(pids) > resident_mb()
        assert pool.waiting == 8
        found = [pool.next_result() for _ in range(8)]
    assert [value for value, _ in found] == list(range(100, 108))
    assert {pid for _, pid in found} <= set(pids)
    assert processes.pids == []
    assert not any(lives(pid) for pid in pids)


def test_without_an_interpreter_to_start_the_caller_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "can_start", lambda: False)
    with WorkerPool(Processes(2), pool_work.bench, (5,), pool_work.add, never) as pool:
        pool.submit(9)
        assert pool.next_result() == (14, os.getpid())


def test_the_work_of_processes_that_are_killed_is_done_by_the_caller_at_last() -> None:
    processes = Processes(2)
    with WorkerPool(processes, pool_work.bench, (7,), pool_work.die_unless, never) as pool:
        for _ in range(3):
            pool.submit(os.getpid())
        with pytest.warns(RuntimeWarning, match=r"was killed \(signal 9\); the search goes on") as said:
            assert [pool.next_result() for _ in range(3)] == [7, 7, 7]
    assert str(said[-1].message).endswith("goes on in one process")
    assert processes.pids == []


def test_time_that_is_up_stops_the_work_under_way() -> None:
    begin = time.monotonic()
    with WorkerPool(
        Processes(1), pool_work.bench, (0,), pool_work.until_stopped, lambda: time.monotonic() > begin
    ) as pool:
        pool.submit(0)
        pool.submit(1)
        assert pool.next_result()
        assert pool.next_result()


@pytest.mark.parametrize(
    ("task", "error", "text"),
    [
        ("option", OptionError, "PM999 a mistake\n      Mend it.\nPM998 another"),
        ("memory", MemoryError, "^$"),
        ("other", SolverError, "PM594 a process of the search failed at pool_work.py:.*: KeyError: 'other'"),
    ],
)
def test_what_a_process_raises_is_raised_by_the_caller(task: str, error: type[Exception], text: str) -> None:
    processes = Processes(1)
    with WorkerPool(processes, pool_work.bench, (0,), pool_work.fail, never) as pool:
        pool.submit(task)
        pids = list(processes.pids)
        with pytest.raises(error, match=text):
            pool.next_result()
    assert not any(lives(pid) for pid in pids)


def test_a_state_that_cannot_be_made_is_an_error() -> None:
    with WorkerPool(Processes(1), pool_work.broken_bench, (), pool_work.add, never) as pool:
        pool.submit(0)
        with pytest.raises(SolverError, match="ValueError: no state at all"):
            pool.next_result()


def test_an_interrupt_leaves_no_process_and_reaches_none_of_them(capfd: pytest.CaptureFixture[str]) -> None:
    processes = Processes(1)
    pids: list[int] = []

    def work() -> None:
        with WorkerPool(processes, pool_work.bench, (0,), pool_work.wait_from_the_second_on, never) as pool:
            pool.submit(0)
            pool.submit(1)
            pids.extend(processes.pids)
            pool.next_result()
            os.kill(pids[0], signal.SIGINT)  # as a terminal does, which sends it to the whole group
            os.kill(os.getpid(), signal.SIGINT)
            pool.next_result()

    with pytest.raises(KeyboardInterrupt):
        work()
    assert len(pids) == 1
    assert not any(lives(pid) for pid in pids)
    assert capfd.readouterr().err == ""


CALLER = """
from pathlib import Path
from tests import pool_work
from polymap.resources.limits import Processes
from polymap.resources.worker_pool import WorkerPool

processes = Processes(2)
with WorkerPool(processes, pool_work.bench, (0,), pool_work.{work}, lambda: False) as pool:
    pool.submit(9)
    pool.submit(9)
    print(*processes.pids, flush=True)
    pool.next_result()
    Path("/dev/stdin").read_text()
"""


@pytest.mark.parametrize("work", ["add", "until_stopped"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_idle_or_busy_end_with_a_caller_that_is_killed(work: str, how: signal.Signals, tmp_path: Path) -> None:
    """The caller is a script with no guard around its own statements: its workers do not import it."""
    script = tmp_path / "caller.py"
    script.write_text(CALLER.format(work=work), encoding="utf-8")
    caller = subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    with caller:
        assert caller.stdout is not None
        pids = [int(pid) for pid in caller.stdout.readline().split()]
        assert len(pids) == 2
        time.sleep(0.2)
        caller.send_signal(how)
    begin = time.monotonic()
    while any(lives(pid) for pid in pids) and time.monotonic() < begin + 10:
        time.sleep(0.01)
    assert not any(lives(pid) for pid in pids)
