"""The exact objective of a mapping with tiles of any size, and by how much it exceeds capacities."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from polymap.costmodel import Cost, assemble, bounding_machine
from polymap.costmodel.closed_form import count_closed_form
from polymap.ir import Architecture, Mapping, PolymapError, Workload
from polymap.schedules import check_mapping, placement_violations
from polymap.search.problem.goals import Objective
from polymap.search.problem.measure import objective_values


@dataclass(frozen=True, slots=True)
class Scored:
    """The score of a mapping. excess: by how much it exceeds capacities, 0 where it fits. value: the exact
    objective."""

    excess: Fraction
    value: Fraction
    cost: Cost


def exact_score(
    workload: Workload, arch: Architecture, objective: Objective, mapping: Mapping, enough: Fraction | None = None
) -> Scored | None:
    """Return the score of a mapping; None where it is illegal for another reason, or the closed form does not apply.

    Where steps take cycles of their own, value and cost of one that exceeds capacities, or is surely worth `enough`
    and more, are those on the machine that bounds them from below.
    """
    try:
        check_mapping(workload, arch, mapping)
        if placement_violations(workload, arch, mapping):
            return None
        less = _bounding(workload, arch) if arch.is_timed_by_step else arch
        counts = count_closed_form(workload, less, mapping, metered=True)
        if counts is None:
            return None
        excess = Fraction(0)
        for level, use in zip(arch.levels, counts.uses, strict=True):
            if level.capacity_bits is not None:
                excess += max(Fraction(0), Fraction(use.occupancy_bits * level.buffering, level.capacity_bits) - 1)
        cost = assemble(workload, less, counts, (), "closed form", mapping)
        value = objective_values(workload, arch, objective, cost)[0]
        if less is not arch and not excess and (enough is None or value < enough):
            cost = assemble(workload, arch, counts, (), "closed form", mapping)
            value = objective_values(workload, arch, objective, cost)[0]
    except PolymapError:
        return None
    return Scored(excess, value, cost)


_bounding = lru_cache(maxsize=16)(bounding_machine)
