"""The search: structures and plans by rising bound, then every order of the plan's nodes and every choice of its tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.arithmetic import Kind
from polymap.search.dividing import (
    ChainNode,
    CompletedMapping,
    arithmetic_of,
    best_mappings,
    tree_tables,
)
from polymap.search.objective import Measure
from polymap.search.problem import IntArray, Problem
from polymap.search.product_tiles.plans import Order, chains_of, orders_of
from polymap.search.product_tiles.spread import spread_of
from polymap.search.product_tiles.tiles import Node, Place, best_tiles
from polymap.search.product_tiles.weights import ChainWeights, Weights, shape_of

MOST_NODES = 7
"""Nodes of a plan: their orders are all looked at."""
MOST_BOUNDS = 1 << 22
"""Pairs of a structure and a plan."""
_NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Answer:
    """The best mapping with its scaled value (None: nothing fits)."""

    found: tuple[int, CompletedMapping] | None


def best_product_tiles(problem: Problem, measure: Measure, stop: Callable[[], bool]) -> Answer | None:
    """Return the best mapping over tiles that divide; None where the problem is none that this search covers, or time
    is up."""
    if not _is_covered(problem, measure):
        return None
    spread = spread_of(problem)
    weights = Weights(problem, measure.components[0], spread)
    plans = _Plans(weights)
    if plans.count * len(spread.classes) > MOST_BOUNDS:
        return None
    best = _search(plans, stop)
    if best is None:
        return None
    if best.order is None:
        return Answer(None)
    structure = spread.structure(best.structure)
    tables = tree_tables(problem, structure, measure)
    value = best.value - tables.start[0]
    mapping = best_mappings(tables, _chain(plans, best), (value,), (None,) * problem.level_count)
    return Answer((best.value + measure.fixed_energy, mapping[0]))


def _is_covered(problem: Problem, measure: Measure) -> bool:
    """Return whether the problem is a product with an objective that is one sum, in numbers of 64 bits."""
    lacking = [[d for d, dim in enumerate(problem.dims) if dim not in term.dims] for term in problem.terms]
    single = [own[0] for own in lacking if own]
    return (
        all(len(own) <= 1 for own in lacking)
        and len(set(single)) == len(single)
        and not any(term.is_window for term in problem.terms)
        and not problem.rules
        and not problem.excluded
        and len(measure.components) == 1
        and measure.is_linear
        and not measure.limits
        and not measure.components[0].held
        and not measure.components[0].busiest
        and arithmetic_of(problem, measure.components[0]).kind is Kind.NARROW
        and sum(len(term.may_hold) for term in problem.terms) <= MOST_NODES
    )


@dataclass(slots=True)
class _Best:
    """The best so far: its value (without the measure's constant), structure, plan, order and tiles of its cuts."""

    value: int = _NEVER
    structure: int = 0
    plan: int = 0
    order: Order | None = None
    tiles: tuple[int, ...] = ()


class _Plans:
    """Choices of levels for all tensors, and the bound of each with each structure: every node filled once."""

    def __init__(self, weights: Weights) -> None:
        problem = self.problem = weights.problem
        self.weights = weights
        self.chains = [weights.chains(term) for term in problem.terms]
        self.shape = tuple(len(own) for own in self.chains)
        self.count = prod(self.shape)
        self.lacks = tuple(shape_of(problem, term).lacks for term in problem.terms)

    def bounds(self) -> IntArray:
        """Return [plan, structure], _NEVER where the smallest tiles do not fit."""
        total = self._summed([[chain.total for chain in own] for own in self.chains])
        for level in range(1, self.problem.level_count):
            usable = self.problem.arch.levels[level].usable_bits
            if usable is not None:
                bits = self._summed([[_bits_at(chain, level) for chain in own] for own in self.chains])
                total = np.where(bits <= usable, total, _NEVER)
        return total.reshape(self.count, -1)

    def _summed(self, parts: list[list[IntArray | int]]) -> IntArray:
        """Return the sum of one array per tensor's chain, [*chains, structure]."""
        count, total = len(self.weights.whole[0]), np.zeros((1,) * (len(parts) + 1), dtype=np.int64)
        for place, own in enumerate(parts):
            stack = np.array([np.broadcast_to(one, (count,)) for one in own])
            total = total + stack.reshape([len(own) if d == place else 1 for d in range(len(parts))] + [count])
        return total

    def of(self, plan: int) -> tuple[ChainWeights, ...]:
        numbers = np.unravel_index(plan, self.shape)
        return tuple(own[int(n)] for own, n in zip(self.chains, numbers, strict=True))


def _bits_at(chain: ChainWeights, level: int) -> IntArray | int:
    return chain.bits[chain.levels.index(level) - 1] if level in chain.levels else 0


def _search(plans: _Plans, stop: Callable[[], bool]) -> _Best | None:
    """Return the best tiles over all plans and structures; None where time ends or a weight is below 0."""
    bounds, best = plans.bounds().ravel(), _Best()
    count = len(plans.weights.whole[0])
    for pair in np.argsort(bounds, kind="stable").tolist():
        bound = int(bounds[pair])
        if bound >= best.value:
            break
        if stop():
            return None
        plan, structure = divmod(pair, count)
        place = _place(plans, structure)
        for order, nodes in _orders(plans, plan, structure):
            if any(node.weight < 0 for node in nodes):
                return None
            found = best_tiles(place, order, nodes, bound, best.value)
            if found is not None:
                best = _Best(found[0], structure, plan, order, found[1])
    return best


def _place(plans: _Plans, structure: int) -> Place:
    problem = plans.problem
    usable = tuple(level.usable_bits for level in problem.arch.levels)
    return Place(tuple(int(own[structure]) for own in plans.weights.whole), usable)


def _orders(plans: _Plans, plan: int, structure: int) -> Iterator[tuple[Order, tuple[Node, ...]]]:
    chains = plans.of(plan)
    lengths = tuple(len(chain.nodes) for chain in chains)
    known = {
        (tensor, place + 1): Node(
            chain.levels[place + 1],
            int(chain.nodes[place][structure]),
            int(chain.bits[place][structure]),
            plans.lacks[tensor],
        )
        for tensor, chain in enumerate(chains)
        for place in range(len(chain.nodes))
    }
    for order in orders_of(plans.lacks, lengths, len(plans.problem.dims)):
        yield order, tuple(known[node] for node in order.nodes)


def _chain(plans: _Plans, best: _Best) -> tuple[ChainNode, ...]:
    """Return the chain of nodes with its tiles."""
    chains, place = plans.of(best.plan), _place(plans, best.structure)
    assert best.order is not None
    found: list[ChainNode] = []
    for (tensor, number), own in zip(best.order.nodes, best.order.tiles, strict=True):
        tile = tuple(
            best.tiles[t] if t >= 0 else (place.whole[d] if t == -1 else 1) for d, t in enumerate(own)
        )
        levels = chains[tensor].levels
        found.append(ChainNode(tensor, levels[number - 1], levels[number], tile))
    return tuple(found)
