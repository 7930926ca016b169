"""The loop tree of one statement as the closed form reads it: loops with trip counts, and the nodes of each tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from polymap.costmodel.closed_form.groups import WorkloadModel
from polymap.costmodel.closed_form.tuning import TUNING
from polymap.ir import Architecture, Branch, Compute, Fanout, Mapping, MappingNode, Spatial, Storage, Temporal

TEMPORAL = -1

Size = TypeVar("Size")


class Loop(NamedTuple, Generic[Size]):
    """One loop of more than one iteration. trips: nominal. fanout: index among the machine's, or TEMPORAL.

    position: its index in the tree.
    """

    dim: int
    tile: Size
    trips: Size
    fanout: int
    position: int


class Node(NamedTuple):
    """A tensor in a level, or (level -1) the compute unit.

    position: its index in the tree. fans: the number of fan-outs above; loops on these choose the node's instance.
    """

    level: int
    position: int
    fans: int


@dataclass(frozen=True, slots=True)
class MachineModel:
    """The machine in integers.

    levels: name -> (index, fan-outs above). unites, repeats: per fan-out, whether its multicast is union or none. adds:
    per fan-out, whether it has adders. level_names: outermost first. costs: per fan-out, whether crossing it costs
    energy.
    """

    levels: dict[str, tuple[int, int]]
    level_names: tuple[str, ...]
    fanouts: dict[str, int]
    unites: tuple[bool, ...]
    repeats: tuple[bool, ...]
    adds: tuple[bool, ...]
    costs: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class LoopNestView:
    """The loops and nodes of one mapping.

    extents: per dim. loops: outermost first, without those of one iteration. chains: the loops of each dim. even: per
    dim, whether every tile divides the enclosing one. holders: per tensor its nodes, the outermost level first, the
    compute unit last.
    """

    extents: tuple[int, ...]
    loops: tuple[Loop[int], ...]
    chains: tuple[tuple[Loop[int], ...], ...]
    even: tuple[bool, ...]
    holders: tuple[tuple[Node, ...], ...]


def machine_model(arch: Architecture) -> MachineModel:
    """Return the properties of a machine that counts depend on."""
    levels: dict[str, tuple[int, int]] = {}
    for index, level in enumerate(arch.levels):
        levels[level.name] = (index, len(arch.fanouts_above(level.name)))
    fanouts: tuple[Fanout, ...] = arch.fanouts
    return MachineModel(
        levels=levels,
        level_names=tuple(levels),
        fanouts={fanout.name: index for index, fanout in enumerate(fanouts)},
        unites=tuple(fanout.multicast.unites_tiles for fanout in fanouts),
        repeats=tuple(not fanout.multicast.shares_reads for fanout in fanouts),
        adds=tuple(fanout.reduction for fanout in fanouts),
        costs=tuple(fanout.has_energies for fanout in fanouts),
    )


class LoopColumn(NamedTuple):
    """One loop of the tree. column: its number among the loops, outermost first. fanout: index, or TEMPORAL. tile: as
    the tree has it."""

    column: int
    dim: int
    fanout: int
    position: int
    tile: int


class Shape(NamedTuple):
    """The tree without its tiles: loops in order, and per tensor its nodes, outermost first, the compute unit last."""

    loops: tuple[LoopColumn, ...]
    holders: tuple[tuple[Node, ...], ...]


def shape_of_tree(model: WorkloadModel, machine: MachineModel, tree: Mapping) -> Shape | None:
    """Return the shape of a readable tree; None where it has a Branch."""
    numbers = {name: number for number, name in enumerate(model.dims)}
    tensors = {tensor.name: tensor.index for tensor in model.tensors}
    holders: list[list[Node]] = [[Node(0, -1, 0)] for _ in tensors]
    loops: list[LoopColumn] = []
    for position, node in enumerate(tree.nodes):
        match node:
            case Temporal():
                loops.append(LoopColumn(len(loops), numbers[node.dim], TEMPORAL, position, node.tile))
            case Spatial():
                fanout = machine.fanouts[node.fanout]
                loops.append(LoopColumn(len(loops), numbers[node.dim], fanout, position, node.tile))
            case Storage():
                level, fans = machine.levels[node.level]
                for tensor in node.tensors if level else ():
                    holders[tensors[tensor]].append(Node(level, position, fans))
            case Branch():
                return None
            case Compute():
                pass
    end = Node(-1, len(tree.nodes), len(machine.fanouts))
    return Shape(tuple(loops), tuple((*nodes, end) for nodes in holders))


def loops_of_tree(nodes: Sequence[MappingNode]) -> Iterator[Temporal | Spatial]:
    """Yield the loops, children of a branch one after the other."""
    for node in nodes:
        if isinstance(node, Temporal | Spatial):
            yield node
        elif isinstance(node, Branch):
            for child in node.children:
                yield from loops_of_tree(child)


def nest_of(model: WorkloadModel, machine: MachineModel, mapping: Mapping) -> LoopNestView | None:
    """Return the nest of a mapping that `check_mapping` accepts; None where it has a Branch or too many loops."""
    shape = shape_of_tree(model, machine, mapping)
    if shape is None:
        return None
    tiles, even = list(model.extents), [True] * len(model.extents)
    chains: list[list[Loop[int]]] = [[] for _ in tiles]
    loops: list[Loop[int]] = []
    for _, dim, fanout, position, tile in shape.loops:
        enclosing = tiles[dim]
        if tile >= enclosing:
            continue
        even[dim] &= enclosing % tile == 0
        tiles[dim] = tile
        loops.append(Loop(dim, tile, -(-enclosing // tile), fanout, position))
        chains[dim].append(loops[-1])
    if len(loops) >= TUNING.most_loops:
        return None
    return LoopNestView(model.extents, tuple(loops), tuple(map(tuple, chains)), tuple(even), shape.holders)
