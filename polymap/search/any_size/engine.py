"""Best-first search over mappings with tiles of any size: regions of spatial factors, cells of tiles, both cut finer
where the bound is least.

The queue holds regions that cover everything not refuted; the least of their bounds bounds every mapping. A region's
bound rises by better prices of capacity, by finer cells where the relaxed optimum lies, and by cutting its factors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from heapq import heappop, heappush
from math import ceil, inf, isfinite, prod

from polymap.ir import Mapping
from polymap.search.any_size.convex import Chain, Convex
from polymap.search.any_size.node_costs import AnyTables, build_any_tables
from polymap.search.any_size.probes import Ranges, ranges_below, within
from polymap.search.any_size.regions import Region, first_region, is_possible
from polymap.search.any_size.relaxation import Moves, Relaxed, TimeIsUp, relax
from polymap.search.any_size.rounding import nearby, tree_of_chain, trip_counts
from polymap.search.any_size.starts import points_of, seated, seeds
from polymap.search.heuristics import Annealer
from polymap.search.objective import Measure, exact_score
from polymap.search.problem import Objective, Problem
from polymap.search.resources import Work

COARSE = 1.5  # regions whose factors differ by more are cut before anything else
FINE = 1.001
ROUNDS = 6
FEW_CELLS, MOST_CELLS, MOST_POINTS = 20_000, 30_000, 15_000
NEAR = 1.25
POLISH = 10
ROUNDED_CHAINS = 3  # whose tiles are rounded to mappings
FEW_ORDERS = 12  # whose tiles are narrowed
SEED_ROUNDS = 3
ANNEALED_FIRST, ANNEALED_PER_REGION = 400, 25  # mappings
SEED_SHARE = 0.5  # of the time, for good mappings to begin with

Prices = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """A region of the queue: the orders of storage nodes that are not refuted there (None: not known), the least value
    of each component so far, the prices that gave the first one (kept), those to try next, and how far to step from
    them; ranges: where tiles can be below the best value, once cells stand around the orders' tiles (is_seated)."""

    region: Region
    chains: tuple[Chain, ...] | None
    parts: tuple[float, ...]
    cycles: int
    prices: Prices
    kept: Prices
    step: float
    is_seated: bool = False
    ranges: Ranges = field(default_factory=dict[tuple[int, int], tuple[tuple[float, float], ...]])

    @property
    def numbers(self) -> tuple[int, ...] | None:
        return None if self.chains is None else tuple(chain.number for chain in self.chains)


Entry = tuple[int, int, Item]  # bound, serial number (the newest is the least), region


@dataclass(frozen=True, slots=True)
class AnyOutcome:
    """The best mapping and its exact value (None: none was found), a valid bound (scaled as Measure.value), regions
    looked at, regions refuted, and the queue of what is left (a heap)."""

    best: tuple[Mapping, Fraction] | None
    bound: int | None
    regions: int
    refuted: int
    queue: tuple[Entry, ...] = ()


Report = Callable[[Mapping | None, Fraction | None, int], None]


