"""Integer expressions and conditions of C as quasi-affine expressions of loop counters, with C's exact meaning.

C's / and % truncate towards zero, floors do not. If the sign of the left side is unknown, the sign itself is written as
a floor: for |x| < m, floor(x / m) is -1 if x is negative and 0 otherwise. Conditions with "or" become one constraint,
and truth values numbers, in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

from polymap.inputs import shown
from polymap.ir import Affine, bounds, did_you_mean, dim, quotient
from polymap.poly import Counter, Frame, Set, budget, integer_set
from polymap.workload.c import tree
from polymap.workload.c.types import (
    FLOATS,
    SPELLING,
    bits_of,
    common,
    holds,
    is_unsigned,
    keeps_values,
    limits,
    promoted,
)


@dataclass(frozen=True, slots=True)
class Scope:
    """The meaning of names at an expression.

    integers: constants, loop variables and integers computed from them; types: theirs. extents: of all loop counters
    (dims) known; constraints: what holds for them here. variables: names that stand for data. counters: the names of
    all loop variables of the program; changed: of all variables that the program sets. parameters: the dims that stand
    for sizes without a value; None where every size has one. With parameters a dim ranges over its C type, and signed
    arithmetic is taken not to overflow: C leaves that undefined. assume: takes the values of the sizes for which
    something would wrap around, and tells whether it may be assumed that they do not occur; None where nothing may be.
    excluded: whether that is assumed already; None where nothing is.
    """

    integers: Mapping[str, Affine]
    types: Mapping[str, str | None]
    extents: Mapping[str, int]
    constraints: tuple[Affine, ...]
    variables: frozenset[str]
    counters: frozenset[str]
    changed: frozenset[str] = frozenset()
    parameters: frozenset[str] | None = None
    assume: Callable[[Set], bool] | None = None
    excluded: Callable[[Set], bool] | None = None

    def assumes(self, *outside: Affine) -> bool:
        """Return whether it is assumed that no instance satisfies one of these constraints (each >= 0)."""
        asked = [each for each in (self.excluded, self.assume) if each is not None]
        if not asked or not outside:  # none: every instance does
            return False
        used = frozenset(name for each in (*self.constraints, *outside) for name in each.dims)
        wrong = reduce(Set.union, (self._sizes_with(each, used) for each in outside))
        if not wrong.is_empty() and self._sizes_with(Affine(), used).is_subset(wrong):  # nothing would run
            return False
        return any(each(wrong) for each in asked)

    def _sizes_with(self, constraint: Affine, used: frozenset[str]) -> Set:
        """Return the sizes, inside their types, for which some instance satisfies a constraint. used: names of all."""
        sizes = [name for name in sorted(used) if name in (self.parameters or ())]
        counters = tuple(Counter(name, name, 0, 1) for name in sorted(used) if name not in sizes)
        own = tuple(Counter(name, name, limits(self.types.get(name) or "int64")[0], 1) for name in sizes)
        box = [each for name in sizes for each in (dim(name), -dim(name) + (self.extents[name] - 1))]
        with budget(what="for which sizes an integer stays in the range of its type"):
            return Frame("", counters, own, self.extents).points((*self.constraints, constraint, *box)).params()

    def excludes(self, constraint: Affine) -> bool:
        """Return whether no instance satisfies a constraint (>= 0)."""
        names = list(dict.fromkeys(name for each in (constraint, *self.constraints) for name in each.dims))
        box = [(name, self.extents[name]) for name in names]
        with budget(what="whether an integer stays in the range of its type"):
            return integer_set("", box, (*self.constraints, constraint)).is_empty()


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer and the C type in which it is computed (None: a name without a declaration, never too large).

    If the type is unsigned, C's value is this one modulo 2^bits; values that wrap are refused where that has an effect.
    """

    value: Affine
    kind: str | None


def affine_of(expression: tree.CExpression, scope: Scope) -> Affine:
    """Return the integer expression in terms of loop counters; Refused if it is none, or overflows its C type."""
    return seen(expression, whole_of(expression, scope), scope)


