"""The exact number of points of a set, as a Python integer."""

from __future__ import annotations

from math import prod

import islpy as isl

from polymap.ir import Mistake, SolverError
from polymap.poly.budgets import integer


def count(points: isl.Set) -> int:
    """Return the number of points of a bounded set (call inside `with budget():`).

    A box is a product; islpy-barvinok's `card` counts the rest where it is installed, else isl's own count.
    """
    if points.is_empty():
        return 0
    if not points.is_bounded():
        raise SolverError(Mistake("PM512", f"A set without bounds cannot be counted: {points}", "Bound every dim."))
    box = _box_count(points)
    if box is not None:
        return box
    if hasattr(isl.Set, "card"):
        origin = isl.Point.zero(points.get_space().params())
        return integer(points.card().eval(origin))  # type: ignore[attr-defined]
    return integer(points.count_val())


def _box_count(points: isl.Set) -> int | None:
    """Return the product of the sides of a set that is a box, else None."""
    if not points.is_box():
        return None
    dims = range(points.dim(isl.dim_type.set))
    return prod(integer(points.dim_max_val(each)) - integer(points.dim_min_val(each)) + 1 for each in dims)
