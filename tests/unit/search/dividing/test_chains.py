"""Every tree has a chain of storage nodes that the search walks, whose bounds hold all the way down to it.

The trees are those of the enumeration, and their chains are read off their loops (tree_chains.py), so that a chain that
is lost, a bound that is too high below one node, and a chain whose best tree is not found each show where they are.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod
from typing import Any

import pytest

from polymap.costmodel.referees.trees import exhaustive
from polymap.explore import search
from polymap.io import builtin_workload, load_arch
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel, Multicast
from polymap.search.dividing import loop_order
from polymap.search.dividing.bounds import FREE, Multipliers, State, final_cost, first_states
from polymap.search.dividing.branch_and_bound import (
    BoundTables,
    Branching,
    SearchNode,
    StructureSearch,
    bounds_at,
    step,
)
from polymap.search.dividing.chain import ordered_chain
from polymap.search.dividing.cost_tables import Tables, build_tables
from polymap.search.dividing.lagrange import improve_multipliers
from polymap.search.dividing.loop_order import CompletedMapping, least_completed
from polymap.search.dividing.node_costs import Places, places_of, root_context
from polymap.search.dividing.progress import Incumbent
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.problem import analyse
from polymap.search.problem.scores import exact_score
from polymap.search.problem.structures import Structure
from polymap.workload.einsums import einsum
from tests.referee.demands import Table, meets
from tests.times import few
from tests.unit.search.tree_chains import Case, Chain, case_of, full_case, normal_form, random_case, ruled_case

OBJECTIVES = ("energy", "edp", "latency", "energy", "ed2p", "energy")
SEEDS = sorted(range(36), key=lambda seed: (seed + seed // 2) % 2)  # first each objective with windows or without


@dataclass(slots=True)
class All(Incumbent):
    """Takes in every tree, so that nothing is pruned."""

    @property
    def value(self) -> int | None:
        return None

    def add(self, value: int, completed: CompletedMapping) -> None:
        self.found.append((value, completed))


@dataclass(slots=True)
class Given(Incumbent):
    """Knows a value from the start, and takes nothing in."""

    limit: int = 0

    @property
    def value(self) -> int | None:
        return self.limit

    def add(self, value: int, completed: CompletedMapping) -> None:
        self.found.append((value, completed))


class Walk(StructureSearch):
    """The search with what it says of every chain: the bound when each of its nodes is placed, the value that it is
    charged as a whole, what its trees cost at least, and the trees found for it."""

    def __init__(self, tables: Tables, multipliers: Multipliers, incumbent: Incumbent) -> None:
        super().__init__(tables, multipliers, incumbent)
        self.first: State = ()
        self.bounds: dict[tuple[State, Chain], int] = {}
        self.charged: dict[Chain, tuple[State, int]] = {}
        self.least: dict[Chain, tuple[int, ...] | None] = {}
        self.found: dict[Chain, list[tuple[int, CompletedMapping]]] = {}
        self.walked: Counter[tuple[State, Chain]] = Counter()

    def walk(self, bounds: BoundTables) -> None:
        for first in first_states(self.tables):
            self.first = first
            self.run(bounds, first)

    def _branchings(self, bounds: BoundTables, node: SearchNode) -> Iterable[Branching]:
        self.walked[self.first, node.chain] += 1
        for branching in super()._branchings(bounds, node):
            after = step(bounds.tables, node, branching.move, branching.index)
            self.bounds[self.first, after.chain] = branching.bound
            yield branching

    def finish(self, node: SearchNode, *, thorough: bool = True) -> None:
        ends = [final_cost(self.tables, node.state, c) for c in range(len(node.parts))]
        if None not in ends:
            parts = tuple(part + (end or 0) for part, end in zip(node.parts, ends, strict=True))
            value = self._value(parts)
            assert value is not None  # there are no limits
            self.charged[node.chain] = self.first, value
            fixed = self._without_window(self.tables, node)
            self.least[node.chain] = least_completed(self.tables, ordered_chain(node.chain), fixed)
        before = len(self.incumbent.found)
        super().finish(node, thorough=thorough)
        if None not in ends:
            self.found[node.chain] = self.incumbent.found[before:]


@dataclass(slots=True)
class Walked:
    """Everything that the walk of some places of a structure has met."""

    one: Case
    structure: Structure
    places: Places
    tables: Tables
    walk: Walk = field(init=False)

    def __post_init__(self) -> None:
        self.walk = Walk(self.tables, FREE, All(lambda: False, keep=2))
        self.walk.walk(BoundTables(self.tables))


def samples(one: Case, rng: random.Random, count: int) -> list[tuple[Structure, Places]]:
    """Return so many structures with places of their spatial loops."""
    chosen = rng.sample(one.structures, min(count, len(one.structures)))
    return [(structure, rng.choice(places_of(one.problem, structure))) for structure in chosen]


def tables_of(one: Case, structure: Structure, places: Places) -> Tables:
    return build_tables(one.problem, structure, one.measure, root_context(one.problem, structure, places))


def crossed(one: Case, rng: random.Random, count: int) -> list[tuple[Structure, Places]]:
    """Return so many structures that spread a window's dims, with places of their spatial loops that trees have."""
    found = [
        (structure, places)
        for structure in one.structures
        for places in places_of(one.problem, structure)
        if places and one.least(structure).get(tuple(sorted(places)))
    ]
    return rng.sample(found, min(count, len(found)))


