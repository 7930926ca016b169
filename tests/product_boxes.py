"""The bound over boxes of mappings by itself, without the search for mappings that goes with it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from polymap.search.any_size.geometric_answers import orders_in_reach, value_above
from polymap.search.any_size.geometric_search import ProductSearch
from polymap.search.problem import Measure, Problem
from polymap.search.single_level import bound_at_once


def bound_products(
    problem: Problem, measure: Measure, best: Fraction, is_over: Callable[[], bool], most_programs: int = 400
) -> Fraction | None:
    """Return what no mapping beats, at most `best`, the value of a mapping, after about so many programs beyond one per
    order of nodes; None where there are no geometric programs (ProductEngine.go_on), or no time for any.
    """
    at_once = bound_at_once(problem, measure)
    if at_once is not None and at_once >= best:
        return best
    orders = orders_in_reach(problem, measure)
    if orders is None:
        return None
    boxes = ProductSearch(problem, orders)
    goal = float(best / measure.unscaled(1) - measure.fixed_energy)
    if not boxes.begin(goal, is_over):
        return None
    first = boxes.solved
    while not is_over() and boxes.solved < first + most_programs and boxes.step(goal, is_over):
        pass
    found = best if boxes.bound >= goal else min(best, value_above(measure, boxes.bound))
    return found if at_once is None else max(found, at_once)
