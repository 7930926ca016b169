"""The factors of counts for many mappings with tiles of any size: a class per kind of count along a dim or a window.

Counts are sums of products of factors. A factor of one dim is evaluated on arrays (`tables/digits.py`). A factor of a
window, or of a chain with a FREE loop outside a TIME loop, is evaluated once per distinct chain of tiles where no array
formula applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, repeat
from typing import Self, cast

import numpy as np

from polymap.costmodel.closed_form import (
    Axes,
    CarryPlace,
    Chain,
    CountedSteps,
    Cuts,
    Part,
    PreviousCarry,
    StepFilter,
    Sums,
    Track,
    accepted_steps,
    all_elements,
    distinct_elements,
    first_tile,
    kept_elements,
    kept_indices as kept_of_one,
    siblings,
    sums_of_window,
)
from polymap.costmodel.tables.digits import (
    Digit,
    accepted_is_in_reach,
    accepted_places,
    digits_of,
    is_first_entrant,
    kept_indices,
    kept_is_in_reach,
    places,
    tile_size,
)
from polymap.costmodel.tables.listed_windows import is_listed, listed_sums
from polymap.costmodel.tables.loops import Extent, ExtentColumn, Integers, Many
from polymap.costmodel.tables.planned_sums import NO_ANSWER, Source
from polymap.costmodel.tables.window_histories import is_tabled, kept_elements_of
from polymap.costmodel.tables.window_sums import StepSum, first_size, is_in_reach, sums
from polymap.ir import BudgetError

# In the chains of this module a link's tile is the number of a column, and so is a pin, unless it is 0.


def columns_of(chain: Chain) -> tuple[int, ...]:
    """Return the columns of a chain's loops, then those of its pins."""
    return (*(column for column, _, _ in chain), *(pin for _, _, pin in chain if pin))


def _of_first_columns(chain: Chain, first: int) -> Chain:
    """Return the chain with the columns first, first + 1, ... in place of its own."""
    pins = iter(range(first + len(chain), first + 2 * len(chain)))
    return tuple((first + number, part, next(pins) if pin else 0) for number, (_, part, pin) in enumerate(chain))


def _of_first_column(extent: Extent, first: int) -> Extent:
    """Return the extent with the column `first` in place of its own."""
    return extent if isinstance(extent, int) else ExtentColumn(first)


def _columns_of_extent(extent: Extent) -> tuple[int, ...]:
    return () if isinstance(extent, int) else extent


@dataclass(frozen=True, slots=True)
class Line:
    """One dim: its extent and chain. Subclasses define the count. columns: of the extent, if it has one, then of the
    loops."""

    extent: Extent
    chain: Chain

    @property
    def columns(self) -> tuple[int, ...]:
        return (*_columns_of_extent(self.extent), *columns_of(self.chain))

    @property
    def alone(self) -> bool:
        return False

    @property
    def source(self) -> None:
        return None

    def of_first_columns(self) -> Self:
        """Return the count with the columns 0, 1, ... in place of its own."""
        first = len(_columns_of_extent(self.extent))
        return replace(self, extent=_of_first_column(self.extent, 0), chain=_of_first_columns(self.chain, first))

    def digits(self, tiles: Sequence[Integers]) -> tuple[Many, list[Digit]]:
        """Return the extent and the loops with their tiles."""
        if isinstance(self.extent, int):
            return self.extent, digits_of(tiles, self.chain)
        return tiles[0], digits_of(tiles[1:], self.chain)


class FirstTile(Line):
    """Indices of the first instance's tile in the first step."""

    def count(self, tiles: Sequence[Integers]) -> Many:
        return tile_size(*self.digits(tiles))


@dataclass(frozen=True, slots=True)
class Places(Line):
    """Digit vectors with work over the first `cut` TIME loops; moving: of one loop more, those with digit > 0."""

    cut: int
    moving: bool = False

    def count(self, tiles: Sequence[Integers]) -> Many:
        extent, digits = self.digits(tiles)
        found = places(extent, digits, self.cut)
        return places(extent, digits, self.cut + 1) - found if self.moving else found


