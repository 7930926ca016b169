"""How much of an answer its text shows: what fills a screen, and no more."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Lengths of texts in terminals of 80 columns and 24 lines (not swept)."""

    costliest_layers: int = 3
    """Layers of a network whose cost is explained."""
    most_rows: int = 12
    """Rows of a sweep that are printed without being asked for."""
    bar_letters: int = 20
    """A layer's bar if it were the whole network."""
    most_sentences: int = 12
    """Sentences on what passes between neighbours."""


TUNING = Tuning()
