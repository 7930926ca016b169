"""Conflicts in the banks of an on-chip level: what the lanes of one step access, and layouts that have none.

A bank serves `ports` words of `bank_bits` a cycle; lanes that access the same word share it. The tiles of tensors that
statement instances access at the level lie there by themselves, each from the first bank on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping as Table, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.costmodel.layout import Layout, layout_of, row_major
from polymap.costmodel.pieces import unknown_tensor
from polymap.costmodel.referees.tuning import TUNING
from polymap.inputs import answers_in_words, shown
from polymap.ir import (
    Architecture,
    Branch,
    BudgetError,
    Mapping,
    MemoryLevel,
    Mistake,
    OptionError,
    Shown,
    Spatial,
    Temporal,
    Tensor,
    Workload,
    accesses_of,
)
from polymap.poly import COUNT_LIMIT
from polymap.resolve import ArchitectureLike, WorkloadLike, mapping_of, question_of
from polymap.schedules import LoopInTree, check_mapping, view_of

Ints = NDArray[np.int64]
_ZERO: Ints = np.zeros((1, 1), np.int64)
Lane = tuple[tuple[str, int], ...]  # of dims that are spread, with the lane's place in the tile


@dataclass(frozen=True, slots=True)
class BankWitness:
    """Two lanes that access different words of one bank in one step."""

    lanes: tuple[Lane, Lane]
    words: tuple[int, int]
    bank: int

    def __str__(self) -> str:
        one, other = (", ".join(f"{dim} = {place}" for dim, place in lane) or "the lane" for lane in self.lanes)
        return f"lanes ({one}) and ({other}): words {self.words[0]} and {self.words[1]} of bank {self.bank}"


@dataclass(frozen=True, slots=True, repr=False)
class TensorConflicts(Shown):
    """What the accesses to one tensor's tile cost in one layout. steps: times that all lanes access it, in one visit of
    the tile; cycles: of these; least_cycles: of these without conflicts; most: cycles of the worst step. witness: of a
    step with conflicts; None where there are none."""

    level: str
    tensor: str
    layout: Layout
    elements: int
    steps: int
    cycles: int
    least_cycles: int
    most: int
    witness: BankWitness | None

    @property
    def is_free(self) -> bool:
        """Whether no step has a conflict."""
        return self.witness is None

    def __str__(self) -> str:
        told = f"{self.tensor} in {self.level} as {self.layout}: {self.cycles:,} cycles in {self.steps:,} steps"
        told += f" (least {self.least_cycles:,}, worst step {self.most})"
        return f"{told}; {self.witness}" if self.witness else f"{told}, without conflicts"


@dataclass(frozen=True, slots=True, repr=False)
class BankLayouts(Shown):
    """Layouts of a tile by their conflicts. free: those without conflicts, the smallest first; refuted: of
    each other layout the conflicts in the first access that has some."""

    tensor: str
    free: tuple[Layout, ...]
    refuted: tuple[TensorConflicts, ...]

    def __str__(self) -> str:
        free = ", ".join(map(str, self.free)) or "none"
        return "\n".join([f"{self.tensor} without conflicts: {free}", *(f"  {each}" for each in self.refuted)])


@answers_in_words
def bank_conflicts(
    workload: WorkloadLike,
    arch: ArchitectureLike,
    mapping: Mapping,
    layouts: Table[str, Layout | str] | None = None,
) -> tuple[TensorConflicts, ...]:
    """Return the conflicts of the tensors that statement instances access at levels with `banks`, exactly, of one whole
    tile each, in the workload's order.

    Lanes are the spatial loops over fan-outs below the level. layouts: of tiles, by rows where none is given: as for
    `burst_counts`, with padding ("0 1 +1") and swizzles ("0 1 ^3,3,3").
    Raises OptionError for a machine without banks or with elements that they cut (PM479), and for layouts that are none
    of the tensor's (PM470); BudgetError (PM477) for tiles with more accesses than are walked, or addresses of over 62
    bits.
    """
    workload, arch = question_of(workload, arch)
    mapping = mapping_of(mapping)
    told = dict(layouts or {})
    for name in told:
        if name not in {tensor.name for tensor in workload.tensors}:
            raise unknown_tensor(workload, name)
    found: list[TensorConflicts] = []
    for tile in _tiles(workload, arch, mapping):
        rank = len(tile.shape)
        found.append(_counted(tile, layout_of(told.get(tile.tensor.name, row_major(rank)), rank, may_swizzle=True)))
    return tuple(found)


@answers_in_words
def bank_layouts(
    accesses: Sequence[tuple[WorkloadLike, Mapping]],
    arch: ArchitectureLike,
    tensor: str,
    candidates: Sequence[Layout | str] | None = None,
) -> BankLayouts:
    """Return which layouts of a tensor's tile have no conflicts in any of several accesses to it, and of each other one
    two lanes that conflict.

    accesses: (workload, mapping) of each: what writes the tile and what reads it, in the same shape. candidates: None
    for rows as they are, padded by up to a word of every bank, and with every swizzle that exchanges banks.
    Raises as `bank_conflicts`.
    """
    if any(type(each) is not tuple for each in accesses):
        hint = "Expected a list of (workload, mapping)."
        raise OptionError(Mistake("PM120", f"the accesses are {shown(accesses)}", hint))
    tiles = [
        tile
        for workload, mapping in accesses
        for tile in _tiles(*question_of(workload, arch), mapping_of(mapping))
        if tile.tensor.name == tensor
    ]
    shapes = list(dict.fromkeys(tile.shape for tile in tiles))
    if len(shapes) != 1:
        what = f"tiles of {shown(tensor)} in banks have the shapes {shapes}" if shapes else f"no banks hold {tensor!r}"
        raise OptionError(Mistake("PM479", what, "Expected accesses to one tile in a level with banks."))
    rank = len(shapes[0])
    listed = _candidates(tiles[0]) if candidates is None else candidates
    free: list[Layout] = []
    refuted: list[TensorConflicts] = []
    for told in listed:
        layout = layout_of(told, rank, may_swizzle=True)
        first = next((each for each in (_counted(tile, layout) for tile in tiles) if not each.is_free), None)
        if first is None:
            free.append(layout)
        else:
            refuted.append(first)
    free.sort(key=lambda layout: layout.elements(shapes[0]))
    return BankLayouts(tensor, tuple(free), tuple(refuted))


@dataclass(frozen=True, slots=True)
class _Tile:
    """The tile of a tensor in a level with banks, and what is accessed of it. places: of all steps (first axis) and
    lanes, along each axis of the tile; active: whether a lane accesses anything; lanes: the dims' places of each;
    repeats: steps with the same places."""

    tensor: Tensor
    level: MemoryLevel
    shape: tuple[int, ...]
    places: tuple[Ints, ...]
    active: NDArray[np.bool_]
    lanes: tuple[Lane, ...]
    repeats: int


def _tiles(workload: Workload, arch: Architecture, mapping: Mapping) -> Iterator[_Tile]:
    """Yield the tiles that statement instances access in levels with banks."""
    check_mapping(workload, arch, mapping)
    if not any(level.banks for level in arch.levels):
        what = f"no level of machine {arch.name!r} has banks"
        raise OptionError(Mistake("PM479", what, '{"level": "SMEM", "banks": 32, "bank_bits": 32}'))
    if len(workload.statements) != 1 or any(isinstance(node, Branch) for node in mapping.nodes):
        what = f"conflicts of {workload.name} are not counted: it is no single statement in a tree without branches"
        raise OptionError(Mistake("PM479", what, "Ask for each statement by itself."))
    view = view_of(workload.extents(), mapping)
    for tensor in workload.tensors:
        holders = [node for node in view.storages if tensor.name in node.node.tensors]
        if holders:
            level = arch.levels[arch.level_index(holders[-1].node.level)]
            if level.banks:
                _check_words(level, tensor)
                outside = {fanout.name for fanout in arch.fanouts_above(level.name)}
                yield _tile(workload, tensor, level, _loops_inside(view.loops, holders[-1].position, outside))


def _loops_inside(loops: Iterable[LoopInTree], position: int, outside: set[str]) -> list[LoopInTree]:
    """Return the loops that do not select the tile of a node: those in time below it, and those over fan-outs below its
    level, wherever they stand. outside: the fan-outs above the level."""
    return [
        loop
        for loop in loops
        if (loop.node.fanout not in outside if isinstance(loop.node, Spatial) else loop.position > position)
    ]


def _check_words(level: MemoryLevel, tensor: Tensor) -> None:
    if tensor.bits % level.bank_bits and level.bank_bits % tensor.bits:
        what = f"words of {level.bank_bits} bits in the banks of {level.name!r} cut elements of {tensor.name!r}"
        raise OptionError(Mistake("PM479", f"{what} ({tensor.bits} bits)", "bank_bits is often 32."))


def _tile(workload: Workload, tensor: Tensor, level: MemoryLevel, below: list[LoopInTree]) -> _Tile:
    """Return the tile of a tensor. below: the loops that do not select it, outermost first."""
    accesses = list(dict.fromkeys(accesses_of(workload.statements[0], tensor.name)))
    if len(accesses) != 1:
        what = f"{tensor.name} is accessed in several ways"
        raise OptionError(Mistake("PM479", what, "Ask for each access by itself."))
    index_of = accesses[0].index
    used = {dim for index in index_of for dim in index.coefficients()}
    others = {loop.node.dim for loop in below} - used
    repeats = prod(_times([loop for loop in below if loop.node.dim == dim]) for dim in others)
    own = [loop for loop in below if loop.node.dim in used]
    if prod(loop.trips for loop in own) > TUNING.most_lane_accesses:
        what = f"a tile of {tensor.name} in {level.name!r} has more than {TUNING.most_lane_accesses:,} accesses"
        raise BudgetError(Mistake("PM477", what, "A smaller tile of the same shape has the same conflicts."))
    digits = _digits(own)
    lanes = [loop.node.dim for loop in own if isinstance(loop.node, Spatial)]
    active, at, lane = np.ones((1, 1), bool), dict.fromkeys(sorted(used), _ZERO), dict.fromkeys(lanes, _ZERO)
    for loop, digit in reversed(list(zip(own, digits, strict=True))):  # the last tile of a loop may be smaller
        dim = loop.node.dim
        at[dim] = at[dim] + digit * loop.tile
        active = active & (at[dim] < loop.enclosing)
        if dim in lane and isinstance(loop.node, Spatial):
            lane[dim] = lane[dim] + digit * loop.tile
    shape: list[int] = []
    places: list[Ints] = []
    for index in index_of:
        place = sum((factor * at[dim] for dim, factor in index.coefficients().items()), _ZERO)
        every, working = np.broadcast_arrays(place, active)
        touched = every[working]
        shape.append(1 + int(touched.max() - touched.min()))
        places.append(place - touched.min())
    whole = np.broadcast_shapes(active.shape, *(each.shape for each in (*places, *lane.values())))
    told = [np.broadcast_to(lane[dim], (1, whole[1]))[0].tolist() for dim in lane]
    names = tuple(tuple(zip(lane, each, strict=True)) for each in zip(*told, strict=True)) or ((),)
    spread_out = tuple(np.broadcast_to(each, whole) for each in places)
    return _Tile(tensor, level, tuple(shape), spread_out, np.broadcast_to(active, whole), names, repeats)


def _times(loops: list[LoopInTree]) -> int:
    """Return the choices of the digits in time of a dim's loops: the first of siblings have work as long as any."""
    sizes = [loops[0].enclosing]
    for loop in loops:
        sizes = [min(size, loop.enclosing) for size in sizes]  # the first of the tiles that a loop above selects
        if isinstance(loop.node, Spatial):
            sizes = [min(size, loop.tile) for size in sizes]
        else:
            sizes = [min(loop.tile, size - low) for size in sizes for low in range(0, size, loop.tile)]
    return len(sizes)


