"""Lower bounds on the costs of the storage nodes of one structure, per cell of their tiles.

A node stands where its tile last changes: right inside the innermost loop over one of its tensor's own dims that has
two iterations or more (loops over other dims further in leave the tile as it is). There the boxes of the dims that the
tensor lacks have at most t indices per instance, so that an element is loaded in ceil(n / t) boxes at least; in as many
as siblings load it apart if the last own loop has one iteration for it, which partial tiles bring about
(sizes.full_share says for how many elements at most). Everything is said of the first index along every dim, where all
tiles are full: so chains of full tiles, which fit their levels together, bound all elements (docs/any_tiles.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from polymap.poly import FloatArray
from polymap.resources import SearchCaches
from polymap.search.any_size.crossings import Crossings
from polymap.search.any_size.single_tensor import Numbers, Path, SiblingCounts, TensorLoads, Working, one_box
from polymap.search.any_size.sizes import Axis, Sizes, full_share
from polymap.search.any_size.window_loads import fewest_elements
from polymap.search.any_size.window_passes import ordered_passes, pass_tables
from polymap.search.problem import (
    Component,
    HolderEdge,
    HolderGraph,
    IndexGroup,
    Problem,
    TensorTerm,
    level_graph,
    node_weights,
    unfold_graph,
)

Axes = tuple[tuple[Axis, ...], ...]  # [unit][dim]


@dataclass(frozen=True, slots=True)
class LoopOrder:
    """The order of the loops over two dims that no spatial loop cuts: of a window, or one that a tensor lacks and one
    of its own.

    When `dim` is cut for the first time, the tile has more than `above` and at most `most` indices of `other`.
    """

    dim: int
    other: int
    above: int
    most: int


class StructureLoads:
    """The single-tensor loads of one structure: of the first instance (alone) or of all instances."""

    def __init__(self, problem: Problem, crossings: Crossings, caches: SearchCaches, working: Working = ()) -> None:
        self.problem, self.crossings, self.caches = problem, crossings, caches
        any_least = tuple((1, most) for _, most in working)  # more siblings may have work than tiles are covered
        self.counts = SiblingCounts(problem, one_box(problem, crossings.low, crossings.high, working))
        self._covered = SiblingCounts(problem, one_box(problem, crossings.low, crossings.covered, any_least))
        self.all = [TensorLoads(self.counts, term, alone=False) for term in problem.terms]
        self.alone = [TensorLoads(self.counts, term, alone=True) for term in problem.terms]

    def operands(self, term: TensorTerm, holder: int, cut: int = 0, *, alone: bool) -> int:
        """Return a lower bound on the elements between the innermost holder and the compute units.

        In a step siblings serve at most as many statement instances as the outer tile covers inner ones. cut: count
        below so many fan-outs.
        """
        return int(TensorLoads(self._covered, term, alone=alone).operands(holder, cut)[0])

    def count(self, d: int, classes: Numbers) -> int:
        return int(self.counts.count(d, classes)[0])

    def most(self, d: int, classes: Numbers) -> int:
        return int(self.counts.most(d, classes)[0])

    def covered(self, d: int, classes: Numbers) -> int:
        """Return an upper bound on the indices of all siblings over some classes, as a multiple of one sibling's."""
        return int(self._covered.most(d, classes)[0])

    def instances(self, level: int) -> int:
        """Return an upper bound on the instances of a level that have work."""
        total = 1
        for g, one in enumerate(self.problem.classes):
            if one.below <= level:
                total *= min(prod(self.problem.arch.fanouts[f].size for f in one.fanouts), prod(self.crossings.high[g]))
        return total


