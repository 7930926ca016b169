"""A chain of storage nodes: the blocks of loops between them, the loop tree that they make, and chains in which nodes
stand lower.

A node is charged as if it stood above all loops right above it that do not change its tile. Spatial loops of fan-outs
above its level must stand above the node, though, and where a window makes their place count, they may have to stand
below such loops. The node then goes down with them, right below the spatial loops, at the same cost, if none of the
loops that it passes changes its tile. A node of an outer level may go down past one of an inner level, too, and stand
below the same spatial loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import prod

from polymap.ir import Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.search.dividing.cost_tables import Tables
from polymap.search.problem import divisors

Tile = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChainNode:
    """A storage node: the tensor (index), its parent level and level, and its temporal tile per dim."""

    tensor: int
    parent: int
    level: int
    tile: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Loops between two storage nodes (or above compute): trips per dim, tiles inside and outside, spatial groups.

    groups: indices of levels below the fan-outs that stand here. nodes: the chain nodes right below.
    """

    outer: tuple[int, ...]
    inner: tuple[int, ...]
    groups: tuple[int, ...]
    node: ChainNode | None


@dataclass(frozen=True, slots=True)
class PlacedGroups:
    """Spatial groups in their final order, innermost first: (level below, temporal tile of each dim inside it)."""

    groups: tuple[tuple[int, tuple[int, ...]], ...]


def mark_at(tile: tuple[int, ...]) -> ChainNode:
    """Return a mark: a tile that the loops pass through, with no storage node."""
    return ChainNode(-1, -1, -1, tile)


def is_mark(node: ChainNode) -> bool:
    """Return whether a chain's entry is a mark."""
    return node.tensor < 0


def blocks_of(tables: Tables, chain: tuple[ChainNode, ...]) -> Iterator[tuple[Block, ...]]:
    """Yield the blocks of a chain, outermost first, the last one above compute, for every choice of the blocks in which
    spatial loops stand: above the first node that is below them, but for those whose places count no node between."""
    placed = {place.below for place in tables.context.places}
    pending = sorted({one.below for one in tables.problem.classes})
    choices: dict[int, range] = {}
    first = 0  # of the blocks without a node between
    for number, node in enumerate((*chain, None)):
        level = tables.problem.level_count if node is None else node.level
        choices |= {g: range(first if g in placed else number, number + 1) for g in pending if g <= level}
        pending = [below for below in pending if below > level]
        first = first if node is not None and is_mark(node) else number + 1
    tiles = (tables.context.tiles[0], *(node.tile for node in chain), (1,) * len(tables.problem.dims))
    for chosen in product(*choices.values()):
        standing = dict(zip(choices, chosen, strict=True))
        yield tuple(
            Block(outer, inner, tuple(g for g, own in standing.items() if own == number), node)
            for number, (node, (outer, inner)) in enumerate(zip((*chain, None), pairwise(tiles), strict=True))
        )


def ordered_chain(chain: tuple[ChainNode, ...]) -> tuple[ChainNode, ...]:
    """Return the chain with nodes of one tile sorted by level: an outer level's node above an inner one's."""
    return tuple(sorted(chain, key=lambda node: (tuple(-tile for tile in _weight(node)), node.level, node.tensor)))


def _sort_equal_tiles(chain: tuple[ChainNode, ...]) -> tuple[ChainNode, ...]:
    """Return the chain with nodes of one tile sorted so that as many spatial loops as may be stand above all of them:
    every tensor's first node before others, inner levels first."""
    ranks = [
        sum(own.tensor == node.tensor and own.tile == node.tile for own in chain[:i]) for i, node in enumerate(chain)
    ]
    numbers = sorted(range(len(chain)), key=lambda i: (-prod(chain[i].tile), ranks[i], -chain[i].level))
    return tuple(chain[i] for i in numbers)


def _weight(node: ChainNode) -> tuple[int, ...]:
    return (prod(node.tile),)


def trips_of(block: Block) -> list[int]:
    """Return the dims (numbers) that have a temporal loop in the block."""
    return [d for d, (a, b) in enumerate(zip(block.outer, block.inner, strict=True)) if a > b]


def tree_of(
    tables: Tables, blocks: tuple[Block, ...], orders: tuple[tuple[int, ...], ...], placed: PlacedGroups
) -> Mapping:
    """Return the loop tree: loops and spatial groups in order, tiles as products of what is inside."""
    problem = tables.problem
    inner = [1] * len(problem.dims)
    nodes: list[MappingNode] = [Compute(problem.workload.statements[0].name)]
    for block, order in zip(reversed(blocks), reversed(orders), strict=True):
        if block.node is not None and not is_mark(block.node):
            level = problem.arch.levels[block.node.level].name
            nodes.append(Storage(level, (problem.terms[block.node.tensor].tensor.name,)))
        waiting = [(below, tile) for below, tile in placed.groups if below in block.groups]
        inside = list(block.inner)
        sequence = list(reversed(order))
        while sequence or waiting:
            if waiting and (not sequence or _stands_here(tables, waiting[0], inside, sequence)):
                _add_group(tables, waiting.pop(0)[0], inner, nodes)
                continue
            d = sequence.pop(0)
            nodes.append(Temporal(problem.dims[d], inner[d]))
            inner[d] *= block.outer[d] // block.inner[d]
            inside[d] = block.outer[d]
    first = Storage(problem.arch.levels[0].name, tuple(term.tensor.name for term in problem.terms))
    return Mapping((first, *reversed(_one_storage_per_level(nodes))))


