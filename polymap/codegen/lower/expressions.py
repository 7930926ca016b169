"""The right side of a statement as a C expression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from polymap.codegen.lower.ast import Binary, Choice, Expr, Int, Invoke, Name
from polymap.codegen.lower.elements import c_type_of
from polymap.codegen.lower.tiles import Values, affine_expr
from polymap.ir import Apply, Convert, Expression, Index, Number, Read, subexpressions

_BINARY = ("+", "-", "*", "/", "%", "<", "<=", "==", "!=", "&&", "||", "<<", ">>", "&", "|", "^")
_TRUTHS = ("<", "<=", "==", "!=", "&&", "||")


def c_expression(expression: Expression, operands: tuple[Expr, ...], values: Values) -> Expr:
    """Return the C expression of a value.

    operands: the values of the statement's reads; values: C expressions of its dims.
    """
    match expression:
        case Read(number):
            return operands[number]
        case Number(text):
            return Name(text)
        case Index(form):
            return Invoke("(int64_t)", (affine_expr(form, values),))
        case Convert(kind, Index(form)):
            return Invoke(f"({c_type_of(kind)})", (affine_expr(form, values),))
        case Convert(kind, value):
            inner = c_expression(value, operands, values)
            return Invoke(f"({c_type_of(kind)})", (inner,))
        case Apply(operation, arguments):
            parts = tuple(c_expression(argument, operands, values) for argument in arguments)
            return _apply(operation, parts)
    assert_never(expression)


def operations_of(expression: Expression) -> Iterator[str]:
    """Return the operations that occur in an expression."""
    return (each.operation for each in subexpressions(expression) if isinstance(each, Apply))


def _apply(operation: str, parts: tuple[Expr, ...]) -> Expr:
    if operation in ("&&", "||"):
        return Binary(operation, *(_truth(each) for each in parts))
    if operation in _BINARY:
        return Binary(operation, *parts)
    if operation == "neg":
        return Invoke("-", parts)
    if operation == "?:":
        return Choice(*parts)
    if operation == "!":
        return Binary("==", parts[0], Int(0))
    if operation in ("max", "min"):
        return Invoke(operation.upper(), parts)
    return Invoke(operation, parts)


def _truth(value: Expr) -> Expr:
    """Return a value that compilers take for a truth without a warning."""
    is_truth = isinstance(value, Binary) and value.symbol in _TRUTHS
    return value if is_truth else Binary("!=", value, Int(0))
