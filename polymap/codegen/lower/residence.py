"""The change of a node's tile: old elements leave, new elements are loaded or enter.

Every change has a number, its epoch. The program visits the new tile. An element whose key has the instance's last
epoch is present: it gets the new epoch and stays. Other elements are loaded or enter. Elements that were held and did
not get the new epoch leave.

`last_T[element]` is 1 + the number of the last step that reads the element or accumulates onto it, 0 where none does.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import assert_never

from polymap.codegen.lower import ast
from polymap.codegen.lower.buffers import (
    CHANGED,
    CLEAN,
    Buffer,
    Layout,
    axis_values,
    cell_of,
    counter,
    element_number,
    neutral,
    operator_of_sums,
    slot_of,
)
from polymap.codegen.lower.elements import c_name
from polymap.codegen.lower.nest import Clock, ClockBranch, ClockLoop, ClockStep, Use, clock_below, instance_order
from polymap.codegen.lower.steps import Step
from polymap.codegen.lower.tidy import function
from polymap.codegen.lower.tiles import (
    Layer,
    Values,
    clock_bound,
    instance_layers,
    instance_number,
    point_layers,
    temporal,
    wrap,
)
from polymap.codegen.lower.transfers import Ask, Bring, Child, Needs, merged_arrivals, merged_reads
from polymap.ir import Access, Operator, PlaceRule, Tensor

_INSTANCE, _ELEMENT, _SLOT, _CELL = ast.Name("instance"), ast.Name("element"), ast.Name("slot"), ast.Name("here")
_ORIGIN, _FIRST = ast.Name("origin"), ast.Name("first")


def _key(epoch: ast.Expr, element: ast.Expr) -> ast.Expr:
    return ast.Invoke("KEY", (epoch, element))


def load_function(layout: Layout, needs: Needs, buffer: Buffer) -> tuple[ast.Function, ast.Run]:
    """Return the function that loads the step's tile into every instance of a read-only node, and its call."""

    def visit(ask: Ask) -> ast.Block:
        missing = ast.If(ast.Binary("!=", buffer.key(_CELL), _key(ast.Name("then"), _ELEMENT)), ask(_CELL, _ORIGIN))
        touched: ast.Block = (
            missing,
            _set_epoch(buffer),
            ast.Assign(buffer.array("epoch", _INSTANCE), "=", buffer.now),
        )
        return (
            _declare_instance(buffer),
            _declare_last_epoch(buffer),
            *tile(layout, buffer, (ast.If(_lacks_epoch(buffer), touched),)),
        )

    loads = merged_reads(layout, needs, layout.parent(buffer), _child(buffer), _fill_counts(buffer), visit)
    body: ast.Block = (ast.Assign(buffer.now, "+=", ast.Int(1)), *loads)
    return function(f"load_{buffer.name}", layout.nest.clock_names, body, f"{buffer.label}: what is new is loaded.")


def forget_tile(buffer: Buffer) -> ast.Stmt:
    """Return the statement after which no instance of a read-only node holds anything: epoch 0 names no tile."""
    instance = ast.Name("forgotten")
    forget = ast.Assign(buffer.array("epoch", instance), "=", ast.Int(0))
    return ast.For(instance.text, ast.Int(0), ast.Int(buffer.place.instances), (forget,))


def leave_function(layout: Layout, needs: Needs, buffer: Buffer) -> tuple[ast.Function, ast.Run]:
    """Return the function that drains the elements of a written node that are not in its new tile, and its call.

    Its parameter `more` is 0 if the tile is empty for all instances: in another branch, or at the end of the run. What
    is dead is dropped.
    """
    dies = any(each.name == buffer.place.tensor for each in mortal_tensors(layout))
    parent = layout.parent(buffer)
    stays = ast.If(ast.Binary("==", buffer.key(_CELL), _key(ast.Name("then"), _ELEMENT)), (_set_epoch(buffer),))
    staying: ast.Block = (
        _declare_instance(buffer),
        _declare_last_epoch(buffer),
        ast.If(ast.Name("more"), tile(layout, buffer, (stays,))),
    )

    def if_alive(drain: ast.Block) -> ast.Block:
        return (ast.If(is_alive(layout, buffer, _CELL), drain),) if dies else drain

    def visit(bring: Bring) -> ast.Block:
        drain: ast.Block = (*_drain_counts(buffer), *bring(buffer.value(_CELL), _ORIGIN))
        return (*staying, *_drain_loop(buffer, if_alive(drain)))

    if buffer.rule is PlaceRule.SUMS:
        body = merged_arrivals(layout, needs, parent, _child(buffer), operator_of_sums(buffer), visit)
    else:
        there = ast.Name("there")
        written: ast.Block = (
            ast.Declare("const int", there.text, cell_of(parent, ast.Name("parent_instance"), _ORIGIN)),
            ast.Copy(parent.value(there), buffer.value(_CELL)),
            ast.Count(counter("writes", parent)),
            ast.Assign(parent.partial(there), "=", CHANGED),
        )
        # Only what was written here goes back.
        dirty = ast.If(ast.Binary("==", buffer.partial(_CELL), CHANGED), if_alive((*_drain_counts(buffer), *written)))
        per_instance: ast.Block = (*staying, _declare_parent_instance(layout, buffer), *_drain_loop(buffer, (dirty,)))
        body = wrap(instance_layers(buffer.place.instance_loops), per_instance)
    names = ("more", *layout.nest.clock_names)
    body = (ast.Assign(buffer.now, "+=", ast.Int(1)), *body)
    return function(f"leave_{buffer.name}", names, body, f"{buffer.label}: what is not in the new tile leaves.")


