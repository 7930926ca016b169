"""Prints a program of `ast` nodes as C99. Every choice was made in lowering."""

from __future__ import annotations

from typing import assert_never

from polymap.codegen.lower import ast
from polymap.codegen.lower.prelude import ALIGNED_ARRAY

_PRECEDENCE = {
    symbol: binds
    for binds, symbols in enumerate(("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %"), start=1)
    for symbol in symbols.split()
}


def emit(program: ast.Program) -> str:
    """Return the text of the program, ending in a newline."""
    return "\n".join(_part(part) for part in program.parts) + "\n"


def _part(part: ast.Array | ast.Function | ast.Text) -> str:
    match part:
        case ast.Text(lines):
            return lines
        case ast.Array(kind, name, shape, remark):
            note = f"  /* {remark} */" if remark else ""
            return f"static {kind} {name}{''.join(f'[{size}]' for size in shape)};{note}"
        case ast.Function(name, parameters, body, remark):
            note = f"\n/* {remark} */" if remark else ""
            listed = ", ".join(p if " " in p else f"const int {p}" for p in parameters) or "void"
            return "\n".join([f"{note}\nstatic void {name}({listed})\n{{", *_block(body, 1), "}"])
    assert_never(part)


def lines_of(body: ast.Block, depth: int) -> list[str]:
    """Return the lines of statements, indented by `depth` levels."""
    return _block(body, depth)


def _block(body: ast.Block, depth: int) -> list[str]:
    return [line for statement in body for line in _statement(statement, depth)]


def _statement(statement: ast.Stmt, depth: int) -> list[str]:
    pad = "    " * depth
    match statement:
        case ast.Declare(kind, name, value):
            return [f"{pad}{kind} {name} = {expression(value)};"]
        case ast.Assign(target, symbol, value):
            return [f"{pad}{expression(target)} {symbol} {expression(value)};"]
        case ast.Copy(target, value):
            return [f"{pad}{expression(target)} = {expression(value)};"]
        case ast.Count(counter):
            return [f"{pad}++{counter};"]
        case ast.For():
            return _loop(statement, depth)
        case ast.If(condition, body, otherwise):
            lines = [f"{pad}if ({expression(condition)}) {{", *_block(body, depth + 1)]
            if otherwise:
                lines += [f"{pad}}} else {{", *_block(otherwise, depth + 1)]
            return [*lines, f"{pad}}}"]
        case ast.Run(function, arguments):
            return [f"{pad}{function}({', '.join(expression(argument) for argument in arguments)});"]
        case ast.LocalArray(kind, name, length):
            return [f"{pad}{ALIGNED_ARRAY} {kind} {name}[{length}];"]
        case ast.Verbatim(lines):
            return [f"{pad}{line}" for line in lines]
        case ast.Scope(inner):
            return [f"{pad}{{", *_block(inner, depth + 1), f"{pad}}}"]
        case ast.Remark(text):
            return [f"{pad}/* {text} */"]
    assert_never(statement)


def _loop(loop: ast.For, depth: int) -> list[str]:
    pad = "    " * depth
    step = f"++{loop.name}" if loop.step == 1 else f"{loop.name} += {loop.step}"
    condition = f"{loop.name} {loop.compare} {expression(loop.stop)}"
    head = f"for ({loop.type} {loop.name} = {expression(loop.start)}; {condition}; {step}) {{"
    pragma = [f"{pad}{loop.pragma}"] if loop.pragma else []
    return [*pragma, pad + head, *_block(loop.body, depth + 1), f"{pad}}}"]


def expression(value: ast.Expr, outer: int = 0) -> str:
    """Return the text of an expression, in parentheses if it binds weaker than `outer`."""
    match value:
        case ast.Int(number):
            return str(number) if number >= 0 or not outer else f"({number})"
        case ast.Name(text):
            return text
        case ast.Binary(symbol, left, right):
            own = _PRECEDENCE[symbol]
            text = f"{expression(left, own)} {symbol} {expression(right, own + 1)}"
            return f"({text})" if own < outer or (outer and own <= 8) else text
        case ast.Element(array, index):
            return array + "".join(f"[{expression(i)}]" for i in index)
        case ast.Invoke(function, arguments):
            return f"{function}({', '.join(expression(argument) for argument in arguments)})"
        case ast.Choice(condition, yes, no):
            return f"({expression(condition, 1)} ? {expression(yes, 1)} : {expression(no, 1)})"
    assert_never(value)
