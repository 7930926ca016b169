"""Conditions with floors become unions of conjunctions that hold at exactly the same points."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from polymap.ir.quasi_affine import Affine, Floor, affine, dim
from polymap.poly.cases import conjunctions_of
from polymap.poly.tuning import TUNING

EXTENTS = {"i": 5, "j": 6}
I_DIM, J_DIM = dim("i"), dim("j")


def sign(expression: Affine, size: int = 100) -> Affine:
    return affine(((1, Floor(expression, size)),))


def holds_where(constraint: Affine) -> None:
    union = conjunctions_of(constraint, EXTENTS)
    for i, j in product(range(5), range(6)):
        at = {"i": i, "j": j}
        found = any(all(each.evaluate(at) >= 0 for each in conjunction) for conjunction in union)
        assert found is (constraint.evaluate(at) >= 0), (constraint, at)


@pytest.mark.parametrize(
    "constraint",
    [
        I_DIM - J_DIM,
        sign(I_DIM - J_DIM) + 1,
        sign(I_DIM - J_DIM),
        sign(I_DIM - J_DIM) * 3 + sign(J_DIM - 2, 9) - I_DIM + 2,
        affine(((1, Floor(sign(I_DIM - 3) + sign(J_DIM - 2) + 1, 2)),)),
        affine(((1, Floor(I_DIM - J_DIM - sign(I_DIM - J_DIM) * 2, 3)),), -1),
        affine(((2, Floor(I_DIM + J_DIM, 3)),), -3) + sign(I_DIM - J_DIM),
        affine(((-2, Floor(I_DIM + J_DIM, 3)),), 3),
        sign(I_DIM + 1),
        -sign(I_DIM - 7),
        sign(I_DIM - 7),
    ],
)
def test_unions_hold_where_the_constraint_does(constraint: Affine) -> None:
    holds_where(constraint)


def random_expression(random: Random, depth: int) -> Affine:
    terms = [(random.randint(-2, 2), random.choice("ij")) for _ in range(random.randint(0 if depth else 1, 2))]
    total = affine(tuple((c, name) for c, name in terms if c), random.randint(-6, 6))
    for _ in range(random.randint(1, 3) if depth else 0):
        inner = random_expression(random, depth - 1)
        if inner.terms:
            floor = affine(((1, Floor(inner, random.choice([2, 3, 7, 40]))),))
            total = total + floor * random.choice([-2, -1, 1, 1, 3])
    return total


def test_random_constraints_with_nested_floors() -> None:
    random = Random(12)
    for number in range(400):
        holds_where(random_expression(random, number % 3 + 1))


def test_a_disjunction_has_one_conjunction_per_part_and_no_floors() -> None:
    parts = [sign(I_DIM - 1), sign(J_DIM - 3), sign(I_DIM - J_DIM), sign(-I_DIM - J_DIM + 2)]
    total = Affine((), len(parts) - 1)
    for part in parts:
        total = total + part
    union = conjunctions_of(total, EXTENTS)
    assert sorted(map(len, union)) == [1, 1, 1, 1]
    assert all(each.is_linear for conjunction in union for each in conjunction)


def test_a_union_of_too_many_parts_stays_one_constraint() -> None:
    extents = {f"x{number}": 3 for number in range(14)}
    total = Affine((), 14 - 7)
    for name in extents:
        total = total + sign(dim(name) - 1)
    assert len(extents) < TUNING.most_cases
    assert conjunctions_of(total, extents) == ((total,),)
