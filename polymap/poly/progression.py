"""Finite sets of integers that are sums of arithmetic progressions, with exact sizes and overlaps.

A tile along one group of dims is such a sum: {2p + r}, p < 4, r < 3, is {0, 2, 4, 6} + {0, 1, 2} = {0 .. 8}.
Neighbouring progressions that fill each other's gaps merge; what is left is kept as a nest (each stride longer than
everything inside it, so that all sums differ), or, where progressions interleave, as intervals per residue.
No number of elements is ever a running time, except that interleaving sets have a budget of intervals.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

from polymap.ir import BudgetError, Mistake
from polymap.poly.tuning import TUNING

COUNT_LIMIT = 1 << 62  # counts below it are kept as int64
Steps = tuple[tuple[int, int], ...]  # (stride, count) per progression {0, stride, ..., (count - 1) * stride}
Intervals = tuple[tuple[int, int], ...]  # low <= x < high, ascending, apart


@dataclass(frozen=True, slots=True)
class NestedProgression:
    """A sum of progressions with strides ascending, each longer than the span of all before it; 0 is the least."""

    steps: Steps
    size: int
    span: int


@dataclass(frozen=True, slots=True)
class Scattered:
    """The integers modulus * q + residue, q in the residue's intervals; 0 is the least."""

    modulus: int
    parts: tuple[tuple[int, Intervals], ...]
    size: int
    span: int


Shape = NestedProgression | Scattered


@dataclass(frozen=True, slots=True)
class Placed:
    """A shape moved so that its least element is `low`."""

    low: int
    shape: Shape

    @property
    def size(self) -> int:
        return self.shape.size


def too_large() -> BudgetError:
    """Return the error of a set that would need too many intervals."""
    return BudgetError(Mistake("PM492", "a tile is a set of integers with too many gaps to be counted in closed form"))


def progressions(steps: Iterable[tuple[int, int]]) -> tuple[int, Shape]:
    """Return (least element, shape) of the sum of {0, stride, ..., (count - 1) * stride}; strides of any sign."""
    low = 0
    ascending: list[tuple[int, int]] = []
    for stride, count in steps:
        if stride < 0:
            low += stride * (count - 1)
        if stride and count > 1:
            ascending.append((abs(stride), count))
    ascending.sort()
    return low, shape_of(tuple(ascending))


@lru_cache(maxsize=1 << 15)
def shape_of(steps: Steps) -> Shape:
    """Return the shape of the sum of progressions with positive strides and counts above 1, ascending."""
    merged = _merged(steps)
    size, span = 1, 0
    for stride, count in merged:
        if stride <= span:
            return _scattered(merged)
        size *= count
        span += stride * (count - 1)
    return NestedProgression(merged, size, span)


