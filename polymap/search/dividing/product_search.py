"""The search: structures and plans by rising bound, in each every order of the nodes and every choice of its tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, inf, prod

import numpy as np
from numpy.typing import NDArray

from polymap.poly import Kind
from polymap.resources import Work
from polymap.search.dividing.chain import ChainNode
from polymap.search.dividing.chain_weights import ChainWeights, KnownWeights, Weights
from polymap.search.dividing.cost_tables import arithmetic_of, tree_tables
from polymap.search.dividing.loop_order import CompletedMapping, completed_mappings
from polymap.search.dividing.product_bounds import Bounds, Number, PartValues, Side, least_excess
from polymap.search.dividing.product_plans import SCALAR, WHOLE, Order, orders_of, sheet_of
from polymap.search.dividing.product_spread import spread_of
from polymap.search.dividing.product_tiles import Place, best_tiles
from polymap.search.dividing.product_tuning import TUNING
from polymap.search.problem import AtLeast, Factor, Held, IntArray, Measure, Problem, Span

_NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Answer:
    """The best mapping with its scaled value (None: nothing fits), and what bounds all mappings: that value where the
    search came to its end."""

    found: tuple[int, CompletedMapping] | None
    bound: int | None = None

    @property
    def is_proven(self) -> bool:
        """Return whether nothing is better."""
        return self.bound == (None if self.found is None else self.found[0])


def best_product_tiles(
    problem: Problem,
    measure: Measure,
    stop: Callable[[], bool],
    work: Work | None = None,
    known: KnownWeights | None = None,
) -> Answer | None:
    """Return the best mapping over tiles that divide, the best that is found where time is up; None where the problem
    is none that this search covers, or nothing is found in time. work: counts and limits steps, one per order of
    nodes in a structure, and those of bounding all of them. known: weights that were asked for before."""
    if not is_product(problem, measure):
        return None
    nodes = sum(len(term.may_hold) for term in problem.terms if term.dims)
    spread = spread_of(problem) if nodes > TUNING.few_nodes else None
    if nodes > TUNING.few_nodes and (spread is None or len(spread.classes) < TUNING.many_spread):
        return None
    weights = (known or KnownWeights(problem.arch)).of(problem, measure.components, stop)
    plans = None if weights is None else _Plans(problem, weights, measure)
    work, structures = work or Work(), 0 if weights is None else len(weights.steps)
    if weights is None or plans is None or plans.count * structures > TUNING.most_bounds:
        return None
    steps = 1 + structures // TUNING.structures_a_step
    if work.left is not None and steps >= work.left:
        return None
    work.add(steps)
    if not plans.count:
        return Answer(None)
    if plans.has_credits():
        return None
    best, bound = _search(plans, stop, work)
    if bound is None:
        return None
    if best.order is None:
        return Answer(None) if bound == inf else None
    structure = weights.spread.structure(best.structure)
    tables = tree_tables(problem, structure, measure)
    parts = tuple(part - start for part, start in zip(best.parts, tables.start, strict=True))
    free = (None,) * problem.level_count
    (completed,) = next(completed_mappings(tables, (_chain(plans, best),), parts, free))
    return Answer((int(best.value), completed), ceil(min(int(best.value), max(0, bound))))


def product_weights(problem: Problem, measure: Measure) -> tuple[tuple[ChainWeights, ...], ...] | None:
    """Return what every choice of levels costs each tensor of a product on a machine without fan-outs; None where the
    problem is none that this search covers."""
    if problem.classes or problem.rules or not measure.is_linear or not is_product(problem, measure):
        return None
    spread = spread_of(problem)
    weights = None if spread is None else Weights(problem, measure.components, spread)
    return None if weights is None else tuple(weights.chains(term) for term in problem.terms)


def is_product(problem: Problem, measure: Measure) -> bool:
    """Return whether the problem is a product, of single elements, too, with an objective of sums, in numbers of 64
    bits."""
    lacking = [[d for d, dim in enumerate(problem.dims) if dim not in term.dims] for term in problem.terms]
    single = [own[0] for own in lacking if len(own) == 1]
    return (
        bool(problem.dims)
        and all(len(own) in (0, 1, len(problem.dims)) for own in lacking)
        and len(set(single)) == len(single)
        and not any(term.is_window for term in problem.terms)
        and whole_nodes(problem) is not None
        and not measure.limits
        and PartValues(measure).is_estimated(prod(problem.extents))
        and not any(component.held for component in measure.components)
        and all(arithmetic_of(problem, component).kind is Kind.NARROW for component in measure.components)
        and sum(len(term.may_hold) for term in problem.terms if term.dims) <= TUNING.most_nodes
    )


def whole_nodes(problem: Problem) -> frozenset[tuple[int, int, int]] | None:
    """Return (tensor, level, dim) where rules ask that no loop over the dim stands above the tensor's node there; None
    where they ask for more than that, and for what levels hold and fan-outs spread."""
    found = set[tuple[int, int, int]]()
    terms = {term.tensor.name: term for term in problem.terms}
    below = min((one.below for one in problem.classes), default=problem.level_count)
    for rule in problem.rules:
        if isinstance(rule, Held | Factor):
            continue
        if not isinstance(rule, AtLeast | Span):
            return None
        own = terms[rule.tensor].dims if isinstance(rule, AtLeast) else {rule.dim}
        dims = [d for d, dim in enumerate(problem.dims) if dim in own]
        extent = prod(problem.extents[d] for d in dims)
        least, most = (rule.elements, extent) if isinstance(rule, AtLeast) else (rule.least, rule.most)
        at = problem.arch.level_index(rule.level if isinstance(rule, AtLeast) else rule.at)
        if most < extent or (least > 1 and (least != extent or at >= below)):
            return None
        level = problem.arch.level_index(rule.level)
        found |= {(terms[rule.tensor].index, level, d) for d in dims if least > 1}
    return frozenset(found)


@dataclass(slots=True)
class _Best:
    """The best so far: its value, the parts of it, structure, plan, order and tiles of its cuts."""

    value: Number = inf
    parts: tuple[int, ...] = ()
    structure: int = 0
    plan: int = 0
    order: Order | None = None
    tiles: tuple[int, ...] = ()


class _Plans:
    """Choices of levels for all tensors, and the bound of each with each structure: every node filled once."""

    def __init__(self, problem: Problem, weights: Weights, measure: Measure) -> None:
        self.problem = problem
        self.weights, self.values = weights, PartValues(measure)
        self.chains = [weights.chains(term) for term in problem.terms]
        self.shape = tuple(len(own) for own in self.chains)
        self.count = prod(self.shape)
        levels = enumerate(problem.arch.levels)
        self.usable = {n: level.usable_bits for n, level in levels if n and level.usable_bits is not None}
        lacking = ([d for d, dim in enumerate(problem.dims) if dim not in term.dims] for term in problem.terms)
        self.lacks = tuple(None if not own else own[0] if len(own) == 1 else SCALAR for own in lacking)
        self._none = np.zeros_like(weights.steps)
        self._whole = whole_nodes(problem) or frozenset()

    def bounds(self) -> Bounds:
        """Return lower bounds of the value [plan, structure] where every node is filled once, _NEVER where the smallest
        tiles do not fit."""
        count, found = len(self._none), list[Bounds]()
        step = max(1, TUNING.bounded_together // self.count)
        for block in (slice(first, first + step) for first in range(0, count, step)):
            totals = [[chain.total[:, block] for chain in own] for own in self.chains]
            bounds = self.values.least(self._summed(totals), self.weights.cycles[block])
            for level, usable in self.usable.items():
                own = [[_at(chain, chain.bits, level, self._none)[block] for chain in own] for own in self.chains]
                bounds = np.where(self._summed(own) <= usable, bounds, _NEVER)
            found.append(bounds)
        return np.concatenate(found, axis=1)

    def raised(self, plan: IntArray, structure: IntArray) -> Bounds:
        """Return lower bounds of the value, per pair, with what limited room costs beyond one visit per node."""
        chosen = np.unravel_index(plan, self.shape)
        totals = (np.stack([c.total for c in own])[n, :, structure] for own, n in zip(self.chains, chosen, strict=True))
        parts = sum(totals, start=np.zeros((len(plan), len(self.weights.components)), dtype=np.int64)).T
        return self.values.least(parts + self.excess(plan, structure), self.weights.cycles[structure])

    def has_credits(self) -> bool:
        """Return whether some node costs less than nothing, so that more visits may cost less."""
        return any((node < 0).any() for own in self.chains for chain in own for node in chain.nodes)

    def raised_by_orders(self, plan: int, structures: IntArray) -> Bounds:
        """Return lower bounds of the value of a plan, per structure: the least over the orders of its nodes, each with
        what every cut costs at least where all others are 1."""
        chains, sheet = self.of(plan), sheet_of(*self._asked(plan))
        total = np.sum([chain.total[:, structures] for chain in chains], axis=0)
        if sheet is None:
            return self.values.least(total, self.weights.cycles[structures])
        own = [(level, bits[structures]) for c in chains for level, bits in zip(c.levels[1:], c.bits, strict=True)]
        bits = np.stack([each for _, each in own])
        extents = np.stack(self.weights.whole)[:, structures][sheet.dims]
        most = extents
        for level, crowd in sheet.crowds:
            free = self.usable[level] - sum(each for at, each in own if at == level)
            taken = crowd @ bits
            most = np.where(taken > 0, np.minimum(most, 1 + free // np.maximum(taken, 1)), most)
        parts: list[IntArray] = []
        for number, least in enumerate(total):
            once = sheet.visited @ np.stack([node[number, structures] for chain in chains for node in chain.nodes])
            parts.append(least + np.add.reduceat(once * extents // most - once, sheet.firsts, axis=0))
        return self.values.least(np.stack(parts), self.weights.cycles[structures]).min(axis=0)

    def excess(self, plan: IntArray, structure: IntArray) -> IntArray:
        """Return at least what limited room costs beyond one visit per node, [component, pair]: the larger of what
        follows from the outermost of all nodes, and of what each level's own costs together."""
        return np.stack([self._excess(plan, structure, part) for part in range(len(self.weights.components))])

    def _excess(self, plan: IntArray, structure: IntArray, part: int) -> IntArray:
        chosen = np.unravel_index(plan, self.shape)
        lacking = [tensor for tensor, lacks in enumerate(self.lacks) if lacks not in (None, SCALAR)]
        levels = np.zeros(len(plan), dtype=np.int64)
        for level in self.usable:
            sides = [self._side_at(level, tensor, chosen[tensor], structure, part) for tensor in lacking]
            if len(some := [side for side in sides if side is not None]) > 1:
                levels += least_excess(some)
        if len(lacking) < 2:
            return levels
        return np.maximum(levels, least_excess([self._side(t, chosen[t], structure, part) for t in lacking]))

    def _side_at(self, level: int, tensor: int, chosen: IntArray, structure: IntArray, part: int) -> Side | None:
        """Return a tensor's node at a level, per pair (None: no plan has one)."""
        chains, none = self.chains[tensor], self._none
        if not any(level in chain.levels for chain in chains):
            return None
        costs = [_at(chain, tuple(own[part] for own in chain.nodes), level, none) for chain in chains]
        bits = np.array([_at(chain, chain.bits, level, none) for chain in chains])[chosen, structure]
        usable = np.full(len(chosen), float(self.usable[level]))
        weight = np.array(costs)[chosen, structure].astype(np.float64)
        return Side(weight, bits.astype(np.float64), usable, self._extent(tensor, structure))

    def _side(self, tensor: int, chosen: IntArray, structure: IntArray, part: int) -> Side:
        """Return all nodes of a tensor, per pair."""
        chains, none = self.chains[tensor], self._none
        weight = np.array([sum((own[part] for own in chain.nodes), start=none) for chain in chains])[chosen, structure]
        bits = np.array([chain.bits[0] if chain.bits else none for chain in chains])[chosen, structure]
        usable = np.array([float(self.usable.get(chain.levels[1], 1 << 60)) if chain.bits else 1.0 for chain in chains])
        extent = self._extent(tensor, structure)
        return Side(weight.astype(np.float64), bits.astype(np.float64), usable[chosen], extent)

    def _extent(self, tensor: int, structure: IntArray) -> NDArray[np.float64]:
        """Return the temporal extent of the dim that a tensor lacks."""
        return self.weights.whole[self.lacks[tensor] or 0][structure].astype(np.float64)

    def _summed(self, parts: list[list[IntArray]]) -> IntArray:
        """Return the sums of one array per tensor's chain, with one more axis [plan] before the last."""
        total = parts[0][0][..., None, :] * 0
        for own in parts:
            each = np.stack(own, axis=-2)
            total = (total[..., :, None, :] + each[..., None, :, :]).reshape(*each.shape[:-2], -1, each.shape[-1])
        return total

    def place(self, plan: int, structure: int) -> Place:
        """Return a plan in a structure."""
        chains, usable = self.of(plan), self.usable
        free = dict(usable)
        for chain in chains:
            for level, own in zip(chain.levels[1:], chain.bits, strict=True):
                if level in free:
                    free[level] -= int(own[structure])
        weights = [own[:, structure].tolist() for chain in chains for own in chain.nodes]
        return Place(
            tuple(int(own[structure]) for own in self.weights.whole),
            [[own[part] for own in weights] for part in range(len(self.weights.components))],
            np.sum([chain.total[:, structure] for chain in chains], axis=0).tolist(),
            int(self.weights.cycles[structure]),
            [int(own[structure]) for chain in chains for own in chain.bits],
            usable,
            free,
        )

    def orders(self, plan: int) -> tuple[Order, ...]:
        """Return the orders of a plan's nodes."""
        return orders_of(*self._asked(plan))

    def _asked(
        self, plan: int
    ) -> tuple[
        tuple[int | None, ...], tuple[tuple[int, ...], ...], frozenset[int], int, frozenset[tuple[int, int, int]]
    ]:
        levels = tuple(chain.levels for chain in self.of(plan))
        return self.lacks, levels, frozenset(self.usable), len(self.problem.dims), self._whole

    def of(self, plan: int) -> tuple[ChainWeights, ...]:
        """Return a plan's chain of levels per tensor."""
        numbers = np.unravel_index(plan, self.shape)
        return tuple(own[int(n)] for own, n in zip(self.chains, numbers, strict=True))


