"""What callers give as workload, machine and mapping: the objects, or names of built-in ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polymap.inputs import expected_seconds, shown
from polymap.ir import ArchError, Architecture, Mapping, MappingError, Mistake, PolymapError, Workload, WorkloadError

if TYPE_CHECKING:
    from polymap.workload import Dependence


def workload_of(value: object) -> Workload:
    """Return a workload: the one given, or what `load_workload` reads by the name given. Raises WorkloadError for a
    value of another type."""
    if isinstance(value, Workload):
        return value
    if isinstance(value, str):
        from polymap.workload import load_workload  # loaded by those who give names

        return load_workload(value)
    hint = "Expected a Workload, or the name of a built-in one; workload_from_document() reads tables."
    raise WorkloadError(Mistake("PM120", f"the workload is {shown(value)}", hint))


def arch_of(value: object) -> Architecture:
    """Return a machine: the one given, or what `load_arch` reads by the name given. Raises ArchError for a value of
    another type."""
    if isinstance(value, Architecture):
        return value
    if isinstance(value, str):
        from polymap.arch import load_arch

        return load_arch(value)
    hint = "Expected an Architecture, or the name of a preset; arch_from_document() reads tables."
    raise ArchError(Mistake("PM120", f"the machine is {shown(value)}", hint))


def question_of(workload: object, arch: object) -> tuple[Workload, Architecture]:
    """Return workload and machine; raises the mistakes of both."""
    try:
        asked = workload_of(workload)
    except PolymapError as error:
        try:
            arch_of(arch)
        except PolymapError as other:
            raise WorkloadError((*error.mistakes, *other.mistakes)) from None
        raise
    return asked, arch_of(arch)


def mapping_of(value: object) -> Mapping:
    """Return the mapping; raises MappingError for a value of another type."""
    if isinstance(value, Mapping):
        return value
    hint = "Expected a Mapping, such as the `best` of a result; mapping_from_document() reads tables."
    raise MappingError(Mistake("PM120", f"the mapping is {shown(value)}", hint))


def dependences(workload: Workload | str, *, budget: float | None = None) -> tuple[Dependence, ...]:
    """Return the memory-based dependences of a program, tensor by tensor in program order.

    budget: seconds of CPU time instead of 3.5; BudgetError where they do not suffice.
    """
    from polymap.poly import raised  # loads isl
    from polymap.workload import dependences as dependences_of

    asked = workload_of(workload)
    if budget is not None:
        expected_seconds(budget, "the budget")
    with raised(budget):
        return dependences_of(asked)
