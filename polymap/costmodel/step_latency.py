"""Latency in steps: what every step of a level loads, works on and stores, in cycles (docs/latency.md).

Figures of a class of steps are means over it. A period is what the slowest resource takes, as loads, work and stores of
different steps run side by side where tiles have two slots; the first load and the last stores stand alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from polymap.costmodel.arrivals import FIRST
from polymap.costmodel.cost import StepClass, StepLatency
from polymap.costmodel.step_counts import AdvanceCounts, BusUse, StageCounts, StepCounts
from polymap.ir import Architecture, MemoryLevel

NOTHING = Fraction(0)


def latency_of_steps(arch: Architecture, counted: StepCounts) -> StepLatency:
    """Return the latency of a run whose steps are counted. arch: of beats and requests as they were counted."""
    run = _visits(arch, {level.name: level for level in arch.levels}, counted)
    return StepLatency(arch.start_cycles + run.cycles[FIRST], run.classes)


@dataclass(frozen=True, slots=True)
class _Visits:
    """The visits of a child of a branch, or the one of a tree: the cycles of one in the mean, by the loops whose
    advances begin them, and of them those of each bus on which loads and stores take turns."""

    cycles: dict[int, Fraction]
    turns: dict[str, dict[int, Fraction]]
    classes: tuple[StepClass, ...]


def _visits(arch: Architecture, levels: dict[str, MemoryLevel], counted: StepCounts) -> _Visits:
    """Return the visits of what is counted: the levels from the inside outwards."""
    inside, begun = _innermost(arch, levels, counted)
    inner, turns, classes = inside.cycles, inside.turns, [*inside.classes]
    visits = {each.advance: each.steps for each in counted.begun}
    stored, turned = NOTHING, dict.fromkeys(turns, NOTHING)
    for stage in reversed(counted.stages):
        own: list[StepClass] = []
        work_of = _inside(inner, begun, stage.depth, stage.steps)
        for bus, taken in turns.items():
            within = _inside(taken, begun, stage.depth, stage.steps)
            turns[bus] = {each.advance: within(each.advance) + _turn(levels, bus, each) for each in stage.advances}
            if stage.last:
                turned[bus] += _slowest(levels, [use for use in stage.last if use.level == bus], writes=True)[0]
        for each in stage.advances:
            turn = max((taken[each.advance] for taken in turns.values()), default=NOTHING)
            is_first = each.advance in visits
            own.append(_class_of(arch, levels, stage, each, work_of(each.advance), turn, is_first=is_first))
        classes[:0] = (
            [replace(each, below=", ".join(counted.statements)) for each in own] if counted.statements else own
        )
        inner = {each.advance: one.period_cycles for each, one in zip(stage.advances, own, strict=True)}
        begun = {each.advance: each.steps for each in stage.advances}
        stored += _slowest(levels, stage.last, writes=True)[0]
    often, depth = sum(visits.values()), max(visits) + 1

    def visit_of(cycles: dict[int, Fraction], last: Fraction) -> dict[int, Fraction]:
        each = _inside(cycles, begun, depth, often)
        return {advance: each(advance) + last / often for advance in visits}

    found = {bus: visit_of(taken, turned[bus]) for bus, taken in turns.items()}
    return _Visits(visit_of(inner, stored), found, tuple(classes))


def _innermost(
    arch: Architecture, levels: dict[str, MemoryLevel], counted: StepCounts
) -> tuple[_Visits, dict[int, int]]:
    """Return what runs inside all levels that are counted, and how many visits there are: the children of a branch one
    after the other, or passes."""
    buses = [level.name for level in arch.levels if level.one_bus]
    if not counted.children:
        steps = counted.stages[-1].advances if counted.stages else counted.begun
        often = sum(each.steps for each in steps)
        run = _compute_cycles(arch, counted) / often
        preloads = {each.advance: each.preloads for each in steps}
        cycles = {advance: _pass_cycles(arch, run, preloads=changes) for advance, changes in preloads.items()}
        turns = {bus: dict.fromkeys(cycles, NOTHING) for bus in buses}
        return _Visits(cycles, turns, ()), {each.advance: each.steps for each in steps}
    children = [_visits(arch, levels, each) for each in counted.children]
    begun = {each.advance: each.steps for each in counted.children[0].begun}
    return _Visits(
        {advance: sum((each.cycles[advance] for each in children), NOTHING) for advance in begun},
        {bus: {i: sum((each.turns[bus][i] for each in children), NOTHING) for i in begun} for bus in buses},
        tuple(one for each in children for one in each.classes),
    ), begun


def _inside(cycles: dict[int, Fraction], begun: dict[int, int], depth: int, steps: int) -> Callable[[int], Fraction]:
    """Return what one of so many steps below `depth` temporal loops that an advance begins takes in the next level
    inside, in the mean. cycles: of that level's steps by the advances that begin them; begun: how many there are."""
    repeated = sum((begun[i] * each for i, each in cycles.items() if i >= depth), NOTHING) / steps
    return lambda advance: cycles.get(advance, NOTHING) + repeated


