"""Cells of what any-size tiles can be: ranges of spatial factors per class of fan-outs, ranges of tiles per dim.

A spatial loop that cuts M indices into tiles of T has the factor c = M / T, a real number; it has ceil(c) iterations.
A cell of factors is c in (low, high], or exactly 1. Tiles are measured at the innermost instances: a tile of M indices
above spatial loops of factor c is t = M / c there. The tiles of a dim are cut into {1}, (b0, b1], (b1, b2], ...
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, prod

import numpy as np

from polymap.arithmetic import FloatArray
from polymap.search.problem import FanoutClass, Problem, TensorTerm
from polymap.search.resources import SearchCaches

ONE = Fraction(1)
ABOVE_ONE = 1 + Fraction(1, 10**12)  # below every factor M / T above 1
FINEST = Fraction(1001, 1000)  # cells of a smaller ratio are not cut any more
MOST_REMEMBERED = 100_000  # answers per memoised function


@dataclass(frozen=True, slots=True)
class FactorRange:
    """The factors c in (low, high], or the one factor low = high; with low = 1 also c = 1."""

    low: Fraction
    high: Fraction

    @property
    def least_trips(self) -> int:
        """Return the fewest iterations of a spatial loop with such a factor."""
        return 1 if self.low == 1 else min(floor(self.low) + 1, self.most_trips)

    @property
    def most_trips(self) -> int:
        return ceil(self.high)

    @property
    def ratio(self) -> float:
        return float(self.high / self.low)

    def halves(self) -> tuple[FactorRange, FactorRange]:
        """Return both parts of a range of more than one factor: cut between two trip counts while there are several."""
        least, most = self.least_trips, self.most_trips
        if least == 1 and most == 2:
            cut = ONE
        elif most > max(least, 2):
            cut = Fraction(max(least, min(most - 1, floor((least * most) ** 0.5))))
        else:
            cut = (self.low + self.high) / 2
        if cut == 1:
            return FactorRange(ONE, ONE), FactorRange(ABOVE_ONE, self.high)
        return FactorRange(self.low, cut), FactorRange(cut, self.high)


FactorRow = tuple[FactorRange, ...]  # per dim


@dataclass(frozen=True, slots=True)
class Region:
    """A set of mappings: ranges of factors [class][dim], and inner borders of the tiles' cells [unit][dim], rising.

    Unit u measures tiles at the instances below u groups of fan-outs (measuring_unit). single_tiles: the borders are
    the only tiles there are, not the ends of cells; the relaxation is then no bound, but says which of these are good.
    """

    factors: tuple[FactorRow, ...]
    borders: tuple[tuple[tuple[Fraction, ...], ...], ...]
    single_tiles: bool = False

    def factor_product(self, dim: int, units: tuple[int, int], problem: Problem, *, high: bool) -> Fraction:
        """Return the least or greatest product of the dim's factors over the groups between two units."""
        groups = fanout_groups(problem)[units[0] : units[1]]
        rows = (row[dim] for one, row in zip(problem.classes, self.factors, strict=True) if one.below in groups)
        return prod((r.high if high else r.low for r in rows), start=ONE)

    def cell_ends(self, unit: int, dim: int, problem: Problem) -> tuple[Fraction, ...]:
        """Return the upper ends of the dim's cells in a unit, the first {1}."""
        top = max(ONE, problem.extents[dim] / self.factor_product(dim, (0, unit), problem, high=False))
        if self.single_tiles:
            top = Fraction(ceil(top))
        return (ONE, *(b for b in self.borders[unit][dim] if 1 < b < top), *((top,) if top > 1 else ()))

    def with_factor(self, group: int, dim: int, new: FactorRange) -> Region:
        """Return the region with another range of a factor."""
        row = (*self.factors[group][:dim], new, *self.factors[group][dim + 1 :])
        return replace(self, factors=(*self.factors[:group], row, *self.factors[group + 1 :]))

    def with_halved_cells(self, cells: frozenset[tuple[int, int, int]], problem: Problem) -> Region:
        """Return the region with the cells (unit, dim, number) cut in two, where they are wide enough."""
        new: dict[tuple[int, int], set[Fraction]] = {}
        for unit, dim, number in sorted(cells):
            if number:
                ends = self.cell_ends(unit, dim, problem)
                new.setdefault((unit, dim), set()).update(_cut_points(ends[number - 1], ends[number]))
        borders = tuple(
            tuple(tuple(sorted({*old, *new.get((unit, dim), ())})) for dim, old in enumerate(row))
            for unit, row in enumerate(self.borders)
        )
        return replace(self, borders=borders)


def fanout_groups(problem: Problem) -> tuple[int, ...]:
    """Return the groups of fan-outs, named by the level below them, outermost first."""
    return tuple(sorted({one.below for one in problem.classes}))


def measuring_unit(problem: Problem, level: int) -> int:
    """Return how many groups of fan-outs stand above a level."""
    return sum(below <= level for below in fanout_groups(problem))


