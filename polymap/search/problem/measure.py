"""Objectives compiled for one workload and machine: linear components, and the function from these to one integer.

energy, traffic:LEVEL, capacity:LEVEL have one component. Objectives with latency (latency, edp, ed2p) have the energy,
if it enters, and one component per bandwidth limit, measured at the busiest instance. Weighted sums, orders and fronts
share the components of their parts. All weights are integers over a common denominator, so values are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, lcm, prod

from polymap.costmodel import Cost, LaidTensor, check_pieces, least_laid, pieces_of
from polymap.ir import Architecture, Workload
from polymap.search.problem.components import (
    Component,
    bandwidth_components,
    bits_component,
    energy_component,
    held_component,
    weighted_sum,
    wire_energies,
)
from polymap.search.problem.goals import in_sums
from polymap.search.problem.magnitudes import most_costed
from polymap.search.problem.objectives import PIECES, Goal, Objective


def packed_value(values: tuple[int, ...], digit: int) -> int:
    """Return the values as one integer, ordered lexicographically (values below 0 count as 0).

    Each is below 2^digit; the first has the highest `digit` bits. `part_values` is the inverse.
    """
    total = 0
    for value in values:
        total = (total << digit) + max(value, 0)
    return total


def part_values(value: int, count: int, digit: int) -> tuple[int, ...]:
    """Return the `count` values that `packed_value` joined."""
    return tuple(value >> digit * (count - 1 - place) & (1 << digit) - 1 for place in range(count))


@dataclass(frozen=True, slots=True)
class Share:
    """A measure inside a measure. weight: in a sum. components: the positions of its components among those of the
    whole."""

    weight: int
    measure: Measure
    components: tuple[int, ...]

    def value(self, parts: tuple[int, ...], compute_cycles: int) -> int:
        """Return the value of the measure, without its weight."""
        return self.measure.value(tuple(parts[c] for c in self.components), compute_cycles)


@dataclass(frozen=True, slots=True)
class Limit:
    """A share whose (scaled) value must be at most `most`."""

    share: Share
    most: int


@dataclass(frozen=True, slots=True)
class Measure:
    """The objective compiled for one workload and machine.

    energy_scale: if energy enters, component 0 is energy x energy_scale without `fixed_energy` (of compute, scaled);
    the same for a linear weighted sum. leak: energy x energy_scale per cycle. shares: the parts of a weighted sum (then
    values are x energy_scale), an order or a front. limits: checked by `value_within_limits`. digit: bits per part of
    an order's or a front's value.
    """

    goal: Goal
    components: tuple[Component, ...]
    energy_scale: int
    fixed_energy: int
    leak: int
    overlap: bool
    shares: tuple[Share, ...] = ()
    limits: tuple[Limit, ...] = ()
    digit: int = 0

    def latency(self, parts: tuple[int, ...], compute_cycles: int) -> int:
        """Return the cycles for the component values `parts` (one per component)."""
        limited = [
            (part * component.bandwidth.denominator, component.bandwidth.numerator, component)
            for part, component in zip(parts, self.components, strict=True)
            if component.busiest
        ]
        if self.overlap:
            waits = [compute_cycles if component.in_turn else 0 for _, _, component in limited]
            taken = [-(-bits // each) for bits, each, _ in limited]
            return max(compute_cycles, *map(sum, zip(waits, taken, strict=True)), 0)
        by_level: dict[str, Fraction] = {}
        for bits, each, component in limited:
            cycles = Fraction(bits, each)
            by_level[component.name] = max(cycles, by_level.get(component.name, Fraction(0)))
        return ceil(compute_cycles + sum(by_level.values(), Fraction(0)))

    def value(self, parts: tuple[int, ...], compute_cycles: int) -> int:
        """Return the objective, scaled: WEIGHTED by energy_scale, energy^a * latency^b by energy_scale^a, others by 1.

        Of an order or a front: `packed_value` of its parts. Limits are not checked. The value is monotone in every
        part, so lower bounds on the parts give a lower bound.
        """
        if self.shares:
            values = tuple(share.value(parts, compute_cycles) for share in self.shares)
            if self.goal is Goal.WEIGHTED:
                return sum(share.weight * value for share, value in zip(self.shares, values, strict=True))
            return packed_value(values, self.digit)
        if self.is_linear:
            return parts[0] + self.fixed_energy
        powers = self.goal.powers
        assert powers is not None, "other objectives are linear or have shares"
        cycles = self.latency(parts, compute_cycles)
        product = cycles**powers.cycles
        if powers.energy:
            # A bound of the energy may be below 0, whose square would be no bound.
            product *= max(parts[0] + self.fixed_energy + self.leak * cycles, 0) ** powers.energy
        return product

    def value_within_limits(self, parts: tuple[int, ...], compute_cycles: int) -> int | None:
        """Return the objective, scaled; None where a limit is exceeded (then so it is for all larger parts)."""
        if any(limit.share.value(parts, compute_cycles) > limit.most for limit in self.limits):
            return None
        return self.value(parts, compute_cycles)

    @property
    def is_linear(self) -> bool:
        """Whether the objective, limits aside, is component 0 plus a constant."""
        if self.goal in (Goal.TRAFFIC, Goal.CAPACITY):
            return True
        return not self.shares and (self.goal is Goal.WEIGHTED or (self.goal is Goal.ENERGY and not self.leak))

    @property
    def degree(self) -> int:
        """The largest number of components that are multiplied in the value."""
        powers = self.goal.powers
        own = powers.energy + powers.cycles if powers else 1
        return max([own, *(share.measure.degree for share in (*self.shares, *(limit.share for limit in self.limits)))])

    @property
    def is_front(self) -> bool:
        """Whether the values of the parts are compared separately."""
        return self.goal is Goal.PARETO

    def values(self, value: int) -> tuple[int, ...]:
        """Return the scaled values in one: of the parts of an order or a front, else the value itself."""
        if self.goal in (Goal.LEXICOGRAPHIC, Goal.PARETO):
            return part_values(value, len(self.shares), self.digit)
        return (value,)

    def unscaled(self, value: int) -> Fraction:
        """Return the value in the objective's unit; of an order or a front the first part's."""
        return self.unscaled_values(value)[0]

    def unscaled_values(self, value: int) -> tuple[Fraction, ...]:
        """Return the values in their units: of the parts of an order or a front, else of the one objective."""
        if self.goal in (Goal.LEXICOGRAPHIC, Goal.PARETO):
            each = zip(self.shares, self.values(value), strict=True)
            return tuple(share.measure.unscaled(own) for share, own in each)
        powers = self.goal.powers
        exponent = powers.energy if powers else int(self.goal is Goal.WEIGHTED)
        return (Fraction(value, self.energy_scale**exponent),)


def objective_value(workload: Workload, arch: Architecture, objective: Objective, cost: Cost) -> Fraction:
    """Return the exact objective of a cost, in its unit; of an order or a front the first part's."""
    powers = objective.goal.powers
    if powers:
        return powers.product(cost.energy_pj_exact, Fraction(cost.latency_cycles))
    match objective.goal:
        case Goal.TRAFFIC:
            rows = (row for row in cost.traffic if row.level == objective.level)
            return Fraction(sum((row.reads + row.writes) * workload.tensor(row.tensor).bits for row in rows))
        case Goal.CAPACITY:
            return Fraction(dict(cost.occupancy_bits)[objective.level or ""])
        case Goal.BURSTS | Goal.REQUESTS:
            return Fraction(sum(each.read + each.written for each in lay_out_tensors(workload, arch, objective, cost)))
        case Goal.WEIGHTED:
            each = ((weight, objective_value(workload, arch, part, cost)) for weight, part in objective.parts)
            return sum((weight * value for weight, value in each), Fraction(0))
        case _:
            return objective_value(workload, arch, objective.singles[0], cost)


