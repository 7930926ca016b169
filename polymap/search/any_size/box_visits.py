"""Products on two levels without fan-outs: whole visits of the boxes that the outermost node makes.

Let X be the tensor whose node has the outermost place (docs/any_tiles.md, "The chain of a tree"), with a box of a x b
in its own dims and T in the dim that it lacks. No node stands above that place, so each dim has at most one loop there,
and the boxes of X along its dims number ceil(n / a) and ceil(m / b). Another tensor Y shares one dim with X, lacks the
other one, and has the dim that X lacks: if an own loop of Y below the place has two iterations or more at an element,
Y loads the element in every box along the dim that it lacks. Elements at which all of these loops have one iteration
lie in a short last box of X along every own dim of Y that such a loop cuts: `_OtherTensor` says how many they are at
most.

Rounding: what fits is decided in integers, and what does not depend on the boxes is summed in integers. Float64 holds
the visits only. With u = 2**-53 and every integer converted within u: a share is off by 7u at most (four conversions,
two divisions, one product) and at most a half, since a last box that is shorter than others has at most half of the
indices; hence visits - share (visits - 1), at least visits / 2, by 13u; with its weight 15u; the sum of up to three
such terms, none negative, by 18u. `_ROUNDING` is 32u.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from math import ceil, inf, isfinite, log, prod

import numpy as np

from polymap.poly import FloatArray
from polymap.search.any_size.tuning import TUNING
from polymap.search.dividing import product_weights
from polymap.search.problem import IntArray, Measure, Problem

MOST_BITS = 1 << 62
"""Of all tensors together: what is held is counted in int64."""
_ROUNDING = Fraction(1, 1 << 48)  # relative, of a sum of visits


@dataclass(frozen=True, slots=True)
class _HeldTensor:
    """A tensor that the buffer holds. lacks: the dim that it lacks. bits: of an element. weight: cost of one visit of
    all of it."""

    lacks: int
    bits: int
    weight: int


@dataclass(frozen=True, slots=True, eq=False)
class _OtherTensor:
    """A tensor whose node is inside the outermost one's boxes, per box.

    visits: its visits. share: an upper bound on the share of its elements that may be visited only once. large_share: a
    larger such share; outermost_visits: a lower bound on the outermost tensor's visits in that case.

    The own loops below the outermost place are over the dim that both tensors have, the dim that the outermost one
    lacks, or both. If the shared dim is not cut below that place, it takes the whole box, which leaves room for few
    indices of the other dim: its last box is no longer. If both are cut, the last boxes of both count. If only the
    shared dim is cut, the tile has all of the outermost one's T indices of the dim that it lacks.
    """

    visits: FloatArray
    share: FloatArray
    large_share: FloatArray
    outermost_visits: FloatArray


def least_on_one_buffer(problem: Problem, measure: Measure) -> int | None:
    """Return a lower bound on the one component of a measure over all mappings.

    None unless the problem is a product of three tensors and dims on two levels without fan-outs, with few enough
    boxes.
    """
    if problem.level_count != 2 or problem.classes or len(problem.terms) != 3 or len(problem.dims) != 3:
        return None
    chains = product_weights(problem, measure)
    if chains is None or any(len(term.dims) != 2 for term in problem.terms) or _bits_in_all(problem) >= MOST_BITS:
        return None
    least: int | None = None
    for chosen in (tuple(pick) for count in range(4) for pick in combinations(range(3), count)):
        held: list[_HeldTensor] = []
        fixed = 0
        for term, own in zip(problem.terms, chains, strict=True):
            chain = next((one for one in own if (len(one.levels) > 1) == (term.index in chosen)), None)
            if chain is None:
                break
            fixed += int(chain.total[0, 0])
            if chain.nodes:
                lacks = next(d for d, dim in enumerate(problem.dims) if dim not in term.dims)
                weight = int(chain.nodes[0][0, 0])
                fixed -= weight
                held.append(_HeldTensor(lacks, term.tensor.bits, weight))
        else:
            if any(one.weight < 0 for one in held):
                return None
            extra = _least_of_plan(problem, held)
            if extra is None:
                return None
            if isfinite(extra):
                whole = extra if isinstance(extra, int) else ceil(Fraction(extra) * (1 - _ROUNDING))
                least = fixed + whole if least is None else min(least, fixed + whole)
    return least


def _bits_in_all(problem: Problem) -> int:
    """Return the bits of all tensors together: an upper bound on the bits that a mapping holds in the buffer."""
    sizes = dict(zip(problem.dims, problem.extents, strict=True))
    return sum(term.tensor.bits * prod(sizes[dim] for dim in term.dims) for term in problem.terms)


def _least_of_plan(problem: Problem, held: list[_HeldTensor]) -> int | float | None:
    """Return the least cost of the visits of the held tensors (None: too many boxes; inf: no room).

    A float result is rounded (`_ROUNDING`).
    """
    usable, most = problem.arch.levels[1].usable_bits, _bits_in_all(problem)
    usable = most if usable is None else min(usable, most)
    once = sum(one.weight for one in held)
    if usable == most or len(held) < 2:
        return once if sum(one.bits for one in held) <= usable else inf
    least = inf
    for outer in held:
        others = [one for one in held if one is not outer]
        for boxes in _boxes(problem.extents, outer, usable):
            if boxes is None:
                return None
            least = min(least, _least_of_boxes(problem.extents, outer, others, boxes, usable))
    return least


def _boxes(extents: tuple[int, ...], outer: _HeldTensor, usable: int) -> Iterator[IntArray | None]:
    """Yield the boxes [dim, box] of the outermost node that fit, in parts; None where they are too many."""
    first, second = (d for d in range(3) if d != outer.lacks)
    room = usable // outer.bits
    rows = min(extents[first], room)
    if min(rows * extents[second], room * (1 + log(rows or 1))) > TUNING.most_boxes:
        yield None
        return
    a = np.arange(1, rows + 1)
    counts = np.minimum(extents[second], room // a)
    ends = np.cumsum(counts)
    parts = np.searchsorted(ends, np.arange(0, int(ends[-1]) if rows else 0, TUNING.visits_at_once))
    for begin, end in pairwise([*dict.fromkeys(parts.tolist()), rows]):
        many = counts[begin:end]
        boxes = np.ones((3, int(many.sum())), dtype=np.int64)
        boxes[first] = np.repeat(a[begin:end], many)
        boxes[second] = np.arange(1, boxes.shape[1] + 1) - np.repeat(np.cumsum(many) - many, many)
        yield boxes


def _least_of_boxes(
    extents: tuple[int, ...], outer: _HeldTensor, others: list[_HeldTensor], boxes: IntArray, usable: int
) -> float:
    free = usable - outer.bits * boxes.prod(axis=0)
    inside = [
        _bound_other(extents, outer, one, boxes, free - sum(other.bits for other in others if other is not one))
        for one in others
    ]
    fits = free >= sum(one.bits for one in others)
    least = inf
    for large in range(1 << len(others)):
        total, most = np.zeros(boxes.shape[1]), np.ones(boxes.shape[1])
        for place, (one, other) in enumerate(zip(others, inside, strict=True)):
            is_large = bool(large >> place & 1)
            share = other.large_share if is_large else other.share
            total = total + one.weight * (other.visits - share * (other.visits - 1))
            most = np.maximum(most, other.outermost_visits) if is_large else most
        total = np.where(fits, total + outer.weight * most, inf)
        least = min(least, float(total.min()))
    return least


def _bound_other(
    extents: tuple[int, ...], outer: _HeldTensor, one: _HeldTensor, boxes: IntArray, room: IntArray
) -> _OtherTensor:
    """Return the bounds for a tensor inside the boxes. room: bits that it may take."""
    shared = next(d for d in range(3) if d not in (outer.lacks, one.lacks))
    extent, deep = extents[shared], extents[outer.lacks]
    indices = np.maximum(room // one.bits, 0)
    visits = -(-extents[one.lacks] // boxes[one.lacks]).astype(np.float64)
    last = extent % boxes[shared]
    longest = (deep - 1) // 2  # a last box that is shorter than the others
    uncut = np.minimum(indices // boxes[shared], longest) / deep
    tiles = np.where(last > 0, indices // np.maximum(last, 1), 0)
    both = last / extent * np.minimum(tiles, longest) / deep
    alone = np.where(tiles > 0, last / extent, 0.0)
    needed = np.where(tiles > 0, -(-deep // np.maximum(tiles, 1)), 1).astype(np.float64)
    return _OtherTensor(visits, np.maximum(uncut, both), np.maximum(alone, np.maximum(uncut, both)), needed)
