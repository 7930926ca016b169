"""Numbers of siblings at work along each dim, in ranges that no count of visits distinguishes.

`c[class][dim]` is the number of siblings along a dim, over the fan-outs of one class, with work in the first step of
the first parent instance (which has the most). ceil(n / (c t)) is the same for every c with the same ceil(n / c), for
all t, so such numbers form one range. For n = 10 they are 1, 2, 3, 4, 5..9 and 10. A bound takes the least number of a
range where siblings cost, the largest where they share. So it also bounds boxes of structures, less tightly the wider
they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.poly import count_type
from polymap.search.any_size.tuning import TUNING
from polymap.search.problem import Factor, FanoutClass, IntArray, Problem, quotients

Range = tuple[int, int]


def canonical_ranges(extent: int, most: int, ratio: float = 1.0) -> tuple[Range, ...]:
    """Return the ranges of numbers of siblings, up to `most`, with the same ceil(extent / number).

    Those within `ratio` of each other are joined.
    """
    found: list[Range] = []
    low = 1
    while low <= min(extent, most):
        shares = -(-extent // low)
        high = extent if shares == 1 else (extent - 1) // (shares - 1)
        high = min(high, most)
        if found and high <= found[-1][0] * ratio:
            found[-1] = found[-1][0], high
        else:
            found.append((low, high))
        low = high + 1
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class CountRows:
    """Ranges of sibling counts of one class: low, high [row, dim]. is_exact: no two canonical ranges are joined."""

    low: IntArray
    high: IntArray
    is_exact: bool


def class_rows(problem: Problem, one: FanoutClass) -> CountRows:
    """Return the vectors of ranges that the fan-outs of a class can have and that rules about factors allow, at most
    about as many as are tabulated."""
    for ratio in TUNING.joined_ratios:
        found = _rows(problem, one, ratio)
        if found is not None:
            low, high = found
            kept = _is_left(problem, one, low, high)
            return CountRows(low[kept], high[kept], is_exact=ratio == 1.0)
    raise AssertionError("one range per dim is few enough")


def _is_left(problem: Problem, one: FanoutClass, low: IntArray, high: IntArray) -> NDArray[np.bool_]:
    """Return a mask of the vectors that the rules about factors allow.

    Siblings over one fan-out are at most all siblings, and equal to them if it is the only one.
    """
    kept: NDArray[np.bool_] = np.ones(len(low), dtype=np.bool_)
    names = {problem.arch.fanouts[f].name for f in one.fanouts}
    for rule in problem.rules:
        if isinstance(rule, Factor) and rule.fanout in names:
            d = problem.dims.index(rule.dim)
            kept &= np.asarray(high[:, d] >= rule.least, dtype=np.bool_)
            if rule.most is not None and len(names) == 1:
                kept &= np.asarray(low[:, d] <= rule.most, dtype=np.bool_)
    return kept


def _rows(problem: Problem, one: FanoutClass, ratio: float) -> tuple[IntArray, IntArray] | None:
    """Return (low, high) of the vectors, None where they are too many.

    Along each dim a count c needs factors, one per fan-out, whose product is c or more. The factors' remaining budgets
    are tracked for all vectors together.
    """
    sizes = [problem.arch.fanouts[f].size for f in one.fanouts]
    budgets = [quotients(size) for size in sizes[:-1]]
    states = list(product(*budgets))
    kind = count_type(max([*problem.extents, *sizes, 1]) ** 2)
    left: IntArray = np.zeros((1, len(states)), dtype=kind)
    left[0, states.index(tuple(sizes[:-1]))] = sizes[-1]
    low: IntArray = np.zeros((1, 0), dtype=kind)
    high = low
    for dim, extent in zip(problem.dims, problem.extents, strict=True):
        free = [problem.arch.fanouts[f].may_spread(dim) for f in one.fanouts]
        most = prod(size for size, may in zip(sizes, free, strict=True) if may)
        parts: list[tuple[IntArray, IntArray, IntArray]] = []
        count = 0
        for first, last in canonical_ranges(extent, most, ratio):
            after = _budgets_after(left, states, first, free)
            kept = np.flatnonzero(after.max(axis=1) > 0)
            count += len(kept)
            if count > TUNING.most_rows:
                return None
            column = np.ones((len(kept), 1), dtype=kind)
            parts.append((np.hstack([low[kept], first * column]), np.hstack([high[kept], last * column]), after[kept]))
        low, high, left = (np.concatenate(each) for each in zip(*parts, strict=True))
    return low, high


def _budgets_after(left: IntArray, states: list[tuple[int, ...]], count: int, free: Sequence[bool]) -> IntArray:
    """Return each vector's remaining budgets after a dim takes factors whose product is at least `count`."""
    places = {state: place for place, state in enumerate(states)}
    least = [1, *(share + 1 for share in reversed(quotients(count - 1)))]  # ceil(count / n), n = 1, 2, ...
    found = np.zeros_like(left)
    for place, state in enumerate(states):
        choices = [[n for n in least if n <= b] if may else [1] for b, may in zip(state, free[:-1], strict=True)]
        for factors in product(*choices):
            last = -(-count // prod(factors))
            if last > 1 and not free[-1]:
                continue
            target = places[tuple(b // f for b, f in zip(state, factors, strict=True))]
            np.maximum(found[:, target], left[:, place] // last, out=found[:, target])
    return found
