"""Best-first search over structures: what no mapping over tiles of any size can beat.

The queue holds boxes of structures, then single structures, each with a bound. What has the least bound comes first:
a box is cut, a structure's bound is refined, with more effort each time. The least bound in the queue bounds every
mapping.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from heapq import heappop, heappush
from math import inf

import numpy as np

from polymap.search.objective import Measure
from polymap.search.problem import Problem
from polymap.search.resources import SearchCaches, Stop, Work
from polymap.search.sibling_bounds.box_trees import BoxTrees, Chunk
from polymap.search.sibling_bounds.joint import ChainNode, StructureBound
from polymap.search.sibling_bounds.single_tensor import Counts
from polymap.search.sibling_bounds.tensor_costs import least_components

_AT_ONCE = 512  # boxes that are cut together
_EFFORTS = (1, 6, 20)  # rounds of a structure's refinements, one after the other; the last goes on


@dataclass(frozen=True, slots=True)
class SingleStructure:
    """A structure of its own: the sibling counts [class][dim], how often its bound was refined, the chain of nodes that
    the last refinement relaxed to, and what refines it (None: nothing did yet)."""

    counts: Counts
    refined: int = 0
    chain: tuple[ChainNode, ...] = ()
    bounds: StructureBound | None = field(default=None, compare=False, repr=False)


# Bound, how much is left to do (what is finest comes first among equals), serial number, boxes or a structure.
Entry = tuple[int, int, int, Chunk | SingleStructure]


class SiblingSearch:
    """The structures of one question that are not refuted, and what bounds them.

    looked: how many boxes were bounded; steps: how often something was taken from the queue.
    """

    def __init__(self, problem: Problem, measure: Measure, caches: SearchCaches | None = None) -> None:
        self.problem, self.measure = problem, measure
        self._caches = caches or SearchCaches()
        self._trees = BoxTrees(problem)
        self._serial = 0
        self._queue: list[Entry] = []
        self.looked = 0
        self.steps = 0
        if self.structures:
            self._push_boxes(self._trees.root())

    @property
    def structures(self) -> int:
        """Return how many structures there are."""
        return self._trees.count

    @property
    def bound(self) -> int | None:
        """Return the least bound of what is left, scaled (None: nothing fits)."""
        return self._queue[0][0] if self._queue else None

    def go_on(
        self, best: Fraction | None, stop: Stop, work: Work, *, steps: int | None = None, refined: bool = True
    ) -> Fraction | None:
        """Search until the least bound reaches the best value or is of a structure refined as far as it goes (not
        `refined`: of a structure), or a limit is reached; return it in the objective's unit (None: nothing fits). work:
        a step per chunk of boxes and per refinement. steps: how many there may be (None: any number)."""
        last = inf if steps is None else self.steps + steps
        while self._queue and self.steps < last and not stop():
            bound, *_, first = self._queue[0]
            if (best is not None and self.measure.unscaled(bound) >= best) or self._is_done(first, refined=refined):
                break
            heappop(self._queue)
            if isinstance(first, SingleStructure):
                self._refine(first, bound, best, stop)
            elif first.is_final:
                self._push(bound, SingleStructure(self._counts(first)))
                self._keep(first, 1)
            else:
                self._keep(first, _AT_ONCE)
                self._push_boxes(self._trees.halves(_part(first, 0, _AT_ONCE)))
            self.steps += 1
            work.add()
        return self.value

    @property
    def value(self) -> Fraction | None:
        """Return the least bound in the objective's unit (None: nothing fits)."""
        return None if self.bound is None else self.measure.unscaled(self.bound)

    def leading(self, count: int) -> tuple[SingleStructure, ...]:
        """Return at most so many structures: those with the least bounds that stand alone."""
        found: list[SingleStructure] = []
        for *_, item in sorted(self._queue, key=lambda entry: entry[:3]):
            if len(found) >= count:
                break
            if isinstance(item, SingleStructure):
                found.append(item)
            elif item.is_final:
                room = min(len(item.bounds), count - len(found))
                found += [SingleStructure(self._counts(item, place)) for place in range(room)]
        return tuple(found)

    def _is_done(self, item: Chunk | SingleStructure, *, refined: bool) -> bool:
        """Return whether nothing more is to be done with an item of the queue."""
        if isinstance(item, SingleStructure):
            return not refined or (item.bounds is not None and item.bounds.is_final)
        return item.is_final and not (refined and self._trees.is_exact)

    def _counts(self, chunk: Chunk, place: int = 0) -> Counts:
        """Return the sibling counts of one of single structures."""
        low = self._trees.boxes(_part(chunk, place, place + 1)).low[:, :, 0]
        return tuple(tuple(int(n) for n in row) for row in low.tolist())

    def _refine(self, item: SingleStructure, bound: int, best: Fraction | None, stop: Stop) -> None:
        """Queue a structure with a better bound, unless nothing of it fits."""
        goal = None if best is None else int(best / self.measure.unscaled(1))
        bounds = item.bounds or StructureBound(self.problem, self.measure, item.counts, self._caches)
        found = bounds.go_on(goal, _EFFORTS[min(item.refined, len(_EFFORTS) - 1)], stop)
        if found.bound is not None:
            refined = item.refined + 1
            self._push(max(bound, found.bound), SingleStructure(item.counts, refined, found.chain, bounds))

    def _push_boxes(self, chunk: Chunk) -> None:
        """Bound the boxes of a chunk and queue those where something fits."""
        found = least_components(self.problem, self.measure, self._trees.boxes(chunk)).values(self.measure)
        self.looked += len(found)
        values = [None if new is None else max(new, old) for new, old in zip(found, chunk.bounds, strict=True)]
        order = sorted((value, place) for place, value in enumerate(values) if value is not None)
        kept = np.array([place for _, place in order], dtype=np.int64)
        chunk = replace(chunk, nodes=chunk.nodes[:, kept], bounds=tuple(value for value, _ in order))
        self._keep(chunk, 0)

    def _keep(self, chunk: Chunk, first: int) -> None:
        """Queue the boxes of a sorted chunk from `first` on."""
        if first < len(chunk.bounds):
            self._push(chunk.bounds[first], _part(chunk, first, len(chunk.bounds)))

    def _push(self, bound: int, item: Chunk | SingleStructure) -> None:
        self._serial += 1
        left = -item.refined if isinstance(item, SingleStructure) else 1 + sum(item.levels)
        heappush(self._queue, (bound, left, self._serial, item))


def _part(chunk: Chunk, first: int, last: int) -> Chunk:
    return replace(chunk, nodes=chunk.nodes[:, first:last], bounds=chunk.bounds[first:last])
