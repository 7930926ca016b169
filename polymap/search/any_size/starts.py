"""Where to look for good mappings with tiles of any size: spatial factors, and borders of cells near known tiles."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import ceil, floor, log, prod

from polymap.ir import Mapping, Spatial, Temporal
from polymap.search.any_size.convex import Chain
from polymap.search.any_size.regions import ONE, FactorRange, Region, is_possible, unit_count
from polymap.search.problem import Problem

Factors = tuple[tuple[FactorRange, ...], ...]

MOST_SEEDS = 10
NEAR_TRIPS = 0.25  # of the logarithm
FEW_CHAINS = 6
ALIKE = 1.02  # tiles this close get one set of borders
SMALL = 64  # tiles around which single sizes count
LADDER = (0.8, 1.25, 0.92, 1.08, 0.5, 2.0, 0.96, 1.04, 0.86, 1.16)


def seeds(problem: Problem, best: Mapping | None, chains: Sequence[Chain]) -> list[Factors]:
    """Return spatial factors to begin with: those of the best mapping so far, those near the chains of least cost, then
    every fan-out over one dim, the most parallel first."""
    plans = [] if best is None else [_joined(problem, _trips(problem, best))]
    for chain in chains[:FEW_CHAINS]:
        plans += _rounded(problem, chain)[:3]
    plans += [_joined(problem, plan) for plan in _one_dim_each(problem)]
    known: dict[Factors, None] = {}
    for plan in plans:
        known[_factors(plan)] = None
    return list(known)[:MOST_SEEDS]


def _factors(plan: Sequence[Sequence[int]]) -> Factors:
    """Return factors just below whole trip counts [class][dim]."""
    return tuple(tuple(FactorRange(max(ONE, t - ONE / 4), Fraction(t)) for t in row) for row in plan)


def _joined(problem: Problem, trips: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Return trip counts per class from those per fan-out."""
    each = [
        tuple(min(prod(trips[f][d] for f in one.fanouts), extent) for d, extent in enumerate(problem.extents))
        for one in problem.classes
    ]
    return tuple(each)


def _one_dim_each(problem: Problem) -> list[tuple[tuple[int, ...], ...]]:
    count = len(problem.dims)
    choices: list[list[tuple[int, ...]]] = []
    for fanout in problem.arch.fanouts:
        free = [d for d, dim in enumerate(problem.dims) if fanout.may_spread(dim)]
        trips = [(min(fanout.size, problem.extents[d]), d) for d in free]
        most = sorted((t for t in trips if t[0] > 1), key=lambda t: (-t[0], t[1]))[:4]
        choices.append([tuple(n if d == at else 1 for d in range(count)) for n, at in most] or [(1,) * count])
    plans = [tuple(plan) for plan in product(*choices)]
    return sorted(plans, key=lambda plan: -prod(prod(row) for row in plan))


def _rounded(problem: Problem, chain: Chain) -> list[tuple[tuple[int, ...], ...]]:
    """Return trip counts [class][dim] near a chain's factors that the fan-outs can have, the nearest first."""
    choices: list[list[tuple[float, tuple[int, ...]]]] = []
    for row in chain.factors:
        near = [[n for n in range(floor(c * (1 - NEAR_TRIPS)), ceil(c * (1 + NEAR_TRIPS)) + 1) if n >= 1] for c in row]
        far = [(sum(abs(log(n / c)) for n, c in zip(trips, row, strict=True)), trips) for trips in product(*near)]
        choices.append(sorted(far)[:200])
    found: list[tuple[float, tuple[tuple[int, ...], ...]]] = []
    for plan in zip(*choices, strict=False):
        trips = tuple(row for _, row in plan)
        if is_possible(problem, Region(_factors(trips), ())):
            found.append((sum(distance for distance, _ in plan), trips))
    return [trips for _, trips in sorted(found)]


def _trips(problem: Problem, mapping: Mapping) -> list[list[int]]:
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


def seated(problem: Problem, region: Region, chains: Sequence[Chain], most: int) -> Region:
    """Return the region with cells around the tiles of chains: as many chains, then borders, as keep the cells of each
    unit below `most`.

    A cell that is all the tiles of one number of visits blurs nothing: borders stand at the largest tile of each.
    """
    now = region
    for count, detail in ((1, 0), (1, 1), (3, 1), (3, 2), (8, 2), (8, 3), (20, 4)):
        finer = _around(problem, region, chains[:count], detail)
        if max(prod(len(row) + 2 for row in unit) for unit in finer.borders) > most:
            break
        now = finer
    return now


def _around(problem: Problem, region: Region, chains: Sequence[Chain], detail: int) -> Region:
    borders: list[tuple[tuple[Fraction, ...], ...]] = []
    for unit in range(unit_count(problem)):
        row: list[tuple[Fraction, ...]] = []
        for d, extent in enumerate(problem.extents):
            inner = float(region.used(d, (0, unit), problem, high=True))
            tiles = sorted(tile[d] / inner for chain in chains for tile in chain.tiles)
            apart = [tile for at, tile in enumerate(tiles) if not at or tile > tiles[at - 1] * ALIKE]
            found = set(region.borders[unit][d]).union(*(_ladder(extent, max(1.0, tile), detail) for tile in apart))
            row.append(tuple(sorted(found)))
        borders.append(tuple(row))
    return Region(region.factors, tuple(borders))


def _ladder(extent: int, tile: float, detail: int) -> set[Fraction]:
    """Return borders near a tile: largest tiles of a number of visits, and coarser ones further away."""
    visits, far = round(extent / tile), 1 + detail
    ends = {-(-extent // v) - 1 for v in range(max(1, visits - far + 1), visits + far + 1)}
    ends |= {floor(tile) + n for n in range(-far, far)} if tile < SMALL else set()
    ends |= {round(tile * step) for step in LADDER[: 2 + 2 * detail]}
    return {Fraction(n) for n in ends if 1 < n < extent}


def points_of(problem: Problem, region: Region, chain: Chain, trips: Sequence[Sequence[int]]) -> Region:
    """Return single tiles around those of a chain, for loops with these trips [fan-out][dim]: equal shares of the
    extent, and whole multiples of what the fan-outs cut a tile into."""
    borders: list[tuple[tuple[Fraction, ...], ...]] = []
    exact = tuple(tuple(FactorRange(Fraction(t), Fraction(t)) for t in row) for row in _joined(problem, trips))
    fixed = Region(exact, region.borders)
    units = unit_count(problem)
    for unit in range(units):
        row: list[tuple[Fraction, ...]] = []
        for d, extent in enumerate(problem.extents):
            outside = int(fixed.used(d, (0, unit), problem, high=True))
            inside = int(fixed.used(d, (unit, units - 1), problem, high=True))
            found: set[int] = set()
            for tile in sorted({round(one[d] / outside) for one in chain.tiles}):
                found |= _near(-(-extent // outside), max(1, tile), inside)
            row.append(tuple(Fraction(n) for n in sorted(found)))
        borders.append(tuple(row))
    return Region(exact, tuple(borders), points=True)


def _near(top: int, tile: int, inside: int) -> set[int]:
    """Return tiles near one of at most `top` indices: equal shares, multiples of `inside`, and the next ones."""
    visits, whole = max(1, round(top / tile)), round(tile / inside)
    found = {-(-top // v) for v in range(max(1, visits - 2), visits + 3)}
    found |= {inside * t for t in range(max(1, whole - 2), whole + 2)}
    found |= {tile + n for n in (-1, 0, 1)} if tile < SMALL else set()
    return {n for n in found if 1 <= n <= top}
