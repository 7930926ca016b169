"""Loop trees near the optimum of a geometric program: integer spatial factors and tiles, and the nodes around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import ceil, floor, log, prod

import numpy as np
from numpy.typing import NDArray

from polymap.ir import Compute, Mapping, MappingNode, Storage
from polymap.poly import FloatArray
from polymap.search.any_size.node_orders import OrderMonomials
from polymap.search.any_size.tuning import TUNING
from polymap.search.problem import Problem
from polymap.search.trees import LoopsInward, shares_of

ROUNDING = 1e-9  # of a level's share

Row = tuple[int, ...]  # per dim
Trips = tuple[Row, ...]  # iterations of spatial loops per fan-out and dim


@dataclass(frozen=True, slots=True)
class OrderOptimum:
    """A point near the optimum of an order of nodes. tiles: real, per node, of all siblings together. factors: real
    [class][dim]."""

    number: int
    tiles: tuple[tuple[float, ...], ...]
    factors: tuple[tuple[float, ...], ...]


def trees_near(problem: Problem, orders: OrderMonomials, optimum: OrderOptimum) -> Iterator[Mapping]:
    """Yield loop trees near an optimum: for the nearest integer factors, the cheapest integer tiles that should fit."""
    nodes = orders.nodes[optimum.number]
    for trips in _trips_near(problem, optimum):
        for tiles in _tiles_near(problem, orders, optimum, trips):
            yield Mapping(tuple(_tree(problem, nodes, tiles, trips)))


def _trips_near(problem: Problem, optimum: OrderOptimum) -> list[Trips]:
    """Return trip counts near an optimum's factors that the fan-outs allow, the nearest first."""
    low, high = 1 - TUNING.factor_spread, 1 + TUNING.factor_spread
    choices: list[list[tuple[float, Row, dict[int, Row]]]] = []
    for one, row in zip(problem.classes, optimum.factors, strict=True):
        near = _nearest_numbers([[n for n in range(floor(c * low), ceil(c * high) + 1) if n >= 1] for c in row], row)
        far = sorted((sum(abs(log(n / c)) for n, c in zip(trips, row, strict=True)), trips) for trips in product(*near))
        shared = ((distance, trips, _shares(problem, one.fanouts, trips)) for distance, trips in far)
        choices.append(list(islice(((d, t, s) for d, t, s in shared if s is not None), TUNING.factors_listed)))
    plans = sorted(
        (sum(d for d, _, _ in plan), tuple(t for _, t, _ in plan), number)
        for number, plan in enumerate(zip(*choices, strict=False))
    )
    found: list[Trips] = []
    for _, _, number in plans[: TUNING.factors_tried]:
        rows = {fanout: row for choice in choices for fanout, row in choice[number][2].items()}
        found.append(tuple(rows[f] for f in range(len(problem.arch.fanouts))))
    return found if problem.classes else [()]


def _nearest_numbers(near: list[list[int]], row: Sequence[float]) -> list[list[int]]:
    """Return numbers near those of a row, of which there are at most `most_rounded` choices: the farthest ones of the
    longest lists go."""
    near = list(near)
    while prod(map(len, near)) > TUNING.most_rounded:
        place = max(range(len(near)), key=lambda at: len(near[at]))
        farthest = max(near[place], key=lambda n: abs(log(n / row[place])))
        near[place] = [n for n in near[place] if n != farthest]
    return near


def _shares(problem: Problem, fanouts: Sequence[int], trips: Row) -> dict[int, Row] | None:
    """Return trip counts per fan-out of a class with these products; None where there are none."""
    wanted = {dim: many for dim, many in zip(problem.dims, trips, strict=True) if many > 1}
    shares = shares_of([problem.arch.fanouts[f] for f in fanouts], wanted)
    if shares is None or any(prod(one.get(dim, 1) for one in shares) != many for dim, many in wanted.items()):
        return None
    return {f: tuple(one.get(dim, 1) for dim in problem.dims) for f, one in zip(fanouts, shares, strict=True)}


