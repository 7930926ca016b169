"""One node of one tensor under tiles that need not divide: its chains of digits, and sums over its carries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cached_property

from polymap.costmodel.digits import (
    Chain,
    Clock,
    Cut,
    Link,
    Part,
    Track,
    all_indices,
    changes,
    kept_indices,
    places,
)
from polymap.costmodel.groups import TensorModel
from polymap.costmodel.nest import TEMPORAL, Loop, MachineModel, Nest, Node

Pins = Mapping[int, int]  # position of a spatial loop -> the one digit of it that counts


class Siblings(Enum):
    """How the instances below one parent instance count."""

    APART = "apart"
    MERGED = "merged"
    MULTICAST = "multicast"
    ADDED = "added"


class Scene:
    """chains: per dim of the workload. carries: per temporal loop above the node, innermost first, the cut of each
    dim. pins hold spatial loops to one digit: along singles all of them, so that only elements with that digit count;
    along other dims those that name an instance, of the node where siblings are apart, else of the parent."""

    def __init__(
        self,
        extents: tuple[int, ...],
        nest: Nest,
        machine: MachineModel,
        tensor: TensorModel,
        parent: Node,
        node: Node,
        siblings: Siblings,
        pins: Pins,
    ) -> None:
        self.extents = extents
        self.tensor = tensor
        self._nest = nest
        self._node = node
        parts = _parts(machine, parent, node, siblings)
        pinned = node.fans if siblings is Siblings.APART else parent.fans
        self.chains: tuple[Chain, ...] = tuple(
            _chain([_link(loop, node, parts, pins, len(parts) if kind == 1 else pinned) for loop in chain])
            for kind, chain in zip(tensor.kinds, nest.chains, strict=True)
        )

    @cached_property
    def times(self) -> tuple[int, ...]:
        """Return per dim how many temporal loops stand above the node."""
        return tuple(sum(part is Part.TIME for _, part, _ in chain) for chain in self.chains)

    @cached_property
    def carries(self) -> list[tuple[Cut, ...]]:
        outside = list(self.times)
        carries: list[tuple[Cut, ...]] = []
        for loop in reversed(self._nest.loops):
            if loop.fanout == TEMPORAL and loop.position < self._node.position:
                outside[loop.dim] -= 1
                carries.append(tuple(Cut(cut, dim == loop.dim) for dim, cut in enumerate(outside)))
        return carries

    def whole(self) -> int:
        """Return the elements along singles, times the working places along dims that the tensor lacks, over all
        steps and instances."""
        total = 1
        for dim, kind in enumerate(self.tensor.kinds):
            if kind == 1:
                total *= all_indices(self.extents[dim], self.chains[dim])
            elif kind == 0:
                total *= places(self.chains[dim], self.times[dim], self.extents[dim])
        return total

    def kept_by_itself(self, carry: tuple[Cut, ...]) -> int:
        """Return the same for the steps of one carry at which the singles stand still, each instance on its own
        clock."""
        total = 1
        for dim, kind in enumerate(self.tensor.kinds):
            cut, moved = carry[dim]
            chain, extent = self.chains[dim], self.extents[dim]
            if kind == 1:
                total *= 0 if moved else kept_indices(extent, chain, cut, Clock.OWN)
            elif kind == 0:
                total *= places(chain, cut + moved, extent) - (places(chain, cut, extent) if moved else 0)
            if not total:
                break
        return total

    def kept_singles_by_clock(self, carry: tuple[Cut, ...]) -> int:
        """Return the elements along singles that stand still at the steps of one carry, on the machine's clock."""
        total = 1
        for dim in self.tensor.singles:
            cut, moved = carry[dim]
            total *= 0 if moved else kept_indices(self.extents[dim], self.chains[dim], cut, Clock.MACHINE)
        return total

    def kept_by_clock(self, carry: tuple[Cut, ...], holds: Callable[[tuple[Track, ...]], bool]) -> int:
        """Return the same on the machine's clock, for steps at which the siblings that work satisfy `holds`."""
        total = 1
        for dim, kind in enumerate(self.tensor.kinds):
            cut, moved = carry[dim]
            chain, extent = self.chains[dim], self.extents[dim]
            if kind == 1:
                total *= 0 if moved else kept_indices(extent, chain, cut, Clock.MACHINE)
            elif kind == 0:
                total *= sum(times for times, tracks in changes(extent, chain, carry[dim]) if holds(tracks))
            if not total:
                break
        return total


def always(_: tuple[Track, ...]) -> bool:
    """Return True: whatever the other siblings do."""
    return True


def none_starts(tracks: tuple[Track, ...]) -> bool:
    """Return whether every sibling that works now worked before."""
    return all(before > 0 for now, before in tracks if now > 0)


def none_stops(tracks: tuple[Track, ...]) -> bool:
    """Return whether every sibling that worked before works now."""
    return all(now > 0 for now, before in tracks if before > 0)


def _parts(machine: MachineModel, parent: Node, node: Node, siblings: Siblings) -> tuple[Part, ...]:
    """Return per fan-out what its loops mean to the node."""
    parts: list[Part] = []
    for fanout in range(len(machine.adds)):
        if fanout >= node.fans:
            parts.append(Part.FREE)
        elif fanout < parent.fans or siblings is Siblings.APART:
            parts.append(Part.EACH)
        elif siblings is Siblings.MULTICAST:
            united = Part.UNITED if machine.unites[fanout] else Part.MERGED
            parts.append(Part.EACH if machine.repeats[fanout] else united)
        else:
            merged = siblings is Siblings.MERGED or machine.adds[fanout]
            parts.append(Part.MERGED if merged else Part.EACH)
    return tuple(parts)


def _link(loop: Loop, node: Node, parts: tuple[Part, ...], pins: Pins, pinned: int) -> Link:
    """Return what one loop is to the node. pinned: pins count for loops over so many fan-outs, the outermost first."""
    if loop.fanout == TEMPORAL:
        return loop.tile, Part.TIME if loop.position < node.position else Part.FREE, 0
    if loop.position in pins and loop.fanout < pinned:
        return loop.tile, Part.PINNED, pins[loop.position]
    return loop.tile, parts[loop.fanout], 0


def _chain(links: list[Link]) -> Chain:
    """Return the links without the FREE ones inside all others: their digits span what the others leave."""
    while links and links[-1][1] is Part.FREE:
        links.pop()
    return tuple(links)
