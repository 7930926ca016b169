"""Which levels hold each tensor in turn: states of one tensor, storage nodes between them, and every order of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import inf

from polymap.search.dividing import output_plans
from polymap.search.problem import Problem, TensorTerm

State = tuple[int, ...]  # per tensor the number of its state
Order = tuple[tuple[int, int], ...]  # (tensor, edge) of the storage nodes, outermost first
CompleteOrder = tuple[Order, State]  # and the joint state at its end


@dataclass(frozen=True, slots=True)
class HolderEdge:
    """One storage node of a tensor: an edge of its holder graph, from state `source` to `target`.

    parent: the level it loads from or drains to. levels: its own level; of an output, then those further in that hold
    it too.
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
    """States of one tensor (which level holds it now), the storage nodes between them, and per state whether the
    statement instances may use it there (else it must be held further in)."""

    holders: tuple[int, ...]
    edges: tuple[HolderEdge, ...]
    final: tuple[bool, ...]

    @property
    def first(self) -> tuple[int, ...]:
        """Return the states before any node."""
        entered = {edge.target for edge in self.edges}
        return tuple(s for s, holder in enumerate(self.holders) if holder == 0 and s not in entered)


def holder_graph(problem: Problem, term: TensorTerm) -> HolderGraph:
    """Return the states and nodes of a tensor. An input's states are the levels, an output's are (holder, levels still
    to come): what siblings elide is credited to the levels further in."""
    if term.is_output:
        states = tuple(sorted(output_plans(term, problem.level_count)))
        edges = tuple(
            HolderEdge(source, states.index((rest[0], rest[1:])), parent, rest)
            for source, (parent, rest) in enumerate(states)
            if rest
        )
        return HolderGraph(tuple(holder for holder, _ in states), edges, tuple(not rest for _, rest in states))
    count = problem.level_count
    edges = tuple(
        HolderEdge(parent, level, parent, (level,))
        for level in sorted(term.may_hold)
        for parent in range(level)
        if not _skips_required_level(term, parent, level)
    )
    final = tuple(not _skips_required_level(term, holder, count) for holder in range(count))
    return HolderGraph(tuple(range(count)), edges, final)


def _skips_required_level(term: TensorTerm, after: int, upto: int) -> bool:
    return any(after < level < upto for level in term.must_hold)


def storage_orders(graphs: tuple[HolderGraph, ...], most: int) -> tuple[CompleteOrder, ...] | None:
    """Return every order of storage nodes with the joint state at its end; None where there are more than `most`."""
    found: list[CompleteOrder] = []

    def grow(order: Order, state: State) -> Iterator[CompleteOrder]:
        if all(graph.final[s] for graph, s in zip(graphs, state, strict=True)):
            yield order, state
        for tensor, graph in enumerate(graphs):
            for number, edge in enumerate(graph.edges):
                if edge.source == state[tensor]:
                    after = (*state[:tensor], edge.target, *state[tensor + 1 :])
                    yield from grow((*order, (tensor, number)), after)

    for first in product(*(graph.first for graph in graphs)):
        for one in grow((), first):
            found.append(one)
            if len(found) > most:
                return None
    return tuple(found)


def capacities(problem: Problem) -> tuple[float, ...]:
    """Return the bits that tiles may fill per level; inf where unlimited."""
    return tuple(inf if one.usable_bits is None else one.usable_bits for one in problem.arch.levels)
