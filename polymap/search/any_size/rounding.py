"""From the chain that has the least relaxed cost to loop trees: the same dynamic program over single tiles near it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import ceil, floor, prod

from polymap.ir import Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.search.any_size.node_costs import AnyTables
from polymap.search.any_size.regions import FactorRange, Region, groups_of
from polymap.search.any_size.relaxation import Placed
from polymap.search.problem import Problem

Row = tuple[int, ...]
NEIGHBOURS = 8  # tiles that are tried around a cell


def nearby(tables: AnyTables, chain: tuple[Placed, ...], spread: float) -> Region:
    """Return single tiles around those of a relaxed chain, with the most iterations of the region's spatial loops."""
    problem = tables.problem
    factors = trip_counts(tables)
    exact: list[tuple[FactorRange, ...]] = []
    for one in problem.classes:
        trips = [Fraction(prod(factors[f][d] for f in one.fanouts)) for d in range(len(problem.dims))]
        exact.append(tuple(FactorRange(t, t) for t in trips))
    borders: list[tuple[tuple[Fraction, ...], ...]] = []
    for unit in range(len(tables.ends)):
        row: list[tuple[Fraction, ...]] = []
        for d in range(len(problem.dims)):
            wanted = {n.cell[d] for n in chain if n.unit == unit}
            row.append(tuple(_points(tables.ends[unit][d], wanted, spread)))
        borders.append(tuple(row))
    return Region(tuple(exact), tuple(borders), points=True)


def _points(ends: tuple[Fraction, ...], cells: set[int], spread: float) -> list[Fraction]:
    """Return tiles near some cells: the least of some trip counts, and small ones."""
    top = ceil(ends[-1])
    found: set[int] = set()
    for i in sorted(cells):
        low, high = float(ends[max(0, i - 1)]) / spread, float(ends[i]) * spread
        fewest, most = max(1, floor(top / high)), ceil(top / max(low, 1.0))
        stride = max(1, (most - fewest) // NEIGHBOURS)
        found |= {-(-top // n) for n in range(fewest, most + 1, stride)}
        found |= set(range(max(1, floor(low)), min(top, ceil(high), NEIGHBOURS) + 1))
    return [Fraction(n) for n in sorted(found)]


def tree_of_chain(tables: AnyTables, chain: tuple[Placed, ...]) -> Mapping:
    """Return the loop tree of a chain of single tiles."""
    tiles = tuple(tuple(int(tables.ends[n.unit][d][i]) for d, i in enumerate(n.cell)) for n in chain)
    return Mapping(tuple(_nodes(tables.problem, chain, tiles, trip_counts(tables))))


def trip_counts(tables: AnyTables) -> tuple[Row, ...]:
    """Return trip counts per fan-out and dim: the largest of the region, as far as the fan-outs take them."""
    problem = tables.problem
    left = [fanout.size for fanout in problem.arch.fanouts]
    found = [[1] * len(problem.dims) for _ in left]
    for one, row in zip(problem.classes, tables.region.factors, strict=True):
        for wish in ("least", "most"):
            order = sorted(range(len(row)), key=lambda d: (-row[d].least_trips, d))
            for d in order:
                goal = row[d].least_trips if wish == "least" else row[d].most_trips
                _raise(problem, one.fanouts, d, goal, found, left)
    return tuple(tuple(row) for row in found)


def _raise(problem: Problem, fanouts: Row, dim: int, goal: int, found: list[list[int]], left: list[int]) -> None:
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
    problem: Problem, chain: tuple[Placed, ...], tiles: tuple[Row, ...], factors: tuple[Row, ...]
) -> Iterator[MappingNode]:
    """Yield the nodes of the tree; spatial loops stand right above the first node of the levels below them."""
    now = list(problem.extents)
    groups = list(groups_of(problem))
    crossed = 0
    for node, tile in zip(chain, tiles, strict=True):
        while crossed < len(groups) and groups[crossed] <= node.level:
            yield from _spread(
                problem, groups[crossed], now, _inside(problem, node.unit, crossed, tile, factors), factors
            )
            crossed += 1
        wanted = _inside(problem, node.unit, crossed, tile, factors)
        yield from _loops(problem, now, wanted, problem.terms[node.tensor].dims)
        yield Storage(problem.arch.levels[node.level].name, (problem.terms[node.tensor].tensor.name,))
    while crossed < len(groups):
        yield from _spread(problem, groups[crossed], now, [1] * len(now), factors)
        crossed += 1
    yield from _loops(problem, now, [1] * len(now), frozenset())
    yield Compute(problem.workload.statements[0].name)


def _inside(problem: Problem, unit: int, crossed: int, tile: Row, factors: tuple[Row, ...]) -> list[int]:
    """Return a tile of `unit` as seen below `crossed` groups of fan-outs."""
    groups = groups_of(problem)
    found: list[int] = []
    for d, size in enumerate(tile):
        trips = prod(factors[f][d] for one in problem.classes if one.below in groups[unit:crossed] for f in one.fanouts)
        back = prod(factors[f][d] for one in problem.classes if one.below in groups[crossed:unit] for f in one.fanouts)
        found.append(max(1, -(-size * back // trips)))
    return found


def _loops(problem: Problem, now: list[int], wanted: list[int], own: frozenset[str]) -> Iterator[MappingNode]:
    """Yield temporal loops down to a tile: those over dims of the tensor outside, the others inside."""
    order = sorted(range(len(now)), key=lambda d: problem.dims[d] not in own)
    for d in order:
        if wanted[d] < now[d]:
            now[d] = wanted[d]
            yield Temporal(problem.dims[d], wanted[d])


def _spread(
    problem: Problem, below: int, now: list[int], inside: list[int], factors: tuple[Row, ...]
) -> Iterator[MappingNode]:
    """Yield the temporal loops down to what the siblings take together, then the spatial loops."""
    fanouts = [f for one in problem.classes if one.below == below for f in one.fanouts]
    whole = [min(now[d], inside[d] * prod(factors[f][d] for f in fanouts)) for d in range(len(now))]
    yield from _loops(problem, now, whole, frozenset())
    for f in fanouts:
        for d in range(len(now)):
            if factors[f][d] > 1 and now[d] > 1:
                tile = -(-now[d] // factors[f][d])
                if tile < now[d]:
                    now[d] = tile
                    yield Spatial(problem.dims[d], tile, problem.arch.fanouts[f].name)
