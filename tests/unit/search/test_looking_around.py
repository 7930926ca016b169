"""What local search may score once the structures of a search are listed, and what families of mappings add."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations, product

import pytest

import polymap as pm
from polymap.networks import comparison
from polymap.resources import Limits, Memory, cpu_seconds
from polymap.search.problem import measure_of, parse_objective
from polymap.search.trees import DividingPolish, climber_for
from polymap.search.trees.tuning import TUNING
from tests.referee.all_trees import all_trees

LAYER, FLAT = pm.matmul(m=64, n=48, k=96), pm.load_arch("flat3")
ENERGY = parse_objective("energy", FLAT)


@pytest.mark.parametrize(
    ("structures", "trees"), [(10, 0), (20_000, int(20_000 * TUNING.per_structure)), (None, TUNING.most_when_listed)]
)
@pytest.mark.parametrize("is_late", [False, True])
def test_trees_are_paid_by_structures_and_past_the_limit_by_cpu_time(
    structures: int | None, trees: int, *, is_late: bool
) -> None:
    # Each look at the clock takes a second.
    limits = Limits(iter(range(10**9)).__next__, 1 if is_late else 10**9, Memory(None))
    climber = climber_for(LAYER, FLAT, ENERGY, (), divide=True, seed=0)
    assert climber is not None
    polish = DividingPolish(climber, measure_of(ENERGY, LAYER, FLAT), limits, has_window=False)
    begin = cpu_seconds()
    found = polish.listed(structures, None)
    assert climber.scored >= (min(trees, 1) if is_late else trees)
    assert not is_late or cpu_seconds() - begin < TUNING.past_limit_s + 0.5
    assert (found is None) == (trees == 0)
    if found is not None:
        assert measure_of(ENERGY, LAYER, FLAT).unscaled(found[0]) >= pm.explore(LAYER, FLAT, tiles="divide").value


def test_a_first_tree_that_meets_the_floor_ends_the_search() -> None:
    """No tree is better: neither structures are listed then nor trees near it scored (1,600 of these would be)."""
    found = pm.explore("resnet50.conv1", FLAT, "latency", tiles="divide")
    assert (found.status, found.value) == ("OPTIMAL", 460_992)
    assert found.work < 100


def test_a_better_mapping_of_a_family_is_the_best_of_all() -> None:
    ranked = list(pm.candidates(LAYER, FLAT, limit=30))
    best, worse = ranked[0], ranked[-1]
    assert best[1].energy_pj < worse[1].energy_pj
    known = {comparison.OPTIMUM: worse}
    comparison.take_in(known, {"weight-stationary": best}, (LAYER, FLAT, ENERGY))
    assert known == {comparison.OPTIMUM: best, "weight-stationary": best}


def other_orders(mapping: pm.Mapping) -> Iterator[pm.Mapping]:
    """Yield the loop trees with the same nodes, and the same loops between them in any order."""
    blocks: list[list[pm.Temporal | pm.Spatial]] = [[]]
    nodes: list[pm.Storage | pm.Compute] = []
    for node in mapping.nodes:
        if isinstance(node, pm.Temporal | pm.Spatial):
            blocks[-1].append(node)
        else:
            assert isinstance(node, pm.Storage | pm.Compute), "a loop tree without branches"
            nodes.append(node)
            blocks.append([])
    orders = [
        [order for order in permutations(block) if all(_falls(order, loop.dim) for loop in block)] for block in blocks
    ]
    for chosen in product(*orders):
        parts = [(*loops, node) for loops, node in zip(chosen, nodes, strict=False)]
        yield pm.Mapping(tuple(node for part in parts for node in part))


def _falls(loops: tuple[pm.Temporal | pm.Spatial, ...], dim: str) -> bool:
    tiles = [loop.tile for loop in loops if loop.dim == dim]
    return tiles == sorted(tiles, reverse=True)


def test_what_candidates_leave_out_is_beaten_by_another_order_of_its_loops() -> None:
    layer = pm.einsum("O[k,p] += I[2*p+r] * W[k,r]", k=4, p=2, r=2)
    nodes = [{"level": "DRAM", "read_pj": 220, "write_pj": 440}, {"fanout": "X", "size": 2}]
    nodes += [{"level": "L1", "capacity_bits": 24, "read_pj": 2.5, "write_pj": 2.5, "holds": ["@input"]}]
    arch = pm.io.arch_from_document({"name": "two", "nodes": [*nodes, {"fanout": "Y", "size": 4}, {"compute": "MAC"}]})

    def energies(mappings: set[pm.Mapping]) -> dict[pm.Mapping, Fraction]:
        costs = {mapping: pm.evaluate(layer, arch, mapping) for mapping in mappings}
        return {mapping: cost.energy_pj_exact for mapping, cost in costs.items() if cost.legal}

    given = [cost.energy_pj_exact for _, cost in pm.candidates(layer, arch, limit=10_000)]
    trees = energies(all_trees(layer, arch, "divide", legal=True))
    assert given == sorted(given), "best first"
    assert given[0] == min(trees.values())
    assert set(given) < set(trees.values()), "some are left out here"
    left_out = {energy: mapping for mapping, energy in trees.items() if energy not in given}
    for energy, mapping in left_out.items():
        best = min(energies(set(other_orders(mapping))).values())
        assert best < energy, mapping
        assert best in given, mapping
