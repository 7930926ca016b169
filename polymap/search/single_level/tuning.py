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
    own_weight: float = 0.02
    """What a split along a dim of the tensor itself promises, against 1 along a dim that it lacks;"""
    size_weight: float = 0.05
    """what sizes promise against numbers of pieces (both in logarithms);"""
    tie_score: float = 0.6
    """what it promises to know whether two nodes have the same tile."""
    least_score: float = 0.02
    """Cells of which no split promises more are split no further."""
    sum_share: float = 1e-3
    """Of two splits the one with the larger product of what both halves gain is chosen, and by so little of their sum
    where one half gains nothing."""
    cells_at_once: int = 512
    """Cells that are split together,"""
    cells_per_part: int = 256
    """and that stay together in the queue."""
    cells_per_size: int = 4_000_000
    """Cells bounded per size of the buffer,"""
    looks_per_size: int = 4
    """with so many looks for mappings between them:"""
    chains_per_size: int = 150
    """cells whose least tiles become mappings, per look."""
    most_nested: int = 1024
    """Extents whose numbers of pieces are worked out for all nests of two loops."""
    kept_windows: int = 64
    """Tables of windows that a search remembers."""
    few_pieces: int = 8
    """Pieces of an extent that are told apart."""
    most_cells: int = 1 << 23
    """Combinations of tile sizes,"""
    cells_looked_at: int = 1 << 16
    """of which so many are looked at together: some 300 bytes each (not swept)."""
    most_tiled: int = 1 << 18
    """Tiles of rows and columns of two products that are looked at together (not swept)."""
    most_cancelled: int = 16
    """By how much credits may make costs less than what they are taken from: floats lose as much (derived)."""
    most_tabled: int = 1 << 20
    """Tiles of one window; their loads, summed over its tiles, are far below 2^53."""


TUNING = Tuning()
