"""The right side of a C assignment: its reads and what it computes from them, and whether it accumulates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from polymap.inputs import shown
from polymap.workload.c_affine import COMPARISONS, MAXIMA, MINIMA, Scope, affine_of, picks_maximum
from polymap.workload.c_tree import (
    Binary,
    Call,
    Cast,
    CExpression,
    Choice,
    Item,
    Literal,
    Name,
    Refused,
    Unary,
    parts,
    render,
)
from polymap.workload.loopnest import Access, Apply, Expression, Index, Number, Operator, Read

FUNCTIONS = {
    name: count
    for count, names in (
        (1, "sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh"),
        (1, "fabs abs floor ceil round trunc erf tgamma lgamma"),
        (2, "pow atan2 hypot fmod"),
    )
    for name in names.split()
}


@dataclass(slots=True)
class ValueReader:
    """Turns expressions into values; collects the reads on the way, in textual order.

    access: what a variable or array element refers to (Refused where it is none).
    """

    scope: Scope
    access: Callable[[Name | Item], Access]
    reads: list[Access] = field(default_factory=list[Access])

    def read(self, expression: CExpression) -> Expression:
        """Return the value of the expression."""
        if is_integer(expression, self.scope) and not isinstance(expression, Literal):
            return self._counted(expression)
        match expression:
            case Literal(text):
                return Number(text)
            case Name() | Item():
                self.reads.append(self.access(expression))
                return Read(len(self.reads) - 1)
            case Unary("+", operand):
                return self.read(operand)
            case Unary(operator, operand):
                return Apply("neg" if operator == "-" else operator, (self.read(operand),))
            case Binary(operator, left, right):
                return self._binary(expression, operator, left, right)
            case Choice(condition, then, other):
                return self._choice(expression, condition, then, other)
            case Call(function, arguments):
                return self._call(expression, function, arguments)
            case Cast(element_type, operand):
                if not element_type.startswith("float"):
                    what = f"the conversion {shown(render(expression))} to an integer is not read"
                    raise Refused("PM266", expression.line, what, "Assign to an integer array instead.")
                return self.read(operand)

    def _counted(self, expression: CExpression) -> Expression:
        """Return the value of an expression of integers alone."""
        try:
            value = affine_of(expression, self.scope)
        except Refused:
            match expression:
                case Binary(("+" | "-" | "*") as operator, left, right):
                    return Apply(operator, (self.read(left), self.read(right)))
                case Unary("-", operand):
                    return Apply("neg", (self.read(operand),))
                case _:
                    raise
        if value.terms:
            return Index(value)
        return Number(str(value.constant)) if value.constant >= 0 else Apply("neg", (Number(str(-value.constant)),))

    def _binary(self, expression: CExpression, operator: str, left: CExpression, right: CExpression) -> Expression:
        if operator == "%":
            what = f"{shown(render(expression))} takes a remainder of data"
            raise Refused("PM266", expression.line, what, "Remainders of loop variables are read.")
        first, second = self.read(left), self.read(right)
        if operator in (">", ">="):
            return Apply({">": "<", ">=": "<="}[operator], (second, first))
        return Apply(operator, (first, second))

    def _choice(self, whole: Choice, condition: CExpression, then: CExpression, other: CExpression) -> Expression:
        largest = picks_maximum(whole)
        if largest is not None:
            # Its sides stand in the condition already: each is read once.
            assert isinstance(condition, Binary)
            return Apply("max" if largest else "min", (self.read(condition.left), self.read(condition.right)))
        asked = self.read(condition)
        if not (isinstance(condition, Binary) and condition.operator in (*COMPARISONS, "&&", "||")):
            asked = Apply("!=", (asked, Number("0")))
        return Apply("?:", (asked, self.read(then), self.read(other)))

    def _call(self, expression: CExpression, function: str, arguments: tuple[CExpression, ...]) -> Expression:
        name = "max" if function in MAXIMA else "min" if function in MINIMA else function
        if name not in FUNCTIONS and name.removesuffix("f") in FUNCTIONS:
            name = name.removesuffix("f")
        wanted = 2 if name in ("max", "min") else FUNCTIONS.get(name)
        if wanted is None:
            what = f"the function '{function}' is not known to be pure"
            hint = f"Known: fmax, fmin, {', '.join(sorted(FUNCTIONS))}."
            raise Refused("PM266", expression.line, what, hint)
        if len(arguments) != wanted:
            what = f"'{function}' takes {wanted} arguments, not {len(arguments)}"
            raise Refused("PM266", expression.line, what)
        return Apply(name, tuple(self.read(each) for each in arguments))


def is_integer(expression: CExpression, scope: Scope) -> bool:
    """Return whether only integer literals, constants and loop variables occur, joined by integer operations."""
    match expression:
        case Literal(_, number):
            return number is not None
        case Name(name):
            return name in scope.integers or (name in scope.counters and name not in scope.variables)
        case Binary() | Unary():
            return all(is_integer(each, scope) for each in parts(expression))
        case _:
            return False


def accumulation(target: CExpression, value: CExpression) -> tuple[Operator, CExpression] | None:
    """Return MAX or MIN and the other operand where `target = value` is `target = max(target, operand)`."""
    own = render(target)
    match value:
        case Call(function, (left, right)) if function in (*MAXIMA, *MINIMA):
            operator = Operator.MAX if function in MAXIMA else Operator.MIN
            sides = (left, right)
        case Choice(Binary(_, left, right)):
            largest = picks_maximum(value)
            if largest is None:
                return None
            operator = Operator.MAX if largest else Operator.MIN
            sides = (left, right)
        case _:
            return None
    texts = [render(side) for side in sides]
    if own not in texts:
        return None
    return operator, sides[1 - texts.index(own)]


def with_target(operation: str, value: Expression) -> Expression:
    """Return `target operation value` where the target becomes read 0 and the other reads move up by one."""
    return Apply(operation, (Read(0), _moved(value)))


def _moved(value: Expression) -> Expression:
    match value:
        case Read(access):
            return Read(access + 1)
        case Apply(operation, arguments):
            return Apply(operation, tuple(_moved(each) for each in arguments))
        case _:
            return value
