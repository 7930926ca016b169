"""Tiles along one window of two dims for many mappings at once: sizes, overlaps, and sums over the kinds of steps.

Where all tiles divide, a tile is {a x + y : x < many, y < run} with a > 0, up to a translation and a reflection; so is
every window of two dims of which one has the coefficient 1 or -1 (`Tiles`).

Otherwise `sums` counts windows whose dims have temporal loops with at most one spatial loop inside. If the spatial loop
divides, all siblings that one step compares hold and load translates of the same sets. If siblings differ in more than
an offset (the last is shorter, or inner loops end at other times), no formula says how many loads are distinct.
`listed_sums` lists these loads as intervals and compares them by sorting; tiles must be intervals, or all of a mapping
multiples of one stride.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from polymap.costmodel.closed_form import Axes, CountedSteps, Cut, Part, Sums, Window
from polymap.costmodel.tables.digits import Digit
from polymap.costmodel.tables.loops import Booleans, Integers, Many, quotient
from polymap.costmodel.tables.tuning import TUNING


class Tiles:
    """The sets {stride x + y : x < many, y < run}. size: their elements."""

    __slots__ = ("_length", "_many", "_run", "_solid", "_stride", "size")

    def __init__(self, stride: int, many: Many, run: Many) -> None:
        self._stride, self._many, self._run = stride, many, run
        self._length: Many = stride * (many - 1) + run
        if stride == 1:
            self._solid = None
            self.size: Many = self._length
        else:
            self._solid = np.greater_equal(run, stride) | np.equal(many, 1)
            self.size = np.where(self._solid, self._length, many * run)

    def overlap(self, shift: Many) -> Many:
        """Return the number of elements that each tile shares with its translate by `shift`."""
        away = np.abs(shift)
        solid = np.maximum(self._length - away, 0)
        if self._solid is None:
            return solid
        whole, rest = np.divmod(away, self._stride)
        near = np.maximum(self._many - whole, 0) * np.maximum(self._run - rest, 0)
        far = np.maximum(self._many - whole - 1, 0) * np.maximum(self._run - (self._stride - rest), 0)
        return np.where(self._solid, solid, near + far)


def sum_size(stride: Many, many: Many, other_stride: Many, other_many: Many) -> Many:
    """Return the number of elements of {0, stride, ...} + {0, other_stride, ...}.

    Two sums are equal if the digits differ by multiples of other_stride / g and stride / g, where g is the greatest
    common divisor. Equal sums form chains, of which all but the least element are counted once too often.
    """
    divisor = np.gcd(stride, other_stride)
    # A chain of length n of equal sums is counted n times: once too often for each of its n - 1 neighbours.
    twice = np.maximum(many - other_stride // divisor, 0) * np.maximum(other_many - stride // divisor, 0)
    return many * other_many - twice


def is_simple(window: Window) -> bool:
    """Return whether a window has two dims, one of them with coefficient 1 or -1."""
    return len(window.terms) == 2 and min(abs(factor) for _, factor in window.terms) == 1


class Kind(NamedTuple):
    """Steps of one dim. often: their number times the separately counted instances. now, before: the lengths of the
    tiles. rise: by how much lower the tile before begins. stride, siblings: of the siblings that one step compares."""

    often: Many
    now: Many
    before: Many
    rise: Many
    stride: Many
    siblings: Many


def is_in_reach(axes: Axes, cuts: Sequence[Cut | None]) -> bool:
    """Return whether `sums` counts a window. cuts: of its dims at a carry; None: over all steps."""
    if len(axes) != 2 or min(abs(factor) for factor, _, _ in axes) != 1:
        return False
    for (_, _, chain), cut in zip(axes, cuts, strict=True):
        parts = [part for _, part, _ in chain]
        times = parts.count(Part.TIME)
        if parts[:times].count(Part.TIME) < times or len(parts) > times + 1:
            return False
        if parts[times:] in ([Part.FREE], [Part.UNITED]):
            return False
        if parts[times:] and cut is not None and times > cut.outside + cut.moved:
            return False  # the instances' inner loops do not end together
    return True


def kinds_of(extent: int, digits: Sequence[Digit], cut: Cut | None) -> tuple[list[Kind], Many]:
    """Return the kinds of steps of one dim, and 1 where the last of the compared siblings is shorter."""
    states: list[tuple[Many, Many, Many, Many]] = [(1, extent, extent, 0)]  # how many, now, before, rise
    outside = len(digits) if cut is None else cut.outside
    for tile, part, pin in digits:
        if part is Part.TIME:
            states = list(_states_below(states, tile, Cut(outside, cut is not None and cut.moved)))
            outside -= 1
            continue
        if part is Part.MERGED:
            rests = [np.where(often > 0, now - quotient(now, tile) * tile, 0) for often, now, _, _ in states]
            kinds = [Kind(often, tile, tile, rise, tile, quotient(now, tile)) for often, now, _, rise in states]
            return kinds, np.logical_or.reduce([rest > 0 for rest in rests])
        if part is Part.PINNED:
            return [_kind_of_pin(state, tile, pin) for state in states], 0
        return [kind for state in states for kind in _each(state, tile)], 0
    return [Kind(*state, 0, 1) for state in states], 0


def _states_below(
    states: list[tuple[Many, Many, Many, Many]], tile: Integers, cut: Cut
) -> Iterator[tuple[Many, Many, Many, Many]]:
    """Yield the states below a TIME loop. The cut counts from here, and is negative inside the carry."""
    full: Many = 0
    for often, now, before, rise in states:
        whole = quotient(now, tile)
        rest = now - whole * tile
        if cut.outside > 0:  # before is as now
            full = full + often * whole
            yield often * (rest > 0), rest, rest, rise
        elif cut.outside == 0 and cut.moved:
            yield often * np.maximum(whole - 1, 0), tile, tile, tile
            yield often * ((rest > 0) & (whole > 0)), rest, tile, tile
        else:
            last = quotient(before + (tile - 1), tile) - 1
            yield often, np.minimum(now, tile), before - last * tile, rise - last * tile
    if cut.outside > 0:
        yield full, tile, tile, 0


def _each(state: tuple[Many, Many, Many, Many], tile: Integers) -> Iterator[Kind]:
    """Yield the kinds of separately counted instances along a spatial loop: full tiles, and the rest."""
    often, now, before, rise = state
    whole = quotient(now, tile)
    rest = now - whole * tile
    yield Kind(often * whole, tile, tile, rise, 0, 1)
    yield Kind(often * (rest > 0), rest, np.minimum(before - whole * tile, tile), rise, 0, 1)


def _kind_of_pin(state: tuple[Many, Many, Many, Many], tile: Integers, pin: Many) -> Kind:
    often, now, before, rise = state
    rest = now - pin * tile
    return Kind(often * (rest > 0), np.minimum(rest, tile), np.minimum(before - pin * tile, tile), rise, 0, 1)


class Tile(NamedTuple):
    """{low + stride x + y : x < many, y < run}; solid: an interval of `length`."""

    low: Many
    stride: int
    many: Many
    run: Many

    @property
    def length(self) -> Many:
        return self.stride * (self.many - 1) + self.run

    @property
    def solid(self) -> Booleans:
        return (self.run >= self.stride) | np.equal(self.many, 1)

    @property
    def size(self) -> Many:
        return self.length if self.stride == 1 else np.where(self.solid, self.length, self.many * self.run)


def tile_at(axes: Axes, lengths: Sequence[Many], offset: Many) -> Tile:
    """Return the tile of a window of two dims. lengths: of the dims' index sets, which begin at 0."""
    low: Many = offset
    for (factor, _, _), length in zip(axes, lengths, strict=True):
        if factor < 0:
            low = low + factor * (length - 1)
    one, other = (0, 1) if abs(axes[1][0]) == 1 else (1, 0)
    return Tile(low, abs(axes[one][0]), lengths[one], lengths[other])


