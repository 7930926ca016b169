"""From what crosses the nodes of a tensor to what its levels read, write, fill and drain, over any type of numbers.

Python integers (`evaluate`), arrays (`evaluate_many`), sympy expressions (`formula`) and planned sums are accounted for
here and nowhere else. docs/closed_form.md, "Written tensors: partial sums", derives the three formulas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from polymap.costmodel.closed_form.groups import TensorModel, WorkloadModel
from polymap.costmodel.closed_form.nest import MachineModel, Node


class Numeric(Protocol):
    """What the formulas need of a number."""

    def __add__(self, other: Any, /) -> Any: ...

    def __sub__(self, other: Any, /) -> Any: ...

    def __mul__(self, other: Any, /) -> Any: ...


Amount = TypeVar("Amount", bound=Numeric)
Figure = TypeVar("Figure")
Counted = TypeVar("Counted", bound=Numeric, covariant=True)


class Moves(NamedTuple, Generic[Amount]):
    """Elements of one tensor at one level; fills are part of the writes, drains of the reads."""

    reads: Amount
    writes: Amount
    fills: Amount
    drains: Amount


class Row(NamedTuple, Generic[Figure]):
    """One tensor at one level: sums over instances, and the elements that one instance holds at most."""

    level: int
    tensor: int
    reads: Figure
    writes: Figure
    fills: Figure
    drains: Figure
    tile: Figure


class Busiest(NamedTuple, Generic[Figure]):
    """The most that one instance of a level reads, writes, and moves in all, in bits."""

    read: Figure
    written: Figure
    moved: Figure


def fills_of_target(events: Amount, stays: Amount, above: Amount) -> Amount:
    """Return the partial sums that a node takes from its parent: all entry events take one but the first of each stay
    at the parent, unless that stay began with a partial sum (above: how many did)."""
    return events - stays + above


def partial_sums(
    touched: Amount, initial: Amount, crossings: Iterable[tuple[Amount, Amount]]
) -> Iterator[tuple[Amount, Amount]]:
    """Yield (fills, stays) of each node of a written tensor, outermost first.

    touched: elements of the tensor. initial: those that have a value before the run. crossings: (entry events,
    entries) of each node further in; events that find nothing at the parent left out.
    """
    fills, stays = initial, touched
    yield fills, stays
    for events, entries in crossings:
        fills, stays = fills_of_target(events, stays, fills), entries
        yield fills, stays


def moves_of_target(arrivals: Amount, fills: Amount, stays: Amount, *, outermost: bool, none: Amount) -> Moves[Amount]:
    """Return what a node of the written tensor moves. Each arrival is added to the partial sum that it finds; every
    stay ends with a drain, at the outermost node with the result, and begins with a zero or a fill. none: zero."""
    if outermost:
        return Moves(arrivals - stays + fills, arrivals, none, none)
    moved = arrivals + fills
    return Moves(moved, moved, fills, stays)


def moves_of_operand(loads: Amount, fills: Amount, none: Amount) -> Moves[Amount]:
    """Return what a node of a read-only tensor moves. loads: elements read for what its children load."""
    return Moves(loads, fills, fills, none)


class NodeCounts(Protocol[Counted]):
    """What crosses the nodes of tensors, over all instances."""

    def tile(self, tensor: TensorModel, node: Node) -> Counted:
        """Return the size of the largest tile."""
        ...

    def fills(self, tensor: TensorModel, parent: Node, node: Node) -> Counted:
        """Return how many elements of a read-only tensor enter the node's instances."""
        ...

    def messages(self, tensor: TensorModel, parent: Node, node: Node) -> Counted:
        """Return how many elements the parent's instances read for what the node loads."""
        ...

    def entries(self, tensor: TensorModel, parent: Node, node: Node) -> Counted:
        """Return how many elements of a written tensor enter the node's instances."""
        ...

    def events(self, tensor: TensorModel, parent: Node, node: Node) -> Counted:
        """Return the same with the siblings merged that enter an element in one step."""
        ...

    def silent_events(self, tensor: TensorModel, parent: Node, node: Node) -> Counted:
        """Return how many events bring no partial sum, as nothing has arrived since the event before."""
        ...

    def arrivals(self, tensor: TensorModel, parent: Node, node: Node) -> Counted:
        """Return how many drains (of the compute unit: results) reach the parent's instances."""
        ...


