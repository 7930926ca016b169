"""Geometric programs of orders of storage nodes under ranges of sibling counts and tiles: only limits differ.

The variables are those of orders.Variables: the boxes of nodes and real spatial factors, as logarithms. A box of
mappings (`Box`) tells fewest and most siblings per class of fan-outs and dim, and fewest and most indices of each
node's tile, whole numbers. A factor is at most the most siblings, and the product of the others at most what the
fewest leave of the fan-outs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, prod

import numpy as np
from numpy.typing import NDArray

from polymap.poly import FloatArray
from polymap.search.any_size.geometric import Programs
from polymap.search.any_size.node_orders import OrderMonomials, most_siblings
from polymap.search.any_size.tuning import TUNING
from polymap.search.problem import Problem

WIDER = 1e-7  # by which every set of logarithms is too large: its inside is never empty

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """Mappings of one order of nodes. low, high: numbers of siblings [class, dim]. least, most: indices of the tiles of
    one instance [node, dim], for dims of more than one index."""

    order: int
    low: Ints
    high: Ints
    least: Ints
    most: Ints


@dataclass(frozen=True, slots=True, eq=False)
class _Shape:
    """The part that all programs of an order share.

    rows, ends: the linear constraints of the chain. limit_rows: rows whose limits depend on the box. outside [node,
    factor]: 1 where the factor's fan-outs are above the node.
    """

    rows: FloatArray
    ends: FloatArray
    limit_rows: FloatArray
    outside: FloatArray


class BoxPrograms:
    """Builds the geometric programs of boxes."""

    def __init__(self, problem: Problem, orders: OrderMonomials) -> None:
        self.problem = problem
        self.orders = orders
        self.levels = [[level for _, level in nodes] for nodes in orders.nodes]
        self.variables = orders.variables
        self.sizes = [prod(problem.arch.fanouts[f].size for f in one.fanouts) for one in problem.classes]
        self.tops = np.array([log(problem.extents[d]) for d in self.variables.dims])
        factors = self.variables.factors
        most = [log(min(self.sizes[one], problem.extents[d])) for one, d in factors]
        self._upper = np.concatenate([np.tile(self.tops, self.variables.nodes), most]) + WIDER
        self._of_dim = np.array([[float(d == own) for _, own in factors] for d in self.variables.dims])
        self._others = [[int(a[0] == b[0] and a != b) for b in factors] for a in factors]
        self._shapes: dict[int, _Shape] = {}

    def whole(self, order: int) -> Box:
        """Return the box of all mappings of an order."""
        problem, variables = self.problem, self.variables
        extents = np.array([problem.extents[d] for d in variables.dims], dtype=np.int64)
        least = np.ones((len(self.levels[order]), len(extents)), dtype=np.int64)
        high = np.ones((len(problem.classes), len(problem.dims)), dtype=np.int64)
        for one, d in variables.factors:
            high[one, d] = min(most_siblings(problem, problem.classes[one], d), problem.extents[d])
        return Box(order, np.ones_like(high), high, least, least * extents)

    def shape(self, order: int) -> _Shape:
        """Return the part that the programs of an order share."""
        if order not in self._shapes:
            self._shapes[order] = self._new_shape(order)
        return self._shapes[order]

    def _new_shape(self, order: int) -> _Shape:
        variables, levels = self.variables, self.levels[order]
        count, inner, factors = len(variables.dims), variables.inner, variables.factors
        outside = np.array(
            [[float(self.problem.classes[one].below <= level) for one, _ in factors] for level in levels]
        ).reshape(len(levels), len(factors))
        rows = np.zeros(((variables.nodes + 1) * count, variables.count))
        ends = np.ones(len(rows))
        for at in range(1, len(levels)):
            for place in range(count):
                row = (at - 1) * count + place
                rows[row, at * count + place], rows[row, (at - 1) * count + place] = 1, -1
                ends[row] = WIDER
        for place in range(count):
            row = variables.nodes * count + place
            rows[row, inner:] = self._of_dim[place]
            if levels:
                rows[row, (len(levels) - 1) * count + place] = -1
            ends[row] = (0.0 if levels else self.tops[place]) + WIDER
        tiles = np.zeros((variables.nodes * count, variables.count))
        for at in range(len(levels)):
            for place in range(count):
                tiles[at * count + place, at * count + place] = 1
                tiles[at * count + place, inner:] = -self._of_dim[place] * outside[at]
        own = np.zeros((2 * len(factors) + len(self.sizes), variables.count))
        own[: len(factors), inner:] = np.eye(len(factors))
        for number in range(len(self.sizes)):
            own[len(factors) + number, inner:] = [float(one == number) for one, _ in factors]
        if factors:
            own[len(factors) + len(self.sizes) :, inner:] = self._others
        return _Shape(rows, ends, np.vstack([own, tiles, -tiles]), outside)

    def limits(self, box: Box) -> FloatArray:
        """Return the limits of limit_rows as logarithms, rounded up."""
        factors = self.variables.factors
        most = [log(box.high[one, d]) for one, d in factors]
        sizes = [log(size) for size in self.sizes]
        others = [log(self.sizes[one] / box.low[one, d]) for one, d in factors]
        spare = np.ones(self.variables.inner - box.most.size)
        tiles = [np.log(box.most).ravel(), spare, -np.log(box.least).ravel(), spare]
        return np.concatenate([most, sizes, others, *tiles]) + WIDER

    def fits(self, box: Box) -> bool:
        """Return whether the fewest siblings fit the fan-outs, and the smallest tiles the capacities."""
        if any(prod(row) > size for row, size in zip(box.low.tolist(), self.sizes, strict=True)):
            return False
        if (box.least > box.most).any():
            return False
        point = np.zeros(self.variables.count)
        point[: box.least.size] = np.log(box.least).ravel()
        own = self.orders
        used = np.exp(own.log_uses[box.order] + own.uses[box.order] @ point).sum(axis=1)
        return bool((used <= 1 + 1e-9).all())

    def programs(self, boxes: Sequence[Box]) -> Programs:
        """Return the programs of some boxes."""
        own, at = self.orders, [box.order for box in boxes]
        shapes = [self.shape(box.order) for box in boxes]
        rows = np.stack([np.vstack([shape.rows, shape.limit_rows]) for shape in shapes])
        ends = np.stack(
            [np.concatenate([shape.ends, self.limits(box)]) for shape, box in zip(shapes, boxes, strict=True)]
        )
        high = np.tile(self._upper, (len(at), 1))
        low = np.full_like(high, -WIDER)
        start = np.stack([self._start(box, shape) for box, shape in zip(boxes, shapes, strict=True)])
        return _with_eased_capacities(
            Programs(own.log_costs[at], own.costs[at], own.log_uses[at], own.uses[at], rows, ends, low, high, start)
        )

    def _start(self, box: Box, shape: _Shape) -> FloatArray:
        """Return a strictly feasible point: factors and tiles near the smallest."""
        variables = self.variables
        length, count = box.least.shape
        factors = variables.factors
        room = [log(box.high[one, d]) for one, d in factors]
        room += [log(self.sizes[one] / prod(box.low[one].tolist())) for one in range(len(self.sizes))]
        found = np.full(variables.count, TUNING.first_move * WIDER)
        step = (min([TUNING.first_move, *room]) + WIDER) / 4 / max(1, len(factors))
        found[variables.inner :] = step
        filled = shape.outside @ (self._of_dim * step).T if factors else np.zeros((length, count))
        inside = self._of_dim.sum(axis=1) * step if factors else np.zeros(count)
        low, high = filled + np.log(box.least), np.minimum(filled + np.log(box.most), self.tops)
        if length:
            low[-1] = np.maximum(low[-1], inside)
        low = np.maximum.accumulate(low[::-1], axis=0)[::-1]
        high = np.maximum(np.minimum.accumulate(high, axis=0), low)
        places = np.array([[length - at] for at in range(length)], dtype=np.float64).reshape(length, 1)
        share = TUNING.first_move / (length + 1) * places
        found[: length * count] = (low + share * (high - low)).ravel()
        return found


def _with_eased_capacities(programs: Programs) -> Programs:
    """Return the programs with slightly larger capacities where the start point fills a level; the bounds still
    hold."""
    with np.errstate(divide="ignore"):
        used = np.exp(programs.log_uses + np.einsum("prjn,pn->prj", programs.uses, programs.start)).sum(axis=2)
        full = np.log(used * TUNING.tight_ratio)
    return replace(programs, log_uses=programs.log_uses - np.maximum(full, 0.0)[:, :, None])
