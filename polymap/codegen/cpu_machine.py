"""A processor as the machine of one question: fewer cores, lanes as wide as the accumulators, dims that lanes may hold.

Facts of processors, not of operators: the lanes of a vector hold neighbouring elements of memory, so only some dims may
be spread over them; nothing is added across lanes or cores; a broadcast takes as much of the first cache's bandwidth as
a vector (no multicast to lanes); each lane has a word of every vector register.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from polymap.codegen.tuning import TUNING
from polymap.ir import ArchError, Architecture, Fanout, FanoutKind, MemoryLevel, Mistake, Multicast, Workload


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """What code needs of a processor. vector_bits and registers: of vectors; pipes: multiply-adds per cycle; latency
    in cycles of one; registers_level, lane, core: names of machine nodes (core: None where it has one).

    loads_per_cycle and stores_per_cycle: of whole vectors, by the first cache's bandwidths. refill_cycles: of a vector
    that comes from the second cache. line_bytes, ways and way_bytes: of the first cache, rows a multiple of way_bytes
    apart share a set of so many lines; miss_cycles: beyond its bandwidth, of a line that was evicted from there.
    second_cache_bytes: all of it, or of the first one where there is no other.
    """

    vector_bits: int
    registers: int
    pipes: int
    latency_cycles: int
    registers_level: str
    lane: str
    core: str | None
    loads_per_cycle: float = TUNING.loads_per_cycle
    stores_per_cycle: float = 1
    refill_cycles: float = 1
    line_bytes: int = 64
    ways: int = 8
    way_bytes: int = 4096
    miss_cycles: float = 0
    second_cache_bytes: int = 0
    start_cycles: float = 0

    @property
    def broadcasts_per_cycle(self) -> float:
        """Loads of one element to all lanes: as many as there are ports, also where a vector takes two of them."""
        return max(self.loads_per_cycle, TUNING.loads_per_cycle)


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
    facts = CpuFacts(
        vector_bits=lanes[0].size * innermost.word_bits,
        registers=innermost.capacity_bits // innermost.word_bits,
        pipes=arch.compute.per_cycle,
        latency_cycles=arch.compute.latency_cycles,
        registers_level=innermost.name,
        lane=lanes[0].name,
        core=cores[0].name if cores else None,
        start_cycles=float(cores[0].start_cycles) if cores else 0,
    )
    return _with_caches(facts, arch.levels[-2], arch.levels[-3] if len(arch.levels) > 2 else None)


def _with_caches(facts: CpuFacts, first: MemoryLevel, second: MemoryLevel | None) -> CpuFacts:
    """Return the facts with those of the first cache and the one outside of it."""
    reads = first.read_bandwidth_bits_per_cycle or first.bandwidth_bits_per_cycle
    writes = first.write_bandwidth_bits_per_cycle or first.bandwidth_bits_per_cycle
    refills = second and (second.read_bandwidth_bits_per_cycle or second.bandwidth_bits_per_cycle)
    line_bytes = (first.line_bits or 8 * facts.line_bytes) // 8
    lines = (first.capacity_bits or 8 * facts.ways * facts.way_bytes) // 8 // line_bytes
    ways = first.ways or lines
    return replace(
        facts,
        loads_per_cycle=float(reads / facts.vector_bits) if reads else facts.loads_per_cycle,
        stores_per_cycle=float(writes / facts.vector_bits) if writes else facts.stores_per_cycle,
        refill_cycles=float(facts.vector_bits / refills) if refills else 0,
        line_bytes=line_bytes,
        ways=ways,
        way_bytes=line_bytes * max(lines // ways, 1),
        miss_cycles=float(first.miss_cycles),
        second_cache_bytes=((second if second and second.capacity_bits else first).capacity_bits or 0) // 8,
    )


def cpu_machine(
    workload: Workload, arch: Architecture, vector_dims: Sequence[str], threads: int, accumulator_bits: int
) -> Architecture:
    """Return the processor as the machine of one question. Caches count half: what fills them wholly is evicted by what
    streams through, and by lines that meet in one set. The first one has no bandwidth: its cycles are those of the
    register tile's steps (register_tiles.py), whose loads are counted as code loads them.

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
            half = replace(node, capacity_bits=node.capacity_bits // 2)
            nodes.append(_without_bandwidth(half) if node == arch.levels[-2] else half)
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


def _without_bandwidth(level: MemoryLevel) -> MemoryLevel:
    return replace(
        level,
        bandwidth_bits_per_cycle=None,
        read_bandwidth_bits_per_cycle=None,
        write_bandwidth_bits_per_cycle=None,
    )


def _with_share(node: MemoryLevel | Fanout, share: Fraction) -> MemoryLevel | Fanout:
    """Return a level that all cores share with the part of its bandwidth that some of them can use: the outermost,
    the memory, gives all of it to one."""
    if not isinstance(node, MemoryLevel) or node.capacity_bits is None or node.bandwidth_bits_per_cycle is None:
        return node
    return replace(node, bandwidth_bits_per_cycle=node.bandwidth_bits_per_cycle * share)
