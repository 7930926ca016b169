"""Depth-first search over chains of one structure, best bound first, with the least costs inside as its bound.

While the window tensor has nodes to come, the tables are built again below every placed node: its loads then know the
tiles that all loop orders must pass through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymap.poly import Arithmetic, Numbers
from polymap.resources import OutOfTime
from polymap.search.dividing.bounds import (
    FREE,
    Inside,
    Move,
    Multipliers,
    State,
    costs_inside,
    final_cost,
    graph_of,
    reach_from,
    usable_bits,
)
from polymap.search.dividing.chain import ChainNode, lowered_chains, may_cross, ordered_chain, separated_chains
from polymap.search.dividing.cost_tables import Tables, tables_at, tables_below
from polymap.search.dividing.loop_order import CompletedMapping, completed_mappings, least_completed
from polymap.search.dividing.marks import MarkedCosts
from polymap.search.dividing.node_costs import Context, added_up, covers, places_of
from polymap.search.dividing.progress import Incumbent
from polymap.search.problem import lowered_sum, may_win, restrict_table, surely_below

Parts = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class BoundTables:
    """What bounds all chains below a node of the search: its tables, and the least costs inside at the multipliers
    (None: there are no prices), for the states of `only` (None: all). free: what `insides` is, where it is known.
    above: the bounds of the tables that these are below."""

    tables: Tables
    at_prices: Inside | None = None
    only: frozenset[State] | None = None
    free: tuple[Inside, ...] | None = None
    above: BoundTables | None = None

    @cached_property
    def insides(self) -> tuple[Inside, ...]:
        """The least costs inside per component, without prices: what prices refute goes without. Raises OutOfTime."""
        if self.free is not None:
            return self.free
        found = list[Inside]()
        for component in range(len(self.tables.measure.components)):
            if component and self.tables.stop():
                raise OutOfTime
            above = None if self.above is None else self.above.insides[component]
            found.append(costs_inside(self.tables, component, FREE, self.only, above))
        return tuple(found)

    @property
    def priced(self) -> Inside:
        """The least costs inside of component 0 at the multipliers."""
        return self.insides[0] if self.at_prices is None else self.at_prices


@dataclass(frozen=True, slots=True)
class SearchNode:
    """A node of the search: joint state, tile, cost so far, bits used per level (both also for the window tensor
    alone), chain, and the moves that placed its nodes."""

    state: State
    tile: tuple[int, ...]
    parts: Parts
    used: tuple[int, ...]
    window_parts: Parts
    window_used: tuple[int, ...]
    chain: tuple[ChainNode, ...]
    moves: tuple[Move, ...]


BranchKey = tuple[int, int, int, tuple[int, ...], int]  # what branchings are sorted by: each has its own
BranchPath = tuple[BranchKey, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Branching:
    """A node that may be placed next: the bound with it, its move and the number of that, its level, its tile
    (exponents in the tables)."""

    bound: int
    move: Move
    number: int
    level: int
    index: tuple[int, ...]

    @property
    def key(self) -> BranchKey:
        """Return the sort key: the most promising branching first."""
        return self.bound, self.level, self.move.tensor, tuple(-i for i in self.index), self.number


def bounds_at(bounds: BoundTables, multipliers: Multipliers) -> BoundTables:
    """Return the bounds with the least costs inside at multipliers, for all states."""
    priced = costs_inside(bounds.tables, 0, multipliers) if multipliers.per_level else None
    return BoundTables(bounds.tables, priced, free=bounds.insides)


def root_node(tables: Tables, first: State) -> SearchNode:
    """Return the node of the search with no storage node placed."""
    zero = tuple(0 for _ in tables.measure.components)
    used = (0,) * tables.problem.level_count
    return SearchNode(first, tables.context.tiles[0], zero, used, zero, used, (), ())


def entry_at(table: Numbers, index: tuple[int, ...]) -> Any:
    """Return one entry of a table that may be broadcast."""
    return table[tuple(place if length > 1 else 0 for place, length in zip(index, table.shape, strict=True))]


def part_below(table: Numbers, limit: tuple[int, ...]) -> Numbers:
    """Return the entries, of a table that may be broadcast, at all points up to `limit`."""
    return table[tuple(slice(0, top + 1) for top in limit)]


def step(tables: Tables, node: SearchNode, move: Move, index: tuple[int, ...]) -> SearchNode:
    """Return the node of the search after a move places its storage node at the tile `index`."""
    edge, cost = move.edge_of(tables), move.cost(tables)
    added = tuple(
        _feasible_cost(arithmetic.number(entry_at(one, index)))
        for arithmetic, one in zip(tables.arithmetics, cost.costs, strict=True)
    )
    bits = int(entry_at(cost.bits, index))
    held = tuple(bits if level == edge.level else 0 for level in range(len(node.used)))
    point = tables.lattice.point(index)
    tile = tuple(point[dim] for dim in tables.problem.dims)
    chain = (*node.chain, ChainNode(move.tensor, edge.parent, edge.level, tile))
    parts, used = added_up(node.parts, added), added_up(node.used, held)
    window_parts, window_used, moves = node.window_parts, node.window_used, (*node.moves, move)
    if tables.problem.terms[move.tensor].is_window:
        window_parts, window_used = added_up(window_parts, added), added_up(window_used, held)
    return SearchNode(move.after, tile, parts, used, window_parts, window_used, chain, moves)


def _feasible_cost(number: int | None) -> int:
    assert number is not None  # nodes are placed only where they may stand
    return number


def is_placed(tables: Tables) -> bool:
    """Return whether the tables are of one structure, and leave no place of its spatial loops open."""
    return not tables.others and len(tables.context.places) == len(places_of(tables.problem, tables.structure)[0])


def placed_tables(tables: Tables, member: Tables) -> tuple[Tables, ...]:
    """Return the tables of a member of a group at every choice of places of the spatial loops that its tables leave
    open."""
    decided = {(place.below, place.dim): place for place in tables.context.places}
    return tuple(
        tables_at(member, places)
        for places in places_of(tables.problem, member.structure)
        if all(place.suits(decided.get((place.below, place.dim))) for place in places)
    )


class StructureSearch:
    """The search in one structure. Places of its spatial loops that the tables leave open are decided chain by chain.
    most: nodes that it may visit (None: all). marked: the least costs inside below marks (marks.py), at the multipliers
    (None: it goes without)."""

    def __init__(
        self,
        tables: Tables,
        multipliers: Multipliers,
        incumbent: Incumbent,
        most: int | None = None,
        marked: MarkedCosts | None = None,
    ) -> None:
        problem = tables.problem
        self.tables = tables
        self.multipliers = multipliers
        self.incumbent = incumbent
        self.moves = graph_of(tables).moves  # the same below every node
        self.capacity = tuple(usable_bits(tables, level) for level in range(problem.level_count))
        self.window = next((term.index for term in problem.terms if term.is_window), None)
        self._ended: list[BranchKey] = []
        self._placed: dict[int, tuple[Tables, ...]] = {}  # placed_tables, by the number of a group's member
        self._left = most
        self.marked = marked
        self._owes_one = False  # a chain is searched before limits are looked at
        self.seen: dict[tuple[State, tuple[int, ...]], list[tuple[int, ...]]] = {}

    def run(self, bounds: BoundTables, first: State, way: BranchPath | None = None) -> None:
        """Search all chains from a first state; the incumbent is updated in place. Raises OutOfTime.

        way: to the chain at which an earlier search was ended (ended_at): those before it are not searched again, and
        it is, whatever the limits, so that what is resumed again and again ends. None: there was no earlier search.
        """
        self._ended.clear()
        self._owes_one = way is not None
        self._visit(bounds, root_node(self.tables, first), way or ())

    @property
    def nodes_left(self) -> float:
        """Return how many nodes it may visit still."""
        return inf if self._left is None else self._left

    def ended_at(self) -> BranchPath:
        """Return the way from the first state to the chain at which OutOfTime was raised."""
        return tuple(reversed(self._ended))

    def _visit(self, bounds: BoundTables, node: SearchNode, way: BranchPath) -> None:
        if not way:
            self._count()
            self._check_time()
        if self._is_dominated(node):
            return
        if not way:
            self.finish(node)
            self._owes_one = False
        if not self.moves[node.state]:
            return
        if node.chain and self._window_moves(node.state):
            bounds = self._bounds_below(bounds, node)
        for branching in self._branchings(bounds, node):
            if not self._beats(branching.bound):
                if self.incumbent.is_ordered:
                    return
                continue
            here = branching.key
            if way and here < way[0]:
                continue
            try:
                below = way[1:] if way and here == way[0] else ()
                self._visit(bounds, step(bounds.tables, node, branching.move, branching.index), below)
            except OutOfTime:
                self._ended.append(here)
                raise

    def _window_moves(self, state: State) -> bool:
        if self.window is None:
            return False
        return any(edge.source == state[self.window] for edge in self.tables.tensors[self.window].edges)

    def _bounds_below(self, above: BoundTables, node: SearchNode) -> BoundTables:
        """Return the bounds below a node's tile, its loads restricted to the chain."""
        tables = self._tables_below(above.tables, node)
        only = reach_from(tables, node.state)
        at_prices = above.at_prices and costs_inside(tables, 0, self.multipliers, only, above.at_prices)
        return BoundTables(tables, at_prices, only, above=above)

    def _tables_below(self, above: Tables, node: SearchNode) -> Tables:
        tiles = dict.fromkeys((self.tables.context.tiles[0], *(placed.tile for placed in node.chain)))
        return tables_below(above, Context(tuple(tiles), above.context.places))

    def _is_dominated(self, node: SearchNode) -> bool:
        if self.window is not None or self.incumbent.keep > 1:
            return False
        known = self.seen.setdefault((node.state, node.tile), [])
        label = node.parts + node.used
        if any(covers(old, label) for old in known):
            return True
        known[:] = [old for old in known if not covers(label, old)]
        known.append(label)
        return False

    def finish(self, node: SearchNode, *, thorough: bool = True) -> None:
        """Score the chain as it is, if every tensor may stay where it is.

        thorough: trees in which its nodes part loops are looked at too, which a proof needs.
        """
        if final_cost(self.tables, node.state, 0) is None:
            return
        bound = self._value(self._total(self.tables, node))
        if bound is None or not self._beats(bound):
            return
        free = tuple(
            None if cap is None else cap - used + own
            for cap, used, own in zip(self.capacity, node.used, node.window_used, strict=True)
        )
        chain = ordered_chain(node.chain)
        for least, tables, placed in self._promising_places(node, bound):
            fixed = self._without_window(tables, placed)
            parts = least_completed(tables, chain, fixed)
            own = None if parts is None else self._value(parts)
            if own is None or not self._beats(own):
                continue
            least = max(least, own)
            for mappings in completed_mappings(tables, self._chains(tables, chain, thorough=thorough), fixed, free):
                self._offer(mappings)
                if not self._beats(bound):
                    return
                if not self._beats(least) or self._reaches(mappings, least):
                    break
                self._check_time()

    def _chains(
        self, tables: Tables, chain: tuple[ChainNode, ...], *, thorough: bool
    ) -> Iterator[tuple[ChainNode, ...]]:
        """Yield a chain with its nodes where spatial loops ask for; where it is thorough, those in which its nodes part
        loops, too."""
        yield from lowered_chains(tables, chain)
        if thorough and self.window is not None:
            yield from separated_chains(tables, chain)

    def _promising_places(self, node: SearchNode, bound: int) -> Iterator[tuple[int, Tables, SearchNode]]:
        """Yield the tables of the members of a group, best first, and of each the places of spatial loops at which the
        chain may win, best first, lower bounds of its trees there and its end there. bound: of all its trees."""
        if is_placed(self.tables):
            if may_cross(self.tables, node.chain):
                yield bound, self.tables, node
            return
        every = self.tables.alone()
        for least, number, _ in self._ends(every, node):  # of a member at all places
            if self._beats(least):
                if number not in self._placed:
                    self._placed[number] = placed_tables(self.tables, every[number])
                placed = self._placed[number]
                for value, place, end in self._ends(placed, node):
                    if self._beats(value):
                        yield value, placed[place], end

    def _ends(self, every: Sequence[Tables], node: SearchNode) -> list[tuple[int, int, SearchNode]]:
        """Return what a chain costs by each of other tables, its number, and the chain's end there, best first, where
        it can be."""
        ends = [self._end_at(one, node) if may_cross(one, node.chain) else None for one in every]
        found = [
            (value, number, end)
            for number, (one, end) in enumerate(zip(every, ends, strict=True))
            if end is not None and (value := self._value(self._total(one, end))) is not None
        ]
        return sorted(found, key=lambda one: one[:2])

    def _end_at(self, tables: Tables, node: SearchNode) -> SearchNode | None:
        """Return the end of a chain whose costs are those of other tables (None: it cannot be)."""
        placed, below_it = root_node(tables, node.state), tables
        for move, own in zip(node.moves, node.chain, strict=True):
            index = below_it.lattice.index(dict(zip(tables.problem.dims, own.tile, strict=True)))
            if any(
                arithmetic.number(entry_at(cost, index)) is None
                for arithmetic, cost in zip(tables.arithmetics, move.cost(below_it).costs, strict=True)
            ):
                return None
            placed = step(below_it, placed, move, index)
            if self._window_moves(placed.state):
                below_it = self._tables_below(below_it, placed)
        return placed

    def _check_time(self) -> None:
        if not self._owes_one and self.incumbent.out_of_time():
            raise OutOfTime

    def _count(self) -> None:
        self.incumbent.count()
        if self._left is not None:
            if not self._left:
                raise OutOfTime
            self._left -= 1

    def _offer(self, mappings: tuple[CompletedMapping, ...]) -> None:
        for completed in mappings:
            value = self._value(completed.parts)
            if value is not None and self._beats(value):
                self.incumbent.add(value, completed)

    def _reaches(self, mappings: tuple[CompletedMapping, ...], bound: int) -> bool:
        """Return whether one of the mappings is as good as a bound of them."""
        values = (self._value(completed.parts) for completed in mappings)
        return any(value is not None and value <= bound for value in values)

    def _value(self, parts: Parts) -> int | None:
        """Return the objective, scaled; None where a limit is broken."""
        return self.tables.measure.value_within_limits(added_up(parts, self.tables.start), self.tables.compute_cycles)

    def _beats(self, value: int) -> bool:
        return self.incumbent.beats(value)

    def _total(self, tables: Tables, node: SearchNode) -> Parts:
        """Return what a whole chain costs in its tables."""
        ends = (final_cost(tables, node.state, c) for c in range(len(node.parts)))
        return tuple(part + (end or 0) for part, end in zip(node.parts, ends, strict=True))

    def _without_window(self, tables: Tables, node: SearchNode) -> Parts:
        """Return the cost of a whole chain in its tables without what the window tensor is charged along it (a lower
        bound of it)."""
        total = self._total(tables, node)
        if self.window is None:
            return total
        end = tables.tensors[self.window].end(node.state[self.window])
        return tuple(part - own - last for part, own, last in zip(total, node.window_parts, end, strict=True))

    def _branchings(self, bounds: BoundTables, node: SearchNode) -> Iterable[Branching]:
        """Return all next nodes that can still win, best first."""
        found: list[Branching] = []
        limit = bounds.tables.lattice.index(dict(zip(self.tables.problem.dims, node.tile, strict=True)))
        for number in range(len(self.moves[node.state])):
            for branching in self._branchings_of(bounds, node, number, limit):
                if branching.index != limit or self._is_canonical(node, branching):
                    found.append(branching)
        found.sort(key=lambda branching: branching.key)
        return found

    def _is_canonical(self, node: SearchNode, branching: Branching) -> bool:
        """Return whether nodes of one tile come by level and tensor (where dominance does not sort this out)."""
        if not node.chain or (self.window is None and self.incumbent.keep == 1):
            return True
        last = node.chain[-1]
        return last.tile != node.tile or (last.level, last.tensor) < (branching.level, branching.move.tensor)

    def _branchings_of(
        self, bounds: BoundTables, node: SearchNode, number: int, limit: tuple[int, ...]
    ) -> list[Branching]:
        tables, measure = bounds.tables, bounds.tables.measure
        move = self.moves[node.state][number]
        level = move.edge_of(tables).level
        value, constant, wins, priced = self.incumbent.value, 0, np.True_, list[_PricedCosts]()
        if measure.is_linear and value is not None:
            constant = measure.value((0,) * len(node.parts), tables.compute_cycles) + node.parts[0] + tables.start[0]
            if bounds.at_prices is not None:
                priced.append(self._priced(bounds.at_prices, costs_through(bounds.at_prices, move, limit), node))
                wins = priced[0].less(value - constant)
            if np.any(wins):
                marked = self._below_mark(bounds, node, move)
                if marked is not None:
                    priced.append(marked)
                    wins = wins & marked.less(value - constant)
        capacity = self.capacity[level]
        if capacity is not None and node.used[level] and np.any(wins):
            bits = part_below(move.cost(tables).bits, limit)
            wins = wins & np.asarray(bits <= capacity - node.used[level], dtype=np.bool_)
        if not np.any(wins):
            return []
        totals = [costs_through(inside, move, limit) for inside in bounds.insides]
        wins = wins & bounds.insides[0].arithmetic.possible(totals[0])
        if measure.is_linear and value is not None:
            wins = wins & _is_below(bounds.insides[0].arithmetic, totals[0], value - constant)
        else:
            wins = wins & self._estimate_wins(bounds, node, totals)
        where = np.argwhere(wins)
        if not len(where):
            return []
        parts = [
            inside.arithmetic.numbers(inside.arithmetic.plus(total[wins], here))
            for inside, total, here in zip(bounds.insides, totals, added_up(node.parts, tables.start), strict=True)
        ]
        # The highest bound first: best first, branches then lead to chains that fit.
        higher = [max(costs) + constant for costs in zip(*(one.costs(wins) for one in priced), strict=True)]
        found: list[Branching] = []
        for place, (row, vector) in enumerate(zip(where.tolist(), zip(*parts, strict=True), strict=True)):
            bound = measure.value_within_limits(vector, tables.compute_cycles)
            if bound is not None and self._beats(bound := max([bound, *higher[place : place + 1]])):
                found.append(Branching(bound, move, number, level, tuple(row)))
        return found

    def _priced(self, inside: Inside, totals: Numbers, node: SearchNode) -> _PricedCosts:
        """Return costs inside at the multipliers, with what the nodes further out hold."""
        spent = self.multipliers.spent(node.used)
        return _PricedCosts(inside.arithmetic, totals, self.multipliers.unit, spent - self.multipliers.allowance)

    def _below_mark(self, bounds: BoundTables, node: SearchNode, move: Move) -> _PricedCosts | None:
        """Return the least costs of a move's node and everything inside it, nodes of the window tensor as the node
        before each lets them load (None: not worked out)."""
        if self.marked is None or not self._window_moves(move.after):
            return None
        inside = bounds.priced
        inner = restrict_table(self.marked[move.after], self.tables.lattice, bounds.tables.lattice)
        return self._priced(inside, inside.arithmetic.plus(inside.costs[move.key], inner), node)

    def _estimate_wins(self, bounds: BoundTables, node: SearchNode, totals: list[Numbers]) -> NDArray[np.bool_] | bool:
        """Return where an estimate does not rule out that the bound is better than the incumbent."""
        measure, value = self.tables.measure, self.incumbent.value
        if value is None or measure.is_front:
            return True
        parts: list[NDArray[np.float64]] = []
        here = added_up(node.parts, self.tables.start)
        for inside, total, own in zip(bounds.insides, totals, here, strict=True):
            floats = inside.arithmetic.floats(total)
            if floats is None:
                return True
            parts.append(lowered_sum(floats, own))
        least = surely_below(measure, parts, self.tables.compute_cycles)
        return True if least is None else may_win(least, value)


class _PricedCosts(NamedTuple):
    """Costs x unit at multipliers, of points of a lattice, to which what nodes further out hold, less what all levels
    have room for, is added at its price."""

    arithmetic: Arithmetic
    totals: Numbers
    unit: int
    added: int

    def less(self, room: int) -> NDArray[np.bool_]:
        """Return where the cost is less than `room`."""
        return _is_below(self.arithmetic, self.totals, room * self.unit - self.added)

    def costs(self, where: NDArray[np.bool_]) -> list[int]:
        """Return the costs at some points, rounded up."""
        totals = self.arithmetic.numbers(np.asarray(self.totals)[where])
        return [-((-total - self.added) // self.unit) for total in totals]


def costs_through(inside: Inside, move: Move, limit: tuple[int, ...]) -> Numbers:
    """Return the least costs of a move's node and everything inside it, at all points up to `limit`."""
    return inside.arithmetic.plus(
        part_below(inside.costs[move.key], limit), part_below(inside.reach[move.after], limit)
    )


def _is_below(arithmetic: Arithmetic, array: Numbers, limit: int) -> NDArray[np.bool_]:
    return np.asarray(array < arithmetic.scalar(limit), dtype=np.bool_)
