"""Small rewrites of lowered code: names in use, removal of unused constants."""

from __future__ import annotations

import re
from typing import assert_never

from polymap.codegen.lower.ast import (
    Assign,
    Binary,
    Block,
    Choice,
    Copy,
    Count,
    Declare,
    Element,
    Expr,
    For,
    Function,
    If,
    Int,
    Invoke,
    LocalArray,
    Name,
    Remark,
    Run,
    Scope,
    Stmt,
    Verbatim,
    fold_operation,
)

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
        case For(name, start, stop, body, pragma):
            return For(name, swap(start), swap(stop), _inline(body, known), pragma)
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
    match value:
        case Int():
            return value
        case Name(text):
            return known.get(text, value)
        case Binary(symbol, left, right):
            return fold_operation(symbol, _replace_names(left, known), _replace_names(right, known))
        case Element(array, index):
            return Element(array, tuple(_replace_names(i, known) for i in index))
        case Invoke(called, arguments):
            return Invoke(called, tuple(_replace_names(argument, known) for argument in arguments))
        case Choice(condition, yes, no):
            return Choice(_replace_names(condition, known), _replace_names(yes, known), _replace_names(no, known))
    assert_never(value)


def function(name: str, clock: tuple[str, ...], body: Block, remark: str = "") -> tuple[Function, Run]:
    """Return a function of the clock indices that its body uses, and its call."""
    body = prune(inline_constants(body))
    used = names_in(body)
    parameters = tuple(index for index in clock if index in used)
    return Function(name, parameters, body, remark), Run(name, tuple(Name(index) for index in parameters))


def _pruned_inside(statement: Stmt) -> Stmt:
    if isinstance(statement, For):
        return For(statement.name, statement.start, statement.stop, prune(statement.body), statement.pragma)
    if isinstance(statement, If):
        return If(statement.condition, prune(statement.body), prune(statement.otherwise))
    if isinstance(statement, Scope):
        return Scope(prune(statement.body))
    return statement


def _statement_names(statement: Stmt) -> frozenset[str]:
    match statement:
        case Declare(_, _, value):
            return _names(value)
        case Assign(target, _, value) | Copy(target, value):
            return _names(target) | _names(value)
        case For(name, start, stop, body):
            return _names(start) | _names(stop) | (names_in(body) - {name})
        case If(condition, body, otherwise):
            return _names(condition) | names_in(body) | names_in(otherwise)
        case Run(_, arguments):
            return frozenset(name for argument in arguments for name in _names(argument))
        case Count(counter):
            return frozenset(_IDENTIFIER.findall(counter))
        case Verbatim(lines):
            return frozenset(name for line in lines for name in _IDENTIFIER.findall(line))
        case Scope(body):
            return names_in(body)
        case Remark() | LocalArray():
            return frozenset()
    assert_never(statement)


def _names(value: Expr) -> frozenset[str]:
    match value:
        case Int():
            return frozenset()
        case Name(text):
            return frozenset(_IDENTIFIER.findall(text))
        case Binary(_, left, right):
            return _names(left) | _names(right)
        case Element(array, index):
            return frozenset((array, *(name for i in index for name in _names(i))))
        case Invoke(_, arguments):
            return frozenset(name for argument in arguments for name in _names(argument))
        case Choice(condition, yes, no):
            return _names(condition) | _names(yes) | _names(no)
    assert_never(value)
