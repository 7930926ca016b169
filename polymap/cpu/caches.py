"""What caches keep by themselves: the tree with everything that a loop touches held where all of it fits.

A cache keeps what was used last. So the data of a loop's body stay from one iteration to the next where all that the
body touches fits the cache, whatever a mapping says should stay; and none of it does where it does not fit.
"""

from __future__ import annotations

from math import prod

from polymap.ir import Architecture, Mapping, MemoryLevel, Spatial, Storage, Temporal, Workload, bounds


def as_cached(workload: Workload, machine: Architecture, mapping: Mapping, registers: str) -> Mapping:
    """Return the tree of one statement with the nodes of its caches where least-recently-used ones would have them: per
    cache one node of all tensors, around the outermost loop whose body fits.

    registers: the level whose nodes stay. Half of a cache is counted where `machine` has half of it.
    """
    nodes = [node for node in mapping.nodes if not isinstance(node, Storage) or node.level == registers]
    names = tuple(tensor.name for tensor in workload.tensors)
    at = 0
    for level in machine.levels[1:]:
        if level.name == registers:
            break
        at = max(at, _outermost(workload, machine, level, nodes))
        if at < len(nodes) and not any(isinstance(node, Storage) for node in nodes[:at] if _is_register(node, registers)):
            nodes.insert(at, Storage(level.name, names))
            at += 1
    return Mapping((Storage(machine.levels[0].name, names), *nodes))


def _is_register(node: object, registers: str) -> bool:
    return isinstance(node, Storage) and node.level == registers


def _outermost(workload: Workload, machine: Architecture, level: MemoryLevel, nodes: list[object]) -> int:
    """Return the first place at which all that is touched below fits the cache, inside of the fan-outs above it."""
    inside = {fanout.name for fanout in machine.fanouts_above(level.name)}
    tile, place = dict(workload.extents()), None
    last = max((n for n, node in enumerate(nodes) if isinstance(node, Spatial) and node.fanout in inside), default=-1)
    for number, node in enumerate([*nodes, None]):
        fits = level.capacity_bits is None or _touched_bits(workload, tile) <= level.capacity_bits
        if number > last and fits:
            return number
        if isinstance(node, Temporal | Spatial):
            tile[node.dim] = min(tile[node.dim], node.tile)
    return len(nodes) if place is None else place


def _touched_bits(workload: Workload, tile: dict[str, int]) -> int:
    (statement,) = workload.statements
    total = 0
    for access in (statement.target, *statement.reads):
        spans = [bounds(index, tile) for index in access.index]
        total += prod(high - low + 1 for low, high in spans) * workload.tensor(access.tensor).bits
    return total
