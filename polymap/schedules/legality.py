"""Legality of orders, tilings, parallel loops and mappings; every violation comes with two statement instances.

Sign vectors (`signs`) decide orders without isl; here isl decides everything, and tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import Enum

from polymap.ir import BudgetError, InstancePoint, Mapping, Mistake, Violation, Workload
from polymap.poly import Clock, Map, at_same_time, budget, first_pair, is_exhausted, is_open, not_in_order, within
from polymap.schedules.relation import Times, schedule_of
from polymap.schedules.signs import band, carried_by, legal_permutations, only_accumulates, sign_vectors
from polymap.schedules.tuning import TUNING
from polymap.workload import Dependence, Kind, dependence_relations, dependences


class Parallel(Enum):
    """Whether a loop's iterations may run in parallel; REDUCTION: if their partial sums are added afterwards."""

    YES = "yes"
    REDUCTION = "reduction"
    NO = "no"


def legal_orders(workload: Workload, *, strict: bool = False) -> Iterator[tuple[str, ...]]:
    """Yield the legal orders of the outermost perfectly nested loops (`band`), in lexicographic order of position.

    strict: keep the order of accumulations; otherwise they may be reordered if the workload is associative.
    """
    loops = band(workload)
    for permutation in legal_permutations(sign_vectors(workload, strict=strict), len(loops)):
        yield tuple(loops[position] for position in permutation)


def dependence_violations(
    workload: Workload, mapping: Mapping, *, strict: bool = False, seconds: float = TUNING.legality_s
) -> tuple[Violation, ...]:
    """Return one violation per dependence that the mapping breaks, each with two statement instances.

    Instances in one step at different coordinates of a fan-out run simultaneously and must not depend on each other.
    The mapping must be one that `check_mapping` accepts.
    """
    if workload.associative and not strict and only_accumulates(workload):
        return ()
    return schedule_violations(workload, schedule_of(workload, mapping), strict=strict, seconds=seconds)


def schedule_violations(
    workload: Workload, schedule: Times, *, strict: bool = False, seconds: float = TUNING.legality_s
) -> tuple[Violation, ...]:
    """Return one violation per dependence that the schedule breaks (see `relation` for what a schedule is).

    Raises BudgetError where this takes more than `seconds` of CPU time.
    """
    what = "the legality of a mapping"
    with suppress(BudgetError):  # kept for the next question; a process of its own may find them
        dependence_relations(workload)
    try:
        return within(seconds, what, _schedule_violations, workload, dict(schedule), strict=strict)
    except BudgetError as error:
        if is_open() or not is_exhausted(error):
            raise
        hint = "Smaller extents, or fewer floors and modulos in subscripts and tiles that divide, would help."
        raise BudgetError(Mistake("PM518", f"{what} takes more than {seconds:.3g} s to decide", hint)) from None


def _schedule_violations(workload: Workload, schedule: Times, *, strict: bool) -> tuple[Violation, ...]:
    relaxed = workload.associative and not strict
    found: list[Violation] = []
    with budget(what="the legality of a mapping"):
        for dependence, relation in dependence_relations(workload):
            if relaxed and dependence.kind is Kind.REDUCTION:
                continue
            clocks = [_clock(workload, schedule, name) for name in (dependence.source, dependence.sink)]
            broken = not_in_order(relation, clocks[0], clocks[1])
            if broken is not None:
                found.append(_violation(workload, schedule, dependence, broken))
    return tuple(found)


def parallel_loops(workload: Workload) -> tuple[tuple[str, Parallel], ...]:
    """Return, for every loop in program order, whether its iterations may run in parallel."""
    return tuple((each.name, parallel_loop(workload, each.name)) for each in workload.dims)


def parallel_loop(workload: Workload, name: str) -> Parallel:
    """Return whether the iterations of a loop may run in parallel while the loops outside it run in order."""
    answer = Parallel.YES
    for dependence in dependences(workload):
        if name not in dependence.dims or not carried_by(dependence.signs, dependence.dims.index(name)):
            continue
        if dependence.kind is not Kind.REDUCTION or not workload.associative:
            return Parallel.NO
        answer = Parallel.REDUCTION
    return answer


