"""The check on which every proof of an optimum rests: whether a mapping costs what the search claims."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

from polymap.costmodel import Cost, evaluate
from polymap.ir import Architecture, BudgetError, Mapping, Workload
from polymap.search.problem.measure import objective_values
from polymap.search.problem.objectives import Objective


def is_confirmed(
    workload: Workload,
    arch: Architecture,
    objective: Objective,
    mapping: Mapping,
    claimed: tuple[Fraction, ...],
    cost: Cost | None = None,
) -> bool:
    """Return whether a mapping is legal and has exactly the claimed values: one, or one per part of an order or a
    front.

    A search compares bounds with its own cost of a mapping; the cost model shares no formula with it. Where the two
    differ, the bounds of that search prove nothing, and the next prover is asked. cost: of the mapping by `evaluate`,
    if known.
    """
    with suppress(BudgetError):
        cost = cost or evaluate(workload, arch, mapping)
    return cost is not None and cost.legal and objective_values(workload, arch, objective, cost) == claimed
