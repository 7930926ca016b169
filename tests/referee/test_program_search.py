"""The answer over all trees of a small program equals an enumeration that shares no code with the search."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import pytest

import polymap as pm
from polymap.inputs import arch_from_document
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Mapping
from polymap.workload.c.reader import from_c
from tests.program_trees import keeps_order, least_of_rewritings, least_traffic, rewritings, stored, trees
from tests.times import few

FORMS = (
    "A[{i}] = B[{i}] + A[0];",
    "B[{i}] += A[{i}];",
    "B[0] += A[{i}] * A[{i}];",
    "A[{i}] = A[{i}] * B[{j}];",
    "B[{j}] = A[{i}];",
    "A[{j}] += B[{i}];",
    "A[{i} + 1] = A[{i}];",
)

STEPS = (
    "B[i] = A[i] + A[i + 1];",
    "A[i] = B[i];",
    "A[i + 1] = B[i] + A[i];",
    "B[i] += A[i + 1];",
    "A[i] = A[i + 1] * B[t];",
)


def small_program(rng: random.Random) -> Workload:
    """Return one or two statements over A and B in loops of their own or in common."""
    size = rng.choice((2, 3, 4))
    head = f"for (int i = 0; i < {size}; i++) "
    if rng.random() < 0.5:
        body = " ".join(rng.choice(FORMS).format(i="i", j=rng.choice(("i", "0"))) for _ in range(2))
        return from_c(f"void f(double A[9], double B[9]) {{ {head}{{ {body} }} }}")
    if rng.random() < 0.3:
        one, other = (rng.choice(STEPS) for _ in range(2))
        return from_c(
            f"void f(double A[9], double B[9]) {{ for (int t = 0; t < {rng.choice((2, 3))}; t++) {{ "
            f"for (int i = 0; i < 3; i++) {one} for (int i = 0; i < 3; i++) {other} }} }}"
        )
    if rng.random() < 0.6:
        body = rng.choice(FORMS).format(i="i", j="j")
        return from_c(
            f"void f(double A[9], double B[9]) {{ {head}for (int j = 0; j < {rng.choice((2, 3))}; j++) {body} }}"
        )
    parts = " ".join(head + rng.choice(FORMS).format(i="i", j="i") for _ in range(2))
    return from_c(f"void f(double A[9], double B[9]) {{ {parts} }}")


def check(seed: int) -> None:
    rng = random.Random(f"program search {seed}")
    work = small_program(rng)
    elements = rng.choice((1, 2, 3, 5))
    arch = arch_from_document(
        {
            "name": "two",
            "nodes": [{"level": "DRAM"}, {"level": "Buf", "capacity_bits": 64 * elements}, {"compute": "PE"}],
        }
    )
    result = pm.explore(work, arch, "traffic:DRAM", tiles="divide", time_limit_s=300)
    if len(work.statements) == 1:  # local search goes on beyond this space
        assert result.value <= least_traffic(work, arch)
        return
    assert result.status == "OPTIMAL"
    assert result.space.name in ("program trees", "rewritten program trees", "")  # "": it meets the floor of all
    if result.space.name == "program trees" and len([*rewritings(work)]) > 1:
        assert result.value == least_traffic(work, arch)
    else:
        assert result.value == least_of_rewritings(work, arch)


@pytest.mark.parametrize("seed", few(range(10), 5))
def test_answers_equal_enumeration(seed: int) -> None:
    check(seed)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 200))
def test_more_answers_equal_enumeration(seed: int) -> None:
    check(seed)


def products(work: Workload, arch: Architecture, power: int) -> Iterator[Fraction]:
    """Yield energy x delay^power of every tree with every placement in the one level below the outermost."""
    for tree in (each for each in trees(work) if keeps_order(work, each)):
        placed = [tree]
        for tensor in work.tensors:
            placed += [other for one in placed for other in stored(one, arch.levels[1].name, tensor.name)]
        for cost in (pm.evaluate(work, arch, Mapping(nodes)) for nodes in placed):
            if cost.legal:
                yield cost.energy_pj_exact * cost.latency_cycles**power


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(30), 3))
def test_products_with_time_that_are_proven_equal_enumeration(seed: int) -> None:
    rng = random.Random(f"products {seed}")
    size, one = rng.choice((2, 3)), rng.choice(("T[m] = max(A[m], 0)", "T[m] = A[m] * 2"))
    work = pm.program([one, "E[m] = T[m] * A[m]"], m=size, temporary=rng.choice(([], ["T"])), bits=8)
    prices = [{"read_pj": rng.choice((1, 10, 100)), "write_pj": rng.choice((1, 20, 100))} for _ in range(2)]
    widths = rng.choice(({}, {"bandwidth_bits_per_cycle": rng.choice((4, 8, 16))}))
    outer = {"level": "DRAM", **prices[0], **rng.choice(({}, widths))}
    inner = {"level": "Buf", "capacity_bits": 8 * rng.choice((1, 1, 2)), **prices[1], **rng.choice(({}, widths))}
    arch = arch_from_document({"name": "two", "nodes": [outer, inner, {"compute": "PE", "pj": 1}]})
    power = rng.choice((1, 2))
    found, least = (
        pm.explore(work, arch, "edp" if power == 1 else "ed2p", tiles="divide"),
        min(products(work, arch, power)),
    )
    assert found.cost.energy_pj_exact * found.cost.latency_cycles**power == least
    assert widths or found.status == "OPTIMAL"  # else a tree of more energy may be faster


def test_the_least_energy_proves_nothing_of_a_product_where_another_tree_is_faster() -> None:
    work = pm.program(["T[m] = max(A[m], 0)", "E[m] = T[m] * A[m]"], m=2, temporary=["T"], bits=8)
    outer = {"level": "DRAM", "read_pj": 1, "write_pj": 1, "bandwidth_bits_per_cycle": 2}
    inner = {"level": "Buf", "capacity_bits": 16, "read_pj": 3, "write_pj": 3}
    arch = arch_from_document({"name": "slow", "nodes": [outer, inner, {"compute": "PE", "pj": 1}]})
    found, least = pm.explore(work, arch, "ed2p", tiles="divide"), pm.explore(work, arch, tiles="divide")
    assert (found.value, found.space.name) == (min(products(work, arch, 2)), "")
    assert found.cost.latency_cycles < least.cost.latency_cycles
