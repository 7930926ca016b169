"""Sums of products of factors: planned once for a tree, evaluated for many mappings.

Chains of tiles recur among the rows of a table. A factor depends on the tiles of few loops, so it is counted once per
distinct chain instead of once per row; factors that differ only in their loops (of p + r and of q + s) together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple, Protocol

import numpy as np

from polymap.costmodel.tables.loops import Booleans, Integers, Many

NO_ANSWER = -(2**63)


class Source(Protocol):
    """Several counts that are found together."""

    def counts(self, tiles: Sequence[Integers]) -> dict[str, Many]:
        """Return the values by name, as `Factor.count` does."""
        ...


class Factor(Protocol):
    """A count that depends on the tiles of a few loops. columns: of these loops. alone: costly, so count distinct tiles
    once. source: what counts it along with others, under a name (these are alone)."""

    @property
    def columns(self) -> tuple[int, ...]: ...

    @property
    def alone(self) -> bool: ...

    @property
    def source(self) -> tuple[Source, str] | None: ...

    def count(self, tiles: Sequence[Integers]) -> Many:
        """Return the value per row of tiles, NO_ANSWER where there is none. tiles: of the columns."""
        ...

    def of_first_columns(self) -> Factor:
        """Return the count with the columns 0, 1, ... in place of its own."""
        ...


class Group(NamedTuple):
    """Factors that count alike from different columns. factor: of the columns 0, 1, ... columns: of each of them."""

    factor: Factor
    columns: tuple[tuple[int, ...], ...]


class Grouping(NamedTuple):
    """places: per factor, its group and its number there."""

    groups: tuple[Group, ...]
    places: tuple[tuple[int, int], ...]


class _Chains(NamedTuple):
    """tiles: per column those of each distinct chain of a group. which: the chain of each [factor, row]."""

    tiles: list[Integers]
    which: Integers


class _ChainValues(NamedTuple):
    """values: per chain, or one number where all are equal. failed: a mask of chains without an answer; None: all have
    one."""

    values: Many
    failed: Booleans | None

    @staticmethod
    def of(found: Many) -> _ChainValues:
        values = np.atleast_1d(np.asarray(found))
        failed = values == NO_ANSWER
        if failed.any():
            return _ChainValues(np.where(failed, 0, values), np.broadcast_to(failed, values.shape))
        first = int(values[0])
        return _ChainValues(first if (values == first).all() else values, None)


class Rows:
    """Columns of tiles, each at most the enclosing one. `move` selects the rows for which `values` answers.

    failed: a mask of the selected rows without an answer so far.
    """

    __slots__ = ("_chains", "_counted", "_grouping", "_here", "_sources", "_stretch", "_tiles", "failed", "number")

    def __init__(self, tiles: list[Integers], grouping: Grouping) -> None:
        self._tiles, self._grouping = tiles, grouping
        self.number = len(tiles[0]) if tiles else 0
        self._chains: dict[tuple[tuple[tuple[int, ...], ...], bool], _Chains | None] = {}
        self._counted: list[_ChainValues | None] = [None] * len(grouping.groups)
        self._sources: dict[tuple[Source, tuple[tuple[int, ...], ...]], dict[str, Many]] = {}
        self._here: list[Many | None] = []
        self.move(slice(0, self.number))

    def move(self, stretch: slice) -> None:
        self._stretch = stretch
        self._here = [None] * len(self._grouping.places)
        self.failed: Booleans = np.zeros(stretch.stop - stretch.start, dtype=np.bool_)

    def tiles(self) -> list[Integers]:
        """Return the selected rows."""
        return [tile[self._stretch] for tile in self._tiles]

    def values(self, number: int) -> Many:
        """Return the values of a factor; one number where all are equal."""
        found = self._here[number]
        if found is None:
            found = self._here[number] = self._values_of(*self._grouping.places[number])
        return found

    def _values_of(self, number: int, place: int) -> Many:
        group = self._grouping.groups[number]
        chains = self._chains_of(group.columns, alone=group.factor.alone)
        if chains is None:
            return group.factor.count([self._tiles[column][self._stretch] for column in group.columns[place]])
        counted = self._counted[number]
        if counted is None:
            counted = self._counted[number] = _ChainValues.of(self._count(group, chains.tiles))
        which = chains.which[place, self._stretch]
        if counted.failed is not None:
            self.failed |= counted.failed[which]
        if isinstance(counted.values, int):
            return counted.values
        return counted.values[which]

    def _count(self, group: Group, tiles: Sequence[Integers]) -> Many:
        if group.factor.source is None:
            return group.factor.count(tiles)
        source, name = group.factor.source
        key = (source, group.columns)
        if key not in self._sources:
            self._sources[key] = source.counts(tiles)
        return self._sources[key][name]

    def _chains_of(self, columns: tuple[tuple[int, ...], ...], *, alone: bool) -> _Chains | None:
        """Return the distinct chains of the columns of a group, or None where nearly all rows differ."""
        key = (columns, alone)
        if key not in self._chains:
            self._chains[key] = self._distinct(columns, alone=alone)
        return self._chains[key]

    def _distinct(self, columns: tuple[tuple[int, ...], ...], *, alone: bool) -> _Chains | None:
        tiles: list[Integers] = []
        for at in range(len(columns[0])):
            tiles.append(np.concatenate([self._tiles[own[at]] for own in columns]))
        number, shape = len(columns) * self.number, (len(columns), self.number)
        lows = [int(each.min()) for each in tiles]
        ranges = [int(each.max()) - low + 1 for each, low in zip(tiles, lows, strict=True)]
        size = prod(ranges)
        if size > 2**62:
            if not alone:
                return None
            table, which = np.unique(np.stack(tiles, axis=1), axis=0, return_inverse=True)
            return _Chains(list(np.ascontiguousarray(table.T)), which.reshape(shape))
        few = size <= max(2 * number, 1 << 12)
        if not (few or alone):
            return None
        keys = np.zeros(number, dtype=np.int64)
        for each, low, room in zip(tiles, lows, ranges, strict=True):
            keys = keys * room + (each - low)
        if few:
            seen = np.zeros(size, dtype=np.bool_)
            seen[keys] = True
            found = np.flatnonzero(seen)
            which = (np.cumsum(seen) - 1)[keys]
        else:
            order = np.argsort(keys, kind="stable")
            found, which = keys[order], np.empty_like(keys)
            new = np.diff(found, prepend=found[0] - 1) > 0
            found, which[order] = found[new], np.cumsum(new) - 1
        if not alone and 2 * len(found) > number:
            return None
        distinct: list[Integers] = []
        for low, room in zip(reversed(lows), reversed(ranges), strict=True):
            found, digits = np.divmod(found, room)
            distinct.append(digits + low)
        return _Chains(distinct[::-1], which.reshape(shape))


Term = tuple[int, tuple[int, ...]]  # coefficient, numbers of factors


class Terms:
    """A sum of terms that can be added, subtracted, and multiplied by integers."""

    __slots__ = ("each",)

    def __init__(self, each: Iterable[Term] = ()) -> None:
        self.each = tuple(each)

    def __add__(self, other: Terms) -> Terms:
        return Terms((*self.each, *other.each))

    def __sub__(self, other: Terms) -> Terms:
        return self + other * -1

    def __mul__(self, coefficient: int) -> Terms:
        return Terms((coefficient * each, numbers) for each, numbers in self.each)

    def __bool__(self) -> bool:
        return bool(self.each)


NO_TERMS = Terms()


class Numbering:
    """The factors of a plan, numbered."""

    __slots__ = ("_numbers", "known")

    def __init__(self) -> None:
        self._numbers: dict[tuple[type, Factor], int] = {}
        self.known: list[Factor] = []

    def term(self, parts: Iterable[Factor | int]) -> Term:
        """Return the product of factors and integers."""
        coefficient = 1
        numbers: list[int] = []
        for part in parts:
            if isinstance(part, int):
                coefficient *= part
            else:
                numbers.append(self._number(part))
        return coefficient, tuple(sorted(numbers))

    def _number(self, factor: Factor) -> int:
        key = (type(factor), factor)
        if key not in self._numbers:
            self._numbers[key] = len(self.known)
            self.known.append(factor)
        return self._numbers[key]

    def grouping(self) -> Grouping:
        """Return the factors in groups that are counted together."""
        numbers: dict[tuple[type, Factor], int] = {}
        columns: list[list[tuple[int, ...]]] = []
        places: list[tuple[int, int]] = []
        for factor in self.known:
            key = (type(factor), factor.of_first_columns())
            group = numbers.setdefault(key, len(numbers))
            if group == len(columns):
                columns.append([])
            places.append((group, len(columns[group])))
            columns[group].append(factor.columns)
        groups = (Group(factor, tuple(each)) for (_, factor), each in zip(numbers, columns, strict=True))
        return Grouping(tuple(groups), tuple(places))


class NestedSum(NamedTuple):
    """constant + the sum of factor * inner over the branches."""

    constant: int
    branches: tuple[tuple[int, NestedSum], ...]


def nest_terms(terms: Terms) -> NestedSum:
    """Return the sum with common factors factored out, the most frequent first."""
    merged: dict[tuple[int, ...], int] = {}
    for coefficient, numbers in terms.each:
        merged[numbers] = merged.get(numbers, 0) + coefficient
    return _nest_left([(coefficient, numbers) for numbers, coefficient in merged.items() if coefficient])


def _nest_left(left: list[Term]) -> NestedSum:
    constant = sum(coefficient for coefficient, numbers in left if not numbers)
    left = [term for term in left if term[1]]
    branches: list[tuple[int, NestedSum]] = []
    while left:
        common: dict[int, int] = {}
        for _, numbers in left:
            for number in set(numbers):  # any order: it counts
                common[number] = common.get(number, 0) + 1
        number = max(common, key=lambda each: (common[each], -each))
        inside = [(coefficient, _without(numbers, number)) for coefficient, numbers in left if number in numbers]
        left = [term for term in left if number not in term[1]]
        branches.append((number, _nest_left(inside)))
    return NestedSum(constant, tuple(branches))


def _without(numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
    at = numbers.index(number)
    return numbers[:at] + numbers[at + 1 :]


def evaluate_sum(plan: NestedSum, rows: Rows) -> Many:
    """Return the value of a sum for the selected rows."""
    total: Many = plan.constant
    for number, inner in plan.branches:
        value = rows.values(number)
        if isinstance(value, int) and value == 0:
            continue
        rest = evaluate_sum(inner, rows)
        if isinstance(rest, int) and rest in (0, 1):
            product = value if rest else 0
        else:
            product = value * rest
        total = product if isinstance(total, int) and total == 0 else total + product
    return total
