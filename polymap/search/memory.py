"""How much memory this process holds now."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress

# Kept free under a limit: the tables of one structure are made between two looks.
ROOM_MB = 24


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


def is_spent(limit_mb: int | None, pids: Sequence[int] = ()) -> bool:
    """Return whether a limit (None: there is none) leaves no room for more work in this process and others."""
    return limit_mb is not None and resident_mb(pids) + ROOM_MB * (1 + len(pids)) > limit_mb
