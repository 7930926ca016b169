"""Legal canonical trees with dividing tiles, each as likely as any other.

A block with n temporal loops and q groups stands in (n + q)! orders, and n! is the mean of x^n for an exponentially
distributed x: exactly the sum of weight x node^n over the nodes of a Gauss-Laguerre rule (Golub and Welsch, Calculation
of Gauss quadrature rules, 1969), whose weights are positive. So the trees are a mixture: first the used groups, the
number of blocks and a node x per block are drawn by weight; then the dims are independent but for the room in the
fan-outs, which a recurrence over the room left takes into account; a dim with k temporal loops has them in a set of
blocks drawn by the product of its x, with trip counts that are any ordered factorisation; each block's loops stand in
any order. Drawn like that, some inner block may have no loop, or some used group none: such a draw is no tree of the
space and is thrown away, which leaves the others equally likely. Probabilities are float64 (relative error about
1e-13).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement, product
from math import factorial, prod
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymap import ir
from polymap.poly import split
from polymap.schedules.chains import Spread, TileRule, Trips, chains, divisors_up_to, spreads
from polymap.schedules.placement import (
    Vector,
    groups_of,
    has_few_orders,
    holdings_of,
    kinds_of,
    spatial_orders,
    subsets,
)
from polymap.schedules.skeletons import BlockCount, Skeleton, Skeletons
from polymap.schedules.tuning import TUNING

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Booleans = NDArray[np.bool_]


def uniform_trees(workload: ir.Workload, arch: ir.Architecture, seed: int) -> Iterator[ir.Mapping]:
    """Yield legal canonical trees with dividing tiles without end, independent and equally likely.

    Neither capacities nor dependences are looked at. Raises BudgetError for a space without a tree, or one of which
    almost all draws are thrown away. The workload has one statement (`sample_mappings` says so).
    """
    if not all(split(dim.extent)[1] for dim in workload.dims):
        what = f"an extent of '{workload.name}' could not be split into primes, so that its divisors are not known"
        raise ir.BudgetError(ir.Mistake("PM521", what, "Extents whose primes are known can be drawn for."))
    space = _Mixture(workload, arch)
    uniform, rng = np.random.Generator(np.random.PCG64(seed)), Random(seed)
    barren = 0
    while barren < TUNING.most_barren:
        found = list(space.draw(TUNING.batch, uniform, rng)) if space.total else []
        barren = 0 if found else barren + 1
        yield from found
        if not space.total:
            break
    raise ir.BudgetError(
        ir.Mistake(
            "PM521", f"no mapping of '{workload.name}' on '{arch.name}' was drawn", "No tree keeps all the rules."
        )
    )


class _Mixture:
    """The families of draws, one per set of used groups and number of blocks, with their weights."""

    def __init__(self, workload: ir.Workload, arch: ir.Architecture) -> None:
        self._builder = _Builder(workload, arch)
        groups, holdings = groups_of(arch), holdings_of(workload, arch)
        dims = [dim for dim in workload.dims if dim.extent > 1]
        kinds = [kinds_of(workload, arch, dim.name) for dim in dims]
        if not all(has_few_orders(groups, own) for own in kinds):
            what = (
                f"over {TUNING.most_unlike_fanouts} fan-outs of '{arch.name}' stand between two levels and share unlike"
            )
            raise ir.BudgetError(ir.Mistake("PM521", what, "Join fan-outs that share alike into one of their product."))
        self._chains = [_Factors(dim.extent) for dim in dims]
        self._families: list[_Family] = []
        for used in subsets(range(len(groups))):
            skeletons = Skeletons(holdings, groups, used)
            rooms = _Rooms(
                [dim.extent for dim in dims],
                [[f.size if f.may_spread(dim.name) else 1 for g in used for f in groups[g].fanouts] for dim in dims],
                tuple(f.size for g in used for f in groups[g].fanouts),
                tuple(len(groups[g].fanouts) for g in used),
                [[*spatial_orders(groups, used, own)] for own in kinds],
            )
            for blocks, ways in skeletons.by_blocks().items():
                self._families.append(_Family(skeletons, rooms, blocks, ways, used))
        self._ends = np.cumsum([family.total for family in self._families])
        self.total = float(self._ends[-1]) if self._families else 0.0

    def draw(self, count: int, uniform: np.random.Generator, rng: Random) -> Iterator[ir.Mapping]:
        """Yield the trees among `count` draws, in the order in which they were drawn."""
        which = np.searchsorted(self._ends, uniform.random(count) * self.total, side="right")
        which = np.minimum(which, len(self._families) - 1)
        found: dict[int, ir.Mapping] = {}
        numbers: list[int] = np.unique(which).tolist()
        for number in numbers:
            family = self._families[number]
            rows = np.flatnonzero(which == number)
            drawn = family.draw(len(rows), self._chains, uniform)
            for i, row in enumerate(rows[drawn.kept].tolist()):
                skeleton = family.skeletons.draw(family.blocks, rng)
                found[row] = self._builder.mapping(skeleton, family.used, drawn, i)
        yield from (found[row] for row in sorted(found))


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Loops of many draws of one family. kept: which draws these are. spread: [draw, dim] over fan-outs; trips: [draw,
    dim, number of the loop] of the temporal loops, outermost first; orders: [draw, slot, place] the dims with a
    temporal loop in the block, and its groups (numbered after the dims), of which counts says how many there are.
    Slots: blocks without a group, then the others."""

    kept: Ints
    spread: list[list[Spread]]
    trips: list[list[list[int]]]
    orders: list[list[list[int]]]
    counts: list[list[int]]


