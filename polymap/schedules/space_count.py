"""The number of trees: placements of nodes and groups, times blocks of loops, times chains of tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import comb, factorial, prod

import numpy as np

from polymap.schedules.space_chains import (
    Table,
    TileRule,
    Trips,
    any_table,
    chains,
    dividing_table,
    longest_chain,
    spatial_trips,
)
from polymap.schedules.space_orders import Points, Quadrature, evaluation_points, quadrature
from polymap.schedules.space_placement import Group, Holding, Vector, placements, subsets

_MOST_OPERATIONS = 4_000_000_000


@dataclass(frozen=True, slots=True)
class CountedDim:
    """A dim of extent > 1 and, per fan-out of the machine, how many of its iterations may run there (1: none)."""

    extent: int
    trips: Vector


@dataclass(frozen=True, slots=True)
class Space:
    """What is counted. sizes: per fan-out of the machine the largest product of trip counts; None: no limit at all."""

    rule: TileRule
    dims: tuple[CountedDim, ...]
    holdings: tuple[Holding, ...]
    groups: tuple[Group, ...]
    sizes: Vector | None

    def fanouts(self, groups: Sequence[int]) -> Vector:
        """Return the positions, among all fan-outs of the machine, of those in these groups."""
        first = [sum(len(group.fanouts) for group in self.groups[:g]) for g in range(len(self.groups))]
        return tuple(first[g] + i for g in groups for i in range(len(self.groups[g].fanouts)))


@dataclass(frozen=True, slots=True)
class _Family:
    """Trees whose units (used groups, in the order in which they stand) share blocks as `parts` says."""

    units: Vector
    parts: Vector
    blocks: dict[Vector, int]
    orders: int

    @property
    def most_blocks(self) -> int:
        return max(sum(vector) for vector in self.blocks)


def count_trees(space: Space) -> int | None:
    """Return the exact number of trees, or None where it would take too many operations."""
    families = [f for used in subsets(range(len(space.groups))) for f in _families(space, used) if f.blocks]
    if sum(_operations(space, family) for family in families) > _MOST_OPERATIONS:
        return None
    bound = 2 * sum(_bound(space, family) for family in families) + 1
    total, modulus, number = 0, 1, 0
    while modulus < bound:
        rule = quadrature(len(space.dims), number)
        residue = sum(_count_family(space, family, rule) for family in families) % rule.prime
        total += modulus * ((residue - total) * pow(modulus, -1, rule.prime) % rule.prime)
        modulus *= rule.prime
        number += 1
    return total


def _positions_matter(space: Space) -> bool:
    """Return whether the number of chains depends on where among the temporal loops the spatial ones stand."""
    return space.rule is TileRule.ANY and space.sizes is not None


def _families(space: Space, used: Vector) -> Iterator[_Family]:
    for layout, blocks in placements(space.holdings, space.groups, used).items():
        sizes = tuple(len(part) for part in layout.parts)
        if _positions_matter(space):
            for order in product(*(permutations(part) for part in layout.parts)):
                yield _Family(tuple(g for part in order for g in part), sizes, blocks, 1)
        else:
            yield _Family(used, sizes, _joined(blocks), prod(factorial(size) for size in sizes))


def _joined(blocks: dict[Vector, int]) -> dict[Vector, int]:
    """Return the weights by the number of blocks in all regions together."""
    totals: dict[Vector, int] = {}
    for vector, weight in blocks.items():
        totals[(sum(vector),)] = totals.get((sum(vector),), 0) + weight
    return {vector: weight for vector, weight in totals.items() if weight}


def _axes(space: Space, family: _Family) -> tuple[Vector, tuple[Vector, ...]]:
    """Return the coefficient axis of each region, and of the pieces of each block that holds units."""
    if not _positions_matter(space):
        return (0,), tuple((0,) * (size + 1) for size in family.parts)
    regions, pieces, units = [0], list[Vector](), 0
    for size in family.parts:
        pieces.append(tuple(range(units, units + size + 1)))
        units += size
        regions.append(units)
    return tuple(regions), tuple(pieces)


def _longest(space: Space, family: _Family) -> Vector:
    """Return the most temporal loops of one dim per axis."""
    regions, pieces = _axes(space, family)
    longest = [0] * (len(family.units) + 1 if _positions_matter(space) else 1)
    for i, axis in enumerate(regions):
        longest[axis] += max(vector[i] for vector in family.blocks)
    for axes in pieces:
        for axis in set(axes):
            longest[axis] += 1
    chain = max((longest_chain(space.rule, dim.extent) for dim in space.dims), default=0)
    return tuple(min(most, chain) for most in longest)


def _operations(space: Space, family: _Family) -> int:
    """Return about how many operations one prime takes."""
    nodes = max(1, (len(space.dims) + 1) // 2)
    regions = len(_axes(space, family)[0])
    points = comb(family.most_blocks + nodes * regions, nodes * regions)
    for size in family.parts:
        points *= (nodes + 1) ** (size + 1) if _positions_matter(space) else (nodes + 1) * (size + 1) * 2
    coefficients = prod(most + 1 for most in _longest(space, family))
    if space.sizes is None:
        return points * coefficients * max(1, len(space.dims))
    trips = [len(_trips(space, family.units, dim)) for dim in space.dims]
    table = sum(t * dim.extent * coefficients for t, dim in zip(trips, space.dims, strict=True))
    return points * coefficients * sum(trips) // 8 + (table if _positions_matter(space) else 0)


def _bound(space: Space, family: _Family) -> int:
    """Return a number that the family's trees, signs aside, do not exceed.

    n! is at most ((n + 1) / 2)^n, and q units stand among n loops in at most (n + q)^q ways.
    """
    count = len(space.dims)
    base = (count + 2) // 2
    fanouts = len(space.fanouts(family.units))
    total = 0
    for vector, weight in family.blocks.items():
        blocks = sum(vector) + len(family.parts)
        ways = prod(
            sum(
                comb(fanouts, spatial) * comb(blocks, k) * base**k * chains(space.rule, dim.extent, k + spatial)
                for k in range(blocks + 1)
                for spatial in range(fanouts + 1)
            )
            for dim in space.dims
        )
        total += abs(weight) * ways
    return total * (count + len(family.units) + 1) ** len(family.units) * family.orders * 2 ** len(family.units)


def _count_family(space: Space, family: _Family, rule: Quadrature) -> int:
    """Return the number of trees of the family modulo the rule's prime."""
    regions, pieces = _axes(space, family)
    longest = _longest(space, family)
    points = evaluation_points(rule, family.blocks, regions, pieces, longest)
    tables = [_dim_table(space, family, dim, longest, rule.prime) for dim in space.dims]
    total = 0
    for allowed in subsets(family.units):
        sign = (-1) ** (len(family.units) - len(allowed))
        total += sign * _mean_product(space, family, points, tables, allowed, rule.prime)
    return total * family.orders % rule.prime


