"""The joint bound of one structure: least costs over all chains of nodes of all tensors, by dynamic programming.

A chain is a sequence of storage nodes, outermost first, in which no tile exceeds the one before in any dim. A relaxed
chain may exceed a level's capacity. Branch on the bits held by one node of an overfull level: at most b, or more than
b. Where capacities hold, the cells (intervals of tile sizes) of the chain are cut instead. The least bound over the
open parts holds for every mapping of the structure (docs/any_tiles.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, floor, isfinite, prod

import numpy as np

from polymap.poly import FloatArray
from polymap.resources import BestFirst, SearchCaches, Stop
from polymap.search.any_size.crossings import Crossings, LoadBalance, sibling_ranges
from polymap.search.any_size.joint_costs import Axes, LoopOrder, NodeView, StructureLoads, TensorNodes
from polymap.search.any_size.single_tensor import Counts, Working, one_box
from polymap.search.any_size.sizes import Axis, coarse_axis
from polymap.search.any_size.tensor_costs import least_components
from polymap.search.any_size.tuning import TUNING
from polymap.search.problem import Component, HolderEdge, Measure, Problem, minimum_below, most_costed

State = tuple[int, ...]  # per tensor, the holder state
HeldBits = tuple[dict[int, float], ...]  # per level and tensor
# Relative; the floats are sums of some ten terms that are not negative, each of about as many factors: true to 1e-14.
MARGIN = 1e-13


@dataclass(frozen=True, slots=True)
class ChainNode:
    """A node of a relaxed chain: tensor number, level, the unit in which its tile is measured (how many groups of
    fan-outs stand above), and per dim the least and the largest size of its cell."""

    tensor: int
    level: int
    unit: int
    low: tuple[int, ...]
    high: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JointBound:
    """A lower bound of the objective (scaled as Measure.value; None: no mapping of the structure fits), and the
    relaxed chain of the first component."""

    bound: int | None
    chain: tuple[ChainNode, ...]


@dataclass(frozen=True, slots=True)
class BitRange:
    """What a node may hold in one half of a split: more than `above` bits and at most `most`."""

    tensor: int
    level: int
    above: float
    most: float


Ranges = tuple[BitRange, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    """A cell where a chain stands: its unit, the least and the largest sizes, and the dims along which they matter.
    group: of fan-outs that it crosses there (None: there is a node)."""

    unit: int
    low: tuple[int, ...]
    high: tuple[int, ...]
    dims: tuple[int, ...]
    group: int | None = None


@dataclass(frozen=True, slots=True)
class _Relaxation:
    """The least cost over chains, a chain that has it, the cells of its nodes and of where it crosses groups of
    fan-outs, and per level the least bits that it holds per tensor."""

    cost: float
    chain: tuple[ChainNode, ...]
    places: tuple[_Place, ...]
    bits: HeldBits


class StructureBound:
    """The bound of one structure, which rises with the rounds of refinement.

    is_final: whether further rounds would not change it.
    """

    def __init__(
        self,
        problem: Problem,
        measure: Measure,
        counts: Counts,
        caches: SearchCaches | None = None,
        working: Working = (),
    ) -> None:
        self.problem, self.measure, self.counts, self.working = problem, measure, counts, working
        structure = JointStructure(problem, counts, (), caches, working) if _suits(problem, measure) else None
        if structure is None or structure.entries(structure.first_axes()) > TUNING.most_entries:
            self._structure, self._searches = None, list[JointSearch]()
        else:
            self._structure = structure
            self._searches = [JointSearch(structure, component) for component in measure.components]
        self.is_final = not self._searches

    def go_on(self, incumbent: int | None, rounds: int, stop: Stop) -> JointBound:
        """Return the bound after at most so many further rounds per component."""
        if self._structure is None:
            box = one_box(self.problem, *sibling_ranges(self.problem, self.counts), self.working)
            return JointBound(least_components(self.problem, self.measure, box).values(self.measure)[0], ())
        goal = None
        if incumbent is not None and self.measure.is_linear:
            goal = incumbent - self.measure.fixed_energy
        found = [search.run(goal, rounds, stop) for search in self._searches]
        self.is_final = all(search.is_final for search in self._searches)
        if any(each is None for each in found):
            return JointBound(None, ())
        parts, chains = zip(*(each for each in found if each is not None), strict=True)
        cycles = int(self._structure.loads.counts.cycles()[0])
        return JointBound(self.measure.value_within_limits(tuple(parts), cycles), chains[0])


def _suits(problem: Problem, measure: Measure) -> bool:
    """Return whether tables have room for the sizes of tiles, and floats for the costs."""
    costs = (most_costed(problem.workload, problem.arch, component) for component in measure.components)
    return max(problem.extents, default=1) <= TUNING.most_extent and max(map(int.bit_length, costs)) <= TUNING.most_bits


class JointStructure:
    """What all components of one structure share."""

    def __init__(
        self,
        problem: Problem,
        counts: Counts,
        evenness: tuple[LoadBalance, ...] = (),
        caches: SearchCaches | None = None,
        working: Working = (),
    ) -> None:
        self.problem, self.counts, self.evenness, self.working = problem, counts, evenness, working
        self.caches = caches or SearchCaches()
        self.crossings = Crossings(problem, counts, evenness)
        self.loads = StructureLoads(problem, self.crossings, self.caches, working)
        self.nodes = [TensorNodes(self.loads, term) for term in problem.terms]
        self.states = _joint_states(self.nodes)

    def entries(self, axes: Axes) -> int:
        """Return the size of the tables of all states."""
        return len(self.states) * sum(map(_cells, axes))

    def first_axes(self) -> Axes:
        """Return coarse axes of all units."""
        extents = self.problem.extents
        axes = [[coarse_axis(n, last) for n, last in zip(extents, row, strict=True)] for row in self.crossings.last]
        return self.with_wholes(axes)

    def with_wholes(self, axes: Iterable[Iterable[Axis]]) -> Axes:
        """Return axes with a cell for places outside of all loops over a dim, where siblings cut it."""
        return tuple(
            tuple(replace(axis, whole=self._whole(d, unit)) for d, axis in enumerate(row))
            for unit, row in enumerate(axes)
        )

    def _whole(self, d: int, unit: int) -> int | None:
        if self.crossings.most_siblings(d, 0, unit) == 1:
            return None
        return -(-self.problem.extents[d] // self.crossings.most_covered(d, 0, unit))


@dataclass(frozen=True, slots=True)
class _Move:
    tensor: int
    edge: HolderEdge
    after: State


@dataclass(frozen=True, slots=True)
class _JointState:
    """placed: how many nodes can have led to the state at most. unit: the first in which the chain can go on."""

    state: State
    placed: int
    unit: int
    moves: tuple[_Move, ...]


def _joint_states(nodes: list[TensorNodes]) -> tuple[_JointState, ...]:
    """Return the joint states with their moves, innermost first."""
    found: list[_JointState] = []
    depths = [_longest_paths(one) for one in nodes]
    for state in product(*(range(len(one.holders.levels)) for one in nodes)):
        moves = tuple(
            _Move(t, edge, (*state[:t], edge.target, *state[t + 1 :]))
            for t, one in enumerate(nodes)
            for edge in one.holders.edges
            if edge.source == state[t]
        )
        placed = sum(d[s] for d, s in zip(depths, state, strict=True))
        unit = max(one.crossings.unit(one.holders.levels[s]) for one, s in zip(nodes, state, strict=True))
        found.append(_JointState(state, placed, unit, moves))
    order = [sum(one.holders.levels[s] for one, s in zip(nodes, each.state, strict=True)) for each in found]
    return tuple(found[i] for i in sorted(range(len(found)), key=lambda i: (-order[i], found[i].state)))


def _longest_paths(nodes: TensorNodes) -> list[int]:
    longest = [0] * len(nodes.holders.levels)
    for edge in sorted(nodes.holders.edges, key=lambda e: e.level):
        longest[edge.target] = max(longest[edge.target], longest[edge.source] + 1)
    return longest


@dataclass(frozen=True, slots=True)
class Part:
    """Some mappings of a structure: those with some evenness and ranges of bits; axes: how finely they are bounded."""

    structure: JointStructure
    ranges: Ranges
    axes: Axes
    orders: tuple[LoopOrder, ...] = ()


class JointSearch:
    """Refinement of one component's bound: best first over parts of a structure's mappings, on axes that get finer.

    is_final: whether the part with the least bound cannot be split.
    """

    def __init__(self, structure: JointStructure, component: Component) -> None:
        self.structure, self.component = structure, component
        self.rounds = 0
        self.is_final = False
        self._queue = BestFirst[float, tuple[_Relaxation, Part]]()

    def run(self, goal: int | None, limit: int, stop: Stop) -> tuple[int, tuple[ChainNode, ...]] | None:
        """Go on for at most so many rounds; return (bound, chain), None where nothing fits."""
        last = self.rounds + limit

        def is_over(cost: float, _first: tuple[_Relaxation, Part]) -> bool:
            return self.rounds >= last or stop() or (goal is not None and _round_up(cost) >= goal)

        def parts(cost: float, first: tuple[_Relaxation, Part]) -> list[tuple[float, tuple[_Relaxation, Part]]] | None:
            children = self._children(*first)
            return [found for child in children for found in self._bound_part(cost, child)] if children else None

        if not self.rounds:
            for each in self._bound_part(0.0, Part(self.structure, (), self.structure.first_axes())):
                self._queue.add(*each)
        self.is_final = self.is_final or self._queue.split(parts, is_over)
        cost = self._queue.bound
        return None if cost is None else (_round_up(cost), self._queue.first[0].chain)

    def _bound_part(self, least: float, part: Part) -> list[tuple[float, tuple[_Relaxation, Part]]]:
        """Return a part after its bound, if something fits; least: what is known already."""
        self.rounds += 1
        found = Recurrence(part, self.component).relaxed() if part.structure.crossings.is_possible else None
        if found is None:
            return []
        return [(max(least, found.cost) if self.rounds > 1 else found.cost, (found, part))]

    def _children(self, relaxed: _Relaxation, part: Part) -> list[Part]:
        """Return what a part is split into: halves by bits where its relaxed chain overfills a level, finer cells, or
        halves by how evenly siblings share; none where the chain is exact."""
        finer = self._finer(relaxed.places, part.axes)
        if finer is not None and max(map(_cells, finer)) <= TUNING.many_cells:
            return [replace(part, axes=finer)]
        split = self._halves_of_overfull(relaxed)
        if split is not None:
            return [replace(part, ranges=(*part.ranges, half)) for half in split]
        if finer is not None:
            return [replace(part, axes=finer)]
        orders = self._by_order(relaxed.chain, part)
        if orders:
            return orders
        return self._by_evenness(relaxed.chain, part) or self._by_pass(relaxed.chain, part)

    def _by_pass(self, chain: tuple[ChainNode, ...], part: Part) -> list[Part]:
        """Return halves by whether a dim that a node's tensor lacks is cut before any loop over one of its own, as
        another node says while this one is bounded as if it were not."""
        crossings, extents = part.structure.crossings, part.structure.problem.extents
        known = {(one.dim, one.other) for one in part.orders}
        free = {d for d in range(len(extents)) if crossings.most_siblings(d, 0, crossings.units - 1) == 1}
        for node in chain:
            nodes = part.structure.nodes[node.tensor]
            for dim, other in product(nodes.lacking, nodes.plain):
                if not {dim, other} <= free or (dim, other) in known or node.high[other] == extents[other]:
                    continue
                cut = [one for one in (node, *chain) if one.high[dim] < extents[dim]]
                if cut[:1] == [node] and any(one.low[other] == extents[other] for one in cut):
                    last = extents[other] - 1
                    halves = LoopOrder(dim, other, 0, last), LoopOrder(dim, other, last, extents[other])
                    return [replace(part, orders=(*part.orders, half)) for half in halves]
        return []

    def _by_order(self, chain: tuple[ChainNode, ...], part: Part) -> list[Part]:
        """Return halves by the order of two loops over a window, where a node of another tensor tells it and the window
        was bounded in a better order."""
        crossings, extents = part.structure.crossings, part.structure.problem.extents
        for group in (group for term in crossings.problem.terms for group in term.groups if len(group.dims) == 2):
            dims = [crossings.problem.dims.index(dim) for dim in group.dims]
            if any(crossings.most_siblings(d, 0, crossings.units - 1) > 1 for d in dims):
                continue
            for dim, other in (dims, reversed(dims)):
                left = [node.high[other] for node in chain if node.low[dim] == extents[dim]]
                least, most = min(left, default=extents[other]), extents[other]
                now = [one for one in part.orders if (one.dim, one.other) == (dim, other)]
                above, most = (now[0].above, now[0].most) if now else (0, most)
                if above < least < most and any(node.high[dim] < extents[dim] for node in chain):
                    kept = tuple(one for one in part.orders if one not in now)
                    halves = LoopOrder(dim, other, above, least), LoopOrder(dim, other, least, most)
                    return [replace(part, orders=(*kept, half)) for half in halves]
        return []

    def _by_evenness(self, chain: tuple[ChainNode, ...], part: Part) -> list[Part]:
        """Return halves by the evenness of the least even crossing of a chain, so that both cut it off."""
        crossings = part.structure.crossings
        worst: tuple[float, LoadBalance, LoadBalance] | None = None
        outer, unit = crossings.problem.extents, 0
        for node in (*chain, None):
            last = crossings.units - 1 if node is None else node.unit
            while unit < last:
                inner = node.low if node is not None and node.unit == unit + 1 else (1,) * len(outer)
                for g in crossings.classes_of(unit):
                    for d, (above, below) in enumerate(zip(outer, inner, strict=True)):
                        halves = self._halves(crossings, g, d, above / below)
                        if halves is not None and (worst is None or halves[0] > worst[0]):
                            worst = halves
                outer, unit = inner, unit + 1
            outer = outer if node is None else node.high
        if worst is None:
            return []
        structure = part.structure
        known = [e for e in structure.evenness if (e.fanout_class, e.dim) != (worst[1].fanout_class, worst[1].dim)]
        return [self._with_evenness(part, (*known, half)) for half in worst[1:]]

    def _halves(
        self, crossings: Crossings, g: int, d: int, ratio: float
    ) -> tuple[float, LoadBalance, LoadBalance] | None:
        """Return how uneven a crossing is, and the halves below and above the geometric middle of its ratio and the
        most; None where it is even."""
        most, above = crossings.covered[g][d], crossings.above[g][d]
        if ratio * TUNING.even_ratio >= most or not crossings.may_be_split(g, d):
            return None
        middle = max(ceil(ratio), floor((max(ratio, 1.0) * most) ** 0.5), above + 1)
        if middle >= most:
            return None
        return most / max(ratio, 1.0), LoadBalance(g, d, above, middle), LoadBalance(g, d, middle, most)

    def _with_evenness(self, part: Part, evenness: tuple[LoadBalance, ...]) -> Part:
        whole = part.structure
        structure = JointStructure(whole.problem, whole.counts, evenness, whole.caches, whole.working)
        axes = [
            [Axis(tuple(s for s in a.starts if s <= max(n, 1)), max(n, 1)) for a, n in zip(row, lasts, strict=True)]
            for row, lasts in zip(part.axes, structure.crossings.last, strict=True)
        ]
        return replace(part, structure=structure, axes=structure.with_wholes(axes))

    def _halves_of_overfull(self, relaxed: _Relaxation) -> tuple[BitRange, BitRange] | None:
        """Return both halves that cut off a chain which overfills a level: of the tensor that holds most there."""
        for level, held in enumerate(relaxed.bits):
            room = _room(self.structure.problem, level)
            if sum(held.values()) > room:
                tensor = max(held, key=lambda t: (held[t], -t))
                least = held[tensor]
                middle = float(np.floor((room - sum(held.values()) + 2 * least) / 2))
                middle = min(max(middle, 0.0), least - 1)
                return BitRange(tensor, level, 0, middle), BitRange(tensor, level, middle, float(np.inf))
        return None

    def _finer(self, places: tuple[_Place, ...], axes: Axes) -> Axes | None:
        """Return axes with the chain's cells cut, as far as there may be more; None where nothing is left to cut."""
        extents = self.structure.problem.extents
        found = [list(row) for row in axes]
        for place in places:
            row = found[place.unit]
            for d in place.dims:
                if place.low[d] < place.high[d] and self._differ(d, place):
                    before = row[d]
                    for in_two in (False, True) if _cells(tuple(row)) <= TUNING.many_cells else (True,):
                        row[d] = before.cut(before.cell(place.low[d]), extents[d], in_two=in_two)
                        if self._has_room(found):
                            break
                        row[d] = before
        finer = tuple(tuple(row) for row in found)
        return None if finer == axes else finer

    def _has_room(self, rows: list[list[Axis]]) -> bool:
        """Return whether tables over some axes are not too large."""
        axes = tuple(map(tuple, rows))
        return max(map(_cells, axes)) <= TUNING.most_cells and self.structure.entries(axes) <= TUNING.most_entries

    def _differ(self, d: int, place: _Place) -> bool:
        """Return whether the sizes of a place's cell visit differently often along a dim, or, where it crosses a group
        of fan-outs, what siblings may have of them."""
        extent, low, high = self.structure.problem.extents[d], place.low[d], place.high[d]
        if place.group is not None:
            inner = self.structure.crossings.inner[place.group][d]
            low, high = max(int(inner[low]), 1), max(int(inner[high]), 1)
        return -(-extent // low) != -(-extent // high)


def _round_up(cost: float) -> int:
    """Return the least integer that is not below a bound (costs are integers)."""
    return ceil(cost)


def _cells(row: tuple[Axis, ...]) -> int:
    return prod(len(axis) for axis in row)


def _room(problem: Problem, level: int) -> float:
    usable = problem.arch.levels[level].usable_bits
    return float(np.inf) if usable is None else float(usable)


class Recurrence:
    """One pass of the dynamic program: least[unit, state] is the least cost of a chain's rest inside every cell."""

    def __init__(self, part: Part, component: Component) -> None:
        structure, axes = part.structure, part.axes
        self.structure, self.component, self.axes, self.ranges = structure, component, axes, part.ranges
        self.views = [[one.view(axes, unit, part.orders) for unit in range(len(axes))] for one in structure.nodes]
        self.least: dict[tuple[int, State], FloatArray] = {}
        self._costs: dict[tuple[int, HolderEdge, int, int], FloatArray] = {}
        self._masks: dict[tuple[int, int, int], FloatArray] = {}
        self._inner = [self._inner_cells(unit) for unit in range(len(axes) - 1)]
        self._ends = [[one.end(component, holder) for holder in one.holders.levels] for one in structure.nodes]
        self._required = {(r.tensor, r.level) for r in part.ranges if r.above > 0}

    def relaxed(self) -> _Relaxation | None:
        """Return the least cost and its chain; None where nothing fits."""
        shapes = [tuple(len(axis) for axis in row) for row in self.axes]
        for each in self.structure.states:
            for unit in reversed(range(each.unit, len(self.axes))):
                best = np.full(shapes[unit], self._end(unit, each.state))
                for _, _, value in self._options(unit, each):
                    np.minimum(best, value, out=best)
                minimum_below(best[None])
                self.least[unit, each.state] = best
        start = (0,) * len(self.structure.nodes)
        least = float(self.least[0, start][tuple(n - 1 for n in shapes[0])])
        if not isfinite(least):
            return None
        saved = sum(one.zero_start(self.component) for one in self.structure.nodes)
        return _Relaxation(least - saved - MARGIN * (abs(least) + saved), *self._chain(start))

    def _end(self, unit: int, state: State) -> float:
        if unit < len(self.axes) - 1:
            return float(np.inf)
        total = 0.0
        for t, s in enumerate(state):
            holder = self.structure.nodes[t].holders.levels[s]
            if any(tensor == t and level > holder for tensor, level in self._required):
                return float(np.inf)
            total += self._ends[t][s]
        return total

    def _options(self, unit: int, each: _JointState) -> Iterator[tuple[_Move | None, State, FloatArray]]:
        """Yield what may come next (None: the next group of fan-outs), the state after, and its costs."""
        for move in each.moves:
            if self.structure.crossings.unit(move.edge.level) <= unit and not self._leaves_out(move):
                cost = self._cost(move.tensor, move.edge, unit, each.placed)
                yield move, move.after, cost + self.least[unit, move.after]
        if unit < len(self.axes) - 1:
            cells, impossible = self._inner[unit]
            yield None, each.state, self.least[unit + 1, each.state][np.ix_(*cells)] + impossible

    def _leaves_out(self, move: _Move) -> bool:
        """Return whether a move passes by a level that must hold the tensor in this half of a split."""
        parent, level = move.edge.parent, move.edge.level
        return any(tensor == move.tensor and parent < one < level for tensor, one in self._required)

    def _cost(self, tensor: int, edge: HolderEdge, unit: int, placed: int) -> FloatArray:
        """Return the costs of a node, inf where it does not fit."""
        key = tensor, edge, unit, placed
        if key not in self._costs:
            view = self.views[tensor][unit]
            self._costs[key] = view.cost(self.component, edge, placed) + self._mask(view, tensor, edge.level, unit)
        return self._costs[key]

    def _mask(self, view: NodeView, tensor: int, level: int, unit: int) -> FloatArray:
        """Return 0 in cells where a node may fit its level and the ranges of bits, inf elsewhere."""
        key = tensor, level, unit
        if key not in self._masks:
            above, most = self._bit_range(tensor, level)
            fits = view.least_bits(level) <= most
            if above > 0:
                fits = fits & (view.most_bits(level) > above)
            self._masks[key] = np.where(fits, 0.0, np.inf) + view.out_of_order()
        return self._masks[key]

    def _bit_range(self, tensor: int, level: int) -> tuple[float, float]:
        """Return what a node may hold: more than the first number of bits and at most the second."""
        room = _room(self.structure.problem, level)
        above, most, others = 0.0, room, dict[int, float]()
        for one in self.ranges:
            if one.level == level and one.tensor == tensor:
                above, most = max(above, one.above), min(most, one.most)
            elif one.level == level and one.above > 0:
                others[one.tensor] = max(one.above + 1, others.get(one.tensor, 0.0))
        return above, min(most, room - sum(others.values()))

    def _inner_cells(self, unit: int) -> tuple[list[np.ndarray], FloatArray]:
        """Return per dim and cell the cell of the largest inner size, and inf where siblings cannot all have work."""
        cells: list[np.ndarray] = []
        impossible: FloatArray = np.zeros((1,) * len(self.axes[unit]))
        for d, axis in enumerate(self.axes[unit]):
            largest = self.structure.crossings.inner[unit][d][axis.high]
            inner = self.axes[unit + 1][d]
            found = np.searchsorted(inner.starts, np.maximum(largest, 1), side="right") - 1
            if inner.whole is not None:
                found[-1] = len(inner) - 1
            cells.append(found)
            shape = [-1 if d == e else 1 for e in range(impossible.ndim)]
            impossible = impossible + np.where(largest > 0, 0.0, np.inf).reshape(shape)
        return cells, impossible

    def _chain(self, start: State) -> tuple[tuple[ChainNode, ...], tuple[_Place, ...], HeldBits]:
        """Return the chain that has the least cost, the cells where it stands, and what it holds."""
        by_state = {each.state: each for each in self.structure.states}
        unit, state, at = 0, start, tuple(len(axis) - 1 for axis in self.axes[0])
        chain: list[ChainNode] = []
        cells: list[tuple[int, ...]] = []
        places: list[_Place] = []
        crossed: tuple[int, ...] | None = None  # the outer cell of a crossing, if nothing stands further in yet
        while True:
            cost = float(self.least[unit, state][at])
            if self._end(unit, state) <= cost:
                return tuple(chain), tuple(places), self._bits(chain, cells)
            move, state, cell = self._step(unit, by_state[state], at, cost)
            if crossed is not None:
                limited = [d for d, (own, limit) in enumerate(zip(cell, at, strict=True)) if own == limit]
                places.append(self._place(unit - 1, crossed, limited, unit - 1))
            crossed, at = None, cell
            if move is None:
                inner = self._inner[unit][0]
                crossed, at, unit = cell, tuple(int(inner[d][i]) for d, i in enumerate(cell)), unit + 1
            else:
                chain.append(ChainNode(move.tensor, move.edge.level, unit, *self._sizes(unit, at)))
                cells.append(at)
                places.append(self._place(unit, at, range(len(at))))

    def _place(self, unit: int, cell: tuple[int, ...], dims: Iterable[int], group: int | None = None) -> _Place:
        """Return a place that may be cut finer along some dims, if the cells there are not of whole dims."""
        axes = self.axes[unit]
        finer = tuple(d for d in dims if cell[d] < len(axes[d].starts))
        return _Place(unit, *self._sizes(unit, cell), finer, group)

    def _sizes(self, unit: int, cell: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the least and the largest sizes of a cell."""
        ends = [axis.ends(i) for axis, i in zip(self.axes[unit], cell, strict=True)]
        low, high = (tuple(each) for each in zip(*ends, strict=True))
        return low, high

    def _step(
        self, unit: int, each: _JointState, at: tuple[int, ...], cost: float
    ) -> tuple[_Move | None, State, tuple[int, ...]]:
        """Return the next move of a chain, the state after it, and the cell where it is made."""
        inside = tuple(slice(0, i + 1) for i in at)
        for move, after, values in self._options(unit, each):
            part = np.broadcast_to(values, self.least[unit, each.state].shape)[inside]
            if float(part.min()) <= cost:
                # The largest cell among equals: the last of the flat positions.
                flat = part.size - 1 - int(np.argmin(part.reshape(-1)[::-1]))
                cell = tuple(int(i) for i in np.unravel_index(flat, part.shape))
                return move, after, cell
        raise AssertionError("a least cost that no step has")

    def _bits(self, chain: list[ChainNode], cells: list[tuple[int, ...]]) -> HeldBits:
        """Return per level and tensor the least bits that the chain's nodes hold."""
        found: list[dict[int, float]] = [{} for _ in self.structure.problem.arch.levels]
        for node, at in zip(chain, cells, strict=True):
            view = self.views[node.tensor][node.unit]
            found[node.level][node.tensor] = float(np.broadcast_to(view.least_bits(node.level), view.shape)[at])
        return tuple(found)
