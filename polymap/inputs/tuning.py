"""What is assumed of a machine that is described by little, and how long a description may be."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Facts of processors that no system reports; sources beside them."""

    most_nodes: int = 64
    """Levels and fan-outs of one machine file (not swept; real machines have under ten)."""

    # The machine at hand.
    fma_pj: int = 4
    """Of a 32-bit fused multiply-add (Horowitz, ISSCC 2014, rounded)."""
    dram_bits_per_cycle: int = 64
    """The width of one channel (assumed)."""
    l3_bits_per_cycle_and_core: int = 256
    """Half a line per cycle and core."""
    l2_bits_per_cycle: int = 512
    """A line per cycle."""
    line_bytes: int = 64
    """Lines of caches of x86 and most of Arm."""
    fma_latency_cycles: int = 4
    """Of fused multiply-adds of floats, on server cores since 2015 (Fog, instruction tables, 2024)."""
    miss_cycles: int = 4
    """Beyond its bandwidth, of a line evicted from the first cache, among others that are (measured)."""
    start_cycles: int = 6000
    """Of the threads of a parallel loop: 2 to 3 microseconds with the OpenMP of gcc and clang."""


TUNING = Tuning()
