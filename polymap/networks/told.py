"""Answers of other processes, stores and files, taken only where their mappings cost what they say."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from polymap.costmodel import Cost, evaluate
from polymap.inputs import as_fraction, parse_json, shown
from polymap.ir import Architecture, Mapping, Mistake, OutputError, Workload
from polymap.search import SearchResult, number_of, result_from_document
from polymap.search.problem import floor_of, objective_values, parse_objective, parse_single


def told_cost(
    workload: Workload, arch: Architecture, objective: str, mapping: Mapping, told: object
) -> tuple[Cost, Fraction]:
    """Return what a mapping costs, and its exact value. Raises OutputError (PM703) where it is not legal, or its value
    is not the one that is told, as it is or rounded as answers round it."""
    cost, goal = evaluate(workload, arch, mapping), parse_single(objective, arch)
    exact = objective_values(workload, arch, goal, cost)[0]
    value = number_of(goal, exact)
    said = as_fraction(int(told) if isinstance(told, str) else told)
    if not cost.legal or said not in (exact, as_fraction(value), Fraction(value)):
        about = f"the answer about {shown(workload.name)} on {shown(arch.name)}"
        what = f"{about} is {shown(told)}, its mapping's {objective} {shown(value)}"
        raise OutputError(Mistake("PM703", what, "Delete the store or file, or ask workers of this version."))
    return cost, exact


def told_result(answer: dict[str, Any]) -> SearchResult:
    """Return the result that an answer, as JSON has it, says."""
    return result_from_document(parse_json(json.dumps(answer), "the answer"))


def whole_bound(result: SearchResult) -> Fraction:
    """Return what no mapping beats by an answer with one value: a proof over some trees only says nothing of others."""
    if result.space.name and result.workload is not None and result.arch is not None:
        return floor_of(result.workload, result.arch, parse_objective(result.objective, result.arch))
    return Fraction(result.bound or 0)
