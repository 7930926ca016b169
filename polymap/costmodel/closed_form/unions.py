"""Tiles and loads of a read-only tensor with several accesses: unions of boxes along the axes in which these differ.

The tile of A in `C[m,n] += A[m,k] * A[n,k]` is (M or N) x K, where M, N and K are the step's indices of m, n and k.
K is a factor like any other (`groups.UnionForm`). Whether M and N overlap depends on both positions; unlike those of a
window, steps equal up to an offset do not count alike. The counts are exact where every access touches a *box*:
along each dim the indices of a tile are one interval (no loop that the tile spans is outside of one that fixes it), and
along each axis the sums of an access's intervals have no gap. Then

- |T| summed over steps is an alternating sum over sets of boxes (inclusion and exclusion) of products of overlaps of

  intervals, each of which depends on few dims. A carry keeps |T and T'| = |T| + |T'| - |T or T'| elements, where T' is
  the tile before, as more boxes. The steps of a carry are a product over dims. So dims that share no overlap are summed
  separately, and of intervals over one dim each only the number that contains an index matters;
- siblings along dims of the union may load equal sets or not: where their loads must be compared, the sets are listed
  as bits.

*No answer* (BudgetError) elsewhere, and beyond some millions of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple, TypeAlias

from polymap.costmodel.closed_form.carries import Cuts
from polymap.costmodel.closed_form.digits import CarryPlace, Chain, Part, times_of
from polymap.costmodel.closed_form.groups import UnionForm
from polymap.costmodel.closed_form.tuning import TUNING
from polymap.lazy import numpy as np
from polymap.poly import COUNT_LIMIT, too_large

Integers: TypeAlias = "np.typing.NDArray[np.int64]"
Booleans: TypeAlias = "np.typing.NDArray[np.bool_]"
Axes = tuple[tuple[int, Chain], ...]  # extent and chain per dim of the union
Interval = tuple[Integers, Integers]  # low, and the first beyond, per row of the dims that it depends on
Box = tuple[dict[frozenset[int], Interval], ...]  # per axis the intervals whose intersection is its side, by their dims

AMONG = (Part.MERGED, Part.UNITED)


class Rows(NamedTuple):
    """The steps and instances of one dim at a carry, a row each.

    now, before: its indices [low, high) at the step and before it. step: number of the step. apart, merged, united:
    number of the instance among siblings that count by themselves, that are merged, that are united. full: whether
    every loop left a full tile, as in the first step.
    """

    now: Interval
    before: Interval
    step: Integers
    apart: Integers
    merged: Integers
    united: Integers
    full: Booleans

    @property
    def many(self) -> int:
        return len(self.step)


def is_compared(axes: Axes) -> bool:
    """Return whether siblings that differ along dims of the union are compared in one step."""
    return any(part in AMONG for _, chain in axes for _, part, _ in chain)


@lru_cache(maxsize=1 << 12)
def elements_held(form: UnionForm, axes: Axes) -> int:
    """Return the elements of all tiles, summed over steps and instances."""
    rows = _rows_of(axes, None)
    return _size(form, rows, _boxes(form, rows, before=False))


@lru_cache(maxsize=1 << 12)
def elements_kept(form: UnionForm, axes: Axes, cuts: Cuts) -> int:
    """Return the elements that tiles keep at one carry, summed over its steps and all instances, each on its own
    clock."""
    rows = _rows_of(axes, cuts)
    now, before = _boxes(form, rows, before=False), _boxes(form, rows, before=True)
    return _size(form, rows, now) + _size(form, rows, before) - _size(form, rows, [*now, *before])


@lru_cache(maxsize=1 << 12)
def largest_tile(form: UnionForm, axes: Axes) -> tuple[int, bool]:
    """Return the elements of the largest tile, and whether a tile that large occurs where all loops leave full tiles.

    In such steps all other tensors have their largest tiles too. No tile has more elements than its boxes in total, nor
    than the tensor. Where the first and last full tiles attain that bound, no others are examined.
    """
    rows = _rows_of(axes, None)
    full = [np.flatnonzero(row.full) for row in rows]
    few = [_selected_rows(row, ends[[0, -1]]) for row, ends in zip(rows, full, strict=True)]
    most = sum(prod(int(_lengths(side, rows).max()) for side in box) for box in _boxes(form, rows, before=False))
    whole = elements_held(form, tuple((extent, ()) for extent, _ in axes))
    found = int(_sizes(form, few).max())
    if found == min(most, whole):
        return found, True
    found = int(_sizes(form, [_selected_rows(row, every) for row, every in zip(rows, full, strict=True)]).max())
    largest = int(_sizes(form, rows).max())
    return largest, found == largest


def ends_of_largest(form: UnionForm, axes: Axes) -> set[tuple[int, ...]]:
    """Return the choices of the first (0) or last (1) full tile along each dim at which the tile is largest."""
    rows = _rows_of(axes, None)
    few = [_selected_rows(row, np.flatnonzero(row.full)[[0, -1]]) for row in rows]
    found = np.argwhere(_sizes(form, few) == largest_tile(form, axes)[0])
    return {tuple(map(int, each)) for each in found}


@lru_cache(maxsize=1 << 12)
def elements_sent(form: UnionForm, axes: Axes, cuts: Cuts | None) -> int:
    """Return the elements of the siblings' distinct loads at a carry; without cuts, of their distinct tiles over all
    steps."""
    if is_compared(axes):
        return _listed_loads(form, _rows_of(axes, cuts), whole=cuts is None)
    if cuts is None:
        return elements_held(form, axes)
    return held_at(form, axes, cuts) - elements_kept(form, axes, cuts)


@lru_cache(maxsize=1 << 12)
def held_at(form: UnionForm, axes: Axes, cuts: Cuts) -> int:
    """Return the elements of the siblings' distinct tiles, summed over the steps of a carry."""
    rows = _rows_of(axes, cuts)
    if is_compared(axes):
        return _listed_loads(form, rows, whole=True)
    return _size(form, rows, _boxes(form, rows, before=False))


