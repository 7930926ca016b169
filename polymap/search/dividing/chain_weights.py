"""What every choice of levels costs a tensor of a product, for all structures at once: its nodes filled once each.

The weights are those of search/dividing/node_costs.py, at one visit per node; a node that is visited v times costs v
times its weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.ir import Architecture, MemoryLevel, Node, Workload
from polymap.search.dividing.groups import kinds_of
from polymap.search.dividing.node_costs import SpatialFactors, read_weights, update_end, update_weight
from polymap.search.dividing.product_spread import Spread, spread_of
from polymap.search.dividing.product_tuning import TUNING
from polymap.search.problem import (
    Component,
    Factor,
    HolderEdge,
    IntArray,
    Problem,
    Rules,
    TensorTerm,
    analyse,
    holder_graph,
    zero_start,
)


@dataclass(frozen=True, slots=True, eq=False)
class ChainWeights:
    """A choice of levels of a tensor, outermost first: what each node below the first costs at one visit, what all of
    the tensor costs then [component, structure], bits that each node takes at least [structure]."""

    levels: tuple[int, ...]
    nodes: tuple[IntArray, ...]
    total: IntArray
    bits: tuple[IntArray, ...]


class Weights:
    """The weights of all structures. whole: the temporal extent of each dim; cycles: of the compute units."""

    def __init__(self, problem: Problem, components: Sequence[Component], spread: Spread) -> None:
        self.problem, self.components, self.spread = problem, tuple(components), spread
        columns = np.ascontiguousarray(spread.classes.transpose(1, 2, 0))
        self._ones = np.ones(len(spread.classes), dtype=np.int64)
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
        return tuple(self._chain(term, chain) for chain in holder_graph(term, self.problem.level_count).chains())

    def rows(self) -> IntArray:
        """Return all that structures which spread the dims alike differ in, [row, structure]: what first updates save
        is equal in them."""
        for term in self.problem.terms:
            for chain in holder_graph(term, self.problem.level_count).chains():
                self._end(term, chain[-1].level if chain else 0)
                for edge in chain:
                    self._node(term, edge)
        return np.concatenate([*self._ends.values(), *(own for own, _ in self._nodes.values())])

    def _chain(self, term: TensorTerm, chain: tuple[HolderEdge, ...]) -> ChainWeights:
        levels, nodes = (0, *(edge.level for edge in chain)), list[IntArray]()
        total = self._end(term, levels[-1]) + np.array([[zero_start(term, own)] for own in self.components])
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
            costs = np.stack([loads * weight for weight, _ in pairs])
            self._nodes[key] = costs, np.stack([self._ones * credit for _, credit in pairs])
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
            self._ends[term.index, holder] = np.stack([self._ones * cost for cost in costs])
        return self._ends[term.index, holder]

    def _end_of(self, term: TensorTerm, component: Component, holder: int) -> IntArray:
        last = self.problem.level_count
        if term.is_output:
            return update_end(self.factors, term, component, holder, self.steps)
        weights = read_weights(self.factors, term, component, holder, last)
        return (weights.filled + weights.read) * self.steps


class KnownWeights:
    """The weights of products on a machine that were asked for last, for questions that differ in what levels hold and
    have room for. A pickled one starts empty."""

    def __init__(self, arch: Architecture) -> None:
        self._arch = arch
        self._known: dict[tuple[Workload, Rules, tuple[Component, ...]], Weights] = {}

    def __reduce__(self) -> tuple[type[KnownWeights], tuple[Architecture]]:
        return KnownWeights, (self._arch,)

    def of(self, problem: Problem, components: Sequence[Component], stop: Callable[[], bool]) -> Weights | None:
        """Return the weights of a problem, or of the same where levels hold more: what another structure covers there,
        it covers. None: structures are too many, or time is up."""
        factors = tuple(rule for rule in problem.rules if isinstance(rule, Factor))
        free = analyse(problem.workload, self._arch, factors)
        terms = zip(free.terms, problem.terms, strict=True)
        if _bare(free.arch) != _bare(problem.arch) or any(one.may_hold < own.may_hold for one, own in terms):
            return weights_of(problem, components, stop)
        key = problem.workload, factors, tuple(components)
        found = self._known.pop(key, None) or weights_of(free, components, stop)
        if found is not None:
            self._known[key] = found
            for old in list(self._known)[: -TUNING.most_known]:
                del self._known[old]
        return found


def _bare(arch: Architecture) -> Architecture:
    """Return a machine but for what its levels hold and have room for, which no weight depends on."""

    def bare(node: Node) -> Node:
        return replace(node, holds=None, must_hold=(), capacity_bits=None) if isinstance(node, MemoryLevel) else node

    return replace(arch, nodes=tuple(map(bare, arch.nodes)))


def weights_of(problem: Problem, components: Sequence[Component], stop: Callable[[], bool]) -> Weights | None:
    """Return the weights of a problem's best structures; None where they are too many, or time is up."""
    spread = spread_of(problem)
    return None if spread is None else weights_of_best(problem, components, spread, stop)


def weights_of_best(
    problem: Problem, components: Sequence[Component], spread: Spread, stop: Callable[[], bool]
) -> Weights | None:
    """Return the weights of some structures, the best one among them whatever the tiles (None: time is up).

    Structures that spread the dims alike between the same levels have equal tiles, which take equal room. One of which
    no weight is larger than another's costs no more: the other is left out. Nearly always one of a kind is left.
    """
    classes = spread.classes
    if len({one.below for one in problem.classes}) < len(problem.classes):
        kind = kinds_of(problem, classes, problem.dims)
        order, kept = np.argsort(kind, kind="stable"), list[IntArray]()
        while len(order):
            if stop():
                return None
            last = kind[order[min(TUNING.weighed_together, len(order)) - 1]]
            count = int(np.searchsorted(kind[order], last, side="right"))
            some, order = order[:count], order[count:]
            rows = Weights(problem, components, replace(spread, classes=classes[some])).rows()
            kept.append(some[_uncovered(kind[some], rows)])
        spread = replace(spread, classes=classes[np.sort(np.concatenate(kept))])
    return Weights(problem, components, spread)


def _uncovered(kind: IntArray, rows: IntArray) -> IntArray:
    """Return the numbers of columns of `rows`, of each kind those that no other one covers; of equal ones one."""
    left = np.lexsort((np.sum(rows, axis=0, dtype=np.float64), kind))
    kept: list[IntArray] = []
    while len(left):
        is_first = np.diff(kind[left], prepend=-1) > 0
        least, place = left[is_first], np.cumsum(is_first) - 1
        kept.append(least)
        is_covered: NDArray[np.bool_] = np.ones(len(left), dtype=np.bool_)
        for row in rows:
            is_covered &= row[least][place] <= row[left]
        left = left[~is_covered]
    return np.concatenate(kept) if kept else left
