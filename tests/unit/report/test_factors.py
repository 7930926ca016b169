"""The table level x dim, derived from the loop tree."""

from __future__ import annotations

from math import prod

from polymap.report.text.factors import factor_table, factors_text
from tests.unit.report.shared import FLAT, PRODUCT, SPREAD, nest


def test_loops_belong_to_the_innermost_level_above_them() -> None:
    factors = factor_table(PRODUCT, FLAT, SPREAD)
    assert factors.dims == ("m", "n", "k")
    assert [(row.name, row.is_fanout, row.factors) for row in factors.rows] == [
        ("DRAM", False, (1, 1, 2)),
        ("GLB", False, (1, 2, 3)),
        ("X", True, (8, 1, 1)),
        ("Y", True, (1, 2, 1)),
        ("RF", False, (1, 1, 1)),
    ]
    columns = zip(*(row.factors for row in factors.rows), strict=True)
    assert [prod(column) for column in columns] == [8, 4, 6]


def test_uneven_nodes_and_partial_tiles() -> None:
    rows = {row.name: row.factors for row in factor_table(PRODUCT, FLAT, nest("RF:A m3 GLB:B m1 k1 n1")).rows}
    assert rows["DRAM"] == (1, 1, 1)
    assert rows["RF"] == (9, 4, 6)  # the level never steps back outwards
    assert rows["GLB"] == (1, 1, 1)


def test_the_text_shows_dots_for_ones() -> None:
    assert factors_text(factor_table(PRODUCT, FLAT, nest("m4 GLB:A m1 n1 k1"))).splitlines() == [
        "factors       m  n  k",
        "---------------------",
        "DRAM          2  .  .",
        "GLB           4  4  6",
        "X (parallel)  .  .  .",
        "Y (parallel)  .  .  .",
        "RF            .  .  .",
    ]
