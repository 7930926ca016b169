"""From a workload, a machine and an objective to the best mapping, with its proof: one line per stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from polymap.costmodel import Cost
from polymap.ir import Architecture, Mapping, Mistake, OptionError, Workload
from polymap.search.problem import clashes, parse_objective, parse_single, rules_from_document
from polymap.search.resources import Limits, Memory, Processes
from polymap.search.run.phases import Asked, OnProgress, Run
from polymap.search.run.ranked import ranked
from polymap.search.run.result import SearchResult


def search(
    workload: Workload,
    arch: Architecture,
    objective: str = "energy",
    tiles: str = "any",
    time_limit_s: float = 60,
    workers: int = 1,
    seed: int = 0,
    on_progress: OnProgress | None = None,
    clock: Callable[[], float] = time.monotonic,
    constraints: object = None,
    memory_limit_mb: int | None = None,
    work_limit: int | None = None,
) -> SearchResult:
    """Return the best legal mapping within capacity, and what is proven of it.

    tiles "divide": OPTIMAL is over trees in which every tile divides the enclosing one. tiles "any": over all trees;
    the dividing ones come first, and their answer is `dividing` of the result. Of an order or a front, and with
    constraints, the bound is then the floor that no mapping beats, unless the trees are so few that all are walked.
    constraints: a table of what the mapping must meet besides (see rules_from_document). workers: processes that share
    the work of a long search. The search ends where one of its limits is reached: time_limit_s; memory_limit_mb, the
    resident memory (2^20 bytes) of its processes; work_limit, the structures and regions bounded (once per bound),
    nodes visited and mappings scored, on which a busy machine has no influence.
    Raises OptionError for an unknown objective or tile rule, a limit that is no positive number, or mistakes in the
    constraints.
    """
    _check_options(tiles, time_limit_s, workers, seed, memory_limit_mb, work_limit)
    goal = parse_objective(objective, arch)
    rules = () if constraints is None else rules_from_document(constraints, workload, arch)
    processes = Processes(workers)
    limits = Limits(clock, time_limit_s, Memory(memory_limit_mb, processes.pids), work_limit)
    run = Run(Asked(workload, arch, goal, tiles, rules, seed), limits, processes, on_progress)
    clash = clashes(workload, arch, rules)
    if clash:
        return run.infeasible(clash)
    return run.result(check_limits)


def candidates(
    workload: Workload,
    arch: Architecture,
    objective: str = "energy",
    limit: int = 100,
    time_limit_s: float = 60,
    constraints: object = None,
) -> Iterator[tuple[Mapping, Cost]]:
    """Yield legal mappings within capacity, best first, each with its cost; at most `limit` of them.

    The first is the optimum over dividing tiles. Trees that differ only in what no count sees (the order of loops that
    change nothing, symmetric dims, fan-outs that are alike) are given once. Where the lattice search does not apply, or
    the time limit ends it, they are the best of those looked at.
    """
    _check_options("divide", time_limit_s, 1, 0)
    if isinstance(limit, bool) or limit < 1:
        raise OptionError(Mistake("PM507", f"limit is {limit!r}", "Use an integer of at least 1."))
    goal = parse_single(objective, arch, ranked=True)
    rules = () if constraints is None else rules_from_document(constraints, workload, arch)
    begin = time.monotonic()
    yield from ranked(workload, arch, goal, rules, limit, lambda: time.monotonic() - begin > time_limit_s)


def check_limits(time_limit_s: float, memory_limit_mb: int | None, work_limit: int | None) -> None:
    """Raise OptionError for limits of a search that goes on which are no positive numbers."""
    _check_options("any", time_limit_s, 1, 0, memory_limit_mb, work_limit)


def _check_options(
    tiles: str,
    time_limit_s: float,
    workers: int,
    seed: int,
    memory_limit_mb: int | None = None,
    work_limit: int | None = None,
) -> None:
    mistakes: list[Mistake] = []
    if work_limit is not None and (isinstance(work_limit, bool) or work_limit < 1):
        mistakes.append(Mistake("PM549", f"work_limit is {work_limit!r}", "Use an integer of at least 1."))
    if memory_limit_mb is not None and (isinstance(memory_limit_mb, bool) or memory_limit_mb < 1):
        what = f"memory_limit_mb is {memory_limit_mb!r}"
        mistakes.append(Mistake("PM548", what, "Use an integer of at least 1 (2^20 bytes each)."))
    if tiles not in ("any", "divide"):
        mistakes.append(Mistake("PM503", f"tiles is {tiles!r}", "Use 'any' or 'divide'."))
    if isinstance(time_limit_s, bool) or not time_limit_s > 0:
        mistakes.append(Mistake("PM504", f"time_limit_s is {time_limit_s!r}", "Use a positive number of seconds."))
    if isinstance(workers, bool) or workers < 1:
        mistakes.append(Mistake("PM505", f"workers is {workers!r}", "Use an integer of at least 1."))
    if isinstance(seed, bool) or seed < 0:
        mistakes.append(Mistake("PM506", f"seed is {seed!r}", "Use an integer of at least 0."))
    if mistakes:
        raise OptionError(mistakes)
