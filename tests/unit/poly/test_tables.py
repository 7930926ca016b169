"""Tables count as brute force does: rows, products of independent columns, predecessors."""

from __future__ import annotations

import random
from itertools import pairwise, product
from time import process_time

import islpy as isl
import pytest

from polymap.ir.errors import BudgetError
from polymap.ir.quasi_affine import Affine, Floor, dim
from polymap.poly import scan
from polymap.poly.budgets import CONTEXT, budget
from polymap.poly.tables import Table

A, B, C = dim("a"), dim("b"), dim("c")


def test_rows_are_counted_per_value_of_some_columns() -> None:
    with budget():
        table = Table.box((("a", 3), ("b", 4)), (A - B,))
        assert table.tally(("a",)) == {(0,): 1, (1,): 2, (2,): 3}
        assert table.tally(("b", "a")) == {(b, a): 1 for a in range(3) for b in range(a + 1)}
        assert table.count() == 6


def test_an_image_counts_each_value_once() -> None:
    with budget():
        table = Table.box((("a", 5), ("b", 3))).computed({"x": A * 2 + B * 3})
        assert table.count() == len({2 * a + 3 * b for a in range(5) for b in range(3)})
        halves = Table.box((("a", 7),)).computed({"x": Affine(((1, Floor(A, 2)),))})
        assert halves.tally(("x",)) == {(x,): 1 for x in range(4)}


def test_counts_of_random_sets_equal_brute_force() -> None:
    rng = random.Random(1)
    for _ in range(60):
        extents = {name: rng.randrange(1, 8) for name in "abcd"}
        conditions = [
            sum((dim(name) * rng.randrange(-3, 4) for name in extents), Affine((), rng.randrange(-2, 6)))
            for _ in range(rng.randrange(4))
        ]
        points = [
            values
            for values in product(*(range(extent) for extent in extents.values()))
            if all(each.evaluate(dict(zip(extents, values, strict=True))) >= 0 for each in conditions)
        ]
        wanted = tuple(rng.sample(tuple(extents), rng.randrange(3)))
        expected: dict[tuple[int, ...], int] = {}
        for values in points:
            key = tuple(values["abcd".index(name)] for name in wanted)
            expected[key] = expected.get(key, 0) + 1
        with budget():
            assert Table.box(extents.items(), conditions).tally(wanted) == expected


def test_independent_columns_count_beyond_64_bits() -> None:
    with budget():
        assert Table.box((("a", 10**15), ("b", 10**15), ("c", 10**15))).count() == 10**45


def test_interacting_columns_count_far_beyond_what_is_listed() -> None:
    n = 3000
    with budget():
        digits = {"a1": n // 10, "a0": 10, "b1": n // 10, "b0": 10}
        below = dim("a1") * 10 + dim("a0") - dim("b1") * 10 - dim("b0")
        assert Table.box(digits.items(), (below,)).count() == n * (n + 1) // 2


def test_the_row_before_is_found_within_its_group() -> None:
    with budget():
        table = Table.box((("a", 3), ("b", 3), ("c", 2)), (A + B - 1, A * -1 + B * -1 + 3))
        found = table.previous(("c",), ("a", "b"), {"a": "x", "b": "y"})
        rows = sorted((a, b) for a, b in product(range(3), range(3)) if 1 <= a + b <= 3)
        expected = {(c, *now, *past): 1 for past, now in pairwise(rows) for c in range(2)}
        assert found.tally(("c", "a", "b", "x", "y")) == expected


def test_first_last_and_order() -> None:
    with budget():
        table = Table.box((("a", 3), ("b", 3)), (A + B - 1,))
        assert set(table.first(("a",), ("b",)).tally(("a", "b"))) == {(0, 1), (1, 0), (2, 0)}
        assert set(table.last(("b",), ("a",)).tally(("a", "b"))) == {(2, 0), (2, 1), (2, 2)}
        assert table.less(("a",), ("b",)).count() == 3
        assert table.less_or_equal(("a",), ("b",)).count() == 5


def test_too_many_points_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "TUNING", scan.TUNING._replace(most_points=1000))
    with budget(), pytest.raises(BudgetError, match="PM498 dims that interact have 5,050 points"):
        Table.box((("a", 100), ("b", 100)), (A - B,)).tally(("a", "b"))


def test_a_long_tally_ends_with_its_time() -> None:
    begin = process_time()
    with budget(seconds=0.02), pytest.raises(BudgetError, match="0.02 s"):
        Table.box((("a", 2000), ("b", 2000)), ()).tally(("a", "b"))
    assert process_time() - begin < 0.5


# isl's lexmin of l for each (i, j, k) fails here.
FLOORS = """{ [i, j, k, l] : (-1 + j) mod 3 = 0 and (1 + j + k) mod 6 = 0 and i >= 0 and 0 <= j <= 1 and i < k <= 4
 and l >= 2 + j - k and l >= 0 and 3l <= -2 + j + k }"""


@pytest.mark.parametrize("last", [False, True])
def test_first_and_last_do_not_need_lexmin(last: bool) -> None:
    with budget():
        table = Table(("i", "j", "k", "l"), isl.Set.read_from_str(CONTEXT, FLOORS))
        rows = list(table.tally(table.columns))
        for cut in range(4):
            group, order = table.columns[:cut], table.columns[cut:]
            wanted = {
                key: (max if last else min)(row for row in rows if row[:cut] == key) for key in {r[:cut] for r in rows}
            }
            found = table.last(group, order) if last else table.first(group, order)
            assert set(found.tally(found.columns)) == set(wanted.values())


def test_the_extremes_of_pairs_are_those_of_lexmin() -> None:
    rng = random.Random(5)
    for _ in range(12):
        i, j, k = (dim(name) for name in "ijk")
        edge = i * rng.randrange(-2, 3) + j * rng.randrange(-2, 3) + k * rng.randrange(-2, 3) + rng.randrange(4)
        with budget():
            table = Table.box([("i", 3), ("j", 4), ("k", 3)], [edge])
            for last in (False, True):
                one = (table.last if last else table.first)(("i",), ("j", "k"))
                other = table._extreme_of_pairs(("j", "k"), last=last)  # pyright: ignore[reportPrivateUsage]
                assert one.minus(other).is_empty()
                assert other.minus(one).is_empty()
