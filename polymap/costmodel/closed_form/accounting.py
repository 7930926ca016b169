"""The reads, writes, fills and drains of a tensor's levels, from what crosses its storage nodes; over any type of
number.

One implementation serves Python integers (`evaluate`), arrays (`evaluate_many`), sympy expressions (`formula`) and
planned sums. docs/closed_form.md, "Written tensors: partial sums", derives the three formulas.

Terms: an *entry* is an element that comes into a tile; an *event* is the entries of one element in one step at all
siblings below one parent instance; a *residency* is the time from an element's entry until it leaves the tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from polymap.costmodel.closed_form.groups import TensorModel, WorkloadModel
from polymap.costmodel.closed_form.nest import MachineModel, Node


class Numeric(Protocol):
    """The operations that the formulas need of a number."""

    def __add__(self, other: Any, /) -> Any: ...

    def __sub__(self, other: Any, /) -> Any: ...

    def __mul__(self, other: Any, /) -> Any: ...


Amount = TypeVar("Amount", bound=Numeric)
Figure = TypeVar("Figure")
Counted = TypeVar("Counted", bound=Numeric, covariant=True)


class Moves(NamedTuple, Generic[Amount]):
    """Elements of one tensor at one level. Fills are among the writes, drains among the reads."""

    reads: Amount
    writes: Amount
    fills: Amount
    drains: Amount


class Row(NamedTuple, Generic[Figure]):
    """One tensor at one level: sums over the instances; tile: the most elements that one instance holds."""

    level: int
    tensor: int
    reads: Figure
    writes: Figure
    fills: Figure
    drains: Figure
    tile: Figure


class Busiest(NamedTuple, Generic[Figure]):
    """The most bits that one instance of a level reads, writes, and reads and writes together."""

    read: Figure
    written: Figure
    moved: Figure


def bits_of_only_instance(model: WorkloadModel, rows: Sequence[Row[Any]], level: int) -> Busiest[Any]:
    """Return the bits that the only instance of a level reads and writes."""
    own = [(row, model.tensors[row.tensor].bits) for row in rows if row.level == level]
    read, written = sum(row.reads * bits for row, bits in own), sum(row.writes * bits for row, bits in own)
    return Busiest(read, written, read + written)


def fills_of_target(events: Amount, residencies: Amount, above: Amount) -> Amount:
    """Return the partial sums that a node takes from its parent.

    Every entry event takes one, except the first event of each residency at the parent that began as zero. above: the
    parent's residencies that began with a partial sum, which are its own fills.
    """
    return events - residencies + above


def partial_sums(
    touched: Amount, initial: Amount, crossings: Iterable[tuple[Amount, Amount]]
) -> Iterator[tuple[Amount, Amount]]:
    """Yield (fills, residencies) of each node of a written tensor, outermost first_fills.

    touched: elements of the tensor. initial: those with a value before the run. crossings: (events, entries) per node
    below the outermost; events before which nothing has arrived at the parent are left out.
    """
    fills, residencies = initial, touched
    yield fills, residencies
    for events, entries in crossings:
        fills, residencies = fills_of_target(events, residencies, fills), entries
        yield fills, residencies


def moves_of_target(
    arrivals: Amount, fills: Amount, residencies: Amount, *, outermost: bool, none: Amount
) -> Moves[Amount]:
    """Return the elements that a node of the written tensor moves. none: zero.

    Each arrival is added to the partial sum that it finds. Each residency ends with a drain (at the outermost node with
    the result) and begins with a zero or a fill.
    """
    # A residency that began with a zero saves a read: its first arrival is written without one. At the outermost level
    # the other residencies are those of initial elements, which stand as fills.
    if outermost:
        return Moves(arrivals - residencies + fills, arrivals, none, none)
    moved = arrivals + fills
    return Moves(moved, moved, fills, residencies)


def moves_of_operand(loads: Amount, fills: Amount, none: Amount) -> Moves[Amount]:
    """Return the elements that a node of a read-only tensor moves. loads: elements read to serve the children's
    loads."""
    return Moves(loads, fills, fills, none)


class CrossingCounts(Protocol[Counted]):
    """Counts of what passes between nodes, summed over all instances of the parent."""

    def messages(self, tensor: TensorModel, parent: Node, node: Node) -> Counted:
        """Return the elements that the parent's instances send to serve the node's loads."""
        ...

    def arrivals(self, tensor: TensorModel, parent: Node, node: Node) -> Counted:
        """Return the drains (of the compute unit: results) that reach the parent's instances."""
        ...


