"""The fewest steps that a box of statement instances takes: the best way to share fan-outs among its dims.

Spreading n indices over c siblings leaves ceil(n / c) steps to the first of them, and spreading over c' and then c
leaves ceil(n / (c c')). The factors of one fan-out have a product of at most its size. So a box takes at least the
least product of ceil(n / c) over all such factors: for tiles of any size, and for those that divide as well. Mappings
in which some siblings are idle use as many, and take no fewer steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import product
from math import isqrt, prod

import numpy as np
from numpy.typing import NDArray

from polymap.ir import Architecture
from polymap.poly import count_type
from polymap.search.problem.lattice import IntArray, divisors
from polymap.search.problem.problem import TUNING
from polymap.search.problem.rules import Factor, Rules

Range = tuple[int, int]


def least_steps(box: Mapping[str, int], arch: Architecture, rules: Rules = (), *, divides: bool = False) -> int | None:
    """Return the fewest steps of a box of these extents; None: the rules about factors are infeasible. divides: over
    tiles that divide, for which each factor, and those of a dim together, divide its extent."""
    bounds = {(rule.fanout, rule.dim): rule for rule in rules if isinstance(rule, Factor)}
    ranges: list[tuple[Range, ...]] = []
    for dim in box:
        own: list[Range] = []
        for fanout in arch.fanouts:
            rule = bounds.get((fanout.name, dim))
            most = fanout.size if rule is None or rule.most is None else rule.most
            own.append((1 if rule is None else rule.least, most if fanout.may_spread(dim) else 1))
        ranges.append(tuple(own))
    return _fewest_steps(
        tuple(box.values()), tuple(fanout.size for fanout in arch.fanouts), tuple(ranges), divides=divides
    )


def quotients(size: int) -> list[int]:
    """Return the positive values of size // n for n = 1, 2, ..., falling."""
    found: list[int] = []
    n = 1
    while n <= size:
        found.append(size // n)
        n = size // found[-1] + 1
    return found


@lru_cache(maxsize=256)
def _fewest_steps(
    extents: tuple[int, ...], sizes: tuple[int, ...], ranges: tuple[tuple[Range, ...], ...], *, divides: bool
) -> int | None:
    """Return the fewest steps, by dynamic programming over the dims: its states are what is left of each fan-out."""
    if prod(map(isqrt, sizes)) > TUNING.most_sharings:  # a number n has at least isqrt(n) quotients
        return -(-prod(extents) // prod(sizes))
    states = list(product(*map(quotients, sizes)))
    if len(states) > TUNING.most_sharings:
        return -(-prod(extents) // prod(sizes))
    left: IntArray = np.array(states, dtype=np.int64).reshape(len(states), len(sizes))
    steps: IntArray = np.ones(len(left), dtype=count_type(prod(extents) + 1))
    met: NDArray[np.bool_] = np.ones(len(left), dtype=np.bool_)
    for extent, own in zip(extents, ranges, strict=True):
        siblings, fits = _siblings(left, own, np.array(divisors(extent) if divides else (), np.int64))
        fits &= met[:, None]
        each = np.where(fits, steps[:, None] * -(-extent // siblings.astype(steps.dtype)), prod(extents) + 1)
        met = np.any(fits, axis=0)
        steps = np.where(met, np.min(each, axis=0), 1)
    return int(steps[met].min()) if met.any() else None


def _siblings(left: IntArray, ranges: tuple[Range, ...], among: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
    """Return over how many siblings a dim is spread at most from one state to another [before, after], 1 where that
    cannot be, and where it can be. among: numbers of siblings, on a fan-out and on all of them (none: any)."""
    found: IntArray = np.ones((len(left), len(left)), dtype=np.int64)
    fits: NDArray[np.bool_] = np.ones(found.shape, dtype=np.bool_)
    for own, (low, top) in zip(left.T, ranges, strict=True):
        factor = _largest(among, np.minimum(own[:, None] // own[None, :], top))
        fits &= factor >= low
        found = found * np.maximum(factor, 1)
    return _largest(among, found), fits


def _largest(among: IntArray, most: IntArray) -> IntArray:
    """Return the largest of some numbers that are no more than others, 0 where there is none; of no numbers these."""
    if not len(among):
        return most
    at = np.searchsorted(among, most, side="right")
    return np.where(at > 0, among[np.maximum(at, 1) - 1], 0)
