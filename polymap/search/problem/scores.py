"""The exact objective of a mapping with tiles of any size, and by how much it exceeds capacities."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from polymap.costmodel import Cost, assemble, bounding_machine
from polymap.costmodel.closed_form import count_closed_form
from polymap.ir import Architecture, Mapping, PolymapError, Workload
from polymap.schedules import check_mapping, placement_violations
from polymap.search.problem.goals import in_sums
from polymap.search.problem.measure import objective_values
from polymap.search.problem.objectives import Objective


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a mapping. excess: by how much it exceeds capacities, 0 where it fits. value: the exact
    objective."""

    excess: Fraction
    value: Fraction
    cost: Cost


def exact_score(
    workload: Workload, arch: Architecture, objective: Objective, mapping: Mapping, enough: Fraction | None = None
) -> Score | None:
    """Return the score of a mapping; None where it is illegal for another reason, or the closed form does not apply.

    Where steps take cycles of their own, or bursts or requests are asked for, value and cost of one that exceeds
    capacities, or is surely worth `enough` and more, are those of the question that bounds them from below.
    """
    try:
        check_mapping(workload, arch, mapping)
        if placement_violations(workload, arch, mapping):
            return None
        less, sums = bounding_question(workload, arch, objective)
        counts = count_closed_form(workload, less, mapping, metered=True)
        if counts is None:
            return None
        excess = Fraction(0)
        for level, use in zip(arch.levels, counts.uses, strict=True):
            if level.capacity_bits is not None:
                excess += max(Fraction(0), Fraction(use.occupancy_bits * level.buffering, level.capacity_bits) - 1)
        cost = assemble(workload, less, counts, (), "closed form", mapping)
        value = objective_values(workload, less, sums, cost)[0]
        is_bound = less is not arch or sums is not objective
        if is_bound and not excess and (enough is None or value < enough):
            cost = assemble(workload, arch, counts, (), "closed form", mapping)
            value = objective_values(workload, arch, objective, cost)[0]
    except PolymapError:
        return None
    return Score(excess, value, cost)


@lru_cache(maxsize=16)
def bounding_question(
    workload: Workload, arch: Architecture, objective: Objective, *, divides: bool = False
) -> tuple[Architecture, Objective]:
    """Return a machine without steps and an objective of sums of traffic by which each mapping costs at most what it
    costs by these (divides: each whose tiles divide); they themselves where that is what they are."""
    machine = bounding_machine(workload, arch, divides=divides) if arch.is_timed_by_step else arch
    return machine, in_sums(arch, objective)