def check(one: Case, rng: random.Random, chosen: list[tuple[Structure, Places]], demands: Table | None = None) -> int:
    """Compare the walk of some structures with their trees; return how many chains of trees there were."""
    compared = 0
    for structure, places in chosen:
        walked = Walked(one, structure, places, tables_of(one, structure, places))
        walk = walked.walk
        assert max(walk.walked.values(), default=1) == 1, "a chain was walked in two orders"
        least = one.least(structure).get(tuple(sorted(places)), {})
        for chain, value in least.items():
            compared += 1
            alike = [own for own in walk.charged if in_order(own) == chain]
            assert alike, (structure, places, chain)
            assert any(holds(one, walk, own, value) for own in alike), (structure, places, chain)
        for chain, trees in walk.found.items():
            bound = walk.least[chain]
            assert not trees or bound is not None
            for _, tree in trees:
                assert all(part <= own for part, own in zip(bound or (), tree.parts, strict=True)), (structure, chain)
        found = [item for each in walk.found.values() for item in each]
        for value, completed in rng.sample(found, min(20, len(found))):
            check_tree(one, structure, value, completed, demands)
    return compared


def in_order(chain: Chain) -> Chain:
    """Return a chain with nodes of one tile by level and tensor, as raised_chain has them."""
    return tuple(sorted(chain, key=lambda node: (-prod(node.tile), node.level, node.tensor)))


def holds(one: Case, walk: Walk, chain: Chain, value: Fraction) -> bool:
    """Return whether a chain is charged and bounded, with each of its nodes, as its best tree is worth, and has a tree
    that is as good. Only what is read through windows may cost less than it will."""
    is_window = any(term.is_window for term in one.problem.terms)
    first, charged = walk.charged[chain]
    bounds = [walk.bounds[first, chain[:depth]] for depth in range(1, len(chain) + 1)]
    if is_window:
        right = all(one.scaled(bound) <= value for bound in (charged, *bounds))
    else:
        right = one.scaled(charged) == value and all(bound <= charged for bound in bounds)
    return right and bool(walk.found[chain]) and one.scaled(min(found for found, _ in walk.found[chain])) <= value


def check_tree(one: Case, structure: Structure, value: int, completed: CompletedMapping, demands: Table | None) -> None:
    """Check that a tree that was found is one of the enumeration's, and costs no more than was said."""
    problem = one.problem
    goal = parse_objective(one.objective, problem.arch)
    score = exact_score(problem.workload, problem.arch, goal, completed.mapping)
    assert score is not None
    assert score.excess == 0
    assert score.value <= one.scaled(value)
    form = normal_form(problem, completed.mapping)
    alike = [tree for tree in one.trees.get(structure.classes, []) if normal_form(problem, tree.mapping) == form]
    assert alike
    if demands:
        assert meets(demands, problem.workload, problem.arch, completed.mapping, alike[0].steps)


