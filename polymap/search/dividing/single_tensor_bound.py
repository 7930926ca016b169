"""A cheap bound for all structures at once: tensor by tensor, each instance loads each element that it needs once.

Loops over dims that a tensor lacks then stand inside all its nodes and cost nothing, a plain axis is loaded once
whatever the tile, and a window at least each of its elements: no tile is looked at, and arrays have one entry per
structure. The weights are those of node_costs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.poly import Arithmetic, Kind
from polymap.resources import SearchCaches
from polymap.search.dividing.cost_tables import arithmetic_of
from polymap.search.dividing.node_costs import SpatialFactors, StructureFactors, read_weights, update_end, update_weight
from polymap.search.dividing.window_paths import GroupCrossing, WindowCounts, forget_merging, window_counts
from polymap.search.problem import (
    Component,
    HolderEdge,
    IndexGroup,
    IntArray,
    Measure,
    PricedChains,
    Problem,
    Structure,
    Structures,
    TensorTerm,
    holder_graph,
    joint_values,
    sees_all_at_once,
    zero_start,
)

_Crossings = tuple[tuple[GroupCrossing, ...], ...]
_View = tuple[tuple[int, ...], _Crossings]
_DimView = tuple[int, tuple[GroupCrossing, ...]]
_Count = Callable[[WindowCounts, tuple[int, ...], tuple[int, ...], _Crossings], int]


def single_tensor_bounds(
    problem: Problem, measure: Measure, structures: Sequence[Structure], caches: SearchCaches | None = None
) -> list[int | None]:
    """Return per structure a lower bound of the objective (scaled) over all its mappings (None: none fits). caches: of
    the search (None: new ones)."""
    counts = window_counts(caches or SearchCaches())
    batches: dict[Arithmetic, StructureBatch] = {}
    arithmetics = [plain_arithmetic(problem, component) for component in measure.components]
    for one in arithmetics:
        if one not in batches:
            batches[one] = StructureBatch(problem, structures, one, counts)
    cycles = -(-batches[arithmetics[0]].steps // problem.arch.compute.per_cycle)
    each = [(batches[one], component) for one, component in zip(arithmetics, measure.components, strict=True)]
    if sees_all_at_once(measure, arithmetics, prod(problem.extents)):
        terms = sorted(problem.terms, key=lambda term: not term.is_output)
        tensors = [[_costs_of_chains(batch, term, component) for batch, component in each] for term in terms]
        return joint_values(measure, arithmetics, tensors, cycles)
    parts: list[list[int]] = []
    feasible = np.ones(len(structures), dtype=np.bool_)
    for batch, component in each:
        total: IntArray = np.zeros(len(structures), dtype=batch.arithmetic.dtype)
        for term in problem.terms:
            own = tensor_cost(batch, term, component)
            feasible &= batch.arithmetic.possible(own)
            total = total + np.where(feasible, own, 0) + zero_start(term, component)
        parts.append(total.tolist())
    if measure.is_linear and not measure.limits:
        values = (value + measure.fixed_energy for value in parts[0])
        return [value if fits else None for value, fits in zip(values, feasible.tolist(), strict=True)]
    found: list[int | None] = []
    for number, own_cycles in enumerate(cycles.tolist()):
        own = tuple(part[number] for part in parts)
        found.append(measure.value_within_limits(own, own_cycles) if feasible[number] else None)
    return found


def _costs_of_chains(batch: StructureBatch, term: TensorTerm, component: Component) -> list[IntArray]:
    """Return per chain of levels what one tensor costs in each structure."""
    start = zero_start(term, component)
    found = _chains(batch, term, component).each()
    return [batch.arithmetic.where(batch.arithmetic.possible(own), own + start) for own in found]


def _classes_of(structures: Sequence[Structure]) -> IntArray:
    """Return the products of structures [structure, class, dim]."""
    if isinstance(structures, Structures):
        return structures.classes
    return np.array([one.classes for one in structures], dtype=object)


def plain_arithmetic(problem: Problem, component: Component) -> Arithmetic:
    """Return the arithmetic without limbs: an array has but one entry per structure."""
    found = arithmetic_of(problem, component)
    return found if found.kind is Kind.NARROW else Arithmetic(Kind.LONG, found.limit)


class StructureBatch(SpatialFactors[IntArray]):
    """Structures side by side: arrays with one entry per structure, in one arithmetic."""

    def __init__(
        self, problem: Problem, structures: Sequence[Structure], arithmetic: Arithmetic, counts: WindowCounts
    ) -> None:
        factors = _classes_of(structures).astype(arithmetic.dtype)
        factors = factors.reshape(len(structures), len(problem.classes), len(problem.dims))
        rows = tuple(tuple(np.ascontiguousarray(column) for column in of.T) for of in factors.transpose(1, 0, 2))
        super().__init__(problem, rows, np.ones(len(structures), dtype=arithmetic.dtype))
        self.arithmetic, self.counts = arithmetic, counts
        self.steps: IntArray = prod(problem.extents) // self.instances(problem.level_count)
        self._structures, self._factors = structures, factors
        self._columns: dict[str, tuple[list[StructureFactors], IntArray]] = {}
        self._known_views: dict[tuple[IndexGroup, tuple[int, int]], tuple[list[_View], IntArray]] = {}
        self._counts: dict[tuple[IndexGroup, tuple[int, int], _Count], IntArray] = {}

    @property
    def infeasible(self) -> IntArray:
        """Return the cost that marks a structure in which nothing fits, for every structure."""
        return self.arithmetic.where(self.one < 1, self.one)

    def plain_dims(self, term: TensorTerm) -> list[str]:
        return [group.dims[0] for group in term.groups if not group.is_window]

    def plain_loads(self, term: TensorTerm, level: int) -> IntArray:
        """Return the elements along the plain axes that one instance of a level needs."""
        extents = dict(zip(self.problem.dims, self.problem.extents, strict=True))
        return self.product(extents[dim] // self.factor(dim, -1, level) for dim in self.plain_dims(term))

    def held(self, term: TensorTerm, level: int) -> IntArray:
        """Return a lower bound on the elements that an instance holds."""
        last = self.problem.level_count
        plain = self.product(self.factor(dim, level, last) for dim in self.plain_dims(term))
        return plain * self.windows(term, (level - 1, level), _fewest_held)

    def fits(self, term: TensorTerm, level: int) -> NDArray[np.bool_]:
        """Return where that lower bound fits into the level."""
        usable_bits = self.problem.arch.levels[level].usable_bits
        if usable_bits is None:
            return self.one > 0
        return np.asarray(self.held(term, level) * term.tensor.bits <= usable_bits, dtype=np.bool_)

    def windows(self, term: TensorTerm, levels: tuple[int, int], count: _Count) -> IntArray:
        """Return the product over the window groups of `count` at (parent, level)."""
        return self.product(self._group(group, levels, count) for group in term.groups if group.is_window)

    def _group(self, group: IndexGroup, levels: tuple[int, int], count: _Count) -> IntArray:
        if (group, levels, count) not in self._counts:
            self._counts[group, levels, count] = self._group_count(group, levels, count)
        return self._counts[group, levels, count]

    def _group_count(self, group: IndexGroup, levels: tuple[int, int], count: _Count) -> IntArray:
        if (group, levels) not in self._known_views:
            self._known_views[group, levels] = self._views(group, levels)
        views, kind = self._known_views[group, levels]
        each = [count(self.counts, group.coefficients, *view) for view in views]
        return np.array(each, dtype=self.arithmetic.dtype)[kind]

    def _views(self, group: IndexGroup, levels: tuple[int, int]) -> tuple[list[_View], IntArray]:
        """Return the different views of a window between two levels (the temporal extents of its dims, the crossings of
        each), and the number of each structure's."""
        parts, kinds = zip(*(self._dim_views(dim, levels) for dim in group.dims), strict=True)
        first, kind = _joined(kinds)
        numbers = zip(*(own[first].tolist() for own in kinds), strict=True)
        seen = [[own[number] for own, number in zip(parts, row, strict=True)] for row in numbers]
        return [(tuple(extent for extent, _ in row), tuple(crossing for _, crossing in row)) for row in seen], kind

    def _dim_views(self, dim: str, levels: tuple[int, int]) -> tuple[list[_DimView], IntArray]:
        """Return the same for a dim."""
        columns, kind = self._columns_of(dim)
        whole, last = self.problem.extents[self.problem.dims.index(dim)], self.problem.level_count
        each = [(whole // own.factor(dim, -1, last), own.crossings(dim, *levels)) for own in columns]
        views = {view: number for number, view in enumerate(dict.fromkeys(each))}
        return list(views), np.array([views[one] for one in each], dtype=np.int64)[kind]

    def _columns_of(self, dim: str) -> tuple[list[StructureFactors], IntArray]:
        """Return the factors of one structure for each different column of factors of a dim, and the column of each
        structure."""
        if dim not in self._columns:
            d = self.problem.dims.index(dim)
            each = [np.unique(own, return_inverse=True)[1] for own in self._factors[:, :, d].T]
            first, kind = _joined(each or [np.zeros(len(self._structures), dtype=np.int64)])
            ones: list[int] = first.tolist()
            self._columns[dim] = [StructureFactors(self.problem, self._structures[one]) for one in ones], kind
        return self._columns[dim]


def _joined(numbers: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Number the different rows of some columns of numbers: (index of the first of each kind, kind of each row)."""
    kind = numbers[0]
    for own in numbers[1:]:
        kind = np.unique(kind * (int(own.max(initial=0)) + 1) + own, return_inverse=True)[1]
    return np.unique(kind, return_index=True, return_inverse=True)[1:]


def tensor_cost(batch: StructureBatch, term: TensorTerm, component: Component) -> IntArray:
    """Return per structure the least cost of one tensor, but for `zero_start` (infeasible where it fits nowhere)."""
    return _chains(batch, term, component).least()


def _chains(batch: StructureBatch, term: TensorTerm, component: Component) -> PricedChains:
    """Return the chains of levels that may hold a tensor, with what they cost."""
    node, end = (_output_node, _output_end) if term.is_output else (_read_node, _read_end)
    return PricedChains(
        holder_graph(term, batch.problem.level_count),
        batch.arithmetic,
        batch.one * 0,
        lambda edge: node(batch, term, component, edge),
        lambda level: batch.fits(term, level),
        lambda holder: end(batch, term, component, holder),
    )


def _read_end(batch: StructureBatch, term: TensorTerm, component: Component, holder: int) -> IntArray:
    count = batch.problem.level_count
    weights, levels = read_weights(batch, term, component, holder, count), (holder, count)
    messages = batch.windows(term, levels, _messages) * batch.windows(term, levels, _fewest_read)
    return (messages * weights.read + weights.filled) * batch.steps


def _output_end(batch: StructureBatch, term: TensorTerm, component: Component, holder: int) -> IntArray:
    return update_end(batch, term, component, holder, batch.steps)


def _read_node(batch: StructureBatch, term: TensorTerm, component: Component, edge: HolderEdge) -> IntArray:
    levels = edge.parent, edge.level
    weights = read_weights(batch, term, component, *levels)
    plain = batch.plain_loads(term, edge.level)
    fills = plain * batch.windows(term, levels, _all_filled)
    reads = plain * batch.windows(term, levels, _all_read) * batch.windows(term, levels, _messages)
    cost = fills * weights.filled + reads * weights.read
    return cost + batch.held(term, edge.level) * weights.held if weights.held else cost


def _output_node(batch: StructureBatch, term: TensorTerm, component: Component, edge: HolderEdge) -> IntArray:
    visits = batch.plain_loads(term, edge.level)
    weight, credit = update_weight(batch, term, component, (edge.parent, edge.level), edge.levels)
    cost = visits * weight - credit
    if component.held:
        cost = cost + batch.held(term, edge.level) * component.held[edge.level][term.index]
    return cost


def _all_filled(
    counts: WindowCounts, coefficients: tuple[int, ...], extents: tuple[int, ...], crossings: _Crossings
) -> int:
    return counts.least_union(coefficients, extents, extents, forget_merging(crossings))


def _all_read(
    counts: WindowCounts, coefficients: tuple[int, ...], extents: tuple[int, ...], crossings: _Crossings
) -> int:
    return counts.least_union(coefficients, extents, extents, crossings)


def _fewest_held(
    counts: WindowCounts, coefficients: tuple[int, ...], extents: tuple[int, ...], crossings: _Crossings
) -> int:
    return counts.least_union(coefficients, extents, (1,) * len(extents), forget_merging(crossings))


def _fewest_read(
    counts: WindowCounts, coefficients: tuple[int, ...], extents: tuple[int, ...], crossings: _Crossings
) -> int:
    return counts.least_union(coefficients, extents, (1,) * len(extents), crossings)


def _messages(
    counts: WindowCounts, coefficients: tuple[int, ...], extents: tuple[int, ...], crossings: _Crossings
) -> int:
    return counts.least_messages(coefficients, extents, (1,) * len(extents), crossings)