def _drain_loop(buffer: Buffer, drain: ast.Block) -> ast.Block:
    """Return the loop over the elements that an instance held: those with the new epoch stay recorded, others drain."""
    count = buffer.array("count", _INSTANCE)
    kept = ast.add(_FIRST, ast.Name("kept"))
    keep: ast.Block = (
        ast.Assign(buffer.array("held", kept), "=", _SLOT),
        ast.Assign(buffer.array("from", kept), "=", _ORIGIN),
        ast.Assign(ast.Name("kept"), "+=", ast.Int(1)),
    )
    stays = ast.Binary("==", ast.Invoke("EPOCH", (buffer.key(_CELL),)), buffer.now)
    each: ast.Block = (
        ast.Declare("const int", _SLOT.text, buffer.array("held", ast.add(_FIRST, ast.Name("h")))),
        ast.Declare("const int", _ORIGIN.text, buffer.array("from", ast.add(_FIRST, ast.Name("h")))),
        ast.Declare("const int", _CELL.text, ast.add(_FIRST, _SLOT)),
        ast.If(stays, keep, drain),
    )
    return (
        _declare_first_cell(buffer),
        ast.Declare("int", "kept", ast.Int(0)),
        ast.For("h", ast.Int(0), count, each),
        ast.Assign(count, "=", ast.Name("kept")),
        ast.Assign(buffer.array("epoch", _INSTANCE), "=", buffer.now),
    )


def enter_function(layout: Layout, needs: Needs, buffer: Buffer) -> tuple[ast.Function, ast.Run]:
    """Return the function by which elements enter a written node, after the leaves of the step, and its call."""
    if buffer.rule is PlaceRule.SUMS:
        body = _enter_sums(layout, buffer)
    else:
        body = _enter_plain(layout, needs, buffer)
    return function(f"enter_{buffer.name}", layout.nest.clock_names, body, f"{buffer.label}: what is new enters.")


def _enter_sums(layout: Layout, buffer: Buffer) -> ast.Block:
    """Return the entries in instance order: the parent's partial sum moves to the instance, or a zero if there is
    none."""
    parent, there = layout.parent(buffer), ast.Name("there")
    moves: ast.Block = (
        ast.Copy(buffer.value(_CELL), parent.value(there)),
        ast.Count(counter("reads", parent)),
        *_fill_counts(buffer),
        ast.Assign(parent.partial(there), "=", ast.Int(0)),
        ast.Assign(buffer.partial(_CELL), "=", ast.Int(1)),
    )
    zero = neutral(layout.types[buffer.place.tensor], operator_of_sums(buffer))
    starts: ast.Block = (ast.Assign(buffer.value(_CELL), "=", zero), ast.Assign(buffer.partial(_CELL), "=", ast.Int(0)))
    new: ast.Block = (
        ast.Declare("const int", there.text, cell_of(parent, ast.Name("parent_instance"), _ORIGIN)),
        ast.If(parent.partial(there), moves, starts),
        *_record_element(buffer),
    )
    body: ast.Block = (
        _declare_instance(buffer),
        _declare_first_cell(buffer),
        _declare_parent_instance(layout, buffer),
        *tile(layout, buffer, (ast.If(_lacks_epoch(buffer), new),)),
    )
    return wrap(instance_layers(buffer.place.instance_loops), body)


