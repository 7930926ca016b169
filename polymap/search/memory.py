"""How much memory this process holds now."""

from __future__ import annotations

import os
import resource
import sys

# Kept free under a limit: the tables of one structure are made between two looks.
ROOM_MB = 24


def resident_mb() -> float:
    """Return the resident memory of this process in MB (2^20 bytes); its peak where the system tells no more."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def is_spent(limit_mb: int | None) -> bool:
    """Return whether a limit (None: there is none) leaves no room for more work."""
    return limit_mb is not None and resident_mb() + ROOM_MB > limit_mb
