"""Lagrange multipliers on capacities: prices per bit under which the least-cost chain fits all levels.

A Lagrange bound: for multipliers >= 0 the least cost with them, minus multiplier x capacity, is at most the cost of any
chain that fits. The multipliers are integers (over a fixed unit), so the bound is exact arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple

import numpy as np

from polymap.poly import FloatArray, Kind
from polymap.search.dividing.bounds import (
    Inside,
    Move,
    Multipliers,
    State,
    costs_inside,
    final_cost,
    priced_final,
    root_bound,
    shared_levels,
    usable_bits,
)
from polymap.search.dividing.branch_and_bound import BoundTables, SearchNode, StructureSearch, root_node, step, through
from polymap.search.dividing.chain import ChainNode
from polymap.search.dividing.cost_tables import Tables
from polymap.search.dividing.tuning import TUNING
from polymap.search.problem import (
    Tradeoff,
    has_estimate,
    lowered_sum,
    may_win,
    most_costed,
    slope_of,
    surely_below,
    tradeoff_of,
    weakest_cycles,
)


def cheapest_chain(search: StructureSearch, inside: Inside, multipliers: Multipliers, first: State) -> SearchNode:
    """Return the end of a least-cost chain; joint capacities of several tensors are ignored."""
    tables = search.tables
    moves = search.moves
    node = root_node(tables, first)
    while True:
        top = tables.lattice.index(dict(zip(tables.problem.dims, node.tile, strict=True)))
        least = priced_final(tables, node.state, 0, multipliers)
        best: tuple[Move, int] | None = None
        for move in moves[node.state]:
            total = through(inside, move, top).ravel()
            # The largest tile among the cheapest: nodes stand as high as they may.
            place = len(total) - 1 - int(np.argmin(total[::-1]))
            cost = inside.arithmetic.number(total[place])
            if cost is not None and (least is None or cost < least):
                least, best = cost, (move, place)
        if best is None:
            return node
        move, flat = best
        index = tuple(int(x) for x in np.unravel_index(flat, [exponent + 1 for exponent in top]))
        node = step(tables, node, move, index)


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """A resource that chains share: the bits of a level (component 0), or the throughput of a bandwidth in given
    cycles.

    The latter has a component above 0 and level -1. usable: how much there is, for a component without its start.
    """

    level: int
    component: int
    usable: int | Fraction

    def used(self, tables: Tables, node: SearchNode) -> int:
        """Return the amount that a whole chain takes."""
        if not self.component:
            return node.used[self.level]
        return node.parts[self.component] + (final_cost(tables, node.state, self.component) or 0)

    def price(self, multipliers: Multipliers) -> int:
        """Return its price in the multipliers (0: none)."""
        if not self.component:
            return multipliers.per_level[self.level]
        return multipliers.per_component[self.component] if multipliers.per_component else 0


Wanted = dict[Resource, float]
Excess = dict[Resource, int | Fraction]


def resources_of(tables: Tables, cycles: Fraction | None) -> tuple[Resource, ...]:
    """Return the levels that tensors share and, given cycles, the components that limit latency."""
    levels = [Resource(level, 0, usable_bits(tables, level) or 0) for level in shared_levels(tables)]
    if cycles is None:
        return tuple(levels)
    measure = tables.measure
    computed = cycles - tables.compute_cycles
    limiting = [
        Resource(
            -1,
            number,
            component.bandwidth * (cycles if measure.overlap and not component.in_turn else computed)
            - tables.start[number],
        )
        for number, component in enumerate(measure.components)
        if component.busiest and number
    ]
    return (*levels, *limiting)


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """Multipliers, the least costs inside under them, the bound of component 0, and the first state that attains it.

    Multipliers exclude nothing: if something fits without them, it fits with them.
    """

    multipliers: Multipliers
    inside: Inside
    bound: int
    first: State


def _trial_of(tables: Tables, wanted: Wanted, unit: int) -> _Trial:
    """Return the trial of multipliers of about `wanted`."""
    per_level, per_component = [0] * tables.problem.level_count, [0] * len(tables.measure.components)
    for resource, price in wanted.items():
        owner, at = (per_component, resource.component) if resource.component else (per_level, resource.level)
        owner[at] = min(int(price * unit), _most_priced(tables, resource, len(wanted)))
    allowance = sum(price * (usable_bits(tables, level) or 0) for level, price in enumerate(per_level))
    multipliers = Multipliers(tuple(per_level), unit, allowance, tuple(per_component) if any(per_component) else ())
    inside = costs_inside(tables, 0, multipliers)
    value, first = root_bound(tables, inside)
    assert value is not None
    free = floor(sum(resource.price(multipliers) * resource.usable for resource in wanted))
    return _Trial(multipliers, inside, -((free - value) // unit), first)


def _most_priced(tables: Tables, resource: Resource, count: int) -> int:
    """Return the highest price: all resources together then cost at most half of the limit, in addition to cost x
    unit."""
    limit = tables.arithmetics[0].limit
    if resource.component:
        problem = tables.problem
        most = most_costed(problem.workload, problem.arch, tables.measure.components[resource.component])
        return limit // (4 * count * most)
    nodes = len(tables.tensors) * tables.problem.level_count
    return limit // (4 * nodes * max(1, usable_bits(tables, resource.level) or 0))


def _next_wanted(wanted: Wanted, excess: Excess, length: float) -> Wanted:
    """Return the multipliers after one subgradient step: prices of overused resources rise, in proportion to
    `length`."""
    usable = {resource: float(resource.usable) or 1.0 for resource in excess}
    shares = {resource: float(amount) / usable[resource] for resource, amount in excess.items()}
    norm = sum(share**2 for share in shares.values()) or 1.0
    return {
        resource: max(0.0, wanted[resource] + length * share / norm / usable[resource])
        for resource, share in shares.items()
    }


class Improved(NamedTuple):
    """What multipliers come to.

    multipliers: those of the best bound (None: none are better than no prices). bound: the best one, of component 0.
    cheapest: the end of the least-cost chain without prices (None: not looked at). is_solved: that chain fits, and it
    is scored.
    """

    multipliers: Multipliers | None
    bound: int
    cheapest: SearchNode | None = None
    is_solved: bool = False


def improve_multipliers(
    search: StructureSearch,
    inside: Inside,
    limit: int | None,
    start: Multipliers | None = None,
    cycles: Fraction | None = None,
    *,
    scores: bool = True,
    rounds: int = TUNING.rounds,
) -> Improved:
    """Return multipliers after subgradient steps towards the incumbent until a limit; chains that fit are scored.

    limit: the component 0 that refutes (None: no incumbent). start: multipliers of another structure. cycles: an upper
    bound. scores: not for a group, which has no trees. rounds: multipliers that are tried, at most."""
    tables, resources, unit = search.tables, resources_of(search.tables, cycles), _unit(search.tables)
    bound, first = root_bound(tables, inside)
    assert bound is not None  # the structure's own bound was taken before
    wanted, trial = _first_wanted(tables, resources, None if limit is None else start, unit)
    if trial is not None and limit is not None and trial.bound >= limit:
        return Improved(trial.multipliers, trial.bound)
    cheapest = cheapest_chain(search, inside, Multipliers((), 1, 0), first)
    excess = _excess(tables, cheapest, resources)
    scored: set[tuple[ChainNode, ...]] | None = set() if scores else None
    _score_once(search, cheapest, excess, scored)
    if all(amount <= 0 for amount in excess.values()):
        is_solved = scores and search.window is None and search.incumbent.keep == 1 and not tables.measure.limits
        return Improved(None, bound, cheapest, is_solved=is_solved)
    if max(bound, limit or 0).bit_length() > TUNING.float_bits:
        return Improved(None, bound, cheapest)
    best: Multipliers | None = None
    best_bound, idle, scale = bound, 0, 1.0
    for _ in range(rounds):
        if idle == TUNING.idle_rounds or search.incumbent.out_of_time():
            break
        if trial is None:
            missing = max((bound + bound // 20 if limit is None else limit) - best_bound, bound / 10_000)
            trial = _trial_of(tables, wanted := _next_wanted(wanted, excess, scale * missing), unit)
        if (gain := trial.bound - best_bound) > 0 or best is None:
            best, best_bound = trial.multipliers, max(best_bound, trial.bound)
        else:
            scale /= 2
        idle = idle + 1 if limit is not None and gain * TUNING.least_gain < limit - best_bound else 0
        if limit is not None and best_bound >= limit:
            break
        excess = _excess_at(search, trial, resources, scored)
        if _is_settled(excess, trial.multipliers):
            break
        trial = None
    return Improved(best if best_bound > bound else None, best_bound, cheapest)


def _excess_at(
    search: StructureSearch,
    trial: _Trial,
    resources: tuple[Resource, ...],
    scored: set[tuple[ChainNode, ...]] | None,
) -> Excess:
    """Return by how much a least-cost chain at multipliers exceeds each resource, having scored it where it fits."""
    node = cheapest_chain(search, trial.inside, trial.multipliers, trial.first)
    excess = _excess(search.tables, node, resources)
    _score_once(search, node, excess, scored)
    return excess


def _score_once(
    search: StructureSearch, node: SearchNode, excess: Excess, scored: set[tuple[ChainNode, ...]] | None
) -> None:
    """Score a whole chain that fits, unless that was done before (None: nothing is scored)."""
    if scored is not None and _fits(excess) and node.chain not in scored:
        scored.add(node.chain)
        search.finish(node, thorough=False)


def _first_wanted(
    tables: Tables, resources: tuple[Resource, ...], start: Multipliers | None, unit: int
) -> tuple[Wanted, _Trial | None]:
    """Return the initial multipliers, and the trial of those that served another structure."""
    if start is None or not any((*start.per_level, *start.per_component)):
        return dict.fromkeys(resources, 0.0), None
    wanted = {resource: resource.price(start) / start.unit for resource in resources}
    return wanted, _trial_of(tables, wanted, unit)


def _excess(tables: Tables, node: SearchNode, resources: tuple[Resource, ...]) -> Excess:
    return {resource: resource.used(tables, node) - resource.usable for resource in resources}


def _is_settled(excess: Excess, multipliers: Multipliers) -> bool:
    """Return whether no other multipliers give a higher bound: every priced resource is fully used."""
    return all(amount == 0 or (amount < 0 and not r.price(multipliers)) for r, amount in excess.items())


def _fits(excess: Excess) -> bool:
    """Return whether no level is overfull; a chain may still take more cycles than given."""
    return all(amount <= 0 or resource.component for resource, amount in excess.items())


def tradeoff_multipliers(
    search: StructureSearch, bounds: BoundTables, start: tuple[Multipliers, ...]
) -> tuple[Multipliers, ...]:
    """Return multipliers whose bounds trade latency for energy; () where the measure has no use for them.

    First those for the least cycles, then for the cycles at which the known bounds give the least value. start: those
    of another structure.
    """
    tables, measure, incumbent = search.tables, search.tables.measure, search.incumbent
    powers = measure.goal.powers
    if powers is None or powers.energy != 1 or not has_estimate(measure, tables.compute_cycles):
        return ()
    first, *others = tables.arithmetics
    if first.kind is Kind.LONG or any(arithmetic.kind is not Kind.NARROW for arithmetic in others):
        return ()  # prices multiply counts of 63 bits
    whole = least_parts(bounds)
    least = cycles = float(measure.latency(whole, tables.compute_cycles))
    known = [(float(whole[0]), 0.0)]
    found: list[Multipliers] = []
    asked: set[float] = set()
    while len(found) < TUNING.tradeoffs and cycles not in asked and incumbent.value is not None:
        asked.add(cycles)
        energy = Fraction(incumbent.value) / Fraction(cycles) ** powers.cycles
        limit = ceil(energy - measure.leak * Fraction(cycles)) - measure.fixed_energy - tables.start[0]
        begin = start[len(found)] if len(found) < len(start) else None
        improved = improve_multipliers(search, bounds.insides[0], limit, begin, Fraction(cycles))
        multipliers, bound = improved.multipliers, improved.bound
        if multipliers is None or not multipliers.per_component:
            break
        found.append(multipliers)
        slope = float(slope_of(measure, multipliers))
        known.append((float(bound + tables.start[0]) + slope * cycles, slope))
        cycles = weakest_cycles(measure, least, known)
    return tuple(found)


def least_parts(bounds: BoundTables) -> tuple[int, ...]:
    """Return the least value of each component, its start included."""
    roots = (root_bound(bounds.tables, inside)[0] or 0 for inside in bounds.insides)
    return tuple(root + start for root, start in zip(roots, bounds.tables.start, strict=True))


def is_refuted(search: StructureSearch, bounds: BoundTables) -> bool:
    """Return whether, by the tradeoffs, nothing below the top beats the incumbent."""
    best, least = search.incumbent.value, traded_bound(bounds, search.multipliers)
    return best is not None and least is not None and not may_win(least, best).any()


def traded_bound(bounds: BoundTables, multipliers: tuple[Multipliers, ...]) -> FloatArray | None:
    """Return lower bounds on the values of all mappings below the top, from the bounds at the multipliers [1]; None
    without."""
    tables, measure = bounds.tables, bounds.tables.measure
    tradeoffs: list[Tradeoff] = []
    for one, inside in zip(multipliers, bounds.priced, strict=True):
        least = np.array([float(root_bound(tables, inside)[0] or 0)])
        spent = one.component_total(tables.start)
        tradeoffs.append(tradeoff_of(measure, one, least, spent, tables.compute_cycles))
    parts = [lowered_sum(np.array([float(part)]), 0) for part in least_parts(bounds)]
    return surely_below(measure, parts, tables.compute_cycles, tradeoffs)


def _unit(tables: Tables) -> int:
    """Return the power of two by which costs may be multiplied in int64; large costs need no fractions."""
    arithmetic = tables.arithmetics[0]
    if arithmetic.kind is not Kind.NARROW:
        return 1
    problem, unit = tables.problem, 1
    most = most_costed(problem.workload, problem.arch, tables.measure.components[0])
    while unit < 1 << 12 and most * unit * 4 <= arithmetic.limit:
        unit *= 2
    return unit
