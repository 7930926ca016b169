"""What one loop tree says of the sibling bounds: no formula may exceed what its tree moves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from polymap.costmodel.counts import LevelUse
from polymap.ir.mapping import Mapping, Storage
from polymap.search.any_size.single_tensor import Boxes, Counts, SiblingCounts, TensorLoads
from polymap.search.any_size.tensor_costs import least_components
from polymap.search.problem.measure import Measure
from polymap.search.problem.problem import Problem, TensorTerm
from tests.tree_siblings import sibling_counts

Rows = tuple[tuple[int, ...], ...]  # per level: reads, writes, fills, drains


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
        self._loads = {alone: [TensorLoads(counts, t, alone=alone) for t in problem.terms] for alone in (False, True)}
        self._known: dict[tuple[str, int, int, int, bool], int] = {}

    def excesses(self, mapping: Mapping, traffic: tuple[Rows, ...]) -> Iterator[Excess]:
        """Yield every formula that is above what all instances of a tree with that traffic move."""
        for term, rows in zip(self.problem.terms, traffic, strict=True):
            for parent, level in self._moves(mapping, term):
                moved = rows[parent][1] - rows[parent][2] if term.is_output else rows[parent][0]
                true = {"operands": moved, "messages": moved, "fills": rows[level][2] if level < len(rows) else 0}
                for what in self._asked(term, level):
                    bound = self._bound(what, term.index, parent, level, alone=False)
                    if bound > true[what]:
                        yield Excess(what, term.tensor.name, (parent, level), bound, true[what])

    def busiest_excesses(self, mapping: Mapping, uses: tuple[LevelUse, ...]) -> Iterator[Excess]:
        """Yield every level whose busiest instance moves less than what is said of the first one, and what it holds."""
        count = self.problem.level_count
        reads, writes, held = [0] * count, [0] * count, [0] * count
        for term in self.problem.terms:
            bits = term.tensor.bits
            for parent, level in self._moves(mapping, term):
                for what in self._asked(term, level):
                    moved = bits * self._bound(what, term.index, parent, level, alone=True)
                    if what == "fills":
                        writes[level] += moved
                        continue
                    reads[parent] += moved
                    writes[parent] += moved if term.is_output else 0
                if level < count:
                    held[level] += bits * self._bound("held", term.index, parent, level, alone=True)
                if parent == 0 and term.is_output and not term.tensor.initial:
                    reads[0] -= bits * self._loads[True][term.index].elements
        for level, use in enumerate(uses):
            rows = [("reads", reads, use.busiest_read_bits), ("writes", writes, use.busiest_write_bits)]
            for what, bounds, true in [*rows, ("held", held, use.occupancy_bits)]:
                if bounds[level] > true:
                    yield Excess(f"busiest {what}", "", (level, level), bounds[level], true)

    def _moves(self, mapping: Mapping, term: TensorTerm) -> Iterator[tuple[int, int]]:
        """Return the pairs of levels between which a tree moves a tensor."""
        names = [level.name for level in self.problem.arch.levels]
        nodes = [node for node in mapping.nodes if isinstance(node, Storage) and term.tensor.name in node.tensors]
        return pairwise([0, *sorted({names.index(node.level) for node in nodes} - {0}), self.problem.level_count])

    def _asked(self, term: TensorTerm, level: int) -> tuple[str, ...]:
        if level == self.problem.level_count:
            return ("operands",)
        return ("messages",) if term.is_output else ("messages", "fills")

    def _bound(self, what: str, tensor: int, parent: int, level: int, *, alone: bool) -> int:
        key = what, tensor, parent, level, alone
        if key not in self._known:
            loads = self._loads[alone][tensor]
            if what in ("fills", "held"):
                found = loads.fills(level) if what == "fills" else loads.held(level)
            else:
                found = loads.operands(parent) if what == "operands" else loads.messages(parent, level)
            self._known[key] = int(found[0])
        return self._known[key]


def structures_of(problem: Problem, mapping: Mapping) -> tuple[Counts, Counts]:
    """Return the canonical structure of a tree, as least and largest counts."""
    return canonical(problem, sibling_counts(problem, mapping))
