"""Small rewrites of lowered code: names in use, removal of unused constants."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import assert_never

from polymap.codegen.lower import ast
from polymap.codegen.lower.printer import expression

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def names_in(block: ast.Block) -> frozenset[str]:
    """Return the identifiers in the expressions of the block, except the variables of its own loops."""
    return frozenset(name for statement in block for name in _statement_names(statement))


def prune(block: ast.Block) -> ast.Block:
    """Return the block without constants that are not used after their declaration."""
    kept: list[ast.Stmt] = []
    used: set[str] = set()
    for statement in reversed(block):
        inner = _pruned_inside(statement)
        if isinstance(inner, ast.Declare) and inner.name not in used:
            continue
        if isinstance(inner, ast.For) and not inner.body:
            continue
        if isinstance(inner, ast.If) and not inner.body and not inner.otherwise:
            continue
        used |= _statement_names(inner)
        kept.append(inner)
    return tuple(reversed(kept))


def inline_constants(block: ast.Block) -> ast.Block:
    """Return the block with constants that equal a variable or a number replaced by it."""
    return _inline(block, {})


def _inline(block: ast.Block, known: dict[str, ast.Name | ast.Int]) -> ast.Block:
    known = dict(known)
    kept: list[ast.Stmt] = []
    for statement in block:
        new = _substitute(statement, known)
        if isinstance(new, ast.Declare) and new.type == "const int" and isinstance(new.value, ast.Name | ast.Int):
            known[new.name] = new.value
            continue
        if isinstance(new, ast.Declare):
            known.pop(new.name, None)
        kept.append(new)
    return tuple(kept)


def _substitute(statement: ast.Stmt, known: dict[str, ast.Name | ast.Int]) -> ast.Stmt:
    def swap(value: ast.Expr) -> ast.Expr:
        return _replace_names(value, known)

    match statement:
        case ast.Declare(kind, name, value):
            return ast.Declare(kind, name, swap(value))
        case ast.Assign(target, symbol, value):
            return ast.Assign(swap(target), symbol, swap(value))
        case ast.Copy(target, value):
            return ast.Copy(swap(target), swap(value))
        case ast.For(_, start, stop, body):
            return replace(statement, start=swap(start), stop=swap(stop), body=_inline(body, known))
        case ast.If(condition, body, otherwise):
            return ast.If(swap(condition), _inline(body, known), _inline(otherwise, known))
        case ast.Run(called, arguments):
            return ast.Run(called, tuple(swap(argument) for argument in arguments))
        case ast.Scope(body):
            return ast.Scope(_inline(body, known))
        case ast.Verbatim(lines):
            values = {name: value.text if isinstance(value, ast.Name) else value.value for name, value in known.items()}
            texts = {name: f"({value})" for name, value in values.items()}
            changed = (_IDENTIFIER.sub(lambda found: texts.get(found[0], found[0]), line) for line in lines)
            return ast.Verbatim(tuple(changed))
        case ast.Count() | ast.Remark() | ast.LocalArray():
            return statement
    assert_never(statement)


def _replace_names(value: ast.Expr, known: dict[str, ast.Name | ast.Int]) -> ast.Expr:
    if isinstance(value, ast.Name):
        return known.get(value.text, value)
    found = ast.with_parts(value, lambda part: _replace_names(part, known))
    return ast.fold_operation(found.symbol, found.left, found.right) if isinstance(found, ast.Binary) else found


def function(name: str, clock: tuple[str, ...], body: ast.Block, remark: str = "") -> tuple[ast.Function, ast.Run]:
    """Return a function of the clock indices that its body uses, and its call."""
    body = prune(inline_constants(body))
    used = names_in(body)
    parameters = tuple(index for index in clock if index in used)
    return ast.Function(name, parameters, body, remark), ast.Run(name, tuple(ast.Name(index) for index in parameters))


def _pruned_inside(statement: ast.Stmt) -> ast.Stmt:
    if isinstance(statement, ast.If):
        return ast.If(statement.condition, prune(statement.body), prune(statement.otherwise))
    return replace(statement, body=prune(statement.body)) if isinstance(statement, ast.For | ast.Scope) else statement


def _statement_names(statement: ast.Stmt) -> frozenset[str]:
    match statement:
        case ast.Declare(_, _, value):
            return identifiers(value)
        case ast.Assign(target, _, value) | ast.Copy(target, value):
            return identifiers(target) | identifiers(value)
        case ast.For(name, start, stop, body):
            return identifiers(start) | identifiers(stop) | (names_in(body) - {name})
        case ast.If(condition, body, otherwise):
            return identifiers(condition) | names_in(body) | names_in(otherwise)
        case ast.Run(_, arguments):
            return frozenset(name for argument in arguments for name in identifiers(argument))
        case ast.Count(counter):
            return frozenset(_IDENTIFIER.findall(counter))
        case ast.Verbatim(lines):
            return frozenset(name for line in lines for name in _IDENTIFIER.findall(line))
        case ast.Scope(body):
            return names_in(body)
        case ast.Remark() | ast.LocalArray():
            return frozenset()
    assert_never(statement)


def identifiers(value: ast.Expr) -> frozenset[str]:
    """Return the identifiers in an expression, those of the functions that it calls among them."""
    return frozenset(_IDENTIFIER.findall(expression(value)))
