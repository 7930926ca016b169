"""Padding as a choice: three ways to meet an instruction's widths, each nest searched by itself."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

import polymap as pm

LANES = pm.Architecture(
    "lanes",
    (
        pm.MemoryLevel("DRAM", bandwidth_bits_per_cycle=Fraction(10**6)),
        pm.MemoryLevel("BUF", capacity_bits=2**20),
        pm.Fanout("lane", 16, dims=("k",)),
        pm.ComputeUnit("MAC"),
    ),
)


def test_traffic_of_each_choice_is_that_of_its_nests() -> None:
    """With a buffer for all: each nest loads A and B once and stores C once; what goes on with a sum loads it, too."""
    m, n, k = 32, 32, 20
    found = pm.study.paddings(pm.matmul(m, n, k), LANES, {"k": 16}, "traffic:DRAM")
    padded, peeled, narrower = (each.value for each in found.choices)
    assert padded == 8 * (m * 32 + 32 * n + m * n), "twelve more columns are loaded"
    assert peeled == 8 * (m * 20 + 20 * n + 3 * m * n), "the rest goes on with the sums"
    assert narrower == 8 * (m * 20 + 20 * n + m * n), "tiles of 10 load nothing more"
    assert [each.instances for each in found.choices] == [m * n * 32, m * n * 20, m * n * 20], "padding is work"
    assert found.is_proven, "all are small"
    assert found.best is not None, "all have mappings"
    assert found.best.name == "narrower", "it moves least"
    assert str(found).endswith("best: narrower, proven"), "told at the end"


def test_lanes_that_idle_take_as_long_as_those_that_multiply_zeros() -> None:
    found = pm.study.paddings(pm.matmul(8, 8, 20), LANES, {"k": 16}, "latency")
    assert [each.value for each in found.choices] == [128, 128, 128], "two steps of 16 lanes for each of 64 sums"


def test_a_dim_of_outputs_is_peeled_without_sums_to_go_on_with() -> None:
    found = pm.study.paddings(pm.matmul(20, 8, 8), LANES, {"m": 16, "n": 8}, "traffic:DRAM")
    peeled = found.choices[1]
    assert [(each.extents()["m"], dict(widths)) for each, widths, _ in peeled.runs] == [
        (16, {"m": 16, "n": 8}),
        (4, {"m": 4, "n": 8}),
    ], "n is a whole multiple"
    assert peeled.value == 8 * (20 * 8 + 2 * 64 + 20 * 8), "weights are loaded twice"


@pytest.mark.parametrize(
    ("widths", "objective", "told"),
    [
        ({"k": 16}, "edp", "values of 'edp' of several nests do not add up"),
        ({"z": 16}, "energy", "matmul has no dim 'z' to pad"),
        ({"k": 0}, "energy", "the width of 'k' is 0"),
        ({}, "energy", "there are no widths"),
    ],
)
def test_mistakes_name_widths_and_objectives(widths: dict[str, int], objective: str, told: str) -> None:
    with pytest.raises(pm.errors.OptionError, match=f"PM487 {re.escape(told)}"):
        pm.study.paddings(pm.matmul(8, 8, 20), LANES, widths, objective)


def test_the_text_tells_values_whole_and_with_their_unit() -> None:
    found = pm.study.paddings(pm.matmul(8, 8, 20), LANES, {"k": 16}, "latency")
    for each in found.choices:
        assert each.value is not None
        assert f"{int(each.value):,} cycles (bound {int(each.bound):,} cycles)" in str(found)


def test_widths_beyond_the_extent_are_met_by_its_largest_divisor_at_once() -> None:
    """A width of 10^15 was once tried down one by one."""
    found = pm.study.paddings(pm.matmul(6, 3, 2), LANES, {"m": 10**15}, "traffic:DRAM")
    padded, peeled, narrower = found.choices
    assert [dict(widths) for each in (peeled, narrower) for _, widths, _ in each.runs] == [{"m": 6}, {"m": 6}]
    assert padded.instances == 10**15 * 3 * 2, "padded all the same"
    assert peeled.value == narrower.value == 8 * (6 * 2 + 2 * 3 + 6 * 3), "each element once"
