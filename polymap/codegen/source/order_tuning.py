"""How orders of programs are chosen: thresholds of the speed of code and of the choice, never of results."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Thresholds of the choice of orders, of register tiles, and of the functions printed from them.

    "program_speed.py" is benchmarks/program_speed.py: PolyBench's kernels beside their own texts. It shows what a
    change of the thresholds that name it does; they were not swept one by one.
    """

    # Recurrences and sums: latency of operations.
    chains: int = 8
    """Sums or rows side by side: derived, as an addition takes 4 cycles and two pipes start one each."""
    crowded_bytes: int = 2**12
    """Rows so far apart share the sets of the first cache (derived: 64 lines): of two arrays, half as many run side by
    side (recurrences on 512 and 1024 rows of float and double, gcc, clang)."""
    wavefront_skew: int = 3
    """Largest skew tried of a loop inside a recurrence (program_speed.py)."""
    wavefront_extent: int = 32
    """Shortest loop that is cut into strips of `chains`: four strips (derived)."""
    wavefront_instances: int = 2**10
    """Fewest instances that are worth it (recurrences on matrices of 34 to 90 rows, gcc, clang)."""

    # Register tiles of contractions. Measured by program_speed.py.
    lane_vectors: int = 2
    """Vectors per row of a register tile."""
    most_rows: int = 12
    """Rows of a register tile, where the registers allow more."""
    tile_rows: int = 96
    """Rows of a tile of a cache, before they are cut to whole register tiles,"""
    tile_lanes: int = 96
    """its lanes,"""
    tile_terms: int = 128
    """and the terms of a sum in it."""
    contraction_extent: int = 24
    """Shortest dim of a contraction that is tiled."""
    contraction_instances: int = 2**15
    """Fewest instances of a contraction that is tiled, where compilers find vectors without tiles: products of 24 to 36
    rows, gcc, clang. Triangles and products that read columns gain from `contraction_extent` on."""
    sum_instances: int = 2**9
    """Fewest instances of sums of rows that are added side by side,"""
    triangle_instances: int = 2**14
    """and of rows of a triangle (both: matrices of 20 to 90 rows, gcc, clang)."""
    least_tiled: int = 16
    """Fewer rows or lanes are computed by the text's own loops (transformed texts of n = 2 to 100)."""
    least_array: int = 24
    """Fewer elements of an array in place of a variable do not pay (transformed texts of n = 2 to 100)."""
    most_packs: int = 4
    """Operands that are laid out anew for a register tile, at most."""
    band_size: int = 48
    """Tiles of a band of several statements: smaller than those of one statement, as tiles on the diagonal are loops of
    points, and equal for all dims, so that the diagonal goes through corners of tiles."""
    band_extent: int = 90
    """Shortest dim of a matrix whose band is tiled (Cholesky and LU factorizations of 48 to 200 rows, gcc, clang)."""

    # Blocks of rows. Measured by benchmarks/attention.py.
    block_bytes: int = 2**15
    """Of the temporaries of a block of rows, where more than one register tile of rows fit."""
    matrix_caches: int = 4
    """Second caches that a matrix fills at most which is read again for each block (attention.py)."""
    most_lane_vectors: int = 8
    """Vectors per row of a register tile of few rows."""
    packed_step_bytes: int = 1024
    """Terms of a matrix so far apart fall into few sets of the first cache: it is packed (derived: 4 of 64 sets)."""
    few_rows: int = 3
    """Rows for which a matrix whose terms lie side by side is not packed."""
    extreme_vectors: int = 2
    """Vectors in which a maximum is found side by side: derived, one alone waits for each comparison."""

    # Tiles over time steps. Measured by program_speed.py.
    time_steps: int = 8
    """Steps of a tile: derived, an eighth of the transfers is left."""
    time_tile_sizes: tuple[int, ...] = (64, 32, 16, 8)
    """Sizes tried along axes of rows, the largest first,"""
    time_tile_row_sizes: tuple[int, ...] = (16384, 4096, 1024, 256)
    """and along the axis that vectors run over."""
    time_skew: int = 8
    """Largest skew tried."""
    time_shift: int = 32
    """Largest shift between statements that is tried."""

    # Tiles of lines. Measured: transposes, and sums of a matrix and its transpose, of 64 to 1000 rows, gcc and clang.
    line_tile: int = 8
    """Rows and columns of a tile whose reads all stride,"""
    mixed_line_tile: int = 32
    """and of one that also reads rows."""
    line_tile_extent: int = 128
    """Shortest loop that is tiled so."""

    # The cost of one iteration of an innermost loop, in reads of contiguous elements. Measured by program_speed.py.
    strided_read: float = 1.0
    """Added per read whose next element is not the neighbour."""
    strided_write: float = 1.5
    """Added where the written element is not the neighbour."""
    written_out_iterations: int = 32
    """Iterations of short loops, together, that compilers write out (ordinary_kernels.py)."""
    written_out_terms: int = 16
    """Iterations of one such loop: gcc's limit."""
    most_interleaved: int = 4
    """Largest step between elements that compilers write by whole vectors (derived: gcc has groups of 2, 3 and 4)."""
    hidden_step: int = 16
    """Smallest power of two between reads of which compilers are not told (matrices added to their transposes, 64 to
    512 rows, gcc, clang)."""
    innermost_sum: float = 1.0
    """Added where a sum of floats waits for its last addition,"""
    sum_elements: int = 128
    """less where others are added to between: derived, as many wait for nothing (`chains` vectors of 16 floats)."""

    # Limits, so that no program takes long to be transformed (not swept).
    exchange_cpu_s: float = 4.0
    """CPU seconds of the search of an order by exchanges."""
    choice_cpu_s: float = 8.0
    """CPU seconds of the choice among the orders."""

    # Printed functions.
    temporaries_on_stack_bytes: int = 2**20
    """Temporaries that are larger together come from malloc (an eighth of the usual stack)."""
    loop_operations: int = 8_000_000
    """Operations of isl for the loops of a program,"""
    loop_seconds: float = 15.0
    """and its seconds (not swept)."""
    parallel_instances: int = 2**14
    """Fewest instances between two meetings of the threads (program_speed.py)."""
    checked_operations: int = 100_000
    """Operations of isl for the check that its loops lose no instance (not swept)."""


TUNING = Tuning()
