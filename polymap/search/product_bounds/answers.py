"""Problems without windows over tiles of any size: boxes of mappings bounded, mappings tried near their optima."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isfinite

from polymap.ir import Mapping
from polymap.search.any_size import ConvexBounds, RegionSearch, floats_suffice
from polymap.search.heuristics import Annealer
from polymap.search.objective import Measure
from polymap.search.problem import Objective, Problem
from polymap.search.product_bounds.one_buffer import least_on_one_buffer
from polymap.search.product_bounds.search import Bounded, ProductSearch
from polymap.search.resources import SearchCaches, Work

Known = tuple[Mapping, Fraction]
Report = Callable[[Mapping | None, Fraction | None, Fraction], None]

TRIED_PER_STEP = 2  # boxes near whose optimum mappings are tried
TRIED_FIRST = 12  # orders of nodes near whose optimum mappings are tried first
BETWEEN_LOOKS = 2000  # programs between two looks at what is gained
LEAST_GAIN = 0.03  # of what is missing to the best value, from one look to the next
ANNEALED_FIRST = 300  # mappings that are scored around the best of these
ANNEALED_PER_STEP = 25  # and after each step
FACTORS_TRIED = 3  # whole spatial factors near an optimum's


@dataclass(frozen=True, slots=True)
class ProductAnswer:
    """The best mapping with its value (None: none is known), what no mapping beats (None: nothing is left that might),
    and how many programs were solved."""

    best: Known | None
    bound: Fraction | None
    solved: int


def solve_products(
    problem: Problem,
    objective: Objective,
    measure: Measure,
    clock: Callable[[], float],
    work: Work,
    first: Known | None,
    report: Report,
    annealer: Annealer | None = None,
) -> ProductAnswer | None:
    """Return the best mapping and a bound of all mappings; None where there are no geometric programs (windows, too
    many orders of nodes, objectives that are not linear, numbers beyond floats), or no time for any.

    clock: the share of the limit that is spent. first: the best mapping so far. annealer: looks for better
    ones now and then.
    """
    if not measure.is_linear or not floats_suffice(problem, measure):
        return None
    trials = RegionSearch(problem, objective, measure, clock, first, work, annealer)
    if trials.convex.orders is None:
        return None
    search = _ProductEngine(problem, measure, trials, report)
    if not search.run():
        return None
    return ProductAnswer(trials.best, search.bound(), search.boxes.solved)


def bound_at_once(problem: Problem, measure: Measure) -> Fraction | None:
    """Return what no mapping beats by boxes alone, in a fraction of a second: of products on two levels without
    fan-outs (None: of others)."""
    least = least_on_one_buffer(problem, measure)
    return None if least is None else measure.unscaled(least + measure.fixed_energy)


def bound_products(
    problem: Problem, measure: Measure, best: Fraction, is_over: Callable[[], bool], most_programs: int = 400
) -> Fraction | None:
    """Return what no mapping beats, at most `best`, the value of a mapping, after about so many programs beyond one per
    order of nodes; None where there are no geometric programs (solve_products), or no time for any.

    Windows are covered on two levels without fan-outs.
    """
    at_once = bound_at_once(problem, measure)
    if at_once is not None and at_once >= best:
        return best
    if not measure.is_linear or not floats_suffice(problem, measure):
        return None
    convex = ConvexBounds(problem, measure, SearchCaches())
    if convex.orders is None:
        return None
    boxes = ProductSearch(convex)
    goal = float(best / measure.unscaled(1) - measure.fixed_energy)
    if not boxes.begin(goal, is_over):
        return None
    first = boxes.solved
    while not is_over() and boxes.solved < first + most_programs and boxes.step(goal):
        pass
    found = best if boxes.bound >= goal else min(best, _value(measure, boxes.bound))
    return found if at_once is None else max(found, at_once)


def _value(measure: Measure, component: float) -> Fraction:
    """Return the objective at a component that is rounded up: those of mappings are integers."""
    return measure.unscaled(measure.value((max(0, ceil(component)),), 0))


class _ProductEngine:
    def __init__(self, problem: Problem, measure: Measure, trials: RegionSearch, report: Report) -> None:
        self.problem = problem
        self.measure = measure
        self.trials = trials
        self.boxes = ProductSearch(trials.convex)
        self._at_once = bound_at_once(problem, measure) or Fraction(0)
        self._report = report
        self._tried: set[tuple[int, tuple[int, ...]]] = set()

    def run(self) -> bool:
        """Search until the bound meets the best value, neither gets better, or time is up; return whether all mappings
        are bounded."""
        if not self.boxes.begin(self._goal(), self.trials.out_of_time):
            return False
        for _, _, one in sorted(self.boxes.queue)[:TRIED_FIRST]:
            self._try(one)
        self.trials.anneal(ANNEALED_FIRST)
        looked, missing = self.boxes.solved, self._missing()
        while not self.trials.out_of_time():
            self._tell()
            if self.trials.best is not None and self._at_once >= self.trials.best[1]:
                break
            if self.boxes.solved > looked + BETWEEN_LOOKS:
                if self._missing() > (1 - LEAST_GAIN) * missing:
                    break
                looked, missing = self.boxes.solved, self._missing()
            for _, _, one in self.boxes.queue[:TRIED_PER_STEP]:
                self._try(one)
            self.trials.anneal(ANNEALED_PER_STEP)
            if not self.boxes.step(self._goal()):
                break
        return True

    def _missing(self) -> float:
        """Return how far the bound is below the best value."""
        return max(0.0, self._goal() - self.boxes.bound)

    def bound(self) -> Fraction | None:
        """Return what no mapping beats; None where nothing is left."""
        least = self.boxes.bound
        if not isfinite(least):
            return None
        return max(_value(self.measure, least), self._at_once)

    def _goal(self) -> float:
        """Return the component that no box need exceed."""
        best = self.trials.best
        if best is None:
            return float("inf")
        return float(best[1] / self.measure.unscaled(1) - self.measure.fixed_energy)

    def _tell(self) -> None:
        bound = self.bound()
        if bound is not None:
            self._report(*(self.trials.best or (None, None)), bound)

    def _try(self, one: Bounded) -> None:
        """Try mappings near the optimum of a box, once per order of nodes and factors."""
        optimum = self.boxes.optimum(one)
        key = optimum.number, tuple(round(c) for row in optimum.factors for c in row)
        if key not in self._tried and one.bound < self._goal():
            self._tried.add(key)
            self.trials.try_optimum(optimum, FACTORS_TRIED)
