"""Schedules that isl's scheduler computes."""

from __future__ import annotations

from polymap.ir import Affine, Workload
from polymap.poly import budget, computed_order, within
from polymap.schedules import Schedule, TimeDim
from polymap.transform.legality import checked
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
    relaxed = workload.associative and not strict
    with budget(what="isl's scheduler"):
        domains = [domain_of(workload, each) for each in workload.statements]
        kept = [
            relation
            for dependence, relation in dependence_relations(workload)
            if not (relaxed and dependence.kind is Kind.REDUCTION)
        ]
        return computed_order(domains, kept)
