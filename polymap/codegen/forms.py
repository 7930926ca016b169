"""The two forms of generated code, and the lowering of each."""

from __future__ import annotations

from enum import Enum
from typing import assert_never

from polymap.codegen.faithful import lower_faithful
from polymap.codegen.lower import Program
from polymap.codegen.native import lower_native
from polymap.ir import Architecture, Mapping, Workload


class Form(Enum):
    """FAITHFUL: the machine step by step, with counters. NATIVE: the same nest as a program to use."""

    FAITHFUL = "faithful"
    NATIVE = "native"


def lower(workload: Workload, arch: Architecture, mapping: Mapping, form: Form) -> Program:
    """Return the C program of a mapping."""
    match form:
        case Form.FAITHFUL:
            return lower_faithful(workload, arch, mapping)
        case Form.NATIVE:
            return lower_native(workload, arch, mapping)
    assert_never(form)
