"""The cost of many mappings from arrays of counts: `assemble` on columns, equal to it to the last bit.

Energies are sums of integers over one common denominator. A quotient of two integers below 2^53 is rounded once, like
that of two rationals; larger ones are divided as Python integers, which also rounds once. Magnitudes are bounded
beforehand (`Prices`): counts and cycles must fit int64, energies are Python integers where they might not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import count
from math import lcm, prod
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from polymap.costmodel import closed_form
from polymap.costmodel.assembly import wire_prices
from polymap.costmodel.tables.dividing_tiles import count_arrays, is_in_reach
from polymap.costmodel.tables.loops import Booleans, Columns, Integers, Many
from polymap.costmodel.tables.partial_tiles import PartialPlan
from polymap.costmodel.tables.tuning import TUNING
from polymap.ir import Architecture, Fanout, Mapping, MemoryLevel, Workload
from polymap.schedules import any_order_is_legal

EXACT = 2**53  # below it, floats hold all integers
_INT64 = 2**63
_LONGEST = 2**51  # see `loops.quotient`


class BatchFigures(NamedTuple):
    """The figures of many mappings.

    integers: instances, compute cycles, latency cycles; per traffic row reads, writes, fills, drains; then per level
    below the outermost the bits held. floats: energy, utilization, then the energy of each level and of the compute
    units.
    """

    legal: Booleans
    integers: list[Many]
    floats: list[NDArray[np.float64] | float]


class Prices:
    """The machine's rationals as integers.

    unit: their common denominator. moves: (level, tensor) -> the energies of an element read and an element written, in
    pJ / unit. wires: (fan-out, tensor) -> `wire_prices`, in pJ / unit. leaks: per level, in pJ / unit and cycle. fit:
    int64 holds every count and cycle that may occur. most: an upper bound on energies, in pJ / unit. lanes: compute
    units times the instances that each executes per cycle.
    """

    __slots__ = ("compute", "cycles", "fit", "instances", "lanes", "leaks", "most", "moves", "unit", "wires")

    def __init__(self, workload: Workload, arch: Architecture) -> None:
        costs: dict[tuple[int, int], tuple[Fraction, Fraction]] = {}
        for number, level in enumerate(arch.levels):
            for index, tensor in enumerate(workload.tensors):
                share = Fraction(tensor.bits, level.word_bits)
                costs[number, index] = (share * level.read_pj, share * level.write_pj)
        wires = _wire_prices(workload, arch)
        fractions = [each for prices in (*costs.values(), *wires.values()) for each in prices]
        fractions += [level.leak_pj_per_cycle for level in arch.levels] + [Fraction(arch.compute.pj)]
        self.unit = lcm(*(each.denominator for each in fractions))
        self.moves = {key: (int(read * self.unit), int(write * self.unit)) for key, (read, write) in costs.items()}
        self.wires = {key: tuple(int(each * self.unit) for each in prices) for key, prices in wires.items()}
        self.leaks = [int(level.leak_pj_per_cycle * self.unit) for level in arch.levels]
        self.compute = int(arch.compute.pj * self.unit)
        bandwidths = [each for level in arch.levels for each in _bandwidths(level) if each is not None]
        self.cycles = lcm(*(each.numerator for each in bandwidths))
        self.lanes = prod(fanout.size for fanout in arch.fanouts) * arch.compute.per_cycle
        self.instances = workload.instances_of_boxes()
        self._bound(workload, arch)

    def _bound(self, workload: Workload, arch: Architecture) -> None:
        instances = self.instances
        reads = max(len(each.reads) for each in workload.statements)
        most = instances * max(2, reads)  # elements that one row reads or writes
        most *= 1 if len(workload.statements) == 1 else 2  # nodes above branches and those below them
        bits = 2 * most * sum(tensor.bits for tensor in workload.tensors)
        slowest = max((each.denominator for level in arch.levels for each in _bandwidths(level) if each), default=1)
        latency = len(arch.levels) * bits * slowest * max(1, self.cycles) + instances * max(1, self.cycles)
        costs = sum(sum(pair) for pair in self.moves.values())
        costs += sum(abs(each) for prices in self.wires.values() for each in prices)
        energy = most * costs + self.compute * instances
        self.most = energy + latency * sum(self.leaks)
        counted = max(latency, bits, instances * self.lanes, 64 * instances) < _INT64
        self.fit = counted and max(workload.extents().values()) < _LONGEST and self.most < TUNING.largest_pj * self.unit


def _wire_prices(workload: Workload, arch: Architecture) -> dict[tuple[int, int], tuple[Fraction, ...]]:
    """Return the energies of an element of each tensor on each fan-out that costs energy."""
    return {
        (number, index): wire_prices(fanout, Fraction(tensor.bits, arch.word_bits_above(fanout.name)))
        for number, fanout in enumerate(arch.fanouts)
        for index, tensor in enumerate(workload.tensors)
        if fanout.has_energies
    }


def _bandwidths(level: MemoryLevel) -> tuple[Fraction | None, ...]:
    return (
        level.bandwidth_bits_per_cycle,
        level.read_bandwidth_bits_per_cycle,
        level.write_bandwidth_bits_per_cycle,
    )


class Pricing:
    """What counts cost on a machine."""

    __slots__ = ("_arch", "_bits", "_prices")

    def __init__(self, workload: Workload, arch: Architecture) -> None:
        self._arch, self._bits = arch, [tensor.bits for tensor in workload.tensors]
        self._prices = Prices(workload, arch)

    @property
    def fits(self) -> bool:
        """Whether int64 holds all counts and cycles."""
        return self._prices.fit

    def held(self, rows: Sequence[closed_form.Row[Many]]) -> list[Many]:
        """Return the bits that each level holds, where no node stands beside others in a branch."""
        return [
            _total(row.tile * self._bits[row.tensor] for row in rows if row.level == number)
            for number in range(len(self._arch.levels))
        ]

    def figures(self, counts: closed_form.NestCounts[Many], held: Sequence[Many], legal: Booleans) -> BatchFigures:
        """Return figures from counts. held: bits per level; legal: but for capacities."""
        arch, prices = self._arch, self._prices
        steps, instances = counts.steps, prices.instances
        compute = -(-steps // arch.compute.per_cycle) if arch.compute.per_cycle > 1 else steps
        latency = _latency(arch, prices, compute, counts.busy)
        integers: list[Many] = [instances, compute, latency]
        for row in counts.rows:
            integers += [row.reads, row.writes, row.fills, row.drains]
        for level, bits in zip(arch.levels[1:], held[1:], strict=True):
            integers.append(bits)
            if level.usable_bits is not None:
                legal = legal & (bits <= level.usable_bits)
        energies = [*self._energies(latency, counts.rows, counts.wires), prices.compute * instances]
        most = max(prices.most, prices.unit)
        floats = [_rounded_quotients(_total(energies), prices.unit, most)]
        floats.append(_rounded_quotients(instances, compute * prices.lanes, instances * prices.lanes))
        floats += [_rounded_quotients(energy, prices.unit, most) for energy in energies]
        return BatchFigures(legal, integers, floats)

    def is_latency(
        self, counts: closed_form.NestCounts[Many], busy: Sequence[closed_form.Busiest[Many]], figures: BatchFigures
    ) -> Booleans:
        """Return where the latency is that of other busiest instances."""
        compute, latency = figures.integers[1:3]
        return np.equal(_latency(self._arch, self._prices, compute, busy), latency)

    def _energies(
        self, latency: Many, rows: Sequence[closed_form.Row[Many]], wires: Sequence[closed_form.Wire[Many]]
    ) -> list[Many]:
        """Return the energy of each level, and of each fan-out that costs energy, outermost first."""
        levels, fanouts = count(), count()
        found: list[Many] = []
        for node in self._arch.nodes:
            if isinstance(node, MemoryLevel):
                found.append(_energy(self._prices, next(levels), latency, rows))
            elif isinstance(node, Fanout):
                number = next(fanouts)
                if node.has_energies:
                    found.append(_wire_energy(self._prices, number, wires))
        return found


class Batch(Protocol):
    """Counts of tables of tiles for one workload, machine and tree shape."""

    def count_dividing(self, table: Integers) -> tuple[BatchFigures, Booleans] | None:
        """Return the figures of all rows, and a mask of the rows for which they hold: those whose tiles all divide.

        None where there are no such rows, or where the array formulas do not apply to this tree.
        """
        ...

    def count_partial(self, table: Integers) -> Iterator[tuple[slice | Integers, BatchFigures, Booleans]]:
        """Yield slices or numbers of rows, their figures for tiles of any size, and a mask of those for which they
        hold."""
        ...


class NestBatch:
    """Tables of a nest. placed: the placement of nodes is legal."""

    __slots__ = ("_arch", "_divides", "_machine", "_model", "_partial", "_placed", "_pricing", "_shape")

    def __init__(
        self,
        model: closed_form.WorkloadModel,
        machine: closed_form.MachineModel,
        arch: Architecture,
        shape: closed_form.Shape,
        pricing: Pricing,
        *,
        placed: bool,
    ) -> None:
        self._model, self._machine, self._arch, self._shape = model, machine, arch, shape
        self._placed, self._pricing = placed, pricing
        self._divides = is_in_reach(model, machine, shape)
        self._partial: dict[bool, PartialPlan] = {}  # by whether it looks back

    def count_dividing(self, table: Integers) -> tuple[BatchFigures, Booleans] | None:
        if not self._divides:
            return None
        columns, right = self._columns(table)
        for even in columns.even.values():
            right &= even
        if not right.any():
            return None
        rows, busy, wires = count_arrays(self._model, self._machine, self._shape, columns)
        return self._figures(columns, closed_form.NestCounts(rows, busy, columns.steps, wires)), right

    def count_partial(self, table: Integers) -> Iterator[tuple[slice | Integers, BatchFigures, Booleans]]:
        everything, readable = self._columns(table)
        left: list[Integers] = []
        for stretch, figures, right, doubtful in self._counted(everything, looks_back=False):
            yield stretch, figures, readable[stretch] & right
            left.append(np.flatnonzero(readable[stretch] & doubtful) + stretch.start)
        numbers = np.concatenate(left)
        for start in range(0, len(numbers), TUNING.rows_looking_back):
            some = numbers[start : start + TUNING.rows_looking_back]
            for stretch, figures, right, _ in self._counted(everything.part(some), looks_back=True):
                yield some[stretch], figures, right

    def _counted(
        self, everything: Columns, *, looks_back: bool
    ) -> Iterator[tuple[slice, BatchFigures, Booleans, Booleans]]:
        """Yield slices of the rows, their figures, and masks of the rows for which they hold and of those that need a
        plan that looks back."""
        if looks_back not in self._partial:
            metered = [number for number, level in enumerate(self._arch.levels) if level.has_bandwidth]
            self._partial[looks_back] = PartialPlan(
                self._model, self._model.extents, self._machine, self._shape, metered, looks_back=looks_back
            )
        plan = self._partial[looks_back]
        rows = plan.rows_of(everything.tiles)
        for start in range(0, everything.rows, TUNING.column_rows):
            stretch = slice(start, min(start + TUNING.column_rows, everything.rows))
            columns = everything.part(stretch)
            rows.move(stretch)
            counts, least = plan.count(rows, columns.even)
            figures = self._figures(columns, counts)
            known = self._pricing.is_latency(counts, least, figures)
            doubtful = plan.doubtful(rows)
            yield stretch, figures, known & ~rows.failed & ~doubtful, doubtful & ~rows.failed

    def _columns(self, table: Integers) -> tuple[Columns, Booleans]:
        """Return the rows as columns, and a mask of the rows that are loop trees."""
        positive = np.maximum(table, 1)
        columns = Columns(self._model.extents, self._shape, list(np.ascontiguousarray(positive.T)), len(table))
        readable: Booleans = (positive == table).all(axis=1)
        for end in columns.ends.values():
            readable &= end == 1
        return columns, readable

    def _figures(self, columns: Columns, counts: closed_form.NestCounts[Many]) -> BatchFigures:
        legal = within_fanouts(self._model.dims, self._arch, self._shape, columns) & self._placed
        return self._pricing.figures(counts, self._pricing.held(counts.rows), legal)


def batch_of_nest(workload: Workload, arch: Architecture, tree: Mapping, *, placed: bool) -> NestBatch | None:
    """Return the counter of a nest's tables, or None where rows must be counted one by one."""
    model = closed_form.workload_model(workload)
    if model is None or not any_order_is_legal(workload):
        return None
    machine = closed_form.machine_model(arch)
    shape = closed_form.shape_of_tree(model, machine, tree)
    if shape is None or any(tensor.written and tensor.temporary for tensor in model.tensors):
        return None
    pricing = Pricing(workload, arch)
    return NestBatch(model, machine, arch, shape, pricing, placed=placed) if pricing.fits else None


