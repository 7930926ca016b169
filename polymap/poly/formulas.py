"""How many points a set has, as polynomials in its parameters.

The innermost dim is summed first: between one lower and one upper bound the sum of a polynomial is a polynomial of the
bounds (Faulhaber's formula). Where several bounds apply, the set is cut into parts with one tightest bound each.
"""

# (sympy's own annotations are partial)
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import islpy as isl

from polymap.poly.budgets import integer
from polymap.poly.tuning import TUNING

if TYPE_CHECKING:
    from sympy import Expr

_SET, _PARAM = isl.dim_type.set, isl.dim_type.param


@dataclass(frozen=True, slots=True, eq=False)
class CountFormula:
    """A number of points that depends on parameters.

    parts: (condition on the parameters, polynomial) of parts that exclude each other; elsewhere there are no points.
    """

    parts: tuple[tuple[isl.Set, Expr], ...]

    def at(self, values: Mapping[str, int]) -> int:
        """Return the number for given values of all parameters."""
        from sympy import Symbol

        for condition, polynomial in self.parts:
            space = condition.get_space()
            names = [str(space.get_dim_name(_PARAM, number)) for number in range(space.dim(_PARAM))]
            point = condition
            for number, name in enumerate(names):
                point = point.fix_val(_PARAM, number, isl.Val(values[name], space.get_ctx()))
            if not point.is_empty():
                return int(polynomial.subs({Symbol(name): values[name] for name in names}))
        return 0

    def __str__(self) -> str:
        return "; ".join(_part_text(condition, polynomial) for condition, polynomial in self.parts) or "0"

    __repr__ = __str__


def condition_text(condition: isl.Set) -> str:
    """Return the constraints of a set of parameters; "" where there are none."""
    text = condition.coalesce().to_str()
    inner = text[text.index("{") + 1 : text.rindex("}")]
    return inner.split(":", 1)[1].strip() if ":" in inner else ""


def _part_text(condition: isl.Set, polynomial: Expr) -> str:
    from sympy import factor

    when = condition_text(condition)
    return str(factor(polynomial)).replace("**", "^") + (f" if {when}" if when else "")


def count_formula(points: isl.Set) -> CountFormula | None:
    """Return the number of points as a formula; None where bounds divide, or there are too many parts."""
    from sympy import Integer

    names = [str(points.get_dim_name(_PARAM, number)) for number in range(points.dim(_PARAM))]
    todo = [_rows(part, Integer(1)) for part in points.make_disjoint().get_basic_sets()]
    done: list[tuple[isl.Set, Expr]] = []
    while todo:
        part = todo.pop()
        if part is None or len(todo) + len(done) > TUNING.most_parts:
            return None
        if part.depth == 0:
            done.append((_parameters(part, points, names), part.weight))
        else:
            parts = _summed(part, names)
            if parts is None:
                return None
            todo += [each for each in parts if not _parameters(each, points, names).is_empty()]
    return CountFormula(_apart(done))


@dataclass(frozen=True, slots=True)
class _Part:
    """Points of `depth` dims that meet every row (constant, factors of the parameters, factors of the dims) >= 0, each
    of which counts `weight` times (a polynomial in parameters and dims `#0`, `#1`, ...)."""

    depth: int
    rows: tuple[tuple[int, ...], ...]
    weight: Expr


def _rows(part: isl.BasicSet, weight: Expr) -> _Part | None:
    if part.dim(isl.dim_type.div):
        part = part.remove_redundancies()
    if part.dim(isl.dim_type.div):
        return None
    depth, parameters = part.dim(_SET), part.dim(_PARAM)
    rows: list[tuple[int, ...]] = []
    for constraint in part.get_constraints():
        row = (
            integer(constraint.get_constant_val()),
            *(integer(constraint.get_coefficient_val(_PARAM, number)) for number in range(parameters)),
            *(integer(constraint.get_coefficient_val(_SET, number)) for number in range(depth)),
        )
        rows.append(row)
        if constraint.is_equality():
            rows.append(tuple(-each for each in row))
    return _Part(depth, tuple(rows), weight)


