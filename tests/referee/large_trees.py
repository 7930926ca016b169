"""Random loop trees of any size, written straight from the definition of the space (docs/counting.md)."""

from __future__ import annotations

import random
from itertools import pairwise
from math import prod

from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, Fanout, MemoryLevel
from polymap.ir.mapping import Compute, Mapping, MappingNode, Spatial, Storage, Temporal


def random_large_tree(rng: random.Random, workload: Workload, arch: Architecture) -> Mapping:
    """Return a tree of the space, capacities aside: nodes in any order, blocks of loops, fan-outs spread."""
    storage = _node_order(rng, workload, arch)
    groups = _groups(arch)
    homes = [next((i for i, (_, level) in enumerate(storage) if level in below), len(storage)) for _, below in groups]
    tiles = workload.extents()
    nodes: list[MappingNode] = []
    for position in range(len(storage) + 1):
        here = [fanouts for (fanouts, _), home in zip(groups, homes, strict=True) if home == position]
        items: list[str | list[Fanout]] = [*here, *(dim for dim in tiles if rng.random() < 0.4)]
        rng.shuffle(items)
        for item in items:
            if isinstance(item, str):
                _loop(rng, nodes, tiles, item)
            else:
                for fanout in item:
                    _spread(rng, nodes, tiles, fanout)
        if position < len(storage):
            tensor, level = storage[position]
            nodes.append(Storage(level, (tensor,)))
    rest = [dim for dim, tile in tiles.items() if tile > 1]
    rng.shuffle(rest)
    nodes += [Temporal(dim, 1) for dim in rest]
    return Mapping((*nodes, Compute(workload.statements[0].name)))


def _node_order(rng: random.Random, workload: Workload, arch: Architecture) -> list[tuple[str, str]]:
    chains = []
    for tensor in workload.tensors:
        levels = [one for one in arch.levels[1:] if one.may_hold(tensor)]
        chains.append([(tensor.name, one.name) for one in levels if one.requires(tensor) or rng.random() < 0.75])
    found: list[tuple[str, str]] = []
    while any(chains):
        chain = rng.choice([one for one in chains if one])
        found.append(chain.pop(0))
    return found


def _groups(arch: Architecture) -> list[tuple[list[Fanout], set[str]]]:
    """Return the runs of fan-outs, each with the names of the levels below it."""
    found: list[tuple[list[Fanout], set[str]]] = []
    for before, (place, node) in pairwise([(-1, None), *enumerate(arch.nodes)]):
        if isinstance(node, Fanout):
            if not isinstance(before[1], Fanout):
                found.append(([], {one.name for one in arch.nodes[place:] if isinstance(one, MemoryLevel)}))
            found[-1][0].append(node)
    return found


def _loop(rng: random.Random, nodes: list[MappingNode], tiles: dict[str, int], dim: str) -> None:
    """Add a temporal loop over a dim, to any smaller tile; most often to a share of it."""
    size = tiles[dim]
    if size == 1:
        return
    tile = rng.choice((1, -(-size // rng.randint(2, size)), rng.randint(1, size - 1)))
    tiles[dim] = min(tile, size - 1)
    nodes.append(Temporal(dim, tiles[dim]))


def _spread(rng: random.Random, nodes: list[MappingNode], tiles: dict[str, int], fanout: Fanout) -> None:
    """Add spatial loops over a fan-out whose iterations are no more than its siblings, dims in their order."""
    trips: dict[str, int] = {}
    for dim in rng.sample(list(tiles), len(tiles)):
        room = fanout.size // prod(trips.values())
        if tiles[dim] > 1 and room > 1 and fanout.may_spread(dim) and rng.random() < 0.7:
            trips[dim] = rng.choice((min(room, tiles[dim]), rng.randint(1, min(room, tiles[dim]))))
    for dim in tiles:
        if trips.get(dim, 1) > 1:
            tile = -(-tiles[dim] // trips[dim])
            if -(-tiles[dim] // tile) > 1:
                # Any tile with as many iterations: the least, the largest, or one between them.
                count = -(-tiles[dim] // tile)
                tiles[dim] = rng.randint(-(-tiles[dim] // count), (tiles[dim] - 1) // (count - 1))
                nodes.append(Spatial(dim, tiles[dim], fanout.name))
