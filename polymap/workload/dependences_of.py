"""The dependences of a program, or of a built-in one by its name."""

from __future__ import annotations

from polymap.asked import workload_of
from polymap.ir import Workload
from polymap.workload.dependence_analysis import Dependence, dependence_relations


def dependences(workload: Workload | str) -> tuple[Dependence, ...]:
    """Return the memory-based dependences, tensor by tensor in program order (BudgetError if isl gives up)."""
    return tuple(dependence for dependence, _ in dependence_relations(workload_of(workload)))