def _summed(part: _Part, names: Sequence[str]) -> list[_Part] | None:
    """Return the parts of a sum over the innermost dim; None where a bound of it divides or is missing."""
    from sympy import Symbol, expand

    rest = tuple(row[:-1] for row in part.rows if row[-1] == 0)
    lowers = tuple(dict.fromkeys(tuple(-each for each in row[:-1]) for row in part.rows if row[-1] == 1))
    uppers = tuple(dict.fromkeys(row[:-1] for row in part.rows if row[-1] == -1))
    if any(abs(row[-1]) > 1 for row in part.rows) or not lowers or not uppers:
        return None
    symbols = [*names, *(f"#{number}" for number in range(part.depth - 1))]
    found: list[_Part] = []
    for low, high in product(range(len(lowers)), range(len(uppers))):
        rows = (
            *rest,
            *(_minus(lowers[low], other, int(number < low)) for number, other in enumerate(lowers) if number != low),
            *(_minus(other, uppers[high], int(number < high)) for number, other in enumerate(uppers) if number != high),
            _minus(uppers[high], lowers[low], 0),
        )
        begin, end = (_expression(row, symbols) for row in (lowers[low], uppers[high]))
        weight = _sum(part.weight, Symbol(f"#{part.depth - 1}"), begin, end)
        found.append(_Part(part.depth - 1, tuple(dict.fromkeys(rows)), expand(weight)))
    return found


def _minus(one: tuple[int, ...], other: tuple[int, ...], less: int) -> tuple[int, ...]:
    first, *others = (a - b for a, b in zip(one, other, strict=True))
    return (first - less, *others)


def _expression(row: tuple[int, ...], symbols: Sequence[str]) -> Expr:
    from sympy import Integer, Symbol

    terms = [factor * Symbol(name) for factor, name in zip(row[1:], symbols, strict=True) if factor]
    return sum(terms, Integer(row[0]))


def _sum(weight: Expr, dim: Expr, begin: Expr, end: Expr) -> Expr:
    from sympy import Integer, Poly, Symbol

    n = Symbol("#n")
    total: Expr = Integer(0)
    for (power,), factor in Poly(weight, dim).terms():
        upto = _powers(power)
        total += factor * (upto.subs(n, end) - upto.subs(n, begin - 1))
    return total


@cache
def _powers(power: int) -> Expr:
    """Return the sum of x to a power for x from 0 (1 for power 0, less one) to #n, a polynomial in #n."""
    from sympy import Symbol, bernoulli, expand

    n = Symbol("#n")
    return expand((bernoulli(power + 1, n + 1) - bernoulli(power + 1, 0)) / (power + 1))


def _parameters(part: _Part, points: isl.Set, names: Sequence[str]) -> isl.Set:
    """Return the parameters for which a part may have points (exactly those if it has no dims left)."""
    space = isl.Space.set_alloc(points.get_ctx(), len(names), part.depth)
    for number, name in enumerate(names):
        space = space.set_dim_name(_PARAM, number, name)
    universe = isl.BasicSet.universe(space)
    local = isl.LocalSpace.from_space(space)
    for row in part.rows:
        constraint = isl.Constraint.alloc_inequality(local).set_constant_val(row[0])
        for number in range(len(names)):
            constraint = constraint.set_coefficient_val(_PARAM, number, row[1 + number])
        for number in range(part.depth):
            constraint = constraint.set_coefficient_val(_SET, number, row[1 + len(names) + number])
        universe = universe.add_constraint(constraint)
    return isl.Set.from_basic_set(universe).params()


def _are_equal(condition: isl.Set, one: Expr, other: Expr) -> bool:
    """Return whether two polynomials agree because a condition fixes parameters."""
    from sympy import Symbol, expand

    fixed: list[tuple[Expr, int]] = []
    for number in range(condition.dim(_PARAM)):
        value = condition.plain_get_val_if_fixed(_PARAM, number)
        if value.is_int():
            fixed.append((Symbol(str(condition.get_dim_name(_PARAM, number))), integer(value)))
    return bool(fixed) and expand(one.subs(fixed) - other.subs(fixed)) == 0


def _apart(parts: Sequence[tuple[isl.Set, Expr]]) -> tuple[tuple[isl.Set, Expr], ...]:
    """Return parts that exclude each other, equal formulas joined."""
    from sympy import expand

    apart: list[tuple[isl.Set, Expr]] = []
    for condition, polynomial in parts:
        rest, cut = condition, []
        for other, sum_there in apart:
            both = other.intersect(condition)
            rest = rest.subtract(other)
            cut += [(both, expand(sum_there + polynomial)), (other.subtract(condition), sum_there)]
        apart = [each for each in (*cut, (rest, polynomial)) if not each[0].is_empty()]
    joined: dict[str, tuple[isl.Set, Expr]] = {}
    for condition, polynomial in apart:
        known = joined.get(str(polynomial))
        joined[str(polynomial)] = (condition if known is None else known[0].union(condition), polynomial)
    for key in list(joined):
        condition, polynomial = joined[key]  # with what was joined to it before
        same = next(
            (each for each in joined if each != key and _are_equal(condition, polynomial, joined[each][1])), None
        )
        if same is not None:
            joined[same] = (joined[same][0].union(condition), joined[same][1])
            del joined[key]
    return tuple((condition.coalesce(), each) for _, (condition, each) in sorted(joined.items()) if each != 0)
