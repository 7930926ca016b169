"""Python's syntax tree as the tree that the C front end reads: loops over `range`, conditions and assignments.

Meaning is Python's: `//` and `%` round down (as floors, `floord`), `/` divides fractions, `a < b < c` asks twice.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from polymap.inputs import shown
from polymap.workload.c import (
    Assign,
    Binary,
    Call,
    CExpression,
    Choice,
    Complaints,
    CStatement,
    For,
    If,
    Item,
    Literal,
    Name,
    Refused,
    Unary,
    inside,
    parts,
)
from polymap.workload.tuning import TUNING

_BINARY: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_RENAMED = {
    "abs": "fabs", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "power": "pow",
    "maximum": "max", "minimum": "min",
}  # fmt: skip
_LOOPS = "Write `for i in range(...)`, conditions and assignments."


class Use(Enum):
    """How a name occurs."""

    COUNTER = "of a loop"
    TARGET = "assigned to"
    READ = "read"


@dataclass(frozen=True, slots=True)
class PythonCode:
    """Translates statements; what cannot be read is left out and noted. first_line: of the text, in its file."""

    complaints: Complaints
    first_line: int = 1

    def line(self, node: ast.AST) -> int:
        """Return the line of a node in its file."""
        return getattr(node, "lineno", 1) + self.first_line - 1

    def body(self, statements: Sequence[ast.stmt]) -> tuple[CStatement, ...]:
        """Return the statements that can be read."""
        return tuple(found for each in statements for found in self._tried(each))

    def _tried(self, node: ast.stmt) -> Iterator[CStatement]:
        try:
            found = self._statement(node)
        except Refused as refused:
            self.complaints.add(refused.code, refused.line, refused.what, refused.hint)
            self.body([part for part in ast.iter_child_nodes(node) if isinstance(part, ast.stmt)])
            return
        if found is not None:
            yield found

    def _statement(self, node: ast.stmt) -> CStatement | None:
        line = self.line(node)
        match node:
            case ast.Pass() | ast.Expr(ast.Constant(str())):
                return None
            case ast.For():
                return self._loop(node, line)
            case ast.If(test, then, other):
                return If(self.expression(test), self.body(then), self.body(other), line)
            case ast.Assign([target], value):
                return Assign(self.target(target), "=", self.expression(value), line)
            case ast.AugAssign(target, operator, value) if type(operator) in _BINARY:
                return Assign(self.target(target), f"{_BINARY[type(operator)]}=", self.expression(value), line)
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign():
                raise Refused("PM261", line, f"{_text(node)} is no plain assignment", "= += -= *= and /= are.")
            case ast.While():
                raise Refused("PM263", line, "a while loop cannot be read", _LOOPS)
            case _:
                raise Refused("PM261", line, f"{_text(node)} cannot be read", _LOOPS)

    def _loop(self, node: ast.For, line: int) -> For:
        match node:
            case ast.For(ast.Name(variable), ast.Call(ast.Name("range"), [_, *_] as arguments, []), body, []):
                pass
            case _:
                raise Refused("PM261", line, f"the loop {shown(_header(node))} cannot be read", _LOOPS)
        if len(arguments) > 3:
            raise Refused("PM261", line, "range takes at most three arguments")
        values = [self.expression(each) for each in arguments]
        start, stop = (Literal("0", 0, line), values[0]) if len(values) == 1 else (values[0], values[1])
        step = values[2] if len(values) == 3 else Literal("1", 1, line)
        falls = isinstance(step, Unary) and step.operator == "-"
        condition = Binary(">" if falls else "<", Name(variable, line), stop, line)
        return For(variable, start, condition, step, None, self.body(body), line)

    def target(self, node: ast.expr) -> Name | Item:
        """Return what is assigned to."""
        found = self.expression(node)
        if not isinstance(found, Name | Item):
            raise Refused("PM261", self.line(node), "only a variable or an array element can be assigned to")
        return found

    def expression(self, node: ast.expr, depth: int = 0) -> CExpression:
        """Return the expression; Refused where it holds what is not read."""
        line = self.line(node)
        if depth > TUNING.most_expression_depth:
            raise Refused("PM151", line, "an expression is too long", "Split it into several assignments.")

        def inner(part: ast.expr) -> CExpression:
            return self.expression(part, depth + 1)

        match node:
            case ast.Constant(value) if not isinstance(value, bool) and isinstance(value, int | float):
                return _number(value, line)
            case ast.Name(name):
                return Name(name, line)
            case ast.Subscript():
                return self._item(node, line, inner)
            case ast.UnaryOp(operator, operand):
                return _unary(operator, inner(operand), line, node)
            case ast.BinOp(left, operator, right):
                return _operation(operator, inner(left), inner(right), line, node)
            case ast.BoolOp(operator, values):
                joined = "&&" if isinstance(operator, ast.And) else "||"
                return _joined(joined, [inner(each) for each in values], line)
            case ast.Compare(left, operators, others):
                return _comparison(operators, [inner(each) for each in (left, *others)], line, node)
            case ast.IfExp(test, then, other):
                return Choice(inner(test), inner(then), inner(other), line)
            case ast.Call(function, arguments, []):
                return self._call(function, [inner(each) for each in arguments], line, node)
            case _:
                raise Refused("PM261", line, f"{_text(node)} cannot be read", "Write sums, products and calls.")

    def _item(self, node: ast.Subscript, line: int, inner: Callable[[ast.expr], CExpression]) -> Item:
        index: list[CExpression] = []
        base: ast.expr = node
        while isinstance(base, ast.Subscript):
            parts = base.slice.elts if isinstance(base.slice, ast.Tuple) else [base.slice]
            index[:0] = [inner(each) for each in parts]
            base = base.value
        if not isinstance(base, ast.Name):
            raise Refused("PM261", line, "a subscript of something that is no array's name", "Write it as A[i, j].")
        return Item(base.id, tuple(index), line)

    def _call(self, function: ast.expr, arguments: list[CExpression], line: int, node: ast.expr) -> CExpression:
        match function:
            case ast.Name(name) | ast.Attribute(ast.Name(), name):
                pass
            case _:
                raise Refused("PM261", line, f"{_text(node)} calls something that is no function's name")
        name = _RENAMED.get(name, name)
        if name in ("max", "min") and len(arguments) > 2:
            found = arguments[0]
            for each in arguments[1:]:
                found = Call(name, (found, each), line)
            return found
        return Call(name, tuple(arguments), line)


def names_in(statements: Sequence[CStatement]) -> Iterator[tuple[Name | Item, Use]]:
    """Yield every variable and array element of statements with its use, in textual order."""
    for each in statements:
        match each:
            case For(variable, start, condition, step, _, body, line):
                yield Name(variable, line), Use.COUNTER
                for part in (start, condition, step):
                    yield from _read_in(part)
                yield from names_in(body)
            case If(condition, then, other):
                yield from _read_in(condition)
                yield from names_in((*then, *other))
            case Assign(target, _, value):
                yield target, Use.TARGET
                if isinstance(target, Item):
                    for part in target.index:
                        yield from _read_in(part)
                yield from _read_in(value)
            case _:
                pass


def _read_in(expression: CExpression) -> Iterator[tuple[Name | Item, Use]]:
    for each in inside(expression):
        if isinstance(each, Name | Item):
            yield each, Use.READ


def _number(value: int | float, line: int) -> Literal:
    if isinstance(value, float):
        if value - value != 0:
            raise Refused("PM261", line, "a number is larger than any double")
        return Literal(repr(value), None, line, "float64")
    kind = "int32" if value < 2**31 else "int64"
    if value >= 2**63:
        raise Refused("PM261", line, f"no integer type holds the number {shown(value)}")
    return Literal(str(value) if kind == "int32" else f"{value}L", value, line, kind)


def _unary(operator: ast.unaryop, operand: CExpression, line: int, node: ast.expr) -> CExpression:
    match operator:
        case ast.USub():
            return Unary("-", operand, line)
        case ast.UAdd():
            return Unary("+", operand, line)
        case ast.Not():
            return Unary("!", operand, line)
        case _:
            raise Refused("PM261", line, f"{_text(node)} cannot be read", "-x - 1 is the same as ~x.")


def _operation(operator: ast.operator, left: CExpression, right: CExpression, line: int, node: ast.expr) -> CExpression:
    match operator:
        case ast.FloorDiv():
            return Call("floord", (left, right), line)
        case ast.Mod() if isinstance(right, Literal) and (right.number or 0) > 0 and _reads_element(left):
            rest = Binary("%", left, right, line)  # of the sign of the left side
            return Binary("%", Binary("+", rest, right, line), right, line)
        case ast.Mod():
            return Binary("-", left, Binary("*", right, Call("floord", (left, right), line), line), line)
        case ast.Div() if not any(_holds_data(each) for each in (left, right)):
            hint = "// divides integers; write 0.5 for 1 / 2."
            raise Refused("PM261", line, f"{_text(node)} divides two integers into a fraction", hint)
        case ast.Pow():
            raise Refused("PM261", line, f"{_text(node)} cannot be read", "Write x * x, or pow(x, y).")
        case _ if type(operator) in _BINARY:
            return Binary(_BINARY[type(operator)], left, right, line)
        case _:
            raise Refused("PM261", line, f"{_text(node)} cannot be read", "+ - * / // and % are.")


def _reads_element(expression: CExpression) -> bool:
    return any(isinstance(each, Item) for each in inside(expression))


def _holds_data(expression: CExpression) -> bool:
    """Return whether an expression can be a fraction: it holds data, a call, or a number with a point."""
    if isinstance(expression, Literal):
        return expression.number is None
    if isinstance(expression, Item | Name) or (isinstance(expression, Call) and expression.function != "floord"):
        return True
    return any(_holds_data(part) for part in parts(expression))


def _joined(operator: str, values: Sequence[CExpression], line: int) -> CExpression:
    found = values[0]
    for each in values[1:]:
        found = Binary(operator, found, each, line)
    return found


def _comparison(operators: Sequence[ast.cmpop], sides: Sequence[CExpression], line: int, node: ast.expr) -> CExpression:
    if not all(type(each) in _COMPARED for each in operators):
        raise Refused("PM261", line, f"{_text(node)} cannot be read", "< <= > >= == and != compare.")
    pairs = zip(operators, sides[:-1], sides[1:], strict=True)
    return _joined("&&", [Binary(_COMPARED[type(o)], left, right, line) for o, left, right in pairs], line)


def _text(node: ast.AST) -> str:
    """Return the node as Python text in quotes."""
    text = " ".join(ast.unparse(node).split())
    return shown(text if len(text) <= 80 else text[:77] + "...")


def _header(node: ast.For) -> str:
    return f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"
