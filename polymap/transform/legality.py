"""What a schedule breaks: dependences that its order reverses, and those that its parallel and vector loops carry."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from polymap.inputs import answers_in_words
from polymap.ir import Dim, InstancePoint, Mistake, ScheduleError, Violation, Workload
from polymap.poly import Clock, Map, at_same_time, budget, first_pair
from polymap.schedules import Loop, LoopKind, Schedule, instance_text, point, schedule_violations
from polymap.transform.lifetimes import fold_violations
from polymap.workload import Dependence, Kind, dependence_relations

UNORDERED = (LoopKind.PARALLEL, LoopKind.VECTOR)
Advice = Callable[[], str]


@answers_in_words
def violations(schedule: Schedule) -> tuple[Violation, ...]:
    """Return what the schedule breaks, each with two statement instances; () where it is legal.

    Dependences are memory-based. Accumulations with one operator may be reordered (not run in parallel) if the workload
    is associative and the schedule not strict.
    """
    found = schedule_violations(schedule.workload, schedule.times, strict=schedule.strict)
    if found:
        return found
    unordered = [loop for loop in schedule.loops() if loop.kind in UNORDERED]
    found = tuple(each for loop in unordered for each in carried(schedule, loop))
    return found or tuple(fold_violations(schedule))


def carried(schedule: Schedule, loop: Loop) -> Iterator[Violation]:
    """Yield one violation per dependence of a legal order that the loop carries: its iterations are not independent."""
    with budget(what="the dependences of a loop"):
        for dependence, relation in carried_relations(schedule, loop):
            pair = first_pair(relation)
            assert pair is not None
            first = point(schedule.workload, dependence.source, pair[0])
            second = point(schedule.workload, dependence.sink, pair[1])
            kind = "accumulation" if dependence.kind is Kind.REDUCTION else f"{dependence.kind.value} dependence"
            message = (
                f"The iterations of {loop.name} are not independent: through {dependence.tensor} ({kind}) "
                f"{instance_text(second)} must come after {instance_text(first)}."
            )
            yield Violation("dependence", message, (first, second))


def carried_relations(schedule: Schedule, loop: Loop) -> Iterator[tuple[Dependence, Map]]:
    """Yield each dependence between different iterations of the loop, its outer loops in one iteration each.

    Call it inside `with budget():`.
    """
    for dependence, relation in inside(schedule, loop):
        clocks = clocks_of(schedule, dependence)
        rest = relation.subtract(at_same_time(*clocks, loop.position))
        if not rest.is_empty():
            yield dependence, rest


def inside(schedule: Schedule, loop: Loop) -> Iterator[tuple[Dependence, Map]]:
    """Yield the dependences between statements of the loop, all times outside it equal (inside `with budget():`)."""
    for dependence, relation in dependence_relations(schedule.workload):
        if dependence.source in loop.statements and dependence.sink in loop.statements:
            clocks = clocks_of(schedule, dependence)
            for place in range(loop.position):
                relation = relation.intersect(at_same_time(*clocks, place))
            if not relation.is_empty():
                yield dependence, relation


def clocks_of(schedule: Schedule, dependence: Dependence) -> tuple[Clock, Clock]:
    """Return when the instances of a dependence's two statements run."""
    source, sink = (
        Clock(name, schedule.workload.statement(name).dims, schedule.times[name])
        for name in (dependence.source, dependence.sink)
    )
    return source, sink


def checked(after: Schedule, step: str, *, unsafe: bool, advice: Advice) -> Schedule:
    """Return the schedule in normal form if it is legal or `unsafe`, else raise ScheduleError.

    step: what was asked, for the message. advice: says what would make the step legal.
    """
    if not unsafe:
        found = violations(after)
        if found:
            hint = " ".join(each for each in (advice(), counters_note(after.workload, found[0])) if each)
            raise ScheduleError(Mistake("PM433", f"{step} is illegal. {found[0].message}", hint), found)
    return after.normal()


def counters_note(workload: Workload, violation: Violation) -> str:
    """Return how the loop variables of a violation's instances, which have the values of the text, follow from the
    counters of schedules ("" where they are equal)."""
    named = {name for each in violation.witness if isinstance(each, InstancePoint) for name, _ in each.values}
    told = [counter_text(each) for each in workload.dims if each.name in named and (each.origin, each.step) != (0, 1)]
    return f"Schedules and arguments count from 0: {', '.join(told)}." if told else ""


def counter_text(loop: Dim) -> str:
    """Return a loop variable as a function of its counter, such as `i = 10 + 2 * counter`."""
    factor = "counter" if abs(loop.step) == 1 else f"{abs(loop.step)} * counter"
    if loop.step < 0:
        return f"{loop.name} = {loop.origin} - {factor}"
    return f"{loop.name} = {loop.origin} + {factor}" if loop.origin else f"{loop.name} = {factor}"


def impossible(what: str, hint: str = "") -> ScheduleError:
    """Return the error of a step that has no meaning here."""
    return ScheduleError(Mistake("PM432", what, hint))
