"""The loops of a program's tree apart from its storage: which statements share which loops, and in which order.

A shape lists the statements in the order in which they run, the loops of each, and how many leading loops neighbours
share; that determines the tree. A place of a storage node is a group of neighbours and a number of loops around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from polymap.ir import Branch, Compute, Mapping, MappingNode, Operator, Storage, Temporal, Workload, part_of
from polymap.search.programs.instances import Ints, ProgramArrays, keeps_order, order_of

Loop = tuple[str, int]  # dim, tile
Loops = tuple[Loop, ...]
MOST_BITS = 61  # of a clock


@dataclass(frozen=True, slots=True)
class Shape:
    """statements: names in the order in which they run. loops: of each, outermost first. shared: leading loops that
    each one shares with the next."""

    statements: tuple[str, ...]
    loops: tuple[Loops, ...]
    shared: tuple[int, ...]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a node may stand: above the statements low <= s < high (in the shape's order), below `depth` loops."""

    low: int
    high: int
    depth: int


Nodes = tuple[tuple[Place, str, str], ...]  # (place, level, tensor)


@dataclass(frozen=True, slots=True)
class Group:
    """A maximal run of statements with the same loops above: those from `begin` to `end` are theirs; children follow in
    a branch (none: one statement)."""

    low: int
    high: int
    begin: int
    end: int
    children: tuple[Group, ...]

    def places(self) -> Iterator[Place]:
        for depth in range(self.begin, self.end + 1):
            yield Place(self.low, self.high, depth)
        for child in self.children:
            yield from child.places()


def group_of(shape: Shape) -> Group:
    """Return the tree of a shape."""

    def build(low: int, high: int, begin: int) -> Group:
        if high - low == 1:
            return Group(low, high, begin, len(shape.loops[low]), ())
        end = min(shape.shared[low : high - 1])
        cuts = [low, *(place + 1 for place in range(low, high - 1) if shape.shared[place] == end), high]
        parts = pairwise(cuts)
        return Group(low, high, begin, end, tuple(build(one, other, end) for one, other in parts))

    return build(0, len(shape.statements), 0)


def mapping_of_shape(shape: Shape, nodes: Nodes = ()) -> Mapping:
    """Return the loop tree with these storage nodes; at one place in the order given."""

    def sequence(group: Group) -> tuple[MappingNode, ...]:
        found: list[MappingNode] = []
        for depth in range(group.begin, group.end + 1):
            here = Place(group.low, group.high, depth)
            found += [Storage(level, (tensor,)) for place, level, tensor in nodes if place == here]
            if depth < group.end:
                found.append(Temporal(*shape.loops[group.low][depth]))
        if group.children:
            return (*found, Branch(tuple(sequence(child) for child in group.children)))
        return (*found, Compute(shape.statements[group.low]))

    return Mapping(sequence(group_of(shape)))


def source_shape(workload: Workload) -> Shape:
    """Return the program as written."""
    extents = workload.extents()
    statements = sorted(workload.statements, key=lambda each: each.position)
    loops = tuple(tuple((dim, 1) for dim in each.dims if extents[dim] > 1) for each in statements)
    shared: list[int] = []
    for one, other in pairwise(statements):
        count = 0
        for place, (first, second) in enumerate(zip(one.dims, other.dims, strict=False)):
            if first != second or one.position[place] != other.position[place]:
                break
            count += extents[first] > 1
        shared.append(count)
    return Shape(tuple(each.name for each in statements), loops, tuple(shared))


def nests_of(workload: Workload) -> dict[str, int]:
    """Return the number of every statement's outermost nest. A nest that sets an array to a constant, right before one
    that accumulates into it, is a part of that one."""
    ordered = sorted(workload.statements, key=lambda each: each.position)
    nests = {each.name: each.position[0] for each in ordered}
    for one, other in reversed(list(pairwise(ordered))):
        alone = [each.position[0] for each in ordered].count(one.position[0]) == 1
        sets = one.operator is Operator.ASSIGN and not one.reads and one.target.tensor == other.target.tensor
        if alone and sets and other.operator is not Operator.ASSIGN:
            nests[one.name] = nests[other.name]
    return nests


def nest_programs(workload: Workload) -> tuple[Workload, ...]:
    """Return every outermost nest as a program of its own, which reads what the nests before it wrote."""
    nests = nests_of(workload)
    order = sorted(workload.statements, key=lambda each: each.position)
    numbers = dict.fromkeys(nests[each.name] for each in order)
    return tuple(part_of(workload, tuple(each for each in order if nests[each.name] == number)) for number in numbers)


def keeps_apart(nests: dict[str, int], shape: Shape) -> bool:
    """Return whether statements of different nests share no loop."""
    neighbours = zip(shape.shared, pairwise(shape.statements), strict=True)
    return all(not count or nests[one] == nests[other] for count, (one, other) in neighbours)


@dataclass(frozen=True, slots=True)
class Views:
    """What a node sees while a shape runs. number: by rank, the view. starts: the ranks at which views begin. empty:
    the views in which nothing is held: other children of a branch run, or the node's own child ends and begins anew."""

    number: Ints
    starts: Ints
    empty: NDArray[np.bool_]