def _at(chain: ChainWeights, values: tuple[IntArray, ...], level: int, none: IntArray) -> IntArray:
    return values[chain.levels.index(level) - 1] if level in chain.levels else none


def _search(plans: _Plans, stop: Callable[[], bool], work: Work) -> tuple[_Best, Number | None]:
    """Return the best tiles over all plans and structures, and a lower bound of what was not looked at (None: time
    ended before anything was found)."""
    bounds, best, values = plans.bounds(), _Best(), plans.values
    first = int(np.argmin(bounds))
    if bounds.flat[first] >= _NEVER:
        return best, inf
    _try_orders(plans, *divmod(first, bounds.shape[1]), best, work)
    bounds.flat[first] = _NEVER
    plan, structure = np.nonzero((bounds < _NEVER) & values.may_win(bounds, best.value))
    left = plans.raised(plan, structure)
    queue, first, size = np.argsort(left, kind="stable"), 0, TUNING.first_raised
    while first < len(queue):
        block, first, size = queue[first : first + size], first + size, 2 * size
        least = left[block[0]]
        if not values.may_win(least, best.value):
            break
        if stop() or not _has_searched(plans, plan[block], structure[block], left[block], best, stop, work):
            return best, least.item()
    return best, best.value


def _has_searched(
    plans: _Plans,
    plan: IntArray,
    structure: IntArray,
    left: Bounds,
    best: _Best,
    stop: Callable[[], bool],
    work: Work,
) -> bool:
    """Search pairs of a plan and a structure with these bounds, raised by the orders of each; return False where time
    ends before it."""
    for one in np.unique(plan).tolist():
        every = np.flatnonzero(plan == one)
        for own in np.array_split(every, -(-len(every) // TUNING.raised_together)):
            left[own] = np.maximum(left[own], plans.raised_by_orders(one, structure[own]))
    for pair in np.argsort(left, kind="stable").tolist():
        if not plans.values.may_win(left[pair], best.value):
            break
        if stop() or work.is_spent():
            return False
        _try_orders(plans, int(plan[pair]), int(structure[pair]), best, work)
    return True


def _try_orders(plans: _Plans, plan: int, structure: int, best: _Best, work: Work) -> None:
    """Take the best tiles of a plan in a structure where they are better."""
    place = plans.place(plan, structure)
    orders = plans.orders(plan)
    work.add(len(orders))
    for order in orders:
        found = best_tiles(place, order, plans.values, best.value)
        if found is not None:
            best.value, best.parts, best.tiles = found.value, found.parts, found.tiles
            best.structure, best.plan, best.order = structure, plan, order


def _chain(plans: _Plans, best: _Best) -> tuple[ChainNode, ...]:
    """Return the chain of nodes with its tiles."""
    assert best.order is not None
    nodes = [
        (tensor, parent, level)
        for tensor, chain in enumerate(plans.of(best.plan))
        for parent, level in pairwise(chain.levels)
    ]
    whole = [int(own[best.structure]) for own in plans.weights.whole]
    found: list[ChainNode] = []
    for node, own in zip(best.order.nodes, best.order.tiles, strict=True):
        tile = tuple(best.tiles[t] if t >= 0 else whole[d] if t == WHOLE else 1 for d, t in enumerate(own))
        found.append(ChainNode(*nodes[node], tile))
    return tuple(found)