def _rows_of(axes: Axes, cuts: Cuts | None) -> list[Rows]:
    every = cuts or tuple(CarryPlace(times_of(chain), moved=False) for _, chain in axes)
    return [rows_of_dim(extent, chain, cut) for (extent, chain), cut in zip(axes, every, strict=True)]


@lru_cache(maxsize=1 << 10)
def rows_of_dim(extent: int, chain: Chain, cut: CarryPlace) -> Rows:
    """Return the rows of one dim at a carry, without those that have no work.

    In the step before, the loops outside of the carry had the same digits, its own loop a digit lower by one, and those
    inside were at the last iteration in which this instance worked: more indices remained than `digits.offsets_inside`.
    """
    if extent > TUNING.most_reach or any(part is Part.FREE for _, part, _ in chain):
        raise too_large()
    enclosing = (extent, *(tile for tile, _, _ in chain))
    trips = [-(-outer // tile) for outer, (tile, _, _) in zip(enclosing, chain, strict=False)]
    outside = cut.outside + cut.moved
    fixed = [many if part is Part.EACH or part in AMONG else 1 for many, (_, part, _) in zip(trips, chain, strict=True)]
    rows = prod(fixed) * prod(
        [many for many, (_, part, _) in zip(trips, chain, strict=True) if part is Part.TIME][:outside]
    )
    if rows > TUNING.most_union_rows:
        raise too_large()
    walk = _DimWalk(extent, np.indices(fixed).reshape(len(fixed), prod(fixed)).astype(np.int64))
    number = 0
    for at, (tile, part, pin) in enumerate(chain):
        if part is not Part.TIME:
            walk.place(at, tile, trips[at], part, pin)
            continue
        need = sum(
            (tile_in * walk.digits[inner] for inner, (tile_in, _, _) in enumerate(chain) if inner > at), start=walk.zero
        )
        if number < outside:
            walk.step(tile, trips[at], moved=number == cut.outside)
        else:
            walk.wrap(tile, need)
        number += 1
    return walk.rows()


class _DimWalk:
    """The rows of one dim while the walk descends from its outermost loop. digits: per loop those that choose an
    instance.

    ends: low and length now, low and length before. codes: step, apart, merged, united.
    """

    zero: Integers

    def __init__(self, extent: int, digits: Integers) -> None:
        self.digits = digits
        instances: int = digits.shape[1]
        none: Integers = np.zeros(instances, dtype=np.int64)
        self.zero = none
        self._ends: Integers = np.stack([none, none + extent, none, none + extent])
        self._codes: Integers = np.zeros((4, digits.shape[1]), dtype=np.int64)
        self._full: Booleans = np.ones(digits.shape[1], dtype=np.bool_)

    def place(self, at: int, tile: int, trips: int, part: Part, pin: int) -> None:
        """Descend below a spatial loop."""
        if part is Part.PINNED:
            self.digits[at] = pin
        else:
            code = {Part.EACH: 1, Part.MERGED: 2, Part.UNITED: 3}[part]
            self._codes[code] = self._codes[code] * trips + self.digits[at]
        self._descend(tile, self.digits[at], self.digits[at])

    def step(self, tile: int, trips: int, *, moved: bool) -> None:
        """Descend below a temporal loop outside of the carry, or below the carry's own."""
        first = int(moved)
        digit = np.tile(np.arange(first, trips, dtype=np.int64), len(self.zero))
        self._select(np.repeat(np.arange(len(self.zero)), trips - first))
        self._codes[0] = self._codes[0] * trips + digit
        self._descend(tile, digit, digit - first)

    def wrap(self, tile: int, need: Integers) -> None:
        """Descend below a temporal loop inside of the carry: its first iteration now, its last one with work before."""
        works = self._ends[1] > need
        self._select(np.flatnonzero(works))
        self._descend(tile, self.zero, (self._ends[3] - need[works] - 1) // tile)

    def rows(self) -> Rows:
        low, length, low_before, length_before = self._ends
        if (length_before <= 0).any():
            raise too_large()
        step, apart, merged, united = self._codes
        now, before = (low, low + length), (low_before, low_before + length_before)
        return Rows(now, before, step, apart, merged, united, self._full)

    def _descend(self, tile: int, now: Integers, before: Integers) -> None:
        low, length, low_before, length_before = self._ends
        self._ends = np.stack(
            [
                low + now * tile,
                np.minimum(tile, length - now * tile),
                low_before + before * tile,
                np.minimum(tile, length_before - before * tile),
            ]
        )
        self._full = self._full & (self._ends[1] == tile)
        self._select(np.flatnonzero(self._ends[1] > 0))

    def _select(self, rows: np.typing.NDArray[np.intp]) -> None:
        self._ends, self._codes, self.digits = self._ends[:, rows], self._codes[:, rows], self.digits[:, rows]
        self._full = self._full[rows]
        self.zero = np.zeros(len(rows), dtype=np.int64)


def _selected_rows(row: Rows, which: np.typing.NDArray[np.intp]) -> Rows:
    now, before = ((low[which], high[which]) for low, high in (row.now, row.before))
    step, apart, merged, united = (each[which] for each in (row.step, row.apart, row.merged, row.united))
    return Rows(now, before, step, apart, merged, united, row.full[which])


def _boxes(form: UnionForm, rows: Sequence[Rows], *, before: bool) -> list[Box]:
    """Return the box that each access touches at the step, or before it."""
    found: list[Box] = []
    for box in form.boxes:
        sides: list[dict[frozenset[int], Interval]] = []
        for terms, constant in box:
            _refuse_sums_with_gaps(terms, rows)
            low: Integers = np.full((1,) * len(rows), constant, dtype=np.int64)
            high = low + 1
            for dim, factor in terms:
                ends = rows[dim].before if before else rows[dim].now
                first, last = (each.reshape(_grid(dim, len(rows))) for each in (ends[0], ends[1] - 1))
                low = low + factor * (first if factor > 0 else last)
                high = high + factor * (last if factor > 0 else first)
            sides.append({frozenset(dim for dim, _ in terms): (low, high)})
        found.append(tuple(sides))
    return found


def _grid(dim: int, dims: int) -> tuple[int, ...]:
    return tuple(-1 if other == dim else 1 for other in range(dims))


def _refuse_sums_with_gaps(terms: tuple[tuple[int, int], ...], rows: Sequence[Rows]) -> None:
    """Raise BudgetError where the sums of an access's intervals along an axis may have gaps."""
    reach = 0  # of the terms with smaller coefficients together, wherever they have least
    cells = 1
    for factor, dim in sorted((abs(factor), dim) for dim, factor in terms):
        row = rows[dim]
        if not row.many:
            return
        lengths = [high - low for low, high in (row.now, row.before)]
        if max(int(each.max()) for each in lengths) > 1 and factor > reach + 1:
            raise too_large()
        reach += factor * (min(int(each.min()) for each in lengths) - 1)
        cells *= row.many
        if factor * int(row.now[1].max()) > TUNING.most_reach:
            raise too_large()
    if cells > TUNING.most_union_cells:
        raise too_large()


def _size(form: UnionForm, rows: Sequence[Rows], boxes: Sequence[Box]) -> int:
    """Return the elements of the union of boxes, over all combinations of rows."""
    if len(boxes) > TUNING.most_boxes:
        raise too_large()
    counts = [row.many for row in rows]
    if not all(counts):
        return 0
    reach = prod(
        1 + 2 * sum(abs(factor) * int(rows[dim].now[1].max()) for dim, factor in terms) for terms, _ in form.boxes[0]
    )
    if prod(counts) * reach * 4 >= COUNT_LIMIT:
        raise too_large()
    return _union_within(counts, boxes, None)


def _union_within(counts: Sequence[int], boxes: Sequence[Box], within: Box | None) -> int:
    """Return the elements of the union of boxes within a box (None: anywhere), summed over all combinations of rows."""
    total = 0
    for number, box in enumerate(boxes):
        # |A or B| = |A| + |B| - |A and B|, one box at a time.
        inside = box if within is None else tuple(map(_intersection, within, box))
        found = _points(counts, inside)
        if found:
            total += found - _union_within(counts, boxes[number + 1 :], inside)
    return total


def _intersection(
    one: dict[frozenset[int], Interval], other: dict[frozenset[int], Interval]
) -> dict[frozenset[int], Interval]:
    found = dict(one)
    for dims, (low, high) in other.items():
        found[dims] = (
            (np.maximum(found[dims][0], low), np.minimum(found[dims][1], high)) if dims in found else (low, high)
        )
    return found


def _points(counts: Sequence[int], box: Box) -> int:
    """Return the elements of a box summed over all combinations of rows: a product over axes that share no dims."""
    dims = [frozenset[int]().union(*side) for side in box]
    total = prod(count for dim, count in enumerate(counts) if not any(dim in each for each in dims))
    dense: list[Integers] = []
    for number, side in enumerate(box):
        shared = {dim for dim in dims[number] if any(dim in each for other, each in enumerate(dims) if other != number)}
        if not shared and all(len(each) <= 1 for each in side):
            total *= _intersection_sum(list(side.values()))
        else:
            own = tuple(dim for dim in dims[number] if dim not in shared)
            dense.append(_overlaps(counts, dims[number], side).sum(axis=own, keepdims=True))
        if not total:
            return 0
    if not dense:
        return total
    if prod(max(each.shape[dim] for each in dense) for dim in range(len(counts))) > TUNING.most_union_cells:
        raise too_large()
    found = dense[0]
    for each in dense[1:]:
        found = found * each
    return total * int(found.sum())


def _overlaps(counts: Sequence[int], dims: frozenset[int], side: dict[frozenset[int], Interval]) -> Integers:
    """Return the length of the intersection of intervals, per combination of the rows of their dims."""
    if prod(counts[dim] for dim in dims) > TUNING.most_union_cells:
        raise too_large()
    (low, high), *others = side.values()
    for one, other in others:
        low, high = np.maximum(low, one), np.minimum(high, other)
    return np.maximum(high - low, 0)


def _intersection_sum(intervals: Sequence[Interval]) -> int:
    """Return the sum of |intersection| over all choices of one interval of each family.

    It is a sum over indices of a product over families: the number of intervals that contain the index.
    """
    flat = [(low.reshape(-1), high.reshape(-1)) for low, high in intervals]
    flat = [(low[high > low], high[high > low]) for low, high in flat]
    points = np.sort(np.concatenate([each for pair in flat for each in pair]))
    points = points[np.flatnonzero(np.diff(points, prepend=points[:1] - 1))]
    if len(points) < 2:
        return 0
    many = np.diff(points)
    for low, high in flat:
        begun, ended = (np.bincount(np.searchsorted(points, ends), minlength=len(points)) for ends in (low, high))
        many = many * np.cumsum(begun - ended)[:-1]
    return int(many.sum())


def _lengths(side: dict[frozenset[int], Interval], rows: Sequence[Rows]) -> Integers:
    ((low, high),) = side.values()
    return high - low


def _sizes(form: UnionForm, rows: Sequence[Rows]) -> Integers:
    """Return the elements of the tile per combination of rows."""
    counts = [row.many for row in rows]
    if prod(counts) > TUNING.most_union_cells:
        raise too_large()
    boxes = _boxes(form, rows, before=False)
    if len(boxes) > TUNING.most_boxes:
        raise too_large()
    total: Integers = np.zeros(counts, dtype=np.int64)
    every = frozenset(range(len(rows)))
    for chosen in product((False, True), repeat=len(boxes)):
        some = [box for box, taken in zip(boxes, chosen, strict=True) if taken]
        if not some:
            continue
        inside = some[0]
        for box in some[1:]:
            inside = tuple(map(_intersection, inside, box))
        sign = 1 if len(some) % 2 else -1
        term: Integers = np.full((1,) * len(rows), sign, dtype=np.int64)
        for side in inside:
            term = term * _overlaps(counts, every, side)
        total += term
    return total


def _listed_loads(form: UnionForm, rows: Sequence[Rows], *, whole: bool) -> int:
    """Return the elements of the siblings' distinct loads (whole: tiles), summed over steps, by listing the sets as
    bits.

    Per step and separately counted sibling, united siblings' sets are united first, and of merged siblings' sets each
    distinct one counts once.
    """
    counts = [row.many for row in rows]
    many = prod(counts)
    if not many:
        return 0
    sides = [_reach(form, rows, axis) for axis in range(len(form.boxes[0]))]
    if many > TUNING.most_union_rows or many * prod(high - low for low, high in sides) > TUNING.most_union_bits:
        raise too_large()
    held = _bits(_boxes(form, rows, before=False), counts, sides)
    if not whole:
        held &= ~_bits(_boxes(form, rows, before=True), counts, sides)
    group = _row_numbers([each for row in rows for each in (row.step, row.apart)], rows, 2)
    merged = _row_numbers([row.merged for row in rows], rows, 1)
    key = group * (int(merged.max()) + 1) + merged
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    united = np.logical_or.reduceat(held[order], first, axis=0)
    sizes = united.sum(axis=1)
    packed = np.concatenate([group[order][first, None].view(np.uint8), np.packbits(united, axis=1)], axis=1)
    _, one_of_each = np.unique(packed, axis=0, return_index=True)
    return int(sizes[one_of_each].sum())


def _row_numbers(columns: Sequence[Integers], rows: Sequence[Rows], per_dim: int) -> Integers:
    """Return one number per combination of rows; equal where all columns are."""
    total: Integers = np.zeros([row.many for row in rows], dtype=np.int64)
    for number, column in enumerate(columns):
        total = total * (int(column.max(initial=0)) + 1) + column.reshape(_grid(number // per_dim, len(rows)))
    return total.reshape(-1)


def _reach(form: UnionForm, rows: Sequence[Rows], axis: int) -> tuple[int, int]:
    boxes = [*_boxes(form, rows, before=False), *_boxes(form, rows, before=True)]
    intervals = [interval for box in boxes for interval in box[axis].values()]
    return min(int(low.min()) for low, _ in intervals), max(int(high.max()) for _, high in intervals)


def _bits(boxes: Sequence[Box], counts: Sequence[int], sides: Sequence[tuple[int, int]]) -> Booleans:
    """Return [combination of rows, element] -> whether a box contains the element."""
    many = prod(counts)
    total: Booleans = np.zeros((many, prod(high - low for low, high in sides)), dtype=np.bool_)
    for box in boxes:
        inside: Booleans = np.ones((many, 1), dtype=np.bool_)
        for side, (low, high) in zip(box, sides, strict=True):
            ((first, last),) = side.values()
            index = np.arange(low, high, dtype=np.int64)
            starts, ends = (np.broadcast_to(each, counts).reshape(-1, 1) for each in (first, last))
            along = (index >= starts) & (index < ends)
            inside = (inside[:, :, None] & along[:, None, :]).reshape(many, -1)
        total |= inside
    return total
