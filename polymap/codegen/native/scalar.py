"""The nest as plain C loops in the order of its tree, for trees and workloads that are not printed with vectors."""

from __future__ import annotations

from collections.abc import Mapping as Table

from polymap import ir
from polymap.codegen import lower
from polymap.codegen.native.arrays import ArrayForm
from polymap.codegen.native.tuning import TUNING
from polymap.schedules import LoopInTree, view_of

_FLOATS = ("float", "double")
_REDUCTIONS = {ir.Operator.ADD: "+", ir.Operator.MULTIPLY: "*", ir.Operator.MAX: "max", ir.Operator.MIN: "min"}


def scalar_function(
    workload: ir.Workload, arch: ir.Architecture, mapping: ir.Mapping, arrays: tuple[ArrayForm, ...], threads: int
) -> lower.Block:
    """Return the body of a function that computes a workload of one statement without vectors.

    Raises WorkloadError (PM622) for programs of several statements, regions of C, and sums of bfloat16.
    """
    if len(workload.statements) != 1 or workload.original is not None:
        what = f"workload {workload.name!r} is a program or a region of C, of which no function is printed yet"
        raise ir.WorkloadError(ir.Mistake("PM622", what, "Compile a workload of one einsum, or run it with pm.run_c."))
    statement = workload.statements[0]
    forms = {form.tensor: form for form in arrays}
    target = forms[statement.target.tensor]
    if target.kind == "bfloat16":
        what = f"tensor {target.tensor} accumulates bfloat16, which rounds every sum"
        raise ir.WorkloadError(
            ir.Mistake("PM622", what, f'Give the workload types={{"{target.tensor}": "float32", ...}}.')
        )
    loops = view_of(workload.extents(), mapping).computes[0].loops
    kinds = {fanout.name: fanout.kind for fanout in arch.fanouts}
    cores = [
        loop for loop in loops if isinstance(loop.node, ir.Spatial) and kinds[loop.node.fanout] is ir.FanoutKind.CORE
    ]
    parallel = next((loop for loop in cores if threads > 1 and _is_disjoint(statement, loop.node.dim)), None)
    names = {dim: f"d{number}" for number, dim in enumerate(workload.extents())}
    at = {dim: f"{name}_{_depth(loops, dim)}" for dim, name in names.items()}
    values: dict[str, lower.Expr] = {d: lower.Name(at[d]) if _depth(loops, d) else lower.Int(0) for d in names}
    place = lower.Element(target.parameter, (_position(target, statement.target, values),))
    first = _summed_from(workload, statement, target, loops, parallel)
    held = first < len(loops)
    body = _instance(workload, statement, forms, values, lower.Name("sum") if held else place)
    for number in reversed(range(len(loops))):
        is_long = first <= number == len(loops) - 1 and loops[number].trips >= TUNING.terms_in_lanes
        pragma = _pragma(workload, statement, threads if loops[number] is parallel else 0, is_long=is_long)
        body = (_loop(loops, number, names, body, pragma, workload.extents()),)
        if number == first:
            body = (lower.Declare(target.c_type, "sum", place), *body, lower.Copy(place, lower.Name("sum")))
    return (*_neutral(workload, statement, target), *body)


def _pragma(workload: ir.Workload, statement: ir.Statement, threads: int, *, is_long: bool) -> str:
    """Return what compilers are told of a loop: iterations over cores, or parts of a long sum in lanes."""
    if threads:
        return f"#pragma omp parallel for schedule(static) num_threads({threads})"
    symbol = _REDUCTIONS.get(statement.operator, "")
    return f"#pragma omp simd reduction({symbol}:sum)" if symbol and is_long and workload.associative else ""


def _summed_from(
    workload: ir.Workload,
    statement: ir.Statement,
    target: ArrayForm,
    loops: tuple[LoopInTree, ...],
    parallel: LoopInTree | None,
) -> int:
    """Return the number of the first of the innermost loops that all continue one element, which a variable holds."""
    axes = [target.axis(statement.target, axis) for axis in range(len(target.sizes))]
    ends = [ir.bounds(axis, workload.extents()) for axis in axes]
    inside = all(low >= 0 and high < size for (low, high), size in zip(ends, target.sizes, strict=True))
    reads = {access.tensor for access in statement.reads}
    if not inside or statement.operator is ir.Operator.ASSIGN or target.tensor in reads:
        return len(loops)
    own = {dim for axis in axes for dim in axis.dims}
    first = len(loops)
    while first and loops[first - 1].node.dim not in own and loops[first - 1] is not parallel:
        first -= 1
    return first


def _depth(loops: tuple[LoopInTree, ...], dim: str) -> int:
    return sum(loop.node.dim == dim for loop in loops)


def _loop(
    loops: tuple[LoopInTree, ...],
    number: int,
    names: dict[str, str],
    body: lower.Block,
    pragma: str,
    extents: dict[str, int],
) -> lower.For:
    """Return a loop of the tree: it steps by its tile through the tile around it, cut to the extent."""
    loop = loops[number]
    own = names[loop.node.dim]
    above = [other for other in loops[:number] if other.node.dim == loop.node.dim]
    stop: lower.Expr = lower.Int(extents[loop.node.dim])
    for depth, other in enumerate(above, start=1):
        stop = lower.minimum(stop, lower.add(lower.Name(f"{own}_{depth}"), lower.Int(other.tile)))
    start: lower.Expr = lower.Name(f"{own}_{len(above)}") if above else lower.Int(0)
    return lower.For(f"{own}_{len(above) + 1}", start, stop, body, pragma, step=loop.tile)


