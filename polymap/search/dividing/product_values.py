"""What parts of the cost of a product come to: bounds of many at once, and the parts that a better value allows."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from polymap.search.problem import IntArray, Measure, has_estimate, surely_below

_SAFE = 2.0**-40  # of floats here: far above what a few operations lose
Number = int | float


@dataclass(frozen=True, slots=True)
class PartValues:
    """An objective as a function of the cost's parts, one per component, and of the compute cycles. It rises with each
    part."""

    measure: Measure

    def is_estimated(self, cycles: int) -> bool:
        """Return whether there are bounds of values."""
        return self.measure.is_linear or has_estimate(self.measure, cycles)

    def least(self, parts: IntArray, cycles: IntArray) -> NDArray[np.int64] | NDArray[np.float64]:
        """Return lower bounds of the values of parts [component, ..., structure]: exact where the objective is
        linear."""
        if self.measure.is_linear:
            return parts[0] + self.measure.fixed_energy
        found: NDArray[np.float64] = np.zeros(parts.shape[1:])
        for one in np.unique(cycles).tolist():
            where = cycles == one
            own = surely_below(self.measure, [part[..., where].astype(np.float64) for part in parts], one)
            assert own is not None, "a measure without bounds is refused before"
            found[..., where] = np.ceil(own)
        return found

    def may_win(self, least: NDArray[np.int64] | NDArray[np.float64], value: Number) -> NDArray[np.bool_]:
        """Return where a value with this lower bound may be below `value`."""
        most = value if isinstance(value, float) or self.measure.is_linear else _at_least(value)
        return np.asarray(least < most, dtype=np.bool_)

    def caps(self, least: list[int], cycles: int, limit: Number) -> list[Number] | None:
        """Return what each part is at most where the others are at least these and the value is below the limit (None:
        it never is)."""
        measure = self.measure
        if measure.is_linear:
            most = limit - 1 - measure.fixed_energy
            return None if least[0] > most else [most]
        most_energy, most_cycles = self._most(least, self._cycles(least, cycles), limit)
        found: list[Number] = []
        for part, component in zip(least, measure.components, strict=True):
            most = most_energy
            if component.busiest:
                waits = cycles if component.in_turn or not measure.overlap else 0
                most = (most_cycles - waits) * float(component.bandwidth)
            found.append(most + abs(most) * _SAFE + 1)
            if part > found[-1]:
                return None
        return None if cycles > most_cycles + most_cycles * _SAFE else found

    def _most(self, least: list[int], taken: float, limit: Number) -> tuple[float, float]:
        """Return the most energy (without what is fixed) and the most cycles of values below the limit, but for
        rounding. taken: at least the latency."""
        measure, powers = self.measure, self.measure.goal.powers
        assert powers is not None, "other objectives are refused before"
        if not powers.energy:
            return inf, limit ** (1 / powers.cycles)
        more, less = 1 + _SAFE, 1 - _SAFE
        energy = max(float(least[0]) + measure.fixed_energy, 0.0) * less
        most_energy = (limit / taken**powers.cycles) ** (1 / powers.energy) * more - measure.leak * taken * less
        if powers.cycles:
            most_cycles = (limit / energy**powers.energy) ** (1 / powers.cycles) if energy else inf
        else:
            most_cycles = (limit * more - energy) / measure.leak if measure.leak else inf
        return most_energy - measure.fixed_energy * less, most_cycles

    def _cycles(self, parts: list[int], cycles: int) -> float:
        """Return a lower bound of the latency."""
        most = float(cycles)
        for part, component in zip(parts, self.measure.components, strict=True):
            if component.busiest:
                waits = cycles if component.in_turn or not self.measure.overlap else 0
                most = max(most, waits + part / float(component.bandwidth))
        return most * (1 - _SAFE)

    def best(self, parts: IntArray, cycles: int, limit: Number) -> tuple[int, int] | None:
        """Return the least value of some parts [component, n], with its place; None where none is below the limit."""
        if not parts.shape[1]:
            return None
        least = self.least(parts, np.full(parts.shape[1], cycles, dtype=np.int64))
        if self.measure.is_linear:
            place = int(np.argmin(least))
            return (int(least[place]), place) if least[place] < limit else None
        found: tuple[int, int] | None = None
        for place in np.argsort(least, kind="stable").tolist():
            if float(least[place]) >= (limit if found is None else found[0]):
                break
            value = self.measure.value(tuple(int(part) for part in parts[:, place]), cycles)
            if value < (limit if found is None else found[0]):
                found = value, place
        return found


def _at_least(value: int) -> float:
    """Return the least float that is no less than a number."""
    found = float(value)
    return found if found >= value else float(np.nextafter(found, inf))
