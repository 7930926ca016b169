"""Prints a program of `ast` nodes as C99. Every choice was made in lowering."""

from __future__ import annotations

from typing import assert_never

from polymap.codegen.lower.ast import (
    Array,
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
    Program,
    Remark,
    Run,
    Scope,
    Stmt,
    Text,
    Verbatim,
)
from polymap.codegen.lower.prelude import ALIGNED_ARRAY

_PRECEDENCE = {
    symbol: binds
    for binds, symbols in enumerate(("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %"), start=1)
    for symbol in symbols.split()
}


def emit(program: Program) -> str:
    """Return the text of the program, ending in a newline."""
    return "\n".join(_part(part) for part in program.parts) + "\n"


def _part(part: Array | Function | Text) -> str:
    match part:
        case Text(lines):
            return lines
        case Array(kind, name, shape, remark):
            note = f"  /* {remark} */" if remark else ""
            return f"static {kind} {name}{''.join(f'[{size}]' for size in shape)};{note}"
        case Function(name, parameters, body, remark):
            note = f"\n/* {remark} */" if remark else ""
            listed = ", ".join(p if " " in p else f"const int {p}" for p in parameters) or "void"
            return "\n".join([f"{note}\nstatic void {name}({listed})\n{{", *_block(body, 1), "}"])
    assert_never(part)


def lines_of(body: Block, depth: int) -> list[str]:
    """Return the lines of statements, indented by `depth` levels."""
    return _block(body, depth)


def _block(body: Block, depth: int) -> list[str]:
    return [line for statement in body for line in _statement(statement, depth)]


def _statement(statement: Stmt, depth: int) -> list[str]:
    pad = "    " * depth
    match statement:
        case Declare(kind, name, value):
            return [f"{pad}{kind} {name} = {expression(value)};"]
        case Assign(target, symbol, value):
            return [f"{pad}{expression(target)} {symbol} {expression(value)};"]
        case Copy(target, value):
            return [f"{pad}{expression(target)} = {expression(value)};"]
        case Count(counter):
            return [f"{pad}++{counter};"]
        case For():
            return _loop(statement, depth)
        case If(condition, body, otherwise):
            lines = [f"{pad}if ({expression(condition)}) {{", *_block(body, depth + 1)]
            if otherwise:
                lines += [f"{pad}}} else {{", *_block(otherwise, depth + 1)]
            return [*lines, f"{pad}}}"]
        case Run(function, arguments):
            return [f"{pad}{function}({', '.join(expression(argument) for argument in arguments)});"]
        case LocalArray(kind, name, length):
            return [f"{pad}{ALIGNED_ARRAY} {kind} {name}[{length}];"]
        case Verbatim(lines):
            return [f"{pad}{line}" for line in lines]
        case Scope(inner):
            return [f"{pad}{{", *_block(inner, depth + 1), f"{pad}}}"]
        case Remark(text):
            return [f"{pad}/* {text} */"]
    assert_never(statement)


def _loop(loop: For, depth: int) -> list[str]:
    pad = "    " * depth
    step = f"++{loop.name}" if loop.step == 1 else f"{loop.name} += {loop.step}"
    condition = f"{loop.name} {loop.compare} {expression(loop.stop)}"
    head = f"for ({loop.type} {loop.name} = {expression(loop.start)}; {condition}; {step}) {{"
    pragma = [f"{pad}{loop.pragma}"] if loop.pragma else []
    return [*pragma, pad + head, *_block(loop.body, depth + 1), f"{pad}}}"]


def expression(value: Expr, outer: int = 0) -> str:
    """Return the text of an expression, in parentheses if it binds weaker than `outer`."""
    match value:
        case Int(number):
            return str(number) if number >= 0 or not outer else f"({number})"
        case Name(text):
            return text
        case Binary(symbol, left, right):
            own = _PRECEDENCE[symbol]
            text = f"{expression(left, own)} {symbol} {expression(right, own + 1)}"
            return f"({text})" if own < outer or (outer and own <= 8) else text
        case Element(array, index):
            return array + "".join(f"[{expression(i)}]" for i in index)
        case Invoke(function, arguments):
            return f"{function}({', '.join(expression(argument) for argument in arguments)})"
        case Choice(condition, yes, no):
            return f"({expression(condition, 1)} ? {expression(yes, 1)} : {expression(no, 1)})"
    assert_never(value)