def _enter_plain(layout: Layout, needs: Needs, buffer: Buffer) -> ast.Block:
    """Return the entries of a tensor written in place: new elements are loaded unless their first access overwrites
    them, or accumulates onto what is zero above."""
    tensor = buffer.place.tensor
    targets = [use.statement for use in buffer.place.uses if use.statement.target.tensor == tensor]
    overwrites = any(statement.operator is Operator.ASSIGN for statement in targets)
    accumulates = any(statement.operator is not Operator.ASSIGN for statement in targets)
    reads = any(access.tensor == tensor for use in buffer.place.uses for access in use.statement.reads)
    starts = accumulates and layout.starts_at_zero(tensor)

    def visit(ask: Ask) -> ast.Block:
        loaded: ast.Block = (
            *ask(_CELL, _ORIGIN),
            ast.Assign(buffer.partial(_CELL), "=", CLEAN),
            *_record_element(buffer),
        )
        zero: ast.Block = (ast.Assign(buffer.partial(_CELL), "=", ast.Int(0)), *_record_element(buffer))
        there = cell_of(layout.parent(buffer), ast.Name("parent_instance"), _ORIGIN)
        summed: ast.Block = (ast.If(layout.parent(buffer).partial(there), loaded, zero),) if starts else loaded
        first = _Firsts(*((ast.If(_lacks_epoch(buffer), each),) for each in (loaded, summed, zero)))
        if starts or (overwrites and (reads or accumulates)):
            walk = _walk(layout, buffer, clock_below(layout.nest, buffer.place), first)
        else:
            walk = tile(layout, buffer, first.read if reads or accumulates else first.overwritten)
        above = (_declare_parent_instance(layout, buffer),) if starts else ()
        return (_declare_instance(buffer), _declare_first_cell(buffer), *above, *walk)

    return merged_reads(layout, needs, layout.parent(buffer), _child(buffer), _fill_counts(buffer), visit)


@dataclass(frozen=True, slots=True)
class _Firsts:
    """What happens to an element that is not held, by its first access."""

    read: ast.Block
    accumulated: ast.Block
    overwritten: ast.Block

    def by(self, operator: Operator) -> ast.Block:
        return self.overwritten if operator is Operator.ASSIGN else self.accumulated


def _walk(layout: Layout, buffer: Buffer, clock: Clock, first: _Firsts) -> ast.Block:
    """Return loops over all accesses of the current instance in the order of the clock; in every step reads come
    first."""
    match clock:
        case ClockLoop(loop, above, inner):
            layers, stop = clock_bound(layout.frame, loop, above, temporal(above))
            body = _walk(layout, buffer, inner, first)
            return wrap(layers, (ast.For(loop.name, ast.Int(0), stop, body),))
        case ClockBranch(_, _, children):
            return tuple(ast.Scope(_walk(layout, buffer, child, first)) for child in children)
        case ClockStep(use):
            return _accesses_of_use(layout, buffer, use, first)
    assert_never(clock)


def _accesses_of_use(layout: Layout, buffer: Buffer, use: Use, first: _Firsts) -> ast.Block:
    statement, tensor = use.statement, buffer.place.tensor
    below = instance_order(
        loop for loop in use.loops if not loop.is_temporal and loop not in buffer.place.instance_loops
    )
    fixed = frozenset(loop.name for loop in use.loops)
    touched = [(access, first.read) for access in dict.fromkeys(statement.reads) if access.tensor == tensor]
    if statement.target.tensor == tensor:
        touched.append((statement.target, first.by(statement.operator)))
    blocks: list[ast.Block] = []
    for access, body in touched:
        layers, values = point_layers(layout.frame, use, fixed, access.dims)
        blocks.append(_with_position(layout, buffer, access, [*instance_layers(below), *layers], values, body))
    return tuple(ast.Scope(block) for block in blocks)


def tile(layout: Layout, buffer: Buffer, body: ast.Block) -> ast.Block:
    """Return loops over the tile of the current instance, with `element`, `slot`, `here` and `origin` declared.

    here: the element's cell. origin: its slot at the parent. There is one nest per access, so an element may be visited
    several times.
    """
    nests: list[ast.Block] = []
    for use, access in buffer.place.accesses():
        layers, values = point_layers(layout.frame, use, buffer.place.fixed, access.dims)
        nests.append(_with_position(layout, buffer, access, layers, values, body))
    return nests[0] if len(nests) == 1 else tuple(ast.Scope(nest) for nest in nests)


def _with_position(
    layout: Layout, buffer: Buffer, access: Access, layers: list[Layer], values: Values, body: ast.Block
) -> ast.Block:
    tensor = layout.nest.workload.tensor(access.tensor)
    declared: ast.Block = (
        *axis_values(layout, access, values),
        ast.Declare("const int", _ELEMENT.text, element_number(tensor.shape)),
        ast.Declare("const int", _SLOT.text, slot_of(buffer, tensor)),
        ast.Declare("const int", _CELL.text, cell_of(buffer, _INSTANCE, _SLOT)),
        ast.Declare("const int", _ORIGIN.text, slot_of(layout.parent(buffer), tensor)),
    )
    return wrap(layers, (*declared, *body))


