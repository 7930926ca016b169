"""The number of points of a bounded set without existential variables, by enumerating one dim after the other.

The dims so far affect the following ones only through one partial sum per constraint; partial points with equal sums
are counted together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import islpy as isl
import numpy as np
from numpy.typing import NDArray

from polymap.ir import BudgetError, Mistake, components
from polymap.poly.budgets import check_clock, integer
from polymap.poly.tuning import TUNING

_SET = isl.dim_type.set
_MAX_VALUE = 2**61

Integers = NDArray[np.int64]
Row = tuple[int, ...]  # coefficients per dim and a constant; their sum is >= 0
Bounds = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Constraints:
    """rows: an equality is two rows. bounds: of each dim, not necessarily tight (exact for a dim in no constraint)."""

    rows: tuple[Row, ...]
    bounds: Bounds

    @staticmethod
    def of(piece: isl.BasicSet) -> Constraints:
        """Return the constraints of a bounded set without existentials that is not empty."""
        rows: list[Row] = []
        size = piece.dim(_SET)
        for constraint in piece.get_constraints():
            row = [integer(constraint.get_coefficient_val(_SET, position)) for position in range(size)]
            row.append(integer(constraint.get_constant_val()))
            rows.append(tuple(row))
            if constraint.is_equality():
                rows.append(tuple(-number for number in row))
        return Constraints(tuple(rows), _bounds(piece, rows))

    def components(self) -> list[tuple[int, ...]]:
        """Return the connected components of the dims under the constraints, each in order."""
        return components(
            [number for number, row in enumerate(self.rows) if row[position]] for position in range(len(self.bounds))
        )


def _bounds(piece: isl.BasicSet, rows: list[Row]) -> Bounds:
    """Return bounds by propagating the constraints until nothing changes; isl's bounds where that gives none."""
    lows: list[int | None] = [None] * piece.dim(_SET)
    highs: list[int | None] = [None] * piece.dim(_SET)
    for _ in range(TUNING.tightenings):
        changed = [row for row in rows if _narrow(row, lows, highs)]
        if not changed:
            break
    points = isl.Set.from_basic_set(piece)
    found: list[tuple[int, int]] = []
    for position, (low, high) in enumerate(zip(lows, highs, strict=True)):
        least = integer(points.dim_min_val(position)) if low is None else low
        most = integer(points.dim_max_val(position)) if high is None else high
        found.append((least, most))
    return tuple(found)


