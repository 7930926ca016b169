"""The contributions of one tensor at one placement to an objective, as columns of integers that add up over tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import lcm, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polymap.costmodel.referees.arrays import Ints
from polymap.costmodel.referees.counts import Crossing
from polymap.ir import Architecture, Fanout, Hops, MemoryLevel, Mistake, OptionError, Workload

FITS = 1 << 62  # sums below it are int64
PRODUCTS = {"energy": (1, 0), "latency": (0, 1), "edp": (1, 1), "ed2p": (1, 2)}  # powers of energy and latency


@dataclass(frozen=True, slots=True)
class Scale:
    """The objective in integers: energies times energy_scale, transfer cycles times cycle_scale.

    kind: "weighted" (also for a single objective), "lex" or "pareto". parts: weight and text of each objective.
    read_energy, write_energy: [level][tensor]. wire_energy: [fan-out][tensor], of a message, a delivery, a collection
    and a sum.
    """

    kind: str
    parts: tuple[tuple[Fraction, str], ...]
    energy_scale: int
    cycle_scale: int
    read_energy: tuple[tuple[int, ...], ...]
    write_energy: tuple[tuple[int, ...], ...]
    wire_energy: tuple[tuple[tuple[int, ...], ...], ...]
    fixed_energy: int
    leak: int

    @property
    def needs_latency(self) -> bool:
        texts = {text for _, text in self.parts}
        timed = {text for text, (_, of_cycles) in PRODUCTS.items() if of_cycles or self.leak > 0}
        return bool(texts & timed)

    def unit(self, text: str) -> Fraction:
        """Return the value of 1 in an objective's integers, in the objective's unit."""
        return Fraction(1, self.energy_scale ** PRODUCTS.get(text, (0, 0))[0])

    def units(self) -> tuple[Fraction, ...]:
        """Return the values of 1 in the integers of Columns.vectors: one for a sum, else one per part."""
        if self.kind == "weighted":
            return (Fraction(1, lcm(*((weight * self.unit(text)).denominator for weight, text in self.parts))),)
        return tuple(self.unit(text) for _, text in self.parts)


def scale_of(workload: Workload, arch: Architecture, objective: str) -> Scale:
    """Return the objective in integers. Raises OptionError for an unknown one."""
    kind, parts = _parts_of(arch, objective)
    timed = {text for text, (_, cycles) in PRODUCTS.items() if cycles or any(n.leak_pj_per_cycle for n in arch.levels)}
    if arch.is_timed_by_step and timed & {text for _, text in parts}:
        what = f"trees are not enumerated by {objective}: the latency of {arch.name} is counted in steps"
        raise OptionError(Mistake("PM485", what, "Without step_cycles, beat_bits and the like it is."))
    share = [[Fraction(tensor.bits, level.word_bits) for tensor in workload.tensors] for level in arch.levels]
    read = [[level.read_pj * s for s in row] for level, row in zip(arch.levels, share, strict=True)]
    write = [[level.write_pj * s for s in row] for level, row in zip(arch.levels, share, strict=True)]
    leak = sum((level.leak_pj_per_cycle for level in arch.levels), Fraction(0))
    fixed = arch.compute.pj
    for extent in workload.extents().values():
        fixed *= extent
    wires = [[_wire_energies(arch, fanout, tensor.bits) for tensor in workload.tensors] for fanout in arch.fanouts]
    rows = (*read, *write, *(each for row in wires for each in row))
    scale = lcm(leak.denominator, fixed.denominator, *(x.denominator for row in rows for x in row))
    bands = [band for level in arch.levels for band in _bands(level) if band is not None]
    return Scale(
        kind,
        parts,
        scale,
        lcm(1, *(band.numerator for band in bands)),
        tuple(tuple(int(x * scale) for x in row) for row in read),
        tuple(tuple(int(x * scale) for x in row) for row in write),
        tuple(tuple(tuple(int(x * scale) for x in each) for each in row) for row in wires),
        int(fixed * scale),
        int(leak * scale),
    )


def _wire_energies(arch: Architecture, fanout: Fanout, bits: int) -> tuple[Fraction, ...]:
    """Return the energy of a message, a delivery, a collection and a sum of one element (docs/counting.md, "Wires")."""
    words = Fraction(bits, arch.word_bits_above(fanout.name))
    by_itself = fanout.hops is Hops.UNICAST
    shared = Fraction(0) if by_itself else words * fanout.size * fanout.pj_per_word_hop
    each = fanout.pj_per_word + (fanout.pj_per_word_hop * Fraction(fanout.size + 1, 2) if by_itself else 0)
    return shared, words * each, words * each + fanout.reduce_pj, shared - fanout.reduce_pj


def _parts_of(arch: Architecture, objective: str) -> tuple[str, tuple[tuple[Fraction, str], ...]]:
    """Return the kind and the weighted parts of an objective's text. Raises OptionError for an unknown one."""
    kind, colon, rest = objective.partition(":")
    if not colon or kind not in ("weighted", "lex", "pareto"):
        kind, rest = "weighted", objective
    words = rest.split("+" if kind == "weighted" else ",")
    parts = tuple((Fraction(left or 1), name) for left, _, name in (word.rpartition("*") for word in words))
    names = [level.name for level in arch.levels]
    known = {*PRODUCTS, *(f"{what}:{name}" for what in ("traffic", "capacity") for name in names)}
    for _, name in parts:
        if name not in known:
            raise OptionError(Mistake("PM501", f"unknown objective '{name}'", f"Known: {', '.join(sorted(known))}."))
    return kind, parts


