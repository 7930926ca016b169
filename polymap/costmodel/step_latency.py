"""Latency in steps: what every step of a level loads, works on and stores, in cycles (docs/latency.md).

Figures of a class of steps are means over it. A period is what the slowest resource takes, as loads, work and stores of
different steps run side by side where tiles have two slots; the first load and the last stores stand alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from polymap.costmodel.arrivals import FIRST
from polymap.costmodel.cost import StepClass, StepLatency
from polymap.costmodel.step_counts import AdvanceCounts, BusUse, StageCounts, StepCounts
from polymap.ir import Architecture, MemoryLevel

NOTHING = Fraction(0)
Taken = dict[str, tuple[Fraction, str]]  # of each bus its cycles, and what takes most of them


def latency_of_steps(arch: Architecture, counted: StepCounts) -> StepLatency:
    """Return the latency of a run whose steps are counted. arch: of beats and requests as they were counted."""
    levels = {level.name: level for level in arch.levels}
    inner: dict[int, Fraction] = {}  # advance -> the period of the next level inside
    begun: dict[int, int] = {}
    classes: list[StepClass] = []
    turns: dict[str, dict[int, Fraction]] = {level.name: {} for level in arch.levels if level.one_bus}
    run, stored = _computed(arch, counted), Fraction(0)
    for stage in reversed(counted.stages):
        own: list[StepClass] = []
        moved = {
            each.advance: (_taken(levels, each.loads, writes=False), _taken(levels, each.stores, writes=True))
            for each in stage.advances
        }
        work_of = _inside(inner, begun, stage)
        for bus, taken in turns.items():
            inside = _inside(taken, begun, stage)
            turns[bus] = {
                each.advance: _total(inside(each.advance), _turn(moved[each.advance], bus, each.steps))
                for each in stage.advances
            }
        for each in stage.advances:
            if inner:
                work = work_of(each.advance)
            else:
                work = _pass_cycles(arch, run / stage.steps, preloads=each.preloads)
            turn = max((taken[each.advance] for taken in turns.values()), default=NOTHING)
            own.append(_class_of(arch, levels, stage, each, moved[each.advance], work, turn))
        classes[:0] = own
        inner = {each.advance: one.period_cycles for each, one in zip(stage.advances, own, strict=True)}
        begun = {each.advance: each.steps for each in stage.advances}
        stored += _slowest(_taken(levels, stage.last, writes=True))[0]
    total = sum((begun[advance] * period for advance, period in inner.items()), Fraction(0))
    return StepLatency(
        arch.start_cycles + (total if counted.stages else _pass_cycles(arch, run, preloads=False)) + stored,
        tuple(classes),
    )


def _inside(cycles: dict[int, Fraction], begun: dict[int, int], stage: StageCounts) -> Callable[[int], Fraction]:
    """Return what a step of a stage that an advance begins takes in the next level inside, in the mean. cycles: of that
    level's steps by the advances that begin them; begun: how many there are."""
    again = _total(*(begun[i] * each for i, each in cycles.items() if i >= stage.depth))
    repeated = again / stage.steps if again else NOTHING
    return lambda advance: _total(cycles.get(advance, NOTHING), repeated)


def _total(*cycles: Fraction) -> Fraction:
    """Return the sum, without the work of adding nothing."""
    some = [each for each in cycles if each]
    return sum(some[1:], some[0]) if some else NOTHING


def _turn(moved: tuple[Taken, Taken], bus: str, steps: int) -> Fraction:
    """Return what a step takes of a bus on which loads and stores take turns."""
    cycles = _total(*(kind[bus][0] for kind in moved if bus in kind))
    return cycles / steps if cycles else NOTHING


def _computed(arch: Architecture, counted: StepCounts) -> Fraction:
    """Return the cycles that statement instances take: of the compute units, or of the levels that they access."""
    found = Fraction(counted.ticks, arch.compute.per_cycle)
    for name, read, written in counted.accesses:
        level = arch.levels[arch.level_index(name)]
        bands = _band(level, writes=False), _band(level, writes=True)
        found = max(
            found, sum((bits / band for bits, band in zip((read, written), bands, strict=True) if band), Fraction(0))
        )
    return found


