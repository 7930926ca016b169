"""One mapping's cost: counted in closed form, by isl sets where that does not reach, or by the simulator as referee."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from polymap.arch.machine import Architecture
from polymap.costmodel.assemble import assemble, capacity_violations
from polymap.costmodel.closed_form import count_closed_form
from polymap.costmodel.cost import Cost, Counts
from polymap.costmodel.symbolic_formula import Formula
from polymap.schedules.check import check_mapping, placement_violations
from polymap.schedules.mapping import Mapping
from polymap.schedules.violation import Violation
from polymap.workload.loopnest import Operator, Workload


def evaluate(workload: Workload, arch: Architecture, mapping: Mapping) -> Cost:
    """Return the cost of a mapping, its counts exact; `method` says how they were counted ("closed form", "sets").

    Violations make the cost illegal and do not keep it from being counted. Raises MappingError where the tree cannot
    be read as a program, BudgetError where the counts are out of reach.
    """
    check_mapping(workload, arch, mapping)
    counts, method = _counted(workload, arch, mapping)
    return _cost(workload, arch, mapping, counts, method)


def simulate(workload: Workload, arch: Architecture, mapping: Mapping) -> Cost:
    """Return the cost of a mapping counted by walking its steps: the referee, for small cases."""
    from polymap.costmodel.simulate import count_by_simulation

    check_mapping(workload, arch, mapping)
    counts = count_by_simulation(workload, arch, mapping)
    return _cost(workload, arch, mapping, counts, "simulation")


def violations(workload: Workload, arch: Architecture, mapping: Mapping) -> tuple[Violation, ...]:
    """Return why a mapping is not legal, () where it is: placement, dependences, capacity."""
    check_mapping(workload, arch, mapping)
    return _violations(workload, arch, mapping, _counted(workload, arch, mapping)[0])


def _cost(workload: Workload, arch: Architecture, mapping: Mapping, counts: Counts, method: str) -> Cost:
    cost = assemble(workload, arch, counts, _violations(workload, arch, mapping, counts), method)
    return replace(cost, formulas=partial(_formula, workload, arch, mapping))


def _formula(workload: Workload, arch: Architecture, mapping: Mapping, level: str, tensor: str) -> Formula:
    from polymap.costmodel.symbolic import formula  # sympy is loaded by those who ask for a formula

    return formula(workload, arch, mapping, level, tensor)


def _counted(workload: Workload, arch: Architecture, mapping: Mapping) -> tuple[Counts, str]:
    counts = count_closed_form(workload, arch, mapping, metered=True)
    if counts is not None:
        return counts, "closed form"
    from polymap.costmodel.sets import count_with_sets  # isl is loaded where it is needed

    return count_with_sets(workload, arch, mapping), "sets"


def _violations(workload: Workload, arch: Architecture, mapping: Mapping, counts: Counts) -> tuple[Violation, ...]:
    return (
        *placement_violations(workload, arch, mapping),
        *_dependence_violations(workload, arch, mapping),
        *capacity_violations(arch, counts),
    )


def _dependence_violations(workload: Workload, arch: Architecture, mapping: Mapping) -> tuple[Violation, ...]:
    if _any_order_is_legal(workload):
        return ()
    from polymap.costmodel.stale import stale_copies
    from polymap.schedules.legality import dependence_violations

    return dependence_violations(workload, mapping) or stale_copies(workload, arch, mapping)


def _any_order_is_legal(workload: Workload) -> bool:
    """Return whether there is one statement that accumulates in any order and never reads what it writes."""
    if len(workload.statements) != 1 or not workload.associative:
        return False
    (statement,) = workload.statements
    reads_target = any(access.tensor == statement.target.tensor for access in statement.reads)
    return statement.operator is not Operator.ASSIGN and not reads_target
