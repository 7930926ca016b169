"""The register tiles of a plan: full ones, the smaller last ones, and those next to padding, each with its own code."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from polymap.codegen.native.plan import Guard, KernelPlan, NoPlan, tile_starts
from polymap.codegen.native.tuning import TUNING


@dataclass(frozen=True, slots=True)
class Group:
    """Taps first <= tap < stop that read no padding exactly for the tile's indices low <= index < high."""

    first: int
    stop: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Side:
    """A register tile along one dim: its size, and per guard of the dim its groups of taps."""

    size: int
    groups: tuple[tuple[Guard, tuple[Group, ...]], ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Tiles with the same code, one after the other: those that start below `stop`."""

    side: Side
    stop: int


def is_static(plan: KernelPlan, guard: Guard) -> bool:
    """Return whether the taps next to padding are told apart when the code is printed, not when it runs."""
    return plan.tile.get(guard.out, 1) > 1


def runs(plan: KernelPlan, dim: str) -> tuple[Run, ...]:
    """Return the tiles of a dim as runs, in order."""
    found: list[Run] = []
    guards = [guard for guard in plan.guards if guard.out == dim and is_static(plan, guard)]
    for start, size in tile_starts(plan, dim):
        side = Side(size, tuple((guard, _groups(plan, guard, start, size)) for guard in guards))
        if found and found[-1].side == side:
            found[-1] = Run(side, start + 1)
        else:
            found.append(Run(side, start + 1))
    return tuple(found)


def kernels(plan: KernelPlan) -> dict[tuple[Side, ...], int]:
    """Return every combination of sides (of the tile's dims, then of the vector dim) with a number.

    Raises NoPlan if they are too many.
    """
    sides = [tuple(dict.fromkeys(run.side for run in runs(plan, dim))) for dim in (*plan.tile, plan.vector)]
    found = list(product(*sides))
    if len(found) > TUNING.most_kernels:
        raise NoPlan(f"the tiles have {len(found)} different forms, more than {TUNING.most_kernels}")
    return {combination: number for number, combination in enumerate(found)}


def _groups(plan: KernelPlan, guard: Guard, start: int, size: int) -> tuple[Group, ...]:
    groups: list[Group] = []
    for tap in range(plan.extents[guard.tap]):
        first, stop = guard.outs(tap)
        low, high = max(first, start) - start, min(stop, start + size) - start
        if low >= high:
            continue
        last = groups[-1] if groups else None
        if last is not None and (last.low, last.high, last.stop) == (low, high, tap):
            groups[-1] = Group(last.first, tap + 1, low, high)
        else:
            groups.append(Group(tap, tap + 1, low, high))
    return tuple(groups)
