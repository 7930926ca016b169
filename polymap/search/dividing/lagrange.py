"""Lagrange multipliers on capacities: prices per bit under which the least-cost chain fits all levels.

A Lagrange bound: for multipliers >= 0 the least cost with them, minus multiplier x capacity, is at most the cost of any
chain that fits. The multipliers are integers (over a fixed unit), so the bound is exact arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from polymap.poly import Kind
from polymap.search.dividing.bounds import (
    FREE,
    Inside,
    Move,
    Multipliers,
    State,
    costs_inside,
    priced_final,
    root_bound,
    shared_levels,
    usable_bits,
)
from polymap.search.dividing.branch_and_bound import SearchNode, StructureSearch, costs_through, root_node, step
from polymap.search.dividing.chain import ChainNode
from polymap.search.dividing.cost_tables import Tables
from polymap.search.dividing.tuning import TUNING
from polymap.search.problem import most_costed

Wanted = dict[int, float]  # the price of a bit, per level that tensors share
Bits = dict[int, int]  # per level that tensors share


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
            total = costs_through(inside, move, top).ravel()
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
    per_level = [0] * tables.problem.level_count
    for level, price in wanted.items():
        per_level[level] = min(int(price * unit), _most_priced(tables, level))
    allowance = sum(price * (usable_bits(tables, level) or 0) for level, price in enumerate(per_level))
    multipliers = Multipliers(tuple(per_level), unit, allowance)
    inside = costs_inside(tables, 0, multipliers)
    value, first = root_bound(tables, inside)
    assert value is not None
    return _Trial(multipliers, inside, -((allowance - value) // unit), first)


def _most_priced(tables: Tables, level: int) -> int:
    """Return the highest price: all levels together then cost at most half of the limit, in addition to cost x unit."""
    nodes = len(tables.tensors) * tables.problem.level_count
    return tables.arithmetics[0].limit // (4 * nodes * max(1, usable_bits(tables, level) or 0))


def _next_wanted(wanted: Wanted, excess: Bits, usable: Bits, length: float) -> Wanted:
    """Return the prices after one subgradient step: those of overfull levels rise, in proportion to `length`."""
    room = {level: float(bits) or 1.0 for level, bits in usable.items()}
    shares = {level: float(bits) / room[level] for level, bits in excess.items()}
    norm = sum(share**2 for share in shares.values()) or 1.0
    return {level: max(0.0, wanted[level] + length * share / norm / room[level]) for level, share in shares.items()}


class Improvement(NamedTuple):
    """What multipliers come to.

    multipliers: those of the best bound (FREE: none are better than no prices). bound: the best one, of component 0.
    is_solved: the least-cost chain without prices fits, and it is scored.
    """

    multipliers: Multipliers
    bound: int
    is_solved: bool = False


def improve_multipliers(
    search: StructureSearch,
    inside: Inside,
    limit: int | None,
    *,
    scores: bool = True,
    rounds: int = TUNING.rounds,
) -> Improvement:
    """Return multipliers after subgradient steps towards the incumbent until a limit; chains that fit are scored.

    limit: the component 0 that refutes (None: no incumbent), towards which the incumbent's multipliers come first.
    scores: not for a group, which has no trees. rounds: multipliers that are tried, at most."""
    tables, unit = search.tables, _unit(search.tables)
    usable = {level: usable_bits(tables, level) or 0 for level in shared_levels(tables)}
    bound, first = root_bound(tables, inside)
    assert bound is not None  # the structure's own bound was taken before
    wanted, trial = _first_wanted(tables, usable, FREE if limit is None else search.incumbent.multipliers, unit)
    if trial is not None and limit is not None and trial.bound >= limit:
        return Improvement(trial.multipliers, trial.bound)
    cheapest = cheapest_chain(search, inside, FREE, first)
    excess = _excess(cheapest, usable)
    scored: set[tuple[ChainNode, ...]] | None = set() if scores else None
    _score_once(search, cheapest, excess, scored)
    if all(bits <= 0 for bits in excess.values()):
        is_solved = scores and search.window is None and search.incumbent.keep == 1 and not tables.measure.limits
        return Improvement(FREE, bound, is_solved=is_solved)
    if max(bound, limit or 0).bit_length() > TUNING.float_bits:
        return Improvement(FREE, bound)
    best: Multipliers | None = None
    best_bound, idle, scale = bound, 0, 1.0
    for _ in range(rounds):
        if idle == TUNING.idle_rounds or search.incumbent.out_of_time():
            break
        if trial is None:
            missing = max((bound + bound // 20 if limit is None else limit) - best_bound, bound / 10_000)
            trial = _trial_of(tables, wanted := _next_wanted(wanted, excess, usable, scale * missing), unit)
        if (gain := trial.bound - best_bound) > 0 or best is None:
            best, best_bound = trial.multipliers, max(best_bound, trial.bound)
        else:
            scale /= 2
        idle = idle + 1 if limit is not None and gain * TUNING.least_gain < limit - best_bound else 0
        if limit is not None and best_bound >= limit:
            break
        excess = _excess_at(search, trial, usable, scored)
        if _is_settled(excess, trial.multipliers):
            break
        trial = None
    return Improvement(best if best is not None and best_bound > bound else FREE, best_bound)


def _excess_at(
    search: StructureSearch,
    trial: _Trial,
    usable: Bits,
    scored: set[tuple[ChainNode, ...]] | None,
) -> Bits:
    """Return by how much a least-cost chain at multipliers exceeds each level, having scored it where it fits."""
    node = cheapest_chain(search, trial.inside, trial.multipliers, trial.first)
    excess = _excess(node, usable)
    _score_once(search, node, excess, scored)
    return excess


def _score_once(
    search: StructureSearch, node: SearchNode, excess: Bits, scored: set[tuple[ChainNode, ...]] | None
) -> None:
    """Score a whole chain that fits, unless that was done before (None: nothing is scored)."""
    if scored is not None and all(bits <= 0 for bits in excess.values()) and node.chain not in scored:
        scored.add(node.chain)
        search.finish(node, thorough=False)


def _first_wanted(tables: Tables, usable: Bits, start: Multipliers, unit: int) -> tuple[Wanted, _Trial | None]:
    """Return the initial prices, and the trial of those that served another structure."""
    wanted = {level: start.price(level) / start.unit for level in usable}
    return wanted, _trial_of(tables, wanted, unit) if any(start.per_level) else None


def _excess(node: SearchNode, usable: Bits) -> Bits:
    return {level: node.used[level] - bits for level, bits in usable.items()}


def _is_settled(excess: Bits, multipliers: Multipliers) -> bool:
    """Return whether no other multipliers give a higher bound: every priced level is full."""
    return all(bits == 0 or (bits < 0 and not multipliers.price(level)) for level, bits in excess.items())


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
