"""What happens at a place when its tile changes: loads of read-only tensors; leaves and enters of partial sums.

Every change has a number (epoch). While the new tile is walked, elements that are present (their key names the
instance's last epoch) are given the new epoch: they stay. What is not present is loaded or enters; what was held and
has not been given the new epoch leaves.
"""

from __future__ import annotations

from polymap.codegen.ast import (
    Assign,
    Binary,
    Block,
    Copy,
    Count,
    Declare,
    Expr,
    For,
    Function,
    If,
    Int,
    Invoke,
    Name,
    Run,
    Scope,
    add,
    multiply,
    total,
)
from polymap.codegen.buffers import Buffer, Layout, axis_values, cell_of, counter, slot_of
from polymap.codegen.tidy import function
from polymap.codegen.tiles import instance_layers, instance_number, point_layers, wrap
from polymap.codegen.transfers import Ask, Bring, Child, Needs, merged_arrivals, merged_reads

_INSTANCE = Name("instance")
_ELEMENT = Name("element")
_CELL = Name("cell_here")
_ORIGIN = Name("origin")


def key(epoch: Expr, element: Expr) -> Expr:
    return Invoke("KEY", (epoch, element))


def load_function(layout: Layout, needs: Needs, buffer: Buffer) -> tuple[Function, Run]:
    """Return the function that gives every instance of a read-only place its tile of this step, and its call."""
    parent = layout.parent(buffer)
    child = Child(buffer.place.instance_loops, buffer.slots, f"{buffer.name}_value")
    counts: Block = (Count(counter("writes", buffer)), Count(counter("fills", buffer)))

    def visit(ask: Ask) -> Block:
        missing = If(Binary("!=", buffer.key(_CELL), key(Name("then"), _ELEMENT)), ask(_CELL, _ORIGIN))
        touched: Block = (
            missing,
            Assign(buffer.key(_CELL), "=", key(buffer.now, _ELEMENT)),
            Assign(buffer.array("epoch", _INSTANCE), "=", buffer.now),
        )
        unseen: Block = (If(Binary("!=", buffer.key(_CELL), key(buffer.now, _ELEMENT)), touched),)
        then = Declare("const uint32_t", "then", buffer.array("epoch", _INSTANCE))
        return (_instance(buffer), then, *tile(layout, buffer, unseen))

    body: Block = (_new_epoch(buffer), *merged_reads(layout, needs, parent, child, counts, visit))
    return function(f"load_{buffer.name}", layout.nest.clock_names, body)


def leave_function(layout: Layout, needs: Needs, buffer: Buffer) -> tuple[Function, Run]:
    """Return the function that drains what every instance of a written place gives up, and its call.

    Its parameter `more` is 0 where the tile is empty for everyone: in another branch, or at the end of the run.
    """
    parent = layout.parent(buffer)
    child = Child(buffer.place.instance_loops, buffer.slots, f"{buffer.name}_value")

    def visit(bring: Bring) -> Block:
        stays = Assign(buffer.key(_CELL), "=", key(buffer.now, _ELEMENT))
        present = If(Binary("==", buffer.key(_CELL), key(Name("then"), _ELEMENT)), (stays,))
        then = Declare("const uint32_t", "then", buffer.array("epoch", _INSTANCE))
        staying = If(Name("more"), tile(layout, buffer, (present,)))
        return (_instance(buffer), then, staying, *_give_up(buffer, bring))

    body: Block = (_new_epoch(buffer), *merged_arrivals(layout, needs, parent, child, visit))
    return function(f"leave_{buffer.name}", ("more", *layout.nest.clock_names), body)


def _give_up(buffer: Buffer, bring: Bring) -> Block:
    """Return the loop over what an instance held: what has the new epoch stays on the list, the rest is drained."""
    count = buffer.array("count", _INSTANCE)
    start = multiply(_INSTANCE, buffer.slots) if buffer.place.instances > 1 else Int(0)
    held, origin = (buffer.array(which, add(Name("first"), Name("h"))) for which in ("held", "from"))
    keep: Block = (
        Assign(buffer.array("held", add(Name("first"), Name("kept"))), "=", Name("slot")),
        Assign(buffer.array("from", add(Name("first"), Name("kept"))), "=", _ORIGIN),
        Assign(Name("kept"), "+=", Int(1)),
    )
    here = add(Name("first"), Name("slot"))
    drain: Block = (
        Count(counter("reads", buffer)),
        Count(counter("drains", buffer)),
        *bring(buffer.value(here), _ORIGIN),
    )
    stays = Binary("==", Invoke("EPOCH", (buffer.key(here),)), buffer.now)
    each: Block = (
        Declare("const int", "slot", held),
        Declare("const int", _ORIGIN.text, origin),
        If(stays, keep, drain),
    )
    return (
        Declare("const int", "first", start),
        Declare("int", "kept", Int(0)),
        For("h", Int(0), count, each),
        Assign(count, "=", Name("kept")),
        Assign(buffer.array("epoch", _INSTANCE), "=", buffer.now),
    )


