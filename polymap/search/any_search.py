"""Tiles of any size, start to end: the best dividing mapping first, all trees where they are few, else regions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from polymap.schedules.mapping import Mapping
from polymap.search.any_engine import AnySearch
from polymap.search.any_score import exact_score
from polymap.search.engine import solve
from polymap.search.exhaustive import exhaustive
from polymap.search.goals import Goal, Objective
from polymap.search.objective import Measure
from polymap.search.problem import Problem

FEW_TREES = 300_000  # walked one by one: some 100,000 per second
DIVIDING_SHARE = 0.35  # of the time, for the best dividing mapping that the search starts from

Report = Callable[[Mapping | None, Fraction | None, Fraction], None]


@dataclass(frozen=True, slots=True)
class AnyAnswer:
    """The best mapping (None: none was found), a lower bound in the objective's unit (None: none is known), work done.

    evaluated: mappings scored or regions bounded. pruned: regions refuted.
    """

    best: Mapping | None
    bound: Fraction | None
    evaluated: int
    pruned: int


def reaches(objective: Objective) -> bool:
    """Return whether tiles of any size are searched for the objective: those of one value."""
    return objective.goal not in (Goal.LEXICOGRAPHIC, Goal.PARETO)


def solve_any(
    problem: Problem,
    objective: Objective,
    measure: Measure,
    clock: Callable[[], float],
    trees: int | None,
    report: Report,
) -> AnyAnswer:
    """Return the best mapping over tiles of any size, or the best found when time runs out.

    clock: the share of the time limit that is spent. trees: the number of legal trees, where it is known.
    """
    workload, arch = problem.workload, problem.arch
    if trees is not None and trees <= FEW_TREES:
        walked = exhaustive(workload, arch, objective.text, "any")
        if walked is not None:
            return AnyAnswer(walked.best, walked.value, walked.legal, 0)
    first: tuple[Mapping, Fraction] | None = None
    outcome = solve(problem, measure, lambda: clock() > DIVIDING_SHARE, lambda _found, _bound: None)
    if outcome.found:
        mapping = outcome.found[0][1].mapping
        score = exact_score(workload, arch, objective, mapping)
        first = None if score is None else (mapping, score[1])
        if first is not None:
            report(*first, Fraction(0))
    search = AnySearch(problem, objective, measure, clock, first)
    found = search.run(lambda best, value, bound: report(best, value, measure.unscaled(bound)))
    evaluated = outcome.evaluated + found.regions
    bound = None if found.bound is None else measure.unscaled(found.bound)
    if found.best is None:
        return AnyAnswer(None, bound, evaluated, found.refuted)
    return AnyAnswer(
        found.best[0], found.best[1] if bound is None else min(bound, found.best[1]), evaluated, found.refuted
    )
