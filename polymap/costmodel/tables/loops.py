"""Many mappings of one tree shape as columns of integers: loops, tiles, trip counts, and the nodes of each tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymap.costmodel.closed_form import TEMPORAL, MachineModel, Node, WorkloadModel
from polymap.ir import Branch, Mapping, MappingNode, Spatial, Storage, Temporal, changed_nodes

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Many = Integers | int


class ExtentColumn(NamedTuple):
    """An extent that differs between rows. column: its number among the columns of tiles."""

    column: int


Extent = int | ExtentColumn


def quotient(dividend: Many, divisor: Integers) -> Integers:
    """Return dividend // divisor by floating-point division.

    It is exact as all lengths are below 2^51 (`Prices.fit`): a quotient that is not an integer differs from one by more
    than the rounding error.
    """
    return (dividend / divisor).astype(np.int64)


class LoopColumn(NamedTuple):
    """One loop of the tree. column: its number among the loops, outermost first. fanout: index, or TEMPORAL."""

    column: int
    dim: int
    fanout: int
    position: int


@dataclass(frozen=True, slots=True)
class Shape:
    """The tree without its tiles: loops in order, and per tensor its nodes, outermost first, the compute unit last."""

    loops: tuple[LoopColumn, ...]
    holders: tuple[tuple[Node, ...], ...]


def shape_of_tree(model: WorkloadModel, machine: MachineModel, tree: Mapping) -> Shape | None:
    """Return the shape of a readable tree; None where it has a Branch."""
    numbers = {name: number for number, name in enumerate(model.dims)}
    tensors = {tensor.name: tensor.index for tensor in model.tensors}
    holders: list[list[Node]] = [[Node(0, -1, 0)] for _ in tensors]
    loops: list[LoopColumn] = []
    for position, node in enumerate(tree.nodes):
        if isinstance(node, Branch):
            return None
        if isinstance(node, Temporal | Spatial):
            fanout = machine.fanouts[node.fanout] if isinstance(node, Spatial) else TEMPORAL
            loops.append(LoopColumn(len(loops), numbers[node.dim], fanout, position))
        elif isinstance(node, Storage):
            level, fans = machine.levels[node.level]
            for tensor in node.tensors if level else ():
                holders[tensors[tensor]].append(Node(level, position, fans))
    end = Node(-1, len(tree.nodes), len(machine.fanouts))
    return Shape(tuple(loops), tuple((*nodes, end) for nodes in holders))


def loops_of_tree(nodes: Sequence[MappingNode]) -> Iterator[Temporal | Spatial]:
    """Yield the loops, children of a branch one after the other."""
    for node in nodes:
        if isinstance(node, Temporal | Spatial):
            yield node
        elif isinstance(node, Branch):
            for child in node.children:
                yield from loops_of_tree(child)


def with_tiles(nodes: Sequence[MappingNode], tiles: Iterator[int]) -> tuple[MappingNode, ...]:
    """Return the nodes with the next tiles, one per loop."""
    return changed_nodes(
        nodes, lambda node: replace(node, tile=next(tiles)) if isinstance(node, Temporal | Spatial) else node
    )


class Columns:
    """The loops of many mappings: one array per loop.

    tiles: at most the enclosing one. trips: nominal. steps: their product over temporal loops. ends: per dim the last
    tile. even: per dim and mapping, whether every tile divides the enclosing one.
    """

    __slots__ = ("ends", "even", "rows", "steps", "tiles", "trips")

    def __init__(self, extents: Sequence[Many], shape: Shape, columns: Sequence[Integers], rows: int) -> None:
        self.rows = rows
        self.ends: dict[int, Integers] = {}
        self.tiles: list[Integers] = []
        self.trips: list[Integers] = []
        self.even: dict[int, Booleans] = {}
        self.steps = np.ones(self.rows, dtype=np.int64)
        for loop in shape.loops:
            enclosing = self.ends.get(loop.dim)
            if enclosing is None:
                enclosing = np.full(self.rows, extents[loop.dim], dtype=np.int64)
            tile = np.minimum(columns[loop.column], enclosing)
            trips = quotient(enclosing + (tile - 1), tile)
            divides = trips * tile == enclosing
            self.even[loop.dim] = divides & self.even[loop.dim] if loop.dim in self.even else divides
            self.ends[loop.dim] = tile
            self.tiles.append(tile)
            self.trips.append(trips)
            if loop.fanout == TEMPORAL:
                self.steps = self.steps * trips

    def part(self, rows: slice | Integers) -> Columns:
        """Return some of the mappings."""
        found = object.__new__(Columns)
        found.tiles, found.trips = ([column[rows] for column in each] for each in (self.tiles, self.trips))
        found.ends = {dim: each[rows] for dim, each in self.ends.items()}
        found.even = {dim: each[rows] for dim, each in self.even.items()}
        found.steps = self.steps[rows]
        found.rows = len(found.steps)
        return found
