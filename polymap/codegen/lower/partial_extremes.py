"""Loops that find a maximum or minimum of floats in vectors, with the bits of one element after the other.

The order of a maximum decides two things only: which of equal zeros it is (0.0 or -0.0), and what becomes of NaN. So a
loop finds the maximum of several parts side by side, then theirs; where that is zero, it is found once more in order.
`x > m ? x : m` never takes an x that is NaN, and keeps an m that is NaN: parts that start with m do the same.
`m > x ? m : x` takes a NaN, and drops it at the next x; of functions such as fmaxf the C standard leaves some results
with NaN open: for these, a NaN among the values also has the maximum found once more in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polymap.codegen.lower import ast
from polymap.codegen.lower.printer import expression
from polymap.codegen.lower.tidy import identifiers
from polymap.codegen.lower.tuning import TUNING


@dataclass(frozen=True, slots=True)
class Extreme:
    """An innermost loop that finds a maximum or minimum of floats. position: of the loop in the times. kind: their C
    type. symbol: > for a maximum. ignores_nan: as `x > m ? x : m`. zero: which of several zeros it keeps, the "first",
    the "last", or "" where that is open."""

    position: int
    statement: str
    kind: str
    symbol: str
    ignores_nan: bool
    zero: str


@dataclass(frozen=True, slots=True)
class _Update:
    """target = the maximum of itself and a value. fixed: constants that all iterations share; own: the others, of
    which `before` is none: the target's old value. last: the whole assignment."""

    target: ast.Expr
    value: ast.Expr
    fixed: ast.Block
    own: ast.Block
    before: ast.Block
    last: ast.Stmt


def in_parts(loop: ast.For, found: Extreme, name: str) -> ast.For | ast.Scope:
    """Return the loop with its maximum in parts; as it is where its body has another form. name: of the parts, at the
    head of all new names."""
    update = _update(loop)
    if update is None or loop.step != 1:
        return loop
    end = loop.stop if loop.compare == "<" else ast.add(loop.stop, ast.Int(1))
    least = ast.Binary(
        ">=", ast.Binary("-", ast.Name(f"{name}_end"), ast.Name(f"{name}_begin")), ast.Int(TUNING.extreme_iterations)
    )
    head: ast.Block = (
        *update.fixed,
        ast.Declare("const long", f"{name}_begin", loop.start),
        ast.Declare("const long", f"{name}_end", end),
        ast.Declare("int", f"{name}_again", ast.Int(1)),
    )
    body = (*update.own, *update.before, update.last)
    again: ast.Stmt = ast.For(loop.name, ast.Name(f"{name}_begin"), ast.Name(f"{name}_end"), body, type="long")
    if found.zero:
        again = ast.If(ast.Name(f"{name}_again == 2"), _zero(loop, update, found, name), (again,))
    return ast.Scope(
        (*head, ast.If(least, _parts(loop, update, found, name)), ast.If(ast.Name(f"{name}_again"), (again,)))
    )


def _zero(loop: ast.For, update: _Update, found: Extreme, name: str) -> ast.Block:
    """Return the search of the zero that the loop ends with, among the old value of the target and the elements."""
    target, is_first = expression(update.target), found.zero == "first"
    place = f"{name}_begin + {name}_i" if is_first else f"{name}_end - 1 - {name}_i"
    body: ast.Block = (
        ast.Declare("const long", loop.name, ast.Name(place)),
        *update.own,
        ast.Declare(f"const {found.kind}", f"{name}_value", update.value),
        ast.If(ast.Name(f"{name}_value == 0"), (ast.Verbatim((f"{target} = {name}_value;", "break;")),)),
    )
    search = ast.For(f"{name}_i", ast.Int(0), ast.Name(f"{name}_end - {name}_begin"), body, type="long")
    return (ast.If(ast.Name(f"{target} != 0"), (search,)),) if is_first else (search,)


