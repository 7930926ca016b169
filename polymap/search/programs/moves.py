"""Steps from one shape of a program to others: loops permuted, tiled, fused and distributed, statements reordered."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from polymap.search.programs.shapes import Group, Loop, Loops, Shape, group_of


def groups(group: Group) -> Iterator[Group]:
    """Yield a group and all below it."""
    yield group
    for child in group.children:
        yield from groups(child)


def with_loops(shape: Shape, group: Group, segment: Loops) -> Shape:
    """Return the shape with other loops in place of those that the statements of a group have alone."""
    loops = tuple(
        (*each[: group.begin], *segment, *each[group.end :]) if group.low <= place < group.high else each
        for place, each in enumerate(shape.loops)
    )
    more = len(segment) - (group.end - group.begin)
    shared = tuple(
        count + more if group.low <= place < group.high - 1 else count for place, count in enumerate(shape.shared)
    )
    return Shape(shape.statements, loops, shared)


def orders(shape: Shape, group: Group) -> Iterator[Shape]:
    """Yield the shape with one loop of the group moved to another place among its loops."""
    segment = shape.loops[group.low][group.begin : group.end]
    for place, loop in enumerate(segment):
        rest = (*segment[:place], *segment[place + 1 :])
        for other in range(len(segment)):
            if other != place and in_order(moved := (*rest[:other], loop, *rest[other:])):
                yield with_loops(shape, group, moved)


def in_order(loops: Loops) -> bool:
    """Return whether the tiles of every dim fall."""
    last: dict[str, int] = {}
    for dim, tile in loops:
        if last.get(dim, tile + 1) <= tile:
            return False
        last[dim] = tile
    return True


def tile_group(shape: Shape, group: Group, tiles: dict[str, int], extents: dict[str, int]) -> Shape | None:
    """Return the shape with loops over tiles of these sizes around the group's own, in the order given; None where a
    tile is no smaller than what is around it or no larger than what is inside."""
    around = shape.loops[group.low][: group.begin]
    for dim, tile in tiles.items():
        outer = min((size for name, size in around if name == dim), default=extents[dim])
        if tile >= outer or any(largest_inside(shape, place, group, dim) >= tile for place in members(group)):
            return None
    segment = shape.loops[group.low][group.begin : group.end]
    return with_loops(shape, group, (*tiles.items(), *segment))


def members(group: Group) -> range:
    """Return the places of a group's statements."""
    return range(group.low, group.high)


def largest_inside(shape: Shape, place: int, group: Group, dim: str) -> int:
    """Return the largest tile of a dim among the loops of a statement from the group inwards (0: it has none there)."""
    return max((tile for name, tile in shape.loops[place][group.begin :] if name == dim), default=0)


def tilable_dims(shape: Shape, group: Group) -> tuple[str, ...]:
    """Return the dims over which every statement of the group has a loop, not around it: in the first one's order."""
    found = dict.fromkeys(dim for dim, _ in shape.loops[group.low][group.begin :])
    return tuple(dim for dim in found if all(largest_inside(shape, place, group, dim) for place in members(group)))


def resize_tile(shape: Shape, group: Group, place: int, tile: int, extents: dict[str, int]) -> Shape | None:
    """Return the shape with another tile for one of the group's loops; None where tiles would not fall."""
    loop = shape.loops[group.low][place]
    outer = min((size for name, size in shape.loops[group.low][:place] if name == loop[0]), default=extents[loop[0]])
    inner = max(
        (size for s in members(group) for name, size in shape.loops[s][place + 1 :] if name == loop[0]), default=0
    )
    if not inner < tile < outer:
        return None
    segment = shape.loops[group.low][group.begin : group.end]
    at = place - group.begin
    return with_loops(shape, group, (*segment[:at], (loop[0], tile), *segment[at + 1 :]))


