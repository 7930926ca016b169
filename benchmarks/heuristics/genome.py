"""A loop tree as a fixed-length genome: how it is drawn, changed and crossed.

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
class GenomeSpace:
    """The workload and machine of genomes. slots: (tensor, level) numbers; must: whether the slot has to hold; groups:
    fan-outs by the number of the first level below them; divide: whether tiles have to divide."""

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


def genome_space(workload: Workload, arch: Architecture, *, divide: bool) -> GenomeSpace:
    """Return the genomes' space of a workload of one statement on a machine."""
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
    return GenomeSpace(workload, arch, dims, sizes, tuple(slots), must, _groups(arch), divide)


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


def plain_genome(space: GenomeSpace) -> Genome:
    """Return the tree that needs least room: all loops above, only what must be held, right above compute."""
    count, blocks = len(space.dims), len(space.slots) + 1
    first = tuple((extent, *(1 for _ in range(blocks - 2))) if blocks > 1 else () for extent in space.extents)
    return Genome(
        order=tuple(range(len(space.slots))),
        held=space.must,
        trips=first,
        spread=tuple((1,) * len(space.arch.fanouts) for _ in range(count)),
        loops=(tuple(range(count)),) * blocks,
        inner=(True,) * len(space.groups),
    )


def random_genome(space: GenomeSpace, rng: Random) -> Genome:
    """Return a genome drawn without preference: each prime of an extent goes to a random block or fan-out."""
    genome = plain_genome(space)
    fanouts = range(len(space.arch.fanouts))
    blocks = len(space.slots)
    trips = [[1] * blocks for _ in space.dims]
    spread = [[1 for _ in fanouts] for _ in space.dims]
    room = [one.size for one in space.arch.fanouts]
    for d, extent in enumerate(space.extents):
        for prime in _factors_to_deal(space, extent, rng):
            # The last block, which takes what is left, is the place numbered `blocks`.
            place = rng.randrange(blocks + 1 + len(room))
            f = place - blocks - 1
            if place < blocks:
                trips[d][place] *= prime
            elif f >= 0 and room[f] >= prime and spread[d][f] * prime <= space.limit(f, d):
                spread[d][f] *= prime
                room[f] //= prime
    return replace(
        genome,
        order=_random_order(space, rng),
        held=tuple(must or rng.random() < 0.6 for must in space.must),
        trips=tuple(tuple(row) for row in trips),
        spread=tuple(tuple(row) for row in spread),
        loops=tuple(_permutation(len(space.dims), rng) for _ in range(blocks + 1)),
        inner=tuple(rng.random() < 0.5 for _ in space.groups),
    )


