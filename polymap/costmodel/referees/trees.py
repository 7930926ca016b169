"""The referee of the search: every legal canonical loop tree, scored exactly (docs/counting.md, "The mapping space").

It walks all sequences of loops and, for each, all placements of the storage nodes. A tensor's traffic depends only on
the loops and on its own nodes. So it is counted once per tensor and placement, and a tree is a sum over tensors. It
shares no code with the search, the counting of the space, or the cost model. It is for one accumulation over a box.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, pairwise

import numpy as np

from polymap.costmodel.referees.arrays import Ints
from polymap.costmodel.referees.counts import Loop, Nest
from polymap.costmodel.referees.places import Arrangement, Arrangements, Place
from polymap.costmodel.referees.score import Columns, Scale, scale_of
from polymap.costmodel.referees.tensor import TensorScore
from polymap.costmodel.referees.words import Word, Words
from polymap.ir import Architecture, Compute, Fanout, Mapping, MappingNode, Spatial, Storage, Temporal, Workload

Point = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExhaustiveResult:
    """value: the exact least objective among legal trees within capacity; None where there is none.

    values: of an order or a front, one per part, of the best tree. front: the values of all undominated trees.
    front_trees: one tree for each of them. legal: number of legal canonical trees. fitting: those within capacity;
    where tiles need not divide, of what has several accesses the first tile is asked to fit, perhaps not its largest.
    distinct: number of different cost vectors among the legal ones (traffic per level and tensor, steps), if requested.
    """

    value: Fraction | None
    best: Mapping | None
    legal: int
    fitting: int
    distinct: int | None
    values: tuple[Fraction, ...] = ()
    front: tuple[tuple[Fraction, ...], ...] = ()
    front_trees: tuple[Mapping, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoredTree:
    """One legal tree. value: its objective. fits: it is within capacity. values: of an order or a front, one per part.

    traffic: per tensor the rows (reads, writes, fills, drains) of all levels, outermost first; zeros where it is not
    held.
    """

    mapping: Mapping
    value: Fraction
    fits: bool
    traffic: tuple[tuple[tuple[int, ...], ...], ...]
    steps: int
    values: tuple[Fraction, ...] = ()


def exhaustive(
    workload: Workload,
    arch: Architecture,
    objective: str,
    tiles: str,
    *,
    count_distinct: bool = False,
    most_trees: int | None = None,
    meets: Callable[[Mapping], bool] | None = None,
    stop: Callable[[], bool] | None = None,
) -> ExhaustiveResult | None:
    """Return the best of all legal trees.

    objective: energy, latency, edp, ed2p, traffic:LEVEL, capacity:LEVEL, or several as weighted:.., lex:.. or
    pareto:... tiles: "divide" or "any". meets: a further condition on the best tree, or on those of a front; called
    only for trees that improve on the best, or that no known one dominates.

    Returns None as soon as there are more than `most_trees` trees, or `stop` returns True.
    """
    walking = TreeWalk(workload, arch, objective, tiles, count_distinct=count_distinct, meets=meets)

    def is_over() -> bool:
        return (most_trees is not None and walking.legal > most_trees) or (stop is not None and stop())

    return walking.go_on(is_over)


class TreeWalk:
    """A walk over all trees, as by `exhaustive`, that can be interrupted and continued."""

    def __init__(
        self,
        workload: Workload,
        arch: Architecture,
        objective: str,
        tiles: str,
        *,
        count_distinct: bool = False,
        meets: Callable[[Mapping], bool] | None = None,
    ) -> None:
        self._meets = meets
        asked = None if meets is None else self._meets_in_time
        self._walk = _Walk(workload, arch, scale_of(workload, arch, objective), tiles, asked)
        self._words = iter(self._walk.words)
        self._taken = 0
        self._pending: Word | None = None
        self._vectors: set[tuple[int, ...]] | None = set() if count_distinct else None
        self._stop: Callable[[], bool] | None = None  # asked between the trees of one sequence of loops
        self._is_late = False

    @property
    def legal(self) -> int:
        """The number of legal trees visited."""
        return self._walk.legal

    def go_on(self, stop: Callable[[], bool]) -> ExhaustiveResult | None:
        """Return the best of all trees; None if `stop` ended the walk. At least one sequence of loops is visited."""
        self._stop = None
        while (word := self._next()) is not None:
            if not self._visit_word(word):
                self._pending = word
                return None
            if stop():
                return None
            self._stop = stop
        return self._walk.result(None if self._vectors is None else len(self._vectors))

    def _next(self) -> Word | None:
        word, self._pending = self._pending, None
        if word is None:
            word = next(self._words, None)
            self._taken += 1
        return word

    def __getstate__(self) -> dict[str, object]:
        """Return the state to pickle; the number of visited sequences of loops replaces the iterator."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_words", "_stop")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._stop = None
        self._words = islice(iter(self._walk.words), self._taken, None)

    def _visit_word(self, word: Word) -> bool:
        """Return whether all trees of these loops were scored; otherwise none was."""
        walk = self._walk
        before, self._is_late = (walk.legal, walk.fitting, walk.best, walk.front), False
        scores = walk.scores(word)
        walk.note(scores)
        if self._is_late:
            walk.legal, walk.fitting, walk.best, walk.front = before
            return False
        if self._vectors is not None:
            self._vectors.update(walk.cost_vectors(scores))
        return True

    def _meets_in_time(self, mapping: Mapping) -> bool:
        self._is_late = self._is_late or (self._stop is not None and self._stop())
        return not self._is_late and self._meets is not None and self._meets(mapping)


