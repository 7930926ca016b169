"""How much memory a search takes: what its processes hold, without what was left before it."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress
from copy import copy

from polymap.resources.tuning import TUNING


def resident_mb(pids: Sequence[int] = ()) -> float:
    """Return the resident memory of this process and of others in MB (2^20 bytes); this one's peak where the system
    tells no more."""
    try:
        pages = _pages("self")
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):  # it may have ended
            pages += _pages(str(pid))
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _pages(process: str) -> int:
    with open(f"/proc/{process}/statm", encoding="ascii") as file:
        return int(file.read().split()[1])


class Memory:
    """The memory limit of one search (None: there is none) in MB, and the processes that work for it.

    What the first search of a process finds (the interpreter, the modules) counts; what earlier searches or their
    caller have left since then does not.
    """

    _first_mb: float | None = None

    def __init__(self, limit_mb: int | None, pids: Sequence[int] = ()) -> None:
        self.limit_mb = limit_mb
        self._pids = pids
        now = resident_mb()
        if Memory._first_mb is None:
            Memory._first_mb = now
        self._before_mb = max(0.0, now - Memory._first_mb)

    def __reduce__(self) -> tuple[type[Memory], tuple[int | None, Sequence[int]]]:
        """Pickle the limit and whose memory counts: what was left before is measured anew in another process."""
        return Memory, (self.limit_mb, self._pids)

    def taken_mb(self) -> float:
        """Return what the search's processes hold, less what was left before it."""
        return resident_mb(self._pids) - self._before_mb

    def is_spent(self) -> bool:
        """Return whether the limit leaves no room for more work."""
        if self.limit_mb is None:
            return False
        return self.taken_mb() + TUNING.room_mb * (1 + len(self._pids)) > self.limit_mb

    def with_limit(self, limit_mb: int | None) -> Memory:
        """Return the same search's memory under another limit: what it has taken so far goes on counting."""
        other = copy(self)
        other.limit_mb = limit_mb
        return other
