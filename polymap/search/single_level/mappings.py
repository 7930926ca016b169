"""Loop trees whose traffic a formula gives: the best of them per size of the buffer, and their mappings.

The dims that the outermost node's tensor lacks are whole at its tile. Each further node either leaves one of its own
dims as it is or cuts it into single indices; the dims that its tensor lacks are left to the next node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np

from polymap.ir import Compute, Mapping, MappingNode, Storage, Temporal
from polymap.poly import FloatArray
from polymap.search.any_size import group_starts
from polymap.search.problem import Problem
from polymap.search.single_level.cells import SAME, CellBounds, Cells
from polymap.search.single_level.first_tiles import Ints
from polymap.search.single_level.question import Operand, Question, Window
from polymap.search.single_level.tuning import TUNING
from polymap.search.single_level.window_tables import WindowTables

Tiles = tuple[int, ...]  # per dim


@dataclass(frozen=True, slots=True)
class Chain:
    """The tensors held, outermost node first, the tile at each node, and an estimate of the bits that the tree
    moves."""

    order: tuple[Operand, ...]
    tiles: tuple[Tiles, ...]
    guess: float


def good_chains(question: Question, rooms: list[int], tables: WindowTables) -> list[list[Chain]]:
    """Return, per size of the buffer, chains that fit, by rising estimate."""
    found: list[list[Chain]] = [[] for _ in rooms]
    for order in question.orders():
        if order:
            grid = _Grid(question, order, tables)
            for pattern in _patterns(order):
                for place, chain in enumerate(grid.best(pattern, rooms)):
                    if chain is not None:
                        found[place].append(chain)
    return [sorted(each, key=lambda one: one.guess)[: TUNING.best_trees] for each in found]


def _patterns(order: tuple[Operand, ...]) -> Iterator[tuple[frozenset[int], ...]]:
    """Yield, per node but the outermost, the dims that it cuts into single indices."""
    choices = [
        [
            frozenset(d for d, cut in zip(one.own, cuts, strict=True) if cut)
            for cuts in product((1, 0), repeat=len(one.own))
        ]
        for one in order[1:]
    ]
    yield from product(*choices)


class _Grid:
    """All tiles of the outermost node for one order of tensors, with whole dims that its tensor lacks; flattened."""

    def __init__(self, question: Question, order: tuple[Operand, ...], tables: WindowTables) -> None:
        self.question, self.order, self.tables = question, order, tables
        starts = [group_starts(n, n) if d in order[0].own else [n] for d, n in enumerate(question.extents)]
        self.sizes: list[Ints] = [
            each.ravel() for each in np.meshgrid(*(np.array(s, dtype=np.int64) for s in starts), indexing="ij")
        ]

    def best(self, pattern: tuple[frozenset[int], ...], rooms: list[int]) -> Iterator[Chain | None]:
        """Yield the best chain with a pattern for every size of the buffer."""
        tiles, chain = self.sizes, [self.sizes]
        for cut in pattern:
            tiles = [np.ones_like(t) if d in cut else t for d, t in enumerate(tiles)]
            chain.append(tiles)
        bits: FloatArray = np.zeros(len(tiles[0]))
        moved: FloatArray = np.full(len(tiles[0]), float(self.question.bypassing(self.order)))
        outer = [np.full_like(t, n) for t, n in zip(tiles, self.question.extents, strict=True)]
        for one, inner in zip(self.order, chain, strict=True):
            bits += one.bits * self._words(one, inner)
            moved += one.weight * self._loads(one, outer, inner) - one.saved
            outer = inner
        for room in rooms:
            cost = np.where(bits <= room, moved, np.inf)
            at = int(np.argmin(cost)) if len(cost) else 0
            if np.isfinite(cost[at]):
                yield Chain(self.order, tuple(tuple(int(t[at]) for t in each) for each in chain), float(cost[at]))
            else:
                yield None

    def _loads(self, one: Operand, outer: list[Ints], inner: list[Ints]) -> FloatArray:
        """Return the loads of a node if one window slides over the tile of the next outer node."""
        extents = self.question.extents
        visits = np.ones(len(inner[0]))
        for d in one.lacking:
            visits = visits * -(-extents[d] // inner[d])
        for d in one.plain:
            visits = visits * extents[d]
        tables = [self.tables.pieces((extents[w.dims[0]], extents[w.dims[1]]), w.coefficients) for w in one.windows]
        afresh = [_looked_up(t, inner[w.dims[0]], inner[w.dims[1]]) for t, w in zip(tables, one.windows, strict=True)]
        slid = [_slide_window(t, w, outer, inner) for t, w in zip(tables, one.windows, strict=True)]
        if not one.windows:
            return visits
        least: FloatArray = np.full(len(visits), np.inf)
        for sliding in range(len(one.windows)):
            total = np.ones(len(visits))
            for number in range(len(one.windows)):
                total = total * (slid if number == sliding else afresh)[number]
            least = np.minimum(least, total)
        return visits * least

    def _words(self, one: Operand, tiles: list[Ints]) -> FloatArray:
        """Return the elements of a tensor's tile."""
        found: FloatArray = np.ones(len(tiles[0]))
        for d in one.plain:
            found = found * tiles[d]
        for window in one.windows:
            extents = self.question.extents[window.dims[0]], self.question.extents[window.dims[1]]
            table = self.tables.fewest(extents, window.coefficients)
            found = found * _looked_up(table, tiles[window.dims[0]], tiles[window.dims[1]])
        return found


