"""The textbook's formulas and its estimates of how many mappings there are, to compare polymap's exact numbers with.

Source: ML systems textbook, chapter Hardware Acceleration. Its estimates count choices as if each were free of the
others: equal trees several times, impossible ones too, and tile sizes as a fixed number of choices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import comb, factorial, perm, prod

from polymap.costmodel.bounds import compulsory_bits
from polymap.ir.loopnest import Workload


def arithmetic_intensity(operations: Fraction | int, moved_bytes: Fraction | int) -> Fraction:
    """Return operations per byte moved."""
    return Fraction(operations) / Fraction(moved_bytes)


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


def loop_orders(loops: int, levels: int = 1) -> int:
    """Return the number of orders of `loops` loops, chosen anew at each of `levels` levels of memory."""
    return factorial(loops) ** levels


def parallel_choices(loops: int, parallel: int, *, ordered: bool = True) -> int:
    """Return the number of ways to spread `parallel` of the loops, their order told apart or not."""
    return perm(loops, parallel) if ordered else comb(loops, parallel)


def tilings(choices: int, dims: int, levels: int = 1) -> int:
    """Return the number of ways to give each dim one of `choices` tile sizes at each level."""
    return choices ** (dims * levels)


def mappings(choices: int, dims: int, parallel: int, levels: int = 1) -> int:
    """Return the product of the three, per level: tile sizes, order of the dims, ordered choice of parallel dims."""
    return (tilings(choices, dims) * loop_orders(dims) * parallel_choices(dims, parallel)) ** levels