def unit_count(problem: Problem) -> int:
    """Return the number of units in which levels are measured."""
    return measuring_unit(problem, problem.level_count - 1) + 1


def _cut_points(low: Fraction, high: Fraction) -> tuple[Fraction, ...]:
    """Return where to cut (low, high]: at an integer near the geometric middle, or at all integers of a short cell."""
    first, last = floor(low) + 1, ceil(high) - 1
    if last < first:
        middle = (low + high) / 2
        return () if high < low * FINEST else (middle,)
    if last - first < 2:
        return tuple(Fraction(n) for n in range(first, last + 1))
    middle = floor((float(low) * float(high)) ** 0.5)
    return (Fraction(min(max(middle, first), last)),)


def first_region(problem: Problem) -> Region:
    """Return the region of all mappings."""
    factors: list[FactorRow] = []
    for one in problem.classes:
        fanouts = [problem.arch.fanouts[f] for f in one.fanouts]
        row: list[FactorRange] = []
        for dim, extent in zip(problem.dims, problem.extents, strict=True):
            most = prod(f.size for f in fanouts if f.may_spread(dim))
            row.append(FactorRange(ONE, Fraction(min(extent, most))))
        factors.append(tuple(row))
    borders = tuple(_coarse_borders(extent) for extent in problem.extents)
    return Region(tuple(factors), (borders,) * unit_count(problem))


def _coarse_borders(extent: int) -> tuple[Fraction, ...]:
    powers = [4**n for n in range(1, 40) if 4**n < extent]
    return tuple(Fraction(p) for p in ((2, *powers) if extent < 16 else powers))


def has_trip_counts(problem: Problem, region: Region, caches: SearchCaches) -> bool:
    """Return whether some trip counts per fan-out make factors of the region."""
    for one, row in zip(problem.classes, region.factors, strict=True):
        sizes = tuple(problem.arch.fanouts[f].size for f in one.fanouts)
        takes = [problem.arch.fanouts[f].dims for f in one.fanouts]
        ranges = sorted(
            (r.least_trips, r.most_trips, tuple(dims is None or dim in dims for dims in takes))
            for dim, r in zip(problem.dims, row, strict=True)
            if r.least_trips > 1
        )
        if not caches.memo(_shares_exist, MOST_REMEMBERED)(caches, tuple(ranges), sizes):
            return False
    return True


