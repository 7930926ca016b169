"""What one loop tree says of the joint bound: its own chain is one of those bounded, and no node's formula exceeds what
the tree moves there."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from polymap.ir.mapping import Mapping, Spatial, Storage, Temporal
from polymap.poly import FloatArray
from polymap.search.any_size.crossings import Crossings, LoadBalance, sibling_ranges
from polymap.search.any_size.joint import JointStructure, Part, Recurrence
from polymap.search.any_size.joint_costs import LoopOrder, NodeView
from polymap.search.any_size.sizes import Axis
from polymap.search.problem.components import Component
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.holding import HolderEdge
from polymap.search.problem.problem import Problem
from polymap.search.problem.scores import exact_score
from tests.tree_siblings import sibling_counts, working_siblings

Rows = tuple[tuple[int, ...], ...]  # per level: reads, writes, fills, drains


@dataclass(frozen=True, slots=True)
class Placed:
    """A node of the chain: tensor number, level, the position right inside the loop that moves its tile, the unit and
    sizes in which it is bounded, and per dim whether no temporal loop over it is further out."""

    tensor: int
    level: int
    position: int
    unit: int
    sizes: tuple[int, ...]
    whole: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Broken:
    """A law that a tree breaks: what, where, the bound and the true number."""

    what: str
    node: object
    bound: float
    true: float


class _Nest:
    """The loops of a tree: tiles after each node of the mapping, all loops in their first iteration."""

    def __init__(self, problem: Problem, mapping: Mapping, crossings: Crossings) -> None:
        self.problem, self.crossings = problem, crossings
        self.nodes = mapping.nodes
        now = list(problem.extents)
        self.tiles = [tuple(now)]  # [position]: before node `position`
        for node in self.nodes:
            if isinstance(node, Spatial | Temporal):
                d = problem.dims.index(node.dim)
                now[d] = min(now[d], node.tile)
            self.tiles.append(tuple(now))
        fanouts = [one.name for one in problem.arch.fanouts]
        below = {f: one.below for one in problem.classes for f in one.fanouts}
        self.spread: dict[int, list[int]] = {group: [] for group in range(len(crossings.groups))}
        for place, node in enumerate(self.nodes):
            if isinstance(node, Spatial):
                self.spread[crossings.groups.index(below[fanouts.index(node.fanout)])].append(place)

    def moves(self, place: int, d: int) -> bool:
        """Return whether a temporal loop over a dim stands there with two iterations or more."""
        node = self.nodes[place]
        return isinstance(node, Temporal) and self.tiles[place][d] != self.tiles[place + 1][d]

    def raised(self, place: int, own: list[int]) -> int:
        """Return the position right inside the innermost temporal loop over own dims above a node."""
        for outer in reversed(range(place)):
            if any(self.moves(outer, d) for d in own):
                return outer + 1
        return 0

    def least_unit(self, position: int) -> int:
        """Return how many groups of fan-outs have loops above a position."""
        return max((group + 1 for group, places in self.spread.items() if places and places[0] < position), default=0)

    def sizes(self, position: int, unit: int) -> tuple[int, ...]:
        """Return the coordinates of a position in a unit."""
        return tuple(self._size(position, unit, d) for d in range(len(self.problem.dims)))

    def _size(self, position: int, unit: int, d: int) -> int:
        size = self.tiles[position][d]
        for group in range(unit):
            if self.spread[group] and self.spread[group][0] < position:
                continue
            pars = [p for g in range(group + 1) for p in self.spread[g] if p >= position]
            most = int(self.crossings.inner[group][d][size])
            is_direct = not any(self.moves(p, d) for p in range(position, max(pars, default=position)))
            share = self._share(position, group + 1, d) if is_direct else most
            # Where loops of several groups stand in another order, a share has pieces.
            size = min(most, share) if self.crossings.is_spread_twice(d) else share
        return size

    def _share(self, position: int, unit: int, d: int) -> int:
        """Return how many indices the first instance of a unit has of the tile at a position."""
        lengths = Counter({self.tiles[position][d]: 1})
        for place in range(position, len(self.nodes)):
            node = self.nodes[place]
            if not isinstance(node, Spatial | Temporal) or self.problem.dims[d] != node.dim:
                continue
            first_only = any(place in self.spread[g] for g in range(unit))
            below: Counter[int] = Counter()
            for length, times in lengths.items():
                if first_only:
                    below[min(length, node.tile)] += times
                else:
                    below[node.tile] += times * (length // node.tile)
                    below[length % node.tile] += times
            lengths = below
        return sum(length * times for length, times in lengths.items())


def chain_of(problem: Problem, mapping: Mapping, crossings: Crossings) -> list[Placed]:
    """Return the chain of a tree in the order and the coordinates of the joint bound."""
    nest = _Nest(problem, mapping, crossings)
    names = [level.name for level in problem.arch.levels]
    found: list[tuple[int, int, int, int]] = []
    for place, node in enumerate(mapping.nodes):
        if isinstance(node, Storage) and names.index(node.level):
            for t, term in enumerate(problem.terms):
                if term.tensor.name in node.tensors:
                    own = [problem.dims.index(dim) for dim in term.dims]
                    found.append((nest.raised(place, own), place, t, names.index(node.level)))
    chain: list[Placed] = []
    unit = 0
    for position, _, t, level in sorted(found):
        unit = max(unit, crossings.unit(level), nest.least_unit(position))
        whole = tuple(not any(nest.moves(at, d) for at in range(position)) for d in range(len(problem.dims)))
        chain.append(Placed(t, level, position, unit, nest.sizes(position, unit), whole))
    return chain


def drawn_orders(rng: random.Random, problem: Problem, nest: _Nest) -> tuple[LoopOrder, ...]:
    """Return some true statements about the order of loops over windows, and over a dim that a tensor lacks and one of
    its own, that no spatial loop cuts."""
    found: list[LoopOrder] = []
    windows = [group.dims for term in problem.terms for group in term.groups if len(group.dims) == 2]
    own = [pair for term in problem.terms for pair in product(set(problem.dims) - term.dims, term.dims)]
    for pair in sorted({*windows, *own}):
        dims = [problem.dims.index(dim) for dim in pair]
        if all(nest.crossings.most_siblings(d, 0, nest.crossings.units - 1) == 1 for d in dims):
            for dim, other in (dims, reversed(dims)):
                cuts = [place for place in range(len(nest.nodes)) if nest.moves(place, dim)]
                if cuts and rng.random() < 0.6:
                    left = nest.tiles[cuts[0]][other]
                    above = left - 1 if rng.random() < 0.5 else rng.randint(0, left - 1)
                    found.append(LoopOrder(dim, other, above, rng.randint(left, problem.extents[other])))
    return tuple(found)


def _impossible(crossings: Crossings, nest: _Nest, node: Placed) -> Iterator[Broken]:
    """Yield every crossing whose inner size is larger than the outer one allows, at the place of a node."""
    for group in range(nest.least_unit(node.position), node.unit):
        outer, inner = nest.sizes(node.position, group), nest.sizes(node.position, group + 1)
        for d, (large, small) in enumerate(zip(outer, inner, strict=True)):
            most = int(crossings.inner[group][d][large])
            if small > most:
                yield Broken("crossing", (node, group, d), small, most)


def drawn_evenness(rng: random.Random, problem: Problem, mapping: Mapping) -> tuple[LoadBalance, ...]:
    """Return some true statements about how evenly a tree's siblings share."""
    found: list[LoadBalance] = []
    crossings = Crossings(problem, sibling_ranges(problem, sibling_counts(problem, mapping))[0])
    for g, one in enumerate(problem.classes):
        names = {problem.arch.fanouts[f].name for f in one.fanouts}
        for d, dim in enumerate(problem.dims):
            outer = inner = problem.extents[d]
            tile = outer
            for node in mapping.nodes:
                if isinstance(node, Spatial | Temporal) and node.dim == dim and node.tile < tile:
                    if isinstance(node, Spatial) and node.fanout in names:
                        outer = tile if inner == problem.extents[d] and outer == inner else outer
                        inner = node.tile
                    tile = node.tile
            if inner < outer and crossings.may_be_split(g, d) and rng.random() < 0.7:
                found.append(
                    LoadBalance(g, d, rng.randint(0, -(-outer // inner) - 1), rng.randint(-(-outer // inner), outer))
                )
    return tuple(found)


def broken_laws(
    problem: Problem, component: Component, mapping: Mapping, traffic: tuple[Rows, ...], rng: random.Random
) -> Iterator[Broken]:
    """Yield every law that a tree breaks. traffic: per tensor and level (reads, writes, fills, drains). rng: draws what
    the structure is told about how evenly siblings share, and how many have work."""
    evenness = drawn_evenness(rng, problem, mapping) if rng.random() < 0.5 else ()
    working = working_siblings(problem, mapping) if rng.random() < 0.5 else ()
    counts = sibling_ranges(problem, sibling_counts(problem, mapping))[0]
    structure = JointStructure(problem, counts, evenness, None, working)
    chain, nest = chain_of(problem, mapping, structure.crossings), _Nest(problem, mapping, structure.crossings)
    orders = drawn_orders(rng, problem, nest)
    states = [0] * len(problem.terms)
    held: dict[int, float] = {}
    before: Placed | None = None
    for number, node in enumerate(chain):
        if before is not None:
            outer = list(before.sizes)
            for group in range(before.unit, node.unit):
                outer = [int(t[n]) for t, n in zip(structure.crossings.inner[group], outer, strict=True)]
            for d, (large, small) in enumerate(zip(outer, node.sizes, strict=True)):
                if small > large:
                    yield Broken(f"nested along {problem.dims[d]}", (before, node), small, large)
        yield from _impossible(structure.crossings, nest, node)
        holders = structure.nodes[node.tensor].holders
        edge = next(e for e in holders.edges if e.source == states[node.tensor] and e.level == node.level)
        states[node.tensor] = edge.target
        view, cell = _view(structure, node, orders)
        if np.broadcast_to(view.out_of_order(), view.shape)[cell] != 0:
            yield Broken("order", (node, orders), np.inf, 0)
        yield from _checked(component, view, cell, edge, number, traffic[node.tensor], node)
        bits = float(np.broadcast_to(view.least_bits(node.level), view.shape)[cell])
        most = float(np.broadcast_to(view.most_bits(node.level), view.shape)[cell])
        if bits > most:
            yield Broken("least bits", node, bits, most)
        held[node.level] = held.get(node.level, 0.0) + bits
        before = node
    for t, (nodes, state) in enumerate(zip(structure.nodes, states, strict=True)):
        holder = nodes.holders.levels[state]
        rows = traffic[t][holder]
        true = rows[1] - rows[2] if nodes.term.is_output else rows[0]
        found = structure.loads.operands(nodes.term, holder, alone=False)
        if found > true:
            yield Broken("operands", (t, holder), found, true)
    yield from _overfull(problem, mapping, held)


def rests_of_chain(problem: Problem, component: Component, mapping: Mapping) -> Iterator[tuple[float, float]]:
    """Yield, after every node of a tree's chain, the least cost of a rest of a chain on coarse axes, and that of the
    tree's own rest in the same tables: the first is not larger, whatever the formulas say, if the recurrence looks at
    all chains."""
    structure = JointStructure(problem, sibling_ranges(problem, sibling_counts(problem, mapping))[0])
    axes = structure.first_axes()
    recurrence = Recurrence(Part(structure, (), axes), component)
    assert recurrence.relaxed() is not None
    states = [0] * len(problem.terms)
    at: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = []
    costs: list[float] = []
    for number, node in enumerate(chain_of(problem, mapping, structure.crossings)):
        nodes = structure.nodes[node.tensor]
        edge = next(e for e in nodes.holders.edges if e.source == states[node.tensor] and e.level == node.level)
        states[node.tensor] = edge.target
        view = nodes.view(axes, node.unit)
        cell = _cell(axes[node.unit], node)
        costs.append(float(np.broadcast_to(view.cost(component, edge, number), view.shape)[cell]))
        at.append((node.unit, tuple(states), cell))
    ends = [one.end(component, one.holders.levels[s]) for one, s in zip(structure.nodes, states, strict=True)]
    for number, (unit, state, cell) in enumerate(at):
        yield float(recurrence.least[unit, state][cell]), sum(costs[number + 1 :]) + sum(ends)


def _overfull(problem: Problem, mapping: Mapping, held: dict[int, float]) -> Iterator[Broken]:
    """Yield every level that must hold more than it does, where the closed form says what it holds."""
    score = exact_score(problem.workload, problem.arch, parse_objective("energy", problem.arch), mapping)
    occupancy = {} if score is None else dict(score.cost.occupancy_bits)
    for level, bits in held.items():
        true = occupancy.get(problem.arch.levels[level].name, np.inf)
        if bits > true:
            yield Broken("bits", level, bits, true)


def _view(structure: JointStructure, node: Placed, orders: tuple[LoopOrder, ...]) -> tuple[NodeView, tuple[int, ...]]:
    """Return the node's formulas on axes with a cell of its own sizes alone, and that cell."""
    row: list[Axis] = []
    for size, last in zip(node.sizes, structure.crossings.last[node.unit], strict=True):
        row.append(Axis(tuple(sorted({1, size, min(size + 1, last)})), last))
    axes = structure.with_wholes([row] * (node.unit + 1))
    view = structure.nodes[node.tensor].view(axes, node.unit, orders)
    return view, _cell(axes[node.unit], node)


def _cell(axes: tuple[Axis, ...], node: Placed) -> tuple[int, ...]:
    """Return the cell where a node stands."""
    known = zip(axes, node.sizes, node.whole, strict=True)
    return tuple(axis.cell(size, is_whole=whole and axis.whole is not None) for axis, size, whole in known)


def _checked(
    component: Component,
    view: NodeView,
    cell: tuple[int, ...],
    edge: HolderEdge,
    number: int,
    rows: Rows,
    node: Placed,
) -> Iterator[Broken]:
    def at(table: FloatArray) -> float:
        return float(np.broadcast_to(table, view.shape)[cell])

    fills, parent = rows[edge.level][2], rows[edge.parent]
    if view.nodes.term.is_output:
        # What is written at a level is what its parent sends and what arrives from further in.
        pairs = {
            "arrivals": (view.messages(component, edge, number), parent[1] - parent[2]),
            "returns": (view.returns(component, edge, number), fills),
        }
    else:
        pairs = {
            "messages": (view.messages(component, edge, number), parent[0]),
            "fills": (view.fills(component, edge, number), fills),
        }
    for what, (table, true) in pairs.items():
        if at(table) > true * (1 + 1e-12):
            yield Broken(what, (node, edge, number), at(table), true)
