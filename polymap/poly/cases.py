"""Floors that only encode a sign, replaced by unions of sets without floors, on which isl is much faster.

floor(e / m) with |e| < m is -1 where e < 0 and 0 elsewhere. Conditions with "or", and C's division of numbers of either
sign, are single quasi-affine expressions with such floors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from polymap.ir import Affine, Floor, affine, bounds

MAX_CASES = 64


@dataclass(frozen=True, slots=True)
class PieceOfCondition:
    """Where all of `conditions` are >= 0, the expression is `value`."""

    conditions: tuple[Affine, ...]
    value: Affine


def pieces_of(expression: Affine, extents: Mapping[str, int]) -> tuple[PieceOfCondition, ...]:
    """Return the expression as disjoint pieces without floors that tell only a sign over the box; at most MAX_CASES."""
    pieces = tuple(_split(PieceOfCondition((), expression), extents, MAX_CASES))
    return pieces if len(pieces) <= MAX_CASES else (PieceOfCondition((), expression),)


def _split(piece: PieceOfCondition, extents: Mapping[str, int], limit: int) -> Iterator[PieceOfCondition]:
    floor = _sign_floor((piece.value, *piece.conditions), extents)
    if floor is None or limit <= 0:
        yield piece
        return
    low = bounds(floor.argument, extents)[0] // floor.divisor
    high = bounds(floor.argument, extents)[1] // floor.divisor
    for number in range(low, high + 1):
        inside = (floor.argument - number * floor.divisor, -floor.argument + ((number + 1) * floor.divisor - 1))
        conditions = (*piece.conditions, *inside) if low < high else piece.conditions
        kept: list[Affine] = []
        for condition in (_with(each, floor, number) for each in conditions):
            least, most = bounds(condition, extents)
            if most < 0:
                break
            if least < 0:
                kept.append(condition)
        else:
            yield from _split(PieceOfCondition(tuple(kept), _with(piece.value, floor, number)), extents, limit // 2)


def _sign_floor(expressions: tuple[Affine, ...], extents: Mapping[str, int]) -> Floor | None:
    """Return an innermost floor that takes one or two neighbouring values over the box, or None."""
    for expression in expressions:
        for _, atom in expression.terms:
            if isinstance(atom, Floor):
                inner = _sign_floor((atom.argument,), extents)
                if inner is not None:
                    return inner
                low, high = bounds(atom.argument, extents)
                if low // atom.divisor >= -1 and high // atom.divisor <= 0:
                    return atom
    return None


def _with(expression: Affine, floor: Floor, number: int) -> Affine:
    """Return the expression with the floor replaced by its value."""
    terms: list[tuple[int, str | Floor]] = []
    constant = expression.constant
    for coefficient, atom in expression.terms:
        if atom == floor:
            constant += coefficient * number
        elif isinstance(atom, Floor):
            inner = _with(atom.argument, floor, number)
            if inner.terms:
                terms.append((coefficient, Floor(inner, atom.divisor)))
            else:
                constant += coefficient * (inner.constant // atom.divisor)
        else:
            terms.append((coefficient, atom))
    return affine(tuple(terms), constant)