class AnySearch:
    """One search. `best` is the best mapping so far with its exact value in the objective's unit.

    clock: the share of the limit that is spent. first: a mapping to begin with. work: counts the bounds. annealer:
    looks for better mappings now and then.
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
    ) -> None:
        self.problem = problem
        self.objective = objective
        self.measure = measure
        self.clock = clock
        self.best = first
        self._work = work or Work()
        self._annealer = annealer
        self._tried: set[Mapping] = set()
        self._convex = Convex(problem, measure)

    def run(self, report: Report) -> AnyOutcome:
        """Search until the bound meets the best value, or time is up."""
        queue = self._begun(report)
        return AnyOutcome(self.best, None, 1, 1) if queue is None else self.go_on(queue, report)

    def _begun(self, report: Report) -> list[Entry] | None:
        """Return the queue to begin with; None where nothing fits."""
        start = Item(
            first_region(self.problem),
            None,
            (-inf,) * len(self.measure.components),
            0,
            (0.0,) * self.problem.level_count,
            (0.0,) * self.problem.level_count,
            1.0,
        )
        root = self._raised(start, 0, coarse=True, polish=True)
        if root is None:
            return None
        self._annealed(ANNEALED_FIRST)
        least = self._value(root)
        report(*(self.best or (None, None)), least)
        start = self._screened(start, self._convex.numbers)
        least = max(least, self._value(start))
        report(*(self.best or (None, None)), least)
        return [(least, 0, self._seeded(start, least))]

    def go_on(self, queue: list[Entry], report: Report) -> AnyOutcome:
        """Search what is in a queue until the bound meets the best value, or time is up."""
        serial, refuted, looked = min((entry[1] for entry in queue), default=0), 0, 0
        while queue:
            bound, _, item = queue[0]
            if self._is_refuted(bound) or self.out_of_time():
                break
            heappop(queue)
            looked += 1
            for new, value in self._followed(item, bound, looked):
                if value is None or self._is_refuted(value):
                    refuted += 1
                if value is not None:
                    # Among equals the newest comes first: regions are cut until they show what they are worth.
                    serial -= 1
                    heappush(queue, (max(value, bound), serial, new))
            self._annealed(ANNEALED_PER_REGION)  # last, so that what is resumed again and again looks at regions
            report(*(self.best or (None, None)), bound)
        bound = queue[0][0] if queue else None
        return AnyOutcome(self.best, bound, looked, refuted + len(queue), tuple(queue))

    def _annealed(self, mappings: int) -> None:
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

    def _screened(self, item: Item, numbers: Sequence[int] | None) -> Item:
        """Return the item bounded by geometric programs, with the orders that these leave."""
        if numbers is None:
            return item
        chains = self._convex.least(item.region, numbers, self.out_of_time)
        if chains is None:
            return item
        self._work.add(len(numbers))
        parts = item.parts
        least = min((chain.bound for chain in chains), default=inf)
        kept = tuple(chain for chain in chains if not self._is_refuted(self._with_first(item, chain.bound)))
        return replace(item, chains=kept or chains[:1], parts=(max(parts[0], least), *parts[1:]))

    def _with_first(self, item: Item, least: float) -> int:
        """Return the value of an item whose first part is at least so much."""
        return self._value(replace(item, parts=(max(item.parts[0], least), *item.parts[1:])))

    def _seeded(self, start: Item, least: int) -> Item:
        """Look for good mappings in a few regions; return the start with the cells of the one that had the best, where
        they are few. least: what bounds all mappings."""
        cells = start.region.borders
        regions = [
            replace(start.region, factors=factors)
            for factors in seeds(self.problem, self.best and self.best[0], start.chains or ())
        ]
        items = [self._screened(replace(start, region=region), start.numbers) for region in regions]
        if start.chains is not None:
            items.sort(key=self._value)
        for first in items:
            if self.clock() > SEED_SHARE or self._is_refuted(least):
                break
            if self._is_refuted(self._value(first)):
                continue
            before = self.best
            item = self._explored(first)
            if item is not None and (self.best is not before or cells is start.region.borders):
                cells = item.region.borders
        if start.chains is not None or max(prod(len(borders) + 2 for borders in row) for row in cells) > FEW_CELLS:
            return start
        return replace(start, region=replace(start.region, borders=cells))

    def _explored(self, item: Item) -> Item | None:
        """Return the item after some rounds that look for good mappings; None where nothing fits."""
        self._rounded(item)
        now: Item | None = self._seated(item)
        for _ in range(SEED_ROUNDS):
            if now is None or self.out_of_time():
                break
            now = self._raised(now, 0, coarse=False, polish=True)
        return now

    def out_of_time(self) -> bool:
        return self.clock() > 1

    def _is_refuted(self, bound: int) -> bool:
        return self.best is not None and self.measure.unscaled(bound) >= self.best[1]

    def _followed(self, item: Item, bound: int, looked: int) -> list[tuple[Item, int | None]]:
        """Return what replaces an item of the queue, each with its bound (None: nothing fits)."""
        cut = _widest(item.region)
        coarse = cut is not None and cut[0] > COARSE
        item = self._screened(item, item.numbers)
        if coarse and item.chains is not None:
            better: Item | None = item
        else:
            better = self._raised(self._seated(item), bound, coarse=coarse, polish=not coarse or looked % 10 == 1)
        if better is None:
            return [(item, None)]
        value = self._value(better)
        goal = self._goal()
        gained = isfinite(goal) and value - bound > 0.1 * (goal - bound)
        if cut is None or (gained and not coarse) or self._is_refuted(value):
            return [(better, value)]
        _, group, dim = cut
        found: list[tuple[Item, int | None]] = []
        for half in better.region.factors[group][dim].halves():
            region = better.region.with_factor(group, dim, half)
            if is_possible(self.problem, region):
                found.append((replace(better, region=region, step=1.0), value))
        return found

    def _seated(self, item: Item) -> Item:
        """Return the item with cells around the tiles of its orders, once its factors are known well enough."""
        chains = item.chains
        if chains is None or item.is_seated:
            return item
        region = seated(self.problem, item.region, chains, FEW_CELLS)
        prices = chains[0].prices
        item = replace(item, region=region, prices=prices, kept=prices, is_seated=True)
        goal = self._goal() - self.measure.fixed_energy
        if not (self.measure.is_linear and isfinite(goal)) or len(chains) > FEW_ORDERS:
            return item
        return replace(item, ranges=ranges_below(self._convex, item.region, chains, goal, self.out_of_time))

    def _value(self, item: Item) -> int:
        """Return the objective of an item's parts, rounded up: components of mappings are integers."""
        parts = tuple(0 if part == -inf else ceil(part) for part in item.parts)
        return self.measure.value(parts, item.cycles)

    def _goal(self) -> float:
        """Return the scaled value that refutes a region, as far as it is known."""
        if self.best is None:
            return inf
        return float(self.best[1] / self.measure.unscaled(1))

    def _raised(self, item: Item, bound: int, *, coarse: bool, polish: bool) -> Item | None:
        """Return the item with a better bound: prices and cells after some rounds. None where nothing fits.

        Where time ends, what is known by then.
        """
        goal, most = self._goal(), FEW_CELLS if coarse else MOST_CELLS
        last: tuple[AnyTables, Relaxed] | None = None
        moves = None if item.numbers is None else self._convex.moves(item.numbers)
        for number in range(2 if coarse else ROUNDS):
            tables = within(build_any_tables(self.problem, self.measure, item.region), item.ranges)
            item = replace(item, cycles=tables.cycles)
            parts = list(item.parts)
            try:
                relaxed = relax(tables, 0, item.prices, moves, self.out_of_time)
                self._work.add()
                if relaxed is None:
                    return None
                parts[0] = max(item.parts[0], relaxed.cost)
                for component in range(1, len(parts) if number == 0 else 1):
                    other = relax(tables, component, (0.0,) * len(item.prices), moves, self.out_of_time)
                    if other is None:
                        return None
                    parts[component] = max(parts[component], other.cost)
            except TimeIsUp:
                return replace(item, parts=tuple(parts))
            item = self._priced(replace(item, parts=tuple(parts)), relaxed)
            last = tables, relaxed
            value = self._value(item)
            if self.out_of_time() or self._is_refuted(value):
                return item
            if max(prod(tables.shape(unit)) for unit in range(len(tables.ends))) < most:
                cells = frozenset((n.unit, d, i) for n in relaxed.chain for d, i in enumerate(n.cell))
                item = replace(item, region=item.region.refined(cells, self.problem))
            if number == 1 and isfinite(goal) and value - bound < 0.03 * (goal - bound):
                break
        if polish and last is not None:
            self._polish(*last, item.prices)
        return item

    def _priced(self, item: Item, relaxed: Relaxed) -> Item:
        """Return the item with the prices to try next: further where capacities bind, after a rise of the cost; else
        half-way back to those that were best."""
        if relaxed.cost < item.parts[0]:
            back = tuple((a + b) / 2 for a, b in zip(item.kept, item.prices, strict=True))
            return replace(item, prices=back, step=item.step * 0.7)
        room = [one.capacity_bits or 0 for one in self.problem.arch.levels]
        over = [
            excess / size if isfinite(excess) and size and (excess > 0 or price > 0) else 0.0
            for excess, size, price in zip(relaxed.excess, room, item.prices, strict=True)
        ]
        length = sum(x * x for x in over)
        if not length:
            return replace(item, kept=item.prices)
        goal = self._goal() - self.measure.fixed_energy if self.measure.is_linear else inf
        missing = goal - relaxed.cost if isfinite(goal) and goal > relaxed.cost else 0.05 * abs(relaxed.cost)
        move = item.step * min(0.5 * missing / length, 0.03 * abs(relaxed.cost) / max(abs(x) for x in over))
        prices = tuple(
            max(0.0, price + move * x / size) if size else 0.0
            for price, x, size in zip(item.prices, over, room, strict=True)
        )
        return replace(item, prices=prices, kept=item.prices, step=min(1.0, item.step * 1.2))

    def _polish(self, tables: AnyTables, relaxed: Relaxed, prices: Prices) -> None:
        """Try single tiles near the relaxed chain."""
        self._points(nearby(tables, relaxed.chain, NEAR), prices)

    def _rounded(self, item: Item) -> None:
        """Try single tiles near those of the geometric programs."""
        for chain in (item.chains or ())[:ROUNDED_CHAINS]:
            tables = build_any_tables(self.problem, self.measure, item.region)
            points = points_of(self.problem, item.region, chain, trip_counts(tables))
            self._points(points, chain.prices, self._convex.moves([chain.number]))

    def _points(self, points: Region, prices: Prices, moves: Moves | None = None) -> None:
        """Try the best of single tiles, at prices around those that capacities ask for."""
        tables = build_any_tables(self.problem, self.measure, points)
        if max(prod(tables.shape(unit)) for unit in range(len(tables.ends))) > MOST_POINTS:
            return
        item = Item(points, None, (-inf,), 0, prices, prices, 1.0)
        for _ in range(POLISH):
            try:
                self._work.add()
                near = relax(tables, 0, item.prices, moves, self.out_of_time)
            except TimeIsUp:
                return
            if near is None:
                return
            item = self._priced(replace(item, parts=(max(item.parts[0], near.cost),)), near)
            mapping = tree_of_chain(tables, near.chain)
            if all(excess <= 0 for excess in near.excess) and mapping not in self._tried:
                self._tried.add(mapping)
                self._take(mapping)

    def _take(self, mapping: Mapping) -> None:
        score = exact_score(self.problem.workload, self.problem.arch, self.objective, mapping)
        self._work.add()
        if score is None or score.excess:
            return
        if self.best is None or score.value < self.best[1]:
            self.best = mapping, score.value


def _widest(region: Region) -> tuple[float, int, int] | None:
    """Return (ratio, class, dim) of the factor that is least known; None where all are known well enough."""
    ratios = [(r.ratio, g, d) for g, row in enumerate(region.factors) for d, r in enumerate(row)]
    best = max(ratios, key=lambda one: (one[0], -one[1], -one[2]), default=None)
    return None if best is None or best[0] <= FINE else best
