"""Time: CPU time for limits of polymap's own, which a busy machine does not use up; wall time where a user set it."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from math import inf

_ends: ContextVar[float] = ContextVar("_ends", default=inf)  # of time.monotonic
_cpu_ends: ContextVar[float] = ContextVar("_cpu_ends", default=inf)  # of `cpu_seconds`


def cpu_seconds() -> float:
    """Return the CPU time of this process and of those that it has waited for: a clock that runs no faster on a busy
    machine."""
    with suppress(ImportError):
        import resource

        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + ended.ru_utime + ended.ru_stime
    return time.process_time()


@contextmanager
def ending_within(wall_s: float | None, cpu_s: float = inf) -> Generator[None, None, None]:
    """Let every question that is asked inside end `wall_s` seconds from now, whatever its own limit (None: change
    nothing): a limit that a user set is wall time. cpu_s: CPU time, after which `is_time_up` says so, too."""
    before = _ends.set(_ends.get() if wall_s is None else min(_ends.get(), time.monotonic() + wall_s))
    of_cpu = _cpu_ends.set(min(_cpu_ends.get(), cpu_seconds() + cpu_s))
    try:
        yield
    finally:
        _ends.reset(before)
        _cpu_ends.reset(of_cpu)


@contextmanager
def with_at_least(cpu_s: float) -> Generator[None, None, None]:
    """Give what is asked inside so much CPU time, whatever is left of that of the question around it."""
    before = _cpu_ends.set(max(_cpu_ends.get(), cpu_seconds() + cpu_s))
    try:
        yield
    finally:
        _cpu_ends.reset(before)


def is_time_up() -> bool:
    """Return whether the wall or CPU time of a question around this one is used up (`ending_within`)."""
    return cpu_seconds() > _cpu_ends.get() or wall_left_s() < 0


def wall_left_s() -> float:
    """Return the wall time that is left of the user's limit (`ending_within`)."""
    return _ends.get() - time.monotonic()
