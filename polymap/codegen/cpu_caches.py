"""What caches keep by themselves, and the cycles of what moves between them then.

A cache keeps what was used last. So the data of a loop's body stay from one iteration to the next where all that the
body touches fits the cache, whatever a mapping says should stay; and nothing stays for sure where it does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from polymap.codegen.tuning import TUNING
from polymap.costmodel import evaluate
from polymap.ir import Architecture, Mapping, MappingNode, MemoryLevel, Spatial, Storage, Temporal, Workload, bounds


def transfer_cycles(
    workload: Workload, arch: Architecture, machine: Architecture, mapping: Mapping, threads: int
) -> tuple[float, float]:
    """Return the cycles of the transfers that run beside the steps of a tree of one statement, those of its slowest
    level, and those that its steps wait for.

    arch: the processor; machine: it as that of one question, with as many cores as threads (cpu_machine). A level
    outside of the cores serves all.
    """
    cost = evaluate(workload, machine, as_cached(workload, machine, mapping))
    beside, waited = 0.0, 0.0
    for level in machine.levels[:-1]:
        if level.bandwidth_bits_per_cycle is None:
            continue
        bits = sum(
            (row.reads + row.writes) * workload.tensor(row.tensor).bits
            for row in cost.traffic
            if row.level == level.name
        )
        is_shared = not arch.fanouts_above(level.name)
        cycles = float(bits / level.bandwidth_bits_per_cycle) / (1 if is_shared else threads)
        beside = max(beside, cycles)
        exposed = TUNING.exposed_transfers if is_shared else TUNING.exposed_refills
        waited += exposed * cycles if level.implicit else 0
    return beside, waited


def as_cached(workload: Workload, machine: Architecture, mapping: Mapping) -> Mapping:
    """Return a tree of one statement with the nodes of the levels between the outermost and the innermost one, the
    registers, where caches have them that evict what was used longest ago: one node of all tensors around the
    outermost loop whose body fits, inside of the level before.
    """
    outermost, *caches, registers = machine.levels
    names = tuple(tensor.name for tensor in workload.tensors)
    nodes = [n for n in mapping.nodes if not isinstance(n, Storage) or n.level == registers.name]
    at = 0
    for level in caches:
        at = max(at, _first_that_fits(workload, machine, level, nodes))
        nodes.insert(at, Storage(level.name, names))
        at += 1
    return Mapping((Storage(outermost.name, names), *nodes))


def _first_that_fits(
    workload: Workload, machine: Architecture, level: MemoryLevel, nodes: Sequence[MappingNode]
) -> int:
    """Return the outermost place among nodes where all that is touched below fits the cache, or else the innermost
    one: inside of the fan-outs outside of it, outside of what is inside of it."""
    outside = {fanout.name for fanout in machine.fanouts_above(level.name)}
    spread = [at for at, n in enumerate(nodes) if isinstance(n, Spatial) and n.fanout in outside]
    inner = {fanout.name for fanout in machine.fanouts} - outside
    last = next(
        at
        for at, n in enumerate(nodes)
        if (isinstance(n, Spatial) and n.fanout in inner)
        or (isinstance(n, Storage) and n.level == machine.levels[-1].name)
    )
    tile = dict(workload.extents())
    for at, node in enumerate(nodes[:last]):
        if at > max(spread, default=-1) and _touched_bits(workload, tile) <= (level.capacity_bits or 0):
            return at
        if isinstance(node, Temporal | Spatial):
            tile[node.dim] = min(tile[node.dim], node.tile)
    return last


def _touched_bits(workload: Workload, tile: dict[str, int]) -> int:
    (statement,) = workload.statements
    total = 0
    for access in (statement.target, *statement.reads):
        spans = [bounds(index, tile) for index in access.index]
        total += prod(high - low + 1 for low, high in spans) * workload.tensor(access.tensor).bits
    return total
