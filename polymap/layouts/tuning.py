"""How long layouts are searched, and what is walked step by step."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Limits that decide whether an answer comes, never which (not swept)."""

    search_s: float = 60.0
    """Of the choice of layouts, where the caller gives no limit."""
    most_accesses: int = 20_000_000
    """Of one statement that are walked in their order."""
    most_lane_accesses: int = 2_000_000
    """To one tile in banks, whose words are sorted step by step."""


TUNING = Tuning()
