"""The best mappings of a problem in order, not only the first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import islice

from polymap.costmodel import Cost, evaluate
from polymap.inputs import as_integer
from polymap.ir import Architecture, Mapping, Mistake, OptionError, Workload, all_read
from polymap.resources import Limits, Memory
from polymap.search.answer import Question, check_answer
from polymap.search.dividing import solve
from polymap.search.options import Options
from polymap.search.problem import (
    Problem,
    analyse,
    beyond_sums,
    clashes,
    measure_under,
    objective_values,
    parse_single,
    rules_from_document,
)
from polymap.search.program_search import sample_mappings
from polymap.search.trees import climber_for


def asked_in_order(
    workload: Workload, arch: Architecture, objective: str, limit: int, time_limit_s: float, constraints: object
) -> Question:
    """Return the question for the `limit` best mappings; raises OptionError for mistakes in it."""
    _, _, goal, rules = all_read(
        Options(tiles="divide", time_limit_s=time_limit_s).check,
        partial(_check_limit, limit),
        partial(parse_single, objective, arch, ranked=True),
        partial(rules_from_document, constraints, workload, arch),
    )
    return Question(workload, arch, goal, rules, "divide")


def _check_limit(limit: object) -> None:
    if (as_integer(limit) or 0) < 1:
        raise OptionError(Mistake("PM507", f"limit is {limit!r}", "Use an integer of at least 1."))


def is_covered(asked: Question, problem: Problem | None = None) -> bool:
    """Return whether the lattice search covers a question: then it lists mappings in order. problem: the question as
    that search reads it, where it was read before."""
    read = problem or analyse(asked.workload, asked.arch, asked.rules)
    return read.reason is None and not beyond_sums(asked.arch, asked.rules, asked.objective)


def rank_mappings(
    asked: Question, limit: int, time_limit_s: float, memory_limit_mb: int | None = None
) -> Iterator[tuple[Mapping, Cost]]:
    """Yield the `limit` best mappings with dividing tiles, best first, each with its cost; the best of samples
    where the lattice search does not apply."""
    question, limits = (
        (asked.workload, asked.arch, asked.objective, asked.rules),
        Limits(time.monotonic, time_limit_s, Memory(memory_limit_mb)),
    )
    if clashes(asked.workload, asked.arch, asked.rules):
        return
    if not is_covered(asked):
        drawn = sample_mappings(
            *question,
            limits,
            climber=climber_for(*question, divide=asked.tiles == "divide", seed=asked.seed),
            seed=asked.seed,
            before=None,
            limits=limits,
            report=lambda _mapping, _value: None,
        )
        yield from islice(((mapping, cost) for _, mapping, cost in drawn.found), limit)
        return
    measure = measure_under(asked.objective, asked.workload, asked.arch, asked.rules)
    problem = analyse(asked.workload, asked.arch, asked.rules)
    outcome = solve(problem, measure, limits, lambda _found, _bound: None, keep=limit)
    scored = [(leaf.mapping, evaluate(asked.workload, asked.arch, leaf.mapping)) for _, leaf in outcome.found]
    for mapping, cost in scored:
        check_answer(asked, mapping, cost)
    yield from sorted(scored, key=lambda item: objective_values(*question[:3], item[1]))
