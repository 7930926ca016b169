"""What the search over tiles of any size says of single trees: spatial factors, boxes, orders of nodes, chains."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from polymap.ir.mapping import Mapping, Spatial, Storage, Temporal
from polymap.search.any_size.node_costs import CostTables, build_cost_tables
from polymap.search.any_size.regions import Region, first_region, has_trip_counts, measuring_unit, unit_count
from polymap.search.any_size.relaxation import ChainNode, State, first_states
from polymap.search.enumeration.trees import ScoredTree, scored_trees
from polymap.search.objective.measure import Measure, measure_of
from polymap.search.problem.components import Component
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.problem import Problem, analyse
from polymap.search.resources.caches import SearchCaches
from tests.referee.problems import random_problem


@dataclass(frozen=True, slots=True)
class Question:
    """A random problem with all its trees."""

    problem: Problem
    measure: Measure
    trees: tuple[ScoredTree, ...]

    def tables(self, region: Region) -> CostTables:
        return build_cost_tables(self.problem, self.measure, region, SearchCaches())


def questions(seed: str, count: int, *, tiles: str, windows: bool, objective: str | None = None) -> Iterator[Question]:
    """Yield random problems with the trees that fit."""
    rng = random.Random(seed)
    while count:
        drawn = random_problem(rng, most=1_500, tiles=tiles)
        goal = parse_objective(objective or drawn.objective, drawn.arch)
        problem = analyse(drawn.workload, drawn.arch)
        is_window = any(term.is_window for term in problem.terms)
        if goal.parts or problem.reason is not None or is_window != windows:
            continue
        trees = tuple(scored_trees(drawn.workload, drawn.arch, objective or drawn.objective, tiles))
        fitting = tuple(tree for tree in trees if tree.fits)
        if fitting:
            count -= 1
            yield Question(problem, measure_of(goal, drawn.workload, drawn.arch), fitting)


@dataclass(frozen=True, slots=True)
class Node:
    """A storage node of a tree: tensor, level, the tile that one instance of the level holds, and the box of all
    instances together, per dim."""

    tensor: int
    level: int
    tile: tuple[Fraction, ...]
    box: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """A tree as the bound sees it: its nodes, outermost first, and its spatial factors [class][dim]."""

    nodes: tuple[Node, ...]
    factors: tuple[tuple[Fraction, ...], ...]

    @property
    def placed(self) -> tuple[tuple[int, int], ...]:
        """Return the (tensor, level) of the nodes."""
        return tuple((node.tensor, node.level) for node in self.nodes)


def shape_of(problem: Problem, mapping: Mapping) -> Shape:
    """Return the shape of a tree; a loop from M to T indices has the factor M / T."""
    names = [fanout.name for fanout in problem.arch.fanouts]
    levels = [level.name for level in problem.arch.levels]
    tensors = [term.tensor.name for term in problem.terms]
    tile = list(problem.extents)
    factors = [[Fraction(1)] * len(tile) for _ in problem.classes]
    nodes: list[Node] = []
    for node in mapping.nodes:
        if isinstance(node, Storage):
            level = levels.index(node.level)
            box = tuple(size * prod((row[d] for row in factors), start=Fraction(1)) for d, size in enumerate(tile))
            above = [row for one, row in zip(problem.classes, factors, strict=True) if one.below <= level]
            own = tuple(size / prod((row[d] for row in above), start=Fraction(1)) for d, size in enumerate(box))
            nodes += [Node(tensors.index(name), level, own, box) for name in node.tensors if level]
        elif isinstance(node, Spatial | Temporal):
            d = problem.dims.index(node.dim)
            if isinstance(node, Spatial):
                crossed = next(n for n, one in enumerate(problem.classes) if names.index(node.fanout) in one.fanouts)
                factors[crossed][d] *= Fraction(tile[d], node.tile)
            tile[d] = node.tile
    return Shape(tuple(nodes), tuple(tuple(row) for row in factors))


def is_in(region: Region, shape: Shape) -> bool:
    """Return whether the tree's factors are in the region's ranges."""
    return all(
        (one.low < factor <= one.high) or factor == one.low == one.high or factor == one.low == 1
        for ranges, row in zip(region.factors, shape.factors, strict=True)
        for one, factor in zip(ranges, row, strict=True)
    )


def random_region(rng: random.Random, problem: Problem) -> Region:
    """Return a region after some cuts of factors and cells."""
    region = first_region(problem)
    for _ in range(rng.randrange(6)):
        wide = [(g, d) for g, row in enumerate(region.factors) for d, one in enumerate(row) if one.ratio > 1.001]
        if wide and rng.random() < 0.6:
            group, dim = rng.choice(wide)
            half = region.with_factor(group, dim, rng.choice(region.factors[group][dim].halves()))
            region = half if has_trip_counts(problem, half, SearchCaches()) else region
        cells = frozenset(
            (unit, d, number)
            for unit in range(unit_count(problem))
            for d in range(len(problem.dims))
            for number in range(len(region.cell_ends(unit, d, problem)))
            if rng.random() < 0.3
        )
        region = region.with_halved_cells(cells, problem)
    return region


def tight_region(problem: Problem, shape: Shape) -> Region:
    """Return the region of a dividing tree's factors, with a cell of its own around each of its tiles."""
    whole = first_region(problem)
    factors = tuple(
        tuple(replace(one, low=factor, high=factor) for one, factor in zip(ranges, row, strict=True))
        for ranges, row in zip(whole.factors, shape.factors, strict=True)
    )
    sizes = [
        {size for node in shape.nodes for size in (node.tile[d] - 1, node.tile[d])} for d in range(len(problem.dims))
    ]
    row = tuple(tuple(Fraction(size) for size in sorted(one)) for one in sizes)
    return Region(factors, (row,) * unit_count(problem))