def shared_elements(one: Tile, other: Tile) -> tuple[Many, Booleans]:
    """Return the number of elements that two tiles share, and a mask of the rows without an answer (tiles with
    gaps)."""
    shift = other.low - one.low
    solid = _interval_overlap(shift, one.length, other.length)
    if one.stride == 1:
        return solid, np.zeros(1, dtype=np.bool_)
    whole = np.floor_divide(shift, one.stride)
    rest = shift - whole * one.stride
    gaps = _interval_overlap(whole, one.many, other.many) * _interval_overlap(
        rest, one.run, other.run
    ) + _interval_overlap(whole + 1, one.many, other.many) * _interval_overlap(rest - one.stride, one.run, other.run)
    return np.where(one.solid, solid, gaps), one.solid != other.solid


def _interval_overlap(shift: Many, one: Many, other: Many) -> Many:
    """Return the size of the intersection of [0, one) and [shift, shift + other)."""
    return np.maximum(np.minimum(one, shift + other) - np.maximum(shift, 0), 0)


def sums(axes: Axes, digits: Sequence[Sequence[Digit]], cuts: Sequence[Cut | None]) -> tuple[dict[str, Many], Booleans]:
    """Return the sums of `Sums` by name, and a mask of the mappings for which they do not hold."""
    total: dict[str, Many] = dict.fromkeys(Sums._fields, 0)
    unknown: Booleans = np.zeros(1, dtype=np.bool_)
    per_dim: list[list[Kind]] = []
    for (_, extent, _), each, cut in zip(axes, digits, cuts, strict=True):
        kinds, uneven = kinds_of(extent, each, cut)
        per_dim.append(kinds)
        unknown = unknown | np.asarray(uneven, dtype=np.bool_)
    for kinds in product(*per_dim):
        tile = tile_at(axes, [kind.now for kind in kinds], 0)
        rise: Many = 0
        for (factor, _, _), kind in zip(axes, kinds, strict=True):
            rise = rise - factor * kind.rise
        kept, odd = shared_elements(tile, tile_at(axes, [kind.before for kind in kinds], rise))
        often = kinds[0].often * kinds[1].often * _offsets(axes, kinds)
        unknown = unknown | (odd & (often != 0))
        _add(total, tile.size, kept, often)
    return total, unknown