def whole_of(expression: tree.CExpression, scope: Scope) -> Whole:
    """Return the integer expression with its type; Refused if it is none."""
    match expression:
        case tree.Literal(text, number, line, kind):
            if number is None:
                raise tree.Refused(
                    "PM264", line, f"{shown(text)} is no integer", "Loops and subscripts count in integers."
                )
            return Whole(Affine((), number), kind)
        case tree.Name(name, line):
            return _named(name, line, scope)
        case tree.Unary("-", operand):
            inner = _promoted(operand, scope)
            return _sound(expression, replace(inner, value=-inner.value), scope)
        case tree.Unary("+", operand):
            return _promoted(operand, scope)
        case tree.Unary("~", operand):
            inner = _promoted(operand, scope)
            return _sound(expression, replace(inner, value=-inner.value - 1), scope)
        case tree.Cast(kind, operand) if kind not in FLOATS:
            return converted(operand, whole_of(operand, scope), kind, scope)
        case tree.Binary("+" | "-" | "*" | "/" | "%", left, right):
            return _operation(expression, *_alike(left, right, scope), scope)
        case tree.Binary("<<" | ">>"):
            return _shifted(expression, scope)
        case tree.Binary("&" | "|" | "^", left, right):
            return _masked(expression, *_alike(left, right, scope), scope)
        case tree.Binary() | tree.Unary():
            return Whole(truth(formula_of(expression, scope), scope.extents), "int32")
        case tree.Choice(condition, then, other):
            first, second = _alike(then, other, scope)
            value = _choice(expression, formula_of(condition, scope), first.value, second.value, scope)
            return Whole(value, first.kind)
        case tree.Call(("floord" | "ceild") as function, (left, right)):
            return Whole(_rounded(expression, function, affine_of(left, scope), affine_of(right, scope)), "int32")
        case tree.Item() | tree.Call() | tree.Cast():
            what = f"{shown(tree.render(expression))} is not affine: it depends on data"
            raise tree.Refused("PM262", expression.line, what, "Sums of loop variables are: mark a region without it.")


def _promoted(operand: tree.CExpression, scope: Scope) -> Whole:
    inner = whole_of(operand, scope)
    return converted(operand, inner, None if inner.kind is None else promoted(inner.kind), scope)


def seen(expression: tree.CExpression, whole: Whole, scope: Scope) -> Affine:
    """Return the value; Refused if it does not fit the type in some instance."""
    if whole.kind is None or (scope.parameters is not None and not is_unsigned(whole.kind)):
        return whole.value
    return _checked(expression, whole.value, whole.kind, scope)


def _checked(expression: tree.CExpression, value: Affine, kind: str, scope: Scope) -> Affine:
    """Return the value; Refused if it does not fit the type in some instance."""
    least, largest = limits(kind)
    if fits(value, kind, scope) or scope.assumes(value - largest - 1, -value + (least - 1)):
        return value
    low, high = bounds(value, scope.extents)
    found, spelling = low if low < least else high, SPELLING[kind]
    what = f"{shown(tree.render(expression))} reaches {found}, which '{spelling}' does not hold"
    wraps = "It would wrap around." if is_unsigned(kind) else "What happens then is undefined in C."
    if scope.parameters is not None:
        what = f"{shown(tree.render(expression))} may reach what '{spelling}' does not hold"
        wraps = "Values for its sizes (N=8) may exclude that."
    raise tree.Refused("PM272", expression.line, what, f"{wraps} Use a wider or a signed type.")


def fits(value: Affine, kind: str, scope: Scope) -> bool:
    """Return whether the type holds the value in every instance."""
    if holds(kind, *bounds(value, scope.extents)):
        return True
    least, largest = limits(kind)
    return all(scope.excludes(outside) for outside in (value - largest - 1, -value + (least - 1)))


def converted(expression: tree.CExpression, whole: Whole, kind: str | None, scope: Scope) -> Whole:
    """Return the value converted to another type; Refused if that could change the result."""
    if whole.kind is None or whole.kind == kind:
        return whole
    if is_unsigned(whole.kind):
        seen(expression, whole, scope)
    if (
        scope.parameters is not None
        and kind is not None
        and not is_unsigned(kind)
        and not keeps_values(whole.kind, kind)
    ):
        _checked(expression, whole.value, kind, scope)
    return _sound(expression, Whole(whole.value, kind), scope)


