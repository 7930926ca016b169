"""Schedules that isl's scheduler computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from polymap.inputs import answers_in_words
from polymap.ir import Affine, Workload
from polymap.poly import Clock, Effort, Map, at_same_time, budget, computed_order, within_work
from polymap.schedules import Schedule, TimeDim
from polymap.transform.legality import checked, clocks_of
from polymap.transform.tuning import TUNING
from polymap.workload import Kind, dependence_relations, domain_of


@answers_in_words
def isl_schedule(workload: Workload, *, strict: bool = False, time_limit_s: float | None = None) -> Schedule:
    """Return the legal schedule that isl's scheduler (Pluto-like) computes: fused nests, skewed where that makes bands
    permutable, parallel loops outermost where it finds them.

    Rewrite:
        for t { for i {A[i] = A[i-1] + A[i] + A[i+1]} }   ->   S0[t,i] -> [t, t + i]

    Raises ScheduleError (PM285) where isl finds none, BudgetError after a million of isl's operations, 8 seconds of CPU
    time, or `time_limit_s` of wall time (None: what a busy machine may need).
    """
    found = isl_order(workload, strict=strict, time_limit_s=time_limit_s)
    return checked(found, "isl's schedule", unsafe=False, advice=lambda: "Please report this as a bug.")


@answers_in_words
def isl_order(
    workload: Workload,
    *,
    strict: bool = False,
    time_limit_s: float | None = None,
    cpu_s: float = TUNING.generator_cpu_s,
    is_over: Callable[[], bool] = lambda: False,
) -> Schedule:
    """Return the schedule that isl's scheduler computes, not checked by our own analysis of dependences.

    Raises BudgetError as `isl_schedule` does (after `cpu_s` seconds of CPU time), and where `is_over` tells so.
    """
    effort = Effort(TUNING.generator_operations, cpu_s, time_limit_s, is_over)
    times = within_work(effort, "isl's scheduler", isl_times, workload, strict=strict)
    table = {name: [TimeDim(time) for time in each] for name, each in times.items()}
    return Schedule.of(workload, table, strict=strict)


def isl_times(workload: Workload, *, strict: bool) -> dict[str, tuple[Affine, ...]]:
    """Return statement name -> time tuple of isl's schedule."""
    original = Schedule.original(workload)
    relaxed = workload.associative and not strict
    with budget(what="isl's scheduler"):
        domains = [domain_of(workload, each) for each in workload.statements]
        kept = [
            part
            for dependence, relation in dependence_relations(workload)
            if not (relaxed and dependence.kind is Kind.REDUCTION)
            for part in _by_level(clocks_of(original, dependence), relation)
        ]
        return computed_order(domains, kept)


def _by_level(clocks: tuple[Clock, Clock], relation: Map) -> Iterator[Map]:
    """Yield the parts of a dependence that each loop carries.

    isl carries a part as a whole or not at all: it was seen to fail ("unable to carry dependences") on parts that join
    two levels.
    """
    for place in range(len(clocks[0].times)):
        same = at_same_time(*clocks, place)
        carried = relation.subtract(same)
        if not carried.is_empty():
            yield carried
        relation = relation.intersect(same)
