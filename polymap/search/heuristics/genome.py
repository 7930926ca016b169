"""A loop tree as a fixed-length genome, for the searches without proof: how it is read, drawn, changed and crossed.

A genome lists every (tensor, level) that may hold, in an order in which each tensor's levels follow the machine's, with
a flag whether it does. Above each entry stands a block of temporal loops, and one more block stands above compute; the
groups of fan-outs stand where the mapping space puts them. Trip counts of all blocks but the last, and of the fan-outs,
are genes; the last block takes what is left, so every genome reads as a legal-looking tree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from random import Random

from polymap.ir import (
    Architecture,
    Compute,
    Fanout,
    Mapping,
    MappingNode,
    MemoryLevel,
    Spatial,
    Storage,
    Temporal,
    Workload,
)
from polymap.search.problem import divisors, prime_factors

Row = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ground:
    """What genomes are about. slots: (tensor, level) numbers; must: whether the slot has to hold; groups: fan-outs by
    the number of the first level below them; divide: whether tiles have to divide."""

    workload: Workload
    arch: Architecture
    dims: tuple[str, ...]
    extents: Row
    slots: tuple[tuple[int, int], ...]
    must: tuple[bool, ...]
    groups: tuple[tuple[int, Row], ...]
    divide: bool

    def limit(self, fanout: int, dim: int) -> int:
        """Return the most iterations of the dim that the fan-out may take."""
        one = self.arch.fanouts[fanout]
        return one.size if one.may_spread(self.dims[dim]) else 1


@dataclass(frozen=True, slots=True)
class Genome:
    """order: slot numbers, outermost first. held: per slot. trips: [dim][block but the last]. spread: [dim][fan-out].
    loops: per block the dims, outermost first. inner: per group, whether it stands below its block's temporal loops."""

    order: Row
    held: tuple[bool, ...]
    trips: tuple[Row, ...]
    spread: tuple[Row, ...]
    loops: tuple[Row, ...]
    inner: tuple[bool, ...]


def ground_of(workload: Workload, arch: Architecture, *, divide: bool) -> Ground:
    """Return the ground of a workload of one statement on a machine."""
    slots = [
        (t, number)
        for number, level in enumerate(arch.levels)
        for t, tensor in enumerate(workload.tensors)
        if number and level.may_hold(tensor)
    ]
    must = tuple(arch.levels[number].requires(workload.tensors[t]) for t, number in slots)
    statement, extents = workload.statements[0], workload.extents()
    dims = tuple(dim for dim in statement.dims if extents[dim] > 1)
    sizes = tuple(extents[dim] for dim in dims)
    return Ground(workload, arch, dims, sizes, tuple(slots), must, _groups(arch), divide)


def _groups(arch: Architecture) -> tuple[tuple[int, Row], ...]:
    found: dict[int, list[int]] = {}
    below = fanout = 0
    for node in arch.nodes:
        if isinstance(node, MemoryLevel):
            below += 1
        elif isinstance(node, Fanout):
            found.setdefault(below, []).append(fanout)
            fanout += 1
    return tuple((below, tuple(members)) for below, members in found.items())


def plain_genome(ground: Ground) -> Genome:
    """Return the tree that needs least room: all loops above, only what must be held, right above compute."""
    count, blocks = len(ground.dims), len(ground.slots) + 1
    first = tuple((extent, *(1 for _ in range(blocks - 2))) if blocks > 1 else () for extent in ground.extents)
    return Genome(
        order=tuple(range(len(ground.slots))),
        held=ground.must,
        trips=first,
        spread=tuple((1,) * len(ground.arch.fanouts) for _ in range(count)),
        loops=(tuple(range(count)),) * blocks,
        inner=(True,) * len(ground.groups),
    )