def _sound(expression: tree.CExpression, whole: Whole, scope: Scope) -> Whole:
    """Return the value; Refused if it overflows a signed type. Unsigned values wrap, which may have no effect."""
    if whole.kind is not None and not is_unsigned(whole.kind):
        seen(expression, whole, scope)
    return whole


def _alike(left: tree.CExpression, right: tree.CExpression, scope: Scope) -> tuple[Whole, Whole]:
    """Return both values in the type in which C computes with them."""
    return _matched(left, whole_of(left, scope), right, whole_of(right, scope), scope)


def _matched(
    left: tree.CExpression, one: Whole, right: tree.CExpression, two: Whole, scope: Scope
) -> tuple[Whole, Whole]:
    kind = None if one.kind is None or two.kind is None else common(one.kind, two.kind)
    return converted(left, one, kind, scope), converted(right, two, kind, scope)


def _operation(expression: tree.Binary, left: Whole, right: Whole, scope: Scope) -> Whole:
    match expression.operator:
        case "+":
            value = left.value + right.value
        case "-":
            value = left.value - right.value
        case "*":
            value = _product(expression, left.value, right.value, scope)
        case _:
            first, second = seen(expression.left, left, scope), seen(expression.right, right, scope)
            value = _division(expression, first, second, scope)
    return _sound(expression, Whole(value, left.kind), scope)


def _named(name: str, line: int, scope: Scope) -> Whole:
    known = known_name(name, scope.integers)
    if known is not None:
        return Whole(scope.integers[known], scope.types.get(known))
    if name in scope.counters:
        raise outside_its_loop(name, line)
    if name in scope.changed:
        what = f"'{name}' is no sum of loop variables here"
        hint = "Its value depends on data, or changes by no constant amount: mark a region without it."
    elif name in scope.variables:
        what = f"'{name}' has no value that is known here"
        hint = f"Give its size ({name}=8) if it is one; loops and subscripts may not depend on data."
    else:
        what, hint = (
            f"'{name}' is not known",
            f"{did_you_mean(name, tuple(scope.integers))} Or give its size: {name}=8.",
        )
    raise tree.Refused("PM265", line, what, hint.strip())


def outside_its_loop(name: str, line: int) -> tree.Refused:
    """Return that a loop variable is read where no loop counts it."""
    hint = "Orders of its loops leave no value for it there: write the value that it has instead."
    return tree.Refused("PM265", line, f"the loop variable '{name}' is used outside its loop", hint)


def known_name(name: str, integers: Mapping[str, object]) -> str | None:
    """Return the known integer that a name denotes, also with PolyBench's prefix: _PB_N is N or n; None for others."""
    bare = name.removeprefix("_PB_")
    spellings = (name,) if bare == name else (name, bare, bare.lower())
    return next((each for each in spellings if each in integers), None)


def _product(expression: tree.CExpression, left: Affine, right: Affine, scope: Scope) -> Affine:
    if not left.terms:
        return right * left.constant
    if not right.terms:
        return left * right.constant
    what = f"the product {shown(tree.render(expression))} of two loop variables is not affine"
    hint = "One side of a product must be a constant."
    sizes = scope.parameters or frozenset()
    if any(sizes.issuperset(side.dims) for side in (left, right)):
        what, hint = _not_affine(expression)
    raise tree.Refused("PM262", expression.line, what, hint)


def _not_affine(expression: tree.CExpression) -> tuple[str, str]:
    """Return what is said of an expression that becomes affine once sizes have values."""
    what = f"{shown(tree.render(expression))} is no sum of loop variables and sizes"
    return what, "With values for its sizes (N=8) it may become one."


def _division(expression: tree.CExpression, left: Affine, right: Affine, scope: Scope) -> Affine:
    assert isinstance(expression, tree.Binary)
    if right.terms or right.constant == 0:
        what = f"{shown(tree.render(expression))} {'divides by zero' if not right.terms else 'is not affine'}"
        hint = "Divide by a constant."
        if right.terms and scope.parameters is not None and scope.parameters.issuperset(right.dims):
            what, hint = _not_affine(expression)
        raise tree.Refused("PM262", expression.line, what, hint)
    divisor = abs(right.constant)
    quotient = _cut(left, divisor, scope)
    if expression.operator == "%":
        return left - quotient * divisor
    return quotient if right.constant > 0 else -quotient


