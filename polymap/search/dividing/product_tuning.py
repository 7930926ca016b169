"""How large a product may be for the fast path of dividing tiles: beyond, the tables go on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Thresholds of one search, chosen by benchmarks/choose_tiles.py (milliseconds a product)."""

    most_nodes: int = 9
    """Of a plan: all orders of its nodes are looked at."""
    few_nodes: int = 8
    """The same where structures are fewer than so many: tables take less time there (search.py, gemm_cluster4_keep)."""
    many_spread: int = 20_000
    most_bounds: int = 1 << 24
    """Pairs of a structure and a plan."""
    bounded_together: int = 1 << 18
    """Of these pairs (memory, not speed)."""
    first_raised: int = 64
    """Structures, and then pairs, whose bounds are raised before tiles are looked at; then twice as many."""
    raised_together: int = 1 << 8
    """Of these pairs (memory)."""
    structures_a_step: int = 64
    """That are bounded together in less time than one is searched elsewhere (0.3 ms on tpu_v4i_like)."""
    most_spread: int = 1 << 20
    """Kinds of structures (memory)."""
    paired_together: int = 1 << 20
    """Pairs of ways to spread the dims over different fan-outs (memory)."""
    weighed_together: int = 1 << 15
    """Structures (memory)."""
    most_instances: int = 1 << 52
    """Of statements: counts below it are exact in floats."""
    lost: float = 2.0**-42
    """What floats lose, of the most that anything costs: far above what 256 operations do."""
    most_choices: int = 1 << 14
    """Of tiles that are looked at together."""

    # Padded extents.
    most_padding_percent: int = 6
    """Of an extent,"""
    few_indices: int = 4
    """or so many indices of a short one."""
    most_lengths: int = 4096
    """That are looked at: of a long extent, multiples of a power of two."""
    extents_per_dim: int = 5
    """That are kept."""
    most_products: int = 60
    """That are solved, the least padded first."""


TUNING = Tuning()
