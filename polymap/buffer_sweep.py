"""Questions that take many searches: how large a buffer is worth its place."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil

from polymap.costmodel.analysis import BufferCurve, CurvePoint, compulsory_bits, least_traffic_bits
from polymap.explore import search
from polymap.inputs import as_integer
from polymap.ir import Architecture, MemoryLevel, Mistake, OptionError, Workload, did_you_mean
from polymap.search.objective import measure_of
from polymap.search.problem import analyse, parse_objective
from polymap.search.product_bounds import bound_products


def buffer_curve(
    workload: Workload,
    arch: Architecture,
    level: str,
    capacities_bits: Sequence[int],
    *,
    tiles: str = "divide",
    time_limit_s: float = 60,
    seed: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> BufferCurve:
    """Return the traffic at the outermost level against the size of `level`: what no schedule and no loop tree beats,
    and the best mapping found.

    The sizes share the time limit; with dividing tiles half of it goes to the bound over tiles of any size, where the
    best dividing mapping is not yet known to be the best of all. A mapping found for a smaller size is kept where the
    search of a larger one ended with a worse one; a bound for a larger size holds for a smaller one. Raises OptionError
    for an unknown level and sizes that are no integers of at least 1.
    """
    _check(arch, level, capacities_bits)
    sizes = sorted(set(capacities_bits))
    outermost = arch.levels[0].name
    end = clock() + time_limit_s
    found: list[CurvePoint] = []
    for number, size in enumerate(sizes):
        machine = _with_capacity(arch, level, size)
        share = max(0.1, (end - clock()) / (len(sizes) - number))
        found.append(_kept(found, _point(workload, machine, size, tiles, share, seed)))
    points: list[CurvePoint] = []
    for point in reversed(found):
        after = points[0] if points else point
        trees = max(after.bound_bits, point.bound_bits)
        points.insert(0, replace(point, schedule_bits=max(after.schedule_bits, point.schedule_bits), bound_bits=trees))
    for point in points:
        if point.best_bits is not None and point.best_bits < point.bound_bits:
            raise AssertionError("a mapping moves less than what no mapping can beat")
    compulsory = compulsory_bits(workload)
    return BufferCurve(workload.name, arch.name, level, outermost, tiles, compulsory, tuple(points))


def _point(
    workload: Workload, machine: Architecture, size: int, tiles: str, time_limit_s: float, seed: int
) -> CurvePoint:
    """Return what is known of one size."""
    objective = f"traffic:{machine.levels[0].name}"
    scheduled = bound = least_traffic_bits(workload, machine)
    share = time_limit_s / 2 if tiles == "divide" else time_limit_s
    result = search(workload, machine, objective, tiles, share, 1, seed)
    if tiles == "divide" and result.value is not None and result.value > bound:
        bound = max(bound, _bound_of_trees(workload, machine, objective, int(result.value), share, seed))
    elif tiles == "any" and result.bound is not None:
        bound = max(bound, _whole(result.bound))
    best = None if result.value is None else int(result.value)
    return CurvePoint(size, scheduled, bound, best, result.best, result.status)


def _bound_of_trees(
    workload: Workload, machine: Architecture, objective: str, value: int, time_limit_s: float, seed: int
) -> int:
    """Return what no loop tree beats, at most the value of a mapping; 0 where the search is not over structures."""
    problem, end = analyse(workload, machine), time.monotonic() + time_limit_s
    if problem.reason is not None:
        return 0
    measure = measure_of(parse_objective(objective, machine), workload, machine)
    found = bound_products(problem, measure, Fraction(value), lambda: time.monotonic() > end)
    if found is not None:
        return ceil(found)
    return _whole(search(workload, machine, objective, "any", time_limit_s, 1, seed).bound or 0)


def _whole(bound: int | float) -> int:
    """Return the least whole number of bits that a bound allows; a float may be its rounding."""
    return bound if isinstance(bound, int) else ceil(bound * (1 - 1e-12))


def _kept(before: Sequence[CurvePoint], point: CurvePoint) -> CurvePoint:
    """Return the point; with the mapping of the next smaller size where that moves less: it still fits."""
    if not before or before[-1].best_bits is None:
        return point
    smaller = before[-1]
    if point.best_bits is not None and point.best_bits <= before[-1].best_bits:
        return point
    return replace(point, best_bits=smaller.best_bits, best=smaller.best, status="FEASIBLE")


def _with_capacity(arch: Architecture, level: str, capacity_bits: int) -> Architecture:
    nodes = (
        replace(node, capacity_bits=capacity_bits) if isinstance(node, MemoryLevel) and node.name == level else node
        for node in arch.nodes
    )
    return replace(arch, nodes=tuple(nodes))


def _check(arch: Architecture, level: str, capacities_bits: Sequence[int]) -> None:
    mistakes: list[Mistake] = []
    known = [node.name for node in arch.levels[1:]]
    if level not in known:
        what = f"'{level}' is not a level below the outermost of '{arch.name}'"
        mistakes.append(Mistake("PM536", what, did_you_mean(level, known)))
    wrong = [size for size in capacities_bits if (as_integer(size) or 0) < 1]
    if wrong or not capacities_bits:
        what = f"a buffer size is {wrong[0]!r}" if wrong else "there are no buffer sizes"
        mistakes.append(Mistake("PM537", what, "Give sizes in bits, integers of at least 1."))
    if mistakes:
        raise OptionError(mistakes)