@dataclass(frozen=True, slots=True)
class KeptIndices(Line):
    """Indices that stay at carries of other dims inside the first `outside` TIME loops."""

    outside: int
    counted: CountedSteps

    @property
    def alone(self) -> bool:
        return not kept_is_in_reach(self.chain, self.outside)

    def count(self, tiles: Sequence[Integers]) -> Many:
        if self.alone:
            count = partial(_kept_of_one, outside=self.outside, counted=self.counted)
            return _line_row_by_row(count, self, tiles)
        return kept_indices(*self.digits(tiles), self.outside, self.counted)


def _line_row_by_row(count: Callable[[Axes], int], line: Line, tiles: Sequence[Integers]) -> Many:
    axes = cast("Axes", ((1, line.extent, line.chain),))
    return _with_extents(lambda placed, given: [count_row_by_row(count, placed, given)], axes, tiles)[0]


def _kept_of_one(axes: Axes, outside: int, counted: CountedSteps) -> int:
    ((_, extent, chain),) = axes
    return kept_of_one(extent, chain, outside, counted)


@dataclass(frozen=True, slots=True)
class AcceptedSteps(Line):
    """Digit vectors with work at one carry and before it, where a step filter accepts the step.

    previous: a condition on the last change before the step.
    """

    cut: CarryPlace
    step_filter: StepFilter
    previous: PreviousCarry | None = None

    @property
    def alone(self) -> bool:
        return not accepted_is_in_reach(self.chain, self.previous)

    def count(self, tiles: Sequence[Integers]) -> Many:
        if self.alone:
            count = partial(_accepted_of_one, cut=self.cut, step_filter=self.step_filter, previous=self.previous)
            return _line_row_by_row(count, self, tiles)
        return accepted_places(*self.digits(tiles), self.cut, self.step_filter, self.previous)


def _accepted_of_one(axes: Axes, cut: CarryPlace, step_filter: StepFilter, previous: PreviousCarry | None) -> int:
    ((_, extent, chain),) = axes
    if step_filter is not is_first_entrant:
        return accepted_steps(extent, chain, cut, step_filter, previous)
    ((merged, pin),) = ((number, pin) for number, (_, part, pin) in enumerate(chain) if part is Part.MERGED)
    digits = [kind[merged] for kind in siblings(extent, chain)]

    def is_first(tracks: tuple[Track, ...]) -> bool:
        back = [digit for digit, (now, before) in zip(digits, tracks, strict=True) if now and not before]
        return bool(back) and min(back) == pin

    return accepted_steps(extent, chain, cut, is_first, previous)


@dataclass(frozen=True, slots=True)
class OfWindow:
    """One window. Subclasses define the count."""

    axes: Axes

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(
            column for _, extent, chain in self.axes for column in (*_columns_of_extent(extent), *columns_of(chain))
        )

    @property
    def alone(self) -> bool:
        return True

    @property
    def source(self) -> tuple[Source, str] | None:
        return None

    def of_first_columns(self) -> Self:
        """Return the count with the columns 0, 1, ... in place of its own."""
        axes: list[tuple[int, int, Chain]] = []
        first = 0
        for factor, extent, chain in self.axes:
            own = first + len(_columns_of_extent(extent))
            axes.append((factor, cast("int", _of_first_column(extent, first)), _of_first_columns(chain, own)))
            first = own + len(columns_of(chain))
        return replace(self, axes=tuple(axes))