def _parts(loop: ast.For, update: _Update, found: Extreme, name: str) -> ast.Block:
    """Return the maximum of each part, and of all. The last elements are looked at twice where parts are not whole."""
    parts, target = TUNING.extreme_parts, expression(update.target)
    every = f"for (long {name}_i = 0; {name}_i < {parts}; ++{name}_i)"
    each, value, seen = f"{name}[{name}_i]", f"{name}_value", f"{name}_seen[{name}_i]"
    declared = f"{name}[{parts}]" if found.ignores_nan else f"{name}[{parts}], {name}_seen[{parts}]"
    checks = [] if found.ignores_nan else [f"{seen} = {value} == {value} ? {seen} : {value};"]
    start = f"{each} = {target};" if found.ignores_nan else f"{each} = {seen} = {target};"
    last = f"{name}_end - {parts}"
    inner: ast.Block = (
        ast.Declare("const long", loop.name, ast.Binary("+", ast.Name(f"{name}_from"), ast.Name(f"{name}_i"))),
        *update.own,
        ast.Declare(f"const {found.kind}", value, update.value),
        ast.Verbatim((f"{each} = {value} {found.symbol} {each} ? {value} : {each};", *checks)),
    )
    steps: ast.Block = (
        ast.Declare("const long", f"{name}_from", ast.Name(f"({name}_at < {last} ? {name}_at : {last})")),
        ast.For(f"{name}_i", ast.Int(0), ast.Int(parts), inner, type="long"),
    )
    again = f"{name}[0] == 0 ? {2 if found.zero else 1} : 0"
    if not found.ignores_nan:
        again = f"{name}_seen[0] != {name}_seen[0] ? 1 : {again}"
    return (
        ast.Verbatim((f"{found.kind} {declared};", every, f"    {start}")),
        ast.For(f"{name}_at", ast.Name(f"{name}_begin"), ast.Name(f"{name}_end"), steps, type="long", step=parts),
        ast.Verbatim(tuple(_join_parts(found, name))),
        ast.Verbatim((f"{name}_again = {again};", f"if (!{name}_again)", f"    {target} = {name}[0];")),
    )


def _join_parts(found: Extreme, name: str) -> Sequence[str]:
    """Return the lines that find the maximum of the parts, halves of them at once."""
    each, other = f"{name}[{name}_i]", f"{name}[{name}_i + {name}_half]"
    lines = [
        f"for (long {name}_half = {TUNING.extreme_parts // 2}; {name}_half > 0; {name}_half /= 2)",
        f"    for (long {name}_i = 0; {name}_i < {name}_half; ++{name}_i) {{",
        f"        {each} = {other} {found.symbol} {each} ? {other} : {each};",
    ]
    if not found.ignores_nan:
        each, other = (entry.replace("[", "_seen[", 1) for entry in (each, other))
        lines.append(f"        {each} = {other} == {other} ? {each} : {other};")
    return [*lines, "    }"]


def _update(loop: ast.For) -> _Update | None:
    """Return the update that is a loop's whole body, None for other bodies."""
    *heads, last = _flat_statements(loop.body)
    declared = [each for each in heads if isinstance(each, ast.Declare)]
    target = _target(last)
    if len(declared) < len(heads) or target is None:
        return None
    before = tuple(each for each in declared if each.value == target)
    moving, own, fixed = {loop.name}, list[ast.Declare](), list[ast.Declare]()
    for each in declared:
        if each in before:
            continue
        if moving & identifiers(each.value):
            moving.add(each.name)
            own.append(each)
        else:
            fixed.append(each)
    value = _value(last, [target, *(ast.Name(each.name) for each in before)])
    if value is None or moving & identifiers(target):
        return None
    return _Update(target, value, tuple(fixed), tuple(own), before, last)


def _flat_statements(block: ast.Block) -> list[ast.Stmt]:
    """Return the statements of a block, those of scopes in it as its own."""
    return [one for each in block for one in (_flat_statements(each.body) if isinstance(each, ast.Scope) else (each,))]


def _target(last: ast.Stmt) -> ast.Expr | None:
    match last:
        case ast.Assign(target, "=", _) | ast.Copy(target, _) | ast.If(_, (ast.Assign(target, "=", _),), ()):
            return target
        case _:
            return None


def _value(last: ast.Stmt, own: Sequence[ast.Expr]) -> ast.Expr | None:
    """Return what a target, which has these names, is compared with."""
    match last:
        case ast.If(_, (ast.Assign(_, _, value),), _):
            return value
        case ast.Assign(_, _, ast.Choice(_, one, other) | ast.Invoke(_, (one, other))) | ast.Copy(
            _, ast.Choice(_, one, other) | ast.Invoke(_, (one, other))
        ):
            others = [each for each in (one, other) if each not in own]
            return others[0] if len(others) == 1 else None
        case _:
            return None
