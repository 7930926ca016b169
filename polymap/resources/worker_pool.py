"""Processes that share the work of one search: a `ProcessPoolExecutor` whose results come in the order of their tasks.

Workers are forked from Python's fork server, which knows no more than the standard library: no lock or thread of the
caller is copied, and no socket that would keep something of his open. The executor is given a context of its own
(`_Workers`) for two reasons: a worker must not import the caller's main module, which need not be guarded by
`if __name__ == "__main__"`; and the search must know its workers, to count their memory and to end them at once.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, TimeoutError as NotYet
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, Pipe
from multiprocessing.context import ForkServerContext, ForkServerProcess
from types import ModuleType
from typing import Any, Generic, TypeVar, cast

from polymap.ir import Mistake, PolymapError, SolverError
from polymap.resources.limits import Processes, Stop
from polymap.resources.tuning import TUNING

State = TypeVar("State")
Task = TypeVar("Task")
Result = TypeVar("Result")


class WorkerPool(Generic[State, Task, Result]):
    """Processes that each do work(state, task), the state being make(*args, stop) of their own; `stop` tells that the
    search ends.

    Use it as a context: its processes are gone when the block ends, however it ends. A task gives the same result
    wherever it is done: where a process dies, the others do its work, and at last the caller's own.
    """

    def __init__(
        self,
        processes: Processes,
        make: Callable[..., State],
        args: tuple[object, ...],
        work: Callable[[State, Task], Result],
        out_of_time: Stop,
    ) -> None:
        self._processes, self._make, self._args, self._work = processes, make, args, work
        self._out_of_time = out_of_time
        self._own: State | None = None
        self._pending: deque[tuple[Task, Future[Result] | None]] = deque()
        self._heard, self._told = Pipe(duplex=False)  # workers are told to stop when our end is closed
        self._count = processes.count if can_start() else 0
        self._workers, self._executor = self._started()

    def __enter__(self) -> WorkerPool[State, Task, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def waiting(self) -> int:
        """Return the number of tasks whose results were not taken."""
        return len(self._pending)

    def submit(self, task: Task) -> None:
        """Add a task."""
        self._pending.append((task, self._future(task)))

    def next_result(self) -> Result:
        """Return the result of the oldest task. Where time is up, all workers are told to stop. Raises what the work
        raises: a PolymapError or MemoryError as it is, anything else as a SolverError (PM594)."""
        while True:
            task, future = self._pending[0]
            if future is None:
                self._pending.popleft()
                return self._work(self._mine(), task)
            if self._out_of_time():
                self._told.close()
            try:
                found = future.result(TUNING.stop_look_s)
            except NotYet:
                continue
            except BrokenProcessPool:
                self._go_on_with_fewer()
                continue
            self._pending.popleft()
            return found

    def close(self) -> None:
        """End all workers at once; they hold nothing that is needed."""
        self._end_workers()
        self._told.close()
        self._heard.close()

    def _started(self) -> tuple[_Workers, ProcessPoolExecutor | None]:
        workers = _Workers()
        if not self._count:
            return workers, None
        asked = pickle.dumps((self._make, self._args, self._work))
        return workers, ProcessPoolExecutor(self._count, workers, _begin, (asked, self._heard))

    def _future(self, task: Task) -> Future[Result] | None:
        if self._executor is None:
            return None
        try:
            future = self._executor.submit(_done, task)
        except BrokenProcessPool as error:
            future = Future[Any]()
            future.set_exception(error)
        self._processes.pids[:] = self._workers.pids()
        return cast("Future[Result]", future)

    def _go_on_with_fewer(self) -> None:
        """Replace a pool that has lost a process by a smaller one, which begins all open tasks again."""
        self._end_workers()
        self._count -= 1
        left = f"with {self._count} others" if self._count else "in one process"
        how = self._workers.how_one_ended()
        warnings.warn(f"a process of the search {how}; the search goes on {left}", RuntimeWarning, stacklevel=3)
        self._workers, self._executor = self._started()
        self._pending = deque((task, self._again(task, future)) for task, future in self._pending)

    def _again(self, task: Task, future: Future[Result] | None) -> Future[Result] | None:
        is_known = future is not None and future.done() and not isinstance(future.exception(), BrokenProcessPool)
        return future if is_known else self._future(task)

    def _end_workers(self) -> None:
        self._workers.kill()
        if self._executor is not None:
            self._executor.shutdown()
        self._processes.pids.clear()

    def _mine(self) -> State:
        if self._own is None:
            self._own = self._make(*self._args, self._out_of_time)
        return self._own


def can_start() -> bool:
    """Return whether this system can start workers."""
    return bool(sys.executable) and "forkserver" in multiprocessing.get_all_start_methods()


class _Worker(ForkServerProcess):
    """A process that is started without the caller's main module."""

    def start(self) -> None:
        main = sys.modules["__main__"]
        # What is started imports the main module by the name or file that this module has: an empty one has neither.
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = main
        self._ask_one_at_a_time()

    def _ask_one_at_a_time(self) -> None:
        """Let one thread at a time ask how the process ended: the fork server tells it once, and a thread that asks
        meanwhile is told code 255 (CPython 3.11, multiprocessing/popen_forkserver.py)."""
        started, lock = cast("Any", self)._popen, threading.Lock()
        poll = started.poll

        def poll_alone(flag: int = os.WNOHANG) -> int | None:
            with lock:
                return poll(flag)

        started.poll = poll_alone


