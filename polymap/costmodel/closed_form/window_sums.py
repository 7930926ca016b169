"""Tiles and loads of one window (a form of several dims) over the kinds of its steps, where tiles need not divide.

A load is the tile minus the part that the instance kept: a product of tiles over singles and windows, minus the product
of the kept parts. docs/closed_form.md says when two such loads are equal, so that siblings share one read: the distinct
ones are counted from what each window's sets of elements are to its siblings (`Role`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Generic, NamedTuple, TypeVar

from polymap.costmodel.closed_form.carries import Axes, Cuts
from polymap.costmodel.closed_form.digits import (
    Branches,
    CarryPlace,
    Chain,
    CountedSteps,
    Part,
    choices,
    offsets_inside,
    remaining_length,
    runs,
    segments,
    separate_runs,
    step_runs,
)
from polymap.costmodel.closed_form.tuning import TUNING
from polymap.poly import (
    Placed,
    Shape,
    difference,
    intersection,
    overlap,
    progressions,
    same,
    too_large,
    translated_sum,
    union,
)

Figure = TypeVar("Figure")

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
def window_classes(extent: int, chain: Chain, cut: CarryPlace, counted: CountedSteps) -> tuple[Class, ...]:
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
    cut: CarryPlace
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
                    remaining_length(clock, digit, tile),
                    tuple(_state_at(state, digit, digit, tile) for state in states),
                )
        elif outside == 0 and self.cut.moved:
            for digit, count in step_runs(now, before, clock, tile):
                reached = tuple(_state_at(state, digit, digit - 1, tile) for state in states)
                yield count, remaining_length(clock, digit - 1, tile), reached
        else:
            last = -(-clock // tile) - 1
            yield (
                1,
                remaining_length(clock, last, tile),
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
        lengths = max(0, remaining_length(piece.now, now, tile)), max(0, remaining_length(piece.before, before, tile))
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
            now, before = remaining_length(piece.now, digit, tile), remaining_length(piece.before, digit, tile)
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
        cut = cuts[number] if cuts else CarryPlace(sum(part is Part.TIME for _, part, _ in chain), moved=False)
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
    ((_, (tracks,)),) = step_classes(first, (CarryPlace(0, moved=False),) * len(axes), CountedSteps.OWN)
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


def distinct_pairs(found: Iterable[Load]) -> tuple[int, int]:
    """Return the elements held, and the held elements that are not loaded, over distinct pairs (tile, load)."""
    tiles: list[tuple[tuple[Shape | int, ...], int, Placed]] = []
    kept: list[tuple[tuple[Shape | int, ...], int, Placed]] = []
    for load in found:
        if load.new is not None:
            key = (load.tile.shape, load.new.shape, load.new.low - load.tile.low)
            tiles.append((key, load.tile.size, load.at(load.tile)))
            kept.append((key, load.tile.size - load.new.size, load.at(load.tile)))
    return _distinct(tiles), _distinct(kept)


def _distinct(sets: list[tuple[tuple[Shape | int, ...], int, Placed]]) -> int:
    """Return the sum of sizes over distinct (key, place). sets: (key, size, places)."""
    kinds: list[tuple[tuple[Shape | int, ...], int, list[Placed]]] = []
    for key, size, places in sets:
        for other, _, found in kinds:
            if _are_equal_keys(other, key):
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


def _are_equal_keys(one: tuple[Shape | int, ...], other: tuple[Shape | int, ...]) -> bool:
    """Return whether two keys of one form are equal, shapes compared as sets."""
    return all(
        a == b if isinstance(a, int) or isinstance(b, int) else same(Placed(0, a), Placed(0, b))
        for a, b in zip(one, other, strict=True)
    )


@lru_cache(maxsize=1 << 14)
def distinct_elements(axes: Axes) -> int:
    """Return the elements of the siblings' distinct tiles along one window, summed over steps."""
    return sum(
        times * distinct_tiles(loads(axes, siblings, whole=True))
        for times, siblings in step_classes(axes, None, CountedSteps.OWN)
    )


class Role(NamedTuple):
    """What a set of elements is at one step. held: the tile of a sibling. whole: of one that keeps nothing of it. kept:
    of one that keeps all. new: the part that is new to a sibling which keeps the rest."""

    held: bool
    whole: bool
    kept: bool
    new: bool


# A set that is `whole` is loaded along with every tile of other windows; that it is also `new` adds nothing.
ROLES = (
    Role(held=False, whole=False, kept=False, new=True),
    Role(held=True, whole=False, kept=False, new=False),
    Role(held=True, whole=False, kept=False, new=True),
    Role(held=True, whole=False, kept=True, new=False),
    Role(held=True, whole=False, kept=True, new=True),
    Role(held=True, whole=True, kept=False, new=False),
    Role(held=True, whole=True, kept=True, new=False),
)


def role_of(*, whole: bool, kept: bool, part: bool, new: bool) -> int:
    """Return the role of a set, as a number in `ROLES`. part: it is the tile of a sibling that keeps a part of it."""
    return ROLES.index(Role(whole or kept or part, whole, kept, new and not whole))


