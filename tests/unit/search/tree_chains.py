"""Small random problems with all of their trees, and what chain of storage nodes a tree has.

The trees come from the enumeration and are read loop by loop: nothing here shares code with the search whose parts are
compared with them.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from math import prod

from polymap.costmodel.evaluation import evaluate
from polymap.costmodel.referees.trees import ScoredTree, scored_trees
from polymap.ir.mapping import Mapping, Spatial, Storage, Temporal
from polymap.search.dividing.chain import ChainNode
from polymap.search.dividing.node_costs import Place, Places
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import Measure, measure_of
from polymap.search.problem.problem import Problem, analyse
from polymap.search.problem.read_rules import rules_from_document
from polymap.search.problem.structures import Structure, enumerate_structures
from tests.referee.demands import Table, meets, random_demands
from tests.referee.problems import random_problem

Rows = tuple[tuple[int, ...], ...]
Chain = tuple[ChainNode, ...]
Tile = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A problem with all of its trees that fit, by structure."""

    problem: Problem
    measure: Measure
    objective: str
    structures: Sequence[Structure]
    trees: dict[Rows, list[ScoredTree]]

    def best(self, structure: Structure) -> Fraction | None:
        """Return the least value among the structure's trees."""
        return min((tree.value for tree in self.trees.get(structure.classes, [])), default=None)

    def scaled(self, bound: int) -> Fraction:
        """Return a bound in the unit of the objective."""
        return self.measure.unscaled(bound)

    def least(self, structure: Structure) -> dict[Places, dict[Chain, Fraction]]:
        """Return the least value of the structure's trees by the places of their spatial loops and their chain."""
        found: dict[Places, dict[Chain, Fraction]] = defaultdict(dict)
        for tree in self.trees.get(structure.classes, []):
            own, chain = found[places_in(self.problem, tree.mapping)], raised_chain(self.problem, tree.mapping)
            own[chain] = min(tree.value, own.get(chain, tree.value))
        return found


@cache
def random_case(seed: str, objective: str, *, windows: bool, most: int = 1200) -> Case:
    """Return a small problem that reads a tensor through windows, or none that does."""
    rng = random.Random(seed)
    while True:
        asked = random_problem(rng, most=most, tiles="divide")
        problem = analyse(asked.workload, asked.arch)
        if problem.reason is None and any(term.is_window for term in problem.terms) == windows:
            return case_of(problem, objective)


def full_case(seed: str, objective: str, *, windows: bool) -> Case | None:
    """Return a case in which a tree that holds several tensors in a level fills it to the last bit (None: there is
    none)."""
    rng = random.Random(f"full {seed}")
    one = random_case(seed, objective, windows=windows)
    trees = [tree for trees in one.trees.values() for tree in trees]
    for tree in rng.sample(trees, len(trees)):
        held = Counter(level for level, _, _ in _places_of_nodes(one.problem, tree.mapping))
        several = [level for level, count in held.items() if count > 1]
        if several:
            number, arch = rng.choice(several), one.problem.arch
            level = arch.levels[number]
            used = dict(evaluate(one.problem.workload, arch, tree.mapping).occupancy_bits)[level.name]
            less = replace(level, capacity_bits=used * level.buffering)
            nodes = tuple(less if node == level else node for node in arch.nodes)
            return case_of(analyse(one.problem.workload, replace(arch, nodes=nodes)), objective)
    return None


def ruled_case(seed: str, objective: str, *, windows: bool) -> tuple[Case, Table]:
    """Return a case with rules about loops and sizes, and these rules as a user writes them."""
    rng = random.Random(f"rules {seed}")
    one = random_case(seed, objective, windows=windows)
    workload, arch = one.problem.workload, one.problem.arch
    while True:
        table = {
            name: rule
            for name, rule in random_demands(rng, workload, arch).items()
            if name in ("order", "outermost", "innermost", "intrinsic")
        }
        if table:
            break
    ruled = case_of(analyse(workload, arch, rules_from_document(table, workload, arch)), objective, table)
    return ruled, table


def case_of(problem: Problem, objective: str, demands: Table | None = None) -> Case:
    """Return a problem with all of its trees that fit and meet the demands."""
    measure = measure_of(parse_objective(objective, problem.arch), problem.workload, problem.arch)
    trees: dict[Rows, list[ScoredTree]] = {}
    for tree in scored_trees(problem.workload, problem.arch, objective, "divide"):
        if tree.fits and meets(demands or {}, problem.workload, problem.arch, tree.mapping, tree.steps):
            trees.setdefault(rows_of(problem, tree.mapping), []).append(tree)
    structures, complete = enumerate_structures(problem, lambda: False)
    assert complete
    assert set(trees) <= {structure.classes for structure in structures}
    return Case(problem, measure, objective, structures, trees)


@dataclass(frozen=True, slots=True)
class _Step:
    """A node of a tree, from outside: a loop's dim (number) and trips, the fan-out it goes over (None: in time), and
    the temporal extents per dim inside it."""

    node: object
    dim: int
    trips: int
    inside: Tile