def _trips(space: Space, units: Vector, dim: CountedDim) -> list[Trips]:
    """Return the trip counts that the dim may have over the fan-outs of the units."""
    return list(spatial_trips(space.rule, dim.extent, [dim.trips[fanout] for fanout in space.fanouts(units)]))


@dataclass(frozen=True, slots=True)
class _DimTable:
    """values[coefficient, trips]: chains. Without limits on the fan-outs trips say 1 (no loop) or 2 (one) per fan-out."""

    trips: Sequence[Trips]
    values: Table


def _dim_table(space: Space, family: _Family, dim: CountedDim, longest: Vector, prime: int) -> _DimTable:
    if space.sizes is None:
        loops = list(product((1, 2), repeat=len(space.fanouts(family.units))))
        spatial = [sum(t == 2 for t in trips) for trips in loops]
        counts = [[chains(space.rule, dim.extent, k + s) % prime for s in spatial] for k in range(longest[0] + 1)]
        return _DimTable(loops, np.array(counts, dtype=np.int64))
    trips = _trips(space, family.units, dim)
    if not _positions_matter(space):
        return _DimTable(trips, dividing_table(dim.extent, trips, longest[0], prime))
    units: list[range] = []
    first = 0
    for unit in family.units:
        units.append(range(first, first + len(space.groups[unit].fanouts)))
        first += len(space.groups[unit].fanouts)
    values = any_table(dim.extent, units, trips, longest, prime).reshape(-1, len(trips))
    kept = np.flatnonzero(values.any(axis=0))
    return _DimTable([trips[i] for i in kept], values[:, kept])


def _mean_product(
    space: Space, family: _Family, points: Points, tables: Sequence[_DimTable], allowed: Vector, prime: int
) -> int:
    """Return the mean of the product over dims, spatial loops only over fan-outs of the allowed units."""
    usable = set(space.fanouts(allowed))
    positions = space.fanouts(family.units)
    start: Vector = ()
    if space.sizes is not None:
        start = tuple(space.sizes[f] if f in usable else 1 for f in positions)
    states = {start: points.weights}
    for table in tables:
        columns = [
            c
            for c, trips in enumerate(table.trips)
            if all(t == 1 or f in usable for t, f in zip(trips, positions, strict=True))
        ]
        ways = _matrix_product(points.coefficients, table.values[:, columns], prime)
        states = _spread_over_fanouts(states, [table.trips[c] for c in columns], ways, prime, last=table is tables[-1])
    return sum(int(values.sum()) for values in states.values()) % prime


def _matrix_product(left: Table, right: Table, prime: int) -> Table:
    """Return left @ right modulo prime; sums stay below 2^53, where float64 is exact."""
    assert left.shape[1] < 2**19
    product_ = left.astype(np.float64) @ right.astype(np.float64)
    return np.ascontiguousarray((product_.astype(np.int64) % prime).T)


def _spread_over_fanouts(
    states: dict[Vector, Table], trips: Sequence[Trips], ways: Table, prime: int, *, last: bool
) -> dict[Vector, Table]:
    """Return remaining size per fan-out -> value per point, after one more dim took its share of the fan-outs."""
    totals: dict[Vector, Table] = {}
    for remaining, values in states.items():
        sums: dict[Vector, Table] = {}
        for count, column in zip(trips, ways, strict=True):
            if any(t > size for t, size in zip(count, remaining, strict=False)):
                continue
            rest = () if last else tuple(size // t for size, t in zip(remaining, count, strict=False))
            known = sums.get(rest)
            sums[rest] = column if known is None else known + column
        for rest, column in sums.items():
            share = column * values if len(trips) < 2**12 else column % prime * values
            known = totals.get(rest)
            totals[rest] = share if known is None else known + share
    return {rest: values % prime for rest, values in totals.items()}
