"""What reading and writing the tensors of a mapping costs the outermost level in bursts, layout by layout.

A burst is an aligned stretch of `burst_bits` bits of memory, moved as a whole. A message (what siblings load at once,
or what arrives at once) costs as many as its elements touch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping as Table
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from polymap.costmodel import (
    ANY_LAYOUT,
    Cost,
    Layout,
    Pieces,
    evaluate,
    laid_in,
    layout_of,
    layouts_told,
    pieces_of,
    row_major,
    unknown_tensor,
)
from polymap.inputs import answers_in_words, is_table, shown
from polymap.ir import Architecture, Mapping, Mistake, OptionError, Shown, Tensor, Workload
from polymap.resolve import ArchitectureLike, WorkloadLike, mapping_of, question_of


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
