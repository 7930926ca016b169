"""How native programs are laid out: thresholds that change their speed, never their results."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Thresholds of kernels, of their copies and of their forms.

    "code.py" is benchmarks/code.py: layers beside oneDNN and OpenBLAS. It shows what a change of the
    thresholds that name it does; they were not swept one by one.
    """

    # Copies of operands. Measured by code.py.
    colliding_bytes: int = 4096
    """Rows so far apart fall onto one set of a first cache with 4 KiB per way (derived)."""
    stack_bytes: int = 2**20
    """Larger copies come from malloc, whose fresh pages cost more than several copies."""
    most_repeats: int = 16
    """How often a copy on the stack may be made again."""
    direct_bytes: int = 2**19
    """Operands up to this size are read where they lie, as fast as in panels (products of 16^3 to 512^3)."""
    few_passes: int = 2
    """So many rows of tiles read a panel no faster than the caller's rows, with the copying of the panel."""
    copied_row: int = 16
    """Elements of a source row that are copied at once: a cache line of floats (derived)."""
    staged_elements: int = 4096
    """Longest local buffer of an output."""

    # Kernels. Measured by code.py.
    few_sums: int = 64
    """From so many products per element on a scattered store costs little."""
    unrolled_steps: int = 9
    """Steps of the innermost reductions that are written out: a filter of 3 by 3."""
    few_uses: int = 4
    """Products up to which gcc loads a vector anew each time, so that it must be held in a register."""
    terms_in_lanes: int = 32
    """Fewer terms of a sum in plain loops are added one by one, many rows in flight, rather than in lanes (500 sums of
    2 to 50 terms, gcc 12 and clang 14)."""

    # Products of few columns (dots.py).
    few_columns: int = 3
    """Columns of which each sum is found along its terms."""
    batch_columns: int = 12
    """Such columns of one of several products, whose matrices are not packed ahead,"""
    batch_vectors: int = 4
    """where the terms fill so many vectors (12 products of 4 to 16 rows, 50 to 200 columns, 16 to 128 terms)."""
    few_rows: int = 4
    """Rows from which on that pays."""
    sums_of_dots: int = 8
    """Sums at a time, in vectors along the terms."""

    # Convolutions of groups of few channels (groups.py; layers of 16 to 128 channels timed).
    few_channels: int = 4
    """Of a group: of more of them each output channel is as fast by itself,"""
    few_far_channels: int = 8
    """or of more of these, where image and results are larger than the second cache."""
    pixels_of_groups: int = 8
    """Results of a row at a time, where there are 32 registers."""
    band_bytes: int = 2**17
    """Of the rows that are copied at a time."""

    # Arrays of callers.
    few_elements: int = 512
    """Of a new array: one that has no more need not begin at a line of the cache (not swept)."""

    # Limits of the length of the text (not swept).
    most_accumulators: int = 64
    """Vectors of a register tile."""
    most_kernels: int = 48
    """Different forms of tiles."""
    most_residues: int = 16
    """Ordinary convolutions that a transposed one is printed as."""


TUNING = Tuning()
