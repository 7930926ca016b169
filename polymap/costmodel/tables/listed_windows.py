"""Tiles along one window for many mappings at once where siblings differ in more than an offset: listed one by one.

A tile {a x + y : x < many, y < run} is an interval, or has gaps; then it is an interval of quotients per residue modulo
a. So is what is new in it, but for a gap. Sets are compared by sorting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from polymap.costmodel.closed_form import ROLES, Axes, CarryPlace, CountedSteps, Part, Sums, role_of
from polymap.costmodel.tables.digits import Digit
from polymap.costmodel.tables.loops import Booleans, Integers, quotient
from polymap.costmodel.tables.tuning import TUNING
from polymap.costmodel.tables.window_sums import State, StepSum, state_of_pin, states_below, steep_coefficient

_WHOLE, _KEPT, _PART, _NEW = 1, 2, 4, 8
_ROLE_OF = np.array(
    [
        role_of(whole=bool(code & _WHOLE), kept=bool(code & _KEPT), part=bool(code & _PART), new=bool(code & _NEW))
        if code
        else 0
        for code in range(16)
    ]
)
_FIRST_ROLE = len(Sums._fields) - len(ROLES)


class Cells(NamedTuple):
    """The steps of one dim, with the siblings that each compares. row: of the table, ascending. often: steps. first,
    many: the range of its siblings in the columns that follow: lengths now and before (0: idle), by how much lower the
    latter begins, offset."""

    row: Integers
    often: Integers
    first: Integers
    many: Integers
    now: Integers
    before: Integers
    rise: Integers
    offset: Integers


class Siblings(NamedTuple):
    """The siblings of all steps. group: number of the step, ascending. size, new: elements held, and new ones. tile,
    added: columns that tell the sets of both apart, 4 per residue."""

    group: Integers
    size: Integers
    new: Integers
    tile: list[Integers]
    added: list[Integers]


def is_listed(axes: Axes, cuts: Sequence[CarryPlace | None]) -> bool:
    """Return whether `listed_sums` counts a window. cuts: of its dims at a carry; None: over all steps."""
    if steep_coefficient(axes) is None:
        return False
    for (_, _, chain), cut in zip(axes, cuts, strict=True):
        parts = [part for _, part, _ in chain]
        if Part.FREE in parts or Part.UNITED in parts or Part.MERGED in parts[:-1]:
            return False
        if cut is not None and any(part is not Part.TIME for part in parts[:-1]):
            return False  # siblings' own TIME loops
    return True


def listed_sums(
    axes: Axes,
    digits: Sequence[Sequence[Digit]],
    cuts: Sequence[CarryPlace | None],
    summed: StepSum,
    counted: CountedSteps,
) -> tuple[Integers, Booleans]:
    """Return sums [sum, mapping] over the steps, and a mask of the mappings for which they are not known."""
    rows = next(len(digit.tile) for each in digits for digit in each)
    values, unknown = np.zeros((len(summed.value), rows), dtype=np.int64), np.zeros(rows, dtype=np.bool_)
    start, stop = 0, rows
    while start < rows:
        stop = min(stop, rows)
        part = [[_part_of(digit, slice(start, stop)) for digit in each] for each in digits]
        cells = [
            cells_of(extent, each, cut, counted, stop - start)
            for (_, extent, _), each, cut in zip(axes, part, cuts, strict=True)
        ]
        work, most = np.ones(stop - start, dtype=np.int64), TUNING.siblings_of_a_mapping + 1
        for each in cells:
            many = np.bincount(each.row, each.many, stop - start).astype(np.int64)
            work = np.minimum(work * np.minimum(many, most), most)
        if work.sum() > TUNING.siblings_at_once and stop - start > 1:
            stop = start + (stop - start) // 2
            continue
        far = work > TUNING.siblings_of_a_mapping
        values[:, start:stop], unknown[start:stop] = _sums(axes, cells, far, summed)
        start, stop = stop, stop + (stop - start)
    return values, unknown


def _part_of(digit: Digit, rows: slice) -> Digit:
    return Digit(digit.tile[rows], digit.part, digit.pin if isinstance(digit.pin, int) else digit.pin[rows])


def _owners_and_numbers(counts: Integers) -> tuple[Integers, Integers]:
    """Return two columns of length sum(counts): the owner of each entry, and its number among the owner's entries."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def cells_of(extent: int, digits: Sequence[Digit], cut: CarryPlace | None, counted: CountedSteps, rows: int) -> Cells:
    """Return the steps of one dim with the siblings that each compares."""
    states: list[State] = [(1, extent, extent, 0)]
    outside = len(digits) if cut is None else cut.outside
    moved = cut is not None and cut.moved
    inner: list[Integers] = []
    spatial: Digit | None = None
    for number, digit in enumerate(digits):
        if digit.part is not Part.TIME and number + 1 == len(digits):
            spatial = digit
        elif digit.part is Part.PINNED:
            states = [state_of_pin(state, digit.tile, digit.pin) for state in states]
        elif digit.part is not Part.TIME:
            states = list(states_below(states, digit.tile, CarryPlace(1, moved=False)))
        elif outside > 0 or (outside == 0 and moved):
            states = list(states_below(states, digit.tile, CarryPlace(outside, moved)))
            outside -= 1
        else:
            inner.append(digit.tile)
    columns = [
        np.stack([np.broadcast_to(each, rows) for each in column], axis=1) for column in zip(*states, strict=True)
    ]
    there = np.flatnonzero(columns[0] > 0)
    often, now, before, rise = (column.reshape(-1)[there] for column in columns)
    row = there // len(states)
    return _siblings(row, often, now, before, rise, [tile[row] for tile in inner], spatial, counted)


