"""Storage nodes in C: arrays, the slot of an element, counters, and whether the tensor is accumulated.

The outermost node of a tensor is a plain array of all elements. Every other node has, per instance, `slots` cells
(`moduli`) with a value and a key: the number of the tile change (epoch) at which the element last belonged to the
tile, and the element. An element is present if its key has the instance's last epoch. Nodes of written tensors also
record which copies are partial sums, and list the held slots with the parent's slot of each.

An element with index x goes to slot x % m. That is safe when no two indices of one tile differ by a multiple of m, so m
is the smallest number that divides none of the differences that occur: a lattice storage mapping, exact for windows,
strides and the gaps that spatial loops over inner fan-outs leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from polymap import ir
from polymap.codegen.lower import ast
from polymap.codegen.lower.elements import ElementType, c_name, check_sums, element_types
from polymap.codegen.lower.nest import Nest, StoragePoint, Use
from polymap.codegen.lower.tiles import Frame, Values, affine_expr
from polymap.codegen.lower.tuning import TUNING
from polymap.workload.c import LARGEST_INDEX

# Static arrays beyond 2 GiB do not link in the usual memory model of x86-64.
_LARGEST_PROGRAM_BYTES = 2**31 - 2**24
_NEUTRAL = {ir.Operator.ADD: 0, ir.Operator.MULTIPLY: 1}


CLEAN, CHANGED = (
    ast.Int(1),
    ast.Int(2),
)  # what stands in a copy, as `partial` says: 0 is zero, nothing that anybody wrote


@dataclass(frozen=True, slots=True)
class Buffer:
    """A place as arrays: cell = instance * slots + slot. rule: by which its elements move."""

    place: StoragePoint
    rule: ir.PlaceRule
    name: str
    modulus: tuple[int, ...]
    slots: int
    row: str
    label: str

    def value(self, cell: ast.Expr) -> ast.Element:
        return ast.Element(self.name if self.place.level == 0 else f"{self.name}_value", (cell,))

    def partial(self, cell: ast.Expr) -> ast.Element:
        return ast.Element(f"{self.name}_partial", (cell,))

    def key(self, cell: ast.Expr) -> ast.Element:
        return ast.Element(f"{self.name}_key", (cell,))

    def array(self, suffix: str, index: ast.Expr) -> ast.Element:
        return ast.Element(f"{self.name}_{suffix}", (index,))

    @property
    def now(self) -> ast.Name:
        return ast.Name(f"{self.name}_now")

    @property
    def cells(self) -> int:
        return self.place.instances * self.slots


@dataclass(frozen=True, slots=True)
class Layout:
    """All buffers of a nest, and properties of its tensors."""

    nest: Nest
    frame: Frame
    buffers: tuple[Buffer, ...]
    types: dict[str, ElementType]

    def parent(self, buffer: Buffer) -> Buffer:
        parent = buffer.place.parent
        assert parent is not None
        return self.buffers[parent]

    def is_written(self, tensor: str) -> bool:
        return tensor in ir.written_tensors(self.nest.workload)

    def starts_at_zero(self, tensor: str) -> bool:
        """Return whether the program may accumulate onto elements that have no value yet."""
        workload = self.nest.workload
        if workload.original is not None or workload.tensor(tensor).initial:
            return False  # a C text sets what has no value before it adds to it
        targets = (each for each in workload.statements if each.target.tensor == tensor)
        return any(each.operator is not ir.Operator.ASSIGN for each in targets)


def operator_of_sums(buffer: Buffer) -> ir.Operator:
    """Return the operator that accumulates into a place of partial sums."""
    assert buffer.rule is ir.PlaceRule.SUMS, "only partial sums begin at a neutral element"
    targets = (use.statement for use in buffer.place.uses if use.statement.target.tensor == buffer.place.tensor)
    return next(targets).operator


def neutral(kind: ElementType, operator: ir.Operator) -> ast.Expr:
    """Return the neutral element of an accumulation."""
    if operator in _NEUTRAL:
        return ast.Int(_NEUTRAL[operator])
    if kind.is_float:
        return ast.Name("-INFINITY" if operator is ir.Operator.MAX else "INFINITY")
    if kind.is_unsigned and operator is ir.Operator.MAX:
        return ast.Int(0)
    bits = kind.c_type.removesuffix("_t").upper()
    return ast.Name(f"{bits}_{'MIN' if operator is ir.Operator.MAX else 'MAX'}")


def combine(kind: ElementType, operator: ir.Operator, left: ast.Expr, right: ast.Expr) -> ast.Expr:
    """Return the accumulation of two values onto an element of this type."""
    if operator not in _NEUTRAL:
        extreme = "MAX" if operator is ir.Operator.MAX else "MIN"
        return ast.Invoke(f"F{extreme}" if kind.is_float and kind.sum_type else extreme, (left, right))
    symbol = "+" if operator is ir.Operator.ADD else "*"
    if not kind.wraps:
        whole = ast.Binary(symbol, left, right)
        return ast.Invoke(f"({kind.c_type})", (whole,)) if kind.is_narrowed else whole
    # Unsigned integers wrap by definition, whatever the order; conversion to signed ones does in every compiler.
    unsigned = "(uint64_t)" if kind.c_type.endswith("64_t") else "(uint32_t)"
    whole = ast.Binary(symbol, ast.Invoke(unsigned, (left,)), ast.Invoke(unsigned, (right,)))
    return ast.Invoke(f"({kind.c_type})", (whole,))


def counter(what: str, buffer: Buffer) -> str:
    """Return the name of a counter: what is reads, writes, fills or drains."""
    return f"{what}_{buffer.row}"


def layout_of(nest: Nest) -> Layout:
    """Return the buffers of a nest.

    Raises BudgetError if an array or an index would be too large for the generated program.
    """
    workload = nest.workload
    check_indices(workload)
    check_sums(workload)
    names = {dim.name: f"d{i}" for i, dim in enumerate(workload.dims)}
    buffers = tuple(_buffer(nest, place) for place in nest.places)
    frame = Frame(names, workload.extents())
    return Layout(nest, frame, buffers, element_types(workload))


def check_memory(total_bytes: int) -> None:
    """Raise BudgetError (PM601) for more bytes of arrays than a generated program may have of its own."""
    if total_bytes > _LARGEST_PROGRAM_BYTES:
        what = f"the program would need {total_bytes} bytes of memory, more than {_LARGEST_PROGRAM_BYTES}"
        raise ir.BudgetError(ir.Mistake("PM601", what, "Generate code for a smaller layer, or count with evaluate()."))


def check_indices(workload: ir.Workload) -> None:
    """Raise BudgetError for an index that does not fit 32 bits, in which generated code computes indices."""
    extents = workload.extents()
    largest = max([*extents.values(), *(form.magnitude(extents) for form in forms_of(workload))], default=0)
    if largest > LARGEST_INDEX:
        what = f"an index of the program would reach {largest}, more than {LARGEST_INDEX}"
        raise ir.BudgetError(ir.Mistake("PM601", what, "Generate code for a smaller layer, or count with evaluate()."))


def forms_of(workload: ir.Workload) -> Iterator[ir.Affine]:
    """Yield every form of dims that the program computes: subscripts, constraints, values."""
    for statement in workload.statements:
        for access in (statement.target, *statement.reads):
            yield from access.index
        yield from statement.constraints
        yield from (each.value for each in ir.subexpressions(statement.expression) if isinstance(each, ir.Index))


def _buffer(nest: Nest, place: StoragePoint) -> Buffer:
    tensor = nest.workload.tensor(place.tensor)
    number = [t.name for t in nest.workload.tensors].index(place.tensor)
    level = nest.arch.levels[place.level].name
    modulus = moduli(place, tensor)
    tensor_name = c_name(f"T{number}", tensor.name)
    level_name = c_name(f"L{place.level}", level)
    row = f"{level_name}_{tensor_name}"
    name = tensor_name if place.level == 0 else f"N{place.number}_{tensor_name}"
    rule = ir.rule_of(nest.workload, tensor.name, (use.statement for use in place.uses))
    buffer = Buffer(place, rule, name, modulus, prod(modulus), row, f"{level_name} {tensor_name}")
    if buffer.cells > LARGEST_INDEX:
        what = f"the program would need {buffer.cells} cells for {tensor.name} in '{level}', more than {LARGEST_INDEX}"
        raise ir.BudgetError(ir.Mistake("PM601", what, "Generate code for a smaller layer, or count with evaluate()."))
    return buffer


def axis_values(layout: Layout, access: ir.Access, values: Values, prefix: str = "x") -> list[ast.Declare]:
    """Return the declarations of x0, x1, ... (or another prefix): the element's index along every axis, from zero."""
    tensor = layout.nest.workload.tensor(access.tensor)
    found: list[ast.Declare] = []
    for axis, form in enumerate(access.index):
        value = affine_expr(form - tensor.origin[axis], values)
        found.append(ast.Declare("const int", f"{prefix}{axis}", value))
    return found


