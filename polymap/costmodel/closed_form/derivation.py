"""The closed form of one tensor at one level as expressions in the tiles of the mapping's loops.

The sums are those of docs/closed_form.md where every tile divides the enclosing one. What they compare (does this
window overlap its last position, which stride is longer) is decided at the mapping's own tiles and told as a condition.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
# (sympy's own annotations are partial)

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from sympy import Eq, Expr, Gt, Integer, Mod, Symbol, cancel, factor
from sympy.logic.boolalg import Boolean

from polymap.costmodel.closed_form.accounting import Moves, initial_of, moves_of_operand, moves_of_target, partial_sums
from polymap.costmodel.closed_form.dividing_tiles import DividingTiles
from polymap.costmodel.closed_form.formulas import Formula, TileSymbol
from polymap.costmodel.closed_form.groups import TensorModel, WorkloadModel, workload_model
from polymap.costmodel.closed_form.nest import Loop, LoopNestView, MachineModel, machine_model, nest_of
from polymap.costmodel.closed_form.progressions import (
    ONE,
    ZERO,
    ExpressionProgressions,
    Region,
    Shape,
    always_true,
    differs,
    no_formula_error,
    shape_of,
)
from polymap.inputs import answers_in_words, expected_text
from polymap.ir import Mapping, Mistake, OptionError, did_you_mean
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of
from polymap.schedules import check_mapping


@answers_in_words
def formula(workload: WorkloadLike, arch: ArchitectureLike, mapping: Mapping, level: str, tensor: str) -> Formula:
    """Return reads, writes, fills and drains of a tensor at a level in the tiles of the mapping's loops.

    A tile is named after its dim and its depth among the loops over that dim (`m_1` the outermost); loops of one
    iteration have none, innermost tiles are 1. Raises MappingError where the tree cannot be read as a program,
    OptionError where the level does not hold the tensor, BudgetError where tiles do not divide or no formula is known.
    """
    workload, arch = question_of(workload, arch)
    check_mapping(workload, arch, mapping)
    expected_text(level, "the level", OptionError)
    expected_text(tensor, "the tensor", OptionError)
    model = workload_model(workload)
    machine = machine_model(arch)
    nest = None if model is None else nest_of(model, machine, mapping)
    if model is None or nest is None:
        raise no_formula_error("it takes one accumulation over a box, with one linear access per tensor")
    if not all(nest.even):
        raise no_formula_error("a tile of the mapping does not divide the one around it")
    found, number = _tensor_and_node(model, machine, nest, level, tensor)
    if found.written and found.temporary:
        raise no_formula_error(f"{tensor} is temporary")
    tree = _tree(model, nest)
    counted = DividingTiles(ExpressionProgressions(tree.region), machine, found, tree.loops, nest.holders[found.index])
    if found.written:
        amounts = _moves_of_target(tree.region, found, counted, number)
    else:
        amounts = _moves_of_operand(counted, number)
    return Formula(level, tensor, tree.tiles, _conditions(tree, model), *(factor(cancel(each)) for each in amounts))


@dataclass(slots=True)
class _Tree:
    """The loops, the symbols of their tiles, and where what is said of them holds."""

    loops: tuple[Loop[Expr], ...]
    tiles: tuple[TileSymbol, ...]
    plain: tuple[Boolean, ...]
    region: Region


def _tensor_and_node(
    model: WorkloadModel, machine: MachineModel, nest: LoopNestView, level: str, tensor: str
) -> tuple[TensorModel, int]:
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


def _tree(model: WorkloadModel, nest: LoopNestView) -> _Tree:
    enclosing: list[Expr] = [Integer(extent) for extent in model.extents]
    depths = [0] * len(model.dims)
    loops: list[Loop[Expr]] = []
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
            tiles.append(TileSymbol(name, model.dims[dim], depths[dim], _plain_value(around), loop.tile))
            conditions.append(Eq(Mod(around, tile), ZERO))
        if not around.is_number or not tile.is_number:
            conditions.append(Gt(around, tile))
        loops.append(Loop(dim, tile, around / tile, loop.fanout, loop.position))
        enclosing[dim] = tile
    return _Tree(tuple(loops), tuple(tiles), tuple(conditions), Region(point))


def _plain_value(expression: Expr) -> str | int:
    return int(expression) if expression.is_number else str(expression)


def _conditions(tree: _Tree, model: WorkloadModel) -> tuple[Boolean, ...]:
    """Return the conditions on the tiles alone, then those of the comparisons that they do not already decide."""
    extents = dict(zip(model.dims, model.extents, strict=True))
    # A tile that has a symbol is above 1 and at most half of the dim.
    room = {symbol: (2, extents[tile.dim] // 2) for symbol, tile in zip(tree.region.point, tree.tiles, strict=True)}
    compared = [each for each in tree.region.conditions if not always_true(each, room)]
    return tuple(dict.fromkeys((*tree.plain, *compared)))


def _moves_of_operand(counted: DividingTiles[Expr, Shape], number: int) -> Moves[Expr]:
    """Return what a read-only tensor moves at its node `number`."""
    view = counted.views[number]
    loads = counted.loads(number + 1) * view.instances
    return moves_of_operand(loads, counted.entries(number) * view.instances if number else ZERO, ZERO)


def _moves_of_target(
    region: Region, tensor: TensorModel, counted: DividingTiles[Expr, Shape], number: int
) -> Moves[Expr]:
    """Return what a written tensor moves at its node `number`."""
    touched = counted.tile(0)
    # The children too: what arrives from them is counted right only where they hold what is asked of them here.
    inner = range(1, min(number + 2, len(counted.views) - 1))
    sums = partial_sums(
        touched, initial_of(tensor, touched, ZERO), (_crossings(region, counted, each) for each in inner)
    )
    found: list[tuple[Expr, Expr]] = []
    for each, (fills, stays) in enumerate(sums):
        if counted.is_lopsided(each) and differs(region, fills, ZERO):
            raise no_formula_error("partial sums come back to siblings that are displaced along a window")
        found.append((fills, stays))
    fills, stays = found[number]
    arrivals = counted.arrivals(number + 1) * counted.views[number].instances
    return moves_of_target(arrivals, fills, stays, outermost=not number, none=ZERO)


def _crossings(region: Region, counted: DividingTiles[Expr, Shape], number: int) -> tuple[Expr, Expr]:
    """Return the entry events and the entries of a node."""
    entries = counted.entries(number)
    if not _holds_apart(region, counted, number):
        raise no_formula_error("siblings hold a written element through different offsets of a window")
    events = entries * counted.shares(number) * counted.views[number - 1].instances
    return events, entries * counted.views[number].instances


def _holds_apart(region: Region, counted: DividingTiles[Expr, Shape], number: int) -> bool:
    """Return whether no siblings of a node hold an element through different offsets of a window."""
    for tile, spread in zip(counted.tiles(number), counted.views[number].spread, strict=True):
        steps = [(stride, trips) for _, stride, trips in spread]
        apart = prod((trips for _, trips in steps), start=tile.size)
        if steps and differs(region, shape_of(region, [*tile.steps, *steps]).size, apart):
            return False
    return True
