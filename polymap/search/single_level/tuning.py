"""How finely the sizes of one buffer are worked out: speed and gaps, never what is true."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Thresholds of one search, chosen together by benchmarks/buffer_curves.py (gap, CPU s), not swept one by one."""

    best_trees: int = 12
    """Per size of the buffer."""
    most_permuted: int = 4
    """Dims of windows whose loops are tried in every order."""
    tried_splits: int = 12
    """Variables of a cell along which a split is bounded before one is chosen."""
    cells_at_once: int = 512
    """Cells that are split together,"""
    cells_per_part: int = 256
    """and that stay together in the queue."""
    cells_per_size: int = 4_000_000
    """Cells bounded per size of the buffer."""
    chains_per_size: int = 150
    """Cells whose least tiles become mappings, per size of the buffer."""
    most_nested: int = 1024
    """Extents whose numbers of pieces are worked out for all nests of two loops."""
    kept_windows: int = 64
    """Tables of windows that a search remembers."""
    few_pieces: int = 8
    """Pieces of an extent that are told apart."""


TUNING = Tuning()
