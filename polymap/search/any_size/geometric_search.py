"""Best-first search over boxes of mappings of a problem without windows: orders of nodes, sibling counts, tile sizes.

Geometric programs bound boxes. Boxes are cut at integers: at numbers of siblings with different visits, and at indices
of a node's tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np

from polymap.poly import FloatArray
from polymap.resources import BestFirst
from polymap.search.any_size.cuts import BoxCut, Gains, cuts_of, parts_of, score_of
from polymap.search.any_size.geometric import Solution, solve
from polymap.search.any_size.geometric_programs import Box, BoxPrograms
from polymap.search.any_size.node_orders import OrderMonomials
from polymap.search.any_size.rounding import OrderOptimum
from polymap.search.any_size.tuning import TUNING
from polymap.search.problem import Problem

MARGIN = 1e-10  # relative, of the magnitudes that enter: floats are true to 1e-14


@dataclass(frozen=True, slots=True, eq=False)
class BoundedBox:
    """A box with its bound. log_value: the logarithm of the program's bound, without the order's constant costs. point:
    of the program. sensitivity: of its limited levels (Solved)."""

    box: Box
    bound: float
    log_value: float
    point: FloatArray
    sensitivity: FloatArray


class ProductSearch:
    """Lower bounds on the first component of a measure, for a problem that has geometric programs."""

    def __init__(self, problem: Problem, orders: OrderMonomials) -> None:
        self.orders = orders
        self.programs = BoxPrograms(problem, orders)
        self._besides = orders.constants + orders.start
        self._magnitude = np.abs(orders.constants) + abs(orders.start)
        self._gains = Gains()
        self._uncut = np.inf  # least bound of boxes that cannot be cut
        self.solved = 0
        self.queue = BestFirst[float, BoundedBox]()

    def begin(self, goal: float, is_over: Callable[[], bool]) -> bool:
        """Fill the queue with the boxes of all orders; return whether there was time for them."""
        whole = [self.programs.whole(order) for order in range(len(self._besides))]
        boxes = [box for box in whole if self.programs.fits(box)]
        at_once = self._at_once()
        for begin in range(0, len(boxes), at_once):
            if is_over():
                return False
            for one in self._solve(boxes[begin : begin + at_once], is_over):
                self._push(one, goal)
        return True

    @property
    def bound(self) -> float:
        """Return the lower bound over all mappings in the queue; inf where none is open."""
        return min(self._uncut, np.inf if self.queue.bound is None else self.queue.bound)

    def step(self, goal: float, is_over: Callable[[], bool]) -> bool:
        """Cut the boxes of least bound; return whether there were any below the goal."""
        taken: list[BoundedBox] = []
        while self.queue and len(taken) < TUNING.boxes_per_step and self.queue.first.bound < goal:
            taken.append(self.queue.take())
        pairs = [(one, cut) for one in taken for cut in self._worth_a_look(one)]
        parts = [(number, part) for number, (one, cut) in enumerate(pairs) for part in enumerate(self._parts(one, cut))]
        alive = [(number, side, box) for number, (side, box) in parts if self.programs.fits(box)]
        solved = self._solve([box for _, _, box in alive], is_over)
        sides: list[list[BoundedBox | None]] = [[None, None] for _ in pairs]
        for (number, side, _), new in zip(alive, solved, strict=True):
            one, cut = pairs[number]
            sides[number][side] = replace(new, bound=max(new.bound, one.bound))
            self._gains.note(one.box.order, cut, above=bool(side), gain=max(0.0, new.log_value - one.log_value))
        self._replace(taken, pairs, sides, goal)
        return bool(taken)

    def _replace(
        self,
        taken: Sequence[BoundedBox],
        pairs: Sequence[tuple[BoundedBox, BoxCut]],
        sides: Sequence[Sequence[BoundedBox | None]],
        goal: float,
    ) -> None:
        """Put the parts of each box's best cut into the queue."""
        best: dict[int, tuple[float, Sequence[BoundedBox | None]]] = {}
        for (one, _), two in zip(pairs, sides, strict=True):
            rises = [1.0 if new is None or new.bound >= goal else new.log_value - one.log_value for new in two]
            score = score_of(*rises)
            if id(one) not in best or score > best[id(one)][0]:
                best[id(one)] = score, two
        for one in taken:
            if id(one) not in best:
                self._uncut = min(self._uncut, one.bound)
                continue
            for new in best[id(one)][1]:
                if new is not None:
                    self._push(new, goal)

    def _worth_a_look(self, one: BoundedBox) -> list[BoxCut]:
        """Return the cut with the highest expected score, and the cuts without one."""
        cuts = cuts_of(self.programs, one.box, one.point)
        known = [(self._gains.expected(one.box.order, cut), cut) for cut in cuts]
        new = [cut for score, cut in known if score is None]
        best = max(
            ((score, -number, cut) for number, (score, cut) in enumerate(known) if score is not None), default=None
        )
        return [*new, *([] if best is None else [best[2]])]

    def _parts(self, one: BoundedBox, cut: BoxCut) -> tuple[Box, Box]:
        return parts_of(self.programs, one.box, cut)

    def _push(self, one: BoundedBox, goal: float) -> None:
        if one.bound < goal:
            self.queue.add(one.bound, one)

    def _at_once(self) -> int:
        """Return the number of programs to solve together: fewer if they have many variables, as their steps take
        long."""
        count = self.programs.variables.inner + len(self.programs.variables.factors)
        return max(4, min(TUNING.programs_at_once, TUNING.most_matrix_entries // (3 * count * count + 1)))

    def _solve(self, boxes: Sequence[Box], is_over: Callable[[], bool]) -> list[BoundedBox]:
        found: list[BoundedBox] = []
        at_once = self._at_once()
        for begin in range(0, len(boxes), at_once):
            part = boxes[begin : begin + at_once]
            solved = solve(self.programs.programs(part), is_over=is_over)
            found += [self._box_with_bound(box, solved, at) for at, box in enumerate(part)]
        self.solved += len(boxes)
        return found

    def _box_with_bound(self, box: Box, solved: Solution, at: int) -> BoundedBox:
        value = float(solved.bounds[at])
        size = value + float(self._magnitude[box.order])
        bound = value + float(self._besides[box.order]) - MARGIN * size
        log_value = log(value) if value > 0 else -np.inf
        return BoundedBox(box, bound, log_value, solved.points[at], solved.sensitivity[at])

    def optimum(self, one: BoundedBox) -> OrderOptimum:
        """Return the point of a box's program as real tiles and factors."""
        variables, problem, order = self.programs.variables, self.programs.problem, one.box.order
        values = np.exp(one.point).tolist()
        tiles: list[tuple[float, ...]] = []
        for node in range(len(one.box.least)):
            tile = dict(zip(variables.dims, values[variables.node(node)], strict=True))
            tiles.append(tuple(tile.get(d, 1.0) for d in range(len(problem.dims))))
        factors = [[1.0] * len(problem.dims) for _ in problem.classes]
        for (group, d), value in zip(variables.factors, values[variables.inner :], strict=True):
            factors[group][d] = value
        return OrderOptimum(order, tuple(tiles), tuple(tuple(row) for row in factors))
