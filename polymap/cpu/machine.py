"""A processor as the machine of one question: fewer cores, lanes as wide as the accumulators, dims that lanes may hold.

Facts of processors, not of operators: the lanes of a vector hold neighbouring elements of memory, so only some dims may
be spread over them; nothing is added across lanes or cores; a broadcast takes as much of the first cache's bandwidth as
a vector (no multicast to lanes); each lane has a word of every vector register.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from polymap.ir import ArchError, Architecture, Fanout, FanoutKind, MemoryLevel, Mistake, Multicast, Workload

FMA_LATENCY_CYCLES = 4  # of fused multiply-adds of floats, on server cores since 2015 (Fog, instruction tables, 2024)


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """What code needs of a processor. vector_bits and registers: of vectors; pipes: multiply-adds per cycle; latency
    in cycles of one; registers_level, lane, core: names of machine nodes (core: None where it has one)."""

    vector_bits: int
    registers: int
    pipes: int
    latency_cycles: int
    registers_level: str
    lane: str
    core: str | None

    @property
    def accumulators(self) -> int:
        """How many independent sums hide the latency of a multiply-add on every pipe."""
        return self.pipes * self.latency_cycles


def facts_of(arch: Architecture) -> CpuFacts:
    """Return the facts of a machine with a fan-out of kind `lane` right above its innermost level, the registers.

    Raises ArchError (PM122) for machines that are no processors.
    """
    lanes = [fanout for fanout in arch.fanouts if fanout.kind is FanoutKind.LANE]
    cores = [fanout for fanout in arch.fanouts if fanout.kind is FanoutKind.CORE]
    innermost = arch.levels[-1]
    if len(lanes) != 1 or len(cores) > 1 or arch.nodes[-3] != lanes[0] or innermost.capacity_bits is None:
        what = f"machine {arch.name!r} is no processor: code is printed for vectors and cores"
        hint = (
            "A processor has one fan-out of kind 'lane' right above its innermost level (the vector registers, with a "
            "capacity), and at most one of kind 'core'. The preset host_cpu is one."
        )
        raise ArchError(Mistake("PM122", what, hint))
    return CpuFacts(
        vector_bits=lanes[0].size * innermost.word_bits,
        registers=innermost.capacity_bits // innermost.word_bits,
        pipes=arch.compute.per_cycle,
        latency_cycles=FMA_LATENCY_CYCLES,
        registers_level=innermost.name,
        lane=lanes[0].name,
        core=cores[0].name if cores else None,
    )


def cpu_machine(
    workload: Workload, arch: Architecture, vector_dims: Sequence[str], threads: int, accumulator_bits: int
) -> Architecture:
    """Return the processor as the machine of one question. Caches count half: what fills them wholly is evicted by what
    streams through, and by lines that meet in one set.

    vector_dims: dims along which every array that has them is contiguous, or packed. threads: cores in use, which share
    the bandwidth of levels outside of them as all cores would. accumulator_bits: of an element of the output; a vector
    has as many lanes as it has room for, and so has every register.
    """
    facts = facts_of(arch)
    (statement,) = workload.statements
    own = {dim for index in statement.target.index for dim in index.dims}
    parallel = tuple(dim for dim in statement.dims if dim in own)
    nodes: list[MemoryLevel | Fanout] = []
    for node in arch.nodes[:-1]:
        assert isinstance(node, MemoryLevel | Fanout)
        if node.name == facts.core and isinstance(node, Fanout):
            nodes = [_with_share(each, Fraction(threads, node.size)) for each in nodes]
            if threads > 1:
                nodes.append(replace(node, size=threads, dims=parallel, multicast=Multicast.NONE, reduction=False))
        elif node.name == facts.lane and isinstance(node, Fanout):
            size = facts.vector_bits // accumulator_bits
            nodes.append(replace(node, size=size, dims=tuple(vector_dims), multicast=Multicast.NONE, reduction=False))
        elif node.name == facts.registers_level and isinstance(node, MemoryLevel):
            nodes.append(replace(node, capacity_bits=facts.registers * accumulator_bits))
        elif isinstance(node, MemoryLevel) and node.capacity_bits is not None:
            nodes.append(replace(node, capacity_bits=node.capacity_bits // 2))
        else:
            nodes.append(node)
    return replace(arch, nodes=(*nodes, arch.compute))


def dealt_machine(
    machine: Architecture, facts: CpuFacts, counts: Mapping[str, int], output: str, bits: int
) -> tuple[Architecture, dict[str, str]]:
    """Return the machine of a question with its registers dealt out: a fan-out per dim of a register tile, each child
    of which holds one sum per lane; and the fan-outs' names.

    What a step reads comes once for all sums that share it, as code loads it once.
    """
    names = {dim: f"sums{number}" for number, dim in enumerate(counts)}
    nodes: list[MemoryLevel | Fanout] = []
    for node in machine.nodes[:-1]:
        assert isinstance(node, MemoryLevel | Fanout)
        if node.name != facts.registers_level:
            nodes.append(node)
            continue
        assert isinstance(node, MemoryLevel)
        nodes += [
            Fanout(names[dim], count, Multicast.IDENTICAL, reduction=False, dims=(dim,))
            for dim, count in counts.items()
        ]
        nodes.append(replace(node, capacity_bits=bits, holds=(output,)))
    return replace(machine, nodes=(*nodes, machine.compute)), names


def _with_share(node: MemoryLevel | Fanout, share: Fraction) -> MemoryLevel | Fanout:
    """Return a level that all cores share with the part of its bandwidth that some of them can use: the outermost,
    the memory, gives all of it to one."""
    if not isinstance(node, MemoryLevel) or node.capacity_bits is None or node.bandwidth_bits_per_cycle is None:
        return node
    return replace(node, bandwidth_bits_per_cycle=node.bandwidth_bits_per_cycle * share)
