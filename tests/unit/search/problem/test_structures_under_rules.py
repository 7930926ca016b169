"""Structures under rules: which products of fan-outs meet a utilization or a factor, against trying all of them."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product
from math import prod

import pytest

from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.search.problem.lattice import divisors
from polymap.search.problem.problem import Problem, analyse
from polymap.search.problem.rules import Factor, Rules, Utilization
from polymap.search.problem.structures import enumerate_structures
from polymap.workload.einsums import einsum
from tests.times import few

Products = tuple[tuple[int, ...], ...]


def machine(sizes: tuple[int, ...], per_cycle: int) -> Architecture:
    outer, inner = MemoryLevel("DRAM"), MemoryLevel("RF", capacity_bits=512)
    fanouts = [Fanout(name, size) for name, size in zip("XYZ", sizes, strict=False)]
    return Architecture("lanes", (outer, *fanouts, inner, ComputeUnit("MAC", Fraction(1), per_cycle)))


def keeps_busy(problem: Problem, instances: int, least: Fraction) -> bool:
    """Return whether so many instances do at least this share of what all lanes could in the compute cycles."""
    units = problem.arch.compute.per_cycle
    lanes = prod(fanout.size for fanout in problem.arch.fanouts) * units
    cycles = -(-prod(problem.extents) // (instances * units))
    return prod(problem.extents) >= least * cycles * lanes


def tried(problem: Problem, rules: Rules) -> set[Products]:
    """Return the class products of all factors that meet the rules."""
    fanouts = problem.arch.fanouts
    found: set[Products] = set()
    fitting = [
        [row for row in product(*(divisors(n) for n in problem.extents)) if prod(row) <= fanout.size]
        for fanout in fanouts
    ]
    for rows in product(*fitting):
        columns = [prod(row[d] for row in rows) for d in range(len(problem.dims))]
        if any(extent % column for extent, column in zip(problem.extents, columns, strict=True)):
            continue
        met = all(
            keeps_busy(problem, prod(columns), rule.least)
            if isinstance(rule, Utilization)
            else rule.least <= _factor(problem, rows, rule) <= (rule.most or prod(problem.extents))
            for rule in rules
            if isinstance(rule, Utilization | Factor)
        )
        if met:
            classes = [
                tuple(prod(rows[f][d] for f in one.fanouts) for d in range(len(problem.dims)))
                for one in problem.classes
            ]
            found.add(tuple(classes))
    return found


def _factor(problem: Problem, rows: tuple[tuple[int, ...], ...], rule: Factor) -> int:
    number = next(i for i, fanout in enumerate(problem.arch.fanouts) if fanout.name == rule.fanout)
    return rows[number][problem.dims.index(rule.dim)]


@pytest.mark.parametrize("seed", few(range(30), 12))
def test_the_structures_under_rules_are_those_that_meet_them(seed: int) -> None:
    rng = random.Random(seed)
    workload = einsum("C[m,n] += A[m,k] * B[k,n]", m=rng.choice((4, 6)), n=rng.choice((3, 4)), k=rng.choice((1, 2)))
    arch = machine(tuple(rng.choice((2, 3, 4)) for _ in range(rng.choice((1, 2)))), rng.choice((1, 1, 2)))
    rules: Rules = ()
    if rng.random() < 0.7:
        rules = (Utilization(Fraction(rng.randint(0, 20), 20)),)
    if rng.random() < 0.6:
        least = rng.choice((1, 1, 2, 3))
        most = rng.choice((None, least, least + 1))
        rules = (*rules, Factor("X", rng.choice(("m", "n", "k")), least, most))
    problem = analyse(workload, arch, rules)
    structures, complete = enumerate_structures(problem, lambda: False)
    assert complete
    found = [one.classes for one in structures]
    assert len(found) == len(set(found))
    assert set(found) == tried(problem, rules), rules


def test_without_fanouts_one_instance_is_busy_or_is_not() -> None:
    workload = einsum("C[m,n] += A[m,k] * B[k,n]", m=2, n=2, k=1)
    for least, count in ((Fraction(1), 1), (Fraction(1, 3), 1)):
        problem = analyse(workload, machine((), 1), (Utilization(least),))
        assert len(enumerate_structures(problem, lambda: False)[0]) == count
    odd = einsum("C[m,n] += A[m,k] * B[k,n]", m=3, n=1, k=1)
    problem = analyse(odd, machine((), 2), (Utilization(Fraction(1)),))
    structures, complete = enumerate_structures(problem, lambda: False)
    assert complete
    assert not structures