@dataclass(frozen=True)
class ShapeTimes:
    """When a shape runs every instance of a program.

    clock: per instance (by its number in `ProgramArrays`) its clock as one integer. place: the place in the shape of
    the instance's statement. suffix: per component of the clock, how many bits the components from it on have. above:
    per group (low, high, begin), the components of the clock above its first loop.
    """

    clock: Ints
    place: Ints
    suffix: tuple[int, ...]
    above: dict[tuple[int, int], int]
    group: Group

    @cached_property
    def order(self) -> Ints:
        """The instances in the order in which they run."""
        return order_of(self.clock)

    @cached_property
    def rank(self) -> Ints:
        """Per instance its place among all."""
        rank = np.empty(len(self.clock), dtype=np.int32)
        rank[self.order] = np.arange(len(rank), dtype=np.int32)
        return rank

    @cached_property
    def key(self) -> Ints:
        """Clocks by rank."""
        return self.clock[self.order]

    @cached_property
    def leaf(self) -> Ints:
        """By rank, the statement's place in the shape."""
        return self.place[self.order]

    def views(self, place: Place) -> Views:
        """Return the views of a node at this place: the steps of the clock above it."""
        way = _way(self.group, place)
        group = way[-1]
        inner = self.suffix[self.above[group.low, group.high] + place.depth - group.begin]
        view = self.key >> inner
        for around, inside in pairwise(way):
            turn = self.suffix[self.above[around.low, around.high] + around.end - around.begin + 1]
            beside = (self.leaf >= around.low) & (self.leaf < around.high)
            beside &= (self.leaf < inside.low) | (self.leaf >= inside.high)
            view[beside] = self.key[beside] >> turn << (turn - inner)
        begins = view[1:] != view[:-1]
        outside = (self.leaf < place.low) | (self.leaf >= place.high)
        again = np.zeros(len(begins), dtype=bool)  # where an execution of a branch's child follows another one
        if len(way) > 1:
            around = way[-2]
            execution = self.key >> self.suffix[self.above[around.low, around.high] + around.end - around.begin + 1]
            again = (execution[1:] != execution[:-1]) & ~outside[1:] & ~outside[:-1]
        number = np.zeros(len(view), dtype=np.int32)
        np.cumsum(begins.astype(np.int32) + again, out=number[1:])
        at = np.flatnonzero(begins)
        starts = np.append(0, np.repeat(at + 1, 1 + again[at]))
        empty = np.ones(len(starts), dtype=bool)
        empty[number[np.append(0, at + 1)]] = outside[np.append(0, at + 1)]
        return Views(number, starts, empty)


def _way(group: Group, place: Place) -> list[Group]:
    """Return the groups from the root to the one of the place."""
    way = [group]
    while (way[-1].low, way[-1].high) != (place.low, place.high):
        way.append(next(each for each in way[-1].children if each.low <= place.low < each.high))
    return way


def time_shape(arrays: ProgramArrays, shape: Shape) -> ShapeTimes | None:
    """Return when the shape runs every instance; None where clocks are too long for one integer."""
    workload, extents = arrays.workload, arrays.workload.extents()
    group = group_of(shape)
    above: dict[tuple[int, int], int] = {}
    clocks = _clocks(group, shape, above)
    radices = [1] * max(len(clock) for clock in clocks)
    digits: dict[str, list[Ints | int]] = {}
    for name, clock in zip(shape.statements, clocks, strict=True):
        number = [each.name for each in workload.statements].index(name)
        dims, points, tiles = workload.statements[number].dims, arrays.points[number], dict(extents)
        values = digits.setdefault(name, [])
        rest = {dim: points[place] for place, dim in enumerate(dims)}  # of an index, below the loops passed
        for place, component in enumerate(clock):
            if isinstance(component, int):
                values.append(component)
                size = component + 1
            else:
                dim, tile = component
                digit = rest[dim] // tile if tile > 1 else rest[dim]
                values.append(digit)
                rest[dim] = rest[dim] - digit * tile
                size = -(-tiles[dim] // tile)
                tiles[dim] = tile
            radices[place] = max(radices[place], size)
    suffix = [0]
    for radix in reversed(radices):
        suffix.insert(0, suffix[0] + (radix - 1).bit_length())
    if suffix[0] > MOST_BITS:
        return None
    clock, places = np.zeros(arrays.count, dtype=np.int64), np.zeros(arrays.count, dtype=np.int16)
    for number, statement in enumerate(workload.statements):
        here = slice(arrays.first[number], arrays.first[number] + arrays.points[number].shape[1])
        places[here] = shape.statements.index(statement.name)
        for place, value in enumerate(digits[statement.name]):
            clock[here] += np.int64(1 << suffix[place + 1]) * value
    return ShapeTimes(clock, places, tuple(suffix), above, group)


Component = Loop | int  # of a clock: a loop, or the number of a branch's child


def _clocks(group: Group, shape: Shape, above: dict[tuple[int, int], int]) -> list[list[Component]]:
    """Return the clock of every statement, outermost component first, and note where those of groups begin."""
    clocks: list[list[Component]] = [[] for _ in shape.statements]

    def walk(group: Group) -> None:
        above[group.low, group.high] = len(clocks[group.low])
        for place in range(group.low, group.high):
            clocks[place] += shape.loops[place][group.begin : group.end]
        for number, child in enumerate(group.children):
            for place in range(child.low, child.high):
                clocks[place].append(number)
            walk(child)

    walk(group)
    return clocks


def is_legal(arrays: ProgramArrays, when: ShapeTimes) -> bool:
    """Return whether every dependence keeps its order."""
    return keeps_order(arrays, when.clock)
