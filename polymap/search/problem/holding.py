"""The levels that may hold a tensor, as a graph of states, and the weights of a storage node; for all bounds.

The outermost level holds every tensor. A *chain* of inner levels may hold it too; no chain skips a level that must
hold it. A `HolderGraph` represents all chains of a tensor: a state is the level that holds the tensor now, an edge is a
storage node. Where a node's cost depends on inner nodes, states include the levels to come (`holder_graph` of an
output). Where it depends on an outer node, they include one bit about it (`unfold_graph`).

`node_weights` are exact integers per element, whatever the number type of the amounts that they weigh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from polymap.poly import Arithmetic
from polymap.search.problem.components import Component
from polymap.search.problem.lattice import IntArray
from polymap.search.problem.problem import Problem, TensorTerm


@dataclass(frozen=True, slots=True)
class HolderEdge:
    """One storage node of a tensor, an edge from state `source` to state `target`.

    parent: the level that it loads from or drains to. levels: its own level; for an output whose states include the
    levels to come, also those.
    """

    source: int
    target: int
    parent: int
    levels: tuple[int, ...]

    @property
    def level(self) -> int:
        return self.levels[0]


@dataclass(frozen=True, slots=True)
class HolderGraph:
    """All chains of levels that hold a tensor.

    levels: per state, the level that holds the tensor. final: per state, whether the compute units may use the tensor
    there; otherwise an inner level must hold it.
    """

    levels: tuple[int, ...]
    edges: tuple[HolderEdge, ...]
    final: tuple[bool, ...]

    @property
    def first(self) -> tuple[int, ...]:
        """The states before any node."""
        entered = {edge.target for edge in self.edges}
        return tuple(s for s, level in enumerate(self.levels) if level == 0 and s not in entered)

    def chains(self) -> tuple[tuple[HolderEdge, ...], ...]:
        """The nodes of every chain, outermost first; chains of fewer levels come first."""

        def grow(chain: tuple[HolderEdge, ...], state: int) -> Iterator[tuple[HolderEdge, ...]]:
            if self.final[state]:
                yield chain
            for edge in self.edges:
                if edge.source == state:
                    yield from grow((*chain, edge), edge.target)

        found = [chain for first in self.first for chain in grow((), first)]
        return tuple(sorted(found, key=lambda chain: (len(chain), [edge.level for edge in chain])))


def level_graph(term: TensorTerm, level_count: int) -> HolderGraph:
    """Return the chains of a tensor with one state per level: a node's cost depends on its parent only."""

    def skips_none(after: int, upto: int) -> bool:
        return not any(after < level < upto for level in term.must_hold)

    holders = (0, *sorted(term.may_hold))
    edges = tuple(
        HolderEdge(parent, level, parent, (level,))
        for level in holders
        for parent in holders
        if parent < level and skips_none(parent, level)
    )
    final = tuple(level in holders and skips_none(level, level_count) for level in range(level_count))
    return HolderGraph(tuple(range(level_count)), edges, final)


def holder_graph(term: TensorTerm, level_count: int) -> HolderGraph:
    """Return the chains of a tensor with the states that exact costs need.

    An output's states are (holder, levels to come). Of siblings that share an element, all but one start from zero, and
    the traffic that they save is credited at all inner levels.
    """
    by_level = level_graph(term, level_count)
    if not term.is_output:
        return by_level
    chains = [(0, *(edge.level for edge in chain)) for chain in by_level.chains()]
    states = sorted({(chain[i], chain[i + 1 :]) for chain in chains for i in range(len(chain))})
    number = {state: s for s, state in enumerate(states)}
    edges = tuple(
        HolderEdge(source, number[rest[0], rest[1:]], parent, rest)
        for source, (parent, rest) in enumerate(states)
        if rest
    )
    return HolderGraph(tuple(holder for holder, _ in states), edges, tuple(not rest for _, rest in states))


def unfold_graph(graph: HolderGraph, after: Callable[[bool, HolderEdge], bool]) -> tuple[HolderGraph, tuple[bool, ...]]:
    """Return the chains with one more bit per state, false at the start, and that bit of every state.

    after: the bit after a node, given the bit before it.
    """
    states = [(first, False) for first in graph.first]
    edges: list[HolderEdge] = []
    for source, (state, bit) in enumerate(states):  # grows while it is walked
        for edge in graph.edges:
            if edge.source == state:
                target = edge.target, after(bit, edge)
                if target not in states:
                    states.append(target)
                edges.append(HolderEdge(source, states.index(target), edge.parent, edge.levels))
    levels = tuple(graph.levels[state] for state, _ in states)
    final = tuple(graph.final[state] for state, _ in states)
    return HolderGraph(levels, tuple(edges), final), tuple(bit for _, bit in states)


