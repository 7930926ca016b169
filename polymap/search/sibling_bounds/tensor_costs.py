"""What tensors cost at least in boxes of structures: the least chain of levels that hold each, per linear measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polymap.arithmetic import INT64, Arithmetic, Kind, arithmetic_for
from polymap.search.objective import Measure
from polymap.search.problem import Component, IntArray, Problem, TensorTerm, most_costed
from polymap.search.sibling_bounds.single_tensor import Boxes, SiblingCounts, TensorLoads, least_crossings


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """What each component of a measure is at least, and the compute cycles, per box; feasible: where something fits."""

    parts: tuple[IntArray, ...]
    cycles: IntArray
    feasible: NDArray[np.bool_]

    def values(self, measure: Measure) -> list[int | None]:
        """Return lower bounds of the objective (scaled); None where nothing fits or a limit is broken."""
        if measure.is_linear and not measure.limits:
            found = (self.parts[0] + measure.fixed_energy).tolist()
            return [value if ok else None for value, ok in zip(found, self.feasible.tolist(), strict=True)]
        each = zip(zip(*(part.tolist() for part in self.parts), strict=True), self.cycles.tolist(), strict=True)
        return [
            measure.value_within_limits(parts, cycles) if ok else None
            for (parts, cycles), ok in zip(each, self.feasible.tolist(), strict=True)
        ]


def least_components(problem: Problem, measure: Measure, boxes: Boxes) -> Components:
    """Return what every component of the measure is at least in all structures of each box."""
    counts = SiblingCounts(problem, boxes)
    rooms = _Rooms(counts)
    feasible = counts.feasible() & rooms.all_fit
    loads = {
        (term.index, alone): TensorLoads(counts, term, alone=alone)
        for term in problem.terms
        for alone in {component.busiest for component in measure.components}
    }
    parts: list[IntArray] = []
    for component in measure.components:
        arithmetic = _arithmetic(problem, component, counts)
        total: IntArray = np.zeros(len(boxes), dtype=arithmetic.dtype)
        for term in problem.terms:
            own = _TensorChain(loads[term.index, component.busiest], rooms, component, arithmetic).least()
            feasible = feasible & arithmetic.possible(own)
            total = total + np.where(feasible, own, 0)
        parts.append(total)
    return Components(tuple(parts), counts.cycles(), feasible)


def _arithmetic(problem: Problem, component: Component, counts: SiblingCounts) -> Arithmetic:
    found = arithmetic_for(most_costed(problem.workload, problem.arch, component))
    return found if found.kind is Kind.NARROW and counts.kind == INT64 else Arithmetic(Kind.LONG, found.limit)


class _Rooms:
    """Where levels have room for the least that their first instance holds. all_fit: for all that must be held."""

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
                self.all_fit = self.all_fit & self._fit(must, level)

    def fits(self, term: TensorTerm, level: int) -> NDArray[np.bool_]:
        """Return where one tensor fits beside those that the level must hold."""
        others = [one for one in self._problem.terms if level in one.must_hold and one.index != term.index]
        return self._fit([term, *others], level)

    def _fit(self, terms: list[TensorTerm], level: int) -> NDArray[np.bool_]:
        room = self._problem.arch.levels[level].usable_bits
        bits = sum(self.held[term.index, level] * term.tensor.bits for term in terms)
        return np.asarray(bits > -1 if room is None else bits <= room, dtype=np.bool_)


class _TensorChain:
    """The least cost of one tensor over all chains of levels that hold it, for one component."""

    def __init__(self, loads: TensorLoads, rooms: _Rooms, component: Component, arithmetic: Arithmetic) -> None:
        self._loads, self._rooms, self._component, self._arithmetic = loads, rooms, component, arithmetic
        self._term, self._levels = loads.term, loads.problem.level_count
        index = self._term.index
        self._read = [row[index] for row in component.read]
        self._both = [r + row[index] for r, row in zip(self._read, component.write, strict=True)]
        starts = 0 if self._term.tensor.initial or not self._term.is_output else loads.elements
        self._zero_start = starts * self._read[0]

    def least(self) -> IntArray:
        """Return the least cost (what cannot be where no chain fits)."""
        one = self._loads.counts.one.astype(self._arithmetic.dtype)
        never = self._arithmetic.where(one < 1, one)
        best = [one * 0]
        for level in range(1, self._levels):
            here = never
            if level in self._term.may_hold:
                for parent in range(level):
                    if not self._skips(parent, level):
                        here = np.minimum(here, best[parent] + self._node(parent, level))
                here = np.where(self._rooms.fits(self._term, level), here, never)
            best.append(here)
        found = never
        for holder in range(self._levels):
            if not self._skips(holder, self._levels):
                weight = (self._both if self._term.is_output else self._read)[holder]
                cost = best[holder] + self._weighed(lambda at=holder: self._loads.operands(at), weight)
                for cut, price in self._crossings(holder, self._levels):
                    cost = cost + self._weighed(lambda at=holder, cut=cut: self._loads.operands(at, cut), price)
                found = np.minimum(found, cost)
        return np.where(self._arithmetic.possible(found), found - self._zero_start, never)

    def _skips(self, after: int, upto: int) -> bool:
        return any(after < level < upto for level in self._term.must_hold)

    def _node(self, parent: int, level: int) -> IntArray | int:
        """Return what holding the tensor in a level, loaded from or drained to a parent, costs at least."""
        term, component, loads = self._term, self._component, self._loads
        held = component.held[level][term.index] if component.held else 0
        cost = self._weighed(lambda: self._rooms.held[term.index, level], held)
        for cut, price in self._crossings(parent, level):
            cost = cost + self._weighed(lambda cut=cut: loads.messages(parent, level, cut), price)
        if term.is_output:
            # A partial sum that is there from the start moves inwards once, level by level.
            moved = loads.elements if term.tensor.initial and not loads.alone else 0
            arrived = self._weighed(lambda: loads.messages(parent, level), self._both[parent])
            return cost + arrived + moved * self._both[level]
        written = component.write[level][term.index]
        cost = cost + self._weighed(lambda: loads.fills(level), written)
        return cost + self._weighed(lambda: loads.messages(parent, level), self._read[parent])

    def _crossings(self, parent: int, level: int) -> Iterator[tuple[int, int]]:
        return least_crossings(self._loads.problem, self._term, self._component, parent, level)

    def _weighed(self, amount: Callable[[], IntArray], weight: int) -> IntArray | int:
        """Return an amount times its weight; it is not asked for where it weighs nothing."""
        return amount().astype(self._arithmetic.dtype, copy=False) * weight if weight else 0
