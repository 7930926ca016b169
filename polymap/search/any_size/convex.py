"""The bound over tiles of any size where no tensor is a window: one geometric program per order of storage nodes.

With real tiles and real spatial factors every cost of docs/any_tiles.md is a sum of monomials in them, and so is what a
level holds: the least cost of a chain of nodes is a geometric program, for all spatial factors of a region at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log, prod

import numpy as np
from numpy.typing import NDArray

from polymap.search.any_size.geometric import Programs, Solved, solve
from polymap.search.any_size.node_costs import AnyTables, build_any_tables
from polymap.search.any_size.orders import Orders, all_orders
from polymap.search.any_size.regions import Region, first_region
from polymap.search.any_size.relaxation import MARGIN, Moves, State
from polymap.search.objective import Measure
from polymap.search.problem import Problem

FloatArray = NDArray[np.float64]

AT_ONCE = 256
WIDER = 1e-6  # by which the box of the logarithms is too large: its inside is never empty
CLOSE = 0.01  # the first step away from the smallest tiles
TIGHT = 1.05  # a level that the smallest tiles all but fill is taken for this much larger


@dataclass(frozen=True, slots=True)
class Chain:
    """The order of that number with its least cost over all real tiles and factors, and tiles and factors near it.

    tiles: per node, of all siblings together. factors: [class][dim]. prices: of a bit, per level.
    """

    bound: float
    number: int
    tiles: tuple[tuple[float, ...], ...]
    factors: tuple[tuple[float, ...], ...]
    prices: tuple[float, ...]


class Builder:
    """Programs of orders of nodes in a region."""

    def __init__(self, tables: AnyTables, orders: Orders, region: Region) -> None:
        self.problem = tables.problem
        self.region = region
        self.orders = orders
        self.space = orders.space
        self.start_cost = tables.start[0]
        sides = [region.factors[one][d] for one, d in self.space.factors]
        self.least = np.array([log(side.low) for side in sides])
        self.most = np.array([log(side.high) for side in sides])
        self._by_length: dict[int, tuple[FloatArray, FloatArray, FloatArray]] = {}

    def rows(self, length: int) -> tuple[FloatArray, FloatArray]:
        """Return linear rows and their limits: boxes only shrink, factors fit into the last one and the fan-outs."""
        space = self.space
        found: list[FloatArray] = []
        limits: list[float] = []
        for at in range(1, length):
            for d in range(len(space.dims)):
                row = np.zeros(space.count)
                row[space.node(at).start + d], row[space.node(at - 1).start + d] = 1, -1
                found.append(row)
                limits.append(0.0)
        for place, d in enumerate(space.dims):
            row = self._all_factors(d)
            if length:
                row[space.node(length - 1).start + place] = -1
            found.append(row)
            limits.append(0.0 if length else log(self.problem.extents[d]))
        for row, limit in self._lanes():
            found.append(row)
            limits.append(limit)
        most = (space.nodes + 1) * len(space.dims) + len(self._lanes())
        matrix, ends = np.zeros((most, space.count)), np.ones(most)
        matrix[: len(found)], ends[: len(found)] = found, np.array(limits) + WIDER
        return matrix, ends

    def _lanes(self) -> list[tuple[FloatArray, float]]:
        """Return rows for the instances of a class's fan-outs: factors, next to a dim's whole iterations."""
        found: list[tuple[FloatArray, float]] = []
        count = len(self.problem.dims)
        for number, one in enumerate(self.problem.classes):
            size = prod(self.problem.arch.fanouts[f].size for f in one.fanouts)
            for d, factor in enumerate(self.region.factors[number]):
                if factor.least_trips > 1:
                    own = [int(e != d) for e in range(count)]
                    row = self.space.factor_row(
                        [own if c == number else [0] * count for c in range(len(self.problem.classes))]
                    )
                    found.append((row, log(size / factor.least_trips)))
            row = self.space.factor_row([[int(number == c)] * count for c in range(len(self.problem.classes))])
            found.append((row, log(size)))
        return found

    def start(self, length: int) -> FloatArray:
        """Return a point strictly inside all rows: tiles and factors just above the smallest."""
        space = self.space
        matrix, limits = self.rows(0)
        low = np.zeros(space.count)
        low[space.inner :] = self.least
        room = (limits - matrix @ low)[matrix.any(axis=1)].min(initial=CLOSE)
        wide = (self.most - self.least + WIDER).min(initial=CLOSE)
        low[space.inner :] += min(room, wide) / 8 / max(1, len(space.factors))
        return self._with_tiles(low, length)

    def _with_tiles(self, point: FloatArray, length: int) -> FloatArray:
        """Return the point with tiles of all nodes just above those that the factors fill."""
        space = self.space
        for place, d in enumerate(space.dims):
            filled = self._all_factors(d) @ point
            step = min(CLOSE, (log(self.problem.extents[d]) + WIDER - filled) / (length + 2))
            for at in range(space.nodes):
                own = filled + step * (length - at) if at < length else CLOSE * step
                point[space.node(at).start + place] = own
        return point

    def _all_factors(self, dim: int) -> FloatArray:
        """Return the row that is the product of a dim's factors."""
        rows = [[int(d == dim) for d in range(len(self.problem.dims))]] * len(self.problem.classes)
        return self.space.factor_row(rows)

    def _shared(self, length: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return rows, limits and start of orders of a length."""
        if length not in self._by_length:
            self._by_length[length] = (*self.rows(length), self.start(length))
        return self._by_length[length]

    def programs(self, numbers: Sequence[int]) -> Programs:
        """Return the programs of some orders of nodes."""
        space, own, at = self.space, self.orders, list(numbers)
        shared = [self._shared(len(own.places[number][0])) for number in numbers]
        rows, limits, start = (np.array([one[part] for one in shared]) for part in range(3))
        top = [log(self.problem.extents[d]) for _ in range(space.nodes) for d in space.dims]
        upper = np.concatenate([top, self.most]) + WIDER
        lower = np.concatenate([np.zeros(space.inner), self.least]) - WIDER
        low, high = (np.tile(side, (len(at), 1)) for side in (lower, upper))
        return self.eased(
            Programs(own.log_costs[at], own.costs[at], own.log_uses[at], own.uses[at], rows, limits, low, high, start)
        )

    def eased(self, programs: Programs) -> Programs:
        """Return the programs with levels that the start fills taken for a little larger: the bounds still hold."""
        with np.errstate(divide="ignore"):
            used = np.exp(programs.log_uses + np.einsum("prjn,pn->prj", programs.uses, programs.start)).sum(axis=2)
            full = np.log(used * TIGHT)
        return replace(programs, log_uses=programs.log_uses - np.maximum(full, 0.0)[:, :, None])

    def net(self, solved: Solved, numbers: Sequence[int]) -> list[float]:
        """Return the bounds with what orders cost besides, less a margin for rounding."""
        besides = self.orders.constants[list(numbers)]
        sizes = solved.bounds + np.abs(besides) + abs(self.start_cost)
        return (solved.bounds + besides + self.start_cost - MARGIN * sizes).tolist()

    def chain(self, number: int, bound: float, solved: Solved, at: int) -> Chain:
        """Return the answer of one program."""
        space, problem, own = self.space, self.problem, self.orders
        values = np.exp(solved.points[at])
        tiles: list[tuple[float, ...]] = []
        for node in range(len(own.places[number][0])):
            tile = dict(zip(space.dims, values[space.node(node)].tolist(), strict=True))
            tiles.append(tuple(tile.get(d, 1.0) for d in range(len(problem.dims))))
        factors = [[1.0] * len(problem.dims) for _ in problem.classes]
        for (one, d), value in zip(space.factors, values[space.inner :].tolist(), strict=True):
            factors[one][d] = value
        prices = [0.0] * len(own.room)
        for level, worth in zip(own.limited, solved.worth[at].tolist(), strict=True):
            prices[level] = worth * float(solved.bounds[at]) / own.room[level]
        return Chain(bound, number, tuple(tiles), tuple(tuple(row) for row in factors), tuple(prices))


class Convex:
    """The orders of storage nodes of a problem, as far as they are known (`orders`)."""

    def __init__(self, problem: Problem, measure: Measure) -> None:
        self.tables = build_any_tables(problem, measure, first_region(problem))
        self.orders: Orders | None = all_orders(self.tables, 0)

    @property
    def numbers(self) -> tuple[int, ...] | None:
        return None if self.orders is None else tuple(range(len(self.orders.places)))

    def moves(self, numbers: Sequence[int]) -> Moves:
        """Return the moves that orders of storage nodes make."""
        found: set[tuple[State, int, int]] = set()
        assert self.orders is not None
        for order, end in (self.orders.places[number] for number in numbers):
            state = list(end)
            for tensor, edge in reversed(order):
                state[tensor] = self.tables.tensors[tensor].edges[edge].source
                found.add((tuple(state), tensor, edge))
        return frozenset(found)

    def builder(self, region: Region) -> Builder:
        assert self.orders is not None
        return Builder(self.tables, self.orders, region)

    def least(self, region: Region, numbers: Sequence[int], is_over: Callable[[], bool]) -> tuple[Chain, ...] | None:
        """Return orders with the least first component they can have in a region, least first; None: time is over."""
        builder = self.builder(region)
        found: list[Chain] = []
        for begin in range(0, len(numbers), AT_ONCE):
            if is_over():
                return None
            part = numbers[begin : begin + AT_ONCE]
            solved = solve(builder.programs(part))
            for at, (number, bound) in enumerate(zip(part, builder.net(solved, part), strict=True)):
                found.append(builder.chain(number, bound, solved, at))
        return tuple(sorted(found, key=lambda chain: (chain.bound, chain.number)))
