"""Reads and arrivals of the instances below one parent instance, merged in one step.

Reads: instances along `none` fan-outs are served separately; along `union` fan-outs their loads become one message;
along `identical` fan-outs messages with equal sets of elements are sent once. A message is copied from the parent to
the tensor's bus, and from there to every instance that requested it.

Arrivals: partial sums of one element along fan-outs with reduction are added on the bus and arrive once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

from polymap.codegen.lower.ast import (
    Assign,
    Binary,
    Block,
    Copy,
    Count,
    Declare,
    Element,
    Expr,
    For,
    If,
    Int,
    Invoke,
    Name,
    Run,
    add,
    multiply,
)
from polymap.codegen.lower.buffers import CHANGED, CLEAN, Buffer, Layout, combine, counter
from polymap.codegen.lower.elements import c_name
from polymap.codegen.lower.nest import Loop, instance_order
from polymap.codegen.lower.tiles import instance_layers, instance_number, wrap
from polymap.ir import Multicast, Operator, PlaceRule

# How a child asks for an element: (where it goes, the parent's slot) -> statements.
Ask = Callable[[Expr, Expr], Block]
# How a child brings an element: (its value, the parent's slot) -> statements.
Bring = Callable[[Expr, Expr], Block]

AT = "parent_at"


@dataclass(slots=True)
class Needs:
    """Memory that the transfers lowered so far need beside the buffers: buses per tensor, scratch lists, messages."""

    buses: dict[str, int] = field(default_factory=dict[str, int])
    wanted: int = 0
    message_words: int = 0
    messages: int = 0
    loads: bool = False
    unions: bool = False


@dataclass(frozen=True, slots=True)
class Child:
    """The instances that a parent serves, of a storage node or of a statement.

    loops: their instance loops, in order. slots: an upper bound on the elements per instance and step. target: the
    array that a load is copied to.
    """

    loops: tuple[Loop, ...]
    slots: int
    target: str


def bus(layout: Layout, tensor: str) -> str:
    """Return the name of the array that carries elements of a tensor between a parent instance and its children."""
    return c_name(f"bus{_number(layout, tensor)}", tensor)


def mark(layout: Layout, tensor: str) -> str:
    """Return the name of the array with the stamp, per slot of a parent, of the slot's last use of the bus."""
    return c_name(f"mark{_number(layout, tensor)}", tensor)


def _number(layout: Layout, tensor: str) -> int:
    return [t.name for t in layout.nest.workload.tensors].index(tensor)


def _loops_by_side(parent: Buffer, child: Child) -> tuple[tuple[Loop, ...], tuple[Loop, ...]]:
    """Return the child's instance loops above the parent, which choose its instance, and those between parent and
    child."""
    above = tuple(loop for loop in child.loops if loop.fanout is not None and loop.fanout < parent.place.fanouts)
    return above, child.loops[len(above) :]


def _parent_at(parent: Buffer, above: tuple[Loop, ...]) -> Declare:
    return Declare("const int", AT, multiply(instance_number(above), parent.slots))


def _count_of(loops: tuple[Loop, ...]) -> int:
    return prod(loop.trips for loop in loops)


def merged_reads(
    layout: Layout, needs: Needs, parent: Buffer, child: Child, counts: Block, visit: Callable[[Ask], Block]
) -> Block:
    """Return the loops in which the children of every parent instance load, merged as the fan-outs' multicast allows.

    visit: takes the statements that request an element, returns those of one child instance (its loop variables are in
    scope). counts: counters of the child that advance per element.
    """
    above, between = _loops_by_side(parent, child)
    policies = [layout.nest.arch.fanouts[loop.fanout or 0].multicast for loop in between]
    apart, same, united = (
        tuple(loop for loop, policy in zip(between, policies, strict=True) if policy is wanted)
        for wanted in (Multicast.NONE, Multicast.IDENTICAL, Multicast.UNION)
    )
    read = Count(counter("reads", parent))
    if not same and not united:
        # Everyone reads alone.
        def direct(target: Expr, origin: Expr) -> Block:
            cell = add(Name(AT), origin)
            copied = Copy(Element(child.target, (target,)), parent.value(cell))
            return (copied, read, *looked_at(layout, parent, cell), *counts)

        body: Block = (_parent_at(parent, above), *visit(direct))
        return wrap(instance_layers(instance_order(iter((*above, *apart)))), body)
    tensor = parent.place.tensor
    needs.buses[tensor] = max(needs.buses.get(tensor, 0), parent.slots)
    needs.wanted = max(needs.wanted, _count_of(united) * child.slots)
    needs.loads = True
    needs.unions = needs.unions or bool(united)
    if same:
        needs.messages = max(needs.messages, _count_of(same))
        needs.message_words = max(needs.message_words, _count_of(same) * _count_of(united) * child.slots)
    gathered: Block = (Assign(Name("wanted"), "=", Int(0)), *wrap(instance_layers(united), visit(_request)))
    message, length = ("message", Name("length")) if united else ("want_from", Name("wanted"))
    line, marks = bus(layout, tensor), mark(layout, tensor)
    unite = _append_to_message(marks) if united else ()
    item = Element(message, (Name("m"),))
    cell = add(Name(AT), item)
    copies: Block = (Copy(Element(line, (item,)), parent.value(cell)), read, *looked_at(layout, parent, cell))
    send: Block = (For("m", Int(0), length, copies),)
    if same:
        send = (If(Name(f"!already_sent({message}, {length.text}, {marks})"), send),)
    taken = Copy(Element(child.target, (Element("want_at", (Name("w"),)),)), Element(line, (_WANT_FROM,)))
    deliver = For("w", Int(0), Name("wanted"), (taken, *counts))
    per_message = wrap(instance_layers(same), (*gathered, *unite, *send, deliver))
    begin: Block = (Run("begin_group", ()),) if same else ()
    body = (_parent_at(parent, above), *begin, *per_message)
    return wrap(instance_layers((*above, *apart)), body)


