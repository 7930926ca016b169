"""Best-first search over mappings with tiles of any size: regions of spatial factors, cells of tiles, both cut finer
where the bound is least.

The queue holds regions that cover everything not refuted; the least of their bounds bounds every mapping. A region's
bound rises by better multipliers of capacities, by finer cells where the relaxed optimum lies, and by cutting its
factors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from heapq import heappop, heappush
from math import ceil, inf, isfinite, prod

from polymap.ir import Mapping
from polymap.search.any_size.convex import ConvexBounds, OrderOptimum
from polymap.search.any_size.mappings import (
    cells_around_optima,
    factors_near_optimum,
    rounded_tiles,
    single_tiles_near_chain,
    single_tiles_near_optimum,
    start_factors,
    tree_of_chain,
    tree_of_tiles,
    trip_counts,
)
from polymap.search.any_size.node_costs import CostTables, build_cost_tables
from polymap.search.any_size.orders import OrderMonomials
from polymap.search.any_size.probes import Ranges, tables_within, tile_ranges_below
from polymap.search.any_size.regions import Region, first_region, has_trip_counts
from polymap.search.any_size.relaxation import Moves, RelaxedChain, relax
from polymap.search.any_size.tuning import TUNING, Tuning
from polymap.search.heuristics import Annealer
from polymap.search.objective import Measure, exact_score
from polymap.search.problem import Objective, Problem
from polymap.search.resources import OutOfTime, SearchCaches, Work

Multipliers = tuple[float, ...]  # cost per bit of each level's capacity


@dataclass(frozen=True, slots=True)
class QueuedRegion:
    """A region with what is known of it.

    optima: of the orders of storage nodes that are not refuted there (None: orders are not known). components: the
    least value of each component. cycles: compute cycles at least. multipliers: those to try next, `step` of the usual
    change away from best_multipliers, which gave the first component. has_own_cells: whether cells stand around the
    optima's tiles. ranges: where tiles of mappings below the best value can be.
    """

    region: Region
    optima: tuple[OrderOptimum, ...] | None
    components: tuple[float, ...]
    cycles: int
    multipliers: Multipliers
    best_multipliers: Multipliers
    step: float
    has_own_cells: bool = False
    ranges: Ranges = field(default_factory=dict[tuple[int, int], tuple[tuple[float, float], ...]])

    @property
    def orders(self) -> tuple[int, ...] | None:
        """Return the numbers of the orders that are not refuted."""
        return None if self.optima is None else tuple(optimum.number for optimum in self.optima)


Entry = tuple[int, int, QueuedRegion]  # bound, serial number (the newest is the least), region


@dataclass(frozen=True, slots=True)
class RegionOutcome:
    """The best mapping and its exact value (None: none was found), a valid bound (scaled as Measure.value), regions
    looked at, regions refuted, and the queue of what is left (a heap)."""

    best: tuple[Mapping, Fraction] | None
    bound: int | None
    regions: int
    refuted: int
    queue: tuple[Entry, ...] = ()


Report = Callable[[Mapping | None, Fraction | None, int], None]


class RegionSearch:
    """One search. `best` is the best mapping so far with its exact value in the objective's unit.

    clock: the share of the limit that is spent. first: a mapping to begin with. work: counts the bounds. annealer:
    looks for better mappings now and then. floor: what no mapping beats.
    """

    def __init__(
        self,
        problem: Problem,
        objective: Objective,
        measure: Measure,
        clock: Callable[[], float],
        first: tuple[Mapping, Fraction] | None,
        work: Work | None = None,
        annealer: Annealer | None = None,
        floor: Fraction = Fraction(0),
        tuning: Tuning = TUNING,
    ) -> None:
        self.problem = problem
        self.objective = objective
        self.measure = measure
        self.clock = clock
        self.best = first
        self.floor = floor
        self.tuning = tuning
        self._work = work or Work()
        self._annealer = annealer
        self._tried: set[Mapping] = set()
        self._caches = SearchCaches()
        self.convex = ConvexBounds(problem, measure, self._caches, tuning)

    def run(self, report: Report) -> RegionOutcome:
        """Search until the bound meets the best value, or time is up."""
        queue = self._first_queue(report)
        return RegionOutcome(self.best, None, 1, 1) if queue is None else self.go_on(queue, report)

    def go_on(self, queue: list[Entry], report: Report) -> RegionOutcome:
        """Search what is in a queue until the bound meets the best value, or time is up."""
        serial, refuted, looked = min((entry[1] for entry in queue), default=0), 0, 0
        while queue:
            bound, _, item = queue[0]
            if self._is_refuted(bound) or self.out_of_time():
                break
            heappop(queue)
            looked += 1
            for new, value in self._successors(item, bound, looked):
                if value is None or self._is_refuted(value):
                    refuted += 1
                if value is not None:
                    # Among equals the newest comes first: regions are cut until they show what they are worth.
                    serial -= 1
                    heappush(queue, (max(value, bound), serial, new))
            # Last, so that what is resumed again and again looks at regions.
            self.anneal(self.tuning.annealed_per_region)
            report(*(self.best or (None, None)), bound)
        bound = queue[0][0] if queue else None
        return RegionOutcome(self.best, bound, looked, refuted + len(queue), tuple(queue))

    def out_of_time(self) -> bool:
        """Return whether the limit is reached, or a mapping that none can beat was found."""
        return self.clock() > 1 or (self.best is not None and self.best[1] <= self.floor)

    def _first_queue(self, report: Report) -> list[Entry] | None:
        """Return the queue to begin with; None where nothing fits."""
        nothing = (0.0,) * self.problem.level_count
        components = (-inf,) * len(self.measure.components)
        start = QueuedRegion(first_region(self.problem), None, components, 0, nothing, nothing, 1.0)
        root = self._tightened(start, 0, coarse=True, rounds_tiles=True)
        if root is None:
            return None
        self.anneal(self.tuning.annealed_first)
        least = self._value(root)
        report(*(self.best or (None, None)), least)
        start = self._with_optima(start, self.convex.numbers)
        least = max(least, self._value(start))
        report(*(self.best or (None, None)), least)
        return [(least, 0, self._after_start_factors(start, least))]

    def anneal(self, mappings: int) -> None:
        """Look for better mappings near the best one."""
        annealer = self._annealer
        if annealer is None or self.out_of_time():
            return
        if self.best is not None:
            annealer.know(*self.best)
        mappings = mappings if self._work.left is None else min(mappings, self._work.left)
        annealer.walk(mappings, self.out_of_time)
        self._work.add(mappings)
        if annealer.best is not None and (self.best is None or annealer.best[1] < self.best[1]):
            self.best = annealer.best

    def _with_optima(self, item: QueuedRegion, orders: Sequence[int] | None) -> QueuedRegion:
        """Return the item bounded by geometric programs of these orders, with the orders that they do not refute."""
        if orders is None:
            return item
        optima = self.convex.optima(item.region, orders, self.out_of_time)
        if optima is None:
            return item
        self._work.add(len(orders))
        least = min((optimum.bound for optimum in optima), default=inf)
        kept = tuple(o for o in optima if not self._is_refuted(self._value(_with_least(item, o.bound))))
        return replace(_with_least(item, least), optima=kept or optima[:1])

    def _after_start_factors(self, start: QueuedRegion, least: int) -> QueuedRegion:
        """Look for good mappings in a few regions; return the start with the cells of the one that had the best, where
        they are few. least: what bounds all mappings."""
        cells = start.region.borders
        best = None if self.best is None else self.best[0]
        factors = start_factors(self.problem, best, start.optima or (), self._caches, self.tuning)
        regions = [replace(start.region, factors=one) for one in factors]
        items = [self._with_optima(replace(start, region=region), start.orders) for region in regions]
        if start.optima is not None:
            items.sort(key=self._value)
        for first in items:
            if self.clock() > self.tuning.start_share or self._is_refuted(least):
                break
            if self._is_refuted(self._value(first)):
                continue
            before = self.best
            item = self._after_start_rounds(first)
            if item is not None and (self.best is not before or cells is start.region.borders):
                cells = item.region.borders
        most = max(prod(len(borders) + 2 for borders in row) for row in cells)
        if start.optima is not None or most > self.tuning.coarse_cells:
            return start
        return replace(start, region=replace(start.region, borders=cells))

    def _after_start_rounds(self, item: QueuedRegion) -> QueuedRegion | None:
        """Return the item after some rounds that look for good mappings; None where nothing fits."""
        self._try_tiles_of_optima(item)
        now: QueuedRegion | None = self._with_own_cells(item)
        for _ in range(self.tuning.start_rounds):
            if now is None or self.out_of_time():
                break
            now = self._tightened(now, 0, coarse=False, rounds_tiles=True)
        return now

    def _is_refuted(self, bound: int) -> bool:
        return self.best is not None and self.measure.unscaled(bound) >= self.best[1]

    def _successors(self, item: QueuedRegion, bound: int, looked: int) -> list[tuple[QueuedRegion, int | None]]:
        """Return what replaces an item of the queue, each with its bound (None: nothing fits)."""
        cut = self._widest_factor(item.region)
        coarse = cut is not None and cut[0] > self.tuning.coarse_ratio
        item = self._with_optima(item, item.orders)
        if coarse and item.optima is not None:
            better: QueuedRegion | None = item
        else:
            rounds_tiles = not coarse or looked % self.tuning.rounding_period == 1
            better = self._tightened(self._with_own_cells(item), bound, coarse=coarse, rounds_tiles=rounds_tiles)
        if better is None:
            return [(item, None)]
        value = self._value(better)
        goal = self._goal()
        gained = isfinite(goal) and value - bound > self.tuning.good_gain * (goal - bound)
        if cut is None or (gained and not coarse) or self._is_refuted(value):
            return [(better, value)]
        _, group, dim = cut
        found: list[tuple[QueuedRegion, int | None]] = []
        for half in better.region.factors[group][dim].halves():
            region = better.region.with_factor(group, dim, half)
            if has_trip_counts(self.problem, region, self._caches):
                found.append((replace(better, region=region, step=1.0), value))
        return found

    def _widest_factor(self, region: Region) -> tuple[float, int, int] | None:
        """Return (ratio, class, dim) of the factor that is least known; None where all are known well enough."""
        ratios = [(r.ratio, g, d) for g, row in enumerate(region.factors) for d, r in enumerate(row)]
        widest = max(ratios, key=lambda one: (one[0], -one[1], -one[2]), default=None)
        return None if widest is None or widest[0] <= self.tuning.fine_ratio else widest

    def _with_own_cells(self, item: QueuedRegion) -> QueuedRegion:
        """Return the item with cells around the tiles of its orders' optima, once."""
        optima = item.optima
        if optima is None or item.has_own_cells:
            return item
        region = cells_around_optima(self.problem, item.region, optima, self.tuning)
        multipliers = optima[0].multipliers
        item = replace(item, region=region, multipliers=multipliers, best_multipliers=multipliers, has_own_cells=True)
        goal = self._goal() - self.measure.fixed_energy
        if not (self.measure.is_linear and isfinite(goal)) or len(optima) > self.tuning.narrowed_orders:
            return item
        return replace(item, ranges=tile_ranges_below(self.convex, item.region, optima, goal, self.out_of_time))

    def _value(self, item: QueuedRegion) -> int:
        """Return the objective of an item's components, rounded up: those of mappings are integers."""
        components = tuple(0 if one == -inf else ceil(one) for one in item.components)
        return self.measure.value(components, item.cycles)

    def _goal(self) -> float:
        """Return the scaled value that refutes a region, as far as it is known."""
        if self.best is None:
            return inf
        return float(self.best[1] / self.measure.unscaled(1))

    def _tightened(self, item: QueuedRegion, bound: int, *, coarse: bool, rounds_tiles: bool) -> QueuedRegion | None:
        """Return the item with a better bound: multipliers and cells after some rounds. None where nothing fits.

        Where time ends, what is known by then. rounds_tiles: whether mappings are tried near the relaxed optimum.
        """
        tuning, goal = self.tuning, self._goal()
        last: tuple[CostTables, RelaxedChain] | None = None
        moves = None if item.orders is None else self.convex.moves(item.orders)
        for number in range(tuning.coarse_rounds if coarse else tuning.rounds):
            tables = tables_within(self._tables(item.region), item.ranges)
            item = replace(item, cycles=tables.cycles)
            try:
                relaxed = relax(tables, 0, item.multipliers, moves, self.out_of_time)
                self._work.add()
                if relaxed is None:
                    return None
                item = _with_least(item, relaxed.cost)
                for component in range(1, len(item.components) if number == 0 else 1):
                    other = relax(tables, component, (0.0,) * len(item.multipliers), moves, self.out_of_time)
                    if other is None:
                        return None
                    item = _with_least(item, other.cost, component)
            except OutOfTime:
                return item
            item = self._with_next_multipliers(item, relaxed)
            last = tables, relaxed
            value = self._value(item)
            if self.out_of_time() or self._is_refuted(value):
                return item
            if tables.most_cells < (tuning.coarse_cells if coarse else tuning.fine_cells):
                cells = frozenset((n.unit, d, i) for n in relaxed.chain for d, i in enumerate(n.cell))
                item = replace(item, region=item.region.with_halved_cells(cells, self.problem))
            if number == 1 and isfinite(goal) and value - bound < tuning.least_gain * (goal - bound):
                break
        if rounds_tiles and last is not None:
            tables, relaxed = last
            self._try_tiles(single_tiles_near_chain(tables, relaxed.chain, tuning), item.multipliers)
        return item

    def _tables(self, region: Region) -> CostTables:
        return build_cost_tables(self.problem, self.measure, region, self._caches)

    def _with_next_multipliers(self, item: QueuedRegion, relaxed: RelaxedChain) -> QueuedRegion:
        """Return the item with the multipliers to try next: further where capacities bind, after a rise of the cost;
        else half-way back to those that were best."""
        tuning = self.tuning
        if relaxed.cost < item.components[0]:
            back = tuple((a + b) / 2 for a, b in zip(item.best_multipliers, item.multipliers, strict=True))
            return replace(item, multipliers=back, step=item.step * tuning.step_decay)
        room = [one.capacity_bits or 0 for one in self.problem.arch.levels]
        over = [
            excess / size if isfinite(excess) and size and (excess > 0 or multiplier > 0) else 0.0
            for excess, size, multiplier in zip(relaxed.excess, room, item.multipliers, strict=True)
        ]
        length = sum(x * x for x in over)
        if not length:
            return replace(item, best_multipliers=item.multipliers)
        goal = self._goal() - self.measure.fixed_energy if self.measure.is_linear else inf
        far = isfinite(goal) and goal > relaxed.cost
        missing = goal - relaxed.cost if far else tuning.step_without_goal * abs(relaxed.cost)
        most = tuning.step_of_cost * abs(relaxed.cost) / max(abs(x) for x in over)
        move = item.step * min(tuning.step_of_missing * missing / length, most)
        multipliers = tuple(
            max(0.0, multiplier + move * x / size) if size else 0.0
            for multiplier, x, size in zip(item.multipliers, over, room, strict=True)
        )
        step = min(1.0, item.step * tuning.step_growth)
        return replace(item, multipliers=multipliers, best_multipliers=item.multipliers, step=step)

    def try_optimum(self, optimum: OrderOptimum, most_factors: int) -> None:
        """Try mappings near an optimum of real tiles: a few whole spatial factors, and tiles around its own."""
        if not self.problem.classes and self.convex.orders is not None:
            self._try_rounded(optimum, self.convex.orders)
            return
        start = first_region(self.problem)
        moves = self.convex.moves([optimum.number])
        for factors in factors_near_optimum(self.problem, optimum, self._caches, self.tuning)[:most_factors]:
            if self.out_of_time():
                return
            region = replace(start, factors=factors)
            trips = trip_counts(self.problem, region)
            tiles = single_tiles_near_optimum(self.problem, region, optimum, trips, self.tuning)
            self._try_tiles(tiles, optimum.multipliers, moves)

    def _try_rounded(self, optimum: OrderOptimum, orders: OrderMonomials) -> None:
        """Try whole tiles near an optimum's, on a machine without fan-outs."""
        tensors = self.convex.tables.tensors
        order = orders.complete_orders[optimum.number][0]
        nodes = [(tensor, tensors[tensor].edges[edge].level) for tensor, edge in order]
        for tiles in rounded_tiles(self.problem, orders, optimum, self.tuning.rounded_tiles, self.tuning):
            mapping = tree_of_tiles(self.problem, nodes, tiles)
            if mapping not in self._tried:
                self._tried.add(mapping)
                self._offer(mapping)

    def _try_tiles_of_optima(self, item: QueuedRegion) -> None:
        """Try single tiles near those of the geometric programs."""
        optima = (item.optima or ())[: self.tuning.rounded_orders]
        trips = trip_counts(self.problem, item.region)
        for optimum in optima:
            tiles = single_tiles_near_optimum(self.problem, item.region, optimum, trips, self.tuning)
            self._try_tiles(tiles, optimum.multipliers, self.convex.moves([optimum.number]))

    def _try_tiles(self, tiles: Region, multipliers: Multipliers, moves: Moves | None = None) -> None:
        """Try the best of single tiles, at multipliers around those that capacities ask for."""
        tables = self._tables(tiles)
        if tables.most_cells > self.tuning.rounded_cells:
            return
        item = QueuedRegion(tiles, None, (-inf,), 0, multipliers, multipliers, 1.0)
        for _ in range(self.tuning.rounded_steps):
            try:
                self._work.add()
                near = relax(tables, 0, item.multipliers, moves, self.out_of_time)
            except OutOfTime:
                return
            if near is None:
                return
            item = self._with_next_multipliers(_with_least(item, near.cost), near)
            mapping = tree_of_chain(tables, near.chain)
            if all(excess <= 0 for excess in near.excess) and mapping not in self._tried:
                self._tried.add(mapping)
                self._offer(mapping)

    def _offer(self, mapping: Mapping) -> None:
        """Keep a mapping if it is better than the best and fits."""
        score = exact_score(self.problem.workload, self.problem.arch, self.objective, mapping)
        self._work.add()
        if score is None or score.excess:
            return
        if self.best is None or score.value < self.best[1]:
            self.best = mapping, score.value


def _with_least(item: QueuedRegion, least: float, component: int = 0) -> QueuedRegion:
    """Return the item with a component of at least so much."""
    known = item.components
    return replace(item, components=(*known[:component], max(known[component], least), *known[component + 1 :]))
