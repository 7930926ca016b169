"""Tiles of any size, start to end: the best dividing mapping first, all trees where they are few, else regions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from polymap.schedules.mapping import Mapping
from polymap.search.any_engine import AnyOutcome, AnySearch, Entry
from polymap.search.any_score import exact_score
from polymap.search.crew import Hands
from polymap.search.engine import ALONE, solve
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

    evaluated: mappings scored or regions bounded. pruned: regions refuted. queue: what is left to search.
    """

    best: Mapping | None
    bound: Fraction | None
    evaluated: int
    pruned: int
    queue: tuple[Entry, ...] = ()


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
    before: AnyAnswer | None = None,
    hands: Hands = ALONE,
) -> AnyAnswer:
    """Return the best mapping over tiles of any size, or the best found when time runs out.

    clock: the share of the time limit that is spent. trees: the number of legal trees, where it is known. before: an
    answer to the same question to go on from. hands: the processes that share the dividing part.
    """

    def told(best: Mapping | None, value: Fraction | None, bound: int) -> None:
        report(best, value, measure.unscaled(bound))

    if before is not None and len(before.queue) > 1:  # less is no more than a beginning
        first = _scored(problem, objective, before.best)
        search = AnySearch(problem, objective, measure, clock, first)
        return _answer(measure, search.go_on(list(before.queue), told), 0)
    workload, arch = problem.workload, problem.arch
    if trees is not None and trees <= FEW_TREES:
        walked = exhaustive(workload, arch, objective.text, "any")
        if walked is not None:
            return AnyAnswer(walked.best, walked.value, walked.legal, 0)
    outcome = solve(problem, measure, lambda: clock() > DIVIDING_SHARE, lambda _found, _bound: None, hands=hands)
    first = _scored(problem, objective, outcome.found[0][1].mapping if outcome.found else None)
    if first is not None:
        report(*first, Fraction(0))
    search = AnySearch(problem, objective, measure, clock, first)
    return _answer(measure, search.run(told), outcome.nodes)


def _scored(problem: Problem, objective: Objective, mapping: Mapping | None) -> tuple[Mapping, Fraction] | None:
    """Return a mapping with its exact value, if there is one."""
    score = None if mapping is None else exact_score(problem.workload, problem.arch, objective, mapping)
    return None if mapping is None or score is None else (mapping, score[1])


def _answer(measure: Measure, found: AnyOutcome, evaluated: int) -> AnyAnswer:
    """Return what a search of regions says. evaluated: work done before it."""
    evaluated += found.regions
    bound = None if found.bound is None else measure.unscaled(found.bound)
    if found.best is None:
        return AnyAnswer(None, bound, evaluated, found.refuted, found.queue)
    value = found.best[1] if bound is None else min(bound, found.best[1])
    return AnyAnswer(found.best[0], value, evaluated, found.refuted, found.queue)