@pytest.mark.parametrize("seed", few(SEEDS, 4))
def test_the_chain_of_every_tree_is_bounded_and_found(seed: int) -> None:
    one = random_case(f"chains {seed}", OBJECTIVES[seed // 2 % 6], windows=bool(seed % 2))
    rng = random.Random(f"chains {seed}")
    assert check(one, rng, samples(one, rng, 6)) or len(one.trees) < len(one.structures)


@pytest.mark.parametrize("seed", few(range(30), 4))
def test_spatial_loops_over_a_windows_dims_stand_wherever_trees_have_them(seed: int) -> None:
    one = random_case(f"crossed {seed}", OBJECTIVES[seed % 6], windows=True)
    rng = random.Random(f"crossed {seed}")
    check(one, rng, crossed(one, rng, 5))


@pytest.mark.parametrize("seed", few(SEEDS, 4))
def test_levels_that_are_exactly_full_are_full_and_no_more(seed: int) -> None:
    one = full_case(f"chains {seed}", OBJECTIVES[seed // 2 % 6], windows=bool(seed % 2))
    if one is not None:
        rng = random.Random(f"full {seed}")
        check(one, rng, samples(one, rng, 6))


@pytest.mark.parametrize("seed", few(SEEDS, 4))
def test_rules_leave_the_trees_that_meet_them(seed: int) -> None:
    one, demands = ruled_case(f"chains {seed}", OBJECTIVES[seed // 2 % 6], windows=bool(seed % 2))
    rng = random.Random(f"rules {seed}")
    check(one, rng, samples(one, rng, 6), demands)


@pytest.mark.parametrize("seed", few(SEEDS, 4))
def test_no_tree_that_is_better_than_the_incumbent_is_pruned(seed: int) -> None:
    """With multipliers, too: those that the search of the structure would use."""
    rng = random.Random(f"pruned {seed}")
    name = f"chains {seed}"
    objective = OBJECTIVES[seed // 2 % 6]
    one = full_case(name, objective, windows=bool(seed % 2)) or random_case(name, objective, windows=bool(seed % 2))
    for structure, places in samples(one, rng, 8):
        least = one.least(structure).get(tuple(sorted(places)), {})
        values = sorted(set(least.values()))
        if not values:
            continue
        limit = rng.choice(values[: max(1, len(values) // 2)] if rng.random() < 0.7 else values)
        incumbent = Given(lambda: False, keep=2, limit=scaled_up(one, limit) + rng.choice((0, 1)))
        tables = tables_of(one, structure, places)
        bounds = BoundTables(tables)
        search = StructureSearch(tables, FREE, incumbent)
        multipliers = FREE
        if one.measure.is_linear:
            room = incumbent.limit - one.measure.value(tables.start, tables.compute_cycles)
            multipliers, bound, *_ = improve_multipliers(search, bounds.insides[0], room)
            assert one.scaled(bound + one.measure.value(tables.start, tables.compute_cycles)) <= values[0]
        walk = Walk(tables, multipliers, incumbent)
        walk.walk(bounds_at(bounds, multipliers))
        for chain, value in least.items():
            if value < one.scaled(incumbent.limit):
                found = [item for own, each in walk.found.items() if in_order(own) == chain for item in each]
                assert one.scaled(min(worth for worth, _ in found)) <= value


def scaled_up(one: Case, value: Fraction) -> int:
    """Return a value of the objective as the search keeps it."""
    return int(value / one.measure.unscaled(1))


def test_chains_with_nodes_lower_are_listed_only_where_one_of_them_may_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """The output's buffer holds little, and thousands of chains with nodes lower are all as good as the best tree."""
    scored, name = [0], "_chain_mappings"
    of_chain = getattr(loop_order, name)

    def counted(*asked: Any) -> Any:
        scored[0] += 1
        return of_chain(*asked)

    monkeypatch.setattr(loop_order, name, counted)
    flat = load_arch("flat3")
    small = [replace(one, capacity_bits=65536) if one.name == "GLB" else one for one in flat.nodes]
    found = search(builtin_workload("resnet50.conv2_x"), replace(flat, nodes=tuple(small)), "energy", "divide")
    assert (found.status, found.value) == ("OPTIMAL", 451_837_952)
    assert scored[0] < 500  # 11,000 without the bound of all trees of a chain


@pytest.mark.parametrize("merge", Multicast)
def test_a_node_may_stand_below_spatial_loops_that_one_further_in_has_above_it(merge: Multicast) -> None:
    """A buffer with room for one index of each sibling, below loops over q that the window slides along."""
    layer = einsum("O[q] += I[q+r] * W[r]", q=4, r=3)
    arch = Architecture(
        "below",
        (
            MemoryLevel("DRAM", None, 8, Fraction(100), Fraction(100)),
            MemoryLevel("BUF", 16, 8, Fraction(2), Fraction(2), holds=("O",), must_hold=("O",)),
            Fanout("X", 2, multicast=merge, dims=("q",)),
            MemoryLevel("RF", 24, 8, Fraction(1), Fraction(1), holds=("I",), must_hold=("I",)),
            ComputeUnit("MAC", Fraction(1)),
        ),
    )
    true = exhaustive(layer, arch, "energy", "divide")
    assert true is not None
    assert search(layer, arch, "energy", "divide").value == true.value


def case_between(text: str, sizes: dict[str, int], nodes: tuple[MemoryLevel | Fanout, ...]) -> Case:
    """Return a layer, by energy, on a machine with these levels and fan-outs below DRAM."""
    layer = einsum(text, sizes=sizes)
    outermost = MemoryLevel("DRAM", None, 8, Fraction(100), Fraction(90))
    arch = Architecture("between", (outermost, *nodes, ComputeUnit("MAC", Fraction(1))))
    return case_of(analyse(layer, arch), "energy")


def level(name: str, pj: int, *holds: str) -> MemoryLevel:
    return MemoryLevel(name, None, 8, Fraction(pj), Fraction(2 * pj, 3), holds=holds)


WINDOW, PLAIN, STRIDED = "O[p] += I[p+r] * W[r]", "O[k,p] += I[p+r] * W[k,r]", "O[p] += I[2*p+r] * W[r]"
ALONG_P = Fanout("X", 2, dims=("p",))
Nodes = tuple[MemoryLevel | Fanout, ...]
BETWEEN: dict[str, tuple[str, dict[str, int], Nodes]] = {
    "a register charged above all loops, a buffer above the spatial loops": (
        *(WINDOW, {"p": 8, "r": 3}),
        (level("BUF", 2, "I"), ALONG_P, level("RF", 1, "W")),
    ),
    "a window's buffer below the register of another tensor": (
        *(PLAIN, {"k": 2, "p": 4, "r": 2}),
        (level("BUF", 2, "I"), ALONG_P, level("RF", 1, "W")),
    ),
    "both nodes of an output below the register of another tensor": (
        *(WINDOW, {"p": 4, "r": 2}),
        (level("BUF", 2, "O"), ALONG_P, level("RF", 1, "O", "W")),
    ),
    "two groups of spatial loops over one dim": (
        *(STRIDED, {"p": 4, "r": 2}),
        (ALONG_P, level("BUF", 2, "O"), replace(ALONG_P, name="Y"), level("RF", 1, "O", "W")),
    ),
    "two groups of spatial loops over one dim, the outer one without multicast": (
        *(WINDOW, {"p": 8, "r": 3}),
        (replace(ALONG_P, multicast=Multicast.NONE), level("RF", 1, "I"), replace(ALONG_P, name="Y")),
    ),
    "two groups of spatial loops, each over its dim": (
        *("O[p] += I[p+2*r] * W[r]", {"p": 4, "r": 4}),
        (level("BUF", 2, "O"), replace(ALONG_P, dims=("r",)), level("RF", 1, "O"), replace(ALONG_P, name="Y")),
    ),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_spatial_loops_between_two_levels_stand_wherever_trees_have_them(name: str) -> None:
    """Every place of the spatial loops in every structure: each tree's chain is bounded by what the tree costs, and a
    tree of that cost is found for it, whose cost is what the search says."""
    one = case_between(*BETWEEN[name])
    chosen = [(structure, places) for structure in one.structures for places in places_of(one.problem, structure)]
    assert check(one, random.Random(name), chosen)
