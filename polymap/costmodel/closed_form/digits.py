"""Counts along one dim where tiles need not divide, by the digits of an index under the dim's loops.

A loop with tile t splits an index i into the digit i // t and the rest i % t. A chain lists the dim's loops, the
outermost first, each with its part (`Part`) for one node of the tree. The iterations below a digit depend on the outer
digits only through the *length*, the number of indices that these leave. For example 10 indices under tiles of 4 leave
lengths 4, 4, 2. All but the last digit leave the full tile, so there are at most two lengths per outer length, and
digits that leave equal lengths are counted together (a *run*).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise, product
from math import prod
from typing import NamedTuple

from polymap.costmodel.closed_form.tuning import TUNING
from polymap.poly import too_large


class Code(IntEnum):
    """An enum that is hashed as the integer it is: chains of its members are looked up all the time."""

    __hash__ = int.__hash__


class Part(Code):
    """The part of one loop for a node.

    TIME: a temporal loop above it. EACH: a spatial loop whose siblings count each by itself. MERGED: a spatial loop
    whose siblings have equal loads or are added. UNITED: one whose siblings' loads are united. FREE: the tile spans it.
    PINNED: a spatial loop of which one digit counts.
    """

    TIME = 0
    EACH = 1
    MERGED = 2
    UNITED = 3
    FREE = 4
    PINNED = 5


class CountedSteps(Code):
    """The steps that are counted, each tile compared with that of the step before.

    OWN: the steps at which the instance works; an idle instance keeps its tile. MACHINE: all steps.
    """

    OWN = 0
    MACHINE = 1


class CarryPlace(NamedTuple):
    """The place of a carry among a dim's TIME loops. outside: how many are outside it. moved: the next one is the
    carry's."""

    outside: int
    moved: bool


Link = tuple[int, Part, int]  # tile, part, the digit of a PINNED loop
Chain = tuple[Link, ...]
Branches = tuple[tuple[int, int], ...]  # (length, how many), the longest first


def times_of(chain: Chain) -> int:
    """Return the number of TIME loops of a chain."""
    return sum(part is Part.TIME for _, part, _ in chain)


def remaining_length(length: int, digit: int, tile: int) -> int:
    """Return the length that a digit leaves of a length: a full tile, the rest, or nothing (<= 0)."""
    return min(tile, length - digit * tile)


def segments(lengths: Iterable[int], tile: int) -> Iterator[tuple[int, int]]:
    """Yield runs (first digit, count) of digits that leave equal lengths of each given length.

    Digits that leave nothing of any length are left out.
    """
    edges = {0}
    last = 0
    # The length that a digit leaves changes only at the last full tile of some length, and after its short last tile.
    for length in lengths:
        whole, rest = divmod(length, tile)
        edges.add(whole)
        if rest:
            whole += 1
            edges.add(whole)
        last = max(last, whole)
    ordered = sorted(edge for edge in edges if edge <= last)
    for low, high in pairwise(ordered):
        yield low, high - low


@lru_cache(maxsize=1 << 14)
def runs(extent: int, chain: Chain) -> tuple[Branches, ...]:
    """Return, per loop, runs (digit, count) of its digits that leave equal lengths of every length that occurs there.

    A PINNED loop has one run; TIME and FREE loops have none, as they choose no instance.
    """
    lengths = {extent}
    found: list[Branches] = []
    for tile, part, pin in chain:
        if part is Part.PINNED:
            found.append(((pin, 1),))
        elif part is Part.TIME or part is Part.FREE:
            found.append(())
        else:
            found.append(tuple(segments(lengths, tile)))
        lengths = {tile for length in lengths if length >= tile} | {length % tile for length in lengths} - {0}
    return tuple(found)