@dataclass(frozen=True, slots=True, eq=False)
class PricedChains:
    """Chains of a tensor with their costs, arrays of the shape of `zero`.

    node: the cost of a storage node; negative where its credit for inner nodes exceeds it. fits: where a level has
    room. end: the cost of the compute units that use the tensor at a level.
    """

    graph: HolderGraph
    arithmetic: Arithmetic
    zero: IntArray
    node: Callable[[HolderEdge], IntArray]
    fits: Callable[[int], NDArray[np.bool_]]
    end: Callable[[int], IntArray]

    def each(self, *, joins: bool = False) -> list[IntArray]:
        """Return the cost of every chain (infeasible: it does not fit). joins: of all chains that come to a level the
        least, elementwise."""
        graph, arithmetic = self.graph, self.arithmetic
        so_far, room = {first: [self.zero] for first in graph.first}, dict[int, NDArray[np.bool_]]()
        for edge in sorted(graph.edges, key=lambda one: one.level):  # all nodes further out come before
            if edge.level not in room:
                room[edge.level] = self.fits(edge.level)
            fits, own = room[edge.level], self.node(edge)
            costs = [arithmetic.where(fits & arithmetic.possible(cost), cost + own) for cost in so_far[edge.source]]
            every = [*so_far.get(edge.target, ()), *costs]
            so_far[edge.target] = [reduce(np.minimum, every)] if joins else every
        found: list[IntArray] = []
        for state in (state for state in so_far if graph.final[state]):
            end = self.end(graph.levels[state])
            found += (arithmetic.where(arithmetic.possible(cost), cost + end) for cost in so_far[state])
        return found

    def least(self) -> IntArray:
        """Return the least cost of all chains, elementwise (infeasible: none fits)."""
        return reduce(np.minimum, self.each(joins=True), self.arithmetic.where(self.zero > 0, self.zero))


@dataclass(frozen=True, slots=True)
class NodeWeights:
    """The cost of a storage node in one component, as weights per element.

    fill: of an input, an element that enters an instance; of an output, a partial sum that an instance takes back,
    including its way in. message: an element that an instance of the parent reads, or that arrives there. held: an
    element that an instance holds. wires: (fan-out, outside, inside), the weights of an element that crosses the
    fan-out, on either side of it: of an input inwards, of an output outwards. further_in: of an output, the fills at
    the inner nodes of one element, which a sibling that starts from zero saves.
    """

    fill: int
    message: int
    held: int
    wires: tuple[tuple[int, int, int], ...]
    further_in: int

    def crossings(self) -> Iterator[tuple[int, int]]:
        """Yield (cut, weight) of the elements that pass below the first `cut` fan-outs of the machine."""
        for fanout, outside, inside in self.wires:
            if outside:
                yield fanout, outside
            if inside:
                yield fanout + 1, inside

    def least_crossings(self) -> Iterator[tuple[int, int]]:
        """Yield (cut, weight) like `crossings`, but with non-negative weights, so that the cost is monotone in the
        amounts.

        It is a lower bound: adders at a fan-out reduce what passes outside of it, never increase it.
        """
        for fanout, outside, inside in self.wires:
            if weight := max(outside, 0):
                yield fanout, weight
            if weight := inside + min(outside, 0):
                yield fanout + 1, weight


def node_weights(
    problem: Problem, term: TensorTerm, component: Component, parent: int, levels: tuple[int, ...]
) -> NodeWeights:
    """Return the weights of a node of a tensor; parent, levels: as in `HolderEdge`.

    The compute unit (level = the number of levels) is a node whose fills and held elements have weight 0.

    Let an output have S elements drained, E of them different among siblings, A messages, and Z elements that start
    from zero. Then S elements are read here, A written at the parent, A - Z read there, and E - Z written here. Below,
    Z' = S - E + Z elements start from zero. Summed node by node the cost is `fill` x (E - Z) - `further_in` x (S - E) +
    `message` x A, minus a read at the outermost level per element that starts from zero there.
    """
    index, level = term.index, levels[0]
    is_memory = level < problem.level_count
    held = component.held[level][index] if is_memory and component.held else 0
    wires = tuple(_wires(problem, term, component, parent, level))
    if not term.is_output:
        fill = component.write[level][index] if is_memory else 0
        return NodeWeights(fill, component.read[parent][index], held, wires, 0)
    fills = [_refill(problem, term, component, *each) for each in pairwise((parent, *levels))] if is_memory else [0]
    message = component.read[parent][index] + component.write[parent][index]
    return NodeWeights(fills[0], message, held, wires, sum(fills[1:]))


def _wires(
    problem: Problem, term: TensorTerm, component: Component, parent: int, level: int
) -> Iterator[tuple[int, int, int]]:
    for fanout, prices in problem.crossed(component, parent, level):
        message, delivery, collection, added = prices[term.index]
        yield (fanout, added, collection) if term.is_output else (fanout, message, delivery)


def _refill(problem: Problem, term: TensorTerm, component: Component, parent: int, level: int) -> int:
    """Return the cost of a partial sum that is taken back by a node and drained from it once more."""
    inwards = sum(sum(prices[term.index][:2]) for _, prices in problem.crossed(component, parent, level))
    return component.read[level][term.index] + component.write[level][term.index] + inwards


def zero_start(term: TensorTerm, component: Component) -> int:
    """Return the credit for first updates at the outermost level, where the copy is still zero."""
    return -term.zero_starts * component.read[0][term.index]
