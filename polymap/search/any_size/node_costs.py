"""What a storage node costs at least, for every cell of its tile: the tables behind the bound for tiles of any size.

An element that a node loads serves the statement instances that use it before it is dropped. However the loops are cut,
these lie in a box: the node's tile in the tensor's own dims, and in each other dim no more than one tile there. So a
load is shared by at most that many instances, and the tensor's traffic is at least the number of instances over it.
Partial tiles are smaller boxes: they share less (docs/any_tiles.md has the proof). In a window p + r one element
serves several pairs; most_window_reuse bounds how many.

Costs are floats, as totals over all statement instances; the engine takes a margin for rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from math import ceil, floor, gcd, prod

import numpy as np

from polymap.arithmetic import FloatArray
from polymap.search.any_size.monomials import compute_weight, joins_messages, node_weights
from polymap.search.any_size.regions import CellSizes, Region, fanout_groups, measuring_unit, unit_count
from polymap.search.dividing import output_plans, zero_starts
from polymap.search.objective import Component, Measure
from polymap.search.problem import IndexGroup, Problem, TensorTerm
from polymap.search.resources import SearchCaches

MOST_BITS = 900  # of numbers that floats hold with room to spare


@dataclass(frozen=True, slots=True, eq=False)
class HolderEdge:
    """One storage node of a tensor: an edge of its holder graph, from state `source` to `target`.

    unit: in which tiles of its level are measured. parent: the level it loads from or drains to. levels: its own level;
    of an output, then those further in that hold it too. costs: per unit in which its tile may be measured (the own one
    and those further out) [component, *cells]. bits: likewise, held by one instance at least, inf where no tile of the
    cell can stand here.
    """

    source: int
    target: int
    unit: int
    parent: int
    levels: tuple[int, ...]
    costs: tuple[FloatArray, ...]
    bits: tuple[FloatArray, ...]

    @property
    def level(self) -> int:
        return self.levels[0]


@dataclass(frozen=True, slots=True, eq=False)
class HolderGraph:
    """States of one tensor (which level holds it now; those that no edge enters come first), edges, and per state what
    the statement instances cost there per component (None: the tensor must be held further in)."""

    holders: tuple[int, ...]
    edges: tuple[HolderEdge, ...]
    final: tuple[tuple[float, ...] | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CostTables:
    """The holder graphs of a region. ends: per unit and dim the upper ends of the cells. start: per component what is
    added to every chain. cycles: compute cycles at least."""

    problem: Problem
    measure: Measure
    region: Region
    ends: tuple[tuple[tuple[Fraction, ...], ...], ...]
    tensors: tuple[HolderGraph, ...]
    start: tuple[float, ...]
    cycles: int
    caches: SearchCaches

    def least_cost(self, component: int) -> float:
        """Return how far below 0 the costs of a chain's nodes may be together: their rounding counts from there."""
        lows = [[float(c[component].min()) for c in edge.costs] for table in self.tensors for edge in table.edges]
        return -sum(min(0.0, *own) for own in lows)

    def shape(self, unit: int) -> tuple[int, ...]:
        """Return the number of cells per dim."""
        return tuple(len(ends) for ends in self.ends[unit])

    @property
    def most_cells(self) -> int:
        """Return the number of cells in the unit that has most."""
        return max(prod(self.shape(unit)) for unit in range(len(self.ends)))


def floats_suffice(problem: Problem, measure: Measure) -> bool:
    """Return whether all costs, and their products in the objective, are far from what floats cannot hold."""
    weights = [int(w) for c in measure.components for rows in (c.read, c.write, c.held) for row in rows for w in row]
    bits = prod(problem.extents).bit_length() + max((w.bit_length() for w in weights), default=0)
    return max(2, measure.degree) * bits + 100 < MOST_BITS


