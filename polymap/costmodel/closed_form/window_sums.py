"""Tiles and loads of one window (a form of several dims) over the kinds of its steps, where tiles need not divide.

A load is the tile minus the part that the instance kept: a product of tiles over singles and windows, minus the product
of the kept parts. docs/closed_form.md says when two such loads are equal, so that siblings share one read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

from polymap.arithmetic import (
    Placed,
    Shape,
    difference,
    overlap,
    progressions,
    same,
    too_large,
    translated_sum,
    union,
)
from polymap.costmodel.closed_form.carries import Axes, Cuts
from polymap.costmodel.closed_form.digits import (
    Branches,
    Chain,
    CountedSteps,
    Cut,
    Part,
    choices,
    offsets_inside,
    remaining,
    runs,
    segments,
    separate_runs,
    step_runs,
)
from polymap.costmodel.closed_form.tuning import TUNING

Steps = tuple[tuple[int, int], ...]


class Piece(NamedTuple):
    """The indices base + (sum of the progressions `steps`) + [0, length). now, before: the two lengths, 0 for none."""

    now: int
    before: int
    base: int
    steps: Steps


class Track(NamedTuple):
    """Siblings along one dim whose index sets are translates of one another.

    key, key_steps: their offsets along MERGED loops, key + the sums of these progressions. united, united_steps:
    likewise along UNITED loops. rise: the amount by which the set of the step before begins lower. pieces: the index
    set, one piece per FREE digit with another length; the first begins at 0.
    """

    key: int
    key_steps: Steps
    united: int
    united_steps: Steps
    rise: int
    pieces: tuple[Piece, ...]


Class = tuple[int, tuple[Track, ...]]  # how often, and the siblings that work
State = tuple[int, tuple[Piece, ...]]  # of one track: rise and pieces; no pieces where it is idle


@lru_cache(maxsize=1 << 14)
def window_classes(extent: int, chain: Chain, cut: Cut, counted: CountedSteps) -> tuple[Class, ...]:
    """Return the kinds of steps of one carry. If all TIME loops are outside of it, the step before is the step
    itself."""
    found: dict[tuple[Track, ...], int] = {}
    each, among = separate_runs(chain, runs(extent, chain))
    kinds = list(product(*(run or ((0, 1),) for run in among)))
    if len(kinds) > TUNING.most_kinds:
        raise too_large()
    for count, digits in choices(each):
        chosen = [tuple(digit + first for digit, (first, _) in zip(digits, kind, strict=True)) for kind in kinds]
        walk = _Walk(chain, cut, counted, chosen, [offsets_inside(chain, each) for each in chosen])
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
    """The steps of one carry, for siblings given by one digit per loop (0 for TIME and FREE loops).

    needs: per sibling and loop, the indices by which the digits inside are offset.
    """

    chain: Chain
    cut: Cut
    counted: CountedSteps
    digits: list[tuple[int, ...]]
    needs: list[tuple[int, ...]]

    def all_states(self, extent: int) -> dict[tuple[State, ...], int]:
        """Return the number of steps of each combination of the siblings' states; steps without work are left out."""
        start: State = (0, (Piece(extent, extent, 0, ()),))
        found: dict[tuple[int, tuple[State, ...]], int] = {(extent, (start,) * len(self.digits)): 1}
        outside = self.cut.outside
        for number, (tile, part, _) in enumerate(self.chain):
            following: dict[tuple[int, tuple[State, ...]], int] = {}
            for (clock, states), times in found.items():
                if part is Part.TIME:
                    below = self._below_time_loop(number, tile, outside, clock, states)
                else:
                    below = iter(((1, min(clock, tile), self._below_spatial_loop(number, tile, part, states)),))
                for count, after, reached in below:
                    if len(following) > TUNING.most_kinds:
                        raise too_large()
                    if any(pieces for _, pieces in reached):
                        key = (0 if self.counted is CountedSteps.OWN else after, reached)
                        following[key] = following.get(key, 0) + count * times
            outside -= part is Part.TIME
            found = following
        total: dict[tuple[State, ...], int] = {}
        for (_, states), times in found.items():
            total[states] = total.get(states, 0) + times
        return total

    def _below_time_loop(
        self, number: int, tile: int, outside: int, clock: int, states: tuple[State, ...]
    ) -> Iterator[tuple[int, int, tuple[State, ...]]]:
        """Yield (digits, the clock's length, the states) below a TIME loop."""
        pieces = [piece for _, each in states for piece in each]
        now, before = [piece.now for piece in pieces], [piece.before for piece in pieces]
        own = self.counted is CountedSteps.OWN
        if outside > 0:
            for digit, count in segments([*now, *before] if own else [*now, *before, clock], tile):
                yield (
                    count,
                    remaining(clock, digit, tile),
                    tuple(_state_at(state, digit, digit, tile) for state in states),
                )
        elif outside == 0 and self.cut.moved:
            for digit, count in step_runs(now, before, clock, tile):
                reached = tuple(_state_at(state, digit, digit - 1, tile) for state in states)
                yield count, remaining(clock, digit - 1, tile), reached
        else:
            last = -(-clock // tile) - 1
            yield (
                1,
                remaining(clock, last, tile),
                tuple(
                    _state_of_restart(state, needs[number], last, tile, own=own)
                    for state, needs in zip(states, self.needs, strict=True)
                ),
            )

    def _below_spatial_loop(self, number: int, tile: int, part: Part, states: tuple[State, ...]) -> tuple[State, ...]:
        """Return the states below a spatial loop that chooses the instance, or a FREE one."""
        if part is Part.FREE:
            return tuple((rise, _pieces_of_free_loop(pieces, tile)) for rise, pieces in states)
        return tuple(
            _state_at(state, digits[number], digits[number], tile)
            for state, digits in zip(states, self.digits, strict=True)
        )


def _state_of_restart(state: State, need: int, last: int, tile: int, *, own: bool) -> State:
    """Return the state below an inner TIME loop that restarts: its first digit now, its last before."""
    pieces = state[1]
    if not pieces or pieces[0].now <= need:
        return 0, ()
    return _state_at(state, 0, (pieces[0].before - need - 1) // tile if own else last, tile)


def _state_at(state: State, now: int, before: int, tile: int) -> State:
    """Return the state below one digit now and one before; no pieces where nothing works now."""
    rise, pieces = state
    found: list[Piece] = []
    for piece in pieces:
        lengths = max(0, remaining(piece.now, now, tile)), max(0, remaining(piece.before, before, tile))
        if any(lengths):
            found.append(Piece(*lengths, piece.base, piece.steps))
    if not found or not found[0].now:
        return 0, ()
    return rise + (now - before) * tile, tuple(found)


def _pieces_of_free_loop(pieces: tuple[Piece, ...], tile: int) -> tuple[Piece, ...]:
    """Return the pieces below all digits of a FREE loop."""
    found: list[Piece] = []
    for piece in pieces:
        for digit, count in segments((piece.now, piece.before), tile):
            now, before = remaining(piece.now, digit, tile), remaining(piece.before, digit, tile)
            steps = (*piece.steps, (tile, count)) if count > 1 else piece.steps
            found.append(Piece(max(0, now), max(0, before), piece.base + digit * tile, steps))
    return tuple(found)


Tracks = tuple[Track, ...]  # one per dim of the window


@dataclass(frozen=True, slots=True)
class Load:
    """The tile and the load of siblings that are translates of one another along one window.

    A sibling holds `tile` and loads its part `new` (None: nothing), both translated by base + a sum of the progressions
    `runs`.
    """

    tile: Placed
    new: Placed | None
    base: int
    runs: tuple[tuple[int, int], ...]

    @property
    def is_whole(self) -> bool:
        return self.new is not None and self.new.size == self.tile.size

    def at(self, placed: Placed) -> Placed:
        """Return the set of the least elements of a part of the tile, over all these siblings."""
        least, shape = progressions(self.runs)
        return Placed(placed.low + self.base + least, shape)


def step_classes(axes: Axes, cuts: Cuts | None, counted: CountedSteps) -> Iterator[tuple[int, list[Tracks]]]:
    """Yield (steps, siblings) of each kind of step of a carry; without cuts: of all steps, each compared with
    itself."""
    per_dim: list[tuple[Class, ...]] = []
    for number, (_, extent, chain) in enumerate(axes):
        cut = cuts[number] if cuts else Cut(sum(part is Part.TIME for _, part, _ in chain), moved=False)
        per_dim.append(window_classes(extent, chain, cut, counted))
    for kinds in product(*per_dim):
        times = 1
        for count, _ in kinds:
            times *= count
        yield times, list(product(*(tracks for _, tracks in kinds)))


def tile_of(axes: Axes, tracks: Tracks, *, before: bool = False) -> Placed | None:
    """Return the tile of siblings now (or before), relative to the offset of the tile now; None where it is empty."""
    shift = 0
    if before:
        for (factor, _, _), track in zip(axes, tracks, strict=True):
            shift -= factor * track.rise
    pieces: list[Placed] = []
    for combination in product(*(track.pieces for track in tracks)):
        low = shift
        steps: list[tuple[int, int]] = []
        for (factor, _, _), piece in zip(axes, combination, strict=True):
            length = piece.before if before else piece.now
            if not length:
                break
            low += factor * piece.base
            steps.append((factor, length))
            steps += [(factor * stride, count) for stride, count in piece.steps]
        else:
            least, shape = progressions(steps)
            pieces.append(Placed(low + least, shape))
    return pieces[0] if len(pieces) == 1 else union(pieces)


def shared_elements(one: Placed, other: Placed | None) -> int:
    """Return the number of elements that two tiles share."""
    return overlap(one.shape, other.shape, other.low - one.low) if other else 0


@lru_cache(maxsize=1 << 14)
def first_tile(axes: Axes) -> int:
    """Return the elements of the first tile of the first instance."""
    first = tuple(
        (factor, extent, tuple((tile, Part.PINNED if part is Part.EACH else part, pin) for tile, part, pin in chain))
        for factor, extent, chain in axes
    )
    ((_, (tracks,)),) = step_classes(first, (Cut(0, moved=False),) * len(axes), CountedSteps.OWN)
    return _tile_now(first, tracks).size


@lru_cache(maxsize=1 << 14)
def all_elements(axes: Axes) -> int:
    """Return the elements of all tiles, summed over steps and instances."""
    return sum(
        times * _sibling_count(tracks) * _tile_now(axes, tracks).size
        for times, siblings in step_classes(axes, None, CountedSteps.OWN)
        for tracks in siblings
    )


@lru_cache(maxsize=1 << 14)
def kept_elements(axes: Axes, cuts: Cuts, counted: CountedSteps) -> int:
    """Return the elements that tiles keep at one carry, summed over its steps and all instances."""
    return sum(
        times * _sibling_count(tracks) * shared_elements(_tile_now(axes, tracks), tile_of(axes, tracks, before=True))
        for times, siblings in step_classes(axes, cuts, counted)
        for tracks in siblings
    )


def _sibling_count(tracks: Tracks) -> int:
    """Return the number of siblings that tracks stand for."""
    return prod(count for track in tracks for _, count in (*track.key_steps, *track.united_steps))


def _tile_now(axes: Axes, tracks: Tracks) -> Placed:
    tile = tile_of(axes, tracks)
    assert tile is not None, "only siblings that work now have tracks"
    return tile


def loads(axes: Axes, siblings: Iterable[Tracks], *, whole: bool) -> list[Load]:
    """Return the loads of one step, one per class of translates; UNITED siblings form one load.

    whole: every tile is loaded whole, as if nothing had been held before.
    """
    by_key: dict[tuple[tuple[int, tuple[tuple[int, int], ...]], ...], list[Tracks]] = {}
    for tracks in siblings:
        by_key.setdefault(tuple((track.key, track.key_steps) for track in tracks), []).append(tracks)
    found: list[Load] = []
    for key, members in by_key.items():
        tiles: list[Placed] = []
        news: list[Placed] = []
        for tracks in members:
            tile = _tile_now(axes, tracks)
            last = None if whole else tile_of(axes, tracks, before=True)
            new = difference(tile, last) if last is not None and shared_elements(tile, last) else tile
            tiles.append(_union_along_united(axes, tracks, tile))
            if new is not None:
                news.append(_union_along_united(axes, tracks, new))
        whole_tile = union(tiles)
        whole_new = union(news)
        assert whole_tile is not None
        runs = [
            (factor * stride, count)
            for (factor, _, _), (_, steps) in zip(axes, key, strict=True)
            for stride, count in steps
        ]
        base = sum(factor * low for (factor, _, _), (low, _) in zip(axes, key, strict=True))
        found.append(Load(whole_tile, whole_new, base, tuple(runs)))
    return found


def _union_along_united(axes: Axes, tracks: Tracks, placed: Placed) -> Placed:
    low = placed.low
    steps: list[tuple[int, int]] = []
    for (factor, _, _), track in zip(axes, tracks, strict=True):
        low += factor * track.united
        steps += [(factor * stride, count) for stride, count in track.united_steps]
    return translated_sum(Placed(low, placed.shape), steps)


def distinct_tiles(found: Iterable[Load]) -> int:
    """Return the total elements of the distinct tiles."""
    return _distinct([((load.tile.shape,), load.tile.size, load.at(load.tile)) for load in found])


def distinct_loads(found: Iterable[Load]) -> int:
    """Return the total elements of the distinct loads."""
    loaded = [(load, load.new) for load in found if load.new is not None]
    return _distinct([((new.shape,), new.size, load.at(new)) for load, new in loaded])


def distinct_pairs(found: Iterable[Load]) -> tuple[int, int]:
    """Return the elements held, and the held elements that are not loaded, over distinct pairs (tile, load)."""
    tiles: list[tuple[tuple[Shape | int, ...], int, Placed]] = []
    kept: list[tuple[tuple[Shape | int, ...], int, Placed]] = []
    for load in found:
        key: tuple[Shape | int, ...] = (load.tile.shape,)
        loaded = 0
        if load.new is not None:
            key = (*key, load.new.shape, load.new.low - load.tile.low)
            loaded = load.new.size
        tiles.append((key, load.tile.size, load.at(load.tile)))
        kept.append((key, load.tile.size - loaded, load.at(load.tile)))
    return _distinct(tiles), _distinct(kept)


def _distinct(sets: list[tuple[tuple[Shape | int, ...], int, Placed]]) -> int:
    """Return the sum of sizes over distinct (key, place). sets: (key, size, places)."""
    kinds: list[tuple[tuple[Shape | int, ...], int, list[Placed]]] = []
    for key, size, places in sets:
        for other, _, found in kinds:
            if _equal(other, key):
                found.append(places)
                break
        else:
            kinds.append((key, size, [places]))
    total = 0
    for _, size, found in kinds:
        places = union(found)
        assert places is not None
        total += size * places.size
    return total


def _equal(one: tuple[Shape | int, ...], other: tuple[Shape | int, ...]) -> bool:
    """Return whether two keys are equal, shapes compared as sets."""
    if len(one) != len(other):
        return False
    for a, b in zip(one, other, strict=True):
        if isinstance(a, int) or isinstance(b, int):
            if a != b:
                return False
        elif not same(Placed(0, a), Placed(0, b)):
            return False
    return True


Step = tuple[int, list[Load]]  # how often, and what the siblings load


@lru_cache(maxsize=1 << 14)
def distinct_elements(axes: Axes) -> int:
    """Return the elements of the siblings' distinct tiles along one window, summed over steps."""
    return sum(
        times * distinct_tiles(loads(axes, siblings, whole=True))
        for times, siblings in step_classes(axes, None, CountedSteps.OWN)
    )


@lru_cache(maxsize=1 << 14)
def elements_not_read(windows: tuple[Axes, ...], cuts: tuple[Cuts, ...]) -> int:
    """Return the elements of distinct tiles that are not read at one carry, over the steps at which all other dims
    stay."""
    steps = [_steps(axes, cut) for axes, cut in zip(windows, cuts, strict=True)]
    if len(steps) == 1:
        return _sums(steps[0]).unread
    return _unread_by_kind([_sums(per_window) for per_window in steps]) + _unread_by_listing(steps)


def _steps(axes: Axes, cuts: Cuts) -> list[Step]:
    """Return the kinds of steps of one window at one carry."""
    return [
        (times, loads(axes, siblings, whole=False)) for times, siblings in step_classes(axes, cuts, CountedSteps.OWN)
    ]


class Sums(NamedTuple):
    """One window's elements, summed over the steps of one carry.

    all_kept: elements of distinct tiles, at steps at which all siblings keep their whole tiles. partly_kept: the same
    at steps at which all siblings keep a part. At these steps loaded_once: elements of the distinct loads;
    distinct_pairs_held, distinct_pairs_kept: elements held and kept of the distinct pairs (tile, load).
    differing_steps: steps at which siblings differ in whether they keep all, a part or nothing. unread: elements of
    distinct tiles that are not read, over all steps.
    """

    all_kept: int
    partly_kept: int
    loaded_once: int
    distinct_pairs_held: int
    distinct_pairs_kept: int
    differing_steps: int
    unread: int


@lru_cache(maxsize=1 << 12)
def sums_of_window(axes: Axes, cuts: Cuts) -> Sums:
    """Return the sums from which `_unread_by_kind` counts several windows, where siblings do not differ in what they
    keep."""
    return _sums(_steps(axes, cuts))


def _kind(found: list[Load]) -> str:
    """Return the part of their tiles that all siblings keep: "all", "nothing" or "part"; "differing" if they differ."""
    kinds = {"all" if load.new is None else "nothing" if load.is_whole else "part" for load in found}
    return kinds.pop() if len(kinds) == 1 else "differing"


def _sums(steps: list[Step]) -> Sums:
    all_kept = partly_kept = loaded_once = pairs_held = pairs_kept = differing = unread = 0
    for times, found in steps:
        kind = _kind(found)
        if kind == "nothing":
            continue
        held = times * distinct_tiles(found)
        loaded = times * distinct_loads(found)
        unread += held - loaded
        if kind == "all":
            all_kept += held
        elif kind == "part":
            partly_kept += held
            loaded_once += loaded
            in_pairs, kept_in_pairs = distinct_pairs(found)
            pairs_held += times * in_pairs
            pairs_kept += times * kept_in_pairs
        else:
            differing += times
    return Sums(all_kept, partly_kept, loaded_once, pairs_held, pairs_kept, differing, unread)


def _unread_by_kind(windows: list[Sums]) -> int:
    """Return the elements not read at steps at which, along each window, all siblings keep all or all keep a part."""
    total = 0
    for kinds in product(("all", "part"), repeat=len(windows)):
        kept = prod(sums.all_kept for sums, kind in zip(windows, kinds, strict=True) if kind == "all")
        parts = [sums for sums, kind in zip(windows, kinds, strict=True) if kind == "part"]
        # A load is the product of the tiles without the product of the kept parts. Where one window only has a new
        # part, that is the product of this part with the other tiles, and equal parts share one read. Where several
        # have, two loads are equal only if the pairs (tile, load) are equal along each of these windows.
        if len(parts) == 1:
            total -= kept * parts[0].loaded_once
        elif len(parts) > 1:
            held = prod(sums.distinct_pairs_held for sums in parts)
            total -= kept * (held - prod(sums.distinct_pairs_kept for sums in parts))
        total += kept * prod(sums.partly_kept for sums in parts)
    return total


def _unread_by_listing(steps: list[list[Step]]) -> int:
    """Return the elements not read at steps at which the siblings of some window differ in what they keep.

    No product formula says which of their loads are equal, so the loads are listed and compared as sets.
    """
    total = 0
    for combination in product(*steps):
        if all(_kind(found) != "differing" for _, found in combination):
            continue
        times = prod(count for count, _ in combination)
        known: list[Shape] = []
        siblings = [_listed_siblings(found, known) for _, found in combination]
        if prod(len(each) for each in siblings) > TUNING.most_listed_loads:
            raise too_large()
        read = {_load(parts) for parts in product(*siblings)}
        total += times * (prod(distinct_tiles(found) for _, found in combination) - sum(size for size, *_ in read))
    return total


TileAndNew = tuple[Placed, Placed | None]  # tile, and what of it is new


def _listed_siblings(found: list[Load], known: list[Shape]) -> set[TileAndNew]:
    """Return the tile and the load of each sibling. known: one representative per shape that occurred."""
    listed: set[TileAndNew] = set()
    for load in found:
        if prod(many for _, many in load.runs) > TUNING.most_listed_loads:
            raise too_large()
        tile = _representative(load.tile.shape, known)
        part = None if load.new is None else _representative(load.new.shape, known)
        for digits in product(*(range(many) for _, many in load.runs)):
            at = load.base + sum(digit * stride for digit, (stride, _) in zip(digits, load.runs, strict=True))
            new = None if load.new is None or part is None else Placed(load.new.low + at, part)
            listed.add((Placed(load.tile.low + at, tile), new))
    return listed


def _representative(shape: Shape, known: list[Shape]) -> Shape:
    """Return the first shape in `known` that is the same set; the shape itself, added to them, if there is none."""
    for other in known:
        if same(Placed(0, other), Placed(0, shape)):
            return other
    known.append(shape)
    return shape


def _load(parts: tuple[TileAndNew, ...]) -> tuple[int, tuple[TileAndNew | Placed, ...]]:
    """Return (size, key) of one sibling's load; equal keys mean equal loads."""
    tiles = tuple(tile for tile, _ in parts)
    size = prod(tile.size for tile in tiles)
    changing = [number for number, (tile, new) in enumerate(parts) if new is None or new.size < tile.size]
    part = [number for number in changing if parts[number][1] is not None]
    if len(changing) < len(parts):  # along some window all is new: the load is the whole tile
        return size, tiles
    if not part:
        return 0, ()
    if len(part) == 1:
        new = parts[part[0]][1]
        assert new is not None
        box = tuple(new if number == part[0] else tile for number, tile in enumerate(tiles))
        return prod(side.size for side in box), box
    kept = prod(tile.size - (new.size if new is not None else 0) for tile, new in parts)
    return size - kept, parts
