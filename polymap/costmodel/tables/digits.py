"""Counts along one dim for many mappings at once, tiles of any size: `closed_form.digits` on arrays.

A state is a length that outer digits leave, with the number of digit vectors that leave it. A loop maps each length to
full tiles, which all states share, and to one rest. So a chain of k loops has at most k + 1 states, whatever the tiles:
the same states serve all rows of an array, some of them with the number 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from polymap.costmodel.closed_form import (
    NOTHING,
    CarryPlace,
    Chain,
    CountedSteps,
    Part,
    PreviousCarry,
    StepFilter,
    Track,
    none_moves,
    none_starts,
    none_stops,
)
from polymap.costmodel.tables.loops import Booleans, Integers, Many, quotient


def is_first_entrant(tracks: tuple[Track, ...]) -> bool:
    """Return whether a sibling works now that did not in the step before.

    As a filter of `accepted_places` it also requires that the first such sibling is the one given by the MERGED loop's
    pin.
    """
    return not none_starts(tracks)


class Digit(NamedTuple):
    """One loop. pin: the digit of a PINNED loop, or of the sibling that `is_first_entrant` refers to."""

    tile: Integers
    part: Part
    pin: Many


Digits = Sequence[Digit]
Lengths = list[tuple[Many, Many]]  # (length, how many); a length of which there are none may be anything


def digits_of(columns: Sequence[Integers], chain: Chain) -> list[Digit]:
    """Return the loops of a chain with their tiles and pins. columns: tiles of all loops, then pins of those that have
    one."""
    pins = iter(columns[len(chain) :])
    return [Digit(tile, part, next(pins) if pin else 0) for tile, (_, part, pin) in zip(columns, chain, strict=False)]


def run_starts(lengths: Sequence[Many], tile: Integers) -> list[Many]:
    """Return the first digits of runs that leave equal lengths of every length, 0 first; 0 in place of absent runs.

    lengths: 0 for none.
    """
    edges: list[Many] = [0]
    for length in lengths:
        whole = quotient(length, tile)
        edges += [whole, whole + (whole * tile < length)]
    ordered = np.sort(np.stack(np.broadcast_arrays(*edges)), axis=0)
    last = ordered[-1]
    # No run begins at the last edge, the end of all digits.
    starts = [np.where((low < high) & (high < last), high, 0) for low, high in pairwise(ordered[:-1])]
    return [0, *starts]


def most_runs(loops_outside: int) -> int:
    """Return the number of runs that `run_starts` gives for a loop with so many loops of its dim outside of it."""
    return 2 * (loops_outside + 1)


def lengths_below(lengths: Lengths, tile: Integers) -> Lengths:
    """Return the lengths that all digits of a loop leave."""
    full: Many = 0
    rests: Lengths = []
    for length, many in lengths:
        whole = quotient(length, tile)
        rest = length - whole * tile
        full = full + many * whole
        rests.append((rest, many * (rest > 0)))
    return [(tile, full), *rests]


def _lengths_at_digit(lengths: Lengths, tile: Integers, digit: Many) -> Lengths:
    """Return the lengths that one digit leaves."""
    if isinstance(digit, int) and digit == 0:
        return [(np.minimum(length, tile), many) for length, many in lengths]
    rests = [(length - digit * tile, many) for length, many in lengths]
    return [(np.minimum(rest, tile), many * (rest > 0)) for rest, many in rests]


def places(extent: Many, digits: Digits, cut: int) -> Many:
    """Return the number of digit vectors with work below: of the first `cut` TIME loops and the EACH loops.

    The other TIME digits are 0, the other spatial digits their first.
    """
    lengths: Lengths = [(extent, 1)]
    for tile, part, pin in digits:
        if part is Part.EACH or (part is Part.TIME and cut > 0):
            lengths = lengths_below(lengths, tile)
            cut -= part is Part.TIME
        else:
            lengths = _lengths_at_digit(lengths, tile, pin)
    return sum((many for _, many in lengths), start=0)


def tile_size(extent: Many, digits: Digits) -> Many:
    """Return the number of indices of the first instance's tile in the first step."""
    lengths: Lengths = [(extent, 1)]
    for tile, part, _ in digits:
        lengths = lengths_below(lengths, tile) if part is Part.FREE else _lengths_at_digit(lengths, tile, 0)
    return sum((length * many for length, many in lengths), start=0)