def _slide_window(table: FloatArray, window: Window, outer: list[Ints], inner: list[Ints]) -> FloatArray:
    """Return the loaded elements of a window if one loop slides its tile over the outer tile.

    An element stays throughout if the other dim has steps of 1, or a single index.
    """
    first, second = window.dims
    along_first = (
        outer[first] if abs(window.coefficients[1]) == 1 else np.where(inner[second] == 1, outer[first], inner[first])
    )
    along_second = (
        outer[second] if abs(window.coefficients[0]) == 1 else np.where(inner[first] == 1, outer[second], inner[second])
    )
    return np.minimum(
        _looked_up(table, along_first, inner[second]),
        _looked_up(table, inner[first], along_second),
    )


def _looked_up(table: FloatArray, first: Ints, second: Ints) -> FloatArray:
    return table[first - 1, second - 1]


def trees(problem: Problem, question: Question, chain: Chain) -> Iterator[Mapping]:
    """Yield the loop trees of a chain: per node the loops over dims that its tensor lacks, then those over its own
    dims, those of windows last, in every order.
    """
    windowed = sorted({d for one in chain.order for window in one.windows for d in window.dims})
    seen: set[Mapping] = set()
    for order in permutations(windowed) if len(windowed) <= TUNING.most_permuted else [tuple(windowed)]:
        mapping = _tree(problem, question, chain, order)
        if mapping not in seen:
            seen.add(mapping)
            yield mapping


def _tree(problem: Problem, question: Question, chain: Chain, last: tuple[int, ...]) -> Mapping:
    nodes: list[MappingNode] = []
    outer: Tiles = question.extents
    level = problem.arch.levels[1].name
    for one, inner in zip(chain.order, chain.tiles, strict=True):
        moved = [d for d in range(len(outer)) if inner[d] < outer[d]]
        moved.sort(key=lambda d: (d in one.own, last.index(d) if d in last else -1, d))
        nodes += [Temporal(problem.dims[d], inner[d]) for d in moved]
        nodes.append(Storage(level, (problem.terms[one.number].tensor.name,)))
        outer = inner
    nodes += [Temporal(problem.dims[d], 1) for d, n in enumerate(outer) if n > 1]
    return Mapping((*nodes, Compute(problem.workload.statements[0].name)))


def chain_of(bounds: CellBounds, cells: Cells, at: int, guess: float) -> Chain:
    """Return a chain of the least tiles that a cell allows."""
    tiles: list[Tiles] = []
    outer = bounds.question.extents
    for place, one in enumerate(bounds.order):
        low, high, tie = cells.low[place, :, at], cells.high[place, :, at], cells.tie[place, :, at]
        inner: list[int] = []
        for d, size in enumerate(outer):
            if place and tie[d] == SAME:
                inner.append(size)
            else:
                inner.append(min(size, int(low[d]) if d in one.own else int(high[d])))
        outer = tuple(inner)
        tiles.append(outer)
    return Chain(bounds.order, tuple(tiles), guess)
