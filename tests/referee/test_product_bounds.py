"""Geometric programs of orders, sibling counts and whole tiles exceed nothing that walking every legal tree finds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest

import polymap as pm
from polymap.costmodel.referees.trees import ExhaustiveResult, exhaustive
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, Fanout
from polymap.resources import Work
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import measure_of
from polymap.search.problem.problem import analyse
from polymap.search.single_level import solve_cells
from tests.product_boxes import bound_products
from tests.referee.problems import random_problem
from tests.times import few

BATCHES = 3
CHECKS = 4  # problems per batch
STEPS = 25  # of the search per problem


def bound_of(workload: Workload, arch: Architecture, objective: str, least: Fraction) -> Fraction | None:
    """Return the bound after some steps, at most 1.2 times the least value of all trees; None where there is none."""
    measure = measure_of(parse_objective(objective, arch), workload, arch)
    problem = analyse(workload, arch)
    if problem.reason is not None or not measure.is_linear:
        return None
    return bound_products(problem, measure, least * Fraction(6, 5) + 1, lambda: False, most_programs=STEPS * 40)


def of_windows(workload: Workload, arch: Architecture, objective: str, true: ExhaustiveResult) -> Fraction | None:
    """Return the bound of a window on one buffer, where a mapping is said to cost a fifth more than the best one."""
    goal, problem = parse_objective(objective, arch), analyse(workload, arch)
    assert true.best is not None
    assert true.value is not None
    known = true.best, true.value * Fraction(6, 5) + 1
    found = solve_cells(problem, goal, measure_of(goal, workload, arch), known, lambda: False, Work())
    if found is None:
        return None
    assert found[0][1] >= true.value, f"{workload}\n{arch}\n{objective}: {found[0]} costs more"
    return found[1]


def on_one_buffer(arch: Architecture) -> Architecture:
    """Return the machine with its first two levels only, and no fan-outs."""
    nodes = [node for node in arch.nodes if not isinstance(node, Fanout)]
    return replace(arch, nodes=(*nodes[:2], nodes[-1]))


def problems(rng: random.Random, *, windows: bool) -> Iterator[tuple[Workload, Architecture, str]]:
    """Yield small questions, with or without windows."""
    while True:
        problem = random_problem(rng, most=3000, tiles="any")
        if ("p+" in str(problem.workload) or "p +" in str(problem.workload)) != windows:
            continue
        arch = on_one_buffer(problem.arch) if windows else problem.arch
        yield problem.workload, arch, rng.choice(("energy", f"traffic:{arch.levels[0].name}"))


@pytest.mark.parametrize("batch", few(range(2 * BATCHES), 1, late=(0,)))
def test_no_tree_is_below_the_bound(batch: int) -> None:
    rng = random.Random(f"products {batch}")
    checked = 0
    for workload, arch, objective in problems(rng, windows=batch % 2 == 1):
        true = exhaustive(workload, arch, objective, "any")
        if true is None or true.value is None:
            continue
        bound = of_windows(workload, arch, objective, true) or bound_of(workload, arch, objective, true.value)
        if bound is None:
            continue
        assert bound <= true.value, f"{workload}\n{arch}\n{objective}: {bound} above {true.value}"
        checked += 1
        if checked == CHECKS:
            return


def test_partial_tiles_of_own_dims_stay_longer() -> None:
    """A partial tile of d lets X stay, and is what Z's visits are counted by: ceil(n / t) and exact capacities together
    would say 29,500."""
    bits = {"O": 8, "X": 3, "Z": 10}
    sizes = {"d": 5, "l": 8}
    workload = pm.io.workload_from_document(
        {"name": "s", "einsum": "O[d] += X[d] * Z[l]", "sizes": sizes, "bits": bits}
    )
    free = {"word_bits": 1, "read_pj": 0, "write_pj": 0}
    outer = {"level": "L1", **free, "capacity_bits": 34, "holds": ["O", "Z"], "must_hold": ["O", "Z"]}
    inner = {"level": "L2", **free, "capacity_bits": 6, "holds": ["X"], "must_hold": ["X"]}
    dram = {"level": "DRAM", "word_bits": 1, "read_pj": 100, "write_pj": 100}
    compute = {"compute": "MAC", "pj": 0, "per_cycle": 1}
    arch = pm.io.arch_from_document({"name": "s", "nodes": [dram, outer, inner, compute]})
    true = exhaustive(workload, arch, "energy", "any")
    assert true is not None
    assert true.value == 27_800
    bound = bound_of(workload, arch, "energy", Fraction(27_800))
    assert bound is not None
    assert 20_000 < bound <= 27_800


def test_products_on_one_buffer_are_proven() -> None:
    """The best dividing trees of a 256 x 256 x 256 product are the best of all, at every size."""
    document = {"name": "p", "einsum": "C[m,n] += A[m,k] * B[k,n]", "sizes": {"m": 256, "n": 256, "k": 256}}
    workload = pm.io.workload_from_document(document)
    known = {73: 4_259_840, 273: 2_162_688, 1_057: 1_114_112, 4_161: 589_824}
    for words, least in known.items():
        buffer = {"level": "BUF", "word_bits": 8, "capacity_bits": 8 * words, "read_pj": 1, "write_pj": 1}
        dram = {"level": "DRAM", "word_bits": 8, "read_pj": 100, "write_pj": 100}
        arch = pm.io.arch_from_document(
            {"name": "b", "nodes": [dram, buffer, {"compute": "MAC", "pj": 1, "per_cycle": 1}]}
        )
        problem = analyse(workload, arch)
        measure = measure_of(parse_objective("traffic:DRAM", arch), workload, arch)
        bound = bound_products(problem, measure, Fraction(8 * least), lambda: False)
        assert bound is not None
        assert bound > Fraction(8 * least) * Fraction(9999, 10_000)
