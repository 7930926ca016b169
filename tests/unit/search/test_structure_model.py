"""The CP-SAT model of structures: what it refuses, what it names, and that it lists what the tables list. That it lists
what all trees have: tests/referee/test_structures_equal_exhaustive.py."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations
from math import prod

import pytest

from polymap.costmodel.referees.trees import scored_trees
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.ir.mapping import Mapping, Spatial, Temporal
from polymap.search.problem.problem import Classes, Problem, analyse
from polymap.search.problem.read_rules import rules_from_document
from polymap.search.problem.rules import (
    Factor,
    Held,
    Innermost,
    Intrinsic,
    Outermost,
    Outside,
    Rules,
    Utilization,
)
from polymap.search.problem.structure_model import Clash, Decision, decide, list_structures, most_parallel
from polymap.search.problem.structures import enumerate_structures
from polymap.workload.einsums import einsum
from tests.referee.demands import meets, random_demands
from tests.referee.problems import random_problem
from tests.times import few

GEMM = einsum("C[m,n] += A[m,k] * B[k,n]", m=12, n=5, k=7)
DRAM = MemoryLevel("DRAM", read_pj=Fraction(100), write_pj=Fraction(100))
MAC = ComputeUnit("MAC", Fraction(1))


def machine(size: int, bits: int | None = None) -> Architecture:
    return Architecture("machine", (DRAM, Fanout("X", size), MemoryLevel("RF", bits), MAC))


def never() -> bool:
    return False


def listed_by_the_model(problem: Problem, rules: Rules) -> set[Classes]:
    """Return the spatial structures of all that CP-SAT lists."""
    return {one.statements[0].classes for one in list_structures(problem, rules, None)}


def listed_by_tables(problem: Problem) -> set[Classes]:
    return {one.classes for one in enumerate_structures(problem, never)[0]}


@pytest.mark.parametrize("seed", few(range(24), 4))
def test_without_rules_the_model_and_the_tables_list_the_same_structures(seed: int) -> None:
    asked = random_problem(random.Random(seed), tiles="divide")
    problem = analyse(asked.workload, asked.arch)
    assert listed_by_the_model(problem, ()) == listed_by_tables(problem)


@pytest.mark.parametrize(
    "rules",
    [
        (Factor("X", "m", 2, None),),
        (Factor("X", "m", 3, 4), Factor("X", "k", 1, 1)),
        (Utilization(Fraction(1, 2)),),
        (Intrinsic("m", 2), Held("RF", "A", must=True)),
        (Intrinsic("m", 2), Held("RF", "A", must=True), Utilization(Fraction(1, 3)), Factor("X", "n", 1, 1)),
    ],
)
def test_under_rules_of_factors_and_tiles_the_model_and_the_tables_list_the_same(rules: Rules) -> None:
    arch = machine(24)
    found = listed_by_the_model(analyse(GEMM, arch), rules)
    assert found == listed_by_tables(analyse(GEMM, arch, rules))
    assert 0 < len(found) < len(listed_by_tables(analyse(GEMM, arch)))


# Of each: the machine, the rules, and which of them exclude each other.
CLASHES: list[tuple[Architecture, Rules, tuple[int, ...]]] = [
    # Half of the lanes can be busy only if m takes part: n and k give 5 or 7 of 24.
    (machine(24), (Held("RF", "A", must=True), Utilization(Fraction(1, 2)), Factor("X", "m", 1, 1)), (1, 2)),
    # 5 and 7 are primes: no factor over X lies between 2 and 4.
    (machine(8), (Factor("X", "n", 2, 4), Outside("m", "n")), (0,)),
    # k has one loop (7 is a prime, and X is too small for it), which cannot stand at both ends.
    (machine(4), (Outermost(("k",)), Outside("m", "k"), Innermost(("n",))), (0, 1)),
    # RF holds tiles of 12 / 4 rows.
    (machine(8), (Factor("X", "m", 4, 4), Intrinsic("m", 2), Held("RF", "A", must=True)), (0, 1, 2)),
    # 4 * 7 elements of 8 bits have no room, those of each rule alone have.
    (machine(2, 100), (Intrinsic("m", 4), Intrinsic("k", 7), Held("RF", "A", must=True)), (0, 1, 2)),
]


@pytest.mark.parametrize(("arch", "rules", "named"), CLASHES)
def test_cp_sat_names_a_minimal_set_of_rules_that_clash(
    arch: Architecture, rules: Rules, named: tuple[int, ...]
) -> None:
    problem = analyse(GEMM, arch)
    found = decide(problem, rules)
    assert found == Clash(tuple(rules[n] for n in named))
    assert isinstance(found, Clash)
    for some in combinations(found.rules, len(found.rules) - 1):
        assert isinstance(decide(problem, some), Decision)


def test_a_prime_dim_that_is_spread_wholly_has_no_loop_to_order() -> None:
    rules = (Outermost(("k",)), Outside("m", "k"))
    assert isinstance(decide(analyse(GEMM, machine(6)), rules), Clash)
    found = decide(analyse(GEMM, machine(7)), rules)
    assert isinstance(found, Decision)
    assert found.statements[0].classes == ((1, 1, 7),)
    assert "k" not in found.statements[0].order


def test_the_most_parallel_structure_is_that_of_the_list() -> None:
    for size in (1, 5, 16, 30, 1000):
        problem = analyse(GEMM, machine(size))
        most = max(prod(prod(row) for row in classes) for classes in listed_by_tables(problem))
        assert most_parallel(problem, ()) == most
    assert most_parallel(analyse(GEMM, machine(8)), (Factor("X", "n", 2, 4),)) is None


def structure_of(problem: Problem, mapping: Mapping) -> Classes:
    """Return the products of a tree's spatial loops, [class][dim], read off the tree."""
    tiles = dict(problem.workload.extents())
    factors: dict[tuple[str, str], int] = {}
    for node in mapping.nodes:
        if isinstance(node, Temporal | Spatial):
            trips = tiles[node.dim] // node.tile
            tiles[node.dim] = node.tile
            if isinstance(node, Spatial):
                factors[node.fanout, node.dim] = factors.get((node.fanout, node.dim), 1) * trips
    names = [fanout.name for fanout in problem.arch.fanouts]
    return tuple(
        tuple(prod(factors.get((names[f], dim), 1) for f in one.fanouts) for dim in problem.dims)
        for one in problem.classes
    )


@pytest.mark.parametrize("seed", few(range(30), 4))
def test_every_tree_that_meets_the_rules_is_one_that_the_model_allows(seed: int) -> None:
    """Random rules, all trees: where one meets them the model has a solution; and no set that it names is met."""
    rng = random.Random(f"structure model {seed}")
    asked = random_problem(rng, most=800, tiles="divide")
    workload, arch = asked.workload, asked.arch
    demands = random_demands(rng, workload, arch)
    rules = rules_from_document(demands, workload, arch)
    problem = analyse(workload, arch)
    trees = [tree for tree in scored_trees(workload, arch, "energy", "divide") if tree.fits]
    met = [tree for tree in trees if meets(demands, workload, arch, tree.mapping, tree.steps)]
    found = decide(problem, rules)
    if met:
        assert isinstance(found, Decision)
        structures = {structure_of(problem, tree.mapping) for tree in met}
        assert structures <= listed_by_the_model(problem, rules)
        assert structures <= listed_by_tables(analyse(workload, arch, rules))
