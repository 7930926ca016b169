"""One search, phase by phase: dividing tiles first, then those of any size from what they gave."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from polymap.costmodel import Cost, evaluate
from polymap.ir import Architecture, Mapping, Workload
from polymap.schedules.space import SpaceSize, TileRule, space_size
from polymap.search.any_size import AnySizeAnswer, anneal_mappings, enumeration_answer, has_region_bound, solve_regions
from polymap.search.dividing import Count, Found, Outcome, solve
from polymap.search.enumeration import Walking
from polymap.search.heuristics import Annealer, DividingPolish, annealer_of, can_be_annealed, draw_by_annealing
from polymap.search.objective import exact_score, measure_of, measure_under, refusals
from polymap.search.problem import Goal, Objective, Problem, Rules, analyse
from polymap.search.resources import Hands, Limits
from polymap.search.run.answer import Question, Values, answer, front_answer, gap_of, not_worse, number_of
from polymap.search.run.certificate import certificate
from polymap.search.run.feasible import FEW_TREES, AnySize, Dividing, walk_begun
from polymap.search.run.programs import Drawn, program_order, sampled
from polymap.search.run.ranked import ranked
from polymap.search.run.refuted import is_refuted
from polymap.search.run.result import Moment, Progress, Scored, SearchResult, SpaceCount
from polymap.search.run.rule_clashes import clashing

OnProgress = Callable[[Progress], None]
QUICKLY_COUNTED = 1_000_000  # statement instances up to which the space is counted in no time
COUNTING_SHARE = 0.1  # of the limit, for the count before a search over tiles of any size
CLASHING_SHARE = 0.2  # of the limit, for which rules clash, before tiles of any size are looked at
DRAWN_FIRST = 80  # mappings that are scored before the structures of a large program are listed

Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked, limits aside."""

    workload: Workload
    arch: Architecture
    objective: Objective
    tiles: str
    rules: Rules = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class _Divided:
    """The answer over dividing tiles, and all its mappings (of a front; else one at most)."""

    result: SearchResult
    mappings: tuple[Mapping, ...]
    outcome: Outcome

    @property
    def is_final(self) -> bool:
        return self.result.status in ("OPTIMAL", "INFEASIBLE")


