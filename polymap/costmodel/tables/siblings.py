"""Sums over the steps of one window of two dims, sibling by sibling, for many mappings at once.

Where siblings differ in more than an offset (the last is shorter, or their inner loops end at other times), no formula
says how many loads are distinct: they are listed, as intervals, and compared by sorting. In reach is what
`batch_sliding` has, and tiles that are intervals or, all of a mapping, multiples of one stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from polymap.costmodel.closed_form import Axes, Clock, Cut, Part
from polymap.costmodel.tables.digits import Digit
from polymap.costmodel.tables.loops import Booleans, Integers, Many, quotient

_MAX_LISTED = 1 << 12  # siblings at the kinds of steps of one mapping
_AT_ONCE = 1 << 16  # the same of all mappings that are counted together

State = tuple[Many, Many, Many, Many]  # how often, the length now, the length before, how much lower the latter lay


class Cells(NamedTuple):
    """What one step of one dim compares. row: of the table, ascending. often: steps. first, many: of its siblings in
    the columns that follow: lengths now and before (0: idle), how much lower the latter lay, offset."""

    row: Integers
    often: Integers
    first: Integers
    many: Integers
    now: Integers
    before: Integers
    rise: Integers
    offset: Integers


class Listed(NamedTuple):
    """The siblings of all steps. group: number of the step. start, size: of what each holds, `unit` between elements.
    left, right: how many elements at its two ends are new; all are left where it keeps none."""

    group: Integers
    start: Integers
    size: Integers
    left: Integers
    right: Integers
    unit: Integers


def is_listed(axes: Axes, cuts: Sequence[Cut | None]) -> bool:
    """Return whether this module counts a window; cuts: of its dims at a carry, None: for all steps."""
    if len(axes) != 2 or min(abs(factor) for factor, _, _ in axes) != 1:
        return False
    for (_, _, chain), cut in zip(axes, cuts, strict=True):
        parts = [part for _, part, _ in chain]
        if Part.FREE in parts or Part.UNITED in parts or Part.MERGED in parts[:-1]:
            return False
        if cut is not None and any(part is not Part.TIME for part in parts[:-1]):
            return False  # siblings' own TIME loops
    return True


def listed_sums(
    axes: Axes, digits: Sequence[Sequence[Digit]], cuts: Sequence[Cut | None], name: str, clock: Clock
) -> tuple[Integers, Booleans]:
    """Return one sum over the steps (of `Sums`; "tile": of distinct tiles; "all": of what is kept), and for which
    mappings it is not known."""
    rows = next(len(digit.tile) for each in digits for digit in each)
    values, wrong = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.bool_)
    start, stop = 0, rows
    while start < rows:
        stop = min(stop, rows)
        part = [[_part_of(digit, slice(start, stop)) for digit in each] for each in digits]
        cells = [
            cells_of(extent, each, cut, clock, stop - start)
            for (_, extent, _), each, cut in zip(axes, part, cuts, strict=True)
        ]
        work = np.ones(stop - start, dtype=np.int64)
        for each in cells:
            work = work * np.minimum(np.bincount(each.row, each.many, stop - start).astype(np.int64), _MAX_LISTED + 1)
        if work.clip(max=_MAX_LISTED).sum() > _AT_ONCE and stop - start > 1:
            stop = start + (stop - start) // 2
            continue
        far = work > _MAX_LISTED
        values[start:stop], wrong[start:stop] = _sums(axes, cells, far, name)
        start, stop = stop, stop + (stop - start)
    return values, wrong


def _part_of(digit: Digit, rows: slice) -> Digit:
    return Digit(digit.tile[rows], digit.part, digit.pin if isinstance(digit.pin, int) else digit.pin[rows])


def _ragged(counts: Integers) -> tuple[Integers, Integers]:
    """Return, for each of so many places per owner, the owner and its number among that owner's."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def cells_of(extent: int, digits: Sequence[Digit], cut: Cut | None, clock: Clock, rows: int) -> Cells:
    """Return what the steps of one dim compare."""
    states: list[State] = [(1, extent, extent, 0)]
    outside = len(digits) if cut is None else cut.outside
    moved = cut is not None and cut.moved
    inner: list[Integers] = []
    spatial: Digit | None = None
    for number, digit in enumerate(digits):
        if digit.part is not Part.TIME:
            if number + 1 == len(digits):
                spatial = digit
            else:
                states = _split(states, digit)
        elif outside > 0:
            states = _split(states, digit)
            outside -= 1
        elif moved and outside == 0:
            states = [each for state in states for each in _stepped(state, digit.tile)]
            outside -= 1
        else:
            inner.append(digit.tile)
    columns = [
        np.stack([np.broadcast_to(each, rows) for each in column], axis=1) for column in zip(*states, strict=True)
    ]
    there = np.flatnonzero(columns[0] > 0)
    often, now, before, rise = (column.reshape(-1)[there] for column in columns)
    row = there // len(states)
    return _siblings(row, often, now, before, rise, [tile[row] for tile in inner], spatial, clock)


