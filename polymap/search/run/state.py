"""One search: what was asked, its limits, what its stages have found so far, and how it answers."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from math import prod
from time import monotonic
from typing import TYPE_CHECKING

from polymap.costmodel import Cost, evaluate
from polymap.ir import Architecture, Mapping, Workload
from polymap.schedules.space import SpaceSize, TileRule, space_size
from polymap.search.dividing import Count, OpenStructures, Outcome, open_structures
from polymap.search.enumeration import Walking
from polymap.search.heuristics import Annealer, TreeClimber, annealer_of
from polymap.search.objective import objective_values, refusals
from polymap.search.problem import Goal, Objective, Rules, analyse
from polymap.search.programs import ProgramSearch
from polymap.search.resources import Limits, Memory, Processes, SearchCaches, Stop
from polymap.search.result import Moment, Progress, Scored, SearchResult, Settings, SpaceCount
from polymap.search.run.answer import Question, Values, answer, front_answer, gap_of, not_worse, number_of
from polymap.search.run.options import TUNING, Hints, OnProgress, Options
from polymap.search.run.programs import Drawn, program_order
from polymap.search.run.ranked import ranked

if TYPE_CHECKING:
    from polymap.search.product_bounds import ProductEngine
    from polymap.search.sibling_bounds import SiblingSearch


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked, limits aside."""

    workload: Workload
    arch: Architecture
    objective: Objective
    tiles: str
    rules: Rules = ()
    seed: int = 0
    hints: Hints = field(default_factory=Hints)


@dataclass(frozen=True, slots=True)
class Divided:
    """The answer over dividing tiles, and all its mappings (of a front; else one at most)."""

    result: SearchResult
    mappings: tuple[Mapping, ...]
    outcome: Outcome

    @property
    def is_final(self) -> bool:
        return self.result.status in ("OPTIMAL", "INFEASIBLE")


