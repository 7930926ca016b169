"""Sizes of tiles in the cells of a region, and how many siblings share an element."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from polymap.search.any_size.regions import ONE, Region, cell_sizes, groups_of, point_sizes, unit_of
from polymap.search.problem.problem import FanoutClass, Problem, TensorTerm

FloatArray = NDArray[np.float64]


class AnySizes:
    """Sizes of tiles per level and dim, and how many siblings share an element at most, in one region.

    unit: in which the cells are measured.
    """

    def __init__(self, problem: Problem, region: Region, unit: int) -> None:
        self.problem = problem
        self.region = region
        self.unit = unit
        self.ends = tuple(region.edges(unit, d, problem) for d in range(len(problem.dims)))
        self.instances = prod(problem.extents)
        self._sizes: dict[int, tuple[tuple[list[int], list[float]], ...]] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(ends) for ends in self.ends)

    def shaped(self, dim: int, values: list[int] | list[float]) -> FloatArray:
        """Return one value per cell of a dim, shaped to be spread over the other dims."""
        count = len(self.ends)
        return np.array(values, dtype=np.float64).reshape([-1 if d == dim else 1 for d in range(count)])

    def scale(self, dim: int, level: int) -> tuple[Fraction, Fraction]:
        """Return how many times as large as the cells' values a tile of the level is: at least and at most."""
        own = unit_of(self.problem, level)
        if own <= self.unit:
            units = own, self.unit
            return tuple(self.region.used(dim, units, self.problem, high=high) for high in (False, True))  # pyright: ignore[reportReturnType]
        units = self.unit, own
        return tuple(1 / self.region.used(dim, units, self.problem, high=high) for high in (True, False))  # pyright: ignore[reportReturnType]

    def sizes(self, level: int) -> tuple[tuple[list[int], list[float]], ...]:
        """Return per dim the fewest and the most indices of a tile of `level` in each cell."""
        own = unit_of(self.problem, level)
        if own not in self._sizes:
            self._sizes[own] = tuple(
                point_sizes(self.ends[d], self.scale(d, level)[0], extent)
                if self.region.points
                else cell_sizes(self.ends[d], self.scale(d, level), extent, whole=own == self.unit)
                for d, extent in enumerate(self.problem.extents)
            )
        return self._sizes[own]

    def is_spread(self, dim: int, level: int) -> bool:
        """Return whether fan-outs below the level may spread the dim."""
        own = unit_of(self.problem, level)
        return self.region.used(dim, (own, len(groups_of(self.problem))), self.problem, high=True) > 1

    def rows(self, after: int, upto: int) -> list[tuple[FanoutClass, tuple[tuple[Fraction, Fraction, int], ...]]]:
        """Return per class between two levels: per dim the least and greatest factor and the fewest trips."""
        found: list[tuple[FanoutClass, tuple[tuple[Fraction, Fraction, int], ...]]] = []
        for one, row in zip(self.problem.classes, self.region.factors, strict=True):
            if after < one.below <= upto:
                found.append((one, tuple((r.low, r.high, r.least_trips) for r in row)))
        return found

    def alike(self, term: TensorTerm, one: FanoutClass, row: tuple[tuple[Fraction, Fraction, int], ...]) -> float:
        """Return how many siblings of a class use one element at most: those that differ in other dims only, and of
        a window those on its diagonals."""
        others = [d for d, dim in enumerate(self.problem.dims) if dim not in term.dims]
        windows = [[self.problem.dims.index(dim) for dim in group.dims] for group in term.groups if group.is_window]
        factor = prod((row[d][1] for d in others), start=ONE)
        counted = set(others)
        for dims in windows:
            largest = max(dims, key=lambda d: row[d][1])
            factor *= prod(ceil(row[d][1]) for d in dims if d != largest)
            counted |= {d for d in dims if d != largest}
        rest = prod(row[d][2] for d in range(len(row)) if d not in counted)
        size = prod(self.problem.arch.fanouts[f].size for f in one.fanouts)
        return float(max(ONE, min(factor, Fraction(size, rest))))
