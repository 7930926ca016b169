"""What counting by sets and walks may take (not swept): limits that decide whether an answer comes, never which."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Limits of the counts by integer sets, and of what is walked step by step."""

    walked_tiles: int = 3_000_000
    """Tiles that are looked at one by one for the peak of a level: some seconds."""
    most_vectors: int = 100_000
    """Candidates for the peak of a level."""
    compared_vectors: int = 400
    """Candidates that a new one is compared with, so that the comparison is not quadratic."""
    most_tries: int = 100_000
    """Values of columns that are tried for one at which all parts are largest."""

    most_accesses: int = 20_000_000
    """Of one statement that are walked through caches in their order."""
    most_lane_accesses: int = 2_000_000
    """To one tile in banks, whose words are sorted step by step."""


TUNING = Tuning()