class _Workers(ForkServerContext):
    """The fork server's context, which keeps the processes that are started in it."""

    def __init__(self) -> None:
        super().__init__()
        self._started: list[_Worker] = []

    # A function, where the base class has a class: each call is kept. The name is the one that the executor asks for.
    def Process(self, *args: Any, **options: Any) -> _Worker:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return a new worker, not started yet."""
        self._started.append(_Worker(*args, **options))
        return self._started[-1]

    def pids(self) -> list[int]:
        """Return the numbers of the processes that were started."""
        return [one.pid for one in self._begun() if one.pid]

    def kill(self) -> None:
        """End all processes at once."""
        for one in self._begun():
            one.kill()
            one.join(TUNING.killed_s)

    def how_one_ended(self) -> str:
        """Return how the first process that ended by itself did so, after all are gone."""
        codes = (one.exitcode for one in self._begun())
        # The executor ends the others (SIGTERM) as soon as one is gone.
        code = next((code for code in codes if code and code != -signal.SIGTERM), None)
        if code is None:
            return "ended"
        return f"was killed (signal {-code})" if code < 0 else f"ended with code {code}"

    def _begun(self) -> list[_Worker]:
        return [one for one in self._started if one.ident is not None]


@dataclass(slots=True)
class _Job:
    """What a worker process does all its life. state: made with the first task, so that its errors are the task's."""

    make: Callable[[Stop], object]
    work: Callable[[Any, Any], Any]
    stop: Stop
    state: object = None


_jobs: list[_Job] = []  # of a worker process: its only one


def _begin(asked: bytes, line: Connection) -> None:
    """Prepare a worker process: it leaves Ctrl-C to the caller, and ends with him."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    make, args, work = pickle.loads(asked)  # written by the process that started this one
    _jobs.append(_Job(partial(make, *args), work, _Told(line)))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()  # without a limit: this thread lives as long as both, and ends with this process
        os._exit(0)


def _done(task: object) -> object:
    """Return what the work of this process makes of the task."""
    job = _jobs[0]
    try:
        if job.state is None:
            job.state = job.make(job.stop)
        return job.work(job.state, task)
    except (PolymapError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  # whatever it is, the caller raises it
        raise SolverError(_mistake(error)) from None


def _mistake(error: Exception) -> Mistake:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return Mistake("PM594", f"a process of the search failed at {place}: {what}")


class _Told:
    """Whether the caller has said to stop, by closing his end of the line, or is gone."""

    def __init__(self, line: Connection) -> None:
        self._line = line
        self._looked = 0.0
        self._told = False

    def __call__(self) -> bool:
        now = time.monotonic()
        if not self._told and now > self._looked + TUNING.stop_look_s:
            self._looked = now
            self._told = self._line.poll()
        return self._told