def order_of(tables: CostTables, placed: Sequence[tuple[int, int]]) -> tuple[tuple[tuple[int, int], ...], State]:
    """Return the (tensor, edge) of nodes (tensor, level), outermost first, and the joint state at their end."""
    levels = [tuple(level for t, level in placed if t == tensor) for tensor in range(len(tables.tensors))]
    begins = [
        state
        for state in first_states(tables)
        if all(_begins(tables, t, state[t], levels[t]) for t in range(len(tables.tensors)))
    ]
    assert len(begins) == 1
    state = list(begins[0])
    order: list[tuple[int, int]] = []
    for tensor, level in placed:
        edges = tables.tensors[tensor].edges
        number = next(n for n, edge in enumerate(edges) if edge.source == state[tensor] and edge.level == level)
        order.append((tensor, number))
        state[tensor] = edges[number].target
    return tuple(order), tuple(state)


def _begins(tables: CostTables, tensor: int, state: int, levels: tuple[int, ...]) -> bool:
    """Return whether a first state of the tensor is that of nodes at these levels."""
    if not tables.problem.terms[tensor].is_output:
        return True
    out = [edge for edge in tables.tensors[tensor].edges if edge.source == state]
    return (out[0].levels if out else ()) == levels


def cost_in_cells(tables: CostTables, shape: Shape, component: int) -> float:
    """Return what the tables say a tree costs: its nodes at the cells of their tiles, and the statement instances."""
    chain: list[ChainNode] = []
    for node in shape.nodes:
        unit = measuring_unit(tables.problem, node.level)
        ends = tables.ends[unit]
        cell = tuple(next(i for i, end in enumerate(ends[d]) if size <= end) for d, size in enumerate(node.tile))
        chain.append(ChainNode(node.tensor, node.level, unit, cell))
    return cost_of_chain(tables, chain, component)


def cost_of_chain(tables: CostTables, chain: Sequence[ChainNode], component: int) -> float:
    """Return what the tables say a chain costs, the statement instances included."""
    order, state = order_of(tables, [(node.tensor, node.level) for node in chain])
    total = tables.start[component]
    for node, (tensor, number) in zip(chain, order, strict=True):
        total += float(tables.tensors[tensor].edges[number].costs[node.unit][component][node.cell])
    for tensor, at_end in enumerate(state):
        final = tables.tensors[tensor].final[at_end]
        assert final is not None
        total += final[component]
    return total


def true_cost(component: Component, tree: ScoredTree) -> int:
    """Return what the walk counted for a component that sums over all instances and holds nothing."""
    return sum(
        component.read[level][tensor] * row[0] + component.write[level][tensor] * row[1]
        for tensor, rows in enumerate(tree.traffic)
        for level, row in enumerate(rows)
    )


def is_summed(component: Component) -> bool:
    """Return whether `true_cost` tells the component."""
    return not component.busiest and not component.held