def _merged(steps: Steps) -> Steps:
    """Return an equal sum in which no progression fills the gaps of another one."""
    left = list(steps)
    changed = True
    while changed:
        changed = False
        for outer in range(len(left) - 1, 0, -1):
            stride, count = left[outer]
            for inner in range(outer):
                small, many = left[inner]
                if stride % small == 0 and stride <= small * many:
                    left[inner] = (small, many + stride // small * (count - 1))
                    del left[outer]
                    changed = True
                    break
    return tuple(left)


def _scattered(steps: Steps) -> Scattered:
    """Return the sum as intervals per residue of the smallest stride."""
    (modulus, count), *others = steps
    parts: dict[int, list[tuple[int, int]]] = {0: [(0, count)]}
    for stride, many in others:
        parts = _add_progression(modulus, parts, stride, many)
    return _scatter(modulus, parts)


def _add_progression(
    modulus: int, parts: dict[int, list[tuple[int, int]]], stride: int, count: int
) -> dict[int, list[tuple[int, int]]]:
    """Return the sum of a set and one progression, as joined intervals per residue."""
    period = modulus // gcd(stride, modulus)  # so many steps come back to the same residue
    advance = stride * period // modulus
    sums: dict[int, list[tuple[int, int]]] = {}
    budget = TUNING.most_intervals
    for first in range(min(period, count)):
        times = -(-(count - first) // period)
        for residue, intervals in parts.items():
            carry, place = divmod(residue + first * stride, modulus)
            into = sums.setdefault(place, [])
            for low, high in intervals:
                if advance <= high - low:
                    into.append((low + carry, high + carry + advance * (times - 1)))
                    budget -= 1
                else:
                    budget -= times
                    if budget < 0:
                        raise too_large()
                    into.extend((low + carry + advance * t, high + carry + advance * t) for t in range(times))
        if budget < 0:
            raise too_large()
    return {residue: _joined(intervals) for residue, intervals in sums.items()}


def _joined(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the union of intervals, ascending and apart."""
    intervals.sort()
    joined: list[tuple[int, int]] = []
    for low, high in intervals:
        if joined and low <= joined[-1][1]:
            if high > joined[-1][1]:
                joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined


def _scatter(modulus: int, parts: dict[int, list[tuple[int, int]]]) -> Scattered:
    """Return the shape of intervals per residue whose least element is 0."""
    size = sum(high - low for intervals in parts.values() for low, high in intervals)
    span = max(modulus * (intervals[-1][1] - 1) + residue for residue, intervals in parts.items())
    return Scattered(modulus, tuple((residue, tuple(parts[residue])) for residue in sorted(parts)), size, span)


@lru_cache(maxsize=1 << 15)
def overlap(one: Shape, other: Shape, shift: int) -> int:
    """Return how many elements `one` has in common with `other` moved by `shift`."""
    if shift > one.span or -shift > other.span:
        return 0
    if isinstance(one, NestedProgression) and isinstance(other, NestedProgression):
        found = _nested_overlap(one.steps, other.steps, shift)
        if found is not None:
            return found
    return _size(intersection(Placed(0, one), Placed(shift, other)))


def _nested_overlap(one: Steps, other: Steps, shift: int) -> int | None:
    """Return the overlap of two nests whose strides agree, or one of which is an interval; None for others.

    With the outermost stride s longer than all inside it, elements meet only where their outermost digits differ by
    one of the two multiples of s next to the shift.
    """
    if not one and not other:
        return int(shift == 0)
    stride = max(one[-1][0] if one else 0, other[-1][0] if other else 0)
    inside_one, count_one = _outermost(one, stride)
    inside_other, count_other = _outermost(other, stride)
    span = max(_span(inside_one), _span(inside_other))
    if span >= stride:
        return _interval_overlap(one, other, shift)
    total = 0
    for difference in {-(-(shift - span) // stride), (shift + span) // stride}:  # any order: a sum
        if abs(shift - difference * stride) > span:
            continue
        # pairs of outermost digits (a of one, b of other) with a - b = difference
        pairs = min(count_one, count_other + difference) - max(0, difference)
        if pairs > 0:
            inside = _nested_overlap(inside_one, inside_other, shift - difference * stride)
            if inside is None:
                return None
            total += pairs * inside
    return total


def _outermost(steps: Steps, stride: int) -> tuple[Steps, int]:
    return (steps[:-1], steps[-1][1]) if steps and steps[-1][0] == stride else (steps, 1)


def _span(steps: Steps) -> int:
    return sum(stride * (count - 1) for stride, count in steps)


def _interval_overlap(one: Steps, other: Steps, shift: int) -> int | None:
    """Return the overlap where one of two nests is an interval of consecutive integers; None where neither is."""
    if len(one) == 1 and one[0][0] == 1:
        return _rank(other, one[0][1] - shift) - _rank(other, -shift)
    if len(other) == 1 and other[0][0] == 1:
        return _rank(one, shift + other[0][1]) - _rank(one, shift)
    return None


def _rank(steps: Steps, bound: int) -> int:
    """Return how many elements of a nest lie below `bound`."""
    total, whole = 0, 1
    for _, count in steps:
        whole *= count
    for stride, count in reversed(steps):
        whole //= count
        full = min(max(bound, 0) // stride, count - 1)  # so many inner copies may lie below the last one that matters
        total += full * whole
        bound -= full * stride
    return total + (bound > 0)


def intervals_of(placed: Placed, modulus: int) -> dict[int, list[tuple[int, int]]]:
    """Return the set as intervals per residue of a chosen modulus, or raise BudgetError."""
    if isinstance(placed.shape, NestedProgression):
        carry, residue = divmod(placed.low, modulus)
        parts = {residue: [(carry, carry + 1)]}
        for stride, count in placed.shape.steps:
            parts = _add_progression(modulus, parts, stride, count)
        return parts
    own = placed.shape.modulus
    if own == modulus:
        return _moved(placed.shape, placed.low)
    total: dict[int, list[tuple[int, int]]] = {}
    budget = TUNING.most_intervals
    for residue, intervals in placed.shape.parts:
        for low, high in intervals:
            start, place = divmod(placed.low + residue + own * low, modulus)
            for at, found in _add_progression(modulus, {place: [(start, start + 1)]}, own, high - low).items():
                total.setdefault(at, []).extend(found)
                budget -= len(found)
            if budget < 0:
                raise too_large()
    return {residue: _joined(found) for residue, found in total.items()}


def _moved(shape: Scattered, shift: int) -> dict[int, list[tuple[int, int]]]:
    moved: dict[int, list[tuple[int, int]]] = {}
    for residue, intervals in shape.parts:
        carry, place = divmod(residue + shift, shape.modulus)
        moved[place] = [(low + carry, high + carry) for low, high in intervals]
    return moved


def _common_modulus(sets: Iterable[Placed]) -> int:
    """Return a modulus that suits all sets: the smallest of their strides."""
    found: list[int] = []
    for placed in sets:
        if isinstance(placed.shape, Scattered):
            found.append(placed.shape.modulus)
        elif placed.shape.steps:
            found.append(placed.shape.steps[0][0])
    return min(found, default=1)


def _placed(modulus: int, parts: dict[int, list[tuple[int, int]]]) -> Placed | None:
    """Return the set of intervals per residue in canonical form; None where it is empty."""
    parts = {residue: intervals for residue, intervals in parts.items() if intervals}
    if not parts:
        return None
    low = min(modulus * intervals[0][0] + residue for residue, intervals in parts.items())
    if len(parts) == 1:
        ((_, intervals),) = parts.items()
        if len(intervals) == 1:
            count = intervals[0][1] - intervals[0][0]
            return Placed(low, shape_of(((modulus, count),) if count > 1 else ()))
    moved: dict[int, list[tuple[int, int]]] = {}
    for residue, intervals in parts.items():
        carry, place = divmod(residue - low, modulus)
        moved[place] = [(first + carry, last + carry) for first, last in intervals]
    return Placed(low, _scatter(modulus, moved))


def _size(placed: Placed | None) -> int:
    return placed.size if placed else 0


def union(sets: Iterable[Placed]) -> Placed | None:
    """Return the union of sets; None where there are none."""
    members = tuple(dict.fromkeys(sets))
    if len(members) <= 1:
        return members[0] if members else None
    modulus = _common_modulus(members)
    total: dict[int, list[tuple[int, int]]] = {}
    for member in members:
        for residue, intervals in intervals_of(member, modulus).items():
            total.setdefault(residue, []).extend(intervals)
    return _placed(modulus, {residue: _joined(intervals) for residue, intervals in total.items()})


def intersection(one: Placed, other: Placed) -> Placed | None:
    """Return what two sets have in common; None where that is nothing."""
    modulus = _common_modulus((one, other))
    first, second = intervals_of(one, modulus), intervals_of(other, modulus)
    return _placed(modulus, {r: _common(first[r], second[r]) for r in first if r in second})


def difference(one: Placed, other: Placed) -> Placed | None:
    """Return the elements of `one` that `other` lacks; None where there are none."""
    modulus = _common_modulus((one, other))
    first, second = intervals_of(one, modulus), intervals_of(other, modulus)
    return _placed(modulus, {r: _without(first[r], second.get(r, [])) for r in first})


def _common(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> list[tuple[int, int]]:
    common: list[tuple[int, int]] = []
    i = j = 0
    while i < len(one) and j < len(other):
        low, high = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if low < high:
            common.append((low, high))
        if one[i][1] <= other[j][1]:
            i += 1
        else:
            j += 1
    return common


def _without(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> list[tuple[int, int]]:
    left: list[tuple[int, int]] = []
    j = 0
    for low, high in one:
        while j < len(other) and other[j][1] <= low:
            j += 1
        at = j
        while at < len(other) and other[at][0] < high:
            if other[at][0] > low:
                left.append((low, other[at][0]))
            low = max(low, other[at][1])
            at += 1
        if low < high:
            left.append((low, high))
    return left


def translated_sum(placed: Placed, steps: Iterable[tuple[int, int]]) -> Placed:
    """Return the sum of a set and of progressions (strides of any sign)."""
    low = placed.low
    added: list[tuple[int, int]] = []
    for stride, count in steps:
        low += min(stride, 0) * (count - 1)
        if stride and count > 1:
            added.append((abs(stride), count))
    if not added:
        return Placed(low, placed.shape)
    if isinstance(placed.shape, NestedProgression):
        return Placed(low, shape_of(tuple(sorted((*placed.shape.steps, *added)))))
    modulus = placed.shape.modulus
    parts = _moved(placed.shape, low)
    for stride, count in added:
        parts = _add_progression(modulus, parts, stride, count)
    total = _placed(modulus, parts)
    assert total is not None
    return total


def same(one: Placed, other: Placed) -> bool:
    """Return whether two sets are equal, whatever form they have."""
    if one.size != other.size or one.low != other.low or one.shape.span != other.shape.span:
        return False
    return one.shape == other.shape or overlap(one.shape, other.shape, 0) == one.size
