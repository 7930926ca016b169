"""Lower bounds of the value of many products' trees at once: of parts of the cost, and what limited room adds to them.

Of the nodes of one level, or of all nodes, the outermost one, X, has the dims that the others lack, so its tile takes
bits x a x b where a and b are the tiles, of these dims, that decide how often the others are visited: n / a and m / b
times at least. The least of w n / a + v m / b with a <= n, b <= m, a b <= room has a b = room and
a = sqrt(w n room / v m), or the end of a that is next to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from polymap.search.problem import IntArray, Measure, has_estimate, lower_values

Floats = NDArray[np.float64]
_SAFE = 2.0**-40  # of floats here: far above what a few operations lose
Number = int | float
Bounds = NDArray[np.int64 | np.float64]
_ERROR = 1e-9  # of any sum below, relative to its terms: far above what float64 loses


@dataclass(frozen=True, slots=True)
class PartValues:
    """An objective as a function of the cost's parts, one per component, and of the compute cycles. It rises with each
    part. losses: of each component, what floats lose of a part at most."""

    measure: Measure
    losses: tuple[float, ...] = ()

    def is_estimated(self, cycles: int) -> bool:
        """Return whether there are bounds of values."""
        return self.measure.is_linear or has_estimate(self.measure, cycles)

    def least(self, parts: IntArray, cycles: IntArray) -> Bounds:
        """Return lower bounds of the values of parts [component, ..., structure]: exact where the objective is
        linear and parts are whole."""
        if parts.dtype == np.float64:
            parts = parts - np.array(self.losses).reshape(-1, *(1 for _ in parts.shape[1:]))
        if self.measure.is_linear:
            return parts[0] + self.measure.fixed_energy
        found = lower_values(self.measure, [part.astype(np.float64) for part in parts], cycles)
        return np.ceil(np.maximum(found, 0))  # energies, and so values, are not negative

    def may_win(self, least: Bounds | Number, value: Number) -> NDArray[np.bool_]:
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
        every: IntArray = np.zeros(parts.shape[1], dtype=np.int64) + cycles
        least = self.least(parts, every)
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


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The nodes of a tensor, per plan and structure: what one visit of each costs together, bits that the least tile of
    the outermost takes (0: there is none), bits that its level may hold, the temporal extent of the dim that the tensor
    lacks."""

    weight: Floats
    bits: Floats
    usable: Floats
    extent: Floats


def least_excess(sides: list[Side]) -> Floats:
    """Return at least what visits beyond the first cost, rounded down. Each side lacks another dim."""
    once = sum((side.weight for side in sides), start=np.zeros(sides[0].weight.shape))
    least = np.full(once.shape, np.inf)
    for outer, others in _outermost(sides):
        cost = outer.weight + _least_of_others(others, outer.usable / np.maximum(outer.bits, 1))
        least = np.minimum(least, np.where(outer.bits > 0, cost, np.inf))
    excess = np.where(np.isfinite(least), least, once) * (1 - _ERROR) - once
    return np.floor(np.maximum(excess, 0))


def _outermost(sides: list[Side]) -> Iterator[tuple[Side, list[Side]]]:
    for place, side in enumerate(sides):
        yield side, [*sides[:place], *sides[place + 1 :]]


def _least_of_others(others: list[Side], room: Floats) -> Floats:
    """Return the least cost of the others, of which the two first are bounded together."""
    first = others[0].weight * others[0].extent
    if len(others) == 1:
        return np.maximum(others[0].weight, first / room)
    second = others[1].weight * others[1].extent
    rest = sum((side.weight for side in others[2:]), start=np.zeros(room.shape))
    even = np.sqrt(first * room / np.maximum(second, 1))
    tile = np.minimum(np.maximum(even, room / others[1].extent), others[0].extent)
    return np.maximum(first / tile + second * tile / room, others[0].weight + others[1].weight) + rest


def _at_least(value: int) -> float:
    """Return the least float that is no less than a number."""
    found = float(value)
    return found if found >= value else float(np.nextafter(found, inf))
