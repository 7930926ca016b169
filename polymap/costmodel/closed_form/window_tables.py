"""One window of a written tensor, element by element: the siblings that hold it at each step of the window's own loops.

Siblings may hold an element at different offsets, so that no formula says which of them takes its partial sums. But the
window's steps are few, those of its own dims. They are listed, and the other dims are factors (docs/closed_form.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple, TypeAlias

from polymap.costmodel.closed_form.digits import NOTHING, Chain, Part
from polymap.costmodel.closed_form.tuning import TUNING
from polymap.lazy import numpy as np
from polymap.poly import too_large

Booleans: TypeAlias = "np.typing.NDArray[np.bool_]"
Integers: TypeAlias = "np.typing.NDArray[np.int64]"


Carry = tuple[int, bool]  # position of its loop, and whether that is one of the window's

AMONG = (Part.MERGED, Part.UNITED)


class WindowKind(NamedTuple):
    """A class of pairs (element, step of one carry) in which the element is held before and at the step.

    often: the number of pairs. stops: a sibling drops the element at the step. starts: a sibling takes it. place:
    position of the outermost loop that advanced between the last change before the step, inside the carry, and the
    step; NOTHING: there was no change. started: a sibling took the element at that change.
    """

    often: int
    stops: bool
    starts: bool
    place: int
    started: bool


class Ask(NamedTuple):
    """A condition on a `WindowKind`.

    stops, starts: siblings may drop, or take, the element at the step. place: the last change before came with a loop
    outside this position (None: anywhere). started: instead, it came with the loop at this position, and a sibling took
    the element at it. visit: instead, there was no change inside the carry since a step at this carry at which the
    element was held, too, and no sibling took it (`WindowTable.held_since`); dropped: siblings may have dropped it.
    """

    stops: bool
    starts: bool
    place: int | None = None
    started: bool = False
    visit: Carry | None = None
    dropped: bool = False

    def approves(self, kind: WindowKind) -> bool:
        if (kind.stops and not self.stops) or (kind.starts and not self.starts):
            return False
        if self.started:
            return kind.place == self.place and kind.started
        return self.place is None or kind.place < self.place


class Axis(NamedTuple):
    """One dim of a window: its coefficient and extent, its chain, and the positions of the chain's loops."""

    factor: int
    extent: int
    chain: Chain
    loops: tuple[int, ...]


def is_spread(axes: tuple[tuple[int, int, Chain], ...]) -> bool:
    """Return whether siblings hold an element of a window at different offsets."""
    return any(part is not Part.TIME and part is not Part.FREE for _, _, chain in axes for _, part, _ in chain)


class Points(NamedTuple):
    """The points of a window's box, the last dim fastest: step, sibling that counts by itself, compared sibling,
    element."""

    step: Integers
    apart: Integers
    among: Integers
    element: Integers


