"""From a workload, a machine and an objective to the best mapping, with its proof: one line per stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from fractions import Fraction

from polymap.arch.machine import Architecture
from polymap.costmodel.cost import Cost
from polymap.costmodel.evaluate import evaluate
from polymap.errors import OptionError, Problem as Mistake
from polymap.schedules.mapping import Mapping
from polymap.schedules.space import SpaceSize, TileRule, space_size
from polymap.search.engine import Outcome, solve
from polymap.search.fallback import program_order, sampled
from polymap.search.floor import floor_of
from polymap.search.infeasible import clashes
from polymap.search.objective import Goal, Objective, measure_of, objective_value, parse_objective
from polymap.search.problem import Problem, analyse
from polymap.search.result import Progress, Scored, SearchResult, SpaceCount
from polymap.workload.loopnest import Workload

OnProgress = Callable[[Progress], None]


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
) -> SearchResult:
    """Return the best legal mapping within capacity, and what is proven of it.

    tiles "divide": OPTIMAL is over trees in which every tile divides the enclosing one. tiles "any": over all trees;
    the bound is then the floor that no mapping can beat, and the mapping the best dividing one.
    Raises OptionError for an unknown objective, tile rule, or a limit that is no positive number.
    """
    _check_options(tiles, time_limit_s, workers, seed)
    goal = parse_objective(objective, arch)
    begin = clock()
    clash = clashes(workload, arch)
    if clash:
        space = _space(space_size(workload, arch, TileRule(tiles)), 0, 0)
        return SearchResult("INFEASIBLE", objective, None, None, None, None, None, space, clock() - begin, clash)
    run = Run(workload, arch, goal, tiles, begin, time_limit_s, seed, on_progress, clock)
    return run.result()


def candidates(
    workload: Workload, arch: Architecture, objective: str = "energy", limit: int = 100, time_limit_s: float = 60
) -> Iterator[tuple[Mapping, Cost]]:
    """Yield legal mappings within capacity, best first, each with its cost; at most `limit` of them.

    The first is the optimum over dividing tiles. Trees that differ only in what no count sees (the order of loops that
    change nothing, symmetric dims, fan-outs that are alike) are given once. Where the lattice search does not apply, or
    the time limit ends it, they are the best of those looked at.
    """
    _check_options("divide", time_limit_s, 1, 0)
    if isinstance(limit, bool) or limit < 1:
        raise OptionError(Mistake("PM507", f"limit is {limit!r}", "Use an integer of at least 1."))
    goal = parse_objective(objective, arch)
    begin = time.monotonic()
    problem = analyse(workload, arch)
    if clashes(workload, arch):
        return
    if problem.reason is not None:
        found = sampled(workload, arch, goal, 0, lambda: time.monotonic() - begin > time_limit_s)[0]
        yield from ((mapping, cost) for _, mapping, cost in found[:limit])
        return
    measure = measure_of(goal, workload, arch)
    outcome = solve(problem, measure, lambda: time.monotonic() - begin > time_limit_s, _silent, keep=limit)
    scored = ((leaf.mapping, evaluate(workload, arch, leaf.mapping)) for _, leaf in outcome.found)
    yield from sorted(scored, key=lambda item: objective_value(workload, arch, goal, item[1]))


def _silent(_mapping: Mapping | None, _value: int | None, _bound: int) -> None:
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
    ) -> None:
        self.workload, self.arch, self.objective, self.tiles = workload, arch, objective, tiles
        self.begin, self.limit, self.seed = begin, time_limit_s, seed
        self.on_progress, self.clock = on_progress, clock
        self.floor = floor_of(workload, arch, objective)

    def result(self) -> SearchResult:
        """Return the answer of the lattice search where it applies, else the best of sampled mappings."""
        problem = analyse(self.workload, self.arch)
        if problem.reason is not None:
            return self._sampled()
        outcome = self._solved(problem)
        if not outcome.found:
            return self._as_written(outcome)
        bound = self.floor
        if self.tiles == "divide" and outcome.bound is not None:
            bound = max(bound, self.unscaled(problem, outcome.bound))
        return self._answer(outcome.found[0][1].mapping, bound, outcome.evaluated, outcome.pruned)

    def _space_size(self) -> SpaceSize | None:
        """Return the size of the space; None where the limit leaves no time to count it."""
        return None if self._out_of_time() else space_size(self.workload, self.arch, TileRule(self.tiles))

    def _as_written(self, outcome: Outcome) -> SearchResult:
        """Return the program in its own order, where time ended before the search had any mapping."""
        mapping = program_order(self.workload, self.arch)
        legal = evaluate(self.workload, self.arch, mapping).legal
        return self._answer(mapping if legal else None, self.floor, outcome.evaluated, outcome.pruned)

    def unscaled(self, problem: Problem, value: int) -> Fraction:
        """Return a scaled value of the engine in the objective's unit."""
        return measure_of(self.objective, problem.workload, problem.arch).unscaled(value)

    def _solved(self, problem: Problem) -> Outcome:
        measure = measure_of(self.objective, self.workload, self.arch)

        def report(mapping: Mapping | None, value: int | None, bound: int) -> None:
            known = None if value is None else measure.unscaled(value)
            least = measure.unscaled(bound) if self.tiles == "divide" else self.floor
            self._report(mapping, known, max(least, self.floor))

        return solve(problem, measure, self._out_of_time, report)

    def _out_of_time(self) -> bool:
        return self.clock() - self.begin > self.limit

    def _report(self, mapping: Mapping | None, value: Fraction | None, bound: Fraction) -> None:
        if self.on_progress is not None:
            gap = None if value is None else _gap(value, bound)
            shown = None if value is None else self._shown(value)
            self.on_progress(Progress(mapping, shown, self._shown(bound), gap, self.clock() - self.begin))

    def _sampled(self) -> SearchResult:
        found, tried = sampled(self.workload, self.arch, self.objective, self.seed, self._out_of_time)
        mapping = found[0][1] if found else None
        return self._answer(mapping, None if mapping is None else self.floor, tried, 0)

    def _answer(
        self,
        mapping: Mapping | None,
        bound: Fraction | None,
        evaluated: int,
        pruned: int,
    ) -> SearchResult:
        counted = _space(self._space_size(), evaluated, pruned)
        name, seconds = self.objective.text, self.clock() - self.begin
        if mapping is None:
            floor = self._shown(self.floor)
            return SearchResult("TIMEOUT", name, None, None, None, floor, None, counted, seconds)
        cost = evaluate(self.workload, self.arch, mapping)
        value = objective_value(self.workload, self.arch, self.objective, cost)
        least = value if bound is None else min(bound, value)
        status = "OPTIMAL" if least == value else "FEASIBLE"
        shown = self._shown(value), self._shown(least)
        return SearchResult(status, name, mapping, cost, *shown, _gap(value, least), counted, seconds, more=self._top)

    def _top(self, count: int) -> Scored:
        return tuple(candidates(self.workload, self.arch, self.objective.text, count, self.limit))

    def _shown(self, value: Fraction) -> int | float:
        if self.objective.goal in (Goal.LATENCY, Goal.TRAFFIC):
            return int(value) if value.denominator == 1 else float(value)
        return float(value)


def _gap(value: Fraction, bound: Fraction) -> float:
    return float((value - bound) / value) if value else 0.0


def _space(size: SpaceSize | None, evaluated: int, pruned: int) -> SpaceCount:
    if size is None:
        return SpaceCount(None, None, None, evaluated, pruned)
    return SpaceCount(size.syntactic, size.legal, None, evaluated, pruned)


def _check_options(tiles: str, time_limit_s: float, workers: int, seed: int) -> None:
    problems: list[Mistake] = []
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