def _add(total: dict[str, Many], size: Many, kept: Many, often: Many) -> None:
    """Add steps at which distinct tiles of one size keep `kept` elements each."""
    all_kept = often * np.equal(kept, size)
    part = often * ((kept > 0) & (kept < size))
    for name, value in (
        ("all_kept", all_kept * size),
        ("partly_kept", part * size),
        ("loaded_once", part * (size - kept)),
        ("distinct_pairs_held", part * size),
        ("distinct_pairs_kept", part * kept),
        ("unread", often * kept),
    ):
        total[name] = total[name] + value


def _offsets(axes: Axes, kinds: tuple[Kind, ...]) -> Many:
    """Return the number of different offsets of the siblings that one step compares."""
    one, other = kinds
    if isinstance(one.siblings, int) or isinstance(other.siblings, int):
        return one.siblings * other.siblings
    strides = [abs(factor) * np.asarray(kind.stride) for (factor, _, _), kind in zip(axes, kinds, strict=True)]
    return sum_size(strides[0], one.siblings, strides[1], other.siblings)


def first_size(axes: Axes, digits: Sequence[Sequence[Digit]]) -> Many:
    """Return the elements of the first tile of the first instance; no loop may be FREE."""
    lengths: list[Many] = []
    for (_, extent, _), each in zip(axes, digits, strict=True):
        length: Many = extent
        for tile, _, _ in each:
            length = np.minimum(length, tile)
        lengths.append(length)
    return tile_at(axes, lengths, 0).size


State = tuple[Many, Many, Many, Many]  # how often, the length now, the length before, how much lower the latter lay


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


class SiblingIntervals(NamedTuple):
    """The siblings of all steps. group: number of the step. start, size: the elements held, `unit` apart. left, right:
    the numbers of new elements at the two ends; all are left where the sibling keeps none."""

    group: Integers
    start: Integers
    size: Integers
    left: Integers
    right: Integers
    unit: Integers


def is_listed(axes: Axes, cuts: Sequence[Cut | None]) -> bool:
    """Return whether `listed_sums` counts a window. cuts: of its dims at a carry; None: over all steps."""
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
    axes: Axes, digits: Sequence[Sequence[Digit]], cuts: Sequence[Cut | None], name: str, counted: CountedSteps
) -> tuple[Integers, Booleans]:
    """Return one sum over the steps, and a mask of the mappings for which it is not known.

    name: of `Sums`; or "tile": elements of distinct tiles; "all": elements kept.
    """
    rows = next(len(digit.tile) for each in digits for digit in each)
    values, unknown = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.bool_)
    start, stop = 0, rows
    while start < rows:
        stop = min(stop, rows)
        part = [[_part_of(digit, slice(start, stop)) for digit in each] for each in digits]
        cells = [
            cells_of(extent, each, cut, counted, stop - start)
            for (_, extent, _), each, cut in zip(axes, part, cuts, strict=True)
        ]
        work = np.ones(stop - start, dtype=np.int64)
        for each in cells:
            many = np.bincount(each.row, each.many, stop - start).astype(np.int64)
            work = work * np.minimum(many, TUNING.siblings_of_a_mapping + 1)
        if work.clip(max=TUNING.siblings_of_a_mapping).sum() > TUNING.siblings_at_once and stop - start > 1:
            stop = start + (stop - start) // 2
            continue
        far = work > TUNING.siblings_of_a_mapping
        values[start:stop], unknown[start:stop] = _sums(axes, cells, far, name)
        start, stop = stop, stop + (stop - start)
    return values, unknown


def _part_of(digit: Digit, rows: slice) -> Digit:
    return Digit(digit.tile[rows], digit.part, digit.pin if isinstance(digit.pin, int) else digit.pin[rows])


