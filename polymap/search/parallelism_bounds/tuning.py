"""How finely the bounds over whole numbers of siblings are worked out: speed and gaps, never what is true."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Thresholds of the search over structures, chosen together by benchmarks/any_size.py (gap after 20 CPU s), not
    swept one by one."""

    # Structures and boxes of them.
    tree_branches: int = 4
    """Nodes below one node of the tree of a class's counts."""
    most_rows: int = 60_000
    """Vectors of counts of one class: beyond, ranges are joined."""
    boxes_at_once: int = 512
    """Boxes that are cut together."""
    most_ordered: int = 3
    """Classes whose orders are all tried."""

    # The chains of one structure.
    most_extent: int = 100_000
    """Of a dim: beyond, tensors are bounded one by one."""
    most_cells: int = 40_000
    """Of one unit."""
    many_cells: int = 8_000
    """Beyond so many of one unit, parts are split by bits before cells are."""
    most_entries: int = 6_000_000
    """Of the tables of all states and units."""
    even_ratio: float = 1.2
    """Outer sizes are split where they are less than the siblings' shares over this."""
    cell_ratio: int = 4
    """Of the sizes that a cell joins at first."""
    most_tabled: int = 200
    """Extents whose shares are worked out exactly: larger ones use the formula,"""
    most_loops: int = 3
    """as do more outer loops than this."""

    # Windows.
    kept_windows: int = 64
    """Tables of windows that a search remembers."""
    most_window_work: float = 3e7
    """Array elements that the tables of one window may take."""
    most_box_work: float = 1e8
    """Array elements that the tables of all boxes of one window may take."""
    most_coefficient: int = 1 << 12
    """Of a window: residues are looked at one by one."""

    # Mappings between two looks at the bounds.
    steps_at_once: int = 3
    """Of the queue of structures between two looks for mappings."""
    rounds_at_once: int = 6
    """Of climbing between two looks at the queue."""
    structures_climbed: int = 8
    """Whose sibling counts mappings are given."""


TUNING = Tuning()
