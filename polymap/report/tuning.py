"""How much of an answer texts and pictures show: what fills a screen and can be told apart, and no more."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Lengths of texts in terminals of 80 columns and 24 lines, and of pictures 860 pixels wide (not swept)."""

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
    told_every_s: float = 5.0
    """Between two lines of progress, where a line cannot be overwritten."""
    second_s: float = 20
    """Limits of the search for the second mapping of a page: time,"""
    second_work: int = 3000
    """and work."""
    drawn_points: int = 4000
    """Points of a cloud; front and axes are those of all."""
    bins: int = 48
    """Of a histogram."""
    proof_columns: int = 540
    """Columns of a proof: one is a pixel wide,"""
    proof_cells: int = 2500
    """and cells of its map, of which more cannot be told apart."""
    ordered_loops: int = 7
    """Loops all of whose orders are drawn: 5,040."""
    domain_instances: int = 10_000
    """Of a statement of two loops, and"""
    walked_instances: int = 1_000_000
    """of a program whose wavefronts are counted."""
    tiles_of_restless: int = 5
    """Tiles of the tensor of a level that changes most often,"""
    tiles_of_tensor: int = 60
    """and of any tensor."""
    array_indices: int = 10**6
    """Of one dim, where the work of compute units is counted: all are looked at."""
    array_units: int = 1 << 16
    """Compute units,"""
    array_phases: int = 8
    """and numbers of units at work that are told."""
    timed_steps: int = 12
    """Steps of a level that are drawn one after the other."""


TUNING = Tuning()