def _with_extents(
    count: Callable[[Axes, Sequence[Integers]], Sequence[Many]], axes: Axes, tiles: Sequence[Integers]
) -> Sequence[Many]:
    """Return what `count` returns of axes whose extents are numbers: once per choice of extents in the rows."""
    own = [_columns_of_extent(extent) for _, extent, _ in axes]
    if not any(own):
        return count(axes, tiles)
    left, extents, loops = iter(tiles), list[Integers](), list[Integers]()
    for columns, (_, _, chain) in zip(own, axes, strict=True):
        extents += [next(left) for _ in columns]
        loops += islice(left, len(columns_of(chain)))
    choices, which = np.unique(np.stack(extents), axis=1, return_inverse=True)
    found: list[Integers] = []
    for number, choice in enumerate(choices.T.tolist()):
        here, given = np.flatnonzero(which.reshape(-1) == number), iter(choice)
        placed = tuple(
            (factor, next(given) if columns else extent, chain)
            for columns, (factor, extent, chain) in zip(own, axes, strict=True)
        )
        counted = count(placed, [tile[here] for tile in loops])
        found = found or [np.zeros(len(extents[0]), dtype=np.int64) for _ in counted]
        for values, some in zip(found, counted, strict=True):
            values[here] = some
    return found


class WindowFirst(OfWindow):
    """Elements of the first tile of the first instance."""

    def count(self, tiles: Sequence[Integers]) -> Many:
        return _with_extents(_first_size, self.axes, tiles)[0]


def _first_size(axes: Axes, tiles: Sequence[Integers]) -> Sequence[Many]:
    if not is_in_reach(axes, (None,) * len(axes)):
        return [count_row_by_row(first_tile, axes, tiles)]
    return [first_size(axes, digits_of_axes(axes, tiles))]


class WindowAll(OfWindow):
    """Elements of all tiles, summed over steps and instances."""

    def count(self, tiles: Sequence[Integers]) -> Many:
        axes, steps = _separate_siblings(self.axes), (None,) * len(self.axes)
        sums_of = partial(_sums_over_steps, lambda each: (all_elements(each),), steps, StepSum.TILES)
        return _with_extents(sums_of, axes, tiles)[0]


class WindowDistinct(OfWindow):
    """Elements of the siblings' distinct tiles, summed over steps."""

    def count(self, tiles: Sequence[Integers]) -> Many:
        steps = (None,) * len(self.axes)
        sums_of = partial(_sums_over_steps, lambda each: (distinct_elements(each),), steps, StepSum.TILES)
        return _with_extents(sums_of, self.axes, tiles)[0]


@dataclass(frozen=True, slots=True)
class WindowKept(OfWindow):
    """Elements that tiles keep at one carry, summed over its steps and all instances."""

    cuts: Cuts
    counted: CountedSteps

    def count(self, tiles: Sequence[Integers]) -> Many:
        return _with_extents(self._kept, _separate_siblings(self.axes), tiles)[0]

    def _kept(self, axes: Axes, tiles: Sequence[Integers]) -> Sequence[Many]:
        count = partial(_kept_in_window, cuts=self.cuts, counted=self.counted)
        at_once: Callable[[Sequence[Sequence[Digit]]], Integers] | None = None
        united = any(part is Part.UNITED for _, _, chain in axes for _, part, _ in chain)
        if self.counted is CountedSteps.MACHINE and not united and is_tabled(axes):
            at_once = partial(kept_elements_of, axes, cuts=self.cuts)
        return _sums_over_steps(count, self.cuts, StepSum.KEPT, axes, tiles, self.counted, at_once)


def _separate_siblings(axes: Axes) -> Axes:
    """Return the axes with every sibling counted by itself."""
    alone = {Part.MERGED: Part.EACH}
    return tuple(
        (
            factor,
            extent,
            tuple((column, alone.get(part, part), pin) for column, part, pin in chain),
        )
        for factor, extent, chain in axes
    )


def _kept_in_window(axes: Axes, cuts: Cuts, counted: CountedSteps) -> tuple[int]:
    return (kept_elements(axes, cuts, counted),)


@dataclass(frozen=True, slots=True)
class _WindowSums:
    """The sums of one window over the steps of one carry (`Sums`)."""

    axes: Axes
    cuts: Cuts

    def counts(self, tiles: Sequence[Integers]) -> dict[str, Many]:
        count = partial(sums_of_window, cuts=self.cuts)
        sums_of = partial(_sums_over_steps, count, self.cuts, StepSum.ROLES)
        return dict(zip(Sums._fields, _with_extents(sums_of, self.axes, tiles), strict=True))


