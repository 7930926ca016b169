"""The right side of a C assignment: its reads, its value, and whether it is an accumulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from polymap.inputs import shown
from polymap.ir import Access, Apply, Convert, Expression, Index, Number, Operator, Read, bounds, with_parts
from polymap.workload.c import tree
from polymap.workload.c.affine import Scope, picks_maximum, seen, whole_of
from polymap.workload.c.source import VALUE_MACROS
from polymap.workload.c.types import ABSOLUTES, FLOATS, bits_of, common, constant, function_type, promoted

FUNCTIONS = {
    name: count
    for count, names in (
        (1, "sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh"),
        (1, "fabs floor ceil round trunc rint nearbyint erf tgamma lgamma"),
        (2, "pow atan2 hypot fmod fdim copysign"),
        (3, "fma"),
    )
    for name in names.split()
}
# Generated code computes the values of loop variables in 32 bits; what is larger is computed in its own type.
LARGEST_INDEX = 2**31 - 1


def arguments_of(function: str) -> int:
    """Return how many arguments a function takes that is known to give a value of them alone, and to do nothing else; 0
    for others."""
    if function in (*tree.MAXIMA, *tree.MINIMA):
        return 2
    plain = function if function in FUNCTIONS else function.removesuffix("f")
    return 1 if function in ABSOLUTES else FUNCTIONS.get(plain, 0)


@dataclass(frozen=True, slots=True)
class Typed:
    """A value with its C type."""

    value: Expression
    kind: str

    def to(self, kind: str, *, written: bool = False) -> Typed:
        """Return the value in another type."""
        return self if kind == self.kind and not written else Typed(Convert(kind, self.value, written), kind)

    def promoted(self) -> Typed:
        """Return the value after integer promotion."""
        return self.to(promoted(self.kind))


@dataclass(slots=True)
class ValueReader:
    """Turns expressions into values by C's rules; collects their reads in textual order.

    access: the access of a variable or array element (Refused if it is none). type_of: a tensor's element type.
    """

    scope: Scope
    access: Callable[[tree.Name | tree.Item], Access]
    type_of: Callable[[str], str]
    reads: list[Access] = field(default_factory=list[Access])

    def fresh(self) -> ValueReader:
        """Return a new reader without reads."""
        return ValueReader(self.scope, self.access, self.type_of)

    def read(self, expression: tree.CExpression) -> Typed:
        """Return the value of the expression and its type."""
        counted = self._counted(expression) if is_integer(expression, self.scope) else None
        if counted is not None:
            return counted
        match expression:
            case tree.Literal(text, _, _, kind):
                return Typed(Number(text), kind)
            case tree.Name() | tree.Item():
                return self._element(expression)
            case tree.Unary("!", operand):
                return Typed(Apply("!", (self.read(operand).value,)), "int32")
            case tree.Unary("~", operand, line):
                return self._binary(expression, "-", tree.Unary("-", tree.Literal("1", 1, line), line), operand)
            case tree.Unary(operator, operand):
                inner = self.read(operand).promoted()
                return inner if operator == "+" else replace(inner, value=Apply("neg", (inner.value,)))
            case tree.Binary(operator, left, right):
                return self._binary(expression, operator, left, right)
            case tree.Choice(condition, then, other):
                return self._choice(expression, condition, then, other)
            case tree.Call(function, arguments):
                return self._call(expression, function, arguments)
            case tree.Cast(kind, operand, _, written):
                return self.read(operand).to(kind, written=written)

    def _element(self, place: tree.Name | tree.Item) -> Typed:
        access = self.access(place)
        self.reads.append(access)
        return Typed(Read(len(self.reads) - 1), self.type_of(access.tensor))

    def _counted(self, expression: tree.CExpression) -> Typed | None:
        """Return the value of an expression of integers only; None if its parts must be read one by one."""
        try:
            found = whole_of(expression, self.scope)
            seen(expression, found, self.scope)
        except tree.Refused:
            if isinstance(expression, tree.Literal | tree.Name):
                raise
            return None
        kind = found.kind
        if kind is None and self.scope.parameters is not None:
            kind = "int64"  # of a size without a declaration
        if kind is None:
            low, high = bounds(found.value, self.scope.extents)
            what = (
                f"{shown(tree.render(expression))} is used as data and reaches {high if abs(high) > abs(low) else low}"
            )
            raise tree.Refused("PM272", expression.line, what, "A long holds 64 bits.")
        if found.value.magnitude(self.scope.extents) > LARGEST_INDEX and not isinstance(
            expression, tree.Literal | tree.Name
        ):
            return None
        if found.value.terms:
            return Typed(Convert(kind, Index(found.value)), kind)
        return Typed(constant(found.value.constant, kind), kind)

    def _shift(
        self, expression: tree.CExpression, operator: str, left: tree.CExpression, right: tree.CExpression
    ) -> Typed:
        first = self.read(left).promoted()
        shift = whole_of(right, self.scope).value if is_integer(right, self.scope) else None
        if shift is None or shift.terms or first.kind in FLOATS or not 0 <= shift.constant < bits_of(first.kind):
            what = f"{shown(tree.render(expression))} shifts by no constant, or by more than there are bits"
            raise tree.Refused(
                "PM266", expression.line, what, "Integers shifted by a number less than their bits are read."
            )
        return Typed(Apply(operator, (first.value, constant(shift.constant, first.kind))), first.kind)

    def _binary(
        self, expression: tree.CExpression, operator: str, left: tree.CExpression, right: tree.CExpression
    ) -> Typed:
        if operator in ("/", "%") and isinstance(right, tree.Literal) and right.number == 0:
            raise tree.Refused("PM266", expression.line, f"{shown(tree.render(expression))} divides by zero")
        if operator in tree.SHIFTS:
            return self._shift(expression, operator, left, right)
        first, second = self.read(left), self.read(right)
        if operator in ("&&", "||"):
            return Typed(Apply(operator, (first.value, second.value)), "int32")
        kind = common(first.kind, second.kind)
        if operator in ("%", *tree.BITS) and kind in FLOATS:
            what = f"{shown(tree.render(expression))} takes a remainder, or bits, of fractions"
            raise tree.Refused("PM266", expression.line, what, "fmod and conversions to integers are read.")
        sides = (first.to(kind).value, second.to(kind).value)
        if operator in (">", ">="):
            return Typed(Apply({">": "<", ">=": "<="}[operator], sides[::-1]), "int32")
        return Typed(Apply(operator, sides), "int32" if operator in tree.COMPARISONS else kind)

    def _choice(
        self, whole: tree.Choice, condition: tree.CExpression, then: tree.CExpression, other: tree.CExpression
    ) -> Typed:
        if picks_maximum(whole) is not None:
            assert isinstance(condition, tree.Binary), "others pick neither"
            return self._extreme(condition, then, other)
        asked = self._asked(condition)
        yes, no = self.read(then), self.read(other)
        kind = common(yes.kind, no.kind)
        return Typed(Apply("?:", (asked.value, yes.to(kind).value, no.to(kind).value)), kind)

    def guarded(self, choice: tree.Choice, kind: str) -> Typed:
        """Return `condition ? then : other`, each side of which becomes `kind` by itself; compared ones read once."""
        condition = choice.condition
        if picks_maximum(choice) is not None and isinstance(condition, tree.Binary):
            return self._extreme(condition, choice.then, choice.other, kind)
        asked = self._asked(condition)
        sides = (self.read(each).to(kind).value for each in (choice.then, choice.other))
        return Typed(Apply("?:", (asked.value, *sides)), kind)

    def _asked(self, condition: tree.CExpression) -> Typed:
        """Return a condition as a truth value."""
        asked = self.read(condition)
        if isinstance(condition, tree.Binary) and condition.operator in (*tree.COMPARISONS, "&&", "||"):
            return asked
        return Typed(Apply("!=", (asked.value, Typed(constant(0, "int32"), "int32").to(asked.kind).value)), "int32")

    def _extreme(
        self, condition: tree.Binary, then: tree.CExpression, other: tree.CExpression, kind: str = ""
    ) -> Typed:
        """Return `condition ? then : other`, where both are the sides of the condition: each is read once. kind: of
        both, their common one without it."""
        left, right = (tree.render(each) for each in (condition.left, condition.right))
        sides = {left: self.read(condition.left), right: self.read(condition.right)}
        shared = common(sides[left].kind, sides[right].kind)
        pair = (sides[left].to(shared).value, sides[right].to(shared).value)
        is_turned = condition.operator in (">", ">=")
        sign = {">": "<", ">=": "<="}[condition.operator] if is_turned else condition.operator
        kind = kind or common(*(sides[tree.render(each)].kind for each in (then, other)))
        yes, no = (sides[tree.render(each)].to(kind).value for each in (then, other))
        return Typed(Apply("?:", (Apply(sign, pair[::-1] if is_turned else pair), yes, no)), kind)

    def _call(self, expression: tree.CExpression, function: str, arguments: tuple[tree.CExpression, ...]) -> Typed:
        is_extreme = function in (*tree.MAXIMA, *tree.MINIMA)
        if function in VALUE_MACROS:
            return Typed(Apply(function, tuple(self.read(each).value for each in arguments)), "float64")
        wanted = arguments_of(function)
        if not wanted:
            what = f"the function '{function}' is not known to be pure"
            hint = f"Known: fmax, fmin, {', '.join(sorted((*FUNCTIONS, *ABSOLUTES)))}."
            if function in ("floord", "ceild"):
                what = f"{shown(tree.render(expression))} rounds a quotient of data"
                hint = "floor(x / 3.0) is read, and of integers x % 3, where x reads an element."
            raise tree.Refused("PM266", expression.line, what, hint)
        if len(arguments) != wanted:
            what = f"'{function}' takes {wanted} arguments, not {len(arguments)}"
            raise tree.Refused("PM266", expression.line, what)
        if is_extreme and function not in tree.EXTREMES:  # a macro: (a) > (b) ? (a) : (b)
            left, right = arguments
            condition = tree.Binary(">" if function in tree.MAXIMA else "<", left, right, expression.line)
            return self._extreme(condition, left, right)
        kind = function_type(function)
        return Typed(Apply(function, tuple(self.read(each).to(kind).value for each in arguments)), kind)


def is_integer(expression: tree.CExpression, scope: Scope) -> bool:
    """Return whether the expression has only integer literals, constants, loop variables and integer operations."""
    match expression:
        case tree.Literal(_, number):
            return number is not None
        case tree.Name(name):
            return name in scope.integers or (name in scope.counters and name not in scope.variables)
        case tree.Binary() | tree.Unary():
            return all(is_integer(each, scope) for each in tree.parts(expression))
        case _:
            return False


def accumulation(
    target: tree.CExpression, value: tree.CExpression
) -> tuple[Operator, tree.CExpression, str | None] | None:
    """Return MAX or MIN and the other operand where `target = value` is `target = max(target, operand)`.

    The third is the type in which a function compares them, None if that is their common type.
    """
    own = tree.render(target)
    match value:
        case tree.Call(function, (left, right)) if function in (*tree.MAXIMA, *tree.MINIMA):
            operator = Operator.MAX if function in tree.MAXIMA else Operator.MIN
            compared = tree.EXTREMES.get(function)
        case tree.Choice(tree.Binary(_, left, right)):
            largest = picks_maximum(value)
            if largest is None:
                return None
            operator, compared = Operator.MAX if largest else Operator.MIN, None
        case _:
            return None
    texts = [tree.render(side) for side in (left, right)]
    if own not in texts:
        return None
    return operator, (left, right)[1 - texts.index(own)], compared


def with_target(operation: str, target: Typed, value: Typed) -> Typed:
    """Return `target operation value`, where the target becomes read 0 and the other reads move up by one."""
    kind = common(target.kind, value.kind)
    moved = replace(value, value=_moved(value.value))
    return Typed(Apply(operation, (target.to(kind).value, moved.to(kind).value)), kind).to(target.kind)


def _moved(value: Expression) -> Expression:
    return Read(value.access + 1) if isinstance(value, Read) else with_parts(value, _moved)
