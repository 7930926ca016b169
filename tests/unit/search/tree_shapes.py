"""What geometric programs see of single trees: spatial factors, boxes, orders of nodes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from polymap.costmodel.referees.trees import ScoredTree, scored_trees
from polymap.ir.mapping import Mapping, Spatial, Storage, Temporal
from polymap.search.any_size.node_orders import State
from polymap.search.problem.components import Component
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.holding import HolderGraph
from polymap.search.problem.measure import Measure, measure_of
from polymap.search.problem.problem import Problem, analyse
from tests.referee.problems import random_problem


@dataclass(frozen=True, slots=True)
class Question:
    """A random problem with all its trees."""

    problem: Problem
    measure: Measure
    trees: tuple[ScoredTree, ...]


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


def order_of(
    graphs: Sequence[HolderGraph], problem: Problem, placed: Sequence[tuple[int, int]]
) -> tuple[tuple[tuple[int, int], ...], State]:
    """Return the (tensor, edge) of nodes (tensor, level), outermost first, and the joint state at their end."""
    state: list[int] = []
    for tensor, graph in enumerate(graphs):
        levels = tuple(level for t, level in placed if t == tensor)
        state += [first for first in graph.first if _begins(graph, first, levels, problem.terms[tensor].is_output)]
    assert len(state) == len(graphs)
    order: list[tuple[int, int]] = []
    for tensor, level in placed:
        edges = graphs[tensor].edges
        number = next(n for n, edge in enumerate(edges) if edge.source == state[tensor] and edge.level == level)
        order.append((tensor, number))
        state[tensor] = edges[number].target
    return tuple(order), tuple(state)


def _begins(graph: HolderGraph, state: int, levels: tuple[int, ...], is_output: bool) -> bool:
    """Return whether a first state of a tensor is that of nodes at these levels."""
    if not is_output:
        return True
    out = [edge for edge in graph.edges if edge.source == state]
    return (out[0].levels if out else ()) == levels


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