def _factors_to_deal(space: GenomeSpace, extent: int, rng: Random) -> list[int]:
    """Return the factors that are dealt out: the primes of the extent, or of any number near it."""
    number = extent if space.divide or rng.random() < 0.5 else rng.randint(extent, extent + extent // 2)
    return [prime for prime, exponent in prime_factors(number) for _ in range(exponent)]


def _permutation(count: int, rng: Random) -> Row:
    numbers = list(range(count))
    rng.shuffle(numbers)
    return tuple(numbers)


def _random_order(space: GenomeSpace, rng: Random) -> Row:
    """Return a random order of the slots in which each tensor's levels follow the machine's."""
    return _in_machine_order(space, _permutation(len(space.slots), rng))


def _in_machine_order(space: GenomeSpace, order: Row) -> Row:
    """Return the order with each tensor's slots sorted by level in the places that they have."""
    waiting = {t: sorted(s for s, (u, _) in enumerate(space.slots) if u == t) for t, _ in space.slots}
    return tuple(waiting[space.slots[slot][0]].pop(0) for slot in order)


def tree_of_genome(space: GenomeSpace, genome: Genome) -> Mapping:
    """Return the loop tree; blocks with no node between them are one block."""
    nodes: list[MappingNode] = []
    left = list(space.extents)
    waiting = list(range(len(space.groups)))
    held = [position for position, slot in enumerate(genome.order) if genome.held[slot]]
    ends = [*held, len(space.slots)]
    for start, end in zip([0, *(position + 1 for position in held)], ends, strict=True):
        last = end == len(space.slots)
        level = len(space.arch.levels) if last else space.slots[genome.order[end]][1]
        here = [g for g in waiting if space.groups[g][0] <= level]
        waiting = [g for g in waiting if g not in here]
        outside = [g for g in here if not genome.inner[g]]
        inside = [g for g in here if genome.inner[g]]
        for g in outside:
            _add_group(space, genome, g, left, nodes)
        _add_block(space, genome, (start, end), inside, left, nodes)
        for g in inside:
            _add_group(space, genome, g, left, nodes)
        if not last:
            tensor, number = space.slots[genome.order[end]]
            _add_node(space.arch.levels[number].name, space.workload.tensors[tensor].name, nodes)
    return Mapping((*nodes, Compute(space.workload.statements[0].name)))


def _add_block(
    space: GenomeSpace,
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
        if end == len(space.slots):
            tile = min(left[d], prod(genome.spread[d][f] for g in inside for f in space.groups[g][1]))
        if tile < left[d]:
            nodes.append(Temporal(space.dims[d], tile))
            left[d] = tile


def _add_group(space: GenomeSpace, genome: Genome, group: int, left: list[int], nodes: list[MappingNode]) -> None:
    for f in space.groups[group][1]:
        for d, dim in enumerate(space.dims):
            tile = -(-left[d] // genome.spread[d][f])
            if tile < left[d]:
                nodes.append(Spatial(dim, tile, space.arch.fanouts[f].name))
                left[d] = tile


def _add_node(level: str, tensor: str, nodes: list[MappingNode]) -> None:
    above = nodes[-1] if nodes else None
    if isinstance(above, Storage) and above.level == level:
        nodes[-1] = Storage(level, (*above.tensors, tensor))
    else:
        nodes.append(Storage(level, (tensor,)))


def neighbour(space: GenomeSpace, genome: Genome, rng: Random) -> Genome:
    """Return the genome after one small random change."""
    moves = (_move_factor, _move_factor, _swap_loops, _swap_slots, _flip_held, _flip_group)
    for _ in range(20):
        changed = rng.choice(moves)(space, genome, rng)
        if changed != genome:
            return changed
    return genome


def _move_factor(space: GenomeSpace, genome: Genome, rng: Random) -> Genome:
    """Take a prime from one block or fan-out of a dim and give it to another (or, any tiles, take or give alone)."""
    d = rng.randrange(len(space.dims)) if space.dims else 0
    if not space.dims:
        return genome
    blocks = len(space.slots)
    genes = [*genome.trips[d], *genome.spread[d]]
    left = max(1, space.extents[d] // prod(genes))
    source, target = rng.randrange(len(genes) + 1), rng.randrange(len(genes) + 1)
    taken = left if source == len(genes) else genes[source]
    if taken == 1 or source == target:
        return genome
    prime = rng.choice([prime for prime, _ in prime_factors(taken)])
    if source < len(genes):
        genes[source] //= prime
    if target < len(genes):
        given = prime if space.divide or rng.random() < 0.7 else rng.randint(2, 4)
        genes[target] *= given
    trips = _with_row(genome.trips, d, tuple(genes[:blocks]))
    return with_fitting_fanouts(
        space, replace(genome, trips=trips, spread=_with_row(genome.spread, d, tuple(genes[blocks:]))), d
    )


def _with_row(rows: tuple[Row, ...], at: int, row: Row) -> tuple[Row, ...]:
    return (*rows[:at], row, *rows[at + 1 :])


def with_fitting_fanouts(space: GenomeSpace, genome: Genome, first: int) -> Genome:
    """Return the genome with fan-outs within their size: other dims than `first` give up their factors, then it."""
    spread = [list(row) for row in genome.spread]
    others = [d for d in range(len(space.dims)) if d != first]
    for f, one in enumerate(space.arch.fanouts):
        for d in [*others, first]:
            limit = space.limit(f, d)
            if spread[d][f] > limit:
                spread[d][f] = max(x for x in divisors(spread[d][f]) if x <= limit)
        for d in [*others, first]:
            if prod(row[f] for row in spread) > one.size:
                spread[d][f] = 1
    return replace(genome, spread=tuple(tuple(row) for row in spread))


def _with_swapped_neighbours(row: Row, rng: Random) -> Row:
    if len(row) < 2:
        return row
    at = rng.randrange(len(row) - 1)
    return (*row[:at], row[at + 1], row[at], *row[at + 2 :])


def _swap_loops(space: GenomeSpace, genome: Genome, rng: Random) -> Genome:
    block = rng.randrange(len(genome.loops))
    row = (
        _permutation(len(space.dims), rng) if rng.random() < 0.3 else _with_swapped_neighbours(genome.loops[block], rng)
    )
    return replace(genome, loops=_with_row(genome.loops, block, row))


def _swap_slots(space: GenomeSpace, genome: Genome, rng: Random) -> Genome:
    return replace(genome, order=_in_machine_order(space, _with_swapped_neighbours(genome.order, rng)))


def _flip_held(space: GenomeSpace, genome: Genome, rng: Random) -> Genome:
    free = [slot for slot, must in enumerate(space.must) if not must]
    if not free:
        return genome
    chosen = rng.choice(free)
    return replace(genome, held=tuple(held != (slot == chosen) for slot, held in enumerate(genome.held)))


def _flip_group(space: GenomeSpace, genome: Genome, rng: Random) -> Genome:
    if not space.groups:
        return genome
    chosen = rng.randrange(len(space.groups))
    return replace(genome, inner=tuple(flag != (g == chosen) for g, flag in enumerate(genome.inner)))


def crossover(space: GenomeSpace, mother: Genome, father: Genome, rng: Random) -> Genome:
    """Return a child: tiles per dim, loop orders per block, storage and group places each from one parent."""
    which = [rng.random() < 0.5 for _ in space.dims]
    storage = mother if rng.random() < 0.5 else father
    child = Genome(
        storage.order,
        storage.held,
        tuple(m if w else f for w, m, f in zip(which, mother.trips, father.trips, strict=True)),
        tuple(m if w else f for w, m, f in zip(which, mother.spread, father.spread, strict=True)),
        tuple(m if rng.random() < 0.5 else f for m, f in zip(mother.loops, father.loops, strict=True)),
        storage.inner,
    )
    return with_fitting_fanouts(space, child, rng.randrange(len(space.dims))) if space.dims else child