def _shifted(expression: tree.Binary, scope: Scope) -> Whole:
    """Return a shift by a constant; that of a negative integer to the right rounds down, as gcc and clang do."""
    whole, by = _promoted(expression.left, scope), affine_of(expression.right, scope)
    if by.terms or not 0 <= by.constant < (32 if whole.kind is None else bits_of(whole.kind)):
        what = f"{shown(tree.render(expression))} shifts by no constant, or by more than there are bits"
        raise tree.Refused("PM262", expression.line, what, "Shift by a number less than the bits of the integer.")
    if expression.operator == "<<":
        return _sound(expression, replace(whole, value=whole.value * 2**by.constant), scope)
    return replace(whole, value=quotient(seen(expression.left, whole, scope), 2**by.constant))


def _masked(expression: tree.Binary, left: Whole, right: Whole, scope: Scope) -> Whole:
    """Return `x & 3` as x modulo 4; others only of constants."""
    one, other = seen(expression.left, left, scope), seen(expression.right, right, scope)
    one, other = (other, one) if not one.terms else (one, other)
    if not one.terms and not other.terms:
        bits = {"&": int.__and__, "|": int.__or__, "^": int.__xor__}[expression.operator]
        return replace(left, value=Affine((), bits(one.constant, other.constant)))
    modulus = other.constant + 1
    if other.terms or expression.operator != "&" or modulus < 1 or modulus & other.constant:
        what = f"{shown(tree.render(expression))} is not affine"
        raise tree.Refused("PM262", expression.line, what, "x & 1, x & 3, x & 7 and so on are.")
    return replace(left, value=one - quotient(one, modulus) * modulus)


def _cut(value: Affine, divisor: int, scope: Scope) -> Affine:
    """Return value / divisor, truncated towards zero."""
    low, high = bounds(value, scope.extents)
    is_open = scope.parameters is not None
    if low >= 0 or (is_open and scope.excludes(-value - 1)):
        return quotient(value, divisor)
    if high <= 0 or (is_open and scope.excludes(value - 1)):
        return -quotient(-value, divisor)
    negative = -quotient(value, max(high, -low) + 1)
    return quotient(value + negative * (divisor - 1), divisor)


def _rounded(expression: tree.CExpression, function: str, left: Affine, right: Affine) -> Affine:
    if right.terms or right.constant <= 0:
        raise tree.Refused(
            "PM262", expression.line, f"{shown(tree.render(expression))} is not affine", "Divide by a constant."
        )
    return quotient(left + (right.constant - 1 if function == "ceild" else 0), right.constant)


def _choice(expression: tree.CExpression, condition: Formula, then: Affine, other: Affine, scope: Scope) -> Affine:
    difference = then - other
    if difference.terms:
        what = f"{shown(tree.render(expression))} is not affine"
        raise tree.Refused("PM262", expression.line, what, "Both sides of ?: may differ by a constant here.")
    return other + truth(condition, scope.extents) * difference.constant


def rules_of(scope: Scope) -> tree.Rules:
    """Return what is told of conditions and subscripts of loop counters alone in a scope; other names are data."""
    scope = replace(scope, assume=None)

    def is_read(read: Callable[[tree.CExpression, Scope], object], expression: tree.CExpression) -> bool:
        try:
            read(expression, scope)
        except tree.Refused:
            return False
        return True

    def kind(place: tree.Name | tree.Item) -> str | None:
        known = known_name(place.name, scope.integers) if isinstance(place, tree.Name) else None
        return None if known is None else scope.types.get(known)

    return tree.Rules(
        partial(is_read, formula_of),
        partial(is_read, whole_of),
        lambda name: known_name(name, scope.integers) is None,
        kind,
    )


def formula_of(expression: tree.CExpression, scope: Scope) -> Formula:
    """Return the condition as a formula over loop counters; Refused if it depends on anything else.

    Where an integer in it is a `?:`, a maximum or a minimum, it holds by pieces: of each side where that is chosen.
    """
    try:
        return _formula(expression, scope)
    except tree.Refused:
        rules = rules_of(scope)
        condition = tree.piecewise_condition(expression, rules)
        if condition is None:
            raise
    first = formula_of(condition, scope)
    pieces: list[Formula] = []
    for is_true, where in ((True, first), (False, negation(first))):
        rest = tree.decided_expression(expression, condition, rules, holds=is_true)
        pieces.append(Every((where, formula_of(rest, _where(where, scope)))))
    return Some(tuple(pieces))


