"""Between mappings and the bound: spatial factors and cells to begin with, single tiles near an optimum, and the loop
trees of optima of single tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import ceil, floor, log, prod

import numpy as np
from numpy.typing import NDArray

from polymap.arithmetic import FloatArray
from polymap.ir import Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.search.any_size.convex import OrderOptimum
from polymap.search.any_size.node_costs import CostTables
from polymap.search.any_size.orders import OrderMonomials
from polymap.search.any_size.regions import (
    ONE,
    FactorRange,
    FactorRow,
    Region,
    fanout_groups,
    has_trip_counts,
    unit_count,
)
from polymap.search.any_size.relaxation import ChainNode
from polymap.search.any_size.tuning import Tuning
from polymap.search.problem import Problem
from polymap.search.resources import SearchCaches

MOST_ROUNDED = 20_000  # choices of whole tiles that are looked at together
ROUNDING = 1e-9  # of a level's share

Row = tuple[int, ...]
Factors = tuple[FactorRow, ...]


def start_factors(
    problem: Problem, best: Mapping | None, optima: Sequence[OrderOptimum], caches: SearchCaches, tuning: Tuning
) -> list[Factors]:
    """Return spatial factors to begin with: those of the best mapping so far, those near the optima of least cost, then
    every fan-out over one dim, the most parallel first."""
    plans = [] if best is None else [_class_trips(problem, _spatial_trips(problem, best))]
    for optimum in optima[: tuning.start_optima]:
        plans += _trips_near_optimum(problem, optimum, caches, tuning)[: tuning.factors_per_optimum]
    plans += [_class_trips(problem, plan) for plan in _one_dim_per_fanout(problem, tuning)]
    known: dict[Factors, None] = {}
    for plan in plans:
        known[_factors(plan)] = None
    return list(known)[: tuning.start_factors]


def factors_near_optimum(
    problem: Problem, optimum: OrderOptimum, caches: SearchCaches, tuning: Tuning
) -> list[Factors]:
    """Return a few spatial factors near those of an optimum that the fan-outs can have, the nearest first."""
    plans = _trips_near_optimum(problem, optimum, caches, tuning)[: tuning.factors_per_optimum]
    return [_factors(plan) for plan in plans]


def _factors(plan: Sequence[Sequence[int]]) -> Factors:
    """Return factors just below whole trip counts [class][dim]."""
    return tuple(tuple(FactorRange(max(ONE, t - ONE / 4), Fraction(t)) for t in row) for row in plan)


def _class_trips(problem: Problem, trips: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Return trip counts per class from those per fan-out."""
    each = [
        tuple(min(prod(trips[f][d] for f in one.fanouts), extent) for d, extent in enumerate(problem.extents))
        for one in problem.classes
    ]
    return tuple(each)


def _one_dim_per_fanout(problem: Problem, tuning: Tuning) -> list[tuple[tuple[int, ...], ...]]:
    """Return trip counts [fan-out][dim] with every fan-out laid over one dim, the most parallel first."""
    count = len(problem.dims)
    choices: list[list[tuple[int, ...]]] = []
    for fanout in problem.arch.fanouts:
        free = [d for d, dim in enumerate(problem.dims) if fanout.may_spread(dim)]
        trips = [(min(fanout.size, problem.extents[d]), d) for d in free]
        most = sorted((t for t in trips if t[0] > 1), key=lambda t: (-t[0], t[1]))[: tuning.dims_per_fanout]
        choices.append([tuple(n if d == at else 1 for d in range(count)) for n, at in most] or [(1,) * count])
    plans = [tuple(plan) for plan in product(*choices)]
    return sorted(plans, key=lambda plan: -prod(prod(row) for row in plan))


