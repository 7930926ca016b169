"""The accesses that a mapping's program makes through the caches of a machine, in order, as arrays.

What stands in levels inside of the caches (registers, scratchpads) touches memory when a tile comes that holds other
elements: each is loaded when it is first used, and what was written is stored before the next tile's first use. All
else touches memory with every access. The walk is that of the simulator: the clock, then positions on the fan-outs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polymap.costmodel.layout import Layout
from polymap.costmodel.referees.tuning import TUNING
from polymap.costmodel.referees.walked_tree import HoldingNode, Leaf, Tree, resolve
from polymap.ir import Access, Architecture, BudgetError, Mapping, Mistake, Operator, Workload
from polymap.poly import COUNT_LIMIT

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Touches:
    """Accesses in order. address: in bits, the tensors one after the other, each from a multiple of `aligned` on;
    tensor: its number in the workload; coordinates: one column per fan-out of the machine."""

    address: Ints
    tensor: Ints
    coordinates: Ints


@dataclass(frozen=True, slots=True)
class _Uses:
    """All uses of one tensor: address of the element, clock, coordinates, place inside of the caches (-1: none), and
    what kind of access it is. order: of the accesses of one instance."""

    address: Ints
    clock: Ints
    coordinates: Ints
    order: Ints
    place: int
    reads: bool
    writes: bool


def touches_of(
    workload: Workload, arch: Architecture, mapping: Mapping, layouts: dict[str, Layout], aligned: int
) -> Touches:
    """Return the accesses. layouts: of every tensor; aligned: bits.

    Raises BudgetError (PM477) for programs of more than 20 million accesses, or addresses of more than 62 bits.
    """
    tree = resolve(workload, arch, mapping)
    innermost = max(number for number, level in enumerate(arch.levels) if level.implicit)
    starts = _starts(workload, layouts, aligned)
    depth = max((len(leaf.clock) for leaf in tree.leaves), default=0)
    found: list[tuple[Ints, Ints, Ints, Ints]] = []
    for number, tensor in enumerate(workload.tensors):
        by_place: dict[int, list[_Uses]] = {}
        for uses in _uses(workload, tree, tensor.name, layouts[tensor.name], starts[number], depth, innermost):
            by_place.setdefault(uses.place, []).append(uses)
        for place, listed in by_place.items():
            only_sums = not tensor.initial and all(uses.reads and uses.writes for uses in listed)
            moved = _moved(tree.places[place], listed, only_sums=only_sums) if place >= 0 else _single(listed)
            found += [(*each, np.full(len(each[0]), number, np.int64)) for each in moved]
    if not found:
        none = np.zeros(0, np.int64)
        return Touches(none, none, np.zeros((0, len(arch.fanouts)), np.int64))
    address, key, coordinates, tensors = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.lexsort(key.T[::-1])
    return Touches(address[order], tensors[order], coordinates[order])


def _starts(workload: Workload, layouts: dict[str, Layout], aligned: int) -> list[int]:
    starts, at = list[int](), 0
    for tensor in workload.tensors:
        starts.append(at)
        size = layouts[tensor.name].elements(tensor.shape) * tensor.bits
        at += -(-size // aligned) * aligned
    if at > COUNT_LIMIT:
        what = f"the tensors of {workload.name} take {at:,} bits of memory; addresses have 62 bits"
        raise BudgetError(Mistake("PM477", what, "Ask about a smaller layer of the same shape and a smaller cache."))
    return starts


def _uses(
    workload: Workload, tree: Tree, tensor: str, layout: Layout, start: int, depth: int, innermost: int
) -> Iterator[_Uses]:
    for leaf in tree.leaves:
        statement = leaf.statement
        accesses = [(access, True, False) for access in statement.reads]
        accesses.append((statement.target, statement.operator is not Operator.ASSIGN, True))
        listed = [(number, *each) for number, each in enumerate(accesses) if each[0].tensor == tensor]
        if not listed:
            continue
        points = _points(workload, leaf, len(accesses))
        clock, coordinates = _when_and_where(leaf, points, depth)
        held = [place for place in leaf.holders[tensor] if tree.places[place].level > innermost]
        for number, access, reads, writes in listed:
            address = start + _address(workload, access, layout, points) * workload.tensor(tensor).bits
            order = np.full(len(address), number, np.int64)
            yield _Uses(address, clock, coordinates, order, held[0] if held else -1, reads, writes)


def _points(workload: Workload, leaf: Leaf, accesses: int) -> dict[str, Ints]:
    """Return the statement's instances, one array per dim."""
    extents, statement = workload.extents(), leaf.statement
    sizes = [extents[dim] for dim in statement.dims]
    total = int(np.prod(sizes, dtype=object)) if sizes else 1
    if total * accesses > TUNING.most_accesses:
        what = f"statement {statement.name} makes {total * accesses:,} accesses; {TUNING.most_accesses:,} are walked"
        raise BudgetError(Mistake("PM477", what, "Ask about a smaller layer of the same shape and a smaller cache."))
    grid = np.indices(sizes, np.int64).reshape(len(sizes), -1) if sizes else np.zeros((0, 1), np.int64)
    points = dict(zip(statement.dims, grid, strict=True))
    inside = np.ones(total, bool)
    for constraint in statement.constraints:
        inside &= np.asarray(constraint.evaluate(points)) >= 0  # pyright: ignore[reportArgumentType]
    found = {dim: values[inside] for dim, values in points.items()}
    return found or {"": np.zeros(int(inside.sum()), np.int64)}


