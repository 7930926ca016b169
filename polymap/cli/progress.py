"""The best so far after an interrupt."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polymap.cli.arguments import Options
    from polymap.ir import Architecture, Workload
    from polymap.search import Progress, SearchResult


def best_so_far(
    workload: Workload, arch: Architecture, options: Options, last: Progress | None, constraints: object = None
) -> SearchResult | None:
    """Return what an interrupted search has found, as its result; None where it has nothing yet."""
    if last is None or last.best is None:
        return None
    from dataclasses import replace

    from polymap.search import Settings, best_so_far as found_so_far
    from polymap.search.problem import parse_objective, rules_from_document

    rules = () if constraints is None else rules_from_document(constraints, workload, arch)
    found = found_so_far(workload, arch, parse_objective(options.objective, arch), last, rules)
    limits = options.memory_limit_mb, options.work_limit
    settings = Settings(options.tiles, options.time_limit_s, options.workers, options.seed, constraints, *limits)
    return None if found is None else replace(found, settings=settings)
