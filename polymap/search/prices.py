"""Prices on capacity: what the least-cost chain would pay per bit so that all levels' tiles fit together.

A Lagrange bound: for prices >= 0 the least priced cost, minus price x capacity, is at most the cost of any chain that
fits. The prices are integers (over a fixed unit), so the bound is exact arithmetic.
"""

from __future__ import annotations

from math import prod

import numpy as np

from polymap.search.bound import (
    Inside,
    State,
    costs_inside,
    edges_from,
    final_cost,
    is_crossed,
    priced,
    root_bound,
    usable_bits,
)
from polymap.search.descent import Descent, Prices, Spot, start_spot, step
from polymap.search.tables import FORBIDDEN, Tables

ROUNDS = 10
FIRST_ROUNDS = 3  # after these, prices that have closed less than a third of the way to the limit are not improved


def shared_levels(tables: Tables) -> tuple[int, ...]:
    """Return the levels of limited capacity that more than one tensor may use."""
    problem = tables.problem
    return tuple(
        level
        for level in range(1, problem.level_count)
        if usable_bits(tables, level) is not None and sum(level in term.may_hold for term in problem.terms) > 1
    )


def cheapest_chain(descent: Descent, inside: Inside, prices: tuple[int, ...], unit: int, first: State) -> Spot:
    """Return the end of a least-cost chain under prices (capacity of several tensors together not looked at)."""
    tables = descent.tables
    spot = start_spot(tables, first)
    while True:
        top = tables.lattice.index(dict(zip(tables.problem.dims, spot.tile, strict=True)))
        region = tuple(slice(0, exponent + 1) for exponent in top)
        end = final_cost(tables, spot.state, 0)
        best = (FORBIDDEN if end is None else end * unit, None)
        for position, edge, after in edges_from(tables, spot.state):
            cost = np.broadcast_to(
                priced(tables, edge, 0, prices, unit, crossed=is_crossed(tables, spot.state, edge.level)),
                tables.lattice.shape,
            )[region]
            total = cost + inside.reach[after][region]
            # The largest tile among the cheapest: nodes stand as high as they may.
            flat = total.size - 1 - int(np.argmin(total.ravel()[::-1]))
            if int(total.ravel()[flat]) < best[0]:
                index = tuple(int(x) for x in np.unravel_index(flat, total.shape))
                best = (int(total.ravel()[flat]), (position, edge, after, index))
        if best[1] is None:
            return spot
        spot = step(tables, spot, *best[1])


def improve_prices(descent: Descent, inside: Inside, limit: int | None) -> tuple[Prices | None, bool, int]:
    """Return (best prices, whether the unpriced optimum fits, best bound of component 0).

    Subgradient steps towards the incumbent; every chain met that fits is scored by the descent. limit: the value of
    component 0 that refutes the structure (None: no incumbent).
    """
    tables = descent.tables
    levels = shared_levels(tables)
    bound, first = root_bound(tables, inside)
    spot = cheapest_chain(descent, inside, (0,) * tables.problem.level_count, 1, first)
    excess = _excess(tables, spot, levels)
    if all(bits <= 0 for bits in excess.values()):
        descent.finish(spot, thorough=False)
        alone = descent.incumbent.keep == 1 and not tables.measure.limits
        return None, descent.window is None and alone, bound
    unit = _unit(tables, bound)
    best: Prices | None = None
    best_bound = bound
    wanted = dict.fromkeys(levels, 0.0)
    scale = 1.0
    scored = {spot.chain}
    for done in range(ROUNDS):
        if done >= FIRST_ROUNDS and limit is not None and 3 * (best_bound - bound) < limit - bound:
            break
        target = limit if limit is not None else int(bound * 1.05)
        room = max(target - best_bound, bound * 1e-4)
        norm = sum((bits / (usable_bits(tables, level) or 1)) ** 2 for level, bits in excess.items()) or 1.0
        for level, bits in excess.items():
            cap = usable_bits(tables, level) or 1
            wanted[level] = max(0.0, wanted[level] + scale * room * bits / cap / norm / cap)
        prices = tuple(int(wanted.get(level, 0.0) * unit) for level in range(tables.problem.level_count))
        inner = costs_inside(tables, 0, prices, unit)
        allowance = sum(p * (usable_bits(tables, level) or 0) for level, p in enumerate(prices))
        value, first = root_bound(tables, inner)
        reached = -(-(value - allowance) // unit)
        if reached > best_bound or best is None:
            best, best_bound = Prices(prices, unit, allowance), max(best_bound, reached)
        else:
            scale /= 2
        if limit is not None and best_bound >= limit:
            break
        spot = cheapest_chain(descent, inner, prices, unit, first)
        excess = _excess(tables, spot, levels)
        if all(bits <= 0 for bits in excess.values()) and spot.chain not in scored:
            scored.add(spot.chain)
            descent.finish(spot, thorough=False)
        if all(bits == 0 or (bits < 0 and prices[level] == 0) for level, bits in excess.items()):
            break
    return (best if best_bound > bound else None), False, best_bound


def _excess(tables: Tables, spot: Spot, levels: tuple[int, ...]) -> dict[int, int]:
    return {level: spot.used[level] - (usable_bits(tables, level) or 0) for level in levels}


def _unit(tables: Tables, bound: int) -> int:
    """Return a power of two that leaves room in 64 bits for costs some hundred times the bound."""
    size = prod(tables.context.tiles[0])
    unit = 1
    while unit < 1 << 12 and max(bound, size) * unit * 2 < FORBIDDEN >> 8:
        unit *= 2
    return unit
