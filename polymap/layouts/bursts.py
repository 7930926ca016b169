"""What reading and writing the tensors of a mapping costs the outermost level in bursts, layout by layout.

A burst is an aligned stretch of `burst_bits` bits of memory, moved as a whole. A message (what siblings load at once,
or what arrives at once) costs as many as its elements touch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping as Table
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from polymap.costmodel import Blocks, Cost, Traffic, evaluate, exchanged, sending_of
from polymap.inputs import answers_in_words, is_table, shown
from polymap.ir import (
    Architecture,
    Branch,
    Mapping,
    Mistake,
    OptionError,
    Shown,
    Tensor,
    Workload,
    accesses_of,
    is_box,
)
from polymap.layouts.layout import Ints, Layout, layout_of, row_major
from polymap.layouts.transfers import Transfer, transfers
from polymap.resolve import ArchitectureLike, WorkloadLike, mapping_of, question_of
from polymap.schedules import StorageInTree, view_of


@dataclass(frozen=True, slots=True)
class TensorBursts:
    """One tensor in one layout: elements and bursts read and written at the outermost level; burst_bits: of each."""

    tensor: str
    layout: Layout
    read_elements: int
    written_elements: int
    read_bursts: int
    written_bursts: int
    bits: int
    burst_bits: int

    @property
    def bursts(self) -> int:
        """Bursts read and written."""
        return self.read_bursts + self.written_bursts

    @property
    def efficiency(self) -> Fraction:
        """Bits asked for by bits moved; 1 where nothing moves."""
        moved = self.bursts * self.burst_bits
        return Fraction((self.read_elements + self.written_elements) * self.bits, moved) if moved else Fraction(1)


@dataclass(frozen=True, slots=True, repr=False)
class BurstCounts(Shown):
    """The bursts of a mapping, tensor by tensor in the workload's order."""

    workload: str
    level: str
    burst_bits: int
    tensors: tuple[TensorBursts, ...]

    @property
    def bursts(self) -> int:
        """Bursts read and written of all tensors."""
        return sum(each.bursts for each in self.tensors)

    @property
    def bits(self) -> int:
        """Bits that the outermost level moves in bursts."""
        return self.bursts * self.burst_bits


@answers_in_words
def burst_counts(
    workload: WorkloadLike,
    arch: ArchitectureLike,
    mapping: Mapping,
    layouts: Table[str, Layout | str] | None = None,
) -> BurstCounts:
    """Return the bursts that the outermost level reads and writes in a mapping, exactly.

    layouts: of tensors, as `Layout` or text ("NHWC", "0 2 3 1"); others lie with their last axis fastest. The machine's
    outermost level states `burst_bits`; bits of elements divide it.
    Raises OptionError for a machine without bursts (PM473), layouts that are none of the tensor's (PM470) and mappings
    that are not counted (PM471); BudgetError (PM472) where there is too much to walk.
    """
    workload, arch = question_of(workload, arch)
    mapping = mapping_of(mapping)
    burst_bits = burst_bits_of(arch)
    asked = expected_layouts(workload, layouts)
    cost = evaluate(workload, arch, mapping)
    found: list[TensorBursts] = []
    for tensor in workload.tensors:
        found += bursts_of_layouts(workload, arch, mapping, cost, tensor, (asked[tensor.name],))
    return BurstCounts(workload.name, arch.levels[0].name, burst_bits, tuple(found))


def expected_layouts(workload: Workload, layouts: object) -> dict[str, Layout]:
    """Return the layout of every tensor, by rows where none is given. Raises OptionError (PM470)."""
    asked: dict[str, Layout | str] = _expected_table(layouts)
    for name in asked:
        if name not in {tensor.name for tensor in workload.tensors}:
            known = ", ".join(tensor.name for tensor in workload.tensors)
            raise OptionError(Mistake("PM470", f"{workload.name} has no tensor '{name}'", f"Its tensors: {known}."))
    ranks = {tensor.name: len(tensor.shape) for tensor in workload.tensors}
    return {name: layout_of(asked.get(name, row_major(rank)), rank) for name, rank in ranks.items()}


def _expected_table(layouts: object) -> dict[str, Any]:
    if layouts is None:
        return {}
    if not is_table(layouts):
        hint = 'Expected a table of tensors, such as {"I": "NHWC"}.'
        raise OptionError(Mistake("PM470", f"the layouts are {shown(layouts)}", hint))
    return dict(layouts)


def burst_bits_of(arch: Architecture) -> int:
    """Return what the outermost level moves at once; OptionError PM473 where the machine does not say."""
    if arch.levels[0].burst_bits is None:
        what = f"the outermost level '{arch.levels[0].name}' of {arch.name} states no burst_bits"
        raise OptionError(Mistake("PM473", what, 'Give it one, such as {"level": "DRAM", "burst_bits": 512}.'))
    return arch.levels[0].burst_bits