def _stands_here(tables: Tables, group: tuple[int, tuple[int, ...]], inside: list[int], sequence: list[int]) -> bool:
    """Return whether the group's tile is reached: nothing that must be inside it is still to come."""
    below, tile = group
    dims = tables.problem.dims
    return all(inside[d] == tile[d] for d in sequence if tables.factors.group_factor(dims[d], below) > 1)


def _add_group(tables: Tables, below: int, inner: list[int], nodes: list[MappingNode]) -> None:
    problem, factors = tables.problem, tables.structure.factors
    groups = {number: one.fanouts for number, one in enumerate(problem.classes) if one.below == below}
    loops: list[tuple[int, int, int]] = []  # by the fan-outs outermost first, where those of a dim stand, then by dim
    for d, dim in enumerate(problem.dims):
        place = tables.factors.places.get((below, dim))
        own = [f for i in (place.order if place and place.order else groups) for f in groups[i] if factors[f][d] > 1]
        loops += [(where, d, f) for where, f in zip(sorted(own), own, strict=True)]
    for _, d, f in sorted(loops, reverse=True):
        nodes.append(Spatial(problem.dims[d], inner[d], problem.arch.fanouts[f].name))
        inner[d] *= factors[f][d]


def _one_storage_per_level(nodes: list[MappingNode]) -> list[MappingNode]:
    """Return the nodes (innermost first) with neighbouring storage nodes of one level joined."""
    found: list[MappingNode] = []
    for node in nodes:
        last = found[-1] if found else None
        if isinstance(node, Storage) and isinstance(last, Storage) and node.level == last.level:
            found[-1] = Storage(node.level, (*node.tensors, *last.tensors))
        else:
            found.append(node)
    return found


def lowered_chains(tables: Tables, chain: tuple[ChainNode, ...]) -> Iterator[tuple[ChainNode, ...]]:
    """Yield the chain itself and every chain in which nodes stand lower so that spatial loops have their places."""
    chains = [chain]
    for below in sorted({place.below for place in tables.context.places}):
        chains = [other for one in chains for other in (one, *_lower_chains(tables, one, below))]
    if tables.context.places:
        chains = [other for one in chains for other in (one, _sort_equal_tiles(one))]
    yield from dict.fromkeys(chains)


def may_cross(tables: Tables, chain: tuple[ChainNode, ...]) -> bool:
    """Return whether spatial loops may stand at their decided places, however far nodes of the chain go down.

    They stand right above the first node of their level or one further in, below all nodes before it. A node that goes
    down keeps its tile along its tensor's own dims, which tells nodes that are before it in any case. Loops whose place
    a node before them does not hold would have to stand above it.
    """
    places: dict[int, list[tuple[int, int]]] = {}
    for place in tables.context.places:
        places.setdefault(place.below, []).append((tables.problem.dims.index(place.dim), place.inside))
    nodes = [node for node in chain if not is_mark(node)]
    return all(_may_cross_at(tables, nodes, below, at) for below, at in places.items())


def _may_cross_at(tables: Tables, nodes: list[ChainNode], below: int, places: list[tuple[int, int]]) -> bool:
    """Return whether the spatial loops above a level may stand at their places (dim, place) above one of the nodes."""
    firsts = [node for node in nodes if node.level >= below]
    for first in firsts or [None]:
        before = [node for node in nodes if first is None or _is_before(tables, node, first)]
        if any(node.level >= below for node in before if first is not None):
            continue
        if all(node.tile[d] % place == 0 for node in before for d, place in places):
            return True
    return False


def _is_before(tables: Tables, node: ChainNode, other: ChainNode) -> bool:
    """Return whether a node is before another one of the chain, however far both go down."""
    if node.tensor == other.tensor:
        return node.level < other.level
    dims = tables.problem.terms[node.tensor].dims
    pairs = zip(tables.problem.dims, node.tile, other.tile, strict=True)
    return any(dim in dims and inner % outer for dim, outer, inner in pairs)


def _lower_chains(tables: Tables, chain: tuple[ChainNode, ...], below: int) -> Iterator[tuple[ChainNode, ...]]:
    """Yield the chains in which the group's spatial loops stand in a later block than its first node asks for."""
    terms = tables.problem.terms
    moving: list[int] = []
    tiles = [tables.context.tiles[0], *(node.tile for node in chain), (1,) * len(tables.problem.dims)]
    for position, node in enumerate(chain):
        if is_mark(node):
            continue
        if node.level >= below:
            if terms[node.tensor].is_window:
                return
            moving.append(position)
        if moving:
            for tile in _stops(tables, chain, moving, below, (tiles[position + 1], tiles[position + 2])):
                tiles_after = tuple(tile if i in moving else n.tile for i, n in enumerate(chain))
                yield from _chain_at(tables, chain, tiles_after)


