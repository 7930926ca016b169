"""Traffic at the outermost level against the size of a buffer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from polymap.costmodel import BufferCurve, CurvePoint, compulsory_bits, least_traffic_bits
from polymap.explore import search
from polymap.inputs import answers_in_words, as_bits, is_list, shown
from polymap.ir import Architecture, Branch, Mapping, MemoryLevel, Mistake, OptionError, Workload, did_you_mean
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of
from polymap.search import Hints, Options, among, most_refunded_bits, solve_product_sizes, weakest
from polymap.search.problem import analyse, is_confirmed, parse_objective
from polymap.search.programs import nest_programs
from polymap.search.single_level import OfSize, solve_sizes


@answers_in_words
def buffer_curve(
    workload: WorkloadLike,
    arch: ArchitectureLike,
    level: str,
    capacities_bits: Sequence[int | str],
    *,
    tiles: str = "divide",
    time_limit_s: float = 60,
    seed: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> BufferCurve:
    """Return the traffic at the outermost level against the size of `level`: what no schedule and no loop tree beats,
    and the best mapping found; of a program of several nests also with every nest as a program of its own (`unfused`).

    Two levels without fan-outs and up to three tensors, or products in a row, are solved for all sizes at once,
    whatever the limit (tiles of any size; with dividing tiles this gives the bounds). Else the sizes share the time
    limit; with dividing tiles half of it goes to the bound over tiles of any size, where the best dividing mapping is
    not yet known to be the best of all. Of a program the nests have at most half of the limit; that no tree beats their
    bounds, less what need not pass through the outermost level, bounds the fused trees (docs/program_space.md). A
    mapping found for a smaller size is kept where the search of a larger one ended with a worse one; a bound for a
    larger size holds for a smaller one.
    Raises OptionError for an unknown level and sizes that are no integers of at least 1.
    """
    workload, arch = question_of(workload, arch)
    sizes = sizes_of(arch, level, capacities_bits)
    Options(tiles=tiles, time_limit_s=time_limit_s, seed=seed).check()
    asked = _Asked(arch, level, tuple(sizes), tiles, seed, clock)
    begin, nests = clock(), nest_programs(workload)
    alone = _alone(asked, nests, begin + time_limit_s / 2) if len(nests) > 1 else []
    unfused = _unfused(asked, workload, alone) if alone else ()
    floors = _floors(workload, nests, unfused) if unfused else [0] * len(sizes)
    points = _points(asked, workload, begin + time_limit_s, floors, alone)
    if unfused:
        points = tuple(_better(point, apart) for point, apart in zip(points, unfused, strict=True))
    compulsory = compulsory_bits(workload)
    return BufferCurve(workload, arch, level, arch.levels[0].name, tiles, compulsory, points, unfused)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked of a workload: the level, its sizes in bits, rising, and how the search goes."""

    arch: Architecture
    level: str
    sizes: tuple[int, ...]
    tiles: str
    seed: int
    clock: Callable[[], float]

    def machines(self) -> tuple[Architecture, ...]:
        """Return the machine with each size of the level."""
        return tuple(with_capacity(self.arch, self.level, size) for size in self.sizes)


