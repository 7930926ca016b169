"""The faithful program: C that moves every word as the machine does, and counts it where it moves.

There is one function per storage node and kind of move. It is called in each step in which the node's tile can have
changed: first elements leave, from the innermost node outwards; then they are loaded or enter, from the outermost
inwards; then the statement runs. The variable `advanced` is the outermost component of the clock that changed since the
last step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import assert_never

from polymap.codegen.lower import ast
from polymap.codegen.lower.buffers import Layout, buffer_arrays, check_memory, counter, layout_of
from polymap.codegen.lower.elements import SHORT_FLOATS, c_name
from polymap.codegen.lower.main_part import KINDS, extremes, has_floors, includes, main_text
from polymap.codegen.lower.nest import Clock, ClockBranch, ClockLoop, ClockStep, StoragePoint, Use, read_nest
from polymap.codegen.lower.prelude import ELEMENT_OF_KEY, FAITHFUL_HEAD, FLOOR_DIV, MACROS, MESSAGES
from polymap.codegen.lower.residence import (
    enter_function,
    forget_tile,
    last_uses,
    leave_function,
    load_function,
    mortal_tensors,
    note_uses,
)
from polymap.codegen.lower.steps import Step, step_arrays, step_functions, step_of, working_function
from polymap.codegen.lower.tidy import prune
from polymap.codegen.lower.tiles import Guard, clock_bound, temporal, wrap
from polymap.codegen.lower.transfers import Needs, bus, mark
from polymap.ir import Architecture, Mapping, PlaceRule, Workload

_ADVANCED = ast.Name("advanced")
LowerStep = Callable[["_Parts", Use], ast.Block]


@dataclass(slots=True)
class _Parts:
    """The parts of the program lowered so far. leaves, enters: node number -> the call of its function."""

    layout: Layout
    needs: Needs = field(default_factory=Needs)
    functions: list[ast.Function] = field(default_factory=list[ast.Function])
    arrays: list[ast.Array] = field(default_factory=list[ast.Array])
    leaves: dict[int, ast.Run] = field(default_factory=dict[int, ast.Run])
    enters: dict[int, ast.Run] = field(default_factory=dict[int, ast.Run])
    works: dict[int, ast.Run] = field(default_factory=dict[int, ast.Run])

    def working(self, step: Step) -> ast.Run:
        """Return the call of the function that sets `working`; it is defined once per step."""
        if step.number not in self.works:
            self.works[step.number] = self.keep(working_function(step))
        return self.works[step.number]

    def keep(self, made: tuple[ast.Function, ast.Run]) -> ast.Run:
        self.functions.append(made[0])
        return made[1]


def lower_faithful(workload: Workload, arch: Architecture, mapping: Mapping) -> ast.Program:
    """Return the faithful program of a mapping.

    Raises BudgetError if it would exceed memory or 32-bit indices.
    """
    layout = layout_of(read_nest(workload, arch, mapping))
    parts = _Parts(layout)
    for buffer in layout.buffers:
        parts.arrays += buffer_arrays(layout, buffer)
        if buffer.place.level == 0:
            continue
        if buffer.rule is not PlaceRule.READ_ONLY:
            parts.leaves[buffer.place.number] = parts.keep(leave_function(layout, parts.needs, buffer))
            parts.enters[buffer.place.number] = parts.keep(enter_function(layout, parts.needs, buffer))
        else:
            parts.enters[buffer.place.number] = parts.keep(load_function(layout, parts.needs, buffer))
    run = _run(parts)
    if mortal := mortal_tensors(layout):
        parts.arrays += [last_uses(layout, tensor) for tensor in mortal]
        parts.functions.append(_first_walk(parts))
    _check_memory(parts)
    return ast.Program(
        (*_declarations_of_program(parts), *parts.functions, run, ast.Text(main_text(layout, counted=True)))
    )


def _check_memory(parts: _Parts) -> None:
    total_bytes = sum(_bytes(array) for array in parts.arrays)
    total_bytes += sum((8 + 8) * slots for slots in parts.needs.buses.values())
    total_bytes += 4 * (3 * parts.needs.wanted + parts.needs.message_words)
    check_memory(total_bytes)


def _bytes(array: ast.Array) -> int:
    return int("".join(digit for digit in array.type if digit.isdigit()) or 64) // 8 * prod(array.shape)


def _run(parts: _Parts) -> ast.Function:
    nest = parts.layout.nest
    body = _clock(parts, nest.clock, _lower_step, advances=bool(parts.enters))
    first = (ast.Run("note_last_uses", ()),) if mortal_tensors(parts.layout) else ()
    dead = {tensor.name for tensor in nest.workload.tensors if tensor.temporary}
    live = [place for place in nest.places if place.number in parts.leaves and place.tensor not in dead]
    end = [_leave(parts, place, more=0) for place in reversed(live)]
    start = (*first, *((ast.Declare("int", "advanced", ast.Int(-1)),) if parts.enters else ()))
    return ast.Function(
        "run", (), prune((*start, *body, *end)), "The clock, and the end of the run: all tiles are empty."
    )


def _first_walk(parts: _Parts) -> ast.Function:
    """Return the function that walks over the clock once before the run and notes when elements are used last."""
    body = _clock(parts, parts.layout.nest.clock, _note_step, advances=False)
    return ast.Function(
        "note_last_uses", (), prune((*body, ast.Assign(ast.Name("steps"), "=", ast.Int(0)))), "Nothing moves yet."
    )


def _clock(parts: _Parts, clock: Clock, lower: LowerStep, *, advances: bool) -> ast.Block:
    """Return the loops of the clock around what `lower` makes of each step; advances: `advanced` is kept."""
    match clock:
        case ClockLoop(loop, above, body):
            layers, stop = clock_bound(parts.layout.frame, loop, above, temporal(above))
            inner = _clock(parts, body, lower, advances=advances)
            return wrap(
                layers, (ast.For(loop.name, ast.Int(0), stop, (*_note_advance(loop.depth, advances=advances), *inner)),)
            )
        case ClockBranch(depth, _, children):
            steps: list[ast.Stmt] = []
            for child in children:
                inner = _clock(parts, child, lower, advances=advances)
                steps += [*_note_advance(depth, advances=advances), ast.Scope(inner)]
            return tuple(steps)
        case ClockStep(use):
            return _where_it_works(parts, use, lower(parts, use))
    assert_never(clock)


def _note_advance(depth: int, *, advances: bool) -> ast.Block:
    return (ast.Assign(_ADVANCED, "=", ast.minimum(_ADVANCED, ast.Int(depth))),) if advances else ()


def _step(parts: _Parts, use: Use) -> Step:
    return step_of(parts.layout, use, parts.layout.nest.uses.index(use))


def _note_step(parts: _Parts, use: Use) -> ast.Block:
    return (*note_uses(_step(parts, use)), ast.Count("steps"))


def _where_it_works(parts: _Parts, use: Use, body: ast.Block) -> ast.Block:
    """Return the statements of a step under its conditions: steps in which no instance has work do not exist."""
    if use.statement.constraints:
        body = (parts.working(_step(parts, use)), ast.If(ast.Name("working"), body))
    foreign = (Guard(ast.Binary("==", ast.Name(loop.name), ast.Int(0))) for loop in use.foreign if loop.is_temporal)
    return wrap(foreign, body)


def _lower_step(parts: _Parts, use: Use) -> ast.Block:
    step = _step(parts, use)
    parts.arrays += step_arrays(step)
    functions, calls = step_functions(step, parts.needs)
    parts.functions += functions
    return (
        *_tile_changes(parts, use),
        *calls,
        ast.Count("steps"),
        *((ast.Assign(_ADVANCED, "=", ast.Name("INT_MAX")),) if parts.enters else ()),
    )


def _tile_changes(parts: _Parts, use: Use) -> ast.Block:
    nest = parts.layout.nest
    changes: list[ast.Stmt] = []
    for place in reversed(nest.places):
        here = use.path[: len(place.path)] == place.path
        if place.number in parts.leaves:
            if not here:
                changes.append(_if_advanced(_branch_depth(place, use), _leave(parts, place, more=0)))
                continue
            if place.branch_depths:  # another execution of the child of a branch: nothing is kept
                changes.append(_if_advanced(place.branch_depths[-1], _leave(parts, place, more=0)))
            changes.append(_if_advanced(_relevant_depth(nest.workload, place), _leave(parts, place, more=1)))
        elif place.number in parts.enters and here and place.branch_depths:
            changes.append(_if_advanced(place.branch_depths[-1], forget_tile(parts.layout.buffers[place.number])))
    for place in nest.places:
        if place.number in parts.enters and use.path[: len(place.path)] == place.path:
            changes.append(_if_advanced(_relevant_depth(nest.workload, place), parts.enters[place.number]))
    return tuple(changes)


def _if_advanced(depth: int, call: ast.Stmt) -> ast.Stmt:
    return ast.If(ast.Binary("<", _ADVANCED, ast.Int(depth + 1)), (call,))


def _leave(parts: _Parts, place: StoragePoint, more: int) -> ast.Run:
    run = parts.leaves[place.number]
    arguments = tuple(ast.Int(more) if argument == ast.Name("more") else argument for argument in run.arguments)
    if not more:
        arguments = tuple(argument if isinstance(argument, ast.Int) else ast.Int(0) for argument in arguments)
    return ast.Run(run.function, arguments)


def _branch_depth(place: StoragePoint, use: Use) -> int:
    """Return the clock depth of the branch at which the storage node and the statement diverge."""
    for i, (mine, other) in enumerate(zip(place.path, use.path, strict=False)):
        if mine != other:
            return place.branch_depths[i]
    raise AssertionError("the statement is below the place")


def _relevant_depth(workload: Workload, place: StoragePoint) -> int:
    """Return the depth of the innermost clock component above the node at which its tile can change; -1 if there is
    none."""
    extents = workload.extents()
    relevant: set[str] = set()
    for use, access in place.accesses():
        relevant |= set(access.dims)
        relevant |= {dim for constraint in use.statement.constraints for dim in constraint.dims}
        relevant |= {dim for dim in use.statement.dims if _is_ragged(use, dim, extents[dim])}
        relevant |= {loop.dim for loop in use.foreign}
    depths = [loop.depth for loop in place.above if loop.is_temporal and loop.dim in relevant]
    return max([*depths, *place.branch_depths], default=-1)


def _is_ragged(use: Use, dim: str, extent: int) -> bool:
    enclosing = extent
    for loop in use.digits(dim):
        if enclosing % loop.tile:
            return True
        enclosing = loop.tile
    return False


def _types_remark(workload: Workload) -> str:
    """Return a comment that lists the tensors which C computes in a wider type than their own; "" for none."""
    short = [tensor for tensor in workload.tensors if tensor.element_type in SHORT_FLOATS]
    names = {each.name: c_name(f"T{number}", each.name) for number, each in enumerate(workload.tensors)}
    listed = ", ".join(f"{names[each.name]} ({each.element_type})" for each in short)
    return f"/* Held and computed as float: {listed}. Traffic is counted in words of their own. */\n" if short else ""


def _declarations_of_program(parts: _Parts) -> list[ast.Text | ast.Array]:
    """Return includes, macros, counters, buffers, and the scratch space that the transfers need."""
    layout, needs = parts.layout, parts.needs
    opening: list[ast.Text | ast.Array] = [
        ast.Text(FAITHFUL_HEAD + _types_remark(layout.nest.workload) + includes(layout)),
        ast.Text(extremes(layout) + MACROS),
    ]
    if mortal_tensors(layout):
        opening.append(ast.Text(ELEMENT_OF_KEY))
    if has_floors(layout.nest.workload):
        opening.append(ast.Text(FLOOR_DIV))
    opening += [ast.Array("unsigned long long", name, ()) for name in ("steps", "instances")]
    rows = dict.fromkeys(counter(kind, buffer) for buffer in layout.buffers for kind in KINDS)
    opening += [ast.Array("unsigned long long", name, ()) for name in rows]
    opening += parts.arrays
    if any(use.statement.constraints for use in layout.nest.uses):
        opening.append(ast.Array("int", "working", ()))
    for tensor, slots in needs.buses.items():
        opening.append(ast.Array(layout.types[tensor].adder_type, bus(layout, tensor), (slots,)))
        opening.append(ast.Array("int64_t", mark(layout, tensor), (slots,)))
    if needs.buses:
        lists = ["want_from", *["want_at"] * needs.loads, *["message"] * needs.unions]
        opening += [ast.Array("int32_t", name, (needs.wanted,)) for name in lists]
        names = ("wanted", "length") if needs.unions else ("wanted",)
        opening += [*(ast.Array("int", name, ()) for name in names), ast.Array("int64_t", "stamp", ())]
    if needs.messages:
        buckets = 1 << (2 * needs.messages).bit_length()
        sizes = {"words": needs.message_words, "messages": needs.messages, "buckets": buckets, "mask": buckets - 1}
        opening.append(ast.Text(MESSAGES.format(**sizes)))
    return opening
