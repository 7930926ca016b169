"""Lower bounds on latency, EDP and the like, tensor by tensor, where all components see the same levels hold a tensor.

A component is the transfers of one level. Its least chain of levels that hold a tensor is another one than that of the
next: an output that an accumulator holds costs the buffer above little, and one that it does not hold costs the
accumulator nothing. No mapping has both. So the value is taken for each choice of chains, and the least counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from polymap.poly import Arithmetic, FloatArray
from polymap.search.problem.float_bounds import has_estimate, lower_values
from polymap.search.problem.lattice import IntArray
from polymap.search.problem.measure import Measure
from polymap.search.problem.problem import TUNING

Chains = Sequence[Sequence[IntArray]]  # per component, per chain of levels: what one tensor costs


def sees_all_at_once(measure: Measure, arithmetics: Sequence[Arithmetic], cycles: int) -> bool:
    """Return whether `joint_values` says something of a measure. cycles: of compute, at most."""
    are_floats = all(one.limit.bit_length() <= TUNING.most_bits for one in arithmetics)
    return are_floats and has_estimate(measure, cycles)


def joint_values(
    measure: Measure, arithmetics: Sequence[Arithmetic], tensors: Sequence[Chains], cycles: IntArray
) -> list[int | None]:
    """Return lower bounds on the objective (scaled), one per entry of the arrays; None where some tensor fits nowhere.

    arithmetics: per component. tensors: those whose chains matter most first, since only so many choices are looked at.
    The other tensors have the least chain of each component. cycles: of compute.
    """
    joined, choices = 0, 1
    while joined < len(tensors) and choices * len(tensors[joined][0]) <= TUNING.most_choices:
        choices *= len(tensors[joined][0])
        joined += 1
    rest = [tuple(np.minimum.reduce(list(chains)) for chains in one) for one in tensors[joined:]]
    every: list[list[tuple[IntArray, ...]]] = [list(zip(*one, strict=True)) for one in tensors[:joined]]

    def together() -> Iterator[tuple[NDArray[np.bool_], list[IntArray]]]:
        for chosen in product(*every):
            costs = [*chosen, *rest]
            fits: NDArray[np.bool_] = np.logical_and.reduce([arithmetics[0].possible(one[0]) for one in costs])
            if fits.any():
                yield fits, [np.where(fits, sum(one[c] for one in costs), 0) for c in range(len(arithmetics))]

    lower: list[FloatArray] = [np.full(len(cycles), inf)]
    for fits, parts in together():
        values = lower_values(measure, [part.astype(np.float64) for part in parts], cycles)
        lower.append(np.where(fits, np.minimum(values, np.finfo(np.float64).max), inf))
    least = np.minimum.reduce(lower)
    found = [None if value == inf else ceil(max(value, 0.0)) for value in least.tolist()]
    is_rounded = (least > TUNING.whole_floats) & (least < inf)
    if is_rounded.any():
        found = _exact_bounds(measure, found, is_rounded, lower, (parts for _, parts in together()), cycles)
    return found


def _exact_bounds(
    measure: Measure,
    found: list[int | None],
    is_rounded: NDArray[np.bool_],
    lower: Sequence[FloatArray],
    choices: Iterator[list[IntArray]],
    cycles: IntArray,
) -> list[int | None]:
    """Return the bounds with those that rounding lowered as they are: the least choices are valued exactly, so that a
    mapping that attains the bound is proven. lower: infinities, and per choice what its values are at least."""
    with np.errstate(over="ignore"):
        near = np.minimum(np.minimum.reduce(lower) * (1 + TUNING.rounding), np.finfo(np.float64).max)
    others = np.minimum.reduce([np.where(own > near, own, inf) for own in lower])
    exact: list[int | None] = [ceil(each) if each < inf else None for each in others.tolist()]
    known = dict[tuple[int, ...], int]()
    for own, parts in zip(lower[1:], choices, strict=True):
        at = np.flatnonzero(is_rounded & (own <= near))
        keys: list[tuple[int, ...]] = list(zip(*(part[at].tolist() for part in (*parts, cycles)), strict=True))
        places: list[int] = at.tolist()
        for place, key in zip(places, keys, strict=True):
            if key not in known:
                known[key] = measure.value(key[:-1], key[-1])
            before = exact[place]
            exact[place] = known[key] if before is None else min(before, known[key])
    return [better if rounded else own for own, better, rounded in zip(found, exact, is_rounded.tolist(), strict=True)]
