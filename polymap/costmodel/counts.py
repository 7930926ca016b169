"""The integers of one mapping: what every implementation of counting returns, and all that costs follow from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Traffic:
    """Elements of `tensor` read and written at `level`, summed over its instances; fills are part of writes, drains
    part of reads."""

    level: str
    tensor: str
    reads: int
    writes: int
    fills: int
    drains: int


@dataclass(frozen=True, slots=True)
class LevelUse:
    """What one instance of a level has at most: bits held at one time, and bits moved in the whole run.

    The three busiest figures are each the largest over the instances (their sums over the tensors held).
    """

    level: str
    occupancy_bits: int
    busiest_read_bits: int
    busiest_write_bits: int
    busiest_total_bits: int


@dataclass(frozen=True, slots=True)
class WireUse:
    """Elements of `tensor` that cross `fanout`, summed over its instances (docs/counting.md, "Wires").

    On the way down, what one instance above sends, merged by `multicast` of this fan-out and those inside it
    (messages), and what each child gets of it (deliveries). On the way up what each child gives (collections), and what
    reaches the instance above (sums); the difference is added on the way.
    """

    fanout: str
    tensor: str
    messages: int
    deliveries: int
    collections: int
    sums: int


@dataclass(frozen=True, slots=True)
class Counts:
    """All integers of one mapping, from whichever implementation counted them.

    traffic: one row per (level, tensor) held, outermost level first, tensors in the workload's order.
    uses: one row per level, outermost first. steps: clock ticks. instances: statement instances executed. wires: one
    row per (fan-out that costs energy, tensor), outermost first.
    """

    instances: int
    steps: int
    traffic: tuple[Traffic, ...]
    uses: tuple[LevelUse, ...]
    wires: tuple[WireUse, ...] = ()
