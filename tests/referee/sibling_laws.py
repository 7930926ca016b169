"""What one loop tree says of the sibling bounds: no formula may exceed what its tree moves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from polymap.ir.mapping import Mapping, Storage
from polymap.search.objective.measure import Measure
from polymap.search.problem.problem import Problem
from polymap.search.sibling_bounds.single_tensor import Boxes, SiblingCounts, TensorLoads
from polymap.search.sibling_bounds.structures import sibling_counts
from polymap.search.sibling_bounds.tensor_costs import least_components

Counts = tuple[tuple[int, ...], ...]
Rows = tuple[tuple[int, ...], ...]  # per level: reads, writes, fills, drains


def box_of(problem: Problem, low: Counts, high: Counts) -> Boxes:
    """Return one box of structures."""
    shape = len(problem.classes), len(problem.dims), 1
    lanes = [
        [
            [min(_product(row[d] for d, dim in enumerate(problem.dims) if dim not in term.dims), _size(problem, g))]
            for term in problem.terms
        ]
        for g, row in enumerate(high)
    ]
    sharers = np.array(lanes, dtype=np.int64).reshape(len(problem.classes), len(problem.terms), 1)
    return Boxes(np.array(low, dtype=np.int64).reshape(shape), np.array(high, dtype=np.int64).reshape(shape), sharers)


def _size(problem: Problem, g: int) -> int:
    return _product(problem.arch.fanouts[f].size for f in problem.classes[g].fanouts)


def _product(numbers: Iterator[int]) -> int:
    total = 1
    for number in numbers:
        total *= number
    return total


def canonical(problem: Problem, counts: Counts) -> tuple[Counts, Counts]:
    """Return the least and the largest counts with the same ceil(extent / count) along each dim."""
    low, high = [], []
    for row in counts:
        shares = [-(-n // c) for n, c in zip(problem.extents, row, strict=True)]
        low.append(tuple(-(-n // v) for n, v in zip(problem.extents, shares, strict=True)))
        high.append(tuple(n if v == 1 else (n - 1) // (v - 1) for n, v in zip(problem.extents, shares, strict=True)))
    return tuple(low), tuple(high)


def value_bound(problem: Problem, measure: Measure, box: Boxes) -> int | None:
    """Return the bound of the objective (scaled) over a box; None: nothing fits."""
    return least_components(problem, measure, box).values(measure)[0]


@dataclass(frozen=True, slots=True)
class Excess:
    """A formula that exceeds what a tree moves."""

    what: str
    tensor: str
    levels: tuple[int, int]
    bound: int
    true: int


class TreeLaws:
    """The formulas of one box of structures, asked by tensor and levels."""

    def __init__(self, problem: Problem, box: Boxes) -> None:
        counts = SiblingCounts(problem, box)
        self.problem = problem
        self.cycles = int(counts.cycles()[0])
        self.is_feasible = bool(counts.feasible()[0])
        self._loads = [TensorLoads(counts, term, alone=False) for term in problem.terms]
        self._known: dict[tuple[str, int, int, int], int] = {}

    def excesses(self, mapping: Mapping, traffic: tuple[Rows, ...]) -> Iterator[Excess]:
        """Yield every formula that is above what a tree with that traffic moves."""
        names = [level.name for level in self.problem.arch.levels]
        for term, rows in zip(self.problem.terms, traffic, strict=True):
            nodes = [node for node in mapping.nodes if isinstance(node, Storage) and term.tensor.name in node.tensors]
            holders = [0, *sorted({names.index(node.level) for node in nodes} - {0}), self.problem.level_count]
            for parent, level in pairwise(holders):
                moved = rows[parent][1] - rows[parent][2] if term.is_output else rows[parent][0]
                what = "operands" if level == self.problem.level_count else "messages"
                yield from self._checked(what, term.index, parent, level, moved)
                if what == "messages" and not term.is_output:
                    yield from self._checked("fills", term.index, parent, level, rows[level][2])

    def _checked(self, what: str, tensor: int, parent: int, level: int, true: int) -> Iterator[Excess]:
        key = what, tensor, parent, level
        if key not in self._known:
            loads = self._loads[tensor]
            if what == "fills":
                found = loads.fills(level)
            else:
                found = loads.operands(parent) if what == "operands" else loads.messages(parent, level)
            self._known[key] = int(found[0])
        if self._known[key] > true:
            yield Excess(what, self.problem.terms[tensor].tensor.name, (parent, level), self._known[key], true)


def structures_of(problem: Problem, mapping: Mapping) -> tuple[Counts, Counts]:
    """Return the canonical structure of a tree, as least and largest counts."""
    return canonical(problem, sibling_counts(problem, mapping))
