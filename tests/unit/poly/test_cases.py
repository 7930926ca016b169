"""Floors that tell only a sign are taken apart without a change of value."""

from __future__ import annotations

from itertools import product

import pytest

from polymap.ir.quasi_affine import Affine, Floor, affine, dim
from polymap.poly.cases import pieces_of

EXTENTS = {"i": 5, "j": 6}
I_DIM, J_DIM = dim("i"), dim("j")


def sign(expression: Affine, size: int = 100) -> Affine:
    return affine(((1, Floor(expression, size)),))


@pytest.mark.parametrize(
    "expression",
    [
        I_DIM - J_DIM,
        sign(I_DIM - J_DIM) + 1,
        sign(I_DIM - J_DIM) * 3 + sign(J_DIM - 2, 9) - I_DIM,
        affine(((1, Floor(sign(I_DIM - 3) + sign(J_DIM - 2) + 1, 2)),)),
        affine(((1, Floor(I_DIM - J_DIM - sign(I_DIM - J_DIM) * 2, 3)),), -1),
        affine(((2, Floor(I_DIM + J_DIM, 3)),)) + sign(I_DIM - J_DIM),
        sign(I_DIM + 1),
    ],
)
def test_pieces_cover_the_box_once_with_the_same_value(expression: Affine) -> None:
    pieces = pieces_of(expression, EXTENTS)
    for i, j in product(range(5), range(6)):
        at = {"i": i, "j": j}
        values = [piece.value.evaluate(at) for piece in pieces if all(c.evaluate(at) >= 0 for c in piece.conditions)]
        assert values == [expression.evaluate(at)]


def test_pieces_have_no_floor_that_tells_only_a_sign() -> None:
    pieces = pieces_of(sign(I_DIM - J_DIM) + sign(J_DIM - 2), EXTENTS)
    assert len(pieces) == 4
    assert all(part.is_linear for piece in pieces for part in (piece.value, *piece.conditions))
    (kept,) = pieces_of(affine(((1, Floor(I_DIM, 3)),)) + affine(((1, Floor(J_DIM, 2)),)), {"i": 9, "j": 9})
    assert not kept.value.is_linear