def _bands(level: MemoryLevel) -> tuple[Fraction | None, Fraction | None, Fraction | None]:
    return level.bandwidth_bits_per_cycle, level.read_bandwidth_bits_per_cycle, level.write_bandwidth_bits_per_cycle


def most_summed(workload: Workload, arch: Architecture, scale: Scale) -> int:
    """Return an upper bound on every column of a tree, on energy and latency in the scale's units, and on every
    intermediate.

    A load is of one element by one instance at one time, for some statement instance and access. It is read and written
    once, and a partial sum moves in both directions.
    """
    points = prod(workload.extents().values())
    accesses = sum(1 + len(statement.reads) for statement in workload.statements)
    moves = 8 * points * accesses * (len(arch.levels) + 1)
    bits = moves * max(tensor.bits for tensor in workload.tensors)
    bands = [band.denominator for level in arch.levels for band in _bands(level) if band is not None]
    cycles = (len(arch.levels) + 1) * max(points, bits * max(bands, default=1)) * scale.cycle_scale
    weights = [energy for row in (*scale.read_energy, *scale.write_energy) for energy in row]
    crossing = sum(max(sum(map(abs, each)) for each in row) for row in scale.wire_energy)
    return moves * (max(weights) + crossing) + scale.fixed_energy + max(1, scale.leak) * cycles