def element_number(shape: tuple[int, ...]) -> ast.Expr:
    """Return the number of the element (x0, x1, ...) in row-major order."""
    stride = prod(shape)
    terms: list[ast.Expr] = []
    for axis, size in enumerate(shape):
        stride //= size
        terms.append(ast.multiply(ast.Name(f"x{axis}"), stride))
    return ast.total(terms)


def slot_of(buffer: Buffer, tensor: ir.Tensor, prefix: str = "x") -> ast.Expr:
    """Return the slot of the element (x0, x1, ...) in a buffer."""
    terms: list[ast.Expr] = []
    stride = buffer.slots
    for axis, size in enumerate(buffer.modulus):
        stride //= size
        index: ast.Expr = ast.Name(f"{prefix}{axis}")
        terms.append(ast.multiply(index if size >= tensor.shape[axis] > 1 else ast.modulo(index, size), stride))
    return ast.total(terms)


def cell_of(buffer: Buffer, instance: ast.Expr, slot: ast.Expr) -> ast.Expr:
    """Return the cell of a slot of an instance."""
    return slot if buffer.place.instances == 1 else ast.add(ast.multiply(instance, buffer.slots), slot)


def buffer_arrays(layout: Layout, buffer: Buffer) -> list[ast.Array]:
    """Return the arrays of a buffer."""
    place, kind = buffer.place, layout.types[buffer.place.tensor].c_type
    is_written = buffer.rule is not ir.PlaceRule.READ_ONLY
    level = c_name(f"L{place.level}", layout.nest.arch.levels[place.level].name)
    if place.level == 0:
        arrays = [ast.Array(kind, buffer.name, (max(1, buffer.slots),), f"in {level}")]
        return arrays + ([ast.Array("uint8_t", f"{buffer.name}_partial", (buffer.slots,))] if is_written else [])
    remark = f"in {level}: {place.instances} instance{'s' * (place.instances > 1)} of {buffer.slots}"
    arrays = [
        ast.Array(kind, f"{buffer.name}_value", (buffer.cells,), remark),
        ast.Array("uint64_t", f"{buffer.name}_key", (buffer.cells,)),
        ast.Array("uint32_t", f"{buffer.name}_epoch", (place.instances,)),
        ast.Array("uint32_t", f"{buffer.name}_now", ()),
    ]
    if is_written:
        arrays += [
            ast.Array("uint8_t", f"{buffer.name}_partial", (buffer.cells,)),
            ast.Array("int32_t", f"{buffer.name}_held", (buffer.cells,)),
            ast.Array("int32_t", f"{buffer.name}_from", (buffer.cells,)),
            ast.Array("int32_t", f"{buffer.name}_count", (place.instances,)),
        ]
    return arrays


