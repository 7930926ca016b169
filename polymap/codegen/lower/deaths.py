"""When elements of temporary tensors are used last: a first walk over the clock notes it, the run drops what is dead.

`last_T[element]` is 1 + the number of the last step that reads the element or accumulates onto it, 0 where none does.
"""

from __future__ import annotations

from math import prod

from polymap.codegen.lower.ast import Array, Assign, Binary, Block, Element, Expr, Int, Invoke, Name, Scope, add
from polymap.codegen.lower.buffers import Buffer, Layout, axis_values, element_number
from polymap.codegen.lower.elements import c_name
from polymap.codegen.lower.steps import Step
from polymap.codegen.lower.tiles import instance_layers, wrap
from polymap.ir import Access, Operator, Tensor

_STEP = Name("steps")  # in a step: how many there were before


def mortal_tensors(layout: Layout) -> tuple[Tensor, ...]:
    """Return the temporary tensors that are written and held below the outermost level."""
    held = {buffer.place.tensor for buffer in layout.buffers if buffer.place.level}
    tensors = layout.nest.workload.tensors
    return tuple(each for each in tensors if each.temporary and each.name in held and layout.is_written(each.name))


def last_uses(layout: Layout, tensor: Tensor) -> Array:
    """Return the array of the last uses of a tensor's elements.

    It is volatile: gcc 12 vectorizes the first walk at -O2 and then leaves an earlier store for last.
    """
    return Array("volatile uint64_t", _name(layout, tensor.name), (prod(tensor.shape),))


def is_alive(layout: Layout, buffer: Buffer, cell: Expr) -> Expr:
    """Return whether the element in a cell is used in this step or a later one."""
    element = Invoke("ELEMENT", (buffer.key(cell),))
    return Binary(">", Element(_name(layout, buffer.place.tensor), (element,)), _STEP)


def note_uses(step: Step) -> Block:
    """Return the statements that note the elements of temporary tensors which a step uses; () for none."""
    statement, mortal = step.use.statement, {each.name for each in mortal_tensors(step.layout)}
    targets = () if statement.operator is Operator.ASSIGN else (statement.target,)
    uses = [access for access in dict.fromkeys((*statement.reads, *targets)) if access.tensor in mortal]
    return tuple(Scope(_note_use(step, access)) for access in uses)


def _note_use(step: Step, access: Access) -> Block:
    layout = step.layout
    layers, values = step.point(access.dims)
    element = element_number(layout.nest.workload.tensor(access.tensor).shape)
    used = Assign(Element(_name(layout, access.tensor), (element,)), "=", add(_STEP, Int(1)))
    return wrap([*instance_layers(step.loops), *layers], (*axis_values(layout, access, values), used))


def _name(layout: Layout, tensor: str) -> str:
    names = [each.name for each in layout.nest.workload.tensors]
    return f"last_{c_name(f'T{names.index(tensor)}', tensor)}"