def choices(runs_of_links: Iterable[Branches]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield (instances, one digit per loop) of each kind of instance; digit 0 for loops that choose none.

    Raises BudgetError where there are too many kinds.
    """
    kinds = [each or ((0, 1),) for each in runs_of_links]
    if prod(len(each) for each in kinds) > TUNING.most_kinds:
        raise too_large()
    for chosen in product(*kinds):
        yield prod(many for _, many in chosen), tuple(digit for digit, _ in chosen)


def offsets_inside(chain: Chain, digits: tuple[int, ...]) -> tuple[int, ...]:
    """Return, per loop, the indices by which the instance's digits inside it are offset: the sum of digit x tile."""
    needs: list[int] = []
    need = 0
    for (tile, _, _), digit in zip(reversed(chain), reversed(digits), strict=True):
        needs.append(need)
        need += tile * digit
    return tuple(reversed(needs))


@lru_cache(maxsize=1 << 14)
def kept_indices(extent: int, chain: Chain, outside: int, counted: CountedSteps) -> int:
    """Return the indices that stay at a carry in another dim, summed over steps and instances.

    outside: this dim's TIME loops outside the carry; those inside restart at it. An index stays if each of them makes
    one iteration at its outer digits. counted: whether iterations of the instance (OWN) or of the machine (MACHINE)
    count; the machine's are those of the first instance.
    """
    times = times_of(chain)
    if outside >= times:
        if all(part is not Part.PINNED for _, part, _ in chain):
            return extent  # each index is in the tile of one digit vector
        counted = CountedSteps.OWN  # no loop is inside
    inmost = chain[times:]
    if len(inmost) <= 1 and all(part is not Part.FREE for _, part, _ in inmost) and times == _leading_times(chain):
        return _kept_below_times(extent, chain[:times], inmost, outside, counted)
    total = 0
    for count, digits in choices(runs(extent, chain)):
        links = tuple(zip((tile for tile, _, _ in chain), (part for _, part, _ in chain), digits, strict=True))
        total += count * _kept_of_instance(links, offsets_inside(chain, digits), outside, counted, extent)
    return total


def _leading_times(chain: Chain) -> int:
    """Return the number of TIME loops before the first other loop."""
    return next((number for number, (_, part, _) in enumerate(chain) if part is not Part.TIME), len(chain))


def _kept_below_times(extent: int, times: Chain, spatial: Chain, outside: int, counted: CountedSteps) -> int:
    """Return `kept_indices` of a chain of TIME loops with at most one spatial loop inside them, in one pass.

    An index is kept if no inner TIME loop has a second iteration for its instance. The spatial digit is subtracted from
    the length of all of these loops, so this holds from some digit on: the kept indices are those from `first` on.
    """
    lengths: Branches = ((extent, 1),)
    for tile, _, _ in times[:outside]:
        lengths = lengths_of_all_digits(lengths, tile)
    tile, part, pin = spatial[0] if spatial else (extent, Part.EACH, 0)
    total = 0
    for length, many in lengths:
        need = 0
        for inner, _, _ in times[outside:]:
            need = max(need, length - inner)
            length = min(length, inner)
        if need and (counted is CountedSteps.MACHINE or not spatial):
            continue
        first = -(-need // tile) * tile
        if part is Part.PINNED:
            first, length = max(first, pin * tile), min(length, (pin + 1) * tile)
            if first > pin * tile:
                continue
        total += many * max(0, length - first)
    return total


def _kept_of_instance(chain: Chain, needs: tuple[int, ...], outside: int, counted: CountedSteps, extent: int) -> int:
    """Return `kept_indices` of one instance. chain: with the instance's digits. needs: `offsets_inside`.

    The walk goes from the outermost loop inwards. A state is the lengths along the FREE loops passed so far and the
    length of the first instance; it counts the digit vectors that lead to it.
    """
    found: dict[tuple[Branches, int], int] = {(((extent, 1),), extent): 1}
    for (tile, part, digit), need in zip(chain, needs, strict=True):
        following: dict[tuple[Branches, int], int] = {}
        for (branches, length), times in found.items():
            if branches[0][0] <= need + digit * tile:
                continue
            if part is Part.FREE:
                below = [(1, lengths_of_all_digits(branches, tile), min(length, tile))]
            elif part is not Part.TIME:
                below = [(1, lengths_at_digit(branches, digit, tile), min(length, tile))]
            elif outside > 0:
                lengths = [each for each, _ in branches] + ([] if counted is CountedSteps.OWN else [length])
                below = [
                    (count, lengths_at_digit(branches, first, tile), remaining_length(length, first, tile))
                    for first, count in segments(lengths, tile)
                ]
            elif (branches[0][0] - need if counted is CountedSteps.OWN else length) <= tile:
                below = [(1, lengths_at_digit(branches, 0, tile), min(length, tile))]
            else:
                below = []
            for count, reached, after in below:
                if reached:
                    key = (reached, 0 if counted is CountedSteps.OWN else after)
                    following[key] = following.get(key, 0) + count * times
        outside -= part is Part.TIME
        found = following
    return sum(times * each * many for (branches, _), times in found.items() for each, many in branches)


def lengths_at_digit(branches: Branches, digit: int, tile: int) -> Branches:
    """Return the lengths below one digit; () where it leaves nothing."""
    below: dict[int, int] = {}
    for length, many in branches:
        rest = remaining_length(length, digit, tile)
        if rest > 0:
            below[rest] = below.get(rest, 0) + many
    return tuple(below.items())


def lengths_of_all_digits(branches: Branches, tile: int) -> Branches:
    """Return the lengths below all digits of a loop, the longest first."""
    below: dict[int, int] = {}
    for length, many in branches:
        whole, rest = divmod(length, tile)
        if whole:
            below[tile] = below.get(tile, 0) + whole * many
        if rest:
            below[rest] = below.get(rest, 0) + many
    return tuple(sorted(below.items(), reverse=True))


@lru_cache(maxsize=1 << 14)
def places(chain: Chain, cut: int, length: int) -> int:
    """Return the number of digit vectors with work below: of the first `cut` TIME loops and the EACH loops.

    The other TIME digits are 0, the other spatial digits their first.
    """
    if not chain:
        return 1
    (tile, part, pin), inside = chain[0], chain[1:]
    if part is Part.EACH or (part is Part.TIME and cut):
        deeper = cut - (part is Part.TIME)
        return sum(
            count * places(inside, deeper, remaining_length(length, digit, tile))
            for digit, count in segments((length,), tile)
        )
    digit = pin if part is Part.PINNED else 0
    rest = remaining_length(length, digit, tile)
    return places(inside, cut, rest) if rest > 0 else 0


Track = tuple[int, int]  # the length of a sibling now and in the step before, 0: no work


def separate_runs(chain: Chain, of_links: Iterable[Branches]) -> tuple[list[Branches], list[Branches]]:
    """Return the runs of the loops whose digits count each by itself, and those of siblings that one step compares."""
    among = (Part.MERGED, Part.UNITED)
    pairs = list(zip(chain, of_links, strict=True))
    return (
        [() if part in among else run for (_, part, _), run in pairs],
        [run if part in among else () for (_, part, _), run in pairs],
    )


def siblings(extent: int, chain: Chain) -> tuple[tuple[int, ...], ...]:
    """Return the digits of the first sibling of each kind among those that one step compares; 0 for the other loops."""
    return tuple(digits for _, digits in choices(separate_runs(chain, runs(extent, chain))[1]))


@lru_cache(maxsize=1 << 14)
def changes(extent: int, chain: Chain, cut: CarryPlace) -> tuple[tuple[int, tuple[Track, ...]], ...]:
    """Return (count, tracks) of the steps of one carry on the clock of the machine.

    One track (length now, length before) per kind of `siblings`. Only steps at and before which the first sibling
    works.
    """
    found = _changes(extent, chain, cut, look_back=False)
    return tuple((times, tracks) for (tracks, _), times in found.items())


class CarryOrigin(NamedTuple):
    """The last change of the set of working siblings before a carry, among the steps of the loops inside the carry.

    loop: number in the chain of the outermost loop that stepped at the change; NOTHING: there was no change. starts: a
    sibling began to work at it.
    """

    loop: int
    starts: bool


NOTHING = -1
_NO_CHANGE = CarryOrigin(NOTHING, starts=False)


class PreviousCarry(NamedTuple):
    """A condition on the last change before a step (`CarryOrigin`).

    starts: the change came with this loop of the chain, and a sibling began to work at it. Otherwise: the change came
    with a loop outside this one, or there was none.
    """

    loop: int
    starts: bool

    def holds(self, origin: CarryOrigin) -> bool:
        return (origin.loop == self.loop and origin.starts) if self.starts else origin.loop < self.loop


@lru_cache(maxsize=1 << 14)
def changes_with_origin(
    extent: int, chain: Chain, cut: CarryPlace
) -> tuple[tuple[int, tuple[Track, ...], CarryOrigin], ...]:
    """Return `changes`, each with the last change before the step."""
    found = _changes(extent, chain, cut, look_back=True)
    return tuple((times, tracks, origin or _NO_CHANGE) for (tracks, origin), times in found.items())


def _changes(
    extent: int, chain: Chain, cut: CarryPlace, *, look_back: bool
) -> dict[tuple[tuple[Track, ...], CarryOrigin | None], int]:
    total: dict[tuple[tuple[Track, ...], CarryOrigin | None], int] = {}
    kinds = siblings(extent, chain)
    for count, digits in choices(separate_runs(chain, runs(extent, chain))[0]):
        chosen = [tuple(map(int.__add__, digits, kind)) for kind in kinds]
        found: dict[tuple[int, tuple[Track, ...], CarryOrigin | None], int] = {
            (extent, ((extent, extent),) * len(kinds), None): count
        }
        outside = cut.outside
        for number, (tile, part, _) in enumerate(chain):
            following: dict[tuple[int, tuple[Track, ...], CarryOrigin | None], int] = {}
            inside = part is Part.TIME and (outside < 0 or (outside == 0 and not cut.moved))
            for (clock, tracks, origin), times in found.items():
                if part is Part.TIME:
                    below = _advance(tile, CarryPlace(outside, cut.moved), clock, tracks)
                else:
                    placed = tuple(
                        _track_at(track, each[number], each[number], tile)
                        for track, each in zip(tracks, chosen, strict=True)
                    )
                    below = iter(((1, min(clock, tile), placed),))
                if look_back and inside and origin is None:
                    origin = _last_change(chain, number, clock, tuple(before for _, before in tracks), chosen)[1]
                for many, after, reached in below:
                    if len(following) > TUNING.most_kinds:
                        raise too_large()
                    if reached[0][0] and reached[0][1]:
                        key = (after, reached, origin)
                        following[key] = following.get(key, 0) + many * times
            outside -= part is Part.TIME
            found = following
        for (_, tracks, origin), times in found.items():
            total[tracks, origin] = total.get((tracks, origin), 0) + times
    return total


def _last_change(
    chain: Chain, number: int, clock: int, lengths: tuple[int, ...], chosen: list[tuple[int, ...]]
) -> tuple[tuple[bool, ...], CarryOrigin]:
    """Return the siblings that work in the last step of the loops from `number` on, and the last change in these steps.

    The steps are searched backwards. clock, lengths: the lengths for these loops, of the machine and of each sibling.
    """
    if number == len(chain):
        return tuple(length > 0 for length in lengths), _NO_CHANGE
    tile, part, _ = chain[number]
    if part is not Part.TIME:
        placed = tuple(
            max(0, remaining_length(length, each[number], tile)) for length, each in zip(lengths, chosen, strict=True)
        )
        return _last_change(chain, number + 1, min(clock, tile), placed, chosen)
    last: tuple[bool, ...] | None = None
    for digit, _ in reversed(list(segments((clock, *lengths), tile))):
        placed = tuple(max(0, remaining_length(length, digit, tile)) for length in lengths)
        works, origin = _last_change(chain, number + 1, remaining_length(clock, digit, tile), placed, chosen)
        if last is None:
            last = works
            if origin.loop != NOTHING:
                return last, origin
        elif works != last:
            return last, CarryOrigin(number, any(now and not before for now, before in zip(last, works, strict=True)))
        elif origin.loop != NOTHING:
            return last, CarryOrigin(number, origin.starts)
    assert last is not None, "a loop has an iteration"
    return last, _NO_CHANGE


def _advance(
    tile: int, cut: CarryPlace, clock: int, tracks: tuple[Track, ...]
) -> Iterator[tuple[int, int, tuple[Track, ...]]]:
    """Yield (digits, the clock's length, tracks) below a TIME loop. The cut counts from here; negative inside the
    carry."""
    now, before = [track[0] for track in tracks], [track[1] for track in tracks]
    if cut.outside > 0:
        for digit, count in segments([*now, *before, clock], tile):
            yield (
                count,
                remaining_length(clock, digit, tile),
                tuple(_track_at(track, digit, digit, tile) for track in tracks),
            )
    elif cut.outside == 0 and cut.moved:
        for digit, count in step_runs(now, before, clock, tile):
            yield (
                count,
                remaining_length(clock, digit - 1, tile),
                tuple(_track_at(track, digit, digit - 1, tile) for track in tracks),
            )
    else:
        last = -(-clock // tile) - 1
        yield 1, remaining_length(clock, last, tile), tuple(_track_at(track, 0, last, tile) for track in tracks)


def step_runs(now: Iterable[int], before: Iterable[int], clock: int, tile: int) -> Iterator[tuple[int, int]]:
    """Yield runs (digit, count) of digits >= 1 with equal lengths now, whose predecessors have equal lengths before."""
    edges = {1}
    last = 0
    for length in now:
        edges |= {length // tile, -(-length // tile)}
        last = max(last, -(-length // tile))
    for length in (*before, clock):
        edges |= {length // tile + 1, -(-length // tile) + 1}
    ordered = sorted(edge for edge in edges if 1 <= edge <= last)
    for low, high in pairwise(ordered):
        yield low, high - low


def _track_at(track: Track, now: int, before: int, tile: int) -> Track:
    """Return the track below the digits `now` and `before`."""
    return max(0, remaining_length(track[0], now, tile)), max(0, remaining_length(track[1], before, tile))
