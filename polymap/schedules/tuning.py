"""What questions about schedules may take: limits that decide whether an answer comes, never which."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Limits of isl, in its operations and in seconds, and of what is listed (not swept)."""

    legality_s: float = 20.0
    """CPU seconds of the question whether a mapping is legal."""
    places_operations: int = 5_000_000
    """Operations of isl for the parallel loops of a schedule."""
    shown_orders: int = 6
    """Of the legal orders that a message lists."""
    report_s: float = 4.5
    """Seconds of a report of legality without a limit of its own: a user waits."""
    largest_factor: int = 4
    """Of outer loops that a loop is skewed by, so that loops may change places."""
    nests_operations: int = 300_000
    """Operations of isl for each step of the search of nests,"""
    nests_s: float = 3.5
    """and CPU seconds of it all."""
    most_listed_orders: int = 40_320
    """Legal orders that are listed: all those of 8 loops."""
    most_entangled_loops: int = 20
    """Loops that constrain each other whose orders are counted, by their subsets."""


TUNING = Tuning()