class Sums(NamedTuple, Generic[Figure]):
    """One window's elements, summed over the steps of one carry at which some sibling keeps some.

    held: elements of distinct tiles. pairs_held, pairs_kept: elements held and kept of the distinct pairs (tile, new
    part) of siblings that keep a part. all_kept: elements of the distinct tiles of which a sibling keeps all. The
    others: elements of the distinct sets of one role, in the order of `ROLES`.
    """

    held: Figure
    pairs_held: Figure
    pairs_kept: Figure
    all_kept: Figure
    new: Figure
    part: Figure
    part_and_new: Figure
    kept: Figure
    kept_and_new: Figure
    whole: Figure
    whole_and_kept: Figure


_OF_ROLES = Sums._fields[4:]


@lru_cache(maxsize=1 << 6)
def terms_not_read(windows: int) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Return (sign, name of a sum per window) of the products that add up to the elements of tiles that are not read.

    A load is the product of the tiles without the product of the kept parts. It is a product of sets itself where some
    window is whole (all tiles), or one keeps a part and the others all (its new part): such loads are told apart by
    their sets. Where several keep a part and the others all, the load determines the pairs (tile, new part) of these.
    """
    found: list[tuple[int, tuple[str, ...]]] = [(1, ("held",) * windows)]
    for chosen in product(range(len(ROLES)), repeat=windows):
        if _is_load([ROLES[each] for each in chosen]):
            found.append((-1, tuple(_OF_ROLES[each] for each in chosen)))
    for parts in product((False, True), repeat=windows):
        if sum(parts) > 1:
            found += [
                (sign, tuple(name if part else "all_kept" for part in parts))
                for sign, name in ((-1, "pairs_held"), (1, "pairs_kept"))
            ]
    return tuple(found)


def _is_load(roles: list[Role]) -> bool:
    """Return whether some sibling loads the product of sets of these roles, one per window."""
    if all(role.held for role in roles) and any(role.whole for role in roles):
        return True
    kept = [role.kept for role in roles]
    return any(role.new and all(kept[:number] + kept[number + 1 :]) for number, role in enumerate(roles))


@lru_cache(maxsize=1 << 14)
def elements_not_read(windows: tuple[Axes, ...], cuts: tuple[Cuts, ...]) -> int:
    """Return the elements of distinct tiles that are not read at one carry, over the steps at which all other dims
    stay."""
    sums = [sums_of_window(axes, cut)._asdict() for axes, cut in zip(windows, cuts, strict=True)]
    return sum(
        sign * prod(each[name] for each, name in zip(sums, names, strict=True))
        for sign, names in terms_not_read(len(windows))
    )


@lru_cache(maxsize=1 << 12)
def sums_of_window(axes: Axes, cuts: Cuts) -> Sums[int]:
    """Return the sums of one window from which several windows are counted."""
    total = [0] * len(Sums._fields)
    for times, siblings in step_classes(axes, cuts, CountedSteps.OWN):
        found = loads(axes, siblings, whole=False)
        if all(load.is_whole for load in found):
            continue  # each product with other windows' tiles is loaded
        of_roles = _elements_of_roles(found)
        kept = sum(of_roles[number] for number, role in enumerate(ROLES) if role.kept)
        held = sum(of_roles[number] for number, role in enumerate(ROLES) if role.held)
        in_pairs = distinct_pairs(load for load in found if not load.is_whole)
        for number, value in enumerate((held, *in_pairs, kept, *of_roles)):
            total[number] += times * value
    return Sums(*total)


def _elements_of_roles(found: list[Load]) -> list[int]:
    """Return the elements of the distinct sets of each role, in the order of `ROLES`."""
    kinds: list[tuple[Shape, dict[str, list[Placed]]]] = []
    for load in found:
        tile = "whole" if load.is_whole else "kept" if load.new is None else "part"
        _add_places(kinds, load.tile.shape, tile, load.at(load.tile))
        if tile == "part" and load.new is not None:
            _add_places(kinds, load.new.shape, "new", load.at(load.new))
    total = [0] * len(ROLES)
    for shape, places in kinds:
        for names, cell in _cells({name: union(each) for name, each in places.items()}):
            role = role_of(**{name: name in names for name in ("whole", "kept", "part", "new")})
            total[role] += cell.size * Placed(0, shape).size
    return total


def _add_places(kinds: list[tuple[Shape, dict[str, list[Placed]]]], shape: Shape, name: str, places: Placed) -> None:
    """Add the least elements of sets of one shape; equal shapes share an entry."""
    for other, found in kinds:
        if same(Placed(0, other), Placed(0, shape)):
            found.setdefault(name, []).append(places)
            return
    kinds.append((shape, {name: [places]}))


def _cells(sets: dict[str, Placed | None]) -> list[tuple[frozenset[str], Placed]]:
    """Return the elements of sets told apart by the sets that have them: (names, elements)."""
    cells: list[tuple[frozenset[str], Placed]] = []
    for name, added in sets.items():
        left = added
        split: list[tuple[frozenset[str], Placed]] = []
        for names, cell in cells:
            both = intersection(cell, left) if left is not None else None
            if both is None or left is None:
                split.append((names, cell))
                continue
            split.append((names | {name}, both))
            rest, left = difference(cell, both), difference(left, both)
            if rest is not None:
                split.append((names, rest))
        cells = split + ([(frozenset((name,)), left)] if left is not None else [])
    return cells