def _split(states: list[State], digit: Digit) -> list[State]:
    """Return what the digits of a loop leave, the same now and before."""
    tile, part, pin = digit
    if part is Part.PINNED:
        rests = [(often, now - pin * tile) for often, now, _, _ in states]
        lengths = [(often * (rest > 0), np.minimum(rest, tile)) for often, rest in rests]
        return [(often, length, length, 0) for often, length in lengths]
    full: Many = 0
    found: list[State] = []
    for often, now, _, _ in states:
        whole = quotient(now, tile)
        rest = now - whole * tile
        full = full + often * whole
        found.append((often * (rest > 0), rest, rest, 0))
    return [*found, (full, tile, tile, 0)]


def _stepped(state: State, tile: Integers) -> list[State]:
    """Return what the digits above 0 of a loop leave, and their predecessors."""
    often, now, _, _ = state
    whole = quotient(now, tile)
    rest = now - whole * tile
    return [
        (often * np.maximum(whole - 1, 0), tile, tile, tile),
        (often * ((rest > 0) & (whole > 0)), rest, tile, tile),
    ]


def _siblings(
    row: Integers,
    often: Integers,
    now: Integers,
    before: Integers,
    rise: Integers,
    inner: list[Integers],
    spatial: Digit | None,
    clock: Clock,
) -> Cells:
    """Return the cells of steps, the TIME loops `inner` starting again at them, and a spatial loop inside all these."""
    for tile in inner:
        now = np.minimum(now, tile)
    width = np.maximum(now, before) if spatial is None else spatial.tile[row]
    if spatial is None or spatial.part is Part.PINNED:
        pin = np.broadcast_to(
            0 if spatial is None else spatial.pin, len(now) if spatial is None else spatial.tile.shape
        )
        digit = np.zeros_like(now) if spatial is None else pin[row]
        owner = np.flatnonzero(digit * width < now)
        digit = digit[owner]
    else:
        owner, digit = _ragged(quotient(now + (width - 1), width))
    now, before, rise, width = now[owner], before[owner], rise[owner], width[owner]
    offset = digit * width
    need = offset if clock is Clock.OWN else 0
    for tile in inner:
        last = quotient(before - need - 1, tile[owner])
        before = np.minimum(tile[owner], before - last * tile[owner])
        rise = rise - last * tile[owner]
    now = np.minimum(width, now - offset)
    before = np.minimum(width, before - offset).clip(min=0)
    if spatial is not None and spatial.part is Part.MERGED:
        many = np.bincount(owner, minlength=len(row))
    else:
        row, often, many = row[owner], often[owner], np.ones(len(owner), dtype=np.int64)
    return Cells(row, often, np.cumsum(many) - many, many, now, before, rise, offset)


def _sums(axes: Axes, cells: list[Cells], far: Booleans, name: str) -> tuple[Integers, Booleans]:
    one, other = cells
    rows = len(far)
    steps_of_one, steps_of_other = (np.bincount(each.row, minlength=rows) for each in cells)
    row, number = _ragged(np.where(far, 0, steps_of_one * steps_of_other))
    begins = [(np.cumsum(each) - each)[row] for each in (steps_of_one, steps_of_other)]
    high = quotient(number, steps_of_other[row])
    at_one, at_other = begins[0] + high, begins[1] + number - high * steps_of_other[row]
    often = one.often[at_one] * other.often[at_other]
    group, number = _ragged(one.many[at_one] * other.many[at_other])
    high = quotient(number, other.many[at_other][group])
    low = number - high * other.many[at_other][group]
    found, bad = _listed(
        axes, cells, [(one.first[at_one])[group] + high, (other.first[at_other])[group] + low], group, row
    )
    wrong = far.copy()
    wrong[row[group[bad]]] = True
    total = np.zeros(rows, dtype=np.int64)
    np.add.at(total, row, often * _per_step(found, len(row), name))
    return total, wrong


