"""What a product moves at least through one buffer: no legal tree is below it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import polymap as pm
from polymap.costmodel.referees.trees import exhaustive
from polymap.ir import Architecture, Compute, Mapping, MappingNode, Storage, Temporal, Workload
from polymap.search.dividing import best_product_tiles
from polymap.search.problem import analyse, exact_score, measure_of, parse_objective
from polymap.search.single_level import bound_at_once, bounds, first_tiles


def product(sizes: dict[str, int], bits: dict[str, int]) -> Workload:
    return pm.io.workload_from_document(
        {"name": "p", "einsum": "C[m,n] += A[m,k] * B[k,n]", "sizes": sizes, "bits": bits}
    )


def machine(capacity_bits: int, pj: int) -> Architecture:
    """Return DRAM and one buffer."""
    dram = {"level": "DRAM", "word_bits": 1, "read_pj": 100, "write_pj": 100}
    buffer = {"level": "BUF", "capacity_bits": capacity_bits, "word_bits": 1, "read_pj": pj, "write_pj": pj}
    return pm.io.arch_from_document({"name": "b", "nodes": [dram, buffer, {"compute": "MAC", "pj": 0, "per_cycle": 1}]})


def bound_of(workload: Workload, arch: Architecture, objective: str) -> Fraction:
    """Return the bound in the objective's unit."""
    measure = measure_of(parse_objective(objective, arch), workload, arch)
    least = bound_at_once(analyse(workload, arch), measure)
    assert least is not None
    return least


def random_tree(rng: random.Random, workload: Workload) -> Mapping:
    """Return a tree with any tiles, some tensors in the buffer."""
    now = workload.extents()
    nodes: list[MappingNode] = [Storage("DRAM", tuple(tensor.name for tensor in workload.tensors))]
    for tensor in rng.sample("ABC", rng.choice((2, 3, 3))):
        for dim in rng.sample("mnk", 3):
            if now[dim] > 1 and rng.random() < 0.6:
                now[dim] = rng.randrange(1, now[dim])
                nodes.append(Temporal(dim, now[dim]))
        nodes.append(Storage("BUF", (tensor,)))
    nodes += [Temporal(dim, 1) for dim in rng.sample("mnk", 3) if now[dim] > 1]
    return Mapping((*nodes, Compute(workload.statements[0].name)))


def random_question(rng: random.Random, sizes: range) -> tuple[Workload, Architecture, str]:
    workload = product(
        {dim: rng.choice(sizes) for dim in "mnk"}, {tensor: rng.choice((1, 2, 3, 8)) for tensor in "ABC"}
    )
    arch = machine(rng.choice((4, 6, 8, 12, 16, 24, 40, 60)) * rng.choice((1, 2)), rng.choice((0, 1, 100)))
    return workload, arch, rng.choice(("energy", "traffic:DRAM"))


@pytest.mark.parametrize("seed", range(3))
def test_no_random_tree_is_below_the_bound(seed: int) -> None:
    rng, legal = random.Random(f"one buffer {seed}"), 0
    for _ in range(20):
        workload, arch, objective = random_question(rng, range(2, 10))
        bound = bound_of(workload, arch, objective)
        for _ in range(25):
            tree = random_tree(rng, workload)
            score = exact_score(workload, arch, parse_objective(objective, arch), tree)
            if score is not None and not score.excess:
                legal += 1
                assert score.value >= bound, (workload, arch, objective, tree)
    assert legal > 20


def test_no_tree_of_all_is_below_the_bound() -> None:
    rng, met = random.Random("all trees"), 0
    for _ in range(8):
        workload, arch, objective = random_question(rng, range(1, 4))
        true = exhaustive(workload, arch, objective, "any")
        assert true is not None
        assert true.value is not None
        bound = bound_of(workload, arch, objective)
        assert bound <= true.value, (workload, arch, objective)
        met += bound == true.value
    assert met > 2


def dividing_trees_below(questions: int) -> int:
    """Return of how many products, some with large sizes, the best dividing tree is below the bound."""
    rng, below = random.Random("dividing"), 0
    for _ in range(questions):
        sizes = {dim: rng.choice((7, 12, 16, 31, 60, 64, 100, 256)) for dim in "mnk"}
        workload = product(sizes, {tensor: rng.choice((1, 2, 3, 8)) for tensor in "ABC"})
        arch = machine(rng.choice((24, 100, 700, 3000, 20_000)), 1)
        measure = measure_of(parse_objective("traffic:DRAM", arch), workload, arch)
        answer = best_product_tiles(analyse(workload, arch), measure, lambda: False)
        assert answer is not None
        assert answer.found is not None
        below += measure.unscaled(answer.found[0]) < bound_of(workload, arch, "traffic:DRAM")
    return below


def test_no_dividing_tree_is_below_the_bound() -> None:
    assert dividing_trees_below(60) == 0


def twice(found: Any) -> Any:
    return 2 * found


def none_of_the_first_half(parts: Any) -> Any:
    listed = list(parts)
    return listed[len(listed) // 2 :] if len(listed) > 1 else listed


@pytest.mark.parametrize(
    ("owner", "name", "change"),
    [(bounds.OrderBound, "_later", twice), (bounds.FirstTiles, "parts", none_of_the_first_half)],
)
def test_mistakes_are_noticed(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, change: Callable[[Any], Any]
) -> None:
    right = getattr(owner, name)

    def wrong(*args: Any) -> Any:
        return change(right(*args))

    monkeypatch.setattr(first_tiles, "TUNING", replace(first_tiles.TUNING, cells_looked_at=1))
    monkeypatch.setattr(owner, name, staticmethod(wrong) if name == "parts" else wrong)
    assert dividing_trees_below(60) > 0


def test_a_large_product_is_bounded_closely() -> None:
    """4096 x 4096 x 8192 through 16,384 words of 8 bits: boxes of 114 x 142 move 2,197,815,296 words."""
    workload = product({"m": 4096, "n": 4096, "k": 8192}, dict.fromkeys("ABC", 8))
    bound = bound_of(workload, machine(8 * 16_384, 1), "traffic:DRAM")
    assert Fraction(9995, 10_000) * 8 * 2_197_815_296 < bound <= 8 * 2_197_815_296