def objective_values(workload: Workload, arch: Architecture, objective: Objective, cost: Cost) -> tuple[Fraction, ...]:
    """Return the values of the parts of an order or a front, else the one value."""
    return tuple(objective_value(workload, arch, one, cost) for one in objective.singles)


def lay_out_tensors(workload: Workload, arch: Architecture, objective: Objective, cost: Cost) -> tuple[LaidTensor, ...]:
    """Return the layout of every tensor with the fewest bursts (or requests) of those that it may have, in the
    workload's order. cost: with its mapping."""
    assert cost.mapping is not None, "a cost that is compared knows its mapping"
    pieces = pieces_of(arch.levels[0], arch.name, of_runs=objective.goal is Goal.REQUESTS)
    return tuple(least_laid(workload, arch, cost.mapping, cost, pieces, dict(objective.laid)))


def check_laid(workload: Workload, arch: Architecture, objective: Objective) -> None:
    """Raise OptionError where bursts or requests of an objective are not counted: PM470 (layouts), PM471, PM473."""
    for _, part in objective.parts:
        check_laid(workload, arch, part)
    if objective.goal in PIECES:
        pieces = pieces_of(arch.levels[0], arch.name, of_runs=objective.goal is Goal.REQUESTS)
        check_pieces(workload, pieces, dict(objective.laid))