def parallel_places(workload: Workload, schedule: Times) -> tuple[Parallel, ...]:
    """Return, per position of a legal schedule, whether instances that first differ there are independent."""
    length = max(len(times) for times in schedule.values())
    answers = [Parallel.YES] * length
    with budget(TUNING.places_operations, what="the parallel loops of a schedule"):
        for dependence, relation in dependence_relations(workload):
            source, sink = (_clock(workload, schedule, name) for name in (dependence.source, dependence.sink))
            relaxed = workload.associative and dependence.kind is Kind.REDUCTION
            for place in _carrying_places(relation, source, sink, length):
                if not relaxed:
                    answers[place] = Parallel.NO
                elif answers[place] is Parallel.YES:
                    answers[place] = Parallel.REDUCTION
    return tuple(answers)


def point(workload: Workload, statement: str, counters: Sequence[int]) -> InstancePoint:
    """Return a statement instance with the values of the user's own loop variables."""
    own = {each.name: each for each in workload.dims}
    dims = [own[name] for name in workload.statement(statement).dims]
    values = tuple((each.name, each.origin + each.step * counter) for each, counter in zip(dims, counters, strict=True))
    return InstancePoint(statement, values)


def _clock(workload: Workload, schedule: Times, statement: str) -> Clock:
    return Clock(statement, workload.statement(statement).dims, schedule[statement])


def _carrying_places(relation: Map, source: Clock, sink: Clock, length: int) -> Iterator[int]:
    """Yield the positions of a legal schedule at which some pair of the relation first differs."""
    for place in range(length):
        if relation.is_empty():
            return
        equal = relation.intersect(at_same_time(source, sink, place))
        if not equal.is_equal(relation):
            yield place
        relation = equal


def _violation(workload: Workload, schedule: Times, dependence: Dependence, broken: Map) -> Violation:
    pair = first_pair(broken)
    assert pair is not None
    first, second = point(workload, dependence.source, pair[0]), point(workload, dependence.sink, pair[1])
    together = _time(workload, schedule, dependence.source, pair[0]) == _time(
        workload, schedule, dependence.sink, pair[1]
    )
    when = "in the same step as" if together else "before"
    message = (
        f"{_phrase(dependence)}: {instance_text(second)} must come after {instance_text(first)}, but runs {when} it. "
        f"{_advice(workload, dependence)}"
    )
    return Violation("dependence", message.rstrip(), (first, second))


def _time(workload: Workload, schedule: Times, statement: str, counters: Sequence[int]) -> tuple[int, ...]:
    at = dict(zip(workload.statement(statement).dims, counters, strict=True))
    times = [place.evaluate(at) for place in schedule[statement]]
    while times and times[-1] == 0:
        times.pop()
    return tuple(times)


def _phrase(dependence: Dependence) -> str:
    article = "An" if dependence.kind in (Kind.ANTI, Kind.OUTPUT) else "A"
    return f"{article} {dependence.kind.value} dependence of {dependence.tensor} is broken"


def instance_text(instance: InstancePoint) -> str:
    """Return a statement instance as text, such as S0[i=2, j=1]."""
    return f"{instance.statement}[{', '.join(f'{name}={number}' for name, number in instance.values)}]"


def _advice(workload: Workload, dependence: Dependence) -> str:
    """Return what would work: an associative accumulation, or the legal orders of the loops."""
    if dependence.kind is Kind.REDUCTION:
        return f"Declare the accumulation into {dependence.tensor} associative and it may be reordered and split."
    loops = band(workload)
    if len(loops) < 2:
        return ""
    orders: list[str] = []
    for order in legal_orders(workload):
        if len(orders) == TUNING.shown_orders:
            return f"Legal orders of its loops begin with: {'; '.join(orders)}."
        orders.append(" ".join(order))
    return f"Legal orders of its loops: {'; '.join(orders)}."