def scored_trees(
    workload: Workload, arch: Architecture, objective: str, tiles: str, *, every: int = 1
) -> Iterator[ScoredTree]:
    """Yield every `every`-th legal tree of the walk, with values by sums of traffic, whatever single steps take."""
    walk = _Walk(workload, arch, scale_of(workload, arch.without_steps(), objective), tiles)
    met = 0
    for word in walk.words:
        scores = walk.scores(word)
        yield from walk.scored(scores, range(-met % every, scores.count, every))
        met += scores.count


@dataclass(frozen=True, slots=True)
class _WordSituation:
    """A word as the tensors' counters need it (`tensor.Situation`)."""

    clocks: tuple[tuple[int, ...], ...]
    spatial: tuple[int, ...]
    key: tuple[object, ...]
    lockstep: bool


@dataclass(frozen=True, slots=True)
class _Scores:
    """All trees of one word: per tensor the number of its placement, and the sums of the tensors' columns."""

    word: Word
    arrangement: Arrangement
    columns: Columns
    chosen: list[Ints]
    traffic: list[Ints]
    sums: Ints
    steps: int

    @property
    def count(self) -> int:
        return len(self.sums)

    def places(self, tree: int) -> tuple[Place, ...]:
        """Return the placement of each tensor's nodes."""
        return tuple(of[int(c[tree])] for of, c in zip(self.arrangement.places, self.chosen, strict=True))