def _turn(levels: dict[str, MemoryLevel], bus: str, each: AdvanceCounts) -> Fraction:
    """Return what a step takes of a bus on which loads and stores take turns."""
    kinds = (each.loads, False), (each.stores, True)
    cycles = (_slowest(levels, [use for use in uses if use.level == bus], writes=w)[0] for uses, w in kinds)
    return sum(cycles, NOTHING) / each.steps


def _compute_cycles(arch: Architecture, counted: StepCounts) -> Fraction:
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
    work: Fraction,
    turn: Fraction,
    *,
    is_first: bool,
) -> StepClass:
    """Return a class of steps. turn: what a step and those inside it take of a bus for loads and stores in turn;
    is_first: whether they are the first ones of the run, or of visits of a child of a branch."""
    load, cause = _slowest(levels, each.loads, writes=False)
    load, store = load / each.steps, _slowest(levels, each.stores, writes=True)[0] / each.steps
    issue = levels[stage.level].step_cycles
    waits = max((levels[use.level].request_latency_cycles for use in each.loads if use.beats), default=NOTHING)
    if not (load or store or issue or waits):  # nothing but work
        return StepClass(stage.level, each.loop, each.steps, load, work, store, work, "work", cause)
    slots = max(2, levels[stage.level].buffering) if arch.overlap else 1
    in_turn = load + work + store + waits
    found = {"work": work, "load": load, "store": store, "bus": turn, "issue": issue, "slots": in_turn / slots}
    if is_first:  # work waits for the first load
        period = in_turn - store + max(issue - load, Fraction(0))
        found = {"work": work, "load": load, "issue": issue if issue > load else Fraction(0)}
    else:
        period = max(found.values()) if slots > 1 else max(in_turn, issue)
    binds = max(found, key=lambda name: found[name])
    return StepClass(stage.level, each.loop, each.steps, load, work, store, period, binds, cause)


def _slowest(levels: dict[str, MemoryLevel], uses: Sequence[BusUse], *, writes: bool) -> tuple[Fraction, str]:
    """Return the cycles of the bus that takes longest, as buses move side by side, and what takes most of them."""
    found = NOTHING, ""
    for name in dict.fromkeys(use.level for use in uses if use.beats):
        taken = _bus_cycles(levels, [use for use in uses if use.level == name], writes=writes)
        found = max(found, taken, key=lambda each: each[0])
    return found


def _bus_cycles(levels: dict[str, MemoryLevel], uses: Sequence[BusUse], *, writes: bool) -> tuple[Fraction, str]:
    """Return the cycles that the bus of one level takes, and what takes most of them."""
    level = levels[uses[0].level]
    band = _band(level, writes=writes)
    parts: list[tuple[Fraction, str]] = []
    for use in uses:
        beats = use.beats * (level.beat_bits or 1) / band if band is not None else NOTHING
        parts.append((beats, f"beats of {use.tensor} from {level.name}"))
        for name, lines in use.missed:
            parts.append((lines * _miss_cycles(levels[name], writes=writes), f"lines of {use.tensor} missed in {name}"))
    cycles = sum((each for each, _ in parts), NOTHING)
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
