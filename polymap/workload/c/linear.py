"""Integer expressions of C as sums: terms in one order with integer factors, so that equal sums are equal values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import reduce

from polymap.workload.c import tree
from polymap.workload.c.types import ABSOLUTES, FLOATS

_FUNCTIONS = (*tree.MAXIMA, *tree.MINIMA, *ABSOLUTES, "floord", "ceild")


class KeptError(Exception):  # never leaves the C front end: the variable stays
    """A variable that is used otherwise than those are that are replaced: expressions of loop counters, or places in
    one array."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class NotStaticError(Exception):
    """An expression that is not computed from loop variables and sizes; it does not leave this package."""


@dataclass(frozen=True, slots=True)
class Linear:
    """constant + the sum of factor * term. terms: text -> (factor, term), no factor 0, sorted by text."""

    terms: tuple[tuple[str, int, tree.CExpression], ...]
    constant: int = 0

    def __add__(self, other: Linear) -> Linear:
        found = {text: (factor, term) for text, factor, term in self.terms}
        for text, factor, term in other.terms:
            found[text] = (found.get(text, (0, term))[0] + factor, term)
        kept = tuple((text, factor, term) for text, (factor, term) in sorted(found.items()) if factor)
        return Linear(kept, self.constant + other.constant)

    def __sub__(self, other: Linear) -> Linear:
        return self + other.times(-1)

    def times(self, factor: int) -> Linear:
        """Return a multiple."""
        if factor == 0:
            return Linear(())
        return Linear(tuple((text, own * factor, term) for text, own, term in self.terms), self.constant * factor)

    @property
    def names(self) -> frozenset[str]:
        """The names that occur in it."""
        return frozenset[str]().union(*(tree.names_of(term) for _, _, term in self.terms))

    def expression(self, line: int) -> tree.CExpression:
        """Return the sum as C, what is added first."""
        whole: tree.CExpression | None = None
        for _, factor, term in sorted(self.terms, key=lambda each: each[1] < 0):
            part = term if abs(factor) == 1 else tree.Binary("*", number(abs(factor), line), term, line)
            if whole is None:
                whole = part if factor > 0 else tree.Unary("-", part, line)
            else:
                whole = tree.Binary("+" if factor > 0 else "-", whole, part, line)
        if whole is None:
            return number(self.constant, line)
        if self.constant == 0:
            return whole
        return tree.Binary("+" if self.constant > 0 else "-", whole, number(abs(self.constant), line), line)


def number(value: int, line: int) -> tree.CExpression:
    """Return an integer as C."""
    literal = tree.Literal(str(abs(value)), abs(value), line)
    return literal if value >= 0 else tree.Unary("-", literal, line)


def term(expression: tree.CExpression) -> Linear:
    """Return an expression as a sum of one term."""
    return Linear(((tree.render(expression), 1, expression),))


def product(left: Linear, right: Linear, line: int) -> Linear:
    """Return the product, multiplied out."""
    found = left.times(right.constant) + right.times(left.constant) - Linear((), left.constant * right.constant)
    for _, one, first in left.terms:
        for _, other, second in right.terms:
            found += term(tree.Binary("*", first, second, line)).times(one * other)
    return found


def linear(expression: tree.CExpression, values: Mapping[str, Linear], is_data: Callable[[str], bool]) -> Linear:
    """Return an integer expression as a sum. values: of names; is_data: whether a name stands for data.

    Raises NotStaticError for data, fractions and functions.
    """

    def own(part: tree.CExpression) -> Linear:
        return linear(part, values, is_data)

    def inside(part: tree.CExpression) -> tree.CExpression:
        return own(part).expression(part.line)

    match expression:
        case tree.Literal(_, value, _, "int32" | "int64") if value is not None:
            return Linear((), value)
        case tree.Name(name):
            if name in values:
                return values[name]
            if is_data(name):
                raise NotStaticError
            return term(expression)
        case tree.Unary("-" | "+" as sign, operand):
            return own(operand).times(-1 if sign == "-" else 1)
        case tree.Binary("+", left, right):
            return own(left) + own(right)
        case tree.Binary("-", left, right):
            return own(left) - own(right)
        case tree.Binary("*", left, right, line):
            return product(own(left), own(right), line)
        case tree.Binary("/" | "%", left, right, line):
            return _divided(expression.operator, own(left), own(right), line)
        case tree.Choice(condition, then, other):
            return chosen(inside(condition), own(then), own(other))
        case tree.Binary(operator) if operator in (*tree.COMPARISONS, *tree.BITS, "&&", "||"):
            return term(tree.rebuilt(expression, inside))
        case tree.Unary("!" | "~"):
            return term(tree.rebuilt(expression, inside))
        case tree.Call(function) if function in _FUNCTIONS:
            return term(tree.rebuilt(expression, inside))
        case tree.Cast(kind) if kind not in FLOATS:
            return term(tree.rebuilt(expression, inside))
        case _:
            raise NotStaticError


