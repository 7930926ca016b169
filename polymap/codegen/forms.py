"""The two forms of generated code, and the lowering of each."""

from __future__ import annotations

from enum import Enum
from typing import assert_never

from polymap.codegen.lower import Program, lower_faithful
from polymap.codegen.native import lower_native
from polymap.inputs import shown
from polymap.ir import Architecture, Mapping, Mistake, OptionError, Workload


class Form(Enum):
    """FAITHFUL: the machine step by step, with counters. NATIVE: the same nest as a program to use."""

    FAITHFUL = "faithful"
    NATIVE = "native"


def form_of(form: object) -> Form:
    """Return a form by its name; raises OptionError for anything else."""
    if isinstance(form, Form):
        return form
    if form in [each.value for each in Form]:
        return Form(form)
    names = " or ".join(f"'{each.value}'" for each in Form)
    raise OptionError(Mistake("PM120", f"the form is {shown(form)}", f"Expected {names}."))


def lower(workload: Workload, arch: Architecture, mapping: Mapping, form: Form) -> Program:
    """Return the C program of a mapping."""
    match form:
        case Form.FAITHFUL:
            return lower_faithful(workload, arch, mapping)
        case Form.NATIVE:
            return lower_native(workload, arch, mapping)
    assert_never(form)
