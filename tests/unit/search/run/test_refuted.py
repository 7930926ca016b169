"""What is refuted without a search: never what some tree meets, and no utilization below that of some tree."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product
from math import prod

import pytest

from polymap.costmodel.evaluation import evaluate
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.rule_checks import refusals
from polymap.search.problem.rules import AtMost, Factor, Held, Intrinsic, Rules, Utilization
from polymap.search.refuted import is_refuted, most_busy
from polymap.workload.einsums import einsum
from tests.referee.all_trees import all_trees


def machine(*sizes: int, per_cycle: int = 1, register_bits: int = 512) -> Architecture:
    outer, inner = MemoryLevel("DRAM"), MemoryLevel("RF", capacity_bits=register_bits)
    fanouts = [Fanout(name, size) for name, size in zip("XY", sizes, strict=False)]
    return Architecture("lanes", (outer, *fanouts, inner, ComputeUnit("MAC", Fraction(1), per_cycle)))


def random_rules(rng: random.Random, workload: Workload, arch: Architecture) -> Rules:
    dims = [dim.name for dim in workload.dims]
    found: Rules = ()
    if arch.fanouts and rng.random() < 0.6:
        least = rng.choice((1, 2, 2, 3))
        most = rng.choice((None, least, 4))
        found = (*found, Factor("X", rng.choice(dims), least, most))
    if rng.random() < 0.4:
        found = (*found, Utilization(Fraction(rng.randint(4, 12), 12)))
    if rng.random() < 0.4:
        latency = parse_objective("latency", arch)
        found = (*found, AtMost(latency, Fraction(rng.randint(1, 8))))
    if rng.random() < 0.4:
        found = (*found, Intrinsic(rng.choice(dims), rng.choice((2, 3))), Held("RF", "A", must=True))
    return found


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=pytest.mark.slow if n in (1, 9, 10, 11) else ()) for n in range(12)]
)
def test_no_tree_meets_what_is_refuted_and_none_is_busier_than_can_be(seed: int) -> None:
    rng = random.Random(f"refuted {seed}")
    workload = einsum("y[m] += A[m,k] * x[k]", m=rng.choice((2, 3, 5)), k=rng.choice((1, 2, 3)))
    arch = machine(
        *(rng.choice((2, 3, 4)) for _ in range(rng.choice((0, 1, 1)))),
        per_cycle=rng.choice((1, 1, 2)),
        register_bits=rng.choice((8, 32, 512)),
    )
    trees = sorted(all_trees(workload, arch, "any", legal=True), key=str)
    costs = [(tree, evaluate(workload, arch, tree)) for tree in rng.sample(trees, min(len(trees), 150))]
    lanes = prod(fanout.size for fanout in arch.fanouts) * arch.compute.per_cycle
    for _ in range(6):
        rules = random_rules(rng, workload, arch)
        meeting = [cost for tree, cost in costs if not refusals(workload, arch, rules, tree, cost)]
        assert not (meeting and is_refuted(workload, arch, rules)), rules
        most = most_busy(workload, arch, rules)
        for cost in meeting:
            assert most is not None
            assert Fraction(cost.instances, cost.compute_cycles * lanes) <= most, rules


def least_steps(extents: tuple[int, ...], sizes: tuple[int, ...]) -> int:
    """Return the fewest steps of all ways to share the dims among the siblings of fan-outs, by trying all."""
    if not sizes:
        return prod(extents)
    ways = (n for n in product(*(range(1, extent + 1) for extent in extents)) if prod(n) <= sizes[0])
    return min(least_steps(tuple(-(-e // s) for e, s in zip(extents, n, strict=True)), sizes[1:]) for n in ways)


@pytest.mark.parametrize("seed", range(30))
def test_the_highest_utilization_is_that_of_the_best_shares(seed: int) -> None:
    rng = random.Random(f"shares {seed}")
    extents = tuple(rng.randint(1, 9) for _ in range(rng.choice((2, 3))))
    sizes = tuple(rng.randint(2, 8) for _ in range(rng.choice((1, 2))))
    per_cycle = rng.choice((1, 1, 2, 3))
    names = "mnk"[: len(extents)]
    text = "C[m] += A[m,n] * B[n]" if len(extents) == 2 else "C[m,n] += A[m,k] * B[k,n]"
    workload = einsum(text, sizes=dict(zip(names, extents, strict=True)))
    steps = -(-least_steps(extents, sizes) // per_cycle)
    found = most_busy(workload, machine(*sizes, per_cycle=per_cycle), ())
    assert found == Fraction(prod(extents), steps * per_cycle * prod(sizes))


GEMV = einsum("y[m] += A[m,k] * x[k]", m=6, k=4)
CASES: list[tuple[Rules, bool]] = [
    ((), False),
    ((Factor("X", "m", 4, None),), False),
    ((Factor("X", "m", 5, None),), True),  # the fan-out has 4
    ((Factor("X", "m", 2, 2), Factor("X", "k", 2, 2)), False),
    ((Factor("X", "m", 3, 3), Factor("X", "k", 2, 2)), True),  # 6 siblings of 4
    ((Utilization(Fraction(1)),), False),
    ((Factor("X", "m", 4, 4), Utilization(Fraction(3, 4))), False),  # 2 of 6, four times: 24 of 32
    ((Factor("X", "m", 4, 4), Utilization(Fraction(19, 25))), True),
    ((Factor("X", "m", 1, 1), Factor("X", "k", 1, 1), Utilization(Fraction(1, 4))), False),
    ((Factor("X", "m", 1, 1), Factor("X", "k", 1, 1), Utilization(Fraction(26, 100))), True),
    ((Intrinsic("m", 4), Held("RF", "A", must=True)), True),  # 6 is no multiple of 4
    ((Intrinsic("m", 3), Held("RF", "A", must=True)), False),
    ((Intrinsic("m", 6), Intrinsic("k", 2), Held("RF", "A", must=True)), True),  # 12 elements of 8 bits in 64
    ((Intrinsic("m", 2), Intrinsic("k", 4), Held("RF", "A", must=True)), False),  # 8 elements of 8 bits in 64
    ((Intrinsic("m", 4),), True),  # the outermost level holds all 6
    ((Intrinsic("m", 3),), False),  # nothing else need be held
]


@pytest.mark.parametrize(("rules", "refuted"), CASES, ids=str)
def test_what_arithmetic_alone_refutes(rules: Rules, refuted: bool) -> None:
    assert is_refuted(GEMV, machine(4, register_bits=64), rules) == refuted


@pytest.mark.parametrize(("most", "refuted"), [(24, False), (6, False), (5, True)])
def test_a_latency_below_the_least_steps_is_refuted(most: int, refuted: bool) -> None:
    arch = machine(4)
    assert is_refuted(GEMV, arch, (AtMost(parse_objective("latency", arch), Fraction(most)),)) == refuted


def test_more_siblings_than_iterations_can_make_are_refuted() -> None:
    workload = einsum("y[m] += A[m,k] * x[k]", m=3, k=4)
    arch = machine(4, 4)
    two_each: Rules = (Factor("X", "m", 2, None), Factor("Y", "m", 2, None))
    assert not is_refuted(workload, arch, two_each)  # halves of 3 are 2 and 1, and those are halved again
    four: Rules = (Factor("X", "m", 4, None), Factor("Y", "m", 2, None))
    assert is_refuted(workload, arch, four)
