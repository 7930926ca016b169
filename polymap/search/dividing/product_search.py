"""The search: structures and plans by rising bound, in each every order of the nodes and every choice of its tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import ceil, inf, prod
from typing import Any

import numpy as np

from polymap.poly import INT64, PYTHON, Kind, Numbers, split
from polymap.resources import OutOfTime, Stop, Work
from polymap.search.dividing.chain import ChainNode
from polymap.search.dividing.chain_weights import ChainWeights, Weights, best_of_kinds
from polymap.search.dividing.cost_tables import arithmetic_of, tree_tables
from polymap.search.dividing.groups import kinds_of
from polymap.search.dividing.loop_order import CompletedMapping, completed_mappings
from polymap.search.dividing.product_bounds import Bounds, Number, PartValues, Side, least_excess
from polymap.search.dividing.product_plans import ALL, NOT_ALL, SCALAR, SOME, WHOLE, Order, Plan, orders_of, sheet_of
from polymap.search.dividing.product_spread import Kinds, kinds_of_structures
from polymap.search.dividing.product_tiles import Place, best_tiles, divisors_of
from polymap.search.dividing.product_tuning import TUNING
from polymap.search.problem import AtLeast, Component, Factor, Held, IntArray, Measure, Problem, Span, most_costed

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


def best_product_tiles(problem: Problem, measure: Measure, stop: Stop, work: Work | None = None) -> Answer | None:
    """Return the best mapping over tiles that divide, the best that is found where time is up; None where the problem
    is none that this search covers (one visit that costs more than 64 bits hold, too), or nothing is found in time.
    work: counts and limits steps, one per order of nodes in a structure, and those of bounding all of them."""
    if not is_product(problem, measure):
        return None
    try:
        return _best_tiles(problem, measure, stop, work or Work())
    except (OutOfTime, OverflowError):
        return None


def _best_tiles(problem: Problem, measure: Measure, stop: Stop, work: Work) -> Answer | None:
    kinds = kinds_of_structures(problem, stop, apart=any(component.wires for component in measure.components))
    nodes = sum(len(term.may_hold) for term in problem.terms if term.dims)
    if kinds is None:
        return None
    spread = kinds.spread
    if nodes > TUNING.few_nodes and kinds.are_structures and len(spread.classes) < TUNING.many_spread:
        return None
    if kinds.are_structures and len({one.below for one in problem.classes}) < len(problem.classes):
        kind = kinds_of(problem, spread.classes, problem.dims)
        kept = best_of_kinds(problem, measure.components, spread, kind, stop, kept_as(problem, measure))
        spread = replace(spread, classes=spread.classes[kept])
    weights = Weights(spread.problem, measure.components, spread, kept_as(problem, measure))
    plans = _Plans(weights, measure)
    steps = 1 + len(weights.steps) // TUNING.structures_a_step
    if plans.count * len(weights.steps) > TUNING.most_bounds or (work.left is not None and steps >= work.left):
        return None
    work.add(steps)
    if not plans.count:
        return Answer(None)
    if weights.has_credits():
        return None
    best, bound = _search(_Question(plans, None if kinds.are_structures else kinds, stop, work))
    if bound is None:
        return None
    if best.order is None:
        return Answer(None) if bound == inf else None
    assert best.plans is not None, "an order is one of a plan"
    structure = best.plans.weights.spread.structure(best.structure)
    tables = tree_tables(problem, structure, measure)
    parts = tuple(part - start for part, start in zip(best.parts, tables.start, strict=True))
    free = (None,) * problem.level_count
    (completed,) = next(completed_mappings(tables, (_chain(best.plans, best),), parts, free))
    return Answer((int(best.value), completed), ceil(min(int(best.value), max(0, bound))))


def is_product(problem: Problem, measure: Measure) -> bool:
    """Return whether the problem is a product, of single elements, too, with an objective of sums."""
    lacking = [[d for d, dim in enumerate(problem.dims) if dim not in term.dims] for term in problem.terms]
    single = [own[0] for own in lacking if len(own) == 1]
    return (
        bool(problem.dims and problem.terms)
        and all(split(extent)[1] for extent in problem.extents)
        and all(len(own) in (0, 1, len(problem.dims)) for own in lacking)
        and len(set(single)) == len(single)
        and not any(term.is_window for term in problem.terms)
        and spans_of(problem) is not None
        and not measure.limits
        and PartValues(measure).is_estimated(prod(problem.extents))
        and not any(component.held for component in measure.components)
        and prod(problem.extents) < TUNING.most_instances
        and all(_rounding_of(problem, component) < _NEVER / 4 for component in measure.components)
        and sum(len(term.may_hold) for term in problem.terms if term.dims) <= TUNING.most_nodes
    )


def _rounding_of(problem: Problem, component: Component) -> float:
    """Return what floats lose of a component's cost at most, no more than 2^158 (costs may exceed floats); far below
    2^62, sums modulo 2^64 tell the rest."""
    return TUNING.lost * min(most_costed(problem.workload, problem.arch, component), 1 << 200)


def kept_as(problem: Problem, measure: Measure) -> np.dtype[Any]:
    """Return how weights are kept: exact if they and their sums fit 64 bits, else as floats, from which bounds follow;
    what may win is counted again in Python's integers."""
    kinds = {arithmetic_of(problem, component).kind for component in measure.components}
    return INT64 if kinds == {Kind.NARROW} else np.dtype(np.float64)


