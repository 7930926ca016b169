"""What transformations may take, and how much is tried for the advice where one is refused."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Limits of isl, in its operations and in seconds, and of what is tried (not swept but where told)."""

    # Advice: the first legal of few simple changes.
    most_factor: int = 8
    """Of skews and shifts that are tried,"""
    most_factors: int = 200
    """so many combinations of them,"""
    most_tried: int = 40
    """and so many schedules."""
    most_loops: int = 4
    """Of a nest of which all orders are tried."""

    # Loops from schedules.
    generator_operations: int = 1_000_000
    """Of isl: of the 30 kernels of PolyBench, adi and heat-3d alone need more of them,"""
    generator_cpu_s: float = 8.0
    """or of these CPU seconds."""

    # Lifetimes of the elements of a tensor that is folded.
    most_points: int = 50_000
    """Pairs of elements that are listed instead of asking isl,"""
    most_candidates: int = 200_000
    """moduli that are tried then,"""
    most_questions: int = 500
    """and that isl is asked about else."""
    lifetimes_operations: int = 5_000_000
    """Operations of isl for the lifetimes of a tensor,"""
    lifetimes_s: float = 20.0
    """and CPU seconds."""


TUNING = Tuning()