class Columns:
    """The layout of the columns, for words whose levels have these numbers of working instances.

    Column 0: energy. Then one per level whose traffic the objective names: bits moved. Then one per level with a
    capacity, or whose occupancy the objective names: bits held. Then, where latency counts and the bandwidth is
    limited, one per instance: bits read, and bits written. kind: int64, or Python integers where a sum or a value may
    exceed it.
    """

    def __init__(self, workload: Workload, arch: Architecture, scale: Scale, instances: Sequence[int]) -> None:
        self.arch = arch
        self.levels = arch.levels
        self.scale = scale
        self.bits = [tensor.bits for tensor in workload.tensors]
        self.capacities: list[tuple[int, int]] = []
        self._bits: dict[int, int] = {}
        self._held: dict[int, int] = {}
        self._moved: dict[int, int] = {}
        self.instances = instances
        self._tensors = len(workload.tensors)
        self.kind: np.dtype[Any] = np.dtype(np.int64 if most_summed(workload, arch, scale) < FITS else object)
        self.count = 1
        texts = [text for _, text in scale.parts]
        for number, level in enumerate(arch.levels):
            if f"traffic:{level.name}" in texts:
                self._bits[number] = self.count
                self.count += 1
        for number, level in enumerate(arch.levels[1:], start=1):
            if level.capacity_bits is not None:
                self.capacities.append((self.count, level.capacity_bits // level.buffering))
            if level.capacity_bits is not None or f"capacity:{level.name}" in texts:
                self._held[number] = self.count
                self.count += 1
        if scale.needs_latency:
            for number, level in enumerate(arch.levels):
                if any(band is not None for band in _bands(level)):
                    self._moved[number] = self.count
                    self.count += 2 * instances[number]

    def empty(self) -> Ints:
        return np.zeros(self.count, dtype=self.kind)

    def no_traffic(self) -> Ints:
        """Return zeros per level: reads, writes, fills, drains."""
        return np.zeros(4 * len(self.levels), dtype=np.int64)

    def held(self, row: Ints, tensor: int, level: int, elements: int) -> None:
        """Add the elements of a node's first tile to the columns `row`."""
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
        """Add the reads and writes of a level's instances for a tensor."""
        first, count = self._moved.get(level), self.instances[level]
        traffic[4 * level + 2] += fills
        traffic[4 * level + 3] += drains
        both = ((reads, self.scale.read_energy), (writes, self.scale.write_energy))
        for kind, (moves, energy) in enumerate(both):
            if moves is None:
                continue
            total = int(moves[0]) if count == 1 else int(moves.sum())
            traffic[4 * level + kind] += total
            row[0] = self._within_bound(int(row[0]) + total * energy[level][tensor])
            if level in self._bits:
                row[self._bits[level]] += total * self.bits[tensor]
            if first is not None:
                row[first + kind * count : first + (kind + 1) * count] += moves * self.bits[tensor]

    def crossed(self, row: Ints, tensor: int, crossings: Iterable[Crossing]) -> None:
        """Add the energy of what crosses fan-outs for a tensor."""
        for one in crossings:
            counts = one.messages, one.deliveries, one.collections, one.sums
            weights = self.scale.wire_energy[one.fanout][tensor]
            energy = sum(count * weight for count, weight in zip(counts, weights, strict=True))
            row[0] = self._within_bound(int(row[0]) + energy)

    def _within_bound(self, number: int) -> int:
        """Return the number after checking that sums of it over all tensors fit the type."""
        assert self.kind != np.int64 or abs(number) < FITS // self._tensors, "more is moved than most_summed says"
        return number

    def fit(self, sums: Ints) -> NDArray[np.bool_]:
        """Return, per row of `sums` (a tree), whether it respects all capacities."""
        fits = np.ones(len(sums), dtype=np.bool_)
        for column, capacity in self.capacities:
            fits &= np.asarray(sums[:, column] <= capacity, dtype=np.bool_)
        return fits

    def vectors(self, sums: Ints, steps: int) -> list[Ints]:
        """Return the objective of each row, scaled (Scale.units): one column for a sum, else one per part."""
        scale = self.scale
        columns = [self._values(text, sums, steps) for _, text in scale.parts]
        if scale.kind != "weighted":
            return columns
        (unit,) = scale.units()
        factors = [int(weight * scale.unit(text) / unit) for weight, text in scale.parts]
        total = np.zeros(len(sums), dtype=self.kind)
        for factor, column in zip(factors, columns, strict=True):
            total = _total(total, _product(column, np.full(len(sums), factor, dtype=object)))
        return [total]

    def _values(self, text: str, sums: Ints, steps: int) -> Ints:
        """Return one objective of each row, scaled: energies by energy_scale, others by 1."""
        kind, _, name = text.partition(":")
        names = [level.name for level in self.levels]
        if kind == "traffic":
            return sums[:, self._bits[names.index(name)]]
        if kind == "capacity":
            return sums[:, self._held[names.index(name)]]
        if text == "energy" and not self.scale.leak:
            return sums[:, 0] + self.scale.fixed_energy
        cycles = self._latency(sums, steps)
        energy = sums[:, 0] + self.scale.fixed_energy + self.scale.leak * cycles
        of_energy, of_cycles = PRODUCTS[text]
        return reduce(_product, (energy,) * of_energy + (cycles,) * of_cycles)

    def _latency(self, sums: Ints, steps: int) -> Ints:
        """Return the latency of each row in cycles."""
        scale = self.scale.cycle_scale
        compute = -(-steps // self.arch.compute.per_cycle) * scale
        parts = [np.full(len(sums), compute, dtype=self.kind)]
        for level, first in self._moved.items():
            count = self.instances[level]
            reads = sums[:, first : first + count]
            writes = sums[:, first + count : first + 2 * count]
            both, read, write = _bands(self.levels[level])
            quotients = [
                moved.max(axis=1) * (scale // band.numerator * band.denominator)
                for moved, band in ((reads + writes, both), (reads, read), (writes, write))
                if band is not None
            ]
            parts.append(np.max(quotients, axis=0))
        together = np.max(parts, axis=0) if self.arch.overlap else np.sum(parts, axis=0)
        return -(-together // scale)


def _total(left: Ints, right: Ints) -> Ints:
    """Return the sums, as Python integers where they may exceed 63 bits."""
    if max(int(left.max(initial=0)).bit_length(), int(right.max(initial=0)).bit_length()) < 62:
        return left.astype(np.int64) + right.astype(np.int64)
    return left.astype(object) + right.astype(object)


def _product(left: Ints, right: Ints) -> Ints:
    """Return the products, as Python integers where they may exceed 63 bits."""
    if int(left.max(initial=0)).bit_length() + int(right.max(initial=0)).bit_length() < 63:
        return left.astype(np.int64) * right.astype(np.int64)
    return left.astype(object) * right.astype(object)