def enter_function(layout: Layout, buffer: Buffer) -> tuple[Function, Run]:
    """Return the function in which elements enter a written place, in instance order, and its call.

    A partial sum of the parent moves here; an element without one starts as zero.
    """
    parent, loops = layout.parent(buffer), buffer.place.instance_loops
    above = tuple(loop for loop in loops if loop.fanout is not None and loop.fanout < parent.place.fanouts)
    there = Name("there")
    moves: Block = (
        Copy(buffer.value(_CELL), parent.value(there)),
        Count(counter("reads", parent)),
        Count(counter("writes", buffer)),
        Count(counter("fills", buffer)),
        Assign(parent.partial(there), "=", Int(0)),
        Assign(buffer.partial(_CELL), "=", Int(1)),
    )
    starts: Block = (
        Assign(buffer.value(_CELL), "=", layout.neutral(buffer.place.tensor)),
        Assign(buffer.partial(_CELL), "=", Int(0)),
    )
    end = Name("end")
    new: Block = (
        Declare("const int", there.text, cell_of(parent, Name("parent_instance"), _ORIGIN)),
        If(parent.partial(there), moves, starts),
        Assign(buffer.key(_CELL), "=", key(buffer.now, _ELEMENT)),
        Declare(
            "const int",
            end.text,
            add(_first(buffer), buffer.array("count", _INSTANCE)),
        ),
        Assign(buffer.array("held", end), "=", Name("slot")),
        Assign(buffer.array("from", end), "=", _ORIGIN),
        Assign(buffer.array("count", _INSTANCE), "+=", Int(1)),
    )
    absent = If(Binary("!=", buffer.key(_CELL), key(buffer.now, _ELEMENT)), new)
    body: Block = (
        _instance(buffer),
        Declare("const int", "parent_instance", instance_number(above)),
        *tile(layout, buffer, (absent,)),
    )
    return function(f"enter_{buffer.name}", layout.nest.clock_names, wrap(instance_layers(loops), body))


def _first(buffer: Buffer) -> Expr:
    return multiply(_INSTANCE, buffer.slots) if buffer.place.instances > 1 else Int(0)


def _instance(buffer: Buffer) -> Declare:
    return Declare("const int", _INSTANCE.text, instance_number(buffer.place.instance_loops))


def _new_epoch(buffer: Buffer) -> Assign:
    return Assign(buffer.now, "+=", Int(1))


def tile(layout: Layout, buffer: Buffer, body: Block) -> Block:
    """Return loops over the tile of the instance in scope, with `element`, `slot`, `cell_here` and `origin` declared.

    origin: the element's slot at the parent. One nest of loops per access; an element may come several times.
    """
    place = buffer.place
    tensor = layout.nest.workload.tensor(place.tensor)
    parent = layout.parent(buffer)
    nests: list[Block] = []
    for use, access in place.accesses():
        wanted = tuple(dict.fromkeys(dim for index in access.index for dim in index.dims))
        layers, values = point_layers(layout.frame, use, place.fixed, wanted)
        declared: Block = (
            *axis_values(layout, access, values),
            Declare("const int", _ELEMENT.text, element_number(tensor.shape)),
            Declare("const int", "slot", slot_of(buffer, tensor)),
            Declare("const int", _CELL.text, cell_of(buffer, _INSTANCE, Name("slot"))),
            Declare("const int", _ORIGIN.text, slot_of(parent, tensor)),
        )
        nests.append(wrap(layers, (*declared, *body)))
    return nests[0] if len(nests) == 1 else tuple(Scope(nest) for nest in nests)


def element_number(shape: tuple[int, ...]) -> Expr:
    """Return the number of the element (x0, x1, ...) in row-major order."""
    stride = 1
    for size in shape:
        stride *= size
    terms: list[Expr] = []
    for axis, size in enumerate(shape):
        stride //= size
        terms.append(multiply(Name(f"x{axis}"), stride))
    return total(terms)

