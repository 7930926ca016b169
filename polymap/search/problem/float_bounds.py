"""Lower bounds on the objective as floats, for many vectors of component values at once.

They exclude most candidates before the exact value of the rest is computed. Sums and products of a few float64, each
with a relative error of 2^-53, are off by far less than 2^-40 of the sum of their magnitudes; that amount is
subtracted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymap.poly import FloatArray
from polymap.search.problem.goals import Powers
from polymap.search.problem.measure import Measure

_SAFE = 2.0**-40
_MOST_BITS = 400  # of a number whose square is still a float


@dataclass(frozen=True, slots=True)
class Multipliers:
    """Lagrange multipliers, in 1/unit of component 0. per_level: per bit held. allowance: the sum of price x capacity.

    per_component: per component that limits latency (0 for component 0; empty: none).
    """

    per_level: tuple[int, ...]
    unit: int
    allowance: int
    per_component: tuple[int, ...] = ()

    def component_total(self, parts: tuple[int, ...]) -> int:
        """Return the priced sum of the components, x unit."""
        others = sum(price * part for price, part in zip(self.per_component, parts, strict=False))
        return parts[0] * self.unit + others


@dataclass(frozen=True, slots=True, eq=False)
class Tradeoff:
    """A bound component 0 >= intercept - slope x cycles, for all cycles; one intercept per vector."""

    intercept: FloatArray
    slope: float


def slope_of(measure: Measure, prices: Multipliers) -> Fraction:
    """Return the greatest priced sum of the latency components per cycle, in units of component 0."""
    by_level: dict[str, Fraction] = {}
    for component, price in zip(measure.components, prices.per_component, strict=False):
        by_level[component.name] = by_level.get(component.name, Fraction(0)) + component.bandwidth * price
    # Transfers that do not overlap share the cycles: all may be those of the dearest level.
    most = sum(by_level.values(), Fraction(0)) if measure.overlap else max(by_level.values(), default=Fraction(0))
    return most / prices.unit


def tradeoff_of(measure: Measure, prices: Multipliers, floats: FloatArray, spent: int, compute_cycles: int) -> Tradeoff:
    """Return the tradeoff of vectors with a priced sum of components and bits of at least `floats` (rounded, x unit) +
    spent."""
    slope = slope_of(measure, prices)
    free = prices.allowance if measure.overlap else prices.allowance - int(slope * prices.unit * compute_cycles)
    return Tradeoff(lowered_sum(floats, spent - free) / prices.unit, float(slope) * (1 + _SAFE))


def has_estimate(measure: Measure, compute_cycles: int) -> bool:
    """Return whether `surely_below` has estimates for a measure."""
    numbers = (compute_cycles, measure.leak, measure.fixed_energy)
    plain = not (measure.limits or measure.shares or measure.is_linear)
    return plain and all(number.bit_length() <= _MOST_BITS for number in numbers)


def surely_below(
    measure: Measure, parts: Sequence[FloatArray], compute_cycles: int, tradeoffs: Sequence[Tradeoff] = ()
) -> FloatArray | None:
    """Return lower bounds on Measure.value per vector of parts (None: there is none for this measure).

    parts: lower bounds on the parts, or infinite; then the estimate may be NaN or infinite. tradeoffs: of component 0
    of objectives that are linear in energy, with an intercept per vector.
    """
    return lower_values(measure, parts, compute_cycles, tradeoffs) if has_estimate(measure, compute_cycles) else None


def lower_values(
    measure: Measure,
    parts: Sequence[FloatArray],
    compute_cycles: int | NDArray[np.int64],
    tradeoffs: Sequence[Tradeoff] = (),
) -> FloatArray:
    """Return `surely_below` of a measure that has estimates. compute_cycles: of all vectors, or of each."""
    with np.errstate(invalid="ignore", over="ignore"):
        cycles = _cycles(measure, parts, np.asarray(compute_cycles, dtype=np.float64))
        if measure.goal.powers and not measure.goal.powers.energy:
            return cycles**measure.goal.powers.cycles
        if tradeoffs:
            return _least_traded(measure, cycles, (Tradeoff(parts[0], 0.0), *tradeoffs))
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


def weakest_cycles(measure: Measure, cycles: float, tradeoffs: Sequence[tuple[float, float]]) -> float:
    """Return the cycles, at least `cycles`, at which (intercept, slope) pairs that hold together give the least
    bound."""
    # Between intersections of the tradeoffs the value is monotone or has its minimum at an end.
    points = {cycles}
    power = measure.goal.powers.cycles if measure.goal.powers else 0
    for number, (first, slope) in enumerate(tradeoffs):
        points |= {max(cycles, (first - other) / (slope - less)) for other, less in tradeoffs[:number] if slope != less}

    def value(point: float) -> float:
        energy = max(top - slope * point for top, slope in tradeoffs) + measure.fixed_energy + measure.leak * point
        return energy * point**power

    return min(sorted(points), key=value)


def _least_traded(measure: Measure, cycles: FloatArray, tradeoffs: Sequence[Tradeoff]) -> FloatArray:
    """Return a lower bound on the value at any cycles from `cycles` on; the first tradeoff has slope 0.

    Between two points a tradeoff's value is least at one of them: energy^a x cycles^b, where positive, is nowhere
    decreasing (energy does not fall with the cycles) or decreases only after it has increased. So any points give a
    bound, if each interval takes the best tradeoff. The points used are those where tradeoffs intersect; beyond the
    last one energy is constant and cycles increase.
    """
    points = [cycles]
    for number, one in enumerate(tradeoffs):
        for other in tradeoffs[:number]:
            if one.slope != other.slope:
                meet = (one.intercept - other.intercept) / (one.slope - other.slope)
                points.append(np.fmax(meet, cycles))
    at = np.sort(np.stack(points), axis=0)
    values: list[FloatArray] = []
    for one in tradeoffs:
        fixed, lost, leak = float(measure.fixed_energy), one.slope * at, float(measure.leak) * at
        energy = one.intercept + fixed + leak - lost
        energy = energy - (np.abs(one.intercept) + fixed + leak + lost) * _SAFE
        values.append(_product(measure, energy, at))
    least = values[0][-1]
    if len(at) > 1:
        stretches = np.stack([np.minimum(value[:-1], value[1:]) for value in values]).max(axis=0)
        least = np.minimum(least, stretches.min(axis=0))
    return least - np.abs(least) * _SAFE


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
