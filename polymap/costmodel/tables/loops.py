"""Many mappings of one tree shape as columns of integers: loops, tiles, trip counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymap.costmodel.closed_form import TEMPORAL, Shape
from polymap.ir import MappingNode, Spatial, Temporal, changed_nodes

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
