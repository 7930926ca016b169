"""What isl may take for one question, and what is counted beside it."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Limits that decide whether an answer comes and which of equal ways finds it, never what it is (not swept)."""

    # Of isl.
    operations: int = 1_000_000
    """Elementary operations of one question without limits of its own,"""
    seconds: float = 10.0
    """and its CPU seconds."""
    first_operations: int = 300_000
    """Of what is asked in this process before one of its own is started,"""
    first_seconds: float = 3.0
    """and its CPU seconds."""
    most_coalesced: int = 24
    """Pieces of a set that are coalesced, which takes their square."""
    many_pieces: int = 16
    """From which on a set is coalesced before it becomes a table."""

    # Sets as conjunctions, and counts as formulas.
    most_cases: int = 64
    """Conjunctions of one union."""
    most_listed: int = 4096
    """Conjunctions that are looked at for those."""
    most_parts: int = 64
    """Pieces of a formula."""

    # Points that are listed instead.
    most_points: int = 12_000_000
    """Of dims that interact, which are listed: 96 MB of coordinates per dim."""
    tightenings: int = 6
    """Rounds in which constraints tighten the bounds of dims."""
    few_points: int = 3_000
    """So few are listed without a look at single constraints first."""
    keys_at_once: int = 4096
    """Values of a tally between two looks at the clock (not swept)."""
    tried_points: int = 400
    """On which constraints are tried before all points are."""

    # Factors and unions of progressions: what is not found is told, never guessed.
    small_divisors: int = 2_000
    """Divisors that are tried one by one before Pollard's rho."""
    rho_steps: int = 1 << 20
    """Of one rho sequence: factors of about 40 bits are found."""
    rho_batch: int = 128
    """Steps between two greatest common divisors."""
    rho_sequences: int = 2
    """Sequences that are tried."""
    most_intervals: int = 20_000
    """Pieces of a union that are listed; beyond, it counts as too large."""


TUNING = Tuning()