class TensorNodes:
    """The nodes of one tensor in one structure."""

    def __init__(self, loads: StructureLoads, term: TensorTerm) -> None:
        self.loads, self.term = loads, term
        self.problem, self.crossings = loads.problem, loads.crossings
        dims = self.problem.dims
        self.lacking = [d for d, dim in enumerate(dims) if dim not in term.dims]
        self._levels = level_graph(term, self.problem.level_count)
        self.plain = [dims.index(g.dims[0]) for g in term.groups if not g.is_window]
        self.windows = [g for g in term.groups if g.is_window]
        self.elements = prod(self.problem.extents[d] for d in self.plain)
        self._alone, self._all = loads.alone[term.index], loads.all[term.index]
        self._fills: dict[int, tuple[int, int]] = {}
        self._messages: dict[tuple[int, int, int], tuple[int, int, Path]] = {}

    @cached_property
    def _unfolded(self) -> tuple[HolderGraph, tuple[bool, ...]]:
        def after(shared: bool, edge: HolderEdge) -> bool:  # noqa: FBT001
            return shared or (self.term.is_output and self._is_shared(edge.parent, edge.level))

        return unfold_graph(self._levels, after)

    @property
    def holders(self) -> HolderGraph:
        """The holder states; those of an output include whether siblings share a node placed already."""
        return self._unfolded[0]

    @property
    def shared(self) -> tuple[bool, ...]:
        """Per holder state, whether siblings share a node of the output that led to it."""
        return self._unfolded[1]

    def between(self, parent: int, level: int) -> Numbers:
        return tuple(g for g, one in enumerate(self.problem.classes) if parent < one.below <= level)

    def _is_shared(self, parent: int, level: int) -> bool:
        return any(self.loads.most(d, self.between(parent, level)) > 1 for d in self.lacking)

    def fills(self, level: int) -> tuple[int, int]:
        """Return lower bounds on the fills of all instances of a level, and of its first one."""
        if level not in self._fills:
            self._fills[level] = int(self._all.fills(level)[0]), int(self._alone.fills(level)[0])
        return self._fills[level]

    def messages(self, parent: int, level: int, cut: int = 0) -> tuple[int, int, Path]:
        """Return lower bounds on the messages at all instances of a parent and at its first one, and the classes that
        matter.

        cut: count them below so many fan-outs.
        """
        key = parent, level, cut
        if key not in self._messages:
            every, alone = (int(one.messages(*key)[0]) for one in (self._all, self._alone))
            self._messages[key] = every, alone, self._all.path(*key)
        return self._messages[key]

    def end(self, component: Component, holder: int) -> float:
        """Return the cost of the traffic between the innermost holder and the compute units; inf where an inner level
        must hold."""
        if not self._levels.final[holder]:
            return float(np.inf)
        weights = node_weights(self.problem, self.term, component, holder, (self.problem.level_count,))
        weight, cost = weights.message, 0.0
        if weight:
            cost = float(weight) * float(self.loads.operands(self.term, holder, alone=component.busiest))
        for cut, price in weights.least_crossings():
            cost += float(price) * float(self.loads.operands(self.term, holder, cut, alone=False))
        return cost

    def zero_start(self, component: Component) -> float:
        """Return the credit for first updates at the outermost level."""
        if not self.term.is_output or self.term.tensor.initial:
            return 0.0
        return float(component.read[0][self.term.index]) * self.elements

    def view(self, axes: Axes, phase: int, orders: tuple[LoopOrder, ...] = ()) -> NodeView:
        """Return the tensor's nodes with tiles measured in unit `phase`, and loops in these orders."""
        return NodeView(self, axes[phase], phase, orders)


def _spread_share(extent: int, tiles: Sizes, inner: int, placed: int) -> float:
    """Return a lower bound on the share of a dim's indices that is loaded in every box.

    It holds if the innermost loop over the tensor's own dims makes one of these tiles, and siblings inside of it take
    `inner` indices each. A short last iteration has work for the first siblings only; the others keep what they read
    before. It reaches at least one index, and so a sibling. Where no node is further out, the loop cuts the whole dim.
    """
    least = float(inner + 1)
    if placed or not len(tiles):
        return min(1.0, least / extent)
    rest = extent - tiles
    again = np.where(rest >= tiles, extent, np.maximum(inner, rest) + rest)
    return float(np.minimum(again, extent).min()) / extent


