"""Where spatial loops stand lower than the nodes that they must stand above.

A node is charged as if it stood above all loops right above it that do not change its tile. Spatial loops of fan-outs
above its level must stand above the node, though, and where a window makes their place count, they may have to stand
below such loops. The node then goes down with them, right below the spatial loops, at the same cost, if none of the
loops that it passes changes its tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, product

from polymap.search.dividing.chain import ChainNode, is_mark, mark_at, ordered_chain
from polymap.search.dividing.node_costs import Tables
from polymap.search.problem import divisors

Tile = tuple[int, ...]


def lowered_chains(tables: Tables, chain: tuple[ChainNode, ...]) -> Iterator[tuple[ChainNode, ...]]:
    """Yield the chain itself and every chain in which nodes stand lower so that spatial loops have their places."""
    chains = [chain]
    for below in sorted({below for (below, _), _ in tables.context.places}):
        chains = [other for one in chains for other in (one, *_lowered(tables, one, below))]
    yield from dict.fromkeys(chains)


def _lowered(tables: Tables, chain: tuple[ChainNode, ...], below: int) -> Iterator[tuple[ChainNode, ...]]:
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
                yield from _moved(tables, chain, tiles_after)


def _stops(
    tables: Tables, chain: tuple[ChainNode, ...], moving: list[int], below: int, ends: tuple[Tile, Tile]
) -> Iterator[Tile]:
    """Yield the tiles of a block at which the spatial loops may stand, the moving nodes right below them."""
    places = {dim: place for (group, dim), place in tables.context.places if group == below}
    choices: list[list[int]] = []
    for d, dim in enumerate(tables.problem.dims):
        between = [tile for tile in divisors(ends[0][d]) if tile % ends[1][d] == 0]
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
    for tiles in _together(choices, ()):
        for moved in _moved(tables, chain, tiles):
            yield from lowered_chains(tables, moved)


def _together(choices: list[list[Tile]], chosen: tuple[Tile, ...]) -> Iterator[tuple[Tile, ...]]:
    """Yield every choice of one tile each in which of any two one divides the other."""
    if len(chosen) == len(choices):
        yield chosen
        return
    for tile in choices[len(chosen)]:
        if _is_chain(tile, chosen):
            yield from _together(choices, (*chosen, tile))


def _is_chain(tile: Tile, others: Sequence[Tile]) -> bool:
    """Return whether the tile divides, or is divided by, each of the others: loops can pass through all of them."""
    return all(_divides(tile, other) or _divides(other, tile) for other in others)


def _moved(tables: Tables, chain: tuple[ChainNode, ...], tiles: tuple[Tile, ...]) -> Iterator[tuple[ChainNode, ...]]:
    """Yield the chain with its nodes at new tiles, if that is a chain; loops still pass through the old tiles."""
    nodes = [replace(node, tile=tile) for node, tile in zip(chain, tiles, strict=True)]
    marks = [mark_at(node.tile) for node, tile in zip(chain, tiles, strict=True) if node.tile != tile]
    moved = ordered_chain((*nodes, *dict.fromkeys(marks)))
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
    """Yield the tiles at which a node may stand, its own first: above its tensor's next node, its dims as they are."""
    node = chain[position]
    if is_mark(node) or tables.problem.terms[node.tensor].is_window:
        yield node.tile
        return
    ones = (1,) * len(node.tile)
    floor = next((other.tile for other in chain[position + 1 :] if other.tensor == node.tensor), ones)
    choices: list[list[int]] = []
    for d, dim in enumerate(tables.problem.dims):
        own = node.tile[d]
        free = dim not in tables.problem.terms[node.tensor].dims
        choices.append([v for v in reversed(divisors(own)) if v % floor[d] == 0] if free else [own])
    yield from product(*choices)