def random_genome(ground: Ground, rng: Random) -> Genome:
    """Return a genome drawn without preference: each prime of an extent goes to a random block or fan-out."""
    genome = plain_genome(ground)
    fanouts = range(len(ground.arch.fanouts))
    blocks = len(ground.slots)
    trips = [[1] * blocks for _ in ground.dims]
    spread = [[1 for _ in fanouts] for _ in ground.dims]
    room = [one.size for one in ground.arch.fanouts]
    for d, extent in enumerate(ground.extents):
        for prime in _pieces(ground, extent, rng):
            # The last block, which takes what is left, is the place numbered `blocks`.
            place = rng.randrange(blocks + 1 + len(room))
            f = place - blocks - 1
            if place < blocks:
                trips[d][place] *= prime
            elif f >= 0 and room[f] >= prime and spread[d][f] * prime <= ground.limit(f, d):
                spread[d][f] *= prime
                room[f] //= prime
    return replace(
        genome,
        order=_random_order(ground, rng),
        held=tuple(must or rng.random() < 0.6 for must in ground.must),
        trips=tuple(tuple(row) for row in trips),
        spread=tuple(tuple(row) for row in spread),
        loops=tuple(_shuffled(len(ground.dims), rng) for _ in range(blocks + 1)),
        inner=tuple(rng.random() < 0.5 for _ in ground.groups),
    )