class Run:
    """One search: what was asked, its limits, and what is known so far."""

    def __init__(self, asked: Asked, limits: Limits, hands: Hands, on_progress: OnProgress | None = None) -> None:
        self.asked, self.limits, self.hands, self.on_progress = asked, limits, hands, on_progress
        self.workload, self.arch, self.objective, self.rules = asked.workload, asked.arch, asked.objective, asked.rules
        self.history: list[Moment] = []
        self.spent = 0.0
        self.worked = 0
        self.outcome: Outcome | None = None
        self.divided: _Divided | None = None
        self.drawn: Drawn | None = None
        self.answer: AnySizeAnswer | None = None
        self.walking: Walking | None = None
        self.annealers: dict[bool, Annealer] = {}
        self.question = Question(self.workload, self.arch, self.objective, self.rules)
        self.floors = self.question.floors()

    def result(
        self, check: Callable[[float, int | None, int | None], None], before: SearchResult | None = None
    ) -> SearchResult:
        """Return the answer, never worse than the one before; where it is not final, with the way to go on from it.

        check: raises for limits that are no positive numbers.
        """
        found = self._searched()
        found = replace(found, work=self.worked + self.limits.work.done)
        found = found if before is None else not_worse(before, found)
        if found.status not in ("FEASIBLE", "TIMEOUT"):
            return found

        def again(time_limit_s: float, memory_limit_mb: int | None, work_limit: int | None) -> SearchResult:
            check(time_limit_s, memory_limit_mb, work_limit)
            run = copy(self)
            run.limits = self.limits.renewed(time_limit_s, memory_limit_mb, work_limit)
            run.history, run.spent, run.worked = list(found.history), found.seconds, found.work
            return run.result(check, found)

        return replace(found, again=again)

    def infeasible(self, clash: tuple[str, ...]) -> SearchResult:
        """Return the answer that there is no mapping, and why."""
        space = _space(self._space_size(self.limits), Count())
        return SearchResult(
            "INFEASIBLE", self.objective.text, None, None, None, None, None, space, self._seconds(), clash
        )

    def _searched(self) -> SearchResult:
        """Return the answer of the lattice search where it applies, else the best of sampled mappings."""
        problem = analyse(self.workload, self.arch, self.rules)
        dividing = problem.reason is None and self.asked.tiles == "divide"  # told the least value by the search
        if not dividing and self.rules and is_refuted(self.workload, self.arch, self.rules):
            return self.infeasible(self._clashing(AnySize))
        if problem.reason is not None:
            return self._sampled()
        if self.outcome is None:
            self._tell_the_program()
        divided = self.divided or self._over_dividing(problem)
        if self.asked.tiles == "divide":
            return divided.result
        self.divided = divided if divided.is_final else None
        return replace(self._over_all(problem, divided), dividing=divided.result)

    def _tell_the_program(self) -> None:
        """Report the program in its own order: who interrupts a search gets that at least."""
        mapping = program_order(self.workload, self.arch)
        score = exact_score(self.workload, self.arch, self.objective, mapping)
        if score is not None and not score.excess and self._meets(mapping, score.cost):
            self._report(mapping, score.value, self.floors[0])

    def _over_dividing(self, problem: Problem) -> _Divided:
        """Return the answer over dividing tiles. Of tiles of any size the answer begins with it."""
        alone = self.asked.tiles == "divide" or not has_region_bound(self.objective)
        outcome = self._solved(problem, self.limits if alone else self.limits.dividing())
        mappings: tuple[Mapping, ...] = tuple(leaf.mapping for _, leaf in outcome.found)
        if outcome.left == () and not mappings:
            return _Divided(self.infeasible(self._clashing(Dividing)), (), outcome)
        left = self._left(outcome)
        if not mappings:
            written = self._written()
            mappings, left = (() if written is None else (written,)), (self.floors,)
        size = self._space_size(self.limits) if self.asked.tiles == "divide" else None
        found = self._closed(mappings, left, _space(size, outcome.count), whole=self.asked.tiles == "divide")
        found = _accounted(found, outcome.count)
        best = found.best
        if found.status == "OPTIMAL" and best is not None:
            question = self.workload, self.arch, self.objective.text
            found = replace(found, proof=lambda: certificate(*question, best, self.rules))
        return _Divided(found, mappings, outcome)

    def _clashing(self, over: type[Dividing | AnySize]) -> tuple[str, ...]:
        """Return which rules no mapping meets together, over dividing tiles or those of any size; or that none fits."""
        if not self.rules:
            return ("every mapping with tiles that divide was refuted: none is within the capacities",)
        alone = self.asked.tiles == "divide"
        stop = self.limits if alone else self.limits.until(self.limits.share() + CLASHING_SHARE)
        return clashing(self.workload, self.arch, self.rules, over(self.workload, stop), stop)

    def _meets(self, mapping: Mapping, cost: Cost) -> bool:
        return not refusals(self.workload, self.arch, self.rules, mapping, cost)

    def _over_all(self, problem: Problem, divided: _Divided) -> SearchResult:
        """Return the answer over tiles of any size, which is never worse than the dividing one."""
        size = self._space_size(self.limits.until(self.limits.share() + COUNTING_SHARE))
        done = self._walked(size)
        if done is not None and done.best is None:
            return self.infeasible(self._walked_clash(done))
        if done is not None and done.best is not None:
            counted = replace(_space(size, Count(evaluated=done.evaluated)), distinct=done.distinct)
            return self._closed((done.best,), (), counted)
        outcome = divided.outcome
        if not has_region_bound(self.objective) or self.rules:
            mappings = self._annealed(divided)
            found = self._closed(mappings, (self.floors,), _space(size, Count(evaluated=outcome.nodes)))
            return found if found.best is not None else replace(found, clash=divided.result.clash)
        found = self._regions(problem, divided)
        if found.best is None and found.is_final:
            return self.infeasible(divided.result.clash)
        counted = _space(size, Count(evaluated=outcome.nodes + found.evaluated, pruned=found.pruned))
        mapping = found.best or self._written()
        left = ((max(self.floors[0], found.bound or self.floors[0]),),)
        return self._closed(() if mapping is None else (mapping,), left, counted)

    def _walked(self, size: SpaceSize | None) -> AnySizeAnswer | None:
        """Return the answer that looking at all trees gives, where they are few; each is a step. Where the work left
        does not suffice, half of it is spent on a part of them, and the regions have the rest."""
        trees, work = size and size.legal, self.limits.work
        if trees is None or trees > FEW_TREES or self.objective.goal is Goal.PARETO or self.limits():
            return None
        if self.walking is None:
            asked = self.workload, self.arch, self.objective, self.rules
            self.walking = walk_begun(*asked, count_distinct=True)
        walking, before, noted = self.walking, self.walking.legal, work.done
        most = None if work.left is None or trees - before <= work.left else work.left // 2

        def is_over() -> bool:
            work.done = noted + walking.legal - before
            return self.limits() or (most is not None and walking.legal - before > most)

        found = enumeration_answer(walking, is_over)
        work.done = noted + walking.legal - before
        return found

    def _walked_clash(self, done: AnySizeAnswer) -> tuple[str, ...]:
        if not self.rules:
            return (f"none of the {done.evaluated:,} legal loop trees is within the capacities",)
        return self._clashing(AnySize)

    def _regions(self, problem: Problem, divided: _Divided) -> AnySizeAnswer:
        """Return what the search over regions of tiles of any size finds from the dividing answer on."""
        floor = self.floors[0]

        def report(mapping: Mapping | None, value: Fraction | None, bound: Fraction) -> None:
            self._report(mapping, value, max(bound, floor))

        known = [divided.result.best, None if self.answer is None else self.answer.best]
        scored = [
            (score.value, number, mapping)
            for number, mapping in enumerate(known)
            if mapping is not None
            and (score := exact_score(self.workload, self.arch, self.objective, mapping)) is not None
        ]
        first = (min(scored)[2], min(scored)[0]) if scored else None
        if self.answer is None and self.limits():
            return AnySizeAnswer(first and first[0], floor, 0, 0)  # no time to list the orders of nodes
        measure = measure_of(self.objective, self.workload, self.arch)
        self.answer = solve_regions(
            problem, self.objective, measure, self.limits, first, report, self._annealer(divide=False), self.answer
        )
        return self.answer

    def _annealed(self, divided: _Divided) -> tuple[Mapping, ...]:
        """Return the dividing mappings, or a better one of any size that is near; where there is none, walk until one
        is found or a limit is reached. For an order or a front any mapping serves where there is none."""
        annealer = self._annealer(divide=False)
        best, value = divided.result.best, divided.result.value
        if annealer is None or (best is not None and not can_be_annealed(self.workload, self.objective)):
            return divided.mappings
        if best is not None and value is not None:
            assert divided.result.cost is not None
            score = exact_score(self.workload, self.arch, self.objective, best)
            if score is None:
                return divided.mappings
            annealer.know(best, score.value)
        floor = self.floors[0]

        def report(mapping: Mapping, value: Fraction) -> None:
            self._report(mapping, value, floor)

        anneal_mappings(annealer, self.limits, self.limits.work, report, until_found=best is None)
        return divided.mappings if annealer.best is None else (annealer.best[0],)

    def _annealer(self, *, divide: bool) -> Annealer | None:
        """Return what looks for mappings that meet the rules; None where none can. A resumed search goes on with it."""
        if divide not in self.annealers:
            annealer = annealer_of(
                self.workload, self.arch, self.objective, self.rules, divide=divide, seed=self.asked.seed
            )
            if annealer is None:
                return None
            self.annealers[divide] = annealer
        return self.annealers[divide]

    def _left(self, outcome: Outcome) -> tuple[Values, ...]:
        """Return lower bounds, per part of the objective, of all dividing mappings that were not searched."""
        if outcome.left is None:
            return (self.floors,)
        measure = measure_of(self.objective, self.workload, self.arch)
        return tuple(self._raised(measure.unscaled_values(bound)) for bound in outcome.left)

    def _raised(self, bounds: Values) -> Values:
        return tuple(max(pair) for pair in zip(bounds, self.floors, strict=True))

    def _space_size(self, stop: Stop) -> SpaceSize | None:
        """Return the size of the space; None where there is no time to count it."""
        if stop():
            return None
        # Small spaces are counted at once, whatever the clock says.
        wait = stop if self._instances() > QUICKLY_COUNTED else self.limits.time_is_up
        return space_size(self.workload, self.arch, TileRule(self.asked.tiles), wait)

    def _instances(self) -> int:
        return prod(dim.extent for dim in self.workload.dims)

    def _written(self) -> Mapping | None:
        """Return the program in its own order, if that is legal."""
        mapping = program_order(self.workload, self.arch)
        cost = evaluate(self.workload, self.arch, mapping)
        return mapping if self._meets(mapping, cost) else None

    def _solved(self, problem: Problem, stop: Stop) -> Outcome:
        measure = measure_under(self.objective, self.workload, self.arch, self.rules)

        def report(found: Found, bound: int) -> None:
            least = measure.unscaled_values(bound) if self.asked.tiles == "divide" else self.floors
            value = None if not found else measure.unscaled(found[0][0])
            front = tuple(leaf.mapping for _, leaf in found) if self.objective.goal is Goal.PARETO else ()
            self._report(found[0][1].mapping if found else None, value, self._raised(least)[0], front)

        polish = self._dividing_polish(problem)
        if self.outcome is None and polish is not None and self._instances() > QUICKLY_COUNTED:
            first = polish.first(DRAWN_FIRST)
            if first is not None:
                report((first,), 0)
                self.outcome = Outcome((first,), None, Count(), 0, None)
        self.outcome = solve(
            problem,
            measure,
            stop,
            report,
            before=self.outcome,
            hands=self.hands,
            work=self.limits.work,
            polish=polish,
            draw=draw_by_annealing(problem, measure),
        )
        return self.outcome

    def _dividing_polish(self, problem: Problem) -> DividingPolish | None:
        annealer = self._annealer(divide=True)
        if annealer is None or not has_region_bound(self.objective):
            return None
        measure = measure_of(self.objective, self.workload, self.arch)
        windows = any(term.is_window for term in problem.terms)
        return DividingPolish(annealer, measure, self.limits, has_window=windows)

    def _seconds(self) -> float:
        return self.spent + self.limits.seconds()

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
        last = self.history[-1].value if self.history else None
        if shown is None and last is not None:
            return  # what is known stands: a search begins with less than was reported before it
        self._note(shown, self._shown(bound))
        if self.on_progress is not None:
            gap = None if value is None else gap_of(value, bound)
            self.on_progress(Progress(best, shown, self._shown(bound), gap, self._seconds(), front))

    def _sampled(self) -> SearchResult:
        floor = self.floors[0]
        self.drawn = sampled(
            self.workload,
            self.arch,
            self.objective,
            self.rules,
            self.limits,
            annealer=self._annealer(divide=self.asked.tiles == "divide"),
            seed=self.asked.seed,
            before=self.drawn,
            work=self.limits.work,
            report=lambda mapping, value: self._report(mapping, value, floor),
        )
        mappings = tuple(mapping for _, mapping, _ in self.drawn.found)
        count = Count(evaluated=self.drawn.tried)
        return self._closed(mappings, (self.floors,), _space(self._space_size(self.limits), count))

    def _closed(
        self, mappings: tuple[Mapping, ...], left: tuple[Values, ...], counted: SpaceCount, *, whole: bool = True
    ) -> SearchResult:
        """Return the answer. mappings: best first, of a front all; left: lower bounds of what was not searched; whole:
        over all that was asked, so that it ends the history."""
        name, seconds = self.objective.text, self._seconds()
        if not mappings:
            floor = self._shown(self.floors[0])
            return SearchResult("TIMEOUT", name, None, None, None, floor, None, counted, seconds)
        if self.objective.goal is Goal.PARETO:
            found = front_answer(self.question, mappings, left, counted, seconds)
        else:
            found = answer(self.question, mappings[0], left, counted, seconds, self._top)
        if whole:
            self._note(found.value, found.bound or 0)
        return replace(found, history=tuple(self.history))

    def _top(self, count: int) -> Scored:
        limits = self.limits.renewed(self.limits.time_limit_s, self.limits.memory.limit_mb, None)
        asked, divide = self.asked, self.asked.tiles == "divide"
        return tuple(
            ranked(self.workload, self.arch, self.objective, self.rules, count, limits, divide=divide, seed=asked.seed)
        )

    def _shown(self, value: Fraction) -> int | float:
        return number_of(self.objective.singles[0], value)


def _space(size: SpaceSize | None, count: Count) -> SpaceCount:
    known = (None, None) if size is None else (size.syntactic, size.legal)
    infeasible = None if count.listed is None else count.infeasible
    return SpaceCount(*known, None, count.evaluated, count.pruned, count.listed, infeasible)


def _accounted(found: SearchResult, count: Count) -> SearchResult:
    """Return a dividing answer that tells where every structure went: of an optimum those whose trees were not searched
    are refuted by what no mapping beats, if not by their own bounds."""
    if found.status != "OPTIMAL" or count.listed is None:
        return found
    refuted = count.listed - count.evaluated - count.infeasible
    return replace(found, space=replace(found.space, pruned=refuted))