class WindowTable:
    """Which sibling holds which element at which step.

    points: of the box, without those that PINNED digits exclude. The table is [step, sibling that counts by itself,
    sibling of those that one step compares, element] -> held.
    """

    __slots__ = ("_digits", "_held", "_kinds", "_positions", "_since", "points")

    def __init__(self, axes: Sequence[Axis]) -> None:
        self._kinds: dict[tuple[int, bool], list[WindowKind]] = {}
        self._since: dict[tuple[Carry, Carry | None], Integers] = {}
        points = [axis.extent for axis in axes]
        if prod(points) > TUNING.most_table_cells:
            raise too_large()
        columns: list[tuple[int, Integers]] = []  # position, digit of every index of its dim, as one axis of a grid
        apart: Integers = np.zeros((1,) * len(axes), dtype=np.int64)
        among, element = apart, apart
        inside: Booleans = np.ones((1,) * len(axes), dtype=np.bool_)
        sizes = [1, 1]
        for number, axis in enumerate(axes):
            grid = [1] * len(axes)
            grid[number] = axis.extent
            index = np.arange(axis.extent, dtype=np.int64)
            element = element + (axis.factor * index).reshape(grid)
            enclosing = axis.extent
            for (tile, part, pin), position in zip(axis.chain, axis.loops, strict=False):
                digit, index = (each.reshape(grid) for each in np.divmod(index.reshape(-1), tile))
                trips = -(-enclosing // tile)
                enclosing = tile
                if part is Part.TIME:
                    columns.append((position, digit))
                elif part is Part.PINNED:
                    inside = inside & (digit == pin)
                elif part in AMONG:
                    among, sizes[1] = among * trips + digit, sizes[1] * trips
                elif part is Part.EACH:
                    apart, sizes[0] = apart * trips + digit, sizes[0] * trips
        columns.sort(key=lambda column: column[0])
        self._positions: list[int] = [position for position, _ in columns]
        every = [np.broadcast_to(digit, points).reshape(-1) for _, digit in columns]
        step = _step_numbers(every, prod(points))
        self._digits = np.unique(np.stack([*every, step], axis=1), axis=0)[:, :-1]
        element = element - int(element.min())
        shape = (len(self._digits), *sizes, int(element.max()) + 1)
        if prod(shape) > TUNING.most_table_cells:
            raise too_large()
        self._held: Booleans = np.zeros(shape, dtype=np.bool_)
        here = np.broadcast_to(inside, points).reshape(-1)
        at = [np.broadcast_to(each, points).reshape(-1)[here] for each in (apart, among, element)]
        self._held[step[here], at[0], at[1], at[2]] = True
        self.points = Points(step[here], *at)

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of steps, siblings that count by themselves, siblings that one step compares, and elements."""
        return self._held.shape

    def elements_held_by_any(self) -> int:
        """Return the elements that at least one of the compared siblings holds, summed over steps."""
        return int(self._held.any(axis=2).sum())

    def kinds(self, carry: int, *, moved: bool) -> list[WindowKind]:
        """Return the kinds of (element, step) of a carry. carry: position of its loop. moved: it is one of the
        window's."""
        if (carry, moved) not in self._kinds:
            self._kinds[carry, moved] = list(self._all_kinds(carry, moved=moved))
        return self._kinds[carry, moved]

    def _all_kinds(self, carry: int, *, moved: bool) -> Iterator[WindowKind]:
        before, now, since = self.steps(carry, moved=moved)
        was, is_now = self._held[before], self._held[now]
        stops, starts = (was & ~is_now).any(axis=2), (is_now & ~was).any(axis=2)
        held = was.any(axis=2) & is_now.any(axis=2)
        place, started = self.origin(before, since)
        codes = (((place - NOTHING) * 2 + started) * 2 + stops) * 2 + starts
        for code, often in enumerate(np.bincount(codes[held]).tolist()):
            if often:
                yield WindowKind(often, bool(code & 2), bool(code & 1), (code >> 3) + NOTHING, bool(code & 4))

    def held_since(self, carry: Carry, ask: Ask) -> int:
        """Return the elements that stay at the steps of a carry, `ask.visit` given."""
        key = carry, ask.visit
        if key not in self._since:
            before, now, _ = self.steps(carry[0], moved=carry[1])
            quiet, dropped = self.quiet(carry, ask.visit or carry)
            was, is_now = self._held[before], self._held[now]
            quiet &= is_now.any(axis=2) & ~(was & ~is_now).any(axis=2)
            codes = (is_now & ~was).any(axis=2) * 2 + dropped
            self._since[key] = np.bincount(codes[quiet], minlength=4).reshape(2, 2)
        return int(self._since[key][: 1 + ask.starts, : 1 + ask.dropped].sum())

    def quiet(self, carry: Carry, visit: Carry) -> tuple[Booleans, Booleans]:
        """Return the elements that did not change inside a carry since a step of another at which they were held, too,
        and no sibling took them, and whether siblings dropped them at that one.

        Both are arrays [step of the carry, sibling that counts by itself, element].
        """
        before, _, since = self.steps(carry[0], moved=carry[1])
        place, own = visit
        outer = sum(position < place for position in self._positions)
        is_first = (self._digits[since, outer + own :] == 0).all(axis=1)
        if own:
            is_first &= self._digits[since, outer] > 0
            earlier = since - 1
        else:
            runs = self._digits[:, :outer]
            ends = np.append(_run_starts(runs)[1:], len(runs)) - 1
            earlier = ends[_run_numbers(runs)[since]]
        was, first = self._held[earlier], self._held[since]
        quiet = was.any(axis=2) & first.any(axis=2) & ~(first & ~was).any(axis=2) & is_first[:, None, None]
        dropped = np.logical_or.reduce(was & ~first, axis=2)
        return quiet & (self.origin(before, since)[0] == NOTHING), dropped

    def steps(self, carry: int, *, moved: bool) -> tuple[Integers, Integers, Integers]:
        """Return step numbers: those before a carry, those at it, and the first steps of the inner loops that end
        before it."""
        outside = sum(position < carry for position in self._positions)
        inner = outside + moved
        starts = _run_starts(self._digits[:, :inner])
        ends = np.append(starts[1:], len(self._digits)) - 1
        if not moved:
            return ends, starts, starts
        same = _run_numbers(self._digits[:, :outside])[starts]
        follows = np.flatnonzero(same[1:] == same[:-1])
        return ends[follows], starts[follows + 1], starts[follows]

    def origin(self, before: Integers, since: Integers) -> tuple[Integers, Booleans]:
        """Return the place of the last change in the steps since .. before, and whether a sibling took the element at
        it.

        Both are arrays [pair of since and before, sibling that counts by itself, element].
        """
        steps = len(self._digits)
        changed: Booleans = np.zeros((steps, *self._held.shape[1::2]), dtype=np.bool_)
        grew = np.zeros_like(changed)
        later, earlier = self._held[1:], self._held[:-1]
        changed[1:] = (later != earlier).any(axis=2)
        grew[1:] = (later & ~earlier).any(axis=2)
        numbers = np.arange(steps, dtype=np.int64)[:, None, None]
        last = np.maximum.accumulate(np.where(changed, numbers, 0), axis=0)[before]
        inside = last > since[:, None, None]
        last = np.where(inside, last, 1 if steps > 1 else 0)
        place = np.full(last.shape, NOTHING, dtype=np.int64)
        for column in reversed(range(len(self._positions))):
            digit = self._digits[:, column]
            place = np.where(
                digit[np.maximum(last - 1, 0)] != digit[before][:, None, None], self._positions[column], place
            )
        started = np.take_along_axis(grew, last, axis=0)
        return np.where(inside, place, NOTHING), started & inside


@lru_cache(maxsize=1 << 6)
def window_table(axes: tuple[Axis, ...]) -> WindowTable:
    """Return the table of a window of these dims, from a cache."""
    return WindowTable(axes)


def _step_numbers(columns: Sequence[Integers], points: int) -> Integers:
    """Return the number of each point's step, steps in lexicographic order."""
    if not columns:
        return np.zeros(points, dtype=np.int64)
    return np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].reshape(-1)


def _run_numbers(digits: Integers) -> Integers:
    """Return the number of the run of equal rows that each row is in."""
    if not digits.shape[1]:
        return np.zeros(len(digits), dtype=np.int64)
    return np.append(0, np.cumsum((digits[1:] != digits[:-1]).any(axis=1)))


def _run_starts(digits: Integers) -> Integers:
    """Return the first row of each run of equal rows."""
    return np.flatnonzero(np.diff(_run_numbers(digits), prepend=-1))