def moduli(place: StoragePoint, tensor: ir.Tensor) -> tuple[int, ...]:
    """Return the modulus of every axis, at most the axis' own length (then it is the index itself)."""
    if place.level == 0:
        return tensor.shape
    accesses = place.accesses()
    return tuple(min(length, _modulus(place, accesses, axis, length)) for axis, length in enumerate(tensor.shape))


def _modulus(place: StoragePoint, accesses: tuple[tuple[Use, ir.Access], ...], axis: int, length: int) -> int:
    forms = [(use, access.index[axis]) for use, access in accesses]
    if not forms:
        return 1
    if any(not form.is_linear for _, form in forms):
        return length
    if any(form.coefficients() != forms[0][1].coefficients() for _, form in forms):
        return length
    values: set[int] = set()
    for use, form in forms:
        reached = _free_values(place, use, form, 4 * length)
        if reached is None:
            return length
        values |= reached
    return _smallest_modulus(values, length)


def _free_values(place: StoragePoint, use: Use, form: ir.Affine, limit: int) -> set[int] | None:
    """Return the offsets that the free loops reach along one axis (a superset at ragged ends), None if too many."""
    values = {form.constant}
    for dim, coefficient in form.coefficients().items():
        for loop in use.digits(dim):
            if loop.name in place.fixed:
                continue
            values = {v + coefficient * loop.tile * i for v in values for i in range(loop.trips)}
            if len(values) > limit:
                return None
    return values


def _smallest_modulus(values: set[int], length: int) -> int:
    low, high = min(values), max(values)
    hull = high - low + 1
    if hull == len(values) or hull > TUNING.window_search:
        return min(hull, length)
    ordered = sorted(values)
    for candidate in range(len(values), hull):
        if len({value % candidate for value in ordered}) == len(ordered):
            return min(candidate, length)
    return min(hull, length)