def _is_disjoint(statement: ir.Statement, dim: str) -> bool:
    """Return whether iterations over a dim write different elements: an axis of the target is the dim alone."""
    return any(index.dims == (dim,) and index.is_linear for index in statement.target.index)


def _neutral(workload: ir.Workload, statement: ir.Statement, target: ArrayForm) -> lower.Block:
    """Return the loop that sets every element to the neutral one, where the statement accumulates onto new ones."""
    if statement.operator is ir.Operator.ASSIGN or workload.tensor(statement.target.tensor).initial:
        return ()
    value = neutral_value(statement.operator, target.c_type)
    element = lower.Element(target.parameter, (lower.Name("at"),))
    return (
        lower.For("at", lower.Int(0), lower.Int(target.elements), (lower.Assign(element, "=", value),), type="long"),
    )


def neutral_value(operator: ir.Operator, c_type: str) -> lower.Expr:
    """Return the value that an accumulation in a C type begins with."""
    if operator in (ir.Operator.ADD, ir.Operator.MULTIPLY):
        return lower.Int(int(operator is ir.Operator.MULTIPLY))
    largest = operator is ir.Operator.MAX
    if c_type in _FLOATS:
        return lower.Name("-HUGE_VAL" if largest else "HUGE_VAL")
    if c_type.startswith("u") and largest:
        return lower.Int(0)
    return lower.Name(f"{c_type.removesuffix('_t').upper()}_{'MIN' if largest else 'MAX'}")


def _instance(
    workload: ir.Workload,
    statement: ir.Statement,
    forms: dict[str, ArrayForm],
    values: dict[str, lower.Expr],
    place: lower.Element | lower.Name,
) -> lower.Block:
    """Return one statement instance that writes to a place, where it is one."""
    extents = workload.extents()
    target = forms[statement.target.tensor]
    body: list[lower.Stmt] = []
    for number, (access, kind) in enumerate(zip(statement.reads, operand_types(statement, forms), strict=True)):
        body.append(_operand(forms[access.tensor], access, number, kind, values, extents))
    operands = tuple(lower.Name(f"a{number}") for number in range(len(statement.reads)))
    value = lower.c_expression(statement.expression, operands, values)
    body.append(_write(statement.operator, target.c_type, place, value))
    conditions = [form for form in statement.constraints if ir.bounds(form, extents)[0] < 0]
    if not conditions:
        return tuple(body)
    return (lower.If(_all([_not_negative(form, values) for form in conditions]), tuple(body)),)


def _operand(
    form: ArrayForm, access: ir.Access, number: int, kind: str, values: dict[str, lower.Expr], extents: dict[str, int]
) -> lower.Declare:
    """Return the value that is read in a C type, 0 on padding."""
    element: lower.Expr = lower.Element(form.parameter, (_position(form, access, values),))
    element = lower.Invoke("bfloat16_value", (element,)) if form.kind == "bfloat16" else element
    inside: list[lower.Expr] = []
    for axis, size in enumerate(form.sizes):
        index = form.axis(access, axis)
        low, high = ir.bounds(index, extents)
        inside += [_not_negative(index, values)] if low < 0 else []
        inside += [_not_negative(-index + (size - 1), values)] if high >= size else []
    value = lower.Choice(_all(inside), element, lower.Int(0)) if inside else element
    return lower.Declare(f"const {kind}", f"a{number}", value)


def operand_types(statement: ir.Statement, forms: Table[str, ArrayForm]) -> tuple[str, ...]:
    """Return the C types in which a statement's reads are computed with."""
    accesses = (statement.target, *statement.reads)
    return lower.registers_of(statement, {each.tensor: forms[each.tensor].value_type for each in accesses}).operands


def _position(form: ArrayForm, access: ir.Access, values: dict[str, lower.Expr]) -> lower.Expr:
    terms = [
        lower.multiply(lower.Invoke("(long)", (lower.affine_expr(form.axis(access, axis), values),)), stride)
        for axis, stride in enumerate(form.strides)
    ]
    return lower.total(terms)


def _not_negative(form: ir.Affine, values: dict[str, lower.Expr]) -> lower.Expr:
    return lower.Binary(">=", lower.affine_expr(form, values), lower.Int(0))


def _all(conditions: list[lower.Expr]) -> lower.Expr:
    result = conditions[0]
    for condition in conditions[1:]:
        result = lower.Binary("&&", result, condition)
    return result


def _write(operator: ir.Operator, c_type: str, place: lower.Element | lower.Name, value: lower.Expr) -> lower.Stmt:
    match operator:
        case ir.Operator.ASSIGN:
            return lower.Copy(place, value)
        case ir.Operator.ADD | ir.Operator.MULTIPLY:
            symbol = "+" if operator is ir.Operator.ADD else "*"
            return lower.Copy(place, lower.Invoke(f"({c_type})", (lower.Binary(symbol, place, value),)))
        case ir.Operator.MAX | ir.Operator.MIN:
            chosen = "MAX" if operator is ir.Operator.MAX else "MIN"
            # The value first: what is no number is neither larger nor smaller, and loses, as with fmax and fmin.
            return lower.Copy(place, lower.Invoke(chosen, (lower.Invoke(f"({c_type})", (value,)), place)))