def _stops(
    tables: Tables, chain: tuple[ChainNode, ...], moving: list[int], below: int, ends: tuple[Tile, Tile]
) -> Iterator[Tile]:
    """Yield the tiles of a block at which the spatial loops may stand, the moving nodes right below them."""
    places = {place.dim: place.inside for place in tables.context.places if place.below == below}
    divisors_of = tables.caches.memo(divisors)
    choices: list[list[int]] = []
    for d, dim in enumerate(tables.problem.dims):
        between = [tile for tile in divisors_of(ends[0][d]) if tile % ends[1][d] == 0]
        for position in moving:
            if dim in tables.problem.terms[chain[position].tensor].dims:
                between = [tile for tile in between if tile == chain[position].tile[d]]
        choices.append([tile for tile in between if tile == places.get(dim, tile)])
    yield from product(*choices)


def separated_chains(tables: Tables, chain: tuple[ChainNode, ...]) -> Iterator[tuple[ChainNode, ...]]:
    """Yield every chain in which nodes stand lower by loops that do not change their tiles.

    A dim has one loop between two nodes, so a node that goes down may part two loops over one dim, which a window
    tensor can gain from.
    """
    stands = [node.tile for node in chain]
    choices = [
        [tile for tile in _lower_places(tables, chain, position) if _is_chain(tile, stands)]
        for position in range(len(chain))
    ]
    for tiles in _tile_choices(chain, choices, ()):
        for moved in _chain_at(tables, chain, tiles):
            yield from lowered_chains(tables, moved)


def _tile_choices(
    chain: tuple[ChainNode, ...], choices: list[list[Tile]], chosen: tuple[Tile, ...]
) -> Iterator[tuple[Tile, ...]]:
    """Yield every choice of one tile each in which of any two one divides the other, of one tensor the later one."""
    if len(chosen) == len(choices):
        yield chosen
        return
    own = [tile for node, tile in zip(chain, chosen, strict=False) if node.tensor == chain[len(chosen)].tensor]
    for tile in choices[len(chosen)]:
        if _is_chain(tile, chosen) and all(_divides(tile, outer) for outer in own):
            yield from _tile_choices(chain, choices, (*chosen, tile))


def _is_chain(tile: Tile, others: Sequence[Tile]) -> bool:
    """Return whether the tile divides, or is divided by, each of the others: loops can pass through all of them."""
    return all(_divides(tile, other) or _divides(other, tile) for other in others)


def _chain_at(tables: Tables, chain: tuple[ChainNode, ...], tiles: tuple[Tile, ...]) -> Iterator[tuple[ChainNode, ...]]:
    """Yield the chain with its nodes at new tiles, if that is a chain; loops still pass through the old tiles."""
    nodes = [replace(node, tile=tile) for node, tile in zip(chain, tiles, strict=True)]
    marks = dict.fromkeys(mark_at(node.tile) for node, tile in zip(chain, tiles, strict=True) if node.tile != tile)
    moved = ordered_chain((*nodes, *marks))
    if all(_divides(b.tile, a.tile) for a, b in pairwise(moved)) and _one_loop_each(tables.context.tiles[0], moved):
        yield moved


def _one_loop_each(whole: Tile, chain: tuple[ChainNode, ...]) -> bool:
    """Return whether no dim has two loops between two real nodes (marks are none)."""
    seen: set[int] = set()
    outer = whole
    for node in chain:
        dims = {d for d, (a, b) in enumerate(zip(outer, node.tile, strict=True)) if a > b}
        if dims & seen:
            return False
        seen = seen | dims if is_mark(node) else set()
        outer = node.tile
    return True


def _divides(inner: Tile, outer: Tile) -> bool:
    return all(b % a == 0 for a, b in zip(inner, outer, strict=True))


def _lower_places(tables: Tables, chain: tuple[ChainNode, ...], position: int) -> Iterator[Tile]:
    """Yield the tiles at which a node may stand, its own first, its tensor's dims as they are. Where places of spatial
    loops count, it may go down past another node together with the next one of its tensor, and a window's node may."""
    node, placed = chain[position], bool(tables.context.places)
    if is_mark(node) or (tables.problem.terms[node.tensor].is_window and not placed):
        yield node.tile
        return
    ones, divisors_of = (1,) * len(node.tile), tables.caches.memo(divisors)
    later = () if placed else chain[position + 1 :]
    floor = next((other.tile for other in later if other.tensor == node.tensor), ones)
    choices: list[list[int]] = []
    for d, dim in enumerate(tables.problem.dims):
        own = node.tile[d]
        free = dim not in tables.problem.terms[node.tensor].dims
        choices.append([v for v in reversed(divisors_of(own)) if v % floor[d] == 0] if free else [own])
    yield from product(*choices)
