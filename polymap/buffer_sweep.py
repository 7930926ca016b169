"""Questions that take many searches: how large a buffer is worth its place."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil

from polymap.costmodel.analysis import BufferCurve, CurvePoint, compulsory_bits, least_traffic_bits
from polymap.explore import search
from polymap.inputs import as_integer, is_list, shown
from polymap.ir import Architecture, MemoryLevel, Mistake, OptionError, Workload, did_you_mean
from polymap.resolve import question_of
from polymap.search.problem import analyse, is_confirmed, parse_objective
from polymap.search.run import Hints, Options
from polymap.search.single_level import OfSize, solve_sizes


def buffer_curve(
    workload: Workload | str,
    arch: Architecture | str,
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

    Two levels without fan-outs and up to three tensors are solved for all sizes at once, whatever the limit (tiles of
    any size; with dividing tiles this gives the bounds). Else the sizes share the time limit; with dividing tiles half
    of it goes to the bound over tiles of any size, where the best dividing mapping is not yet known to be the best of
    all. A mapping found for a smaller size is kept where the search of a larger one ended with a worse one; a bound for
    a larger size holds for a smaller one. Raises OptionError for an unknown level and sizes that are no integers of at
    least 1.
    """
    workload, arch = question_of(workload, arch)
    sizes = sizes_of(arch, level, capacities_bits)
    Options(tiles=tiles, time_limit_s=time_limit_s, seed=seed).check()
    outermost = arch.levels[0].name
    end = clock() + time_limit_s
    at_once = solve_sizes(analyse(workload, arch), sizes) or [None] * len(sizes)
    found: list[CurvePoint] = []
    for number, (size, known) in enumerate(zip(sizes, at_once, strict=True)):
        machine = _with_capacity(arch, level, size)
        share = max(0.1, (end - clock()) / (len(sizes) - number))
        point = _known_point(workload, machine, size, known) if tiles == "any" else None
        if point is None:
            point = _point(workload, machine, size, tiles, share, seed, known, clock)
        found.append(_kept(found, point))
    points: list[CurvePoint] = []
    for point in reversed(found):
        after = points[0] if points else point
        trees = max(after.bound_bits, point.bound_bits)
        points.insert(0, replace(point, schedule_bits=max(after.schedule_bits, point.schedule_bits), bound_bits=trees))
    for point in points:
        if point.best_bits is not None and point.best_bits < point.bound_bits:
            raise AssertionError("a mapping moves less than what no mapping can beat")
    compulsory = compulsory_bits(workload)
    return BufferCurve(workload, arch, level, outermost, tiles, compulsory, tuple(points))


def _known_point(workload: Workload, machine: Architecture, size: int, known: OfSize | None) -> CurvePoint | None:
    """Return the point of a size that was solved with the others; None where it was not, or its mapping does not move
    what is claimed."""
    if known is None or known.best is None or known.value is None or known.bound is None:
        return None
    goal = parse_objective(f"traffic:{machine.levels[0].name}", machine)
    if known.bound > known.value or not is_confirmed(workload, machine, goal, known.best, (Fraction(known.value),)):
        return None
    scheduled = least_traffic_bits(workload, machine)
    bound = max(known.bound, scheduled)
    status = "OPTIMAL" if known.value == bound else "FEASIBLE"
    return CurvePoint(size, scheduled, bound, known.value, known.best, status)


def _point(
    workload: Workload,
    machine: Architecture,
    size: int,
    tiles: str,
    time_limit_s: float,
    seed: int,
    solved: OfSize | None,
    clock: Callable[[], float],
) -> CurvePoint:
    """Return what is known of one size. solved: what is known of it over tiles of any size."""
    scheduled = least_traffic_bits(workload, machine)
    known = scheduled if solved is None or solved.bound is None else max(scheduled, solved.bound)
    # A search over tiles of any size also answers over those that divide.
    is_known = solved is not None and solved.bound is not None
    divides = tiles == "divide" and (is_known or analyse(workload, machine).reason is not None)
    objective, hints = f"traffic:{machine.levels[0].name}", Hints(least=Fraction(known))
    asked = "divide" if divides else "any"
    limits = {"time_limit_s": time_limit_s, "clock": clock, "seed": seed, "hints": hints}
    result = search(workload, machine, objective, asked, **limits)
    own = result.dividing if tiles == "divide" and result.dividing is not None else result
    bound = known if divides else max(known, _whole(result.bound or 0))
    value = None if own.value is None else int(own.value)
    return CurvePoint(size, scheduled, bound, value, own.best, own.status)


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


def sizes_of(arch: Architecture, level: str, capacities_bits: Sequence[int]) -> list[int]:
    """Return the sizes, rising and each once. Raises OptionError for a level that is none below the outermost, and
    anything but a list of integers of at least 1."""
    mistakes: list[Mistake] = []
    known = [node.name for node in arch.levels[1:]]
    if level not in known:
        what = f"{shown(level)} is not a level below the outermost of '{arch.name}'"
        mistakes.append(Mistake("PM536", what, did_you_mean(str(level), known)))
    given: object = capacities_bits
    asked = list(given) if is_list(given) else []
    sizes = [as_integer(size) or 0 for size in asked]
    wrong = [size for size, known_size in zip(asked, sizes, strict=True) if known_size < 1]
    if wrong or not sizes:
        what = (
            f"a buffer size is {shown(wrong[0])}" if wrong else f"there are no buffer sizes: {shown(capacities_bits)}"
        )
        mistakes.append(Mistake("PM537", what, "Give sizes in bits, integers of at least 1."))
    if mistakes:
        raise OptionError(mistakes)
    return sorted(set(sizes))
