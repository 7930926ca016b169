"""Where spatial loops stand lower than the nodes that they must stand above.

A node is charged as if it stood above all loops right above it that do not change its tile. Spatial loops of fan-outs
above its level must stand above the node, though, and where a window makes their place count, they may have to stand
below such loops. The node then goes down with them, right below the spatial loops, at the same cost, if none of the
loops that it passes changes its tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from polymap.search.chain import ChainNode, ordered_chain
from polymap.search.lattice import divisors
from polymap.search.tables import Tables

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
        if node.level >= below:
            if terms[node.tensor].is_window:
                return
            moving.append(position)
        if moving:
            for tile in _stops(tables, chain, moving, below, (tiles[position + 1], tiles[position + 2])):
                moved = [replace(n, tile=tile) if i in moving else n for i, n in enumerate(chain)]
                yield ordered_chain(tuple(moved))


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