class _Walk:
    """The state of one enumeration."""

    def __init__(
        self,
        workload: Workload,
        arch: Architecture,
        scale: Scale,
        tiles: str,
        meets: Callable[[Mapping], bool] | None = None,
    ) -> None:
        self.workload = workload
        self.meets = meets
        self.arch = arch
        self.levels, self.fanouts = arch.levels, arch.fanouts
        self.scale = scale
        self._units = scale.units()
        self.nest = Nest(workload, arch)
        self.arrangements = Arrangements(workload, arch)
        self.words = Words(self.nest, arch, tiles, self.arrangements.most_nodes)
        self.tensors = [
            TensorScore(self.nest, number, divides=tiles == "divide") for number in range(len(workload.tensors))
        ]
        self._names: dict[tuple[int, bytes], int] = {}
        self.legal = self.fitting = 0
        self.best: tuple[Point, Word, tuple[Place, ...]] | None = None
        self.front: dict[Point, tuple[Word, tuple[Place, ...]]] = {}
        self._columns: dict[tuple[int, ...], Columns] = {}
        self._ticks: dict[tuple[int, ...], int] = {}

    def scores(self, word: Word) -> _Scores:
        """Return the sums over tensors of all trees with these loops."""
        arrangement = self.arrangements.arrangement(len(word.items), word.units)
        kept = self.arrangements.with_nodes_in_gaps(len(word.items), word.units, word.gaps)
        chosen = [of_tensor[kept] for of_tensor in arrangement.chosen]
        if not len(kept):
            return _Scores(word, arrangement, self._columns_of(()), chosen, [], np.zeros((0, 1), dtype=np.int64), 0)
        seen = self._situation_of(word)
        columns = self._columns_of(seen.spatial)
        tables = [
            tensor.rows(columns, seen, places) for tensor, places in zip(self.tensors, arrangement.places, strict=True)
        ]
        sums = np.sum([rows[which] for (rows, _), which in zip(tables, chosen, strict=True)], axis=0)
        traffic = [moved for _, moved in tables]
        return _Scores(word, arrangement, columns, chosen, traffic, sums, self._steps(seen.clocks[-1]))

    def note(self, scores: _Scores) -> None:
        """Count the trees of a word and record the best."""
        if not scores.count:
            return
        self.legal += scores.count
        fits = np.flatnonzero(scores.columns.fit(scores.sums))
        self.fitting += len(fits)
        if len(fits):
            vectors = scores.columns.vectors(scores.sums[fits], scores.steps)
            for row in [_first_minimum(vectors)] if self.meets is None else _in_order(vectors):
                point, places = _point(vectors, row), scores.places(int(fits[row]))
                if self.best is not None and point >= self.best[0]:
                    break
                if self.meets is None or self.meets(self.mapping(scores.word, places)):
                    self.best = point, scores.word, places
                    break
            if self.scale.kind == "pareto":
                self._note_front(scores, fits, vectors)

    def _note_front(self, scores: _Scores, fits: Ints, vectors: list[Ints]) -> None:
        """Add the trees of a word that no known one dominates or equals."""
        rows: dict[Point, list[int]] = {}
        for row in range(len(fits)):
            rows.setdefault(_point(vectors, row), []).append(row)
        for point in sorted(rows):  # what covers a point comes before it
            if any(_covers(other, point) for other in self.front):
                continue
            for row in rows[point]:
                places = scores.places(int(fits[row]))
                if self.meets is None or self.meets(self.mapping(scores.word, places)):
                    self.front = {other: tree for other, tree in self.front.items() if not _covers(point, other)}
                    self.front[point] = scores.word, places
                    break

    def scored(self, scores: _Scores, trees: range) -> Iterator[ScoredTree]:
        """Yield some trees of a word with all their figures."""
        sums = scores.sums[trees.start : trees.stop : trees.step]
        if not len(sums):
            return
        vectors = scores.columns.vectors(sums, scores.steps)
        fits = scores.columns.fit(sums).tolist()
        tables = [_traffic_tuples(table) for table in scores.traffic]
        for row, tree in enumerate(trees):
            values = self._in_units(_point(vectors, row))
            traffic = tuple(table[int(which[tree])] for table, which in zip(tables, scores.chosen, strict=True))
            mapping = self.mapping(scores.word, scores.places(tree))
            yield ScoredTree(mapping, values[0], fits[row], traffic, scores.steps, values)

    def _situation_of(self, word: Word) -> _WordSituation:
        clocks: list[tuple[int, ...]] = [()]
        spatial: list[int] = []
        for item in word.items:
            if isinstance(item, int):
                clocks.append((*clocks[-1], item))
            else:
                clocks.append(clocks[-1])
                spatial += item
        lockstep = self._in_lockstep(spatial, clocks[-1])
        return _WordSituation(
            tuple(clocks), tuple(sorted(spatial, key=self._rank)), (len(word.items), word.units), lockstep
        )

    def _in_lockstep(self, spatial: list[int], temporal: tuple[int, ...]) -> bool:
        """Return whether all tiles divide along the dims that are spread: then no instance is idle while another
        works."""
        loops = self.nest.loops
        spread = {loops[number].dim for number in spatial}
        chains = [loops[number] for number in (*spatial, *temporal) if loops[number].dim in spread]
        return all(
            outer % inner == 0
            for loop in chains
            for outer, inner in pairwise((self.nest.extents[loop.dim], *loop.tiles))
        )

    def _rank(self, number: int) -> tuple[int, int]:
        loop = self.nest.loops[number]
        assert loop.fanout is not None
        return loop.fanout, self.words.dims.index(loop.dim)

    def _columns_of(self, spatial: tuple[int, ...]) -> Columns:
        """Return the layout of the columns for words with these spatial loops."""
        if spatial not in self._columns:
            instances = [self.nest.size(self.nest.above(spatial, level)) for level in range(len(self.levels))]
            self._columns[spatial] = Columns(self.workload, self.arch, self.scale, instances)
        return self._columns[spatial]

    def _steps(self, temporal: tuple[int, ...]) -> int:
        """Return the number of steps: of distinct temporal indices at which some statement instance runs."""
        key = tuple(sorted(temporal))
        if key not in self._ticks:
            self._ticks[key] = len(np.unique(self.nest.number(key)))
        return self._ticks[key]

    def cost_vectors(self, scores: _Scores) -> set[tuple[int, ...]]:
        """Return the distinct cost vectors of a word's trees; each tensor's traffic is encoded as a number."""
        if not scores.count:
            return set()
        columns: list[Ints] = []
        for number, (table, which) in enumerate(zip(scores.traffic, scores.chosen, strict=True)):
            names = [self._names.setdefault((number, row.tobytes()), len(self._names)) for row in table]
            columns.append(np.array(names, dtype=np.int64)[which])
        rows = np.unique(np.stack(columns, axis=1), axis=0)
        return {(scores.steps, *row) for row in rows.tolist()}

    def mapping(self, word: Word, places: tuple[Place, ...]) -> Mapping:
        """Return the loop tree, nodes of one gap by level and then by tensor."""
        nodes: list[MappingNode] = []
        for gap in range(len(word.items) + 1):
            here = sorted((level, t) for t, place in enumerate(places) for level, g in place if g == gap)
            nodes += [Storage(self.levels[level].name, (self.workload.tensors[t].name,)) for level, t in here]
            if gap < len(word.items):
                item = word.items[gap]
                nodes += [_node(self.fanouts, self.nest.loops[n]) for n in ((item,) if isinstance(item, int) else item)]
        return Mapping((*nodes, Compute(self.workload.statements[0].name)))

    def result(self, distinct: int | None) -> ExhaustiveResult:
        if self.best is None:
            return ExhaustiveResult(None, None, self.legal, self.fitting, distinct)
        point, word, places = self.best
        values, front = self._in_units(point), tuple(self._in_units(one) for one in sorted(self.front))
        trees = tuple(self.mapping(*self.front[one]) for one in sorted(self.front))
        mapping = self.mapping(word, places)
        return ExhaustiveResult(values[0], mapping, self.legal, self.fitting, distinct, values, front, trees)

    def _in_units(self, point: Point) -> tuple[Fraction, ...]:
        return tuple(value * unit for value, unit in zip(point, self._units, strict=True))


