"""`closed_form.window_tables` for many chains of tiles at once: the siblings that hold an element before and at a
carry.

The points of the window's box do not depend on tiles, and few points have the same element. The digits of these points
determine an element's history; the siblings that hold it are a mask with a bit per point.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from polymap.costmodel.closed_form import AMONG, NOTHING, Axes, Carry, CarryPlace, Loops, Part, WindowKind
from polymap.costmodel.tables.digits import Digit
from polymap.costmodel.tables.loops import Booleans, Integers
from polymap.costmodel.tables.tuning import TUNING

Codes = NDArray[np.signedinteger[Any]]
Masks = NDArray[np.uint8]
Kind = TypeVar("Kind", bound=np.generic)

_remembered: OrderedDict[tuple[object, ...], WindowTables] = OrderedDict()


class WindowTables(NamedTuple):
    """elements_held_by_any: per chain, summed over steps. kinds: per carry, kind (with `often` 0) -> its count per
    chain."""

    elements_held_by_any: Integers
    kinds: dict[Carry, dict[WindowKind, Integers]]


class Element(NamedTuple):
    """The points of a box by element. points: per dim the index at [number of the point, element]. there: whether the
    element has so many points."""

    points: tuple[NDArray[np.intp], ...]
    there: Booleans


class _Column(NamedTuple):
    """A TIME loop. dim: number of its axis. digits: [index, chain]."""

    number: int
    dim: int
    digits: Codes


def is_tabled(axes: Axes) -> bool:
    """Return whether `window_tables` counts a window of these dims."""
    box = _elements(tuple(factor for factor, _, _ in axes), tuple(extent for _, extent, _ in axes))
    return box is not None


def window_tables(
    axes: Axes, digits: Sequence[Sequence[Digit]], loops: Loops, carries: tuple[Carry, ...]
) -> WindowTables:
    """Return the tables of a window's chains; the latest ones are cached.

    digits: the loops of each dim with their tiles. loops: their positions in the tree.
    """
    tiles = [
        np.broadcast_to(each, digit.tile.shape) for of in digits for digit in of for each in (digit.tile, digit.pin)
    ]
    parts = tuple(tuple(digit.part for digit in of) for of in digits)
    key = (axes, parts, loops, carries, np.stack(tiles).tobytes())
    if key not in _remembered:
        while len(_remembered) >= TUNING.kept_histories:
            _remembered.popitem(last=False)
        _remembered[key] = _tables(axes, digits, loops, carries)
    _remembered.move_to_end(key)
    return _remembered[key]


def _tables(axes: Axes, digits: Sequence[Sequence[Digit]], loops: Loops, carries: tuple[Carry, ...]) -> WindowTables:
    chains = next(len(digit.tile) for of in digits for digit in of)
    held = np.zeros(chains, dtype=np.int64)
    kinds: dict[Carry, dict[WindowKind, Integers]] = {carry: {} for carry in carries}
    for here, walk in _walks(axes, digits, loops):
        held[here] = walk.elements_held_by_any()
        for carry in carries:
            for kind, often in walk.kinds(carry):
                known = kinds[carry].setdefault(kind, np.zeros(chains, dtype=np.int64))
                known[here] = often
    return WindowTables(held, kinds)


def kept_elements_of(axes: Axes, digits: Sequence[Sequence[Digit]], cuts: Sequence[CarryPlace]) -> Integers:
    """Return, per chain, the elements that the compared siblings hold at a carry with these cuts and before it."""
    found = [walk.kept(cuts) for _, walk in _walks(axes, digits, _loop_positions(digits))]
    return np.concatenate(found)


def _loop_positions(digits: Sequence[Sequence[Digit]]) -> Loops:
    """Return a position for each loop, dim by dim."""
    left = count()
    return tuple(tuple(next(left) for _ in of) for of in digits)


def _walks(axes: Axes, digits: Sequence[Sequence[Digit]], loops: Loops) -> Iterator[tuple[slice, _Walk]]:
    """Yield slices of chains, each with its walk."""
    box = _elements(tuple(factor for factor, _, _ in axes), tuple(extent for _, extent, _ in axes))
    assert box is not None, "is_tabled was asked"
    chains = next(len(digit.tile) for of in digits for digit in of)
    stretch = max(1, TUNING.history_cells // box.there.shape[1])
    for start in range(0, chains, stretch):
        here = slice(start, start + stretch)
        part = [
            [Digit(digit.tile[here], digit.part, np.broadcast_to(digit.pin, digit.tile.shape)[here]) for digit in of]
            for of in digits
        ]
        yield here, _Walk([extent for _, extent, _ in axes], part, loops, box)


@lru_cache(maxsize=1 << 6)
def _elements(factors: tuple[int, ...], extents: tuple[int, ...]) -> Element | None:
    """Return the points of a box by element; None where an element has too many."""
    if prod(extents) > TUNING.history_cells:
        return None
    points = np.indices(extents).reshape(len(extents), -1)
    found, element = np.unique(np.tensordot(factors, points, axes=1), return_inverse=True)
    order = np.argsort(element, kind="stable")
    firsts = np.searchsorted(element[order], np.arange(len(found)))
    number = np.arange(len(order)) - firsts[element[order]]
    most = int(number.max()) + 1
    if most > np.iinfo(np.uint8).bits:  # of a mask
        return None
    there: Booleans = np.zeros((most, len(found)), dtype=np.bool_)
    there[number, element[order]] = True
    placed: list[NDArray[np.intp]] = []
    for index in points:
        at = np.zeros((most, len(found)), dtype=np.intp)
        at[number, element[order]] = index[order]
        placed.append(at)
    return Element(tuple(placed), there)


class _HeldElements(NamedTuple):
    """The elements held at the steps of a carry, as arrays [element, chain].

    both: siblings hold the element before and now. now, before: masks of these siblings. groups: the group of each
    point of the element. last: the group of the step before.
    """

    both: Booleans
    now: Masks
    before: Masks
    groups: Sequence[Codes]
    last: Codes


class _Walk:
    """Several chains. Arrays are [index, chain] for a dim, and [element, chain] for each point of an element."""

    def __init__(self, extents: Sequence[int], digits: Sequence[Sequence[Digit]], loops: Loops, box: Element) -> None:
        self._extents, self._digits, self._box = extents, digits, box
        self._columns = loops
        self._times: list[_Column] = []
        self._chains = next(len(digit.tile) for of in digits for digit in of)
        apart, among = self._zeros(), self._zeros()
        inside: list[Booleans] = [np.ones((extent, self._chains), dtype=np.bool_) for extent in extents]
        for dim, (extent, of) in enumerate(zip(extents, digits, strict=True)):
            rest = np.broadcast_to(np.arange(extent, dtype=np.int32)[:, None], (extent, self._chains))
            for column, (tile, part, pin) in zip(self._columns[dim], of, strict=True):
                digit, rest = np.divmod(rest, tile.astype(np.int32))
                if part is Part.TIME:
                    self._times.append(_Column(column, dim, digit))
                elif part is Part.PINNED:
                    inside[dim] = inside[dim] & (digit == pin)
                elif part is Part.EACH:
                    apart[dim] = _with_digit(apart[dim], digit)
                elif part in AMONG:
                    among[dim] = _with_digit(among[dim], digit)
        self._times.sort()
        self._apart = apart
        self._there = [
            np.logical_and.reduce(each) & there[:, None]
            for each, there in zip(self._of_points(inside), box.there, strict=True)
        ]
        self._bits = self._masks(self._point_codes(among))

    def _zeros(self) -> list[Codes]:
        return [np.zeros((extent, self._chains), dtype=np.int32) for extent in self._extents]

    def _of_points(self, found: Sequence[NDArray[Kind]]) -> Iterator[list[NDArray[Kind]]]:
        """Yield, per point of an element, the entries of its indices, per dim."""
        for number in range(len(self._box.there)):
            yield [each.take(at[number], axis=0) for each, at in zip(found, self._box.points, strict=True)]

    def _point_codes(self, codes: Sequence[Codes]) -> list[Codes]:
        """Return, per point, one number that encodes the codes of all its indices, with room for one more digit."""
        rooms = [int(code.max(initial=0)) + 1 for code in codes]
        if prod(rooms) * max(self._extents) >= 1 << 31:
            codes = [code.astype(np.int64) for code in codes]
        found: list[Codes] = []
        for each in self._of_points(codes):
            code = each[0]
            for other, room in zip(each[1:], rooms[1:], strict=True):
                code = code * room + other
            found.append(code)
        return found

    def _masks(self, siblings: Sequence[Codes]) -> list[Masks]:
        """Return, per point, the bit of its sibling: that of the first point with this sibling."""
        found: list[Masks] = []
        for number, sibling in enumerate(siblings):
            bit = np.full(sibling.shape, 1 << number, dtype=np.uint8)
            for earlier in reversed(range(number)):
                bit = np.where((siblings[earlier] == sibling) & self._there[earlier], np.uint8(1 << earlier), bit)
            found.append(bit)
        return found

    def _groups(self, outside: Sequence[_Column]) -> list[Codes]:
        """Return, per point, a number that encodes its digits of these loops and its separately counted sibling."""
        codes = [*self._apart]
        for column in outside:
            codes[column.dim] = _with_digit(codes[column.dim], column.digits)
        return self._point_codes(codes)

    def elements_held_by_any(self) -> Integers:
        """Return the elements that at least one sibling holds, summed over steps."""
        groups = self._groups(self._times)
        total = np.zeros(self._chains, dtype=np.int64)
        for number, group in enumerate(groups):
            first = self._there[number].copy()
            for earlier in range(number):
                first &= ~((groups[earlier] == group) & self._there[earlier])
            total += first.sum(axis=0)
        return total

    def kinds(self, carry: Carry) -> Iterator[tuple[WindowKind, Integers]]:
        """Yield the kinds of (element, step) of a carry, with their counts per chain."""
        column, moved = carry
        outside = [each for each in self._times if each.number < column]
        inner = [each for each in self._times if each.number > column]
        own = next((each for each in self._times if each.number == column), None) if moved else None
        total = np.zeros(((self._last_place() + 2) * 8, self._chains), dtype=np.int64)
        for held in self._held(outside, own, inner):
            total += self._kinds_of(held, inner)
        for code in np.flatnonzero(total.any(axis=1)).tolist():
            kind = WindowKind(0, bool(code & 2), bool(code & 1), (code >> 3) + NOTHING, bool(code & 4))
            yield kind, total[code]

    def kept(self, cuts: Sequence[CarryPlace]) -> Integers:
        """Return, per chain, the elements that the compared siblings hold at a carry with these cuts and before it."""
        outside: list[_Column] = []
        inner: list[_Column] = []
        own: _Column | None = None
        for dim, cut in enumerate(cuts):
            times = [each for each in self._times if each.dim == dim]
            outside += times[: cut.outside]
            inner += times[cut.outside + cut.moved :]
            own = times[cut.outside] if cut.moved else own
        total = np.zeros(self._chains, dtype=np.int64)
        for held in self._held(outside, own, inner):
            total += held.both.sum(axis=0)
        return total

    def _held(
        self, outside: Sequence[_Column], own: _Column | None, inner: Sequence[_Column]
    ) -> Iterator[_HeldElements]:
        """Yield, per point of an element, the elements held where this point is the first of its step."""
        groups = self._groups(outside)
        steps: list[Codes] = []
        if own is not None:
            room = int(own.digits.max()) + 1
            steps = [own.digits.take(at, axis=0) for at in self._box.points[own.dim]]
            groups = [group * room + step for group, step in zip(groups, steps, strict=True)]
        starts, ends = self._first_and_last_steps(inner)
        now = [there & start for there, start in zip(self._there, starts, strict=True)]
        now = [each & (step > 0) for each, step in zip(now, steps, strict=True)] if steps else now
        was = [there & end for there, end in zip(self._there, ends, strict=True)]
        for number, group in enumerate(groups):
            yet: Masks = np.zeros(group.shape, dtype=np.uint8)
            before: Masks = np.zeros(group.shape, dtype=np.uint8)
            first = now[number]
            last = group - int(own is not None)
            for other, (each, bit) in enumerate(zip(groups, self._bits, strict=True)):
                if other == number:
                    first = first & (yet == 0)
                yet |= bit * (now[other] & (each == group))
                before |= bit * (was[other] & (each == last))
            yield _HeldElements(first & (before > 0), yet, before, groups, last)

    def _last_place(self) -> int:
        return self._times[-1].number if self._times else 0

    def _first_and_last_steps(self, inner: Sequence[_Column]) -> tuple[list[Booleans], list[Booleans]]:
        """Return, per point, whether it is in the first step of these loops, and whether in the last."""
        starts: list[Booleans] = []
        ends: list[Booleans] = []
        numbers = {each.number for each in inner}
        for dim, extent in enumerate(self._extents):
            digits = {each.number: each.digits for each in inner if each.dim == dim}
            start: Booleans = np.ones((extent, self._chains), dtype=np.bool_)
            end = start
            clock: Codes = np.full((extent, self._chains), extent, dtype=np.int32)
            own = {each.number: each.digits for each in self._times if each.dim == dim}
            for column, (tile, part, _) in zip(self._columns[dim], self._digits[dim], strict=True):
                size = tile.astype(np.int32)
                if part is Part.TIME:
                    digit = own[column]
                    if column in numbers:
                        start = start & (digits[column] == 0)
                        digit = (clock - 1) // size
                        end = end & (digits[column] == digit)
                    clock = np.minimum(size, clock - digit * size)
                else:
                    clock = np.minimum(size, clock)
            starts.append(start)
            ends.append(end)
        return (
            [np.logical_and.reduce(each) for each in self._of_points(starts)],
            [np.logical_and.reduce(each) for each in self._of_points(ends)],
        )

    def _kinds_of(self, held: _HeldElements, inner: Sequence[_Column]) -> Integers:
        """Return the count of each kind of change of the elements held, per kind and chain."""
        entries = np.nonzero(held.both)
        element, chain = entries
        now, before = held.now[entries], held.before[entries]
        stops, starts = (before & ~now) > 0, (now & ~before) > 0
        place, started = np.full(len(chain), NOTHING), np.zeros(len(chain), dtype=np.bool_)
        asked = np.flatnonzero(~stops) if inner else chain[:0]
        if len(asked):
            entries = element[asked], chain[asked]
            origin = _History(self, entries, before[asked], [each[entries] for each in held.groups], held.last[entries])
            place[asked], started[asked] = origin.last_change(inner)
        codes = (((place - NOTHING) * 2 + started) * 2 + stops) * 2 + starts
        kinds = (self._last_place() + 2) * 8
        return np.bincount(codes * self._chains + chain, minlength=kinds * self._chains).reshape(kinds, -1)

    def times(self) -> Sequence[_Column]:
        """Return the TIME loops, outermost first."""
        return self._times

    def points(self, entries: tuple[Integers, Integers]) -> list[tuple[Booleans, Masks, list[Codes]]]:
        """Return, per point of these elements: whether it exists, the bit of its sibling, the digits of the TIME
        loops."""
        element, chain = entries
        return [
            (
                self._there[number][entries],
                self._bits[number][entries],
                [time.digits[self._box.points[time.dim][number][element], chain] for time in self._times],
            )
            for number in range(len(self._there))
        ]

    def restart_backwards(self, chain: Integers, digits: list[Codes], free: Sequence[Booleans]) -> None:
        """Set the digits of the TIME loops to the last ones where they are free."""
        spots = {time.number: at for at, time in enumerate(self._times)}
        for dim, extent in enumerate(self._extents):
            clock: Codes = np.full(len(chain), extent, dtype=np.int32)
            for column, (tile, part, _) in zip(self._columns[dim], self._digits[dim], strict=True):
                size = tile.astype(np.int32)[chain]
                if part is Part.TIME:
                    at = spots[column]
                    digits[at] = np.where(free[at], (clock - 1) // size, digits[at])
                    clock = clock - digits[at] * size
                clock = np.minimum(size, clock)


def _with_digit(codes: Codes, digits: Codes) -> Codes:
    """Return codes that also encode a digit; renumbered where they would exceed 31 bits."""
    room = int(digits.max(initial=0)) + 1
    if (int(codes.max(initial=0)) + 1) * room >= 1 << 31:
        codes = np.unique(codes, return_inverse=True)[1].reshape(codes.shape)
        found = np.unique(codes * room + digits, return_inverse=True)[1].reshape(codes.shape)
        return found.astype(np.int32)
    return codes * np.int32(room) + digits


class _History:
    """Elements held before a step: (element, chain) of each, their siblings, the groups of their points and of the
    step."""

    def __init__(
        self,
        walk: _Walk,
        entries: tuple[Integers, Integers],
        held: Masks,
        groups: Sequence[Codes],
        before: Codes,
    ) -> None:
        self._walk, self._chain, self._held = walk, entries[1], held
        self._points = [
            (there & (group == before), bit, digits)
            for (there, bit, digits), group in zip(walk.points(entries), groups, strict=True)
        ]

    def last_change(self, inner: Sequence[_Column]) -> tuple[Integers, Booleans]:
        """Return the loop with which the set of siblings that hold an element last changed, and whether one of them
        started.

        Only changes since the outermost of the loops `inner` restarted count (`WindowKind`).
        """
        numbers = [time.number for time in self._walk.times()]
        first = numbers.index(inner[0].number)
        end = [each.copy() for each in self._points[0][2]]
        for there, _, digits in self._points[1:]:  # the loops outside stand where any point of the group has them
            for at in range(first):
                end[at] = np.where(there, digits[at], end[at])
        free = [np.full(len(self._held), at >= first) for at in range(len(end))]
        self._walk.restart_backwards(self._chain, end, free)
        step = list(end)
        place, started = np.full(len(self._held), NOTHING), np.zeros(len(self._held), dtype=np.bool_)
        open_ = np.ones(len(self._held), dtype=np.bool_)
        while True:
            open_ = open_ & self._step_back(step, first)
            if not open_.any():
                return place, started
            held = self._holders_at(step)
            changed = open_ & (held != self._held)
            started[changed] = (self._held & ~held)[changed] > 0
            for at in reversed(range(first, len(step))):
                place[changed & (step[at] != end[at])] = numbers[at]
            open_ = open_ & ~changed

    def _step_back(self, step: list[Codes], first: int) -> Booleans:
        """Move the steps to the ones before them; return a mask of those that exist. Loops from number `first` on
        move."""
        free: list[Booleans] = [np.zeros(len(self._held), dtype=np.bool_) for _ in step]
        left = np.ones(len(self._held), dtype=np.bool_)
        for at in reversed(range(first, len(step))):
            moves = left & (step[at] > 0)
            free[at] = left & ~moves
            step[at] = step[at] - moves
            left = left & ~moves
        self._walk.restart_backwards(self._chain, step, free)
        return ~left

    def _holders_at(self, step: Sequence[Codes]) -> Masks:
        held: Masks = np.zeros(len(self._held), dtype=np.uint8)
        for there, bit, digits in self._points:
            same = there
            for own, other in zip(digits, step, strict=True):
                same = same & (own == other)
            held |= bit * same
        return held
