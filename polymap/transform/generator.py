"""Schedules that isl's scheduler computes."""

from __future__ import annotations

from collections.abc import Iterator

from polymap.ir import Affine, Workload
from polymap.poly import Clock, Map, at_same_time, budget, computed_order, within
from polymap.schedules import Schedule, TimeDim
from polymap.transform.legality import checked, clocks_of
from polymap.workload import Kind, dependence_relations, domain_of

SECONDS = 20.0


def isl_schedule(workload: Workload, *, strict: bool = False, seconds: float = SECONDS) -> Schedule:
    """Return the legal schedule that isl's scheduler (Pluto-like) computes: fused nests, skewed where that makes bands
    permutable, parallel loops outermost where it finds them.

    Rewrite:
        for t { for i {A[i] = A[i-1] + A[i] + A[i+1]} }   ->   S0[t,i] -> [t, t + i]

    Raises BudgetError after `seconds` of wall time.
    """
    times = within(seconds, "isl's scheduler", isl_times, workload, strict=strict)
    table = {name: [TimeDim(time) for time in each] for name, each in times.items()}
    found = Schedule.of(workload, table, strict=strict)
    return checked(found, "isl's schedule", unsafe=False, advice=lambda: "Please report this as a bug.")


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
