"""The elements that an assignment of a region touches, by pieces: each with the instances that execute it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import islpy as isl

from polymap.codegen.source.values import Alias, NotAffineError, Scope, condition, value
from polymap.ir import Mistake, WorkloadError
from polymap.workload.c import (
    Assign,
    Call,
    CExpression,
    Choice,
    Item,
    Name,
    Refused,
    Rules,
    assign_with,
    check_count,
    decided,
    is_piecewise,
    names_of,
    next_condition,
    parts,
    replaced,
    simplified,
    with_guard,
)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A part of an assignment whose reads do not depend on loop variables, and the instances that execute it.

    The value of a guarded piece is `guard ? value : target`, or the target alone where nothing is assigned.
    """

    assign: Assign
    domain: isl.Set

    @property
    def used(self) -> tuple[CExpression, ...]:
        """The expressions that are evaluated; the target itself is not."""
        value, target = self.assign.value, self.assign.target
        index = subscripts(target)
        if self.assign.guarded and isinstance(value, Choice):
            return value.condition, value.then, *index
        return (value, *index) if self.assign.writes else ()


def pieces_of(each: Assign, scope: Scope, domain: isl.Set, file: str) -> list[Piece]:
    """Return the pieces of an assignment in the order of `from_c`; some may be empty, and some write nothing.

    Raises WorkloadError where there are too many.
    """
    rules = rules_of(scope)
    each = with_guard(each)
    each = simplified(assign_with(each, _piecewise_aliases(each, scope)), rules)
    try:
        return _split_by_conditions(Piece(each, domain), rules, scope)
    except Refused as refused:
        what = f"{refused.what} ({file}:{refused.line})"
        raise WorkloadError(Mistake(refused.code, what, refused.hint)) from None


def _split_by_conditions(whole: Piece, rules: Rules, scope: Scope) -> list[Piece]:
    waiting, done = [whole], list[Piece]()
    while waiting:
        piece = waiting.pop()
        found = next_condition(piece.assign, rules)
        check_count(len(done) + len(waiting) + 1, piece.assign.line)
        if found is None:
            done.append(piece)
            continue
        where = condition(found, scope)
        for holds, domain in ((False, piece.domain.subtract(where)), (True, piece.domain.intersect(where))):
            waiting.append(Piece(decided(piece.assign, found, rules, holds=holds), domain.coalesce()))
    return done


def rules_of(scope: Scope) -> Rules:
    """Return the rules by which assignments are split; types are ignored, as they do not affect the elements
    touched."""

    def is_static(test: CExpression) -> bool:
        try:
            condition(test, scope)
        except NotAffineError:
            return False
        return True

    return Rules(is_static, partial(_is_affine, scope=scope), scope.data.__contains__, lambda _: None)


def _piecewise_aliases(each: Assign, scope: Scope) -> dict[str, CExpression]:
    """Return the piecewise integers that an assignment names, as expressions."""
    found: dict[str, CExpression] = {}
    for name in names_of(each.value).union(*(names_of(part) for part in subscripts(each.target))):
        meaning = scope.names.get(name)
        if isinstance(meaning, Alias):
            whole = _full_expression(meaning)
            if is_piecewise(whole) and all(scope.names.get(other) == own for other, own in _meanings(whole, meaning)):
                found[name] = whole
    return found


def subscripts(place: Name | Item) -> tuple[CExpression, ...]:
    """Return the subscripts of an element, () of a variable."""
    return place.index if isinstance(place, Item) else ()


def _is_affine(expression: CExpression, scope: Scope) -> bool:
    """Return whether `from_c` reads a subscript as one quasi-affine expression: sides of `?:` differ by constants."""
    if isinstance(expression, Choice):
        try:
            if not value(expression.then, scope).sub(value(expression.other, scope)).is_cst():
                return False
        except NotAffineError:
            return False
    extreme = isinstance(expression, Call) and is_piecewise(expression)
    return not extreme and all(_is_affine(part, scope) for part in parts(expression))


def without_aliases(expression: CExpression, scope: Scope) -> CExpression:
    """Return an expression with the integers that it names as they are computed."""
    found = {name: scope.names.get(name) for name in names_of(expression)}
    return replaced(expression, {name: _full_expression(own) for name, own in found.items() if isinstance(own, Alias)})


def _full_expression(meaning: Alias) -> CExpression:
    """Return the expression of an integer with the integers that it is computed from substituted."""
    inner = {
        name: _full_expression(own) for name, own in _meanings(meaning.expression, meaning) if isinstance(own, Alias)
    }
    return replaced(meaning.expression, inner)


def _meanings(expression: CExpression, meaning: Alias) -> list[tuple[str, int | Alias]]:
    names = meaning.scope.names
    return [(name, names[name]) for name in sorted(names_of(expression)) if name in names]
