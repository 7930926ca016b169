"""Prices on capacity: what the least-cost chain would pay per bit so that all levels' tiles fit together.

A Lagrange bound: for prices >= 0 the least priced cost, minus price x capacity, is at most the cost of any chain that
fits. The prices are integers (over a fixed unit), so the bound is exact arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polymap.arithmetic import Kind
from polymap.search.dividing.bounds import (
    Inside,
    Move,
    Prices,
    State,
    costs_inside,
    final_cost,
    root_bound,
    usable_bits,
)
from polymap.search.dividing.branch_and_bound import Descent, Spot, start_spot, step, through
from polymap.search.dividing.cost_tables import Tables
from polymap.search.problem import most_costed

ROUNDS = 10
FIRST_ROUNDS = 3  # after these, prices that have closed less than a third of the way to the limit are not improved
FAR = 20  # a round that gains less than 1/FAR of what is missing is idle,
IDLE_ROUNDS = 3  # and after so many in a row no more are tried
FLOAT_BITS = 900  # prices are tried as floats, which end at 2^1024; costs that are longer go without


def shared_levels(tables: Tables) -> tuple[int, ...]:
    """Return the levels of limited capacity that more than one tensor may use."""
    problem = tables.problem
    return tuple(
        level
        for level in range(1, problem.level_count)
        if usable_bits(tables, level) is not None and sum(level in term.may_hold for term in problem.terms) > 1
    )


def cheapest_chain(descent: Descent, inside: Inside, unit: int, first: State) -> Spot:
    """Return the end of a least-cost chain (capacity of several tensors together not looked at)."""
    tables = descent.tables
    moves = descent.moves
    spot = start_spot(tables, first)
    while True:
        top = tables.lattice.index(dict(zip(tables.problem.dims, spot.tile, strict=True)))
        end = final_cost(tables, spot.state, 0)
        least = None if end is None else end * unit
        best: tuple[Move, int] | None = None
        for move in moves[spot.state]:
            total = through(inside, (move.tensor, move.edge, move.crossed), move.after, top).ravel()
            # The largest tile among the cheapest: nodes stand as high as they may.
            place = len(total) - 1 - int(np.argmin(total[::-1]))
            cost = inside.arithmetic.number(total[place])
            if cost is not None and (least is None or cost < least):
                least, best = cost, (move, place)
        if best is None:
            return spot
        move, flat = best
        index = tuple(int(x) for x in np.unravel_index(flat, [exponent + 1 for exponent in top]))
        spot = step(tables, spot, move.tensor, tables.tensors[move.tensor].edges[move.edge], move.after, index)


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """Prices with the least costs inside under them, the bound of component 0 and the first state that has it.

    Prices bar nothing: where something fits without them, it does with them.
    """

    prices: Prices
    inside: Inside
    bound: int
    first: State


def _tried(tables: Tables, wanted: dict[int, float], unit: int) -> _Trial:
    """Return what prices of about `wanted` per bit give."""
    capacity = [usable_bits(tables, level) or 0 for level in range(tables.problem.level_count)]
    # All that a chain holds costs at most a quarter of the limit, besides its own cost x unit (see _unit).
    nodes = 4 * len(tables.tensors) * tables.problem.level_count
    most = [tables.arithmetics[0].limit // (nodes * max(1, bits)) for bits in capacity]
    per_level = tuple(min(int(wanted.get(level, 0.0) * unit), top) for level, top in enumerate(most))
    inside = costs_inside(tables, 0, per_level, unit)
    allowance = sum(p * bits for p, bits in zip(per_level, capacity, strict=True))
    value, first = root_bound(tables, inside)
    assert value is not None
    return _Trial(Prices(per_level, unit, allowance), inside, -(-(value - allowance) // unit), first)


def _stepped(tables: Tables, wanted: dict[int, float], excess: dict[int, int], length: float) -> dict[int, float]:
    """Return the prices one step further: where more is held than fits they rise, by what `length` is worth."""
    shares = {level: bits / (usable_bits(tables, level) or 1) for level, bits in excess.items()}
    norm = sum(share**2 for share in shares.values()) or 1.0
    return {
        level: max(0.0, wanted[level] + length * share / norm / (usable_bits(tables, level) or 1))
        for level, share in shares.items()
    }


def _is_far(bound: int, best_bound: int, limit: int | None) -> bool:
    """Return whether less than a third of the way to the limit is closed."""
    return limit is not None and 3 * (best_bound - bound) < limit - bound


def improve_prices(
    descent: Descent, inside: Inside, limit: int | None, start: Prices | None = None
) -> tuple[Prices | None, bool, int]:
    """Return (best prices, whether the unpriced optimum fits, best bound of component 0).

    Subgradient steps towards the incumbent until a limit is reached; chains that fit are scored by the descent. limit:
    the value of component 0 that refutes the structure (None: no incumbent). start: prices of another structure.
    """
    tables, levels = descent.tables, shared_levels(descent.tables)
    bound, first = root_bound(tables, inside)
    assert bound is not None  # the structure's own bound was taken before
    unit = _unit(tables)
    wanted, trial = _started(tables, levels, None if limit is None else start, unit)
    if trial is not None and limit is not None and trial.bound >= limit:
        return trial.prices, False, trial.bound
    spot = cheapest_chain(descent, inside, 1, first)
    excess = _excess(tables, spot, levels)
    if all(bits <= 0 for bits in excess.values()):
        descent.finish(spot, thorough=False)
        return None, descent.window is None and descent.incumbent.keep == 1 and not tables.measure.limits, bound
    if max(bound, limit or 0).bit_length() > FLOAT_BITS:
        return None, False, bound
    best: Prices | None = None
    best_bound, idle, scale = bound, 0, 1.0
    scored = {spot.chain}
    for done in range(ROUNDS):
        far = done >= FIRST_ROUNDS and _is_far(bound, best_bound, limit)
        if idle == IDLE_ROUNDS or far or descent.incumbent.out_of_time():
            break
        if trial is None:
            target = limit if limit is not None else bound + bound // 20
            missing = max(target - best_bound, bound / 10_000)
            wanted = _stepped(tables, wanted, excess, scale * missing)
            trial = _tried(tables, wanted, unit)
        if (gain := trial.bound - best_bound) > 0 or best is None:
            best, best_bound = trial.prices, max(best_bound, trial.bound)
        else:
            scale /= 2
        idle = idle + 1 if limit is not None and gain * FAR < limit - best_bound else 0
        if limit is not None and best_bound >= limit:
            break
        spot = cheapest_chain(descent, trial.inside, unit, trial.first)
        excess = _excess(tables, spot, levels)
        if all(bits <= 0 for bits in excess.values()) and spot.chain not in scored:
            scored.add(spot.chain)
            descent.finish(spot, thorough=False)
        if all(bits == 0 or (bits < 0 and trial.prices.per_level[level] == 0) for level, bits in excess.items()):
            break
        trial = None
    return (best if best_bound > bound else None), False, best_bound


def _started(
    tables: Tables, levels: tuple[int, ...], start: Prices | None, unit: int
) -> tuple[dict[int, float], _Trial | None]:
    """Return the prices per bit to begin with, and what those that served another structure give."""
    if start is None or not any(start.per_level):
        return dict.fromkeys(levels, 0.0), None
    wanted = {level: start.per_level[level] / start.unit for level in levels}
    return wanted, _tried(tables, wanted, unit)


def _excess(tables: Tables, spot: Spot, levels: tuple[int, ...]) -> dict[int, int]:
    return {level: spot.used[level] - (usable_bits(tables, level) or 0) for level in levels}


def _unit(tables: Tables) -> int:
    """Return the power of two by which costs may be multiplied in int64; long costs need no fractions of prices."""
    arithmetic = tables.arithmetics[0]
    if arithmetic.kind is not Kind.NARROW:
        return 1
    problem, unit = tables.problem, 1
    most = most_costed(problem.workload, problem.arch, tables.measure.components[0])
    while unit < 1 << 12 and most * unit * 4 <= arithmetic.limit:
        unit *= 2
    return unit