def bursts_of_layouts(
    workload: Workload, arch: Architecture, mapping: Mapping, cost: Cost, tensor: Tensor, layouts: tuple[Layout, ...]
) -> Iterator[TensorBursts]:
    """Yield the bursts of one tensor in several layouts. cost: of the mapping."""
    burst_bits = burst_bits_of(arch)
    if burst_bits % tensor.bits:
        what = f"bursts of {burst_bits} bits hold no whole number of {tensor.name}'s elements of {tensor.bits} bits"
        raise OptionError(Mistake("PM473", what, "Bits of elements divide burst_bits."))
    row = next(row for row in cost.traffic if (row.level, row.tensor) == (arch.levels[0].name, tensor.name))
    node = _next_holder(workload, arch, mapping, tensor)
    counted = [(row.reads, row.writes)] * len(layouts)  # where every message is one element
    if node is not None:
        blocks = Blocks(burst_bits // tensor.bits, of_runs=False)
        found = [_in_closed_form(workload, arch, mapping, node, tensor, layout, blocks, row) for layout in layouts]
        counted = [each for each in found if each is not None]
        if len(counted) < len(layouts):
            view = view_of(workload.extents(), mapping)
            by_rows = sending_of(workload, arch, view, node, tensor, arch.levels[0].name)
            places = [_burst_of_elements(layout, tensor, burst_bits) for layout in layouts]
            counted = _touched(transfers(by_rows, arch.fanouts, tensor), places)
    for layout, (read, written) in zip(layouts, counted, strict=True):
        yield TensorBursts(tensor.name, layout, row.reads, row.writes, read, written, tensor.bits, burst_bits)


def _in_closed_form(
    workload: Workload,
    arch: Architecture,
    mapping: Mapping,
    node: StorageInTree,
    tensor: Tensor,
    layout: Layout,
    blocks: Blocks,
    row: Traffic,
) -> tuple[int, int] | None:
    """Return (bursts read, bursts written) of one layout, None where steps have no closed form. row: the elements that
    the messages must add up to."""
    order = layout.strides(tensor.shape) if not any(block for _, block in layout.parts) else None
    strides = tuple(order[layout.parts.index((axis, 0))] for axis in range(layout.rank)) if order else ()
    placed = partial(layout.offsets, tensor.shape) if order is None else strides
    view = view_of(workload.extents(), mapping)
    sending = sending_of(workload, arch, view, node, tensor, arch.levels[0].name, placed)
    sides = exchanged(sending, initial=tensor.initial)
    if sides is None:
        return None
    moved = tuple(sum(each.elements for each in side) for side in sides)
    assert moved == (row.reads, row.writes), "messages hold what the cost model counts"
    read, written = (sum(each.blocks(blocks) for each in side) for side in sides)
    return read, written


def _next_holder(workload: Workload, arch: Architecture, mapping: Mapping, tensor: Tensor) -> StorageInTree | None:
    """Return the node below the outermost level that holds the tensor first. Raises OptionError (PM471)."""
    reason = _unsupported(workload, mapping, tensor)
    if reason:
        what = f"bursts of {tensor.name} in {workload.name} are not counted: {reason}"
        raise OptionError(Mistake("PM471", what, "Layers are: one statement over a box, in a tree without branches."))
    for node in view_of(workload.extents(), mapping).storages:
        if tensor.name in node.node.tensors and node.node.level != arch.levels[0].name:
            return node
    return None


def _unsupported(workload: Workload, mapping: Mapping, tensor: Tensor) -> str:
    if len(workload.statements) != 1 or any(isinstance(node, Branch) for node in mapping.nodes):
        return "it has several statements"
    (statement,) = workload.statements
    if not is_box(statement):
        return "its domain is no box"
    if len(dict.fromkeys(accesses_of(statement, tensor.name))) != 1:
        return "the tensor is accessed in several places"
    return "the tensor is temporary" if tensor.temporary else ""


def _burst_of_elements(layout: Layout, tensor: Tensor, burst_bits: int) -> Ints:
    """Return the number of the burst that holds each element (by rows)."""
    address = np.zeros((), np.int64)
    for axis, extent in enumerate(tensor.shape):
        along = [extent if axis == other else 1 for other in range(len(tensor.shape))]
        address = address + layout.offsets(tensor.shape, axis, np.arange(extent)).reshape(along)
    return np.asarray(address).reshape(-1) // (burst_bits // tensor.bits)


def _touched(moves: Iterator[Transfer], places: list[Ints]) -> list[tuple[int, int]]:
    """Return (bursts read, bursts written) for each table of places; messages that come again are counted once."""
    totals, known = [[0, 0] for _ in places], dict[bytes, list[int]]()
    for move in moves:
        key = move.elements.tobytes()
        if key not in known:
            known[key] = [len(np.unique(place[move.elements])) for place in places]
        for total, bursts in zip(totals, known[key], strict=True):
            total[move.is_write] += bursts
    return [(read, written) for read, written in totals]
