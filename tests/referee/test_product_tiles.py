"""The search over orders and cuts of products against the one over tables, which shares no formula of tiles with it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import polymap as pm
from polymap.ir import Architecture, Fanout, MemoryLevel, Multicast
from polymap.search.dividing import best_product_tiles, solve
from polymap.search.problem import analyse, exact_score, is_confirmed, measure_of, parse_objective
from tests.case_machines import with_open_levels, with_wires
from tests.times import few

EINSUMS = (
    "C[m,n] += A[m,k] * B[k,n]",
    "C[b,m,n] += A[b,m,k] * B[b,k,n]",
    "C[m] += A[m,k] * B[k]",
    "C[m,n] += A[m] * B[n]",
)
SIZES = (1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 13, 16, 20, 24, 30, 36, 48, 64, 100, 128)


def random_machine(rng: random.Random) -> Architecture:
    """Return a preset with other capacities, energies, fan-outs, and tensors that some level must hold."""
    arch = pm.load_arch(rng.choice(("flat3", "eyeriss_like", "simba_like", "tpu_like")))
    nodes = list(arch.nodes)
    for place, node in enumerate(nodes):
        if isinstance(node, MemoryLevel) and node.capacity_bits:
            must = (rng.choice("AC"),) if node.holds is None and rng.random() < 0.15 else node.must_hold
            bits = max(8, node.capacity_bits // rng.choice((1, 1, 2, 8, 64, 1000)))
            read = node.read_pj * rng.choice((0, 1, 1, 2, 10))
            nodes[place] = replace(node, capacity_bits=bits, must_hold=must, read_pj=read)
        elif isinstance(node, Fanout):
            size = rng.choice((node.size, node.size, 1, 2, 3, 4, 5))
            multicast = rng.choice((Multicast.IDENTICAL, Multicast.IDENTICAL, Multicast.NONE))
            nodes[place] = replace(node, size=size, multicast=multicast, reduction=rng.random() < 0.7)
    return replace(arch, nodes=tuple(nodes))


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(6), 3))
def test_with_wires_the_dividing_answer_over_any_tiles_is_that_over_dividing_ones(seed: int) -> None:
    rng = random.Random(f"wired products {seed}")
    for _ in range(3):
        einsum = rng.choice(EINSUMS)
        sizes = {dim: rng.choice(SIZES[:10]) for dim in "bmnk" if dim in einsum}
        workload = pm.io.workload_from_document({"name": "product", "einsum": einsum, "sizes": sizes})
        arch = with_wires(rng, with_open_levels(rng, random_machine(rng)))
        goal = parse_objective("energy", arch)
        problem, measure = analyse(workload, arch), measure_of(goal, workload, arch)
        answer = best_product_tiles(problem, measure, lambda: False)
        divided = pm.explore(workload, arch, tiles="divide")
        chosen = pm.choose_tiles(workload, arch)
        assert chosen.is_proven
        assert divided.status == ("INFEASIBLE" if chosen.value is None else "OPTIMAL")
        assert divided.value == (None if chosen.value is None else float(chosen.value))
        if answer is None or answer.found is None:
            continue
        claimed, mapping = (measure.unscaled(answer.found[0]),), answer.found[1].mapping
        assert is_confirmed(workload, arch, goal, mapping, claimed), (einsum, sizes, arch)
        assert divided.value == float(claimed[0])


@pytest.mark.parametrize("seed", range(8))
def test_the_best_product_is_that_of_the_tables(seed: int) -> None:
    rng, compared = random.Random(f"product tiles {seed}"), 0
    for _ in range(12):
        einsum = rng.choice(EINSUMS)
        sizes = {dim: rng.choice(SIZES) for dim in "bmnk" if dim in einsum}
        workload = pm.io.workload_from_document({"name": "product", "einsum": einsum, "sizes": sizes})
        arch = random_machine(rng)
        objective = rng.choice(("energy", "energy", *(f"traffic:{level.name}" for level in arch.levels[:2])))
        goal = parse_objective(objective, arch)
        problem, measure = analyse(workload, arch), measure_of(goal, workload, arch)
        answer = best_product_tiles(problem, measure, lambda: False)
        if answer is None:
            continue
        other = solve(problem, measure, lambda: False, lambda found, bound: None, looks_first=False)
        assert other.left == ()
        if answer.found is None:
            assert not other.found, (einsum, sizes, arch)
            continue
        compared += 1
        assert other.found[0][0] == answer.found[0], (einsum, sizes, objective, arch)
        score = exact_score(workload, arch, goal, answer.found[1].mapping)
        assert score is not None
        assert (score.value, score.excess) == (measure.unscaled(answer.found[0]), 0)
    assert compared > 3


@pytest.mark.parametrize("machine", ["flat3", "eyeriss_like", "simba_like", "tpu_like"])
def test_large_products_are_those_of_the_tables(machine: str) -> None:
    rng, arch = random.Random(f"large products {machine}"), pm.load_arch(machine)
    for _ in range(3):
        sizes = {dim: rng.choice((96, 128, 200, 384, 512, 1024, 3072, 4096)) for dim in "mnk"}
        workload = pm.io.workload_from_document({"name": "product", "einsum": EINSUMS[0], "sizes": sizes})
        goal = parse_objective("energy", arch)
        problem, measure = analyse(workload, arch), measure_of(goal, workload, arch)
        answer = best_product_tiles(problem, measure, lambda: False)
        other = solve(problem, measure, lambda: False, lambda found, bound: None, looks_first=False)
        assert answer is not None
        assert answer.found is not None
        assert other.left == ()
        assert other.found[0][0] == answer.found[0], sizes
