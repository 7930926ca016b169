"""The parts of the search over dividing tiles, each against all trees of small random problems: what bounds one tensor,
a structure, the places of its spatial loops and every node below is at most the best tree there, and the best tree that
a structure's search finds is the best one that there is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, product
from math import prod

import numpy as np
import pytest

from polymap.costmodel.referees.trees import scored_trees
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel, Multicast
from polymap.ir.mapping import Mapping
from polymap.resources.caches import SearchCaches
from polymap.search.dividing import single_tensor_bound
from polymap.search.dividing.bounds import FREE, first_states
from polymap.search.dividing.branch_and_bound import (
    BoundTables,
    Branching,
    BranchPath,
    SearchNode,
    StructureSearch,
)
from polymap.search.dividing.cost_tables import Tables, build_tables
from polymap.search.dividing.groups import Group, least_value
from polymap.search.dividing.loop_order import CompletedMapping
from polymap.search.dividing.node_costs import StructureFactors, places_of, root_context, update_weight
from polymap.search.dividing.progress import Front, Incumbent
from polymap.search.dividing.single_tensor_bound import StructureBatch, single_tensor_bounds
from polymap.search.dividing.steps import Stage, step_on
from polymap.search.dividing.window_paths import window_counts
from polymap.search.problem.components import Component
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import measure_of
from polymap.search.problem.problem import analyse
from polymap.search.problem.scores import exact_score
from polymap.search.problem.structures import enumerate_structures
from polymap.workload.einsums import einsum
from tests.times import few
from tests.unit.search.tree_chains import Case, Rows, random_case, rows_of

OBJECTIVES = ("energy", "edp", "latency", "energy")
SEEDS = sorted(range(24), key=lambda seed: (seed + seed // 2) % 2)  # first each objective with windows or without


def case(seed: int) -> Case:
    """Return a small problem; every second one reads a tensor through windows."""
    return random_case(f"dividing bounds {seed}", OBJECTIVES[seed // 2 % 4], windows=bool(seed % 2))


@pytest.mark.parametrize("seed", few(SEEDS, 4))
def test_the_bounds_of_a_structure_rise_to_at_most_its_best_tree(seed: int) -> None:
    one = case(seed)
    single = single_tensor_bounds(one.problem, one.measure, one.structures)
    for structure, cheap in zip(one.structures, single, strict=True):
        tables = build_tables(one.problem, structure, one.measure, root_context(one.problem, structure))
        whole, best = least_value(BoundTables(tables)), one.best(structure)
        if one.measure.is_linear:
            assert whole is None or (cheap is not None and cheap <= whole)
        for bound in (cheap, whole):
            assert best is None or (bound is not None and one.scaled(bound) <= best)


@pytest.mark.parametrize("seed", few(SEEDS, 4))
def test_some_places_of_the_spatial_loops_keep_the_best_tree(seed: int) -> None:
    one = case(seed)
    for structure in one.structures:
        bounds: list[int] = []
        for places in places_of(one.problem, structure):
            context = root_context(one.problem, structure, places)
            found = least_value(BoundTables(build_tables(one.problem, structure, one.measure, context)))
            bounds += [] if found is None else [found]
        best = one.best(structure)
        assert best is None or one.scaled(min(bounds)) <= best


@pytest.mark.parametrize("seed", few(SEEDS, 4))
def test_the_search_of_a_structure_finds_its_best_tree(seed: int) -> None:
    """Structure by structure: a wrong bound or loop order is seen where another structure has the optimum, too."""
    one = case(seed)
    for structure in one.structures:
        incumbent, entry, group = Incumbent(lambda: False), (0, -Stage.SPLIT, 0), Group(0, (structure,))
        assert not list(step_on(one.problem, one.measure, structure, entry, incumbent, {}, group))
        found = None if incumbent.value is None else one.scaled(incumbent.value)
        assert found == one.best(structure), structure


@dataclass(slots=True)
class All(Incumbent):
    """Takes in every tree, so that nothing is pruned."""

    values: list[int] = field(default_factory=list[int])

    @property
    def value(self) -> int | None:
        return None

    def add(self, value: int, completed: CompletedMapping) -> None:
        self.values.append(value)
        self.found.append((value, completed))


class Walk(StructureSearch):
    """The search with nothing pruned, which compares every bound with what is found below."""

    def __init__(self, tables: Tables) -> None:
        self.every = All(lambda: False, keep=2)
        super().__init__(tables, FREE, self.every)
        self.bound: int | None = None
        self.compared = 0

    def _branchings(self, bounds: BoundTables, node: SearchNode) -> Iterator[Branching]:
        for branching in super()._branchings(bounds, node):
            self.bound = branching.bound
            yield branching

    def _visit(self, bounds: BoundTables, node: SearchNode, way: BranchPath) -> None:
        bound, before = self.bound, len(self.every.values)
        super()._visit(bounds, node, way)
        below = self.every.values[before:]
        if bound is not None and below:
            assert bound <= min(below), node
            self.compared += 1


@pytest.mark.parametrize("seed", few(SEEDS, 4))
def test_below_every_node_of_the_search_no_tree_is_better_than_its_bound(seed: int) -> None:
    """And no tree that is found costs more than the search says (less where a node could stand higher)."""
    one, compared = case(seed), 0
    rng = random.Random(f"walk {seed}")
    for structure in rng.sample(one.structures, min(3, len(one.structures))):
        for places in rng.sample(places_of(one.problem, structure), min(2, len(places_of(one.problem, structure)))):
            tables = build_tables(one.problem, structure, one.measure, root_context(one.problem, structure, places))
            walk = Walk(tables)
            for first in first_states(tables):
                walk.bound = None
                walk.run(BoundTables(tables), first)
            compared += walk.compared
            found = walk.incumbent.found
            for value, completed in rng.sample(found, min(20, len(found))):
                score = exact_score(
                    one.problem.workload,
                    one.problem.arch,
                    parse_objective(one.objective, one.problem.arch),
                    completed.mapping,
                )
                assert score is not None
                assert score.excess == 0
                assert score.value <= one.scaled(value)
    assert compared or not one.trees


def energy_of(arch: Architecture, component_rows: tuple[Rows, Rows], index: int, traffic: Rows) -> int:
    """Return what the reads and writes of one tensor cost at all levels, in units of the component."""
    read, write = component_rows
    return sum(
        row[0] * read[level][index] + row[1] * write[level][index]
        for level, row in enumerate(traffic[: len(arch.levels)])
    )


def batch_of(one: Case, component: Component) -> StructureBatch:
    """Return the structures of a case side by side."""
    arithmetic = single_tensor_bound.plain_arithmetic(one.problem, component)
    return StructureBatch(one.problem, one.structures, arithmetic, window_counts(SearchCaches()))


@pytest.mark.parametrize("seed", few([seed for seed in SEEDS if OBJECTIVES[seed // 2 % 4] != "latency"], 4))
def test_the_bound_of_one_tensor_is_at_most_what_it_costs_in_every_tree(seed: int) -> None:
    one = case(seed)
    component = one.measure.components[0]
    batch = batch_of(one, component)
    tight = 0
    for term in one.problem.terms:
        bounds = single_tensor_bound.tensor_cost(batch, term, component)
        start = single_tensor_bound.zero_start(term, component)
        for structure, bound in zip(one.structures, bounds.tolist(), strict=True):
            costs = [
                energy_of(one.problem.arch, (component.read, component.write), term.index, tree.traffic[term.index])
                for tree in one.trees.get(structure.classes, [])
            ]
            assert not costs or bound + start <= min(costs), (term.tensor.name, structure)
            tight += bool(costs) and bound + start == min(costs)
    assert tight or not one.trees


@pytest.mark.parametrize("seed", few(SEEDS, 3))
def test_a_node_holds_at_least_what_is_spread_below_it(seed: int) -> None:
    one = case(seed)
    problem, batch = one.problem, batch_of(one, one.measure.components[-1])
    for level, term in product(range(1, problem.level_count), problem.terms):
        plain = [problem.dims.index(group.dims[0]) for group in term.groups if not group.is_window]
        for structure, held in zip(one.structures, batch.held(term, level).tolist(), strict=True):
            below = [row for fan, row in zip(problem.classes, structure.classes, strict=True) if fan.below > level]
            spread = prod(row[d] for row in below for d in plain)
            assert held >= spread, structure
            assert held == spread or any(row[problem.dims.index(dim)] > 1 for row in below for dim in term.window_dims)


@pytest.mark.parametrize(("level", "spread"), [("BUF", 1), ("RF", 0)])
def test_of_room_the_bound_of_one_tensor_is_what_is_spread_below_a_level_that_must_hold_it(
    level: str, spread: int
) -> None:
    pj, must = Fraction(1), ("@input", "@weight", "@output")
    inner = [MemoryLevel(name, None, 8, pj, pj, must_hold=must) for name in ("BUF", "RF")]
    nodes = MemoryLevel("DRAM", None, 8, pj, pj), inner[0], Fanout("X", 4), inner[1], ComputeUnit("MAC", pj)
    workload, arch = einsum("C[m,n] += A[m,k] * B[k,n]", m=4, n=2, k=4), Architecture("held", nodes)
    problem, measure = analyse(workload, arch), measure_of(parse_objective(f"capacity:{level}", arch), workload, arch)
    structures, _ = enumerate_structures(problem, lambda: False)
    arithmetic = single_tensor_bound.plain_arithmetic(problem, component := measure.components[0])
    batch = StructureBatch(problem, structures, arithmetic, window_counts(SearchCaches()))
    for term in problem.terms:
        found = single_tensor_bound.tensor_cost(batch, term, component).tolist()
        rows = [dict(zip(problem.dims, one.classes[0], strict=True)) for one in structures]
        assert found == [8 * prod(row[dim] for dim in term.dims) ** spread for row in rows]


WINDOW_COUNTS = (
    single_tensor_bound._all_filled,
    single_tensor_bound._all_read,
    single_tensor_bound._fewest_held,
    single_tensor_bound._fewest_read,
    single_tensor_bound._messages,
)


@pytest.mark.parametrize("seed", few([seed for seed in SEEDS if seed % 2], 6))
def test_windows_of_many_structures_side_by_side_are_those_of_each_alone(seed: int) -> None:
    one = case(seed)
    batch, whole = batch_of(one, one.measure.components[0]), one.problem.workload.extents()
    last = one.problem.level_count
    alone = [StructureFactors(one.problem, structure) for structure in one.structures]
    groups = [(term, group) for term in one.problem.terms for group in term.groups if group.is_window]
    for (term, group), count, levels in product(groups, WINDOW_COUNTS, combinations(range(last + 1), 2)):
        assert [group] == [group for group in term.groups if group.is_window]
        expected = [
            count(
                batch.counts,
                group.coefficients,
                tuple(whole[dim] // own.factor(dim, -1, last) for dim in group.dims),
                tuple(own.crossings(dim, *levels) for dim in group.dims),
            )
            for own in alone
        ]
        assert batch.windows(term, levels, count).tolist() == expected


@pytest.mark.parametrize("seed", few(SEEDS, 4))
def test_many_structures_side_by_side_have_the_factors_and_terms_of_each(seed: int) -> None:
    one = case(seed)
    problem, component = one.problem, one.measure.components[-1]
    batch = batch_of(one, component)
    levels = range(problem.level_count + 1)
    for parent, level in ((a, b) for a in levels for b in levels if a < b):
        for term in problem.terms:
            many = [batch.messages(term, parent, level), *batch.siblings(term, parent, level), batch.instances(level)]
            moved = None
            if term.is_output and level < problem.level_count:
                moved = update_weight(batch, term, component, (parent, level), (level,))
            for number, structure in enumerate(one.structures):
                own = StructureFactors(problem, structure)
                each = [own.messages(term, parent, level), *own.siblings(term, parent, level), own.instances(level)]
                assert [int(array[number]) for array in many] == each
                if moved is not None:
                    together = [int(np.broadcast_to(array, len(one.structures))[number]) for array in moved]
                    assert together == [*update_weight(own, term, component, (parent, level), (level,))]


def test_a_front_keeps_what_no_other_covers() -> None:
    rng = random.Random("front")
    for _ in range(50):
        front, points = Front(lambda: False, digit=8), [(rng.randrange(12), rng.randrange(12)) for _ in range(20)]
        for point in points:
            value = (point[0] << 8) + point[1]
            assert front.beats(value) == (not any(a <= point[0] and b <= point[1] for a, b in kept_of(front)))
            if front.beats(value):
                front.add(value, CompletedMapping((), Mapping(())))
        best = {p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)}
        assert set(kept_of(front)) == best


def kept_of(front: Front) -> list[tuple[int, int]]:
    return [(value >> 8, value & 255) for value, _ in front.found]


def deep_machine(*, reduction: bool, adds: str) -> Architecture:
    """Return a machine of four levels that all hold the sum, which lanes above the last two share."""
    energies = {"DRAM": 90, "Mid": 13, "Near": 5, "Reg": 2}
    levels = [
        MemoryLevel(
            name, word_bits=8, read_pj=Fraction(pj), write_pj=Fraction(pj + 1, 2), must_hold=(adds,), holds=(adds,)
        )
        for name, pj in energies.items()
    ]
    levels[0] = replace(levels[0], must_hold=(), holds=None)
    lanes = Fanout("Lanes", 2, reduction=reduction, multicast=Multicast.IDENTICAL)
    return Architecture("deep", (*levels[:2], lanes, *levels[2:], ComputeUnit("MAC", Fraction(1))))


@pytest.mark.parametrize("reduction", [False, True])
def test_what_siblings_elide_is_credited_to_all_levels_inside_them(reduction: bool) -> None:
    workload = einsum("y[m] += A[m,k]", m=2, k=4)
    arch = deep_machine(reduction=reduction, adds="y")
    problem = analyse(workload, arch)
    measure = measure_of(parse_objective("energy", arch), workload, arch)
    best: dict[Rows, Fraction] = {}
    for tree in scored_trees(workload, arch, "energy", "divide"):
        rows = rows_of(problem, tree.mapping)
        best[rows] = min(tree.value, best.get(rows, tree.value))
    for structure in enumerate_structures(problem, lambda: False)[0]:
        incumbent = Incumbent(lambda: False)
        assert not list(
            step_on(problem, measure, structure, (0, -Stage.SPLIT, 0), incumbent, {}, Group(0, (structure,)))
        )
        assert incumbent.value is not None
        assert measure.unscaled(incumbent.value) == best[structure.classes]
