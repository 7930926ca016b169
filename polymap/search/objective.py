"""What is minimised, as a function of linear measures of traffic ("components") that the search can bound one by one.

energy, traffic:LEVEL: one component. latency, edp: the energy and one component per bandwidth limit, measured at the
busiest instance. All component weights are integers (over a common denominator); the objective's value is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from math import ceil, lcm

from polymap.arch.machine import Architecture, MemoryLevel
from polymap.costmodel.cost import Cost
from polymap.errors import OptionError, Problem, did_you_mean
from polymap.workload.loopnest import Workload


class Goal(Enum):
    """What is minimised."""

    ENERGY = "energy"
    LATENCY = "latency"
    EDP = "edp"
    TRAFFIC = "traffic"


@dataclass(frozen=True, slots=True)
class Objective:
    """goal, and the level of TRAFFIC (bits read and written there); text as the user wrote it."""

    goal: Goal
    level: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Component:
    """A linear measure: the sum over levels and tensors of elements read x read[level][tensor] + written x write[..].

    busiest: of one instance, the first; else summed over all instances. bandwidth: bits per cycle, for a busiest one.
    """

    name: str
    read: tuple[tuple[int, ...], ...]
    write: tuple[tuple[int, ...], ...]
    busiest: bool
    bandwidth: Fraction


@dataclass(frozen=True, slots=True)
class Measure:
    """The objective compiled for one workload and machine: its components and how they become one number.

    energy_scale: component 0 of ENERGY and EDP is energy x energy_scale, without `fixed_energy` (compute, scaled).
    leak: energy x energy_scale per cycle.
    """

    goal: Goal
    components: tuple[Component, ...]
    energy_scale: int
    fixed_energy: int
    leak: int
    overlap: bool

    def latency(self, parts: tuple[int, ...], compute_cycles: int) -> int:
        """Return the cycles for the component values `parts` (one per component)."""
        by_level: dict[str, Fraction] = {}
        for part, component in zip(parts, self.components, strict=True):
            if component.busiest:
                cycles = Fraction(part) / component.bandwidth
                by_level[component.name] = max(cycles, by_level.get(component.name, cycles))
        if self.overlap:
            return max([compute_cycles, *(ceil(cycles) for cycles in by_level.values())])
        return ceil(compute_cycles + sum(by_level.values(), Fraction(0)))

    def value(self, parts: tuple[int, ...], compute_cycles: int) -> int:
        """Return the objective, scaled: ENERGY and EDP by energy_scale, LATENCY and TRAFFIC by 1.

        Monotone in every part, hence a valid bound when each part is a bound of its own.
        """
        if self.goal is Goal.TRAFFIC:
            return parts[0]
        if self.goal is Goal.LATENCY:
            return self.latency(parts, compute_cycles)
        if self.goal is Goal.ENERGY and not self.leak:
            return parts[0] + self.fixed_energy
        cycles = self.latency(parts, compute_cycles)
        energy = parts[0] + self.fixed_energy + self.leak * cycles
        return energy if self.goal is Goal.ENERGY else energy * cycles

    @property
    def is_linear(self) -> bool:
        """Return whether the objective is component 0 plus a constant."""
        return self.goal is Goal.TRAFFIC or (self.goal is Goal.ENERGY and not self.leak)

    def unscaled(self, value: int) -> Fraction:
        """Return the user's value (pJ, cycles, pJ*cycle or bits) of a scaled one."""
        return Fraction(value, self.energy_scale if self.goal in (Goal.ENERGY, Goal.EDP) else 1)


def parse_objective(text: str, arch: Architecture) -> Objective:
    """Return the objective named by `text`; OptionError PM501 for anything else, with the names that exist."""
    if text in ("energy", "latency", "edp"):
        return Objective(Goal(text), None, text)
    if text.startswith("traffic:"):
        level = text.removeprefix("traffic:")
        names = [known.name for known in arch.levels]
        if level in names:
            return Objective(Goal.TRAFFIC, level, text)
        hint = f"{did_you_mean(level, names)} Levels of '{arch.name}': {', '.join(names)}."
        raise OptionError(Problem("PM502", f"objective '{text}' names the level '{level}'", hint))
    known = ["energy", "latency", "edp", "traffic:LEVEL"]
    raise OptionError(Problem("PM501", f"unknown objective '{text}'", f"Use one of: {', '.join(known)}."))


