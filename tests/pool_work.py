"""Work for worker pools, in a module that their processes can import."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from polymap.ir.errors import Mistake, OptionError

Stop = Callable[[], bool]


def bench(base: int, stop: Stop) -> tuple[int, Stop]:
    """Make the state of a worker."""
    return base, stop


def broken_bench(_stop: Stop) -> tuple[int, Stop]:
    """Make no state."""
    raise ValueError("no state\nat all")


def add(state: tuple[int, Stop], task: int) -> tuple[int, int]:
    """Return base + task, and who worked it out; the first tasks take longest."""
    time.sleep(max(0, 5 - task) / 100)
    return state[0] + task, os.getpid()


def until_stopped(state: tuple[int, Stop], _task: int) -> bool:
    """Work until the caller says to stop."""
    while not state[1]():
        time.sleep(0.001)
    return True


def wait_from_the_second_on(state: tuple[int, Stop], task: int) -> bool:
    """Return at once from task 0, from others when the caller says to stop."""
    return task == 0 or until_stopped(state, task)


def fail(_state: object, task: str) -> None:
    """Fail as the task says."""
    if task == "option":
        raise OptionError((Mistake("PM999", "a mistake", "Mend it."), Mistake("PM998", "another")))
    if task == "memory":
        raise MemoryError
    raise KeyError(task)


def die_unless(state: tuple[int, Stop], caller: int) -> int:
    """End the process as the kernel does where memory runs out, unless it is the caller's."""
    if os.getpid() != caller:
        os.kill(os.getpid(), signal.SIGKILL)
    return state[0]
