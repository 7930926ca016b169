"""From a workload, a machine and an objective to the best mapping, with its proof: one line per stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from math import prod

from polymap.arch.machine import Architecture
from polymap.costmodel.cost import Cost
from polymap.costmodel.evaluate import evaluate
from polymap.errors import OptionError, Problem as Mistake
from polymap.schedules.mapping import Mapping
from polymap.schedules.space import SpaceSize, TileRule, never, space_size
from polymap.search.answer import Question, Values, answer, check_answer, front_answer, gap_of, not_worse, number_of
from polymap.search.any_search import AnyAnswer, reaches, solve_any
from polymap.search.certificate import certificate
from polymap.search.clash import clashing
from polymap.search.constraints import Rules, narrowed
from polymap.search.constraints_read import rules_from_document
from polymap.search.crew import Hands
from polymap.search.demands import measure_under, refusals
from polymap.search.engine import Found, Outcome, solve
from polymap.search.fallback import program_order, sampled
from polymap.search.goals import Goal, Objective, parse_objective, parse_single
from polymap.search.infeasible import clashes
from polymap.search.memory import is_spent
from polymap.search.objective import measure_of, objective_values
from polymap.search.problem import Problem, analyse
from polymap.search.result import Moment, Progress, Scored, SearchResult, SpaceCount
from polymap.search.tally import Count
from polymap.workload.loopnest import Workload

OnProgress = Callable[[Progress], None]
QUICKLY_COUNTED = 1_000_000  # statement instances up to which the space is counted in no time
COUNTING_SHARE = 0.2  # of the time limit, for the count before a search over tiles of any size


def search(
    workload: Workload,
    arch: Architecture,
    objective: str = "energy",
    tiles: str = "any",
    time_limit_s: float = 60,
    workers: int = 1,
    seed: int = 0,
    on_progress: OnProgress | None = None,
    clock: Callable[[], float] = time.monotonic,
    constraints: object = None,
    memory_limit_mb: int | None = None,
) -> SearchResult:
    """Return the best legal mapping within capacity, and what is proven of it.

    tiles "divide": OPTIMAL is over trees in which every tile divides the enclosing one. tiles "any": over all trees; of
    an order or a front, and with constraints, the bound is then the floor that no mapping beats, and the mappings are
    the best dividing ones. constraints: a table of what the mapping must meet besides (see rules_from_document).
    workers: processes that share the work of a long search. memory_limit_mb: their resident memory (2^20 bytes) at
    which the search ends as it does at the time limit.
    Raises OptionError for an unknown objective or tile rule, a limit that is no positive number, or mistakes in the
    constraints.
    """
    _check_options(tiles, time_limit_s, workers, seed, memory_limit_mb)
    goal = parse_objective(objective, arch)
    rules = () if constraints is None else rules_from_document(constraints, workload, arch)
    begin = clock()
    run = Run(
        workload, arch, goal, tiles, begin, time_limit_s, seed, on_progress, clock, rules, memory_limit_mb, workers
    )
    clash = clashes(workload, arch, rules)
    return run.infeasible(clash) if clash else run.result()


def candidates(
    workload: Workload,
    arch: Architecture,
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
    _check_options("divide", time_limit_s, 1, 0)
    if isinstance(limit, bool) or limit < 1:
        raise OptionError(Mistake("PM507", f"limit is {limit!r}", "Use an integer of at least 1."))
    goal = parse_single(objective, arch, ranked=True)
    rules = () if constraints is None else rules_from_document(constraints, workload, arch)
    yield from _ranked(workload, arch, goal, rules, limit, time_limit_s)


def _ranked(
    workload: Workload, arch: Architecture, goal: Objective, rules: Rules, limit: int, time_limit_s: float
) -> Iterator[tuple[Mapping, Cost]]:
    begin = time.monotonic()
    problem = analyse(workload, arch, rules)
    if clashes(workload, arch, rules):
        return
    if problem.reason is not None:
        found = sampled(workload, arch, goal, 0, lambda: time.monotonic() - begin > time_limit_s)[0]
        good = ((mapping, cost) for _, mapping, cost in found if not refusals(workload, arch, rules, mapping, cost))
        yield from islice(good, limit)
        return
    measure = measure_under(goal, workload, arch, rules)
    outcome = solve(problem, measure, lambda: time.monotonic() - begin > time_limit_s, _silent, keep=limit)
    scored = [(leaf.mapping, evaluate(workload, arch, leaf.mapping)) for _, leaf in outcome.found]
    for mapping, cost in scored:
        check_answer(Question(workload, arch, goal, rules), mapping, cost)
    yield from sorted(scored, key=lambda item: objective_values(workload, arch, goal, item[1]))


def _silent(_found: Found, _bound: int) -> None:
    """Take a report, and keep it."""


class Run:
    """One search: what was asked, when it began, and what is known so far."""

    def __init__(
        self,
        workload: Workload,
        arch: Architecture,
        objective: Objective,
        tiles: str,
        begin: float,
        time_limit_s: float,
        seed: int,
        on_progress: OnProgress | None,
        clock: Callable[[], float],
        rules: Rules = (),
        memory_limit_mb: int | None = None,
        workers: int = 1,
    ) -> None:
        self.workload, self.arch, self.objective, self.tiles = workload, arch, objective, tiles
        self.begin, self.limit, self.seed = begin, time_limit_s, seed
        self.on_progress, self.clock = on_progress, clock
        self.rules, self.memory_limit_mb = rules, memory_limit_mb
        self.history: list[Moment] = []
        self.spent = 0.0
        self.hands = Hands(workers)
        self.outcome: Outcome | None = None
        self.answer: AnyAnswer | None = None
        self.question = Question(workload, arch, objective, rules)
        self.floors = self.question.floors()

    def result(self) -> SearchResult:
        """Return the answer; where it is not final, with the way to go on from it."""
        found = self._searched()
        if found.status not in ("FEASIBLE", "TIMEOUT"):
            return found

        def again(time_limit_s: float, memory_limit_mb: int | None) -> SearchResult:
            _check_options(self.tiles, time_limit_s, 1, self.seed, memory_limit_mb)
            run = copy(self)
            run.begin, run.limit, run.memory_limit_mb = self.clock(), time_limit_s, memory_limit_mb
            run.history, run.spent = list(found.history), found.seconds
            return not_worse(found, run.result())

        return replace(found, again=again)

    def _searched(self) -> SearchResult:
        """Return the answer of the lattice search where it applies, else the best of sampled mappings."""
        problem = analyse(self.workload, self.arch, self.rules)
        if problem.reason is not None:
            return self._sampled()
        if self.tiles == "any" and reaches(self.objective) and not self.rules:
            return self._any(problem)
        outcome = self._solved(problem)
        if not outcome.found:
            nothing = outcome.left == () and bool(self.rules)
            if nothing and self.tiles == "divide":
                return self.infeasible(self._clashing())
            found = self._as_written(outcome)
            return replace(found, clash=self._clashing()) if nothing and found.best is None else found
        left = self._left(outcome)
        mappings = tuple(leaf.mapping for _, leaf in outcome.found)
        found = self._answer(mappings, left, outcome.count)
        if found.status != "OPTIMAL" or self.tiles != "divide":
            return found
        question = self.workload, self.arch, self.objective.text
        return replace(found, proof=lambda: certificate(*question, mappings[0], self.rules))

    def infeasible(self, clash: tuple[str, ...]) -> SearchResult:
        """Return the answer that there is no mapping, and why."""
        space = _space(space_size(self.workload, self.arch, TileRule(self.tiles)), Count())
        seconds = self.clock() - self.begin
        return SearchResult("INFEASIBLE", self.objective.text, None, None, None, None, None, space, seconds, clash)

    def _clashing(self) -> tuple[str, ...]:
        return clashing(self.workload, self.arch, self.rules, self._out_of_time)

    def _meets(self, mapping: Mapping, cost: Cost) -> bool:
        return not refusals(self.workload, self.arch, self.rules, mapping, cost)

    def _any(self, problem: Problem) -> SearchResult:
        """Return the answer over tiles of any size."""
        measure = measure_of(self.objective, self.workload, self.arch)
        size = self._space_size(COUNTING_SHARE)
        floor = self.floors[0]

        def report(mapping: Mapping | None, value: Fraction | None, bound: Fraction) -> None:
            self._report(mapping, value, max(bound, floor))

        trees = size and size.legal
        found = solve_any(problem, self.objective, measure, self._share, trees, report, self.answer, self.hands)
        self.answer = found
        counted = _space(size, Count(evaluated=found.evaluated, pruned=found.pruned))
        left = ((max(floor, found.bound or floor),),)
        mapping = found.best or self._written()
        return self._closed(() if mapping is None else (mapping,), left, counted)

    def _share(self) -> float:
        """Return the share of the time limit that is spent (all of it where the memory is)."""
        return 2.0 if is_spent(self.memory_limit_mb, self.hands.pids) else (self.clock() - self.begin) / self.limit

    def _left(self, outcome: Outcome) -> tuple[Values, ...]:
        """Return lower bounds, per part of the objective, of everything that was not searched."""
        if self.tiles != "divide" or outcome.left is None:
            return (self.floors,)
        measure = measure_of(self.objective, self.workload, self.arch)
        return tuple(self._raised(measure.unscaled_values(bound)) for bound in outcome.left)

    def _raised(self, bounds: Values) -> Values:
        return tuple(max(pair) for pair in zip(bounds, self.floors, strict=True))

    def _space_size(self, share: float = 1) -> SpaceSize | None:
        """Return the size of the space; None where a share of the limit leaves no time to count it."""

        def stop() -> bool:
            return self._share() > share

        if stop():
            return None
        # Small spaces are counted at once.
        many = prod(dim.extent for dim in self.workload.dims) > QUICKLY_COUNTED
        return space_size(self.workload, self.arch, TileRule(self.tiles), stop if many else never)

    def _as_written(self, outcome: Outcome) -> SearchResult:
        """Return the program in its own order, where time ended before the search had any mapping."""
        mapping = self._written()
        return self._answer((mapping,) if mapping else (), (self.floors,), outcome.count)

    def _written(self) -> Mapping | None:
        """Return the program in its own order, if that is legal."""
        mapping = program_order(self.workload, self.arch)
        cost = evaluate(self.workload, self.arch, mapping)
        return mapping if self._meets(mapping, cost) else None

    def _solved(self, problem: Problem) -> Outcome:
        measure = measure_under(self.objective, self.workload, self.arch, self.rules)

        def report(found: Found, bound: int) -> None:
            least = measure.unscaled_values(bound) if self.tiles == "divide" else self.floors
            value = None if not found else measure.unscaled(found[0][0])
            front = tuple(leaf.mapping for _, leaf in found) if self.objective.goal is Goal.PARETO else ()
            self._report(found[0][1].mapping if found else None, value, self._raised(least)[0], front)

        self.outcome = solve(problem, measure, self._out_of_time, report, before=self.outcome, hands=self.hands)
        return self.outcome

    def _out_of_time(self) -> bool:
        return self.clock() - self.begin > self.limit or is_spent(self.memory_limit_mb, self.hands.pids)

    def _seconds(self) -> float:
        return self.spent + self.clock() - self.begin

    def _note(self, value: int | float | None, bound: int | float) -> None:
        """Add to the history what is new."""
        last = self.history[-1] if self.history else None
        least = bound if last is None else max(bound, last.bound)
        if last is None or (last.value, last.bound) != (value, least):
            self.history.append(Moment(self._seconds(), value, least))

    def _report(
        self, best: Mapping | None, value: Fraction | None, bound: Fraction, front: tuple[Mapping, ...] = ()
    ) -> None:
        shown = None if value is None else self._shown(value)
        self._note(shown, self._shown(bound))
        if self.on_progress is not None:
            gap = None if value is None else gap_of(value, bound)
            self.on_progress(Progress(best, shown, self._shown(bound), gap, self._seconds(), front))

    def _sampled(self) -> SearchResult:
        found, tried = sampled(self.workload, self.arch, self.objective, self.seed, self._out_of_time)
        good = tuple(mapping for _, mapping, cost in found if self._meets(mapping, cost))
        return self._answer(good, (self.floors,), Count(evaluated=tried))

    def _answer(self, mappings: tuple[Mapping, ...], left: tuple[Values, ...], count: Count) -> SearchResult:
        """Return the answer. mappings: best first, of a front all; left: lower bounds of what was not searched."""
        found = self._closed(mappings, left, _space(self._space_size(), count))
        if found.status != "OPTIMAL" or count.listed is None:
            return found
        # Structures whose trees were not searched are refuted by what no mapping beats, if not by their own bounds.
        refuted = count.listed - count.evaluated - count.infeasible
        return replace(found, space=replace(found.space, pruned=refuted))

    def _closed(self, mappings: tuple[Mapping, ...], left: tuple[Values, ...], counted: SpaceCount) -> SearchResult:
        name, seconds = self.objective.text, self._seconds()
        if not mappings:
            floor = self._shown(self.floors[0])
            return SearchResult("TIMEOUT", name, None, None, None, floor, None, counted, seconds)
        if self.objective.goal is Goal.PARETO:
            found = front_answer(self.question, mappings, left, counted, seconds)
        else:
            found = answer(self.question, mappings[0], left, counted, seconds, self._top)
        self._note(found.value, found.bound or 0)
        return replace(found, history=tuple(self.history))

    def _top(self, count: int) -> Scored:
        return tuple(_ranked(self.workload, self.arch, self.objective, self.rules, count, self.limit))

    def _shown(self, value: Fraction) -> int | float:
        return number_of(self.objective.singles[0], value)


def _space(size: SpaceSize | None, count: Count) -> SpaceCount:
    known = (None, None) if size is None else (size.syntactic, size.legal)
    infeasible = None if count.listed is None else count.infeasible
    return SpaceCount(*known, None, count.evaluated, count.pruned, count.listed, infeasible)


def _check_options(
    tiles: str, time_limit_s: float, workers: int, seed: int, memory_limit_mb: int | None = None
) -> None:
    problems: list[Mistake] = []
    if memory_limit_mb is not None and (isinstance(memory_limit_mb, bool) or memory_limit_mb < 1):
        what = f"memory_limit_mb is {memory_limit_mb!r}"
        problems.append(Mistake("PM548", what, "Use an integer of at least 1 (2^20 bytes each)."))
    if tiles not in ("any", "divide"):
        problems.append(Mistake("PM503", f"tiles is {tiles!r}", "Use 'any' or 'divide'."))
    if isinstance(time_limit_s, bool) or not time_limit_s > 0:
        problems.append(Mistake("PM504", f"time_limit_s is {time_limit_s!r}", "Use a positive number of seconds."))
    if isinstance(workers, bool) or workers < 1:
        problems.append(Mistake("PM505", f"workers is {workers!r}", "Use an integer of at least 1."))
    if isinstance(seed, bool) or seed < 0:
        problems.append(Mistake("PM506", f"seed is {seed!r}", "Use an integer of at least 0."))
    if problems:
        raise OptionError(problems)