def _shares_exist(
    caches: SearchCaches, ranges: tuple[tuple[int, int, tuple[bool, ...]], ...], sizes: tuple[int, ...]
) -> bool:
    """Return whether each range of trip counts is reached by a product of shares, one per fan-out, within its size.

    ranges: fewest and most iterations, and which fan-outs may have them.
    """
    if not ranges:
        return True
    *rest, (least, most, allowed) = ranges
    usable = tuple(s if a else 1 for s, a in zip(sizes, allowed, strict=True))
    shares_exist = caches.memo(_shares_exist, MOST_REMEMBERED)
    return any(
        shares_exist(caches, tuple(rest), tuple(s // share for s, share in zip(sizes, shares, strict=True)))
        for shares in caches.memo(_smallest_shares, MOST_REMEMBERED)(caches, least, most, usable)
    )


def _smallest_shares(
    caches: SearchCaches, least: int, most: int, sizes: tuple[int, ...]
) -> tuple[tuple[int, ...], ...]:
    """Return the smallest vectors of shares (one per fan-out) whose product is within least..most."""
    if not sizes:
        return ((),) if least <= 1 else ()
    smallest_shares = caches.memo(_smallest_shares, MOST_REMEMBERED)
    found: list[tuple[int, ...]] = []
    for share in range(1, min(sizes[0], most) + 1):
        found += [(share, *rest) for rest in smallest_shares(caches, -(-least // share), most // share, sizes[1:])]
        if share >= least:
            break
    return tuple(found)


def sizes_in_cells(
    ends: tuple[Fraction, ...], scale: tuple[Fraction, Fraction], extent: int, *, whole: bool
) -> tuple[list[int], list[float]]:
    """Return per cell the fewest and the most indices of a tile that is scale[0]..scale[1] times as large as the cell's
    values. whole: the cell's values are numbers of indices themselves."""
    low, high = scale
    fewest = [ceil(low), *(floor(below * low) + 1 if whole or low >= 1 else ceil(below * low) for below in ends[:-1])]
    most = [min(end * high, Fraction(extent)) for end in ends]
    if whole:
        most = [max(ONE, Fraction(floor(n))) for n in most]
    return [max(1, min(n, extent)) for n in fewest], [float(max(ONE, n)) for n in most]


def sizes_of_single_tiles(ends: tuple[Fraction, ...], scale: Fraction, extent: int) -> tuple[list[int], list[float]]:
    """Return per single tile its indices, and the indices per visit: the extent over the number of visits."""
    sizes = [max(1, min(ceil(end * scale), extent)) for end in ends]
    return sizes, [extent / -(-extent // size) for size in sizes]


class CellSizes:
    """Sizes of tiles per level, dim and cell of one unit, and how many siblings share an element at most."""

    def __init__(self, problem: Problem, region: Region, unit: int) -> None:
        self.problem = problem
        self.region = region
        self.unit = unit
        self.ends = tuple(region.cell_ends(unit, d, problem) for d in range(len(problem.dims)))
        self.instances = float(prod(problem.extents))
        self._sizes: dict[int, tuple[tuple[list[int], list[float]], ...]] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of cells per dim."""
        return tuple(len(ends) for ends in self.ends)

    def along_axis(self, dim: int, values: list[int] | list[float]) -> FloatArray:
        """Return one value per cell of a dim, shaped to be spread over the other dims."""
        count = len(self.ends)
        return np.array(values, dtype=np.float64).reshape([-1 if d == dim else 1 for d in range(count)])

    def _scale(self, dim: int, level: int) -> tuple[Fraction, Fraction]:
        """Return how many times as large as the cells' values a tile of the level is: at least and at most."""
        own = measuring_unit(self.problem, level)
        units = min(own, self.unit), max(own, self.unit)
        low, high = (self.region.factor_product(dim, units, self.problem, high=high) for high in (False, True))
        return (low, high) if own <= self.unit else (1 / high, 1 / low)

    def sizes(self, level: int) -> tuple[tuple[list[int], list[float]], ...]:
        """Return per dim the fewest and the most indices of a tile of `level` in each cell."""
        own = measuring_unit(self.problem, level)
        if own not in self._sizes:
            self._sizes[own] = tuple(
                sizes_of_single_tiles(self.ends[d], self._scale(d, level)[0], extent)
                if self.region.single_tiles
                else sizes_in_cells(self.ends[d], self._scale(d, level), extent, whole=own == self.unit)
                for d, extent in enumerate(self.problem.extents)
            )
        return self._sizes[own]

    def may_be_spread(self, dim: int, level: int) -> bool:
        """Return whether fan-outs below the level may spread the dim."""
        own = measuring_unit(self.problem, level)
        return self.region.factor_product(dim, (own, len(fanout_groups(self.problem))), self.problem, high=True) > 1

    def other_dims(self, term: TensorTerm) -> list[int]:
        """Return the numbers of the dims that a tensor lacks."""
        return [d for d, dim in enumerate(self.problem.dims) if dim not in term.dims]

    def spatial_factors(self, after: int, upto: int) -> list[tuple[FanoutClass, FactorRow]]:
        """Return the classes of fan-outs between two levels with their ranges of factors per dim."""
        found: list[tuple[FanoutClass, FactorRow]] = []
        for one, row in zip(self.problem.classes, self.region.factors, strict=True):
            if after < one.below <= upto:
                found.append((one, row))
        return found

    def most_siblings(self, dims: Sequence[int], one: FanoutClass, row: FactorRow) -> float:
        """Return the product of a class's factors along some dims, at most."""
        return self._at_most(one, row, dims, prod((row[d].high for d in dims), start=ONE))

    def most_iterations(self, dims: Sequence[int], one: FanoutClass, row: FactorRow) -> int:
        """Return how many iterations a class's spatial loops along some dims have at most."""
        size, rest = self._size_and_rest(one, row, dims)
        return max(1, min(prod(row[d].most_trips for d in dims), size // rest))

    def most_sharers(self, term: TensorTerm, one: FanoutClass, row: FactorRow) -> float:
        """Return how many siblings of a class use one element at most: those that differ in other dims only, and of
        a window those on its diagonals."""
        others = self.other_dims(term)
        factor = prod((row[d].high for d in others), start=ONE)
        counted = set(others)
        for group in term.groups:
            if group.is_window:
                dims = [self.problem.dims.index(dim) for dim in group.dims]
                largest = max(dims, key=lambda d: row[d].high)
                diagonal = [d for d in dims if d != largest]
                factor *= prod(row[d].most_trips for d in diagonal)
                counted.update(diagonal)
        return self._at_most(one, row, counted, factor)

    def _at_most(self, one: FanoutClass, row: FactorRow, dims: Collection[int], factor: Fraction) -> float:
        """Return the factor along some dims, or what the other dims leave of the fan-outs if that is less."""
        return float(max(ONE, min(factor, Fraction(*self._size_and_rest(one, row, dims)))))

    def _size_and_rest(self, one: FanoutClass, row: FactorRow, dims: Collection[int]) -> tuple[int, int]:
        """Return the instances of a class's fan-outs, and how many iterations the other dims have at least."""
        rest = prod(factor.least_trips for d, factor in enumerate(row) if d not in dims)
        return prod(self.problem.arch.fanouts[f].size for f in one.fanouts), rest
