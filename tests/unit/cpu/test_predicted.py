"""The benchmark of predictions: draws are mappings of the native form, rank correlation and caches are right."""

import random

import pytest

import polymap as pm
from benchmarks.cache_misses import Cache, Walk, simulated
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


def test_registers_of_a_walk_load_what_the_model_says() -> None:
    for each in pool_of(SMALL, PROCESSOR, 3, seed=3):
        cost = pm.evaluate(each.rounded, each.arch, each.mapping)
        rows = {row.tensor: row for row in cost.traffic if row.level == "REG"}
        walk = Walk.of(each.rounded, each.arch, each.mapping, "B", 16)
        touched = [tensor for tensor, _ in walk.trace()]
        assert touched.count("B") == rows["B"].fills
        assert touched.count("C") >= rows["C"].drains


def test_rank_correlation() -> None:
    assert list(ranks([3, 1, 3])) == [1.5, 0, 1.5]
    assert rho([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert rho([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert rho([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]) == pytest.approx(0.8)  # 1 - 6 * 4 / (5 * 24)


def test_caches_evict_the_line_used_longest_ago() -> None:
    rng = random.Random(0)
    addresses = [rng.randrange(60) for _ in range(500)]
    for lines, width, ways in ((8, 1, None), (8, 4, None), (8, 2, 2), (4, 1, 1)):
        held: dict[int, list[int]] = {}
        misses = 0
        for address in addresses:
            line = address // width
            known = held.setdefault(line % (lines // ways) if ways else 0, [])
            misses += line not in known
            known[:] = [*(each for each in known if each != line), line][-(ways or lines) :]
        (counted,) = simulated((("x", address) for address in addresses), [Cache(lines, width, ways)])
        assert counted["x"] == misses
