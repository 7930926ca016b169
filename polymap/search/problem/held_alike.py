"""Lower bounds on latency, EDP and the like, tensor by tensor, where all components see the same levels hold a tensor.

A component is the transfers of one level. Its least chain of levels that hold a tensor is another one than that of the
next: an output that an accumulator holds costs the buffer above little, and one that it does not hold costs the
accumulator nothing. No mapping has both. So the value is taken for each choice of chains, and the least counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from polymap.poly import Arithmetic
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
    least: NDArray[np.float64] = np.full(len(cycles), inf)
    for choice in product(*(range(len(one[0])) for one in tensors[:joined])):
        chosen = [tuple(chains[n] for chains in one) for n, one in zip(choice, tensors[:joined], strict=True)]
        costs = [*chosen, *rest]
        fits: NDArray[np.bool_] = np.ones(len(cycles), dtype=np.bool_)
        for one in costs:
            fits &= arithmetics[0].possible(one[0])
        if not fits.any():
            continue
        parts = [np.where(fits, sum(one[c] for one in costs), 0).astype(np.float64) for c in range(len(arithmetics))]
        least = np.where(fits, np.minimum(least, lower_values(measure, parts, cycles)), least)
    return [None if value == inf else ceil(max(value, 0.0)) for value in least.tolist()]
