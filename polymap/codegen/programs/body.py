"""The C code of one statement instance: its reads, its value in C's types, and its write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from polymap import ir
from polymap.codegen import lower
from polymap.codegen.native import neutral_value, operand_types
from polymap.codegen.programs.flags import adds_integers
from polymap.codegen.programs.roundings import rounded_products
from polymap.codegen.programs.storage import Storage
from polymap.codegen.programs.subscripts import element, hidden_step, shared_product
from polymap.codegen.source import Contraction, Update
from polymap.workload.c import common, type_of

FLOATS = ("float", "double")
_COMPARISON = re.compile(r"([tv])([<>]=?)([tv])\?([tv]):([tv])")


def dim_constants(workload: ir.Workload) -> dict[str, str]:
    """Return dim -> the C name of its counter in a statement's body."""
    return {name: f"d{number}" for number, name in enumerate(workload.extents())}


def used_dims(workload: ir.Workload, storage: Storage, statement: ir.Statement) -> tuple[str, ...]:
    """Return the dims whose values occur in a statement's body."""
    indices: list[ir.Affine] = [
        storage.forms[each.tensor].position(each) for each in (statement.target, *statement.reads)
    ]
    indices += (each.value for each in ir.subexpressions(statement.expression) if isinstance(each, ir.Index))
    named = {dim for index in indices for dim in index.dims}
    return tuple(dim for dim in statement.dims if dim in named)


def instance(
    workload: ir.Workload,
    storage: Storage,
    statement: ir.Statement,
    calls: Sequence[str] = (),
    inner: str = "",
    *,
    fma: bool = False,
) -> lower.Stmt:
    """Return one instance of a statement, inside constants for the counters of its dims. calls: of macros that prevent
    vectorization. inner: the dim of its innermost loop. fma: products need not be rounded."""
    names = dim_constants(workload)
    values: dict[str, lower.Expr] = {dim: lower.Name(names[dim]) for dim in statement.dims}
    kinds = operand_types(statement, storage.forms)
    body: list[lower.Stmt] = []
    used = {each.access for each in ir.subexpressions(statement.expression) if isinstance(each, ir.Read)}
    for number, (access, kind) in enumerate(zip(statement.reads, kinds, strict=True)):
        if number in used:
            body += _read_constants(workload, storage, access, values, (kind, number, inner))
    expression, zeros = (statement.expression, ()) if fma else rounded_products(workload, statement)
    operands = tuple(lower.Name(each) for each in (*(f"a{number}" for number in range(len(statement.reads))), *zeros))
    value = lower.c_expression(expression, operands, values)
    place = element(storage, statement.target, values)
    if statement.operator is ir.Operator.ASSIGN:
        is_rounded = storage.forms[statement.target.tensor].c_type == "float" and _is_double(workload, expression)
        body.append(lower.Copy(place, lower.Invoke("(float)", (value,)) if is_rounded else value))
    elif statement.comparison:
        body += _extreme_of_comparison(storage, statement, place, value)
    else:
        kind = _sum_type(workload, storage, statement)
        whole = lower.combine(kind, statement.operator, place, value)
        if adds_integers(workload, statement):  # plainly, as compilers know dot products of integers
            types = [workload.tensor(each.tensor).element_type or "" for each in (statement.target, *statement.reads)]
            own = (types[0], type_of(statement.expression, types[1:]))
            shared = common(*own)  # conversions to it change signs: written out, compilers do not warn of them
            sides = (
                lower.Invoke(f"({shared}_t)", (side,)) if shared.startswith("u") and one != shared else side
                for one, side in zip(own, (place, value), strict=True)
            )
            plain = lower.combine(replace(kind, wraps=False), statement.operator, *sides)
            whole = plain if kind.is_narrowed else lower.Invoke(f"({kind.c_type})", (plain,))
        body.append(lower.Copy(place, whole))
    body += [lower.Run(each, ()) for each in calls]
    return lower.Scope(tuple(body))