def _digits(loops: list[LoopInTree]) -> list[Ints]:
    """Return the digits of each loop: steps along the first axis, lanes along the second."""
    timed = [loop for loop in loops if isinstance(loop.node, Temporal)]
    spread = [loop for loop in loops if isinstance(loop.node, Spatial)]
    found: dict[int, Ints] = {}
    for own, shape in ((timed, (-1, 1)), (spread, (1, -1))):
        grid = np.indices([loop.trips for loop in own], np.int64)
        found |= {loop.position: digits.reshape(shape) for loop, digits in zip(own, grid, strict=True)}
    return [found[loop.position] for loop in loops]


def _counted(tile: _Tile, layout: Layout) -> TensorConflicts:
    """Return the conflicts of a tile in one layout. Raises BudgetError (PM477) where addresses have over 62 bits."""
    level, bits = tile.level, tile.tensor.bits
    if (taken := layout.elements(tile.shape) * bits) > COUNT_LIMIT:
        what = f"a tile of {tile.tensor.name} in {level.name!r} as {layout} takes {taken:,} bits"
        raise BudgetError(Mistake("PM477", f"{what}; addresses have 62 bits", "Pad and swizzle by less."))
    address = np.zeros(tile.active.shape, np.int64)
    for axis, (place, size) in enumerate(zip(tile.places, tile.shape, strict=True)):
        address = address + layout.offsets(tile.shape, axis, np.arange(size))[np.clip(place, 0, size - 1)]
    address = layout.swizzled(address)
    wide = max(1, bits // level.bank_bits)  # the words of one element
    words = (address * bits // level.bank_bits)[:, :, None] + np.arange(wide)
    words = np.where(tile.active[:, :, None], words, -1).reshape(len(address), -1)
    banks, ports = level.banks or 1, level.ports
    ordered = np.sort(words, axis=1)
    first = ordered >= 0
    first[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    steps = np.broadcast_to(np.arange(len(words))[:, None], words.shape)[first]
    busy = np.bincount(steps * banks + ordered[first] % banks, minlength=len(words) * banks).reshape(-1, banks)
    cycles = -(-busy.max(axis=1) // ports)
    least = -(-busy.sum(axis=1) // (banks * ports))
    worst = int(np.argmax(cycles - least))
    witness = _witness(tile, words[worst], int(busy[worst].argmax()), wide) if cycles[worst] > least[worst] else None
    found, all_cycles, all_least = (tile.repeats * int(each.sum()) for each in (cycles > 0, cycles, least))
    elements = layout.elements(tile.shape)
    return TensorConflicts(
        level.name, tile.tensor.name, layout, elements, found, all_cycles, all_least, int(cycles.max()), witness
    )


def _witness(tile: _Tile, words: Ints, bank: int, wide: int) -> BankWitness:
    """Return two lanes of a step that access different words of a bank."""
    own = [number for number in np.flatnonzero(words >= 0).tolist() if words[number] % (tile.level.banks or 1) == bank]
    other = next(number for number in own if words[number] != words[own[0]])
    lanes = tile.lanes[own[0] // wide], tile.lanes[other // wide]
    return BankWitness(lanes, (int(words[own[0]]), int(words[other])), bank)


def _candidates(tile: _Tile) -> list[Layout]:
    """Return rows as they are, padded, and swizzled."""
    rows = row_major(len(tile.shape))
    level, bits = tile.level, tile.tensor.bits
    step = max(1, level.bank_bits // bits)  # the elements of a word
    paddings = [replace(rows, padding=step * number) for number in range(1, (level.banks or 1))]
    window = max(1, (level.banks or 1) * level.bank_bits // bits).bit_length() - 1  # a word of every bank
    swizzles = [
        replace(rows, swizzle=(count, low, shift))
        for count in range(1, window + 1)
        for low in range(window - count + 1)
        for shift in range(max(count, window - low), prod(tile.shape).bit_length() - low)
    ]
    return [rows, *paddings, *swizzles]
