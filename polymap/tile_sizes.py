"""The best mapping without a report: for compilers that ask often."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from polymap.costmodel import evaluate
from polymap.inputs import answers_in_words
from polymap.ir import Mapping, Mistake, OptionError, Shown
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of
from polymap.search import Options
from polymap.search.dividing import Found, best_product_tiles, solve
from polymap.search.problem import Goal, analyse, beyond_sums, is_confirmed, measure_of, objective_values


@dataclass(frozen=True, slots=True, repr=False)
class TileChoice(Shown):
    """The best mapping found (None: none), its value in the objective's unit, exact, and whether no mapping with tiles
    that divide is better."""

    mapping: Mapping | None
    value: Fraction | None
    is_proven: bool


@answers_in_words
def choose_tiles(
    workload: WorkloadLike,
    arch: ArchitectureLike,
    objective: str = "energy",
    *,
    time_limit_s: float = 60,
    clock: Callable[[], float] = time.monotonic,
) -> TileChoice:
    """Return the best mapping over tiles that divide, what `explore(..., tiles="divide")` finds, without its report.

    Without size of the space, history or certificate: a product on three levels takes three milliseconds. Raises
    OptionError for unknown objectives, orders and fronts, workloads that the search over structures does not cover
    (several statements, ...), and a limit that is no positive number.
    """
    asked = Options(objective, "divide", time_limit_s=time_limit_s)
    workload, arch = question_of(workload, arch, asked.check_words)
    goal, _ = asked.read(workload, arch)
    problem = analyse(workload, arch)
    refused = problem.reason or ("an order or a front has no one value" if _is_joined(goal.goal) else None)
    refused = refused or beyond_sums(arch, (), goal) or None
    if refused is not None:
        raise OptionError(Mistake("PM550", f"no tiles are chosen: {refused}", "Ask `explore` instead."))
    measure = measure_of(goal, workload, arch)
    end = clock() + time_limit_s
    answer = best_product_tiles(problem, measure, lambda: clock() > end)
    if answer is not None and answer.is_proven:
        if answer.found is None:
            return TileChoice(None, None, is_proven=True)
        value, completed = measure.unscaled(answer.found[0]), answer.found[1]
        if is_confirmed(workload, arch, goal, completed.mapping, (value,)):
            return TileChoice(completed.mapping, value, is_proven=True)
    found = solve(problem, measure, lambda: clock() > end, _no_report, looks_first=False)
    if not found.found:
        return TileChoice(None, None, found.left == ())
    value, mapping = measure.unscaled(found.found[0][0]), found.found[0][1].mapping
    cost = evaluate(workload, arch, mapping)
    is_right = is_confirmed(workload, arch, goal, mapping, (value,), cost)
    return TileChoice(mapping, objective_values(workload, arch, goal, cost)[0], is_right and found.left == ())


def _is_joined(goal: Goal) -> bool:
    return goal in (Goal.LEXICOGRAPHIC, Goal.PARETO)


def _no_report(found: Found, bound: int) -> None:
    """Tell nobody."""
