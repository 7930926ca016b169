"""How finely the traffic of programs is bounded: speed and gaps, never what is true."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Thresholds of one bound, chosen together by benchmarks/polybench.py (gap, seconds), not swept one by one."""

    most_instances: int = 6_000_000
    """Of a program whose bound takes seconds."""
    most_combined: int = 10
    """Bounds over sets of arrays that are added in every way."""
    most_orders: int = 24
    """Of references, whose exponents are looked for one after the other."""
    most_together: int = 4
    """References with exponents above 0,"""
    most_references: int = 8
    """of so many at most."""
    most_splits: int = 3
    """Of a region, those of most instances."""
    splits_deep: int = 2
    """Regions within regions."""
    most_to_split: int = 1_000_000
    """Instances of a region that is split."""
    least_left: int = 8
    """A part of fewer than one in so many instances is not looked at."""


TUNING = Tuning()
