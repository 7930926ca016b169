"""The driver of a search: asks one prover after the other what it knows of a question, and answers from that."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum, Flag, auto
from fractions import Fraction
from functools import partial
from itertools import groupby
from math import prod
from operator import le
from typing import TypeVar, cast

from polymap.costmodel import Cost, evaluate, evaluate_in_cpu_time
from polymap.ir import Architecture, BudgetError, Mapping, Workload
from polymap.resources import Limits, Processes, SearchCaches, Stop, ending_within
from polymap.schedules import SpaceSize, TileRule, few_legal, space_size
from polymap.search.answer import (
    Question,
    Values,
    answer,
    believed_bounds,
    bound_of,
    covers,
    front_answer,
    not_less,
    not_worse,
    number_of,
)
from polymap.search.dividing import Count, OpenStructures, Outcome, open_structures
from polymap.search.evidence import Evidence, Incumbent
from polymap.search.in_order import is_covered, rank_mappings
from polymap.search.options import TUNING, OnProgress, Options
from polymap.search.problem import (
    Goal,
    Objective,
    Problem,
    Rules,
    analyse,
    beyond_sums,
    is_about_loops,
    is_about_the_whole,
    objective_values,
    refusals,
)
from polymap.search.program_search import program_order
from polymap.search.result import Moment, Progress, Scored, SearchResult, Settings, SpaceCount

Engine = TypeVar("Engine")


class Kind(Flag):
    """The kinds of questions. Each has its provers."""

    PROGRAM = auto()  # what the lattice search does not cover: several statements, recurrences, ...
    DIVIDING = auto()  # one value over tiles that divide
    DIVIDING_ORDER = auto()
    DIVIDING_FRONT = auto()
    ANY_SIZE = auto()  # one value over tiles of any size
    ORDER = auto()
    FRONT = auto()
    PART = auto()  # one value of an order or a front over tiles of any size, under limits of others
    RELATED = auto()  # one value of another question, for what it says of the one asked
    IN_STEPS = auto()  # several statements on a machine whose single steps take cycles
    LARGE = auto()  # one value of a program that is a nest, but for which tables are too large: beside PROGRAM
    SIZES = ANY_SIZE | ORDER | FRONT
    ONE_VALUE = ANY_SIZE | PART | RELATED
    NESTS = DIVIDING | DIVIDING_ORDER | DIVIDING_FRONT | RELATED | SIZES  # whose dividing tiles are searched


def kind_of(asked: Question, problem: Problem) -> Kind:
    """Return the kind of a question that a user asks."""
    if not is_covered(asked, problem):
        is_program = len(asked.workload.statements) > 1
        return Kind.IN_STEPS if is_program and asked.arch.is_timed_by_step else Kind.PROGRAM
    several = {
        Goal.LEXICOGRAPHIC: (Kind.DIVIDING_ORDER, Kind.ORDER),
        Goal.PARETO: (Kind.DIVIDING_FRONT, Kind.FRONT),
    }
    return several.get(asked.objective.goal, (Kind.DIVIDING, Kind.ANY_SIZE))[asked.tiles == "any"]


class Engines:
    """What provers go on from when they are called again, by its class and what it is for."""

    def __init__(self) -> None:
        self._kept: dict[tuple[type, object], object] = {}

    def get(self, kind: type[Engine], of: object = None) -> Engine | None:
        return cast("Engine | None", self._kept.get((kind, of)))

    def keep(self, engine: object, of: object = None) -> None:
        self._kept[type(engine), of] = engine

    def made(self, kind: type[Engine], make: Callable[[], Engine], of: object = None) -> Engine:
        """Return the engine; a new one where there is none."""
        found = self.get(kind, of)
        if found is None:
            found = make()
            self.keep(found, of)
        return found

    def only(self, kind: type) -> Engines:
        """Return the engines of one class, to be shared with another question."""
        found = Engines()
        found._kept = {key: engine for key, engine in self._kept.items() if key[0] is kind}
        return found


@dataclass(frozen=True)
class Search:
    """One question, its limits, and the provers that are asked.

    provers: the table of some kinds, by a name that can be pickled. engines: what provers go on from. before: the
    answer from which this search goes on. told: the last progress. moments: how it went so far. caches: what is
    remembered until there is an answer, here and where it asks other questions.
    """

    asked: Question
    problem: Problem
    kind: Kind
    limits: Limits
    processes: Processes
    settings: Settings
    provers: Callable[[Kind], Table]
    on_progress: OnProgress | None = None
    engines: Engines = field(default_factory=Engines)
    before: SearchResult | None = None
    told: list[Progress] = field(default_factory=list[Progress])
    moments: list[Moment] = field(default_factory=list[Moment])
    caches: SearchCaches = field(default_factory=SearchCaches)

    def answer(self, evidence: Evidence) -> SearchResult:
        """Return what provers answer from some evidence on, never worse than the answer before; where it is not final,
        with the way to go on from it."""
        with ending_within(None, self.limits.left_s()):
            evidence = self.searched(evidence)
        self.caches.clear()  # an answer that can be resumed does not keep them
        worked = self.limits.work.done + (self.before.work if self.before else 0)
        found = replace(self.result(evidence), work=worked, settings=self.settings)
        found = found if self.before is None else not_worse(self.before, found)
        if found.status not in ("FEASIBLE", "TIMEOUT"):
            return found
        return replace(found, again=Resumption(self, evidence, found))

    def searched(self, evidence: Evidence) -> Evidence:
        """Return the evidence after the provers of this kind of question, in the table's order, until it is closed."""
        for in_turn, lines in groupby(self.provers(self.kinds), key=lambda line: line.turns_for is not None):
            if in_turn:
                evidence = self._in_turn(tuple(lines), evidence)
                continue
            for line in lines:
                if not evidence.is_closed and line.applies(self, evidence):
                    evidence = self._asked(line, evidence, line.share(self.limits) if line.share else self.limits)
        return evidence

    def _asked(self, line: Line, evidence: Evidence, stop: Stop) -> Evidence:
        return self.tell(evidence.joined(line.prover(self, evidence, stop)))

    def _in_turn(self, lines: tuple[Line, ...], evidence: Evidence) -> Evidence:
        """Return the evidence after provers that take turns, each going on where it ended.

        A slice is as long as all that its prover had, plus the first slice; it does not depend on the limit. Each
        prover begins once, in the table's order. Then the kind (mappings or bounds) with less time in all comes next,
        and of that kind the prover with least time; one whose last slice closed much of the gap counts half of its
        time. A prover that leaves half of its slice is asked again only when others have changed the evidence.
        """
        turns = [Turn(line) for line in lines if line.applies(self, evidence)]
        while not (evidence.is_closed or evidence.is_met) and self.limits.share() < TUNING.turns_share:
            left = [each for each in turns if each.ended_with != (evidence.floors, evidence.incumbents)]
            if not left:
                break
            had = {what: sum(each.spent for each in turns if each.line.turns_for is what) for what in (*Turns, None)}
            turn, before, spent = min(left, key=partial(Turn.waits, had)), evidence, self.limits.share()
            own = self.limits.ending(min(TUNING.turns_share, spent + slice_of(self.limits, turn.spent)))
            evidence = self._asked(turn.line, evidence, own)
            used = self.limits.share() - spent
            turn.spent, turn.gained = turn.spent + used, evidence.nearer(before) >= TUNING.least_gain
            turn.ended_with = (evidence.floors, evidence.incumbents) if used < (own.end - spent) / 2 else None
        return evidence

    def ask(
        self, asked: Question, kind: Kind, share: float, begun: Evidence | None = None, engines: Engines | None = None
    ) -> tuple[SearchResult, Evidence]:
        """Return the answer to another question, after a share of what is left of the limits, and its evidence. begun:
        what is known of it."""
        problem = analyse(asked.workload, asked.arch, asked.rules)
        limits, own = self.limits.part(share), (self.processes, self.settings, self.provers)
        other = Search(asked, problem, kind, limits, *own, engines=engines or Engines(), caches=self.caches)
        found = other.searched(begun or Evidence(asked.floors()))
        self.limits.work.add(other.limits.work.done)
        return other.result(found), found

    def __getstate__(self) -> dict[str, object]:
        """Return the state to pickle: whom it tells of its progress belongs to this process."""
        return {**self.__dict__, "on_progress": None}

    @property
    def kinds(self) -> Kind:
        """Return of which kinds the question is."""
        is_nest = self.kind is Kind.PROGRAM and self.problem.is_too_large and len(self.objective.singles) == 1
        is_large = is_nest and not beyond_sums(self.arch, self.rules, self.objective)
        return self.kind | Kind.LARGE if is_large else self.kind

    @property
    def workload(self) -> Workload:
        return self.asked.workload

    @property
    def arch(self) -> Architecture:
        return self.asked.arch

    @property
    def objective(self) -> Objective:
        return self.asked.objective

    @property
    def rules(self) -> Rules:
        return self.asked.rules

    @property
    def divides(self) -> bool:
        """Return whether only tiles that divide are asked for."""
        return self.asked.tiles == "divide"

    def incumbent(self, mapping: Mapping, cost: Cost | None = None, workload: Workload | None = None) -> Incumbent:
        """Return a mapping with its exact values. cost: where it is known; workload: of which it is one, if renamed."""
        own = workload or self.workload
        cost = cost or evaluate(own, self.arch, mapping)
        return Incumbent(objective_values(own, self.arch, self.objective, cost), mapping, cost, own)

    def counted(self, mapping: Mapping) -> tuple[Incumbent, ...]:
        """Return a mapping with its exact values; () where it takes too much to count."""
        with suppress(BudgetError):
            return (self.incumbent(mapping),)
        return ()

    def legal_cost(self, workload: Workload, mapping: Mapping, *, is_first: bool = False) -> Cost | None:
        """Return what a tree of a program costs; None where it is not legal, does not meet the rules, or that takes
        longer to say than a share of what is left of the limit, and a second as far as that is left, or all of it
        (is_first)."""
        left = self.limits.left_s()
        least_s = TUNING.count_s if is_first else max(TUNING.least_evaluation_s, min(TUNING.count_s, left))
        with suppress(BudgetError):
            return self.legal_cost_within(workload, mapping, max(least_s, TUNING.legal_share * left))
        return None

    def legal_cost_within(self, workload: Workload, mapping: Mapping, seconds: float) -> Cost | None:
        """Return what a tree of a program, or of a part of it, costs; None where it is not legal, or does not meet the
        rules. Raises BudgetError where that takes longer to say than so many seconds of CPU time."""
        arch, left = self.arch.naming_only(workload.tensors), self.limits.left_s()
        with ending_within(max(1, left) if self.limits.is_of_wall_time else None):
            cost = evaluate_in_cpu_time(workload, arch, mapping, seconds)
        return cost if cost.legal and self.meets(mapping, cost, workload) else None

    def with_tree(self, evidence: Evidence, workload: Workload, mapping: Mapping) -> Evidence:
        """Return the evidence with a tree of the program, or of it with its loops renamed, if it is legal."""
        cost = self.legal_cost(workload, mapping, is_first=not evidence.incumbents)
        if cost is None:
            return evidence
        return self.tell(evidence.with_incumbents((self.incumbent(mapping, cost, workload),)))

    def proven(self, evidence: Evidence, claims: tuple[tuple[Mapping, Values], ...], space: SpaceCount) -> Evidence:
        """Return the evidence that no mapping beats these, after evaluating each one. Where one does not cost what the
        prover claims, the old evidence is returned and the next prover is asked."""
        if believed_bounds(self.asked, (), [(*claim, None) for claim in claims]):
            return evidence
        is_as_good = covers if self.objective.goal is Goal.PARETO else le
        if any(not any(is_as_good(values, one.values) for _, values in claims) for one in evidence.incumbents):
            return evidence  # a better mapping is known
        found = tuple(self.incumbent(mapping) for mapping, _ in claims)
        proven = replace(evidence, incumbents=found, left=(), space=space)
        return proven.with_incumbents(evidence.incumbents)

    def result(self, evidence: Evidence) -> SearchResult:
        """Return the answer that evidence gives."""
        dividing = evidence.dividing
        if dividing is not None and self.divides and (evidence.dividing_is_final or self.kind is Kind.DIVIDING):
            return dividing
        refuted = evidence.clash if evidence.clash is not None and not evidence.incumbents else None
        found = self.closed(evidence) if refuted is None else self.infeasible(refuted)
        if len(self.workload.statements) > 1:
            if found.best is None or found.workload != self.workload:  # of a program that was rewritten
                return found
            return replace(found, proof=partial(certify_best, self.asked, found.best))
        if dividing is None:
            return found
        proof = partial(certify_best, self.asked, found.best, dividing.best, any_size=True) if found.best else None
        return replace(found, dividing=dividing, proof=proof)

    def closed(self, evidence: Evidence, *, whole: bool = True) -> SearchResult:
        """Return the answer made from the incumbents. whole: over all that was asked, so that it ends the history."""
        seconds, found = self._seconds(), evidence.incumbents
        space = evidence.space or counted_space(evidence.size, Count(evaluated=evidence.nodes))
        if not found:
            clash = evidence.dividing_clash if self.rules else ()
            return self._without_mapping("TIMEOUT", self._bound(evidence.floors[0], None), space, clash)
        left = (evidence.floors,) if evidence.left is None else evidence.left
        left = left if evidence.clash is None else (self.asked.floors(),)  # there is a mapping: nothing is refuted
        question, claims = replace(self.asked, workload=found[0].workload), tuple(one.values for one in found)
        if self.objective.goal is Goal.PARETO:
            mappings = tuple(one.mapping for one in found)
            answered = front_answer(question, mappings, left, space, seconds, claims, [one.cost for one in found])
        else:
            more = partial(
                best_mappings, self.asked, found[0].mapping, self.limits.time_limit_s, self.limits.memory.limit_mb
            )
            own = more if found[0].workload == self.workload else None
            answered = answer(question, found[0].mapping, left, space, seconds, claims[0], own, found[0].cost)
            _check_floors(found[0], evidence)
        if whole:
            front = tuple(point.best for point in answered.front if point.best is not None)
            state = answered.best, answered.value, answered.bound, answered.gap, seconds, front, question.workload
            self._telling(Progress(*state))
        return replace(answered, history=tuple(self.moments))

    def infeasible(self, clash: tuple[str, ...]) -> SearchResult:
        """Return the answer that there is no mapping, and why."""
        space = counted_space(self.space_size(self.limits), Count())
        return self._without_mapping("INFEASIBLE", None, space, clash)

    def _without_mapping(
        self, status: str, bound: int | float | None, space: SpaceCount, clash: tuple[str, ...]
    ) -> SearchResult:
        asked, none = self.asked, (None, None, None, bound, None)
        nothing = SearchResult(status, asked.objective.text, *none, space, self._seconds(), clash)
        return replace(nothing, workload=asked.workload, arch=asked.arch)

    def meets(self, mapping: Mapping, cost: Cost, workload: Workload | None = None) -> bool:
        """Return whether a mapping meets the rules. workload: a part of the program, or what computes the same with its
        loops renamed: a part is held to the rules of single statements, and no other loops to rules about loops."""
        own, rules = workload or self.workload, self.rules
        if rules and own != self.workload:
            is_part = set(own.statements) < set(self.workload.statements)
            if not is_part and any(is_about_loops(rule) for rule in rules):
                return False
            rules = tuple(rule for rule in rules if not (is_part and is_about_the_whole(rule)))
        return not refusals(own, self.arch, rules, mapping, cost)

    def space_size(self, stop: Stop) -> SpaceSize | None:
        """Return the size of the space; None where there is no time to count it, or it is not asked for."""
        if stop() or not self.asked.hints.counts_space:
            return None
        # Small spaces are counted at once, whatever the clock says.
        wait = stop if self.instances() > TUNING.quickly_counted else self.limits.time_is_up
        return space_size(self.workload, self.arch, TileRule(self.asked.tiles), wait)

    def few_trees(self, most: int, stop: Stop) -> int | None:
        """Return how many legal trees a nest has, where they are at most so many: for provers, whatever is told of the
        space."""
        return few_legal(self.workload, self.arch, TileRule(self.asked.tiles), most, stop)

    def instances(self) -> int:
        return prod(dim.extent for dim in self.workload.dims)

    def written(self) -> tuple[Incumbent, ...]:
        """Return the program in its own order, if that is legal."""
        found = self.counted(program_order(self.workload, self.arch))
        return tuple(each for each in found if self.meets(each.mapping, each.cost))

    def _seconds(self) -> float:
        return self.limits.seconds() + (self.before.seconds if self.before else 0)

    def tell(self, evidence: Evidence) -> Evidence:
        """Tell of the mappings that are known, and of the bound; return them."""
        if not evidence.incumbents:
            return evidence
        best, is_front = evidence.incumbents[0], self.objective.goal is Goal.PARETO
        front = tuple(one.mapping for one in evidence.incumbents if is_front and one.workload == best.workload)
        self.report(best.mapping, best.values[0], evidence.floors[0], front, best.workload)
        return evidence

    def report(
        self,
        best: Mapping | None,
        value: Fraction | None,
        bound: Fraction,
        front: tuple[Mapping, ...] = (),
        workload: Workload | None = None,
    ) -> None:
        """Tell of a mapping, of this workload (None: the one that is asked for), and of a bound; of those that were
        told before, where these are better."""
        shown = None if value is None else number_of(self.objective.singles[0], value)
        now = Progress(best, shown, self._bound(bound, value), None, self._seconds(), front, workload)
        if self.told and self.objective.goal is Goal.LEXICOGRAPHIC and now.value == self.told[-1].value:
            now = self._first_of(self.told[-1], now)
        now = self._telling(now)
        if self.on_progress is not None:
            self.on_progress(now)

    def _first_of(self, old: Progress, new: Progress) -> Progress:
        """Return the newer state, with the older one's mapping where that comes first in the order asked for."""
        known = [each.best for each in (old, new) if each.best is not None]
        if len(set(known)) < 2:
            return new
        with suppress(BudgetError):
            before, after = (
                self.incumbent(each, None, one.workload) for each, one in zip(known, (old, new), strict=True)
            )
            return replace(new, best=old.best, workload=old.workload) if before.values < after.values else new
        return replace(new, best=old.best, workload=old.workload)

    def _telling(self, now: Progress) -> Progress:
        """Return what is told with a new state; add to the history what is new in it."""
        now = not_less(self.told[-1] if self.told else now, now)
        self.told[:] = [now]
        last, (value, bound) = self.moments[-1] if self.moments else None, (now.value, now.bound or 0)
        if last is None or (last.value, last.bound) != (value, bound):
            self.moments.append(Moment(self._seconds(), value, bound))
        return now

    def _bound(self, bound: Fraction, value: Fraction | None) -> int | float:
        return bound_of(self.objective.singles[0], bound, value)


