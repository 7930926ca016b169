"""Sums of arithmetic progressions whose strides and counts are expressions: sizes and overlaps, with conditions.

A comparison is decided at one point, the mapping's own tiles, and noted as a condition of what follows from it.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
# (sympy's own annotations are partial)

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import cast

from sympy import Abs, Eq, Expr, Ge, Gt, Integer, Le, Lt, Mod, Ne, Not, Poly, Symbol, cancel, false, true
from sympy.logic.boolalg import Boolean

from polymap.costmodel.tuning import TUNING
from polymap.ir import BudgetError, Mistake

Steps = list[tuple[Expr, Expr]]  # (stride, count) of {0, stride, ..., (count - 1) * stride}

ZERO: Expr = Integer(0)
ONE: Expr = Integer(1)


def no_formula_error(what: str) -> BudgetError:
    """Return the error of counts that have no formula here."""
    return BudgetError(Mistake("PM495", f"no formula: {what}", "Evaluate the mapping: its counts are exact."))


@dataclass(slots=True)
class Region:
    """Where in the space of tiles a formula holds: around the point, as far as every comparison made goes the same."""

    point: dict[Symbol, int]
    conditions: dict[Boolean, None] = field(default_factory=dict[Boolean, None])

    def value(self, expression: Expr) -> int:
        """Return an expression's integer at the point."""
        return int(expression.subs(list(self.point.items())))

    def holds(self, relation: Boolean) -> bool:
        """Return whether the relation holds at the point; it, or its opposite, becomes a condition."""
        if relation in (true, false):
            return relation == true
        found = relation.subs(list(self.point.items())) == true
        self.conditions[relation if found else Not(relation)] = None
        return found

    def less(self, one: Expr, other: Expr) -> bool:
        """Return whether one < other."""
        return self.holds(Gt(cancel(other - one), ZERO))

    def divides(self, part: Expr, whole: Expr) -> bool:
        """Return whether whole is a multiple of part (at the tiles that the formula speaks of, both are integers)."""
        quotient = cancel(whole / part)
        return _is_integral(quotient) or self.holds(Eq(Mod(whole, part), ZERO))


def _is_integral(expression: Expr) -> bool:
    """Return whether an expression is a polynomial with integer coefficients."""
    symbols = sorted(expression.free_symbols, key=str)
    if not symbols:
        return bool(expression.is_integer)
    if not expression.is_polynomial(*symbols):
        return False
    return all(coefficient.is_integer for coefficient in Poly(expression, *symbols).coeffs())


def always_true(condition: Boolean, room: dict[Symbol, tuple[int, int]]) -> bool:
    """Return whether a comparison holds wherever each symbol is between its bounds; False where that is not seen.

    An expression of degree 1 in every symbol takes its extremes at the corners.
    """
    if not isinstance(condition, (Gt, Ge, Lt, Le)) or len(condition.free_symbols) > TUNING.corner_symbols:
        return False
    names = [symbol for symbol in condition.free_symbols if isinstance(symbol, Symbol)]
    difference = cast(Expr, condition.lhs) - cast(Expr, condition.rhs)
    if not difference.is_polynomial(*names) or any(Poly(difference, name).degree() > 1 for name in names):
        return False
    corners = product(*(room[name] for name in names))
    return all(condition.subs(list(zip(names, corner, strict=True))) == true for corner in corners)


@dataclass(frozen=True, slots=True)
class Shape:
    """A sum of progressions with strides ascending, each longer than the span of all before it; 0 is the least."""

    steps: tuple[tuple[Expr, Expr], ...]

    @property
    def size(self) -> Expr:
        return prod((count for _, count in self.steps), start=ONE)

    @property
    def span(self) -> Expr:
        return cancel(sum((stride * (count - 1) for stride, count in self.steps), start=ZERO))


def shape_of(region: Region, steps: Steps) -> Shape:
    """Return the shape of a sum of progressions; strides of any sign, none of them 0.

    Raises BudgetError where progressions interleave.
    """
    left: Steps = [(cancel(stride), cancel(count)) for stride, count in steps if cancel(count) != 1]
    left = [(-stride if region.value(stride) < 0 else stride, count) for stride, count in left]
    left.sort(key=lambda step: region.value(step[0]))
    while _merge_one(region, left):
        pass
    span = ZERO
    for stride, count in left:
        if not region.less(span, stride):
            raise no_formula_error("a tile is a set of integers with gaps of several kinds")
        span += stride * (count - 1)
    return Shape(tuple(left))


def _merge_one(region: Region, left: Steps) -> bool:
    """Put one progression into the gaps of another one; return whether there was one to put.

    Where a progression continues another one exactly, as the loops over one dim do, that needs no condition.
    """
    for exactly in (True, False):
        for outer in range(len(left) - 1, 0, -1):
            for inner in range(outer - 1, -1, -1):
                (stride, count), (small, many) = left[outer], left[inner]
                quotient = cancel(stride / small)
                if exactly:
                    fits = cancel(quotient - many) == 0
                else:
                    fits = _fits(region, stride, small, many)
                if fits:
                    left[inner] = (small, cancel(many + quotient * (count - 1)))
                    del left[outer]
                    return True
    return False


