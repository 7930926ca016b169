"""How the mapping of a processor is chosen: what the model of its code adds up, and how much is tried. How programs are
run and refused: memory of the interpreter, length of messages."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Costs of the code around the steps, limits of the choice, and sizes of what is worked on and shown at once.

    "code.py" is benchmarks/code.py: layers beside oneDNN and OpenBLAS. It shows what a change of the
    values that name it does; they were not swept one by one.
    """

    # Cycles of a register tile.
    loads_per_cycle: int = 2
    """Whole vectors where the first cache states no bandwidth, and elements at most: ports of x86 (derived)."""
    slack_cycles: int = 1
    """Multiply-adds are not dealt to the pipes evenly: as many sums as hide the latency are too few (code.py)."""
    tile_cycles: int = 12
    """Around the steps of a tile: addresses, the call, the loop (code.py)."""
    part_cycles: float = 8
    """To store a part of a vector (products of 1000 rows of 15 and 31 columns)."""
    scattered_lane_cycles: float = 1.3
    """To store one lane of a vector whose lanes lie apart (30 layers timed, each along every dim)."""
    copied_element_cycles: float = 1.3
    """To copy one element of an operand so that the lanes lie side by side (the same 30 layers)."""
    copied_row_cycles: float = 60
    """To begin a row of a window that is copied with its padding (the same 30 layers)."""
    loads_per_stretch: float = 0.5
    """What a line costs more than a load where the line before it was not read (33 tiles timed)."""
    exposed_transfers: float = 0.25
    """Of the transfers of a cache that cores share: prefetchers hide the rest behind the steps (code.py)."""
    exposed_refills: float = 0.5
    """Of those of a core's own second cache (predicted.py: 7 layers of 49 mappings)."""
    again_share: float = 0.67
    """Of the cycles to load and store neighbouring sums once more: steps hide the rest (the same)."""

    # Which tiles and loops are tried.
    least_share: float = 0.1
    """Of the limit, for the search of a tile: with less left no other tile is begun (not swept),"""
    first_share: float = 0.05
    """and for the first tile whatever is left."""
    most_slots: int = 4
    """Vectors along the vector dim where other dims can give sums too (code.py)."""
    tiles_tried: int = 2
    """Register tiles around which loops are searched (code.py)."""
    near_best: float = 1.03
    """Tiles that take so many times the fewest cycles are tried too (code.py)."""
    innermost_iterations: int = 8
    """A loop of fewer iterations is not worth being innermost (code.py), unless it runs over the terms of a sum that
    does not slide (500 sums of 2 to 7 terms)."""
    rows_together: int = 4
    """Rows that the prefetchers follow side by side, each over its whole length (code.py)."""
    few_passes: int = 2
    """Rows of tiles that read an operand where it lies, as in native/tuning.py."""
    cpu_s: float = 15.0
    """CPU seconds of the choice of one layer's mapping (not swept)."""
    work_limit: int = 300
    """Of the search of the loops around a tile: most are proven optimal before, and more finds little (code.py)."""

    # Programs that are run.
    instances_at_once: int = 1 << 20
    """Statement instances that the interpreter computes together: 8 MiB per value (derived)."""
    shown_characters: int = 2000
    """Of the messages of a compiler or a program, in an error."""


TUNING = Tuning()
