"""The closed form where tiles need not divide: sums over kinds of digits (docs/closed_form.md)."""

from __future__ import annotations

from math import prod

from polymap.arithmetic import too_large
from polymap.costmodel.closed_form.accounting import Row, rows_of
from polymap.costmodel.closed_form.carries import (
    NO_PINS,
    Chains,
    Judge,
    Pins,
    Scene,
    Siblings,
    always,
    axes_of,
    none_starts,
    none_stops,
)
from polymap.costmodel.closed_form.digits import Clock, Part, clipped, places, spread
from polymap.costmodel.closed_form.groups import TensorModel, WorkloadModel
from polymap.costmodel.closed_form.multicast_reads import distinct_elements, elements_not_read
from polymap.costmodel.closed_form.nest import TEMPORAL, MachineModel, Nest, Node
from polymap.costmodel.closed_form.refills import entries_that_find_nothing, moves_of_shared, silent_events_of_shared
from polymap.costmodel.closed_form.window_sums import all_elements, first_tile, kept_elements


class Counter:
    """Counts one mapping. pins: count only what the instances with these digits of spatial loops do."""

    __slots__ = ("_chains", "_refills", "_scenes", "machine", "model", "nest")

    def __init__(self, model: WorkloadModel, machine: MachineModel, nest: Nest) -> None:
        self.model, self.machine, self.nest = model, machine, nest
        self._chains = Chains(machine, nest)
        self._refills: dict[tuple[int, int], int] = {}
        self._scenes: dict[tuple[int, Node, int, Siblings, Clock, Judge], Scene] = {}

    def scene(
        self,
        tensor: TensorModel,
        between: tuple[Node, Node],
        siblings: Siblings,
        pins: Pins = NO_PINS,
        clock: Clock = Clock.OWN,
        judge: Judge = always,
    ) -> Scene:
        parent, node = between
        key = (tensor.index, node, 0 if siblings is Siblings.APART else parent.fans, siblings, clock, judge)
        found = None if pins else self._scenes.get(key)
        if found is None:
            found = Scene(self.model.extents, self._chains, tensor, between, siblings, pins, clock, judge)
            if not pins:
                self._scenes[key] = found
        return found

    def fills(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> int:
        """Return how many elements of a read-only tensor enter the node's instances."""
        scene = self.scene(tensor, (parent, node), Siblings.APART, pins)
        total = scene.whole * prod(all_elements(axes) for axes in scene.axes)
        return total - _kept(scene, Clock.OWN)

    def messages(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> int:
        """Return how many elements the parent's instances read for what the node loads."""
        scene = self.scene(tensor, (parent, node), Siblings.MULTICAST, pins)
        total = scene.whole * prod(distinct_elements(axes) for axes in scene.axes)
        if node.level < 0:
            return tensor.reads * total
        if not scene.axes:
            return total - sum(kept for kept, _ in scene.carries())
        if self._unites_unevenly(scene):
            raise too_large()
        return total - sum(kept * elements_not_read(scene.axes, cuts) for kept, cuts in scene.carries())

    def _unites_unevenly(self, scene: Scene) -> bool:
        """Return whether siblings united along a single may differ in whether they load, beside siblings along a
        window that are merged where their loads are equal."""
        united = any(
            part is Part.UNITED
            for dim in scene.tensor.singles
            if not self.nest.even[dim]
            for _, part, _ in scene.chains[dim]
        )
        return united and any(
            part is Part.MERGED for axes in scene.axes for _, _, chain in axes for _, part, _ in chain
        )

    def entries(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> int:
        """Return how many elements of a written tensor enter the node's instances."""
        return self._moves(tensor, (parent, node), Siblings.APART, pins, none_starts)

    def events(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> int:
        """Return the same with the siblings merged that enter an element in one step."""
        return self._moves(tensor, (parent, node), Siblings.MERGED, pins, none_starts)

    def arrivals(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> int:
        """Return how many drains (of the compute unit: results) reach the parent's instances."""
        return self._moves(tensor, (parent, node), Siblings.ADDED, pins, none_stops)

    def silent_events(self, tensor: TensorModel, parent: Node, node: Node) -> int:
        """Return how many events bring no partial sum, as nothing has arrived since the event before."""
        scene = self.scene(tensor, (parent, node), Siblings.MERGED, clock=Clock.MACHINE, judge=none_starts)
        if self._is_delicate(tensor, node):
            return silent_events_of_shared(scene, self.nest)
        return 0 if tensor.windows else entries_that_find_nothing(scene, self.nest)

    def come_back(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> int:
        """Return how many of the events bring an element only to siblings that come back while the first one stays."""
        stay, all_stay = (
            _kept(self.scene(tensor, (parent, node), Siblings.MERGED, pins, Clock.MACHINE, judge), Clock.MACHINE)
            for judge in (always, none_starts)
        )
        return stay - all_stay

    def _moves(
        self, tensor: TensorModel, between: tuple[Node, Node], siblings: Siblings, pins: Pins, judge: Judge
    ) -> int:
        scene = self.scene(tensor, between, siblings, pins, Clock.MACHINE, judge)
        if between[1].level < 0:
            return scene.whole * prod(distinct_elements(axes) for axes in scene.axes)
        if siblings is not Siblings.APART and self._is_delicate(tensor, between[1]):
            return moves_of_shared(scene, self.nest, leaving=siblings is Siblings.ADDED)
        total = scene.whole * prod(all_elements(axes) for axes in scene.axes)
        return total - _kept(scene, Clock.MACHINE)

    def is_lopsided(self, tensor: TensorModel, node: Node) -> bool:
        """Return whether the node's instances take unequal shares of partial sums, even where all tiles divide."""
        return self._is_delicate(tensor, node) and self.refills(tensor, node) > 0

    def _is_delicate(self, tensor: TensorModel, node: Node) -> bool:
        """Return whether siblings may hold an element of a window through different offsets, or come back to it while
        others hold it. Then elements are looked at one by one."""
        return bool(tensor.windows) and any(
            tensor.kinds[loop.dim] == 2 or (tensor.kinds[loop.dim] == 0 and not self.nest.even[loop.dim])
            for loop in self.nest.loops
            if 0 <= loop.fanout < node.fans
        )

    def tile(self, tensor: TensorModel, node: Node) -> int:
        """Return the size of the largest tile: that of the first step in the first instance."""
        chains, _ = self._chains.at((node, node), Siblings.APART, NO_PINS)
        total = prod(first_tile(axes) for axes in axes_of(self.model.extents, chains, tensor))
        for dim in tensor.singles:
            branches = ((self.model.extents[dim], 1),)
            for tile, part, _ in chains[dim]:
                branches = spread(branches, tile) if part is Part.FREE else clipped(branches, 0, tile)
            total *= sum(length * many for length, many in branches)
        return total

    def steps(self) -> int:
        """Return how many steps there are: those of the first instance, which works whenever any does."""
        total = 1
        for extent, chain in zip(self.model.extents, self.nest.chains, strict=True):
            links = tuple((loop.tile, Part.TIME if loop.fanout == TEMPORAL else Part.MERGED, 0) for loop in chain)
            total *= places(links, len(links), extent)
        return total

    def rows(self) -> list[Row[int]]:
        """Return the rows of all tensors."""
        found: list[Row[int]] = []
        for tensor, nodes in zip(self.model.tensors, self.nest.holders, strict=True):
            found += rows_of(self, tensor, nodes, 0)
        return found

    def refills(self, tensor: TensorModel, node: Node) -> int:
        """Return how many partial sums all instances of a node of a written tensor take from their parents."""
        if (tensor.index, node.level) not in self._refills:
            nodes = self.nest.holders[tensor.index]
            self._refills |= {(row.tensor, row.level): row.fills for row in rows_of(self, tensor, nodes, 0)}
        return self._refills[tensor.index, node.level]


def _kept(scene: Scene, clock: Clock) -> int:
    """Return the elements that stay from step to step, over all carries and instances."""
    total = 0
    for kept, cuts in scene.carries():
        for axes, cut in zip(scene.axes, cuts, strict=True):
            if kept:
                kept *= kept_elements(axes, cut, clock)
        total += kept
    return total
