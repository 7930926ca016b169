"""isl's own schedule of a program, as a text: what baseline (b) of `polybench.py` begins with, asked in a process."""

from __future__ import annotations

import islpy as isl

from polymap.ir import Workload
from polymap.workload import dependence_relations, domain_of


def schedule_text(workload: Workload) -> str:
    """Return the schedule of isl's own scheduler."""
    domain, validity = None, None
    for statement in workload.statements:
        one = isl.UnionSet.from_set(domain_of(workload, statement))
        domain = one if domain is None else domain.union(one)
    assert domain is not None, "a program has statements"
    constraints = isl.ScheduleConstraints.on_domain(domain)
    for _, relation in dependence_relations(workload):
        one = isl.UnionMap.from_map(relation)
        validity = one if validity is None else validity.union(one)
    if validity is not None:
        constraints = constraints.set_validity(validity).set_proximity(validity)
    return str(constraints.compute_schedule())
