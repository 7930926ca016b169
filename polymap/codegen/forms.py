"""The two forms of generated code, and the lowering of each."""

from __future__ import annotations

from enum import Enum
from typing import assert_never

from polymap.codegen.c.ast import Program
from polymap.codegen.faithful.program import lower_faithful
from polymap.codegen.native.program import lower_native
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Mapping


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
