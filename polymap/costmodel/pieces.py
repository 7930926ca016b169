"""What reading and writing tensors costs the outermost level in aligned pieces, layout by layout.

A burst is an aligned stretch of `burst_bits` bits of memory, moved as a whole; a request an aligned piece of a
contiguous run, of at most `request_bits` bits. A message (what siblings load at once, or what arrives at once) costs as
many as its elements touch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping as Table
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from polymap.costmodel.arrivals import FIRST, Sending, as_added, as_one, as_sent, no_multicast, sending_of
from polymap.costmodel.contiguous import Blocks, Ints, Messages
from polymap.costmodel.cost import Cost
from polymap.costmodel.counts import Traffic
from polymap.costmodel.evaluation import evaluate
from polymap.costmodel.layout import Layout, candidates, layout_of, row_major
from polymap.costmodel.transfers import Transfer, transfers
from polymap.inputs import answers_in_words, is_table, shown
from polymap.ir import (
    Architecture,
    Branch,
    Mapping,
    MemoryLevel,
    Mistake,
    Operator,
    OptionError,
    PlaceRule,
    Shown,
    Tensor,
    Workload,
    accesses_of,
    is_box,
    rule_of,
)
from polymap.resolve import ArchitectureLike, WorkloadLike, mapping_of, question_of
from polymap.schedules import StorageInTree, view_of

ANY_LAYOUT = "any"
_SUPPORTED = "Layers are: one statement over a box, in a tree without branches."


class LaidTensor(NamedTuple):
    """One tensor in one layout: what the outermost level reads and writes of it, in elements and in pieces."""

    layout: Layout
    read_elements: int
    written_elements: int
    read: int
    written: int


@dataclass(frozen=True, slots=True)
class Pieces:
    """Bursts of the outermost level, or requests (of_runs). bits: of each; offset_bits: where tensors begin."""

    bits: int
    of_runs: bool
    offset_bits: int

    def of(self, tensor: Tensor) -> tuple[Blocks, int]:
        """Return the pieces of a tensor, and its first address, in elements. Raises OptionError (PM473)."""
        if self.bits % tensor.bits or self.offset_bits % tensor.bits:
            word = "requests" if self.of_runs else "bursts"
            what = f"{word} of {self.bits} bits hold no whole number of {tensor.name}'s elements of {tensor.bits} bits"
            raise OptionError(Mistake("PM473", what, f"Bits of elements divide {word[:-1]}_bits and base_offset_bits."))
        return Blocks(self.bits // tensor.bits, self.of_runs), self.offset_bits // tensor.bits


def pieces_of(level: MemoryLevel, arch_name: str, *, of_runs: bool) -> Pieces:
    """Return what a level moves at once; OptionError PM473 where it does not say."""
    field, bits = ("request_bits", level.request_bits) if of_runs else ("burst_bits", level.burst_bits)
    if bits is None:
        what = f"the outermost level '{level.name}' of {arch_name} states no {field}"
        raise OptionError(Mistake("PM473", what, f'Give it one, such as {{"level": "DRAM", "{field}": 512}}.'))
    return Pieces(bits, of_runs, level.base_offset_bits if of_runs else 0)


def layouts_told(tensor: Tensor, told: str, block: int) -> tuple[Layout, ...]:
    """Return the layouts that a text offers a tensor: "any", or some with | in between. block: elements of a piece.
    Raises OptionError (PM470)."""
    rank = len(tensor.shape)
    if told == ANY_LAYOUT:
        return candidates(rank, block)
    return tuple(dict.fromkeys(layout_of(each.strip(), rank) for each in told.split("|")))


def least_laid(
    workload: Workload, arch: Architecture, mapping: Mapping, cost: Cost, pieces: Pieces, told: dict[str, str]
) -> Iterator[LaidTensor]:
    """Yield of each tensor the layout with the fewest pieces, the first of these. told: the layouts that tensors may
    have (`layouts_told`), of those that are not named under ""; else by rows."""
    for tensor in workload.tensors:
        layouts = _offered_layouts(tensor, pieces, told)
        counted = laid_in(workload, arch, mapping, cost, tensor, layouts, pieces)
        yield min(counted, key=lambda each: each.read + each.written)


def laid_in(
    workload: Workload,
    arch: Architecture,
    mapping: Mapping,
    cost: Cost,
    tensor: Tensor,
    layouts: tuple[Layout, ...],
    pieces: Pieces,
) -> Iterator[LaidTensor]:
    """Yield what one tensor costs in several layouts. cost: of the mapping. Raises OptionError (PM471, PM473) and
    BudgetError (PM472)."""
    blocks, base = pieces.of(tensor)
    row = next(row for row in cost.traffic if (row.level, row.tensor) == (arch.levels[0].name, tensor.name))
    node = _next_holder(workload, arch, mapping, tensor)
    counted = [(row.reads, row.writes)] * len(layouts)  # where every message is one element
    if node is not None:
        found = [_in_closed_form(workload, arch, mapping, node, tensor, each, blocks, base, row) for each in layouts]
        counted = [each for each in found if each is not None]
        if len(counted) < len(layouts):
            view = view_of(workload.extents(), mapping)
            by_rows = sending_of(workload, arch, view, node, tensor, arch.levels[0].name)
            addresses = [base + _addresses(layout, tensor) for layout in layouts]
            counted = _walk_messages(transfers(by_rows, arch.fanouts, tensor), addresses, blocks)
    for layout, (read, written) in zip(layouts, counted, strict=True):
        yield LaidTensor(layout, row.reads, row.writes, read, written)


def _in_closed_form(
    workload: Workload,
    arch: Architecture,
    mapping: Mapping,
    node: StorageInTree,
    tensor: Tensor,
    layout: Layout,
    blocks: Blocks,
    base: int,
    row: Traffic,
) -> tuple[int, int] | None:
    """Return (pieces read, pieces written) in one layout, None where steps have no closed form. row: the elements that
    the messages must add up to."""
    view = view_of(workload.extents(), mapping)
    sending = sending_of(workload, arch, view, node, tensor, arch.levels[0].name, layout)
    sides = _exchanged_messages(sending, initial=tensor.initial)
    if sides is None:
        return None
    moved = tuple(sum(each.elements for each in side) for side in sides)
    assert moved == (row.reads, row.writes), "messages hold what the cost model counts"
    read, written = (sum(each.blocks(blocks, base) for each in side) for side in sides)
    return read, written


def _exchanged_messages(sending: Sending, *, initial: bool) -> tuple[list[Messages], list[Messages]] | None:
    """Return what the sender reads of the tensor and what is written to it, in all steps (docs/counting.md); None for a
    written tensor of which tiles overlap, or whose loops have fewer iterations at the end of others. initial: whether
    partial sums stand in the sender before.
    """
    tensor, statement = sending.access.tensor, sending.workload.statements[0]
    steps = range(FIRST, len(sending.clock))
    rule = rule_of(sending.workload, tensor)
    if rule is PlaceRule.READ_ONLY:
        return [each for advance in steps for each in sending.messages(advance, as_sent)], []
    if not (sending.is_partition and sending.is_regular):
        return None
    if rule is PlaceRule.PLAIN:
        is_read = any(read.tensor == tensor for read in statement.reads) or statement.operator is not Operator.ASSIGN
        written = [each for advance in steps for each in sending.messages(advance, no_multicast)]
        return [each for advance in steps for each in sending.messages(advance, as_sent) if is_read], written
    reads: list[Messages] = []
    writes: list[Messages] = []
    for advance in steps:
        returned, added = sending.returns(advance, initial=initial), sending.messages(advance, as_added)
        arrivals = sending.repeats(advance, as_added)  # per tile of all steps; the first one of a step finds no sum
        reads += [replace(each, times=returned) for each in sending.messages(advance, as_one) if returned]
        again = arrivals - sending.repeats(advance, as_one)
        reads += [replace(each, times=again) for each in added if again]
        writes += added
    return reads, writes


def _next_holder(workload: Workload, arch: Architecture, mapping: Mapping, tensor: Tensor) -> StorageInTree | None:
    """Return the node below the outermost level that holds the tensor first. Raises OptionError (PM471)."""
    reason = "it has several statements" if any(isinstance(node, Branch) for node in mapping.nodes) else ""
    _check(workload, tensor, reason)
    for node in view_of(workload.extents(), mapping).storages:
        if tensor.name in node.node.tensors and node.node.level != arch.levels[0].name:
            return node
    return None


def check_pieces(workload: Workload, pieces: Pieces, told: dict[str, str]) -> None:
    """Raise OptionError where no tree's pieces are counted: of its tensors, its statements (PM471), elements that
    pieces cut (PM473), or layouts that are none (PM470). told: as `least_laid` takes it."""
    known = [tensor.name for tensor in workload.tensors]
    for name in told:
        if name and name not in known:
            raise unknown_tensor(workload, name)
    for tensor in workload.tensors:
        _check(workload, tensor, "")
        _offered_layouts(tensor, pieces, told)


def unknown_tensor(workload: Workload, name: str) -> OptionError:
    """Return the error of a layout for a tensor that the workload lacks."""
    known = ", ".join(tensor.name for tensor in workload.tensors)
    return OptionError(Mistake("PM470", f"{workload.name} has no tensor '{name}'", f"Its tensors: {known}."))


def _check(workload: Workload, tensor: Tensor, reason: str) -> None:
    found = reason or _why_unsupported(workload, tensor)
    if found:
        what = f"bursts of {tensor.name} in {workload.name} are not counted: {found}"
        raise OptionError(Mistake("PM471", what, _SUPPORTED))


def _offered_layouts(tensor: Tensor, pieces: Pieces, told: dict[str, str]) -> tuple[Layout, ...]:
    """Return the layouts that a tensor may have."""
    words = told.get(tensor.name, told.get(""))
    block = pieces.of(tensor)[0].size
    return (row_major(len(tensor.shape)),) if words is None else layouts_told(tensor, words, block)


def _why_unsupported(workload: Workload, tensor: Tensor) -> str:
    if len(workload.statements) != 1:
        return "it has several statements"
    (statement,) = workload.statements
    if not is_box(statement):
        return "its domain is no box"
    if len(dict.fromkeys(accesses_of(statement, tensor.name))) != 1:
        return "the tensor is accessed in several places"
    return "the tensor is temporary" if tensor.temporary else ""


def _addresses(layout: Layout, tensor: Tensor) -> Ints:
    """Return the address of each element (by rows)."""
    address = np.zeros((), np.int64)
    for axis, extent in enumerate(tensor.shape):
        along = [extent if axis == other else 1 for other in range(len(tensor.shape))]
        address = address + layout.offsets(tensor.shape, axis, np.arange(extent)).reshape(along)
    return np.asarray(address).reshape(-1)


def _walk_messages(moves: Iterator[Transfer], addresses: list[Ints], blocks: Blocks) -> list[tuple[int, int]]:
    """Return (pieces read, pieces written) for each table of addresses; messages that come again are counted once."""
    totals, known = [[0, 0] for _ in addresses], dict[bytes, list[int]]()
    for move in moves:
        key = move.elements.tobytes()
        if key not in known:
            known[key] = [_count_touched(np.sort(each[move.elements]), blocks) for each in addresses]
        for total, pieces in zip(totals, known[key], strict=True):
            total[move.is_write] += pieces
    return [(read, written) for read, written in totals]


def _count_touched(addresses: Ints, blocks: Blocks) -> int:
    """Return the pieces that addresses, rising, touch."""
    begins = addresses[1:] // blocks.size != addresses[:-1] // blocks.size
    return 1 + int((begins | (np.diff(addresses) > 1) if blocks.of_runs else begins).sum())


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

    layouts: of tensors, as `Layout` or text ("NHWC", "0 2 3 1"); others lie with their last axis fastest. Of several in
    one text ("NCHW|NHWC") and of "any" the one with the fewest bursts is counted. The machine's outermost level states
    `burst_bits`; bits of elements divide it.
    Raises OptionError for a machine without bursts (PM473), layouts that are none of the tensor's (PM470) and mappings
    that are not counted (PM471); BudgetError (PM472) where there is too much to walk.
    """
    workload, arch = question_of(workload, arch)
    mapping = mapping_of(mapping)
    bursts = bursts_of(arch)
    asked = expected_layouts(workload, layouts, bursts)
    cost = evaluate(workload, arch, mapping)
    counted = (bursts_of_layouts(workload, arch, mapping, cost, one, asked[one.name]) for one in workload.tensors)
    found = tuple(min(each, key=lambda one: one.bursts) for each in counted)
    return BurstCounts(workload.name, arch.levels[0].name, bursts.bits, found)