def _steps(problem: Problem, mapping: Mapping) -> list[_Step]:
    found: list[_Step] = []
    inside, tile = [1] * len(problem.dims), [1] * len(problem.dims)
    outer = dict(problem.workload.extents())
    trips: dict[int, int] = {}
    for number, node in enumerate(mapping.nodes):
        if isinstance(node, (Spatial, Temporal)):
            trips[number] = outer[node.dim] // node.tile
            outer[node.dim] = node.tile
    assert list(outer.values()) == tile
    for number, node in reversed(list(enumerate(mapping.nodes))):
        dim = problem.dims.index(node.dim) if isinstance(node, (Spatial, Temporal)) else -1
        found.append(_Step(node, dim, trips.get(number, 1), tuple(inside)))
        if isinstance(node, Temporal):
            inside[dim] *= trips[number]
    return found[::-1]


def rows_of(problem: Problem, mapping: Mapping) -> Rows:
    """Return how far each class of fan-outs spreads each dim in a tree."""
    factors: dict[tuple[str, int], int] = {}
    for step in _steps(problem, mapping):
        if isinstance(step.node, Spatial):
            key = (step.node.fanout, step.dim)
            factors[key] = factors.get(key, 1) * step.trips
    names = [fanout.name for fanout in problem.arch.fanouts]
    return tuple(
        tuple(prod(factors.get((names[f], d), 1) for f in one.fanouts) for d in range(len(problem.dims)))
        for one in problem.classes
    )


def places_in(problem: Problem, mapping: Mapping) -> Places:
    """Return the temporal extents inside the spatial loops over window dims, with the loops' order, sorted."""
    windows = {dim for term in problem.terms for group in term.groups if group.is_window for dim in group.dims}
    number = {problem.arch.fanouts[f].name: i for i, one in enumerate(problem.classes) for f in one.fanouts}
    found: dict[tuple[int, str], int] = {}
    orders: dict[tuple[int, str], dict[int, None]] = defaultdict(dict)
    for step in _steps(problem, mapping):
        if isinstance(step.node, Spatial) and step.node.dim in windows and step.trips > 1:
            own = number[step.node.fanout]
            key = (problem.classes[own].below, step.node.dim)
            assert found.setdefault(key, step.inside[step.dim]) == step.inside[step.dim]
            orders[key][own] = None
    return tuple(sorted(Place(*key, inside, tuple(orders[key])) for key, inside in found.items()))


def raised_chain(problem: Problem, mapping: Mapping) -> Chain:
    """Return the storage nodes of a tree, outermost first, each raised over the temporal loops right above it that do
    not change its tile: what it moves is the same there."""
    found = _places_of_nodes(problem, mapping)
    found.sort(key=lambda one: (-prod(one[2]), one[0], one[1]))
    holders = [0] * len(problem.terms)
    chain: list[ChainNode] = []
    for level, tensor, tile in found:
        chain.append(ChainNode(tensor, holders[tensor], level, tile))
        holders[tensor] = level
    return tuple(chain)


def _places_of_nodes(problem: Problem, mapping: Mapping) -> list[tuple[int, int, Tile]]:
    """Return the level, the tensor and the raised tile of each storage node inside the outermost level."""
    found: list[tuple[int, int, Tile]] = []
    names = [level.name for level in problem.arch.levels]
    steps = _steps(problem, mapping)
    for number, step in enumerate(steps):
        if not isinstance(step.node, Storage) or names.index(step.node.level) == 0:
            continue
        for term in problem.terms:
            if term.tensor.name in step.node.tensors:
                tile = list(step.inside)
                for above in reversed(steps[:number]):
                    if isinstance(above.node, Temporal):
                        if above.node.dim in term.dims and above.trips > 1:
                            break
                        tile[above.dim] *= above.trips
                found.append((names.index(step.node.level), term.index, tuple(tile)))
    return found


def normal_form(problem: Problem, mapping: Mapping) -> tuple[object, ...]:
    """Return what tells a tree from others: its temporal loops, outermost first, and between them the storage nodes and
    how far each group of fan-outs spreads each dim, in no order."""
    below = {problem.arch.fanouts[f].name: one.below for one in problem.classes for f in one.fanouts}
    loops: list[object] = []
    held, spread = set[tuple[str, str]](), dict[tuple[int, int], int]()
    for step in _steps(problem, mapping):
        if isinstance(step.node, Storage):
            outermost = step.node.level == problem.arch.levels[0].name
            held |= set() if outermost else {(step.node.level, tensor) for tensor in step.node.tensors}
        elif isinstance(step.node, Spatial):
            key = (below[step.node.fanout], step.dim)
            spread[key] = spread.get(key, 1) * step.trips
        elif isinstance(step.node, Temporal):
            loops += [(frozenset(held), frozenset(spread.items())), (step.dim, step.trips)]
            held, spread = set[tuple[str, str]](), dict[tuple[int, int], int]()
    return (*loops, (frozenset(held), frozenset(spread.items())))
