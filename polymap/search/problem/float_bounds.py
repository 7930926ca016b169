"""Lower bounds on the objective as floats, for many vectors of component values at once.

They exclude most candidates before the exact value of the rest is computed. Sums and products of a few float64, each
with a relative error of 2^-53, are off by far less than 2^-40 of the sum of their magnitudes; that amount is
subtracted.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymap.poly import FloatArray
from polymap.search.problem.measure import Measure
from polymap.search.problem.objectives import Powers

_SAFE = 2.0**-40
_MOST_BITS = 400  # of a number whose square is still a float


def has_estimate(measure: Measure, compute_cycles: int) -> bool:
    """Return whether `surely_below` has estimates for a measure."""
    numbers = (compute_cycles, measure.leak, measure.fixed_energy)
    plain = not (measure.limits or measure.shares or measure.is_linear)
    return plain and all(number.bit_length() <= _MOST_BITS for number in numbers)


def surely_below(measure: Measure, parts: Sequence[FloatArray], compute_cycles: int) -> FloatArray | None:
    """Return lower bounds on Measure.value per vector of parts (None: there is none for this measure).

    parts: lower bounds on the parts, or infinite; then the estimate may be NaN or infinite.
    """
    return lower_values(measure, parts, compute_cycles) if has_estimate(measure, compute_cycles) else None


def lower_values(
    measure: Measure,
    parts: Sequence[FloatArray],
    compute_cycles: int | NDArray[np.int64],
) -> FloatArray:
    """Return `surely_below` of a measure that has estimates. compute_cycles: of all vectors, or of each."""
    with np.errstate(invalid="ignore", over="ignore"):
        cycles = _cycles(measure, parts, np.asarray(compute_cycles, dtype=np.float64))
        if measure.goal.powers and not measure.goal.powers.energy:
            return cycles**measure.goal.powers.cycles
        energy = lowered_sum(parts[0], measure.fixed_energy) + float(measure.leak) * cycles * (1 - _SAFE)
        return _product(measure, energy - np.abs(energy) * _SAFE, cycles)


def _product(measure: Measure, energy: FloatArray, cycles: FloatArray) -> FloatArray:
    """Return the objective of energies (a lower bound where they are negative) and cycles, both lowered enough for
    rounding."""
    powers = measure.goal.powers
    assert powers is not None
    if powers == Powers(1, 0):
        return energy
    return np.where(energy > 0, energy**powers.energy * cycles**powers.cycles, -np.inf)


def lowered_sum(floats: FloatArray, number: int) -> FloatArray:
    """Return lower bounds on the sums of numbers, each given as the nearest float, and `number`."""
    one = float(number)
    with np.errstate(invalid="ignore"):
        return floats + one - (np.abs(floats) + abs(one)) * _SAFE


def _cycles(measure: Measure, parts: Sequence[FloatArray], compute_cycles: FloatArray) -> FloatArray:
    by_level: dict[str, FloatArray] = {}
    for part, component in zip(parts, measure.components, strict=True):
        if component.busiest:
            cycles = part * float(Fraction(1) / component.bandwidth) + (compute_cycles if component.in_turn else 0.0)
            by_level[component.name] = np.maximum(cycles, by_level.get(component.name, 0.0))
    total: FloatArray = np.full(parts[0].shape, compute_cycles)
    for cycles in by_level.values():
        total = np.maximum(total, cycles) if measure.overlap else total + cycles
    return np.ceil(total - np.abs(total) * _SAFE)  # cycles are whole


def may_win(least: NDArray[Any], value: int) -> NDArray[np.bool_]:
    """Return where a value with this lower bound may be below `value`."""
    if value.bit_length() > 2 * _MOST_BITS:
        return np.ones(least.shape, dtype=np.bool_)
    return np.asarray(least < float(value) * (1 + _SAFE), dtype=np.bool_)
