"""Sums over the kinds of steps of one window (a form of several dims), where tiles need not divide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from polymap.costmodel.digits import Clock, Cut
from polymap.costmodel.groups import Window
from polymap.costmodel.progression import (
    Placed,
    Shape,
    difference,
    overlap,
    progressions,
    same,
    translated_sum,
    union,
)
from polymap.costmodel.scene import Scene
from polymap.costmodel.window_digits import Class, Track, window_classes

Tracks = tuple[Track, ...]  # one per dim of the window


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


def classes(
    scene: Scene, window: Window, carry: tuple[Cut, ...] | None, clock: Clock
) -> Iterator[tuple[int, list[Tracks]]]:
    """Yield (how often, siblings) of each kind of step of a carry; None: of all steps, each compared with itself."""
    per_dim: list[tuple[Class, ...]] = []
    for dim, _ in window.terms:
        cut = Cut(scene.times[dim], moved=False) if carry is None else carry[dim]
        per_dim.append(window_classes(scene.extents[dim], scene.chains[dim], cut, clock))
    for kinds in product(*per_dim):
        times = 1
        for count, _ in kinds:
            times *= count
        yield times, list(product(*(tracks for _, tracks in kinds)))


def held(window: Window, tracks: Tracks, *, before: bool = False) -> Placed | None:
    """Return the tile of siblings now (or before), the offset of the tile now taken as 0; None where it is empty."""
    shift = -sum(factor * track.rise for (_, factor), track in zip(window.terms, tracks, strict=True)) if before else 0
    pieces: list[Placed] = []
    for combination in product(*(track.pieces for track in tracks)):
        low = shift
        steps: list[tuple[int, int]] = []
        for (_, factor), piece in zip(window.terms, combination, strict=True):
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


def all_elements(scene: Scene, window: Window) -> int:
    """Return the elements of all tiles, over all steps and instances."""
    return sum(
        times * _many(tracks) * _now(window, tracks).size
        for times, siblings in classes(scene, window, None, Clock.OWN)
        for tracks in siblings
    )


def kept_elements(scene: Scene, window: Window, carry: tuple[Cut, ...], clock: Clock) -> int:
    """Return the elements that tiles keep, over the steps of one carry and all instances."""
    return sum(
        times * _many(tracks) * common(_now(window, tracks), held(window, tracks, before=True))
        for times, siblings in classes(scene, window, carry, clock)
        for tracks in siblings
    )


def _many(tracks: Tracks) -> int:
    """Return how many siblings tracks stand for."""
    return prod(count for track in tracks for _, count in (*track.key_steps, *track.united_steps))


def _now(window: Window, tracks: Tracks) -> Placed:
    tile = held(window, tracks)
    assert tile is not None, "only siblings that work now have tracks"
    return tile


def loads(window: Window, siblings: Iterable[Tracks], *, whole: bool) -> list[Load]:
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
            tile = _now(window, tracks)
            last = None if whole else held(window, tracks, before=True)
            new = difference(tile, last) if last is not None and common(tile, last) else tile
            tiles.append(_united(window, tracks, tile))
            if new is not None:
                news.append(_united(window, tracks, new))
        whole_tile = union(tiles)
        whole_new = union(news)
        assert whole_tile is not None
        runs = [
            (factor * stride, count)
            for (_, factor), (_, steps) in zip(window.terms, key, strict=True)
            for stride, count in steps
        ]
        base = sum(factor * low for (_, factor), (low, _) in zip(window.terms, key, strict=True))
        found.append(Load(whole_tile, whole_new, base, tuple(runs)))
    return found


def _united(window: Window, tracks: Tracks, placed: Placed) -> Placed:
    low = placed.low
    steps: list[tuple[int, int]] = []
    for (_, factor), track in zip(window.terms, tracks, strict=True):
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


def siblings_are_apart(scene: Scene, window: Window) -> bool:
    """Return whether no two siblings of one step hold a common element. The scene has them MERGED."""
    for _, siblings in classes(scene, window, None, Clock.OWN):
        apart = 0
        spread: list[Placed] = []
        for load in loads(window, siblings, whole=True):
            apart += load.tile.size * prod(count for _, count in load.runs)
            spread.append(translated_sum(Placed(load.tile.low + load.base, load.tile.shape), load.runs))
        together = union(spread)
        if together is None or together.size != apart:
            return False
    return True
