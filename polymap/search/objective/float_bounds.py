"""Floats that are certainly at most the objective's value, for many vectors of parts at once.

They sort out most of what cannot win before the exact value of the rest is taken. Sums and products of a few float64
that each carry a relative error of 2^-53 are off by far less than 2^-40 of the sum of their magnitudes, which is taken
away.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymap.search.objective.measure import Measure
from polymap.search.problem import Goal

Floats = NDArray[np.float64]
_SAFE = 2.0**-40
_MOST_BITS = 400  # of a number whose square is still a float


def surely_below(measure: Measure, parts: Sequence[Floats], compute_cycles: int) -> Floats | None:
    """Return what is at most Measure.value of each vector of parts (None: this measure has no such estimate).

    parts: what is at most each of them, or infinite (then the estimate may be anything that is not below a number).
    """
    numbers = (compute_cycles, measure.leak, measure.fixed_energy)
    if measure.limits or measure.shares or measure.is_linear or any(n.bit_length() > _MOST_BITS for n in numbers):
        return None
    with np.errstate(invalid="ignore"):
        cycles = _cycles(measure, parts, float(compute_cycles))
        if measure.goal is Goal.LATENCY:
            return cycles
        energy = lowered_sum(parts[0], measure.fixed_energy) + float(measure.leak) * cycles * (1 - _SAFE)
        if measure.goal is Goal.ENERGY:
            return energy - np.abs(energy) * _SAFE
        return np.where(energy > 0, energy * cycles * (1 - _SAFE), -np.inf)


def lowered_sum(floats: Floats, number: int) -> Floats:
    """Return what is at most the sums of numbers, each given as the nearest float, and one more."""
    one = float(number)
    with np.errstate(invalid="ignore"):
        return floats + one - (np.abs(floats) + abs(one)) * _SAFE


def _cycles(measure: Measure, parts: Sequence[Floats], compute_cycles: float) -> Floats:
    by_level: dict[str, Floats] = {}
    for part, component in zip(parts, measure.components, strict=True):
        if component.busiest:
            cycles = part * float(Fraction(1) / component.bandwidth)
            by_level[component.name] = np.maximum(cycles, by_level.get(component.name, cycles))
    total: Floats = np.full(parts[0].shape, compute_cycles)
    for cycles in by_level.values():
        total = np.maximum(total, cycles) if measure.overlap else total + cycles
    return total - np.abs(total) * _SAFE


def may_win(least: NDArray[Any], value: int) -> NDArray[np.bool_]:
    """Return where a value that is at least so much may be below `value`."""
    if value.bit_length() > 2 * _MOST_BITS:
        return np.ones(least.shape, dtype=np.bool_)
    return np.asarray(least < float(value) * (1 + _SAFE), dtype=np.bool_)
