"""From counts to cost: energy, latency, utilization, capacity (docs/counting.md). Rationals, rounded once to floats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from polymap.costmodel.cost import Cost, StepLatency
from polymap.costmodel.counts import Counts, LevelUse, Traffic, WireUse
from polymap.costmodel.tuning import TUNING
from polymap.ir import (
    Architecture,
    BudgetError,
    Fanout,
    Grain,
    Hops,
    Mapping,
    MemoryLevel,
    Mistake,
    Violation,
    Workload,
)
from polymap.resources import with_at_least


def assemble(
    workload: Workload,
    arch: Architecture,
    counts: Counts,
    violations: tuple[Violation, ...],
    method: str,
    mapping: Mapping | None = None,
) -> Cost:
    """Return the cost that the counts mean. violations: all of them, capacity included; legal means there are none.
    mapping: what was counted, which formulas are derived from.

    Raises BudgetError where an energy is beyond what a float can hold.
    """
    shares = _shares(arch, counts)
    latency, decides = math.ceil(_in_all(arch, shares)), max(shares, key=lambda share: share[1])[0]
    steps = _steps_of(workload, arch, counts, mapping)
    if steps is not None and math.ceil(steps.cycles) > latency:
        latency, decides = math.ceil(steps.cycles), steps.bottleneck or arch.compute.name
    energies = energies_of(workload, arch, counts.traffic, counts.wires, counts.instances, latency)
    return Cost(
        legal=not violations,
        violations=violations,
        instances=counts.instances,
        method=method,
        traffic=counts.traffic,
        wires=counts.wires,
        steps=steps,
        occupancy_bits=tuple((use.level, use.occupancy_bits) for use in counts.uses[1:]),
        energy_pj=_nearest_float(sum((energy for _, energy in energies), Fraction(0))),
        energy_by_level_pj=tuple((name, _nearest_float(energy)) for name, energy in energies),
        compute_cycles=compute_cycles(arch, counts),
        latency_cycles=latency,
        utilization=_nearest_float(utilization_exact(arch, counts)),
        bottleneck=decides,
        energy_by_level_pj_exact=energies,
        workload=workload,
        arch=arch,
        mapping=mapping,
    )


def energies_of(
    workload: Workload,
    arch: Architecture,
    traffic: Sequence[Traffic],
    wires: Sequence[WireUse],
    instances: int,
    latency: int,
) -> tuple[tuple[str, Fraction], ...]:
    """Return (name, pJ) per level and fan-out that costs energy, outermost first, the compute unit last.

    An element of `bits` costs bits / word_bits of an access; a level's leakage runs as long as the program.
    """
    bits = {tensor.name: tensor.bits for tensor in workload.tensors}
    energies: list[tuple[str, Fraction]] = []
    for level in arch.nodes[:-1]:
        if isinstance(level, Fanout):
            if level.has_energies:
                crossed = [row for row in wires if row.fanout == level.name]
                shares = {name: Fraction(each, arch.word_bits_above(level.name)) for name, each in bits.items()}
                energy = sum((wire_pj(level, row, shares[row.tensor]) for row in crossed), Fraction(0))
                energies.append((level.name, energy))
            continue
        assert isinstance(level, MemoryLevel)
        rows = [row for row in traffic if row.level == level.name]
        read_bits = sum(row.reads * bits[row.tensor] for row in rows)
        written_bits = sum(row.writes * bits[row.tensor] for row in rows)
        energy = level.access_pj(read_bits, written_bits)
        if level.leak_pj_per_cycle:
            energy += level.leak_pj_per_cycle * latency
        energies.append((level.name, energy))
    return (*energies, (arch.compute.name, instances * arch.compute.pj))


def wire_pj(fanout: Fanout, use: WireUse, words: Fraction) -> Fraction:
    """Return the energy of what crosses a fan-out of one tensor. words: of the level above, per element."""
    amounts = use.messages, use.deliveries, use.collections, use.sums
    return sum((pj * amount for pj, amount in zip(wire_prices(fanout, words), amounts, strict=True)), Fraction(0))


def wire_prices(fanout: Fanout, words: Fraction) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """Return the pJ of one element sent from above, delivered to a child, collected from one, and arriving above.

    Every end of a wire costs `pj_per_word`, every link `pj_per_word_hop`: (size + 1) / 2 links per end, or the whole
    line of `size` per message and sum. What is collected and does not arrive was added (docs/counting.md, "Wires").
    """
    link = words * fanout.pj_per_word_hop
    shared, alone = link * fanout.size, link * Fraction(fanout.size + 1, 2)
    if fanout.hops is Hops.MULTICAST:
        alone = Fraction(0)
    else:
        shared = Fraction(0)
    end = words * fanout.pj_per_word + alone
    return shared, end, end + fanout.reduce_pj, shared - fanout.reduce_pj


def compute_cycles(arch: Architecture, counts: Counts) -> int:
    """Return ceil(steps / per_cycle)."""
    return -(-counts.steps // arch.compute.per_cycle)


def exact_latency(arch: Architecture, counts: Counts) -> Fraction:
    """Return the cycles of the run without regard to steps, not rounded: the maximum of compute and transfers where
    they overlap, else their sum."""
    return _in_all(arch, _shares(arch, counts))


def _in_all(arch: Architecture, shares: list[tuple[str, Fraction]]) -> Fraction:
    cycles = [share for _, share in shares]
    return max(cycles) if arch.overlap else sum(cycles, Fraction(0))


def _steps_of(workload: Workload, arch: Architecture, counts: Counts, mapping: Mapping | None) -> StepLatency | None:
    """Return the latency in steps; None on a machine that says nothing of single steps."""
    if not arch.is_timed_by_step:
        return None
    assert mapping is not None, "steps are those of a mapping"
    from polymap.costmodel.step_latency import latency_of_steps
    from polymap.costmodel.step_trees import counted_in_steps  # numpy is loaded where it is needed

    with with_at_least(TUNING.least_steps_s):
        return latency_of_steps(arch, counted_in_steps(workload, arch, mapping, counts))


def _shares(arch: Architecture, counts: Counts) -> list[tuple[str, Fraction]]:
    """Return (name, cycles): the compute unit first, then every level that has a bandwidth, outermost first."""
    in_turn = Fraction(compute_cycles(arch, counts))
    for level, use in zip(arch.levels, counts.uses, strict=True):
        if level.held_cycles_per_bit:
            in_turn += level.held_cycles_per_bit * use.occupancy_bits
    shares = [(arch.compute.name, in_turn)]
    for level, use in zip(arch.levels, counts.uses, strict=True):
        assert level.name == use.level  # counters list the levels of the machine in its order
        cycles = transfer_cycles(level, use)
        shares.append((level.name, in_turn + cycles if level.in_turn else cycles))
        shares += ((level.name, _grain_cycles(grain, counts, level.name)) for grain in level.grains)
    return shares


def _grain_cycles(grain: Grain, counts: Counts, outermost: str) -> Fraction:
    """Return the cycles that a bus takes for elements of some tensors."""
    reads, writes = dict(grain.reads), dict(grain.writes)
    rows = [row for row in counts.traffic if row.level == outermost]
    bits = sum(row.reads * reads.get(row.tensor, 0) + row.writes * writes.get(row.tensor, 0) for row in rows)
    return bits / grain.bits_per_cycle


def transfer_cycles(level: MemoryLevel, use: LevelUse) -> Fraction:
    """Return the cycles that the level's busiest instance needs for its reads and writes; 0 without a bandwidth."""
    told = (
        (use.busiest_total_bits, level.bandwidth_bits_per_cycle),
        (use.busiest_read_bits, level.read_bandwidth_bits_per_cycle),
        (use.busiest_write_bits, level.write_bandwidth_bits_per_cycle),
    )
    return max((bits / band for bits, band in told if band is not None), default=Fraction(0))