def _points(
    asked: _Asked, workload: Workload, end: float, floors: Sequence[int], alone: Sequence[Sequence[CurvePoint]] = ()
) -> tuple[CurvePoint, ...]:
    """Return the points of a workload until a time. floors: of each size, what is known that no tree beats. alone: the
    points of its nests."""
    nests = [[OfSize(point.bound_bits, point.best, point.best_bits) for point in points] for points in alone]
    is_asked = bool(nests) and asked.tiles == "any"
    trees = solve_product_sizes(workload, asked.arch, nests, asked.sizes) if is_asked else None
    at_once = solve_sizes(analyse(workload, asked.arch), asked.sizes) or [None] * len(asked.sizes)
    found: list[CurvePoint] = []
    for number, (machine, known) in enumerate(zip(asked.machines(), at_once, strict=True)):
        share = max(0.1, (end - asked.clock()) / (len(asked.sizes) - number))
        size = asked.sizes[number]
        point = _known_point(workload, machine, size, known) if asked.tiles == "any" else None
        if trees is not None:
            point = _known_point(workload, machine, size, trees[number], floors[number])
        if point is None:
            point = _point(asked, workload, machine, number, share, known, floors[number])
        found.append(_kept(found, point))
    points: list[CurvePoint] = []
    for point in reversed(found):
        after = points[0] if points else point
        trees = max(after.bound_bits, point.bound_bits)
        status = "OPTIMAL" if point.best_bits == trees else point.status
        scheduled = max(after.schedule_bits, point.schedule_bits)
        points.insert(0, replace(point, schedule_bits=scheduled, bound_bits=trees, status=status))
    for point in points:
        if point.best_bits is not None and point.best_bits < point.bound_bits:
            raise AssertionError("a mapping moves less than what no mapping can beat")
    return tuple(points)


def _alone(asked: _Asked, nests: Sequence[Workload], end: float) -> list[tuple[CurvePoint, ...]]:
    """Return the points of nests as programs of their own."""
    curves: list[tuple[CurvePoint, ...]] = []
    for number, nest in enumerate(nests):
        begin = asked.clock()
        own = replace(asked, arch=asked.arch.naming_only(nest.tensors))
        curves.append(_points(own, nest, begin + (end - begin) / (len(nests) - number), [0] * len(asked.sizes)))
    return curves


def _unfused(asked: _Asked, workload: Workload, curves: Sequence[Sequence[CurvePoint]]) -> tuple[CurvePoint, ...]:
    """Return the sums of the points of nests that run one after the other."""
    return tuple(
        _sum(workload, machine, parts)
        for machine, parts in zip(asked.machines(), zip(*curves, strict=True), strict=True)
    )


def _sum(workload: Workload, machine: Architecture, parts: Sequence[CurvePoint]) -> CurvePoint:
    """Return the sum of the points of all nests; best: their mappings as children of a branch at the root, where these
    move as much in one program."""
    moved = [part.best_bits for part in parts if part.best_bits is not None]
    nodes = [part.best.nodes for part in parts if part.best is not None]
    value = sum(moved) if len(moved) == len(parts) else None
    best = None
    if value is not None and len(nodes) == len(parts):
        goal, tree = parse_objective(f"traffic:{machine.levels[0].name}", machine), Mapping((Branch(tuple(nodes)),))
        best = tree if is_confirmed(workload, machine, goal, tree, (Fraction(value),)) else None
    scheduled, bound = sum(part.schedule_bits for part in parts), sum(part.bound_bits for part in parts)
    status = weakest(part.status for part in parts)
    return CurvePoint(parts[0].capacity_bits, scheduled, bound, value, best, status if value is not None else "TIMEOUT")


def _floors(workload: Workload, nests: Sequence[Workload], unfused: Sequence[CurvePoint]) -> list[int]:
    """Return, per size, what no tree of a program moves less than: its statements alone, less what need not pass
    through the outermost level (polymap/search/refunds.py)."""
    refund = most_refunded_bits(workload)
    if refund is None or any(len(nest.statements) > 1 for nest in nests):
        return [0] * len(unfused)
    return [max(0, point.bound_bits - refund) for point in unfused]


def _better(point: CurvePoint, apart: CurvePoint) -> CurvePoint:
    """Return the point with the mapping that runs nest after nest, where that moves less."""
    if apart.best is None or apart.best_bits is None:
        return point
    if point.best_bits is not None and point.best_bits <= apart.best_bits:
        return point
    status = "OPTIMAL" if apart.best_bits == point.bound_bits else "FEASIBLE"
    return replace(point, best_bits=apart.best_bits, best=apart.best, status=status)


