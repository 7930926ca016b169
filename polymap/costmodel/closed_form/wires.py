"""What crosses the fan-outs that cost energy, over any type of numbers (docs/counting.md, "Wires").

A fan-out between a node and its parent is crossed by what the node loads, as if the parent stood at either end of it:
the same count as the parent's own, with more fan-outs above.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Generic, NamedTuple, Protocol

from polymap.costmodel.closed_form.accounting import Amount, Counted, Figure, Row
from polymap.costmodel.closed_form.dividing_tiles import DividingTiles, Progressions
from polymap.costmodel.closed_form.groups import TensorModel, WorkloadModel
from polymap.costmodel.closed_form.nest import Loop, MachineModel, Node


class Wire(NamedTuple, Generic[Figure]):
    """One tensor on one fan-out, in elements (`WireUse`)."""

    fanout: int
    tensor: int
    messages: Figure
    deliveries: Figure
    collections: Figure
    sums: Figure


class CrossingCounts(Protocol[Counted]):
    """What passes between nodes, summed over all instances of the parent."""

    def messages(self, tensor: TensorModel, parent: Node, node: Node) -> Counted:
        """Return how many elements the parent's instances send for what the node loads."""
        ...

    def arrivals(self, tensor: TensorModel, parent: Node, node: Node) -> Counted:
        """Return how many drains (of the compute unit: results) reach the parent's instances."""
        ...


def wires_of(
    counts: CrossingCounts[Amount],
    machine: MachineModel,
    model: WorkloadModel,
    holders: Sequence[Sequence[Node]],
    rows: Sequence[Row[Amount]],
    none: Amount,
) -> list[Wire[Amount]]:
    """Return the wires of all tensors, by fan-out and tensor. rows: what the levels move. none: zero."""
    fills = {(row.tensor, row.level): row.fills for row in rows}
    found: list[Wire[Amount]] = []
    for tensor, nodes in zip(model.tensors, holders, strict=True):
        for parent, node in pairwise(nodes):
            for fanout in range(parent.fans, node.fans):
                if machine.costs[fanout]:
                    taken = fills.get((tensor.index, node.level), none)
                    found.append(_wire(counts, tensor, (parent, node), fanout, taken, none))
    return sorted(found, key=lambda wire: (wire.fanout, wire.tensor))


def _wire(
    counts: CrossingCounts[Amount],
    tensor: TensorModel,
    between: tuple[Node, Node],
    fanout: int,
    taken: Amount,
    none: Amount,
) -> Wire[Amount]:
    """taken: partial sums that the node takes, each of which goes to one instance."""
    parent, node = between
    ends = parent._replace(fans=fanout), parent._replace(fans=fanout + 1)
    if tensor.written:
        sums, collections = (counts.arrivals(tensor, end, node) for end in ends)
        return Wire(fanout, tensor.index, taken, taken, collections, sums)
    messages, deliveries = (counts.messages(tensor, end, node) for end in ends)
    return Wire(fanout, tensor.index, messages, deliveries, none, none)


class DividingCrossings(Generic[Amount]):
    """Counts crossings where all tiles divide."""

    __slots__ = ("_loops", "_machine", "_sums")

    def __init__(self, sums: Progressions[Amount, Any], machine: MachineModel, loops: Sequence[Loop[Amount]]) -> None:
        self._sums, self._machine, self._loops = sums, machine, loops

    def messages(self, tensor: TensorModel, parent: Node, node: Node) -> Amount:
        """Return how many elements the parent's instances send for what the node loads."""
        tiles = self._between(tensor, parent, node)
        return tiles.loads(1) * tiles.views[0].instances

    def arrivals(self, tensor: TensorModel, parent: Node, node: Node) -> Amount:
        """Return how many drains (of the compute unit: results) reach the parent's instances."""
        tiles = self._between(tensor, parent, node)
        return tiles.arrivals(1) * tiles.views[0].instances

    def _between(self, tensor: TensorModel, parent: Node, node: Node) -> DividingTiles[Amount, Any]:
        return DividingTiles(self._sums, self._machine, tensor, self._loops, (parent, node))
