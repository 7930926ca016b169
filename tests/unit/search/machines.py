"""A small machine that many searches are asked about."""

from __future__ import annotations

from fractions import Fraction

from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel


def two_levels(buffer_bits: int) -> Architecture:
    """Return DRAM, a buffer of so many bits, four lanes and a register file of 32 bits each."""
    return Architecture(
        "two",
        (
            MemoryLevel("DRAM", None, 8, Fraction(100), Fraction(100), bandwidth_bits_per_cycle=Fraction(64)),
            MemoryLevel("BUF", buffer_bits, 8, Fraction(2), Fraction(2)),
            Fanout("X", 4),
            MemoryLevel("RF", 32, 8, Fraction(1), Fraction(1)),
            ComputeUnit("MAC", Fraction(1)),
        ),
    )
