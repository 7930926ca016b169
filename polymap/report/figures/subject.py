"""What a picture of a mapping is about: the question and the mapping that a result or a cost knows."""

from __future__ import annotations

from dataclasses import dataclass

from polymap.costmodel import Cost
from polymap.inputs import shown
from polymap.ir import Architecture, Mapping, Mistake, OptionError, Workload
from polymap.search import SearchResult


@dataclass(frozen=True, slots=True)
class Subject:
    """A mapping with its question and its cost."""

    workload: Workload
    arch: Architecture
    mapping: Mapping
    cost: Cost


def subject_of(value: SearchResult | Cost) -> Subject:
    """Return what a result's best mapping, or the mapping of a cost, is about.

    Raises OptionError for a result without a mapping, a cost that does not know its mapping, and other values.
    """
    found: object = value
    if isinstance(found, SearchResult):
        if found.best is None or found.cost is None:
            what = f"this {found.status} answer has no mapping"
            raise OptionError(Mistake("PM573", what, "explain() tells why, and what would help."))
        if found.workload is not None and found.arch is not None:
            return Subject(found.workload, found.arch, found.best, found.cost)
        found = found.cost
    if not isinstance(found, Cost):
        hint = "Expected what explore() or evaluate() returns."
        raise OptionError(Mistake("PM120", f"the answer is {shown(found)}", hint))
    if found.mapping is None or found.workload is None or found.arch is None:
        what = "this cost does not know its mapping"
        raise OptionError(Mistake("PM496", what, "Use the cost that evaluate() or simulate() returned."))
    return Subject(found.workload, found.arch, found.mapping, found)
