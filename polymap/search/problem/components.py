"""Linear measures of traffic and of bits held, the parts of objectives that the search bounds one by one.

All weights are integers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

from polymap.costmodel import wire_prices
from polymap.ir import Architecture, Grain, MemoryLevel, Workload

Prices = tuple[tuple[int, ...], ...]  # per tensor: of a message, a delivery, a collection, a sum


@dataclass(frozen=True, slots=True)
class Component:
    """A linear measure: the sum over levels and tensors of elements read x read[level][tensor] + elements written x
    write[level][tensor].

    busiest: of the busiest instance; else summed over instances. bandwidth: bits per cycle, if busiest. held: adds
    [level][tensor] x elements that one instance holds (empty: nothing). wires: [fan-out][tensor] the weights of a
    message, a delivery, a collection and a sum (empty: nothing). in_turn: its cycles come beside those of compute.
    """

    name: str
    read: tuple[tuple[int, ...], ...]
    write: tuple[tuple[int, ...], ...]
    busiest: bool
    bandwidth: Fraction
    held: tuple[tuple[int, ...], ...] = ()
    wires: tuple[Prices, ...] = ()
    in_turn: bool = False


def energy_component(workload: Workload, arch: Architecture, scale: int) -> Component:
    """Return the energy of all transfers x scale, which must make every weight an integer."""

    def weights(pj_of: list[Fraction]) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple(pj.numerator * t.bits * scale // (pj.denominator * level.word_bits) for t in workload.tensors)
            for pj, level in zip(pj_of, arch.levels, strict=True)
        )

    reads = weights([level.read_pj for level in arch.levels])
    writes = weights([level.write_pj for level in arch.levels])
    wires: tuple[Prices, ...] = ()
    if arch.has_wire_energies:
        wires = tuple(
            tuple(tuple(int(price * scale) for price in prices) for prices in row)
            for row in wire_energies(workload, arch)
        )
    return Component("energy", reads, writes, busiest=False, bandwidth=Fraction(1), wires=wires)


def wire_energies(workload: Workload, arch: Architecture) -> tuple[tuple[tuple[Fraction, ...], ...], ...]:
    """Return [fan-out][tensor] -> the energies of a message, a delivery, a collection and a sum of one element, in
    pJ."""
    return tuple(
        tuple(
            wire_prices(fanout, Fraction(tensor.bits, arch.word_bits_above(fanout.name))) for tensor in workload.tensors
        )
        for fanout in arch.fanouts
    )


def bits_component(
    workload: Workload,
    arch: Architecture,
    level_name: str,
    *,
    busiest: bool,
    bandwidth: Fraction = Fraction(1),
    reads: bool = True,
    writes: bool = True,
) -> Component:
    """Return the bits read and written at a level; for the level "" it is always zero."""

    def rows(*, counted: bool) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple(t.bits if counted and level.name == level_name else 0 for t in workload.tensors)
            for level in arch.levels
        )

    return Component(f"bits:{level_name}", rows(counted=reads), rows(counted=writes), busiest, bandwidth)


def held_component(workload: Workload, arch: Architecture, level_name: str) -> Component:
    """Return the bits that one instance of a level holds, without its factor of buffering."""
    none = tuple(tuple(0 for _ in workload.tensors) for _ in arch.levels)
    held = tuple(tuple(t.bits if level.name == level_name else 0 for t in workload.tensors) for level in arch.levels)
    return Component(f"held:{level_name}", none, none, busiest=False, bandwidth=Fraction(1), held=held)


def bandwidth_components(workload: Workload, arch: Architecture) -> list[Component]:
    """Return a component per bandwidth limit: the bits that the busiest instance moves."""
    found = [part for level in arch.levels for part in _level_components(workload, arch, level)]
    if not any(level.held_cycles_per_bit for level in arch.levels):
        return found
    none = tuple((0,) * len(workload.tensors) for _ in arch.levels)
    waits = Component("waits", none, none, busiest=True, bandwidth=Fraction(1), in_turn=True)
    in_turn = [part for part in found if part.in_turn] or [waits]
    return [*(part for part in found if not part.in_turn), *(_with_held(workload, arch, part) for part in in_turn)]


def _with_held(workload: Workload, arch: Architecture, part: Component) -> Component:
    """Return a part that takes turns with compute, with what levels wait for that they hold."""
    rates = [level.held_cycles_per_bit * part.bandwidth for level in arch.levels]
    unit = lcm(*(rate.denominator for rate in rates))
    held = tuple(tuple(int(rate * unit) * tensor.bits for tensor in workload.tensors) for rate in rates)
    read, write = (tuple(tuple(unit * each for each in row) for row in rows) for rows in (part.read, part.write))
    return replace(part, read=read, write=write, held=held, bandwidth=part.bandwidth * unit)


def _level_components(workload: Workload, arch: Architecture, level: MemoryLevel) -> list[Component]:
    found: list[Component] = []
    if level.bandwidth_bits_per_cycle is not None:
        found.append(bits_component(workload, arch, level.name, busiest=True, bandwidth=level.bandwidth_bits_per_cycle))
    if level.read_bandwidth_bits_per_cycle is not None:
        band = level.read_bandwidth_bits_per_cycle
        found.append(bits_component(workload, arch, level.name, busiest=True, bandwidth=band, writes=False))
    if level.write_bandwidth_bits_per_cycle is not None:
        band = level.write_bandwidth_bits_per_cycle
        found.append(bits_component(workload, arch, level.name, busiest=True, bandwidth=band, reads=False))
    found += (_grain_component(workload, arch, grain) for grain in level.grains)
    return [replace(each, in_turn=True) for each in found] if level.in_turn else found


def _grain_component(workload: Workload, arch: Architecture, grain: Grain) -> Component:
    """Return the bits that a bus of the outermost level moves for elements of some tensors."""
    reads, writes = dict(grain.reads), dict(grain.writes)
    none = tuple((0,) * len(workload.tensors) for _ in arch.levels[1:])
    read, write = (tuple(bits.get(tensor.name, 0) for tensor in workload.tensors) for bits in (reads, writes))
    name = f"grain:{' '.join((*reads, *writes))}"
    return Component(name, (read, *none), (write, *none), busiest=True, bandwidth=grain.bits_per_cycle)


def weighted_sum(parts: list[tuple[int, Component]]) -> Component:
    """Return the weighted sum of components that count all instances."""

    def summed(rows: list[tuple[int, tuple[tuple[int, ...], ...]]]) -> tuple[tuple[int, ...], ...]:
        filled = [(weight, row) for weight, row in rows if row]
        if not filled:
            return ()
        levels, tensors = len(filled[0][1]), len(filled[0][1][0])
        return tuple(
            tuple(sum(weight * row[level][tensor] for weight, row in filled) for tensor in range(tensors))
            for level in range(levels)
        )

    read = summed([(weight, part.read) for weight, part in parts])
    write = summed([(weight, part.write) for weight, part in parts])
    held = summed([(weight, part.held) for weight, part in parts])
    wired = [(weight, part.wires) for weight, part in parts if part.wires]
    wires = tuple(
        tuple(tuple(sum(values) for values in zip(*prices, strict=True)) for prices in zip(*rows, strict=True))
        for rows in zip(*(_times(weight, rows) for weight, rows in wired), strict=True)
    )
    return Component("weighted", read, write, busiest=False, bandwidth=Fraction(1), held=held, wires=wires)


def _times(weight: int, rows: tuple[tuple[tuple[int, ...], ...], ...]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    return tuple(tuple(tuple(weight * price for price in prices) for prices in row) for row in rows)
