"""How processes are waited for, and how much of what they print is kept."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Waiting times in seconds, and a size (not swept)."""

    look_s: float = 0.2
    """Between two questions whether a process is still waited for."""
    killed_s: float = 5.0
    """In which a process that was killed is gone, unless the system itself stands still."""
    most_complaint_bytes: int = 2**20
    """Of stderr that are kept."""


TUNING = Tuning()