def _check_floors(best: Incumbent, evidence: Evidence) -> None:
    """Raise AssertionError where a mapping is better than what was found that no mapping beats."""
    if any(value < floor for value, floor in zip(best.values, evidence.floors, strict=True)):
        raise AssertionError("a mapping is better than what no mapping can beat")


Prover = Callable[[Search, Evidence, Stop], Evidence]
Share = Callable[[Limits], Stop]


def first(share: float) -> Share:
    """Return the limits of a prover that ends when this share of the whole limit is spent."""
    return lambda limits: limits.until(share)


def further(share: float) -> Share:
    """Return the limits of a prover that takes at most this share of the whole limit."""
    return lambda limits: limits.until(limits.share() + share)


def of_rest(share: float) -> Share:
    """Return the limits of a prover that takes at most this share of what is left of the limit."""
    return lambda limits: limits.until((spent := limits.share()) + share * max(0.0, 1 - spent))


def slice_of(limits: Limits, spent: float = 0.0) -> float:
    """Return the share of the limit of the next slice of what spent so much: as much and the first one, which does not
    depend on the limit."""
    work = limits.work.limit
    return spent + (TUNING.slice_s / limits.time_limit_s if work is None else TUNING.slice_steps / work)


class Turns(Enum):
    """For what provers that go on where they ended take turns."""

    MAPPINGS = auto()
    BOUNDS = auto()


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table: a prover (or a proposer, which raises incumbents only), and the questions that it is for.

    kinds: of questions. share: of the limit (None: all). rules: whether it is for questions with rules, or for those
    without (None: for both). without_mapping: only where no mapping is known. turns_for: what it looks for
    in turn with its neighbours (None: it does not take turns).
    """

    prover: Prover
    kinds: Kind
    share: Share | None = None
    rules: bool | None = None
    without_mapping: bool = False
    turns_for: Turns | None = None

    def applies(self, search: Search, evidence: Evidence) -> bool:
        """Return whether the prover has something to say about a question."""
        is_for = self.rules is None or self.rules == bool(search.rules)
        return bool(search.kinds & self.kinds) and is_for and not (self.without_mapping and evidence.incumbents)


@dataclass(slots=True)
class Turn:
    """A prover that takes turns: the share of the limit that it spent, whether its last slice gained much, and what was
    known when it ended."""

    line: Line
    spent: float = 0.0
    gained: bool = False
    ended_with: tuple[Values, tuple[Incumbent, ...]] | None = None

    @staticmethod
    def waits(had: dict[Turns | None, float], turn: Turn) -> tuple[float, float]:
        """Return how long a prover waits: the longer the greater. had: the time for each of what they look for."""
        times = 0 if not turn.spent else 1 / 2 if turn.gained else 1
        return times * had[turn.line.turns_for], times * turn.spent


Table = tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Resumption:
    """What an unfinished search leaves: called with new limits, it goes on from its evidence and its engines."""

    search: Search
    evidence: Evidence
    found: SearchResult

    def __call__(self, time_limit_s: float, memory_limit_mb: int | None, work_limit: int | None) -> SearchResult:
        Options(time_limit_s=time_limit_s, memory_limit_mb=memory_limit_mb, work_limit=work_limit).check()
        limits = self.search.limits.renewed(time_limit_s, memory_limit_mb, work_limit)
        search = replace(self.search, limits=limits, before=self.found)
        search = replace(search, told=list(search.told), moments=list(self.found.history))
        return search.answer(self.evidence.renewed())


def open_structures_of(result: SearchResult) -> OpenStructures | None:
    """Return what a search over dividing tiles with one value has left; None where nothing is, or of other searches."""
    search = result.again.search if isinstance(result.again, Resumption) else None
    outcome = None if search is None or search.kind is not Kind.DIVIDING else search.engines.get(Outcome)
    return None if outcome is None else open_structures(outcome)


def best_mappings(
    asked: Question, best: Mapping, time_limit_s: float, memory_limit_mb: int | None, count: int
) -> Scored:
    """Return the `count` best mappings with their costs, best first: a search of its own, with limits of its own. best:
    the answer, which comes first where that search finds no mapping with dividing tiles that is as good."""
    found = tuple(rank_mappings(asked, count, time_limit_s, memory_limit_mb))
    if count < 1 or best in [mapping for mapping, _ in found]:
        return found
    cost = evaluate(asked.workload, asked.arch, best)
    question = asked.workload, asked.arch, asked.objective
    if (
        asked.tiles == "divide"
        and found
        and objective_values(*question, found[0][1]) <= objective_values(*question, cost)
    ):
        return found
    return ((best, cost), *found)[:count]


def counted_space(size: SpaceSize | None, count: Count) -> SpaceCount:
    """Return what is known of the space (size: None where it was not counted) and where the search has gone."""
    known = (None, None) if size is None else (size.syntactic, size.legal)
    infeasible = None if count.listed is None else count.infeasible
    return SpaceCount(*known, None, count.evaluated, count.pruned, count.listed, infeasible)


def certify_best(asked: Question, best: Mapping, dividing: Mapping | None = None, *, any_size: bool = False) -> str:
    """Return the certificate of the best dividing mapping; with tiles of any size of what no mapping beats."""
    from polymap.search import certificate

    question = asked.workload, asked.arch, asked.objective.text
    if len(asked.workload.statements) > 1:
        divides = asked.tiles == "divide"
        return certificate.program_certificate(
            *question, best, asked.rules, partial(_map_statement, asked) if divides else None
        )
    if any_size:
        return certificate.bound_certificate(*question, (best, dividing), asked.rules)
    return certificate.certificate(*question, best, asked.rules)


def _map_statement(asked: Question, nest: Workload, arch: Architecture, rules: Rules, seconds: float) -> Mapping | None:
    """Return the best dividing mapping of a statement of a program alone."""
    question = replace(asked, workload=nest, arch=arch, rules=rules)
    return next((mapping for mapping, _ in rank_mappings(question, 1, seconds)), None)
