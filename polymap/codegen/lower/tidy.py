"""Small rewrites of lowered code: names in use, removal of unused constants."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import assert_never

from polymap.codegen.lower.ast import (
    Assign,
    Binary,
    Block,
    Copy,
    Count,
    Declare,
    Expr,
    For,
    Function,
    If,
    Int,
    LocalArray,
    Name,
    Remark,
    Run,
    Scope,
    Stmt,
    Verbatim,
    fold_operation,
    with_parts,
)
from polymap.codegen.lower.printer import expression

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def names_in(block: Block) -> frozenset[str]:
    """Return the identifiers in the expressions of the block, except the variables of its own loops."""
    return frozenset(name for statement in block for name in _statement_names(statement))


def prune(block: Block) -> Block:
    """Return the block without constants that are not used after their declaration."""
    kept: list[Stmt] = []
    used: set[str] = set()
    for statement in reversed(block):
        inner = _pruned_inside(statement)
        if isinstance(inner, Declare) and inner.name not in used:
            continue
        if isinstance(inner, For) and not inner.body:
            continue
        if isinstance(inner, If) and not inner.body and not inner.otherwise:
            continue
        used |= _statement_names(inner)
        kept.append(inner)
    return tuple(reversed(kept))


def inline_constants(block: Block) -> Block:
    """Return the block with constants that equal a variable or a number replaced by it."""
    return _inline(block, {})


def _inline(block: Block, known: dict[str, Name | Int]) -> Block:
    known = dict(known)
    kept: list[Stmt] = []
    for statement in block:
        new = _substitute(statement, known)
        if isinstance(new, Declare) and new.type == "const int" and isinstance(new.value, Name | Int):
            known[new.name] = new.value
            continue
        if isinstance(new, Declare):
            known.pop(new.name, None)
        kept.append(new)
    return tuple(kept)


def _substitute(statement: Stmt, known: dict[str, Name | Int]) -> Stmt:
    def swap(value: Expr) -> Expr:
        return _replace_names(value, known)

    match statement:
        case Declare(kind, name, value):
            return Declare(kind, name, swap(value))
        case Assign(target, symbol, value):
            return Assign(swap(target), symbol, swap(value))
        case Copy(target, value):
            return Copy(swap(target), swap(value))
        case For(_, start, stop, body):
            return replace(statement, start=swap(start), stop=swap(stop), body=_inline(body, known))
        case If(condition, body, otherwise):
            return If(swap(condition), _inline(body, known), _inline(otherwise, known))
        case Run(called, arguments):
            return Run(called, tuple(swap(argument) for argument in arguments))
        case Scope(body):
            return Scope(_inline(body, known))
        case Verbatim(lines):
            values = {name: value.text if isinstance(value, Name) else value.value for name, value in known.items()}
            texts = {name: f"({value})" for name, value in values.items()}
            changed = (_IDENTIFIER.sub(lambda found: texts.get(found[0], found[0]), line) for line in lines)
            return Verbatim(tuple(changed))
        case Count() | Remark() | LocalArray():
            return statement
    assert_never(statement)


def _replace_names(value: Expr, known: dict[str, Name | Int]) -> Expr:
    if isinstance(value, Name):
        return known.get(value.text, value)
    found = with_parts(value, lambda part: _replace_names(part, known))
    return fold_operation(found.symbol, found.left, found.right) if isinstance(found, Binary) else found


def function(name: str, clock: tuple[str, ...], body: Block, remark: str = "") -> tuple[Function, Run]:
    """Return a function of the clock indices that its body uses, and its call."""
    body = prune(inline_constants(body))
    used = names_in(body)
    parameters = tuple(index for index in clock if index in used)
    return Function(name, parameters, body, remark), Run(name, tuple(Name(index) for index in parameters))


def _pruned_inside(statement: Stmt) -> Stmt:
    if isinstance(statement, If):
        return If(statement.condition, prune(statement.body), prune(statement.otherwise))
    return replace(statement, body=prune(statement.body)) if isinstance(statement, For | Scope) else statement


def _statement_names(statement: Stmt) -> frozenset[str]:
    match statement:
        case Declare(_, _, value):
            return identifiers(value)
        case Assign(target, _, value) | Copy(target, value):
            return identifiers(target) | identifiers(value)
        case For(name, start, stop, body):
            return identifiers(start) | identifiers(stop) | (names_in(body) - {name})
        case If(condition, body, otherwise):
            return identifiers(condition) | names_in(body) | names_in(otherwise)
        case Run(_, arguments):
            return frozenset(name for argument in arguments for name in identifiers(argument))
        case Count(counter):
            return frozenset(_IDENTIFIER.findall(counter))
        case Verbatim(lines):
            return frozenset(name for line in lines for name in _IDENTIFIER.findall(line))
        case Scope(body):
            return names_in(body)
        case Remark() | LocalArray():
            return frozenset()
    assert_never(statement)


def identifiers(value: Expr) -> frozenset[str]:
    """Return the identifiers in an expression, those of the functions that it calls among them."""
    return frozenset(_IDENTIFIER.findall(expression(value)))