def kept_is_in_reach(chain: Chain, outside: int) -> bool:
    """Return whether `kept_indices` counts a chain: it has no FREE loop outside a TIME loop that must make one
    iteration."""
    inner = [number for number, (_, part, _) in enumerate(chain) if part is Part.TIME][outside:]
    return not inner or all(part is not Part.FREE for _, part, _ in chain)


def kept_indices(extent: Many, digits: Digits, outside: int, counted: CountedSteps) -> Many:
    """Return the indices that stay at a carry in another dim, summed over steps and instances
    (`closed_form.digits`)."""
    times = sum(digit.part is Part.TIME for digit in digits)
    if outside == times and all(digit.part is not Part.PINNED for digit in digits):
        return extent
    if counted is CountedSteps.MACHINE:
        return _kept_on_machine_clock(extent, digits, outside)
    # (length, what the digits further in must take for all inner TIME loops to end at once, how many)
    states: list[tuple[Many, Many, Many]] = [(extent, 0, 1)]
    for tile, part, pin in digits:
        following: list[tuple[Many, Many, Many]] = []
        full: Many = 0
        inner = part is Part.TIME and outside <= 0
        for length, need, many in states:
            if inner:
                following.append((np.minimum(length, tile), np.maximum(need, length - tile), many))
            elif part is Part.PINNED:
                rest = length - pin * tile
                needs = need if isinstance(need, int) else np.maximum(need - pin * tile, 0)
                following.append((np.minimum(rest, tile), needs, many * (rest > 0)))
            elif isinstance(need, int):  # nothing is needed
                whole = quotient(length, tile)
                rest = length - whole * tile
                full = full + many * whole
                following.append((rest, 0, many * (rest > 0)))
            else:
                full = full + _full_tiles_without_need(length, need, many, tile, following)
        if not inner and part is not Part.PINNED:
            following.append((tile, 0, full))
        outside -= part is Part.TIME
        states = following
    return sum((length * many * (need <= 0) for length, need, many in states), start=0)


def _full_tiles_without_need(
    length: Many, need: Many, many: Many, tile: Integers, following: list[tuple[Many, Many, Many]]
) -> Many:
    """Return the number of digits that leave a full tile and no need; the states of other digits go to `following`."""
    whole = quotient(length, tile)
    rest = length - whole * tile
    passed = quotient(need, tile)
    part = need - passed * tile
    last = passed >= whole  # the need ends in the last, shorter tile, or is beyond it
    following.append((np.where(last, rest, tile), part, many * np.where(last, (passed == whole) & (rest > part), 1)))
    following.append((rest, np.zeros_like(part), many * (~last & (rest > 0))))
    return many * np.maximum(whole - passed - 1, 0)


def _kept_on_machine_clock(extent: Many, digits: Digits, outside: int) -> Many:
    """Return `kept_indices` on the machine's steps: inner loops of all instances end with those of the first one."""
    states: list[tuple[Many, Many, Many]] = [(extent, extent, 1)]  # (length, that of the first instance, how many)
    for tile, part, pin in digits:
        following: list[tuple[Many, Many, Many]] = []
        full: Many = 0
        for length, clock, many in states:
            if part is Part.TIME and outside <= 0:
                following.append((np.minimum(length, tile), np.minimum(clock, tile), many * (clock <= tile)))
            elif part is Part.PINNED:
                rest = length - pin * tile
                following.append((np.minimum(rest, tile), np.minimum(clock, tile), many * (rest > 0)))
            else:
                whole = quotient(length, tile)
                rest = length - whole * tile
                full = full + many * whole
                after = clock - whole * tile if part is Part.TIME else clock
                following.append((rest, np.minimum(after, tile), many * (rest > 0)))
        if part is not Part.PINNED and not (part is Part.TIME and outside <= 0):
            following.append((tile, tile, full))
        outside -= part is Part.TIME
        states = following
    return sum((length * many for length, _, many in states), start=0)


def accepted_is_in_reach(chain: Chain, previous: PreviousCarry | None) -> bool:
    """Return whether `accepted_places` counts a chain: TIME loops, and at most one spatial loop inside them."""
    parts = [part for _, part, _ in chain]
    if previous and parts and parts[-1] is Part.EACH:
        return False
    return all(part is Part.TIME for part in parts[:-1]) and (not parts or parts[-1] is not Part.FREE)


