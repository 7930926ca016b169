"""The closed form where tiles need not divide: sums over kinds of digits (docs/closed_form.md)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod

from polymap.costmodel.digits import Clock, Cut, Part, Track, clipped, places, spread
from polymap.costmodel.groups import TensorModel, WorkloadModel
from polymap.costmodel.messages import distinct_elements, elements_not_read
from polymap.costmodel.nest import TEMPORAL, MachineModel, Nest, Node
from polymap.costmodel.progression import too_large
from polymap.costmodel.scene import Pins, Scene, Siblings, always, none_starts, none_stops
from polymap.costmodel.tally import Row
from polymap.costmodel.window_digits import window_classes
from polymap.costmodel.window_sums import all_elements, held, kept_elements, siblings_are_apart

NO_PINS: Pins = {}


class Counter:
    """Counts one mapping. pins: count only what the instances with these digits of spatial loops do."""

    def __init__(self, model: WorkloadModel, machine: MachineModel, nest: Nest) -> None:
        self.model, self.machine, self.nest = model, machine, nest

    def scene(self, tensor: TensorModel, parent: Node, node: Node, siblings: Siblings, pins: Pins) -> Scene:
        return Scene(self.model.extents, self.nest, self.machine, tensor, parent, node, siblings, pins)

    def fills(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> int:
        """Return how many elements of a read-only tensor enter the node's instances."""
        scene = self.scene(tensor, parent, node, Siblings.APART, pins)
        total = scene.whole() * prod(all_elements(scene, window) for window in tensor.windows)
        for carry in scene.carries:
            kept = scene.kept_by_itself(carry)
            for window in tensor.windows:
                if kept:
                    kept *= kept_elements(scene, window, carry, Clock.OWN)
            total -= kept
        return total

    def messages(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> int:
        """Return how many elements the parent's instances read for what the node loads."""
        scene = self.scene(tensor, parent, node, Siblings.MULTICAST, pins)
        total = scene.whole() * prod(distinct_elements(scene, window) for window in tensor.windows)
        if node.level < 0:
            return tensor.reads * total
        if tensor.windows and self._unites_unevenly(scene):
            raise too_large()
        for carry in scene.carries:
            kept = scene.kept_by_itself(carry)
            if kept and tensor.windows:
                kept *= elements_not_read(scene, tensor, carry)
            total -= kept
        return total

    def _unites_unevenly(self, scene: Scene) -> bool:
        """Return whether siblings united along a single may differ in whether they load, beside siblings along a
        window that are merged where their loads are equal."""
        united = any(part is Part.UNITED for dim in scene.tensor.singles for _, part, _ in scene.chains[dim])
        merged = any(
            part is Part.MERGED
            for window in scene.tensor.windows
            for dim, _ in window.terms
            for _, part, _ in scene.chains[dim]
        )
        return united and merged and not self.nest.divides

    def entries(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> int:
        """Return how many elements of a written tensor enter the node's instances."""
        return self._moves(tensor, parent, node, Siblings.APART, pins, none_starts)

    def events(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> int:
        """Return the same with the siblings merged that enter an element in one step."""
        return self._moves(tensor, parent, node, Siblings.MERGED, pins, none_starts)

    def arrivals(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> int:
        """Return how many drains (of the compute unit: results) reach the parent's instances."""
        return self._moves(tensor, parent, node, Siblings.ADDED, pins, none_stops)

    def come_back(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> int:
        """Return how many of the events bring an element only to siblings that come back while the first one stays."""
        scene = self.scene(tensor, parent, node, Siblings.MERGED, pins)
        return self._kept(scene, always) - self._kept(scene, none_starts)

    def _moves(
        self,
        tensor: TensorModel,
        parent: Node,
        node: Node,
        siblings: Siblings,
        pins: Pins,
        holds: Callable[[tuple[Track, ...]], bool],
    ) -> int:
        scene = self.scene(tensor, parent, node, siblings, pins)
        if node.level < 0:
            return scene.whole() * prod(distinct_elements(scene, window) for window in tensor.windows)
        self._check_windows(tensor, parent, node)
        total = scene.whole() * prod(all_elements(scene, window) for window in tensor.windows)
        return total - self._kept(scene, holds)

    def _kept(self, scene: Scene, holds: Callable[[tuple[Track, ...]], bool]) -> int:
        """Return the elements that stay from step to step, on the machine's clock."""
        total = 0
        for carry in scene.carries:
            kept = scene.kept_by_clock(carry, holds)
            for window in scene.tensor.windows:
                if kept:
                    kept *= kept_elements(scene, window, carry, Clock.MACHINE)
            total += kept
        return total

    def _check_windows(self, tensor: TensorModel, parent: Node, node: Node) -> None:
        """Raise BudgetError unless each element of a written tensor with windows is held through one offset at a time,
        and the siblings along dims that it lacks always work together."""
        if not tensor.windows:
            return
        scene = self.scene(tensor, parent, node, Siblings.MERGED, NO_PINS)
        merged = [any(part is Part.MERGED for _, part, _ in chain) for chain in scene.chains]
        for dim, kind in enumerate(tensor.kinds):
            if kind == 0 and merged[dim] and not self.nest.dim_divides(dim):
                raise too_large()
        for window in tensor.windows:
            if any(merged[dim] for dim, _ in window.terms) and not siblings_are_apart(scene, window):
                raise too_large()

    def steps(self) -> int:
        """Return how many steps there are: those of the first instance, which works whenever any does."""
        total = 1
        for extent, chain in zip(self.model.extents, self.nest.chains, strict=True):
            links = tuple((loop.tile, Part.TIME if loop.fanout == TEMPORAL else Part.MERGED, 0) for loop in chain)
            total *= places(links, len(links), extent)
        return total

    def tile(self, tensor: TensorModel, node: Node) -> int:
        """Return the size of the largest tile: that of the first step in the first instance."""
        scene = self.scene(tensor, node, node, Siblings.APART, NO_PINS)
        first = [
            tuple((tile, Part.PINNED, 0) if part is Part.EACH else (tile, part, pin) for tile, part, pin in chain)
            for chain in scene.chains
        ]
        total = 1
        for dim in tensor.singles:
            branches = ((self.model.extents[dim], 1),)
            for tile, part, _ in first[dim]:
                branches = spread(branches, tile) if part is Part.FREE else clipped(branches, 0, tile)
            total *= sum(length * many for length, many in branches)
        for window in tensor.windows:
            tracks = [
                window_classes(self.model.extents[dim], first[dim], Cut(0, moved=False), Clock.OWN)[0][1][0]
                for dim, _ in window.terms
            ]
            found = held(window, tuple(tracks))
            assert found is not None, "the first instance works in the first step"
            total *= found.size
        return total

    def rows(self) -> list[Row]:
        """Return the rows of all tensors; their busiest instances are left to `busiest`."""
        found: list[Row] = []
        for tensor, nodes in zip(self.model.tensors, self.nest.holders, strict=True):
            found += self.written_rows(tensor, nodes) if tensor.written else self._read_rows(tensor, nodes)
        return found

    def _read_rows(self, tensor: TensorModel, nodes: tuple[Node, ...]) -> list[Row]:
        rows: list[Row] = []
        fills = 0
        for node, below in pairwise(nodes):
            reads = self.messages(tensor, node, below)
            rows.append(Row(node.level, tensor.index, reads, fills, fills, 0, self.tile(tensor, node)))
            if below.level >= 0:
                fills = self.fills(tensor, node, below)
        return rows

    def written_rows(self, tensor: TensorModel, nodes: tuple[Node, ...]) -> list[Row]:
        """Return the rows of the target from entries, entry events and arrivals (docs/closed_form.md)."""
        rows: list[Row] = []
        entries = fills = 0
        for number, (node, below) in enumerate(pairwise(nodes)):
            tile = self.tile(tensor, node)
            arrivals = self.arrivals(tensor, node, below)
            if number == 0:
                entries = tile
                fills = tile if tensor.initial and not tensor.overwritten else 0
                rows.append(Row(node.level, tensor.index, arrivals - entries + fills, arrivals, 0, 0, tile))
            else:
                parent = nodes[number - 1]
                fills += self.events(tensor, parent, node) - entries
                entries = self.entries(tensor, parent, node)
                moved = arrivals + fills
                rows.append(Row(node.level, tensor.index, moved, moved, fills, entries, tile))
        return rows
