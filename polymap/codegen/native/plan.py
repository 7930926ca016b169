"""What the printer takes from a tree: outer loops, a vector dim, a register tile, and the reductions inside it.

Outside the innermost Storage node of the output (of a level below the lanes) all loops become C loops. What is inside
it is one register tile: every accumulator is a variable, and reductions run in an order that follows the memory.
The indices of the vector dim in one tile are dealt to lanes so that vectors are contiguous: lanes are symmetric, so
that no count depends on which of them does what.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import prod

from polymap import ir
from polymap.codegen.native.arrays import ELEMENT_BYTES, ArrayForm, Linear
from polymap.codegen.native.panels import Axis, PackedDim, Packing, Span, panels
from polymap.codegen.native.tails import Tail
from polymap.codegen.native.tuning import TUNING
from polymap.schedules import LoopInTree, StorageInTree, trip_count, view_of

LEAST_VECTOR_BYTES = 16


@dataclass(frozen=True, slots=True)
class OuterLoop:
    """A loop over a dim: steps of `tile` through the tile around it, of `enclosing` indices."""

    dim: str
    tile: int
    enclosing: int
    is_parallel: bool

    @property
    def trips(self) -> int:
        """How many steps there are."""
        return trip_count(self.enclosing, self.tile)


@dataclass(frozen=True, slots=True)
class Guard:
    """A padded axis: padding is read unless 0 <= `step * out + spread * tap + constant` < size."""

    out: str
    tap: str
    step: int
    spread: int
    constant: int
    size: int

    def taps(self, low: int, high: int) -> tuple[int, int]:
        """Return the taps (first, stop) of which none falls on padding for all out indices low..high."""
        first = max(0, -((self.constant + self.step * low) // self.spread))
        return first, (self.size - 1 - self.constant - self.step * high) // self.spread + 1

    def outs(self, tap: int) -> tuple[int, int]:
        """Return the out indices (first, stop) for which a tap does not fall on padding."""
        shift = self.constant + self.spread * tap
        return -(shift // self.step), (self.size - 1 - shift) // self.step + 1


@dataclass(frozen=True, slots=True)
class Operand:
    """A read. at: its position in the caller's array. packing: the copy it is read from, if any. inside: strides of the
    indices inside a tile, in the copy if there is one."""

    form: ArrayForm
    name: str
    at: Linear
    inside: Linear
    is_vector: bool
    ahead: Packing | None = None
    packing: Packing | None = None

    @property
    def parameter(self) -> str:
        """The array's name in C."""
        return self.form.parameter if self.packing is None else self.packing.parameter


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """The decisions of the printer. block: indices of the vector dim in a tile; lanes: elements of a vector.

    tile: other dims of the output with their sizes in the register tile. reductions: outermost first; split: those
    with loops outside of the tile and the tile's size. held: per tensor, how many loops stand around its Storage nodes.
    is_ordered: sums are added up in the order of the text. tail: what is done to the sums before they are stored.
    """

    statement: ir.Statement
    extents: dict[str, int]
    outer: tuple[OuterLoop, ...]
    vector: str
    block: int
    lanes: int
    tile: dict[str, int]
    reductions: tuple[str, ...]
    held: dict[str, tuple[int, ...]]
    split: dict[str, int]
    guards: tuple[Guard, ...]
    operands: tuple[Operand, ...]
    target: ArrayForm
    store: Linear
    accumulator: str
    continues: bool
    is_ordered: bool = False
    tail: Tail | None = None

    @property
    def has_words(self) -> bool:
        """Whether the operands are read in words of several elements."""
        return any(each.form.word is not None for each in self.operands)

    @property
    def slots(self) -> int:
        """Vectors along the vector dim in one tile."""
        return -(-self.block // self.lanes)


class NoPlan(Exception):
    """The tree is not of the form that is printed with vectors; the text says why."""


def kernel_plan(
    workload: ir.Workload,
    arch: ir.Architecture,
    mapping: ir.Mapping,
    forms: tuple[ArrayForm, ...],
    tail: Tail | None = None,
    *,
    narrows: bool = True,
) -> KernelPlan:
    """Return the plan of a tree. narrows: vectors are no longer than the vector dim. Raises NoPlan where the tree or
    workload has another form."""
    if len(workload.statements) != 1 or workload.original is not None:
        raise NoPlan("the workload has more than one statement")
    statement = workload.statements[0]
    by_name = {form.tensor: form for form in forms}
    check_sum(workload, statement, by_name)
    shape = _tree_shape(workload, arch, mapping)
    target = by_name[statement.target.tensor]
    accumulator = target.c_type
    lanes = _lanes(arch)
    if narrows and all(by_name[access.tensor].word is None for access in statement.reads):
        lanes = _narrow_lanes(lanes, workload, shape)
    windows = _windows(workload, statement, by_name, shape.vector)
    guards = _guards(workload, statement, by_name, windows)
    _check_guards(shape, guards)
    reductions = _reductions(statement, by_name, shape, is_ordered=not workload.associative)
    plan = KernelPlan(
        statement=statement,
        extents=workload.extents(),
        outer=shape.outer,
        vector=shape.vector,
        block=shape.inside[shape.vector],
        lanes=lanes,
        tile=shape.tile,
        reductions=reductions,
        held=shape.held,
        split={d: shape.inside[d] for d in reductions if shape.inside[d] < workload.extents()[d]},
        guards=guards,
        operands=(),
        target=target,
        store=target.linear(statement.target),
        accumulator=accumulator,
        continues=workload.tensor(statement.target.tensor).initial,
        is_ordered=not workload.associative,
        tail=tail,
    )
    _check_size(plan)
    return replace(plan, operands=_operands(plan, windows, by_name))


def whole_sums(workload: ir.Workload, mapping: ir.Mapping) -> ir.Mapping:
    """Return the tree with all loops over reductions at its end, so that every sum is whole when it is stored.

    For trees of one statement with a Compute at their end.
    """
    own = {name for index in workload.statements[0].target.index for name in index.dims}
    kept = [n for n in mapping.nodes[:-1] if not isinstance(n, ir.Temporal | ir.Spatial) or n.dim in own]
    at = 1 + max((number for number, node in enumerate(kept) if isinstance(node, ir.Storage | ir.Spatial)), default=-1)
    inner = [ir.Temporal(dim.name, 1) for dim in workload.dims if dim.name not in own]
    return ir.Mapping((*kept[:at], *inner, *kept[at:], mapping.nodes[-1]))


@dataclass(frozen=True, slots=True)
class _Shape:
    outer: tuple[OuterLoop, ...]
    vector: str
    inside: dict[str, int]
    tile: dict[str, int]
    held: dict[str, tuple[int, ...]]


def _tree_shape(workload: ir.Workload, arch: ir.Architecture, mapping: ir.Mapping) -> _Shape:
    kinds = {fanout.name: fanout.kind for fanout in arch.fanouts}
    statement = workload.statements[0]
    (compute,) = view_of(workload.extents(), mapping).computes
    own = {name for index in statement.target.index for name in index.dims}
    loops = [(at, node) for at, node in enumerate(compute.above) if isinstance(node, LoopInTree) and node.trips > 1]
    lanes = [(at, node) for at, node in loops if _kind(kinds, node) is ir.FanoutKind.LANE]
    if len(lanes) != 1 or lanes[0][1].node.dim not in own:
        raise NoPlan("not one dim of the output is spread over the lanes")
    lane_at, lane = lanes[0]
    start = lane_at
    for at, node in enumerate(compute.above):
        if at > lane_at and isinstance(node, StorageInTree) and statement.target.tensor in node.node.tensors:
            start = at
    vector = lane.node.dim
    lane_size = next(fanout.size for fanout in arch.fanouts if fanout.kind is ir.FanoutKind.LANE)
    left = workload.extents()
    outer: list[OuterLoop] = []
    depths: list[int] = []
    for at, node in loops:
        if at < start and at != lane_at:
            spreads = _kind(kinds, node) is ir.FanoutKind.CORE and node.node.dim in own
            # Lanes are dealt out anew: a loop below them over their dim steps by as many whole vectors.
            lanes_inside = lane_size if at > lane_at and node.node.dim == vector else 1
            tile = min(node.tile * lanes_inside, left[node.node.dim])
            outer.append(OuterLoop(node.node.dim, tile, left[node.node.dim], spreads))
            left[node.node.dim] = tile
            depths.append(at)
    if any(lane_at < at and isinstance(node.node, ir.Spatial) for at, node in loops):
        raise NoPlan("a fan-out below the lanes is used")
    tile = {name: left[name] for name in statement.dims if name in own and name != vector}
    held: dict[str, tuple[int, ...]] = {}
    for at, node in enumerate(compute.above[:start]):
        if isinstance(node, StorageInTree):
            level = sum(depth < at for depth in depths)
            held.update({tensor: (*held.get(tensor, ()), level) for tensor in node.node.tensors})
    return _Shape(tuple(outer), vector, left, tile, held)


def _lanes(arch: ir.Architecture) -> int:
    """Return the elements of the machine's vectors."""
    lane = next(fanout for fanout in arch.fanouts if fanout.kind is ir.FanoutKind.LANE)
    if lane.size < 2 or lane.size & (lane.size - 1):
        raise NoPlan("the machine's vectors have no power of two of elements")
    return lane.size


def narrow_width(count: int, lanes: int, least: int) -> int:
    """Return the lanes of a vector for so many elements: whole ones, or the power of two that is next to the count."""
    while lanes // 2 >= max(count, least):
        lanes //= 2
    return lanes


def _narrow_lanes(lanes: int, workload: ir.Workload, shape: _Shape) -> int:
    """Return the elements of a vector that few indices fill: as many, or the next power of two; of one sum of operands
    that are read once, where they lie, the one before, as parts of vectors would be loaded by way of memory."""
    block, (statement,) = shape.inside[shape.vector], workload.statements
    lanes = narrow_width(block, lanes, 1)
    read = [set(access.dims) for access in statement.reads if shape.vector in access.dims]
    once = any(all(dim in dims or workload.extents()[dim] == 1 for dim in shape.tile) for dims in read)
    return lanes // 2 if once and block < lanes and prod(shape.tile.values()) == 1 else lanes


def _kind(kinds: dict[str, ir.FanoutKind | None], loop: LoopInTree) -> ir.FanoutKind | None:
    return kinds[loop.node.fanout] if isinstance(loop.node, ir.Spatial) else None


def check_sum(workload: ir.Workload, statement: ir.Statement, forms: dict[str, ArrayForm]) -> None:
    """Raise NoPlan for statements that no tree makes a sum of vectors."""
    _check_statement(workload, statement)
    target = forms[statement.target.tensor]
    if ELEMENT_BYTES[target.c_type] < 4 or target.kind == "bfloat16":
        raise NoPlan(f"no vectors of {target.kind} are accumulated")
    if target.c_type != "float" and any(forms[access.tensor].kind == "bfloat16" for access in statement.reads):
        raise NoPlan(f"vectors of bfloat16 are not accumulated as {target.kind}")


def _check_statement(workload: ir.Workload, statement: ir.Statement) -> None:
    target = [index for index in statement.target.index if index.terms]
    own = [index.dims for index in target]
    if statement.operator is not ir.Operator.ADD or not _is_polynomial(statement.expression):
        raise NoPlan("the statement is no sum of products")
    if any(len(dims) != 1 for dims in own) or len(set(own)) != len(own):
        raise NoPlan("the output is not indexed by one dim per axis")
    accesses = (statement.target, *statement.reads)
    if any(not index.is_linear for access in accesses for index in access.index):
        raise NoPlan("an index has a division")
    if any(access.tensor == statement.target.tensor for access in statement.reads):
        raise NoPlan("the statement reads its output")
    if len(statement.dims) != len(workload.dims):
        raise NoPlan("a dim does not belong to the statement")


def _is_polynomial(expression: ir.Expression) -> bool:
    match expression:
        case ir.Read():
            return True
        case ir.Apply(operation, arguments):
            return operation in ("*", "+", "-") and len(arguments) == 2 and all(map(_is_polynomial, arguments))
        case _:
            return False


def _windows(
    workload: ir.Workload, statement: ir.Statement, forms: dict[str, ArrayForm], vector: str
) -> frozenset[str]:
    """Return the operands that slide along the vector dim with steps or onto padding: these are copied with zeros."""
    extents, found = workload.extents(), set[str]()
    for access in statement.reads:
        form = forms[access.tensor]
        axes = [number for number in range(len(form.sizes)) if vector in access.index[number].dims]
        if len(axes) == 1 and len(access.index[axes[0]].dims) == 2:
            low, high = ir.bounds(form.axis(access, axes[0]), extents)
            if low < 0 or high >= form.sizes[axes[0]] or form.linear(access).of(vector) != 1:
                found.add(access.tensor)
    return frozenset(found)


def _guards(
    workload: ir.Workload, statement: ir.Statement, forms: dict[str, ArrayForm], windows: frozenset[str]
) -> tuple[Guard, ...]:
    """Return the axes that may fall on padding, but for copied windows, which have zeros there; raises NoPlan if the
    domain has any other constraint."""
    guards: list[Guard] = []
    known: set[ir.Affine] = set()
    extents = workload.extents()
    for access in (statement.target, *statement.reads):
        form = forms[access.tensor]
        for number, size in enumerate(form.sizes):
            index = form.axis(access, number)
            known |= {index, -index + (size - 1)}
            low, high = ir.bounds(index, extents)
            if (low >= 0 and high < size) or access.tensor in windows:
                continue
            guards.append(_guard(statement, index, size))
    if any(constraint not in known for constraint in statement.constraints):
        raise NoPlan("the domain is no box with padding")
    return tuple(dict.fromkeys(guards))


def _guard(statement: ir.Statement, index: ir.Affine, size: int) -> Guard:
    own = {name for axis in statement.target.index for name in axis.dims}
    factors = index.coefficients()
    outs, taps = [d for d in factors if d in own], [d for d in factors if d not in own]
    if len(outs) != 1 or len(taps) != 1 or min(factors.values()) < 1:
        raise NoPlan("padding depends on other dims than one of the output and one tap")
    return Guard(outs[0], taps[0], factors[outs[0]], factors[taps[0]], index.constant, size)


def _check_guards(shape: _Shape, guards: tuple[Guard, ...]) -> None:
    split = {loop.dim for loop in shape.outer}
    for guard in guards:
        if guard.out == shape.vector:
            raise NoPlan("padding along the vector dim")
        if shape.tile[guard.out] > 1 and guard.tap in split:
            raise NoPlan("a loop over the taps of a dim in the register tile stands outside of it")
        if shape.tile[guard.out] > 1 and sum(other.tap == guard.tap for other in guards) > 1:
            raise NoPlan("one tap belongs to several windows with padding")


def _reductions(
    statement: ir.Statement, forms: dict[str, ArrayForm], shape: _Shape, *, is_ordered: bool
) -> tuple[str, ...]:
    """Return the reductions, the largest step through the operands that are not packed outermost, or, where sums are
    ordered, as the text has them."""
    reductions = [name for name in statement.dims if name not in shape.tile and name != shape.vector]
    if is_ordered:
        return tuple(reductions)
    linear = [forms[access.tensor].linear(access) for access in statement.reads]
    unpacked = [each for each in linear if each.of(shape.vector) == 0] or linear
    found = sorted(reductions, key=lambda name: -max(abs(each.of(name)) for each in unpacked))
    shared = [dim for dim in found if any(_shares(access, dim, shape) for access in statement.reads)]
    if shared and found[-1] not in shared:  # results that are neighbours share what these taps load
        found.remove(shared[-1])
        found.append(shared[-1])
    return tuple(found)


def _shares(access: ir.Access, tap: str, shape: _Shape) -> bool:
    """Return whether an operand of vectors slides with a tap along another dim of the register tile."""
    if not any(shape.vector in index.dims for index in access.index):
        return False
    return any(tap in index.dims and shape.tile.get(dim, 1) > 1 for index in access.index for dim in index.dims)


def _check_size(plan: KernelPlan) -> None:
    count = prod(plan.tile.values(), start=plan.slots)
    if count > TUNING.most_accumulators:
        raise NoPlan(f"the register tile has {count} vectors, more than {TUNING.most_accumulators}")
    starts = vector_starts(plan)
    if any(start != number * plan.block for number, (start, _) in enumerate(starts)):
        raise NoPlan("tiles of the vector dim are not all of one size")


def vector_starts(plan: KernelPlan) -> tuple[tuple[int, int], ...]:
    """Return the tiles (start, size) of the vector dim."""
    return tile_starts(plan, plan.vector)


def tile_starts(plan: KernelPlan, dim: str) -> tuple[tuple[int, int], ...]:
    """Return the register tiles (start, size) of a dim, in order."""
    spans = [(0, plan.extents[dim])]
    for loop in plan.outer:
        if loop.dim == dim:
            spans = [
                (start, min(loop.tile, begin + size - start))
                for begin, size in spans
                for start in range(begin, begin + size, loop.tile)
            ]
    return tuple(spans)


def _operands(plan: KernelPlan, windows: frozenset[str], forms: dict[str, ArrayForm]) -> tuple[Operand, ...]:
    return tuple(
        (_window if access.tensor in windows else _operand)(plan, number, access, forms[access.tensor])
        for number, access in enumerate(plan.statement.reads)
    )


def _operand(plan: KernelPlan, number: int, access: ir.Access, form: ArrayForm) -> Operand:
    linear = form.linear(access)
    factor = linear.of(plan.vector)
    plain = Operand(form, f"a{number}", linear, linear, is_vector=factor != 0)
    dims = [name for index in access.index for name in index.dims]
    simple = all(len(index.dims) <= 1 for index in access.index) and set(linear.factors) == set(dims)
    simple = simple and len(set(dims)) == len(dims)
    if not factor or not simple or sum(each.tensor == access.tensor for each in plan.statement.reads) > 1:
        packings = None
    else:
        reused = any(size > 1 for name, size in plan.extents.items() if name in plan.tile and name not in dims)
        is_direct = not reused and factor == 1 and form.word is None
        packings = None if is_direct or _lies_well(plan, form, linear) else _panels(plan, form, linear)
    if packings is None and factor not in (0, 1):
        raise NoPlan(f"the vector dim is not contiguous in {access.tensor}")
    if packings is None and factor and form.word is not None:
        raise NoPlan(f"words of {access.tensor} are not packed")
    if packings is None:
        return plain
    ahead, packing = packings
    inside = Linear({each.span.dim: each.inner for each in packing.dims}, 0)
    return replace(plain, inside=inside, ahead=ahead, packing=packing)


def unpack_plan(plan: KernelPlan) -> KernelPlan:
    """Return the plan of one call on operands as they are: panels that few rows of tiles read are read where they lie,
    as copying them takes longer, also where the last of several tiles has less than one vector. Words are put together
    of whole vectors of their elements."""

    def as_it_lies(operand: Operand) -> Operand:
        word, at = operand.form.word, operand.at
        if operand.ahead is None or not _has_few_passes(plan, at):
            return operand
        at = at if word is None else word.source
        is_direct = _has_whole_vectors(plan, at)
        if word is None:
            is_direct |= at.of(plan.vector) == 1 and plan.extents[plan.vector] > plan.block
        else:
            is_direct &= word.length % word.count == 0 and plan.store.of(plan.vector) == 1
        return replace(operand, at=at, inside=at, ahead=None, packing=None) if is_direct else operand

    operands = tuple(map(as_it_lies, plan.operands))
    return plan if operands == plan.operands else replace(plan, operands=operands)


def _has_few_passes(plan: KernelPlan, linear: Linear) -> bool:
    """Return whether few rows of tiles read an operand."""
    return (
        prod(-(-plan.extents[dim] // size) for dim, size in plan.tile.items() if not linear.of(dim))
        <= TUNING.few_passes
    )


def _has_whole_vectors(plan: KernelPlan, linear: Linear) -> bool:
    """Return whether neighbours along the vector dim are neighbours in memory, and no tile has less than one vector."""
    last = plan.extents[plan.vector] % plan.block or plan.block
    return linear.of(plan.vector) == 1 and last >= plan.lanes


def _lies_well(plan: KernelPlan, form: ArrayForm, linear: Linear) -> bool:
    """Return whether an operand of vectors is read as fast where it lies as in panels: all of it is one panel, or few
    of its rows are read at a time, or it stays in the second cache and its rows fall onto all sets of the first one."""
    if form.word is not None or not _has_whole_vectors(plan, linear):
        return False
    width, own = ELEMENT_BYTES[form.c_type], {plan.vector, *plan.reductions}
    has_rows_together = bool(plan.outer) and plan.outer[0].dim in plan.reductions and _has_few_passes(plan, linear)
    if linear.factors.keys() <= own and (plan.extents[plan.vector] <= plan.block or has_rows_together):
        return True
    collides = any(linear.of(dim) * width % TUNING.colliding_bytes == 0 for dim in linear.factors)
    return form.elements * width <= TUNING.direct_bytes and not collides


def _window(plan: KernelPlan, number: int, access: ir.Access, form: ArrayForm) -> Operand:
    """Return an operand that is copied with zeros for its padding, where the fewest elements are copied."""
    dims = [dim for index in access.index for dim in index.dims]
    factors = [factor for index in access.index for factor in index.coefficients().values()]
    twice = sum(each.tensor == access.tensor for each in plan.statement.reads) > 1 or len(set(dims)) < len(dims)
    if twice or min(factors) < 0:
        raise NoPlan(f"{access.tensor}, which slides along the vector dim, is read in two ways")
    levels = [_window_at(plan, access, form, level) for level in range(len(plan.outer) + 1)]
    fitting = _copies_that_fit(plan, levels)
    if not fitting:
        raise NoPlan(f"the window of {access.tensor} is large or often copied")
    packing = min(fitting, key=lambda each: (_copied_elements(plan, each), -each.level))
    inside = Linear({each.span.dim: each.inner for each in packing.dims}, 0)
    return Operand(form, f"a{number}", form.linear(access), inside, is_vector=True, packing=packing)


def _copied_elements(plan: KernelPlan, packing: Packing) -> int:
    """Return how many elements all copies of a window have."""
    own = prod(axis.length for axis in packing.axes)
    return own * prod(loop.trips for loop in plan.outer[: packing.level])


def _window_at(plan: KernelPlan, access: ir.Access, form: ArrayForm, level: int) -> Packing:
    spans = {dim: _whole_span(plan, dim, level) for dim in plan.extents}
    order = sorted(
        range(len(form.sizes)), key=lambda axis: (plan.vector not in access.index[axis].dims, form.strides[axis])
    )
    axes: list[Axis] = []
    inner: dict[str, int] = {}
    step, phase_tap = 1, None
    for axis in order:
        index = form.axis(access, axis)
        factors, is_row = index.coefficients(), axis == order[0]
        stride = factors[plan.vector] if is_row else 1
        length = 1 + sum(factor * (spans[dim].tile - 1) for dim, factor in factors.items())
        phase = -(-length // stride)
        for dim, factor in factors.items():
            inner[dim] = 1 if dim == plan.vector else factor * step
            if is_row and dim != plan.vector and stride > 1:
                inner[dim], phase_tap = factor, dim
        start = _start(index, spans)
        low, high = ir.bounds(index, plan.extents)
        whole = all(spans[dim].extent % spans[dim].tile == 0 for dim in factors)
        checked = is_row or low < 0 or high >= form.sizes[axis] or not whole
        axes.append(Axis(start, length, form.sizes[axis], form.strides[axis], step, stride, phase, checked))
        step *= stride * phase if is_row else length
    dims = tuple(PackedDim(span, 0, inner[dim]) for dim, span in spans.items() if dim in inner)
    if phase_tap is not None and (phase_tap in plan.split or phase_tap not in plan.reductions):
        raise NoPlan(f"the taps along the vector dim of {access.tensor} stand outside of the register tile")
    source, whole = form.linear(access), tuple(reversed(axes))
    return Packing(form, source, dims, None, step, has_gaps=True, level=level, axes=whole, tap=phase_tap)


def _start(index: ir.Affine, spans: dict[str, Span]) -> int | str:
    """Return the first index of an axis in a window."""
    origins = [(factor, spans[dim].origin) for dim, factor in index.coefficients().items()]
    terms = [f"{factor} * {origin}" for factor, origin in origins if origin != "0"]
    return f"({' + '.join([*terms, str(index.constant)])})" if terms else index.constant


def _whole_span(plan: KernelPlan, dim: str, level: int) -> Span:
    """Return the indices of a dim that `level` loops leave in one block, of the vector dim whole vectors."""
    span = _span(plan, dim, level)
    tile = -(-span.tile // plan.block) * plan.slots * plan.lanes if dim == plan.vector else span.tile
    return replace(span, size=tile, tile=tile)


def _panels(plan: KernelPlan, form: ArrayForm, linear: Linear) -> tuple[Packing, Packing]:
    """Return the panels of an operand that has the vector dim: of the whole array, and as the tree holds it."""
    width = plan.slots * plan.lanes
    lanes = plan.lanes if form.c_type == plan.accumulator else 0

    def at(level: int) -> Packing:
        own = tuple(_span(plan, dim, level) for dim in (*plan.tile, *plan.reductions) if linear.of(dim))
        source = linear if form.word is None else form.word.source
        return panels(form, source, own, _span(plan, plan.vector, level), width, level, lanes)

    def outside(level: int) -> int:
        """Return the level with the loops right around it left out that do not change the tile."""
        while level and not plan.outer[level - 1].is_parallel and not linear.of(plan.outer[level - 1].dim):
            level -= 1
        return level

    whole = at(0)
    levels = map(outside, plan.held.get(form.tensor, ()))
    near = [each for each in map(at, levels) if _inner_lengths(each) == _inner_lengths(whole)]
    fitting = _copies_that_fit(plan, near)
    return whole, min(fitting, key=lambda each: (_repeats(plan, each), -each.level), default=whole)


def _inner_lengths(packing: Packing) -> dict[str, int]:
    return {each.span.dim: each.inner for each in packing.dims}


def is_heap(packing: Packing) -> bool:
    """Return whether a copy is too large for the stack."""
    return packing.elements * ELEMENT_BYTES[packing.form.c_type] > TUNING.stack_bytes


def _copies_that_fit(plan: KernelPlan, found: list[Packing]) -> list[Packing]:
    return [each for each in found if not is_heap(each) and _repeats(plan, each) <= TUNING.most_repeats]


def _repeats(plan: KernelPlan, packing: Packing) -> int:
    """Return how often each element is copied: the iterations of loops around that do not change the tile."""
    own = {each.span.dim for each in packing.dims}
    return prod(loop.trips for loop in plan.outer[: packing.level] if loop.dim not in own)


def _span(plan: KernelPlan, dim: str, level: int) -> Span:
    """Return the indices of a dim that `level` loops leave, in blocks as large as its tiles in registers."""
    extent, tile, origin = plan.extents[dim], plan.extents[dim], "0"
    for number, loop in enumerate(plan.outer[:level]):
        if loop.dim == dim:
            tile, origin = loop.tile, loop_name(plan, number)
    starts = tile_starts(plan, dim)
    size = plan.block if dim == plan.vector else plan.split.get(dim, plan.tile.get(dim, tile))
    regular = all(start == number * size for number, (start, _) in enumerate(starts))
    return Span(dim, size if regular else tile, tile, extent, origin)


def loop_name(plan: KernelPlan, number: int) -> str:
    """Return the C name of the variable of an outer loop."""
    return f"{dim_names(plan)[plan.outer[number].dim]}_{number}"


def dim_names(plan: KernelPlan) -> dict[str, str]:
    """Return a C name for each dim: of one small letter its own, others with a prefix, which no word of C, array or
    local name begins with."""
    clean = {dim: re.sub("[^A-Za-z0-9]", "", dim)[:8] for dim in plan.extents}
    clean = {dim: name if re.fullmatch("[a-z]", name) else f"d_{name}" for dim, name in clean.items()}
    if len(set(clean.values())) < len(clean) or "d_" in clean.values():
        clean = {dim: f"d{number}" for number, dim in enumerate(plan.extents)}
    return clean