class Search:
    """What was asked, the limits, and what is known so far: what stages read and write.

    outcome, divided: of the search over dividing tiles. size: of the space of tiles of any size (None: not counted).
    drawn, climbed: of programs that the lattice search does not cover; starts: mappings of these to begin with
    (None: not looked for). walking, products: of tiles of any size; siblings: bounds of those, one per part of the
    objective; known: mappings by their values, of an order or a front; front_limits: what the first part of a front
    is at least below limits of the second (None: nothing is). caches: what is remembered until there is an answer.
    """

    def __init__(
        self,
        asked: Asked,
        limits: Limits,
        processes: Processes,
        settings: Settings,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.asked, self.limits, self.processes, self.on_progress = asked, limits, processes, on_progress
        self.settings = settings
        self.workload, self.arch, self.objective, self.rules = asked.workload, asked.arch, asked.objective, asked.rules
        self.problem = analyse(self.workload, self.arch, self.rules)
        self.history: list[Moment] = []
        self.spent = 0.0
        self.worked = 0
        self.outcome: Outcome | None = None
        self.divided: Divided | None = None
        self.size: SpaceSize | None = None
        self.drawn: Drawn | None = None
        self.starts: tuple[Mapping, ...] | None = None
        self.climbed: ProgramSearch | None = None
        self.products: ProductEngine | None = None
        self.siblings: tuple[SiblingSearch, ...] = ()
        self.climber: TreeClimber | None = None
        self.known: dict[Values, Mapping] = {}
        self.front_limits: dict[Fraction, Fraction | None] = {}
        self.walking: Walking | None = None
        self.annealers: dict[bool, Annealer] = {}
        self.caches = SearchCaches()
        self.question = Question(self.workload, self.arch, self.objective, self.rules)
        self.floors = self.question.floors()

    @property
    def divides(self) -> bool:
        """Return whether only tiles that divide are asked for."""
        return self.asked.tiles == "divide"

    def answer(self, stages: Stages, before: SearchResult | None = None) -> SearchResult:
        """Return the answer of the first stage that has one, never worse than the one before; where it is not final,
        with the way to go on from it."""
        found = self._first_answer(stages)
        self.caches.clear()  # an answer that can be resumed does not keep them
        found = replace(found, work=self.worked + self.limits.work.done, settings=self.settings)
        found = found if before is None else not_worse(before, found)
        if found.status not in ("FEASIBLE", "TIMEOUT"):
            return found
        return replace(found, again=Resumption(self, stages, found))

    def _first_answer(self, stages: Stages) -> SearchResult:
        found = next(one for stage in stages if (one := stage(self)) is not None)
        divided = self.divided
        if divided is None:
            return found
        if not divided.is_final:  # it is searched on where the search is resumed
            self.divided = None
        if found is divided.result:
            return found
        found = self._no_worse(found, divided.result)
        mappings = found.best, divided.result.best
        proof = partial(_bound_certificate, self.workload, self.arch, self.objective.text, mappings, self.rules)
        return replace(found, dividing=divided.result, proof=proof if found.best else None)

    def _no_worse(self, found: SearchResult, divided: SearchResult) -> SearchResult:
        """Return the answer over tiles of any size; where the dividing one is better, that mapping, and no proof."""
        if divided.best is None or found.front:
            return found
        asked = self.workload, self.arch, self.objective
        if found.best is not None and objective_values(*asked, found.cost) <= objective_values(*asked, divided.cost):
            return found
        return self.closed((divided.best,), (self.question.floors(),), found.space, None)

    def renewed(self, found: SearchResult, limits: Limits) -> Search:
        """Return the search that goes on from the answer `found` under other limits."""
        search = copy(self)
        search.limits, search.on_progress = limits, self.on_progress  # a copy is made like a pickle
        search.history, search.spent, search.worked = list(found.history), found.seconds, found.work
        return search

    def __getstate__(self) -> dict[str, object]:
        """Return the state to pickle: whom it tells of its progress belongs to this process."""
        return {**self.__dict__, "on_progress": None}

    def infeasible(self, clash: tuple[str, ...]) -> SearchResult:
        """Return the answer that there is no mapping, and why."""
        space = counted_space(self.space_size(self.limits), Count())
        return self._without_mapping("INFEASIBLE", None, space, clash)

    def _without_mapping(
        self, status: str, bound: int | float | None, space: SpaceCount, clash: tuple[str, ...] = ()
    ) -> SearchResult:
        name, seconds = self.objective.text, self._seconds()
        nothing = SearchResult(status, name, None, None, None, bound, None, space, seconds, clash)
        return replace(nothing, workload=self.workload, arch=self.arch)

    def meets(self, mapping: Mapping, cost: Cost) -> bool:
        return not refusals(self.workload, self.arch, self.rules, mapping, cost)

    def annealer(self, *, divide: bool) -> Annealer | None:
        """Return what looks for mappings that meet the rules; None where none can. A resumed search goes on with it."""
        if divide not in self.annealers:
            annealer = annealer_of(
                self.workload, self.arch, self.objective, self.rules, divide=divide, seed=self.asked.seed
            )
            if annealer is None:
                return None
            self.annealers[divide] = annealer
        return self.annealers[divide]

    def raise_floor(self, place: int, bound: Fraction | None) -> None:
        """Take a lower bound of one part of the objective over all mappings (None: none is known)."""
        if bound is not None:
            self.floors = (*self.floors[:place], max(bound, self.floors[place]), *self.floors[place + 1 :])

    def raised(self, bounds: Values) -> Values:
        return tuple(max(pair) for pair in zip(bounds, self.floors, strict=True))

    def space_size(self, stop: Stop) -> SpaceSize | None:
        """Return the size of the space; None where there is no time to count it, or it is not asked for."""
        if stop() or not self.asked.hints.counts_space:
            return None
        # Small spaces are counted at once, whatever the clock says.
        wait = stop if self.instances() > TUNING.quickly_counted else self.limits.time_is_up
        return space_size(self.workload, self.arch, TileRule(self.asked.tiles), wait)

    def instances(self) -> int:
        return prod(dim.extent for dim in self.workload.dims)

    def written(self) -> Mapping | None:
        """Return the program in its own order, if that is legal."""
        mapping = program_order(self.workload, self.arch)
        cost = evaluate(self.workload, self.arch, mapping)
        return mapping if self.meets(mapping, cost) else None

    def _seconds(self) -> float:
        return self.spent + self.limits.seconds()

    def _note(self, value: int | float | None, bound: int | float) -> None:
        """Add to the history what is new."""
        last = self.history[-1] if self.history else None
        least = bound if last is None else max(bound, last.bound)
        if last is None or (last.value, last.bound) != (value, least):
            self.history.append(Moment(self._seconds(), value, least))

    def report(
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

    def closed(
        self,
        mappings: tuple[Mapping, ...],
        left: tuple[Values, ...],
        counted: SpaceCount,
        claimed: tuple[Values, ...] | None,
        *,
        whole: bool = True,
        costs: tuple[Cost, ...] = (),
    ) -> SearchResult:
        """Return the answer. mappings: best first, of a front all; left: lower bounds of what was not searched;
        claimed: what the search that gives `left` says that the mappings cost (None: `left` holds whatever they cost);
        whole: over all that was asked, so that it ends the history; costs: of the first mappings, where these are
        known."""
        seconds = self._seconds()
        if not mappings:
            return self._without_mapping("TIMEOUT", self._shown(self.floors[0]), counted)
        if self.objective.goal is Goal.PARETO:
            found = front_answer(self.question, mappings, left, counted, seconds, claimed, costs)
        else:
            best = None if self.divides else mappings[0]
            more = partial(best_mappings, self.asked, best, self.limits.time_limit_s, self.limits.memory.limit_mb)
            claim = claimed[0] if claimed else None
            cost = costs[0] if costs else None
            found = answer(self.question, mappings[0], left, counted, seconds, claim, more, cost)
            self._check_floors(found.cost)
        if whole:
            self._note(found.value, found.bound or 0)
        return replace(found, history=tuple(self.history))

    def _check_floors(self, cost: Cost | None) -> None:
        """Raise AssertionError where a mapping is better than what was found that no mapping beats."""
        assert cost is not None
        asked = self.question.workload, self.question.arch, self.objective
        for value, floor in zip(objective_values(*asked, cost), self.floors, strict=True):
            if value < floor:
                raise AssertionError("a mapping is better than what no mapping can beat")

    def _shown(self, value: Fraction) -> int | float:
        return number_of(self.objective.singles[0], value)


Stage = Callable[[Search], SearchResult | None]
Stages = tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Resumption:
    """What an unfinished search leaves: called with new limits, it goes on from the answer that it ended with."""

    search: Search
    stages: Stages
    found: SearchResult

    def __call__(self, time_limit_s: float, memory_limit_mb: int | None, work_limit: int | None) -> SearchResult:
        Options(time_limit_s=time_limit_s, memory_limit_mb=memory_limit_mb, work_limit=work_limit).check()
        limits = self.search.limits.renewed(time_limit_s, memory_limit_mb, work_limit)
        return self.search.renewed(self.found, limits).answer(self.stages, self.found)


def open_structures_of(result: SearchResult) -> OpenStructures | None:
    """Return what a search over dividing tiles with one value has left; None where nothing is, or of other searches."""
    search = result.again.search if isinstance(result.again, Resumption) else None
    if search is None or search.outcome is None or not search.divides or len(search.objective.singles) > 1:
        return None
    return open_structures(search.outcome)


def best_mappings(
    asked: Asked, best: Mapping | None, time_limit_s: float, memory_limit_mb: int | None, count: int
) -> Scored:
    """Return the `count` best mappings with their costs, best first: a search of its own, with limits of its own. best:
    the first, where tiles of any size were asked for."""
    limits = Limits(monotonic, time_limit_s, Memory(memory_limit_mb))
    question = asked.workload, asked.arch, asked.objective, asked.rules
    found = tuple(ranked(*question, count, limits, divide=asked.tiles == "divide", seed=asked.seed))
    if best is None or count < 1 or best in [mapping for mapping, _ in found]:
        return found
    return ((best, evaluate(asked.workload, asked.arch, best)), *found)[:count]


def counted_space(size: SpaceSize | None, count: Count) -> SpaceCount:
    """Return what is known of the space (size: None where it was not counted) and where the search has gone."""
    known = (None, None) if size is None else (size.syntactic, size.legal)
    infeasible = None if count.listed is None else count.infeasible
    return SpaceCount(*known, None, count.evaluated, count.pruned, count.listed, infeasible)


def _bound_certificate(
    workload: Workload, arch: Architecture, objective: str, mappings: tuple[Mapping | None, ...], rules: Rules
) -> str:
    from polymap.search.run.certificate import bound_certificate  # loads the checker, which takes a while

    return bound_certificate(workload, arch, objective, mappings, rules)
