"""Best-first search over boxes of mappings of a problem without windows: orders of nodes, sibling counts, tile sizes.

Geometric programs bound boxes. Boxes are cut at integers: at numbers of siblings with different visits, and at indices
of a node's tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import floor, log

import numpy as np

from polymap.poly import FloatArray
from polymap.resources import BestFirst
from polymap.search.any_size.geometric import Solution, solve
from polymap.search.any_size.geometric_programs import Box, BoxPrograms, Ints
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


@dataclass(frozen=True, slots=True)
class BoxCut:
    """A cut of a box in two, at the count of siblings of a (class, dim) or the tile of a (node, dim); the lower part is
    up to `at`.

    below, above: lower bounds on the distance (of the logarithm) by which the parts move the program's point.
    """

    of_counts: bool
    place: tuple[int, int]
    at: int
    below: float
    above: float

    @property
    def key(self) -> tuple[bool, tuple[int, int]]:
        return self.of_counts, self.place


def cuts_of(programs: BoxPrograms, box: Box, point: FloatArray) -> list[BoxCut]:
    """Return the cuts of a box that separate a program's point from both parts, or from one; the farthest first."""
    found = [*_cuts_of_counts(programs, box, point), *_cuts_of_tiles(programs, box, point)]
    found.sort(key=lambda cut: (-min(cut.below, cut.above), -max(cut.below, cut.above), cut.key))
    return found[: TUNING.most_cuts]


def parts_of(programs: BoxPrograms, box: Box, cut: BoxCut) -> tuple[Box, Box]:
    """Return both parts of a cut box."""
    low, high = (box.low, box.high) if cut.of_counts else (box.least, box.most)
    left, right = high.copy(), low.copy()
    left[cut.place], right[cut.place] = cut.at, cut.at + 1
    if cut.of_counts:
        return replace(box, high=left), replace(box, low=right)
    outside = programs.shape(box.order).outside
    return replace(box, most=_nest_sizes(left, outside)), replace(
        box, least=_nest_sizes(right[::-1], outside[::-1], -1)[::-1]
    )


def _nest_sizes(sizes: Ints, outside: FloatArray, sign: int = 1) -> Ints:
    """Return the largest sizes of tiles (sign -1: the least, from the innermost), as tiles of one unit only shrink."""
    found = sizes.copy()
    for at in range(1, len(found)):
        if (outside[at] == outside[at - 1]).all():
            found[at] = sign * np.minimum(sign * found[at], sign * found[at - 1])
    return found


def _cuts_of_counts(programs: BoxPrograms, box: Box, point: FloatArray) -> Iterable[BoxCut]:
    """Yield cuts between counts of siblings with different visits."""
    factors = programs.variables.factors
    logs = point[programs.variables.inner :]
    for place, (group, d) in enumerate(factors):
        low, high = int(box.low[group, d]), int(box.high[group, d])
        others = sum(float(x) for (one, e), x in zip(factors, logs, strict=True) if one == group and e != d)
        factor = float(logs[place])
        for at in _ends_near(programs.problem.extents[d], low, high, float(np.exp(factor))):
            above = others - log(programs.sizes[group] / (at + 1))
            below = factor - log(at)
            if max(below, above) > TUNING.least_move:
                yield BoxCut(of_counts=True, place=(group, d), at=at, below=max(0.0, below), above=max(0.0, above))


def _ends_near(extent: int, low: int, high: int, factor: float) -> Iterable[int]:
    """Yield the last counts of ranges of equal visits near a factor, from low to below high."""
    near = min(high, max(low, floor(factor + 1e-6)))
    shares = -(-extent // near)
    last = extent if shares == 1 else (extent - 1) // (shares - 1)
    for end in sorted({-(-extent // shares) - 1, last}):
        if low <= end < high:
            yield end


def _cuts_of_tiles(programs: BoxPrograms, box: Box, point: FloatArray) -> Iterable[BoxCut]:
    if not box.least.size:
        return
    rows = programs.shape(box.order).limit_rows[-2 * programs.variables.inner :][: box.least.size]
    logs = (rows @ point).reshape(box.least.shape)
    tiles = np.clip(np.exp(logs), box.least, box.most)
    for at in zip(*np.nonzero(box.least < box.most), strict=True):
        whole = int(min(max(floor(tiles[at] + 1e-6), box.least[at]), box.most[at] - 1))
        below, above = log(tiles[at] / whole), log((whole + 1) / tiles[at])
        if min(below, above) > TUNING.least_move:
            place = int(at[0]), int(at[1])
            yield BoxCut(of_counts=False, place=place, at=whole, below=below, above=above)


class Gains:
    """The average rise of bounds by cuts of an order's variables, per move of the point."""

    def __init__(self) -> None:
        self._sums: dict[tuple[int, tuple[bool, tuple[int, int]], bool], tuple[float, int]] = {}

    def note(self, order: int, cut: BoxCut, *, above: bool, gain: float) -> None:
        """Record the rise of the logarithm of the bound in one part of a cut."""
        move = cut.above if above else cut.below
        if move > TUNING.least_move:
            total, count = self._sums.get((order, cut.key, above), (0.0, 0))
            self._sums[order, cut.key, above] = total + gain / move, count + 1

    def expected(self, order: int, cut: BoxCut) -> float | None:
        """Return a score of a cut, higher where both parts should rise more; None where nothing is recorded."""
        sides: list[float] = []
        for above, move in ((False, cut.below), (True, cut.above)):
            known = self._sums.get((order, cut.key, above))
            if known is None and move > TUNING.least_move:
                return None
            sides.append(0.0 if known is None else known[0] / known[1] * move)
        return score_of(*sides)


def score_of(first: float, second: float) -> float:
    """Return the score of a cut from the rises of both parts."""
    return max(first, 1e-7) * max(second, 1e-7)
