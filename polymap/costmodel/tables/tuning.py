"""Batch sizes for tables of mappings: they change speed, never values."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Batch sizes, measured with benchmarks/evaluate.py (mappings per second)."""

    cost_rows: int = 4096
    """Rows costed together, which fit the cache with what is computed from them."""
    chain_rows: int = 1 << 17
    """Rows among which equal chains of tiles are counted once."""
    column_rows: int = 1 << 13
    """Rows of columns of counts that fit the cache with what is computed from them."""
    fused_rows: int = 1 << 14
    """Rows of a tree with branches among which equal chains are counted once, which fit memory with their nests."""
    history_cells: int = 1 << 17
    """Cells of an array of steps by points of a window: fits the cache as bytes."""
    kept_histories: int = 8
    """Windows whose histories are kept for the next table."""
    kept_plans: int = 16
    """Plans of trees that are kept for the next table."""
    rows_looking_back: int = 32
    """Rows whose windows' changes before a carry's loops matter: their tables of windows are kept at once (64)."""
    siblings_of_a_mapping: int = 1 << 12
    """Siblings of all kinds of steps of one mapping that are listed; more are counted one by one."""
    siblings_at_once: int = 1 << 16
    """Siblings of all mappings that are listed together."""
    most_residues: int = 16
    """The largest coefficient of a window whose tiles with gaps are listed residue by residue."""
    largest_pj: int = 10**300
    """Energies that are added up as floats, which end at 10^308: longer ones are integers."""
    most_candidates: int = 500
    """Kinds of instances of which each may be the busiest one, counted for each row; `evaluate` counts no more."""


TUNING = Tuning()
