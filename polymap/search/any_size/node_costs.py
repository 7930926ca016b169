"""What a storage node costs at least, for every cell of its tile: the tables behind the bound for tiles of any size.

An element that a node loads serves the statement instances that use it before it is dropped. However the loops are cut,
these lie in a box: the node's tile in the tensor's own dims, and in each other dim no more than one tile there. So a
load is shared by at most that many instances, and the tensor's traffic is at least the number of instances over it.
Partial tiles are smaller boxes: they share less (docs/any_tiles.md has the proof). In a window p + r one element
serves several pairs; window_reuse bounds how many.

Costs are floats, as totals over all statement instances; the engine takes a margin for rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import pairwise
from math import ceil, floor, gcd, prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from polymap.search.any_size.regions import (
    ONE,
    AnySizes,
    Region,
    groups_of,
    per_visit,
    unit_count,
    unit_of,
)
from polymap.search.dividing import output_plans, zero_starts
from polymap.search.objective import Component, Measure
from polymap.search.problem import FanoutClass, IndexGroup, Problem, TensorTerm


class Sizes(Protocol):
    """The sizes of tiles of a level per dim and cell (any_tables.AnySizes)."""

    problem: Problem

    def sizes(self, level: int) -> tuple[tuple[list[int], list[float]], ...]: ...
    def shaped(self, dim: int, values: list[int] | list[float]) -> FloatArray: ...
    def is_spread(self, dim: int, level: int) -> bool: ...


@lru_cache(maxsize=4096)
def fewest_elements(
    coefficients: tuple[int, ...], axes: tuple[tuple[int, ...], ...], spread: tuple[bool, ...]
) -> FloatArray:
    """Return how many elements of an index group a tile of at least these sizes has, over the product of the axes.

    spread: whether the indices of a dim may have gaps.
    """
    grid = np.meshgrid(*(np.array(axis, dtype=np.float64) for axis in axes), indexing="ij")
    return _elements(coefficients, grid, spread)


def _elements(coefficients: tuple[int, ...], sizes: Sequence[FloatArray], spread: tuple[bool, ...]) -> FloatArray:
    """Return a lower bound of the size of {sum c_i x_i}, x_i in a set of sizes[i] indices; exact for an interval r in
    c p + r."""
    least: FloatArray = np.maximum(1.0, sum(sizes) - (len(sizes) - 1))
    if len(sizes) == 2:
        for p, r in ((0, 1), (1, 0)):
            if abs(coefficients[r]) == 1 and not spread[r]:
                step = np.minimum(float(abs(coefficients[p])), sizes[r])
                least = np.maximum(least, step * (sizes[p] - 1) + sizes[r])
    return least


def most_reuse(sizes: Sizes, groups: list[IndexGroup], level: int) -> FloatArray:
    """Return how many index vectors of the groups one load of an element serves at most, per cell."""
    still = [_still(sizes, group, level) for group in groups]
    moving = [np.maximum(s, _moving(sizes, group, level)) for s, group in zip(still, groups, strict=True)]
    choices = [
        reduce(np.multiply, [moving[g] if g == one else still[g] for g in range(len(groups))])
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


def _axes(sizes: Sizes, group: IndexGroup, level: int) -> list[FloatArray]:
    dims = [sizes.problem.dims.index(dim) for dim in group.dims]
    return [sizes.shaped(d, sizes.sizes(level)[d][1]) for d in dims]


def _spread(sizes: Sizes, group: IndexGroup, level: int) -> tuple[bool, ...]:
    return tuple(sizes.is_spread(sizes.problem.dims.index(dim), level) for dim in group.dims)


def _still(sizes: Sizes, group: IndexGroup, level: int) -> FloatArray:
    """Return the reuse while the tile stands still."""
    most = _axes(sizes, group, level)
    return reduce(np.multiply, most) / _elements(group.coefficients, most, _spread(sizes, group, level))


def _moving(sizes: Sizes, group: IndexGroup, level: int) -> FloatArray:
    """Return the reuse while the group's loops move the tile, at most."""
    most, spread = _axes(sizes, group, level), _spread(sizes, group, level)
    best: FloatArray = np.zeros((1,) * len(sizes.problem.dims))
    for i in range(len(group.dims)):
        others = [j for j in range(len(group.dims)) if j != i]
        pure = reduce(np.multiply, [most[j] for j in others])
        if len(others) == 1 and abs(group.coefficients[others[0]]) == 1 and not spread[others[0]]:
            pure = pure / np.minimum(float(abs(group.coefficients[i])), most[others[0]])
        back = np.ones((1,) * len(sizes.problem.dims))
        for j in others:
            d = sizes.problem.dims.index(group.dims[j])
            extent = sizes.problem.extents[d]
            fewest = sizes.sizes(level)[d][0]
            back = np.maximum(back, sizes.shaped(d, [1.0 if n >= extent else 2.0 for n in fewest]))
        best = np.maximum(best, pure * back)
    return best


