"""Small mappings that several tests of the generated code use."""

from __future__ import annotations

from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel, Multicast
from polymap.ir.mapping import Compute, Mapping, Spatial, Storage, Temporal
from polymap.workload.einsums import einsum

Program = tuple[Workload, Architecture, Mapping]


def machine(*nodes: MemoryLevel | Fanout) -> Architecture:
    return Architecture("machine", (*nodes, ComputeUnit("MAC")))


def matmul() -> Program:
    """A tile of A in a buffer, partial sums in registers, one ragged dim."""
    nodes = (
        Temporal("m", 4),
        Storage("GLB", ("A",)),
        Temporal("n", 2),
        Storage("RF", ("C",)),
        Temporal("k", 1),
        Temporal("m", 1),
        Temporal("n", 1),
        Compute("S"),
    )
    arch = machine(MemoryLevel("DRAM"), MemoryLevel("GLB"), MemoryLevel("RF"))
    return einsum("C[m,n] += A[m,k] * B[k,n]", m=6, n=4, k=3), arch, Mapping(nodes)


def window() -> Program:
    """A sliding window shared by siblings whose loads are compared, sums added on the way."""
    nodes = (
        Temporal("p", 4),
        Spatial("r", 1, "X"),
        Spatial("p", 2, "Y"),
        Storage("RF", ("I",)),
        Temporal("p", 1),
        Compute("S"),
    )
    arch = machine(MemoryLevel("DRAM"), Fanout("X", 3), Fanout("Y", 2, Multicast.UNION), MemoryLevel("RF"))
    return einsum("O[p] += I[2*p+r] * W[r]", p=8, r=3), arch, Mapping(nodes)


def cpu_matmul() -> Program:
    """Rows over cores, columns over lanes, sums in registers."""
    nodes = (
        Spatial("m", 4, "core"),
        Temporal("m", 2),
        Spatial("n", 1, "lane"),
        Storage("REG", ("C",)),
        Temporal("k", 1),
        Temporal("m", 1),
        Compute("S"),
    )
    arch = machine(MemoryLevel("DRAM"), Fanout("core", 4), MemoryLevel("L1"), Fanout("lane", 8), MemoryLevel("REG"))
    types = {"A": "float32", "B": "float32", "C": "float32"}
    return einsum("C[m,n] += A[m,k] * B[k,n]", m=10, n=8, k=5, types=types), arch, Mapping(nodes)