class NodeCounts(CrossingCounts[Counted], Protocol[Counted]):
    """Counts of what crosses the nodes of tensors, summed over all instances."""

    def tile(self, tensor: TensorModel, node: Node) -> Counted:
        """Return the elements of the largest tile."""
        ...

    def fills(self, tensor: TensorModel, parent: Node, node: Node) -> Counted:
        """Return the elements of a read-only tensor that enter the node's instances."""
        ...

    def entries(self, tensor: TensorModel, parent: Node, node: Node) -> Counted:
        """Return the elements of a written tensor that enter the node's instances."""
        ...

    def events(self, tensor: TensorModel, parent: Node, node: Node) -> Counted:
        """Return the entries with siblings merged: an element that enters several in one step counts once."""
        ...

    def silent_events(self, tensor: TensorModel, parent: Node, node: Node) -> Counted:
        """Return the events that bring no partial sum, since nothing has arrived at the parent since the event
        before."""
        ...


def rows_of(counts: NodeCounts[Amount], tensor: TensorModel, nodes: Sequence[Node], none: Amount) -> list[Row[Amount]]:
    """Return the rows of a tensor, outermost first_fills. none: zero."""
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
    for number, ((node, below), (fills, residencies)) in enumerate(zip(pairwise(nodes), sums, strict=True)):
        arrivals = counts.arrivals(tensor, node, below)
        yield moves_of_target(arrivals, fills, residencies, outermost=not number, none=none)


def initial_of(tensor: TensorModel, touched: Amount, none: Amount) -> Amount:
    """Return those of the elements touched that the run begins with as partial sums."""
    return touched if tensor.initial and not tensor.overwritten else none


class UniformNode(NamedTuple, Generic[Amount]):
    """A node of a tensor all of whose instances have equal tiles.

    shares: instances below one parent instance that hold different elements. entries: elements that enter one instance.
    served: elements that the children read from it or, of a written tensor, that arrive from them.
    """

    level: int
    instances: Amount
    shares: Amount
    tile: Amount
    entries: Amount
    served: Amount


def uniform_rows(tensor: TensorModel, nodes: Sequence[UniformNode[Any]]) -> Iterator[tuple[Row[Any], tuple[Any, Any]]]:
    """Yield the row of each node, and the (reads, writes) of its busiest instance.

    Of siblings that hold the same elements the first takes all partial sums, so it is the busiest.
    """
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
    first_fills = initial
    for number, (node, (fills, residencies)) in enumerate(
        zip(nodes, partial_sums(touched, initial, crossings), strict=True)
    ):
        if number:
            first_fills = fills_of_target(events[number], nodes[number - 1].entries, first_fills) // node.shares
        row = moves_of_target(node.served * node.instances, fills, residencies, outermost=not number, none=0)
        own = moves_of_target(node.served, first_fills, node.entries, outermost=not number, none=0)
        yield Row(node.level, tensor.index, *row, node.tile), (own.reads, own.writes)


# Traffic over the fan-outs that cost energy (docs/counting.md, "Wires"). At either end of a fan-out it equals the
# messages that a parent placed there would send: so the parent's count serves, with another number of fan-outs above.


class Wire(NamedTuple, Generic[Figure]):
    """One tensor on one fan-out, in elements (`WireUse`)."""

    fanout: int
    tensor: int
    messages: Figure
    deliveries: Figure
    collections: Figure
    sums: Figure


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
                    fills_below = fills.get((tensor.index, node.level), none)
                    found.append(_wire(counts, tensor, (parent, node), fanout, fills_below, none))
    return sorted(found, key=lambda wire: (wire.fanout, wire.tensor))


def _wire(
    counts: CrossingCounts[Amount],
    tensor: TensorModel,
    between: tuple[Node, Node],
    fanout: int,
    fills_below: Amount,
    none: Amount,
) -> Wire[Amount]:
    """Return the traffic of a tensor over one fan-out between a node and its parent.

    fills_below: partial sums that the node takes, each of which goes to one instance.
    """
    parent, node = between
    ends = parent._replace(fans=fanout), parent._replace(fans=fanout + 1)
    if tensor.written:
        sums, collections = (counts.arrivals(tensor, end, node) for end in ends)
        return Wire(fanout, tensor.index, fills_below, fills_below, collections, sums)
    messages, deliveries = (counts.messages(tensor, end, node) for end in ends)
    return Wire(fanout, tensor.index, messages, deliveries, none, none)