def _pieces(ground: Ground, extent: int, rng: Random) -> list[int]:
    """Return the factors that are dealt out: the primes of the extent, or of any number near it."""
    number = extent if ground.divide or rng.random() < 0.5 else rng.randint(extent, extent + extent // 2)
    return [prime for prime, exponent in prime_factors(number) for _ in range(exponent)]


def _shuffled(count: int, rng: Random) -> Row:
    numbers = list(range(count))
    rng.shuffle(numbers)
    return tuple(numbers)


def _random_order(ground: Ground, rng: Random) -> Row:
    """Return a random order of the slots in which each tensor's levels follow the machine's."""
    return _in_machine_order(ground, _shuffled(len(ground.slots), rng))


def _in_machine_order(ground: Ground, order: Row) -> Row:
    """Return the order with each tensor's slots sorted by level in the places that they have."""
    waiting = {t: sorted(s for s, (u, _) in enumerate(ground.slots) if u == t) for t, _ in ground.slots}
    return tuple(waiting[ground.slots[slot][0]].pop(0) for slot in order)


def tree_of_genome(ground: Ground, genome: Genome) -> Mapping:
    """Return the loop tree; blocks with no node between them are one block."""
    nodes: list[MappingNode] = []
    left = list(ground.extents)
    waiting = list(range(len(ground.groups)))
    held = [position for position, slot in enumerate(genome.order) if genome.held[slot]]
    ends = [*held, len(ground.slots)]
    for start, end in zip([0, *(position + 1 for position in held)], ends, strict=True):
        last = end == len(ground.slots)
        level = len(ground.arch.levels) if last else ground.slots[genome.order[end]][1]
        here = [g for g in waiting if ground.groups[g][0] <= level]
        waiting = [g for g in waiting if g not in here]
        outside = [g for g in here if not genome.inner[g]]
        inside = [g for g in here if genome.inner[g]]
        for g in outside:
            _add_group(ground, genome, g, left, nodes)
        _add_block(ground, genome, (start, end), inside, left, nodes)
        for g in inside:
            _add_group(ground, genome, g, left, nodes)
        if not last:
            tensor, number = ground.slots[genome.order[end]]
            _add_node(ground.arch.levels[number].name, ground.workload.tensors[tensor].name, nodes)
    return Mapping((*nodes, Compute(ground.workload.statements[0].name)))


def genome_of_tree(ground: Ground, mapping: Mapping) -> Genome:
    """Return a genome whose tree is the mapping, or near it where the mapping is none of a genome's: its loops by trip
    counts (tiles are then the least of these), two loops over one dim in one block joined."""
    blocks = len(ground.slots)
    count = len(ground.dims)
    trips = [[1] * (blocks + 1) for _ in ground.dims]
    spread = [[1] * len(ground.arch.fanouts) for _ in ground.dims]
    loops: list[list[int]] = [[] for _ in range(blocks + 1)]
    held, inner = _held_slots(ground, mapping), [True] * len(ground.groups)
    order = _with_absent(ground, held)
    levels = {level.name: number for number, level in enumerate(ground.arch.levels)}
    fanouts = {fanout.name: number for number, fanout in enumerate(ground.arch.fanouts)}
    left, block, place = list(ground.extents), 0, {slot: at for at, slot in enumerate(order)}
    block = _next_block(order, held, -1, blocks)
    for node in mapping.nodes:
        if isinstance(node, Storage):
            slots = [s for s, (t, level) in enumerate(ground.slots) if _is_of(ground, node, levels, t, level)]
            block = max([block, *(_next_block(order, held, place[s], blocks) for s in slots)])
        elif isinstance(node, Temporal | Spatial) and node.dim in ground.dims:
            d = ground.dims.index(node.dim)
            many, left[d] = -(-left[d] // node.tile), min(node.tile, left[d])
            if isinstance(node, Temporal):
                trips[d][block] *= many
                loops[block] += [d] if d not in loops[block] else []
            else:
                f = fanouts[node.fanout]
                spread[d][f] *= many
                group = next(g for g, (_, members) in enumerate(ground.groups) if f in members)
                inner[group] = bool(loops[block])
    return Genome(
        order,
        tuple(slot in held for slot in range(blocks)),
        tuple(tuple(row[:blocks]) for row in trips),
        tuple(tuple(row) for row in spread),
        tuple((*row, *(d for d in range(count) if d not in row)) for row in loops),
        tuple(inner),
    )


def _is_of(ground: Ground, node: Storage, levels: dict[str, int], tensor: int, level: int) -> bool:
    return levels[node.level] == level and ground.workload.tensors[tensor].name in node.tensors


def _held_slots(ground: Ground, mapping: Mapping) -> list[int]:
    """Return the slots that a mapping's nodes take, outermost first."""
    levels = {level.name: number for number, level in enumerate(ground.arch.levels)}
    return [
        slot
        for node in mapping.nodes
        if isinstance(node, Storage)
        for slot, (t, level) in enumerate(ground.slots)
        if _is_of(ground, node, levels, t, level)
    ]


def _with_absent(ground: Ground, held: list[int]) -> Row:
    """Return an order of all slots in which those held stand as they do; the others of a tensor stand right before its
    next one that is held, or last."""
    order: list[int] = []
    for slot in held:
        tensor, level = ground.slots[slot]
        order += [s for s, (t, n) in enumerate(ground.slots) if t == tensor and n < level and s not in (*held, *order)]
        order.append(slot)
    return (*order, *(slot for slot in range(len(ground.slots)) if slot not in order))


def _next_block(order: Row, held: list[int], place: int, blocks: int) -> int:
    """Return the block of the loops between the node at a place of the order and the next one that is held."""
    return next((at for at in range(place + 1, blocks) if order[at] in held), blocks)


def _add_block(
    ground: Ground,
    genome: Genome,
    blocks: tuple[int, int],
    inside: list[int],
    left: list[int],
    nodes: list[MappingNode],
) -> None:
    """Add the temporal loops of joined blocks; those of the last block leave just what the groups inside it take."""
    start, end = blocks
    for d in genome.loops[end]:
        tile = left[d]
        for trips in genome.trips[d][start : end + 1]:
            tile = -(-tile // trips)
        if end == len(ground.slots):
            tile = min(left[d], prod(genome.spread[d][f] for g in inside for f in ground.groups[g][1]))
        if tile < left[d]:
            nodes.append(Temporal(ground.dims[d], tile))
            left[d] = tile


def _add_group(ground: Ground, genome: Genome, group: int, left: list[int], nodes: list[MappingNode]) -> None:
    for f in ground.groups[group][1]:
        for d, dim in enumerate(ground.dims):
            tile = -(-left[d] // genome.spread[d][f])
            if tile < left[d]:
                nodes.append(Spatial(dim, tile, ground.arch.fanouts[f].name))
                left[d] = tile


def _add_node(level: str, tensor: str, nodes: list[MappingNode]) -> None:
    above = nodes[-1] if nodes else None
    if isinstance(above, Storage) and above.level == level:
        nodes[-1] = Storage(level, (*above.tensors, tensor))
    else:
        nodes.append(Storage(level, (tensor,)))


def neighbour(ground: Ground, genome: Genome, rng: Random) -> Genome:
    """Return the genome after one small random change."""
    moves = (_move_factor, _move_factor, _swap_loops, _swap_slots, _flip_held, _flip_group)
    for _ in range(20):
        changed = rng.choice(moves)(ground, genome, rng)
        if changed != genome:
            return changed
    return genome


def _move_factor(ground: Ground, genome: Genome, rng: Random) -> Genome:
    """Take a prime from one block or fan-out of a dim and give it to another (or, any tiles, take or give alone)."""
    d = rng.randrange(len(ground.dims)) if ground.dims else 0
    if not ground.dims:
        return genome
    blocks = len(ground.slots)
    genes = [*genome.trips[d], *genome.spread[d]]
    left = max(1, ground.extents[d] // prod(genes))
    source, target = rng.randrange(len(genes) + 1), rng.randrange(len(genes) + 1)
    taken = left if source == len(genes) else genes[source]
    if taken == 1 or source == target:
        return genome
    prime = rng.choice([prime for prime, _ in prime_factors(taken)])
    if source < len(genes):
        genes[source] //= prime
    if target < len(genes):
        given = prime if ground.divide or rng.random() < 0.7 else rng.randint(2, 4)
        genes[target] *= given
    trips = _with(genome.trips, d, tuple(genes[:blocks]))
    return fitted(ground, replace(genome, trips=trips, spread=_with(genome.spread, d, tuple(genes[blocks:]))), d)


def _with(rows: tuple[Row, ...], at: int, row: Row) -> tuple[Row, ...]:
    return (*rows[:at], row, *rows[at + 1 :])


def fitted(ground: Ground, genome: Genome, first: int) -> Genome:
    """Return the genome with fan-outs within their size: other dims than `first` give up their factors, then it."""
    spread = [list(row) for row in genome.spread]
    others = [d for d in range(len(ground.dims)) if d != first]
    for f, one in enumerate(ground.arch.fanouts):
        for d in [*others, first]:
            limit = ground.limit(f, d)
            if spread[d][f] > limit:
                spread[d][f] = max(x for x in divisors(spread[d][f]) if x <= limit)
        for d in [*others, first]:
            if prod(row[f] for row in spread) > one.size:
                spread[d][f] = 1
    return replace(genome, spread=tuple(tuple(row) for row in spread))


def _swapped(row: Row, rng: Random) -> Row:
    if len(row) < 2:
        return row
    at = rng.randrange(len(row) - 1)
    return (*row[:at], row[at + 1], row[at], *row[at + 2 :])


def _swap_loops(ground: Ground, genome: Genome, rng: Random) -> Genome:
    block = rng.randrange(len(genome.loops))
    row = _shuffled(len(ground.dims), rng) if rng.random() < 0.3 else _swapped(genome.loops[block], rng)
    return replace(genome, loops=_with(genome.loops, block, row))


def _swap_slots(ground: Ground, genome: Genome, rng: Random) -> Genome:
    return replace(genome, order=_in_machine_order(ground, _swapped(genome.order, rng)))


def _flip_held(ground: Ground, genome: Genome, rng: Random) -> Genome:
    free = [slot for slot, must in enumerate(ground.must) if not must]
    if not free:
        return genome
    chosen = rng.choice(free)
    return replace(genome, held=tuple(held != (slot == chosen) for slot, held in enumerate(genome.held)))


def _flip_group(ground: Ground, genome: Genome, rng: Random) -> Genome:
    if not ground.groups:
        return genome
    chosen = rng.randrange(len(ground.groups))
    return replace(genome, inner=tuple(flag != (g == chosen) for g, flag in enumerate(genome.inner)))


def crossed(ground: Ground, mother: Genome, father: Genome, rng: Random) -> Genome:
    """Return a child: tiles per dim, loop orders per block, storage and group places each from one parent."""
    which = [rng.random() < 0.5 for _ in ground.dims]
    storage = mother if rng.random() < 0.5 else father
    child = Genome(
        storage.order,
        storage.held,
        tuple(m if w else f for w, m, f in zip(which, mother.trips, father.trips, strict=True)),
        tuple(m if w else f for w, m, f in zip(which, mother.spread, father.spread, strict=True)),
        tuple(m if rng.random() < 0.5 else f for m, f in zip(mother.loops, father.loops, strict=True)),
        storage.inner,
    )
    return fitted(ground, child, rng.randrange(len(ground.dims))) if ground.dims else child
