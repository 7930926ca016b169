"""The mapping of a processor's code, chosen by the model alone: no program is run to choose it.

First the least latency is proven or approached: vectors full, as many sums at once as hide the latency of one. Then,
of the mappings that are as fast, one that moves the least energy's worth of data, which keeps tiles in registers and
near caches. Dims with few divisors are rounded up to a size that tiles well, and the tree is cut to the real size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from polymap.cpu.machine import CpuFacts, cpu_machine, facts_of
from polymap.explore import explore
from polymap.ir import Architecture, Dim, Mapping, Workload, bounds
from polymap.search.run import SearchResult

_SHARE_OF_LATENCY = 0.4  # of the time limit; chosen on 14 layers, of which most are proven in less
_GOOD_TILES = range(14, 3, -1)  # sizes of one dim of a register tile, largest first


@dataclass(frozen=True, slots=True)
class CpuChoice:
    """A mapping for a processor, and how it was found. rounded: the question whose dividing tiles it has (the workload
    itself where these divide); latency, energy: what was answered to it, in cycles and pJ under the latency found."""

    mapping: Mapping
    arch: Architecture
    rounded: Workload
    latency: SearchResult
    energy: SearchResult | None

    @property
    def is_fastest(self) -> bool:
        """Whether no mapping of the question has a smaller predicted latency, tiles that divide."""
        return self.latency.status == "OPTIMAL"


def choose_cpu_mapping(
    workload: Workload, arch: Architecture, vector_dims: tuple[str, ...], *, threads: int = 1, time_limit_s: float = 15
) -> CpuChoice | None:
    """Return the mapping that a processor's code is printed from; None where none was found.

    vector_dims: dims of the output along which all arrays are contiguous or packed, the best first. Raises ArchError
    for machines that are no processors.
    """
    facts = facts_of(arch)
    target = workload.tensor(workload.statements[0].target.tensor)
    lanes = facts.vector_bits // target.bits
    for vector in vector_dims:
        rounded = _rounded(workload, vector, lanes)
        machine = cpu_machine(rounded, arch, (vector,), threads, target.bits)
        rules = _rules(rounded, facts, vector, lanes)
        first = time_limit_s * _SHARE_OF_LATENCY
        fast = explore(rounded, machine, "latency", tiles="divide", constraints=rules, time_limit_s=first)
        if fast.best is None:
            continue
        rules = {**rules, "limits": {"latency": fast.value}}
        left = time_limit_s * (1 - _SHARE_OF_LATENCY)
        near = explore(rounded, machine, "energy", tiles="divide", constraints=rules, time_limit_s=left)
        best = fast.best if near.best is None else near.best
        return CpuChoice(best, machine, rounded, fast, near)
    return None


def _rules(workload: Workload, facts: CpuFacts, vector: str, lanes: int) -> dict[str, object]:
    """Return the constraints of code that is printed with vectors: full vectors, sums in registers, enough of them."""
    statement = workload.statements[0]
    output = statement.target.tensor
    own = {dim for index in statement.target.index for dim in index.dims}
    most = prod(workload.extents()[dim] for dim in own) // lanes
    registers = {"must": [output], "least": {output: min(facts.accumulators, most)}}
    return {"store": {facts.registers_level: registers}, "fanouts": {facts.lane: {"factors": {vector: lanes}}}}


def _rounded(workload: Workload, vector: str, lanes: int) -> Workload:
    """Return the workload with the vector dim a multiple of the lanes, and others with divisors for tiles; every tensor
    in the accumulators' type, as registers hold it."""
    statement = workload.statements[0]
    own = {dim for index in statement.target.index for dim in index.dims}
    sizes: dict[str, int] = {}
    for name, extent in workload.extents().items():
        if name == vector:
            sizes[name] = -(-extent // lanes) * lanes
        elif name in own:
            sizes[name] = _tileable(extent)
        else:
            sizes[name] = extent
    bits = workload.tensor(statement.target.tensor).bits
    return _resized(workload, sizes, bits)


def _tileable(extent: int) -> int:
    """Return the least size from the extent on that some size of a register tile divides."""
    if extent <= _GOOD_TILES.start or any(extent % size == 0 for size in _GOOD_TILES):
        return extent
    return min(-(-extent // size) * size for size in _GOOD_TILES)


def _resized(workload: Workload, sizes: dict[str, int], bits: int) -> Workload:
    """Return the workload with other extents, its tensors as large as these need, without constraints of its domain
    (padding is counted as if it were read)."""
    grown = tuple(Dim(dim.name, sizes[dim.name]) for dim in workload.dims)
    (statement,) = workload.statements
    corners: dict[str, list[tuple[int, int]]] = {}
    for access in (statement.target, *statement.reads):
        ends = [bounds(index, sizes) for index in access.index]
        known = corners.get(access.tensor, ends)
        corners[access.tensor] = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(known, ends, strict=True)]
    tensors = tuple(
        replace(
            tensor,
            shape=tuple(high - low + 1 for low, high in corners[tensor.name]),
            origin=tuple(low for low, _ in corners[tensor.name]),
            bits=bits,
            element_type=None,
        )
        for tensor in workload.tensors
    )
    return replace(
        workload, dims=grown, tensors=tensors, statements=(replace(statement, constraints=()),), original=None
    )