def utilization_exact(arch: Architecture, counts: Counts) -> Fraction:
    """Return statement instances / (compute cycles x compute instances of the machine x per_cycle); 0 without work."""
    lanes = math.prod(fanout.size for fanout in arch.fanouts) * arch.compute.per_cycle
    cycles = compute_cycles(arch, counts)
    return Fraction(counts.instances, cycles * lanes) if cycles else Fraction(0)


def capacity_violations(arch: Architecture, counts: Counts) -> tuple[Violation, ...]:
    """Return the levels whose fullest instance, `buffering` times, holds more than their capacity."""
    found: list[Violation] = []
    for level, use in zip(arch.levels, counts.uses, strict=True):
        if level.capacity_bits is not None and not level.has_room_for(use.occupancy_bits):
            needed = use.occupancy_bits * level.buffering
            twice = f" ({level.buffering} x {use.occupancy_bits})" if level.buffering > 1 else ""
            message = f"'{level.name}' needs {needed} bits{twice} and has {level.capacity_bits}"
            witness = (("level", level.name), ("needed_bits", needed), ("capacity_bits", level.capacity_bits))
            found.append(Violation("capacity", message, witness))
    return tuple(found)


def _nearest_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        digits = len(str(value.numerator // value.denominator))
        what = f"an energy of about 10^{digits - 1} pJ is beyond what a float can hold (10^308)"
        raise BudgetError(Mistake("PM491", what, "Make the extents or the energies per access smaller.")) from None
