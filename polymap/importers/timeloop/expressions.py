"""Expressions over variables in Timeloop's files, such as `DATAWIDTH * 2`, as far as they are arithmetic."""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from polymap.importers.timeloop.yaml_tables import Value
from polymap.importers.tuning import TUNING
from polymap.inputs import LIMITS
from polymap.ir import InputError, Mistake

Number = int | float
_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_FUNCTIONS: dict[str, Any] = {
    "min": min, "max": max, "ceil": math.ceil, "floor": math.floor, "int": int, "round": round, "abs": abs,
    "log2": math.log2, "sqrt": math.sqrt,
}  # fmt: skip


def value_of(text: str, names: Mapping[str, object]) -> Number | None:
    """Return the number that an expression has, a whole one as an integer; None where it is none that is read: other
    operators and functions, names that are not among `names` or no numbers there, numbers beyond 10^100."""
    tree = tree_of(text)
    try:
        found = None if tree is None else _value(tree, names)
        return int(found) if isinstance(found, float) and found.is_integer() else found
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        return None


def tree_of(text: str) -> ast.expr | None:
    """Return a text as an expression of Python; None where it is none, or too long."""
    if len(text) > TUNING.expression_characters:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of texts that are no expressions
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def resolved(fields: dict[str, Value], names: dict[str, object]) -> dict[str, Value]:
    """Return fields with numbers for the expressions over `names` and the fields before them, which are added there."""
    found: dict[str, Value] = {}
    for name, value in fields.items():
        number = value_of(value.plain, names) if isinstance(value.plain, str) else None
        found[name] = value if number is None else Value(number, value.place)
        names[name] = found[name].plain
    return found


def check_numbers(fields: dict[str, Value], what: Callable[[str], str]) -> None:
    """Raise InputError for fields that are still names after `resolved`, with how to give them. what: a name, told."""
    mistakes: list[Mistake] = []
    for name, value in fields.items():
        if isinstance(value.plain, str) and value.plain.isidentifier():
            hint = f"Expected a number, one of the files' variables, or of values={{{value.told()}: ...}}."
            mistakes += value.refuse(f"{what(name)} is {value.told()}", hint).mistakes
    if mistakes:
        raise InputError(mistakes)


def _value(node: ast.expr, names: Mapping[str, object]) -> Number:
    found: object = None
    match node:
        case ast.Constant(value=found):
            pass
        case ast.Name(id=name):
            found = names.get(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            found = -_value(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            found = _BINARY[type(op)](_value(left, names), _value(right, names))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            found = _FUNCTIONS[name](*(_value(each, names) for each in args))
        case _:
            pass
    if isinstance(found, bool) or not isinstance(found, int | float) or not abs(found) <= LIMITS.integer:
        raise ValueError("no number")
    return found
