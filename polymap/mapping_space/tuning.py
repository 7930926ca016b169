"""How many mappings are drawn together, and when none is expected any more."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Sizes of what is drawn (not swept)."""

    at_once: int = 2000
    """Trees that are drawn before capacities are looked at."""
    most_misfits: int = 200_000
    """Legal trees of which none fits, after which no more are drawn."""


TUNING = Tuning()
