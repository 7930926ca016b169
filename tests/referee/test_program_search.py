"""The answer over all trees of a small program equals an enumeration that shares no code with the search."""

from __future__ import annotations

import random

import pytest

import polymap as pm
from polymap.inputs import arch_from_document
from polymap.ir.loopnest import Workload
from polymap.workload.c.reader import from_c
from tests.program_trees import least_of_rewritings, least_traffic, rewritings
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
