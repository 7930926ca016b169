"""The closed form of one tensor at one level as expressions in the tiles of the mapping's loops.

The sums are those of docs/closed_form.md where every tile divides the enclosing one. What they compare (does this
window overlap its last position, which stride is longer) is decided at the mapping's own tiles and told as a condition.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
# (sympy's own annotations are partial)

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from sympy import Eq, Expr, Gt, Integer, Mod, Symbol, cancel, factor
from sympy.logic.boolalg import Boolean

from polymap.costmodel.closed_form import (
    TEMPORAL,
    MachineModel,
    Nest,
    Node,
    TensorModel,
    WorkloadModel,
    machine_model,
    nest_of,
    workload_model,
)
from polymap.costmodel.symbolic.formulas import Formula, TileSymbol
from polymap.costmodel.symbolic.progressions import (
    ONE,
    ZERO,
    Region,
    Shape,
    Steps,
    always_true,
    beyond,
    differs,
    new_part,
    overlap,
    shape_of,
)
from polymap.ir import Architecture, Mapping, Mistake, OptionError, Workload, did_you_mean
from polymap.schedules import check_mapping


def formula(workload: Workload, arch: Architecture, mapping: Mapping, level: str, tensor: str) -> Formula:
    """Return reads, writes, fills and drains of a tensor at a level in the tiles of the mapping's loops.

    A tile is named after its dim and its depth among the loops over that dim (`m_1` the outermost); loops of one
    iteration have none, innermost tiles are 1. Raises MappingError where the tree cannot be read as a program,
    OptionError where the level does not hold the tensor, BudgetError where tiles do not divide or no formula is known.
    """
    check_mapping(workload, arch, mapping)
    model = workload_model(workload)
    machine = machine_model(arch)
    nest = None if model is None else nest_of(model, machine, mapping)
    if model is None or nest is None:
        raise beyond("it takes one accumulation over a box, with one linear access per tensor")
    if not _divides(model, nest):
        raise beyond("a tile of the mapping does not divide the one around it")
    found, number = _held(model, machine, nest, level, tensor)
    if found.written and found.temporary:
        raise beyond(f"{tensor} is temporary")
    tree = _tree(model, nest)
    count = _written if found.written else _read
    amounts = count(tree, machine, found, nest.holders[found.index], number)
    return Formula(level, tensor, tree.tiles, _conditions(tree, model), *(factor(cancel(each)) for each in amounts))


class _Loop(NamedTuple):
    """A loop of the nest with its tile and trip count as expressions."""

    dim: int
    tile: Expr
    trips: Expr
    fanout: int
    position: int


@dataclass(slots=True)
class _Tree:
    """The loops, the symbols of their tiles, and where what is said of them holds."""

    loops: tuple[_Loop, ...]
    tiles: tuple[TileSymbol, ...]
    plain: tuple[Boolean, ...]
    region: Region


@dataclass(slots=True)
class _Spot:
    """One node of one tensor among the loops, as in `uniform.Spot`: what is fixed, what is free, its siblings."""

    above: list[_Loop]
    free: list[Steps]
    spread: list[list[tuple[int, Expr, Expr]]]
    idle: list[tuple[int, Expr]] = field(default_factory=list[tuple[int, Expr]])
    steps: Expr = ONE
    tile: Expr = ONE
    parents: Expr = ONE
    instances: Expr = ONE
    apart: Expr = ONE

    def shapes(self, region: Region) -> list[Shape]:
        return [shape_of(region, steps) for steps in self.free]


def _held(model: WorkloadModel, machine: MachineModel, nest: Nest, level: str, tensor: str) -> tuple[TensorModel, int]:
    """Return the tensor, and which of its nodes is the one at the level."""
    by_name = {each.name: each for each in model.tensors}
    if tensor not in by_name:
        hint = did_you_mean(tensor, list(by_name))
        raise OptionError(Mistake("PM532", f"no tensor '{tensor}' in the workload", hint))
    if level not in machine.levels:
        hint = did_you_mean(level, list(machine.levels))
        raise OptionError(Mistake("PM533", f"no level '{level}' in the machine", hint))
    found = by_name[tensor]
    holders = [node.level for node in nest.holders[found.index]]
    wanted = machine.levels[level][0]
    if wanted not in holders:
        names = ", ".join(machine.level_names[each] for each in holders if each >= 0)
        raise OptionError(Mistake("PM534", f"'{level}' does not hold {tensor}", f"The mapping holds it in: {names}."))
    return found, holders.index(wanted)


def _divides(model: WorkloadModel, nest: Nest) -> bool:
    enclosing = list(model.extents)
    for loop in nest.loops:
        if enclosing[loop.dim] % loop.tile:
            return False
        enclosing[loop.dim] = loop.tile
    return True


def _tree(model: WorkloadModel, nest: Nest) -> _Tree:
    enclosing: list[Expr] = [Integer(extent) for extent in model.extents]
    depths = [0] * len(model.dims)
    loops: list[_Loop] = []
    tiles: list[TileSymbol] = []
    conditions: list[Boolean] = []
    point: dict[Symbol, int] = {}
    for loop in nest.loops:
        dim, around = loop.dim, enclosing[loop.dim]
        depths[dim] += 1
        tile = ONE
        if loop.tile > 1:
            name = f"{model.dims[dim]}_{depths[dim]}"
            tile = Symbol(name, integer=True, positive=True)
            point[tile] = loop.tile
            tiles.append(TileSymbol(name, model.dims[dim], depths[dim], _plain(around), loop.tile))
            conditions.append(Eq(Mod(around, tile), ZERO))
        if not around.is_number or not tile.is_number:
            conditions.append(Gt(around, tile))
        loops.append(_Loop(dim, tile, around / tile, loop.fanout, loop.position))
        enclosing[dim] = tile
    return _Tree(tuple(loops), tuple(tiles), tuple(conditions), Region(point))


def _plain(expression: Expr) -> str | int:
    return int(expression) if expression.is_number else str(expression)


def _conditions(tree: _Tree, model: WorkloadModel) -> tuple[Boolean, ...]:
    """Return the conditions on the tiles alone, then those of the comparisons that they do not already decide."""
    extents = dict(zip(model.dims, model.extents, strict=True))
    # A tile that has a symbol is above 1 and at most half of the dim.
    room = {symbol: (2, extents[tile.dim] // 2) for symbol, tile in zip(tree.region.point, tree.tiles, strict=True)}
    compared = [each for each in tree.region.conditions if not always_true(each, room)]
    return tuple(dict.fromkeys((*tree.plain, *compared)))


def _spot(tree: _Tree, tensor: TensorModel, parent: Node, node: Node) -> _Spot:
    spot = _Spot([], [[] for _ in tensor.windows], [[] for _ in tensor.windows])
    for loop in tree.loops:
        kind, trips = tensor.kinds[loop.dim], loop.trips
        if loop.fanout == TEMPORAL and loop.position < node.position:
            spot.above.append(loop)
            spot.steps *= trips
        elif loop.fanout != TEMPORAL and loop.fanout < node.fans:
            spot.instances *= trips
            if loop.fanout < parent.fans:
                spot.parents *= trips
            elif kind == 1:
                spot.apart *= trips
            elif kind == 0:
                spot.idle.append((loop.fanout, trips))
            else:
                window, times = _window(tensor, loop.dim)
                spot.spread[window].append((loop.fanout, times * loop.tile, trips))
        elif kind == 1:
            spot.tile *= trips
        elif kind == 2:
            window, times = _window(tensor, loop.dim)
            spot.free[window].append((times * loop.tile, trips))
    return spot


def _window(tensor: TensorModel, dim: int) -> tuple[int, int]:
    """Return (number of the window that has the dim, the dim's coefficient in it)."""
    return next(
        (number, times)
        for number, window in enumerate(tensor.windows)
        for member, times in window.terms
        if member == dim
    )


def _size(shapes: list[Shape]) -> Expr:
    return prod((shape.size for shape in shapes), start=ONE)


def _read(
    tree: _Tree, machine: MachineModel, tensor: TensorModel, nodes: tuple[Node, ...], number: int
) -> tuple[Expr, Expr, Expr, Expr]:
    """Return reads, writes, fills and drains of a read-only tensor at its node `number`."""
    below = _spot(tree, tensor, nodes[number], nodes[number + 1])
    reads = _messages(tree.region, machine, tensor, below, compute=nodes[number + 1].level < 0)
    fills = ZERO
    if number:
        spot = _spot(tree, tensor, nodes[number - 1], nodes[number])
        fills = _entries(tree.region, tensor, spot, spot.shapes(tree.region)) * spot.instances
    return reads, fills, fills, ZERO


def _entries(region: Region, tensor: TensorModel, spot: _Spot, shapes: list[Shape]) -> Expr:
    """Return how many elements enter one instance in all: whole tiles less what each carry keeps."""
    kept = ZERO
    for times, shifts in _carries(tensor, spot):
        still = ONE
        for shape, shift in zip(shapes, shifts, strict=True):
            still *= overlap(region, shape, shift)
            if still == 0:
                break
        kept += times * still
    return spot.tile * (spot.steps * _size(shapes) - kept)


def _carries(tensor: TensorModel, spot: _Spot) -> list[tuple[Expr, list[Expr]]]:
    """Return (how often, shift of each window's tile) per carry at which the singles stand still, innermost first."""
    carries: list[tuple[Expr, list[Expr]]] = []
    wraps = [ZERO for _ in tensor.windows]
    outer = spot.steps
    for loop in reversed(spot.above):
        outer = cancel(outer / loop.trips)
        kind = tensor.kinds[loop.dim]
        if kind == 1:
            break
        shifts = [-wrap for wrap in wraps]
        if kind == 2:
            window, times = _window(tensor, loop.dim)
            shifts[window] += times * loop.tile
            wraps[window] += times * loop.tile * (loop.trips - 1)
        carries.append((outer * (loop.trips - 1), shifts))
    return carries


def _messages(region: Region, machine: MachineModel, tensor: TensorModel, spot: _Spot, *, compute: bool) -> Expr:
    """Return the elements that all parent instances read for what `spot` loads."""
    copies = spot.parents * spot.apart
    for fanout, trips in spot.idle:
        if machine.repeats[fanout]:
            copies *= trips
    united: list[Steps] = []
    for spread in spot.spread:
        alike: Steps = []
        together: Steps = []
        for fanout, stride, trips in spread:
            if machine.repeats[fanout]:
                copies *= trips
            else:
                (together if machine.unites[fanout] else alike).append((stride, trips))
        copies *= shape_of(region, alike).size
        united.append(together)
    if compute:
        return copies * tensor.reads * spot.steps * _size([shape_of(region, together) for together in united])
    shapes = spot.shapes(region)
    if not any(united):
        return copies * _entries(region, tensor, spot, shapes)
    return copies * _united(region, tensor, spot, shapes, united)


def _united(region: Region, tensor: TensorModel, spot: _Spot, shapes: list[Shape], united: list[Steps]) -> Expr:
    """Return the elements of all loads, each the union over siblings displaced by `united`."""
    whole = [shape_of(region, [*shape.steps, *steps]) for shape, steps in zip(shapes, united, strict=True)]
    kept = ZERO
    for times, shifts in _carries(tensor, spot):
        still = ONE
        for shape, steps, total, shift in zip(shapes, united, whole, shifts, strict=True):
            new = new_part(region, shape, shift)
            loaded = ZERO if new is None else shape_of(region, [*new.steps, *steps]).size
            still *= cancel(total.size - loaded)
        kept += times * still
    return spot.tile * (spot.steps * _size(whole) - kept)


def _written(
    tree: _Tree, machine: MachineModel, tensor: TensorModel, nodes: tuple[Node, ...], number: int
) -> tuple[Expr, Expr, Expr, Expr]:
    """Return reads, writes, fills and drains of a written tensor at its node `number`."""
    region = tree.region
    spots = [_spot(tree, tensor, parent, node) for parent, node in zip((nodes[0], *nodes), nodes, strict=False)]
    entries = spots[0].tile * _size(spots[0].shapes(region))
    fills = entries if tensor.initial and not tensor.overwritten else ZERO
    lopsided = False
    moved = [(fills, entries)]  # per node
    # The children too: what arrives from them is counted right only where they hold what is asked of them here.
    for spot, node in zip(spots[1 : number + 2], nodes[1:], strict=False):
        if node.level < 0:
            break
        shapes = spot.shapes(region)
        enter = _entries(region, tensor, spot, shapes)
        lopsided = lopsided or any(spot.spread)
        fills = cancel(fills + enter * _disjoint_offsets(region, spot, shapes) * spot.parents - entries)
        entries = enter * spot.instances
        if lopsided and differs(region, fills, ZERO):
            raise beyond("partial sums come back to siblings that are displaced along a window")
        moved.append((fills, entries))
    fills, entries = moved[number]
    arrivals = _arrivals(region, machine, tensor, spots[number + 1], compute=number + 2 == len(nodes))
    if number == 0:
        return arrivals - entries + fills, arrivals, ZERO, ZERO
    return arrivals + fills, arrivals + fills, fills, entries


def _disjoint_offsets(region: Region, spot: _Spot, shapes: list[Shape]) -> Expr:
    """Return how many siblings of one parent instance hold different elements."""
    offsets = spot.apart
    for shape, spread in zip(shapes, spot.spread, strict=True):
        if spread:
            steps = [(stride, trips) for _, stride, trips in spread]
            apart = prod((trips for _, trips in steps), start=ONE)
            if differs(region, shape_of(region, [*shape.steps, *steps]).size, shape.size * apart):
                raise beyond("siblings hold a written element through different offsets of a window")
            offsets *= apart
    return offsets


def _arrivals(region: Region, machine: MachineModel, tensor: TensorModel, spot: _Spot, *, compute: bool) -> Expr:
    """Return how many drains reach the parent instances, siblings added on the way where there are adders."""
    apart = prod((trips for fanout, trips in spot.idle if not machine.adds[fanout]), start=ONE)
    total = spot.parents * spot.apart * apart
    if not compute:
        spread = prod((trips for spread in spot.spread for _, _, trips in spread), start=ONE)
        return total * spread * _entries(region, tensor, spot, spot.shapes(region))
    for spread in spot.spread:
        total *= prod((trips for fanout, _, trips in spread if not machine.adds[fanout]), start=ONE)
        total *= shape_of(region, [(stride, trips) for fanout, stride, trips in spread if machine.adds[fanout]]).size
    return total * spot.steps