def _fits(region: Region, stride: Expr, small: Expr, many: Expr) -> bool:
    if region.value(stride) > region.value(small * many) or region.value(stride) % region.value(small):
        # Not here: a stride that never matters needs no condition, and the order of strides is checked at the end.
        return False
    return region.divides(small, stride) and region.holds(Le(cancel(stride / small), many))


def overlap(region: Region, shape: Shape, shift: Expr) -> Expr:
    """Return how many elements a shape has in common with itself moved by `shift`."""
    shift = cancel(shift)
    if shift == 0:
        return shape.size
    if region.value(shift) < 0:
        region.holds(Lt(shift, ZERO))
        shift = cancel(-shift)
    else:
        region.holds(Ge(shift, ZERO))
    return _overlap_of_any_sign(region, shape.steps, shift)


def _overlap_of_any_sign(region: Region, steps: tuple[tuple[Expr, Expr], ...], shift: Expr) -> Expr:
    """Return the same for a shift that may have either sign, outermost progression by outermost progression."""
    if not steps:
        return ONE if _is_zero(region, shift) else ZERO
    stride, count = steps[-1]
    span = Shape(steps[:-1]).span
    total = ZERO
    for digit in _digits(region, stride, span, shift):
        rest = cast(Expr, cancel(shift - digit * stride))
        if rest != 0 and not region.holds(Le(Abs(rest), span)):
            continue
        size = digit if region.holds(Ge(digit, ZERO)) else cancel(-digit)
        if region.less(size, count):
            total += (count - size) * _overlap_of_any_sign(region, steps[:-1], rest)
    return total


def _is_zero(region: Region, shift: Expr) -> bool:
    return region.holds(Eq(cancel(shift), ZERO))


def _digits(region: Region, stride: Expr, span: Expr, shift: Expr) -> list[Expr]:
    """Return by how many strides the outermost digits of two equal elements may differ: one number, or two."""
    quotient = cancel(shift / stride)
    if _is_integral(quotient):
        return [quotient]  # the span is shorter than a stride
    if span == 0:
        return [quotient] if region.holds(Eq(Mod(shift, stride), ZERO)) else []
    length, wide, move = region.value(stride), region.value(span), region.value(shift)
    first, last = Integer(-((wide - move) // length)), Integer((move + wide) // length)
    # first = ceil((shift - span) / stride), last = floor((shift + span) / stride)
    above, below = cancel(first * stride - shift + span), cancel(shift + span - last * stride)
    for left_over in (above, below):
        region.holds(Ge(left_over, ZERO))
        region.holds(Gt(cancel(stride - left_over), ZERO))
    return [first] if first == last else [first, last]


def new_part(region: Region, shape: Shape, shift: Expr) -> Shape | None:
    """Return the shape of what a tile has that it lacked one shift ago (its place is not told); None for nothing.

    Raises BudgetError where that is no progression.
    """
    shift = cancel(shift)
    if shift == 0:
        return None
    if overlap(region, shape, shift) == 0:
        return shape
    if len(shape.steps) != 1:
        raise no_formula_error("the new part of a tile is a set of integers with gaps of several kinds")
    ((stride, _),) = shape.steps
    length = shift if region.value(shift) > 0 else -shift
    return Shape(((stride, cancel(length / stride)),))


def differs(region: Region, one: Expr, other: Expr) -> bool:
    """Return whether two expressions differ."""
    return region.holds(Ne(cancel(one - other), ZERO))


class ExpressionProgressions:
    """Sums of progressions of expressions; what is compared becomes a condition of the region."""

    __slots__ = ("_region",)
    one = ONE
    loops_move = True

    def __init__(self, region: Region) -> None:
        self._region = region

    def tile(self, steps: Steps) -> Shape:
        """Return the sum of progressions. Raises BudgetError where they interleave."""
        return shape_of(self._region, steps)

    def count(self, steps: Steps) -> Expr:
        """Return the elements of a sum of progressions."""
        return shape_of(self._region, steps).size

    def overlap(self, tile: Shape, shift: Expr) -> Expr:
        """Return how many elements a set has in common with itself moved by `shift`."""
        return overlap(self._region, tile, shift)

    def spread_size(self, tile: Shape, steps: Steps) -> Expr:
        """Return the elements of the sum of a set and of progressions."""
        return self.tile([*tile.steps, *steps]).size

    def new_size(self, tile: Shape, shift: Expr, steps: Steps) -> Expr:
        """Return the same of what the set has that it lacked one shift ago."""
        new = new_part(self._region, tile, shift)
        return ZERO if new is None else self.spread_size(new, steps)
