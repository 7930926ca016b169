"""The number of trees: placements of nodes and groups, times blocks of loops, times chains of tiles.

The room left in a fan-out after some dims is its size divided by their trip counts, rounded down; few values occur.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, permutations, product
from math import comb, factorial, prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from polymap.poly import split
from polymap.resources import never
from polymap.schedules.chains import (
    Spread,
    Table,
    TileRule,
    Trips,
    any_table,
    chains,
    dividing_table,
    longest_chain,
    residue_product,
    residues,
    spreads,
    unlimited_table,
)
from polymap.schedules.orders import Quadrature, UnitBlock, evaluation_points, rules
from polymap.schedules.placement import (
    Group,
    Holding,
    Vector,
    fanouts_of,
    has_few_orders,
    placements,
    spatial_orders,
    subsets,
)
from polymap.schedules.tuning import TUNING


@dataclass(frozen=True, slots=True)
class CountedDim:
    """A dim of extent > 1 and, per fan-out of the machine, how many of its iterations may run there (1: none) and what
    tells it from others, where the order of loops over the dim counts."""

    extent: int
    trips: Vector
    kinds: Vector


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
        return tuple(fanout for own in fanouts_of(self.groups, groups) for fanout in own)

    def orders(self, dim: CountedDim, groups: Sequence[int]) -> list[Trips]:
        """Return the orders of a dim's spatial loops over these groups."""
        return list(spatial_orders(self.groups, groups, dim.kinds))


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


def count_trees(space: Space, stop: Callable[[], bool] = never) -> int | None:
    """Return the exact number of trees, or None where it would take too many operations, or `stop` ends it."""
    if space.rule is TileRule.DIVIDE and not all(split(dim.extent)[1] for dim in space.dims):
        return None  # the divisors of an extent are not known
    if not all(has_few_orders(space.groups, dim.kinds) for dim in space.dims):
        return None
    try:
        return _counted(space, stop)
    except Stopped:
        return None


