"""Counts as polynomials of parameters equal counting the points one by one."""

from __future__ import annotations

import random
from itertools import product

import islpy as isl
import pytest

from polymap.poly.formulas import count_formula

RANGE = range(-2, 9)


def _points(rows: list[str], values: dict[str, int], dims: int) -> int:
    """Count the points of a box from -3 to 20 that meet every condition, written in Python."""
    code = compile(" and ".join(rows), "rows", "eval")
    names = "ijk"[:dims]
    return sum(
        bool(eval(code, {}, {**values, **dict(zip(names, point, strict=True))}))
        for point in product(range(-3, 21), repeat=dims)
    )


def _agrees(rows: list[str], dims: int, parameters: str) -> bool:
    names = ",".join("ijk"[:dims])
    points = isl.Set(f"[{','.join(parameters)}] -> {{ S[{names}] : {' and '.join(rows)} }}")
    formula = count_formula(points)
    if formula is None:
        return False
    for numbers in product(RANGE if len(parameters) == 1 else RANGE[::3], repeat=len(parameters)):
        values = dict(zip(parameters, numbers, strict=True))
        assert formula.at(values) == _points(rows, values, dims), (rows, values, str(formula))
    return True


@pytest.mark.parametrize(
    ("rows", "dims", "text"),
    [
        (["0 <= i", "i < n"], 1, "n if n > 0"),
        (["0 <= i", "i < n", "0 <= j", "j <= i"], 2, "n*(n + 1)/2 if n > 0"),
        (["0 <= i", "i < n", "j == i"], 2, "n if n > 0"),
        (["0 <= i", "i < n", "i < 5"], 1, "5 if n >= 6; n if 0 < n <= 5"),
        (["0 <= i", "i < n", "0 <= j", "j < i", "j < k", "k < i"], 3, "n*(n - 2)*(n - 1)/6 if n >= 3"),
        (["0 <= i", "i < 4"], 1, "4"),
        (["i > 3", "i < 2"], 1, "0"),
    ],
)
def test_known_formulas(rows: list[str], dims: int, text: str) -> None:
    names = ",".join("ijk"[:dims])
    formula = count_formula(isl.Set(f"[n] -> {{ S[{names}] : {' and '.join(rows).replace('==', '=')} }}"))
    assert str(formula) == text


def test_bounds_that_divide_have_no_polynomial() -> None:
    assert count_formula(isl.Set("[n] -> { S[i] : 0 <= 2i < n }")) is None
    assert count_formula(isl.Set("[n] -> { S[i] : i >= 0 }")) is None


@pytest.mark.parametrize("name", ["N", "S", "E", "I", "pi", "_0", "n", "lambda_"])
def test_parameters_may_have_the_names_of_constants(name: str) -> None:
    formula = count_formula(isl.Set(f"[{name}] -> {{ S[i,j] : 0 <= i < {name} and 0 <= j <= i }}"))
    assert formula is not None
    assert formula.at({name: 100}) == 5050


def test_polynomials_that_agree_at_some_parameters_are_joined_with_all_that_was_joined_to_them() -> None:
    rows = ["0 <= i <= 2", "j > i", "k >= 0", "l >= j - 1", "k <= l < n"]
    formula = count_formula(isl.Set(f"[n] -> {{ S[i,j,k,l] : {' and '.join(rows)} }}"))
    assert formula is not None
    assert [formula.at({"n": n}) for n in range(-1, 6)] == [0, 0, 1, 7, 25, 61, 121]


def test_random_sets_are_counted_right() -> None:
    rng = random.Random(3)
    agreed = 0
    for _ in range(30):
        dims, parameters = rng.choice([1, 2, 2, 3]), rng.choice(["n", "nm"])
        rows: list[str] = []
        for number, dim in enumerate("ijk"[:dims]):
            others = [*"ijk"[:number], *parameters]
            low, high = rng.choice([*others, "0", "0", "1"]), rng.choice([*others, *parameters])
            rows += [f"{dim} >= {low} + {rng.randint(-1, 2)}", f"{dim} <= {high} + {rng.randint(-2, 2)}"]
            rows += [f"{dim} >= -3", f"{dim} <= 20"] if rng.random() < 0.3 else []
        if rng.random() < 0.4 and dims > 1:
            rows.append(f"j {rng.choice(['<=', '>='])} i + {rng.randint(-2, 2)}")
        rows += [f"-3 <= {dim} <= 20" for dim in "ijk"[:dims]]
        agreed += _agrees(rows, dims, parameters)
    assert agreed >= 20
