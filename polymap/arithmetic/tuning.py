"""How long factors and unions of progressions are looked for: what is not found is told, never guessed."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Limits of what is tried (not swept)."""

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
