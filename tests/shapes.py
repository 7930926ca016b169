"""Random shapes of programs: the loops of each statement, which loops neighbours share, and storage nodes."""

from __future__ import annotations

import random
from itertools import pairwise

from polymap.ir.loopnest import Workload, accesses_of
from polymap.ir.machine import Architecture
from polymap.search.programs.shapes import Loops, Nodes, Place, Shape, group_of


def random_shape(rng: random.Random, work: Workload) -> Shape:
    """Return a shape that may break dependences, with tiles that need not divide."""
    statements = [each.name for each in work.statements]
    if rng.random() < 0.3:
        rng.shuffle(statements)
    tiles: dict[str, list[int]] = {}
    for each in work.dims:
        chain = [each.extent]
        while chain[-1] > 1:
            chain.append(rng.randrange(1, chain[-1]) if rng.random() < 0.4 else 1)
        tiles[each.name] = chain[1:]
    loops: list[Loops] = []
    for name in statements:
        dims = work.statement(name).dims
        wanted = [dim for dim in dims for _ in tiles[dim]]
        if rng.random() < 0.6:
            rng.shuffle(wanted)
        rest = {dim: list(tiles[dim]) for dim in dims}
        loops.append(tuple((dim, rest[dim].pop(0)) for dim in wanted))
    shared: list[int] = []
    for one, other in pairwise(loops):
        common = 0
        while common < min(len(one), len(other)) and one[common] == other[common]:
            common += 1
        shared.append(rng.choice((common, rng.randint(0, common))))
    return Shape(tuple(statements), tuple(loops), tuple(shared))


def random_nodes(rng: random.Random, work: Workload, arch: Architecture, shape: Shape) -> Nodes:
    """Return nodes of which each tensor's follow the order of levels along every way from the root, one per level."""
    nodes: list[tuple[Place, str, str]] = []
    every = list(group_of(shape).places())
    order = {level.name: number for number, level in enumerate(arch.levels)}
    for tensor in work.tensors:
        users = [i for i, name in enumerate(shape.statements) if accesses_of(work.statement(name), tensor.name)]
        own: list[tuple[Place, str]] = []
        for user in rng.sample(users, rng.randint(1, len(users))):
            way = [place for place in every if place.low <= user < place.high]
            levels = [level.name for level in arch.levels[1:] if rng.random() < 0.6]
            chosen = sorted(rng.randrange(len(way)) for _ in levels)
            for number, level in zip(chosen, levels, strict=True):
                if all(_goes_with(way[number], order[level], place, order[other]) for place, other in own):
                    own.append((way[number], level))
        nodes += [(place, level, tensor.name) for place, level in own]
    return tuple(sorted(nodes, key=lambda node: order[node[1]]))


def _goes_with(place: Place, level: int, other: Place, its: int) -> bool:
    """Return whether nodes of two levels may stand at two places: on different ways, or the outer level's outside."""
    if place.high <= other.low or other.high <= place.low:
        return True
    if level == its:
        return False
    inner, outer = (place, other) if level > its else (other, place)
    return outer.low <= inner.low and inner.high <= outer.high and outer.depth <= inner.depth