def build_cost_tables(problem: Problem, measure: Measure, region: Region, caches: SearchCaches) -> CostTables:
    """Return the tables of a region."""
    views = tuple(CellSizes(problem, region, unit) for unit in range(unit_count(problem)))
    tensors = tuple(_holder_graph(views, measure, term, caches) for term in problem.terms)
    start = tuple(
        -float(sum(zero_starts(term) * c.read[0][term.index] for term in problem.terms)) for c in measure.components
    )
    cycles = -(-_fewest_steps(problem, region) // problem.arch.compute.per_cycle)
    return CostTables(problem, measure, region, tuple(view.ends for view in views), tensors, start, cycles, caches)


def _fewest_steps(problem: Problem, region: Region) -> int:
    """Return how many steps a mapping of the region takes at least: no more run side by side than fan-outs and the
    region's trip counts allow, and along each dim whole steps."""
    lanes, trips = 1, [1] * len(problem.dims)
    for one, row in zip(problem.classes, region.factors, strict=True):
        most = [r.most_trips for r in row]
        lanes *= min(prod(problem.arch.fanouts[f].size for f in one.fanouts), prod(most))
        trips = [a * b for a, b in zip(trips, most, strict=True)]
    along = prod(-(-extent // t) for extent, t in zip(problem.extents, trips, strict=True))
    return max(along, -(-prod(problem.extents) // lanes))


def _holder_graph(
    views: tuple[CellSizes, ...], measure: Measure, term: TensorTerm, caches: SearchCaches
) -> HolderGraph:
    """Return the states and nodes of a tensor. An input's states are the levels, an output's are (holder, levels still
    to come): what siblings elide is credited to the levels further in."""
    problem = views[0].problem
    edges: list[HolderEdge] = []

    def add(source: int, target: int, parent: int, levels: tuple[int, ...]) -> None:
        unit = measuring_unit(problem, levels[0])
        bits = tuple(_bits_held(view, term, levels[0], caches) for view in views[: unit + 1])
        costs = tuple(
            _node_costs(view, measure, term, (parent, levels), held)
            for view, held in zip(views[: unit + 1], bits, strict=True)
        )
        edges.append(HolderEdge(source, target, unit, parent, levels, costs, bits))

    if term.is_output:
        states = tuple(sorted(output_plans(term, problem.level_count)))
        for source, (parent, rest) in enumerate(states):
            if rest:
                add(source, states.index((rest[0], rest[1:])), parent, rest)
        final = tuple(None if rest else _compute_costs(views[0], measure, term, holder) for holder, rest in states)
        return HolderGraph(tuple(holder for holder, _ in states), tuple(edges), final)
    for level in sorted(term.may_hold):
        for parent in range(level):
            if not _skips_required_level(term, parent, level):
                add(parent, level, parent, (level,))
    count = problem.level_count
    final = tuple(
        None if _skips_required_level(term, holder, count) else _compute_costs(views[0], measure, term, holder)
        for holder in range(count)
    )
    return HolderGraph(tuple(range(count)), tuple(edges), final)


def _skips_required_level(term: TensorTerm, after: int, upto: int) -> bool:
    return any(after < level < upto for level in term.must_hold)


def _compute_costs(sizes: CellSizes, measure: Measure, term: TensorTerm, holder: int) -> tuple[float, ...]:
    """Return what the statement instances' reads or updates cost per component."""
    messages = sizes.instances / _joined_siblings(sizes, term, holder, sizes.problem.level_count)
    return tuple(messages * float(compute_weight(sizes.problem, c, term, holder)) for c in measure.components)


def _node_costs(
    sizes: CellSizes, measure: Measure, term: TensorTerm, levels: tuple[int, tuple[int, ...]], bits: FloatArray
) -> FloatArray:
    """Return what a node costs at least [component, *cells]; levels: the parent, and as in HolderEdge."""
    parent, level = levels[0], levels[1][0]
    whole = sizes.instances / _instances_per_load(sizes, term, level, parent)
    loads = sizes.instances / _instances_per_load(sizes, term, level)
    joined = _joined_siblings(sizes, term, parent, level)
    # Factors are averages over siblings, one of which may do less: times what a load serves at most, not on average.
    served = sizes.instances / _instances_per_load(sizes, term, level)
    messages = whole if _unites_windows(sizes, term, parent, level) else None
    if messages is None:
        alone = loads if joined == 1 and not term.is_output else served / joined
        messages = np.maximum(alone, whole)
    elements = np.where(np.isfinite(bits), bits, 0.0) / term.tensor.bits
    counts = loads, served, messages, whole, elements
    return np.stack([_node_cost(sizes, c, term, levels, counts) for c in measure.components])


def _node_cost(
    sizes: CellSizes,
    component: Component,
    term: TensorTerm,
    levels: tuple[int, tuple[int, ...]],
    counts: tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray],
) -> FloatArray:
    """Return the cost of one component; counts: fewest loads, loads with single tiles per visit, messages, loads of all
    siblings together, elements held."""
    loads, served, messages, whole, elements = counts
    weights = node_weights(sizes.problem, component, term, *levels)
    load, entry = weights.load, weights.entry
    others = sizes.other_dims(term)
    between = sizes.spatial_factors(levels[0], levels[1][0])
    if load < 0:
        # No more loads enter together than the spatial loops have iterations.
        entry += load * prod(sizes.most_iterations(others, one, row) for one, row in between)
        load = Fraction(0)
    credit, held = float(weights.zero_credit), elements * weights.held
    if entry < 0:
        # How many enter together at most is not known, but for the statement instances.
        return np.broadcast_to(held + (sizes.instances * float(entry) - credit), sizes.shape)
    total = loads * float(load) + messages * float(weights.message)
    if entry:
        together = prod(sizes.most_siblings(others, one, row) for one, row in between)
        total = total + np.maximum(served / together, whole) * float(entry)
    return np.broadcast_to(total - credit + held, sizes.shape)


def _joined_siblings(sizes: CellSizes, term: TensorTerm, after: int, upto: int) -> float:
    """Return how many siblings' equal messages are one at the level above them, at most."""
    rows = [(one, row) for one, row in sizes.spatial_factors(after, upto) if joins_messages(term, one)]
    if term.is_output:
        return prod(sizes.most_siblings(sizes.other_dims(term), one, row) for one, row in rows)
    return prod(sizes.most_sharers(term, one, row) for one, row in rows)


def _unites_windows(sizes: CellSizes, term: TensorTerm, parent: int, level: int) -> bool:
    """Return whether parts of siblings' windows are one read at the parent: then only the box of all siblings together
    bounds what a read serves."""
    if term.is_output or not term.is_window:
        return False
    return any(one.multicast.unites_tiles for one, _ in sizes.spatial_factors(parent, level))


def _bits_held(sizes: CellSizes, term: TensorTerm, level: int, caches: SearchCaches) -> FloatArray:
    """Return the bits that one instance holds at least; inf in cells without an integer tile at the innermost."""
    known = sizes.sizes(level)
    total = np.full((1,) * len(known), float(term.tensor.bits))
    elements_of = caches.memo(fewest_elements)
    for group in term.groups:
        dims = [sizes.problem.dims.index(dim) for dim in group.dims]
        spread = tuple(sizes.may_be_spread(d, level) for d in dims)
        axes = [known[d][0] for d in dims]
        elements = elements_of(group.coefficients, tuple(tuple(axis) for axis in axes), spread)
        order = sorted(range(len(dims)), key=lambda i: dims[i])
        shape = [1] * len(known)
        for d, axis in zip(dims, axes, strict=True):
            shape[d] = len(axis)
        total = total * np.transpose(elements, order).reshape(shape)
    own = measuring_unit(sizes.problem, level)
    for d, ends in enumerate(sizes.ends):
        # Below the fan-outs at least one index is left.
        least = sizes.region.factor_product(d, (sizes.unit, own), sizes.problem, high=False)
        total = total + sizes.along_axis(d, [np.inf if end < least else 0.0 for end in ends])
    if own == sizes.unit and not sizes.region.single_tiles:
        for d, ends in enumerate(sizes.ends):
            empty = [False, *(floor(high) <= low for low, high in pairwise(ends))]
            total = total + sizes.along_axis(d, [np.inf if gap else 0.0 for gap in empty])
    return np.broadcast_to(total, sizes.shape)


def _instances_per_load(sizes: CellSizes, term: TensorTerm, level: int, seen_from: int | None = None) -> FloatArray:
    """Return how many statement instances one load of an element serves, on average at most, per cell.

    seen_from: the load of all siblings below one instance of that level together. A tile of t indices serves t, not
    n / ceil(n / t): where another tensor's tile is partial, whole visits would be no bound (docs/any_tiles.md).
    """
    above = level if seen_from is None else seen_from
    known = sizes.sizes(above)
    others = sizes.other_dims(term)
    total = np.ones((1,) * len(known))
    plain = np.ones((1,) * len(known))
    for d in others:
        most = known[d][1]
        total = total * sizes.along_axis(d, most)
        plain = plain * sizes.along_axis(d, [float(end) for end in sizes.ends[d]])
    own = measuring_unit(sizes.problem, above)
    if own <= sizes.unit and not sizes.region.single_tiles:
        groups = fanout_groups(sizes.problem)[own : sizes.unit]
        rows = sizes.spatial_factors(above, sizes.problem.level_count)
        siblings = prod(sizes.most_siblings(others, one, row) for one, row in rows if one.below in groups)
        total = np.minimum(total, plain * siblings)
    windows = [group for group in term.groups if group.is_window]
    return total * most_window_reuse(sizes, windows, above) if windows else total


def fewest_elements(
    coefficients: tuple[int, ...], axes: tuple[tuple[int, ...], ...], gaps: tuple[bool, ...]
) -> FloatArray:
    """Return how many elements of an index group a tile of at least these sizes has, over the product of the axes.

    gaps: whether the indices of a dim may have gaps.
    """
    grid = np.meshgrid(*(np.array(axis, dtype=np.float64) for axis in axes), indexing="ij")
    return _element_count(coefficients, grid, gaps)


def _element_count(coefficients: tuple[int, ...], sizes: Sequence[FloatArray], gaps: tuple[bool, ...]) -> FloatArray:
    """Return a lower bound of the size of {sum c_i x_i}, x_i in a set of sizes[i] indices; exact for an interval r in
    c p + r."""
    least: FloatArray = np.maximum(1.0, sum(sizes) - (len(sizes) - 1))
    if len(sizes) == 2:
        for p, r in ((0, 1), (1, 0)):
            if abs(coefficients[r]) == 1 and not gaps[r]:
                step = np.minimum(float(abs(coefficients[p])), sizes[r])
                least = np.maximum(least, step * (sizes[p] - 1) + sizes[r])
    return least


def most_window_reuse(sizes: CellSizes, groups: list[IndexGroup], level: int) -> FloatArray:
    """Return how many index vectors of the windows one load of an element serves at most, per cell.

    The loops of one window may slide the tile over an element; the others stand still meanwhile.
    """
    fixed = [_reuse_in_fixed_tile(sizes, group, level) for group in groups]
    sliding = [np.maximum(f, _reuse_while_sliding(sizes, group, level)) for f, group in zip(fixed, groups, strict=True)]
    choices = [
        reduce(np.multiply, [sliding[g] if g == one else fixed[g] for g in range(len(groups))])
        for one in range(len(groups))
    ]
    extents = sizes.problem.workload.extents()
    most = prod(_most_on_diagonal(group, [extents[dim] for dim in group.dims]) for group in groups)
    return np.minimum(reduce(np.maximum, choices), float(most))


def _most_on_diagonal(group: IndexGroup, extents: list[int]) -> int:
    """Return how many index vectors of a box share an element at most."""
    if len(group.dims) == 2:
        first, second = (abs(c) for c in group.coefficients)
        common = gcd(first, second)
        return min(ceil(extents[1] * common / first), ceil(extents[0] * common / second))
    return prod(extents) // max(extents)


def _largest_axes(sizes: CellSizes, group: IndexGroup, level: int) -> list[FloatArray]:
    dims = [sizes.problem.dims.index(dim) for dim in group.dims]
    return [sizes.along_axis(d, sizes.sizes(level)[d][1]) for d in dims]


def _may_have_gaps(sizes: CellSizes, group: IndexGroup, level: int) -> tuple[bool, ...]:
    return tuple(sizes.may_be_spread(sizes.problem.dims.index(dim), level) for dim in group.dims)


def _reuse_in_fixed_tile(sizes: CellSizes, group: IndexGroup, level: int) -> FloatArray:
    """Return the reuse while no loop of the group moves the tile: its pairs over its elements."""
    most = _largest_axes(sizes, group, level)
    return reduce(np.multiply, most) / _element_count(group.coefficients, most, _may_have_gaps(sizes, group, level))


def _reuse_while_sliding(sizes: CellSizes, group: IndexGroup, level: int) -> FloatArray:
    """Return the reuse while the group's loops move the tile, at most."""
    most, gaps = _largest_axes(sizes, group, level), _may_have_gaps(sizes, group, level)
    best: FloatArray = np.zeros((1,) * len(sizes.problem.dims))
    for i in range(len(group.dims)):
        others = [j for j in range(len(group.dims)) if j != i]
        new_per_step = reduce(np.multiply, [most[j] for j in others])
        if len(others) == 1 and abs(group.coefficients[others[0]]) == 1 and not gaps[others[0]]:
            new_per_step = new_per_step / np.minimum(float(abs(group.coefficients[i])), most[others[0]])
        returns = np.ones((1,) * len(sizes.problem.dims))
        for j in others:
            d = sizes.problem.dims.index(group.dims[j])
            extent = sizes.problem.extents[d]
            fewest = sizes.sizes(level)[d][0]
            returns = np.maximum(returns, sizes.along_axis(d, [1.0 if n >= extent else 2.0 for n in fewest]))
        best = np.maximum(best, new_per_step * returns)
    return best