def _siblings(
    row: Integers,
    often: Integers,
    now: Integers,
    before: Integers,
    rise: Integers,
    inner: list[Integers],
    spatial: Digit | None,
    counted: CountedSteps,
) -> Cells:
    """Return the cells of steps at which the TIME loops `inner` restart, with a spatial loop inside all of them."""
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
        owner, digit = _owners_and_numbers(quotient(now + (width - 1), width))
    now, before, rise, width = now[owner], before[owner], rise[owner], width[owner]
    offset = digit * width
    need = offset if counted is CountedSteps.OWN else 0
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


class _Steps(NamedTuple):
    """Combinations of the cells of each dim. row: of the table. at: per dim, numbers of cells or of their siblings."""

    row: Integers
    at: list[Integers]


def _steps_of(cells: Sequence[Cells], far: Booleans) -> _Steps:
    """Return the steps of all rows that are not far."""
    found = _Steps(np.flatnonzero(~far), [])
    for each in cells:
        many = np.bincount(each.row, minlength=len(far))
        first = np.cumsum(many) - many
        owner, number = _owners_and_numbers(many[found.row])
        row = found.row[owner]
        found = _Steps(row, [*(at[owner] for at in found.at), first[row] + number])
    return found


def _sums(axes: Axes, cells: Sequence[Cells], far: Booleans, summed: StepSum) -> tuple[Integers, Booleans]:
    """Return the sums of the rows that are not far, and a mask of those that are not known."""
    steps = _steps_of(cells, far)
    often: Integers = np.ones(len(steps.row), dtype=np.int64)
    group = np.arange(len(steps.row))
    siblings: list[Integers] = []
    for each, at in zip(cells, steps.at, strict=True):
        often = often * each.often[at]
        owner, number = _owners_and_numbers(each.many[at][group])
        group = group[owner]
        siblings = [*(earlier[owner] for earlier in siblings), each.first[at][group] + number]
    found, gaps = _siblings_of(axes, cells, siblings, group, residues=1)
    total = np.zeros((len(summed.value), len(far)), dtype=np.int64)
    with_gaps = np.zeros(len(far), dtype=np.bool_)
    with_gaps[steps.row[group[gaps]]] = True
    gaps = with_gaps[steps.row[group]]
    residues = steep_coefficient(axes) or 1
    if gaps.any():
        if residues <= TUNING.most_residues:
            some = [at[gaps] for at in siblings]
            odd, _ = _siblings_of(axes, cells, some, group[gaps], residues=residues)
            _add(total, odd, steps.row, often, summed)
        else:
            far = far | with_gaps
        found = _choose_siblings(found, ~gaps)
    _add(total, found, steps.row, often, summed)
    return total, far


def _choose_siblings(found: Siblings, where: Booleans) -> Siblings:
    tile, added = ([column[where] for column in each] for each in (found.tile, found.added))
    return Siblings(found.group[where], found.size[where], found.new[where], tile, added)