def _listed(
    axes: Axes, cells: list[Cells], at: list[Integers], group: Integers, row: Integers
) -> tuple[Listed, Booleans]:
    """Return the siblings of pairs of cells, and which of them are out of reach."""
    start: Integers = np.zeros(len(group), dtype=np.int64)
    start_before = start
    for (factor, _, _), each, here in zip(axes, cells, at, strict=True):
        now, before, offset = each.now[here], each.before[here], each.offset[here]
        start = start + factor * (offset + (now - 1 if factor < 0 else 0))
        start_before = start_before + factor * (offset - each.rise[here] + (before - 1 if factor < 0 else 0))
    steep = 0 if abs(axes[0][0]) > 1 else 1  # the dim of a coefficient that may be above 1
    stride = abs(axes[steep][0])
    many, run = cells[steep].now[at[steep]], cells[1 - steep].now[at[1 - steep]]
    many_before, run_before = cells[steep].before[at[steep]], cells[1 - steep].before[at[1 - steep]]
    idle = (many_before == 0) | (run_before == 0)
    size, size_before = stride * (many - 1) + run, stride * (many_before - 1) + run_before
    unit: Integers = np.ones(len(group), dtype=np.int64)
    bad = np.zeros(len(group), dtype=np.bool_)
    shift = start_before - start
    if stride > 1:
        sparse = np.ones(int(row[-1]) + 1 if len(row) else 0, dtype=np.bool_)
        sparse[row[group[(run > 1) | (~idle & (run_before > 1))]]] = False
        points = sparse[row[group]]
        gaps = (many > 1) & (run < stride) | (~idle & (many_before > 1) & (run_before < stride))
        bad = gaps & ~points
        unit = np.where(points, stride, 1)
        moved = quotient(shift, unit)
        idle |= moved * unit != shift
        shift, size, size_before = moved, np.where(points, many, size), np.where(points, many_before, size_before)
    apart = idle | (shift >= size) | (shift + size_before <= 0)
    left = np.where(apart, size, np.maximum(shift, 0))
    right = np.where(apart, 0, np.maximum(size - shift - size_before, 0))
    return Listed(group, start, size, left, right, unit), bad


def _per_step(found: Listed, steps: int, name: str) -> Integers:
    """Return, per step, one of the sums."""
    new = found.left + found.right
    if name == "all":
        return _summed(found.group, found.size - new, steps)
    tiles = [found.start, found.size]
    if name == "tile":
        return _distinct(found.group, tiles, found.size, steps)
    start = np.where(found.left > 0, found.start, found.start + found.unit * (found.size - found.right))
    start = np.where(new > 0, start, 0)
    gap = np.where((found.left > 0) & (found.right > 0), found.size - new, 0)
    news = [start, np.where(found.left > 0, found.left, found.right), gap, new]
    if name == "unread":
        held = _distinct(found.group, tiles, found.size, steps)
        return held - _distinct(found.group, news, new, steps, new > 0)
    members = np.bincount(found.group, minlength=steps)
    kept, whole = (np.bincount(found.group[each], minlength=steps) for each in (new == 0, new == found.size))
    if name == "mixed":
        return ((kept != members) & (whole != members) & (kept + whole > 0)).astype(np.int64)
    if name == "kept":
        return _distinct(found.group, tiles, found.size, steps) * (kept == members)
    part = kept + whole == 0
    if name == "part":
        return _distinct(found.group, tiles, found.size, steps) * part
    if name == "news":
        return _distinct(found.group, news, new, steps, new > 0) * part
    return _distinct(found.group, [*tiles, *news], found.size if name == "tiles" else found.size - new, steps) * part


def _summed(group: Integers, values: Integers, steps: int) -> Integers:
    """Return the sums of values per group; groups ascend."""
    ends = np.cumsum(np.bincount(group, minlength=steps))
    total = np.append(0, np.cumsum(values))
    return total[ends] - total[np.append(0, ends[:-1])]


def _distinct(
    group: Integers, keys: list[Integers], values: Integers, steps: int, where: Booleans | None = None
) -> Integers:
    """Return the sums of values per group, each distinct key of a group once."""
    if where is not None:
        group, keys, values = group[where], [key[where] for key in keys], values[where]
    if not len(group):
        return np.zeros(steps, dtype=np.int64)
    code, room = group, steps
    for key in keys:
        low = int(key.min())
        span = int(key.max()) - low + 1
        if room * span >= 2**62:
            code = np.unique(code, return_inverse=True)[1].reshape(-1)
            room = len(code)
        code, room = code * span + (key - low), room * span
    order = np.argsort(code, kind="stable")
    code = code[order]
    first = order[np.append(True, code[1:] != code[:-1])]
    return _summed(group[first], values[first], steps)
