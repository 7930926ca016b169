"""Extents of any size: every question ends with an answer or a PolymapError (tests/size_tally.py)."""

from __future__ import annotations

import numpy as np
import pytest

import polymap as pm
from polymap.schedules import TileRule, space_size
from polymap.schedules.chains import any_table, chains, residue_product, spatial_trips
from polymap.search.programs.instances import _order_of_columns
from tests.size_tally import EXTENTS, ask

MACHINE = pm.io.arch_from_document(
    {
        "name": "x",
        "nodes": [
            {"level": "DRAM", "word_bits": 16, "read_pj": 200, "write_pj": 200},
            {"level": "RF", "capacity_bits": 4096, "word_bits": 16, "read_pj": 1, "write_pj": 1},
            {"compute": "MAC", "pj": 1},
        ],
    }
)


@pytest.mark.parametrize("seed", [1, 2, 10, 12, 61, 140, 161, 295, 307])
def test_a_question_with_huge_extents_has_an_answer_or_an_error(seed: int) -> None:
    assert ask(seed)[0]


@pytest.mark.soak
@pytest.mark.parametrize("block", range(60))
def test_hundreds_of_questions_with_huge_extents_have_answers_or_errors(block: int) -> None:
    for seed in range(1000 + 10 * block, 1010 + 10 * block):
        assert ask(seed)[0], seed


@pytest.mark.parametrize("extent", [2**19 - 1, 2**19, 10**6])
def test_the_count_of_the_space_ends_no_search(extent: int) -> None:
    found = pm.explore(pm.matmul(4, extent, 4), MACHINE, time_limit_s=4)
    assert found.value is not None
    assert found.status in ("OPTIMAL", "FEASIBLE")


@pytest.mark.parametrize("extent", EXTENTS)
def test_the_space_of_a_huge_extent_is_counted_or_unknown(extent: int) -> None:
    """Without fan-outs a chain picks any tiles, so that spaces of any extent are counted."""
    size = space_size(pm.einsum("O[i] += A[i]", i=extent), MACHINE, TileRule.ANY)
    assert size.legal is not None
    assert size.legal > extent
    eyeriss = space_size(pm.einsum("O[i] += A[i]", i=extent), pm.load_arch("eyeriss_like"), TileRule.DIVIDE)
    assert eyeriss.legal is None or eyeriss.legal > 0


def test_products_of_residues_are_exact_beyond_what_one_float_sum_holds() -> None:
    prime, many = 131_071, 3 * 2**18 + 5
    left = np.full((1, many), prime - 1, dtype=np.int64)
    assert residue_product(left, left.T, prime).tolist() == [[many % prime]]  # (-1)^2 each


def test_chains_without_fan_outs_are_those_of_the_formula() -> None:
    for extent in (2, 3, 9, 30):
        table = any_table(extent, [], [()], [4], 10_007)
        assert table[:, 0].tolist() == [chains(TileRule.ANY, extent, loops) for loops in range(5)]


def test_dividing_trip_counts_are_divisors_in_order() -> None:
    found = [trips for (trips,) in spatial_trips(TileRule.DIVIDE, 36, [10])]
    assert found == [trips for trips in range(2, 11) if 36 % trips == 0]
    assert [trips for (trips,) in spatial_trips(TileRule.DIVIDE, 10**30, [10**9])][-1] == 10**9


def test_neighbours_of_trees_whose_tiles_do_not_divide_are_refused_by_name() -> None:
    product = pm.matmul(4, 7, 4)
    nodes = [{"for": "m", "tile": 1}, {"for": "n", "tile": 3}, {"for": "n", "tile": 1}, {"for": "k", "tile": 1}]
    mapping = pm.io.mapping_from_document({"nodes": [*nodes, {"compute": product.statements[0].name}]})
    with pytest.raises(pm.errors.OptionError, match="PM539"):
        pm.space.neighbours(product, MACHINE, mapping)


@pytest.mark.parametrize("most", [5, 10**12])
def test_instances_are_in_order_however_long_their_numbers_are(most: int) -> None:
    columns = np.random.default_rng(0).integers(0, most, size=(6, 50))
    order = _order_of_columns(columns)
    assert [tuple(row) for row in columns.T[order]] == sorted(tuple(row) for row in columns.T)
