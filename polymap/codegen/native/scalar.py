"""The nest as plain C loops, for trees and workloads that are not printed with vectors."""

from __future__ import annotations

from polymap.codegen.c import Block
from polymap.codegen.native.arrays import ArrayForm
from polymap.ir import Architecture, Mapping, Mistake, Workload, WorkloadError


def scalar_function(
    workload: Workload, arch: Architecture, mapping: Mapping, arrays: tuple[ArrayForm, ...], threads: int
) -> Block:
    raise WorkloadError(Mistake("PM622", "not yet"))