def objective_value(workload: Workload, arch: Architecture, objective: Objective, cost: Cost) -> Fraction:
    """Return the objective of a cost, exactly, in its unit (pJ, cycles, pJ*cycle, bits)."""
    if objective.goal is Goal.LATENCY:
        return Fraction(cost.latency_cycles)
    if objective.goal is Goal.TRAFFIC:
        rows = (row for row in cost.traffic if row.level == objective.level)
        return Fraction(sum((row.reads + row.writes) * workload.tensor(row.tensor).bits for row in rows))
    levels = {level.name: level for level in arch.levels}
    energy = cost.instances * arch.compute.pj
    energy += sum((level.leak_pj_per_cycle for level in arch.levels), Fraction(0)) * cost.latency_cycles
    for row in cost.traffic:
        level = levels[row.level]
        share = Fraction(workload.tensor(row.tensor).bits, level.word_bits)
        energy += share * (row.reads * level.read_pj + row.writes * level.write_pj)
    return energy if objective.goal is Goal.ENERGY else energy * cost.latency_cycles


def measure_of(objective: Objective, workload: Workload, arch: Architecture) -> Measure:
    """Return the objective compiled for the workload on the machine."""
    scale = _energy_scale(workload, arch)
    instances = 1
    for dim in workload.dims:
        instances *= dim.extent
    leak = sum((level.leak_pj_per_cycle for level in arch.levels), Fraction(0)) * scale
    goal = objective.goal
    components: list[Component] = []
    if goal is Goal.TRAFFIC:
        components.append(_bits_component(workload, arch, objective.level or "", busiest=False))
    elif goal is not Goal.LATENCY:
        components.append(_energy_component(workload, arch, scale))
    if goal in (Goal.LATENCY, Goal.EDP) or (goal is Goal.ENERGY and leak):
        components.extend(_bandwidth_components(workload, arch))
    if not components:
        # Nothing limits the machine but compute: a component that is always zero still tells what fits.
        components.append(_bits_component(workload, arch, "", busiest=False))
    fixed = arch.compute.pj * instances * scale
    return Measure(goal, tuple(components), scale, int(fixed), int(leak), arch.overlap)


def _energy_scale(workload: Workload, arch: Architecture) -> int:
    scale = arch.compute.pj.denominator
    for level in arch.levels:
        scale = lcm(scale, level.leak_pj_per_cycle.denominator)
        for tensor in workload.tensors:
            share = Fraction(tensor.bits, level.word_bits)
            scale = lcm(scale, (level.read_pj * share).denominator, (level.write_pj * share).denominator)
    return scale


def _energy_component(workload: Workload, arch: Architecture, scale: int) -> Component:
    def weights(pj_of: dict[str, Fraction]) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple(int(pj_of[level.name] * Fraction(t.bits, level.word_bits) * scale) for t in workload.tensors)
            for level in arch.levels
        )

    reads = weights({level.name: level.read_pj for level in arch.levels})
    writes = weights({level.name: level.write_pj for level in arch.levels})
    return Component("energy", reads, writes, busiest=False, bandwidth=Fraction(1))


def _bits_component(
    workload: Workload,
    arch: Architecture,
    level_name: str,
    *,
    busiest: bool,
    bandwidth: Fraction = Fraction(1),
    reads: bool = True,
    writes: bool = True,
) -> Component:
    def rows(*, counted: bool) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple(t.bits if counted and level.name == level_name else 0 for t in workload.tensors)
            for level in arch.levels
        )

    return Component(f"bits:{level_name}", rows(counted=reads), rows(counted=writes), busiest, bandwidth)


def _bandwidth_components(workload: Workload, arch: Architecture) -> list[Component]:
    return [part for level in arch.levels for part in _level_components(workload, arch, level)]


def _level_components(workload: Workload, arch: Architecture, level: MemoryLevel) -> list[Component]:
    found: list[Component] = []
    if level.bandwidth_bits_per_cycle is not None:
        found.append(
            _bits_component(workload, arch, level.name, busiest=True, bandwidth=level.bandwidth_bits_per_cycle)
        )
    if level.read_bandwidth_bits_per_cycle is not None:
        band = level.read_bandwidth_bits_per_cycle
        found.append(_bits_component(workload, arch, level.name, busiest=True, bandwidth=band, writes=False))
    if level.write_bandwidth_bits_per_cycle is not None:
        band = level.write_bandwidth_bits_per_cycle
        found.append(_bits_component(workload, arch, level.name, busiest=True, bandwidth=band, reads=False))
    return found
