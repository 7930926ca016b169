"""Search-space formulas, rows S1-S7. Source: ML systems textbook, chapter Hardware Acceleration."""

from __future__ import annotations

from polymap.ir.machine import Architecture, ComputeUnit, MemoryLevel
from polymap.schedules.size import legal_count
from polymap.schedules.textbook_estimates import loop_orders, mappings, parallel_choices, tilings
from polymap.workload.einsums import einsum


def test_s1_orders_of_seven_loops() -> None:
    assert loop_orders(7) == 5_040


def test_s1_is_the_exact_size_where_nothing_but_the_order_is_open() -> None:
    layer = einsum("O[n,k,p,q] += I[n,c,p+r,q+s] * W[k,c,r,s]", n=2, k=4, c=4, p=7, q=7, r=3, s=3)
    assert legal_count(layer, Architecture("flat", (MemoryLevel("DRAM"), ComputeUnit("MAC"))), "any") == 5_040


def test_s2_orders_of_five_loops() -> None:
    assert loop_orders(5) == 120


def test_s3_orders_of_seven_loops_at_three_levels() -> None:
    assert loop_orders(7, 3) == 128_024_064_000


def test_s4_three_of_six_loops_parallel() -> None:
    assert parallel_choices(6, 3) == 120
    assert parallel_choices(6, 3, ordered=False) == 20


def test_s5_four_tile_sizes_of_five_dims_at_three_levels() -> None:
    assert tilings(4, 5, 3) == 1_073_741_824


def test_s6_mappings_of_one_level() -> None:
    assert mappings(4, 5, 2) == 2_457_600


def test_s7_mappings_of_three_levels() -> None:
    assert mappings(4, 5, 2, 3) == 14_843_406_974_976_000_000
