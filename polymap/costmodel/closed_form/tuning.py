"""Limits of the closed form: beyond one of them the counts come from sets or a walk, with the same values."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Limits of what is listed for one count. Beyond one of them BudgetError is raised.

    They keep one question in about a second and 64 MiB, and were not swept one by one.
    """

    # Along one dim and one window.
    most_kinds: int = 4096
    """Kinds of instances, or of steps, that are told apart."""
    most_table_cells: int = 1 << 22
    """Cells of the table of a written window: 4 MiB."""

    # Unions of several accesses to one tensor.
    most_union_rows: int = 1 << 20
    """Combinations of steps and siblings."""
    most_union_cells: int = 1 << 22
    """Cells of a grid that boxes are marked in: 4 MiB."""
    most_union_bits: int = 1 << 26
    """Elements of sets that are written out: 64 MiB."""
    most_boxes: int = 8
    """Boxes of which all 2^8 subsets are intersected."""
    most_reach: int = 1 << 40
    """Largest index, so that sums of indices times coefficients fit 64 bits."""

    # The busiest instance.
    most_candidates: int = 500
    """Instances that are counted one by one."""
    most_combinations: int = 1 << 20
    """Combinations of siblings and elements of a window."""

    # All.
    most_loops: int = 100
    """Loops of a tree (not swept)."""
    most_models: int = 64
    """Models of workloads and machines that are kept for the next question."""


TUNING = Tuning()
