"""Runs a compiler, a compiled program or an interpreter within limits: the only place that starts such processes.

What a process reads and prints stands in files: no pipe fills up, and nothing waits for a grandchild that holds one
open. It leads a session of its own, so that its children end with it. Its limit is CPU time, which a busy machine
spends no faster than an idle one; the wall time after which it is killed is longer, for one that stands still.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import BinaryIO

from polymap.resources.clocks import wall_left_s
from polymap.resources.tuning import TUNING

_MOST_OF_A_LIMIT = 2**62  # what is more is no limit
_OVER_CPU = 24  # SIGXCPU, which not every system has


def patience_s(cpu_s: float) -> float:
    """Return the wall time after which a process is killed that may take that much CPU time: a machine on which 30
    others want each processor is still waited for."""
    return 60 + 30 * cpu_s


@dataclass(frozen=True, slots=True)
class Caps:
    """What a process may use. cpu_s: seconds of CPU time. patience_s: wall time (None: what suits the CPU time).
    memory_bytes: of addresses (None: any number); file_bytes: of any file that it writes, what it prints among them.

    Where the system knows no limits of running processes (it is not Linux), wall time alone ends them.
    """

    cpu_s: float
    patience_s: float | None = None
    memory_bytes: int | None = None
    file_bytes: int = 2**30

    @property
    def wall_s(self) -> float:
        """Return the wall time after which the process is killed, at the latest where the user's limit ends."""
        return min(patience_s(self.cpu_s) if self.patience_s is None else self.patience_s, wall_left_s())


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended. code: its exit code, less than 0 for a signal, None where it was killed because its time was
    over. printed, complaint: what it wrote on stdout and stderr. seconds: wall time."""

    code: int | None
    printed: bytes
    complaint: bytes
    seconds: float

    @property
    def took_too_long(self) -> bool:
        """Return whether its CPU time or its wall time was over."""
        return self.code is None or self.code == -_OVER_CPU


def run_within(
    caps: Caps,
    command: Sequence[str],
    *,
    given: bytes = b"",
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> Ended:
    """Run a command from a list of words, never through a shell, and return how it ended; nothing of it is left then.

    given: what stands on its stdin. is_over: asked from time to time whether it is killed at once. Raises OSError where
    it does not start.
    """
    begin, wall_s = time.monotonic(), caps.wall_s
    with TemporaryFile() as told, TemporaryFile() as printed, TemporaryFile() as complaint:
        told.write(given)
        told.seek(0)
        process = subprocess.Popen(
            command,
            stdin=told,
            stdout=printed,
            stderr=complaint,
            cwd=folder,
            env=variables,
            start_new_session=True,
        )
        waiter = Thread(target=process.wait, daemon=True)
        try:
            _cap(process.pid, caps)
            waiter.start()
            while waiter.is_alive() and (left := begin + wall_s - time.monotonic()) > 0 and not is_over():
                waiter.join(min(left, TUNING.look_s))
            code = None if waiter.is_alive() else process.returncode
        finally:  # also Ctrl-C leaves no process running
            _end(process, waiter)
        seconds = time.monotonic() - begin
        return Ended(code, _head(printed), _head(complaint, TUNING.most_complaint_bytes), seconds)


def _cap(pid: int, caps: Caps) -> None:
    """Set limits on a running process if the system supports it (Linux)."""
    with suppress(ImportError, AttributeError, ProcessLookupError, PermissionError):  # the last two: it has ended
        import resource

        asked = (
            (resource.RLIMIT_CPU, caps.cpu_s, 2),  # a signal of its own, and 2 s later the end
            (resource.RLIMIT_FSIZE, caps.file_bytes, 0),
            (resource.RLIMIT_AS, caps.memory_bytes, 0),
        )
        for which, most, more in asked:
            if most is not None and most < _MOST_OF_A_LIMIT:
                hard = resource.prlimit(pid, which)[1]
                hard = ceil(most) + more if hard == resource.RLIM_INFINITY else min(hard, ceil(most) + more)
                resource.prlimit(pid, which, (min(ceil(most), hard), hard))


def _end(process: subprocess.Popen[bytes], waiter: Thread) -> None:
    """Kill a process and the children that it left."""
    with suppress(ProcessLookupError, PermissionError):  # none is left
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        if waiter.ident is None:
            process.wait(TUNING.killed_s)
        else:
            waiter.join(TUNING.killed_s)


def _head(file: BinaryIO, most: int = -1) -> bytes:
    file.seek(0)
    return file.read(most)
