"""Limits of the reordering of C sources: they decide whether there is an answer, never which."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Limits of isl in its operations and in seconds, and of lists (not swept)."""

    operations: int = 30_000_000
    """Operations of isl for one question."""
    seconds: float = 60.0
    """Seconds of one question besides."""
    scheduler_cpu_s: float = 30.0
    """CPU seconds of isl's scheduler, whose linear programs count as no operations."""
    checked_operations: int = 500_000
    """Operations of isl for the check of the loops at some sizes."""
    checked_sizes: tuple[int, ...] = (3, 7, 67)
    """Values of the first parameter at which loops are checked; isl answers for all instances at once."""
    checked_tiled_size: int = 227
    """One more, where loops have tiles of contractions: several of them, and parts."""
    most_distances: int = 12
    """Constant distances of a dependence that are listed."""
    most_unrolled: int = 64
    """Iterations that an unrolled loop without a factor asks of gcc."""
    most_assumed: int = 2**60
    """Of a number that is compared with one of the preprocessor, whose own have 64 bits."""
    chosen_sizes: tuple[int, ...] = (1000, 250, 60)
    """Of a parameter without a value where an order is chosen for speed: larger than caches, if arrays are."""
    example_size: int = 9
    """Of a parameter without a value: large enough that most loops run."""


TUNING = Tuning()
