"""Best-first search over structures: what no mapping over tiles of any size can beat.

The queue holds boxes of structures with their bounds. The box with the least bound is cut until single structures come
first; the least bound in the queue bounds every mapping.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from heapq import heappop, heappush

import numpy as np

from polymap.search.objective import Measure
from polymap.search.problem import Problem
from polymap.search.resources import Stop, Work
from polymap.search.sibling_bounds.box_trees import BoxTrees, Chunk
from polymap.search.sibling_bounds.tensor_costs import least_components

_AT_ONCE = 512  # boxes that are cut together

Report = Callable[[Fraction], None]


class SiblingSearch:
    """The structures of one question that are not refuted, and what bounds them."""

    def __init__(self, problem: Problem, measure: Measure) -> None:
        self.problem, self.measure = problem, measure
        self._trees = BoxTrees(problem)
        self._serial = 0
        self._queue: list[tuple[int, int, Chunk]] = []
        self.looked = 0
        self._push(self._trees.root())

    @property
    def structures(self) -> int:
        """Return how many structures there are."""
        return self._trees.count

    @property
    def bound(self) -> int | None:
        """Return the least bound of what is left (None: nothing is)."""
        return self._queue[0][0] if self._queue else None

    def go_on(self, best: Fraction | None, stop: Stop, work: Work, report: Report) -> Fraction | None:
        """Cut boxes until the least bound is that of a structure, reaches the best value, or a limit is reached; return
        it in the objective's unit (None: nothing fits). work: a step per chunk of boxes."""
        while self._queue and not stop():
            bound, _, chunk = self._queue[0]
            if (best is not None and self.measure.unscaled(bound) >= best) or chunk.is_final:
                break
            heappop(self._queue)
            self._keep(chunk, _AT_ONCE, len(chunk.bounds))
            self._push(self._trees.halves(_part(chunk, 0, _AT_ONCE)))
            work.add()
            report(self.measure.unscaled(self._queue[0][0] if self._queue else bound))
        return None if self.bound is None else self.measure.unscaled(self.bound)

    def leading(self, count: int) -> list[tuple[tuple[int, ...], ...]]:
        """Return sibling counts [class][dim] of so many structures with the least bounds, as far as they stand alone."""
        found: list[tuple[tuple[int, ...], ...]] = []
        for _, _, chunk in sorted(self._queue, key=lambda entry: entry[:2])[:count]:
            if chunk.is_final and len(found) < count:
                low = self._trees.boxes(_part(chunk, 0, count - len(found))).low
                found += [tuple(tuple(row) for row in low[:, :, box].tolist()) for box in range(low.shape[2])]
        return found

    def _push(self, chunk: Chunk) -> None:
        """Bound the boxes of a chunk and queue those where something fits."""
        found = least_components(self.problem, self.measure, self._trees.boxes(chunk)).values(self.measure)
        self.looked += len(found)
        values = [None if new is None else max(new, old) for new, old in zip(found, chunk.bounds, strict=True)]
        order = sorted((value, place) for place, value in enumerate(values) if value is not None)
        kept = np.array([place for _, place in order], dtype=np.int64)
        chunk = replace(chunk, nodes=chunk.nodes[:, kept], bounds=tuple(value for value, _ in order))
        self._keep(chunk, 0, len(order))

    def _keep(self, chunk: Chunk, first: int, last: int) -> None:
        """Queue the boxes of a sorted chunk from `first` on."""
        if first < last:
            self._serial += 1
            heappush(self._queue, (chunk.bounds[first], self._serial, _part(chunk, first, last)))


def _part(chunk: Chunk, first: int, last: int) -> Chunk:
    return replace(chunk, nodes=chunk.nodes[:, first:last], bounds=chunk.bounds[first:last])
