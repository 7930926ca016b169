"""Problems without windows over tiles of any size: bounds on boxes of mappings, and mappings near their optima."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from math import ceil, isfinite, prod

from polymap.ir import Mapping
from polymap.resources import Work
from polymap.search.any_size.geometric_search import BoundedBox, ProductSearch
from polymap.search.any_size.node_orders import OrderMonomials, order_monomials
from polymap.search.any_size.rounding import trees_near
from polymap.search.any_size.tuning import TUNING
from polymap.search.problem import Measure, Objective, Problem, exact_score
from polymap.search.trees import TreeClimber

Known = tuple[Mapping, Fraction]
Report = Callable[[Mapping | None, Fraction | None, Fraction], None]


@dataclass(frozen=True, slots=True)
class ProductAnswer:
    """The best mapping with its value (None: there is none), the lower bound (None: nothing is open), and the programs
    solved."""

    best: Known | None
    bound: Fraction | None
    solved: int


_MOST_EXTENT = 1 << 53  # boxes of tiles are int64, and their logarithms floats


def floats_suffice(problem: Problem, measure: Measure) -> bool:
    """Return whether all costs, and their products in the objective, are well within the range of floats."""
    weights = [int(w) for c in measure.components for rows in (c.read, c.write, c.held) for row in rows for w in row]
    bits = prod(problem.extents).bit_length() + max((w.bit_length() for w in weights), default=0)
    return max(2, measure.degree) * bits + 100 < TUNING.most_bits and max(problem.extents) < _MOST_EXTENT


def orders_in_reach(problem: Problem, measure: Measure) -> OrderMonomials | None:
    """Return the orders of nodes with their costs as monomials; None where there are no geometric programs."""
    if not measure.is_linear or not floats_suffice(problem, measure):
        return None
    return order_monomials(problem, measure.components[0], TUNING.most_orders)


def value_above(measure: Measure, component: float) -> Fraction:
    """Return the objective at a component that is rounded up: those of mappings are integers."""
    return measure.unscaled(measure.value((max(0, ceil(component)),), 0))


class ProductEngine:
    """A search over boxes of mappings that can be ended and taken up again.

    best: the best mapping so far with its value. bound: what no mapping beats (None: nothing is left).
    """

    def __init__(self, problem: Problem, objective: Objective, measure: Measure) -> None:
        self.problem, self.objective, self.measure = problem, objective, measure
        self.best: Known | None = None
        orders = orders_in_reach(problem, measure)
        self._boxes = None if orders is None else ProductSearch(problem, orders)
        self._has_begun = False
        self._floor = Fraction(0)
        self._tried: set[tuple[int, tuple[int, ...]]] = set()
        self._scored: set[Mapping] = set()

    def go_on(
        self,
        first: Known | None,
        floor: Fraction,
        clock: Callable[[], float],
        work: Work,
        report: Report,
        climber: TreeClimber | None = None,
    ) -> ProductAnswer | None:
        """Return the best mapping and a bound of all mappings when they meet, neither gets better, or time is up; None
        where there are no geometric programs (windows, too many orders of nodes, objectives that are not linear,
        numbers beyond floats), or no time for any.

        first: the best mapping so far. floor: what no mapping is known to beat. clock: the share of the limit that is
        spent. climber: looks for better mappings from the best on.
        """
        self._floor = floor
        if first is not None and (self.best is None or first[1] < self.best[1]):
            self.best = first

        def is_over() -> bool:
            return clock() > 1 or work.is_spent()

        boxes = self._boxes
        if boxes is None or not self._begin(boxes, is_over, work, climber):
            return None
        looked, missing = boxes.solved, self._missing(boxes)
        while not is_over():
            self._tell(boxes, report)
            if self.best is not None and floor >= self.best[1]:
                break
            if boxes.solved > looked + TUNING.between_looks:
                if self._missing(boxes) > (1 - TUNING.least_gain) * missing:
                    break
                looked, missing = boxes.solved, self._missing(boxes)
            before = boxes.solved
            self._try(boxes, [one for _, one in islice(boxes.queue, TUNING.tried_per_step)], is_over, work)
            self._climb(climber, TUNING.rounds_per_step, is_over, work)
            if not boxes.step(self._goal(), is_over):
                break
            work.add(boxes.solved - before)
        return ProductAnswer(self.best, self._bound(boxes), boxes.solved)

    def _begin(
        self, boxes: ProductSearch, is_over: Callable[[], bool], work: Work, climber: TreeClimber | None
    ) -> bool:
        """Bound all orders and try mappings near their optima, once; return whether there was time for it."""
        if self._has_begun:
            return True
        if not boxes.begin(self._goal(), is_over):
            return False
        self._has_begun = True
        work.add(boxes.solved)
        self._try(boxes, [one for _, one in islice(boxes.queue, TUNING.tried_first)], is_over, work)
        self._climb(climber, TUNING.rounds_first, is_over, work)
        return True

    def _missing(self, boxes: ProductSearch) -> float:
        """Return how far the bound is below the best value."""
        return max(0.0, self._goal() - boxes.bound)

    def _bound(self, boxes: ProductSearch) -> Fraction | None:
        """Return what no mapping beats; None where nothing is left."""
        return max(value_above(self.measure, boxes.bound), self._floor) if isfinite(boxes.bound) else None

    def _goal(self) -> float:
        """Return the component that no box need exceed."""
        if self.best is None:
            return float("inf")
        return float(self.best[1] / self.measure.unscaled(1) - self.measure.fixed_energy)

    def _tell(self, boxes: ProductSearch, report: Report) -> None:
        bound = self._bound(boxes)
        if bound is not None:
            report(*(self.best or (None, None)), bound)

    def _try(self, boxes: ProductSearch, of: Sequence[BoundedBox], is_over: Callable[[], bool], work: Work) -> None:
        """Try mappings near the optima of boxes, once per order of nodes and factors."""
        for one in of:
            if is_over():
                return
            optimum = boxes.optimum(one)
            key = optimum.number, tuple(round(c) for row in optimum.factors for c in row)
            if key in self._tried or one.bound >= self._goal():
                continue
            self._tried.add(key)
            for mapping in trees_near(self.problem, boxes.orders, optimum):
                if is_over():
                    return
                if mapping not in self._scored:
                    self._scored.add(mapping)
                    self._offer(mapping)
                    work.add()

    def _offer(self, mapping: Mapping) -> None:
        """Keep a mapping if it is better than the best and fits."""
        score = exact_score(self.problem.workload, self.problem.arch, self.objective, mapping)
        if score is not None and not score.excess and (self.best is None or score.value < self.best[1]):
            self.best = mapping, score.value

    def _climb(self, climber: TreeClimber | None, rounds: int, is_over: Callable[[], bool], work: Work) -> None:
        """Look for better mappings near the best one."""
        if climber is None or self.best is None or is_over():
            return
        climber.know(*self.best)
        climber.walk_rounds(rounds, is_over)
        work.add(rounds)
        if climber.best is not None and climber.best[1] < self.best[1]:
            self.best = climber.best
