"""Parts of a program's instances, and what arrays they touch: over these a bound is proven (docs/program_space.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from math import prod

import numpy as np

from polymap.ir import Access, Statement, Tensor, Workload
from polymap.poly import count_type
from polymap.resources import Stop
from polymap.search.programs.bound_tuning import TUNING
from polymap.search.programs.instances import Ints, program_arrays

Row = tuple[int, ...]  # of an index expression: the coefficient of each dim, then the constant


@dataclass(frozen=True, slots=True)
class Reference:
    """An access of every instance: the tensor, and a row per axis."""

    tensor: str
    rows: tuple[Row, ...]

    @property
    def linear(self) -> tuple[str, tuple[Row, ...]]:
        """What references share that are the same but for an offset: their images have one size."""
        return self.tensor, tuple(row[:-1] for row in self.rows)

    def swapped(self, one: int, other: int) -> Reference:
        """Return the reference with two dims exchanged."""
        order = list(range(len(self.rows[0]))) if self.rows else []
        if order:
            order[one], order[other] = other, one
        return Reference(self.tensor, tuple(tuple(row[place] for place in order) for row in self.rows))


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Instances of one statement, or of several with the same references: points [dim, instance], all different."""

    points: Ints
    references: tuple[Reference, ...]

    @property
    def count(self) -> int:
        return self.points.shape[1]

    def extents(self) -> tuple[int, ...]:
        """Return how many values each dim has at most."""
        return tuple(int(row.max()) - int(row.min()) + 1 for row in self.points)

    def values(self, row: Row) -> Ints:
        """Return an index expression's value at every point."""
        total = np.full(self.count, row[-1], dtype=np.int64)
        for factor, column in zip(row, self.points, strict=False):
            if factor:
                total += factor * column
        return total

    def part(self, inside: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Region:
        return replace(self, points=np.ascontiguousarray(self.points[:, inside]))


def regions_of(workload: Workload, tensors: frozenset[str], stop: Stop) -> list[Region]:
    """Return all instances by their references to `tensors`, as far as these are linear; raises OutOfTime where it is
    told to stop."""
    found: dict[tuple[int, tuple[Reference, ...]], list[Ints]] = {}
    arrays = program_arrays(workload, stop)
    for statement, points in zip(workload.statements, arrays.points, strict=True):
        if points.shape[1] and len(statement.dims):
            key = len(statement.dims), references_of(statement, tensors)
            found.setdefault(key, []).append(points)
    regions: list[Region] = []
    for (_, references), parts in found.items():
        whole = np.concatenate(parts, axis=1)
        if len(parts) > 1 and _repeats(whole):
            regions += [Region(points, references) for points in parts]
        else:
            regions.append(Region(whole, references))
    return [region for region in regions if region.references]


def _repeats(points: Ints) -> bool:
    """Return whether a point occurs twice."""
    key = np.zeros(points.shape[1], dtype=np.int64)
    for row in points:
        key = key * (int(row.max()) + 1) + row
    return len(np.unique(key)) < len(key)


def references_of(statement: Statement, tensors: frozenset[str]) -> tuple[Reference, ...]:
    """Return the different linear references of a statement to some tensors, scalars aside."""
    found: dict[Reference, None] = {}
    for access in (statement.target, *statement.reads):
        if access.tensor in tensors and all(index.is_linear for index in access.index):
            reference = _reference(access, statement.dims)
            if any(any(row[:-1]) for row in reference.rows):
                found[reference] = None
    return tuple(sorted(found, key=lambda one: (one.tensor, one.rows)))


def _reference(access: Access, dims: tuple[str, ...]) -> Reference:
    rows = [(*(index.coefficients().get(dim, 0) for dim in dims), index.constant) for index in access.index]
    return Reference(access.tensor, tuple(rows))


def groups_of(region: Region, workload: Workload) -> dict[Reference, int]:
    """Return a number per reference; references of different numbers touch no element together."""
    touched = {one: _touched_elements(region, workload.tensor(one.tensor), one) for one in region.references}
    group = {one: number for number, one in enumerate(region.references)}
    for one, other in combinations(region.references, 2):
        if one.tensor != other.tensor or group[one] == group[other]:
            continue
        if len(np.intersect1d(touched[one], touched[other], assume_unique=True)):
            old, new = group[other], group[one]
            group = {each: new if number == old else number for each, number in group.items()}
    return group


def _touched_elements(region: Region, tensor: Tensor, reference: Reference) -> Ints:
    """Return the elements of a tensor that a reference touches, each once, as numbers of a row-major array."""
    place = np.zeros(region.count, dtype=count_type(prod(tensor.shape)))
    for row, extent, low in zip(reference.rows, tensor.shape, tensor.origin, strict=True):
        place = place * extent + (region.values(row) - low)
    return np.unique(place)


def splits_of(region: Region, workload: Workload, deep: int = TUNING.splits_deep) -> Iterator[Region]:
    """Yield the region, and large parts of it in which fewer references touch the same elements: those where one
    reference's index along an axis is below some number, and the other's is not."""
    yield region
    if not deep or region.count > TUNING.most_to_split:
        return
    group = groups_of(region, workload)
    cuts: list[tuple[int, int, Row, Row]] = []
    for one, other in permutations(region.references, 2):
        if group[one] == group[other] and one.linear != other.linear:
            for row, another in zip(one.rows, other.rows, strict=True):
                if row != another:
                    cuts.append((*_best_cut(region.values(row), region.values(another)), row, another))
    cuts.sort(key=lambda cut: (-cut[0], cut[1:]))
    for count, at, row, another in dict.fromkeys(cuts[: 2 * TUNING.most_splits]):
        if count * TUNING.least_left >= region.count:
            part = region.part((region.values(row) < at) & (region.values(another) >= at))
            yield from splits_of(part, workload, deep - 1)


def _best_cut(below: Ints, above: Ints) -> tuple[int, int]:
    """Return the number c with most places where below < c <= above, and how many: (places, c)."""
    fitting = below < above
    if not fitting.any():
        return 0, 0
    low, high = below[fitting], above[fitting]
    first = int(low.min()) + 1
    change = np.zeros(int(high.max()) + 2 - first, dtype=np.int64)
    np.add.at(change, low + 1 - first, 1)
    np.add.at(change, high + 1 - first, -1)
    inside = np.cumsum(change)
    best = int(inside.argmax())
    return int(inside[best]), first + best
