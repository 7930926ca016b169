"""Boxes of sibling counts under successive refinement: a tree per class of fan-outs, and boxes of one node of each."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from polymap.poly import INT64, count_type
from polymap.search.any_size.single_tensor import Boxes, joint_counts
from polymap.search.any_size.structures import CountRows, class_rows
from polymap.search.any_size.tuning import TUNING
from polymap.search.problem import FanoutClass, IntArray, Problem


@dataclass(frozen=True, slots=True, eq=False)
class TreeLevel:
    """The nodes of one level of a tree.

    low, high: least and largest counts [dim, node]. joint: upper bounds on the product of the counts of a group of dims
    [group, node]; groups as in `dim_groups`.
    """

    low: IntArray
    high: IntArray
    joint: IntArray

    @property
    def count(self) -> int:
        return self.low.shape[1]


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Boxes given by their node in each class's tree [class, box], all on the same level of each tree; the least bound
    first.

    Level 0 has single vectors of counts.
    """

    levels: tuple[int, ...]
    nodes: IntArray
    bounds: tuple[int, ...]

    @property
    def is_final(self) -> bool:
        """Return whether its boxes are single vectors."""
        return not any(self.levels)


class BoxTrees:
    """The trees of all classes of a problem."""

    def __init__(self, problem: Problem) -> None:
        known: dict[object, tuple[TreeLevel, ...]] = {}
        exact: dict[object, bool] = {}
        self._trees: list[tuple[TreeLevel, ...]] = []
        self._extents, self._sizes = problem.extents, [_size(problem, one) for one in problem.classes]
        self.is_exact = True
        for one in problem.classes:
            fanouts = [problem.arch.fanouts[f] for f in one.fanouts]
            alike = tuple((fanout.size, fanout.dims, fanout.name if problem.rules else "") for fanout in fanouts)
            if alike not in known:
                rows = class_rows(problem, one)
                known[alike] = _tree(problem, rows, _size(problem, one))
                exact[alike] = rows.is_exact
            self._trees.append(known[alike])
            self.is_exact &= exact[alike]

    @property
    def count(self) -> int:
        """Return the number of combinations of counts, feasible or not."""
        return prod(tree[0].count for tree in self._trees)

    def root(self) -> Chunk:
        """Return the box of all counts, without a bound."""
        levels = tuple(len(tree) - 1 for tree in self._trees)
        return Chunk(levels, np.zeros((len(levels), 1), dtype=np.int32), (0,))

    def boxes(self, chunk: Chunk) -> Boxes:
        """Return the boxes of a chunk as ranges of counts."""
        at = [(tree[level], nodes) for tree, level, nodes in zip(self._trees, chunk.levels, chunk.nodes, strict=True)]
        if not at:
            nothing: IntArray = np.zeros((0, 0, chunk.nodes.shape[1]), dtype=np.int64)
            return Boxes(nothing, nothing, nothing)
        return Boxes(
            np.stack([level.low[:, nodes] for level, nodes in at]),
            np.stack([level.high[:, nodes] for level, nodes in at]),
            np.stack([level.joint[:, nodes] for level, nodes in at]),
        )

    def of_steps(self, least: int, most: int) -> Chunk | None:
        """Return the structures that take `least` to `most` steps, without bounds; None where that are too many, or too
        many must be looked at.

        Class by class those are kept whose first instance has `most` steps at most, if all siblings of later classes
        share them.
        """
        if count_type(prod(self._extents)) != INT64:
            return None
        nodes: IntArray = np.zeros((0, 1), dtype=np.int32)
        shares: IntArray = np.array(self._extents, dtype=np.int64)[:, None]
        for g, tree in enumerate(self._trees):
            if shares.shape[1] * tree[0].count > TUNING.most_pairs:
                return None
            room = min(most * prod(self._sizes[g + 1 :]), prod(self._extents))
            steps: IntArray = np.ones((shares.shape[1], tree[0].count), dtype=np.int64)
            counts = tree[0].high.astype(np.int64)  # longer ones where costs are long
            for extent, high in zip(shares, counts, strict=True):
                steps *= -(-extent[:, None] // high[None, :])
            before, row = np.nonzero(steps <= room)
            nodes = np.vstack([nodes[:, before], row.astype(np.int32)])
            shares = -(-shares[:, before] // counts[:, row])
        nodes = nodes[:, np.prod(shares, axis=0) >= least]
        count = nodes.shape[1]
        return Chunk((0,) * len(self._trees), nodes, (0,) * count) if count <= TUNING.most_of_steps else None

    def halves(self, chunk: Chunk) -> Chunk:
        """Return the halves of a chunk's boxes, split along the class whose tree was descended least."""
        g = max(range(len(chunk.levels)), key=lambda g: chunk.levels[g])
        below = self._trees[g][chunk.levels[g] - 1].count
        children = (
            chunk.nodes[g][:, None] * TUNING.tree_branches + np.arange(TUNING.tree_branches, dtype=np.int32)
        ).ravel()
        kept = np.flatnonzero(children < below)
        nodes = np.repeat(chunk.nodes, TUNING.tree_branches, axis=1)[:, kept]
        nodes[g] = children[kept]
        bounds = [chunk.bounds[int(place)] for place in kept // TUNING.tree_branches]
        levels = tuple(level - (h == g) for h, level in enumerate(chunk.levels))
        return Chunk(levels, nodes, tuple(bounds))


def _size(problem: Problem, one: FanoutClass) -> int:
    """Return the siblings of a class."""
    return prod(problem.arch.fanouts[f].size for f in one.fanouts)


def _tree(problem: Problem, rows: CountRows, size: int) -> tuple[TreeLevel, ...]:
    """Return the tree over the rows of a class of `size` siblings, leaves first."""
    order = _nearby(rows.low)
    low, high = rows.low[order].T, rows.high[order].T
    found = [TreeLevel(low, high, joint_counts(problem, high, size))]
    while found[-1].count > 1:
        last, starts = found[-1], np.arange(0, found[-1].count, TUNING.tree_branches)
        least = np.minimum.reduceat(last.low, starts, axis=1)
        most, joint = (np.maximum.reduceat(one, starts, axis=1) for one in (last.high, last.joint))
        found.append(TreeLevel(least, most, joint))
    return tuple(found)


def _nearby(rows: IntArray) -> IntArray:
    """Return an order of the rows in which neighbours differ little: recursive halves along the dim that varies
    most."""
    logs = np.log(rows.astype(np.float64))
    blocks, done = [np.arange(len(rows))], [np.zeros(0, dtype=np.int64)]
    while blocks:
        block = blocks.pop()
        if len(block) <= TUNING.tree_branches:
            done.append(block)
            continue
        own = logs[block]
        widest = int(np.argmax(own.max(axis=0) - own.min(axis=0)))
        block = block[np.argsort(own[:, widest], kind="stable")]
        size = TUNING.tree_branches
        while size * TUNING.tree_branches < len(block):
            size *= TUNING.tree_branches
        middle = max(1, round(len(block) / 2 / size)) * size if len(block) > size else len(block) // 2
        middle = min(middle, (len(block) - 1) // size * size)
        blocks += [block[middle:], block[:middle]]
    return np.concatenate(done)
