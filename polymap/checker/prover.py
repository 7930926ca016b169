"""Derives bounds of structures and searches below them: all that a certificate can claim (docs/certificate.md)."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice, product
from math import prod

import numpy as np

from polymap.checker.any_size import Siblings, bounds
from polymap.checker.bounds import Edge, Places, Prices, Tables
from polymap.checker.grids import divisors
from polymap.checker.model import Problem, Rows, Structure, Tile, tick
from polymap.checker.rules import need

Move = tuple[int, Edge, Tile]  # position of the tensor, node, joint state after it
# A chain: joint state, tile, total so far per column, bits per level, tiles passed, last (level, tensor).
Spot = tuple[Tile, Tile, list[int], list[int], tuple[Tile, ...], tuple[int, int]]


class Prover:
    """Derives bounds and searches for one problem. value: what is to be refuted."""

    def __init__(self, problem: Problem, value: int) -> None:
        self.problem, self.value = problem, value
        self.windows = sorted({d for tensor in problem.tensors for d in tensor.window})

    @cached_property
    def structures(self) -> list[Rows]:
        """Return every structure allowed, ascending: per class of fan-outs the factor of every dim."""
        extents, found = self.problem.extents, {()}
        for own in self.problem.classes:
            known = {(1,) * len(extents)}
            for fan in own:
                vectors: list[Tile] = [()]
                for d, extent in enumerate(extents):
                    free = self._factors(fan.name, d, divisors(extent) if d in fan.dims else (1,))
                    vectors = [(*v, x) for v in vectors for x in free if prod(v) * x <= fan.size]
                    need(len(known) * len(vectors) < 1 << 21, "there are too many structures")
                    tick()
                known = {tuple(a * b for a, b in zip(one, v, strict=True)) for one in known for v in vectors}
                known = {one for one in known if all(e % x == 0 for e, x in zip(extents, one, strict=True))}
            need(len(known) * len(found) < 1 << 21, "there are too many structures")
            found = {(*rows, row) for rows in found for row in known}
            found = {
                rows for rows in found if all(e % prod(row[d] for row in rows) == 0 for d, e in enumerate(extents))
            }
            tick()
        return sorted(rows for rows in found if self.problem.busy(Structure(self.problem, rows).steps))

    def _factors(self, fanout: str, dim: int, free: Iterable[int]) -> list[int]:
        """Return which of these factors of a dim over a fan-out the constraints allow."""
        own = [(least, most) for name, d, least, most in self.problem.rules.factors if (name, d) == (fanout, dim)]
        return [x for x in free if all(least <= x and (most is None or x <= most) for least, most in own)]

    def apart(self, rows: Rows, number: int = 0) -> int:
        """Return the bound on a measure of every tensor at its own best."""
        return self.problem.value(*self._alone[rows], number)

    @cached_property
    def _alone(self) -> dict[Rows, tuple[list[int], int]]:
        """Return what the parts and the temporal steps of every structure are at least."""
        each = np.array(self.structures, object).reshape(len(self.structures), -1, len(self.problem.dims))
        factors = [[*row] for row in each.transpose(1, 2, 0)]
        siblings = Siblings(self.problem, factors, factors)
        found = [np.broadcast_to(one, len(each)).tolist() for one in (*bounds(siblings), siblings.steps())]
        return {rows: (parts, steps) for rows, *parts, steps in zip(self.structures, *found, strict=True)}

    def tables(self, rows: Rows, places: Places, prices: Prices, marks: tuple[Tile, ...] = ()) -> Tables:
        """Return the tables of all tensors."""
        structure = Structure(self.problem, rows)
        return Tables(structure, marks or (structure.top,), places, prices)

    def joint(self, rows: Rows, places: Places, prices: Prices) -> int | None:
        """Return the bound of all tensors together at these prices (None: nothing fits)."""
        tables = self.tables(rows, places, prices)
        totals = tables.least()
        return None if max(totals) >= tables.never // 2 else tables.value(totals, tables.structure.steps)

    def places(self, rows: Rows) -> list[Places]:
        """Return every choice of places for the spatial loops over window dims, and of their orders."""
        structure = Structure(self.problem, rows)
        wide = sorted({(fan.below, d) for fan, row in structure.spread for d in self.windows if row[d] > 1})
        spots = [product(divisors(structure.top[d]), structure.orders(b, d)) for b, d in wide]
        return list(product(*([(one, spot) for spot in own] for one, own in zip(wide, spots, strict=True))))

    def descend(self, rows: Rows, places: Places, prices: Prices, most: int) -> int:
        """Return how many chains a search for one below the value visits; refuse where it meets one, or visits more."""
        visited = 0
        for _, costs_less in self._chains(rows, places, prices):
            visited += 1
            need(visited <= most, "a search visits more nodes than listed")
            need(not costs_less, "a search meets a chain that costs less")
        return visited

    def meets_better(self, rows: Rows, places: Places, most: int) -> bool:
        """Return whether one of the first `most` chains is a mapping that costs less (not known of windows)."""
        return not self.windows and any(less for _, less in islice(self._chains(rows, places, ()), most))

    def _chains(self, rows: Rows, places: Places, prices: Prices) -> Iterator[tuple[Spot, bool]]:
        """Yield every chain that may be part of a mapping below the value, and whether it is one, best bound first."""
        problem, start = self.problem, self.tables(rows, places, prices)

        def below(tables: Tables, spot: Spot) -> Iterator[tuple[Spot, bool]]:
            tick()
            state, tile, parts, used, marks, _ = spot
            end, costs_less = tables.end(state), False
            if end is not None and problem.rules.order(start.marks[0], tile, (1,) * len(tile)) is not None:
                (unit, *_), taken = tables.columns[0]  # of the first part, with what it uses where that is priced
                total = [part + int(own) for part, own in zip(parts, end, strict=True)][: len(problem.parts)]
                total[0] = (total[0] - sum(p * bits for p, bits in zip(taken, used, strict=True))) // unit
                costs_less = problem.value(total, start.structure.steps) < self.value
                costs_less = costs_less and problem.allowed(total, start.structure.steps)
            yield spot, costs_less
            if [*marks] != tables.marks and any(problem.tensors[i].window for i, _, _ in tables.moves(state)):
                tables = self.tables(rows, places, prices, marks)
            children = [one for move in tables.moves(state) for one in self._next(tables, limits, spot, move)]
            for _, child in sorted(children, key=lambda one: one[0]):
                yield from below(tables, child)

        limits, none = self._limits(start), [0] * len(problem.room)
        for state in start.firsts:
            yield from below(start, (state, start.grid.top, start.start, none, tuple(start.marks), (-1, -1)))

    def _limits(self, tables: Tables) -> list[int]:
        """Return, per column, the least total from which on the value is not below, whatever the others are."""
        least, found = tables.least(), list[int]()
        for column in range(len(least)):
            low, high = -1, tables.never // 2
            while high - low > 1:
                middle = (low + high) // 2
                total = [*least[:column], middle, *least[column + 1 :]]
                low, high = (
                    (middle, high) if tables.value(total, tables.structure.steps) < self.value else (low, middle)
                )
            found.append(high)
        return found

    def _next(self, tables: Tables, limits: list[int], spot: Spot, move: Move) -> Iterator[tuple[int, Spot]]:
        """Yield the chains with one more node that may still cost less than the value, with what they cost at least."""
        (i, (_, _, level, costs, bits), after), problem, shape = move, self.problem, tables.grid.shape
        (_, outer, before, used, marks, last), steps = spot, tables.structure.steps
        region = tuple(slice(0, place + 1) for place in tables.grid.index(outer))
        parts = [cost[region] + part for cost, part in zip(costs, before, strict=True)]
        totals = [part + inside(after)[region] for part, inside in zip(parts, tables.reach, strict=True)]
        bits, room = np.broadcast_to(bits, shape)[region], problem.room[level]
        wins = bits <= (tables.never if room is None else room - used[level])
        for total, limit in zip(totals, limits, strict=True):
            wins = wins & (total < limit)
        for place in map(tuple, np.argwhere(wins).tolist()):
            least = [int(total[place]) for total in totals]
            bounds, lines = problem.bounded(least, tables.prices, steps)
            if problem.value(bounds, steps, lines=lines) >= self.value or not problem.allowed(bounds, steps):
                continue
            tile = tuple(int(np.broadcast_to(value, shape)[place]) for value in tables.grid.values)
            if tile == outer and (level, i) <= last:  # nodes of one tile stand in one order
                continue
            if tile != outer and problem.rules.order(tables.marks[0], outer, tile) is None:
                continue
            now = [own + int(bits[place]) * (number == level) for number, own in enumerate(used)]
            passed = (*marks, tile) if tile != outer else marks
            yield least[0], (after, tile, [int(part[place]) for part in parts], now, passed, (level, i))
