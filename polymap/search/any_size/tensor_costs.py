"""Lower bounds on tensors' costs in boxes of structures: the least chain of levels that hold each, per component."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.poly import INT64, Arithmetic, Kind, arithmetic_for
from polymap.search.any_size.single_tensor import Boxes, SiblingCounts, TensorLoads
from polymap.search.problem import (
    Chains,
    Component,
    HolderEdge,
    IntArray,
    Measure,
    NodeWeights,
    PricedChains,
    Problem,
    TensorTerm,
    joint_values,
    level_graph,
    most_costed,
    node_weights,
    sees_all_at_once,
)


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """Lower bounds per box on each component of a measure, and on the compute cycles. feasible: where something fits.
    arithmetics: per component. chains: what each tensor costs by component and chain of levels (empty: the components
    are bounded one by one)."""

    parts: tuple[IntArray, ...]
    cycles: IntArray
    feasible: NDArray[np.bool_]
    arithmetics: tuple[Arithmetic, ...]
    chains: tuple[Chains, ...] = ()

    def values(self, measure: Measure) -> list[int | None]:
        """Return lower bounds on the objective (scaled); None where nothing fits or a limit is exceeded."""
        feasible = self.feasible.tolist()
        if self.chains:
            joint = joint_values(measure, self.arithmetics, self.chains, self.cycles)
            return [value if ok else None for value, ok in zip(joint, feasible, strict=True)]
        if measure.is_linear and not measure.limits:
            found = (self.parts[0] + measure.fixed_energy).tolist()
            return [value if ok else None for value, ok in zip(found, feasible, strict=True)]
        each = zip(zip(*(part.tolist() for part in self.parts), strict=True), self.cycles.tolist(), strict=True)
        return [
            measure.value_within_limits(parts, cycles) if ok else None
            for (parts, cycles), ok in zip(each, feasible, strict=True)
        ]


def least_components(problem: Problem, measure: Measure, boxes: Boxes) -> Components:
    """Return lower bounds on every component of the measure over all structures of each box."""
    counts = SiblingCounts(problem, boxes)
    rooms = _Rooms(counts)
    feasible = counts.feasible() & rooms.all_fit
    loads = {
        (term.index, alone): TensorLoads(counts, term, alone=alone)
        for term in problem.terms
        for alone in {component.busiest for component in measure.components}  # any order: a lookup
    }
    arithmetics = tuple(_arithmetic(problem, component, counts) for component in measure.components)
    costs = [
        [
            _TensorCost(loads[term.index, component.busiest], rooms, component, arithmetic)
            for component, arithmetic in zip(measure.components, arithmetics, strict=True)
        ]
        for term in sorted(problem.terms, key=lambda term: not term.is_output)
    ]
    if sees_all_at_once(measure, arithmetics, prod(problem.extents)):
        chains = tuple([one.each() for one in own] for own in costs)
        return Components((), counts.cycles(), feasible, arithmetics, chains)
    parts: list[IntArray] = []
    for place, arithmetic in enumerate(arithmetics):
        total: IntArray = np.zeros(len(boxes), dtype=arithmetic.dtype)
        for own in costs:
            least = own[place].least()
            feasible = feasible & arithmetic.possible(least)
            total = total + np.where(feasible, least, 0)
        parts.append(total)
    return Components(tuple(parts), counts.cycles(), feasible, arithmetics)


def _arithmetic(problem: Problem, component: Component, counts: SiblingCounts) -> Arithmetic:
    found = arithmetic_for(most_costed(problem.workload, problem.arch, component))
    return found if found.kind is Kind.NARROW and counts.kind == INT64 else Arithmetic(Kind.LONG, found.limit)


class _Rooms:
    """Where levels have room for the least that their first instance holds. all_fit: for all required tensors."""

    def __init__(self, counts: SiblingCounts) -> None:
        self._problem = counts.problem
        self.held = {
            (term.index, level): TensorLoads(counts, term, alone=True).held(level)
            for term in counts.problem.terms
            for level in sorted(term.may_hold)
        }
        self.all_fit: NDArray[np.bool_] = counts.one > 0
        for level in range(1, counts.problem.level_count):
            must = [term for term in counts.problem.terms if level in term.must_hold]
            if must:
                self.all_fit = self.all_fit & self._has_room(must, level)

    def fits(self, term: TensorTerm, level: int) -> NDArray[np.bool_]:
        """Return where one tensor fits beside those that the level must hold."""
        others = [one for one in self._problem.terms if level in one.must_hold and one.index != term.index]
        return self._has_room([term, *others], level)

    def _has_room(self, terms: list[TensorTerm], level: int) -> NDArray[np.bool_]:
        room = self._problem.arch.levels[level].usable_bits
        bits = sum(self.held[term.index, level] * term.tensor.bits for term in terms)
        return np.asarray(bits > -1 if room is None else bits <= room, dtype=np.bool_)


class _TensorCost:
    """The least cost of one tensor over all chains of levels that hold it, for one component."""

    def __init__(self, loads: TensorLoads, rooms: _Rooms, component: Component, arithmetic: Arithmetic) -> None:
        self._loads, self._rooms, self._component, self._arithmetic = loads, rooms, component, arithmetic
        self._problem, self._term = loads.problem, loads.term
        self._zero: IntArray = loads.counts.one.astype(arithmetic.dtype) * 0
        starts = 0 if self._term.tensor.initial or not self._term.is_output else loads.elements
        self._zero_start = starts * component.read[0][self._term.index]

    def least(self) -> IntArray:
        """Return the least cost; the value for infeasible where no chain fits."""
        return self._started(self._chains().least())

    def each(self) -> list[IntArray]:
        """Return the cost by each chain."""
        return list(map(self._started, self._chains().each()))

    def _chains(self) -> PricedChains:
        graph = level_graph(self._term, self._problem.level_count)
        return PricedChains(graph, self._arithmetic, self._zero, self._node, self._fits, self._end)

    def _started(self, cost: IntArray) -> IntArray:
        return self._arithmetic.where(self._arithmetic.possible(cost), cost - self._zero_start)

    def _fits(self, level: int) -> NDArray[np.bool_]:
        return self._rooms.fits(self._term, level)

    def _node(self, edge: HolderEdge) -> IntArray:
        """Return a lower bound on the cost of holding the tensor in a level, with its traffic from or to the parent."""
        term, loads = self._term, self._loads
        weights = self._weights(edge.parent, edge.levels)
        cost = self._times_weight(lambda: self._rooms.held[term.index, edge.level], weights.held)
        cost = cost + self._moved(weights, lambda cut: loads.messages(edge.parent, edge.level, cut))
        if not term.is_output:
            return cost + self._times_weight(lambda: loads.fills(edge.level), weights.fill)
        # A partial sum that is there from the start moves inwards once, level by level.
        return cost + (loads.elements if term.tensor.initial and not loads.alone else 0) * weights.fill

    def _end(self, holder: int) -> IntArray:
        """Return a lower bound on the cost of the traffic between the innermost holder and the compute units."""
        weights = self._weights(holder, (self._problem.level_count,))
        return self._moved(weights, lambda cut: self._loads.operands(holder, cut))

    def _weights(self, parent: int, levels: tuple[int, ...]) -> NodeWeights:
        return node_weights(self._problem, self._term, self._component, parent, levels)

    def _moved(self, weights: NodeWeights, amount: Callable[[int], IntArray]) -> IntArray:
        """Return the cost of the traffic between a parent and a level. amount: elements that pass below so many
        fan-outs."""
        cost = self._times_weight(lambda: amount(0), weights.message)
        for cut, price in weights.least_crossings():
            cost = cost + self._times_weight(lambda cut=cut: amount(cut), price)
        return cost

    def _times_weight(self, amount: Callable[[], IntArray], weight: int) -> IntArray:
        """Return an amount times its weight; the amount is not computed where the weight is 0."""
        if not weight:
            return self._zero
        return amount().astype(self._arithmetic.dtype, copy=False) * weight