def spans_of(problem: Problem) -> tuple[tuple[int, int, int, int, int], ...] | None:
    """Return (tensor, level, dim, least, most) where rules ask that so many indices are left at the tensor's node
    there; None where they ask for more than that, and for what levels hold and fan-outs spread."""
    found = list[tuple[int, int, int, int, int]]()
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
        if least <= 1 and most >= extent:
            continue
        at = problem.arch.level_index(rule.level if isinstance(rule, AtLeast) else rule.at)
        if at >= below or (isinstance(rule, AtLeast) and least < extent) or not terms[rule.tensor].dims:
            return None
        place = terms[rule.tensor].index, problem.arch.level_index(rule.level)
        for d in dims:
            is_all = isinstance(rule, AtLeast)
            least, most = (problem.extents[d],) * 2 if is_all else (least, most)
            found.append((*place, d, least, most))
    return tuple(dict.fromkeys(found))


@dataclass(slots=True)
class _BestChoice:
    """The best so far: its value, the parts of it, plans and structure, plan, order and tiles of its cuts."""

    value: Number = inf
    parts: tuple[int, ...] = ()
    plans: _Plans | None = None
    structure: int = 0
    plan: int = 0
    order: Order | None = None
    tiles: tuple[int, ...] = ()


class _Plans:
    """Choices of levels for all tensors, and the bound of each with each structure: every node filled once."""

    def __init__(self, weights: Weights, measure: Measure) -> None:
        problem = self.problem = weights.problem
        fixed = TUNING.lost * abs(measure.fixed_energy)
        losses = tuple(_rounding_of(problem, one) + fixed for one in measure.components)
        self.weights, self.values = weights, PartValues(measure, losses)
        self.never: Number = _NEVER if weights.kept == INT64 and measure.is_linear else inf  # where nothing fits
        self.chains = [weights.chains(term) for term in problem.terms]
        self.shape = tuple(len(own) for own in self.chains)
        self.count = prod(self.shape)
        levels = enumerate(problem.arch.levels)
        self.usable = {n: level.usable_bits for n, level in levels if n and level.usable_bits is not None}
        lacking = ([d for d, dim in enumerate(problem.dims) if dim not in term.dims] for term in problem.terms)
        self.lacks = tuple(None if not own else own[0] if len(own) == 1 else SCALAR for own in lacking)
        self._none = np.zeros_like(weights.steps)
        self._spans = spans_of(problem) or ()
        self._of_one: dict[int, _Plans] = {}

    def bounds(self, some: slice) -> Bounds:
        """Return lower bounds of the value [plan, structure] of some structures where every node is filled once;
        `never` where the smallest tiles do not fit."""
        parts = self._sums_of_plans([[chain.total[:, some] for chain in own] for own in self.chains])
        bounds = self.values.least(parts, self.weights.cycles[some])
        for level, usable in self.usable.items():
            own = [[_at(chain, chain.bits, level, self._none)[some] for chain in own] for own in self.chains]
            if (np.sum([np.max(each, axis=0) for each in own], axis=0) > usable).any():
                bounds = np.where(self._sums_of_plans(own) <= usable, bounds, self.never)
        return bounds

    def raised(self, plans: IntArray, some: IntArray) -> Bounds:
        """Return lower bounds of the value [plan, structure] of some of each, with what limited room costs beyond one
        visit per node."""
        chosen = np.unravel_index(plans, self.shape)
        totals = [np.stack([c.total[:, some] for c in own], axis=1) for own in self.chains]
        parts = sum(each[:, own] for each, own in zip(totals, chosen, strict=True))
        excess = [self._excess(chosen, some, part) for part in range(len(self.weights.components))]
        return self.values.least(parts + np.stack(excess), self.weights.cycles[some])

    def raised_by_orders(self, plan: int, structures: IntArray) -> Bounds:
        """Return lower bounds of the value of a plan [order of its nodes, structure], with what every cut costs at
        least where all others are 1; one row for all orders where some have no cut."""
        chains, sheet = self.of(plan), sheet_of(self._levels(plan))
        total = np.sum([chain.total[:, structures] for chain in chains], axis=0)
        if sheet is None:
            return self.values.least(total, self.weights.cycles[structures])[None]
        own = [(level, bits[structures]) for c in chains for level, bits in zip(c.levels[1:], c.bits, strict=True)]
        bits = np.stack([each for _, each in own])
        extents = np.stack(self.weights.whole)[:, structures][sheet.dims]
        most = extents.copy()
        for level, crowd in sheet.crowds:
            free = self.usable[level] - sum(each for at, each in own if at == level)
            taken = crowd @ bits
            most = np.where(taken > 0, np.minimum(most, 1 + free // np.maximum(taken, 1)), most)
        for node, dim, _, high in self._left_at(chains, tuple(each[structures] for each in self.weights.whole)):
            rows = sheet.tiles[:, node] * (sheet.dims == dim) > 0
            most = np.where(rows[:, None], np.minimum(most, np.maximum(high, 1)), most)
        for dim, extent in enumerate(self.problem.extents):
            own, sizes = sheet.dims == dim, np.array(divisors_of(extent), dtype=np.int64)
            most[own] = sizes[np.searchsorted(sizes, most[own], side="right") - 1]
        parts: list[IntArray] = []
        for number, least in enumerate(total):
            once = sheet.visited @ np.stack([node[number, structures] for chain in chains for node in chain.nodes])
            more = once * extents // most - once
            parts.append(least + np.add.reduceat(more[sheet.cuts], sheet.firsts, axis=0))
        return self.values.least(np.stack(parts), self.weights.cycles[structures])

    def _excess(self, chosen: tuple[IntArray, ...], some: IntArray, part: int) -> Numbers:
        """Return at least what limited room costs beyond one visit per node, [plan, structure]: the larger of what
        follows from the outermost of all nodes, and of what each level's own costs together."""
        lacking = [tensor for tensor, lacks in enumerate(self.lacks) if lacks not in (None, SCALAR)]
        kept = self.weights.kept
        excess: Numbers = np.zeros((len(chosen[0]), len(some)), dtype=kept)
        for level in self.usable:
            sides = [self._side_at(level, tensor, chosen[tensor], some, part) for tensor in lacking]
            if len(own := [side for side in sides if side is not None]) > 1:
                excess += least_excess(own).astype(kept)
        if len(lacking) < 2:
            return excess
        return np.maximum(excess, least_excess([self._side(t, chosen[t], some, part) for t in lacking]).astype(kept))

    def _side_at(self, level: int, tensor: int, chosen: IntArray, some: IntArray, part: int) -> Side | None:
        """Return a tensor's node at a level, per plan and structure (None: no plan has one)."""
        chains, none = self.chains[tensor], self._none
        if not any(level in chain.levels for chain in chains):
            return None
        costs = [_at(chain, tuple(own[part] for own in chain.nodes), level, none)[some] for chain in chains]
        bits = [_at(chain, chain.bits, level, none)[some] for chain in chains]
        return self._side_of(tensor, chosen, some, (costs, bits), [float(self.usable[level])] * len(chains))

    def _side(self, tensor: int, chosen: IntArray, some: IntArray, part: int) -> Side:
        """Return all nodes of a tensor, per plan and structure."""
        chains, none = self.chains[tensor], self._none[some]
        weight = [sum((own[part, some] for own in chain.nodes), start=none) for chain in chains]
        bits = [chain.bits[0][some] if chain.bits else none for chain in chains]
        usable = [float(self.usable.get(chain.levels[1], 1 << 60)) if chain.bits else 1.0 for chain in chains]
        return self._side_of(tensor, chosen, some, (weight, bits), usable)

    def _side_of(
        self, tensor: int, chosen: IntArray, some: IntArray, amounts: tuple[list[IntArray], ...], usable: list[float]
    ) -> Side:
        weight, bits = (np.array(own, dtype=np.float64)[chosen] for own in amounts)
        extent = self.weights.whole[self.lacks[tensor] or 0][some].astype(np.float64)
        return Side(weight, bits, np.array(usable)[chosen, None], extent)

    def _sums_of_plans(self, parts: list[list[IntArray]]) -> IntArray:
        """Return the sums of one array per tensor's chain, with one more axis [plan] before the last."""
        total = parts[0][0][..., None, :] * 0
        for own in parts:
            each = np.stack(own, axis=-2)
            total = (total[..., :, None, :] + each[..., None, :, :]).reshape(*each.shape[:-2], -1, each.shape[-1])
        return total

    def place(self, plan: int, structure: int) -> Place:
        """Return a plan in a structure, exact."""
        if self.weights.kept == np.float64:
            return self._exact(structure).place(plan, 0)
        chains = self.of(plan)
        weights = [own[:, structure].tolist() for chain in chains for own in chain.nodes]
        whole = tuple(int(own[structure]) for own in self.weights.whole)
        return Place(
            whole,
            [[own[part] for own in weights] for part in range(len(self.weights.components))],
            np.sum([chain.total[:, structure] for chain in chains], axis=0).tolist(),
            int(self.weights.cycles[structure]),
            [int(own[structure]) for chain in chains for own in chain.bits],
            self.usable,
            list(self._left_at(chains, whole)),
        )

    def _left_at(self, chains: tuple[ChainWeights, ...], whole: tuple[Any, ...]) -> Iterator[tuple[int, int, Any, Any]]:
        """Yield (node, dim, least, most) of temporal tiles, as rules ask, of one structure or several."""
        nodes = [(tensor, level) for tensor, chain in enumerate(chains) for level in chain.levels[1:]]
        for tensor, level, dim, least, most in self._spans if nodes else ():
            if (tensor, level) in nodes:
                siblings = self.problem.extents[dim] // whole[dim]
                yield nodes.index((tensor, level)), dim, -(-least // siblings), most // siblings

    def _exact(self, structure: int) -> _Plans:
        """Return the plans in one structure, in Python's integers."""
        if structure not in self._of_one:
            spread = self.weights.spread
            one = replace(spread, classes=spread.classes[structure : structure + 1])
            weights = Weights(self.problem, self.weights.components, one, PYTHON)
            self._of_one = {structure: _Plans(weights, self.values.measure)}
        return self._of_one[structure]

    def orders(self, plan: int) -> tuple[Order, ...]:
        """Return the orders of a plan's nodes."""
        return orders_of(self._levels(plan))

    def _levels(self, plan: int) -> Plan:
        chains = tuple(chain.levels for chain in self.of(plan))
        extents = self.problem.extents
        left = set[tuple[int, int, int, int]]()
        for tensor, level, d, least, most in self._spans:
            left |= {(tensor, level, d, ALL if least == extents[d] else SOME)} if least > 1 else set()
            left |= {(tensor, level, d, NOT_ALL)} if most < extents[d] else set()
        return Plan(self.lacks, chains, frozenset(self.usable), len(extents), frozenset(left))

    def of(self, plan: int) -> tuple[ChainWeights, ...]:
        """Return a plan's chain of levels per tensor."""
        numbers = np.unravel_index(plan, self.shape)
        return tuple(own[int(n)] for own, n in zip(self.chains, numbers, strict=True))


def _at(chain: ChainWeights, values: tuple[IntArray, ...], level: int, none: IntArray) -> IntArray:
    return values[chain.levels.index(level) - 1] if level in chain.levels else none


def _search(asked: _Question) -> tuple[_BestChoice, Number | None]:
    """Return the best tiles over all plans and structures, and a lower bound of what was not looked at (None: time
    ended before anything was found)."""
    plans, best = asked.plans, _BestChoice()
    every, most = np.arange(len(plans.weights.cycles)), max(1, TUNING.bounded_together // plans.count)
    bounds: Bounds = np.full((plans.count, len(every)), plans.never)
    for first in range(0, len(every), most):
        if asked.stop():
            return best, 0 if best.order else None
        own = slice(first, first + most)
        bounds[:, own] = plans.bounds(own)
        _take_least(asked, bounds[:, own], every[own], best)
    least = bounds.min(axis=0)
    queue, first, size = np.argsort(least, kind="stable"), 0, TUNING.first_raised
    while first < len(queue) and plans.values.may_win(least[queue[first]], best.value):
        block, first, size = queue[first : first + size], first + size, min(2 * size, most)
        raised = _raise_bounds(plans, bounds[:, block], block, best)
        has_looked = not asked.stop() and _take_least(asked, raised, block, best)
        bounds[:, block] = raised
        if not has_looked:
            return best, min(bounds.min().item(), best.value)
    plan, structure = np.nonzero((bounds < plans.never) & plans.values.may_win(bounds, best.value))
    left = bounds[plan, structure]
    queue, first, size = np.argsort(left, kind="stable"), 0, TUNING.first_raised
    while first < len(queue):
        block, first, size = queue[first : first + size], first + size, 2 * size
        least = left[block[0]]
        if not plans.values.may_win(least, best.value):
            break
        if asked.stop() or not _has_searched(asked, plan[block], structure[block], left[block], best):
            return best, least.item()
    return best, best.value


def _raise_bounds(plans: _Plans, bounds: Bounds, structures: IntArray, best: _BestChoice) -> Bounds:
    """Raise the bounds [plan, structure] of these structures by what limited room costs, where they may win."""
    may_win = (bounds < plans.never) & plans.values.may_win(bounds, best.value)
    own, of = np.flatnonzero(may_win.any(axis=1)), np.flatnonzero(may_win.any(axis=0))
    if len(own):
        at = np.ix_(own, of)
        bounds[at] = np.maximum(bounds[at], plans.raised(own, structures[of]))
    return bounds


def _take_least(asked: _Question, bounds: Bounds, structures: IntArray, best: _BestChoice) -> bool:
    """Search the pair of the least bound [plan, structure] of these structures, and mark it; return False where time
    ends before it."""
    plan, place = divmod(int(np.argmin(bounds)), len(structures))
    left = bounds[plan, place : place + 1].copy()
    if left[0] >= asked.plans.never or not asked.plans.values.may_win(left, best.value)[0]:
        return True
    if not _has_searched(asked, np.array([plan]), structures[place : place + 1], left, best):
        return False
    bounds[plan, place] = asked.plans.never
    return True


@dataclass(frozen=True, slots=True)
class _Question:
    """Plans in structures, or in kinds of structures (None: they are structures); what ends the search; its steps."""

    plans: _Plans
    kinds: Kinds | None
    stop: Stop
    work: Work


def _has_searched(asked: _Question, plan: IntArray, structure: IntArray, left: Bounds, best: _BestChoice) -> bool:
    """Search pairs of a plan and a structure (or a kind) with these bounds, raised by the orders of each; return False
    where time ends before it."""
    plans, groups = asked.plans, dict[int, IntArray]()  # pairs of one plan, raised together
    for one in sorted(set(plan.tolist())):
        every = np.flatnonzero(plan == one)
        groups |= {int(own[0]): own for own in np.array_split(every, -(-len(every) // TUNING.raised_together))}
    if asked.kinds is not None:
        for pair, own in groups.items():
            left[own] = np.maximum(left[own], plans.raised_by_orders(int(plan[pair]), structure[own]).min(axis=0))
        alive = np.flatnonzero(plans.values.may_win(left, best.value))
        return _has_searched_members(asked, asked.kinds, plan[alive], structure[alive], left[alive], best)
    queue: list[tuple[Number, int, Bounds | None]] = [
        (left[own].min().item(), pair, None) for pair, own in groups.items()
    ]
    heapify(queue)
    while queue and plans.values.may_win(queue[0][0], best.value):
        if asked.stop() or asked.work.is_spent():
            return False
        _, pair, least = heappop(queue)
        if least is not None:
            _try_orders(plans, int(plan[pair]), int(structure[pair]), least, best, asked.work)
            continue
        own = groups[pair]
        rows = plans.raised_by_orders(int(plan[pair]), structure[own])
        left[own] = np.maximum(left[own], rows.min(axis=0))
        for place in np.flatnonzero(plans.values.may_win(left[own], best.value)).tolist():
            heappush(queue, (left[own[place]].item(), int(own[place]), rows[:, place]))
    return True


def _has_searched_members(
    asked: _Question, kinds: Kinds, plan: IntArray, kind: IntArray, left: Bounds, best: _BestChoice
) -> bool:
    """Search pairs of a plan and a kind with these bounds in the structures of the kind."""
    if not len(plan):
        return True
    numbers, place = np.unique(kind, return_inverse=True)
    spread, of = kinds.members(numbers)
    weights = asked.plans.weights
    kept = best_of_kinds(kinds.problem, weights.components, spread, of, asked.stop, weights.kept)
    of, spread = of[kept], replace(spread, classes=spread.classes[kept])
    if not len(of):
        return True
    plans = _Plans(Weights(kinds.problem, weights.components, spread, weights.kept), asked.plans.values.measure)
    first, last = np.searchsorted(of, place), np.searchsorted(of, place, side="right")
    count = last - first
    plan, left = np.repeat(plan, count), np.repeat(left, count)
    structure = np.arange(len(plan)) + np.repeat(first - np.cumsum(count) + count, count)
    asked.work.add(len(of) // TUNING.structures_a_step)
    return _has_searched(replace(asked, plans=plans, kinds=None), plan, structure, left, best)


def _try_orders(plans: _Plans, plan: int, structure: int, least: Bounds, best: _BestChoice, work: Work) -> None:
    """Take the best tiles of a plan in a structure where they are better. least: bounds of its orders, or of all."""
    place, every = plans.place(plan, structure), plans.orders(plan)
    least = np.broadcast_to(least, len(every))
    promising: list[int] = np.argsort(least, kind="stable").tolist()
    for number in promising:
        if not plans.values.may_win(least[number], best.value):
            break
        work.add()
        order = every[number]
        found = best_tiles(place, order, plans.values, best.value)
        if found is not None:
            best.value, best.parts, best.tiles = found.value, found.parts, found.tiles
            best.plans, best.structure, best.plan, best.order = plans, structure, plan, order


def _chain(plans: _Plans, best: _BestChoice) -> tuple[ChainNode, ...]:
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
