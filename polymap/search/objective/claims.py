"""Whether a mapping costs what a search says that it does: what every proof of an optimum rests on."""

from __future__ import annotations

from fractions import Fraction

from polymap.costmodel import Cost, evaluate
from polymap.ir import Architecture, Mapping, Workload
from polymap.search.objective.measure import objective_values
from polymap.search.problem import Objective


def is_confirmed(
    workload: Workload,
    arch: Architecture,
    objective: Objective,
    mapping: Mapping,
    claimed: tuple[Fraction, ...],
    cost: Cost | None = None,
) -> bool:
    """Return whether a mapping is legal and costs exactly what a search claims: one value, of an order or a front one
    per part. cost: what `evaluate` says of the mapping, where that is known.

    A search compares bounds with what it thinks that its mapping costs. The cost model shares no formula with it: where
    the two differ, the bounds of that search prove nothing, and the next prover is asked.
    """
    cost = cost or evaluate(workload, arch, mapping)
    return cost.legal and objective_values(workload, arch, objective, cost) == claimed
