"""Sets and maps built from data: names, sizes, counts, budgets."""

from __future__ import annotations

from itertools import product

import islpy as isl
import pytest

from polymap.ir.errors import BudgetError, SolverError
from polymap.ir.quasi_affine import Affine, Floor, affine, dim
from polymap.poly.budgets import CONTEXT, budget
from polymap.poly.counting import count
from polymap.poly.sets import (
    dim_bounds,
    first_pair,
    first_point,
    function,
    integer_set,
    isl_affine,
    later,
    nonnegative,
    same_value,
    tuple_space,
    value,
    variables,
)

I_DIM, J_DIM = dim("i"), dim("j")


def enumerated(constraints: list[Affine], sizes: tuple[int, int]) -> list[tuple[int, int]]:
    points = product(range(sizes[0]), range(sizes[1]))
    return [p for p in points if all(c.evaluate({"i": p[0], "j": p[1]}) >= 0 for c in constraints)]


@pytest.mark.parametrize(
    "constraints",
    [
        [],
        [I_DIM - J_DIM],
        [affine(((1, Floor(I_DIM + J_DIM * 2, 3)),)) - 2],
        [affine(((-2, Floor(I_DIM - J_DIM, 2)),)) + I_DIM - J_DIM],
        [affine(((1, Floor(affine(((-1, Floor(I_DIM, 2)), (3, "j"))), 4)),)) - 1],
        [I_DIM - 100],
    ],
)
def test_set_holds_exactly_the_points_that_satisfy_its_constraints(constraints: list[Affine]) -> None:
    expected = enumerated(constraints, (7, 9))
    with budget():
        points = integer_set("S", [("i", 7), ("j", 9)], constraints)
        assert count(points) == len(expected)
        assert first_point(points) == (min(expected) if expected else None)
        if expected:
            assert dim_bounds(points) == tuple((min(axis), max(axis)) for axis in zip(*expected, strict=True))


def test_counts_are_exact_beyond_64_bits() -> None:
    with budget():
        assert count(integer_set("S", [("i", 10**30), ("j", 2**63 + 1)])) == 10**30 * (2**63 + 1)


def test_count_of_a_set_without_bounds_is_refused() -> None:
    with budget(), pytest.raises(SolverError, match="PM512 A set without bounds"):
        count(isl.Set.universe(tuple_space("S", ["i"])))


def test_keywords_of_isl_are_fine_as_names() -> None:
    with budget():
        assert count(integer_set("mod", [("exists", 3), ("floor", 4)], [dim("floor") - dim("exists")])) == 9


def test_a_misspelt_name_never_becomes_a_new_dim() -> None:
    with budget(), pytest.raises(KeyError, match="'k'"):
        integer_set("S", [("i", 3)], [dim("k")])


def test_same_value_and_later_relate_points_by_what_the_functions_say() -> None:
    with budget():
        points = integer_set("S", [("i", 3), ("j", 3)])
        place = function("S", ["i", "j"], [I_DIM + J_DIM])
        equal = same_value(place, place).intersect_domain(points).intersect_range(points)
        greater = later(place, place).intersect_domain(points).intersect_range(points)
        assert count(equal.wrap()) == 1 + 4 + 9 + 4 + 1
        assert count(greater.wrap()) == (81 - 19) // 2
        assert first_pair(greater) == ((0, 1), (0, 0))


def test_nonnegative_keeps_the_points_where_the_expression_is_not_negative() -> None:
    with budget():
        assert count(nonnegative(integer_set("S", [("i", 10)]), I_DIM - 7)) == 3


def test_affine_functions_keep_huge_coefficients() -> None:
    with budget():
        space = tuple_space("S", ["i"])
        function_text = isl_affine(Affine(((10**25, "i"),), -(10**25)), variables(space), space).to_str()
    assert "10000000000000000000000000" in function_text


def slow_set() -> isl.Set:
    with budget():
        return integer_set("S", [("i", 10**4), ("j", 10**4)], [affine(((1, Floor(I_DIM + J_DIM * 7, 5)),)) - I_DIM])


def test_budget_ends_an_endless_question_with_its_error() -> None:
    match = "PM510 the count needs more than 1,000 operations"
    points = slow_set()
    with pytest.raises(BudgetError, match=match), budget(1000, what="the count"):
        count(points)


def growing_union() -> None:
    points = integer_set("", [("i", 5), ("j", 7)])
    for number in range(200):
        points = points.fix_val(isl.dim_type.set, 0, value(number % 3)).union(points)


def test_a_number_that_is_read_with_the_last_operation_is_no_other_complaint() -> None:
    for operations in range(1400, 1500):  # isl calls some of them a "syntax error"
        with pytest.raises(BudgetError, match="PM510 counting needs more than"), budget(operations, what="counting"):
            growing_union()


def test_other_complaints_of_isl_are_translated() -> None:
    with pytest.raises(SolverError, match="PM511 isl could not answer a union"), budget(what="a union"):
        integer_set("S", [("i", 3)]).union(integer_set("T", [("i", 3), ("j", 3)]))


def test_a_budget_is_over_when_its_block_ends() -> None:
    with pytest.raises(BudgetError), budget(10):
        count(integer_set("S", [("i", 50), ("j", 50)], [I_DIM - J_DIM]))
    with budget():
        assert count(integer_set("S", [("i", 50), ("j", 50)], [I_DIM - J_DIM])) == 1275


# isl's lexmin fails here: "affine expression involves some of the domain dimensions".
FLOORS = """{ [i, j, k, l] : (-1 + j) mod 3 = 0 and (1 + j + k) mod 6 = 0 and i >= 0 and 0 <= j <= 1 and i < k <= 4
 and l >= 2 + j - k and l >= 0 and 3l <= -2 + j + k }"""


def test_the_first_point_is_found_where_isl_has_no_lexmin() -> None:
    with budget():
        points = isl.Set.read_from_str(CONTEXT, FLOORS)
        with pytest.raises(isl.Error, match="involves some of the domain dimensions"):
            points.lexmin()
        found = first_point(points)
        assert found is not None
        i, j, k, last = found
        assert (j - 1) % 3 == (1 + j + k) % 6 == 0
        assert 0 <= i < k <= 4
        assert 0 <= j <= 1
        assert max(0, 2 + j - k) <= last
        assert 3 * last <= j + k - 2
        assert first_point(points.union(isl.Set.read_from_str(CONTEXT, "{ [-1, 0, 0, 0] }"))) == (-1, 0, 0, 0)