def _tiles_near(problem: Problem, orders: OrderMonomials, optimum: OrderOptimum, trips: Trips) -> list[tuple[Row, ...]]:
    """Return integer tiles of one instance [node][dim] near an optimum's that fit, approximately the cheapest first."""
    outside = _outside(problem, [level for _, level in orders.nodes[optimum.number]], trips)
    places: list[list[int]] = []  # [node][dim], the number of a tile: nodes with nearly the same share one
    sizes: list[Row] = []
    for node, tile in enumerate(optimum.tiles):
        row: list[int] = []
        for d, extent in enumerate(problem.extents):
            alike = node and optimum.tiles[node - 1][d] <= tile[d] * TUNING.same_tile_ratio
            if alike and outside[node][d] == outside[node - 1][d]:
                row.append(places[-1][d])
                continue
            row.append(len(sizes))
            sizes.append(_sizes_near(-(-extent // outside[node][d]), tile[d] / outside[node][d]))
        places.append(row)
    while prod(len(one) for one in sizes) > TUNING.most_rounded:
        longest = max(range(len(sizes)), key=lambda i: (len(sizes[i]), i))
        sizes[longest] = sizes[longest][:-1]
    choices = list(product(*sizes))
    grid = np.array(choices, dtype=np.int64).reshape(len(choices), len(sizes))
    tiles = grid[:, np.array(places, dtype=np.intp).reshape(-1, len(problem.dims))]  # [choice, node, dim]
    around = np.array(outside, dtype=np.int64).reshape(-1, len(problem.dims))
    cost, used = _costs_and_uses(problem, orders, optimum.number, tiles, around, trips)
    whole = tiles * around
    nested = (whole[:, 1:] < whole[:, :-1] + around[1:]).all(axis=(1, 2))
    fits = np.flatnonzero(nested & (used <= 1 + ROUNDING))
    best = fits[np.argsort(cost[fits], kind="stable")][: TUNING.rounded_tiles]
    return [tuple(tuple(row) for row in tiles[k].tolist()) for k in best]


def _outside(problem: Problem, levels: Sequence[int], trips: Trips) -> list[Row]:
    """Return, per node and dim, the iterations of the spatial loops around it."""
    classes = problem.classes
    return [
        tuple(
            prod(trips[f][d] for one in classes if one.below <= level for f in one.fanouts)
            for d in range(len(problem.dims))
        )
        for level in levels
    ]


def _costs_and_uses(
    problem: Problem,
    orders: OrderMonomials,
    number: int,
    tiles: NDArray[np.int64],
    outside: NDArray[np.int64],
    trips: Trips,
) -> tuple[FloatArray, FloatArray]:
    """Return, per choice of tiles [choice, node, dim], approximately an order's cost, and the share of the fullest
    level."""
    dims, variables = list(orders.variables.dims), orders.variables
    whole = np.minimum(tiles * outside, np.array(problem.extents, dtype=np.int64))
    extents = np.array(problem.extents, dtype=np.int64)
    shares = extents / -(-extents // whole)  # indices per visit
    logs = np.zeros((2, len(tiles), variables.count))
    for at, sizes in enumerate((shares, tiles * outside)):
        logs[at, :, : tiles.shape[1] * len(dims)] = np.log(sizes[:, :, dims]).reshape(len(tiles), -1)
    for place, (one, d) in enumerate(variables.factors):
        logs[:, :, variables.inner + place] = log(prod(trips[f][d] for f in problem.classes[one].fanouts))
    cost = np.exp(orders.log_costs[number] + logs[0] @ orders.costs[number].T).sum(axis=1)
    uses = np.einsum("rjn,kn->krj", orders.uses[number], logs[1])
    used = np.exp(orders.log_uses[number] + uses).sum(axis=2).max(axis=1, initial=0.0)
    return cost, used


def _sizes_near(extent: int, tile: float) -> Row:
    """Return integer tiles near a real one: equal shares of the extent, and their neighbours."""
    visits = extent / max(1.0, min(tile, float(extent)))
    shares = {-(-extent // max(1, v)) for v in (floor(visits) - 1, floor(visits), ceil(visits), ceil(visits) + 1)}
    near = {min(extent, max(1, n)) for n in (floor(tile), ceil(tile))}
    return tuple(sorted({n for n in shares if 1 <= n <= extent} | near))


def _tree(
    problem: Problem, nodes: Sequence[tuple[int, int]], tiles: Sequence[Row], trips: Trips
) -> Iterator[MappingNode]:
    """Yield the nodes of the tree.

    Spatial loops are right above the first node of the levels below them. Temporal loops over dims of the next node's
    tensor are outside the others.
    """
    loops = LoopsInward(dict(zip(problem.dims, problem.extents, strict=True)))
    groups = sorted({one.below for one in problem.classes})
    innermost = (1,) * len(problem.dims)
    for (tensor, level), tile in zip(nodes, tiles, strict=True):
        while groups and groups[0] <= level:
            yield from _group_loops(
                problem, groups.pop(0), loops, _whole_tile(problem, level, groups, tile, trips), trips
            )
        own = problem.terms[tensor].dims
        inward = sorted(problem.dims, key=lambda dim: dim not in own)
        yield from loops.temporal(dict(zip(problem.dims, tile, strict=True)), inward)
        yield Storage(problem.arch.levels[level].name, (problem.terms[tensor].tensor.name,))
    while groups:
        yield from _group_loops(problem, groups.pop(0), loops, innermost, trips)
    yield from loops.temporal(dict(zip(problem.dims, innermost, strict=True)), problem.dims)
    yield Compute(problem.workload.statements[0].name)


def _whole_tile(problem: Problem, level: int, groups: Sequence[int], tile: Row, trips: Trips) -> Row:
    """Return a node's tile times the part of the siblings below groups of fan-outs that come later."""
    later = [f for one in problem.classes if one.below in groups and one.below <= level for f in one.fanouts]
    return tuple(size * prod(trips[f][d] for f in later) for d, size in enumerate(tile))


def _group_loops(problem: Problem, below: int, loops: LoopsInward, inside: Row, trips: Trips) -> Iterator[MappingNode]:
    """Yield the temporal loops down to the siblings' joint tile, then the spatial loops."""
    fanouts = [f for one in problem.classes if one.below == below for f in one.fanouts]
    whole = {dim: inside[d] * prod(trips[f][d] for f in fanouts) for d, dim in enumerate(problem.dims)}
    yield from loops.temporal(whole, problem.dims)
    for f in fanouts:
        yield from loops.spatial(problem.arch.fanouts[f].name, dict(zip(problem.dims, trips[f], strict=True)))
