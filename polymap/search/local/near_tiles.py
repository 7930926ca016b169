"""Tiles near those of a loop tree: what the loops over one dim may be changed to, all at once.

The loops over a dim, outermost first, have tiles t1 >= t2 >= ... >= 1, the last of which is 1. Where a tile changes,
other loops either keep their tiles or their trip counts; a factor may also go from one loop to another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polymap.search.problem import prime_factors

Row = tuple[int, ...]


def rows_near(extent: int, tiles: Row, *, divide: bool) -> list[Row]:
    """Return rows of tiles of one dim that differ in one change from `tiles`, in a fixed order, without it. divide:
    every tile divides the one outside it."""
    others = () if divide else _other_tiles(extent, tiles)
    found = dict.fromkeys((*_other_trips(extent, tiles, divide=divide), *others))
    found.pop(tiles, None)
    return list(found)


def tiles_of_trips(extent: int, trips: Sequence[int]) -> Row:
    """Return equal shares, loop by loop; the last loop takes what is left."""
    row: list[int] = []
    now = extent
    for many in trips[:-1]:
        now = -(-now // many)
        row.append(now)
    return (*row, 1)


def trips_of_tiles(extent: int, tiles: Row) -> Row:
    """Return the most iterations of each loop."""
    return tuple(-(-outer // tile) for outer, tile in zip((extent, *tiles[:-1]), tiles, strict=True))


def _other_trips(extent: int, tiles: Row, *, divide: bool) -> Iterator[Row]:
    """Yield rows in which a factor has gone from one loop to another."""
    trips = trips_of_tiles(extent, tiles)
    for source, many in enumerate(trips):
        factors = {prime for prime, _ in prime_factors(many)} if divide else {2, 3}
        for factor in sorted({*factors, many} if many > 1 else ()):
            for target in range(len(trips)):
                if target != source and factor <= many:
                    changed = list(trips)
                    changed[source] = -(-many // factor)
                    changed[target] *= factor
                    yield tiles_of_trips(extent, changed)
        for target in range(source):
            changed = list(trips)
            changed[source], changed[target] = changed[target], changed[source]
            yield tiles_of_trips(extent, changed)


def _other_tiles(extent: int, tiles: Row) -> Iterator[Row]:
    """Yield rows in which one tile is another one near it; loops inside keep their tiles or their trip counts, those
    outside their tiles or trip counts as far as these fit."""
    trips = trips_of_tiles(extent, tiles)
    outer = (extent, *tiles[:-1])
    for at in range(len(tiles) - 1):
        for size in _sizes_near(extent, outer[at], tiles[at], tiles[at + 1]):
            above = tuple(max(tile, size) for tile in tiles[:at])
            clipped = tuple(min(tile, size) for tile in tiles[at + 1 :])
            shares = tiles_of_trips(size, trips[at + 1 :])
            yield (*above, size, *clipped)
            yield (*above, size, *shares)
            multiples = _multiples(extent, size, trips[1 : at + 1])
            yield (*multiples, size, *clipped)
            yield (*multiples, size, *shares)


def _multiples(extent: int, size: int, trips: Row) -> Row:
    """Return the tiles of loops outside a tile, from the trip counts of all but the outermost of them and its own."""
    row: list[int] = []
    for many in reversed(trips):
        size = min(extent, size * many)
        row.append(size)
    return tuple(reversed(row))


def _sizes_near(extent: int, outer: int, tile: int, inner: int) -> list[int]:
    """Return tiles to try for one: neighbours, doubles, equal shares of those outside, multiples of the one inside."""
    found = {tile - 1, tile + 1, 2 * tile, -(-tile // 2), outer, inner, 3 * tile, -(-tile // 3)}
    for whole in (outer, extent):
        trips = -(-whole // tile)
        found |= {-(-whole // n) for n in (trips - 2, trips - 1, trips, trips + 1, trips + 2) if n >= 1}
    if inner:
        many = tile // inner
        found |= {inner * n for n in (many - 1, many, many + 1)}
    return sorted(size for size in found if 1 <= size <= extent and size != tile)
