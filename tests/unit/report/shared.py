"""A small convolution, a small matrix product and their mappings, costed by the simulator, for the tests of reports."""

from __future__ import annotations

from functools import cache

from polymap.arch.presets import load_arch
from polymap.costmodel.assembly import assemble, capacity_violations
from polymap.costmodel.cost import Cost
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.workload.einsums import einsum

CONVOLUTION = einsum("O[m,h,w] += I[h+r,w+s] * W[m,r,s]", m=4, h=3, w=4, r=3, s=2, bits=32, name="small convolution")
PRODUCT = einsum("C[m,n] += A[m,k] * B[k,n]", m=8, n=4, k=6, bits={"A": 8, "B": 8, "C": 16}, name="small product")
TUTORIAL, FLAT = load_arch("tutorial3"), load_arch("flat3")


@cache
def cost_of(workload: Workload, arch: Architecture, mapping: Mapping) -> Cost:
    counts = count_by_simulation(workload, arch, mapping)
    return assemble(workload, arch, counts, capacity_violations(arch, counts), "simulation")


def nest(text: str, statement: str = "S") -> Mapping:
    """Return the tree of words: "k4" a loop of tile 4, "m2@X" a parallel one, "GLB:A,B" a storage node."""
    nodes: list[MappingNode] = []
    for word in text.split():
        head, _, rest = word.partition(":")
        loop, _, fanout = word.partition("@")
        if rest:
            nodes.append(Storage(head, tuple(rest.split(","))))
        elif fanout:
            nodes.append(Spatial(loop[0], int(loop[1:]), fanout))
        else:
            nodes.append(Temporal(word[0], int(word[1:])))
    return Mapping((*nodes, Compute(statement)))


REGISTERS = "WREG:W IREG:I OREG:O"
WEIGHTS_STAY = nest(f"m1 r1 s1 h1 w1 {REGISTERS}")
OUTPUTS_STAY = nest(f"h1 w1 m1 r1 s1 {REGISTERS}")
SPREAD = nest("k3 GLB:A,C n2 GLB:B k1 m1@X n1@Y RF:A,B,C")
