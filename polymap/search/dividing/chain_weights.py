"""What every choice of levels costs a tensor of a product, for all structures at once: its nodes filled once each.

The weights are those of search/dividing/node_costs.py, at one visit per node; a node that is visited v times costs v
times its weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymap.poly import INT64, FloatArray, Numbers
from polymap.resources import OutOfTime, Stop
from polymap.search.dividing.node_costs import SpatialFactors, read_weights, update_end, update_weight
from polymap.search.dividing.product_spread import SpreadTables
from polymap.search.dividing.product_tuning import TUNING
from polymap.search.problem import Component, HolderEdge, IntArray, Problem, TensorTerm, holder_graph, zero_start

_NEAR = 1 << 62  # of differences that 64 bits hold


@dataclass(frozen=True, slots=True, eq=False)
class ChainWeights:
    """A choice of levels of a tensor, outermost first: what each node below the first costs at one visit, what all of
    the tensor costs then [component, structure], bits that each node takes at least [structure]."""

    levels: tuple[int, ...]
    nodes: tuple[IntArray, ...]
    total: IntArray
    bits: tuple[IntArray, ...]


class Weights:
    """The weights of all structures. whole: the temporal extent of each dim; cycles: of the compute units. kept: as
    int64 (modulo 2^64), as Python's integers, or as floats, which are rounded."""

    def __init__(
        self, problem: Problem, components: Sequence[Component], spread: SpreadTables, kept: np.dtype[Any] = INT64
    ) -> None:
        self.problem, self.components, self.spread, self.kept = problem, tuple(components), spread, kept
        columns = np.ascontiguousarray(spread.classes.transpose(1, 2, 0)).astype(kept, copy=False)
        self._ones = np.ones(len(spread.classes), dtype=kept)
        rows = tuple(tuple(own) for own in columns)
        self.factors: SpatialFactors[IntArray] = SpatialFactors(problem, rows, self._ones)
        last = problem.level_count
        self.below = [[self.factors.factor(dim, level, last) for dim in problem.dims] for level in range(last)]
        self.above = [
            [e // (self.factors.factor(dim, -1, level)) for dim, e in zip(problem.dims, problem.extents, strict=True)]
            for level in range(last + 1)
        ]
        self.whole = self.above[last]
        self.steps: IntArray = prod(problem.extents) // self.factors.instances(last)
        self.cycles = -(-self.steps // problem.arch.compute.per_cycle)
        self._nodes: dict[tuple[int, int, tuple[int, ...]], tuple[IntArray, IntArray]] = {}
        self._ends: dict[tuple[int, int], IntArray] = {}
        self._bits: dict[tuple[int, int], IntArray] = {}

    def chains(self, term: TensorTerm) -> tuple[ChainWeights, ...]:
        """Return every choice of levels that hold a tensor."""
        start = np.array([[zero_start(term, own)] for own in self.components], self.kept)
        return tuple(self._chain(term, chain, start) for chain in holder_graph(term, self.problem.level_count).chains())

    def has_credits(self) -> bool:
        """Return whether some node of the chains costs less than nothing, so that more visits may cost less."""
        return any((costs < 0).any() for costs, _ in self._nodes.values())

    def rows(self) -> IntArray:
        """Return all that structures which spread the dims alike differ in, [row, structure]: what first updates save
        is equal in them."""
        for term in self.problem.terms:
            for chain in holder_graph(term, self.problem.level_count).chains():
                self._end(term, chain[-1].level if chain else 0)
                for edge in chain:
                    self._node(term, edge)
        return np.concatenate([*self._ends.values(), *(own for own, _ in self._nodes.values())])

    def _chain(self, term: TensorTerm, chain: tuple[HolderEdge, ...], start: IntArray) -> ChainWeights:
        levels, nodes = (0, *(edge.level for edge in chain)), list[IntArray]()
        total = self._end(term, levels[-1]) + start
        for edge in chain:
            own, credit = self._node(term, edge)
            nodes.append(own)
            total = total + own - credit
        return ChainWeights(levels, tuple(nodes), total, tuple(self._least_bits(term, level) for level in levels[1:]))

    def _least_bits(self, term: TensorTerm, level: int) -> IntArray:
        if (term.index, level) not in self._bits:
            own = (self.below[level][d] for d, dim in enumerate(self.problem.dims) if dim in term.dims)
            self._bits[term.index, level] = self.factors.product(own) * term.tensor.bits
        return self._bits[term.index, level]

    def _node(self, term: TensorTerm, edge: HolderEdge) -> tuple[IntArray, IntArray]:
        """Return what one visit of a node costs, and what an output's first updates save."""
        key = term.index, edge.parent, edge.levels
        if key not in self._nodes:
            own = (self.above[edge.level][d] for d, dim in enumerate(self.problem.dims) if dim in term.dims)
            loads = self.factors.product(own)
            pairs = [self._visit(term, component, edge) for component in self.components]
            costs = np.array([loads * weight for weight, _ in pairs], self.kept)
            self._nodes[key] = costs, np.array([self._ones * credit for _, credit in pairs], self.kept)
        return self._nodes[key]

    def _visit(self, term: TensorTerm, component: Component, edge: HolderEdge) -> tuple[IntArray, IntArray | int]:
        levels = edge.parent, edge.level
        if term.is_output:
            return update_weight(self.factors, term, component, levels, edge.levels)
        weights = read_weights(self.factors, term, component, *levels)
        return weights.filled + weights.read, 0

    def _end(self, term: TensorTerm, holder: int) -> IntArray:
        """Return what the statement instances cost at the level that holds the tensor."""
        if (term.index, holder) not in self._ends:
            costs = [self._end_of(term, component, holder) for component in self.components]
            self._ends[term.index, holder] = np.array([self._ones * cost for cost in costs], self.kept)
        return self._ends[term.index, holder]

    def _end_of(self, term: TensorTerm, component: Component, holder: int) -> IntArray:
        last = self.problem.level_count
        if term.is_output:
            return update_end(self.factors, term, component, holder, self.steps)
        weights = read_weights(self.factors, term, component, holder, last)
        return (weights.filled + weights.read) * self.steps


def best_of_kinds(
    problem: Problem,
    components: Sequence[Component],
    spread: SpreadTables,
    kind: IntArray,
    stop: Stop,
    rounded: np.dtype[Any] = INT64,
) -> IntArray:
    """Return the numbers of some structures, the best one of each kind among them whatever the tiles. Raises OutOfTime.
    rounded: how numbers are kept where all of their digits are not needed.

    Structures of a kind spread the dims alike between the same levels: they have equal tiles, which take equal room.
    One of which no weight is larger than another's costs no more: the other is left out. Nearly always one is left.
    """
    order, kept = np.argsort(kind, kind="stable"), [np.zeros(0, dtype=np.int64)]
    while len(order):
        if stop():
            raise OutOfTime
        last = kind[order[min(TUNING.weighed_together, len(order)) - 1]]
        count = int(np.searchsorted(kind[order], last, side="right"))
        some, order = order[:count], order[count:]
        own = replace(spread, classes=spread.classes[some])
        rows, about = (Weights(problem, components, own, numbers).rows() for numbers in (INT64, rounded))
        kept.append(some[_uncovered_columns(kind[some], rows, about)])
    return np.sort(np.concatenate(kept))


def _uncovered_columns(kind: IntArray, rows: IntArray, about: Numbers) -> IntArray:
    """Return the numbers of columns of `rows`, of each kind those that no other one covers; of equal ones one. Rows are
    known modulo 2^64, and about: where they differ by little, the former says by how much."""
    left = np.lexsort((np.sum(about, axis=0, dtype=np.float64), kind))
    kept: list[IntArray] = []
    while len(left):
        is_first = np.diff(kind[left], prepend=-1) > 0
        least, place = left[is_first], np.cumsum(is_first) - 1
        kept.append(least)
        is_covered: NDArray[np.bool_] = np.ones(len(left), dtype=np.bool_)
        for row, near in zip(rows, about, strict=True):
            rough: FloatArray = np.asarray(near[left] - near[least][place], dtype=np.float64)
            exact: IntArray = row[left] - row[least][place]
            is_covered &= np.where(abs(rough) < _NEAR, exact >= 0, rough >= 0)
        left = left[~is_covered]
    return np.concatenate(kept) if kept else left
