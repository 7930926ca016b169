"""Integer expressions and conditions of C over loop variables and symbolic parameters, as isl functions and sets.

C's `/` and `%` truncate towards zero and become isl's truncating division. Overflow is not modelled: signed arithmetic
has none (C leaves it undefined), and programs with other types are read with their sizes fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import islpy as isl

from polymap.poly import CONTEXT
from polymap.workload.c import (
    FLOATS,
    Binary,
    Call,
    Cast,
    CExpression,
    Choice,
    Literal,
    Name,
    Unary,
    known_name,
    render,
)

_SET, _PARAM = isl.dim_type.set, isl.dim_type.param
_MAXIMA = ("max", "fmax", "fmaxf", "MAX", "imax")
_MINIMA = ("min", "fmin", "fminf", "MIN", "imin")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


class NotAffineError(Exception):
    """An expression that is not a quasi-affine function of loop variables and parameters; it does not leave this
    package.

    may_become: it is one once parameters have values.
    """

    def __init__(self, expression: CExpression, *, may_become: bool = False) -> None:
        super().__init__(render(expression))
        self.expression, self.may_become = expression, may_become


@dataclass(frozen=True, slots=True)
class Alias:
    """An integer that the program computes from loop variables: its expression, and the scope of its declaration."""

    expression: CExpression
    scope: Scope
    element_type: str


@dataclass(frozen=True, slots=True)
class Scope:
    """The meaning of names at a place of the program.

    depth: number of loops around it. names: loop variable -> its position among these, or an integer computed from
    them. data: names of the program's variables; other names are parameters. values: of fixed parameters.
    """

    depth: int
    names: Mapping[str, int | Alias]
    data: frozenset[str]
    values: Mapping[str, int]


def constant(number: int, depth: int) -> isl.PwAff:
    """Return a number as a constant function of `depth` loop variables."""
    local = isl.LocalSpace.from_space(isl.Space.set_alloc(CONTEXT, 0, depth))
    return isl.PwAff.from_aff(isl.Aff.val_on_domain(local, isl.Val(str(number), CONTEXT)))


def variable(position: int, depth: int) -> isl.PwAff:
    """Return the loop variable at a position as a function."""
    local = isl.LocalSpace.from_space(isl.Space.set_alloc(CONTEXT, 0, depth))
    return isl.PwAff.from_aff(isl.Aff.var_on_domain(local, _SET, position))


def parameter(name: str, depth: int) -> isl.PwAff:
    """Return a parameter as a function."""
    space = isl.Space.set_alloc(CONTEXT, 1, depth).set_dim_name(_PARAM, 0, name)
    return isl.PwAff.from_aff(isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), _PARAM, 0))


def value(expression: CExpression, scope: Scope) -> isl.PwAff:
    """Return an integer expression as a function of the loop variables around it. Raises NotAffineError."""
    match expression:
        case Literal(_, number) if number is not None:
            return constant(number, scope.depth)
        case Name(name):
            return _value_of_name(expression, name, scope)
        case Unary("-", operand):
            return value(operand, scope).neg()
        case Unary("+", operand):
            return value(operand, scope)
        case Cast(kind, operand) if kind not in FLOATS:
            return value(operand, scope)
        case Binary(operator, left, right) if operator in ("+", "-", "*", "/", "%"):
            return _operation(expression, operator, value(left, scope), value(right, scope))
        case Binary() | Unary():
            return condition(expression, scope).indicator_function()
        case Choice(test, then, other):
            holds = condition(test, scope)
            yes = value(then, scope).intersect_domain(holds)
            return yes.union_add(value(other, scope).intersect_domain(holds.complement())).coalesce()
        case Call(function, arguments) if function in _MAXIMA and len(arguments) == 2:
            return value(arguments[0], scope).max(value(arguments[1], scope))
        case Call(function, arguments) if function in _MINIMA and len(arguments) == 2:
            return value(arguments[0], scope).min(value(arguments[1], scope))
        case Call("abs" | "fabs", (operand,)):
            return value(operand, scope).max(value(operand, scope).neg())
        case Call("floord", (left, right)):
            return value(left, scope).div(value(right, scope)).floor()
        case Call("ceild", (left, right)):
            return value(left, scope).div(value(right, scope)).ceil()
        case _:
            raise NotAffineError(expression)


def _value_of_name(expression: CExpression, name: str, scope: Scope) -> isl.PwAff:
    meaning = scope.names.get(name)
    if isinstance(meaning, int):
        return variable(meaning, scope.depth)
    if meaning is not None:
        return value(meaning.expression, Scope(scope.depth, meaning.scope.names, scope.data, scope.values))
    if name in scope.data:
        raise NotAffineError(expression)
    known = known_size(name, scope.values)
    return parameter(name, scope.depth) if known is None else constant(known, scope.depth)


def known_size(name: str, values: Mapping[str, int]) -> int | None:
    """Return the value of a fixed parameter, also under PolyBench's prefix (_PB_N for N or n); None for other names."""
    known = known_name(name, values)
    return None if known is None else values[known]


def _operation(expression: CExpression, operator: str, left: isl.PwAff, right: isl.PwAff) -> isl.PwAff:
    if operator == "+":
        return left.add(right)
    if operator == "-":
        return left.sub(right)
    if operator == "*":
        if not (left.is_cst() or right.is_cst()):
            raise NotAffineError(expression, may_become=_is_fixed(left) or _is_fixed(right))
        return left.mul(right)
    if not right.is_cst() or right.is_equal(constant(0, right.dim(isl.dim_type.in_))):
        raise NotAffineError(expression, may_become=not right.is_cst() and _is_fixed(right))
    return left.tdiv_q(right) if operator == "/" else left.tdiv_r(right)


def _is_fixed(function: isl.PwAff) -> bool:
    """Return whether a function depends on parameters alone."""
    return not function.involves_dims(isl.dim_type.in_, 0, function.dim(isl.dim_type.in_))


def condition(expression: CExpression, scope: Scope) -> isl.Set:
    """Return the set on which a condition over loop variables and parameters holds. Raises NotAffineError."""
    match expression:
        case Unary("!", operand):
            return condition(operand, scope).complement()
        case Binary("&&", left, right):
            return condition(left, scope).intersect(condition(right, scope))
        case Binary("||", left, right):
            return condition(left, scope).union(condition(right, scope)).coalesce()
        case Binary(operator, left, right) if operator in COMPARISONS:
            one, two = value(left, scope), value(right, scope)
            match operator:
                case "<":
                    return one.lt_set(two)
                case "<=":
                    return one.le_set(two)
                case ">":
                    return one.gt_set(two)
                case ">=":
                    return one.ge_set(two)
                case "==":
                    return one.eq_set(two)
                case _:
                    return one.ne_set(two)
        case _:
            return value(expression, scope).non_zero_set()
