"""Tiles of any size, from the best dividing mapping on: all trees where they are few, else regions, else a walk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from polymap.arch.machine import Architecture
from polymap.costmodel.evaluate import evaluate
from polymap.schedules.mapping import Mapping
from polymap.search.any_engine import AnyOutcome, AnySearch, Entry
from polymap.search.any_tables import floats_suffice
from polymap.search.constraints import AtMost, Rules, narrowed, rule_text
from polymap.search.demands import refusals
from polymap.search.exhaustive import ExhaustiveResult, exhaustive
from polymap.search.goals import Goal, Objective
from polymap.search.limits import Limits, Work
from polymap.search.objective import Measure
from polymap.search.polish import Annealer
from polymap.search.problem import Problem
from polymap.workload.loopnest import Workload

FEW_TREES = 300_000  # walked one by one: some 100,000 per second
ANNEALED_AT_ONCE = 64  # mappings between two reports
POLISHED = 400  # mappings that are scored where no bound tells how good they are

Known = tuple[Mapping, Fraction]  # a mapping with its exact value
Report = Callable[[Mapping | None, Fraction | None, Fraction], None]
Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class AnyAnswer:
    """The best mapping (None: none was found), a lower bound in the objective's unit (None: nothing is left, or none is
    known), work done.

    evaluated: mappings scored or regions bounded. pruned: regions refuted. queue: what is left to search. distinct:
    different costs, where all trees were walked. is_final: nothing is left.
    """

    best: Mapping | None
    bound: Fraction | None
    evaluated: int
    pruned: int
    queue: tuple[Entry, ...] = ()
    distinct: int | None = None
    is_final: bool = False


def reaches(objective: Objective) -> bool:
    """Return whether regions are searched for the objective: those of one value."""
    return objective.goal not in (Goal.LEXICOGRAPHIC, Goal.PARETO)


def walked(workload: Workload, arch: Architecture, objective: Objective, rules: Rules, stop: Stop) -> AnyAnswer | None:
    """Return the answer that looking at every tree gives; None where there are too many, or time ends."""
    found = _walk(workload, arch, objective, rules, stop, count_distinct=True)
    if found is None:
        return None
    return AnyAnswer(found.best, None, found.legal, 0, distinct=found.distinct, is_final=True)


def _walk(
    workload: Workload,
    arch: Architecture,
    objective: Objective,
    rules: Rules,
    stop: Stop,
    *,
    count_distinct: bool = False,
) -> ExhaustiveResult | None:
    def meets(mapping: Mapping) -> bool:
        return not stop() and not refusals(workload, arch, rules, mapping, evaluate(workload, arch, mapping))

    return exhaustive(
        workload,
        narrowed(workload, arch, rules),
        objective.text,
        "any",
        count_distinct=count_distinct,
        most_trees=FEW_TREES,
        meets=meets if rules else None,
        stop=stop,
    )


def walked_clash(workload: Workload, arch: Architecture, rules: Rules, stop: Stop) -> tuple[str, ...]:
    """Return the smallest set of rules that no tree at all meets together, a sentence each, looking at every tree; all
    rules where there are too many trees, or time ends."""
    any_value = Objective(Goal.TRAFFIC, arch.levels[0].name, f"traffic:{arch.levels[0].name}")
    for count in range(1, len(rules)):
        for chosen in combinations(rules, count):
            found = _walk(workload, arch, any_value, chosen, stop)
            if found is None:
                return (*map(rule_text, rules), "which of them clash was not found out in time")
            if found.best is None:
                return (*map(rule_text, chosen), *_least_allowed(workload, arch, chosen, stop))
    return (*map(rule_text, rules), *_least_allowed(workload, arch, rules, stop))


def _least_allowed(workload: Workload, arch: Architecture, chosen: Rules, stop: Stop) -> list[str]:
    """Return, per limit of a clash, the least value that the other rules allow."""
    told: list[str] = []
    for rule in chosen:
        if isinstance(rule, AtMost):
            rest = tuple(other for other in chosen if other != rule)
            found = _walk(workload, arch, rule.objective, rest, stop)
            if found is not None and found.value is not None:
                told.append(f"the least {rule.objective.text} that the rest allows is {float(found.value):g}")
    return told


def annealed(
    annealer: Annealer, stop: Stop, work: Work, report: Callable[[Mapping, Fraction], None], most: int | None
) -> None:
    """Walk over mappings until `stop` says so, or `most` are scored (None: until one is found)."""
    done = 0
    while not stop() and (annealer.best is None if most is None else done < most):
        better = annealer.walk(ANNEALED_AT_ONCE, stop)
        work.add(ANNEALED_AT_ONCE)
        done += ANNEALED_AT_ONCE
        if better and annealer.best is not None:
            report(*annealer.best)


def solve_regions(
    problem: Problem,
    objective: Objective,
    measure: Measure,
    limits: Limits,
    first: Known | None,
    report: Report,
    annealer: Annealer | None = None,
    before: AnyAnswer | None = None,
) -> AnyAnswer:
    """Return the best mapping over tiles of any size, or the best found when a limit is reached.

    first: the best mapping so far. annealer: looks for better ones now and then. before: an answer to the same question
    to go on from.
    """

    def told(best: Mapping | None, value: Fraction | None, bound: int) -> None:
        report(best, value, measure.unscaled(bound))

    if not floats_suffice(problem, measure):
        return AnyAnswer(first and first[0], Fraction(0), 0, 0)
    search = AnySearch(problem, objective, measure, limits.share, first, limits.work, annealer)
    if before is not None and len(before.queue) > 1:  # less is no more than a beginning
        return _answer(measure, search.go_on(list(before.queue), told))
    return _answer(measure, search.run(told))


def _answer(measure: Measure, found: AnyOutcome) -> AnyAnswer:
    """Return what a search of regions says."""
    bound = None if found.bound is None else measure.unscaled(found.bound)
    if found.best is None:
        return AnyAnswer(None, bound, found.regions, found.refuted, found.queue, is_final=bound is None)
    value = found.best[1] if bound is None else min(bound, found.best[1])
    return AnyAnswer(found.best[0], value, found.regions, found.refuted, found.queue)
