"""How the dims of a product may be spread over the fan-outs: one array of all structures, and one of them in full."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.search.dividing.product_tuning import TUNING
from polymap.search.problem import Factor, Problem, Structure, divisors

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """All structures: classes[structure][class][dim], as in Structure.classes."""

    problem: Problem
    classes: Rows

    def structure(self, number: int) -> Structure:
        """Return a structure, with the first split of its factors over the fan-outs of each class."""
        factors: dict[int, tuple[int, ...]] = {}
        for one, row in zip(self.problem.classes, self.classes[number], strict=True):
            choices = [_rows(_choices(self.problem, f), self.problem.arch.fanouts[f].size) for f in one.fanouts]
            split = _split(choices, row)
            assert split is not None, "every row is a product of vectors"
            factors.update(zip(one.fanouts, split, strict=True))
        classes = tuple(tuple(row) for row in self.classes[number].tolist())
        return Structure(tuple(factors[f] for f in sorted(factors)), classes)


def spread_of(problem: Problem) -> Spread | None:
    """Return every structure whose factors divide the extents and meet the rules (None: they are too many, or
    none)."""
    extents = np.array(problem.extents, dtype=np.int64)
    found, products = np.zeros((1, 0, len(extents)), dtype=np.int64), np.ones((1, len(extents)), dtype=np.int64)
    for one in problem.classes:
        rows = np.ones((1, len(extents)), dtype=np.int64)
        for f in one.fanouts:
            own = _rows(_choices(problem, f), problem.arch.fanouts[f].size)
            if len(rows) * len(own) > TUNING.most_spread:
                return None
            left, right = _pairs(rows, own, extents)
            rows = _distinct(rows[left] * own[right], extents)
        if len(products) * len(rows) > TUNING.most_spread:
            return None
        left, right = _pairs(products, rows, extents)
        found = np.concatenate([found[left], rows[right, None, :]], axis=1)
        products = products[left] * rows[right]
    return Spread(problem, found) if len(found) else None


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
    grid = np.ix_(*(np.array(own, dtype=np.int64) for own in choices))
    total = grid[0]
    for axis in grid[1:]:
        fits = total <= size // axis  # asked first: the product may be beyond int64
        total = np.where(fits, total * axis, size + 1)
    places = np.nonzero(total <= size)
    return np.column_stack([axis.ravel()[place] for axis, place in zip(grid, places, strict=True)])


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


def _pairs(left: Rows, right: Rows, extents: Rows) -> tuple[Rows, Rows]:
    """Return the pairs of rows, by number, whose products divide the extents."""
    ok: NDArray[np.bool_] = np.ones((len(left), len(right)), dtype=np.bool_)
    for d, extent in enumerate(extents.tolist()):
        ok &= extent % (left[:, None, d] * right[None, :, d]) == 0
    a, b = np.nonzero(ok)
    return a, b


def _split(choices: list[Rows], row: Rows) -> tuple[tuple[int, ...], ...] | None:
    """Return the first vectors, one per list, whose product is `row` (None: there are none)."""
    if len(choices) <= 1:
        own = (choices[0] == row).all(axis=1) if choices else row == 1
        return (tuple(row.tolist()),) if choices and own.any() else () if not choices and own.all() else None
    for own in choices[0][(row % choices[0] == 0).all(axis=1)]:
        rest = _split(choices[1:], row // own)
        if rest is not None:
            return (tuple(own.tolist()), *rest)
    return None
