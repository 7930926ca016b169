"""Best-first search over structures: the next structure's bound is the bound of all that is left.

A step on an entry of the queue works out the bound of a structure further, or searches its trees.

The queue holds every structure that is not refuted, at its best known bound; the least of these bounds everything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import count
from math import prod

import numpy as np

from polymap.resources import BestFirst, OutOfTime, Processes, SearchCaches, Stop, Work, never
from polymap.search.dividing.bounds import FREE, Multipliers
from polymap.search.dividing.branch_and_bound import BoundTables, StructureSearch
from polymap.search.dividing.cost_tables import build_tables
from polymap.search.dividing.groups import (
    Group,
    Groups,
    are_stackable,
    bound_side_by_side,
    groups_near,
    groups_of,
    is_searched_at_once,
    least_value,
)
from polymap.search.dividing.lagrange import improve_multipliers
from polymap.search.dividing.loop_order import CompletedMapping
from polymap.search.dividing.node_costs import places_of, root_context
from polymap.search.dividing.progress import (
    Count,
    Entry,
    Front,
    GroupBound,
    Incumbent,
    OpenStructures,
    Polish,
    StructureFates,
)
from polymap.search.dividing.single_tensor_bound import single_tensor_bounds
from polymap.search.dividing.steps import Stage, StopPoint, StopPoints, solve_structures, step_on
from polymap.search.dividing.tuning import TUNING
from polymap.search.problem import (
    Measure,
    Problem,
    Structure,
    Structures,
    distinct_structures,
    divisors,
    enumerate_structures,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the engine ends with: the best mappings with their values, a valid bound (both scaled; None: none was
    reached), work done.

    count: where the structures have gone; nodes: of the search inside them. left: bounds of all that was not searched
    and may beat what was found (None: unknown); the least of them is the bound, of a front each counts.
    rest: for a search that goes on (None: it begins anew). is_late: limits ended the list of structures.
    """

    found: tuple[tuple[int, CompletedMapping], ...]
    bound: int | None
    count: Count
    nodes: int
    left: tuple[int, ...] | None
    rest: Rest | None = None
    is_late: bool = False


ALONE = Processes()


@dataclass(frozen=True, slots=True)
class Rest:
    """What a search that a limit ended hands to one that goes on: the structures, how many of them are bounded, the
    queue of these, where structures went, and where in entries it was ended."""

    structures: Structures
    bounded: int
    queue: tuple[Entry, ...]
    fates: StructureFates
    stop_points: StopPoints


Found = tuple[tuple[int, CompletedMapping], ...]
Report = Callable[[Found, int], None]


def solve(
    problem: Problem,
    measure: Measure,
    out_of_time: Callable[[], bool],
    report: Report,
    keep: int = 1,
    before: Outcome | None = None,
    processes: Processes = ALONE,
    work: Work | None = None,
    polish: Polish | None = None,
    caches: SearchCaches | None = None,
    *,
    looks_first: bool = True,
    others_wait: Stop = never,
    lists_until: Stop | None = None,
) -> Outcome:
    """Return the `keep` best trees over all structures (of a front, its trees), or the best found when time runs out.

    before: an outcome to go on from, by a step at least. processes: share a long search. work: counts and limits steps.
    polish: looks for better trees, and for a first one where no chain of least cost fits. looks_first: whether a tree
    is looked for before all structures are bounded. others_wait: ends it too, once a structure was searched.
    lists_until: what ends the list of structures (None: what ends the search).
    """
    known, least = () if before is None else before.found, 0
    incumbent = _incumbent(measure, out_of_time, keep, known, work or Work(), caches or SearchCaches(), others_wait)
    incumbent.has_descended = before is not None and before.nodes > 0
    incumbent.told = lambda: report(tuple(incumbent.found), least)
    incumbent.polish = None if keep > 1 or measure.is_front else polish
    listing = lists_until or incumbent.out_of_time
    state = _initial_state(problem, measure, incumbent, report, before, listing, looks_first=looks_first)
    context = _StepContext(problem, measure, keep, incumbent.out_of_time)
    for turn in count():
        if turn == TUNING.steps_alone and processes.count > 1:
            return _parallel_outcome(context, state, report, processes)
        _probe(problem, measure, state, turn)
        if not _has_entry(problem, measure, state):
            break
        bound, _, number = entry = state.queue.take()
        if not incumbent.beats(bound) and state.is_partly_bounded:
            state.add(entry)
            return state.ended()
        if not incumbent.beats(bound):
            state.cut(number)
            continue
        report(tuple(incumbent.found), least := state.bound_of_all(bound))
        _bound_beside(problem, measure, state, entry)
        if not _has_stepped(problem, measure, state, entry, may_end=turn > 0 or before is None or before.rest is None):
            return state.ended()
    return state.ended() if state.is_partly_bounded else state.outcome(())