def _total(values: Iterable[Many]) -> Many:
    total: Many = 0
    for value in values:
        total = value if isinstance(total, int) and total == 0 else value + total
    return total


def _energy(prices: Prices, level: int, latency: Many, rows: Sequence[closed_form.Row[Many]]) -> Many:
    """Return a level's energy in units of 1 / unit: int64 where it fits, else Python integers."""
    exact = _python_integers if prices.most >= _INT64 else _leave_integers
    total: Many = prices.leaks[level] * exact(latency) if prices.leaks[level] else 0
    for row in rows:
        if row.level == level:
            read, write = prices.moves[level, row.tensor]
            reads, writes = exact(row.reads), exact(row.writes)
            total = ((reads + writes) * read if read == write else reads * read + writes * write) + total
    return total


def _wire_energy(prices: Prices, fanout: int, wires: Sequence[closed_form.Wire[Many]]) -> Many:
    """Return the energy of a fan-out in units of 1 / unit."""
    exact = _python_integers if prices.most >= _INT64 else _leave_integers
    total: Many = 0
    for wire in wires:
        if wire.fanout == fanout:
            for price, amount in zip(prices.wires[fanout, wire.tensor], wire[2:], strict=True):
                total = total + exact(amount) * price if price else total
    return total


def _leave_integers(values: Many) -> Many:
    return values


