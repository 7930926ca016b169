"""The number of points of a set, in total or per value of some dims, as a product over dims that do not interact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import islpy as isl

from polymap.poly.budgets import check_clock
from polymap.poly.scan import Constraints, scan
from polymap.poly.sets import coalesced
from polymap.poly.tuning import TUNING

_SET = isl.dim_type.set

Tally = dict[tuple[int, ...], int]


@dataclass(frozen=True, slots=True)
class Term:
    """A number of points per value of some dims, as a product: `scale`, times for each part the number that the values
    of its dims have there (zero where they are not listed)."""

    scale: int
    parts: tuple[tuple[tuple[int, ...], Tally], ...]


def terms_of(points: isl.Set, positions: Sequence[int] = ()) -> list[Term]:
    """Return terms whose sum is the number of points for each value of the dims at `positions`.

    The set is bounded. Call inside `with budget():`. Raises BudgetError where dims that interact have too many points.
    """
    return [term for piece in _disjoint(points) for term in _term(piece, positions)]


def tally_of(points: isl.Set, positions: Sequence[int] = ()) -> Tally:
    """Return the number of points for each value of the dims at `positions`, values without points omitted.

    Conditions and errors as for `terms_of`.
    """
    total: Tally = {}
    for term in terms_of(points, positions):
        places = [position for dims, _ in term.parts for position in dims]
        order = [places.index(position) for position in positions]
        for choice in product(*(tally.items() for _, tally in term.parts)):
            values = tuple(number for numbers, _ in choice for number in numbers)
            key = tuple([values[place] for place in order])
            if not len(total) % TUNING.keys_at_once:
                check_clock()
            total[key] = total.get(key, 0) + term.scale * prod([number for _, number in choice])
    return total


def _disjoint(points: isl.Set) -> Iterator[isl.BasicSet]:
    """Yield disjoint parts in which every existential variable is a dim (a function of the others)."""
    points = points.compute_divs()
    if points.n_basic_set() > 1:
        points = coalesced(points).make_disjoint().compute_divs()
    for piece in points.get_basic_sets():
        if not piece.is_empty():
            yield piece.lift().flatten() if piece.dim(isl.dim_type.div) else piece


def _term(piece: isl.BasicSet, positions: Sequence[int]) -> Iterator[Term]:
    """Yield the piece as a term (nothing if it is empty)."""
    constraints = Constraints.of(piece)
    parts: list[tuple[tuple[int, ...], Tally]] = []
    scale = 1
    for component in constraints.components():
        wanted = tuple(position for position in positions if position in component)
        tally = scan(constraints, component, wanted)
        if wanted:
            parts.append((wanted, tally))
        else:
            scale *= tally.get((), 0)
    if scale and all(tally for _, tally in parts):
        yield Term(scale, tuple(parts))