class _Rooms:
    """Per dim what it may take of the used fan-outs, and the recurrence over the room that is left in them."""

    def __init__(
        self, extents: list[int], limits: list[list[int]], sizes: Trips, parts: Vector, orders: list[list[Trips]]
    ) -> None:
        self.extents, self.parts = extents, parts
        self.spreads: list[list[Spread]] = []
        self.trips: list[list[Trips]] = []
        self.after: list[Ints] = []  # per dim [room, trips] -> room afterwards, -1: too many
        rooms = {sizes: 0}
        for extent, most, own in zip(extents, limits, orders, strict=True):
            self.spreads.append(sorted(spreads(TileRule.DIVIDE, extent, most, own)))
            trips = [one.trips for one in self.spreads[-1]]
            following: dict[Trips, int] = {}
            table = np.full((len(rooms), len(trips)), -1, dtype=np.int64)
            for room, row in rooms.items():
                for column, counts in enumerate(trips):
                    if all(count <= size for count, size in zip(counts, room, strict=True)):
                        left = tuple(size // count for count, size in zip(counts, room, strict=True))
                        table[row, column] = following.setdefault(left, len(following))
            self.trips.append(trips)
            self.after.append(table)
            rooms = following
        self.last = len(rooms)

    def chains(self, d: int, longest: int) -> Floats:
        """Return [trips, temporal loops 0..longest] -> number of chains of one dim."""
        rows = [
            [float(chains(TileRule.DIVIDE, self.extents[d] // prod(t), k)) for k in range(longest + 1)]
            for t in self.trips[d]
        ]
        return np.array(rows, dtype=np.float64).reshape(len(rows), longest + 1)


class _Family:
    """Draws with one set of used groups and one number of blocks.

    A point is a node x for each block; blocks without a group are interchangeable, so a point lists theirs by rising x.
    """

    def __init__(self, skeletons: Skeletons, rooms: _Rooms, blocks: BlockCount, ways: int, used: Vector) -> None:
        self.skeletons, self.blocks, self.used = skeletons, blocks, used
        self._rooms = rooms
        nodes, weights = np.polynomial.laguerre.laggauss((len(rooms.extents) + max(blocks.parts, default=0)) // 2 + 1)
        self._longest = blocks.plain + len(blocks.parts)
        picks = [
            (*plain, *parts)
            for plain in combinations_with_replacement(range(len(nodes)), blocks.plain)
            for parts in product(range(len(nodes)), repeat=len(blocks.parts))
        ]
        index = np.array(picks, dtype=np.int64).reshape(len(picks), self._longest)
        self._x = nodes[index]
        own = weights[index].prod(axis=1) * np.array([_arrangements(row[: blocks.plain]) for row in picks], dtype=float)
        for column, units in enumerate(blocks.parts, start=blocks.plain):
            own = own * self._x[:, column] ** units
        self._elementary = _elementary(self._x)[:, 0, :]
        self._chains = [rooms.chains(d, self._longest) for d in range(len(rooms.extents))]
        self._spread = [table @ self._elementary.T for table in self._chains]
        self._left = self._recurrence()
        self._ends = np.cumsum(own * self._left[0][0]) * float(ways)
        self.total = float(self._ends[-1])

    def _recurrence(self) -> list[Floats]:
        """Return per dim [room, point] -> sum over what this dim and the later ones may take; then ones."""
        values = [np.ones((self._rooms.last, len(self._x)))]
        for table, spread in zip(reversed(self._rooms.after), reversed(self._spread), strict=True):
            totals = np.zeros((len(table), len(self._x)))
            for row, targets in enumerate(table):
                open_columns = np.flatnonzero(targets >= 0)
                totals[row] = (spread[open_columns] * values[0][targets[open_columns]]).sum(axis=0)
            values.insert(0, totals)
        return values

    def draw(self, count: int, factors: Sequence[_Factors], uniform: np.random.Generator) -> _Drawn:
        """Return the loops of `count` draws, but for those that have too many empty blocks or groups."""
        points = np.minimum(
            np.searchsorted(self._ends, uniform.random(count) * self.total, side="right"), len(self._ends) - 1
        )
        columns = self._spatial(points, uniform)
        spread = self._trips(columns)
        kept = np.flatnonzero(self._has_all_groups(spread))
        points, columns, spread = points[kept], columns[kept], spread[kept]
        x = self._shuffled(points, uniform)
        loops = self._temporal(points, columns, x, uniform)
        inner = slice(int(self.blocks.first), self.blocks.plain - int(self.blocks.last))  # these hold a loop
        full = np.flatnonzero(loops[:, :, inner].any(axis=1).all(axis=-1))
        kept, columns, loops = kept[full], columns[full], loops[full]
        trips = self._factored(factors, columns, loops, uniform)
        present = self._with_groups(loops)
        keys = np.where(present, uniform.random(present.shape), 2.0)
        orders, counts = np.argsort(keys, axis=2), present.sum(axis=2)
        numbers: list[list[int]] = columns.tolist()
        drawn = [[own[n] for own, n in zip(self._rooms.spreads, row, strict=True)] for row in numbers]
        return _Drawn(kept, drawn, trips.tolist(), orders.tolist(), counts.tolist())

    def _with_groups(self, loops: Booleans) -> Booleans:
        """Return [draw, slot, dim or group] -> whether it has its loops there."""
        present = np.zeros((len(loops), self._longest, loops.shape[1] + len(self.used)), dtype=np.bool_)
        present[:, :, : loops.shape[1]] = loops.transpose(0, 2, 1)
        first = loops.shape[1]
        for slot, units in enumerate(self.blocks.parts, start=self.blocks.plain):
            present[:, slot, first : first + units] = True
            first += units
        return present

    def _spatial(self, points: Ints, uniform: np.random.Generator) -> Ints:
        """Return [draw, dim] -> number of the trip counts on the fan-outs."""
        rooms = np.zeros(len(points), dtype=np.int64)
        chosen = np.zeros((len(points), len(self._spread)), dtype=np.int64)
        for d, (table, spread) in enumerate(zip(self._rooms.after, self._spread, strict=True)):
            after = table[rooms]
            weights = spread[:, points].T * self._left[d + 1][np.maximum(after, 0), points[:, None]] * (after >= 0)
            chosen[:, d] = _pick(weights, uniform)
            rooms = after[np.arange(len(points)), chosen[:, d]]
        return chosen

    def _trips(self, columns: Ints) -> Ints:
        """Return [draw, dim, used fan-out] -> trip count."""
        fanouts = sum(self._rooms.parts)
        kind = _type_of(max(self._rooms.extents, default=1))
        tables = [np.array(trips, dtype=kind).reshape(len(trips), fanouts) for trips in self._rooms.trips]
        if not tables:
            return np.ones((len(columns), 0, fanouts), dtype=np.int64)
        return np.stack([table[columns[:, d]] for d, table in enumerate(tables)], axis=1)

    def _has_all_groups(self, spread: Ints) -> Booleans:
        """Return which draws have a spatial loop in each used group."""
        good = np.ones(len(spread), dtype=np.bool_)
        first = 0
        for size in self._rooms.parts:
            good &= (spread[:, :, first : first + size] > 1).any(axis=(1, 2))
            first += size
        return good

    def _shuffled(self, points: Ints, uniform: np.random.Generator) -> Floats:
        """Return [draw, slot] -> x, those of blocks without a group in random order."""
        x = self._x[points].copy()
        order = np.argsort(uniform.random((len(points), self.blocks.plain)), axis=1)
        x[:, : self.blocks.plain] = np.take_along_axis(x[:, : self.blocks.plain], order, axis=1)
        return x

    def _temporal(self, points: Ints, columns: Ints, x: Floats, uniform: np.random.Generator) -> Booleans:
        """Return [draw, dim, slot] -> whether the dim has a temporal loop in the block."""
        rows = np.arange(len(points))
        rest = _elementary(x)
        loops = np.zeros((len(points), len(self._chains), self._longest), dtype=np.bool_)
        for d, table in enumerate(self._chains):
            left = _pick(table[columns[:, d]] * self._elementary[points], uniform)
            for slot in range(self._longest):
                takes = x[:, slot] * rest[rows, slot + 1, np.maximum(left - 1, 0)] * (left > 0)
                chosen = uniform.random(len(points)) * rest[rows, slot, left] < takes
                loops[:, d, slot] = chosen
                left = left - chosen
        return loops

    def _factored(
        self, factors: Sequence[_Factors], columns: Ints, loops: Booleans, uniform: np.random.Generator
    ) -> Ints:
        """Return [draw, dim, number of the temporal loop] -> trip count (1: no such loop)."""
        kind = _type_of(max(self._rooms.extents, default=1))
        trips: Ints = np.full((len(loops), len(factors), max(self._longest, 1)), 1, dtype=kind)
        for d, own in enumerate(factors):
            ends = np.array([own.numbers[own.extent // prod(t)] for t in self._rooms.trips[d]], dtype=np.int64)
            trips[:, d, :] = own.draw(ends[columns[:, d]], loops[:, d].sum(axis=1), trips.shape[2], uniform)
        return trips


def _type_of(extent: int) -> Any:
    """Return the type of arrays of trip counts: Python integers where an extent is beyond int64."""
    return np.int64 if extent < 1 << 62 else np.object_


class _Factors:
    """Ordered factorisations of the divisors of an extent into factors above 1."""

    def __init__(self, extent: int) -> None:
        self.extent = extent
        self.divisors = divisors_up_to(extent, extent)
        self.numbers = {value: number for number, value in enumerate(self.divisors)}
        self._type = _type_of(extent)
        self._values = np.array(self.divisors, dtype=self._type)
        self._table = cache(self._weights)

    def _weights(self, loops: int) -> Floats:
        """Return [value, what is left] -> ways to factor what is left after the first of `loops` factors."""
        rows = [
            [
                float(chains(TileRule.DIVIDE, rest, loops - 1)) if value % rest == 0 and rest < value else 0.0
                for rest in self.divisors
            ]
            for value in self.divisors
        ]
        return np.array(rows)

    def draw(self, values: Ints, counts: Ints, most: int, uniform: np.random.Generator) -> Ints:
        """Return [draw, number] -> factor; values: numbers of divisors, counts: how many factors."""
        trips: Ints = np.full((len(values), most), 1, dtype=self._type)
        values = values.copy()
        for number in range(most):
            left = counts - number
            for loops in np.unique(left[left > 0]).tolist():
                rows = np.flatnonzero(left == loops)
                chosen = _pick(self._table(loops)[values[rows]], uniform)
                trips[rows, number] = self._values[values[rows]] // self._values[chosen]
                values[rows] = chosen
        return trips


class _Builder:
    """Mappings from skeletons and loops; equal nodes are one object."""

    def __init__(self, workload: ir.Workload, arch: ir.Architecture) -> None:
        self._dims = [dim for dim in workload.dims if dim.extent > 1]
        self._groups = groups_of(arch)
        self._tensors = [tensor.name for tensor in workload.tensors]
        self._levels = [level.name for level in arch.levels]
        self._end = ir.Compute(workload.statements[0].name)
        self._temporal = cache(ir.Temporal)
        self._spatial = cache(ir.Spatial)
        self._stores = cache(self._stored)

    def mapping(self, skeleton: Skeleton, used: Vector, drawn: _Drawn, row: int) -> ir.Mapping:
        """Return a draw as a tree."""
        orders, counts, trips, spread = drawn.orders[row], drawn.counts[row], drawn.trips[row], drawn.spread[row]
        tiles = [dim.extent for dim in self._dims]
        begun = [0] * len(tiles)
        slots = [0, sum(not units for units in skeleton.units)]
        nodes: list[ir.MappingNode] = []
        for block, units in enumerate(skeleton.units):
            slot = slots[bool(units)]
            slots[bool(units)] += 1
            for item in orders[slot][: counts[slot]]:
                if item < len(tiles):
                    tiles[item] //= trips[item][begun[item]]
                    begun[item] += 1
                    nodes.append(self._temporal(self._dims[item].name, tiles[item]))
                else:
                    nodes += self._unit(used[item - len(tiles)], used, spread, tiles)
            if block < len(skeleton.sets):
                nodes += self._stores(skeleton.sets[block])
        return ir.Mapping((*nodes, self._end))

    def _unit(self, unit: int, used: Vector, spread: list[Spread], tiles: list[int]) -> Iterator[ir.MappingNode]:
        """Yield the spatial loops of a group, by the fan-outs where those over a dim stand and by dim."""
        first = sum(len(self._groups[g].fanouts) for g in used[: used.index(unit)])
        own = self._groups[unit].fanouts
        for place in range(first, first + len(own)):
            for d, dim in enumerate(self._dims):
                fanout = spread[d].stands[place]
                if spread[d].trips[fanout] > 1:
                    tiles[d] //= spread[d].trips[fanout]
                    yield self._spatial(dim.name, tiles[d], own[fanout - first].name)

    def _stored(self, nodes: Sequence[tuple[int, int]]) -> tuple[ir.Storage, ...]:
        """Return the storage nodes of a set, a level each, outermost first."""
        levels = sorted({level for _, level in nodes})
        return tuple(
            ir.Storage(self._levels[level], tuple(name for t, name in enumerate(self._tensors) if (t, level) in nodes))
            for level in levels
        )


def _arrangements(items: Sequence[int]) -> int:
    """Return in how many orders the items stand, equal ones not told apart."""
    return factorial(len(items)) // prod(factorial(items.count(item)) for item in set(items))


def _elementary(x: Floats) -> Floats:
    """Return [row, first, k] -> k-th elementary symmetric polynomial of x[row, first:]."""
    rows, count = x.shape
    values = np.zeros((rows, count + 1, count + 1))
    values[:, :, 0] = 1
    for first in reversed(range(count)):
        values[:, first, 1:] = values[:, first + 1, 1:] + x[:, first, None] * values[:, first + 1, :-1]
    return values


def _pick(weights: Floats, uniform: np.random.Generator) -> Ints:
    """Return per row the number of a column, drawn by weight."""
    ends = np.cumsum(weights, axis=1)
    marks = uniform.random(len(weights)) * ends[:, -1]
    return np.minimum((ends <= marks[:, None]).sum(axis=1), weights.shape[1] - 1)
