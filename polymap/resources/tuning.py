"""How processes are waited for, how much of what they print is kept, and how a search shares its limits out."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Waiting times in seconds, shares and sizes: they change when an answer comes, never what it is."""

    # Processes (not swept).
    look_s: float = 0.2
    """Between two questions whether a process is still waited for."""
    killed_s: float = 5.0
    """In which a process that was killed is gone, unless the system itself stands still."""
    most_complaint_bytes: int = 2**20
    """Of stderr that are kept."""

    # The limits of a search, chosen by benchmarks/limits.py (seconds past a limit) together, not one by one. For
    # dividing tiles before those of any size:
    dividing_s: float = 5.0
    """Seconds,"""
    dividing_share: float = 1 / 3
    """or this share of the time limit, where that is more,"""
    share_of_short_limit: float = 0.8
    """but no more than this share of a short one."""
    dividing_work_share: float = 0.5
    """Of the steps, where these are limited."""

    room_mb: int = 24
    """Kept free under a memory limit: the tables of one structure are made between two looks (not swept)."""
    stop_look_s: float = 0.02
    """Between two looks at the clock, or for the word to stop (not swept)."""


TUNING = Tuning()