def _formula(expression: tree.CExpression, scope: Scope) -> Formula:
    match expression:
        case tree.Unary("!", operand):
            return negation(formula_of(operand, scope))
        case tree.Binary("&&", left, right):
            first = formula_of(left, scope)
            return Every((first, formula_of(right, _where(first, scope))))
        case tree.Binary("||", left, right):
            first = formula_of(left, scope)
            return Some((first, formula_of(right, _where(negation(first), scope))))
        case tree.Binary(operator, left, right) if operator in tree.COMPARISONS:
            return _comparison(operator, left, right, scope)
        case _:
            value = affine_of(expression, scope)
            return negation(is_zero(value))


def _where(formula: Formula, scope: Scope) -> Scope:
    """Return the scope restricted to instances in which the formula holds."""
    found = constraints_of(formula, scope.extents)
    return scope if found is None else replace(scope, constraints=(*scope.constraints, *found))


def _comparison(operator: str, left: tree.CExpression, right: tree.CExpression, scope: Scope) -> Formula:
    if operator in (">", ">="):
        return _comparison({">": "<", ">=": "<="}[operator], right, left, scope)
    if operator in ("==", "!="):
        equal = is_zero(_gap(left, whole_of(left, scope), right, whole_of(right, scope), scope))
        return equal if operator == "==" else negation(equal)
    strict = 1 if operator == "<" else 0
    # left < right: every value that the left is the maximum of, and so on.
    for side, join in ((True, Every), (False, Some)):
        lows = extremes(left, scope, maximum=side)
        highs = extremes(right, scope, maximum=not side)
        if len(lows) > 1 or len(highs) > 1:
            lows = lows if len(lows) > 1 else [whole_of(left, scope)]
            highs = highs if len(lows) == 1 else [whole_of(right, scope)]
            return join(tuple(Atom(_gap(left, a, right, b, scope) - strict) for a in lows for b in highs))
    return Atom(_gap(left, whole_of(left, scope), right, whole_of(right, scope), scope) - strict)


def _gap(left: tree.CExpression, low: Whole, right: tree.CExpression, high: Whole, scope: Scope) -> Affine:
    """Return right minus left, both converted as C converts them for a comparison."""
    one, two = _matched(left, low, right, high, scope)
    return seen(right, two, scope) - seen(left, one, scope)


def extremes(expression: tree.CExpression, scope: Scope, *, maximum: bool) -> list[Whole]:
    """Return the operands of an expression that is a maximum (minimum), else the expression alone; none where one of
    the operands is the other extreme."""
    match expression:
        case tree.Call(function, arguments) if function in (tree.MAXIMA if maximum else tree.MINIMA):
            return _compared(arguments, scope, maximum=maximum)
        case tree.Choice(tree.Binary(operator, left, right), then, other) if (
            _picks(operator, left, right, then, other) is maximum
        ):
            return _compared((then, other), scope, maximum=maximum)
        case tree.Binary("+", left, right):
            ones, twos = extremes(left, scope, maximum=maximum), extremes(right, scope, maximum=maximum)
            return [_operation(expression, *_matched(left, a, right, b, scope), scope) for a in ones for b in twos]
        case tree.Binary("-", left, right):
            ones, offset = extremes(left, scope, maximum=maximum), whole_of(right, scope)
            return [_operation(expression, *_matched(left, a, right, offset, scope), scope) for a in ones]
        case tree.Call(function, _) if function in (*tree.MAXIMA, *tree.MINIMA):
            return []
        case tree.Choice():
            picked = None
            if isinstance(expression.condition, tree.Binary):
                condition = expression.condition
                picked = _picks(condition.operator, condition.left, condition.right, expression.then, expression.other)
            return [whole_of(expression, scope)] if picked is None else []
        case _:
            return [whole_of(expression, scope)]


