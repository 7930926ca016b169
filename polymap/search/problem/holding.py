"""Which levels hold a tensor in turn, and what one storage node costs: stated once for all bounds.

The outermost level holds every tensor. A *chain* of levels further in may hold it too; no chain skips a level that must
hold it. A `HolderGraph` is all chains of a tensor: its states tell which level holds the tensor now, its edges are
storage nodes. Where a node is credited with what happens further in, states tell the levels to come (`holder_graph` of
an output); where its cost depends on a node further out, they remember a bit of it (`unfolded`).

`node_weights` are exact integers per element, whatever the number type of the amounts that they weigh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.arithmetic import Arithmetic
from polymap.search.problem.components import Component
from polymap.search.problem.lattice import IntArray
from polymap.search.problem.problem import Problem, TensorTerm


@dataclass(frozen=True, slots=True)
class HolderEdge:
    """One storage node of a tensor, from state `source` to state `target`.

    parent: the level that it loads from or drains to. levels: its own level; of an output whose states tell the levels
    to come, then those.
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

    levels: of each state, the level that holds the tensor. final: whether the compute units may use it there (else a
    level further in must hold it).
    """

    levels: tuple[int, ...]
    edges: tuple[HolderEdge, ...]
    final: tuple[bool, ...]

    @property
    def first(self) -> tuple[int, ...]:
        """Return the states before any node."""
        entered = {edge.target for edge in self.edges}
        return tuple(s for s, level in enumerate(self.levels) if level == 0 and s not in entered)

    def chains(self) -> tuple[tuple[HolderEdge, ...], ...]:
        """Return the nodes of every chain, outermost first; chains of fewer levels come first."""

        def grow(chain: tuple[HolderEdge, ...], state: int) -> Iterator[tuple[HolderEdge, ...]]:
            if self.final[state]:
                yield chain
            for edge in self.edges:
                if edge.source == state:
                    yield from grow((*chain, edge), edge.target)

        found = [chain for first in self.first for chain in grow((), first)]
        return tuple(sorted(found, key=lambda chain: (len(chain), [edge.level for edge in chain])))


def level_graph(term: TensorTerm, level_count: int) -> HolderGraph:
    """Return the chains of a tensor with one state per level: what a node costs depends on its parent alone."""

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

    An output's are (holder, levels to come): siblings that share an element all begin with zero but one, and what they
    save is credited at all levels further in.
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


def unfolded(graph: HolderGraph, after: Callable[[bool, HolderEdge], bool]) -> tuple[HolderGraph, tuple[bool, ...]]:
    """Return the chains with states that remember one bit, false at the start, and that bit of every state.

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


def least_chain(
    graph: HolderGraph,
    arithmetic: Arithmetic,
    zero: IntArray,
    node: Callable[[HolderEdge], IntArray],
    fits: Callable[[int], NDArray[np.bool_]],
    end: Callable[[int], IntArray],
) -> IntArray:
    """Return the least cost of all chains, entry by entry of arrays of the shape of `zero` (infeasible: none fits).

    node: the cost of a storage node, which is negative where it is credited with what nodes further in save. fits:
    where a level has room. end: the cost of the compute units that use the tensor at a level.
    """
    never = arithmetic.where(zero > 0, zero)
    best = dict.fromkeys(graph.first, zero)
    room: dict[int, NDArray[np.bool_]] = {}
    for edge in sorted(graph.edges, key=lambda one: one.level):  # all nodes further out come before
        before = best.get(edge.source, never)
        if edge.level not in room:
            room[edge.level] = fits(edge.level)
        cost = arithmetic.where(room[edge.level] & arithmetic.possible(before), before + node(edge))
        best[edge.target] = np.minimum(best.get(edge.target, never), cost)
    found = never
    for state, before in best.items():
        if graph.final[state]:
            cost = before + end(graph.levels[state])
            found = np.minimum(found, arithmetic.where(arithmetic.possible(before), cost))
    return found


@dataclass(frozen=True, slots=True)
class NodeWeights:
    """What a storage node costs in one component of a measure: weights of amounts of elements.

    fill: of an input, each element that enters an instance; of an output, each partial sum that an instance takes back,
    with what it costs on the way in. message: each element that an instance of the parent is read for, or that arrives
    there. held: each element that an instance holds. wires: (fan-out, outside, inside), what an element costs that
    passes outside a fan-out of the way, and inside of it: of an input inwards, of an output outwards. further_in: of an
    output, the fills of the nodes further in of one element: what a sibling saves there that begins with zero.
    """

    fill: int
    message: int
    held: int
    wires: tuple[tuple[int, int, int], ...]
    further_in: int

    def crossings(self) -> Iterator[tuple[int, int]]:
        """Yield (cut, weight) of what passes below the first `cut` fan-outs of the machine."""
        for fanout, outside, inside in self.wires:
            if outside:
                yield fanout, outside
            if inside:
                yield fanout + 1, inside

    def least_crossings(self) -> Iterator[tuple[int, int]]:
        """Yield (cut, weight) as `crossings`, none negative: less than the crossings cost where amounts are less.

        What is added at a fan-out saves its way further out, but no more passes outside than inside.
        """
        for fanout, outside, inside in self.wires:
            if weight := max(outside, 0):
                yield fanout, weight
            if weight := inside + min(outside, 0):
                yield fanout + 1, weight


def node_weights(
    problem: Problem, term: TensorTerm, component: Component, parent: int, levels: tuple[int, ...]
) -> NodeWeights:
    """Return the weights of a node of a tensor below one at the parent; parent, levels: as in `HolderEdge`.

    The compute unit (the level count) is a node that is filled for nothing and holds nothing.

    An output with S elements drained, E of them different among siblings, A messages and Z elements that start from
    zero is read S times here, written A times at the parent, read A - Z times there, written E - Z times here; below,
    Z' = S - E + Z elements start from zero. Counted node by node, that is `fill` x (E - Z) - `further_in` x (S - E) +
    `message` x A, less a read at the outermost level per element that starts from zero there.
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
    """Return what a partial sum costs that comes back to a node, and is drained from it once more."""
    inwards = sum(sum(prices[term.index][:2]) for _, prices in problem.crossed(component, parent, level))
    return component.read[level][term.index] + component.write[level][term.index] + inwards


def zero_starts(term: TensorTerm) -> int:
    """Return how many elements of an output start from zero."""
    return 0 if term.tensor.initial or not term.is_output else prod(term.tensor.shape)


def zero_start(term: TensorTerm, component: Component) -> int:
    """Return the credit for first updates at the outermost level, where the copy is still zero."""
    return -zero_starts(term) * component.read[0][term.index] if term.is_output else 0
