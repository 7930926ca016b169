"""What fusing the nests of a program saves: its best tree beside the best one that runs nest after nest."""

from __future__ import annotations

import time
from dataclasses import dataclass

from polymap.asked import question_of
from polymap.costmodel import Cost
from polymap.explore import search
from polymap.ir import Architecture, Mapping, Mistake, OptionError, Workload
from polymap.schedules import ForbiddenFusion, forbidden_fusions
from polymap.search.problem import parse_single
from polymap.search.programs import ProgramSearch, may_be_climbed
from polymap.search.resources import Limits, Memory
from polymap.search.run import Options


@dataclass(frozen=True, slots=True)
class MovedElements:
    """Elements of a tensor that a level reads and writes. unfused: nest after nest; fused: in the best tree."""

    level: str
    tensor: str
    unfused: int
    fused: int

    @property
    def saved(self) -> int:
        return self.unfused - self.fused


@dataclass(frozen=True, slots=True)
class Fusion:
    """The best tree found (value, workload, mapping, cost) beside the best one found in which statements of different
    outermost nests share no loop (unfused_...; a nest that only sets what the next one accumulates into is a part of
    that one). Each workload is the program asked for, or one that computes the same
    with its loops renamed, shifted, skewed or tiled and its temporary arrays in circular buffers.

    moved: per level and tensor. forbidden: loops of different nests that cannot be one.
    """

    objective: str
    value: float
    workload: Workload
    mapping: Mapping
    cost: Cost
    unfused_value: float
    unfused_mapping: Mapping
    unfused_cost: Cost
    moved: tuple[MovedElements, ...]
    forbidden: tuple[ForbiddenFusion, ...]

    @property
    def pays(self) -> bool:
        """Return whether the best tree costs less than the best unfused one."""
        return self.value < self.unfused_value

    def saved_elements(self, level: str) -> int:
        """Return how many elements fewer a level reads and writes in the best tree."""
        return sum(row.saved for row in self.moved if row.level == level)

    def __str__(self) -> str:
        what = "Fusion pays" if self.pays else "Fusion does not pay"
        lines = [f"{what}: {self.objective} {self.value:,.0f}, nest after nest {self.unfused_value:,.0f}."]
        for level in dict.fromkeys(row.level for row in self.moved):
            rows = [row for row in self.moved if row.level == level]
            before, after = sum(row.unfused for row in rows), sum(row.fused for row in rows)
            lines.append(f"{level}: {after:,} elements moved instead of {before:,}, {_told(before - after)}.")
            lines += [f"  {row.tensor}: {_told(row.saved)}" for row in rows if row.saved]
        if self.forbidden:
            lines += ["Loops that cannot be one:", *(f"  {each}" for each in self.forbidden)]
        return "\n".join(lines)


def fusion(
    workload: Workload | str,
    arch: Architecture | str,
    objective: str = "energy",
    *,
    time_limit_s: float = 20,
    seed: int = 0,
    work_limit: int | None = None,
) -> Fusion:
    """Return what fusing the outermost nests of a program saves on a machine, and which loops cannot be fused.

    Half of the limit is for trees that run nest after nest, half for all. work_limit: trees that are looked at, in all;
    the answer is then the same on a busy machine, unless time ends first. Raises OptionError for a program of one nest,
    for one that is too large (docs/program_space.md), and where no tree meets the capacities.
    """
    workload, arch = question_of(workload, arch)
    Options(time_limit_s=time_limit_s, seed=seed, work_limit=work_limit).check()
    half = None if work_limit is None else max(1, work_limit // 2)
    goal = parse_single(objective, arch)
    if len({each.position[0] for each in workload.statements}) < 2 or not may_be_climbed(workload, arch, goal):
        told = "has no nests that could be fused, too many instances, or fan-outs that cost energy"
        what = f"workload {workload.name!r} {told}"
        raise OptionError(Mistake("PM566", what, "Expected a program of two or more outermost nests."))
    apart = ProgramSearch(workload, arch, goal, seed, apart=True)
    apart.go_on(Limits(time.monotonic, time_limit_s / 2, Memory(None), half), lambda _mapping, _cost: True)
    best = search(workload, arch, objective, "any", time_limit_s=time_limit_s / 2, seed=seed, work_limit=half)
    if apart.best is None:
        raise OptionError(Mistake("PM566", "no tree that runs nest after nest was found", "Allow more time."))
    unfused, value = apart.best, float(apart.best.value)
    forbidden = forbidden_fusions(workload)
    if best.best is None or best.cost is None or best.value is None or best.value >= value:
        moved = _moved(workload, arch, unfused.cost, unfused.cost)
        chosen = value, unfused.workload, unfused.mapping, unfused.cost
    else:
        moved = _moved(workload, arch, unfused.cost, best.cost)
        chosen = float(best.value), best.workload, best.best, best.cost
    return Fusion(objective, *chosen, value, unfused.mapping, unfused.cost, moved, forbidden)


def _told(saved: int) -> str:
    return f"{saved:,} saved" if saved >= 0 else f"{-saved:,} more"


def _moved(workload: Workload, arch: Architecture, unfused: Cost, fused: Cost) -> tuple[MovedElements, ...]:
    before, after = (
        {(row.level, row.tensor): row.reads + row.writes for row in cost.traffic} for cost in (unfused, fused)
    )
    keys = [(level.name, tensor.name) for level in arch.levels for tensor in workload.tensors]
    return tuple(
        MovedElements(*key, before.get(key, 0), after.get(key, 0)) for key in keys if key in before or key in after
    )
