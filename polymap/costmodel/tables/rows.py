"""Rows of tiles in which chains of tiles recur: what depends on a few loops is counted once per chain, not per row."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple, Protocol

import numpy as np

from polymap.costmodel.tables.loops import Booleans, Integers, Many

NO_ANSWER = -(2**63)


class Factor(Protocol):
    """What is counted from the tiles of a few loops. columns: of these loops. alone: whether it is costly, and never to
    be counted twice for the same tiles."""

    @property
    def columns(self) -> tuple[int, ...]: ...

    @property
    def alone(self) -> bool: ...

    def count(self, tiles: Sequence[Integers]) -> Many:
        """Return the values for the tiles, NO_ANSWER where there is none; tiles: of the columns."""
        ...


class _Chains(NamedTuple):
    """tiles: per column those of each distinct chain. which: the chain of each row."""

    tiles: list[Integers]
    which: Integers


class _Counted(NamedTuple):
    """values: per chain, or one number where all are equal. failed: of which chains there is none."""

    values: Many
    failed: Booleans | None

    @staticmethod
    def of(found: Many) -> _Counted:
        values = np.atleast_1d(np.asarray(found))
        failed = values == NO_ANSWER
        if failed.any():
            return _Counted(np.where(failed, 0, values), np.broadcast_to(failed, values.shape))
        first = int(values[0])
        return _Counted(first if (values == first).all() else values, None)


class Rows:
    """Columns of tiles, none larger than the enclosing one. `move` chooses the rows that `values` then speaks of.

    failed: which of these rows had no answer so far.
    """

    __slots__ = ("_chains", "_counted", "_here", "_stretch", "_tiles", "failed", "number")

    def __init__(self, tiles: list[Integers], factors: int) -> None:
        self._tiles = tiles
        self.number = len(tiles[0]) if tiles else 0
        self._chains: dict[tuple[tuple[int, ...], bool], _Chains | None] = {}
        self._counted: list[_Counted | None] = [None] * factors
        self._here: list[Many | None] = []
        self.move(slice(0, self.number))

    def move(self, stretch: slice) -> None:
        self._stretch = stretch
        self._here = [None] * len(self._counted)
        self.failed: Booleans = np.zeros(stretch.stop - stretch.start, dtype=np.bool_)

    def values(self, number: int, factor: Factor) -> Many:
        """Return the factor's values, one number where all are equal."""
        found = self._here[number]
        if found is None:
            found = self._here[number] = self._looked_up(number, factor)
        return found

    def _looked_up(self, number: int, factor: Factor) -> Many:
        columns = factor.columns
        chains = self._chains_of(columns, alone=factor.alone)
        if chains is None:
            return factor.count([self._tiles[column][self._stretch] for column in columns])
        counted = self._counted[number]
        if counted is None:
            counted = self._counted[number] = _Counted.of(factor.count(chains.tiles))
        if counted.failed is not None:
            self.failed |= counted.failed[chains.which[self._stretch]]
        if isinstance(counted.values, int):
            return counted.values
        return counted.values[chains.which[self._stretch]]

    def _chains_of(self, columns: tuple[int, ...], *, alone: bool) -> _Chains | None:
        """Return the distinct chains of some columns, or None where nearly all rows differ."""
        key = (columns, alone)
        if key not in self._chains:
            self._chains[key] = self._distinct(columns, alone=alone)
        return self._chains[key]

    def _distinct(self, columns: tuple[int, ...], *, alone: bool) -> _Chains | None:
        tiles = [self._tiles[column] for column in columns]
        lows = [int(each.min()) for each in tiles]
        ranges = [int(each.max()) - low + 1 for each, low in zip(tiles, lows, strict=True)]
        size = prod(ranges)
        if size > 2**62:
            if not alone:
                return None
            table, which = np.unique(np.stack(tiles, axis=1), axis=0, return_inverse=True)
            return _Chains(list(np.ascontiguousarray(table.T)), which.reshape(-1))
        few = size <= max(2 * self.number, 1 << 12)
        if not (few or alone):
            return None
        keys = np.zeros(self.number, dtype=np.int64)
        for each, low, room in zip(tiles, lows, ranges, strict=True):
            keys = keys * room + (each - low)
        if few:
            seen = np.zeros(size, dtype=np.bool_)
            seen[keys] = True
            found = np.flatnonzero(seen)
            which = (np.cumsum(seen) - 1)[keys]
        else:
            found, which = np.unique(keys, return_inverse=True)
        if not alone and 2 * len(found) > self.number:
            return None
        distinct: list[Integers] = []
        for low, room in zip(reversed(lows), reversed(ranges), strict=True):
            found, digits = np.divmod(found, room)
            distinct.append(digits + low)
        return _Chains(distinct[::-1], which)
