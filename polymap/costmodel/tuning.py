"""Which way counts a mapping, and for how long: the ways agree, so no value depends on it."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Limits of counting, and the speed of a walk, which decide between the ways."""

    count_limit_s: float = 30.0
    """CPU seconds of one evaluation without a limit of its own (not swept)."""
    few_moves: int = 20_000
    """A walk of so many moves takes 0.05 to 0.4 s: it goes before the sets."""
    many_moves: int = 2_000_000
    """A walk of so many takes 5 to 40 s and some 200 MiB: no longer one is begun."""
    walk_s_per_move: float = 4e-6
    """Seconds of one move, timed."""
    walk_share: float = 0.75
    """Of the time that is left, where sets may still answer after it (not swept)."""
    least_operations: int = 50_000
    """Of isl, beside two for each move, before a walk is begun (not swept)."""
    corner_symbols: int = 8
    """Of a condition of a formula, whose corners are listed: 2^8 (not swept)."""
    coherence_s: float = 20.0
    """CPU seconds of the search of stale copies (not swept)."""
    least_steps_s: float = 0.2
    """CPU seconds for the steps of a mapping where the limit of a search is reached (benchmarks/gemmini, 1 s)."""
    most_tiles: int = 400_000
    """Of one tensor along axes that share dims, listed for one loop's advance (not swept)."""
    most_elements: int = 20_000_000
    """Of one tile that is no product of its axes' offsets (not swept)."""
    most_walked: int = 200_000_000
    """Elements of all tiles of a tensor whose steps have no closed form (not swept)."""
    most_permuted: int = 3
    """Axes of a tensor of which every order is a layout to choose from; of more, some (not swept)."""
    most_kept: int = 4_000_000
    """Numbers that are kept of one tensor from mapping to mapping, 32 MiB (not swept)."""
    fit_rounds: int = 30
    """Of a machine's fit: how often planes are added; 196 runs of Gemmini take 3 to 9,"""
    fit_restarts: int = 5
    """how often the simplex begins anew, half as large (not swept),"""
    fit_steps: int = 250
    """its steps (not swept),"""
    fit_precision: float = 1e-3
    """by how much cycles may exceed their planes,"""
    fit_pull: float = 1e-5
    """and what a factor of e adds to the mean error, of constants that do not matter (1e-6 to 1e-3 rank alike)."""

    parts_of_bits: int = 64
    """Of what an element takes of a bus at least, how finely a bit is told (coarse numbers are searched faster)."""

    # How far bounds and footprints are looked for: a smaller limit gives a weaker bound, never a wrong one.
    most_orders: int = 120
    """Orders of the dims of windows that are tried: all of five dims."""
    most_tensors: int = 5
    """Tensors whose exponents are enumerated: 5^5 combinations."""
    most_ways: int = 500
    """Ways in which the accesses of a statement may meet."""
    convolved: int = 128
    """Residues up to which all sums of two histograms are one convolution: as fast as shifts by 1 of 128, a tenth of
    the time of shifts by all of 64. Of as many numbers, what is known of their residues is kept."""


TUNING = Tuning()