def accepted_places(
    extent: Many, digits: Digits, cut: CarryPlace, step_filter: StepFilter, previous: PreviousCarry | None = None
) -> Many:
    """Return the number of pairs (machine step at one carry, EACH digits) that the filter accepts.

    The first sibling works at the step and in the step before. previous: a condition on the last change before the
    step.
    """
    states: list[tuple[Many, Many, Many]] = [(extent, extent, 1)]  # (left now, left before, how many)
    known: dict[int, Changed] = {}
    outside = cut.outside
    for number, (tile, part, pin) in enumerate(digits):
        if previous and part is Part.TIME and (outside < 0 or (outside == 0 and not cut.moved)):
            states = [
                (now, before, many * _meets_condition(digits, number, before, previous, known))
                for now, before, many in states
            ]
            previous = None
        if part is not Part.TIME:
            if previous and previous.starts:
                return 0
            return sum((_accepted_along_loop(state, tile, part, pin, step_filter) for state in states), start=0)
        if outside > 0:
            branches = lengths_below([(now, many) for now, _, many in states], tile)
            states = [(length, length, many) for length, many in branches]
        elif outside == 0 and cut.moved:
            states = [stepped for now, _, many in states for stepped in _successor_states(now, many, tile)]
        else:
            states = [
                (np.minimum(now, tile), before - (quotient(before + tile - 1, tile) - 1) * tile, many)
                for now, before, many in states
            ]
        outside -= 1
    if previous and previous.starts:
        return 0
    return sum((many for _, _, many in states), start=0)


def _meets_condition(
    digits: Digits, number: int, length: Many, previous: PreviousCarry, known: dict[int, Changed]
) -> Booleans:
    """Return where the last change within the loops from `number` on meets the condition. length: of these loops."""
    _, loop, starts = _last_change(digits, number, length, known)
    return np.asarray((loop == previous.loop) & starts if previous.starts else loop < previous.loop)


Changed = tuple[Many, Many, Many]  # siblings at work at last, number of the loop of the last change, whether more work


def _last_change(digits: Digits, number: int, length: Many, known: dict[int, Changed]) -> Changed:
    """Return `closed_form.digits._last_change` of TIME loops and one spatial loop inside them. known: those below full
    tiles.

    All digits but the last leave full tiles, so that two digits stand for all.
    """
    if number == len(digits) or digits[number].part is not Part.TIME:
        return _working_siblings(digits[number:], length), NOTHING, 0
    tile = digits[number].tile
    last = quotient(length + (tile - 1), tile) - 1
    works, loop, starts = _last_change(digits, number + 1, length - last * tile, known)
    if number not in known:
        known[number] = _last_change(digits, number + 1, tile, known)
    worked, loop_before, starts_before = known[number]
    changed = np.not_equal(worked, works)
    more = np.where(changed, np.greater(works, worked), starts_before)
    moved = np.where((last > 0) & (changed | np.greater_equal(loop_before, 0)), number, NOTHING)
    inside = np.greater_equal(loop, 0)
    return works, np.where(inside, loop, moved), np.where(inside, starts, more)


def _working_siblings(spatial: Digits, length: Many) -> Many:
    """Return the number of siblings that work along a spatial loop; of a PINNED one 1 or 0."""
    if not spatial:
        return 1
    ((tile, part, pin),) = spatial
    working = quotient(length + (tile - 1), tile)
    return np.greater(working, pin).astype(np.int64) if part is Part.PINNED else working


def _successor_states(length: Many, many: Many, tile: Integers) -> list[tuple[Many, Many, Many]]:
    """Return the lengths below the digits above 0 of a loop, and below their predecessors: full tiles, and at last the
    rest."""
    whole = quotient(length, tile)
    rest = length - whole * tile
    return [(tile, tile, many * np.maximum(whole - 1, 0)), (rest, tile, many * ((rest > 0) & (whole > 0)))]


def _accepted_along_loop(
    state: tuple[Many, Many, Many], tile: Integers, part: Part, pin: Many, step_filter: StepFilter
) -> Many:
    """Return the number of accepted steps at and before which the first sibling works, along one spatial loop."""
    length, last, many = state
    now, before = quotient(length + tile - 1, tile), quotient(last + tile - 1, tile)
    if part is Part.EACH:
        return many * np.minimum(now, before)
    if part is Part.PINNED:
        return many * ((now > pin) & (before > pin))
    if step_filter is is_first_entrant:
        return many * ((before == pin) & (now > pin))
    if step_filter is none_starts:
        return many * (now <= before)
    if step_filter is none_moves:
        return many * (now == before)
    return many * (before <= now) if step_filter is none_stops else many