def expected_layouts(
    workload: Workload, layouts: object, pieces: Pieces | None = None
) -> dict[str, tuple[Layout, ...]]:
    """Return the layouts that every tensor may have, by rows where none is given. pieces: of which a text may offer
    several (None: one each). Raises OptionError (PM470)."""
    asked: dict[str, Layout | str] = _expected_table(layouts)
    for name in asked:
        if name not in {tensor.name for tensor in workload.tensors}:
            raise unknown_tensor(workload, name)
    found: dict[str, tuple[Layout, ...]] = {}
    for tensor in workload.tensors:
        rank = len(tensor.shape)
        told = asked.get(tensor.name, row_major(rank))
        if pieces is not None and isinstance(told, str) and (told == ANY_LAYOUT or "|" in told):
            found[tensor.name] = layouts_told(tensor, told, pieces.of(tensor)[0].size)
        else:
            found[tensor.name] = (layout_of(told, rank),)
    return found


def _expected_table(layouts: object) -> dict[str, Any]:
    if layouts is None:
        return {}
    if not is_table(layouts):
        hint = 'Expected a table of tensors, such as {"I": "NHWC"}.'
        raise OptionError(Mistake("PM470", f"the layouts are {shown(layouts)}", hint))
    return dict(layouts)


def bursts_of(arch: Architecture) -> Pieces:
    """Return what the outermost level moves at once; OptionError PM473 where the machine does not say."""
    return pieces_of(arch.levels[0], arch.name, of_runs=False)


def bursts_of_layouts(
    workload: Workload, arch: Architecture, mapping: Mapping, cost: Cost, tensor: Tensor, layouts: tuple[Layout, ...]
) -> Iterator[TensorBursts]:
    """Yield the bursts of one tensor in several layouts. cost: of the mapping."""
    bursts = bursts_of(arch)
    for each in laid_in(workload, arch, mapping, cost, tensor, layouts, bursts):
        yield TensorBursts(tensor.name, *each, tensor.bits, bursts.bits)
