"""What an objective needs to know of one tensor at one place, as columns of integers that add up over tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray

from polymap.arch.machine import Architecture, MemoryLevel
from polymap.errors import OptionError, Problem
from polymap.search.exhaustive_counts import Ints
from polymap.workload.loopnest import Workload


@dataclass(frozen=True, slots=True)
class Scale:
    """The objective in integers: energies times energy_scale, transfer cycles times cycle_scale.

    read_energy and write_energy: [level][tensor]. traffic: the position of the level of traffic:LEVEL, else None.
    """

    objective: str
    traffic: int | None
    energy_scale: int
    cycle_scale: int
    read_energy: tuple[tuple[int, ...], ...]
    write_energy: tuple[tuple[int, ...], ...]
    fixed_energy: int
    leak: int

    @property
    def needs_latency(self) -> bool:
        return self.objective in ("latency", "edp") or (self.objective == "energy" and self.leak > 0)


def scale_of(workload: Workload, arch: Architecture, objective: str) -> Scale:
    """Return the objective in integers; OptionError for an unknown one."""
    traffic = None
    if objective.startswith("traffic:"):
        names = [level.name for level in arch.levels]
        if objective.removeprefix("traffic:") in names:
            traffic = names.index(objective.removeprefix("traffic:"))
    if traffic is None and objective not in ("energy", "latency", "edp"):
        raise OptionError(Problem("PM501", f"unknown objective '{objective}'", "energy, latency, edp or traffic:LEVEL"))
    share = [[Fraction(tensor.bits, level.word_bits) for tensor in workload.tensors] for level in arch.levels]
    read = [[level.read_pj * s for s in row] for level, row in zip(arch.levels, share, strict=True)]
    write = [[level.write_pj * s for s in row] for level, row in zip(arch.levels, share, strict=True)]
    leak = sum((level.leak_pj_per_cycle for level in arch.levels), Fraction(0))
    fixed = arch.compute.pj
    for extent in workload.extents().values():
        fixed *= extent
    scale = lcm(leak.denominator, fixed.denominator, *(x.denominator for row in (*read, *write) for x in row))
    bands = [band for level in arch.levels for band in _bands(level) if band is not None]
    return Scale(
        objective,
        traffic,
        scale,
        lcm(1, *(band.numerator for band in bands)),
        tuple(tuple(int(x * scale) for x in row) for row in read),
        tuple(tuple(int(x * scale) for x in row) for row in write),
        int(fixed * scale),
        int(leak * scale),
    )


def _bands(level: MemoryLevel) -> tuple[Fraction | None, Fraction | None, Fraction | None]:
    return level.bandwidth_bits_per_cycle, level.read_bandwidth_bits_per_cycle, level.write_bandwidth_bits_per_cycle


class Columns:
    """Which column holds what, for words whose levels have these many working instances.

    Column 0: energy or traffic. Then one per level of limited capacity: bits held. Then, where the latency counts and
    the bandwidth is limited, one per instance: bits read, and bits written.
    """

    def __init__(self, workload: Workload, arch: Architecture, scale: Scale, instances: Sequence[int]) -> None:
        self.arch = arch
        self.scale = scale
        self.bits = [tensor.bits for tensor in workload.tensors]
        self.capacities: list[tuple[int, int]] = []
        self._held: dict[int, int] = {}
        self._moved: dict[int, int] = {}
        self.instances = instances
        self.count = 1
        for number, level in enumerate(arch.levels[1:], start=1):
            if level.capacity_bits is not None:
                self._held[number] = self.count
                self.capacities.append((self.count, level.capacity_bits // level.buffering))
                self.count += 1
        if scale.needs_latency:
            for number, level in enumerate(arch.levels):
                if any(band is not None for band in _bands(level)):
                    self._moved[number] = self.count
                    self.count += 2 * instances[number]

    def empty(self) -> Ints:
        return np.zeros(self.count, dtype=np.int64)

    def no_traffic(self) -> Ints:
        """Return zeros per level: reads, writes, fills, drains."""
        return np.zeros(4 * len(self.arch.levels), dtype=np.int64)

    def held(self, row: Ints, tensor: int, level: int, elements: int) -> None:
        """Add a node's first tile to the columns `row`."""
        if level in self._held:
            row[self._held[level]] += elements * self.bits[tensor]

    def moved(
        self,
        row: Ints,
        traffic: Ints,
        tensor: int,
        level: int,
        reads: Ints | None = None,
        writes: Ints | None = None,
        *,
        fills: int = 0,
        drains: int = 0,
    ) -> None:
        """Add what the instances of a level read and write of a tensor."""
        nothing = np.zeros(self.instances[level], dtype=np.int64)
        reads = nothing if reads is None else reads
        writes = nothing if writes is None else writes
        total_reads, total_writes = int(reads.sum()), int(writes.sum())
        traffic[4 * level : 4 * level + 4] += (total_reads, total_writes, fills, drains)
        if self.scale.traffic is None:
            row[0] += total_reads * self.scale.read_energy[level][tensor]
            row[0] += total_writes * self.scale.write_energy[level][tensor]
        elif self.scale.traffic == level:
            row[0] += (total_reads + total_writes) * self.bits[tensor]
        if level in self._moved:
            first, count = self._moved[level], self.instances[level]
            row[first : first + count] += reads * self.bits[tensor]
            row[first + count : first + 2 * count] += writes * self.bits[tensor]

    def fit(self, sums: Ints) -> NDArray[np.bool_]:
        """Return for each row of `sums` (a tree) whether all capacities suffice."""
        fits = np.ones(len(sums), dtype=np.bool_)
        for column, capacity in self.capacities:
            fits &= sums[:, column] <= capacity
        return fits

    def values(self, sums: Ints, steps: int) -> Ints:
        """Return the objective of each row, scaled: energies by energy_scale, the rest by 1."""
        scale = self.scale
        if scale.traffic is not None:
            return sums[:, 0]
        if not scale.needs_latency:
            return sums[:, 0] + scale.fixed_energy
        cycles = self._latency(sums, steps)
        if scale.objective == "latency":
            return cycles
        energy = sums[:, 0] + scale.fixed_energy + scale.leak * cycles
        return energy if scale.objective == "energy" else _product(energy, cycles)

    def _latency(self, sums: Ints, steps: int) -> Ints:
        """Return the latency of each row in cycles."""
        scale = self.scale.cycle_scale
        compute = -(-steps // self.arch.compute.per_cycle) * scale
        parts = [np.full(len(sums), compute, dtype=np.int64)]
        for level, first in self._moved.items():
            count = self.instances[level]
            reads = sums[:, first : first + count]
            writes = sums[:, first + count : first + 2 * count]
            both, read, write = _bands(self.arch.levels[level])
            quotients = [
                moved.max(axis=1) * (scale // band.numerator * band.denominator)
                for moved, band in ((reads + writes, both), (reads, read), (writes, write))
                if band is not None
            ]
            parts.append(np.max(quotients, axis=0))
        together = np.max(parts, axis=0) if self.arch.overlap else np.sum(parts, axis=0)
        return -(-together // scale)


def _product(left: Ints, right: Ints) -> Ints:
    """Return the products, as Python integers where they may not fit 63 bits."""
    if int(left.max(initial=0)).bit_length() + int(right.max(initial=0)).bit_length() < 63:
        return left * right
    return left.astype(object) * right.astype(object)