def _narrow(row: Row, lows: list[int | None], highs: list[int | None]) -> bool:
    """Narrow the bounds of each dim by one constraint; return whether any got narrower."""
    most: dict[int, int | None] = {}
    for position, factor in enumerate(row[:-1]):
        if factor:
            end = highs[position] if factor > 0 else lows[position]
            most[position] = None if end is None else factor * end
    changed = False
    for position in most:
        others = [value for other, value in most.items() if other != position]
        rest = row[-1]
        for value in others:
            if value is None:
                break
            rest += value
        else:
            factor = row[position]
            low, high = lows[position], highs[position]
            if factor > 0:
                limit = -(rest // factor)
                if low is None or limit > low:
                    lows[position], changed = limit, True
            else:
                limit = rest // -factor
                if high is None or limit < high:
                    highs[position], changed = limit, True
    return changed


def scan(constraints: Constraints, component: Sequence[int], wanted: Sequence[int]) -> dict[tuple[int, ...], int]:
    """Return the number of points of one component for each value of its dims in `wanted` that has any.

    Raises BudgetError where more than TUNING.most_points would have to be listed.
    """
    if len(component) == 1:
        low, high = constraints.bounds[component[0]]
        if not wanted:
            return {(): high - low + 1} if high >= low else {}
        if high - low >= TUNING.most_points:
            raise _too_many(high - low + 1)
        return {(number,): 1 for number in range(low, high + 1)}
    state = _State.start(constraints, component, wanted)
    left = list(component)
    while left:
        position = state.best(left)
        left.remove(position)
        state.list_dim(position, left)
    return state.totals()


@dataclass(slots=True)
class _State:
    """Partial points, equivalent ones merged. sums: per open row, its value so far. values: of the dims in `wanted`.

    weights: the number of partial points merged into each (Python integers where 64 bits might not suffice).
    """

    bounds: Bounds
    rows: dict[int, Row]
    wanted: tuple[int, ...]
    sums: dict[int, Integers]
    values: dict[int, Integers]
    weights: NDArray[Any]

    @staticmethod
    def start(constraints: Constraints, component: Sequence[int], wanted: Sequence[int]) -> _State:
        rows = [row for row in constraints.rows if any(row[position] for position in component)]
        bounds = constraints.bounds
        points = 1
        for position in component:
            points *= max(bounds[position][1] - bounds[position][0] + 1, 1)
        for row in rows:
            reach = sum(abs(row[each]) * max(map(abs, bounds[each])) for each in component)
            if abs(row[-1]) + 4 * reach > _MAX_VALUE:
                raise _too_wide()
        kind = np.int64 if points < _MAX_VALUE else np.object_
        sums = {number: np.array([row[-1]], dtype=np.int64) for number, row in enumerate(rows)}
        return _State(bounds, dict(enumerate(rows)), tuple(wanted), sums, {}, np.array([1], dtype=kind))

    def best(self, left: Sequence[int]) -> int:
        """Return the dim to enumerate next: the one that leaves the fewest partial points (estimated on a sample)."""
        sides = {position: self.bounds[position][1] - self.bounds[position][0] + 1 for position in left}
        if prod(sides.values()) * len(self.weights) <= TUNING.few_points:
            return min(left, key=lambda position: (sides[position], position))
        some = self._some()

        def price(position: int) -> tuple[int, bool, int]:
            low, high = some._range(position, [other for other in left if other != position])
            length = int(np.maximum(high - low + 1, 0).sum())
            if length <= TUNING.tried_points * 100:
                trial = some._copy()
                trial.list_dim(position, [other for other in left if other != position])
                length = len(trial.weights)
            return length, position in self.wanted, position

        return min(left, key=price)

    def _copy(self) -> _State:
        return replace(self, rows=dict(self.rows), sums=dict(self.sums), values=dict(self.values))

    def _some(self) -> _State:
        """Return the state with some of its partial points."""
        some = self._copy()
        if len(self.weights) > TUNING.tried_points:
            some._keep(np.linspace(0, len(self.weights) - 1, TUNING.tried_points).astype(np.int64))
        return some

    def list_dim(self, position: int, left: Sequence[int]) -> None:
        """Enumerate one more dim over all values that the open rows allow."""
        check_clock()
        low, high = self._range(position, left)
        sizes = np.maximum(high - low + 1, 0)
        involved = [number for number, row in self.rows.items() if row[position]]
        closed = [number for number in involved if not any(self.rows[number][other] for other in left)]
        for number in closed:
            del self.rows[number], self.sums[number]
        if position not in self.wanted and len(closed) == len(involved):
            self.weights = self.weights * sizes
            self._keep(np.flatnonzero(sizes))
        else:
            length = int(sizes.sum())
            if length > TUNING.most_points:
                raise _too_many(length)
            source = np.repeat(np.arange(len(sizes)), sizes)
            offsets = np.arange(length) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            digits = low[source] + offsets
            self._keep(source)
            for number in involved:
                if number in self.rows:
                    self._advance(number, self.rows[number][position] * digits, left)
            if position in self.wanted:
                self.values[position] = digits
        self._join()

    def _range(self, position: int, left: Sequence[int]) -> tuple[Integers, Integers]:
        """Return, per partial point, the least and largest value of a dim, over all values of the dims to come."""
        least, most = self.bounds[position]
        low = np.full(len(self.weights), least, dtype=np.int64)
        high = np.full(len(self.weights), most, dtype=np.int64)
        for number, row in self.rows.items():
            factor = row[position]
            if factor:
                rest = self.sums[number] + sum(max(row[other] * end for end in self.bounds[other]) for other in left)
                if factor > 0:  # factor * x >= -rest
                    np.maximum(low, -(rest // factor), out=low)
                else:  # x <= rest / -factor
                    np.minimum(high, rest // -factor, out=high)
        return low, high

    def _advance(self, number: int, amounts: Integers, left: Sequence[int]) -> None:
        """Add to a row's sums; sums large enough that the row holds whatever follows are made equal."""
        check_clock()
        row = self.rows[number]
        enough = -sum(min(row[other] * end for end in self.bounds[other]) for other in left)
        self.sums[number] = np.minimum(self.sums[number] + amounts, enough)

    def _keep(self, places: Integers) -> None:
        self.weights = self.weights[places]
        self.sums = {number: sums[places] for number, sums in self.sums.items()}
        self.values = {position: values[places] for position, values in self.values.items()}

    def _join(self) -> None:
        """Merge partial points with equal sums and equal values of the wanted dims."""
        check_clock()
        columns = [*self.sums.values(), *self.values.values()]
        if not columns:
            self.weights = np.array([self.weights.sum()], dtype=self.weights.dtype)
            return
        if not len(self.weights):
            return
        keys = _as_one(columns)
        by_key = np.argsort(keys, kind="stable")
        ordered = keys[by_key]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        weights = np.add.reduceat(self.weights[by_key], starts)
        self._keep(by_key[starts])
        self.weights = weights

    def totals(self) -> dict[tuple[int, ...], int]:
        """Return the number of points per value of the wanted dims."""
        numbers = [int(number) for number in self.weights.tolist()]
        if not self.wanted:
            return {(): sum(numbers)} if sum(numbers) else {}
        values = zip(*(self.values[position].tolist() for position in self.wanted), strict=True)
        return {value: number for value, number in zip(values, numbers, strict=True) if number}


def _as_one(columns: list[Integers]) -> Integers:
    """Return one integer per row, equal where the rows are equal."""
    keys = columns[0]
    for column in columns[1:]:
        low, high = int(column.min()), int(column.max())
        if int(np.abs(keys).max()) * (high - low + 1) > _MAX_VALUE:
            keys = np.unique(keys, return_inverse=True)[1].reshape(-1).astype(np.int64)
        keys = keys * (high - low + 1) + (column - low)
    return keys


def _too_wide() -> BudgetError:
    what = "dims that interact have coordinates beyond what is listed"
    return BudgetError(Mistake("PM497", what, "Smaller extents would help."))


def _too_many(length: int) -> BudgetError:
    what = f"dims that interact have {length:,} points together, more than the {TUNING.most_points:,} that are listed"
    return BudgetError(Mistake("PM498", what, "Smaller extents, or constraints that join fewer dims, would help."))
