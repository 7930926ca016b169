"""Where the tiles of mappings below a goal can be: geometric programs with one box held further from the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log

import numpy as np

from polymap.arithmetic import FloatArray
from polymap.search.any_size.convex import CLOSE, ConvexBounds, OrderOptimum, ProgramBuilder
from polymap.search.any_size.geometric import solve
from polymap.search.any_size.node_costs import CostTables, HolderEdge
from polymap.search.any_size.regions import Region

MARGIN = 1e-9  # of logarithms of boxes, against rounding

# Per (tensor, edge) and dim the logarithms of the least and the greatest box of all siblings together.
Ranges = dict[tuple[int, int], tuple[tuple[float, float], ...]]


@dataclass(frozen=True, slots=True)
class _Probe:
    """The box of an order's node (at) in a dim (a number among those of several indices) is at least or at most so
    large (a logarithm)."""

    optimum: int
    at: int
    dim: int
    is_least: bool
    value: float


def tile_ranges_below(
    convex: ConvexBounds, region: Region, optima: Sequence[OrderOptimum], goal: float, is_over: Callable[[], bool]
) -> Ranges:
    """Return where boxes can be in mappings of these orders whose first component is below the goal, as far as there
    is time."""
    builder = convex.builder(region)
    probes = [probe for number, optimum in enumerate(optima) for probe in _probes(builder, number, optimum)]
    refuted: list[_Probe] = []
    for begin in range(0, len(probes), builder.tuning.programs_at_once):
        if is_over():
            break
        part = probes[begin : begin + builder.tuning.programs_at_once]
        bounds = _probe_bounds(builder, optima, part)
        refuted += [probe for probe, bound in zip(part, bounds, strict=True) if bound >= goal]
    return _union_of_ranges(builder, optima, refuted)


def _probes(builder: ProgramBuilder, number: int, optimum: OrderOptimum) -> list[_Probe]:
    found: list[_Probe] = []
    for at, tile in enumerate(optimum.tiles):
        for at_dim, d in enumerate(builder.variables.dims):
            top = log(builder.problem.extents[d])
            for ratio in builder.tuning.probe_ratios:
                more, less = log(tile[d]) + log(ratio), log(tile[d]) - log(ratio)
                if more < top:
                    found.append(_Probe(number, at, at_dim, is_least=True, value=more))
                if less > 0:
                    found.append(_Probe(number, at, at_dim, is_least=False, value=less))
    return found


def _probe_bounds(builder: ProgramBuilder, optima: Sequence[OrderOptimum], probes: Sequence[_Probe]) -> list[float]:
    """Return the least cost under each probe's condition (-inf where that is not known)."""
    variables = builder.variables
    numbers = [optima[probe.optimum].number for probe in probes]
    programs = builder.programs(numbers)
    lower, upper, start = programs.lower.copy(), programs.upper.copy(), programs.start.copy()
    empty = np.zeros(len(probes), dtype=bool)
    for p, probe in enumerate(probes):
        v = variables.node(probe.at).start + probe.dim
        if not probe.is_least:
            upper[p, v] = probe.value
            empty[p] = start[p, v] >= probe.value
            upper[p, v] = max(upper[p, v], start[p, v] + MARGIN)
            continue
        lower[p, v] = probe.value
        room = min(CLOSE, upper[p, v] - probe.value) / (probe.at + 3)
        for outer in range(probe.at + 1):
            own = variables.node(outer).start + probe.dim
            start[p, own] = max(start[p, own], probe.value + room * (probe.at - outer + 1))
    solved = solve(
        builder.with_eased_capacities(replace(programs, lower=lower, upper=upper, start=start)), builder.tuning
    )
    # Below the smallest tiles: not refuted here, the tables themselves have no such cells.
    return [-inf if none else bound for none, bound in zip(empty, builder.net_bounds(solved, numbers), strict=True)]


def _union_of_ranges(builder: ProgramBuilder, optima: Sequence[OrderOptimum], refuted: Sequence[_Probe]) -> Ranges:
    dims = len(builder.problem.dims)
    sides: dict[tuple[int, int, int], tuple[float, float]] = {}
    for probe in refuted:
        low, high = sides.get((probe.optimum, probe.at, probe.dim), (-inf, inf))
        side = (low, min(high, probe.value)) if probe.is_least else (max(low, probe.value), high)
        sides[probe.optimum, probe.at, probe.dim] = side
    found: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for number, optimum in enumerate(optima):
        for at, edge in enumerate(builder.orders.complete_orders[optimum.number][0]):
            known = found.setdefault(edge, [(inf, -inf)] * dims)
            for at_dim, d in enumerate(builder.variables.dims):
                low, high = sides.get((number, at, at_dim), (-inf, inf))
                known[d] = min(known[d][0], low), max(known[d][1], high)
    alone = set(range(dims)) - set(builder.variables.dims)
    return {
        edge: tuple((-inf, inf) if d in alone else side for d, side in enumerate(row))
        for edge, row in sorted(found.items())
    }


def tables_within(tables: CostTables, ranges: Ranges) -> CostTables:
    """Return the tables without the cells whose boxes lie outside the ranges."""
    tensors = tuple(
        replace(
            table,
            edges=tuple(
                _edge_within(tables, edge, ranges[t, number]) if (t, number) in ranges else edge
                for number, edge in enumerate(table.edges)
            ),
        )
        for t, table in enumerate(tables.tensors)
    )
    return replace(tables, tensors=tensors)


def _edge_within(tables: CostTables, edge: HolderEdge, sides: tuple[tuple[float, float], ...]) -> HolderEdge:
    costs: list[FloatArray] = []
    for unit, cost in enumerate(edge.costs):
        total = np.zeros(tables.shape(unit))
        for d, ends in enumerate(tables.ends[unit]):
            low, high = sides[d]
            least, most = (
                float(tables.region.factor_product(d, (0, unit), tables.problem, high=h)) for h in (False, True)
            )
            below = [float(ends[0]), *(float(end) for end in ends[:-1])]
            least_box = low if low == -inf else exp(low) * (1 - MARGIN)
            most_box = inf if high == inf else exp(high) * (1 + MARGIN)
            outside = [
                float(end) * most < least_box or before * least > most_box
                for before, end in zip(below, ends, strict=True)
            ]
            total = total + np.where(outside, inf, 0.0).reshape([-1 if e == d else 1 for e in range(total.ndim)])
        costs.append(cost + total)
    return replace(edge, costs=tuple(costs))
