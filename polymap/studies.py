"""Questions that take many searches: how large a buffer is worth its place."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from polymap.arch.machine import Architecture, MemoryLevel
from polymap.costmodel.bounds import compulsory_bits
from polymap.costmodel.buffer_bound import BufferCurve, CurvePoint, least_traffic_bits
from polymap.errors import OptionError, Problem, did_you_mean
from polymap.inputs import as_integer
from polymap.schedules.mapping import Mapping
from polymap.search.search import search
from polymap.workload.loopnest import Workload


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
    """Return the traffic at the outermost level against the size of `level`: what no mapping beats, and the best found.

    The sizes share the time limit. A mapping found for a smaller size is kept where the search of a larger one ended
    with a worse one; a bound for a larger size holds for a smaller one. Raises OptionError for an unknown level and
    sizes that are no integers of at least 1.
    """
    _check(arch, level, capacities_bits)
    sizes = sorted(set(capacities_bits))
    outermost = arch.levels[0].name
    end = clock() + time_limit_s
    found: list[CurvePoint] = []
    for number, size in enumerate(sizes):
        machine = _with_capacity(arch, level, size)
        share = max(0.05, (end - clock()) / (len(sizes) - number))
        result = search(workload, machine, f"traffic:{outermost}", tiles, share, 1, seed)
        best, mapping, status = result.value, result.best, result.status
        bound = least_traffic_bits(workload, machine)
        if tiles == "any" and result.bound is not None:
            bound = max(bound, int(result.bound))
        if found:
            best, mapping, status = _better(found[-1], best, mapping, status)
        found.append(CurvePoint(size, bound, None if best is None else int(best), mapping, status))
    least = 0
    points: list[CurvePoint] = []
    for point in reversed(found):
        least = max(least, point.bound_bits)
        points.insert(0, replace(point, bound_bits=least))
    compulsory = compulsory_bits(workload)
    return BufferCurve(workload.name, arch.name, level, outermost, tiles, compulsory, tuple(points))


def _better(
    before: CurvePoint, best: int | float | None, mapping: Mapping | None, status: str
) -> tuple[int | float | None, Mapping | None, str]:
    """Return the search's answer, or that of the smaller size where it moves less: it still fits."""
    if before.best_bits is None or (best is not None and best <= before.best_bits):
        return best, mapping, status
    return before.best_bits, before.best, "FEASIBLE"


def _with_capacity(arch: Architecture, level: str, capacity_bits: int) -> Architecture:
    nodes = (
        replace(node, capacity_bits=capacity_bits) if isinstance(node, MemoryLevel) and node.name == level else node
        for node in arch.nodes
    )
    return replace(arch, nodes=tuple(nodes))


def _check(arch: Architecture, level: str, capacities_bits: Sequence[int]) -> None:
    problems: list[Problem] = []
    known = [node.name for node in arch.levels[1:]]
    if level not in known:
        what = f"'{level}' is not a level below the outermost of '{arch.name}'"
        problems.append(Problem("PM536", what, did_you_mean(level, known)))
    wrong = [size for size in capacities_bits if (as_integer(size) or 0) < 1]
    if wrong or not capacities_bits:
        what = f"a buffer size is {wrong[0]!r}" if wrong else "there are no buffer sizes"
        problems.append(Problem("PM537", what, "Give sizes in bits, integers of at least 1."))
    if problems:
        raise OptionError(problems)
