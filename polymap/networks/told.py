"""Answers of other processes and of stores, taken only where their mappings cost what they say."""

from __future__ import annotations

from polymap.costmodel import Cost, evaluate
from polymap.inputs import as_fraction, shown
from polymap.ir import Architecture, Mapping, Mistake, OutputError, Workload
from polymap.search import SearchResult, number_of
from polymap.search.problem import objective_values, parse_single


def told_cost(workload: Workload, arch: Architecture, objective: str, mapping: Mapping, told: object) -> Cost:
    """Return what a mapping costs. Raises OutputError (PM703) where it is not legal, or its value is not the one that
    is told, rounded as answers round it."""
    cost, goal = evaluate(workload, arch, mapping), parse_single(objective, arch)
    value = number_of(goal, objective_values(workload, arch, goal, cost)[0])
    if not cost.legal or as_fraction(int(told) if isinstance(told, str) else told) != as_fraction(value):
        about = f"the answer about {shown(workload.name)} on {shown(arch.name)}"
        what = f"{about} is {shown(told)}, its mapping's {objective} {shown(value)}"
        raise OutputError(Mistake("PM703", what, "Delete the store, or ask workers of this version."))
    return cost


def check_told(result: SearchResult) -> SearchResult:
    """Return an answer with one value, of another process, about one statement as it is (programs are checked where
    they are read). Raises OutputError as `told_cost` does."""
    workload, arch = result.workload, result.arch
    if result.best is not None and workload is not None and arch is not None and len(workload.statements) == 1:
        told_cost(workload, arch, result.objective, result.best, result.value)
    return result
