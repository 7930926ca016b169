"""Lower bounds on traffic that hold for every mapping, and textbook formulas to compare a mapping with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import prod

from polymap.costmodel.footprint import elements_read_first, touched_elements, written_elements
from polymap.ir import Tensor, Workload, is_plain, written_tensors


@dataclass(frozen=True, slots=True)
class Compulsory:
    """The least traffic of a tensor at the outermost level, in elements; None where it cannot be counted.

    reads: elements that the program reads, or accumulates onto, before it overwrites them. Of an accumulated tensor
    these are none, or all if it is `initial`. writes: elements written; 0 if the tensor is temporary.
    """

    tensor: str
    reads: int | None
    writes: int | None


@lru_cache(maxsize=256)
def compulsory_traffic(workload: Workload) -> tuple[Compulsory, ...]:
    """Return the elements that every legal mapping reads and writes at the outermost level at least, per tensor, in the
    workload's order.

    The bound is attained where one level below is large enough for all tensors.
    """
    written = written_tensors(workload)
    return tuple(
        Compulsory(
            tensor.name,
            reads=_elements_read(workload, tensor, is_written=tensor.name in written),
            writes=0 if tensor.temporary or tensor.name not in written else written_elements(workload, tensor.name),
        )
        for tensor in workload.tensors
    )


def _elements_read(workload: Workload, tensor: Tensor, *, is_written: bool) -> int | None:
    if not is_written:
        return dict(touched_elements(workload))[tensor.name]
    if is_plain(workload, tensor.name):
        return elements_read_first(workload, tensor.name)
    return written_elements(workload, tensor.name) if tensor.initial else 0


def compulsory_bits(workload: Workload) -> int | None:
    """Return the least bits read and written at the outermost level, None where some tensor cannot be counted."""
    total = 0
    for row in compulsory_traffic(workload):
        if row.reads is None or row.writes is None:
            return None
        total += (row.reads + row.writes) * workload.tensor(row.tensor).bits
    return total


def unfused_bits(workload: Workload) -> int | None:
    """Return the compulsory bits of the statements run one after the other, each from and to the outermost level.

    None where some tensor cannot be counted.
    """
    total = 0
    for statement in workload.statements:
        names = {access.tensor for access in (statement.target, *statement.reads)}
        single = replace(
            workload,
            tensors=tuple(replace(t, temporary=False) for t in workload.tensors if t.name in names),
            statements=(statement,),
        )
        bits = compulsory_bits(single)
        if bits is None:
            return None
        total += bits
    return total


def energy_per_operation(accesses: Fraction | int, access_pj: Fraction | int, operation_pj: Fraction | int) -> Fraction:
    """Return pJ per operation with `accesses` memory accesses each (a fraction where operations share them)."""
    return Fraction(operation_pj) + Fraction(accesses) * Fraction(access_pj)


@dataclass(frozen=True, slots=True)
class Im2col:
    """The im2col matrix of one channel of a convolution.

    entries: its entries. distinct: different image elements among them. growth: entries per element of the image.
    """

    entries: int
    distinct: int
    growth: Fraction


def im2col(*, height: int, width: int, rows: int, columns: int, stride: int = 1, padding: int = 0) -> Im2col:
    """Return the size of one channel's im2col matrix for a `rows` x `columns` kernel on a `height` x `width` image.

    Entries that fall on padding count as entries, not as distinct elements.
    """
    outputs = (_outputs(height, rows, stride, padding), _outputs(width, columns, stride, padding))
    entries = outputs[0] * outputs[1] * rows * columns
    distinct = prod(
        len({stride * p + r - padding for p in range(outs) for r in range(taps)} & set(range(size)))
        for outs, taps, size in ((outputs[0], rows, height), (outputs[1], columns, width))
    )
    return Im2col(entries, distinct, Fraction(entries, height * width))


def _outputs(size: int, taps: int, stride: int, padding: int) -> int:
    return (size + 2 * padding - taps) // stride + 1


@dataclass(frozen=True, slots=True)
class ArrayTiling:
    """A dim cut into pieces of one index per lane. pieces: how many. last: lanes that the last piece uses. utilization:
    the share of lane slots used."""

    pieces: int
    last: int
    utilization: Fraction


def array_tiling(extent: int, lanes: int) -> ArrayTiling:
    """Return how `extent` indices fill `lanes` lanes, piece after piece."""
    pieces = -(-extent // lanes)
    return ArrayTiling(pieces, extent - (pieces - 1) * lanes, Fraction(extent, pieces * lanes))