_WANT_FROM = Element("want_from", (Name("w"),))


def _request(target: Expr, origin: Expr) -> Block:
    return (
        Assign(Element("want_at", (Name("wanted"),)), "=", target),
        Assign(Element("want_from", (Name("wanted"),)), "=", origin),
        Assign(Name("wanted"), "+=", Int(1)),
    )


def _append_to_message(marks: str) -> Block:
    item = _WANT_FROM
    seen = Element(marks, (item,))
    new: Block = (
        Assign(seen, "=", Name("stamp")),
        Assign(Element("message", (Name("length"),)), "=", item),
        Assign(Name("length"), "+=", Int(1)),
    )
    return (
        Assign(Name("length"), "=", Int(0)),
        Assign(Name("stamp"), "+=", Int(1)),
        For("w", Int(0), Name("wanted"), (If(Binary("!=", seen, Name("stamp")), new),)),
    )


def looked_at(layout: Layout, parent: Buffer, cell: Expr) -> Block:
    """Return the statements by which what is read counts as a value, also where nothing was written."""
    if parent.rule is not PlaceRule.PLAIN or not layout.starts_at_zero(parent.place.tensor):
        return ()
    partial = parent.partial(cell)
    return (If(Binary("==", partial, Int(0)), (Assign(partial, "=", CLEAN),)),)


def arrival(layout: Layout, parent: Buffer, operator: Operator, cell: Expr, value: Expr) -> Block:
    """Return the statements that accumulate a value into a parent's copy: one write, and one read if the copy is not
    zero. One that is written in place and starts with a value always has one."""
    copy, partial = parent.value(cell), parent.partial(cell)
    kind = layout.types[parent.place.tensor]
    again: Block = (Copy(copy, combine(kind, operator, copy, value)), Count(counter("reads", parent)))
    written = Count(counter("writes", parent))
    value = Invoke(f"({kind.c_type})", (value,)) if kind.is_narrowed else value
    if parent.rule is PlaceRule.PLAIN:
        changed = Assign(partial, "=", CHANGED)
        is_plain = not layout.starts_at_zero(parent.place.tensor) and not _gives_sums(layout, parent)
        return (*(again if is_plain else (If(partial, again, (Copy(copy, value),)),)), written, changed)
    return (If(partial, again, (Copy(copy, value), Assign(partial, "=", Int(1)))), written)


def _gives_sums(layout: Layout, parent: Buffer) -> bool:
    """Return whether a place of partial sums may take a copy of the parent away."""
    return any(each.place.parent == parent.place.number and each.rule is PlaceRule.SUMS for each in layout.buffers)


def merged_arrivals(
    layout: Layout, needs: Needs, parent: Buffer, child: Child, operator: Operator, visit: Callable[[Bring], Block]
) -> Block:
    """Return the loops in which children send elements to every parent instance, added where the fan-outs have
    adders."""
    above, between = _loops_by_side(parent, child)
    adds = [layout.nest.arch.fanouts[loop.fanout or 0].reduction for loop in between]
    apart = tuple(loop for loop, reduces in zip(between, adds, strict=True) if not reduces)
    added = tuple(loop for loop, reduces in zip(between, adds, strict=True) if reduces)
    if not added:

        def alone(value: Expr, origin: Expr) -> Block:
            cell = Declare("const int", "cell", add(Name(AT), origin))
            return (cell, *arrival(layout, parent, operator, Name("cell"), value))

        return wrap(instance_layers((*above, *apart)), (_parent_at(parent, above), *visit(alone)))
    tensor = parent.place.tensor
    needs.buses[tensor] = max(needs.buses.get(tensor, 0), parent.slots)
    needs.wanted = max(needs.wanted, _count_of(added) * child.slots)
    line, marks = bus(layout, tensor), mark(layout, tensor)

    def bring(value: Expr, origin: Expr) -> Block:
        on_bus, seen = Element(line, (Name("to"),)), Element(marks, (Name("to"),))
        first: Block = (
            Assign(seen, "=", Name("stamp")),
            Assign(Element("want_from", (Name("wanted"),)), "=", Name("to")),
            Assign(Name("wanted"), "+=", Int(1)),
            Copy(on_bus, value),
        )
        again: Block = (Copy(on_bus, combine(layout.types[tensor], operator, on_bus, value)),)
        return (Declare("const int", "to", origin), If(Binary("!=", seen, Name("stamp")), first, again))

    start: Block = (Assign(Name("wanted"), "=", Int(0)), Assign(Name("stamp"), "+=", Int(1)))
    cell = Declare("const int", "cell", add(Name(AT), _WANT_FROM))
    landed: Block = (cell, *arrival(layout, parent, operator, Name("cell"), Element(line, (_WANT_FROM,))))
    landing = For("w", Int(0), Name("wanted"), landed)
    body: Block = (_parent_at(parent, above), *start, *wrap(instance_layers(added), visit(bring)), landing)
    return wrap(instance_layers((*above, *apart)), body)