def _traffic_tuples(table: Ints) -> list[tuple[tuple[int, ...], ...]]:
    """Return, per placement and level, (reads, writes, fills, drains)."""
    return [tuple(tuple(int(n) for n in level) for level in place.reshape(-1, 4)) for place in table]


def _point(vectors: list[Ints], row: int) -> Point:
    return tuple(int(vector[row]) for vector in vectors)


def _first_minimum(vectors: list[Ints]) -> int:
    """Return the first row that is lexicographically least."""
    rows = np.arange(len(vectors[0]))
    for vector in vectors:
        rows = rows[vector[rows] == vector[rows].min()]
    return int(rows[0])


def _in_order(vectors: list[Ints]) -> list[int]:
    """Return the rows in lexicographic order; equal ones keep their order."""
    return sorted(range(len(vectors[0])), key=lambda row: _point(vectors, row))


def _covers(one: Point, other: Point) -> bool:
    """Return whether one point is at most the other in every part."""
    return all(a <= b for a, b in zip(one, other, strict=True))


def _node(fanouts: Sequence[Fanout], loop: Loop) -> MappingNode:
    tile = loop.tiles[-1]
    return Temporal(loop.dim, tile) if loop.fanout is None else Spatial(loop.dim, tile, fanouts[loop.fanout].name)
