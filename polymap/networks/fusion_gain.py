"""What fusing the nests of a program saves: its best tree beside the best one that runs nest after nest."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from polymap.costmodel import Cost
from polymap.explore import search
from polymap.inputs import answers_in_words
from polymap.ir import (
    Architecture,
    Branch,
    Brief,
    Mapping,
    MappingNode,
    Mistake,
    OptionError,
    Shown,
    Spatial,
    Temporal,
    Workload,
    statements_below,
)
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of
from polymap.resources import Limits, Memory
from polymap.schedules import ForbiddenFusion, forbidden_fusions
from polymap.search import Options
from polymap.search.problem import Goal, Objective, objective_value, parse_single
from polymap.search.programs import ProgramSearch, may_be_climbed, nest_programs, nests_of


@dataclass(frozen=True, slots=True)
class MovedElements:
    """Elements of a tensor that a level reads and writes. unfused: nest after nest; fused: in the best tree."""

    level: str
    tensor: str
    unfused: int
    fused: int

    @property
    def saved(self) -> int:
        """Elements that the best tree moves fewer."""
        return self.unfused - self.fused


@dataclass(frozen=True, slots=True, repr=False)
class UnfusedPart(Brief):
    """A tree of the whole program, or of one nest that runs as a program of its own: what it uses of the nests before
    is in the outermost level, and what a later nest uses is written back there."""

    workload: Workload
    mapping: Mapping
    cost: Cost


@dataclass(frozen=True, slots=True, repr=False)
class Fusion(Shown):
    """The best tree found (value, workload, mapping, cost) beside the best way found to run nest after nest (unfused):
    one tree in which statements of different outermost nests share no loop, or every nest as a program of its own. A
    nest that only sets what the next one accumulates into is a part of that one. Each workload is the program asked
    for, a nest of it, or one that computes the same with its loops renamed, shifted, skewed or tiled and its temporary
    arrays in circular buffers.

    bound: no tree of `space` costs less (docs/program_space.md; "": of all trees). moved: per level and tensor.
    forbidden: loops of different nests that cannot be one.
    """

    objective: str
    value: float
    workload: Workload
    mapping: Mapping
    cost: Cost
    unfused_value: float
    unfused: tuple[UnfusedPart, ...]
    moved: tuple[MovedElements, ...]
    forbidden: tuple[ForbiddenFusion, ...]
    bound: float = 0.0
    space: str = ""

    @property
    def pays(self) -> bool | None:
        """Return whether fusing costs less than the best way found to run nest after nest: True where a tree that does
        was found, False where the bound proves that none does, None where that is not known."""
        if self.value < self.unfused_value:
            return True
        return False if self.bound >= self.unfused_value else None

    def saved_elements(self, level: str) -> int:
        """Return how many elements fewer a level reads and writes in the best tree."""
        return sum(row.saved for row in self.moved if row.level == level)

    def __str__(self) -> str:
        lines = [self._verdict()]
        for level in dict.fromkeys(row.level for row in self.moved):
            rows = [row for row in self.moved if row.level == level]
            before, after = sum(row.unfused for row in rows), sum(row.fused for row in rows)
            lines.append(f"{level}: {after:,} elements moved instead of {before:,}, {_told(before - after)}.")
            lines += [f"  {row.tensor}: {_told(row.saved)}" for row in rows if row.saved]
        if self.forbidden:
            lines += ["Loops that cannot be one:", *(f"  {each}" for each in self.forbidden)]
        return "\n".join(lines)

    def _verdict(self) -> str:
        """Return what is known, as far as values and bound prove it; nest after nest is searched, not proven."""
        told = (
            f"{self.objective} {self.value:,.0f}, the best way found to run nest after nest {self.unfused_value:,.0f}"
        )
        trees = f"tree{f' among {self.space}' if self.space else ''}"
        match self.pays:
            case True if self.value <= self.bound:
                return f"A fused tree costs {told}; no {trees} costs less, proven."
            case True:
                return f"A fused tree costs {told}; no {trees} is below {self.bound:,.0f}."
            case False:
                return f"Fusion cannot pay, proven: no {trees} costs less than nest after nest; {told}."
            case None:
                known = f"no fused tree found does, no {trees} is below {self.bound:,.0f}"
                return f"Whether fusion pays is not known: {known}; {told}."


@answers_in_words
def fusion(
    workload: WorkloadLike,
    arch: ArchitectureLike,
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
    if len(set(nests_of(workload).values())) < 2 or not may_be_climbed(workload, arch, goal):
        told = "has no nests that could be fused, too many instances, or fan-outs that cost energy"
        what = f"workload {workload.name!r} {told}"
        raise OptionError(Mistake("PM566", what, "Expected a program of two or more outermost nests."))
    stop = Limits(time.monotonic, time_limit_s / 2, Memory(None), half)
    found = (_one_tree(workload, arch, goal, stop, seed), _apart(workload, arch, goal, stop, seed))
    ways = [way for way in found if way is not None]
    best = search(workload, arch, objective, "any", time_limit_s=time_limit_s / 2, seed=seed, work_limit=half)
    trees = [(each, parts[0]) for each, parts in ways if len(parts) == 1]
    if best.best is not None and best.cost is not None and best.value is not None:
        assert best.workload is not None
        trees.insert(0, (float(best.value), UnfusedPart(best.workload, best.best, best.cost)))
        if runs_nest_after_nest(workload, best.best):
            ways.append((float(best.value), (trees[0][1],)))
    if not ways:
        raise OptionError(Mistake("PM566", "no tree that runs nest after nest was found", "Allow more time."))
    value, unfused = min(ways, key=lambda way: way[0])
    least, tree = min(trees, key=lambda each: each[0])
    moved = _moved(workload, arch, [part.cost for part in unfused], tree.cost)
    found = tree.workload, tree.mapping, tree.cost
    bound = min(float(best.bound or 0), least)
    return Fusion(objective, least, *found, value, unfused, moved, forbidden_fusions(workload), bound, best.space.name)


Way = tuple[float, tuple[UnfusedPart, ...]]  # what it costs, and its trees


def runs_nest_after_nest(workload: Workload, mapping: Mapping) -> bool:
    """Return whether no loop of a tree stands above statements of different outermost nests of the program."""
    numbers = nests_of(workload)
    return all(len({numbers[name] for name in below}) == 1 for below in _below_loops(mapping.nodes))


def _below_loops(nodes: tuple[MappingNode, ...]) -> Iterator[tuple[str, ...]]:
    """Yield, per loop, the statements below it."""
    for at, node in enumerate(nodes):
        if isinstance(node, Temporal | Spatial):
            yield statements_below(nodes[at:])
        elif isinstance(node, Branch):
            for child in node.children:
                yield from _below_loops(child)


def _one_tree(workload: Workload, arch: Architecture, goal: Objective, stop: Limits, seed: int) -> Way | None:
    """Return the best tree found in which statements of different outermost nests share no loop."""
    share = 1 / (1 + len(set(nests_of(workload).values())))  # as much as for each nest alone
    apart, limits = ProgramSearch(workload, arch, goal, seed, apart=True), stop.part(share)
    apart.go_on(limits, lambda _mapping, _cost, _workload: True)
    stop.work.add(limits.work.done)
    best = apart.best
    return None if best is None else (float(best.value), (UnfusedPart(best.workload, best.mapping, best.cost),))


def _apart(workload: Workload, arch: Architecture, goal: Objective, stop: Limits, seed: int) -> Way | None:
    """Return every nest as a program of its own; None where the costs of these do not add up, or one finds no tree."""
    if goal.goal not in (Goal.TRAFFIC, Goal.ENERGY, Goal.LATENCY):
        return None
    total, parts = Fraction(0), list[UnfusedPart]()
    programs = nest_programs(workload)
    for number, each in enumerate(programs):
        limits = stop.part(1 / (len(programs) - number))
        seconds = max(1e-6, limits.time_limit_s)
        found = search(each, arch, goal.text, "any", time_limit_s=seconds, seed=seed, work_limit=limits.work.limit)
        stop.work.add(found.work)
        if found.best is None or found.cost is None or found.workload is None:
            return None
        total += objective_value(found.workload, arch, goal, found.cost)
        parts.append(UnfusedPart(found.workload, found.best, found.cost))
    return float(total), tuple(parts)


def _told(saved: int) -> str:
    return f"{saved:,} saved" if saved >= 0 else f"{-saved:,} more"


def _moved(workload: Workload, arch: Architecture, unfused: list[Cost], fused: Cost) -> tuple[MovedElements, ...]:
    before, after = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for counts, costs in ((before, unfused), (after, [fused])):
        for row in (row for cost in costs for row in cost.traffic):
            counts[row.level, row.tensor] += row.reads + row.writes
    keys = [(level.name, tensor.name) for level in arch.levels for tensor in workload.tensors]
    return tuple(MovedElements(*key, before[key], after[key]) for key in keys if key in before or key in after)