def _when_and_where(leaf: Leaf, points: dict[str, Ints], depth: int) -> tuple[Ints, Ints]:
    count = len(next(iter(points.values())))
    rest, digits = dict(points), list[Ints]()
    for dim, tile in leaf.loops:
        index = rest.get(dim, np.zeros(count, np.int64))
        digits.append(index // tile)
        rest[dim] = index % tile
    clock = np.full((count, depth), -1, np.int64)
    for column, part in enumerate(leaf.clock):
        clock[:, column] = digits[part] if part >= 0 else ~part
    coordinates = np.zeros((count, len(leaf.fanouts)), np.int64)
    for column, spread in enumerate(leaf.fanouts):
        for loop, trips in spread:
            coordinates[:, column] = coordinates[:, column] * trips + digits[loop]
    return clock, coordinates


def _address(workload: Workload, access: Access, layout: Layout, points: dict[str, Ints]) -> Ints:
    """Return the element's number in memory."""
    tensor = workload.tensor(access.tensor)
    count = len(next(iter(points.values())))
    address = np.zeros(count, np.int64)
    for axis, index in enumerate(access.index):
        value = np.broadcast_to(np.asarray(index.evaluate(points)), (count,))  # pyright: ignore[reportArgumentType]
        address = address + layout.offsets(tensor.shape, axis, value - (tensor.origin[axis] if tensor.origin else 0))
    return address


def _single(listed: list[_Uses]) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield (address, key, coordinates) of accesses that no level inside of the caches serves."""
    for uses in listed:
        ones = np.ones(len(uses.address), np.int64)
        yield uses.address, np.column_stack([uses.clock, ones, uses.coordinates, uses.order]), uses.coordinates


def _moved(place: HoldingNode, listed: list[_Uses], *, only_sums: bool) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield (address, key, coordinates) of what the tiles of a place load and store.

    only_sums: they are accumulated from nothing, so that what no tile has held before is not loaded.
    """
    address = np.concatenate([uses.address for uses in listed])
    clock = np.concatenate([uses.clock for uses in listed])
    coordinates = np.concatenate([uses.coordinates for uses in listed])
    order = np.concatenate([uses.order for uses in listed])
    reads = np.concatenate([np.full(len(uses.address), uses.reads) for uses in listed])
    if not len(address):
        return
    rank = np.lexsort([order, *coordinates.T[::-1], *clock.T[::-1]])
    address, clock, coordinates, order, reads = (each[rank] for each in (address, clock, coordinates, order, reads))
    instance = _numbered(coordinates[:, : place.width])
    stand = np.cumsum(np.r_[0, (clock[1:, : place.depth] != clock[:-1, : place.depth]).any(1)])
    # The tiles of each instance are numbered as they come; row: the first use of each.
    stands = int(stand[-1]) + 1
    known, row, tile = np.unique(instance * stands + stand, return_index=True, return_inverse=True)
    tiles = np.stack([known // stands, known % stands], 1)
    addresses, number = np.unique(address, return_inverse=True)
    held, first = np.unique(tile.reshape(-1) * len(addresses) + number.reshape(-1), return_index=True)
    pairs = np.stack([held // len(addresses), addresses[held % len(addresses)]], 1)
    before, after = _stays(pairs, tiles)
    loaded = ~before & reads[first]
    if only_sums:
        loaded &= _was_stored(pairs, tiles)
    at = first[loaded]
    ones = np.ones(len(at), np.int64)
    yield address[at], np.column_stack([clock[at], ones, coordinates[at], order[at]]), coordinates[at]
    if any(uses.writes for uses in listed):
        yield _stored(pairs[~after], tiles, row, clock, coordinates)


def _numbered(columns: Ints) -> Ints:
    """Return one number per row, the same for the same row."""
    found = np.zeros(len(columns), np.int64)
    for column in columns.T:
        found = found * (int(column.max(initial=0)) + 1) + column
    return found


def _stays(pairs: Ints, tiles: Ints) -> tuple[Bools, Bools]:
    """Return which (tile, address) the tile before of the same instance holds too, and which the one after."""
    order = np.lexsort([pairs[:, 0], pairs[:, 1]])
    one, other = pairs[order[:-1]], pairs[order[1:]]
    same_instance = tiles[one[:, 0], 0] == tiles[other[:, 0], 0]
    stays = (one[:, 1] == other[:, 1]) & (one[:, 0] + 1 == other[:, 0]) & same_instance
    before, after = np.zeros(len(pairs), bool), np.zeros(len(pairs), bool)
    before[order[1:]], after[order[:-1]] = stays, stays
    return before, after


def _was_stored(pairs: Ints, tiles: Ints) -> Bools:
    """Return which (tile, address) an earlier tile of any instance has held: tiles that stand at once on several
    instances hold sums of their own, which begin from nothing."""
    when = tiles[pairs[:, 0], 1]
    address, number = np.unique(pairs[:, 1], return_inverse=True)
    earliest = np.full(len(address), np.iinfo(np.int64).max)
    np.minimum.at(earliest, number.reshape(-1), when)
    return when > earliest[number.reshape(-1)]


def _stored(pairs: Ints, tiles: Ints, row: Ints, clock: Ints, coordinates: Ints) -> tuple[Ints, Ints, Ints]:
    """Return what tiles store when the next one of their instance comes, or at the end."""
    number = pairs[:, 0]
    follower = np.minimum(number + 1, len(tiles) - 1)
    has_next = (number + 1 < len(tiles)) & (tiles[follower, 0] == tiles[number, 0])
    when = np.where(has_next[:, None], clock[row[follower]], np.iinfo(np.int64).max)
    where = coordinates[row[number]]
    zeros = np.zeros(len(pairs), np.int64)
    return pairs[:, 1], np.column_stack([when, zeros, where, zeros]), where
