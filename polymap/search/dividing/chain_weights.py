"""What every choice of levels costs a tensor of a product, for all structures at once: its nodes filled once each.

The weights are those of search/dividing/node_costs.py, at one visit per node; a node that is visited v times costs v
times its weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from polymap.search.dividing.node_costs import SpatialFactors, read_weights, update_end, update_weight
from polymap.search.dividing.product_spread import Spread
from polymap.search.problem import Component, HolderEdge, IntArray, Problem, TensorTerm, holder_graph, zero_start


@dataclass(frozen=True, slots=True, eq=False)
class ChainWeights:
    """A choice of levels of a tensor, outermost first, per structure: what each node below the first costs at one
    visit, what all of the tensor costs then, bits that each node takes at least."""

    levels: tuple[int, ...]
    nodes: tuple[IntArray, ...]
    total: IntArray
    bits: tuple[IntArray, ...]


class Weights:
    """The weights of all structures. whole: the temporal extent of each dim."""

    def __init__(self, problem: Problem, component: Component, spread: Spread) -> None:
        self.problem, self.component = problem, component
        columns = np.ascontiguousarray(spread.classes.transpose(1, 2, 0))
        ones = np.ones(len(spread.classes), dtype=np.int64)
        self.factors: SpatialFactors[IntArray] = SpatialFactors(problem, tuple(tuple(own) for own in columns), ones)
        last = problem.level_count
        self.below = [[self.factors.factor(dim, level, last) for dim in problem.dims] for level in range(last)]
        self.above = [
            [e // (self.factors.factor(dim, -1, level)) for dim, e in zip(problem.dims, problem.extents, strict=True)]
            for level in range(last + 1)
        ]
        self.whole = self.above[last]
        self.steps: IntArray = prod(problem.extents) // self.factors.instances(last)
        self._nodes: dict[tuple[int, int, tuple[int, ...]], tuple[IntArray, IntArray | int]] = {}
        self._bits: dict[tuple[int, int], IntArray] = {}

    def chains(self, term: TensorTerm) -> tuple[ChainWeights, ...]:
        """Return every choice of levels that hold a tensor."""
        return tuple(self._chain(term, chain) for chain in holder_graph(term, self.problem.level_count).chains())

    def _chain(self, term: TensorTerm, chain: tuple[HolderEdge, ...]) -> ChainWeights:
        levels, nodes = (0, *(edge.level for edge in chain)), list[IntArray]()
        total = self._end(term, levels[-1]) + zero_start(term, self.component)
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

    def _node(self, term: TensorTerm, edge: HolderEdge) -> tuple[IntArray, IntArray | int]:
        """Return what one visit of a node costs, and what an output's first updates save."""
        key, parent, level = (term.index, edge.parent, edge.levels), edge.parent, edge.level
        if key not in self._nodes:
            own = (self.above[level][d] for d, dim in enumerate(self.problem.dims) if dim in term.dims)
            loads = self.factors.product(own)
            if term.is_output:
                weight, credit = update_weight(self.factors, term, self.component, (parent, level), edge.levels)
                self._nodes[key] = loads * weight, credit
            else:
                weights = read_weights(self.factors, term, self.component, parent, level)
                self._nodes[key] = loads * (weights.filled + weights.read), 0
        return self._nodes[key]

    def _end(self, term: TensorTerm, holder: int) -> IntArray:
        """Return what the statement instances cost at the level that holds the tensor."""
        last = self.problem.level_count
        if term.is_output:
            return update_end(self.factors, term, self.component, holder, self.steps)
        weights = read_weights(self.factors, term, self.component, holder, last)
        return (weights.filled + weights.read) * self.steps