def _python_integers(values: Many) -> Any:
    return values if isinstance(values, int) else values.astype(np.object_)


def _rounded_quotients(numerator: Many, denominator: Many, most: int) -> NDArray[np.float64] | float:
    """Return quotients that are rounded once. most: an upper bound on both sides."""
    if most < EXACT or (isinstance(numerator, int) and isinstance(denominator, int)):
        return numerator / denominator
    exact = np.asarray(_python_integers(numerator)) / np.asarray(_python_integers(denominator), dtype=np.object_)
    return np.asarray(exact, dtype=np.float64)


def within_fanouts(dims: Sequence[str], arch: Architecture, shape: closed_form.Shape, columns: Columns) -> Booleans:
    """Return a mask of the mappings that respect the sizes of the fan-outs and the dims that may be spread on them."""
    legal: Booleans = np.ones(columns.rows, dtype=np.bool_)
    for number, fanout in enumerate(arch.fanouts):
        used: Many = 1
        for loop in shape.loops:
            if loop.fanout == number:
                used = used * columns.trips[loop.column]
                if not fanout.may_spread(dims[loop.dim]):
                    legal = legal & (columns.trips[loop.column] == 1)
        legal = legal & (used <= fanout.size)
    return legal


def _latency(arch: Architecture, prices: Prices, compute: Many, busy: Sequence[closed_form.Busiest[Many]]) -> Many:
    """Return the latencies in cycles; summands are integers in units of 1 / `cycles`, a common multiple of the
    bandwidths."""
    total = compute * prices.cycles
    for level, used in zip(arch.levels, busy, strict=True):
        bandwidths = _bandwidths(level)
        if not level.has_bandwidth:
            continue
        share: Many = 0
        for bits, bandwidth in zip((used.moved, used.read, used.written), bandwidths, strict=True):
            if bandwidth is not None:
                cycles = bits * (bandwidth.denominator * (prices.cycles // bandwidth.numerator))
                share = np.maximum(share, cycles)
        total = np.maximum(total, share) if arch.overlap else total + share
    return -(-total // prices.cycles)
