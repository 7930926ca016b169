"""Lower bounds on traffic that hold for every mapping, textbook formulas to compare a mapping with, and its roofline:
the rate that each level's bandwidth allows, from the bits that the mapping moves.

Source of the roofline: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 52(4),
2009.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import prod

from polymap.costmodel.cost import Cost
from polymap.costmodel.footprint import elements_read_first, touched_elements, written_elements
from polymap.ir import Architecture, MemoryLevel, Tensor, Workload, is_plain, written_tensors

OPERATIONS_PER_INSTANCE = 2  # a multiply-accumulate is two operations


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


@dataclass(frozen=True, slots=True)
class LevelRoof:
    """One level's roof and the mapping's place below it.

    moved_bits: read and written by all instances. bandwidth_bits_per_cycle: of all instances together, None if
    unlimited; separate read and write bandwidths combined for this mapping's mix. intensity: statement instances per
    byte moved at the level, None where nothing moves. ridge: the intensity above which the compute units are the limit.
    attainable: instances per cycle that the level allows, at most the peak. memory_bound: attainable < peak.
    """

    level: str
    moved_bits: int
    bandwidth_bits_per_cycle: Fraction | None
    intensity: Fraction | None
    ridge: Fraction | None
    attainable: Fraction
    memory_bound: bool

    @property
    def operations_per_byte(self) -> Fraction | None:
        """Return the intensity in operations (two per statement instance) per byte."""
        return None if self.intensity is None else OPERATIONS_PER_INSTANCE * self.intensity


@dataclass(frozen=True, slots=True)
class Roofline:
    """The mapping's place: rates in statement instances per cycle, intensities in instances per byte.

    peak: rate of all compute units. usable: their rate at this mapping's utilization. achieved: the rate by the cost
    model's latency. bound_by: the compute unit, or the level whose attainable rate is least. compulsory_intensity: the
    outermost level's intensity at compulsory traffic (None where that cannot be counted).
    """

    peak: int
    usable: Fraction
    achieved: Fraction
    bound_by: str
    compulsory_intensity: Fraction | None
    levels: tuple[LevelRoof, ...]


def arithmetic_intensity(operations: Fraction | int, moved_bytes: Fraction | int) -> Fraction:
    """Return operations per byte moved."""
    return Fraction(operations) / Fraction(moved_bytes)


def ridge_point(peak: Fraction | int, bandwidth: Fraction | int) -> Fraction:
    """Return the intensity at which the bandwidth just sustains the peak: peak / bandwidth."""
    return Fraction(peak) / Fraction(bandwidth)


def attainable(peak: Fraction | int, bandwidth: Fraction | int, intensity: Fraction | int) -> Fraction:
    """Return the rate that the roofline allows: min(peak, bandwidth x intensity)."""
    return min(Fraction(peak), Fraction(bandwidth) * Fraction(intensity))


def roofline(workload: Workload, arch: Architecture, cost: Cost) -> Roofline:
    """Return the mapping's place on the machine's roofline, level by level, from the traffic in `cost`.

    Assumes that the instances of a level share its traffic evenly; the latency in `cost` does not.
    """
    size = prod(fanout.size for fanout in arch.fanouts)
    peak = size * arch.compute.per_cycle
    usable = Fraction(cost.instances, max(1, cost.compute_cycles))
    levels = tuple(_roof(workload, arch, cost, level, peak) for level in arch.levels)
    tightest = min(levels, key=lambda roof: roof.attainable)
    compulsory = compulsory_bits(workload)
    return Roofline(
        peak=peak,
        usable=usable,
        achieved=Fraction(cost.instances, max(1, cost.latency_cycles)),
        bound_by=tightest.level if tightest.attainable < usable else arch.compute.name,
        compulsory_intensity=Fraction(8 * cost.instances, compulsory) if compulsory else None,
        levels=levels,
    )


def _roof(workload: Workload, arch: Architecture, cost: Cost, level: MemoryLevel, peak: int) -> LevelRoof:
    rows = [row for row in cost.traffic if row.level == level.name]
    reads = sum(row.reads * workload.tensor(row.tensor).bits for row in rows)
    writes = sum(row.writes * workload.tensor(row.tensor).bits for row in rows)
    count = prod(fanout.size for fanout in arch.fanouts_above(level.name))
    bandwidth = _bandwidth(level, reads, writes)
    total = None if bandwidth is None else count * bandwidth
    moved = reads + writes
    intensity = Fraction(8 * cost.instances, moved) if moved else None
    allowed = Fraction(peak)
    if total is not None and intensity is not None:
        allowed = attainable(peak, total / 8, intensity)
    return LevelRoof(
        level=level.name,
        moved_bits=moved,
        bandwidth_bits_per_cycle=total,
        intensity=intensity,
        ridge=None if total is None else ridge_point(peak, total / 8),
        attainable=allowed,
        memory_bound=allowed < peak,
    )


def _bandwidth(level: MemoryLevel, reads: int, writes: int) -> Fraction | None:
    """Return the bits per cycle of one instance, None if unlimited.

    Separate read and write bandwidths work in parallel: the slower direction decides the time.
    """
    if level.bandwidth_bits_per_cycle is not None:
        return level.bandwidth_bits_per_cycle
    pairs = ((reads, level.read_bandwidth_bits_per_cycle), (writes, level.write_bandwidth_bits_per_cycle))
    times = [Fraction(bits) / bandwidth for bits, bandwidth in pairs if bandwidth is not None]
    return None if not any(times) else Fraction(reads + writes) / max(times)
