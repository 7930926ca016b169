"""Time: CPU time for limits of polymap's own, which a busy machine does not use up; wall time where a user set it."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from math import inf

_ends: ContextVar[float] = ContextVar("_ends", default=inf)  # of time.monotonic


def cpu_seconds() -> float:
    """Return the CPU time of this process and of those that it has waited for: a clock that runs no faster on a busy
    machine."""
    with suppress(ImportError):
        import resource

        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + ended.ru_utime + ended.ru_stime
    return time.process_time()


@contextmanager
def ending_within(wall_s: float | None) -> Generator[None, None, None]:
    """Let every question that is asked inside end `wall_s` seconds from now, whatever its own limit (None: change
    nothing): a limit that a user set is wall time."""
    before = _ends.set(_ends.get() if wall_s is None else min(_ends.get(), time.monotonic() + wall_s))
    try:
        yield
    finally:
        _ends.reset(before)


def wall_left_s() -> float:
    """Return the wall time that is left of the user's limit (`ending_within`)."""
    return _ends.get() - time.monotonic()