def _owners_and_numbers(counts: Integers) -> tuple[Integers, Integers]:
    """Return two columns of length sum(counts): the owner of each entry, and its number among the owner's entries."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def cells_of(extent: int, digits: Sequence[Digit], cut: Cut | None, counted: CountedSteps, rows: int) -> Cells:
    """Return the steps of one dim with the siblings that each compares."""
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
                states = _states_of_digits(states, digit)
        elif outside > 0:
            states = _states_of_digits(states, digit)
            outside -= 1
        elif moved and outside == 0:
            states = [each for state in states for each in _successor_states(state, digit.tile)]
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


def _states_of_digits(states: list[State], digit: Digit) -> list[State]:
    """Return the lengths that the digits of a loop leave, equal now and before."""
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


def _successor_states(state: State, tile: Integers) -> list[State]:
    """Return the lengths below the digits above 0 of a loop, and below their predecessors."""
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


def _sums(axes: Axes, cells: list[Cells], far: Booleans, name: str) -> tuple[Integers, Booleans]:
    one, other = cells
    rows = len(far)
    steps_of_one, steps_of_other = (np.bincount(each.row, minlength=rows) for each in cells)
    row, number = _owners_and_numbers(np.where(far, 0, steps_of_one * steps_of_other))
    begins = [(np.cumsum(each) - each)[row] for each in (steps_of_one, steps_of_other)]
    high = quotient(number, steps_of_other[row])
    at_one, at_other = begins[0] + high, begins[1] + number - high * steps_of_other[row]
    often = one.often[at_one] * other.often[at_other]
    group, number = _owners_and_numbers(one.many[at_one] * other.many[at_other])
    high = quotient(number, other.many[at_other][group])
    low = number - high * other.many[at_other][group]
    found, bad = _sibling_intervals(
        axes, cells, [(one.first[at_one])[group] + high, (other.first[at_other])[group] + low], group, row
    )
    unknown = far.copy()
    unknown[row[group[bad]]] = True
    total = np.zeros(rows, dtype=np.int64)
    np.add.at(total, row, often * _per_step(found, len(row), name))
    return total, unknown


def _sibling_intervals(
    axes: Axes, cells: list[Cells], at: list[Integers], group: Integers, row: Integers
) -> tuple[SiblingIntervals, Booleans]:
    """Return the siblings of pairs of cells, and a mask of those out of reach."""
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
    return SiblingIntervals(group, start, size, left, right, unit), bad


def _per_step(found: SiblingIntervals, steps: int, name: str) -> Integers:
    """Return one of the sums per step."""
    new = found.left + found.right
    if name == "all":
        return _group_sums(found.group, found.size - new, steps)
    tiles = [found.start, found.size]
    if name == "tile":
        return _distinct_group_sums(found.group, tiles, found.size, steps)
    start = np.where(found.left > 0, found.start, found.start + found.unit * (found.size - found.right))
    start = np.where(new > 0, start, 0)
    gap = np.where((found.left > 0) & (found.right > 0), found.size - new, 0)
    loads = [start, np.where(found.left > 0, found.left, found.right), gap, new]
    if name == "unread":
        held = _distinct_group_sums(found.group, tiles, found.size, steps)
        return held - _distinct_group_sums(found.group, loads, new, steps, new > 0)
    members = np.bincount(found.group, minlength=steps)
    kept, whole = (np.bincount(found.group[each], minlength=steps) for each in (new == 0, new == found.size))
    if name == "differing_steps":
        return ((kept != members) & (whole != members) & (kept + whole > 0)).astype(np.int64)
    if name == "all_kept":
        return _distinct_group_sums(found.group, tiles, found.size, steps) * (kept == members)
    part = kept + whole == 0
    if name == "partly_kept":
        return _distinct_group_sums(found.group, tiles, found.size, steps) * part
    if name == "loaded_once":
        return _distinct_group_sums(found.group, loads, new, steps, new > 0) * part
    values = found.size if name == "distinct_pairs_held" else found.size - new
    return _distinct_group_sums(found.group, [*tiles, *loads], values, steps) * part


def _group_sums(group: Integers, values: Integers, steps: int) -> Integers:
    """Return the sum of values per group; groups ascend."""
    ends = np.cumsum(np.bincount(group, minlength=steps))
    total = np.append(0, np.cumsum(values))
    return total[ends] - total[np.append(0, ends[:-1])]


def _distinct_group_sums(
    group: Integers, keys: list[Integers], values: Integers, steps: int, where: Booleans | None = None
) -> Integers:
    """Return the sum of values per group, each distinct key of a group counted once."""
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
    return _group_sums(group[first], values[first], steps)
