"""The part of C that is read, as typed data: expressions and statements with their line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from polymap.ir import Mistake
from polymap.workload.c.types import SPELLING


@dataclass(frozen=True, slots=True)
class Literal:
    """A number with its type; `number` is its value if it is an integer."""

    text: str
    number: int | None
    line: int
    element_type: str = "int32"


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Item:
    """An array element: every subscript in order."""

    array: str
    index: tuple[CExpression, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Unary:
    """operator: "-", "+" or "!"."""

    operator: str
    operand: CExpression
    line: int


@dataclass(frozen=True, slots=True)
class Binary:
    """operator: + - * / % < <= > >= == != && or ||."""

    operator: str
    left: CExpression
    right: CExpression
    line: int


@dataclass(frozen=True, slots=True)
class Choice:
    """condition ? then : other."""

    condition: CExpression
    then: CExpression
    other: CExpression
    line: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a named function."""

    function: str
    arguments: tuple[CExpression, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion to an element type ("float32"); written: it stands in the text."""

    element_type: str
    operand: CExpression
    line: int
    written: bool = True


CExpression = Literal | Name | Item | Unary | Binary | Choice | Call | Cast


@dataclass(frozen=True, slots=True)
class Declare:
    """A variable. shape: () for a scalar; an axis without a size (a pointer, `A[]`) is None."""

    name: str
    element_type: str | None
    shape: tuple[CExpression | None, ...]
    value: CExpression | None
    line: int


@dataclass(frozen=True, slots=True)
class Assign:
    """operator: "=", "+=", "-=", "*=" or "/=".

    guarded: it stands for `if (condition) target = then;`, and its value is `condition ? then : target`.
    """

    target: Name | Item
    operator: str
    value: CExpression
    line: int
    guarded: bool = False


@dataclass(frozen=True, slots=True)
class For:
    """A counting loop: the variable starts at `start` and `condition` is asked before each iteration.

    element_type: of the variable, where the loop declares it.
    """

    variable: str
    start: CExpression
    condition: CExpression
    step: CExpression
    element_type: str | None
    body: tuple[CStatement, ...]
    line: int


@dataclass(frozen=True, slots=True)
class If:
    """if (condition) then else other."""

    condition: CExpression
    then: tuple[CStatement, ...]
    other: tuple[CStatement, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Block:
    """Statements with a scope of their own."""

    body: tuple[CStatement, ...]


CStatement = Declare | Assign | For | If | Block


@dataclass(frozen=True, slots=True)
class Program:
    """What is read. outside: what the file, the parameters and the function around a marked region declare.

    wrapped: there was no function, so what the body declares at its top is alive after it as well.
    """

    name: str
    outside: tuple[Declare, ...]
    body: tuple[CStatement, ...]
    wrapped: bool


@dataclass(slots=True)
class Complaints:
    """Collects mistakes, each with its line; `file` names the source."""

    file: str
    mistakes: list[Mistake] = field(default_factory=list[Mistake])

    def add(self, code: str, line: int, what: str, hint: str = "") -> None:
        problem = Mistake(code, f"{what} ({self.file}:{line})", hint)
        if problem not in self.mistakes:
            self.mistakes.append(problem)


class Refused(Exception):  # never leaves the C front end: it becomes a Mistake
    """A construct that cannot be read; the walker records it and continues with the next statement."""

    def __init__(self, code: str, line: int, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.code, self.line, self.what, self.hint = code, line, what, hint


def render(expression: CExpression) -> str:
    """Return the expression as C, with the parentheses that it needs at most."""
    match expression:
        case Literal(text):
            return text
        case Name(name):
            return name
        case Item(array, index):
            return array + "".join(f"[{render(each)}]" for each in index)
        case Unary(operator, operand):
            return operator + _inner(operand)
        case Binary(operator, left, right):
            return f"{_inner(left)} {operator} {_inner(right)}"
        case Choice(condition, then, other):
            return f"{_inner(condition)} ? {_inner(then)} : {_inner(other)}"
        case Call(function, arguments):
            return f"{function}({', '.join(render(each) for each in arguments)})"
        case Cast(element_type, operand):
            return f"({SPELLING[element_type]}){_inner(operand)}"


def _inner(expression: CExpression) -> str:
    text = render(expression)
    return f"({text})" if isinstance(expression, Binary | Choice) else text


def walk(expression: CExpression, visit: Callable[[CExpression], None]) -> None:
    """Call `visit` for the expression and all its parts, outermost first."""
    visit(expression)
    for part in parts(expression):
        walk(part, visit)


def parts(expression: CExpression) -> tuple[CExpression, ...]:
    """Return the expressions that an expression is made of, in textual order."""
    match expression:
        case Literal() | Name():
            return ()
        case Item(_, index):
            return index
        case Unary(_, operand) | Cast(_, operand):
            return (operand,)
        case Binary(_, left, right):
            return left, right
        case Choice(condition, then, other):
            return condition, then, other
        case Call(_, arguments):
            return arguments


def rebuilt(expression: CExpression, change: Callable[[CExpression], CExpression]) -> CExpression:
    """Return the expression with other parts."""
    match expression:
        case Literal() | Name():
            return expression
        case Item(_, index):
            return replace(expression, index=tuple(change(each) for each in index))
        case Unary(_, operand) | Cast(_, operand):
            return replace(expression, operand=change(operand))
        case Binary(_, left, right):
            return replace(expression, left=change(left), right=change(right))
        case Choice(condition, then, other):
            return replace(expression, condition=change(condition), then=change(then), other=change(other))
        case Call(_, arguments):
            return replace(expression, arguments=tuple(change(each) for each in arguments))
