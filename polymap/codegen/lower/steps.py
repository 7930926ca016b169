"""One step of a statement: it reads operands from their innermost nodes, computes the value and accumulates it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from polymap.codegen.lower import ast
from polymap.codegen.lower.buffers import CHANGED, Buffer, Layout, axis_values, cell_of, counter, slot_of
from polymap.codegen.lower.elements import Registers, registers
from polymap.codegen.lower.expressions import c_expression
from polymap.codegen.lower.nest import Loop, Use, instance_order
from polymap.codegen.lower.tidy import function
from polymap.codegen.lower.tiles import Layer, Values, instance_layers, instance_number, point_layers, wrap
from polymap.codegen.lower.transfers import Ask, Bring, Child, Needs, arrival, looked_at, merged_arrivals, merged_reads
from polymap.ir import Access, Operator

_UNIT = ast.Name("unit")


@dataclass(frozen=True, slots=True)
class Step:
    """One statement's step. number: of the statement's use. loops: of the compute instances, in instance order."""

    layout: Layout
    use: Use
    number: int
    loops: tuple[Loop, ...]

    @property
    def units(self) -> int:
        """The number of compute instances in use."""
        return prod(loop.trips for loop in self.loops)

    @property
    def registers(self) -> Registers:
        return registers(self.layout.nest.workload, self.layout.types, self.use.statement)

    def holder(self, access: Access) -> Buffer:
        return self.layout.buffers[self.layout.nest.holder(self.use, access.tensor).number]

    def between(self, access: Access) -> tuple[Loop, ...]:
        """Return the spatial loops between the innermost node of an access and the compute unit."""
        fanouts = self.holder(access).place.fanouts
        return tuple(loop for loop in self.loops if (loop.fanout or 0) >= fanouts)

    def reads_merge(self, access: Access) -> bool:
        fanouts = self.layout.nest.arch.fanouts
        return any(fanouts[loop.fanout or 0].multicast.shares_reads for loop in self.between(access))

    def arrivals_merge(self) -> bool:
        if self.use.statement.operator is Operator.ASSIGN:
            return False
        fanouts = self.layout.nest.arch.fanouts
        return any(fanouts[loop.fanout or 0].reduction for loop in self.between(self.use.statement.target))

    def operand(self, index: int) -> str:
        return f"operand{self.number}_{index}"

    @property
    def result(self) -> str:
        return f"result{self.number}"

    @property
    def active(self) -> str:
        return f"active{self.number}"

    def point(self, dims: tuple[str, ...]) -> tuple[list[Layer], Values]:
        """Return the loops and conditions around the statement instance of a compute instance, and the values of
        dims."""
        return point_layers(self.layout.frame, self.use, frozenset(loop.name for loop in self.use.loops), dims)


def step_of(layout: Layout, use: Use, number: int) -> Step:
    """Return the step of a use."""
    return Step(layout, use, number, instance_order(loop for loop in use.loops if not loop.is_temporal))


def step_arrays(step: Step) -> list[ast.Array]:
    """Return the registers between innermost nodes and compute instances: merged operands, results to be merged."""
    reads = step.use.statement.reads
    arrays = [
        ast.Array(step.layout.types[access.tensor].c_type, step.operand(i), (step.units,))
        for i, access in enumerate(reads)
        if step.reads_merge(access)
    ]
    if step.arrivals_merge():
        arrays += [
            ast.Array(step.registers.result, step.result, (step.units,)),
            ast.Array("uint8_t", step.active, (step.units,)),
        ]
    return arrays


def step_functions(step: Step, needs: Needs) -> tuple[list[ast.Function], list[ast.Run]]:
    """Return the functions of one step and their calls in order: merged reads, compute, merged accumulation."""
    functions: list[ast.Function] = []
    calls: list[ast.Run] = []
    clock = step.layout.nest.clock_names
    for index, access in enumerate(step.use.statement.reads):
        if step.reads_merge(access):
            made = function(
                f"read{step.number}_{index}", clock, _merged_operand(step, needs, index, access), "An operand."
            )
            functions.append(made[0])
            calls.append(made[1])
    made = function(f"compute{step.number}", clock, _compute(step), "One instance of the statement per compute unit.")
    functions.append(made[0])
    calls.append(made[1])
    if step.arrivals_merge():
        made = function(
            f"accumulate{step.number}", clock, _merged_results(step, needs), "Results are added on the way."
        )
        functions.append(made[0])
        calls.append(made[1])
    return functions, calls


def working_function(step: Step) -> tuple[ast.Function, ast.Run]:
    """Return the function that sets `working` if some compute instance has work in this step, and its call."""
    layers, _ = step.point(())
    found = wrap([*instance_layers(step.loops), *layers], (ast.Assign(ast.Name("working"), "=", ast.Int(1)),))
    body: ast.Block = (ast.Assign(ast.Name("working"), "=", ast.Int(0)), *found)
    return function(f"work{step.number}", step.layout.nest.clock_names, body)


def _dims(accesses: tuple[Access, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(dim for access in accesses for index in access.index for dim in index.dims))


def _unit(step: Step) -> ast.Declare:
    return ast.Declare("const int", _UNIT.text, instance_number(step.loops))


def _slot(step: Step, access: Access) -> ast.Expr:
    return slot_of(step.holder(access), step.layout.nest.workload.tensor(access.tensor))


def _merged_operand(step: Step, needs: Needs, index: int, access: Access) -> ast.Block:
    def visit(ask: Ask) -> ast.Block:
        layers, values = step.point(_dims((access,)))
        body: ast.Block = (*axis_values(step.layout, access, values), *ask(_UNIT, _slot(step, access)))
        return (_unit(step), *wrap(layers, body))

    child = Child(step.loops, 1, step.operand(index))
    return merged_reads(step.layout, needs, step.holder(access), child, (), visit)


def _compute(step: Step) -> ast.Block:
    statement = step.use.statement
    layers, values = step.point(statement.dims)
    body: list[ast.Block] = [(ast.Count("instances"),)]
    for index, access in enumerate(statement.reads):
        body.append(_operand(step, index, access, values))
    operands = tuple(ast.Name(f"a{index}") for index in range(len(statement.reads)))
    value = c_expression(statement.expression, operands, values)
    own = step.registers
    value = value if own.result == own.value else ast.Invoke(f"({own.result})", (value,))
    body.append((ast.Declare(f"const {own.result}", "result", value),))
    body.append(_result(step, values))
    flat = tuple(one for block in body for one in block)
    return wrap([*instance_layers(step.loops), _unit(step), *layers], flat)


def _operand(step: Step, index: int, access: Access, values: Values) -> ast.Block:
    name, kind = f"a{index}", f"const {step.registers.operands[index]}"
    if step.reads_merge(access):
        return (ast.Declare(kind, name, ast.Element(step.operand(index), (_UNIT,))),)
    cell, axes = _cell_of_access(step, access, values, name)
    holder = step.holder(access)
    read: ast.Block = (ast.Declare(kind, name, holder.value(cell)), ast.Count(counter("reads", holder)))
    return (*axes, *read, *looked_at(step.layout, holder, cell))


def _cell_of_access(step: Step, access: Access, values: Values, name: str) -> tuple[ast.Expr, ast.Block]:
    """Return the cell of an access at its innermost node, and the declarations that it needs."""
    holder = step.holder(access)
    axes = axis_values(step.layout, access, values, prefix=f"{name}_x")
    tensor = step.layout.nest.workload.tensor(access.tensor)
    slot = slot_of(holder, tensor, prefix=f"{name}_x")
    return cell_of(holder, instance_number(holder.place.instance_loops), slot), tuple(axes)


def _result(step: Step, values: Values) -> ast.Block:
    target, result = step.use.statement.target, ast.Name("result")
    if step.arrivals_merge():
        kept = ast.Assign(ast.Element(step.result, (_UNIT,)), "=", result)
        return (kept, ast.Assign(ast.Element(step.active, (_UNIT,)), "=", ast.Int(1)))
    cell, axes = _cell_of_access(step, target, values, "target")
    declared = ast.Declare("const int", "cell", cell)
    holder, operator = step.holder(target), step.use.statement.operator
    if operator is Operator.ASSIGN:
        dirty = ast.Assign(holder.partial(ast.Name("cell")), "=", CHANGED)
        return (
            *axes,
            declared,
            ast.Copy(holder.value(ast.Name("cell")), result),
            ast.Count(counter("writes", holder)),
            dirty,
        )
    return (*axes, declared, *arrival(step.layout, holder, operator, ast.Name("cell"), result))


def _merged_results(step: Step, needs: Needs) -> ast.Block:
    target = step.use.statement.target

    def visit(bring: Bring) -> ast.Block:
        layers, values = step.point(_dims((target,)))
        active = ast.Element(step.active, (_UNIT,))
        value = ast.Element(step.result, (_UNIT,))
        done = ast.Assign(active, "=", ast.Int(0))
        body: ast.Block = (*axis_values(step.layout, target, values), *bring(value, _slot(step, target)), done)
        return (_unit(step), ast.If(active, wrap(layers, body)))

    child = Child(step.loops, 1, step.result)
    return merged_arrivals(step.layout, needs, step.holder(target), child, step.use.statement.operator, visit)
