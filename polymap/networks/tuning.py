"""How the time of a network is dealt to its layers, and how writers of one file wait for each other."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple


class Tuning(NamedTuple):
    """Times in seconds and parts of a limit (not swept)."""

    most_operators: int = 4
    """That a headline names."""

    # Nests that are asked together.
    most_in_a_group: int = 6
    """Loop nests: the search of programs fuses as many neighbours (polymap/search/options.py)."""

    # Questions in parts.
    first_share: float = 0.1
    """Of the limit: what is known before parts are asked helps all of them,"""
    first_s: float = 5.0
    """and so many seconds at most."""
    round_s: float = 2.0
    """The first round of parts; each next one is twice as long."""
    least_s: float = 0.1
    """That a question which goes on is given."""

    # Sizes of a buffer.
    nearly_least: Fraction = Fraction(21, 20)
    """Of the least energy: from the size on that takes no more, more room saves less than 5 %."""

    # A store that another process writes.
    busy_s: int = 60
    """After which a store counts as taken."""
    retry_s: float = 0.01
    """Between two tries."""

    # Layouts between layers.
    layouts_s: float = 60.0
    """Of their choice, where the caller gives no limit."""


TUNING = Tuning()
