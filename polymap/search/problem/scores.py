"""The exact objective of a mapping with tiles of any size, and by how much it exceeds capacities."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from polymap.costmodel import Cost, assemble
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


def exact_score(workload: Workload, arch: Architecture, objective: Objective, mapping: Mapping) -> Scored | None:
    """Return the score of a mapping; None where it is illegal for another reason, or the closed form does not apply.

    The value of one that exceeds capacities is without what single steps take.
    """
    try:
        check_mapping(workload, arch, mapping)
        if placement_violations(workload, arch, mapping):
            return None
        counts = count_closed_form(workload, arch, mapping, metered=True)
        if counts is None:
            return None
        excess = Fraction(0)
        for level, use in zip(arch.levels, counts.uses, strict=True):
            if level.capacity_bits is not None:
                excess += max(Fraction(0), Fraction(use.occupancy_bits * level.buffering, level.capacity_bits) - 1)
        timed = _without_steps(arch) if excess and arch.is_timed_by_step else arch
        cost = assemble(workload, timed, counts, (), "closed form", mapping)
    except PolymapError:
        return None
    return Scored(excess, objective_values(workload, arch, objective, cost)[0], cost)


@lru_cache(maxsize=16)
def _without_steps(arch: Architecture) -> Architecture:
    return arch.without_steps()