def _is_double(workload: ir.Workload, expression: ir.Expression) -> bool:
    """Return whether C computes a value in double by numbers or functions; texts of C convert what they store."""
    parts = () if workload.original is not None else ir.subexpressions(expression)
    return any(
        (isinstance(each, ir.Number) and not each.text.isdigit() and not each.text.endswith("f"))
        or (isinstance(each, ir.Apply) and each.operation.isalnum() and each.operation not in ("neg", "max", "min"))
        for each in parts
    )


def update_of(workload: ir.Workload, storage: Storage, found: Contraction) -> Update:
    """Return the assignment of a contraction, in the variables of its body."""
    statement = next(each for each in workload.statements if each.name == found.statement)
    names = dim_constants(workload)
    values: dict[str, lower.Expr] = {dim: lower.Name(names[dim]) for dim in statement.dims}
    target = element(storage, statement.target, values)
    operands = tuple(element(storage, each, values) for each in statement.reads)
    value = lower.Binary("+", target, lower.c_expression(statement.expression, operands, values))
    places = tuple(statement.dims.index(dim) for dim in found.dims)
    kind = storage.forms[statement.target.tensor].c_type
    return Update(target, value, kind, places, tuple(names[dim] for dim in found.dims))


def _extreme_of_comparison(
    storage: Storage, statement: ir.Statement, place: lower.Expr, value: lower.Expr
) -> lower.Block:
    """Return a maximum or minimum written with the comparison of the C text."""
    kind = storage.forms[statement.target.tensor].c_type
    found = _COMPARISON.fullmatch(statement.comparison)
    assert found is not None
    left, symbol, right, then, other = found.groups()
    values = {"t": lower.Name("before"), "v": lower.Name("value")}
    chosen = lower.Choice(lower.Binary(symbol, values[left], values[right]), values[then], values[other])
    return (
        lower.Declare(f"const {kind}", "before", place),
        lower.Declare(f"const {kind}", "value", value),
        lower.Copy(place, chosen),
    )


def _sum_type(workload: ir.Workload, storage: Storage, statement: ir.Statement) -> lower.ElementType:
    name = statement.target.tensor
    if workload.original is not None:
        return lower.element_types(workload)[name]
    kind = storage.forms[name].c_type
    return lower.ElementType(kind, 0, 0, "" if kind in FLOATS else kind, wraps=kind not in FLOATS)


def _read_constants(
    workload: ir.Workload, storage: Storage, access: ir.Access, values: dict[str, lower.Expr], how: tuple[str, int, str]
) -> Iterator[lower.Stmt]:
    """Yield the constants of one read. how: its type, its number, and the dim of the innermost loop."""
    kind, number, inner = how
    products = hidden_step(storage, access, values, inner)
    shared = None if products else shared_product(workload, storage, access, values)
    if shared:
        yield lower.Declare("const long", f"row{number}", shared[1])
        products[shared[0]] = lower.Name(f"row{number}")
    place = element(storage, access, values, products)
    is_short = storage.forms[access.tensor].kind == "bfloat16"
    yield lower.Declare(f"const {kind}", f"a{number}", lower.Invoke("bfloat16_value", (place,)) if is_short else place)


def fill_loop(storage: Storage, tensor: str, operator: ir.Operator | None) -> lower.Block:
    """Return the loop that sets a tensor to the neutral element of its accumulation, or to zero."""
    form = storage.forms[tensor]
    value = lower.Int(0) if operator is None else neutral_value(operator, form.c_type)
    if storage.is_variable(tensor):
        return (lower.Assign(lower.Name(form.parameter), "=", value),)
    element = lower.Element(form.parameter, (lower.Name("at"),))
    return (lower.For("at", lower.Int(0), lower.Int(form.elements), (lower.Assign(element, "=", value),), type="long"),)
