"""The points of a bounded set without existentials, listed by numpy: dim after dim, each between the bounds that the
dims before it leave, the last one only measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import islpy as isl
import numpy as np
from numpy.typing import NDArray

from polymap.errors import BudgetError, Problem
from polymap.poly.budget import integer

_SET = isl.dim_type.set
MAX_POINTS = 20_000_000
_MAX_VALUE = 2**61
_MAX_BOUND = 2**38

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Constraints:
    """rows: coefficients per dim and a constant, each sum >= 0 (an equality is two rows). bounds: of each dim."""

    rows: tuple[tuple[int, ...], ...]
    bounds: tuple[tuple[int, int], ...]

    @staticmethod
    def of(piece: isl.BasicSet) -> Constraints:
        """Return the constraints of a bounded set without existentials that is not empty."""
        rows: list[tuple[int, ...]] = []
        size = piece.dim(_SET)
        for constraint in piece.get_constraints():
            row = [integer(constraint.get_coefficient_val(_SET, position)) for position in range(size)]
            row.append(integer(constraint.get_constant_val()))
            rows.append(tuple(row))
            if constraint.is_equality():
                rows.append(tuple(-number for number in row))
        points = isl.Set.from_basic_set(piece)
        bounds = tuple(
            (integer(points.dim_min_val(position)), integer(points.dim_max_val(position))) for position in range(size)
        )
        return Constraints(tuple(rows), bounds)

    def components(self) -> list[tuple[int, ...]]:
        """Return the dims in groups that no constraint joins, each in order."""
        group = list(range(len(self.bounds)))
        for row in self.rows:
            members = [position for position, number in enumerate(row[:-1]) if number]
            for member in members[1:]:
                old, new = group[member], group[members[0]]
                if old != new:
                    group = [new if each == old else each for each in group]
        found: dict[int, tuple[int, ...]] = {}
        for position, number in enumerate(group):
            found[number] = (*found.get(number, ()), position)
        return list(found.values())

    def about(self, component: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the rows that involve a component."""
        return [row for row in self.rows if any(row[position] for position in component)]


def scan(constraints: Constraints, component: Sequence[int], wanted: Sequence[int]) -> dict[tuple[int, ...], int]:
    """Return the number of points of one component for each value of its dims in `wanted` that has any.

    Raises BudgetError where there are more than MAX_POINTS to list.
    """
    if len(component) == 1:
        low, high = constraints.bounds[component[0]]
        return {(number,): 1 for number in range(low, high + 1)} if wanted else {(): high - low + 1}
    if any(abs(bound) > _MAX_BOUND for position in component for bound in constraints.bounds[position]):
        raise _too_wide()
    rows = constraints.about(component)
    order = _order(constraints, component, rows)
    known: dict[int, Integers] = {}
    length = 1
    for place, position in enumerate(order):
        low, high = _range(constraints, rows, known, order[place + 1 :], position, length)
        sizes = np.maximum(high - low + 1, 0)
        if place == len(order) - 1 and position not in wanted:
            return _summed(known, wanted, sizes)
        length = int(sizes.sum())
        if length > MAX_POINTS:
            raise _too_many(length)
        source = np.repeat(np.arange(len(sizes)), sizes)
        starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        known = {dim: values[source] for dim, values in known.items()}
        known[position] = low[source] + (np.arange(length) - starts)
    return _summed(known, wanted, np.ones(length, dtype=np.int64))


def _order(constraints: Constraints, component: Sequence[int], rows: list[tuple[int, ...]]) -> list[int]:
    """Return the dims in the order of the listing: few values first; what equalities settle as soon as they can."""
    sides = {position: constraints.bounds[position][1] - constraints.bounds[position][0] for position in component}
    equal = [row for row in rows if tuple(-number for number in row) in rows]
    left = set(component)
    order: list[int] = []
    while left:
        settled = [
            position
            for position in left
            for row in equal
            if row[position] and all(not row[other] for other in left if other != position)
        ]
        choice = min(settled or left, key=lambda position: (sides[position], position))
        order.append(choice)
        left.remove(choice)
    return order


def _range(
    constraints: Constraints,
    rows: list[tuple[int, ...]],
    known: dict[int, Integers],
    later: Sequence[int],
    position: int,
    length: int,
) -> tuple[Integers, Integers]:
    """Return, per point so far, the least and largest value of a dim; dims to come may have any value of theirs."""
    least, most = constraints.bounds[position]
    low, high = np.full(length, least, dtype=np.int64), np.full(length, most, dtype=np.int64)
    for row in rows:
        factor = row[position]
        if not factor:
            continue
        slack = row[-1] + sum(
            max(row[other] * bound for bound in constraints.bounds[other]) for other in later if row[other]
        )
        reach = abs(slack) + sum(abs(row[other]) * max(map(abs, constraints.bounds[other])) for other in known)
        if reach + abs(factor) * max(abs(least), abs(most)) > _MAX_VALUE:
            raise _too_wide()
        rest = np.full(length, slack, dtype=np.int64)
        for other, values in known.items():
            if row[other]:
                rest += row[other] * values
        if factor > 0:  # factor * x >= -rest
            np.maximum(low, -(rest // factor), out=low)
        else:  # x <= rest / -factor
            np.minimum(high, rest // -factor, out=high)
    return low, high


def _summed(known: dict[int, Integers], wanted: Sequence[int], sizes: Integers) -> dict[tuple[int, ...], int]:
    """Return the sums of `sizes` per value of the wanted dims."""
    if not wanted:
        total = int(sizes.sum())
        return {(): total} if total else {}
    keys = _joined([known[position] for position in wanted])
    by_key = np.argsort(keys, kind="stable")
    ordered = keys[by_key]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))) if len(keys) else by_key
    totals = np.add.reduceat(sizes[by_key], starts) if len(keys) else sizes
    heads = by_key[starts]
    values = zip(*(known[position][heads].tolist() for position in wanted), strict=True)
    return {value: number for value, number in zip(values, totals.tolist(), strict=True) if number}


def _joined(columns: list[Integers]) -> Integers:
    """Return one integer per row, equal where the rows are equal."""
    keys = columns[0]
    for column in columns[1:]:
        low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        if int(np.abs(keys).max(initial=0)) * (high - low + 1) > _MAX_VALUE:
            keys = np.unique(keys, return_inverse=True)[1].reshape(-1)
        keys = keys * (high - low + 1) + (column - low)
    return keys


def _too_wide() -> BudgetError:
    what = "dims that interact have coordinates beyond what is listed"
    return BudgetError(Problem("PM497", what, "Smaller extents would help."))


def _too_many(length: int) -> BudgetError:
    what = f"dims that interact have {length:,} points together, more than the {MAX_POINTS:,} that are listed"
    return BudgetError(Problem("PM498", what, "Smaller extents, or constraints that join fewer dims, would help."))