class NodeView:
    """Costs and sizes of a tensor's nodes, per cell of the axes of one unit (`phase`)."""

    def __init__(
        self, nodes: TensorNodes, axes: tuple[Axis, ...], phase: int, orders: tuple[LoopOrder, ...] = ()
    ) -> None:
        self.nodes, self.axes, self.phase, self.orders = nodes, axes, phase, orders
        self.loads, self.crossings, self.problem = nodes.loads, nodes.crossings, nodes.problem
        self.shape = tuple(len(axis) for axis in axes)
        self._shares: dict[tuple[int, int, bool], FloatArray] = {}

    def along(self, d: int, values: FloatArray) -> FloatArray:
        """Return one value per cell of a dim, shaped to broadcast over the other dims."""
        return np.asarray(values, dtype=np.float64).reshape([-1 if d == e else 1 for e in range(len(self.axes))])

    def cost(self, component: Component, edge: HolderEdge, placed: int) -> FloatArray:
        """Return a lower bound on a node's cost per cell. placed: the number of nodes further out."""
        term, total = self.nodes.term, np.zeros((1,) * len(self.axes))
        weights = node_weights(self.problem, term, component, edge.parent, edge.levels)
        if weights.held:
            total = total + weights.held * self.least_bits(edge.level) / term.tensor.bits
        for cut, price in weights.least_crossings():
            total = total + float(price) * self.messages(component, edge, placed, cut)
        if weights.message:
            total = total + float(weights.message) * self.messages(component, edge, placed)
        if weights.fill:
            filled = self.returns if term.is_output else self.fills
            total = total + float(weights.fill) * filled(component, edge, placed)
        return total

    def fills(self, component: Component, edge: HolderEdge, placed: int) -> FloatArray:
        base, alone = self.nodes.fills(edge.level)
        found = self._total(base, self.nodes.between(-1, edge.level), (), edge.level, placed)
        return self._of_busiest(component, found, edge.level, alone)

    def messages(self, component: Component, edge: HolderEdge, placed: int, cut: int = 0) -> FloatArray:
        base, alone, path = self.nodes.messages(edge.parent, edge.level, cut)
        found = self._total(base, path.apart, path.merging, edge.level, placed)
        return self._of_busiest(component, found, edge.parent, alone)

    def _of_busiest(self, component: Component, total: FloatArray, level: int, alone: int) -> FloatArray:
        return np.maximum(total / self.loads.instances(level), alone) if component.busiest else total

    def returns(self, component: Component, edge: HolderEdge, placed: int) -> FloatArray:
        """Return a lower bound on the partial sums that a node takes back.

        Whenever siblings hold an element again that none of them held, its partial sum comes from the parent, except
        the first time.
        """
        elements = 0 if component.busiest else self.nodes.elements
        starts = self.nodes.elements if self.nodes.term.tensor.initial else 0
        least = np.full((1,) * len(self.axes), float(starts if elements else 0))
        if self.nodes.shared[edge.source]:  # how many sums are there is not known
            return least
        above, between = self.nodes.between(-1, edge.parent), self.nodes.between(edge.parent, edge.level)
        lacking = prod(self.loads.count(d, above) for d in self.nodes.lacking)
        stays = self._total(self.nodes.elements * lacking, above, between, edge.level, placed)
        found = np.maximum(stays - self.nodes.elements + starts, least)
        return found / self.loads.instances(edge.level) if component.busiest else found

    def _total(self, base: int, apart: Numbers, merging: Numbers, level: int, placed: int) -> FloatArray:
        """Return a lower bound on loads, messages or residencies: a first pass (`base`), and the further visits.

        apart: classes whose siblings count separately. merging: those whose siblings are served together.
        """
        unit = self.crossings.unit(level)
        visits, apart_visits = np.ones((1,) * len(self.axes)), 1
        for d in self.nodes.lacking:
            extent, count = self.problem.extents[d], self.loads.count(d, apart)
            width = self.loads.covered(d, merging) * self.crossings.most_covered(d, unit, self.phase)
            boxes = -(-extent // np.minimum(self.axes[d].high * width, extent))
            if self.axes[d].whole is not None:
                boxes[:-1] = np.maximum(boxes[:-1], 2)  # inside of a loop over the dim
            visits = visits * self.along(d, np.maximum(boxes, count))
            apart_visits *= count
        extra = np.maximum(visits - apart_visits, 0.0)
        once = {g: table for g in self.nodes.windows if (table := self._window_once(g, unit, apart)) is not None}
        first: FloatArray = np.full((1,) * len(self.axes), float(base))
        for table in once.values():
            first = np.maximum(first, table * apart_visits)
        least: FloatArray = np.full((1,) * len(self.axes), np.inf)
        for d in self.nodes.plain:
            share = self._share(d, placed, unit)
            known = np.where(np.isfinite(share), share, 0.0)
            found = first * (1 + extra * known / apart_visits)
            least = np.minimum(least, np.where(np.isfinite(share), found, np.inf))
        for group in self.nodes.windows:
            again = self._window_again(group, unit, apart)
            if again is None:
                least = np.minimum(least, self._where_cut(group, first))
            else:
                added = extra * np.where(np.isfinite(again), again, 0.0)
                found = once[group] * apart_visits + added
                least = np.minimum(least, np.where(np.isfinite(again), found, np.inf))
        return np.maximum(np.where(np.isfinite(least), np.maximum(least, first), first), first * self._passes())

    def _passes(self) -> FloatArray:
        """Return, per cell, how often a node is filled with all of its tensor at least: twice where the first loop over
        a dim that the tensor lacks is outside of all loops over one of its own, which moves the tile in every box."""
        passes: FloatArray = np.ones((1,) * len(self.axes))
        for order in self.orders:
            extents = self.problem.extents[order.dim], self.problem.extents[order.other]
            if order.dim in self.nodes.lacking and order.other in self.nodes.plain and order.above == extents[1] - 1:
                cut = [self.axes[d].high < n for d, n in zip((order.dim, order.other), extents, strict=True)]
                both = self.along(order.dim, cut[0].astype(float)) * self.along(order.other, cut[1].astype(float))
                passes = np.maximum(passes, 1 + both)
        return passes

    def _share(self, d: int, placed: int, unit: int) -> FloatArray:
        """Return, per cell, a lower bound on the share of a dim's indices that is loaded in every box.

        It holds if the innermost loop over the tensor's own dims is over this dim; inf where no loop cuts it. Of a
        read-only tensor, spatial loops over the dim may be inside of that loop (`_spread_share`).
        """
        loops = placed + self.crossings.outer_loops(d, self.phase)
        is_spread = not self.nodes.term.is_output and self.crossings.most_siblings(d, 0, unit) > 1
        key = d, loops, is_spread
        if key not in self._shares:
            axis, extent = self.axes[d], self.problem.extents[d]
            found = np.full(len(axis), np.inf)
            if extent > 1:
                shares = full_share(extent, np.arange(1, extent), loops, self.loads.caches)
                least = self._least_size(d, 0)
                most = np.minimum(axis.high * self.crossings.most_covered(d, 0, self.phase), extent - 1)
                for cell in np.flatnonzero(least < extent):
                    found[cell] = shares[axis.low[cell] - 1 : most[cell]].min()
                    if is_spread:
                        tiles = np.arange(int(max(least[cell], axis.low[cell])), int(most[cell]) + 1, dtype=np.int64)
                        found[cell] = min(found[cell], _spread_share(extent, tiles, int(axis.low[cell]), placed))
            self._shares[key] = self.along(d, found)
        return self._shares[key]

    def _is_unspread(self, group: IndexGroup, first: int) -> bool:
        """Return whether no spatial loop over the window's dims is between the unit `first` and these tiles."""
        dims = [self.problem.dims.index(dim) for dim in group.dims]
        return len(dims) == 2 and all(self.crossings.most_siblings(d, first, self.phase) == 1 for d in dims)

    def _others(self, group: IndexGroup, apart: Numbers) -> float:
        """Return the elements that siblings over some classes load of the tensor, per element of one window."""
        total = float(self.nodes.elements)
        for other in self.nodes.windows:
            if other != group:
                dims = [self.problem.dims.index(dim) for dim in other.dims]
                sizes = [np.array([self.problem.extents[d]]) for d in dims]
                visits = [np.array([self.loads.count(d, apart)]) for d in dims]
                whole = [np.ones(1, dtype=np.bool_)] * len(sizes)
                total *= float(fewest_elements(other.coefficients, sizes, visits, whole)[0])
        return total

    def _window_tables(self, group: IndexGroup, unit: int) -> tuple[FloatArray, FloatArray] | None:
        """Return the tables of a window that every instance of a unit sees whole; None where it does not, or without
        tables."""
        dims = [self.problem.dims.index(dim) for dim in group.dims]
        if len(dims) != 2 or any(self.crossings.most_siblings(d, 0, unit) > 1 for d in dims):
            return None
        p, r = (self.problem.dims.index(dim) for dim in group.dims)
        return pass_tables(
            (self.problem.extents[p], self.problem.extents[r]),
            (group.coefficients[0], group.coefficients[1]),
            self.loads.caches,
        )

    def _over_cells(self, group: IndexGroup, table: FloatArray) -> FloatArray:
        """Return the minimum of a table over the tiles of each cell.

        Of a dim that is spread further in, only the whole is known to have no gaps: 0 where it may be cut.
        """
        p, r = (self.problem.dims.index(dim) for dim in group.dims)
        for axis, d in ((0, p), (1, r)):
            if self.crossings.most_siblings(d, 0, self.phase) == 1:
                table = np.minimum.reduceat(table, self.axes[d].low - 1, axis=axis)
            else:
                whole = self._least_size(d, 0) >= self.problem.extents[d]
                last = np.take(table, [-1], axis=axis)
                table = np.where(whole[:, None] if axis == 0 else whole[None, :], last, 0.0)
        shape = [1] * len(self.axes)
        shape[p], shape[r] = len(self.axes[p]), len(self.axes[r])
        return (table if p < r else table.T).reshape(shape)

    def _window_once(self, group: IndexGroup, unit: int, apart: Numbers) -> FloatArray | None:
        """Return the loads of one pass over a window, times the tensor's other elements; None where unknown."""
        tables = self._window_tables(group, unit)
        if tables is None:
            return None
        once = tables[0]
        dims = [self.problem.dims.index(dim) for dim in group.dims]
        extents = self.problem.extents[dims[0]], self.problem.extents[dims[1]]
        for order in self.orders:
            if {order.dim, order.other} == set(dims):
                axis, coefficients = dims.index(order.dim), (group.coefficients[0], group.coefficients[1])
                ordered = ordered_passes(extents, coefficients, axis, order.above, order.most, self.loads.caches)
                once = np.maximum(once, ordered)
        return self._over_cells(group, once) * self._others(group, apart)

    def out_of_order(self) -> FloatArray:
        """Return inf in cells where the order of loops allows no node, 0 elsewhere."""
        found: FloatArray = np.zeros((1,) * len(self.axes))
        for order in self.orders:
            dim, other = self.axes[order.dim], self.axes[order.other]
            whole = self.along(order.dim, (dim.low >= self.problem.extents[order.dim]).astype(np.float64)) > 0
            cut = self.along(order.dim, (dim.high < self.problem.extents[order.dim]).astype(np.float64)) > 0
            early = self.along(order.other, (other.high <= order.above).astype(np.float64)) > 0
            late = self.along(order.other, (other.low > order.most).astype(np.float64)) > 0
            found = found + np.where((whole & early) | (cut & late), np.inf, 0.0)
        return found

    def _window_again(self, group: IndexGroup, unit: int, apart: Numbers) -> FloatArray | None:
        """Return the loads of every further pass if the innermost own loop is over a window; inf where none cuts it."""
        tables = self._window_tables(group, unit)
        if tables is None:
            return None
        again = tables[1].copy()
        again[0, -1, :] = np.inf
        again[1, :, -1] = np.inf
        return self._over_cells(group, again.min(axis=0)) * self._others(group, apart)

    def _where_cut(self, group: IndexGroup, value: FloatArray) -> FloatArray:
        """Return the value in cells where loops may cut the window, inf elsewhere."""
        is_cut: FloatArray = np.zeros((1,) * len(self.axes))
        for dim in group.dims:
            d = self.problem.dims.index(dim)
            whole = self._least_size(d, 0) >= self.problem.extents[d]
            is_cut = np.maximum(is_cut, self.along(d, (~whole).astype(np.float64)))
        return np.where(is_cut > 0, value, np.inf)

    def least_bits(self, level: int) -> FloatArray:
        """Return a lower bound on the bits that an instance of a level holds, per cell."""
        unit = self.crossings.unit(level)
        total: FloatArray = np.full((1,) * len(self.axes), float(self.nodes.term.tensor.bits))
        sizes = {d: self._least_size(d, unit) for d in range(len(self.axes))}
        for d in self.nodes.plain:
            total = total * self.along(d, sizes[d].astype(np.float64))
        for group in self.nodes.windows:
            dims = [self.problem.dims.index(dim) for dim in group.dims]
            each = [self.along(d, sizes[d].astype(np.float64)) for d in dims]
            elements = sum(each[1:], start=each[0]) - (len(each) - 1)
            if self._is_unspread(group, unit) and not any(self.crossings.is_spread_twice(d) for d in dims):
                for p, r in ((0, 1), (1, 0)):
                    if abs(group.coefficients[r]) == 1:
                        step = np.minimum(float(abs(group.coefficients[p])), each[r])
                        elements = np.maximum(elements, (each[p] - 1) * step + each[r])
            total = total * elements
        return total

    def _least_size(self, d: int, unit: int) -> np.ndarray:
        """Return a lower bound on the sizes of a dim in a unit further out, per cell."""
        found = self.crossings.outer_least(self.axes[d].low, d, unit, self.phase)
        if self.axes[d].whole is not None:
            found[-1] = -(-self.problem.extents[d] // self.crossings.most_covered(d, 0, unit))
        return found

    def most_bits(self, level: int) -> FloatArray:
        """Return an upper bound on the bits that an instance of a level holds, per cell."""
        unit = self.crossings.unit(level)
        total: FloatArray = np.full((1,) * len(self.axes), float(self.nodes.term.tensor.bits))
        for group in self.nodes.term.groups:
            dims = [self.problem.dims.index(dim) for dim in group.dims]
            each = [self.along(d, self._most_size(d, unit)) for d in dims]
            elements = prod(each[1:], start=each[0])
            if all(self.crossings.most_siblings(d, unit, self.phase) == 1 for d in dims):
                reach = sum(abs(c) * (size - 1) for c, size in zip(group.coefficients, each, strict=True)) + 1
                elements = np.minimum(elements, reach) if group.is_window else elements
            total = total * elements
        return total

    def _most_size(self, d: int, unit: int) -> FloatArray:
        width = self.crossings.most_at_once(d, unit, self.phase)
        return np.minimum(self.axes[d].high * width, self.problem.extents[d]).astype(np.float64)
