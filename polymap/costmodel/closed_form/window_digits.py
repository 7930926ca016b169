"""The digits of one dim of a window, where tiles need not divide: tiles now and before, and how siblings differ.

Like `digits`, but with offsets: along a window (p + r) the tiles of different digits overlap. Offsets that all siblings
share in a step are left out, since only differences matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from polymap.arithmetic.progression import too_large
from polymap.costmodel.closed_form.digits import (
    MAX_KINDS,
    Branches,
    Chain,
    Clock,
    Cut,
    Part,
    ahead,
    apart,
    choices,
    left,
    runs,
    segments,
    steps_on,
)

Steps = tuple[tuple[int, int], ...]


class Piece(NamedTuple):
    """Indices base + (sum of progressions `steps`) + [0, length): the length now and the one before, 0 for none."""

    now: int
    before: int
    base: int
    steps: Steps


class Track(NamedTuple):
    """Siblings whose tiles are equal but for an offset: key + progressions along MERGED loops, united + progressions
    along UNITED ones. The tile before lay lower by `rise`. pieces: of the tile, along FREE loops, the first one's
    first."""

    key: int
    key_steps: Steps
    united: int
    united_steps: Steps
    rise: int
    pieces: tuple[Piece, ...]


Class = tuple[int, tuple[Track, ...]]  # how often, and the siblings that work
State = tuple[int, tuple[Piece, ...]]  # of one track: rise and pieces; no pieces where it is idle


@lru_cache(maxsize=1 << 14)
def window_classes(extent: int, chain: Chain, cut: Cut, clock: Clock) -> tuple[Class, ...]:
    """Return the kinds of steps of one carry. With all TIME loops outside of it, before is the same as now."""
    found: dict[tuple[Track, ...], int] = {}
    each, among = apart(chain, runs(extent, chain))
    kinds = list(product(*(run or ((0, 1),) for run in among)))
    if len(kinds) > MAX_KINDS:
        raise too_large()
    for count, digits in choices(each):
        chosen = [tuple(digit + first for digit, (first, _) in zip(digits, kind, strict=True)) for kind in kinds]
        walk = _Walk(chain, cut, clock, chosen, [ahead(chain, each) for each in chosen])
        for states, times in walk.all_states(extent).items():
            tracks = tuple(_track(chain, kind, state) for kind, state in zip(kinds, states, strict=True) if state[1])
            found[tracks] = found.get(tracks, 0) + times * count
    return tuple((times, tracks) for tracks, times in found.items())


def _track(chain: Chain, kind: Branches, state: State) -> Track:
    bases = {Part.MERGED: 0, Part.UNITED: 0}
    steps: dict[Part, list[tuple[int, int]]] = {Part.MERGED: [], Part.UNITED: []}
    for (tile, part, _), (first, count) in zip(chain, kind, strict=True):
        if part in bases:
            bases[part] += first * tile
            if count > 1:
                steps[part].append((tile, count))
    return Track(bases[Part.MERGED], tuple(steps[Part.MERGED]), bases[Part.UNITED], tuple(steps[Part.UNITED]), *state)


class _Walk(NamedTuple):
    """The steps of one carry for siblings given by one digit per loop (0 for TIME and FREE loops).

    needs: per sibling and loop, how much of a length the digits inside take.
    """

    chain: Chain
    cut: Cut
    clock: Clock
    digits: list[tuple[int, ...]]
    needs: list[tuple[int, ...]]

    def all_states(self, extent: int) -> dict[tuple[State, ...], int]:
        """Return how often each combination of the siblings' states occurs, steps without work left out."""
        start: State = (0, (Piece(extent, extent, 0, ()),))
        found: dict[tuple[int, tuple[State, ...]], int] = {(extent, (start,) * len(self.digits)): 1}
        outside = self.cut.outside
        for number, (tile, part, _) in enumerate(self.chain):
            following: dict[tuple[int, tuple[State, ...]], int] = {}
            for (clock, states), times in found.items():
                if part is Part.TIME:
                    below = self._timed(number, tile, outside, clock, states)
                else:
                    below = iter(((1, min(clock, tile), self._placed(number, tile, part, states)),))
                for count, after, reached in below:
                    if len(following) > MAX_KINDS:
                        raise too_large()
                    if any(pieces for _, pieces in reached):
                        key = (0 if self.clock is Clock.OWN else after, reached)
                        following[key] = following.get(key, 0) + count * times
            outside -= part is Part.TIME
            found = following
        total: dict[tuple[State, ...], int] = {}
        for (_, states), times in found.items():
            total[states] = total.get(states, 0) + times
        return total

    def _timed(
        self, number: int, tile: int, outside: int, clock: int, states: tuple[State, ...]
    ) -> Iterator[tuple[int, int, tuple[State, ...]]]:
        """Yield (how many digits, the clock's length, the states) below a TIME loop."""
        pieces = [piece for _, each in states for piece in each]
        now, before = [piece.now for piece in pieces], [piece.before for piece in pieces]
        own = self.clock is Clock.OWN
        if outside > 0:
            for digit, count in segments([*now, *before] if own else [*now, *before, clock], tile):
                yield count, left(clock, digit, tile), tuple(_below(state, digit, digit, tile) for state in states)
        elif outside == 0 and self.cut.moved:
            for digit, count in steps_on(now, before, clock, tile):
                reached = tuple(_below(state, digit, digit - 1, tile) for state in states)
                yield count, left(clock, digit - 1, tile), reached
        else:
            last = -(-clock // tile) - 1
            yield (
                1,
                left(clock, last, tile),
                tuple(
                    _wrapped(state, needs[number], last, tile, own=own)
                    for state, needs in zip(states, self.needs, strict=True)
                ),
            )

    def _placed(self, number: int, tile: int, part: Part, states: tuple[State, ...]) -> tuple[State, ...]:
        """Return the states below a spatial loop that fixes the node, or a FREE one."""
        if part is Part.FREE:
            return tuple((rise, _freed(pieces, tile)) for rise, pieces in states)
        return tuple(
            _below(state, digits[number], digits[number], tile)
            for state, digits in zip(states, self.digits, strict=True)
        )


def _wrapped(state: State, need: int, last: int, tile: int, *, own: bool) -> State:
    """Return the state below an inner TIME loop: its first digit now, its last before."""
    pieces = state[1]
    if not pieces or pieces[0].now <= need:
        return 0, ()
    return _below(state, 0, (pieces[0].before - need - 1) // tile if own else last, tile)


def _below(state: State, now: int, before: int, tile: int) -> State:
    """Return the state below one digit now and one before; no pieces where nothing works now."""
    rise, pieces = state
    found: list[Piece] = []
    for piece in pieces:
        lengths = max(0, left(piece.now, now, tile)), max(0, left(piece.before, before, tile))
        if any(lengths):
            found.append(Piece(*lengths, piece.base, piece.steps))
    if not found or not found[0].now:
        return 0, ()
    return rise + (now - before) * tile, tuple(found)


def _freed(pieces: tuple[Piece, ...], tile: int) -> tuple[Piece, ...]:
    """Return pieces spread over the digits of a FREE loop."""
    found: list[Piece] = []
    for piece in pieces:
        for digit, count in segments((piece.now, piece.before), tile):
            now, before = left(piece.now, digit, tile), left(piece.before, digit, tile)
            steps = (*piece.steps, (tile, count)) if count > 1 else piece.steps
            found.append(Piece(max(0, now), max(0, before), piece.base + digit * tile, steps))
    return tuple(found)