@dataclass(frozen=True, slots=True)
class WindowSum(OfWindow):
    """One of the sums over the steps of one carry (`Sums`, by name)."""

    cuts: Cuts
    name: str

    @property
    def source(self) -> tuple[Source, str]:
        return _WindowSums(self.axes, self.cuts), self.name

    def count(self, tiles: Sequence[Integers]) -> Many:
        return _WindowSums(self.axes, self.cuts).counts(tiles)[self.name]


def _sums_over_steps(
    count: Callable[[Axes], Sequence[int]],
    cuts: Sequence[CarryPlace | None],
    summed: StepSum,
    axes: Axes,
    tiles: Sequence[Integers],
    counted: CountedSteps = CountedSteps.OWN,
    at_once: Callable[[Sequence[Sequence[Digit]]], Integers] | None = None,
) -> Sequence[Many]:
    """Return sums over the steps of a window.

    Rows are counted by formulas where these apply, else sibling by sibling (`listed_sums`), else point by point
    (`at_once`, if given), else one by one with `count`.
    """
    many = len(summed.value)
    if not tiles:
        return [int(value) for value in _count_row_by_row(count, axes, tiles, many)[:, 0]]
    values = np.zeros((many, len(tiles[0])), dtype=np.int64)
    left = np.ones(len(tiles[0]), dtype=np.bool_)
    if is_in_reach(axes, cuts):
        found, unknown = sums(axes, digits_of_axes(axes, tiles), cuts, summed, counted)
        for number, value in enumerate(found):
            values[number] = value
        left &= unknown
    if left.any() and is_listed(axes, cuts):
        numbers = np.flatnonzero(left)
        listed, wrong = listed_sums(axes, digits_of_axes(axes, [tile[left] for tile in tiles]), cuts, summed, counted)
        values[:, numbers] = listed
        left[numbers] = wrong
    if left.any():
        some = [tile[left] for tile in tiles]
        values[:, left] = at_once(digits_of_axes(axes, some)) if at_once else _count_row_by_row(count, axes, some, many)
    return list(values)


def digits_of_axes(axes: Axes, tiles: Sequence[Integers]) -> list[list[Digit]]:
    """Return the loops of a window's dims with their tiles."""
    left = iter(tiles)
    return [digits_of(list(islice(left, len(columns_of(chain)))), chain) for _, _, chain in axes]


def count_row_by_row(count: Callable[[Axes], int], axes: Axes, tiles: Sequence[Integers]) -> Many:
    """Return the count of each row of tiles, NO_ANSWER where it is out of reach."""
    (found,) = _count_row_by_row(lambda each: (count(each),), axes, tiles, 1)
    return found if tiles else int(found[0])


def _count_row_by_row(
    count: Callable[[Axes], Sequence[int]], axes: Axes, tiles: Sequence[Integers], many: int
) -> Integers:
    """Return counts [count, row]. many: their number per row."""
    links = (_chains(digits) for digits in digits_of_axes(axes, tiles))
    rows = zip(*links, strict=False) if tiles else iter((((),) * len(axes),))
    found: list[Sequence[int]] = []
    for chains in rows:
        placed = tuple((factor, extent, chain) for (factor, extent, _), chain in zip(axes, chains, strict=True))
        try:
            found.append(count(placed))
        except BudgetError:
            found.append((NO_ANSWER,) * many)
    return np.array(found, dtype=np.int64).T


def _chains(digits: Sequence[Digit]) -> Iterator[Chain]:
    """Yield the chain of each row; without loops, empty chains without end."""
    if not digits:
        return repeat(())
    columns = [
        zip(digit.tile.tolist(), repeat(digit.part), np.broadcast_to(digit.pin, digit.tile.shape).tolist())
        for digit in digits
    ]
    return zip(*columns, strict=True)
