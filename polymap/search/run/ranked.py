"""The best mappings of a problem in order, not only the first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

from polymap.costmodel import Cost, evaluate
from polymap.inputs import answers_in_words, as_integer
from polymap.ir import Mapping, Mistake, OptionError
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of
from polymap.search.dividing import solve
from polymap.search.local import climber_for
from polymap.search.problem import (
    analyse,
    beyond_sums,
    clashes,
    measure_under,
    objective_values,
    parse_single,
    rules_from_document,
)
from polymap.search.resources import Limits, Memory
from polymap.search.run.answer import Question, check_answer
from polymap.search.run.options import Options
from polymap.search.run.programs import sampled


@answers_in_words
def candidates(
    workload: WorkloadLike,
    arch: ArchitectureLike,
    objective: str = "energy",
    limit: int = 100,
    time_limit_s: float = 60,
    constraints: object = None,
) -> Iterator[tuple[Mapping, Cost]]:
    """Yield legal mappings within capacity, best first, each with its cost; at most `limit` of them.

    The first is the optimum over dividing tiles. Trees that differ only in what no count sees (the order of loops that
    change nothing, symmetric dims, fan-outs that are alike) are given once. Where the lattice search does not apply, or
    the time limit ends it, they are the best of those looked at.
    """
    workload, arch = question_of(workload, arch)
    Options(tiles="divide", time_limit_s=time_limit_s).check()
    if (as_integer(limit) or 0) < 1:
        raise OptionError(Mistake("PM507", f"limit is {limit!r}", "Use an integer of at least 1."))
    goal = parse_single(objective, arch, ranked=True)
    rules = () if constraints is None else rules_from_document(constraints, workload, arch)
    asked = Question(workload, arch, goal, rules, "divide")
    yield from ranked(asked, limit, Limits(time.monotonic, time_limit_s, Memory(None)))


def ranked(asked: Question, limit: int, limits: Limits) -> Iterator[tuple[Mapping, Cost]]:
    """Yield the `limit` best mappings with dividing tiles, best first, each with its cost; the best of samples
    where the lattice search does not apply."""
    question = asked.workload, asked.arch, asked.objective, asked.rules
    problem = analyse(asked.workload, asked.arch, asked.rules)
    if clashes(asked.workload, asked.arch, asked.rules):
        return
    if problem.reason is not None or beyond_sums(asked.arch, asked.rules, asked.objective):
        drawn = sampled(
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
    outcome = solve(problem, measure, limits, lambda _found, _bound: None, keep=limit)
    scored = [(leaf.mapping, evaluate(asked.workload, asked.arch, leaf.mapping)) for _, leaf in outcome.found]
    for mapping, cost in scored:
        check_answer(asked, mapping, cost)
    yield from sorted(scored, key=lambda item: objective_values(*question[:3], item[1]))
