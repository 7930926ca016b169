"""The loop tree as the simulator walks it: places that hold tensors, and every statement instance with its time and
position (docs/counting.md, "A mapping is a loop tree").

Nothing is summarised here: an index becomes its digits, the digits become the clock and the fan-out coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from polymap import ir

Element = tuple[int, ...]
Clock = tuple[int, ...]
Coordinates = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HoldingNode:
    """One tensor in one Storage node: a set of instances that hold it.

    level: index in the machine, 0 the outermost. depth: how many components of the clock its tile depends on.
    width: how many fan-outs stand above its level; an instance is named by that many coordinates.
    parent: the place that it loads from (an index into Tree.places), None for the outermost. scope: how many
    components of the clock say which execution of which child of a Branch it stands in; 0 outside all Branches.
    """

    tensor: str
    level: int
    depth: int
    width: int
    parent: int | None
    scope: int = 0


@dataclass(frozen=True, slots=True)
class Leaf:
    """One statement with the loops on its way: `clock` and `fanouts` say what each digit is for.

    clock: per component either a loop (an index into `loops`) or the fixed number of a Branch's child (negative: ~n).
    fanouts: per fan-out of the machine its loops, as (index into `loops`, nominal trip count), outermost first.
    loops: (dim, tile) outermost first. holders: tensor -> its places on the way, outermost first.
    """

    statement: ir.Statement
    loops: tuple[tuple[str, int], ...]
    clock: tuple[int, ...]
    fanouts: tuple[tuple[tuple[int, int], ...], ...]
    holders: dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Tree:
    """Places in the order of the tree (a parent stands before its children), and the leaves from left to right."""

    places: tuple[HoldingNode, ...]
    leaves: tuple[Leaf, ...]


@dataclass(frozen=True, slots=True)
class Execution:
    """One statement instance: when, where (one coordinate per fan-out), and what it touches."""

    clock: Clock
    coordinates: Coordinates
    leaf: int
    target: Element
    reads: tuple[Element, ...]


@dataclass(frozen=True, slots=True)
class _Way:
    """What has been met on the way from the root to a node."""

    loops: tuple[tuple[str, int], ...]
    clock: tuple[int, ...]
    fanouts: tuple[tuple[tuple[int, int], ...], ...]
    tiles: dict[str, int]
    holders: dict[str, tuple[int, ...]]


def resolve(workload: ir.Workload, arch: ir.Architecture, mapping: ir.Mapping) -> Tree:
    """Return the places and leaves of a mapping that `check_mapping` accepts."""
    places = [HoldingNode(tensor.name, 0, 0, 0, None) for tensor in workload.tensors]
    leaves: list[Leaf] = []
    holders = {place.tensor: (index,) for index, place in enumerate(places)}
    start = _Way((), (), ((),) * len(arch.fanouts), workload.extents(), holders)
    _walk(workload, arch, mapping.nodes, start, places, leaves)
    return Tree(tuple(places), tuple(leaves))


def _walk(
    workload: ir.Workload,
    arch: ir.Architecture,
    nodes: tuple[ir.MappingNode, ...],
    way: _Way,
    places: list[HoldingNode],
    leaves: list[Leaf],
) -> None:
    for node in nodes:
        match node:
            case ir.Storage():
                way = _below_storage(arch, node, way, places)
            case ir.Temporal() | ir.Spatial():
                way = _below_loop(arch, node, way)
            case ir.Compute():
                statement = workload.statement(node.statement)
                leaves.append(Leaf(statement, way.loops, way.clock, way.fanouts, way.holders))
            case ir.Branch():
                for number, child in enumerate(node.children):
                    inside = _Way(way.loops, (*way.clock, ~number), way.fanouts, way.tiles, way.holders)
                    _walk(workload, arch, child, inside, places, leaves)


def _below_storage(arch: ir.Architecture, node: ir.Storage, way: _Way, places: list[HoldingNode]) -> _Way:
    level = arch.level_index(node.level)
    if level == 0:  # it holds everything anyway
        return way
    holders = dict(way.holders)
    for tensor in node.tensors:
        width = len(arch.fanouts_above(node.level))
        scope = max((place + 1 for place, component in enumerate(way.clock) if component < 0), default=0)
        places.append(HoldingNode(tensor, level, len(way.clock), width, holders[tensor][-1], scope))
        holders[tensor] = (*holders[tensor], len(places) - 1)
    return _Way(way.loops, way.clock, way.fanouts, way.tiles, holders)


def _below_loop(arch: ir.Architecture, node: ir.Temporal | ir.Spatial, way: _Way) -> _Way:
    number = len(way.loops)
    loops = (*way.loops, (node.dim, node.tile))
    enclosing = way.tiles[node.dim]
    tiles = {**way.tiles, node.dim: min(node.tile, enclosing)}
    if isinstance(node, ir.Temporal):
        return _Way(loops, (*way.clock, number), way.fanouts, tiles, way.holders)
    trips = -(-enclosing // node.tile)
    fanouts = tuple(
        (*spread, (number, trips)) if fanout.name == node.fanout else spread
        for fanout, spread in zip(arch.fanouts, way.fanouts, strict=True)
    )
    return _Way(loops, way.clock, fanouts, tiles, way.holders)


def executions(workload: ir.Workload, tree: Tree) -> list[Execution]:
    """Return every statement instance, in the order of the clock, then of the fan-out coordinates."""
    extents = workload.extents()
    found = [
        _execution(number, leaf, point)
        for number, leaf in enumerate(tree.leaves)
        for point in _points(leaf.statement, extents)
    ]
    return sorted(found, key=lambda execution: (execution.clock, execution.coordinates))


def _points(statement: ir.Statement, extents: dict[str, int]) -> Iterator[dict[str, int]]:
    for values in product(*(range(extents[dim]) for dim in statement.dims)):
        point = dict(zip(statement.dims, values, strict=True))
        if all(constraint.evaluate(point) >= 0 for constraint in statement.constraints):
            yield point


def _execution(number: int, leaf: Leaf, point: dict[str, int]) -> Execution:
    digits = _digits(leaf, point)
    clock = tuple(digits[part] if part >= 0 else ~part for part in leaf.clock)
    coordinates = tuple(_coordinate(spread, digits) for spread in leaf.fanouts)
    target, *reads = (_element(access, point) for access in (leaf.statement.target, *leaf.statement.reads))
    return Execution(clock, coordinates, number, target, tuple(reads))


def _digits(leaf: Leaf, point: dict[str, int]) -> list[int]:
    """Return which iteration of each loop the point belongs to."""
    rest = dict(point)
    digits: list[int] = []
    for dim, tile in leaf.loops:
        index = rest.get(dim, 0)  # a loop of one iteration may stand above a statement that lacks its dim
        digits.append(index // tile)
        rest[dim] = index % tile
    return digits


def _coordinate(spread: tuple[tuple[int, int], ...], digits: list[int]) -> int:
    """Return the position on one fan-out: its loops side by side, the outermost the most significant."""
    position = 0
    for loop, trips in spread:
        position = position * trips + digits[loop]
    return position


def _element(access: ir.Access, point: dict[str, int]) -> Element:
    return tuple(index.evaluate(point) for index in access.index)