def remove_loop(shape: Shape, group: Group, place: int) -> Shape:
    """Return the shape without one of the group's loops (of a tile above 1)."""
    segment = shape.loops[group.low][group.begin : group.end]
    at = place - group.begin
    return with_loops(shape, group, (*segment[:at], *segment[at + 1 :]))


def common_loops(one: Loops, other: Loops) -> int:
    """Return how many leading loops two statements have in common."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


def sharings(shape: Shape) -> Iterator[Shape]:
    """Yield the shape with neighbours fused deeper or distributed, one pair at a time."""
    for place, (one, other) in enumerate(pairwise(shape.loops)):
        for count in range(common_loops(one, other), -1, -1):
            if count != shape.shared[place]:
                yield Shape(shape.statements, shape.loops, replace_count(shape.shared, place, count))


def replace_count(counts: tuple[int, ...], place: int, count: int) -> tuple[int, ...]:
    """Return the counts with another one at a place."""
    return (*counts[:place], count, *counts[place + 1 :])


def distribute_children(shape: Shape, group: Group) -> Shape:
    """Return the shape with the children of a group in loops of their own."""
    shared = list(shape.shared)
    for child in group.children[:-1]:
        shared[child.high - 1] = group.begin
    return Shape(shape.statements, shape.loops, tuple(shared))


def swap_children(shape: Shape, group: Group) -> Iterator[Shape]:
    """Yield the shape with two neighbouring children of a group in the other order."""
    for one, other in pairwise(group.children):
        ranges = (range(other.low, other.high), range(one.low, one.high))
        order = [*range(one.low), *ranges[0], *ranges[1], *range(other.high, len(shape.statements))]
        shared = list(shape.shared)
        shared[one.low : other.high - 1] = [
            *shape.shared[other.low : other.high - 1],
            group.end,
            *shape.shared[one.low : one.high - 1],
        ]
        loops = tuple(shape.loops[place] for place in order)
        pairs = zip(shared, pairwise(loops), strict=True)
        fitting = tuple(min(count, common_loops(first, second)) for count, (first, second) in pairs)
        yield Shape(tuple(shape.statements[place] for place in order), loops, fitting)


def hoist_loops(shape: Shape, group: Group) -> Iterator[Shape]:
    """Yield the shape with neighbouring children fused over a loop that both can begin with."""
    for one, other in pairwise(group.children):
        mine = shape.loops[one.low][one.begin : one.end]
        theirs = shape.loops[other.low][other.begin : other.end]
        for loop in mine:
            if loop in theirs:
                first, second = _front_loop(mine, loop), _front_loop(theirs, loop)
                if in_order(first) and in_order(second):
                    moved = with_loops(with_loops(shape, one, first), other, second)
                    yield Shape(moved.statements, moved.loops, replace_count(moved.shared, one.high - 1, one.begin + 1))


def move_to_front(shape: Shape, dim: str) -> Shape:
    """Return the shape with the loop of tile 1 over a dim outermost in all statements that have it. Neighbours that
    shared other loops alone are apart."""
    loop = (dim, 1)
    loops = tuple(_front_loop(each, loop) if loop in each else each for each in shape.loops)
    shared = tuple(
        count if loop in shape.loops[place][:count] or shape.loops[place : place + 2] == loops[place : place + 2] else 0
        for place, count in enumerate(shape.shared)
    )
    return Shape(shape.statements, loops, shared)


def _front_loop(loops: Loops, loop: Loop) -> Loops:
    return (loop, *(each for each in loops if each != loop))


def sizes_near(tile: int, extent: int) -> list[int]:
    """Return tile sizes to try in place of one."""
    parts = max(2, -(-extent // tile))
    near = {tile * 2, tile // 2, tile * 3 // 2, tile * 3 // 4, tile + 1, tile - 1}
    near |= {-(-extent // (parts + step)) for step in (-1, 1, 0)}
    return sorted(size for size in near if 1 <= size < extent and size != tile)


def all_groups(shape: Shape) -> list[Group]:
    """Return the groups of a shape, outermost first."""
    return list(groups(group_of(shape)))
