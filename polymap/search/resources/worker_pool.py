"""Processes that share the work of one search: the boss hands out tasks and takes the results in their order.

A worker is a fresh interpreter that holds one end of a socket pair as its standard input: it knows nothing of the
caller's main module, dies with the boss (its socket ends), ignores Ctrl-C and SIGTERM (the boss stops it), and a task
gives the same result wherever it runs. The work of one that is killed goes to the others, at last to the boss.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import Generic, TypeVar, cast

from polymap.ir import Mistake, PolymapError, SolverError

Stop = Callable[[], bool]
State = TypeVar("State")
Task = TypeVar("Task")
Result = TypeVar("Result")
LOOK_S = 0.02  # between two looks for a word of the boss, or at the boss's clock
_CODE = "import sys; sys.path[:] = {}; from polymap.search.resources.worker_pool import serve; serve()"


@dataclass(slots=True)
class Hands:
    """How many processes may search, and those (process numbers) that do besides this one."""

    count: int = 1
    pids: list[int] = field(default_factory=list[int])


@dataclass(frozen=True, slots=True)
class _Failed:
    """What a worker answers instead of a result: the mistakes of a PolymapError with its class, or a text."""

    kind: type[PolymapError] | None
    mistakes: tuple[Mistake, ...]

    def raised(self) -> Exception:
        if self.kind is not None:
            return self.kind(self.mistakes)
        return MemoryError() if self.mistakes == () else SolverError(self.mistakes)


@dataclass(slots=True)
class _Worker:
    pid: int
    line: Connection
    task: int | None = None


class Crew(Generic[State, Task, Result]):
    """Worker processes that each do work(state, task), the state being make(*args, stop) of their own; `stop` tells
    that the search ends.

    Results come in the order of their tasks, whoever is done first. Use a crew as a context: its processes are gone
    when the block ends, however it ends.
    """

    def __init__(
        self,
        hands: Hands,
        make: Callable[..., State],
        args: tuple[object, ...],
        work: Callable[[State, Task], Result],
        out_of_time: Stop,
    ) -> None:
        self._hands, self._make, self._args, self._work, self._out_of_time = hands, make, args, work, out_of_time
        self._own: State | None = None
        self._stopped = False
        self._tasks: dict[int, Task] = {}  # those whose results are wanted, by number
        self._todo: deque[int] = deque()
        self._done: dict[int, Result] = {}
        self._count = 0
        self._workers: list[_Worker] = []
        try:
            for _ in range(hands.count if can_start() else 0):
                self._workers.append(_started())
                hands.pids.append(self._workers[-1].pid)
            for one in self._workers:
                self._say(one, (make, args, work))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Crew[State, Task, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def waiting(self) -> int:
        """Return the number of tasks whose results were not taken."""
        return len(self._tasks)

    def give(self, task: Task) -> None:
        """Add a task."""
        self._tasks[self._count] = task
        self._todo.append(self._count)
        self._count += 1
        self._share_out()

    def take(self) -> Result:
        """Return the result of the oldest task. Where time is up, all that work are told to stop. Raises what the work
        raises."""
        number = next(iter(self._tasks))
        while number not in self._done:
            self._share_out()
            if not self._workers:
                self._todo.remove(number)
                self._done[number] = self._work(self._mine(), self._tasks[number])
            for line in wait([one.line for one in self._workers], LOOK_S):
                self._hear(next(one for one in self._workers if one.line is line))
            self._look()
        del self._tasks[number]
        return self._done.pop(number)

    def close(self) -> None:
        """End all workers at once; they hold nothing that is wanted."""
        while self._workers:
            self._bury(self._workers[-1])

    def _share_out(self) -> None:
        for one in self._workers:
            if one.task is None and self._todo:
                one.task = self._todo.popleft()
                self._say(one, (one.task, self._tasks[one.task]))

    def _say(self, one: _Worker, word: object) -> None:
        with suppress(OSError):  # it is found dead when it is heard
            one.line.send(word)

    def _hear(self, one: _Worker) -> None:
        """Take what a worker says; where it has died, its task goes back."""
        try:
            said = cast("tuple[int, Result] | _Failed", one.line.recv())
        except (EOFError, OSError):
            if one.task is not None:
                self._todo.appendleft(one.task)
            how = self._bury(one)
            left = f"with {len(self._workers)} others" if self._workers else "in one process"
            warnings.warn(f"a process of the search {how}; the search goes on {left}", RuntimeWarning, stacklevel=2)
            return
        if isinstance(said, _Failed):
            raise said.raised()
        one.task = None
        self._done[said[0]] = said[1]

    def _bury(self, one: _Worker) -> str:
        """End a worker, and return how it ended."""
        self._workers.remove(one)
        one.line.close()
        self._hands.pids.remove(one.pid)
        return _ended(one.pid)

    def _mine(self) -> State:
        if self._own is None:
            self._own = self._make(*self._args, self._out_of_time)
        return self._own

    def _look(self) -> None:
        """Tell the workers, once, where time is up."""
        if not self._stopped and self._out_of_time():
            self._stopped = True
            for one in self._workers:
                self._say(one, None)


def can_start() -> bool:
    """Return whether there is an interpreter to start."""
    return bool(sys.executable) and hasattr(os, "posix_spawn")


def _started() -> _Worker:
    mine, its = Pipe()
    with its:
        try:
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-c", _CODE.format(repr(sys.path))],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, its.fileno(), 0)],
                setsigmask=[signal.SIGINT, signal.SIGTERM],
            )
        except BaseException:
            mine.close()
            raise
    return _Worker(pid, mine)


def _ended(pid: int) -> str:
    """Kill a worker if it lives, and return how it ended."""
    try:
        os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except OSError:  # a caller that ignores SIGCHLD has it buried already
        return "ended"
    return f"was killed (signal {-code})" if code < 0 else f"ended with code {code}"


def serve() -> None:
    """Work until the boss is gone: the life of a worker."""
    line = Connection(os.dup(0))
    stop = _Word(line)
    with suppress(EOFError, OSError):
        try:
            make, args, work = line.recv()
            state = make(*args, stop)
            while True:
                said = line.recv()
                if said is None:
                    stop.said = True
                else:
                    number, task = said
                    line.send((number, work(state, task)))
        except PolymapError as error:
            line.send(_Failed(type(error), error.mistakes))
        except MemoryError:
            line.send(_Failed(None, ()))
        except (EOFError, OSError):
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, the boss raises it
            line.send(_Failed(None, (_problem(error),)))


def _problem(error: Exception) -> Mistake:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return Mistake("PM594", f"a process of the search failed at {place}: {what}")


class _Word:
    """Whether the boss has said to stop, or is gone."""

    def __init__(self, line: Connection) -> None:
        self._line = line
        self._looked = 0.0
        self.said = False

    def __call__(self) -> bool:
        now = time.monotonic()
        if not self.said and now > self._looked + LOOK_S:
            self._looked = now
            # While a task runs, nothing else is sent.
            self.said = self._line.poll()
        return self.said
