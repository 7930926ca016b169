"""What the lowering of a mapping tries and writes out: the text of programs, never their results."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Thresholds of the lowering."""

    unrolled_iterations: int = 32
    """Loops of more iterations are not written out by compilers: gcc's limit is 16, with a margin (derived)."""
    window_search: int = 4096
    """Longest range of values in which the least modulus of a window is looked for (not swept)."""
    name_length: int = 20
    """Characters of a user's name that a C name keeps, so that lines stay readable."""
    extreme_parts: int = 32
    """Parts in which a maximum of floats is found: two vectors of floats with AVX-512. With 16, gcc writes the loop
    over parts out before it looks for vectors (measured, gcc 12: 3.8 times the text's speed, 8.8 with 32)."""
    extreme_iterations: int = 128
    """Fewest elements of one: of 100 the worst form was at 0.77 times its text's speed with clang 14 (measured)."""
    trial_bits: int = 12
    """Bits of the random integers that a program is tried on, at most; fewer where its sums would not fit."""


TUNING = Tuning()