def _child(buffer: Buffer) -> Child:
    return Child(buffer.place.instance_loops, buffer.slots, f"{buffer.name}_value")


def _fill_counts(buffer: Buffer) -> ast.Block:
    return (ast.Count(counter("writes", buffer)), ast.Count(counter("fills", buffer)))


def _drain_counts(buffer: Buffer) -> ast.Block:
    return (ast.Count(counter("reads", buffer)), ast.Count(counter("drains", buffer)))


def _lacks_epoch(buffer: Buffer) -> ast.Expr:
    return ast.Binary("!=", buffer.key(_CELL), _key(buffer.now, _ELEMENT))


def _set_epoch(buffer: Buffer) -> ast.Assign:
    return ast.Assign(buffer.key(_CELL), "=", _key(buffer.now, _ELEMENT))


def _record_element(buffer: Buffer) -> ast.Block:
    """Return statements that record an element as held by its instance."""
    end = ast.Name("end")
    return (
        _set_epoch(buffer),
        ast.Declare("const int", end.text, ast.add(_FIRST, buffer.array("count", _INSTANCE))),
        ast.Assign(buffer.array("held", end), "=", _SLOT),
        ast.Assign(buffer.array("from", end), "=", _ORIGIN),
        ast.Assign(buffer.array("count", _INSTANCE), "+=", ast.Int(1)),
    )


def _declare_last_epoch(buffer: Buffer) -> ast.Declare:
    return ast.Declare("const uint32_t", "then", buffer.array("epoch", _INSTANCE))


def _declare_first_cell(buffer: Buffer) -> ast.Declare:
    """Declare the instance's first cell."""
    return ast.Declare("const int", _FIRST.text, cell_of(buffer, _INSTANCE, ast.Int(0)))


def _declare_instance(buffer: Buffer) -> ast.Declare:
    return ast.Declare("const int", _INSTANCE.text, instance_number(buffer.place.instance_loops))


def _declare_parent_instance(layout: Layout, buffer: Buffer) -> ast.Declare:
    fanouts = layout.parent(buffer).place.fanouts
    above = tuple(loop for loop in buffer.place.instance_loops if (loop.fanout or 0) < fanouts)
    return ast.Declare("const int", "parent_instance", instance_number(above))


_STEP = ast.Name("steps")  # in a step: how many there were before


def mortal_tensors(layout: Layout) -> tuple[Tensor, ...]:
    """Return the temporary tensors that are written and held below the outermost level."""
    held = {buffer.place.tensor for buffer in layout.buffers if buffer.place.level}
    tensors = layout.nest.workload.tensors
    return tuple(each for each in tensors if each.temporary and each.name in held and layout.is_written(each.name))


def last_uses(layout: Layout, tensor: Tensor) -> ast.Array:
    """Return the array of the last uses of a tensor's elements.

    It is volatile: gcc 12 vectorizes the first walk at -O2 and then leaves an earlier store for last.
    """
    return ast.Array("volatile uint64_t", _name(layout, tensor.name), (prod(tensor.shape),))


def is_alive(layout: Layout, buffer: Buffer, cell: ast.Expr) -> ast.Expr:
    """Return whether the element in a cell is used in this step or a later one."""
    element = ast.Invoke("ELEMENT", (buffer.key(cell),))
    return ast.Binary(">", ast.Element(_name(layout, buffer.place.tensor), (element,)), _STEP)


def note_uses(step: Step) -> ast.Block:
    """Return the statements that note the elements of temporary tensors which a step uses; () for none."""
    statement, mortal = step.use.statement, {each.name for each in mortal_tensors(step.layout)}
    targets = () if statement.operator is Operator.ASSIGN else (statement.target,)
    uses = [access for access in dict.fromkeys((*statement.reads, *targets)) if access.tensor in mortal]
    return tuple(ast.Scope(_note_use(step, access)) for access in uses)


def _note_use(step: Step, access: Access) -> ast.Block:
    layout = step.layout
    layers, values = step.point(access.dims)
    element = element_number(layout.nest.workload.tensor(access.tensor).shape)
    used = ast.Assign(ast.Element(_name(layout, access.tensor), (element,)), "=", ast.add(_STEP, ast.Int(1)))
    return wrap([*instance_layers(step.loops), *layers], (*axis_values(layout, access, values), used))


def _name(layout: Layout, tensor: str) -> str:
    names = [each.name for each in layout.nest.workload.tensors]
    return f"last_{c_name(f'T{names.index(tensor)}', tensor)}"
