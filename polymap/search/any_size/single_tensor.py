"""Bounds tensor by tensor, independent of tiles: least costs in all structures of many boxes at once.

The index sets of instances are independent along each dim. So every instance loads each element that its statement
instances touch at least once; siblings that differ in dims that a tensor lacks load it each; and at the compute units,
which hold nothing, one message serves at most the statement instances that run side by side in one step. A tensor's
cost is the minimum over chains of levels that hold it. Numbers are exact integers (docs/any_tiles.md derives them).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymap.poly import count_type
from polymap.search.any_size.tuning import TUNING
from polymap.search.any_size.window_loads import fewest_elements
from polymap.search.problem import (
    FanoutClass,
    IndexGroup,
    IntArray,
    Problem,
    TensorTerm,
    least_parallel,
    least_steps,
    most_counted,
)

Numbers = tuple[int, ...]  # of classes
Counts = tuple[tuple[int, ...], ...]  # [class][dim]
Working = tuple[tuple[int, int], ...]  # per dim the least and the largest number of siblings with work; () for any


@dataclass(frozen=True, slots=True, eq=False)
class Boxes:
    """Boxes of structures. low, high: least and largest counts [class, dim, box].

    joint: upper bounds on the product of the counts of a group of dims [class, group, box]; groups as in `dim_groups`.
    working: of each dim the least and the largest number of combinations of coordinates over all classes that have work
    [dim, box] (None: whatever the counts allow).
    """

    low: IntArray
    high: IntArray
    joint: IntArray
    working: tuple[IntArray, IntArray] | None = None

    def __len__(self) -> int:
        return self.low.shape[2]


def dim_groups(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """Return the groups of dims whose sibling counts are bounded jointly: all dims, those a tensor lacks, and its plain
    axes."""
    every = range(len(problem.dims))
    found = [tuple(every)]
    for term in problem.terms:
        found += [tuple(d for d in every if problem.dims[d] not in term.dims), _plain_dims(problem, term)]
    return tuple(dict.fromkeys(group for group in found if len(group) > 1))


def joint_counts(problem: Problem, high: IntArray, size: int) -> IntArray:
    """Return upper bounds on products of counts [group, node] of a class of `size` siblings. high: [dim, node]."""
    rows: list[IntArray] = []
    for group in dim_groups(problem):
        total = np.ones(high.shape[1], dtype=high.dtype)
        for d in group:
            total = np.minimum(total * high[d], size)
        rows.append(total)
    return np.stack(rows) if rows else np.ones((0, high.shape[1]), dtype=high.dtype)


def one_box(problem: Problem, low: Counts, high: Counts, working: Working = ()) -> Boxes:
    """Return the box of the structures between two vectors of counts [class][dim]. working: per dim (least, most)."""
    shape = len(problem.classes), len(problem.dims), 1
    kind = count_type(max((n for row in high for n in row), default=1))
    sizes = [prod(problem.arch.fanouts[f].size for f in one.fanouts) for one in problem.classes]
    columns = np.array(high, dtype=kind).reshape(shape)
    joint = [joint_counts(problem, own, size) for own, size in zip(columns, sizes, strict=True)]
    rows = np.stack(joint) if joint else np.ones((0, 0, 1), dtype=kind)
    ends = [np.array(each, dtype=kind)[:, None] for each in zip(*working, strict=True)]
    return Boxes(np.array(low, dtype=kind).reshape(shape), columns, rows, (ends[0], ends[1]) if ends else None)


def _plain_dims(problem: Problem, term: TensorTerm) -> tuple[int, ...]:
    return tuple(sorted(problem.dims.index(group.dims[0]) for group in term.groups if not group.is_window))


@dataclass(frozen=True, slots=True)
class Path:
    """A move between a parent and a level (the number of levels: compute).

    apart: classes whose siblings the parent counts separately: those above it, and those between that merge nothing.
    merging: classes that merge. above: if only the first parent instance counts, classes above the parent with which it
    shares the work.
    """

    above: Numbers
    apart: Numbers
    merging: Numbers
    parent: int
    level: int


def _kind_of_counts(problem: Problem) -> np.dtype[Any]:
    """Return the dtype of counts and of products of two factors before they are cut down to a count."""
    lanes = max((fanout.size for fanout in problem.arch.fanouts), default=1) ** len(problem.dims)
    return count_type(len(problem.dims) * most_counted(problem.workload) * min(lanes, max(problem.extents, default=1)))


class SiblingCounts:
    """Bounds from the counts of siblings, with one entry per box."""

    def __init__(self, problem: Problem, boxes: Boxes) -> None:
        self.problem = problem
        self.boxes = boxes
        self.kind = _kind_of_counts(problem)
        self.one: IntArray = np.ones(len(boxes), dtype=self.kind)
        self._low = boxes.low.astype(self.kind, copy=False)
        self._high = boxes.high.astype(self.kind, copy=False)
        self._counts: dict[tuple[int, Numbers], IntArray] = {}
        self._most: dict[tuple[int, Numbers], IntArray] = {}
        self._groups = dim_groups(problem)
        self._least_siblings = least_parallel(prod(problem.extents), problem.arch, problem.rules)
        self._spread = [[bool((row > 1).any()) for row in own] for own in boxes.high]

    def product(self, factors: Iterable[IntArray]) -> IntArray:
        return prod(factors, start=self.one)

    def count(self, d: int, classes: Numbers) -> IntArray:
        """Return a lower bound on the combinations of coordinates over some classes that have work along a dim."""
        classes = tuple(g for g in classes if self._spread[g][d])
        if (d, classes) not in self._counts:
            orders = permutations(classes) if len(classes) <= TUNING.most_ordered else [classes]
            found = [self._nested(d, order) for order in orders]
            least = found[0]
            for other in found[1:]:
                least = np.minimum(least, other)
            if self.boxes.working is not None:
                others = tuple(g for g in range(len(self._spread)) if g not in classes)
                least = np.maximum(least, -(-self.boxes.working[0][d] // self.most(d, others)))
            self._counts[d, classes] = np.minimum(least, self.problem.extents[d])
        return self._counts[d, classes]

    def _nested(self, d: int, order: Numbers) -> IntArray:
        """Return that bound for one order of the classes, outermost first.

        A sibling whose tile is as large as the first one's has as many siblings below it; each other one has at least
        one.
        """
        found = self.one
        for g in reversed(order):
            full = self._full(g, d) if len(order) <= TUNING.most_ordered else self.one
            found = np.minimum(full * found + (self._low[g, d] - full), self.problem.extents[d] + 1)
        return found

    def _full(self, g: int, d: int) -> IntArray:
        """Return a lower bound on the siblings of a class whose tile is as large as the first one's.

        These are all but the last of one spatial loop; of two nested ones at least one in each row.
        """
        fanouts = self.problem.classes[g].fanouts
        loops = sum(self.problem.arch.fanouts[f].may_spread(self.problem.dims[d]) for f in fanouts)
        low = self._low[g, d]
        if loops > 2:
            return self.one
        return np.maximum(1, low - 1 if loops == 1 else low // 2)

    def most(self, d: int, classes: Numbers) -> IntArray:
        """Return an upper bound on the siblings over some classes with work along a dim, below one parent instance."""
        classes = tuple(g for g in classes if self._spread[g][d])
        if (d, classes) not in self._most:
            found = self.one
            for g in classes:
                found = np.minimum(found * self._high[g, d], self.problem.extents[d])
            if self.boxes.working is not None:
                found = np.minimum(found, self.boxes.working[1][d])
            self._most[d, classes] = found
        return self._most[d, classes]

    def share(self, d: int, classes: Numbers) -> IntArray:
        """Return a lower bound on the indices of a dim that the first instance below some classes has."""
        return -(-self.problem.extents[d] // self.most(d, classes))

    def shares(self, dims: tuple[int, ...], classes: Numbers) -> IntArray:
        """Return a lower bound on the combinations of indices of some dims that the first instance below some classes
        has."""
        found = self.product(self.share(d, classes) for d in dims)
        if dims not in self._groups:
            return found
        whole = prod(self.problem.extents[d] for d in dims)
        return np.maximum(found, -(-whole // self._together(dims, classes)))

    def _together(self, dims: tuple[int, ...], classes: Numbers) -> IntArray:
        """Return an upper bound on the product of a group of dims' sibling counts over some classes."""
        whole = prod(self.problem.extents[d] for d in dims)
        found = self.one
        for g in classes:
            found = np.minimum(found * self.boxes.joint[g, self._groups.index(dims)], whole)
        return found

    def siblings(self) -> IntArray:
        """Return an upper bound on the instances of the compute unit that work."""
        every, dims = tuple(range(len(self.problem.classes))), tuple(range(len(self.problem.dims)))
        if dims in self._groups:
            return self._together(dims, every)
        return self.product(self.most(d, every) for d in dims)

    def feasible(self) -> NDArray[np.bool_]:
        """Return where the classes' counts are compatible and reach the utilization that rules demand."""
        every = tuple(range(len(self.problem.classes)))
        found = np.asarray(self.siblings() >= self._least_siblings, dtype=np.bool_)
        for d, extent in enumerate(self.problem.extents):
            together = [g for g in every if self._spread[g][d]]
            if 1 < len(together) <= TUNING.most_ordered:
                orders = [self._nested(d, order) for order in permutations(together)]
                found &= np.asarray(np.minimum.reduce(orders) <= extent, dtype=np.bool_)
        return found

    def cycles(self) -> IntArray:
        """Return a lower bound on the compute cycles."""
        problem = self.problem
        least = least_steps(dict(zip(problem.dims, problem.extents, strict=True)), problem.arch, problem.rules)
        steps = self.shares(tuple(range(len(problem.dims))), tuple(range(len(problem.classes))))
        steps = np.maximum(steps, 0 if least is None else least)
        return -(-steps // self.problem.arch.compute.per_cycle)


class TensorLoads:
    """Lower bounds on a tensor's traffic between any two levels, per box.

    alone: of the first instance of each level; else of all instances together.
    """

    def __init__(self, counts: SiblingCounts, term: TensorTerm, *, alone: bool) -> None:
        self.counts, self.problem, self.term, self.alone = counts, counts.problem, term, alone
        self._plain = _plain_dims(self.problem, term)
        self._windows = [g for g in term.groups if g.is_window]
        self._lacking = tuple(d for d, dim in enumerate(self.problem.dims) if dim not in term.dims)

    @property
    def elements(self) -> int:
        """Return the elements of an output that are written."""
        return prod(self.problem.extents[d] for d in self._plain)

    def path(self, parent: int, level: int, cut: int = 0) -> Path:
        """Return the classes that matter to moves between a parent, or a point below the first `cut` fan-outs, and a
        level."""
        classes = list(enumerate(self.problem.classes))
        above = tuple(g for g, one in classes if one.below <= parent)
        between = [(g, one) for g, one in classes if parent < one.below <= level]
        merges = {g: self._merges(one) and one.fanouts[0] >= cut for g, one in between}
        merging = tuple(g for g, merged in merges.items() if merged)
        separate = tuple(g for g, merged in merges.items() if not merged)
        if self.alone:
            return Path(above, separate, merging, parent, level)
        return Path((), (*above, *separate), merging, parent, level)

    def _merges(self, one: FanoutClass) -> bool:
        return one.reduction if self.term.is_output else one.multicast.shares_reads

    def fills(self, level: int) -> IntArray:
        """Return the elements that enter a level if every instance loads what it needs once."""
        classes = tuple(g for g, one in enumerate(self.problem.classes) if one.below <= level)
        return self._boxes(classes, ()) if self.alone else self._boxes((), classes)

    def _boxes(self, above: Numbers, apart: Numbers) -> IntArray:
        """Return the elements of the boxes of all instances over the classes `apart`, within the first instance below
        `above`."""
        visits = [self.counts.count(d, apart) for d in range(len(self.problem.dims))]
        return self._elements(above, visits) * self.counts.product(visits[d] for d in self._lacking)

    def _elements(self, above: Numbers, visits: Sequence[IntArray]) -> IntArray:
        """Return the elements of all boxes of a grid, over the tensor's own dims."""
        return self.counts.shares(self._plain, above) * self._windowed(above, visits)

    def _windowed(self, above: Numbers, visits: Sequence[IntArray]) -> IntArray:
        found = self.counts.one
        for group in self._windows:
            dims = [self.problem.dims.index(dim) for dim in group.dims]
            sizes = [self.counts.share(d, above) for d in dims]
            parts = [np.minimum(visits[d], size) for d, size in zip(dims, sizes, strict=True)]
            is_whole = [
                np.asarray(size == self.problem.extents[d], dtype=np.bool_) for d, size in zip(dims, sizes, strict=True)
            ]
            found = found * fewest_elements(group.coefficients, sizes, parts, is_whole)
        return found

    def messages(self, parent: int, level: int, cut: int = 0) -> IntArray:
        """Return the elements that move between a parent and a memory level, as the parent counts them.

        These are its reads, or the arrivals of an output. cut: count them below so many fan-outs.
        """
        path = self.path(parent, level, cut)
        found = self._boxes(path.above, path.apart)
        between = [one for one in self.problem.classes if parent < one.below <= level]
        if not self._windows or any(one.multicast.unites_tiles for one in between):
            return found
        visits = [self.counts.count(d, (*path.apart, *path.merging)) for d in range(len(self.problem.dims))]
        every = self._windowed(path.above, visits)
        served = self.counts.product(self._served(group, path) for group in self._windows)
        lacking = self.counts.product(self.counts.count(d, path.apart) for d in self._lacking)
        plain = self.counts.shares(self._plain, path.above)
        lines = self._windowed(path.above, self._visits_of_lines(path))
        return np.maximum(found, plain * lacking * np.maximum(-(-every // served), lines))

    def _visits_of_lines(self, path: Path) -> list[IntArray]:
        """Return per dim a lower bound on the parts in which siblings that are served together load it.

        Let an instance have one index of every dim of a window but one, p. Siblings that differ in one of these dims do
        not load the same, so that whatever the first one loads of p is loaded for every index of the others
        (docs/any_tiles.md).
        """
        parts = [self.counts.count(d, path.apart) for d in range(len(self.problem.dims))]
        for group in self._windows:
            dims = [self.problem.dims.index(dim) for dim in group.dims]
            is_single = self._moving(dims, path.level) <= 1
            for d in dims:
                first = -(-self.counts.share(d, path.above) // self.counts.most(d, path.merging))
                parts[d] = np.where(is_single, np.maximum(parts[d], first), parts[d])
        return parts

    def _moving(self, dims: Sequence[int], level: int) -> IntArray:
        """Return of how many of some dims an instance of a level may have more than one index."""
        above = tuple(g for g, one in enumerate(self.problem.classes) if one.below <= level)
        extents = self.problem.extents
        return sum(np.asarray(self.counts.count(d, above) < extents[d], np.int64) for d in dims) + 0 * self.counts.one

    def _served(self, group: IndexGroup, path: Path) -> IntArray:
        """Return an upper bound on the siblings along a window that one message serves.

        Where an instance has one index of every dim of the window but one, or one of two dims has at most three, and no
        fan-outs below take more, siblings that differ in one dim only never load the same elements (docs/any_tiles.md).
        """
        dims = [self.problem.dims.index(dim) for dim in group.dims]
        extents = [self.problem.extents[d] for d in dims]
        along = [self.counts.most(d, path.merging) for d in dims]
        below = tuple(g for g, one in enumerate(self.problem.classes) if one.below > path.level)
        is_short = len(dims) == 2 and min(group.coefficients) > 0 and min(extents) <= TUNING.short_dim
        is_told = (self._moving(dims, path.level) <= 1) | is_short
        is_told &= self.counts.product(self.counts.most(d, below) for d in dims) == 1
        every = self.counts.product(along)
        return np.where(is_told, every // np.maximum.reduce(along), every)

    def operands(self, holder: int, cut: int = 0) -> IntArray:
        """Return the elements between the innermost holder and the compute units, as the holder counts them.

        cut: count them below so many fan-outs.
        """
        path = self.path(holder, self.problem.level_count, cut)
        visits: list[IntArray] = []
        for d in range(len(self.problem.dims)):
            side = self.counts.most(d, path.merging)
            visits.append(np.maximum(-(-self.counts.share(d, path.above) // side), self.counts.count(d, path.apart)))
        lacking = self.counts.product(visits[d] for d in self._lacking)
        lacking = np.maximum(lacking, self.counts.shares(self._lacking, (*path.above, *path.merging)))
        return self._elements(path.above, visits) * lacking

    def held(self, level: int) -> IntArray:
        """Return a lower bound on the elements that the first instance of a level holds: those its siblings use in the
        first step."""
        below = tuple(g for g, one in enumerate(self.problem.classes) if one.below > level)
        found = self.counts.product(self.counts.count(d, below) for d in self._plain)
        for group in self._windows:
            sizes = [self.counts.count(self.problem.dims.index(dim), below) for dim in group.dims]
            found = found * np.maximum(1, sum(sizes[1:], start=sizes[0]) - (len(sizes) - 1))
        return found
