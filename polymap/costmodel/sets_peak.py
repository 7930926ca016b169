"""The most bits that one instance of a level holds at one time."""

from __future__ import annotations

from polymap.costmodel.sets_flow import united
from polymap.costmodel.sets_tree import Leaf, Place, Tree
from polymap.poly.affine import Affine
from polymap.poly.tables import Columns, Table, Tally

Clock = tuple[int, ...]
Coordinates = tuple[int, ...]


def coordinates(place: Place, digits: tuple[int, ...], fanouts: int) -> Coordinates:
    """Return where an instance of a place stands on each fan-out: its loops side by side."""
    position = [0] * fanouts
    for lane, digit in zip(place.lanes, digits, strict=True):
        position[lane.fanout] = position[lane.fanout] * lane.trips + digit
    return tuple(position)


def peak_bits(tree: Tree, held: list[tuple[Place, Table, int, bool]], fanouts: int) -> int:
    """Return the peak of one level. held: per place of it, its tile, the bits of an element, and whether an idle
    instance keeps what it has."""
    sizes = [_sizes(place, tile, fanouts) for place, tile, _, _ in held]
    depth = max(len(place.clock) for place, _, _, _ in held)
    now: list[dict[Coordinates, int]] = [{} for _ in held]
    stands: list[Clock | None] = [None for _ in held]
    most = 0
    for view in _views(tree, depth):
        for number, (place, _, bits, keeps) in enumerate(held):
            at = view[: len(place.clock)]
            if at == stands[number]:
                continue
            stands[number] = at
            found = {where: bits * size for where, size in sizes[number].get(at, {}).items()}
            now[number] = {**now[number], **found} if keeps else found
        total: dict[Coordinates, int] = {}
        for amounts in now:
            for where, amount in amounts.items():
                total[where] = total.get(where, 0) + amount
        most = max(most, *total.values(), 0) if total else most
    return most


def _sizes(place: Place, tile: Table, fanouts: int) -> dict[Clock, dict[Coordinates, int]]:
    depth = len(place.clock)
    columns: Columns = (*place.clock, *(lane.column for lane in place.lanes))
    tally: Tally = tile.tally(columns)
    sizes: dict[Clock, dict[Coordinates, int]] = {}
    for key, size in tally.items():
        sizes.setdefault(key[:depth], {})[coordinates(place, key[depth:], fanouts)] = size
    return sizes


def _views(tree: Tree, depth: int) -> list[Clock]:
    """Return what the first `depth` components of the clock show, in order, zeros beyond the end of a short clock."""
    names = tuple(f"t{place}" for place in range(depth))

    def shown(leaf: Leaf) -> Table:
        clock = leaf.clock[:depth]
        values = [leaf.at(column) for column in clock] + [Affine()] * (depth - len(clock))
        return leaf.rows.computed(dict(zip(names, values, strict=True)))

    return sorted(united(shown(leaf) for leaf in tree.leaves).tally(names))
