"""The loop view of a tree: every loop, storage node and compute with what stands above it, trip counts included."""

from __future__ import annotations

from collections.abc import Mapping as Table
from dataclasses import dataclass, field
from typing import NamedTuple

from polymap.ir import Branch, Compute, Mapping, MappingNode, Spatial, Storage, Temporal


class LoopInTree(NamedTuple):
    """A loop. position: its number when the tree is read from top to bottom. enclosing: the tile around it.

    tile: no larger than that. trips: nominal."""

    position: int
    node: Temporal | Spatial
    enclosing: int
    tile: int
    trips: int


class StorageInTree(NamedTuple):
    """A storage node and what is around it, outermost first."""

    position: int
    node: Storage
    above: tuple[LoopInTree | StorageInTree, ...]

    @property
    def loops(self) -> tuple[LoopInTree, ...]:
        """The loops above."""
        return tuple(each for each in self.above if isinstance(each, LoopInTree))


class ComputeInTree(NamedTuple):
    """A compute node and what is around it, outermost first."""

    position: int
    node: Compute
    above: tuple[LoopInTree | StorageInTree, ...]

    @property
    def loops(self) -> tuple[LoopInTree, ...]:
        """The loops above."""
        return tuple(each for each in self.above if isinstance(each, LoopInTree))

    @property
    def storages(self) -> tuple[StorageInTree, ...]:
        """The storage nodes above."""
        return tuple(each for each in self.above if isinstance(each, StorageInTree))


@dataclass(frozen=True, slots=True)
class LoopView:
    """The nodes of a tree by kind, each kind from top to bottom."""

    loops: tuple[LoopInTree, ...]
    storages: tuple[StorageInTree, ...]
    computes: tuple[ComputeInTree, ...]

    def computes_below(self, storage: StorageInTree) -> tuple[ComputeInTree, ...]:
        """Return the computes below a storage node."""
        return tuple(each for each in self.computes if any(above.position == storage.position for above in each.above))


def view_of(extents: Table[str, int], mapping: Mapping) -> LoopView:
    """Return the loop view of a tree that `check_mapping` accepts. extents: of all dims."""
    reader = _Reader()
    reader.read(mapping.nodes, extents, ())
    return LoopView(tuple(reader.loops), tuple(reader.storages), tuple(reader.computes))


def trip_count(enclosing: int, tile: int) -> int:
    """Return how many iterations a loop has: the enclosing tile / the loop's tile, rounded up."""
    return -(-enclosing // tile)


@dataclass(slots=True)
class _Reader:
    loops: list[LoopInTree] = field(default_factory=list[LoopInTree])
    storages: list[StorageInTree] = field(default_factory=list[StorageInTree])
    computes: list[ComputeInTree] = field(default_factory=list[ComputeInTree])
    position: int = -1

    def read(
        self, nodes: tuple[MappingNode, ...], tiles: Table[str, int], above: tuple[LoopInTree | StorageInTree, ...]
    ) -> None:
        left = dict(tiles)
        for node in nodes:
            self.position += 1
            match node:
                case Temporal() | Spatial():
                    enclosing = left[node.dim]
                    tile = left[node.dim] = min(node.tile, enclosing)
                    loop = LoopInTree(self.position, node, enclosing, tile, trip_count(enclosing, tile))
                    self.loops.append(loop)
                    above = (*above, loop)
                case Storage():
                    storage = StorageInTree(self.position, node, above)
                    self.storages.append(storage)
                    above = (*above, storage)
                case Compute():
                    self.computes.append(ComputeInTree(self.position, node, above))
                case Branch(children):
                    for child in children:
                        self.read(child, left, above)