def _trips_near_optimum(
    problem: Problem, optimum: OrderOptimum, caches: SearchCaches, tuning: Tuning
) -> list[tuple[Row, ...]]:
    """Return trip counts [class][dim] near an optimum's factors that the fan-outs can have, the nearest first."""
    low, high = 1 - tuning.factor_spread, 1 + tuning.factor_spread
    choices: list[list[tuple[float, tuple[int, ...]]]] = []
    for row in optimum.factors:
        near = [[n for n in range(floor(c * low), ceil(c * high) + 1) if n >= 1] for c in row]
        far = [(sum(abs(log(n / c)) for n, c in zip(trips, row, strict=True)), trips) for trips in product(*near)]
        choices.append(sorted(far)[: tuning.factors_tried])
    found: list[tuple[float, tuple[tuple[int, ...], ...]]] = []
    for plan in zip(*choices, strict=False):
        trips = tuple(row for _, row in plan)
        if has_trip_counts(problem, Region(_factors(trips), ()), caches):
            found.append((sum(distance for distance, _ in plan), trips))
    return [trips for _, trips in sorted(found)]


def _spatial_trips(problem: Problem, mapping: Mapping) -> list[list[int]]:
    """Return the trip counts of a mapping's spatial loops per fan-out and dim."""
    names = [fanout.name for fanout in problem.arch.fanouts]
    tiles = dict(zip(problem.dims, problem.extents, strict=True))
    found = [[1] * len(problem.dims) for _ in names]
    for node in mapping.nodes:
        if isinstance(node, Spatial):
            found[names.index(node.fanout)][problem.dims.index(node.dim)] *= -(-tiles[node.dim] // node.tile)
        if isinstance(node, Spatial | Temporal):
            tiles[node.dim] = min(node.tile, tiles[node.dim])
    return found


def cells_around_optima(problem: Problem, region: Region, optima: Sequence[OrderOptimum], tuning: Tuning) -> Region:
    """Return the region with cells around the tiles of optima: as many optima, then borders, as keep the cells of each
    unit few (coarse_cells).

    A cell that is all the tiles of one number of visits blurs nothing: borders stand at the largest tile of each.
    """
    now = region
    for count, detail in tuning.cell_details:
        finer = _with_cells_around(problem, region, optima[:count], detail, tuning)
        if max(prod(len(row) + 2 for row in unit) for unit in finer.borders) > tuning.coarse_cells:
            break
        now = finer
    return now


def _with_cells_around(
    problem: Problem, region: Region, optima: Sequence[OrderOptimum], detail: int, tuning: Tuning
) -> Region:
    borders: list[tuple[tuple[Fraction, ...], ...]] = []
    for unit in range(unit_count(problem)):
        row: list[tuple[Fraction, ...]] = []
        for d, extent in enumerate(problem.extents):
            inner = float(region.factor_product(d, (0, unit), problem, high=True))
            tiles = sorted(tile[d] / inner for optimum in optima for tile in optimum.tiles)
            apart = [tile for at, tile in enumerate(tiles) if not at or tile > tiles[at - 1] * tuning.same_tile_ratio]
            found = set(region.borders[unit][d]).union(
                *(_borders_near(extent, max(1.0, tile), detail, tuning) for tile in apart)
            )
            row.append(tuple(sorted(found)))
        borders.append(tuple(row))
    return Region(region.factors, tuple(borders))


def _borders_near(extent: int, tile: float, detail: int, tuning: Tuning) -> set[Fraction]:
    """Return borders near a tile: largest tiles of a number of visits, and coarser ones further away."""
    visits, far = round(extent / tile), 1 + detail
    ends = {-(-extent // v) - 1 for v in range(max(1, visits - far + 1), visits + far + 1)}
    ends |= {floor(tile) + n for n in range(-far, far)} if tile < tuning.small_tile else set()
    ends |= {round(tile * ratio) for ratio in tuning.cell_ladder[: 2 + 2 * detail]}
    return {Fraction(n) for n in ends if 1 < n < extent}


def single_tiles_near_optimum(
    problem: Problem, region: Region, optimum: OrderOptimum, trips: Sequence[Sequence[int]], tuning: Tuning
) -> Region:
    """Return single tiles around those of an optimum, for loops with these trips [fan-out][dim]: equal shares of the
    extent, and whole multiples of what the fan-outs cut a tile into."""
    borders: list[tuple[tuple[Fraction, ...], ...]] = []
    exact = tuple(tuple(FactorRange(Fraction(t), Fraction(t)) for t in row) for row in _class_trips(problem, trips))
    fixed = Region(exact, region.borders)
    units = unit_count(problem)
    for unit in range(units):
        row: list[tuple[Fraction, ...]] = []
        for d, extent in enumerate(problem.extents):
            outside = int(fixed.factor_product(d, (0, unit), problem, high=True))
            inside = int(fixed.factor_product(d, (unit, units - 1), problem, high=True))
            found: set[int] = set()
            for tile in sorted({round(one[d] / outside) for one in optimum.tiles}):
                found |= _sizes_near(-(-extent // outside), max(1, tile), inside, tuning)
            row.append(tuple(Fraction(n) for n in sorted(found)))
        borders.append(tuple(row))
    return Region(exact, tuple(borders), single_tiles=True)


def _sizes_near(top: int, tile: int, inside: int, tuning: Tuning) -> set[int]:
    """Return tiles near one of at most `top` indices: equal shares, multiples of `inside`, and the next ones."""
    visits, whole = max(1, round(top / tile)), round(tile / inside)
    found = {-(-top // v) for v in range(max(1, visits - 2), visits + 3)}
    found |= {inside * t for t in range(max(1, whole - 2), whole + 2)}
    found |= {tile + n for n in (-1, 0, 1)} if tile < tuning.small_tile else set()
    return {n for n in found if 1 <= n <= top}


def single_tiles_near_chain(tables: CostTables, chain: tuple[ChainNode, ...], tuning: Tuning) -> Region:
    """Return single tiles around those of a relaxed chain, with the most iterations of the region's spatial loops."""
    problem = tables.problem
    factors = trip_counts(problem, tables.region)
    exact: list[tuple[FactorRange, ...]] = []
    for one in problem.classes:
        trips = [Fraction(prod(factors[f][d] for f in one.fanouts)) for d in range(len(problem.dims))]
        exact.append(tuple(FactorRange(t, t) for t in trips))
    borders: list[tuple[tuple[Fraction, ...], ...]] = []
    for unit in range(len(tables.ends)):
        row: list[tuple[Fraction, ...]] = []
        for d in range(len(problem.dims)):
            cells = {n.cell[d] for n in chain if n.unit == unit}
            row.append(tuple(_sizes_in_cells(tables.ends[unit][d], cells, tuning)))
        borders.append(tuple(row))
    return Region(tuple(exact), tuple(borders), single_tiles=True)


def _sizes_in_cells(ends: tuple[Fraction, ...], cells: set[int], tuning: Tuning) -> list[Fraction]:
    """Return tiles near some cells: the least of some trip counts, and small ones."""
    top, spread, count = ceil(ends[-1]), tuning.rounded_spread, tuning.rounded_neighbours
    found: set[int] = set()
    for i in sorted(cells):
        low, high = float(ends[max(0, i - 1)]) / spread, float(ends[i]) * spread
        fewest, most = max(1, floor(top / high)), ceil(top / max(low, 1.0))
        stride = max(1, (most - fewest) // count)
        found |= {-(-top // n) for n in range(fewest, most + 1, stride)}
        found |= set(range(max(1, floor(low)), min(top, ceil(high), count) + 1))
    return [Fraction(n) for n in sorted(found)]


def tree_of_chain(tables: CostTables, chain: tuple[ChainNode, ...]) -> Mapping:
    """Return the loop tree of a chain of single tiles."""
    tiles = tuple(tuple(int(tables.ends[n.unit][d][i]) for d, i in enumerate(n.cell)) for n in chain)
    return Mapping(tuple(_nodes(tables.problem, chain, tiles, trip_counts(tables.problem, tables.region))))


def tree_of_tiles(problem: Problem, nodes: Sequence[tuple[int, int]], tiles: Sequence[Row]) -> Mapping:
    """Return the loop tree of nodes (tensor, level), outermost first, with these tiles; there are no fan-outs."""
    chain = tuple(ChainNode(tensor, level, 0, ()) for tensor, level in nodes)
    return Mapping(tuple(_nodes(problem, chain, tuple(tiles), ())))


def rounded_tiles(
    problem: Problem, orders: OrderMonomials, optimum: OrderOptimum, most: int, tuning: Tuning
) -> list[tuple[Row, ...]]:
    """Return whole tiles [node][dim] near an optimum's that fit, on a machine without fan-outs, the cheapest first."""
    places: list[list[int]] = []  # [node][dim], the number of a tile: nodes with nearly the same share one
    sizes: list[Row] = []
    for node, tile in enumerate(optimum.tiles):
        row: list[int] = []
        for d, extent in enumerate(problem.extents):
            if node and optimum.tiles[node - 1][d] <= tile[d] * tuning.same_tile_ratio:
                row.append(places[-1][d])
                continue
            row.append(len(sizes))
            sizes.append(tiles_near(extent, tile[d]))
        places.append(row)
    while prod(len(one) for one in sizes) > MOST_ROUNDED:
        longest = max(range(len(sizes)), key=lambda i: (len(sizes[i]), i))
        sizes[longest] = sizes[longest][:-1]
    grid = np.array(list(product(*sizes)), dtype=np.int64).reshape(-1, len(sizes))
    tiles = grid[:, np.array(places, dtype=np.intp).reshape(-1, len(problem.dims))]  # [choice, node, dim]
    cost, used = _costs_and_uses(problem, orders, optimum.number, tiles)
    fits = np.flatnonzero((tiles[:, 1:] <= tiles[:, :-1]).all(axis=(1, 2)) & (used <= 1 + ROUNDING))
    best = fits[np.argsort(cost[fits], kind="stable")][:most]
    return [tuple(tuple(row) for row in tiles[k].tolist()) for k in best]


def _costs_and_uses(
    problem: Problem, orders: OrderMonomials, number: int, tiles: NDArray[np.int64]
) -> tuple[FloatArray, FloatArray]:
    """Return per choice of tiles [choice, node, dim] about what an order costs, and the share of the fullest level."""
    dims, variables = list(orders.variables.dims), orders.variables
    extents = np.array(problem.extents, dtype=np.int64)
    shares = extents / -(-extents // tiles)  # indices per visit
    logs = np.zeros((2, len(tiles), variables.count))
    for at, sizes in enumerate((shares, tiles)):
        logs[at, :, : tiles.shape[1] * len(dims)] = np.log(sizes[:, :, dims]).reshape(len(tiles), -1)
    cost = np.exp(orders.log_costs[number] + logs[0] @ orders.costs[number].T).sum(axis=1)
    uses = np.einsum("rjn,kn->krj", orders.uses[number], logs[1])
    used = np.exp(orders.log_uses[number] + uses).sum(axis=2).max(axis=1, initial=0.0)
    return cost, used


def tiles_near(extent: int, tile: float) -> tuple[int, ...]:
    """Return whole tiles near a real one: equal shares of the extent, and the next ones."""
    visits = extent / max(1.0, min(tile, float(extent)))
    shares = {-(-extent // max(1, v)) for v in (floor(visits) - 1, floor(visits), ceil(visits), ceil(visits) + 1)}
    return tuple(sorted(n for n in {*shares, floor(tile), ceil(tile)} if 1 <= n <= extent))


def trip_counts(problem: Problem, region: Region) -> tuple[Row, ...]:
    """Return trip counts per fan-out and dim: the largest of the region, as far as the fan-outs take them."""
    left = [fanout.size for fanout in problem.arch.fanouts]
    found = [[1] * len(problem.dims) for _ in left]
    for one, row in zip(problem.classes, region.factors, strict=True):
        order = sorted(range(len(row)), key=lambda d: (-row[d].least_trips, d))
        goals = [(d, row[d].least_trips) for d in order] + [(d, row[d].most_trips) for d in order]
        for d, goal in goals:
            _add_trips(problem, one.fanouts, d, goal, found, left)
    return tuple(tuple(row) for row in found)


def _add_trips(problem: Problem, fanouts: Row, dim: int, goal: int, found: list[list[int]], left: list[int]) -> None:
    """Give a dim more iterations on some fan-outs, the product at most `goal`, best first."""
    best: tuple[int, Row] | None = None
    choices: list[list[int]] = []
    for f in fanouts:
        fanout = problem.arch.fanouts[f]
        free = fanout.may_spread(problem.dims[dim])
        most = min(goal, left[f] * found[f][dim]) if free else found[f][dim]
        choices.append(list(range(found[f][dim], most + 1)))
    for shares in product(*choices):
        if prod(shares) <= goal and (best is None or prod(shares) > best[0]):
            best = prod(shares), shares
    for f, share in zip(fanouts, best[1] if best else (), strict=False):
        left[f] = left[f] * found[f][dim] // share
        found[f][dim] = share


def _nodes(
    problem: Problem, chain: tuple[ChainNode, ...], tiles: tuple[Row, ...], factors: tuple[Row, ...]
) -> Iterator[MappingNode]:
    """Yield the nodes of the tree; spatial loops stand right above the first node of the levels below them."""
    now = list(problem.extents)
    groups = list(fanout_groups(problem))
    crossed = 0
    for node, tile in zip(chain, tiles, strict=True):
        while crossed < len(groups) and groups[crossed] <= node.level:
            inside = _tile_below(problem, node.unit, crossed, tile, factors)
            yield from _group_loops(problem, groups[crossed], now, inside, factors)
            crossed += 1
        inside = _tile_below(problem, node.unit, crossed, tile, factors)
        yield from _temporal_loops(problem, now, inside, problem.terms[node.tensor].dims)
        yield Storage(problem.arch.levels[node.level].name, (problem.terms[node.tensor].tensor.name,))
    while crossed < len(groups):
        yield from _group_loops(problem, groups[crossed], now, [1] * len(now), factors)
        crossed += 1
    yield from _temporal_loops(problem, now, [1] * len(now), frozenset())
    yield Compute(problem.workload.statements[0].name)


def _tile_below(problem: Problem, unit: int, crossed: int, tile: Row, factors: tuple[Row, ...]) -> list[int]:
    """Return a tile of `unit` as seen below `crossed` groups of fan-outs."""
    groups = fanout_groups(problem)
    found: list[int] = []
    for d, size in enumerate(tile):
        trips = prod(factors[f][d] for one in problem.classes if one.below in groups[unit:crossed] for f in one.fanouts)
        back = prod(factors[f][d] for one in problem.classes if one.below in groups[crossed:unit] for f in one.fanouts)
        found.append(max(1, -(-size * back // trips)))
    return found


def _temporal_loops(problem: Problem, now: list[int], tile: list[int], own: frozenset[str]) -> Iterator[MappingNode]:
    """Yield temporal loops down to a tile: those over dims of the tensor outside, the others inside."""
    order = sorted(range(len(now)), key=lambda d: problem.dims[d] not in own)
    for d in order:
        if tile[d] < now[d]:
            now[d] = tile[d]
            yield Temporal(problem.dims[d], tile[d])


def _group_loops(
    problem: Problem, below: int, now: list[int], inside: list[int], factors: tuple[Row, ...]
) -> Iterator[MappingNode]:
    """Yield the temporal loops down to what the siblings take together, then the spatial loops."""
    fanouts = [f for one in problem.classes if one.below == below for f in one.fanouts]
    whole = [min(now[d], inside[d] * prod(factors[f][d] for f in fanouts)) for d in range(len(now))]
    yield from _temporal_loops(problem, now, whole, frozenset())
    for f in fanouts:
        for d in range(len(now)):
            if factors[f][d] > 1 and now[d] > 1:
                tile = -(-now[d] // factors[f][d])
                if tile < now[d]:
                    now[d] = tile
                    yield Spatial(problem.dims[d], tile, problem.arch.fanouts[f].name)
