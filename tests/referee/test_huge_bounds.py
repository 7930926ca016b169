"""Bounds of one buffer at huge and prime extents: never above the exact value of a mapping, in integers."""

from __future__ import annotations

import random
import re
from fractions import Fraction
from math import floor, prod

import polymap as pm
from polymap.ir import Architecture, Workload
from polymap.search.problem import analyse, exact_score, measure_of, parse_objective
from polymap.search.single_level import bound_at_once, solve_sizes
from polymap.search.single_level.bounds import least_bits, margin_of
from polymap.search.single_level.question import MOST_BITS, read_question
from polymap.workload.einsums import einsum
from tests.referee.test_buffer_bounds import two_levels

PRIMES = (2, 3, 5, 7, 31, 127, 509, 1009, 8191, 10_007)
HUGE = (999_983, 1_000_003, 9_999_991, 49_999_991, 1_000_000_007, (1 << 31) - 1)
FAMILIES = (
    ("s[] += A[k] * B[k]", "k", ""),
    ("y[m] += A[m,k] * x[k]", "m", "k"),
    ("C[m,n] += A[m,k] * B[k,n]", "m", "nk"),
    ("C[m,n] += A[m] * B[n]", "n", "m"),
    ("O[d] += X[d] * Z[l]", "l", "d"),
    ("C[b,m] += A[b,m,k] * B[b,k]", "b", "mk"),
    ("O[k,p] += I[p+r] * W[k,r]", "k", "pr"),
    ("O[k,p] += I[c,2*p+r] * W[k,c,r]", "c", "kpr"),
)


def huge_question(rng: random.Random) -> tuple[Workload, list[int]]:
    """Return a workload with a huge dim, its tensors of fewer than 2^53 bits, and sizes of the buffer."""
    text, large, others = rng.choice(FAMILIES)
    limit = {0: 1, 1: 40, 2: 12, 3: 4}[len(others)]
    huge = HUGE if not others else HUGE[: 5 - len(others)]
    sizes = {large: rng.choice(huge), **{dim: rng.choice([p for p in PRIMES if p < limit]) for dim in others}}
    accesses = {part.split("[")[0].strip(): part for part in re.findall(r"\w+\[[^\]]*\]", text)}
    boxes = {name: prod(n for dim, n in sizes.items() if dim in part) for name, part in accesses.items()}
    most = MOST_BITS // sum(boxes.values())
    bits = {name: rng.randint(max(1, most // 2), most) for name in boxes}
    few = sum(bits.values())
    rooms = sorted({few, few * rng.randint(2, 50), few * rng.choice(HUGE), rng.randint(few, MOST_BITS)})
    return einsum(text, bits=bits, sizes=sizes), rooms


def test_bounds_of_huge_questions_are_not_above_the_mappings_found() -> None:
    """Also where nothing, or one bit more than the best mapping, is known beforehand."""
    rng, met, beyond = random.Random("huge"), 0, 0
    for _ in range(10):
        workload, rooms = huge_question(rng)
        problem = analyse(workload, two_levels(1, None, ()))
        question = read_question(problem)
        assert question is not None
        solved = solve_sizes(problem, rooms)
        assert solved is not None
        values = [one.value for one in solved]
        for more in (None, 1, 1000):
            known = [None if value is None or more is None else value + more for value in values]
            for bound, value in zip(least_bits(question, rooms, known), values, strict=True):
                if value is not None:
                    assert bound is not None
                    assert bound <= value, (workload, rooms, more, bound, value)
                    met += bound >= floor(value * (1 - 2 * margin_of(question)))
                    beyond += value > 1 << 53
    assert met > 60, "a bound that says little cannot be wrong"
    assert beyond > 20


def test_questions_too_large_for_exact_room_are_not_answered() -> None:
    machine = two_levels(1, None, ())
    for sizes, bits in (({"m": 1 << 28, "n": 1 << 28}, 1), ({"m": 3, "n": 5}, 1 << 53), ({"m": 10**6, "n": 10**8}, 1)):
        problem = analyse(einsum("C[m,n] += A[m] * B[n]", bits=bits, sizes=sizes), machine)
        assert read_question(problem) is None
        assert solve_sizes(problem, [1 << 60]) is None


def awkward_machine(rng: random.Random, capacity_bits: int) -> Architecture:
    """Return two levels with energies of nine digits after the point."""
    energies = [f"{rng.randint(0, 99)}.{rng.randint(1, 10**9 - 1):09d}" for _ in range(4)]
    return pm.io.arch_from_document(
        {
            "name": "awkward",
            "nodes": [
                {"level": "DRAM", "word_bits": 8, "read_pj": float(energies[0]), "write_pj": float(energies[1])},
                {
                    "level": "Buf",
                    "capacity_bits": capacity_bits,
                    "word_bits": 8,
                    "read_pj": float(energies[2]),
                    "write_pj": float(energies[3]),
                },
                {"compute": "MAC", "pj": 0.123456789, "per_cycle": 1},
            ],
        }
    )


def test_bounds_at_once_are_not_above_mappings_in_units_of_nine_digits() -> None:
    rng, compared, near, long = random.Random("boxes"), 0, 0, 0
    for _ in range(40):
        sizes = dict(
            zip(
                rng.sample("mnk", 3), (rng.choice((127, 509, 1009, 2003)), *rng.choices((2, 3, 5, 7), k=2)), strict=True
            )
        )
        workload = einsum("C[m,n] += A[m,k] * B[k,n]", bits={t: rng.randint(1, 8) for t in "ABC"}, sizes=sizes)
        arch = awkward_machine(rng, rng.randint(30, 5000))
        objective = parse_objective(rng.choice(("energy", "traffic:DRAM")), arch)
        measure, problem = measure_of(objective, workload, arch), analyse(workload, arch)
        bound = bound_at_once(problem, measure)
        if bound is None:
            continue
        solved = solve_sizes(problem, [arch.levels[1].capacity_bits or 0])
        best = solved[0].best if solved else None
        score = None if best is None else exact_score(workload, arch, objective, best)
        if score is not None and not score.excess:
            compared += 1
            assert bound <= score.value, (workload, arch, objective)
            near += bound >= score.value * Fraction(999, 1000)
            long += bound / measure.unscaled(1) > 1 << 50
    assert compared > 15
    assert near > 10, "a bound that says little cannot be wrong"
    assert long > 3


def test_a_sum_over_a_billion_products_loads_every_element_once() -> None:
    """63,245 groups of tile sizes: 8 bits of each factor of 10^9 + 7 products, and of the sum."""
    n = 1_000_000_007
    problem = analyse(einsum("s[] += A[k] * B[k]", bits=8, sizes={"k": n}), two_levels(1, None, ()))
    question = read_question(problem)
    assert question is not None
    assert least_bits(question, [24, 100], [None, None]) == [16 * n + 8] * 2
