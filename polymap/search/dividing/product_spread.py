"""How the dims of a product may be spread over the fan-outs: first the kinds of structures, then those of some kinds.

Structures of one kind spread the dims alike between the same levels: tiles and the room that they take are equal. Which
of them costs least depends on what the fan-outs merge. None costs less than their kind would on a machine whose
fan-outs between two levels are one that merges whatever any of them does: so kinds are listed and bounded there, and
structures only of kinds that may win. Energy per hop depends on the order of fan-outs: there each structure is a kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.resources import OutOfTime, Stop
from polymap.search.dividing.product_tuning import TUNING
from polymap.search.problem import Factor, FanoutClass, IntArray, Problem, Structure, divisors

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SpreadTables:
    """Structures: classes[structure][class][dim], as in Structure.classes."""

    problem: Problem
    classes: Rows

    def structure(self, number: int) -> Structure:
        """Return a structure, with the first split of its factors over the fan-outs of each class."""
        factors: dict[int, tuple[int, ...]] = {}
        for one, row in zip(self.problem.classes, self.classes[number], strict=True):
            split = _split_row(self.problem, one.fanouts, tuple(row.tolist()))
            assert split is not None, "every row is a product of vectors"
            factors.update(zip(one.fanouts, split, strict=True))
        classes = tuple(tuple(row) for row in self.classes[number].tolist())
        return Structure(tuple(factors[f] for f in sorted(factors)), classes)


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """All kinds as structures of a machine that merges more (the machine itself where each structure is a kind).
    groups: the classes that are one there; rows: of each class, what its fan-outs may have."""

    problem: Problem
    spread: SpreadTables
    groups: tuple[tuple[int, ...], ...]
    rows: tuple[Rows, ...]

    @property
    def are_structures(self) -> bool:
        """Return whether each kind is one structure."""
        return all(len(own) == 1 for own in self.groups)

    def members(self, numbers: IntArray) -> tuple[SpreadTables, IntArray]:
        """Return the structures of some kinds, with the place in `numbers` of each one's kind."""
        kind, found = np.arange(len(numbers)), np.zeros((len(numbers), 0, len(self.problem.dims)), dtype=np.int64)
        for group, whole in zip(self.groups, self.spread.classes[numbers].transpose(1, 0, 2), strict=True):
            left = whole[kind]
            for place, one in enumerate(group[:-1], 1):
                most, rows = prod(self._size(other) for other in group[place:]), self.rows[one]
                parts: list[tuple[IntArray, IntArray]] = []
                for own, row in _dividing_pairs(left, rows):
                    fits = np.prod(left[own] // rows[row], axis=1) <= most
                    parts.append((own[fits], row[fits]))
                own, row = _join_pairs(parts)
                left, kind = left[own] // rows[row], kind[own]
                found = np.concatenate([found[own], rows[row][:, None, :]], axis=1)
            own = np.flatnonzero(_are_among(left, self.rows[group[-1]]))
            found, kind = np.concatenate([found[own], left[own][:, None, :]], axis=1), kind[own]
        return SpreadTables(self.problem, found), kind

    def _size(self, one: int) -> int:
        return prod(self.problem.arch.fanouts[f].size for f in self.problem.classes[one].fanouts)


def kinds_of_structures(problem: Problem, stop: Stop, *, apart: bool) -> Kinds | None:
    """Return every kind of structures whose factors divide the extents and meet the rules (None: they are too many, or
    none). Some may have no structure. apart: whether each structure is a kind. Raises OutOfTime."""
    own = [(number, number if apart else one.below) for number, one in enumerate(problem.classes)]
    groups = tuple(tuple(number for number, _ in some) for _, some in groupby(own, key=lambda pair: pair[1]))
    extents, rows = np.array(problem.extents, dtype=np.int64), list[Rows]()
    for one in problem.classes:
        found = np.ones((1, len(extents)), dtype=np.int64)
        for f in one.fanouts:
            right = _rows(_choices(problem, f), problem.arch.fanouts[f].size)
            pairs = _pairs(found, right, extents, stop)
            if pairs is None:
                return None
            found = _distinct(found[pairs[0]] * right[pairs[1]], extents)
        rows.append(found)
    classes, products = np.zeros((1, 0, len(extents)), dtype=np.int64), np.ones((1, len(extents)), dtype=np.int64)
    for group in groups:
        right = rows[group[0]] if len(group) == 1 else _merged_rows(problem, [rows[number] for number in group])
        pairs = _pairs(products, right, extents, stop)
        if pairs is None:
            return None
        left, other = pairs
        classes = np.concatenate([classes[left], right[other, None, :]], axis=1)
        products = products[left] * right[other]
    merged = replace(
        problem, classes=tuple(_merge_classes([problem.classes[number] for number in own]) for own in groups)
    )
    return Kinds(problem, SpreadTables(merged, classes), groups, tuple(rows)) if len(classes) else None


def _merge_classes(classes: Sequence[FanoutClass]) -> FanoutClass:
    """Return a class that merges what any of several does."""
    sharing = [one.multicast for one in classes if one.multicast.shares_reads]
    multicast = sharing[0] if sharing else classes[0].multicast
    return FanoutClass(classes[0].below, multicast, any(one.reduction for one in classes), classes[-1].fanouts)


def _merged_rows(problem: Problem, rows: Sequence[Rows]) -> Rows:
    """Return the products that rows of several classes may have, and perhaps a few more: those of which each factor by
    itself is one."""
    choices: list[tuple[int, ...]] = []
    for d, extent in enumerate(problem.extents):
        found = {1}
        for own in rows:
            found = {a * b for a in found for b in np.unique(own[:, d]).tolist() if extent % (a * b) == 0}
        choices.append(tuple(sorted(found)))
    return _rows(tuple(choices), prod(int(np.prod(own, axis=1).max(initial=1)) for own in rows))


def _dividing_pairs(left: Rows, rows: Rows) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield pairs, by number, of which a row divides what is left."""
    step = max(1, TUNING.paired_together // max(1, len(rows)))
    for first in range(0, len(left), step):
        some = left[first : first + step]
        ok: NDArray[np.bool_] = np.ones((len(some), len(rows)), dtype=np.bool_)
        for d in range(left.shape[1]):
            ok &= some[:, d, None] % rows[:, d] == 0
        own, row = np.nonzero(ok)
        yield first + own, row


def _join_pairs(parts: Sequence[tuple[IntArray, IntArray]]) -> tuple[IntArray, IntArray]:
    none = np.zeros(0, dtype=np.int64)
    left, right = ([none, *own] for own in zip(*parts, strict=True)) if parts else ([none], [none])
    return np.concatenate(left), np.concatenate(right)


def _are_among(left: Rows, rows: Rows) -> NDArray[np.bool_]:
    """Return which vectors are among some rows."""
    own, sizes = np.zeros(len(left), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    is_one: NDArray[np.bool_] = np.ones(len(left), dtype=np.bool_)
    for d in range(left.shape[1]):  # numbers of vectors stay below the number of rows squared
        values = np.unique(rows[:, d])
        place = np.minimum(np.searchsorted(values, left[:, d]), len(values) - 1)
        is_one &= values[place] == left[:, d]
        both = np.concatenate([own * len(values) + place, sizes * len(values) + np.searchsorted(values, rows[:, d])])
        both = np.unique(both, return_inverse=True)[1]
        own, sizes = both[: len(left)], both[len(left) :]
    return is_one & np.isin(own, sizes)


def _choices(problem: Problem, fanout: int) -> tuple[tuple[int, ...], ...]:
    """Return per dim the factors that a fan-out may have."""
    one = problem.arch.fanouts[fanout]
    free = (one.may_spread(name) for name in problem.dims)
    found = [
        [v for v in divisors(extent) if v <= one.size] if may else [1]
        for extent, may in zip(problem.extents, free, strict=True)
    ]
    for rule in problem.rules:
        if isinstance(rule, Factor) and rule.fanout == one.name:
            d = problem.dims.index(rule.dim)
            found[d] = [v for v in found[d] if rule.least <= v <= (rule.most or v)]
    return tuple(map(tuple, found))


def _rows(choices: tuple[tuple[int, ...], ...], size: int) -> Rows:
    """Return the vectors, one value per list, whose product is at most `size`."""
    found, total = np.zeros((1, 0), dtype=np.int64), np.ones(1, dtype=np.int64)
    size = min(size, prod(max(own, default=1) for own in choices))  # within int64, as the extents are
    for own in choices:
        values = np.array(own, dtype=np.int64)
        left, right = np.nonzero(values <= size // total[:, None])  # the product may be beyond int64
        found, total = np.column_stack([found[left], values[right]]), total[left] * values[right]
    return found


def _distinct(rows: Rows, extents: Rows) -> Rows:
    """Return each row once. They divide the extents."""
    if len(rows) < 2:
        return rows
    most = rows.max(axis=0)
    if prod(int(m) + 1 for m in most) >= 1 << 62:
        return np.unique(rows, axis=0)
    code = rows[:, 0]
    for d in range(1, len(extents)):
        code = code * (most[d] + 1) + rows[:, d]
    return rows[np.unique(code, return_index=True)[1]]


def _pairs(left: Rows, right: Rows, extents: Rows, stop: Stop) -> tuple[IntArray, IntArray] | None:
    """Return the pairs of rows, by number, whose products divide the extents (None: they are too many). Raises
    OutOfTime."""
    if len(left) == 1 and (left == 1).all():
        return np.zeros(len(right), dtype=np.int64), np.arange(len(right))
    parts, count = list[tuple[IntArray, IntArray]](), 0
    for own, row in _dividing_pairs(extents // left, right):
        if stop():
            raise OutOfTime
        parts.append((own, row))
        count += len(own)
        if count > TUNING.most_spread:
            return None
    return _join_pairs(parts)


def _split_row(problem: Problem, fanouts: tuple[int, ...], row: tuple[int, ...]) -> tuple[tuple[int, ...], ...] | None:
    """Return the first vectors, one per fan-out, whose product is `row` (None: there are none)."""
    choices, size = _choices(problem, fanouts[0]), problem.arch.fanouts[fanouts[0]].size
    if len(fanouts) == 1:
        return (row,) if prod(row) <= size and all(f in own for f, own in zip(row, choices, strict=True)) else None
    for own in _rows(choices, size).tolist():
        if not any(f % factor for f, factor in zip(row, own, strict=True)):
            left = tuple(f // factor for f, factor in zip(row, own, strict=True))
            rest = _split_row(problem, fanouts[1:], left)
            if rest is not None:
                return (tuple(own), *rest)
    return None
