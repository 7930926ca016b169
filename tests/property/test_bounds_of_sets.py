"""Bounds and first points of unions with floors are those of their points listed one by one."""

from __future__ import annotations

import random
from itertools import product

import islpy as isl

from polymap.ir.quasi_affine import Affine
from polymap.poly.budgets import budget
from polymap.poly.sets import Set, dim_bounds, first_point, integer_set, nonnegative, value
from tests.property.test_schedule_violations import random_affine

DIMS = ("i", "j", "k")
SIDE = 4
# Here isl takes a bound from a disjunct that has no point.
BEYOND_ISL = (119, 234, 293, 330, 408, 560, 591, 838)


def drawn(seed: int) -> tuple[list[list[Affine]], int]:
    """Return the constraints of two disjuncts, and the value of the first dim."""
    rng = random.Random(seed)
    return [[random_affine(rng, DIMS, 2) for _ in range(2)] for _ in range(2)], rng.randrange(SIDE)


def points_of(disjuncts: list[list[Affine]], first: int) -> list[tuple[int, ...]]:
    listed: list[dict[str, int]] = [
        dict(zip(DIMS, point, strict=True)) for point in product(range(SIDE), repeat=3) if point[0] == first
    ]
    return [
        tuple(at.values())
        for at in listed
        if any(all(constraint.evaluate(at) >= 0 for constraint in each) for each in disjuncts)
    ]


def set_of(disjuncts: list[list[Affine]], first: int) -> Set:
    box = integer_set("", [(name, SIDE) for name in DIMS])
    parts: list[Set] = []
    for each in disjuncts:
        part = box
        for constraint in each:
            part = nonnegative(part, constraint)
        parts.append(part)
    union = parts[0].union(parts[1])
    return union.fix_val(isl.dim_type.set, 0, value(first))


def test_bounds_and_first_points_are_those_of_the_points() -> None:
    for seed in (*range(100), *BEYOND_ISL):
        disjuncts, first = drawn(seed)
        points = points_of(disjuncts, first)
        with budget():
            # isl remembers what it finds out about a set: each question gets a set of its own.
            assert first_point(set_of(disjuncts, first)) == (min(points) if points else None), seed
            if points:
                bounds = tuple((min(axis), max(axis)) for axis in zip(*points, strict=True))
                assert dim_bounds(set_of(disjuncts, first)) == bounds, seed
