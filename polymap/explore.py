"""From a workload and a machine to the best mapping: the table of contents of polymap, one line per stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polymap.ir import Architecture, Workload
    from polymap.search.run import Progress, SearchResult


def explore(
    workload: Workload,
    arch: Architecture,
    objective: str = "energy",
    *,
    tiles: str = "any",
    time_limit_s: float = 60,
    workers: int = 1,
    seed: int = 0,
    on_progress: Callable[[Progress], None] | None = None,
    constraints: Mapping[str, object] | None = None,
    memory_limit_mb: int | None = None,
    work_limit: int | None = None,
) -> SearchResult:
    """Return the legal mapping of `workload` on `arch` that costs least, how sure that is, and the space searched.

    constraints: what the mapping must meet besides, such as {"innermost": ["k"], "fanouts": {"X": {"forbid": ["m"]}},
    "store": {"GLB": {"must": ["W"]}}, "intrinsic": {"m": 16}, "min_utilization": 0.5, "limits": {"latency": 20000}}.
    workers: processes that share a long search; the value is the same for any number.
    memory_limit_mb: resident memory (of all processes) at which the search ends, as it does at the time limit.
    work_limit: steps after which it ends: each structure or region bounded (once per bound), each node of a search
    inside a structure, each mapping scored. `work` of the result counts them; the answer does not depend on the clock.
    With tiles "any" the dividing ones go first: `dividing` of the result.
    """
    # Here and not above: `import polymap` holds this function, and must not load a solver.
    from polymap.search.run import search

    return search(
        workload,
        arch,
        objective,
        tiles,
        time_limit_s,
        workers,
        seed,
        on_progress,
        constraints=constraints,
        memory_limit_mb=memory_limit_mb,
        work_limit=work_limit,
    )
