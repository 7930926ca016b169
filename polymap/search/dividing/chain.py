"""A chain of storage nodes and the blocks of loops between them, and the loop tree that they make."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from polymap.ir import Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.search.dividing.node_costs import Tables


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
class Placed:
    """Spatial groups in their final order, innermost first: (level below, temporal tile of each dim inside it)."""

    groups: tuple[tuple[int, tuple[int, ...]], ...]


def mark_at(tile: tuple[int, ...]) -> ChainNode:
    """Return a mark: a tile that the loops pass through, with no storage node."""
    return ChainNode(-1, -1, -1, tile)


def is_mark(node: ChainNode) -> bool:
    """Return whether a chain's entry is a mark."""
    return node.tensor < 0


def blocks_of(tables: Tables, chain: tuple[ChainNode, ...]) -> tuple[Block, ...]:
    """Return the blocks of a chain, outermost first; the last one stands above compute."""
    top = tables.context.tiles[0]
    ones = tuple(1 for _ in top)
    pending = sorted({one.below for one in tables.problem.classes})
    found: list[Block] = []
    outer = top
    for node in (*chain, None):
        level = tables.problem.level_count if node is None else node.level
        here = tuple(below for below in pending if below <= level)
        pending = [below for below in pending if below > level]
        inner = ones if node is None else node.tile
        found.append(Block(outer, inner, here, node))
        outer = inner
    return tuple(found)


def ordered_chain(chain: tuple[ChainNode, ...]) -> tuple[ChainNode, ...]:
    """Return the chain with nodes of one tile sorted by level: an outer level's node above an inner one's."""
    return tuple(sorted(chain, key=lambda node: (tuple(-tile for tile in _weight(node)), node.level, node.tensor)))


def _weight(node: ChainNode) -> tuple[int, ...]:
    return (prod(node.tile),)


def trips_of(block: Block) -> list[int]:
    """Return the dims (numbers) that have a temporal loop in the block."""
    return [d for d, (a, b) in enumerate(zip(block.outer, block.inner, strict=True)) if a > b]


def group_factor(tables: Tables, below: int, dim: int) -> int:
    """Return the dim's factor over the fan-outs whose first level below is `below`."""
    rows = zip(tables.problem.classes, tables.structure.classes, strict=True)
    return prod(row[dim] for one, row in rows if one.below == below)


def tree_of(tables: Tables, blocks: tuple[Block, ...], orders: tuple[tuple[int, ...], ...], placed: Placed) -> Mapping:
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
    return Mapping((first, *reversed(_joined(nodes))))


def _stands_here(tables: Tables, group: tuple[int, tuple[int, ...]], inside: list[int], sequence: list[int]) -> bool:
    """Return whether the group's tile is reached: nothing that must be inside it is still to come."""
    below, tile = group
    return all(inside[d] == tile[d] for d in sequence if group_factor(tables, below, d) > 1)


def _add_group(tables: Tables, below: int, inner: list[int], nodes: list[MappingNode]) -> None:
    problem = tables.problem
    fanouts = [f for one in problem.classes if one.below == below for f in one.fanouts]
    for f in sorted(fanouts, reverse=True):
        for d in reversed(range(len(problem.dims))):
            factor = tables.structure.factors[f][d]
            if factor > 1:
                nodes.append(Spatial(problem.dims[d], inner[d], problem.arch.fanouts[f].name))
                inner[d] *= factor


def _joined(nodes: list[MappingNode]) -> list[MappingNode]:
    """Return the nodes (innermost first) with neighbouring storage nodes of one level joined."""
    found: list[MappingNode] = []
    for node in nodes:
        last = found[-1] if found else None
        if isinstance(node, Storage) and isinstance(last, Storage) and node.level == last.level:
            found[-1] = Storage(node.level, (*node.tensors, *last.tensors))
        else:
            found.append(node)
    return found