class _Lattice(NamedTuple):
    """The sets {low + stride x + y : x < many, y < run}; none where `idle`."""

    low: Integers
    many: Integers
    run: Integers
    idle: Booleans

    def intervals(self, stride: int, residue: int | None) -> tuple[Integers, Integers]:
        """Return the first and the number of elements: of the quotients of one residue, or of all (sets without
        gaps)."""
        length = stride * (self.many - 1) + self.run
        if residue is None:
            return self.low, np.where(self.idle, 0, length)
        rest = (residue - self.low) % stride
        of_gaps = np.where(rest < self.run, self.many, 0)
        many = np.where(self.run < stride, of_gaps, -((rest - length) // stride))
        return (self.low + rest - residue) // stride, np.where(self.idle, 0, np.maximum(many, 0))


def _siblings_of(
    axes: Axes, cells: Sequence[Cells], at: Sequence[Integers], group: Integers, *, residues: int
) -> tuple[Siblings, Booleans]:
    """Return the siblings of combinations of cells, and a mask of those whose sets have gaps (of one residue only)."""
    stride = steep_coefficient(axes) or 1
    now = _lattice(axes, [(each.now[here], each.offset[here]) for each, here in zip(cells, at, strict=True)])
    before = _lattice(
        axes,
        [(each.before[here], each.offset[here] - each.rise[here]) for each, here in zip(cells, at, strict=True)],
    )
    gaps = (now.many > 1) & (now.run < stride) | (~before.idle & (before.many > 1) & (before.run < stride))
    size, new = np.zeros((2, len(group)), dtype=np.int64)
    tile: list[Integers] = []
    added: list[Integers] = []
    for residue in range(residues) if residues > 1 else (None,):
        start, many = now.intervals(stride, residue)
        start_before, many_before = before.intervals(stride, residue)
        shift = start_before - start
        apart = (many_before == 0) | (shift >= many) | (shift + many_before <= 0)
        left = np.where(apart, many, np.maximum(shift, 0))
        right = np.where(apart, 0, np.maximum(many - shift - many_before, 0))
        gap = np.where((left > 0) & (right > 0), many - left - right, 0)
        fresh = np.where(left > 0, start, start + (many - right))
        tile += [np.where(many > 0, start, 0), many, np.zeros_like(many), np.zeros_like(many)]
        added += [
            np.where(left + right > 0, fresh, 0),
            np.where(left > 0, left, right),
            gap,
            np.where(gap > 0, right, 0),
        ]
        size, new = size + many, new + left + right
    return Siblings(group, size, new, tile, added), gaps


def _lattice(axes: Axes, placed: Sequence[tuple[Integers, Integers]]) -> _Lattice:
    """Return sums of index sets. placed: per dim the length (0: nothing) and the least index."""
    low: Integers = np.zeros(len(placed[0][0]), dtype=np.int64)
    many, run, idle = low + 1, low + 1, low > 0
    for (factor, _, _), (length, least) in zip(axes, placed, strict=True):
        low = low + factor * (least + (length - 1 if factor < 0 else 0))
        idle = idle | (length == 0)
        if abs(factor) > 1:
            many = many + (length - 1)
        else:
            run = run + (length - 1)
    return _Lattice(low, many, run, idle)


def _add(total: Integers, found: Siblings, row_of_group: Integers, often: Integers, summed: StepSum) -> None:
    """Add the sums of siblings to those of their rows. often: per group."""
    if summed is StepSum.KEPT:
        np.add.at(total[0], row_of_group[found.group], often[found.group] * (found.size - found.new))
        return
    if summed is StepSum.TILES:
        (first,) = _distinct(found.group, found.tile)
        np.add.at(total[0], row_of_group[found.group[first]], often[found.group[first]] * found.size[first])
        return
    keeps = np.zeros(len(often), dtype=np.bool_)
    keeps[found.group[found.new < found.size]] = True
    found = _choose_siblings(found, keeps[found.group])
    _add_roles(total, found, row_of_group, often)


def _add_roles(total: Integers, found: Siblings, row_of_group: Integers, often: Integers) -> None:
    """Add `Sums` of siblings of which some keep some of their tiles."""

    sums, rows = total.reshape(-1), total.shape[1]

    def add(number: int | Integers, group: Integers, values: Integers) -> None:
        np.add.at(sums, number * rows + row_of_group[group], often[group] * values)

    kind = np.where(found.new == 0, _KEPT, np.where(found.new < found.size, _PART, _WHOLE))
    parts = _choose_siblings(found, kind == _PART)
    group = np.concatenate([found.group, parts.group])
    sets = [np.concatenate(pair) for pair in zip(found.tile, parts.added, strict=True)]
    size = np.concatenate([found.size, parts.new])
    flags = np.concatenate([kind, np.full(len(parts.group), _NEW)])
    first, flags = _distinct(group, sets, flags)
    group, size = group[first], size[first]
    add(_FIRST_ROLE + _ROLE_OF[flags], group, size)
    add(Sums._fields.index("held"), group[flags != _NEW], size[flags != _NEW])
    kept = (flags & _KEPT) > 0
    add(Sums._fields.index("all_kept"), group[kept], size[kept])
    (first,) = _distinct(parts.group, [*parts.tile, *parts.added])
    group, size, new = parts.group[first], parts.size[first], parts.new[first]
    add(Sums._fields.index("pairs_held"), group, size)
    add(Sums._fields.index("pairs_kept"), group, size - new)


def _distinct(group: Integers, keys: Sequence[Integers], flags: Integers | None = None) -> tuple[Integers, ...]:
    """Return the number of one entry per distinct key of a group, and the union of the flags of the equal ones."""
    if not len(group):
        return (group,) if flags is None else (group, flags)
    code, room = group, int(group[-1]) + 1 if flags is None else int(group.max()) + 1
    for key in keys:
        low = int(key.min())
        span = int(key.max()) - low + 1
        if span == 1:
            continue
        if room * span >= 2**62:
            code = np.unique(code, return_inverse=True)[1].reshape(-1)
            room = len(code)
        code, room = code * span + (key - low), room * span
    order = np.argsort(code)
    code = code[order]
    firsts = np.flatnonzero(np.append(True, code[1:] != code[:-1]))
    if flags is None:
        return (order[firsts],)
    return order[firsts], np.bitwise_or.reduceat(flags[order], firsts)