def _bound_beside(problem: Problem, measure: Measure, state: _State, entry: Entry) -> None:
    """Where the group of an entry has no bound yet, bound it together with others that spread the window dims alike:
    those of least bounds, no more than were bounded before."""
    incumbent, number, groups = state.incumbent, entry[2], state.groups
    known = incumbent.groups
    if -entry[1] or not isinstance(groups, Groups) or groups[number][0] in known or incumbent.value is None:
        return
    if not are_stackable(problem, measure):
        return
    own = groups[number][0]
    beside = [
        (bound, numbers[0])
        for numbers in groups.beside(number)
        if numbers[0] not in known and incumbent.beats(bound := state.bound_of_group(numbers[0]))
    ]
    chosen = dict.fromkeys((own, *(one for _, one in sorted(beside)[: len(known)])))
    with suppress(OutOfTime):  # the next step sees that, too
        bound_side_by_side(problem, measure, [state.group_of(one) for one in chosen], incumbent)


def _probe(problem: Problem, measure: Measure, state: _State, turn: int) -> None:
    """Search a few nodes where the best tree may be, if it is time."""
    if turn >= TUNING.first_probe and turn & (turn - 1) == 0:
        _probe_best(problem, measure, state)
    _probe_near(problem, measure, state)


def _probe_best(problem: Problem, measure: Measure, state: _State) -> None:
    """Search a few nodes of the structures that promise most, so that the others are held against a good tree and at
    multipliers that suit: the best of all, and the best of those whose spatial loops have one place."""
    incumbent = state.incumbent
    if incumbent.keep > 1 or measure.is_front or incumbent.out_of_time():
        return
    for place, (_, _, number) in enumerate(state.queue.least(TUNING.probed_entries)):
        structure = state.structures[number]
        has_one_place = len(places_of(problem, structure)) == 1
        if not place or has_one_place:
            known = incumbent.groups.get(state.group_of(number).number)
            with suppress(OutOfTime):  # the next step sees that, too
                solve_structures(problem, measure, (structure,), incumbent, None, known, TUNING.probed_nodes)
        if has_one_place:
            break


