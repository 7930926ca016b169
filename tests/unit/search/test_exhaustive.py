"""The referee of the search is itself refereed: by the simulator (what trees cost) and by listing (which trees)."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import islice, product
from math import ceil

import pytest

from polymap.costmodel.assembly import assemble, capacity_violations, exact_latency
from polymap.costmodel.counts import Counts
from polymap.costmodel.evaluation import evaluate, simulate
from polymap.costmodel.referees.trees import exhaustive, scored_trees
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.ir.errors import OptionError
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.ir.mapping import Mapping, MappingNode, Spatial, Storage
from polymap.schedules.check import check_mapping, placement_violations
from polymap.schedules.size import legal_count
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import objective_value, objective_values
from polymap.workload.einsums import einsum
from tests.case_machines import with_wires
from tests.referee.all_trees import all_trees
from tests.referee.problems import long_problem, random_problem, scaled
from tests.times import few

pytestmark = pytest.mark.slow


def _value(workload: Workload, arch: Architecture, objective: str, counts: Counts) -> Fraction | int:
    if objective.startswith("traffic:"):
        rows = [row for row in counts.traffic if row.level == objective.removeprefix("traffic:")]
        return sum((row.reads + row.writes) * workload.tensor(row.tensor).bits for row in rows)
    energy, latency = assemble(workload, arch, counts, (), "").energy_pj_exact, ceil(exact_latency(arch, counts))
    return {"energy": energy, "latency": latency, "edp": energy * latency, "ed2p": energy * latency**2}[objective]


@pytest.mark.parametrize("seed", few(range(24), 4))
def test_walked_trees_are_legal_and_cost_what_the_simulator_counts(seed: int) -> None:
    problem = random_problem(random.Random(seed), most=60_000)
    workload, arch = problem.workload, problem.arch
    trees = scored_trees(workload, arch, problem.objective, problem.tiles, every=max(1, problem.legal // 5))
    for number, tree in zip(range(4), trees, strict=False):
        check_mapping(workload, arch, tree.mapping)
        assert placement_violations(workload, arch, tree.mapping) == ()
        counts = count_by_simulation(workload, arch, tree.mapping)
        counted = {(row.level, row.tensor): (row.reads, row.writes, row.fills, row.drains) for row in counts.traffic}
        walked = {
            (level.name, tensor.name): row
            for tensor, rows in zip(workload.tensors, tree.traffic, strict=True)
            for level, row in zip(arch.levels, rows, strict=True)
            if any(row)
        }
        assert walked == {key: row for key, row in counted.items() if any(row)}, (number, tree.mapping)
        assert tree.steps == counts.steps
        assert tree.fits == (not capacity_violations(arch, counts))
        assert tree.value == _value(workload, arch, problem.objective, counts)


def _canonical(mapping: Mapping) -> tuple[MappingNode, ...]:
    """Return the nodes, those with no loop between them sorted and a group's spatial loops as they stand."""
    nodes: list[MappingNode] = []
    run: list[Storage] = []
    for node in mapping.nodes:
        if isinstance(node, Storage):
            run.append(node)
            continue
        nodes += sorted(run, key=lambda s: (s.level, s.tensors))
        run = []
        nodes.append(node)
    return tuple(nodes)


_SMALL = [
    ("C[m] += A[m,k]", {"m": 2, "k": 3}),
    ("y[m] += A[m,k] * x[k]", {"m": 4, "k": 2}),
    ("O[p] += I[p+r]", {"p": 3, "r": 2}),
]
_ORDERS = [
    (MemoryLevel("L"), Fanout("X", 2)),
    (Fanout("X", 2), Fanout("Y", 3, dims=("m", "p")), MemoryLevel("L")),
    (Fanout("X", 2), MemoryLevel("L", must_hold=("@output",)), Fanout("Y", 4)),
    (MemoryLevel("K", holds=("@output",)), Fanout("X", 4), MemoryLevel("L", holds=("@output", "@input"))),
]


# In turn, so that each problem, order and kind of tiles is among the first half.
_WALKS = sorted(product(range(3), range(4), range(2)), key=lambda walk: sum(walk) % 2)


@pytest.mark.parametrize(("problem", "order", "kind"), few(_WALKS, 12))
def test_all_legal_trees_are_walked_once(problem: int, order: int, kind: int) -> None:
    (text, sizes), nodes, tiles = _SMALL[problem], _ORDERS[order], ("divide", "any")[kind]
    workload = einsum(text, sizes=sizes)
    arch = Architecture("small", (MemoryLevel("DRAM"), *nodes, ComputeUnit("MAC")))
    walked = [_canonical(tree.mapping) for tree in scored_trees(workload, arch, "energy", tiles)]
    assert len(set(walked)) == len(walked)
    assert set(walked) == {_canonical(tree) for tree in all_trees(workload, arch, tiles, legal=True)}


@pytest.mark.parametrize("seed", few(range(100, 112), 3))
def test_the_walk_meets_as_many_trees_as_are_counted(seed: int) -> None:
    problem = random_problem(random.Random(seed), most=40_000)
    result = exhaustive(problem.workload, problem.arch, problem.objective, problem.tiles)
    assert result is not None
    assert result.legal == problem.legal == legal_count(problem.workload, problem.arch, problem.tiles)


