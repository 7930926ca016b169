"""The right side of a statement as a C expression."""

from __future__ import annotations

from typing import assert_never

from polymap.codegen.ast import Binary, Choice, Expr, Int, Invoke, Name
from polymap.codegen.elements import ElementType
from polymap.codegen.tiles import Values, affine_expr
from polymap.workload.loopnest import Apply, Expression, Index, Number, Read

_BINARY = ("+", "-", "*", "/", "<", "<=", "==", "!=", "&&", "||")


def c_expression(expression: Expression, operands: tuple[Expr, ...], values: Values, kind: ElementType) -> Expr:
    """Return the C expression of a value that is stored as `kind`.

    operands: the values of the statement's reads; values: C expressions of its dims.
    """
    match expression:
        case Read(number):
            return operands[number]
        case Number(text):
            return Name(text)
        case Index(form):
            return Invoke("(int64_t)", (affine_expr(form, values),))
        case Apply(operation, arguments):
            parts = tuple(c_expression(argument, operands, values, kind) for argument in arguments)
            return _apply(operation, parts, kind)
    assert_never(expression)


def _apply(operation: str, parts: tuple[Expr, ...], kind: ElementType) -> Expr:
    if operation in _BINARY:
        return Binary(operation, *parts)
    if operation == "neg":
        return Binary("-", Int(0), parts[0])
    if operation == "?:":
        return Choice(*parts)
    if operation == "!":
        return Invoke("!", parts)
    if operation in ("max", "min"):
        return Invoke(operation.upper(), parts)
    if operation == "abs":
        return Invoke("fabs" if kind.is_float else "llabs", parts)
    return Invoke(operation, parts)
