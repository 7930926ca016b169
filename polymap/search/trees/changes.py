"""All loop trees that are one change away from a tree: tiles, storage nodes, loops, spatial loops.

Every neighbour is a program within the order of levels and the fan-outs' dims; whether it fits is not looked at.

The loops over a dim, outermost first, have tiles t1 >= t2 >= ... >= 1, the last of which is 1. Where a tile changes,
other loops either keep their tiles or their trip counts; a factor may also go from one loop to another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polymap.ir import Fanout, Spatial, Storage, Temporal
from polymap.search.problem import divisors, prime_factors
from polymap.search.trees.tree_edits import Nodes, TreeEdits, TreeNode, with_tile

KINDS = 4  # of changes


class Neighbours:
    """The neighbours of trees with the nodes that `edits` may change."""

    def __init__(self, edits: TreeEdits) -> None:
        self._edits = edits

    def of(self, nodes: Nodes) -> list[Nodes]:
        """Return the distinct neighbours of a tidied tree, in a fixed order."""
        return list(dict.fromkeys(one for kind in range(KINDS) for one in self.of_kind(nodes, kind)))

    def of_kind(self, nodes: Nodes, kind: int) -> list[Nodes]:
        """Return the distinct neighbours by one kind of change, in a fixed order: tiles, storage, loops, siblings."""
        change = (self.other_tiles, self.other_storage, self.other_loops, self.other_siblings)[kind]
        found = dict.fromkeys(map(self._edits.tidied, change(nodes)))
        found.pop(nodes, None)
        return [one for one in found if not self._edits.divide or self._edits.all_divide(one)]

    def other_tiles(self, nodes: Nodes) -> Iterator[Sequence[TreeNode]]:
        """Yield the tree with other tiles of one dim."""
        for dim in self._edits.dims:
            places = [p for p, node in enumerate(nodes) if not isinstance(node, Storage) and node.dim == dim]
            tiles = tuple(tile_of(nodes[place]) for place in places)
            for row in rows_near(self._edits.extents[dim], tiles, divide=self._edits.divide):
                changed = list(nodes)
                for place, tile in zip(places, row, strict=True):
                    changed[place] = _retile_node(nodes[place], tile)
                yield changed

    def other_storage(self, nodes: Nodes) -> Iterator[Sequence[TreeNode]]:
        """Yield the tree with one storage node elsewhere, without it, or with one more."""
        for place, node in enumerate(nodes):
            if isinstance(node, Storage):
                rest = (*nodes[:place], *nodes[place + 1 :])
                if not self._edits.is_required(node):
                    yield rest
                yield from self._held(rest, node)
        for node in self._edits.not_held(nodes):
            yield from self._held(nodes, node)

    def _held(self, nodes: Sequence[TreeNode], node: Storage) -> Iterator[Sequence[TreeNode]]:
        for place in self._edits.storage_places(nodes, node):
            yield (*nodes[:place], node, *nodes[place:])

    def other_loops(self, nodes: Nodes) -> Iterator[Sequence[TreeNode]]:
        """Yield the tree with one loop elsewhere, without it, or with a temporal one more."""
        for place, node in enumerate(nodes):
            if isinstance(node, Storage):
                continue
            rest = (*nodes[:place], *nodes[place + 1 :])
            if any(not isinstance(other, Storage) and other.dim == node.dim for other in nodes[place + 1 :]):
                yield rest
            for other in self._edits.loop_places(rest, node):
                yield self._edits.with_falling_tiles((*rest[:other], node, *rest[other:]))
        for place in range(len(nodes) + 1):
            now = self._edits.tiles_at(nodes, place)
            for dim in self._edits.dims:
                outer, inner = now[dim], _next_tile(nodes[place:], dim)
                for tile in _dividing_shares(outer, inner) if self._edits.divide else _shares(outer, inner):
                    yield (*nodes[:place], Temporal(dim, tile), *nodes[place:])

    def other_siblings(self, nodes: Nodes) -> Iterator[Sequence[TreeNode]]:
        """Yield the tree with one or two dims laid anew over a fan-out."""
        for fanout in self._edits.fanouts:
            share = self._edits.share_of(nodes, fanout)
            free = [dim for dim in self._edits.dims if fanout.may_spread(dim)]
            for dim in free:
                fewer = [{**share, dim: 1}, *({**share, dim: 1, other: 1} for other in share if other != dim)]
                for base in (*fewer, *({**share, dim: 1, other: -(-share[other] // 2)} for other in share)):
                    yield from self._spread(nodes, fanout, base, dim)

    def _spread(self, nodes: Nodes, fanout: Fanout, share: dict[str, int], dim: str) -> Iterator[Sequence[TreeNode]]:
        """Yield the tree with a few numbers of siblings along a dim beside a share of others."""
        room = fanout.size
        for many in share.values():
            room //= many
        extent = self._edits.extents[dim]
        most = min(room, extent)
        counts = set(divisors(extent)) if self._edits.divide else {most, most // 2, most // 3, 2, 3, 1}
        for many in sorted({-(-extent // -(-extent // n)) for n in counts if 1 <= n <= most}):
            wanted = {each: n for each, n in ({**share, dim: many}).items() if n > 1}
            yield from self._edits.with_share(nodes, fanout, wanted)


def tile_of(node: TreeNode) -> int:
    """Return a loop's tile."""
    assert not isinstance(node, Storage)  # asked of loops
    return node.tile


def _retile_node(node: TreeNode, tile: int) -> TreeNode:
    assert isinstance(node, Temporal | Spatial)
    return with_tile(node, tile)


def _next_tile(nodes: Sequence[TreeNode], dim: str) -> int:
    """Return the tile of the first loop over a dim."""
    return next((node.tile for node in nodes if not isinstance(node, Storage) and node.dim == dim), 1)


def _shares(outer: int, inner: int) -> list[int]:
    """Return tiles between two: a few equal shares of the outer one, a few multiples of the inner one."""
    found = {-(-outer // n) for n in (2, 3, 4)} | {inner * n for n in (1, 2, 3, 4)}
    found |= {-(-outer // inner // n) * inner for n in (2, 3)}
    return sorted(tile for tile in found if inner <= tile < outer)


def _dividing_shares(outer: int, inner: int) -> list[int]:
    """Return tiles between two: the outer one over each of its primes, the inner one times each."""
    primes = [prime for prime, _ in prime_factors(outer // inner)]
    return sorted({tile for prime in primes for tile in (outer // prime, inner * prime) if inner <= tile < outer})


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
