"""The bound over tiles of any size where no tensor is a window: one geometric program per order of storage nodes.

With real tiles and real spatial factors every cost of docs/any_tiles.md is a sum of monomials in them, and so is what a
level holds: the least cost of a chain of nodes is a geometric program, for all spatial factors of a region at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log, prod

import numpy as np

from polymap.arithmetic import FloatArray
from polymap.search.any_size.geometric import Programs, Solved, solve
from polymap.search.any_size.node_costs import CostTables, build_cost_tables
from polymap.search.any_size.orders import OrderMonomials, order_monomials
from polymap.search.any_size.regions import Region, first_region
from polymap.search.any_size.relaxation import MARGIN, Moves, State
from polymap.search.any_size.tuning import TUNING, Tuning
from polymap.search.objective import Measure
from polymap.search.problem import Problem
from polymap.search.resources import SearchCaches

WIDER = 1e-6  # by which the box of the logarithms is too large: its inside is never empty
CLOSE = 0.01  # the first step away from the smallest tiles
TIGHT = 1.05  # a level that the smallest tiles all but fill is taken for this much larger


@dataclass(frozen=True, slots=True)
class OrderOptimum:
    """A lower bound of what an order of nodes costs over all real tiles and factors, and a point near its optimum.

    tiles: per node, of all siblings together. factors: [class][dim]. multipliers: cost per bit of capacity, by level.
    """

    bound: float
    number: int
    tiles: tuple[tuple[float, ...], ...]
    factors: tuple[tuple[float, ...], ...]
    multipliers: tuple[float, ...]


class ProgramBuilder:
    """Writes the geometric programs of orders of nodes in a region."""

    def __init__(self, tables: CostTables, orders: OrderMonomials, region: Region, tuning: Tuning) -> None:
        self.problem = tables.problem
        self.region = region
        self.tuning = tuning
        self.orders = orders
        self.variables = orders.variables
        self.start_cost = tables.start[0]
        sides = [region.factors[one][d] for one, d in self.variables.factors]
        self.least = np.array([log(side.low) for side in sides])
        self.most = np.array([log(side.high) for side in sides])
        self._by_length: dict[int, tuple[FloatArray, FloatArray, FloatArray]] = {}

    def rows(self, length: int) -> tuple[FloatArray, FloatArray]:
        """Return linear rows and their limits: boxes only shrink, factors fit into the last one and the fan-outs."""
        variables = self.variables
        found: list[FloatArray] = []
        limits: list[float] = []
        for at in range(1, length):
            for d in range(len(variables.dims)):
                row = np.zeros(variables.count)
                row[variables.node(at).start + d], row[variables.node(at - 1).start + d] = 1, -1
                found.append(row)
                limits.append(0.0)
        for place, d in enumerate(variables.dims):
            row = self._factor_product_row(d)
            if length:
                row[variables.node(length - 1).start + place] = -1
            found.append(row)
            limits.append(0.0 if length else log(self.problem.extents[d]))
        for row, limit in self._fanout_rows():
            found.append(row)
            limits.append(limit)
        most = (variables.nodes + 1) * len(variables.dims) + len(self._fanout_rows())
        matrix, ends = np.zeros((most, variables.count)), np.ones(most)
        matrix[: len(found)], ends[: len(found)] = found, np.array(limits) + WIDER
        return matrix, ends

    def _fanout_rows(self) -> list[tuple[FloatArray, float]]:
        """Return rows for the instances of a class's fan-outs: factors, next to a dim's whole iterations."""
        found: list[tuple[FloatArray, float]] = []
        count = len(self.problem.dims)
        for number, one in enumerate(self.problem.classes):
            size = prod(self.problem.arch.fanouts[f].size for f in one.fanouts)
            for d, factor in enumerate(self.region.factors[number]):
                if factor.least_trips > 1:
                    own = [int(e != d) for e in range(count)]
                    row = self.variables.factor_row(
                        [own if c == number else [0] * count for c in range(len(self.problem.classes))]
                    )
                    found.append((row, log(size / factor.least_trips)))
            row = self.variables.factor_row([[int(number == c)] * count for c in range(len(self.problem.classes))])
            found.append((row, log(size)))
        return found

    def start(self, length: int) -> FloatArray:
        """Return a point strictly inside all rows: tiles and factors just above the smallest."""
        variables = self.variables
        matrix, limits = self.rows(0)
        low = np.zeros(variables.count)
        low[variables.inner :] = self.least
        room = (limits - matrix @ low)[matrix.any(axis=1)].min(initial=CLOSE)
        wide = (self.most - self.least + WIDER).min(initial=CLOSE)
        low[variables.inner :] += min(room, wide) / 8 / max(1, len(variables.factors))
        return self._with_tiles(low, length)

    def _with_tiles(self, point: FloatArray, length: int) -> FloatArray:
        """Return the point with tiles of all nodes just above those that the factors fill."""
        variables = self.variables
        for place, d in enumerate(variables.dims):
            filled = self._factor_product_row(d) @ point
            step = min(CLOSE, (log(self.problem.extents[d]) + WIDER - filled) / (length + 2))
            for at in range(variables.nodes):
                own = filled + step * (length - at) if at < length else CLOSE * step
                point[variables.node(at).start + place] = own
        return point

    def _factor_product_row(self, dim: int) -> FloatArray:
        """Return the row that is the product of a dim's factors."""
        rows = [[int(d == dim) for d in range(len(self.problem.dims))]] * len(self.problem.classes)
        return self.variables.factor_row(rows)

    def _rows_of_length(self, length: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return rows, limits and start of orders of a length."""
        if length not in self._by_length:
            self._by_length[length] = (*self.rows(length), self.start(length))
        return self._by_length[length]

    def programs(self, numbers: Sequence[int]) -> Programs:
        """Return the programs of some orders of nodes."""
        variables, own, at = self.variables, self.orders, list(numbers)
        shared = [self._rows_of_length(len(own.complete_orders[number][0])) for number in numbers]
        rows, limits, start = (np.array([one[part] for one in shared]) for part in range(3))
        top = [log(self.problem.extents[d]) for _ in range(variables.nodes) for d in variables.dims]
        upper = np.concatenate([top, self.most]) + WIDER
        lower = np.concatenate([np.zeros(variables.inner), self.least]) - WIDER
        low, high = (np.tile(side, (len(at), 1)) for side in (lower, upper))
        return self.with_eased_capacities(
            Programs(own.log_costs[at], own.costs[at], own.log_uses[at], own.uses[at], rows, limits, low, high, start)
        )

    def with_eased_capacities(self, programs: Programs) -> Programs:
        """Return the programs with levels that the start fills taken for a little larger: the bounds still hold."""
        with np.errstate(divide="ignore"):
            used = np.exp(programs.log_uses + np.einsum("prjn,pn->prj", programs.uses, programs.start)).sum(axis=2)
            full = np.log(used * TIGHT)
        return replace(programs, log_uses=programs.log_uses - np.maximum(full, 0.0)[:, :, None])

    def net_bounds(self, solved: Solved, numbers: Sequence[int]) -> list[float]:
        """Return the bounds with what orders cost besides, less a margin for rounding."""
        besides = self.orders.constants[list(numbers)]
        sizes = solved.bounds + np.abs(besides) + abs(self.start_cost)
        return (solved.bounds + besides + self.start_cost - MARGIN * sizes).tolist()

    def optimum(self, number: int, bound: float, solved: Solved, at: int) -> OrderOptimum:
        """Return the answer of the program at position `at`."""
        variables, problem, own = self.variables, self.problem, self.orders
        values = np.exp(solved.points[at])
        tiles: list[tuple[float, ...]] = []
        for node in range(len(own.complete_orders[number][0])):
            tile = dict(zip(variables.dims, values[variables.node(node)].tolist(), strict=True))
            tiles.append(tuple(tile.get(d, 1.0) for d in range(len(problem.dims))))
        factors = [[1.0] * len(problem.dims) for _ in problem.classes]
        for (one, d), value in zip(variables.factors, values[variables.inner :].tolist(), strict=True):
            factors[one][d] = value
        multipliers = [0.0] * len(own.room)
        for level, sensitivity in zip(own.limited, solved.sensitivity[at].tolist(), strict=True):
            multipliers[level] = sensitivity * float(solved.bounds[at]) / own.room[level]
        return OrderOptimum(bound, number, tuple(tiles), tuple(tuple(row) for row in factors), tuple(multipliers))


class ConvexBounds:
    """Bounds of the first component by geometric programs, one per order of storage nodes.

    orders: None where there are no programs (windows, too many orders, costs that are no sums of monomials).
    """

    def __init__(self, problem: Problem, measure: Measure, caches: SearchCaches, tuning: Tuning = TUNING) -> None:
        self.tuning = tuning
        self.tables = build_cost_tables(problem, measure, first_region(problem), caches)
        self.orders: OrderMonomials | None = order_monomials(self.tables, 0, tuning.most_orders)

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """Return the numbers of all orders; None where there are no programs."""
        return None if self.orders is None else tuple(range(len(self.orders.complete_orders)))

    def moves(self, numbers: Sequence[int]) -> Moves:
        """Return the moves that orders of storage nodes make."""
        found: set[tuple[State, int, int]] = set()
        assert self.orders is not None
        for order, end in (self.orders.complete_orders[number] for number in numbers):
            state = list(end)
            for tensor, edge in reversed(order):
                state[tensor] = self.tables.tensors[tensor].edges[edge].source
                found.add((tuple(state), tensor, edge))
        return frozenset(found)

    def builder(self, region: Region) -> ProgramBuilder:
        """Return what writes the programs of a region."""
        assert self.orders is not None
        return ProgramBuilder(self.tables, self.orders, region, self.tuning)

    def optima(
        self, region: Region, numbers: Sequence[int], is_over: Callable[[], bool]
    ) -> tuple[OrderOptimum, ...] | None:
        """Return the optima of some orders in a region, the least bound first; None where time is over."""
        builder = self.builder(region)
        found: list[OrderOptimum] = []
        for begin in range(0, len(numbers), self.tuning.programs_at_once):
            if is_over():
                return None
            part = numbers[begin : begin + self.tuning.programs_at_once]
            solved = solve(builder.programs(part), self.tuning)
            for at, (number, bound) in enumerate(zip(part, builder.net_bounds(solved, part), strict=True)):
                found.append(builder.optimum(number, bound, solved, at))
        return tuple(sorted(found, key=lambda optimum: (optimum.bound, optimum.number)))
