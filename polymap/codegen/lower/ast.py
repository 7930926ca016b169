"""The C program as frozen data: expressions, statements, functions; `printer` only prints it.

A Copy moves one element between two buffers; a Count advances one word counter. Lowering puts them side by side into
its loops, so that a test can remove any single Copy and see the run fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Int:
    """An integer constant."""

    value: int


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, or the text of any C expression."""

    text: str


@dataclass(frozen=True, slots=True)
class Binary:
    """`left symbol right`."""

    symbol: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Element:
    """`array[index][index]...`."""

    array: str
    index: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Invoke:
    """The value of a call: a function, macro or cast `(type)` applied to arguments."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """`condition ? yes : no`."""

    condition: Expr
    yes: Expr
    no: Expr


Expr = Int | Name | Binary | Element | Invoke | Choice


@dataclass(frozen=True, slots=True)
class Declare:
    """A new variable of `type`, which includes const where it never changes."""

    type: str
    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Assign:
    """`target symbol value;`, where symbol is = or += and the like."""

    target: Expr
    symbol: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Copy:
    """One element moves from one buffer (or operand, or bus) to another: `target = value;`."""

    target: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class Count:
    """One more word on a counter."""

    counter: str


@dataclass(frozen=True, slots=True)
class For:
    """`for (int name = start; name < stop; ++name)`. pragma: a line before it, or empty. compare: `<` or `<=`."""

    name: str
    start: Expr
    stop: Expr
    body: Block
    pragma: str = ""
    type: str = "int"
    compare: str = "<"
    step: int = 1


@dataclass(frozen=True, slots=True)
class If:
    """Runs `body` where the condition holds, else `otherwise`."""

    condition: Expr
    body: Block
    otherwise: Block = ()


@dataclass(frozen=True, slots=True)
class Run:
    """A call as a statement."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Remark:
    """A comment; of the user's text it contains only letters, digits and underscores of names."""

    text: str


@dataclass(frozen=True, slots=True)
class LocalArray:
    """A local array without initial values."""

    type: str
    name: str
    length: int


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Lines of statements, printed as they are."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """Statements in a scope of their own."""

    body: Block


Stmt = Declare | Assign | Copy | Count | For | If | Run | Remark | Scope | LocalArray | Verbatim
Block = tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """A static array, zero at the start; shape () is a variable."""

    type: str
    name: str
    shape: tuple[int, ...]
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Function:
    """A static function without a result; parameters as they are declared (`const int` where no type is given)."""

    name: str
    parameters: tuple[str, ...]
    body: Block
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """Lines printed as they are: the parts that all programs have in common."""

    lines: str


@dataclass(frozen=True, slots=True)
class Program:
    """A translation unit: parts in the order of their definition."""

    parts: tuple[Array | Function | Text, ...]


def with_parts(value: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return an expression with each of its direct parts changed."""
    match value:
        case Binary(symbol, left, right):
            return Binary(symbol, change(left), change(right))
        case Element(array, index):
            return Element(array, tuple(map(change, index)))
        case Invoke(function, arguments):
            return Invoke(function, tuple(map(change, arguments)))
        case Choice(condition, yes, no):
            return Choice(change(condition), change(yes), change(no))
        case Int() | Name():
            return value


def add(left: Expr, right: Expr) -> Expr:
    """Return left + right, constants folded."""
    if isinstance(left, Int) and isinstance(right, Int):
        return Int(left.value + right.value)
    if isinstance(right, Int):
        if right.value == 0:
            return left
        if right.value < 0:
            return Binary("-", left, Int(-right.value))
    if isinstance(left, Int) and left.value == 0:
        return right
    return Binary("+", left, right)


def subtract(left: Expr, right: Expr) -> Expr:
    """Return left - right, constants folded."""
    if isinstance(right, Int):
        return add(left, Int(-right.value))
    return Binary("-", left, right)


def multiply(left: Expr, factor: int) -> Expr:
    """Return left * factor, constants folded."""
    if factor == 0:
        return Int(0)
    if factor == 1:
        return left
    return Int(left.value * factor) if isinstance(left, Int) else Binary("*", left, Int(factor))


def modulo(left: Expr, divisor: int) -> Expr:
    """Return left % divisor of a value that is not negative, constants folded."""
    if divisor == 1:
        return Int(0)
    return Int(left.value % divisor) if isinstance(left, Int) else Binary("%", left, Int(divisor))


def fold_operation(symbol: str, left: Expr, right: Expr) -> Expr:
    """Return `left symbol right`, sums and products with constants folded."""
    if symbol == "+":
        return add(left, right)
    if symbol == "-":
        return subtract(left, right)
    if symbol == "*" and isinstance(right, Int):
        return multiply(left, right.value)
    if symbol == "%" and isinstance(right, Int):
        return modulo(left, right.value)
    return Binary(symbol, left, right)


def minimum(left: Expr, right: Expr) -> Expr:
    """Return the smaller value, constants folded."""
    if isinstance(left, Int) and isinstance(right, Int):
        return Int(min(left.value, right.value))
    return Invoke("MIN", (left, right))


def total(terms: list[Expr]) -> Expr:
    """Return the sum of the terms, constants folded."""
    result: Expr = Int(0)
    for term in terms:
        result = add(result, term)
    return result