FloatArray = NDArray[np.float64]
MOST_BITS = 900  # of numbers that floats hold with room to spare


@dataclass(frozen=True, slots=True, eq=False)
class AnyEdge:
    """One storage node of a tensor, from state `source` to `target`, held by `level`, whose own unit is `unit`.

    parent: the level it loads from or drains to. rest: of an output, the levels from this one inwards that hold it.
    costs: per unit in which its tile may be measured (the own one and those further out) [component, *cells]. bits:
    likewise, held by one instance at least, inf where no tile of the cell can stand here.
    """

    source: int
    target: int
    level: int
    unit: int
    parent: int
    rest: tuple[int, ...]
    costs: tuple[FloatArray, ...]
    bits: tuple[FloatArray, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AnyTable:
    """States of one tensor (those that no edge enters come first), edges, and per state what the statement instances
    cost there per component (None: the tensor may not stay there)."""

    holders: tuple[int, ...]
    edges: tuple[AnyEdge, ...]
    final: tuple[tuple[float, ...] | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AnyTables:
    """ends: per unit and dim the upper ends of the cells. cycles: compute cycles at least."""

    problem: Problem
    measure: Measure
    region: Region
    ends: tuple[tuple[tuple[Fraction, ...], ...], ...]
    tensors: tuple[AnyTable, ...]
    start: tuple[float, ...]
    cycles: int

    def least_cost(self, component: int) -> float:
        """Return how far below 0 the costs of a chain's nodes may be together: their rounding counts from there."""
        lows = [[float(c[component].min()) for c in edge.costs] for table in self.tensors for edge in table.edges]
        return -sum(min(0.0, *own) for own in lows)

    def shape(self, unit: int) -> tuple[int, ...]:
        return tuple(len(ends) for ends in self.ends[unit])


def floats_suffice(problem: Problem, measure: Measure) -> bool:
    """Return whether all costs, and their products in the objective, are far from what floats cannot hold."""
    weights = [int(w) for c in measure.components for rows in (c.read, c.write, c.held) for row in rows for w in row]
    bits = prod(problem.extents).bit_length() + max((w.bit_length() for w in weights), default=0)
    return max(2, measure.degree) * bits + 100 < MOST_BITS


def build_any_tables(problem: Problem, measure: Measure, region: Region) -> AnyTables:
    """Return the tables of a region."""
    views = tuple(AnySizes(problem, region, unit) for unit in range(unit_count(problem)))
    tensors = tuple(_table(views, measure, term) for term in problem.terms)
    start = tuple(
        -float(sum(zero_starts(term) * c.read[0][term.index] for term in problem.terms)) for c in measure.components
    )
    cycles = -(-_fewest_steps(problem, region) // problem.arch.compute.per_cycle)
    return AnyTables(problem, measure, region, tuple(view.ends for view in views), tensors, start, cycles)


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


def _table(views: tuple[AnySizes, ...], measure: Measure, term: TensorTerm) -> AnyTable:
    if term.is_output:
        return _output_table(views, measure, term)
    problem = views[0].problem
    levels = range(problem.level_count)
    edges: list[AnyEdge] = []
    for level in sorted(term.may_hold):
        unit = unit_of(problem, level)
        bits = tuple(_bits(view, term, level) for view in views[: unit + 1])
        for parent in range(level):
            if not _skips(term, parent, level):
                costs = tuple(
                    _read_costs(view, measure, term, parent, level) + _held_costs(measure, term, level, held)
                    for view, held in zip(views, bits, strict=False)
                )
                edges.append(AnyEdge(parent, level, level, unit, parent, (), costs, bits))
    final: list[tuple[float, ...] | None] = []
    for holder in levels:
        reads = views[0].instances / _merged(views[0], term, holder, len(levels))
        known = tuple(reads * c.read[holder][term.index] / _copies(views[0], c, holder) for c in measure.components)
        final.append(None if _skips(term, holder, len(levels)) else known)
    return AnyTable(tuple(levels), tuple(edges), tuple(final))


def _read_costs(view: AnySizes, measure: Measure, term: TensorTerm, parent: int, level: int) -> FloatArray:
    fills = view.instances / _reuse(view, term, level)
    reads = view.instances / _served(view, term, parent, level)
    return np.stack([_priced(view, c, term, (parent, level), (fills, reads)) for c in measure.components])


def _held_costs(measure: Measure, term: TensorTerm, level: int, bits: FloatArray) -> FloatArray:
    """Return what holding the tile costs per component, where the measure counts that."""
    elements = np.where(np.isfinite(bits), bits, 0.0) / term.tensor.bits
    return np.stack([elements * (c.held[level][term.index] if c.held else 0) for c in measure.components])


def _skips(term: TensorTerm, after: int, upto: int) -> bool:
    return any(after < level < upto for level in term.must_hold)


def _copies(sizes: AnySizes, component: Component, level: int) -> int:
    """Return by what a total is divided: for measures of the busiest instance, the number of instances at most."""
    if not component.busiest:
        return 1
    fanouts = [f for one in sizes.problem.classes if one.below <= level for f in one.fanouts]
    return prod(sizes.problem.arch.fanouts[f].size for f in fanouts)


def _priced(
    sizes: AnySizes,
    component: Component,
    term: TensorTerm,
    levels: tuple[int, int],
    counts: tuple[FloatArray, FloatArray],
) -> FloatArray:
    """Return fills x write here + reads x read at the parent; levels: the parent and here."""
    parent, level = levels
    here = component.write[level][term.index] / _copies(sizes, component, level)
    there = component.read[parent][term.index] / _copies(sizes, component, parent)
    return np.broadcast_to(counts[0] * here + counts[1] * there, sizes.shape)


def _merged(sizes: AnySizes, term: TensorTerm, after: int, upto: int) -> float:
    """Return how many siblings' equal loads become one read at the parent, at most."""
    rows = sizes.rows(after, upto)
    return prod(sizes.alike(term, one, row) for one, row in rows if one.multicast.shares_reads)


def _served(sizes: AnySizes, term: TensorTerm, parent: int, level: int) -> FloatArray:
    """Return how many statement instances one element read at the parent serves at most.

    They lie in the box of all siblings together; and unless parts of windows are united, they are what one sibling's
    load serves, times the siblings that share it.
    """
    rows = sizes.rows(parent, level)
    whole = _reuse(sizes, term, level, parent)
    if term.is_window and any(one.multicast.unites_tiles for one, _ in rows):
        return whole
    merged = _merged(sizes, term, parent, level)
    # Factors are averages over siblings, one of which may do less: times what a load serves at most, not on average.
    return np.minimum(whole, _reuse(sizes, term, level, visits=merged == 1) * merged)


def _bits(sizes: AnySizes, term: TensorTerm, level: int) -> FloatArray:
    """Return the bits that one instance holds at least; inf in cells without an integer tile at the innermost."""
    known = sizes.sizes(level)
    total = np.full((1,) * len(known), float(term.tensor.bits))
    for group in term.groups:
        dims = [sizes.problem.dims.index(dim) for dim in group.dims]
        spread = tuple(sizes.is_spread(d, level) for d in dims)
        axes = [known[d][0] for d in dims]
        elements = fewest_elements(group.coefficients, tuple(tuple(axis) for axis in axes), spread)
        order = sorted(range(len(dims)), key=lambda i: dims[i])
        shape = [1] * len(known)
        for d, axis in zip(dims, axes, strict=True):
            shape[d] = len(axis)
        total = total * np.transpose(elements, order).reshape(shape)
    own = unit_of(sizes.problem, level)
    for d, ends in enumerate(sizes.ends):
        # Below the fan-outs at least one index is left.
        least = sizes.region.used(d, (sizes.unit, own), sizes.problem, high=False)
        total = total + sizes.shaped(d, [np.inf if end < least else 0.0 for end in ends])
    if own == sizes.unit and not sizes.region.points:
        for d, ends in enumerate(sizes.ends):
            empty = [False, *(floor(high) <= low for low, high in pairwise(ends))]
            total = total + sizes.shaped(d, [np.inf if gap else 0.0 for gap in empty])
    return np.broadcast_to(total, sizes.shape)


def _reuse(
    sizes: AnySizes, term: TensorTerm, level: int, seen_from: int | None = None, *, visits: bool = True
) -> FloatArray:
    """Return how many statement instances one load of an element serves, on average at most, per cell.

    seen_from: the load of all siblings below one instance of that level together. visits: tiles of t along n indices
    are ceil(n / t) at least, so they serve n / ceil(n / t) on average; without, t itself at most.
    """
    above = level if seen_from is None else seen_from
    known = sizes.sizes(above)
    others = [d for d, dim in enumerate(sizes.problem.dims) if dim not in term.dims]
    total = np.ones((1,) * len(known))
    plain = np.ones((1,) * len(known))
    for d in others:
        most = known[d][1]
        total = total * sizes.shaped(d, [per_visit(sizes.problem.extents[d], t) for t in most] if visits else most)
        plain = plain * sizes.shaped(d, [float(end) for end in sizes.ends[d]])
    own = unit_of(sizes.problem, above)
    if own <= sizes.unit and not sizes.region.points:
        groups = groups_of(sizes.problem)[own : sizes.unit]
        rows = sizes.rows(above, sizes.problem.level_count)
        siblings = prod(_along(sizes, others, one, row) for one, row in rows if one.below in groups)
        total = np.minimum(total, plain * siblings)
    windows = [group for group in term.groups if group.is_window]
    return total * most_reuse(sizes, windows, above) if windows else total


def _along(
    sizes: AnySizes, dims: list[int], one: FanoutClass, row: tuple[tuple[Fraction, Fraction, int], ...]
) -> float:
    """Return the product of a class's factors along some dims, at most."""
    size = prod(sizes.problem.arch.fanouts[f].size for f in one.fanouts)
    rest = prod(row[d][2] for d in range(len(row)) if d not in dims)
    return float(max(ONE, min(prod((row[d][1] for d in dims), start=ONE), Fraction(size, rest))))


def _output_table(views: tuple[AnySizes, ...], measure: Measure, term: TensorTerm) -> AnyTable:
    """States are (holder, levels still to come), as in tables.py; sums move as counting.md says.

    S stays (fills from below, drained here), E of them enter together, A drains arrive at the parent, Z elements start
    from zero there: reads here S, writes there A, reads there A - Z, writes here E - Z; and Z here = S - E + Z.
    """
    problem = views[0].problem
    states = tuple(sorted(output_plans(term, problem.level_count)))
    edges: list[AnyEdge] = []
    for source, (parent, rest) in enumerate(states):
        if rest:
            unit, target = unit_of(problem, rest[0]), states.index((rest[0], rest[1:]))
            inner = views[: unit + 1]
            bits = tuple(_bits(view, term, rest[0]) for view in inner)
            costs = tuple(
                np.stack([_output_costs(view, c, term, parent, rest) for c in measure.components])
                + _held_costs(measure, term, rest[0], held)
                for view, held in zip(inner, bits, strict=True)
            )
            edges.append(AnyEdge(source, target, rest[0], unit, parent, rest, costs, bits))
    final = tuple(
        None if rest else tuple(_updates(views[0], c, term, holder) for c in measure.components)
        for holder, rest in states
    )
    return AnyTable(tuple(holder for holder, _ in states), tuple(edges), final)


def _updates(sizes: AnySizes, component: Component, term: TensorTerm, holder: int) -> float:
    """Return what the updates by the statement instances cost; of the busiest instance below the outermost, only what
    is written: how many of its reads are elided is not known."""
    arrivals = sizes.instances / _added(sizes, term, holder, sizes.problem.level_count)
    weight = component.write[holder][term.index]
    if not component.busiest or holder == 0:
        weight += component.read[holder][term.index]
    return arrivals * weight / _copies(sizes, component, holder)


def _added(sizes: AnySizes, term: TensorTerm, after: int, upto: int) -> float:
    """Return how many siblings' drains become one on the way, at most."""
    others = [d for d, dim in enumerate(sizes.problem.dims) if dim not in term.dims]
    rows = sizes.rows(after, upto)
    return prod(_along(sizes, others, one, row) for one, row in rows if one.reduction)


def _output_costs(
    sizes: AnySizes, component: Component, term: TensorTerm, parent: int, rest: tuple[int, ...]
) -> FloatArray:
    level = rest[0]
    others = [d for d, dim in enumerate(sizes.problem.dims) if dim not in term.dims]
    rows = sizes.rows(parent, level)
    whole = sizes.instances / _reuse(sizes, term, level, parent)
    stays = sizes.instances / _reuse(sizes, term, level)
    served = sizes.instances / _reuse(sizes, term, level, visits=False)
    arrivals = np.maximum(served / _added(sizes, term, parent, level), whole)
    # Exact until the last step: where large weights cancel, floats would leave nothing but their errors.
    copies = [_copies(sizes, component, n) for n in range(sizes.problem.level_count)]
    read = [Fraction(row[term.index]) / n for row, n in zip(component.read, copies, strict=True)]
    write = [Fraction(row[term.index]) / n for row, n in zip(component.write, copies, strict=True)]
    if component.busiest:
        total = stays * float(read[level]) + arrivals * float(write[parent] + (0 if parent else read[parent]))
        return np.broadcast_to(total, sizes.shape)
    # What starts from zero here because siblings share it saves reads and fills further in.
    saved = sum((read[n] + write[n] for n in rest), Fraction(0)) - write[level]
    per_stay, per_entry = read[level] - saved, write[level] + saved
    enters = np.maximum(served / prod(_along(sizes, others, one, row) for one, row in rows), whole)
    if per_stay < 0:
        # No more stays enter together than the spatial loops have iterations.
        per_entry += per_stay * prod(_trips(sizes, others, one, row) for one, row in rows)
        per_stay = Fraction(0)
    elided = float(zero_starts(term) * (read[level] + write[level]))
    if per_entry < 0:
        # How many enter together at most is not known, but for the statement instances.
        return np.full(sizes.shape, sizes.instances * float(per_entry) - elided)
    total = stays * float(per_stay) + enters * float(per_entry) + arrivals * float(read[parent] + write[parent])
    return np.broadcast_to(total - elided, sizes.shape)


def _trips(sizes: AnySizes, dims: list[int], one: FanoutClass, row: tuple[tuple[Fraction, Fraction, int], ...]) -> int:
    """Return how many iterations a class's spatial loops along some dims have at most."""
    size = prod(sizes.problem.arch.fanouts[f].size for f in one.fanouts)
    rest = prod(row[d][2] for d in range(len(row)) if d not in dims)
    return max(1, min(prod(ceil(row[d][1]) for d in dims), size // rest))