def _pass_cycles(arch: Architecture, stream: Fraction, *, preloads: bool) -> Fraction:
    """Return what one visit of the innermost nodes computes for."""
    unit = arch.compute
    return max(stream, unit.pass_least_cycles) + unit.fill_cycles + (unit.preload_cycles if preloads else 0)


def _class_of(
    arch: Architecture,
    levels: dict[str, MemoryLevel],
    stage: StageCounts,
    each: AdvanceCounts,
    moved: tuple[Taken, Taken],
    work: Fraction,
    turn: Fraction,
) -> StepClass:
    """Return a class of steps of a stage. moved: its loads and stores; turn: what a step and those inside it take of a
    bus for both in turn."""
    (load, cause), store, issue = _slowest(moved[0]), _slowest(moved[1])[0], levels[stage.level].step_cycles
    load, store = (cycles / each.steps if cycles else NOTHING for cycles in (load, store))
    waits = max((levels[name].request_latency_cycles for name in moved[0]), default=NOTHING)
    if not (load or store or issue or waits):  # nothing but work
        return StepClass(stage.level, each.loop, each.steps, load, work, store, work, "work", cause)
    slots = max(2, levels[stage.level].buffering) if arch.overlap else 1
    in_turn = _total(load, work, store, waits)
    others = {"load": load, "store": store, "bus": turn, "issue": issue, "slots": in_turn / slots}
    found = {"work": work} | {name: cycles for name, cycles in others.items() if cycles}
    if each.advance == FIRST:  # work waits for the first load
        found = {"work": work, "load": load, "issue": issue if issue > load else NOTHING}
    binds = max(found, key=found.__getitem__)
    if each.advance == FIRST:
        period = in_turn - store + max(issue - load, NOTHING)
    else:
        period = found[binds] if slots > 1 else max(in_turn, issue)
    return StepClass(stage.level, each.loop, each.steps, load, work, store, period, binds, cause)


def _slowest(taken: Taken) -> tuple[Fraction, str]:
    """Return the cycles of the bus that takes longest, as buses move side by side, and what takes most of them."""
    nothing = NOTHING, ""
    return max(nothing, *taken.values(), key=lambda each: each[0]) if taken else nothing


def _taken(levels: dict[str, MemoryLevel], uses: Sequence[BusUse], *, writes: bool) -> Taken:
    """Return what each bus takes that is used."""
    used = [use for use in uses if use.beats]
    return {
        name: _taken_of(levels, [use for use in uses if use.level == name], writes=writes)
        for name in dict.fromkeys(use.level for use in used)
    }


def _taken_of(levels: dict[str, MemoryLevel], uses: Sequence[BusUse], *, writes: bool) -> tuple[Fraction, str]:
    """Return the cycles that the bus of one level takes, and what takes most of them."""
    level = levels[uses[0].level]
    band = _band(level, writes=writes)
    parts: list[tuple[Fraction, str]] = []
    for use in uses:
        beats = use.beats * (level.beat_bits or 1) / band if band is not None else NOTHING
        parts.append((beats, f"beats of {use.tensor} from {level.name}"))
        for name, lines in use.missed:
            parts.append((lines * _miss_cycles(levels[name], writes=writes), f"lines of {use.tensor} missed in {name}"))
    cycles = _total(*(each for each, _ in parts))
    if level.in_flight is not None and not writes:
        latency = level.request_latency_cycles
        waits = [(use.requests * latency, f"waits for requests of {use.tensor} to {level.name}") for use in uses]
        waiting = sum((each for each, _ in waits), cycles) / level.in_flight
        if waiting > cycles:
            cycles, parts = waiting, parts + waits
    return cycles, max(parts, key=lambda each: each[0])[1]


def _miss_cycles(cache: MemoryLevel, *, writes: bool) -> Fraction:
    return cache.miss_cycles if not writes or cache.write_miss_cycles is None else cache.write_miss_cycles


def _band(level: MemoryLevel, *, writes: bool) -> Fraction | None:
    own = level.write_bandwidth_bits_per_cycle if writes else level.read_bandwidth_bits_per_cycle
    return own or level.bandwidth_bits_per_cycle
