"""How far bounds and footprints are looked for (not swept): a smaller limit gives a weaker bound, never a wrong one."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Limits of the analyses."""

    most_orders: int = 120
    """Orders of the dims of windows that are tried: all of five dims."""
    most_tensors: int = 5
    """Tensors whose exponents are enumerated: 5^5 combinations."""
    most_ways: int = 500
    """Ways in which the accesses of a statement may meet."""


TUNING = Tuning()