def _divided(operator: str, left: Linear, right: Linear, line: int) -> Linear:
    if not left.terms and not right.terms and right.constant:
        quotient = abs(left.constant) // abs(right.constant)
        quotient = quotient if (left.constant < 0) == (right.constant < 0) else -quotient
        return Linear((), quotient if operator == "/" else left.constant - quotient * right.constant)
    if operator == "/" and right == Linear((), 1):
        return left
    return term(tree.Binary(operator, left.expression(line), right.expression(line), line))


def strides_of(whole: Linear, sizes: Collection[str]) -> tuple[str, ...]:
    """Return the sizes by which a sum is one over rows, the last axis first: `(i * m + j) * n + k` -> n, m.

    () where it has no product of a size, or no size is a factor of all its products.
    """
    products = [factors for factors in map(_factors, whole.terms) if len(factors) > 1]
    if not products:
        return ()
    for name in sorted(set(sizes).intersection(*products)):
        row, _ = by_rows(whole, name)
        return (name, *strides_of(row, sizes))
    return ()


def by_rows(whole: Linear, size: str, *, alone: bool = True) -> tuple[Linear, Linear]:
    """Return (row, rest) with whole = row * size + rest. alone: whether multiples of the size count as rows."""
    row, rest = Linear(()), Linear((), whole.constant)
    for each in whole.terms:
        _, factor, part = each
        factors = _factors(each)
        if size not in factors or (len(factors) == 1 and not alone):
            rest += Linear((each,))
            continue
        others = list(factors.values())
        others.pop(list(factors).index(size))
        more = Linear((), 1) if not others else term(reduce(lambda a, b: tree.Binary("*", a, b, part.line), others))
        row += more.times(factor)
    return row, rest


def _factors(each: tuple[str, int, tree.CExpression]) -> dict[str, tree.CExpression]:
    """Return the factors of a term by their text; of one with a square, the term alone."""
    waiting, found = [each[2]], list[tree.CExpression]()
    while waiting:
        one = waiting.pop()
        if isinstance(one, tree.Binary) and one.operator == "*":
            waiting += [one.right, one.left]
        else:
            found.append(one)
    table = {tree.render(one): one for one in found}
    return table if len(table) == len(found) else {each[0]: each[2]}


def chosen(condition: tree.CExpression, then: Linear, other: Linear) -> Linear:
    """Return `condition ? then : other`."""
    known = outcome(condition)
    if known is not None or then == other:
        return other if known is False else then
    return term(
        tree.Choice(condition, then.expression(condition.line), other.expression(condition.line), condition.line)
    )


def outcome(condition: tree.CExpression) -> bool | None:
    """Return the truth of a comparison whose sides differ by a constant, None for others."""
    if not isinstance(condition, tree.Binary) or condition.operator not in tree.COMPARISONS:
        return None
    try:
        left, right = (linear(each, {}, lambda _: False) for each in (condition.left, condition.right))
    except NotStaticError:
        return None
    gap = left - right
    if gap.terms:
        return None
    value = gap.constant
    return {
        "<": value < 0, "<=": value <= 0, ">": value > 0, ">=": value >= 0, "==": value == 0, "!=": value != 0
    }[condition.operator]  # fmt: skip
