"""The native program: the nest as a program to use, without counters.

Loops over the fan-out `core` become OpenMP loops where their iterations touch different elements; loops over the
fan-out `lane` sink to the inside, where the compiler makes vectors of them, and so do all spatial loops of which some
iterations need what later ones make: a machine runs them in lock step. The innermost place of an accumulated
tensor is a local buffer where loops inside it accumulate onto one tile; the other levels are the caches' own business.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import assert_never

from polymap import ir
from polymap.codegen import lower
from polymap.codegen.native.arrays import ELEMENT_BYTES
from polymap.codegen.native.tuning import TUNING
from polymap.schedules import dependence_violations, serial


@dataclass(frozen=True, slots=True)
class Stage:
    """A local buffer for the tile of an accumulated tensor: per axis the dim, its size, and the digits inside."""

    place: lower.StoragePoint
    use: lower.Use
    name: str
    sizes: tuple[int, ...]

    @property
    def length(self) -> int:
        return prod(self.sizes)


@dataclass(frozen=True, slots=True)
class Native:
    """Decisions of the lowering: loops that sink to the inside, parallel loops, staged tiles."""

    layout: lower.Layout
    frame: lower.Frame
    sunk: frozenset[str]
    cores: frozenset[str]
    stages: tuple[Stage, ...]


def lower_native(workload: ir.Workload, arch: ir.Architecture, mapping: ir.Mapping) -> lower.Program:
    """Return the native program of a mapping.

    Raises WorkloadError for elements of float16 and bfloat16 (PM624), BudgetError if the program would not fit into
    memory or into 32-bit indices (PM601).
    """
    _check_types(workload)
    layout = lower.layout_of(lower.read_nest(workload, arch, mapping))
    nest = layout.nest
    loops = {loop for use in nest.uses for loop in use.loops}
    kinds = [fanout.kind for fanout in arch.fanouts]
    lanes = frozenset(fanout.name for fanout in arch.fanouts if fanout.kind is ir.FanoutKind.LANE)
    in_turn = serial(mapping, lanes)
    is_in_turn = in_turn == mapping or not dependence_violations(workload, in_turn)  # else in lock step
    sunk = frozenset(
        loop.name
        for loop in loops
        if loop.fanout is not None and not (is_in_turn and kinds[loop.fanout] is not ir.FanoutKind.LANE)
    )
    cores = frozenset(
        loop.name for loop in loops if loop.fanout is not None and kinds[loop.fanout] is ir.FanoutKind.CORE
    )
    exact = frozenset(loop.name for use in nest.uses for loop in _exact_loops(use, sunk))
    frame = lower.Frame(layout.frame.names, layout.frame.extents, exact)
    stages = tuple(stage for place in nest.places for stage in _stage(layout, place, sunk))
    native = Native(layout, frame, sunk, cores, stages)
    opening = _head_of_program(native)
    lower.check_memory(
        sum(prod(each.shape) * ELEMENT_BYTES[each.type] for each in opening if isinstance(each, lower.Array))
    )
    body: lower.Block = (*_zeros(native), *_open_clock(native, nest.clock, ()))
    kernel = lower.Function("run", (), lower.prune(lower.inline_constants(body)), "")
    return lower.Program((*opening, kernel, lower.Text(lower.main_text(layout, counted=False))))


def _check_types(workload: ir.Workload) -> None:
    for tensor in workload.tensors:
        if tensor.element_type in lower.SHORT_FLOATS:
            what = f"tensor {tensor.name} has elements of {tensor.element_type}, which C would compute as float"
            hint = 'Give it types="float32"; pm.compile() takes operands of bfloat16.'
            raise ir.WorkloadError(ir.Mistake("PM624", what, hint))


def _head_of_program(native: Native) -> list[lower.Text | lower.Array]:
    layout = native.layout
    hints = lower.OPENMP_HINTS if native.cores or native.sunk else ""
    head = (
        lower.NATIVE_HEAD
        + hints
        + lower.includes(layout)
        + lower.extremes(layout)
        + lower.order_of_sums(layout.nest.workload)
    )
    opening: list[lower.Text | lower.Array] = [lower.Text(head)]
    if lower.has_floors(layout.nest.workload):
        opening.append(lower.Text(lower.FLOOR_DIV))
    for buffer in layout.buffers:
        if buffer.place.level == 0:
            kind = layout.types[buffer.place.tensor].c_type
            opening.append(lower.Array(kind, buffer.name, (max(1, buffer.slots),)))
    return opening


def _exact_loops(use: lower.Use, sunk: frozenset[str]) -> list[lower.Loop]:
    """Return the loops that are opened after every loop around them over their dim."""
    exact: list[lower.Loop] = []
    for dim in use.statement.dims:
        below_sunk = False
        for loop in use.digits(dim):
            if loop.name in sunk or not below_sunk:
                exact.append(loop)
            below_sunk = below_sunk or loop.name in sunk
    return exact


def _open_clock(native: Native, clock: lower.Clock, done: tuple[lower.Loop, ...]) -> lower.Block:
    """Return the nest from a part of the clock inwards; `done` are the loops that are open (or sunk) already."""
    match clock:
        case lower.ClockLoop(loop, above, body):
            rest, after = (*above, loop), body
        case lower.ClockBranch(_, above, _):
            rest, after = above, clock
        case lower.ClockStep(use):
            rest, after = use.loops, clock
        case _:
            assert_never(clock)
    return _open_loops(native, rest, len(done), after)


def _open_loops(native: Native, loops: tuple[lower.Loop, ...], index: int, clock: lower.Clock) -> lower.Block:
    """Return the loops from number `index` on, then what runs inside them; buffers where they stand."""
    if index == len(loops):
        body = _inside(native, clock, loops)
    elif loops[index].name in native.sunk:
        body = _open_loops(native, loops, index + 1, clock)
    else:
        body = _loop(native, loops, index, clock)
    if index == len(loops) and not (isinstance(clock, lower.ClockStep) and len(clock.use.loops) == index):
        return body  # what stands here is met again with the loops that follow
    for stage in native.stages:
        if _contains(clock, stage.use) and stage.place.above == loops[:index]:
            body = _body_with_copies(native, stage, body)
    return body


def _contains(clock: lower.Clock, use: lower.Use) -> bool:
    match clock:
        case lower.ClockLoop(_, _, body):
            return _contains(body, use)
        case lower.ClockBranch(_, _, children):
            return any(_contains(child, use) for child in children)
        case lower.ClockStep(here):
            return here == use
    assert_never(clock)


def _loop(native: Native, loops: tuple[lower.Loop, ...], index: int, clock: lower.Clock) -> lower.Block:
    loop = loops[index]
    open_names = frozenset(outer.name for outer in loops[:index]) - native.sunk
    layers, stop = lower.clock_bound(native.frame, loop, loops[:index], open_names)
    spreads = loop.name in native.cores and _is_disjoint(native, loop)
    if spreads:  # threads start no threads
        native = replace(native, cores=frozenset())
    body = _open_loops(native, loops, index + 1, clock)
    pragma = "#pragma omp parallel for" if spreads else ""
    return lower.wrap(layers, (lower.For(loop.name, lower.Int(0), stop, body, pragma),))


def _inside(native: Native, clock: lower.Clock, loops: tuple[lower.Loop, ...]) -> lower.Block:
    match clock:
        case lower.ClockBranch(_, above, children) if len(above) == len(loops):
            parts = [_open_clock(native, child, above) for child in children]
            return tuple(lower.Scope(part) for part in parts)
        case lower.ClockStep(use) if len(use.loops) == len(loops):
            return _lanes(native, use)
        case _:
            return _open_clock(native, clock, loops)


def _lanes(native: Native, use: lower.Use) -> lower.Block:
    """Return the sunk loops of a statement, innermost, and the statement."""
    body = _compute(native, use)
    lanes = [loop for loop in use.loops if loop.name in native.sunk]
    others = frozenset(loop.name for loop in use.loops) - native.sunk
    for number in reversed(range(len(lanes))):
        loop = lanes[number]
        above = use.loops[: use.loops.index(loop)]
        known = others | frozenset(outer.name for outer in lanes[:number])
        layers, stop = lower.clock_bound(native.frame, loop, above, known)
        innermost = number == len(lanes) - 1
        pragma = "#pragma omp simd" if innermost and _is_disjoint(native, loop) else ""
        body = lower.wrap(layers, (lower.For(loop.name, lower.Int(0), stop, body, pragma),))
    return body


def _is_disjoint(native: Native, loop: lower.Loop) -> bool:
    """Return whether different iterations of a loop access different elements of every written tensor.

    They do if one axis of all accesses to it is the loop's dim times one factor plus one constant.
    """
    uses = [use for use in native.layout.nest.uses if loop in use.loops]
    written = {use.statement.target.tensor for use in uses}
    alone: dict[str, set[tuple[int, ir.Affine]]] = {}
    for use in uses:
        for access in (use.statement.target, *use.statement.reads):
            if access.tensor in written:
                axes = {(axis, form) for axis, form in enumerate(access.index) if form.dims == (loop.dim,)}
                linear = {(axis, form) for axis, form in axes if form.is_linear}
                alone[access.tensor] = linear & alone.get(access.tensor, linear)
    return all(alone.values())


def _zeros(native: Native) -> lower.Block:
    """Return loops that set accumulated tensors to their neutral element wherever the program will accumulate."""
    blocks: list[lower.Block] = []
    for use in native.layout.nest.uses:
        target = use.statement.target
        start = ir.starting_operator(native.layout.nest.workload, target.tensor)
        if start is not None and use.statement.operator is not ir.Operator.ASSIGN:
            bare = lower.Use(use.statement, (), ())
            layers, values = lower.point_layers(native.frame, bare, frozenset(), target.dims)
            value = lower.neutral(native.layout.types[target.tensor], start)
            setting = lower.Assign(_element(native, target), "=", value)
            blocks.append(lower.wrap(layers, (*lower.axis_values(native.layout, target, values), setting)))
    return tuple(lower.Scope(block) for block in blocks)


def _compute(native: Native, use: lower.Use) -> lower.Block:
    layout, statement = native.layout, use.statement
    layers, values = lower.point_layers(native.frame, use, frozenset(loop.name for loop in use.loops), statement.dims)
    own = lower.registers(layout.nest.workload, layout.types, statement)
    body: list[lower.Block] = []
    for number, access in enumerate(statement.reads):
        axes = lower.axis_values(layout, access, values, prefix=f"a{number}_x")
        operand = lower.Declare(f"const {own.operands[number]}", f"a{number}", _element(native, access, f"a{number}_x"))
        body.append((*axes, operand))
    operands = tuple(lower.Name(f"a{number}") for number in range(len(statement.reads)))
    value = lower.c_expression(statement.expression, operands, values)
    value = value if own.result == own.value else lower.Invoke(f"({own.result})", (value,))
    body.append(_write(native, use, values, value))
    return lower.wrap(layers, tuple(one for block in body for one in block))


def _write(native: Native, use: lower.Use, values: lower.Values, value: lower.Expr) -> lower.Block:
    target, operator = use.statement.target, use.statement.operator
    stage = next((stage for stage in native.stages if stage.use == use), None)
    kind = native.layout.types[target.tensor]
    if stage is not None:
        place: lower.Expr = lower.Element(stage.name, (_inner_index(native, stage),))
        return (lower.Copy(place, lower.combine(kind, operator, place, value)),)
    axes, place = lower.axis_values(native.layout, target, values), _element(native, target)
    if operator is ir.Operator.ASSIGN:
        return (*axes, lower.Copy(place, value))
    return (*axes, lower.Declare("const int", "at", place.index[0]), _accumulation(place.array, kind, operator, value))


def _accumulation(array: str, kind: lower.ElementType, operator: ir.Operator, value: lower.Expr) -> lower.Copy:
    place = lower.Element(array, (lower.Name("at"),))
    return lower.Copy(place, lower.combine(kind, operator, place, value))


def _stage(layout: lower.Layout, place: lower.StoragePoint, sunk: frozenset[str]) -> list[Stage]:
    """Return the buffer of a place, or none: the innermost place of a tensor with loops inside that accumulate."""
    sums = ir.rule_of(layout.nest.workload, place.tensor) is ir.PlaceRule.SUMS
    if place.level == 0 or len(place.uses) != 1 or not sums:
        return []
    use = place.uses[0]
    target = use.statement.target
    dims = [form.dims[0] for form in target.index if form.dims]
    plain = all(len(form.dims) <= 1 and form.is_linear for form in target.index)
    if layout.nest.holder(use, place.tensor) != place or not plain or len(set(dims)) != len(dims):
        return []
    fixed = frozenset(loop.name for loop in place.above) - sunk
    inside = [loop for loop in use.loops if loop.name not in fixed]
    if all(loop.dim in dims for loop in inside):
        return []
    sizes: list[int] = []
    for dim in dims:
        size = layout.frame.extents[dim]
        free = False
        for loop in use.digits(dim):
            if loop.name in fixed:
                size = loop.tile
                if free:  # the tile has gaps
                    return []
            free = free or loop.name not in fixed
        sizes.append(size)
    stage = Stage(place, use, f"tile{place.number}", tuple(sizes))
    return [stage] if stage.length <= TUNING.staged_elements else []


def _names_of_fixed_loops(native: Native, stage: Stage) -> frozenset[str]:
    return frozenset(loop.name for loop in stage.place.above) - native.sunk


def _inner_index(native: Native, stage: Stage) -> lower.Expr:
    """Return the index in a local buffer of the statement instance in scope."""
    number: lower.Expr = lower.Int(0)
    dims = [form.dims[0] for form in stage.use.statement.target.index if form.dims]
    for dim, size in zip(dims, stage.sizes, strict=True):
        inner: lower.Expr = lower.Int(0)
        for loop in stage.use.digits(dim):
            if loop.name not in _names_of_fixed_loops(native, stage):
                inner = lower.add(inner, lower.multiply(lower.Name(loop.name), loop.tile))
        number = lower.add(lower.multiply(number, size), inner)
    return number


def _body_with_copies(native: Native, stage: Stage, body: lower.Block) -> lower.Block:
    """Return the body between the copy into the local buffer and the copy back."""
    kind = native.layout.types[stage.place.tensor].c_type
    inwards = _tile_copy(native, stage, back=False)
    outwards = _tile_copy(native, stage, back=True)
    return (lower.LocalArray(kind, stage.name, stage.length), lower.Scope(inwards), *body, lower.Scope(outwards))


def _tile_copy(native: Native, stage: Stage, *, back: bool) -> lower.Block:
    statement = stage.use.statement
    target = statement.target
    bare = ir.Statement(statement.name, statement.dims, (), target, statement.operator, (), statement.expression, ())
    use = lower.Use(bare, tuple(loop for loop in stage.use.loops if loop.dim in target.dims), ())
    fixed = _names_of_fixed_loops(native, stage)
    layers, values = lower.point_layers(native.frame, use, fixed, target.dims)
    inner: lower.Expr = lower.Int(0)
    dims = [form.dims[0] for form in target.index if form.dims]
    for dim, size in zip(dims, stage.sizes, strict=True):
        start: lower.Expr = lower.Int(0)
        for loop in use.digits(dim):
            if loop.name in fixed:
                start = lower.add(start, lower.multiply(lower.Name(loop.name), loop.tile))
        index = values[dim]
        inner = lower.add(
            lower.multiply(inner, size), index if start == lower.Int(0) else lower.Binary("-", index, start)
        )
    local, outer = lower.Element(stage.name, (inner,)), _element(native, target)
    move = lower.Copy(outer, local) if back else lower.Copy(local, outer)
    return lower.wrap(layers, (*lower.axis_values(native.layout, target, values), move))


def _tensor(native: Native, access: ir.Access) -> ir.Tensor:
    return native.layout.nest.workload.tensor(access.tensor)


def _element(native: Native, access: ir.Access, prefix: str = "x") -> lower.Element:
    buffer = native.layout.buffers[native.layout.nest.places_of(access.tensor)[0].number]
    return lower.Element(buffer.name, (lower.slot_of(buffer, _tensor(native, access), prefix=prefix),))
