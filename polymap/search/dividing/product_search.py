"""The search: structures and plans by rising bound, in each every order of the nodes and every choice of its tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.poly import Kind
from polymap.search.dividing.chain import ChainNode
from polymap.search.dividing.chain_weights import ChainWeights, Weights
from polymap.search.dividing.cost_tables import arithmetic_of, tree_tables
from polymap.search.dividing.loop_order import CompletedMapping, completed_mappings
from polymap.search.dividing.product_bounds import Side, least_excess
from polymap.search.dividing.product_plans import WHOLE, Order, orders_of
from polymap.search.dividing.product_spread import spread_of
from polymap.search.dividing.product_tiles import Place, best_tiles
from polymap.search.dividing.product_tuning import TUNING
from polymap.search.problem import IntArray, Measure, Problem

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
    if plans.count * len(spread.classes) > TUNING.most_bounds:
        return None
    best = _search(plans, stop)
    if best is None:
        return None
    if best.order is None:
        return Answer(None)
    structure = spread.structure(best.structure)
    tables = tree_tables(problem, structure, measure)
    value = best.value - tables.start[0]
    free = (None,) * problem.level_count
    (completed,) = next(completed_mappings(tables, (_chain(plans, best),), (value,), free))
    return Answer((best.value + measure.fixed_energy, completed))


def product_weights(problem: Problem, measure: Measure) -> tuple[tuple[ChainWeights, ...], ...] | None:
    """Return what every choice of levels costs each tensor of a product on a machine without fan-outs; None where the
    problem is none that this search covers."""
    if problem.classes or not _is_covered(problem, measure):
        return None
    weights = Weights(problem, measure.components[0], spread_of(problem))
    return tuple(weights.chains(term) for term in problem.terms)


def _is_covered(problem: Problem, measure: Measure) -> bool:
    """Return whether the problem is a product with an objective that is one sum, in numbers of 64 bits."""
    lacking = [[d for d, dim in enumerate(problem.dims) if dim not in term.dims] for term in problem.terms]
    single = [own[0] for own in lacking if own]
    return (
        bool(problem.dims)
        and all(len(own) <= 1 for own in lacking)
        and len(set(single)) == len(single)
        and not any(term.is_window for term in problem.terms)
        and not problem.rules
        and len(measure.components) == 1
        and measure.is_linear
        and not measure.limits
        and not measure.components[0].held
        and not measure.components[0].busiest
        and arithmetic_of(problem, measure.components[0]).kind is Kind.NARROW
        and sum(len(term.may_hold) for term in problem.terms) <= TUNING.most_nodes
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
        levels = enumerate(problem.arch.levels)
        self.usable = {n: level.usable_bits for n, level in levels if n and level.usable_bits is not None}
        self.lacks = tuple(
            next((d for d, dim in enumerate(problem.dims) if dim not in term.dims), None) for term in problem.terms
        )

    def bounds(self) -> IntArray:
        """Return [plan, structure], _NEVER where the smallest tiles do not fit."""
        none = np.zeros(len(self.weights.whole[0]), dtype=np.int64)
        total = self._summed([[chain.total for chain in own] for own in self.chains])
        for level, usable in self.usable.items():
            bits = self._summed([[_at(chain, chain.bits, level, none) for chain in own] for own in self.chains])
            total = np.where(bits <= usable, total, _NEVER)
        return total.reshape(self.count, -1)

    def excess(self, plan: NDArray[np.int64], structure: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return at least what limited room costs beyond one visit per node, per pair: the larger of what follows from
        the outermost of all nodes, and of what each level's own costs together."""
        chosen = np.unravel_index(plan, self.shape)
        lacking = [tensor for tensor, lacks in enumerate(self.lacks) if lacks is not None]
        levels = np.zeros(len(plan), dtype=np.int64)
        for level in self.usable:
            sides = [self._side_at(level, tensor, chosen[tensor], structure) for tensor in lacking]
            if len(some := [side for side in sides if side is not None]) > 1:
                levels += least_excess(some)
        if len(lacking) < 2:
            return levels
        return np.maximum(levels, least_excess([self._side(t, chosen[t], structure) for t in lacking]))

    def _side_at(self, level: int, tensor: int, chosen: NDArray[np.int64], structure: NDArray[np.int64]) -> Side | None:
        """Return a tensor's node at a level, per pair (None: no plan has one)."""
        chains, none = self.chains[tensor], np.zeros(len(self.weights.whole[0]), dtype=np.int64)
        if not any(level in chain.levels for chain in chains):
            return None
        weight = np.array([_at(chain, chain.nodes, level, none) for chain in chains])[chosen, structure]
        bits = np.array([_at(chain, chain.bits, level, none) for chain in chains])[chosen, structure]
        usable = np.full(len(chosen), float(self.usable[level]))
        return Side(weight.astype(np.float64), bits.astype(np.float64), usable, self._extent(tensor, structure))

    def _side(self, tensor: int, chosen: NDArray[np.int64], structure: NDArray[np.int64]) -> Side:
        """Return all nodes of a tensor, per pair."""
        chains, none = self.chains[tensor], np.zeros(len(self.weights.whole[0]), dtype=np.int64)
        weight = np.array([sum(chain.nodes, start=none) for chain in chains])[chosen, structure]
        bits = np.array([chain.bits[0] if chain.bits else none for chain in chains])[chosen, structure]
        usable = np.array([float(self.usable.get(chain.levels[1], 1 << 60)) if chain.bits else 1.0 for chain in chains])
        extent = self._extent(tensor, structure)
        return Side(weight.astype(np.float64), bits.astype(np.float64), usable[chosen], extent)

    def _extent(self, tensor: int, structure: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the temporal extent of the dim that a tensor lacks."""
        return self.weights.whole[self.lacks[tensor] or 0][structure].astype(np.float64)

    def _summed(self, parts: list[list[IntArray]]) -> IntArray:
        """Return the sum of one array per tensor's chain, [*chains, structure]."""
        total = np.zeros((1,) * (len(parts) + 1), dtype=np.int64)
        for place, own in enumerate(parts):
            total = total + np.array(own).reshape([len(own) if d == place else 1 for d in range(len(parts))] + [-1])
        return total

    def place(self, plan: int, structure: int) -> Place:
        """Return a plan in a structure."""
        chains, usable = self.of(plan), self.usable
        free = dict(usable)
        for chain in chains:
            for level, own in zip(chain.levels[1:], chain.bits, strict=True):
                if level in free:
                    free[level] -= int(own[structure])
        return Place(
            tuple(int(own[structure]) for own in self.weights.whole),
            [int(own[structure]) for chain in chains for own in chain.nodes],
            [int(own[structure]) for chain in chains for own in chain.bits],
            usable,
            free,
        )

    def orders(self, plan: int) -> tuple[Order, ...]:
        """Return the orders of a plan's nodes."""
        levels = tuple(chain.levels for chain in self.of(plan))
        return orders_of(self.lacks, levels, frozenset(self.usable), len(self.problem.dims))

    def of(self, plan: int) -> tuple[ChainWeights, ...]:
        """Return a plan's chain of levels per tensor."""
        numbers = np.unravel_index(plan, self.shape)
        return tuple(own[int(n)] for own, n in zip(self.chains, numbers, strict=True))


def _at(chain: ChainWeights, values: tuple[IntArray, ...], level: int, none: IntArray) -> IntArray:
    return values[chain.levels.index(level) - 1] if level in chain.levels else none


def _search(plans: _Plans, stop: Callable[[], bool]) -> _Best | None:
    """Return the best tiles over all plans and structures; None where time ends or a weight is below 0."""
    bounds, best = plans.bounds(), _Best()
    first = int(np.argmin(bounds))
    if (bound := int(bounds.flat[first])) == _NEVER:
        return best
    if not _has_tried(plans, *divmod(first, bounds.shape[1]), bound, best):
        return None
    bounds.flat[first] = _NEVER
    plan, structure = np.nonzero(bounds < best.value)
    left = bounds[plan, structure] + plans.excess(plan, structure)
    for pair in np.argsort(left, kind="stable").tolist():
        if left[pair] >= best.value:
            break
        own = int(plan[pair]), int(structure[pair])
        if stop() or not _has_tried(plans, *own, int(bounds[own]), best):
            return None
    return best


def _has_tried(plans: _Plans, plan: int, structure: int, bound: int, best: _Best) -> bool:
    """Take the best tiles of a plan in a structure where they are better; return False where a weight is below 0.
    bound: the cost with every node visited once."""
    place = plans.place(plan, structure)
    if min(place.weights, default=0) < 0:
        return False
    for order in plans.orders(plan):
        found = best_tiles(place, order, bound, best.value)
        if found is not None:
            best.value, best.tiles = found
            best.structure, best.plan, best.order = structure, plan, order
    return True


def _chain(plans: _Plans, best: _Best) -> tuple[ChainNode, ...]:
    """Return the chain of nodes with its tiles."""
    assert best.order is not None
    nodes = [
        (tensor, parent, level)
        for tensor, chain in enumerate(plans.of(best.plan))
        for parent, level in pairwise(chain.levels)
    ]
    whole = plans.place(best.plan, best.structure).whole
    found: list[ChainNode] = []
    for node, own in zip(best.order.nodes, best.order.tiles, strict=True):
        tile = tuple(best.tiles[t] if t >= 0 else whole[d] if t == WHOLE else 1 for d, t in enumerate(own))
        found.append(ChainNode(*nodes[node], tile))
    return tuple(found)