def rows_of(counts: NodeCounts[Amount], tensor: TensorModel, nodes: Sequence[Node], none: Amount) -> list[Row[Amount]]:
    """Return the rows of a tensor, outermost first. none: zero."""
    return [
        Row(node.level, tensor.index, *moves, counts.tile(tensor, node))
        for node, moves in zip(nodes, _moves_of(counts, tensor, nodes, none), strict=False)
    ]


def _moves_of(
    counts: NodeCounts[Amount], tensor: TensorModel, nodes: Sequence[Node], none: Amount
) -> Iterator[Moves[Amount]]:
    if not tensor.written:
        fills = none
        for node, below in pairwise(nodes):
            yield moves_of_operand(counts.messages(tensor, node, below), fills, none)
            if below.level >= 0:
                fills = counts.fills(tensor, node, below)
        return
    touched = counts.tile(tensor, nodes[0])
    crossings = (
        (
            counts.events(tensor, parent, node) - counts.silent_events(tensor, parent, node),
            counts.entries(tensor, parent, node),
        )
        for parent, node in pairwise(nodes[:-1])
    )
    sums = partial_sums(touched, initial_of(tensor, touched, none), crossings)
    for number, ((node, below), (fills, stays)) in enumerate(zip(pairwise(nodes), sums, strict=True)):
        arrivals = counts.arrivals(tensor, node, below)
        yield moves_of_target(arrivals, fills, stays, outermost=not number, none=none)


def initial_of(tensor: TensorModel, touched: Amount, none: Amount) -> Amount:
    """Return those of the elements touched that the run begins with as partial sums."""
    return touched if tensor.initial and not tensor.overwritten else none


class AlikeNode(NamedTuple, Generic[Amount]):
    """A node of a tensor all of whose instances do the same.

    shares: instances below one parent instance that hold different elements. entries: elements that enter one
    instance. served: what the children read from it or, of a written tensor, what arrives from them.
    """

    level: int
    instances: Amount
    shares: Amount
    tile: Amount
    entries: Amount
    served: Amount


def rows_where_alike(
    tensor: TensorModel, nodes: Sequence[AlikeNode[Any]]
) -> Iterator[tuple[Row[Any], tuple[Any, Any]]]:
    """Yield the row of each node, and what the busiest instance reads and writes: the first of its siblings, which
    takes the partial sums of all that hold the same elements."""
    if not tensor.written:
        for number, node in enumerate(nodes):
            own = moves_of_operand(node.served, node.entries if number else 0, 0)
            loads, fills = own.reads * node.instances, own.fills * node.instances
            yield Row(node.level, tensor.index, loads, fills, fills, 0, node.tile), (own.reads, own.writes)
        return
    touched = nodes[0].tile
    initial = initial_of(tensor, touched, 0)
    events = [node.entries * node.shares for node in nodes]  # below one parent instance
    crossings = (
        (event * parent.instances, node.entries * node.instances)
        for event, (parent, node) in zip(events[1:], pairwise(nodes), strict=True)
    )
    first = initial
    for number, (node, (fills, stays)) in enumerate(zip(nodes, partial_sums(touched, initial, crossings), strict=True)):
        if number:
            first = fills_of_target(events[number], nodes[number - 1].entries, first) // node.shares
        row = moves_of_target(node.served * node.instances, fills, stays, outermost=not number, none=0)
        own = moves_of_target(node.served, first, node.entries, outermost=not number, none=0)
        yield Row(node.level, tensor.index, *row, node.tile), (own.reads, own.writes)


# What crosses the fan-outs that cost energy (docs/counting.md, "Wires"). A fan-out between a node and its parent is
# crossed by what the node loads, as if the parent stood at either end of it: the parent's own count, with more fan-outs
# above.


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