def test_the_best_is_the_least_of_all_that_fit() -> None:
    workload = einsum("C[m,n] += A[m,k] * B[k,n]", m=2, n=2, k=4)
    arch = Architecture(
        "tight",
        (
            MemoryLevel("DRAM", read_pj=Fraction(100), write_pj=Fraction(100)),
            MemoryLevel("L", 40, read_pj=Fraction(3, 2), write_pj=Fraction(1)),
            Fanout("X", 2),
            ComputeUnit("MAC", Fraction(1)),
        ),
    )
    trees = list(scored_trees(workload, arch, "energy", "divide"))
    result = exhaustive(workload, arch, "energy", "divide", count_distinct=True)
    assert result is not None
    assert result.value == min(tree.value for tree in trees if tree.fits)
    assert result.value is not None
    assert result.value > min(tree.value for tree in trees)  # the capacity binds
    assert result.fitting == sum(tree.fits for tree in trees) < result.legal == len(trees)
    assert result.distinct == len({(tree.traffic, tree.steps) for tree in trees})
    assert result.best in {tree.mapping for tree in trees}


def test_mappings_are_told_apart_by_traffic_and_steps_whatever_else_they_cost() -> None:
    workload = einsum("C[m] += A[m,k]", m=2, k=4)
    nodes = (MemoryLevel("DRAM", read_pj=Fraction(9)), MemoryLevel("L"), Fanout("X", 4, pj_per_word=Fraction(1)))
    one, three = (Architecture("a", (*nodes, ComputeUnit("MAC", per_cycle=rate))) for rate in (1, 3))
    costs = [evaluate(workload, one, tree) for tree in all_trees(workload, one, "divide", legal=True)]
    result = exhaustive(workload, three, "energy", "divide", count_distinct=True)
    assert result is not None
    assert result.legal == len(costs)
    assert result.distinct == len({(cost.traffic, cost.compute_cycles) for cost in costs})  # of `one`: its steps


def test_a_space_too_large_to_walk_is_given_up() -> None:
    workload = einsum("C[m,n] += A[m,k] * B[k,n]", m=16, n=16, k=16)
    arch = Architecture("two", (MemoryLevel("DRAM"), MemoryLevel("L"), ComputeUnit("MAC")))
    assert exhaustive(workload, arch, "energy", "divide", most_trees=1000) is None


def test_trees_that_do_not_meet_a_condition_are_counted_and_not_the_best() -> None:
    workload = einsum("C[m] += A[m,k]", m=2, k=2)
    arch = Architecture("fan", (MemoryLevel("DRAM"), Fanout("X", 2), ComputeUnit("MAC")))

    def k_is_not_spread(mapping: Mapping) -> bool:
        return not any(isinstance(node, Spatial) and node.dim == "k" for node in mapping.nodes)

    free = exhaustive(workload, arch, "latency", "divide")
    bound = exhaustive(workload, arch, "latency", "divide", meets=k_is_not_spread)
    assert free is not None
    assert bound is not None
    assert (free.legal, bound.legal) == (6, 6)
    assert bound.best is not None
    assert k_is_not_spread(bound.best)
    assert free.value == bound.value == 2


@pytest.mark.parametrize("seed", few(range(12), 8))
def test_long_numbers_are_summed_exactly(seed: int) -> None:
    """Energies multiplied by a number of 40 digits give values multiplied by it."""
    problem, by = random_problem(random.Random(f"long {seed}"), most=4_000), Fraction(10**40 + 121, 3)
    objective = ("energy", "edp", "weighted:1/7*energy+3*latency", "lex:ed2p,energy")[seed % 4]
    first = exhaustive(problem.workload, problem.arch, objective, problem.tiles)
    other = exhaustive(problem.workload, scaled(problem.arch, by), objective, problem.tiles)
    assert first is not None
    assert other is not None
    if first.value is None or "weighted" in objective:
        assert (other.legal, other.fitting) == (first.legal, first.fitting)
    else:
        assert other.values == tuple(value * by for value in first.values)
        assert other.best == first.best


@pytest.mark.parametrize("seed", few(range(6), 3))
def test_extents_up_to_a_million_cost_what_the_cost_model_counts(seed: int) -> None:
    problem = long_problem(random.Random(f"million {seed}"))
    trees = scored_trees(problem.workload, problem.arch, problem.objective, "divide", every=max(1, problem.legal // 4))
    goal = parse_objective(problem.objective, problem.arch)
    for tree in trees:
        cost = evaluate(problem.workload, problem.arch, tree.mapping)
        if len(tree.values) > 1:
            assert objective_values(problem.workload, problem.arch, goal, cost) == tree.values
        else:
            assert objective_value(problem.workload, problem.arch, goal, cost) == tree.value


def test_an_unknown_objective_is_refused() -> None:
    workload = einsum("C[m] += A[m]", m=2)
    arch = Architecture("one", (MemoryLevel("DRAM"), ComputeUnit("MAC")))
    with pytest.raises(OptionError, match="PM501 unknown objective 'enrgy'"):
        exhaustive(workload, arch, "enrgy", "divide")


def test_an_assignment_is_not_walked() -> None:
    workload = einsum("C[m] = A[m]", m=2)
    arch = Architecture("one", (MemoryLevel("DRAM"), ComputeUnit("MAC")))
    with pytest.raises(OptionError, match="PM520 .* one accumulation over a box"):
        exhaustive(workload, arch, "energy", "divide")


@pytest.mark.parametrize("seed", few(range(12), 3))
def test_walked_trees_cost_what_the_simulator_counts_where_fanouts_cost_energy(seed: int) -> None:
    rng = random.Random(f"priced {seed}")
    problem = random_problem(rng, most=60_000)
    workload, arch = problem.workload, with_wires(rng, problem.arch)
    trees = scored_trees(workload, arch, "energy", problem.tiles, every=max(1, problem.legal // 5))
    for tree in islice(trees, 4):
        assert tree.value == simulate(workload, arch, tree.mapping).energy_pj_exact
