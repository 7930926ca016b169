"""How many points a set has, in all or per value of some of its dims: dims that do not interact count as a product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import islpy as isl

from polymap.poly.budget import integer
from polymap.poly.sets import value

_SET = isl.dim_type.set

Tally = dict[tuple[int, ...], int]


def tally_of(points: isl.Set, positions: Sequence[int] = ()) -> Tally:
    """Return how many points there are for each value of the dims at `positions`; values without points are left out.

    The set is bounded. Call inside `with budget():`.
    """
    total: Tally = {}
    for piece in _disjoint(points):
        _add_piece(total, piece, positions)
    return total


def _disjoint(points: isl.Set) -> Iterator[isl.BasicSet]:
    """Yield disjoint parts in which every existential is a dim of its own (the function of the others that it is)."""
    points = points.compute_divs()
    if points.n_basic_set() > 1:
        points = points.coalesce().make_disjoint().compute_divs()
    for piece in points.get_basic_sets():
        if not piece.is_empty():
            yield piece.lift().flatten() if piece.dim(isl.dim_type.div) else piece


def _add_piece(total: Tally, piece: isl.BasicSet, positions: Sequence[int]) -> None:
    factors: list[list[tuple[tuple[int, ...], int]]] = []
    places: list[int] = []
    scale = 1
    for component in components(piece):
        part = isl.Set.from_basic_set(_only(piece, component))
        wanted = [position for position in positions if position in component]
        if wanted:
            places += wanted
            factors.append(list(_count_each(part, [component.index(position) for position in wanted])))
        else:
            scale *= integer(part.count_val())
    if not scale:
        return
    order = [places.index(position) for position in positions]
    for choice in product(*factors):
        values = tuple(number for numbers, _ in choice for number in numbers)
        amount = scale
        for _, number in choice:
            amount *= number
        key = tuple(values[place] for place in order)
        total[key] = total.get(key, 0) + amount


def _count_each(part: isl.Set, wanted: list[int]) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield every value of the wanted dims with the number of points that have it."""
    if not wanted:
        number = integer(part.count_val())
        if number:
            yield (), number
        return
    first, *rest = wanted
    low, high = integer(part.dim_min_val(first)), integer(part.dim_max_val(first))
    for number in range(low, high + 1):
        fixed = part.fix_val(_SET, first, value(number))
        if fixed.is_empty():
            continue
        if len(wanted) == part.dim(_SET):  # every dim is named: one point per value of all
            yield from (((number, *others), 1) for others, _ in _count_each(fixed, rest))
        else:
            yield from (((number, *others), amount) for others, amount in _count_each(fixed, rest))


def components(piece: isl.BasicSet) -> list[list[int]]:
    """Return the dims of a set without existentials in groups that no constraint joins, each in order."""
    size = piece.dim(_SET)
    group = list(range(size))
    for constraint in piece.get_constraints():
        members = [position for position in range(size) if constraint.involves_dims(_SET, position, 1)]
        for member in members[1:]:
            old, new = group[member], group[members[0]]
            if old != new:
                group = [new if each == old else each for each in group]
    found: dict[int, list[int]] = {}
    for position in range(size):
        found.setdefault(group[position], []).append(position)
    return list(found.values())


def _only(piece: isl.BasicSet, dims: list[int]) -> isl.BasicSet:
    """Return a piece on some of its dims that nothing joins to the others."""
    for position in reversed(range(piece.dim(_SET))):
        if position not in dims:
            piece = piece.project_out(_SET, position, 1)
    return piece