def _known_point(
    workload: Workload, machine: Architecture, size: int, known: OfSize | None, floor: int | None = None
) -> CurvePoint | None:
    """Return the point of a size that was solved with the others; None where it was not, or its mapping does not move
    what is claimed. floor: what no tree moves less than, where the bound that is known is one of chains alone."""
    if known is None or known.best is None or known.value is None or known.bound is None:
        return None
    goal = parse_objective(f"traffic:{machine.levels[0].name}", machine)
    if known.bound > known.value or not is_confirmed(workload, machine, goal, known.best, (Fraction(known.value),)):
        return None
    scheduled = least_traffic_bits(workload, machine)
    bound, space = max(known.bound if floor is None else floor, scheduled), "" if floor is None else "chains"
    status = among("OPTIMAL", space) if known.value == max(known.bound, scheduled) else "FEASIBLE"
    return CurvePoint(size, scheduled, bound, known.value, known.best, status)


def _point(
    asked: _Asked,
    workload: Workload,
    machine: Architecture,
    number: int,
    time_limit_s: float,
    solved: OfSize | None,
    floor: int,
) -> CurvePoint:
    """Return what is known of one size. solved: what is known of it over tiles of any size. floor: no tree beats it."""
    scheduled = least_traffic_bits(workload, machine)
    known = max(floor, scheduled if solved is None or solved.bound is None else max(scheduled, solved.bound))
    # A search over tiles of any size also answers over those that divide.
    is_known = solved is not None and solved.bound is not None
    divides = asked.tiles == "divide" and (is_known or analyse(workload, machine).reason is not None)
    objective, hints = f"traffic:{machine.levels[0].name}", Hints(least=Fraction(known))
    tiles = "divide" if divides else "any"
    limits = {"time_limit_s": time_limit_s, "clock": asked.clock, "seed": asked.seed, "hints": hints}
    result = search(workload, machine, objective, tiles, **limits)
    own = result.dividing if asked.tiles == "divide" and result.dividing is not None else result
    bound = known if divides else max(known, _whole(result.bound or 0))
    value = None if own.value is None else int(own.value)
    best = own.best if result.workload in (None, workload) else None
    return CurvePoint(asked.sizes[number], scheduled, bound, value, best, own.stated)


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


def with_capacity(arch: Architecture, level: str, capacity_bits: int) -> Architecture:
    """Return the machine with another size of one level."""
    nodes = (
        replace(node, capacity_bits=capacity_bits) if isinstance(node, MemoryLevel) and node.name == level else node
        for node in arch.nodes
    )
    return replace(arch, nodes=tuple(nodes))


def sizes_of(arch: Architecture, level: str, capacities_bits: Sequence[int | str]) -> list[int]:
    """Return the sizes in bits, rising and each once. Raises OptionError for a level that is none below the outermost,
    and anything but a list of integers of at least 1 or texts with a unit ("32 KiB")."""
    mistakes: list[Mistake] = []
    known = [node.name for node in arch.levels[1:]]
    if level not in known:
        what = f"{shown(level)} is not a level below the outermost of '{arch.name}'"
        mistakes.append(Mistake("PM536", what, did_you_mean(str(level), known)))
    given: object = capacities_bits
    asked = list(given) if is_list(given) else []
    sizes = [as_bits(size) or 0 for size in asked]
    wrong = [size for size, known_size in zip(asked, sizes, strict=True) if known_size < 1]
    if wrong or not sizes:
        found = [f"a buffer size is {shown(size)}" for size in wrong]
        hint = "Give sizes in bits, integers of at least 1, or with a unit: '32 KiB'."
        whats = found or [f"there are no buffer sizes: {shown(capacities_bits)}"]
        mistakes.extend(Mistake("PM537", what, hint) for what in whats)
    if mistakes:
        raise OptionError(mistakes)
    return sorted(set(sizes))