def _compared(operands: Sequence[tree.CExpression], scope: Scope, *, maximum: bool) -> list[Whole]:
    """Return values that C compares with each other, in the type in which it does (none: extremes); Refused if one
    could wrap around."""
    parts = [[(each, value) for value in extremes(each, scope, maximum=maximum)] for each in operands]
    sides = [pair for own in parts for pair in own] if all(parts) else []
    kinds = [whole.kind for _, whole in sides]
    known = [kind for kind in kinds if kind is not None]
    kind = reduce(common, known) if known and len(known) == len(kinds) else None
    found = [converted(each, whole, kind, scope) for each, whole in sides]
    return [replace(whole, value=seen(each, whole, scope)) for (each, _), whole in zip(sides, found, strict=True)]


def _picks(
    operator: str, left: tree.CExpression, right: tree.CExpression, then: tree.CExpression, other: tree.CExpression
) -> bool | None:
    """Return True if `left op right ? then : other` is the maximum of both, False if the minimum, None if neither."""
    if operator not in ("<", "<=", ">", ">="):
        return None
    pair = (tree.render(left), tree.render(right))
    smaller_first = operator in ("<", "<=")
    if (tree.render(then), tree.render(other)) == pair:
        return not smaller_first
    if (tree.render(other), tree.render(then)) == pair:
        return smaller_first
    return None


def picks_maximum(expression: tree.Choice) -> bool | None:
    """Return True for a ?: that is the maximum of its sides, False for the minimum, None for any other."""
    condition = expression.condition
    if not isinstance(condition, tree.Binary):
        return None
    return _picks(condition.operator, condition.left, condition.right, expression.then, expression.other)


@dataclass(frozen=True, slots=True)
class Atom:
    """expression >= 0."""

    expression: Affine


@dataclass(frozen=True, slots=True)
class Every:
    """All parts hold (none: true)."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one part holds (none: false)."""

    parts: tuple[Formula, ...]


Formula = Atom | Every | Some


def is_zero(value: Affine) -> Formula:
    """Return the formula that holds where the value is 0."""
    return Every((Atom(value), Atom(-value)))


def negation(formula: Formula) -> Formula:
    """Return the negation of the formula."""
    match formula:
        case Atom(expression):
            return Atom(-expression - 1)
        case Every(parts):
            return Some(tuple(negation(part) for part in parts))
        case Some(parts):
            return Every(tuple(negation(part) for part in parts))


def constraints_of(formula: Formula, extents: Mapping[str, int]) -> tuple[Affine, ...] | None:
    """Return expressions that are all >= 0 if and only if the formula holds; None if it never holds."""
    formula = _simplified(formula, extents)
    match formula:
        case Atom(expression):
            return (expression,)
        case Every(parts):
            lists = [constraints_of(part, extents) for part in parts]
            return tuple(each for listed in lists if listed is not None for each in listed)
        case Some(()):
            return None
        case Some():
            return (truth(formula, extents) - 1,)


def _simplified(formula: Formula, extents: Mapping[str, int]) -> Formula:
    """Return the formula without parts that are constant over the box."""
    match formula:
        case Atom(expression):
            low, high = bounds(expression, extents)
            return Every(()) if low >= 0 else Some(()) if high < 0 else formula
        case Every(parts):
            kept = [part for part in (_simplified(each, extents) for each in parts) if part != Every(())]
            return Some(()) if Some(()) in kept else kept[0] if len(kept) == 1 else Every(tuple(kept))
        case Some(parts):
            kept = [part for part in (_simplified(each, extents) for each in parts) if part != Some(())]
            return Every(()) if Every(()) in kept else kept[0] if len(kept) == 1 else Some(tuple(kept))


def truth(formula: Formula, extents: Mapping[str, int]) -> Affine:
    """Return the formula's truth value (1 or 0) as a quasi-affine expression over the box."""
    match formula:
        case Atom(expression):
            low, high = bounds(expression, extents)
            if low >= 0 or high < 0:
                return Affine((), int(low >= 0))
            return quotient(expression, max(high, -low) + 1) + 1
        case Every(parts):
            total = _total(parts, extents)
            return quotient(total - len(parts), max(len(parts), 1)) + 1
        case Some(parts):
            total = _total(parts, extents)
            return quotient(total + (len(parts) - 1), len(parts)) if parts else Affine()


def _total(parts: tuple[Formula, ...], extents: Mapping[str, int]) -> Affine:
    total = Affine()
    for part in parts:
        total = total + truth(part, extents)
    return total
