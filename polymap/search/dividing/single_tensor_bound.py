"""A cheap bound of all structures at once: every tensor alone, each of its elements loaded once by who needs it.

Loops over dims that a tensor lacks then stand inside all its nodes and cost nothing, a plain axis is loaded once
whatever the tile, and a window at least each of its elements: no tile is looked at, and arrays have one entry per
structure. The formulas are those of tables.py at tiles of one element.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod

import numpy as np

from polymap.arithmetic import INT64, Arithmetic, Kind, arithmetic_for, count_type
from polymap.search.dividing.node_costs import output_plans, skips_level, zero_start, zero_starts
from polymap.search.dividing.spread import Spread
from polymap.search.dividing.windows import Count, Crossing, least_messages, least_passed, least_size, unmerged
from polymap.search.objective import Measure
from polymap.search.problem import (
    Component,
    IndexGroup,
    IntArray,
    Problem,
    Structure,
    TensorTerm,
    most_costed,
    most_counted,
)


def apart_bounds(problem: Problem, measure: Measure, structures: tuple[Structure, ...]) -> list[int | None]:
    """Return per structure a lower bound of the objective (scaled) over all its mappings (None: none fits)."""
    whole = prod(problem.extents)
    parts: list[list[int]] = []
    fits = np.ones(len(structures), dtype=bool)
    for component in measure.components:
        several = _Several(problem, structures, _plain(problem, component))
        total: IntArray = np.zeros(len(structures), dtype=several.kind)
        for term in problem.terms:
            own = several.output(term, component) if term.is_output else several.input(term, component)
            fits &= several.arithmetic.possible(own)
            total = total + np.where(fits, own, 0) + zero_start(term, component)
        parts.append(total.tolist())
    found: list[int | None] = []
    for number, structure in enumerate(structures):
        steps = whole // prod(prod(row) for row in structure.classes)
        cycles = -(-steps // problem.arch.compute.per_cycle)
        value = measure.value(tuple(part[number] for part in parts), cycles) if fits[number] else None
        found.append(value)
    return found


def _plain(problem: Problem, component: Component) -> Arithmetic:
    """Return the arithmetic without limbs: an array has but one entry per structure."""
    found = arithmetic_for(most_costed(problem.workload, problem.arch, component))
    counts = count_type(most_counted(problem.workload))
    return found if found.kind is Kind.NARROW and counts == INT64 else Arithmetic(Kind.LONG, found.limit)


class _Several:
    """Structures side by side, in one arithmetic. rows[class][dim]: factors."""

    def __init__(self, problem: Problem, structures: tuple[Structure, ...], arithmetic: Arithmetic) -> None:
        self._problem = problem
        self._structures = structures
        self.arithmetic = arithmetic
        self.kind = arithmetic.dtype
        self._never = int(arithmetic.never.real)
        factors = np.array([one.classes for one in structures], dtype=self.kind)
        shape = len(structures), len(problem.classes), len(problem.dims)
        self._rows = factors.reshape(shape)
        self._steps = prod(problem.extents) // self._rows.prod(axis=(1, 2), dtype=self.kind)
        self._ones: IntArray = np.ones(len(structures), dtype=self.kind)
        self._kinds: dict[tuple[int, ...], tuple[IntArray, IntArray]] = {}

    def input(self, term: TensorTerm, component: Component) -> IntArray:
        """Return the least cost of a tensor that is read."""
        count = self._problem.level_count
        best: list[IntArray] = [self._ones * 0]
        for level in range(1, count):
            here = self._ones * self._never
            for parent in range(level):
                if level in term.may_hold and not skips_level(term, parent, level):
                    here = np.minimum(here, best[parent] + self._input_node(term, component, parent, level))
            best.append(np.where(self._fits(term, level), here, self._never))
        least = self._ones * self._never
        for holder in range(count):
            if not skips_level(term, holder, count):
                least = np.minimum(least, best[holder] + self._input_end(term, component, holder))
        return least

    def _input_node(self, term: TensorTerm, component: Component, parent: int, level: int) -> IntArray:
        plain = self._plain_loads(term, level)
        fills = plain * self._windows(term, (parent, level), _fills)
        reads = plain * self._windows(term, (parent, level), _reads)
        reads = reads * self._messages(term, parent, level) * component.read[parent][term.index]
        fills = fills * component.write[level][term.index]
        if not component.busiest:
            fills, reads = fills * self._instances(level), reads * self._instances(parent)
        cost = fills + reads
        return cost + self._held(term, level) * component.held[level][term.index] if component.held else cost

    def _input_end(self, term: TensorTerm, component: Component, holder: int) -> IntArray:
        last = self._problem.level_count
        reads = self._messages(term, holder, last) * self._windows(term, (holder, last), _smallest)
        reads = reads * component.read[holder][term.index] * self._steps
        return reads if component.busiest else reads * self._instances(holder)

    def output(self, term: TensorTerm, component: Component) -> IntArray:
        """Return the least cost of the tensor that is written."""
        count = self._problem.level_count
        least = self._ones * self._never
        for holder, rest in output_plans(term, count):
            if holder == 0:
                chain = (0, *rest)
                cost, fits = self._output_end(term, component, chain[-1]), self._ones > 0
                for position, (parent, level) in enumerate(pairwise(chain)):
                    cost = cost + self._output_node(term, component, parent, level, chain[position + 1 :])
                    fits = fits & self._fits(term, level)
                least = np.minimum(least, np.where(fits, cost, self._never))
        return least

    def _output_node(
        self, term: TensorTerm, component: Component, parent: int, level: int, rest: tuple[int, ...]
    ) -> IntArray:
        stays = self._plain_loads(term, level)
        shared, alone, relevant = self._siblings(term, parent, level)
        zero = zero_starts(term)
        both = [r[term.index] + w[term.index] for r, w in zip(component.read, component.write, strict=True)]
        if component.busiest:
            inside = prod((self._factor(d, -1, level) for d in self._own(term)), start=self._ones)
            cost = stays * (both[level] + relevant * alone * both[parent]) - both[level] * (zero // inside)
        else:
            total = stays * self._instances(level)
            merged = total // shared
            credit = (total - merged) * sum(both[inner] for inner in rest)
            cost = total * both[level] + merged * alone * both[parent] - credit - zero * both[level]
        return cost + self._held(term, level) * component.held[level][term.index] if component.held else cost

    def _output_end(self, term: TensorTerm, component: Component, holder: int) -> IntArray:
        _, alone, relevant = self._siblings(term, holder, self._problem.level_count)
        both = component.read[holder][term.index] + component.write[holder][term.index]
        cost = self._steps * relevant * alone * both
        return cost if component.busiest else cost * self._instances(holder)

    def _own(self, term: TensorTerm) -> list[int]:
        return [d for d, dim in enumerate(self._problem.dims) if dim in term.dims]

    def _between(self, after: int, upto: int) -> list[int]:
        return [c for c, one in enumerate(self._problem.classes) if after < one.below <= upto]

    def _factor(self, dim: int, after: int, upto: int) -> IntArray:
        return prod((self._rows[:, c, dim] for c in self._between(after, upto)), start=self._ones)

    def _instances(self, level: int) -> IntArray:
        return self._rows[:, self._between(-1, level)].prod(axis=(1, 2), dtype=self.kind)

    def _plain_dims(self, term: TensorTerm) -> list[int]:
        return [self._problem.dims.index(group.dims[0]) for group in term.groups if not group.is_window]

    def _plain_loads(self, term: TensorTerm, level: int) -> IntArray:
        extents = self._problem.extents
        return prod((extents[d] // self._factor(d, -1, level) for d in self._plain_dims(term)), start=self._ones)

    def _held(self, term: TensorTerm, level: int) -> IntArray:
        """Return the fewest elements that an instance holds."""
        last = self._problem.level_count
        plain = prod((self._factor(d, level, last) for d in self._plain_dims(term)), start=self._ones)
        return plain * self._windows(term, (level - 1, level), _fewest)

    def _fits(self, term: TensorTerm, level: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        usable_bits = self._problem.arch.levels[level].usable_bits
        if usable_bits is None:
            return self._ones > 0
        return np.asarray(self._held(term, level) * term.tensor.bits <= usable_bits, dtype=np.bool_)

    def _messages(self, term: TensorTerm, after: int, upto: int) -> IntArray:
        total = self._ones
        for c in self._between(after, upto):
            dims = self._plain_dims(term)
            if not self._problem.classes[c].multicast.shares_reads:
                dims = list(range(len(self._problem.dims)))
            total = total * self._rows[:, c, dims].prod(axis=1, dtype=self.kind)
        return total * self._windows(term, (after, upto), _distinct)

    def _siblings(self, term: TensorTerm, parent: int, level: int) -> tuple[IntArray, IntArray, IntArray]:
        """Return siblings that share an element, those of them that do not add on the way, and siblings that hold
        different elements."""
        own = self._own(term)
        other = [d for d in range(len(self._problem.dims)) if d not in own]
        shared, alone, relevant = self._ones, self._ones, self._ones
        for c in self._between(parent, level):
            same = self._rows[:, c, other].prod(axis=1, dtype=self.kind)
            shared = shared * same
            alone = alone if self._problem.classes[c].reduction else alone * same
            relevant = relevant * self._rows[:, c, own].prod(axis=1, dtype=self.kind)
        return shared, alone, relevant

    def _windows(self, term: TensorTerm, levels: tuple[int, int], count: _Counter) -> IntArray:
        """Return the product over the window groups of what `count` says for (parent, level)."""
        total = self._ones
        for group in term.groups:
            if group.is_window:
                total = total * self._group(group, levels, count)
        return total

    def _group(self, group: IndexGroup, levels: tuple[int, int], count: _Counter) -> IntArray:
        dims = [self._problem.dims.index(dim) for dim in group.dims]
        first, which = self._alike(tuple(dims))
        values: IntArray = np.empty(len(first), dtype=self.kind)
        for place, number in enumerate(first):
            structure = self._structures[int(number)]
            spread = Spread(self._problem, structure, ())
            extents = tuple(self._problem.extents[d] // structure.used(d) for d in dims)
            crossings = tuple(spread.crossings(dim, *levels, above=True) for dim in group.dims)
            values[place] = count(group.coefficients, extents, crossings)
        return values[which]

    def _alike(self, dims: tuple[int, ...]) -> tuple[IntArray, IntArray]:
        """Return the first structure of each with other factors of these dims, and which of them every structure is
        like."""
        if dims not in self._kinds:
            seen = self._rows[:, :, list(dims)].reshape(len(self._structures), len(self._problem.classes) * len(dims))
            self._kinds[dims] = _first_and_which(seen)
        return self._kinds[dims]


def _first_and_which(rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return the first row of each kind, and which of them every row is like."""
    places: dict[tuple[int, ...], int] = {}
    which = [places.setdefault(tuple(row), len(places)) for row in rows.tolist()]
    _, first = np.unique(which, return_index=True)
    return first, np.array(which, dtype=np.int64)


_Crossings = tuple[tuple[Crossing, ...], ...]
_Counter = Callable[[tuple[int, ...], tuple[int, ...], _Crossings], int]


def _fills(coefficients: tuple[int, ...], extents: tuple[int, ...], crossings: _Crossings) -> int:
    return least_passed(coefficients, extents, unmerged(crossings), Count.FILLS)


def _reads(coefficients: tuple[int, ...], extents: tuple[int, ...], crossings: _Crossings) -> int:
    return least_passed(coefficients, extents, crossings, Count.READS)


def _fewest(coefficients: tuple[int, ...], extents: tuple[int, ...], crossings: _Crossings) -> int:
    return least_size(coefficients, extents, unmerged(crossings))


def _smallest(coefficients: tuple[int, ...], extents: tuple[int, ...], crossings: _Crossings) -> int:
    return least_size(coefficients, extents, crossings)


def _distinct(coefficients: tuple[int, ...], extents: tuple[int, ...], crossings: _Crossings) -> int:
    return least_messages(coefficients, extents, tuple(1 for _ in extents), crossings)
