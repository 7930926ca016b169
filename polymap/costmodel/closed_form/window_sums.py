"""Sums over the kinds of steps of one window (a form of several dims), where tiles need not divide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod

from polymap.arithmetic.progression import (
    Placed,
    Shape,
    difference,
    overlap,
    progressions,
    same,
    translated_sum,
    union,
)
from polymap.costmodel.closed_form.carries import Axes
from polymap.costmodel.closed_form.digits import Clock, Cut, Part
from polymap.costmodel.closed_form.window_digits import Class, Track, window_classes

Tracks = tuple[Track, ...]  # one per dim of the window
Cuts = tuple[Cut, ...]  # likewise


@dataclass(frozen=True, slots=True)
class Load:
    """What siblings equal but for an offset hold and load along one window: each has `tile` and of it loads `new`
    (None: nothing), moved by each of base + the sums of the progressions `runs`."""

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


def classes(axes: Axes, cuts: Cuts | None, clock: Clock) -> Iterator[tuple[int, list[Tracks]]]:
    """Yield (how often, siblings) of each kind of step of a carry; None: of all steps, each compared with itself."""
    per_dim: list[tuple[Class, ...]] = []
    for number, (_, extent, chain) in enumerate(axes):
        cut = cuts[number] if cuts else Cut(sum(part is Part.TIME for _, part, _ in chain), moved=False)
        per_dim.append(window_classes(extent, chain, cut, clock))
    for kinds in product(*per_dim):
        times = 1
        for count, _ in kinds:
            times *= count
        yield times, list(product(*(tracks for _, tracks in kinds)))


def held(axes: Axes, tracks: Tracks, *, before: bool = False) -> Placed | None:
    """Return the tile of siblings now (or before), the offset of the tile now taken as 0; None where it is empty."""
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


def common(one: Placed, other: Placed | None) -> int:
    """Return how many elements two tiles have in common."""
    return overlap(one.shape, other.shape, other.low - one.low) if other else 0


@lru_cache(maxsize=1 << 14)
def first_tile(axes: Axes) -> int:
    """Return the elements of the first tile of the first instance."""
    first = tuple(
        (factor, extent, tuple((tile, Part.PINNED if part is Part.EACH else part, pin) for tile, part, pin in chain))
        for factor, extent, chain in axes
    )
    ((_, (tracks,)),) = classes(first, (Cut(0, moved=False),) * len(axes), Clock.OWN)
    return _now(first, tracks).size


@lru_cache(maxsize=1 << 14)
def all_elements(axes: Axes) -> int:
    """Return the elements of all tiles, over all steps and instances."""
    return sum(
        times * _many(tracks) * _now(axes, tracks).size
        for times, siblings in classes(axes, None, Clock.OWN)
        for tracks in siblings
    )


@lru_cache(maxsize=1 << 14)
def kept_elements(axes: Axes, cuts: Cuts, clock: Clock) -> int:
    """Return the elements that tiles keep, over the steps of one carry and all instances."""
    return sum(
        times * _many(tracks) * common(_now(axes, tracks), held(axes, tracks, before=True))
        for times, siblings in classes(axes, cuts, clock)
        for tracks in siblings
    )


def _many(tracks: Tracks) -> int:
    """Return how many siblings tracks stand for."""
    return prod(count for track in tracks for _, count in (*track.key_steps, *track.united_steps))


def _now(axes: Axes, tracks: Tracks) -> Placed:
    tile = held(axes, tracks)
    assert tile is not None, "only siblings that work now have tracks"
    return tile


def loads(axes: Axes, siblings: Iterable[Tracks], *, whole: bool) -> list[Load]:
    """Return what the messages of one step are made of, UNITED siblings united.

    whole: nothing was held before.
    """
    by_key: dict[tuple[tuple[int, tuple[tuple[int, int], ...]], ...], list[Tracks]] = {}
    for tracks in siblings:
        by_key.setdefault(tuple((track.key, track.key_steps) for track in tracks), []).append(tracks)
    found: list[Load] = []
    for key, members in by_key.items():
        tiles: list[Placed] = []
        news: list[Placed] = []
        for tracks in members:
            tile = _now(axes, tracks)
            last = None if whole else held(axes, tracks, before=True)
            new = difference(tile, last) if last is not None and common(tile, last) else tile
            tiles.append(_united(axes, tracks, tile))
            if new is not None:
                news.append(_united(axes, tracks, new))
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


def _united(axes: Axes, tracks: Tracks, placed: Placed) -> Placed:
    low = placed.low
    steps: list[tuple[int, int]] = []
    for (factor, _, _), track in zip(axes, tracks, strict=True):
        low += factor * track.united
        steps += [(factor * stride, count) for stride, count in track.united_steps]
    return translated_sum(Placed(low, placed.shape), steps)


def distinct_tiles(found: Iterable[Load]) -> int:
    """Return the elements of the distinct tiles."""
    return _distinct([((load.tile.shape,), load.tile.size, load.at(load.tile)) for load in found])


def distinct_news(found: Iterable[Load]) -> int:
    """Return the elements of the distinct parts that are loaded."""
    news = [(load, load.new) for load in found if load.new is not None]
    return _distinct([((new.shape,), new.size, load.at(new)) for load, new in news])


def distinct_pairs(found: Iterable[Load]) -> tuple[int, int]:
    """Return the elements held, and of them those not loaded, of the distinct pairs of tile and loaded part."""
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
    """Return the sum of sizes over distinct (key, place), sets given as (key, size, places)."""
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
    """Return whether two keys are equal, their shapes as sets."""
    if len(one) != len(other):
        return False
    for a, b in zip(one, other, strict=True):
        if isinstance(a, int) or isinstance(b, int):
            if a != b:
                return False
        elif not same(Placed(0, a), Placed(0, b)):
            return False
    return True