def _counted(space: Space, stop: Callable[[], bool]) -> int | None:
    groups = unless(stop, subsets(range(len(space.groups))))
    families = [family for used in groups for family in unless(stop, _families(space, used)) if family.blocks]
    bound = 2 * sum(_bound(space, family) for family in families) + 1
    found = [_work(space, family, stop) for family in unless(stop, families)]
    work = [part for part in found if part is not None]
    if (
        len(work) < len(found)
        or sum(part.operations for part in work) * (bound.bit_length() // 16 + 1) > TUNING.most_operations
    ):
        return None
    total, modulus = 0, 1
    if not families:
        return 0
    for rule in unless(stop, rules(_degree(space, families))):
        if rule is None:
            continue
        residue = sum(_count_family(space, part, rule) for part in unless(stop, work)) % rule.prime
        total += modulus * ((residue - total) * pow(modulus, -1, rule.prime) % rule.prime)
        modulus *= rule.prime
        if modulus >= bound:
            return total
    return None


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


def _axes(space: Space, family: _Family) -> tuple[Vector, tuple[UnitBlock, ...]]:
    """Return the coefficient axis of each region, and the blocks that hold units."""
    if not _positions_matter(space):
        return (0,), tuple(UnitBlock(size, (0,)) for size in family.parts)
    regions, parts, units = [0], list[UnitBlock](), 0
    for size in family.parts:
        parts.append(UnitBlock(size, tuple(range(units, units + size + 1))))
        units += size
        regions.append(units)
    return tuple(regions), tuple(parts)


def _degree(space: Space, families: Sequence[_Family]) -> int:
    """Return the degree of the polynomials whose mean is taken: the loops of a block, and units anywhere among them."""
    units = 0 if _positions_matter(space) else max((size for family in families for size in family.parts), default=0)
    return len(space.dims) + units


def _longest(space: Space, family: _Family) -> Vector:
    """Return the most temporal loops of one dim per axis."""
    regions, parts = _axes(space, family)
    longest = [0] * (len(family.units) + 1 if _positions_matter(space) else 1)
    for i, axis in enumerate(regions):
        longest[axis] += max(vector[i] for vector in family.blocks)
    for part in parts:
        for axis in part.axes:
            longest[axis] += 1
    chain = max((longest_chain(space.rule, dim.extent) for dim in space.dims), default=0)
    return tuple(min(most, chain) for most in longest)


def _bound(space: Space, family: _Family) -> int:
    """Return a number that the family's trees, signs aside, do not exceed.

    n! is at most ((n + 1) / 2)^n, and q units stand among n loops in at most (n + q)^q ways.
    """
    count = len(space.dims)
    base = (count + 2) // 2
    loops = [Counter(len(order) for order in space.orders(dim, family.units)) for dim in space.dims]
    total = 0
    for vector, weight in family.blocks.items():
        blocks = sum(vector) + len(family.parts)
        ways = prod(
            sum(
                ways * comb(blocks, k) * base**k * chains(space.rule, dim.extent, k + spatial)
                for k in range(blocks + 1)
                for spatial, ways in own.items()
            )
            for dim, own in zip(space.dims, loops, strict=True)
        )
        total += abs(weight) * ways
    return total * (count + len(family.units) + 1) ** len(family.units) * family.orders * 2 ** len(family.units)


@dataclass(frozen=True, slots=True)
class _Work:
    """A family with all that does not depend on the prime.

    trips: per dim what it may take of the fan-outs of the units. subsets: groups that may be used (the others are
    taken away again, since each unit must have a loop), with the steps over the dims.
    """

    family: _Family
    longest: Vector
    trips: list[list[Spread]]
    subsets: list[tuple[Vector, list[Share]]]
    operations: int


def _work(space: Space, family: _Family, stop: Callable[[], bool]) -> _Work | None:
    longest = _longest(space, family)
    fanouts = space.fanouts(family.units)
    trips: list[list[Spread]] = []
    for dim in space.dims:
        limits = [dim.trips[fanout] for fanout in fanouts]
        choices = iter([Spread((), ())])
        if space.sizes is not None:
            choices = spreads(space.rule, dim.extent, limits, space.orders(dim, family.units))
        trips.append(sorted(islice(unless(stop, choices), TUNING.most_trips + 1)))
        if len(trips[-1]) > TUNING.most_trips:
            return None
    steps: list[tuple[Vector, list[Share]]] = []
    for allowed in subsets(family.units):
        usable = set(space.fanouts(allowed))
        sizes = () if space.sizes is None else tuple(space.sizes[f] if f in usable else 1 for f in fanouts)
        shares = shares_of([[own.trips for own in each] for each in trips], sizes, stop)
        if shares is None:
            return None
        steps.append((allowed, shares))
    if _table_entries(space, longest, trips) > TUNING.most_entries:
        return None
    return _Work(family, longest, trips, steps, _operations(space, family, longest, trips, steps))


def _table_entries(space: Space, longest: Vector, trips: list[list[Spread]]) -> int:
    """Return how many entries the tables of chains have, of one prime."""
    if not _positions_matter(space) or not any(trips) or trips[0][0].trips == ():
        return 0
    coefficients = prod(most + 1 for most in longest)
    return sum(len(t) * dim.extent * coefficients for t, dim in zip(trips, space.dims, strict=True))


def _operations(
    space: Space,
    family: _Family,
    longest: Vector,
    trips: list[list[Spread]],
    steps: list[tuple[Vector, list[Share]]],
) -> int:
    """Return about how many operations one prime takes."""
    nodes = max(1, (_degree(space, [family]) + 1) // 2)
    regions = len(_axes(space, family)[0])
    points = comb(family.most_blocks + nodes * regions, nodes * regions)
    for size in family.parts:
        points *= (nodes + 1) ** (size + 1) if _positions_matter(space) else nodes
    coefficients = prod(most + 1 for most in longest)
    pairs = evaluated = 0
    for _, shares in steps:
        for share, choices in zip(shares, trips, strict=True):
            pairs += len(share.sources)
            evaluated += min(len(share.sources), 2 * len(choices))
    tables = _table_entries(space, longest, trips)
    return points * (coefficients + evaluated * (4 + coefficients // 8) + pairs) + tables


def _count_family(space: Space, work: _Work, rule: Quadrature) -> int:
    """Return the number of trees of the family modulo the rule's prime."""
    family = work.family
    regions, parts = _axes(space, family)
    points = evaluation_points(rule, family.blocks, regions, parts, work.longest)
    coefficients = np.ascontiguousarray(points.coefficients.T.astype(np.float64))
    total = 0
    tables: dict[CountedDim, Table] = {}
    for allowed, shares in work.subsets:
        if space.sizes is None:
            tables = {}
        for dim, trips in zip(space.dims, work.trips, strict=True):
            if dim not in tables:
                tables[dim] = _table(space, work, allowed, dim, trips, rule.prime)
        of_dims = [tables[dim] for dim in space.dims]
        sign = (-1) ** (len(family.units) - len(allowed))
        total += sign * shared_product(shares, points.weights, coefficients, of_dims, rule.prime)
    return total * family.orders % rule.prime


def _table(space: Space, work: _Work, allowed: Vector, dim: CountedDim, trips: list[Spread], prime: int) -> Table:
    """Return [coefficient, trips] -> chains of one dim, modulo prime."""
    if space.sizes is None:
        return unlimited_table(space.rule, dim.extent, space.orders(dim, allowed), work.longest[0], prime)
    if not _positions_matter(space):
        return dividing_table(dim.extent, [own.trips for own in trips], work.longest[0], prime)
    units = [len(space.groups[unit].fanouts) for unit in work.family.units]
    standing = [tuple(own.trips[fanout] for fanout in own.stands) for own in trips]
    return any_table(dim.extent, units, standing, work.longest, prime).reshape(-1, len(trips))


Item = TypeVar("Item")
_MIXED = 0x9E3779B97F4A7C15 - 2**64  # an odd number whose powers mix columns; they wrap at 64 bits


@dataclass(frozen=True, slots=True)
class Share:
    """One dim's step: pair i leads from state sources[i] to targets[i] by its part of the trip counts in `columns`.

    starts: where each pair's part begins. states: how many states there are afterwards.
    """

    columns: NDArray[np.intp]
    starts: NDArray[np.intp]
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    states: int


class Stopped(Exception):
    """The caller does not wait any longer."""


def unless(stop: Callable[[], bool], items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items, until the caller says stop: then raise Stopped."""
    for item in items:
        if stop():
            raise Stopped
        yield item


def shares_of(trips: Sequence[Sequence[Trips]], sizes: Trips, stop: Callable[[], bool]) -> list[Share] | None:
    """Return the steps over all dims: trips[dim] lists what it may take of the fan-outs of these sizes.

    None if there are too many. Raises Stopped.
    """
    shares: list[Share] = []
    tried = 0
    states: dict[Trips, int] = {sizes: 0}
    for number, choices in enumerate(trips):
        pairs: dict[tuple[int, Trips], list[int]] = {}
        tried += len(states) * len(choices)
        if tried > TUNING.most_shares:
            return None
        for left, source in unless(stop, states.items()):
            for column, counts in enumerate(choices):
                if all(count <= size for count, size in zip(counts, left, strict=True)):
                    after = tuple(size // count for count, size in zip(counts, left, strict=True))
                    pairs.setdefault((source, () if number == len(trips) - 1 else after), []).append(column)
        states = {}
        for _, after in pairs:
            states.setdefault(after, len(states))
        lengths = [len(columns) for columns in pairs.values()]
        shares.append(
            Share(
                np.array([column for columns in pairs.values() for column in columns], dtype=np.intp),
                np.cumsum([0, *lengths[:-1]]),
                tuple(source for source, _ in pairs),
                tuple(states[after] for _, after in pairs),
                len(states),
            )
        )
    return shares


def shared_product(
    shares: Sequence[Share], weights: Table, coefficients: NDArray[np.float64], tables: Sequence[Table], prime: int
) -> int:
    """Return the sum over points of weight x product over dims, modulo prime.

    coefficients: [coefficient, point]; tables[dim]: [coefficient, trips]. A dim's factor at a point is the sum over
    coefficients of the two. Sums of products below 2^34 fit int64 in any number that occurs.
    """
    values = weights[None, :]
    for share, table in zip(shares, tables, strict=True):
        values = residues(_shared(share, values, coefficients, table, prime), prime)
    return int(values.sum()) % prime


def _shared(share: Share, values: Table, coefficients: NDArray[np.float64], table: Table, prime: int) -> Table:
    """Return [state afterwards, point]; pairs whose trip counts have equal sums of columns share their evaluation."""
    totals, product = np.zeros((share.states, values.shape[1]), dtype=np.int64), np.empty_like(values[0])
    grouped = np.add.reduceat(table[:, share.columns], share.starts, axis=1) % prime
    mixed = (np.vander([_MIXED], len(grouped)) @ grouped)[0]
    _, like, which = np.unique(mixed, return_index=True, return_inverse=True)
    if (grouped[:, like[which]] != grouped).any():  # two columns are mixed alike
        like = which = np.arange(grouped.shape[1], dtype=np.intp)
    distinct, order = grouped[:, like], np.argsort(which, kind="stable")
    firsts = range(0, len(like), TUNING.shares_at_once)
    parts = np.split(order, np.searchsorted(which[order], firsts)[1:])
    for first, part in zip(firsts, parts, strict=True):
        ways = residue_product(distinct[:, first : first + TUNING.shares_at_once].T, coefficients, prime)
        for i in part.tolist():
            totals[share.targets[i]] += np.multiply(values[share.sources[i]], ways[which[i] - first], out=product)
    return totals
