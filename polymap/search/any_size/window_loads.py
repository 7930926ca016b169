"""A lower bound on the elements of a window over the boxes of a grid: sizes of {sum coefficient * index}.

The index sets along each dim may be any partition (siblings may take every other index), so only a fact about sets with
gaps is used: A + B has at least |A| + |B| - 1 elements (integers; Tao and Vu, Additive Combinatorics, lemma 5.3), for
every residue class of B modulo the coefficient of A separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from math import gcd, prod

import numpy as np
from numpy.typing import NDArray

from polymap.search.problem import IntArray

Whole = NDArray[np.bool_]


def fewest_elements(
    coefficients: Sequence[int],
    sizes: Sequence[IntArray],
    visits: Sequence[IntArray],
    is_whole: Sequence[Whole],
) -> IntArray:
    """Return a lower bound on the elements of all boxes of a grid, each box counted separately.

    sizes: indices along each dim. visits: a lower bound on the parts into which they are cut (at most the size).
    is_whole: the parts of a dim form an interval together. The bound increases with every size and number of visits.
    """
    found = _sum_of_sizes(sizes, visits)
    for p, r in permutations(range(len(coefficients)), 2):
        others = [visits[i] for i in range(len(coefficients)) if i not in (p, r)]
        pair = _fewest_of_pair(
            coefficients[p], coefficients[r], (sizes[p], sizes[r]), (visits[p], visits[r]), is_whole[r]
        )
        found = np.maximum(found, prod(others, start=pair))
    return found


def _sum_of_sizes(sizes: Sequence[IntArray], visits: Sequence[IntArray]) -> IntArray:
    """Return the sum over all boxes of (sum of the sides) - (dims - 1)."""
    total = (1 - len(sizes)) * prod(visits[1:], start=visits[0])
    for i, size in enumerate(sizes):
        total = total + prod((visits[j] for j in range(len(sizes)) if j != i), start=size)
    return total


def _fewest_of_pair(
    first: int, second: int, sizes: tuple[IntArray, IntArray], visits: tuple[IntArray, IntArray], is_whole: Whole
) -> IntArray:
    """Return a lower bound for two dims.

    Each residue of the second dim's parts modulo the first's coefficient counts separately: at least one per part, and
    all residues of an interval together.
    """
    modulus = abs(first) // gcd(first, second)
    residues = np.maximum(visits[1], np.where(is_whole, np.minimum(sizes[1], modulus), 1))
    return sizes[0] * residues + visits[0] * (sizes[1] - residues)
