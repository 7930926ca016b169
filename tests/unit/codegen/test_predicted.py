"""The benchmark of predictions: draws are mappings of the native form, rank correlation and caches are right."""

from math import prod

import pytest

import polymap as pm
from benchmarks.cache_misses import compared
from benchmarks.predicted import pool_of, ranks, rho
from polymap.ir import Spatial, Storage

SMALL = pm.matmul(20, 48, 12, bits=32)
PROCESSOR = pm.load_arch("cpu_avx512")


def test_draws_are_mappings_of_the_native_form_that_fit_and_come_again() -> None:
    drawn = pool_of(SMALL, PROCESSOR, 4, seed=1)
    assert [each.mapping for each in drawn] == [each.mapping for each in pool_of(SMALL, PROCESSOR, 4, seed=1)]
    for each in drawn:
        cost = pm.evaluate(each.rounded, each.arch, each.mapping)
        assert cost.legal
        again = (each.visits - 1) * each.tile.again_cycles
        beside, waited = each.transfers
        assert each.cycles == max(each.tile.cycles + again, beside) + waited
        lanes = [node for node in each.mapping.nodes if isinstance(node, Spatial)]
        assert [node.fanout for node in lanes] == ["lane"]
        sums = [n for n in each.mapping.nodes if isinstance(n, Storage) and (n.level, n.tensors) == ("REG", ("C",))]
        assert len(sums) == 1
        assert each.visits >= 1


def test_visits_are_the_times_that_a_tile_of_sums_is_left() -> None:
    for each in pool_of(SMALL, PROCESSOR, 4, seed=2):
        cost = pm.evaluate(each.rounded, each.arch, each.mapping)
        drains = next(row.drains for row in cost.traffic if (row.level, row.tensor) == ("REG", "C"))
        size = each.rounded.tensor("C").shape
        # Loops over the reduction that do not change the tile of sums leave it where it is.
        assert drains <= each.visits * size[0] * size[1]


def test_what_is_fetched_is_compared_with_what_mappings_hold() -> None:
    """In caches of a megabyte every word is fetched once, whatever a mapping holds."""
    (choice,) = pool_of(SMALL, PROCESSOR, 1, seed=3)
    found = compared(choice)
    words = sum(prod(tensor.shape) for tensor in choice.rounded.tensors)
    for level in ("L2", "L3"):
        assert found[level].fetched["words"] == words
        assert found[level].held >= words


def test_rank_correlation() -> None:
    assert list(ranks([3, 1, 3])) == [1.5, 0, 1.5]
    assert rho([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert rho([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert rho([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]) == pytest.approx(0.8)  # 1 - 6 * 4 / (5 * 24)
