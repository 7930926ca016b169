"""Best-first search over structures: what no mapping over tiles of any size can beat.

The queue holds boxes of structures, then single structures, each with a bound. What has the least bound comes first:
a box is cut, a structure's bound is refined, with more effort each time. The least bound in the queue bounds every
mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf, prod

import numpy as np

from polymap.ir import Mapping
from polymap.resources import BestFirst, SearchCaches, Stop, Work
from polymap.search.any_size.box_trees import BoxTrees, Chunk
from polymap.search.any_size.crossings import sibling_ranges
from polymap.search.any_size.joint import ChainNode, StructureBound
from polymap.search.any_size.single_tensor import Boxes, Counts, SiblingCounts, Working, one_box
from polymap.search.any_size.tensor_costs import least_components
from polymap.search.any_size.tuning import TUNING
from polymap.search.problem import Measure, Problem, least_steps
from polymap.search.trees import TreeClimber


@dataclass(frozen=True, slots=True)
class SingleStructure:
    """A structure of its own: the sibling counts [class][dim], how often its bound was refined, the chain of nodes that
    the last refinement relaxed to, what refines it (None: nothing did yet), and per dim how many siblings have work."""

    counts: Counts
    refined: int = 0
    chain: tuple[ChainNode, ...] = ()
    bounds: StructureBound | None = field(default=None, compare=False, repr=False)
    working: Working = ()


@dataclass(frozen=True, slots=True)
class Slower:
    """All structures that take at least so many steps."""

    steps: int


Item = Chunk | SingleStructure | Slower


def _left_to_do(item: Item) -> float:
    """Return how much is left to do with an item: of equal bounds the finest comes first."""
    if isinstance(item, Slower):
        return inf
    return -item.refined if isinstance(item, SingleStructure) else 1 + sum(item.levels)


class SiblingSearch:
    """The structures of one question that are not refuted, and what bounds them.

    steps: how often something was taken from the queue.
    """

    def __init__(self, problem: Problem, measure: Measure, caches: SearchCaches | None = None) -> None:
        self.problem, self.measure = problem, measure
        self._caches = caches or SearchCaches()
        self._trees = BoxTrees(problem)
        self._queue = BestFirst[int, Item](_left_to_do)
        self.steps = 0
        fewest = least_steps(dict(zip(problem.dims, problem.extents, strict=True)), problem.arch, problem.rules)
        self._fewest = 1 if fewest is None else fewest
        self._all = least_components(problem, measure, self._trees.boxes(self._trees.root()))
        powers = None if measure.shares else measure.goal.powers
        if self.structures:
            is_timed = powers is not None and powers.cycles > 0
            for bound, item in self._slower(0) if is_timed else self._bound_chunk(self._trees.root()):
                self._queue.add(bound, item)

    @property
    def structures(self) -> int:
        """Return how many structures there are."""
        return self._trees.count

    @property
    def bound(self) -> int | None:
        """Return the least bound of what is left, scaled (None: nothing fits)."""
        return self._queue.bound

    def go_on(
        self, best: Fraction | None, stop: Stop, work: Work, *, steps: int | None = None, refined: bool = True
    ) -> Fraction | None:
        """Search until the least bound reaches the best value or is of a structure refined as far as it goes (not
        `refined`: of a structure), or a limit is reached; return it in the objective's unit (None: nothing fits). work:
        a step per chunk of boxes and per refinement. steps: how many there may be (None: any number)."""
        last = inf if steps is None else self.steps + steps

        def is_over(bound: int, first: Item) -> bool:
            is_met = best is not None and self.measure.unscaled(bound) >= best
            return self.steps >= last or stop() or is_met or self._is_done(first, refined=refined)

        def parts(bound: int, first: Item) -> list[tuple[int, Item]]:
            self.steps += 1
            work.add()
            if isinstance(first, SingleStructure):
                return self._refine(first, bound, best, stop)
            return self._layer(first, bound) if isinstance(first, Slower) else self._halve(first)

        self._queue.split(parts, is_over)
        return self.value

    @property
    def value(self) -> Fraction | None:
        """Return the least bound in the objective's unit (None: nothing fits)."""
        return None if self.bound is None else self.measure.unscaled(self.bound)

    @property
    def refined(self) -> int:
        """Return how often the structure of the least bound was refined; 0 where that is no structure alone."""
        first = self._queue.first if len(self._queue) else None
        return first.refined if isinstance(first, SingleStructure) else 0

    def leading(self, count: int) -> tuple[SingleStructure, ...]:
        """Return at most so many structures: those with the least bounds that stand alone."""
        found: list[SingleStructure] = []
        for _, item in self._queue:
            if len(found) >= count:
                break
            if isinstance(item, SingleStructure):
                found.append(item)
            elif isinstance(item, Chunk) and item.is_final:
                room = min(len(item.bounds), count - len(found))
                found += [SingleStructure(self._counts(item, place)) for place in range(room)]
        return tuple(found)

    def _is_done(self, item: Item, *, refined: bool) -> bool:
        """Return whether nothing more is to be done with an item of the queue."""
        if isinstance(item, Slower):
            return False
        if isinstance(item, SingleStructure):
            return not refined or (item.bounds is not None and item.bounds.is_final)
        return item.is_final and not (refined and self._trees.is_exact)

    def _counts(self, chunk: Chunk, place: int = 0) -> Counts:
        """Return the sibling counts of one of single structures."""
        low = self._trees.boxes(_part(chunk, place, place + 1)).low[:, :, 0]
        return tuple(tuple(int(n) for n in row) for row in low.tolist())

    def _refine(self, item: SingleStructure, bound: int, best: Fraction | None, stop: Stop) -> list[tuple[int, Item]]:
        """Return a structure with a better bound; nothing where none of its mappings fits."""
        halves = [] if item.refined else self.by_working(item, bound)
        if halves:
            return [*halves]
        goal = None if best is None else int(best / self.measure.unscaled(1))
        bounds = item.bounds or StructureBound(self.problem, self.measure, item.counts, self._caches, item.working)
        found = bounds.go_on(goal, TUNING.efforts[min(item.refined, len(TUNING.efforts) - 1)], stop)
        if found.bound is None:
            return []
        again = replace(item, refined=item.refined + 1, chain=found.chain, bounds=bounds)
        return [(max(bound, found.bound), again)]

    def by_working(self, item: SingleStructure, bound: int) -> list[tuple[int, SingleStructure]]:
        """Return halves of a structure by how many siblings have work along a dim: the dim where that raises the bound
        most; [] where there is none.

        Where several classes spread a dim, the last siblings of one may have fewer of the next below them.
        """
        extents, ranges = self.problem.extents, sibling_ranges(self.problem, item.counts)
        several = [d for d in range(len(extents)) if sum(row[d] > 1 for row in ranges[1]) > 1]
        box = one_box(self.problem, *ranges)
        working = item.working or self._ends_of_working(box, several)
        halves: list[Working] = []
        for d in several:
            least, most = working[d]
            middle = min((least + most) // 2, -(-extents[d] // -(-extents[d] // most)) - 1)  # more steps than `most`
            if least <= middle:
                ends = (least, middle), (middle + 1, most)
                halves += [(*working[:d], each, *working[d + 1 :]) for each in ends]
        if not halves:
            return []
        low, high, joint = (np.repeat(one, len(halves), axis=2) for one in (box.low, box.high, box.joint))
        least, most = np.array(halves, dtype=box.low.dtype).transpose(2, 1, 0)
        found = least_components(self.problem, self.measure, Boxes(low, high, joint, (least, most)))
        values = [inf if one is None else one for one in found.values(self.measure)]
        first = max(range(0, len(halves), 2), key=lambda place: min(values[place : place + 2]))
        if min(values[first : first + 2]) <= bound:
            return []
        pair = zip(values[first : first + 2], halves[first : first + 2], strict=True)
        return [(int(value), replace(item, working=half)) for value, half in pair if value < inf]

    def _ends_of_working(self, box: Boxes, dims: Sequence[int]) -> Working:
        """Return per dim how many siblings of a structure have work at least and at most; 1 to all along other dims."""
        counts, every = SiblingCounts(self.problem, box), tuple(range(len(self.problem.classes)))
        return tuple(
            (int(counts.count(d, every)[0]) if d in dims else 1, int(counts.most(d, every)[0]))
            for d in range(len(self.problem.dims))
        )

    def _halve(self, chunk: Chunk) -> list[tuple[int, Item]]:
        """Return the halves of the first boxes of a chunk, or its first structure, and the rest of it."""
        if chunk.is_final:
            return [(chunk.bounds[0], SingleStructure(self._counts(chunk))), *_left_of(chunk, 1)]
        return [
            *_left_of(chunk, TUNING.boxes_at_once),
            *self._bound_chunk(self._trees.halves(_part(chunk, 0, TUNING.boxes_at_once))),
        ]

    def _slower(self, steps: int) -> list[tuple[int, Item]]:
        """Return all structures of at least so many steps, after a bound; [] where none fits."""
        cycles = np.maximum(self._all.cycles, -(-steps // self.problem.arch.compute.per_cycle))
        (bound,) = replace(self._all, cycles=cycles).values(self.measure)
        return [] if bound is None or steps > prod(self.problem.extents) else [(bound, Slower(steps))]

    def _layer(self, slower: Slower, bound: int) -> list[tuple[int, Item]]:
        """Return the structures with the fewest of these steps, and the slower ones, layer by layer as long as those of
        a layer are few; then the box of all structures."""
        most = int(max(slower.steps, self._fewest) * TUNING.more_steps)
        chunk = self._trees.of_steps(slower.steps, most)
        if chunk is None:
            return self._bound_chunk(replace(self._trees.root(), bounds=(bound,)))
        found = self._slower(most + 1)
        for first in range(0, len(chunk.bounds), TUNING.boxes_at_once):
            found += self._bound_chunk(_part(chunk, first, first + TUNING.boxes_at_once))
        return found

    def _bound_chunk(self, chunk: Chunk) -> list[tuple[int, Item]]:
        """Bound the boxes of a chunk; return it sorted, without those where nothing fits."""
        found = least_components(self.problem, self.measure, self._trees.boxes(chunk)).values(self.measure)
        values = [None if new is None else max(new, old) for new, old in zip(found, chunk.bounds, strict=True)]
        order = sorted((value, place) for place, value in enumerate(values) if value is not None)
        kept = np.array([place for _, place in order], dtype=np.int64)
        return _left_of(replace(chunk, nodes=chunk.nodes[:, kept], bounds=tuple(value for value, _ in order)), 0)


def _left_of(chunk: Chunk, first: int) -> list[tuple[int, Item]]:
    """Return the boxes of a sorted chunk from `first` on, after their least bound; [] where there are none."""
    return [(chunk.bounds[first], _part(chunk, first, len(chunk.bounds)))] if first < len(chunk.bounds) else []


def _part(chunk: Chunk, first: int, last: int) -> Chunk:
    return replace(chunk, nodes=chunk.nodes[:, first:last], bounds=chunk.bounds[first:last])


Known = tuple[Mapping, Fraction]
Report = Callable[[Mapping, Fraction, Fraction], None]


def climb_structures(
    structures: SiblingSearch,
    climber: TreeClimber | None,
    best: Known | None,
    stop: Stop,
    work: Work,
    report: Report,
    *,
    until_stalled: bool = False,
) -> Known | None:
    """Return the best mapping after alternating steps of the structures' queue and rounds of local search.

    It ends when the mapping is proven optimal, neither side makes progress, or `stop` returns True. until_stalled: also
    when the bound, worked out with the most effort, closes little of the gap. Where that is so, local search gets twice
    the rounds of the turn before. climber: the local search (None: none). report: called with the incumbent, its value
    and the bound. Raises AssertionError where a mapping is below the bound.
    """
    if climber is not None and best is not None:
        climber.know(*best)
    rounds = TUNING.rounds_at_once
    while True:
        before, known = structures.steps, structures.value
        bound = structures.go_on(None if best is None else best[1], stop, work, steps=TUNING.steps_at_once)
        if best is not None:
            if bound is None or bound > best[1]:
                raise AssertionError("a mapping is better than what siblings say that no mapping can beat")
            report(*best, bound)
            if bound == best[1]:
                return best
        if stop() or (structures.steps == before and (climber is None or best is None)):
            return best
        is_stalled = _is_stalled(structures, known, best)
        if is_stalled and until_stalled:
            return best
        rounds = min(2 * rounds, TUNING.most_rounds) if is_stalled else TUNING.rounds_at_once
        if climber is not None and best is not None:
            climber.hints = structures.leading(TUNING.structures_climbed)
            climber.walk_rounds(rounds, stop)
            work.add(rounds)
            best = climber.best


def _is_stalled(structures: SiblingSearch, before: Fraction | None, best: Known | None) -> bool:
    """Return whether the bound closed little of the gap in a turn, although the structure that has it was worked out
    with all lesser efforts."""
    bound = structures.value
    if best is None or before is None or bound is None or structures.refined < len(TUNING.efforts) - 1:
        return False
    return bound - before < Fraction(TUNING.least_closed) * (best[1] - before)
