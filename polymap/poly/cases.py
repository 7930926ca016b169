"""Conditions with floors that only encode truth values, as unions of conjunctions, on which isl is much faster.

For |e| < m, floor(e / m) is -1 where e < 0 and 0 elsewhere. Conditions with "or", and C's division of numbers of either
sign, are single quasi-affine expressions with sums of such floors. A sum of floors that have two values each is at
least a number where some of them have their larger value: a union of conjunctions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from polymap.ir import Affine, Floor, affine, bounds
from polymap.poly.tuning import TUNING

Conjunction = tuple[Affine, ...]
Union = tuple[Conjunction, ...]

_ALWAYS: Union = ((),)


class _TooManyCases(Exception):
    """The union would have more than TUNING.most_cases conjunctions; `conjunctions_of` catches it."""


def conjunctions_of(constraint: Affine, extents: Mapping[str, int]) -> Union:
    """Return conjunctions (all of their expressions are >= 0); over the box the constraint is >= 0 where one holds.

    They may overlap. Floors that have two neighbouring values over the box, or stand alone, are gone. The constraint
    itself comes back where that would take more than TUNING.most_cases conjunctions.
    """
    try:
        return _where(constraint, extents)
    except _TooManyCases:
        return ((constraint,),)


def cases_of(expression: Affine, extents: Mapping[str, int]) -> tuple[tuple[Conjunction, Affine], ...]:
    """Return (conditions, what the expression is where all are >= 0), without floors of two neighbouring values.

    Over the box, one of the cases holds everywhere.
    """
    floor = next((each for each in expression.floors if _range(each, extents)[1] - _range(each, extents)[0] == 1), None)
    if floor is None:
        return (((), expression),)
    return tuple(
        ((*where, *more), rest)
        for number in _range(floor, extents)
        for where in _both(_at_least(floor, number, extents), _at_most(floor, number, extents), extents)
        for more, rest in cases_of(_with(expression, floor, number), extents)
    )


def _where(expression: Affine, extents: Mapping[str, int]) -> Union:
    """Return where expression >= 0."""
    low, high = bounds(expression, extents)
    if low >= 0:
        return _ALWAYS
    if high < 0:
        return ()
    floors = [(factor, atom) for factor, atom in expression.terms if isinstance(atom, Floor)]
    if not floors:
        return ((expression,),)
    if len(expression.terms) == 1:
        factor, floor = floors[0]
        if factor > 0:
            return _at_least(floor, -(expression.constant // factor), extents)
        return _at_most(floor, expression.constant // -factor, extents)
    narrow = [(factor, floor, *_range(floor, extents)) for factor, floor in floors]
    if len(floors) == len(expression.terms) and all(most - least <= 1 for *_, least, most in narrow):
        return _threshold(expression.constant, narrow, extents)
    for _, floor, least, most in narrow:
        if most - least <= 1:
            return _split(expression, floor, (least, most), extents)
    return ((expression,),)


def _range(floor: Floor, extents: Mapping[str, int]) -> tuple[int, int]:
    least, most = bounds(floor.argument, extents)
    return least // floor.divisor, most // floor.divisor


def _at_least(floor: Floor, number: int, extents: Mapping[str, int]) -> Union:
    return _where(floor.argument - number * floor.divisor, extents)


def _at_most(floor: Floor, number: int, extents: Mapping[str, int]) -> Union:
    return _where(-floor.argument + ((number + 1) * floor.divisor - 1), extents)


def _split(expression: Affine, floor: Floor, ends: tuple[int, int], extents: Mapping[str, int]) -> Union:
    """Return where expression >= 0, apart for each value of one of its floors."""
    found: list[Conjunction] = []
    for number in range(ends[0], ends[1] + 1):
        value = _both(_at_least(floor, number, extents), _at_most(floor, number, extents), extents)
        found += _both(value, _where(_with(expression, floor, number), extents), extents)
    return _without_absorbed(found)


def _threshold(constant: int, floors: Sequence[tuple[int, Floor, int, int]], extents: Mapping[str, int]) -> Union:
    """Return where constant plus the sum of factor * floor is >= 0, of floors with at most two values each.

    Each floor contributes its smaller term always, and the difference of both where a condition holds.
    """
    gains: list[tuple[int, Union]] = []
    for factor, floor, least, most in floors:
        constant += min(factor * least, factor * most)
        if least < most:
            where = _at_least(floor, most, extents) if factor > 0 else _at_most(floor, least, extents)
            gains.append((abs(factor), where))
    gains.sort(key=lambda gain: -gain[0])
    return _without_absorbed(_enough(-constant, gains, _ALWAYS, extents))


def _enough(
    missing: int, gains: Sequence[tuple[int, Union]], so_far: Union, extents: Mapping[str, int]
) -> Iterator[Conjunction]:
    """Yield where `so_far` holds and the gains whose conditions hold reach what is missing."""
    if missing <= 0:
        yield from so_far
        return
    if not so_far or sum(gain for gain, _ in gains) < missing:
        return
    (gain, where), *others = gains
    yield from _enough(missing - gain, others, _both(so_far, where, extents), extents)
    yield from _enough(missing, others, so_far, extents)


def _both(first: Union, second: Union, extents: Mapping[str, int]) -> Union:
    """Return the intersection of two unions, without conjunctions that an interval shows to be empty."""
    joined = (tuple(dict.fromkeys((*one, *other))) for one in first for other in second)
    return _without_absorbed([each for each in joined if not _is_contradiction(each, extents)])


def _is_contradiction(conjunction: Conjunction, extents: Mapping[str, int]) -> bool:
    """Return whether two of the expressions cannot be >= 0 together, by bounds of their sum."""
    return any(
        bounds(one + other, extents)[1] < 0 for place, one in enumerate(conjunction) for other in conjunction[:place]
    )


def _without_absorbed(union: Iterable[Conjunction]) -> Union:
    """Return the union without conjunctions that contain all of another one; _TooManyCases beyond TUNING.most_cases."""
    kept: list[frozenset[Affine]] = []
    found: list[Conjunction] = []
    listed = list(islice(union, TUNING.most_listed + 1))
    if len(listed) > TUNING.most_listed:
        raise _TooManyCases
    for conjunction in sorted(listed, key=len):
        expressions = frozenset(conjunction)
        if not any(each <= expressions for each in kept):
            kept.append(expressions)
            found.append(conjunction)
            if len(found) > TUNING.most_cases:
                raise _TooManyCases
    return tuple(found)


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