def _probe_near(problem: Problem, measure: Measure, state: _State) -> None:
    """Search a few nodes of a group near the best tree's, once the search has taken long steps enough to pay for it:
    the groups of good trees are neighbours, whatever their bounds."""
    incumbent = state.incumbent
    if state.long_steps < state.next_probe or incumbent.keep > 1 or measure.is_front or incumbent.out_of_time():
        return
    best, group = incumbent.value, _near_group(problem, state)
    if group is not None and (len(group.members) == 1 or is_searched_at_once(problem, measure, group)):
        state.probed.add(group.number)
        known = incumbent.groups.get(group.number)
        with suppress(OutOfTime):  # the next step sees that, too
            solve_structures(problem, measure, group.members, incumbent, None, known, TUNING.nodes_near, decides=False)
    state.idle_probes = state.idle_probes + 1 if incumbent.value == best else 0
    state.next_probe = state.long_steps + (TUNING.steps_per_probe << state.idle_probes // TUNING.idle_probes)


def _near_group(problem: Problem, state: _State) -> Group | None:
    """Return a group near the best tree's that was not probed yet and may win: in turn the one of least bound, and of
    those with the most siblings."""
    best, probed = state.incumbent.completed, state.probed
    if best is None or not isinstance(state.groups, Groups):
        return None
    waiting = [
        (len(probed) % 2 and -prod(map(prod, state.structures[number].classes)), bound, number)
        for number in groups_near(problem, state.structures, state.groups, best.mapping)
        if number not in probed and state.incumbent.beats(bound := state.bound_of_group(number))
    ]
    return state.group_of(min(waiting)[2]) if waiting else None


def _has_stepped(problem: Problem, measure: Measure, state: _State, entry: Entry, *, may_end: bool) -> bool:
    """Replace an entry, which was taken off the queue, by what a step makes of it; False where time ends before it
    (then the entry is back). may_end: whether a limit may end the search now."""
    incumbent = state.incumbent
    known = incumbent.groups.get(state.group_of(entry[2]).number)
    is_told = known is not None and known.multipliers == incumbent.multipliers
    is_long = not is_told or -entry[1] > Stage.SINGLE_TENSORS
    state.long_steps += is_long
    incumbent.count(0, polishes=is_long)
    try:
        if may_end and (incumbent.found or -entry[1] < Stage.SPLIT) and incumbent.out_of_time():
            raise OutOfTime
        group, number = state.group_of(entry[2]), entry[2]
        asked = problem, measure, state.structures[number], entry, incumbent, state.stop_points, group
        state.replace(entry, tuple(step_on(*asked, most=state.most_nodes)))
        incumbent.has_descended |= -entry[1] == Stage.SPLIT
    except OutOfTime:
        state.add(entry)
        return False
    return True


def _incumbent(
    measure: Measure,
    out_of_time: Stop,
    keep: int,
    found: Found,
    work: Work,
    caches: SearchCaches,
    others_wait: Stop = never,
) -> Incumbent:
    def stop() -> bool:
        return work.is_spent() or out_of_time() or (incumbent.has_descended and others_wait())

    incumbent = Incumbent(stop, keep, work=work, caches=caches)
    if measure.is_front:
        incumbent = Front(stop, work=work, caches=caches, parts=len(measure.shares), digit=measure.digit)
    for value, completed in found:
        incumbent.add(value, completed)
    return incumbent


@dataclass(frozen=True, slots=True)
class _StepContext:
    """What every step of a search needs, wherever it is done."""

    problem: Problem
    measure: Measure
    keep: int
    stop: Stop
    caches: SearchCaches = field(default_factory=SearchCaches)


@dataclass(frozen=True, slots=True)
class _StepTask:
    """A step that a process does: the trees that were found before, and how many steps there may be; what is known of
    the structure's group, and the multipliers of the last structure."""

    structure: Structure
    entry: Entry
    found: Found
    most: int | None
    stop_point: StopPoint | None
    group: Group
    known: GroupBound | None
    multipliers: Multipliers


@dataclass(frozen=True, slots=True)
class _StepResult:
    """What a step gives: the entries in place of its own, trees, nodes of the search, where a limit ended it; the bound
    of the structure's group, and the multipliers that the next steps begin with."""

    entries: tuple[Entry, ...]
    found: Found
    nodes: int
    stop_point: StopPoint | None
    known: GroupBound | None
    multipliers: Multipliers


def _rank(entry: Entry) -> tuple[int, int]:
    """Return what orders entries of equal bounds: what is worked out furthest comes first."""
    return entry[1:]


@dataclass(slots=True)
class _State:
    """A search as it stands: how many of the structures are bounded (None: the list is not whole), the queue of these,
    the best so far, where structures have gone; the numbers of each structure's group (groups_of).

    most_nodes: of a structure's search at a time. deferred: entries whose search takes longer; recalled at so many
    nodes of the search, when the incumbent may be better, or when nothing else is left. single: the bounds tensor by
    tensor that were taken in this run. made: groups that were asked for, by the numbers of their structures.
    long_steps: how many steps worked out something. next_probe: of these, when a group near the best is searched a
    little. idle_probes: since a better tree was found there. probed: such groups.
    """

    structures: Structures
    bounded: int | None
    queue: BestFirst[int, Entry]
    incumbent: Incumbent
    fates: StructureFates
    groups: Sequence[tuple[int, ...]]
    stop_points: StopPoints = field(default_factory=dict[Entry, StopPoint])
    most_nodes: int = field(default_factory=lambda: TUNING.nodes_at_once)
    deferred: list[Entry] = field(default_factory=list[Entry])
    single: dict[int, int] = field(default_factory=dict[int, int])
    made: dict[int, Group] = field(default_factory=dict[int, Group])
    recalled_at: int = 0
    long_steps: int = 0
    next_probe: int = 0
    idle_probes: int = 0
    probed: set[int] = field(default_factory=set[int])

    @property
    def known(self) -> bool:
        """Return whether the queue holds all that is left."""
        return self.bounded == len(self.structures)

    @property
    def is_partly_bounded(self) -> bool:
        """Return whether a limit left some of the structures without a bound, all of which are listed."""
        return self.bounded is not None and not self.known

    def bound_of_all(self, bound: int) -> int:
        """Return what bounds all that is left where the least bound in the queue is this (0: not known)."""
        return min([bound, *(entry[0] for entry in self.deferred)]) if self.known else 0

    def group_of(self, number: int) -> Group:
        """Return the group of a structure."""
        own = self.made.get(number)
        if own is None:
            numbers = self.groups[number] if self.groups else (number,)
            own = Group(numbers[0], tuple(self.structures[number] for number in numbers))
            self.made.update(dict.fromkeys(numbers, own))
        return own

    def bound_of_group(self, number: int) -> int | None:
        """Return the bound of a structure's group as far as it is known (None: nothing fits)."""
        numbers = self.groups[number]
        known = self.incumbent.groups.get(numbers[0])
        if known is not None:
            return known.bound
        return min((self.single.get(n, 0) for n in numbers if n not in self.fates.closed), default=None)

    def add(self, entry: Entry) -> None:
        """Queue an entry."""
        self.queue.add(entry[0], entry)

    def replace(self, entry: Entry, entries: tuple[Entry, ...]) -> None:
        """Put those that a step gives in the place of its entry; one whose search takes longer waits."""
        if entries == (entry,) and -entry[1] == Stage.SPLIT:
            self.recalled_at = self.recalled_at or self.incumbent.nodes + TUNING.most_ahead * self.most_nodes
            self.deferred.append(entry)
            return
        for one in entries:
            self.add(one)
        if entries != (entry,):  # a step that time has ended gives its own entry back
            self._record(entry, len(entries))

    def _record(self, entry: Entry, entries: int) -> None:
        """Record what became of a structure; where its entry stood for a group, of all of that."""
        _, stage, number = entry
        numbers = self.groups[number] if self.groups else (number,)
        known, is_searched = self.incumbent.groups.get(numbers[0]), -stage == Stage.SPLIT
        leader = None if known is None else known.leader
        if not entries and leader not in (None, number):
            self.fates.prune([number])
            return
        self.fates.step(number, entries, searched=is_searched)
        if is_searched and leader == number:
            self.fates.searched.update(numbers)

    def recall(self, *, all_of_them: bool = False) -> None:
        """Put the deferred entries back into the queue, if it is time."""
        if self.deferred and (all_of_them or not self.queue or self.incumbent.nodes >= self.recalled_at):
            for entry in self.deferred:
                self.add(entry)
            self.deferred.clear()
            self.recalled_at, self.most_nodes = 0, self.most_nodes * 2

    def cut(self, number: int) -> None:
        """Prune a structure whose bound does not beat the best, and the whole queue with it where values are totally
        ordered: its other bounds are no less."""
        self.fates.prune([number])
        if self.incumbent.is_ordered:
            self.fates.prune(entry[2] for _, entry in self.queue)
            self.queue = BestFirst[int, Entry](_rank)

    def take(self, entry: Entry, done: _StepResult) -> None:
        """Take what a step on an entry gives."""
        for value, completed in done.found:
            if self.incumbent.beats(value):
                self.incumbent.add(value, completed)
        self.incumbent.count(0)
        if done.nodes:
            self.incumbent.count(done.nodes)
        if done.stop_point is not None:
            self.stop_points[done.entries[0]] = done.stop_point
        if done.known is not None:
            self.incumbent.groups[self.group_of(entry[2]).number] = done.known
        self.incumbent.multipliers = done.multipliers
        self.replace(entry, done.entries)

    def ended(self) -> Outcome:
        """Return the outcome of a search that a limit ends."""
        self.recall(all_of_them=True)
        alive = tuple(entry for bound, entry in self.queue if self.incumbent.beats(bound))
        self.fates.prune(entry[2] for bound, entry in self.queue if not self.incumbent.beats(bound))
        rest = (
            None if self.bounded is None else Rest(self.structures, self.bounded, alive, self.fates, self.stop_points)
        )
        return replace(self.outcome(tuple(entry[0] for entry in alive)), rest=rest, is_late=rest is None)

    def outcome(self, left: tuple[int, ...]) -> Outcome:
        """Return the outcome; no bound exceeds the best value. left: bounds of what was not searched.

        Nothing is left only where every structure is accounted for, and a tree that was found is one of a structure
        that has trees; else what is left is unknown.
        """
        where, found = self.fates.count(), tuple(self.incumbent.found)
        some = not found or where.infeasible < self.fates.listed
        if not self.known:
            where = replace(where, listed=None)
        if not self.known or (not left and not (where.is_whole and some)):
            return Outcome(found, None, where, self.incumbent.nodes, None)
        left = tuple(dict.fromkeys(left))
        best = [found[0][0]] if found else []
        return Outcome(found, min((*left, *best), default=None), where, self.incumbent.nodes, left)


def _step_result(bench: _StepContext, task: _StepTask) -> _StepResult:
    """Do one step of at most so many nodes, knowing the trees that were found before."""
    incumbent = _incumbent(bench.measure, bench.stop, bench.keep, task.found, Work(task.most), bench.caches)
    incumbent.multipliers, group = task.multipliers, task.group
    if task.known is not None:
        incumbent.groups[group.number] = task.known
    stop_points = {} if task.stop_point is None else {task.entry: task.stop_point}
    try:
        if bench.stop():
            raise OutOfTime
        steps = step_on(bench.problem, bench.measure, task.structure, task.entry, incumbent, stop_points, group)
        entries = tuple(steps)
    except OutOfTime:
        entries = (task.entry,)
    stopped, known = next(iter(stop_points.values()), None), incumbent.groups.get(group.number)
    return _StepResult(entries, tuple(incumbent.found), incumbent.nodes, stopped, known, incumbent.multipliers)


def _has_entry(problem: Problem, measure: Measure, state: _State) -> bool:
    """Return whether the queue has an entry, having bounded more structures where none of it may win."""
    state.recall()
    while state.is_partly_bounded and not state.incumbent.out_of_time():
        if state.queue.bound is not None and state.incumbent.beats(state.queue.bound):
            break
        _bound_single_tensors(problem, measure, state)
    return bool(state.queue)


def _step_task(state: _State, entry: Entry) -> _StepTask:
    incumbent, group, stopped = state.incumbent, state.group_of(entry[2]), state.stop_points.pop(entry, None)
    told = stopped, group, incumbent.groups.get(group.number), incumbent.multipliers
    return _StepTask(state.structures[entry[2]], entry, tuple(incumbent.found), incumbent.work.left, *told)


def _parallel_outcome(bench: _StepContext, state: _State, report: Report, processes: Processes) -> Outcome:
    """Go on with a search in several processes. A step knows what all steps but the `steps_ahead` - 1 right before it
    have found: the answer does not depend on which process is faster."""
    state.recall(all_of_them=True)
    queue, incumbent = state.queue, state.incumbent
    from polymap.resources import WorkerPool  # loads multiprocessing, which few searches need

    args = (bench.problem, bench.measure, bench.keep)
    with WorkerPool(processes, _StepContext, args, _step_result, bench.stop) as pool:
        given: deque[Entry] = deque()
        while True:
            if not queue:
                _has_entry(bench.problem, bench.measure, state)
            while queue and pool.waiting < TUNING.steps_ahead and not incumbent.out_of_time():
                entry = queue.take()
                if not incumbent.beats(entry[0]):
                    state.fates.prune([entry[2]])
                    continue
                given.append(entry)
                _bound_beside(bench.problem, bench.measure, state, entry)
                pool.submit(_step_task(state, entry))
            if not pool.waiting:
                return state.ended() if queue or state.is_partly_bounded else state.outcome(())
            least = min(*(entry[0] for entry in given), given[0][0] if queue.bound is None else queue.bound)
            report(tuple(incumbent.found), least if state.known else 0)
            state.take(given[0], pool.next_result())
            given.popleft()


def _initial_state(
    problem: Problem,
    measure: Measure,
    incumbent: Incumbent,
    report: Report,
    before: Outcome | None,
    listing: Stop,
    *,
    looks_first: bool,
) -> _State:
    """Return the search at its beginning; what is left of an earlier one where there is one. listing: what ends the
    list of structures."""
    rest = None if before is None else before.rest
    if rest is not None:
        queue = BestFirst[int, Entry](_rank, ((entry[0], entry) for entry in rest.queue))
        groups, fates = groups_of(problem, rest.structures), deepcopy(rest.fates)
        state = _State(rest.structures, rest.bounded, queue, incumbent, fates, groups, dict(rest.stop_points))
        _bound_single_tensors(problem, measure, state)
        return state
    structures, is_whole = _list_structures(problem, listing)
    if looks_first:
        _first_trees(problem, measure, structures, incumbent)
    if incumbent.found:
        report(tuple(incumbent.found), 0)
    fates, groups = StructureFates(len(structures)), groups_of(problem, structures)
    state = _State(structures, 0, BestFirst[int, Entry](_rank), incumbent, fates, groups)
    _bound_single_tensors(problem, measure, state)
    incumbent.listed(len(structures) if is_whole else None)
    return state if is_whole else replace(state, bounded=None)


def _list_structures(problem: Problem, stop: Stop) -> tuple[Structures, bool]:
    """Return the structures of a problem, one of each kind, and whether these are all (False where `stop` said so)."""
    found, complete = enumerate_structures(problem, stop)
    return _by_window_factors(problem, distinct_structures(problem, found)), complete


def count_of_refuted(problem: Problem, stop: Stop) -> Count:
    """Return that all structures but the best one are refuted, all at once; where several fan-outs stand between two
    levels, or time ends before, they are too many to be listed for that."""
    if len({one.below for one in problem.classes}) < len(problem.classes):
        return Count(evaluated=1)
    structures, is_whole = _list_structures(problem, stop)
    return Count(len(structures), 1, len(structures) - 1) if is_whole else Count(evaluated=1)


def open_structures(outcome: Outcome) -> OpenStructures | None:
    """Return what is left of a search that a limit ended; None where nothing is, or its structures were not listed."""
    rest = outcome.rest
    if rest is None:
        return None
    searched, refuted = (tuple(sorted(numbers)) for numbers in (rest.fates.searched, rest.fates.refuted))
    return OpenStructures(len(rest.structures), rest.bounded, tuple(sorted(rest.queue)), searched, refuted)


def outcome_to_resume(problem: Problem, left: OpenStructures, found: Found) -> Outcome | None:
    """Return what `solve` goes on from, in another run than that which left it; None where the problem has other
    structures. found: the mapping that was known, or none."""
    structures, _ = _list_structures(problem, never)
    if len(structures) != left.listed:
        return None
    rest = Rest(structures, left.bounded, left.queue, left.fates(), {})
    return Outcome(found, None, rest.fates.count(), 0, None, rest)


def _first_trees(problem: Problem, measure: Measure, structures: Structures, incumbent: Incumbent) -> None:
    """Score least-cost chains of a few structures that promise most, or search a few nodes of these, so that there is
    an answer from the start."""
    stop = incumbent.out_of_time
    # The least chain of one component says little of several: a few nodes are searched.
    searches = not measure.is_linear and not measure.is_front and incumbent.keep == 1
    compared = TUNING.compared_searched if searches else TUNING.compared_first
    for structure in _promising_structures(problem, measure, structures, incumbent, compared):
        context = root_context(problem, structure, places_of(problem, structure)[0])
        try:
            if searches:
                solve_structures(problem, measure, (structure,), incumbent, None, None, TUNING.probed_nodes)
                continue
            bounds = BoundTables(build_tables(problem, structure, measure, context, stop, incumbent.caches))
            if least_value(bounds) is not None:
                improve_multipliers(StructureSearch(bounds.tables, FREE, incumbent), bounds.insides[0], None)
        except OutOfTime:
            break
    if not incumbent.found and incumbent.keep == 1 and not incumbent.out_of_time():
        polish = incumbent.polish
        left = incumbent.work.left
        budget = min(TUNING.drawn, _size(problem, structures), TUNING.drawn if left is None else left)
        drawn = None if polish is None or budget < TUNING.worthwhile else polish.first(budget)
        if drawn is not None:
            incumbent.add(*drawn)


def _promising_structures(
    problem: Problem, measure: Measure, structures: Structures, incumbent: Incumbent, most: int
) -> tuple[Structure, ...]:
    """Return the two structures of least bounds, tensor by tensor, and that of the least among the most parallel ones:
    among all where they are at most `most`, else among the most parallel ones and some others."""
    if not len(structures):
        return ()
    siblings = np.prod(structures.classes.reshape(len(structures), -1), axis=1)
    if len(structures) > most:
        half, order = most // 2, np.argsort(-siblings, kind="stable")
        some = np.concatenate([order[:half], order[half :: len(order) // half]])
        structures, siblings = structures.only(structures.chosen[some]), siblings[some]
    bounds = single_tensor_bounds(problem, measure, structures, incumbent.caches)
    known = [
        (bound, -count, number)
        for number, (bound, count) in enumerate(zip(bounds, siblings.tolist(), strict=True))
        if bound is not None
    ]
    best = dict.fromkeys((*sorted(known)[:2], *sorted(known, key=lambda one: (one[1], one[0]))[:1]))
    return tuple(structures[number] for *_, number in best)


def _size(problem: Problem, structures: Structures) -> int:
    """Return how many choices of one tile per dim there are in all structures together."""
    return len(structures) * prod(len(divisors(extent)) for extent in problem.workload.extents().values())


def _by_window_factors(problem: Problem, structures: Structures) -> Structures:
    """Return the structures with equal factors of window dims side by side: they share tables of loads."""
    windows = {dim for term in problem.terms for dim in term.window_dims}
    return structures.sorted_by([d for d, dim in enumerate(problem.dims) if dim in windows])


def _bound_single_tensors(problem: Problem, measure: Measure, state: _State) -> None:
    """Put the structures that are not bounded yet into the queue, at their bounds tensor by tensor, until a limit is
    reached; each is a step. They take half of a work limit at most, so that some are searched too."""
    first, work = state.bounded or 0, state.incumbent.work
    last = len(state.structures) if work.left is None else min(len(state.structures), first + 1 + work.left // 2)
    while first < last and not (first and state.incumbent.out_of_time()):
        most = min(TUNING.bounded_at_once, last - first)
        some = state.structures[first : first + most]
        for number, bound in enumerate(single_tensor_bounds(problem, measure, some, state.incumbent.caches), first):
            if bound is None or not state.incumbent.beats(bound):
                state.fates.closed_at_once(number, refuted=bound is not None)
                continue
            state.fates.entries[number], state.single[number] = 1, bound
            state.add((bound, -Stage.SINGLE_TENSORS, number))
        first += len(some)
        work.add(len(some))
    state.bounded = first
