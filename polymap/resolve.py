"""What callers give as workload, machine and mapping: the objects, names of built-in ones, or documents."""

from __future__ import annotations

from collections.abc import Mapping as Table
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from polymap.inputs import answers_in_words, expected_seconds, is_table, mapping_from_document, shown
from polymap.ir import (
    ArchError,
    Architecture,
    Mapping,
    MappingError,
    Mistake,
    PolymapError,
    Workload,
    WorkloadError,
    all_read,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from polymap.workload import Dependence

WorkloadLike = Workload | str | Table[str, object]
"""A workload, the word by which `load_workload` knows one, or a table as in a workload file."""
ArchitectureLike = Architecture | str | Table[str, object]
"""A machine, the word by which `load_arch` knows one, or a table as in a machine file."""
MappingLike = Mapping | Table[str, object]
"""A mapping, or a table as in a mapping file."""

_SIZED = "Give pm.einsum(text, m=..., n=...) in place of the text: it takes the sizes."


def workload_of(value: object) -> Workload:
    """Return a workload: the one given, what `load_workload` reads by the name given, or what a document describes.
    Raises WorkloadError for a value of another type."""
    if isinstance(value, Workload):
        return value
    if isinstance(value, str):
        from polymap.workload import load_workload  # loaded by those who give names

        try:
            return load_workload(value)
        except WorkloadError as error:
            raise WorkloadError(
                replace(one, hint=_SIZED) if one.code == "PM204" else one for one in error.mistakes
            ) from None
    if is_table(value):
        from polymap.workload import workload_from_document

        return workload_from_document(value)
    hint = "Expected a Workload, the name of a built-in one, or a table as in a workload file."
    raise WorkloadError(Mistake("PM120", f"the workload is {shown(value)}", hint))


def arch_of(value: object) -> Architecture:
    """Return a machine: the one given, what `load_arch` reads by the name given, or what a document describes. Raises
    ArchError for a value of another type, and for one whose nodes are no machine."""
    if isinstance(value, Architecture):
        from polymap.inputs import node_problems

        mistakes = node_problems(value.nodes, f"machine {shown(value.name)}")
        if mistakes:
            raise ArchError(mistakes)
        return value
    if isinstance(value, str):
        from polymap.inputs import load_arch

        return load_arch(value)
    if is_table(value):
        from polymap.inputs import arch_from_document

        return arch_from_document(value)
    hint = "Expected an Architecture, the name of a preset, or a table as in a machine file."
    raise ArchError(Mistake("PM120", f"the machine is {shown(value)}", hint))


def readable_arch(value: object) -> Architecture | None:
    """Return a machine as `arch_of` does; None for one that cannot be read."""
    try:
        return arch_of(value)
    except PolymapError:
        return None


def question_of(workload: object, arch: object, *more: Callable[[], object]) -> tuple[Workload, Architecture]:
    """Return workload and machine; raises the mistakes of both, then what `more` finds in the rest of the question."""
    try:
        asked, machine = all_read(partial(workload_of, workload), partial(arch_of, arch))
    except PolymapError:
        if _are_exchanged(workload, arch):
            what = "the machine stands where the workload is expected, and the workload where the machine is"
            raise WorkloadError(Mistake("PM120", what, "The workload comes first, then the machine.")) from None
        if more:
            all_read(partial(question_of, workload, arch), *more)
        raise
    return asked, machine


def _are_exchanged(workload: object, arch: object) -> bool:
    try:
        arch_of(workload)
        workload_of(arch)
    except PolymapError:
        return False
    return True


def mapping_of(value: object) -> Mapping:
    """Return the mapping, or what a document describes; raises MappingError for a value of another type."""
    if isinstance(value, Mapping):
        return value
    if is_table(value):
        return mapping_from_document(value)
    hint = "Expected a Mapping, such as the `best` of a result, or a table as in a mapping file."
    raise MappingError(Mistake("PM120", f"the mapping is {shown(value)}", hint))


@answers_in_words
def dependences(workload: Workload | str, *, time_limit_s: float | None = None) -> tuple[Dependence, ...]:
    """Return the memory-based dependences of a program, tensor by tensor in program order.

    time_limit_s: of CPU time, instead of 3.5; BudgetError where they do not suffice.
    """
    from polymap.poly import raised  # loads isl
    from polymap.workload import dependences as dependences_of

    asked = workload_of(workload)
    if time_limit_s is not None:
        expected_seconds(time_limit_s)
    with raised(time_limit_s):
        return dependences_of(asked)
