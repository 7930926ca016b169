"""How much of an answer its text shows: what fills a screen, and no more."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Lengths of texts in terminals of 80 columns and 24 lines (not swept)."""

    costliest_layers: int = 3
    """Layers of a network whose cost is explained."""
    most_rows: int = 12
    """Rows of a sweep that are printed without being asked for."""
    most_machines: int = 5
    """Machines of a sweep that stand beside each other."""
    bar_letters: int = 20
    """A layer's bar if it were the whole network."""
    most_sentences: int = 12
    """Sentences on what passes between neighbours."""
    sampled_mappings: int = 1000
    """Of the space, on a page."""
    proof_characters: int = 200_000
    """Of a certificate that the page holds,"""
    code_characters: int = 400_000
    """and of a program."""
    most_orders: int = 6
    """Legal orders of loops that are listed."""
    most_changes: int = 4
    """Statements, changes or pragmas that the summary of a transformation lists."""
    line_characters: int = 240
    """Of a line of a text before and after."""


TUNING = Tuning()