def measure_of(objective: Objective, workload: Workload, arch: Architecture) -> Measure:
    """Return the objective compiled for the workload on the machine; of bursts and requests what bounds them."""
    if objective.is_of_pieces:
        objective = in_sums(arch, objective)
    if objective.parts:
        return _measure_of_parts(objective, workload, arch)
    scale = _energy_scale(workload, arch)
    instances = 1
    for dim in workload.dims:
        instances *= dim.extent
    leak = sum((level.leak_pj_per_cycle for level in arch.levels), Fraction(0)) * scale
    goal, powers = objective.goal, objective.goal.powers
    components: list[Component] = []
    if goal is Goal.TRAFFIC:
        components.append(bits_component(workload, arch, objective.level or "", busiest=False))
    elif goal is Goal.CAPACITY:
        components.append(held_component(workload, arch, objective.level or ""))
    if powers and powers.energy:
        components.append(energy_component(workload, arch, scale))
    if powers and (powers.cycles or leak):
        components.extend(bandwidth_components(workload, arch))
    if not components:
        # Nothing limits the machine but compute: a component that is always zero still tells what fits.
        components.append(bits_component(workload, arch, "", busiest=False))
    fixed = arch.compute.pj * instances * scale if powers and powers.energy else Fraction(0)
    return Measure(goal, tuple(components), scale, int(fixed), int(leak), arch.overlap)


def _measure_of_parts(objective: Objective, workload: Workload, arch: Architecture) -> Measure:
    measures = [measure_of(part, workload, arch) for _, part in objective.parts]
    # A weight per scaled value, and then integers: value x scale = sum of weight x scaled value.
    each = [weight * one.unscaled(1) for (weight, _), one in zip(objective.parts, measures, strict=True)]
    scale = lcm(*(weight.denominator for weight in each))
    weights = [int(weight * scale) for weight in each]
    if objective.goal is Goal.WEIGHTED and all(one.is_linear for one in measures):
        pairs = list(zip(weights, measures, strict=True))
        joined = weighted_sum([(weight, one.components[0]) for weight, one in pairs])
        fixed = sum(weight * one.fixed_energy for weight, one in pairs)
        return Measure(Goal.WEIGHTED, (joined,), scale, fixed, 0, arch.overlap)
    digit = max(_largest_value(one, workload, arch).bit_length() for one in measures)
    whole = Measure(objective.goal, (), scale, 0, 0, arch.overlap, digit=digit)
    for weight, one in zip(weights, measures, strict=True):
        whole, share = _with_share(whole, one, weight)
        whole = replace(whole, shares=(*whole.shares, share))
    return whole


def _largest_value(measure: Measure, workload: Workload, arch: Architecture) -> int:
    """Return an upper bound on the values of a measure without parts."""
    parts = tuple(most_costed(workload, arch, component) for component in measure.components)
    cycles = prod(dim.extent for dim in workload.dims)
    return measure.value(parts, cycles)


def _with_share(whole: Measure, part: Measure, weight: int = 1) -> tuple[Measure, Share]:
    """Return the measure with another one's components added, and the other one as a share of it."""
    components = tuple(dict.fromkeys((*whole.components, *part.components)))
    places = tuple(components.index(component) for component in part.components)
    return replace(whole, components=components), Share(weight, part, places)


def measure_with_limit(measure: Measure, part: Measure, most: Fraction) -> Measure:
    """Return the measure with the limit that the value of `part` (no order or front) is at most `most`."""
    whole, share = _with_share(measure, part)
    return replace(whole, limits=(*whole.limits, Limit(share, int(most / part.unscaled(1)))))


def _energy_scale(workload: Workload, arch: Architecture) -> int:
    scale = arch.compute.pj.denominator
    for level in arch.levels:
        scale = lcm(scale, level.leak_pj_per_cycle.denominator)
        for share in sorted({Fraction(tensor.bits, level.word_bits) for tensor in workload.tensors}):
            scale = lcm(scale, (level.read_pj * share).denominator, (level.write_pj * share).denominator)
    wires = wire_energies(workload, arch) if arch.has_wire_energies else ()
    return lcm(scale, *(price.denominator for row in wires for prices in row for price in prices))
