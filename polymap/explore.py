"""From a workload and a machine to the best mapping: the table of contents of polymap, one line per stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polymap.ir import Architecture, Workload
    from polymap.search.result import Progress, SearchResult


def explore(
    workload: Workload | str,
    arch: Architecture | str,
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

    workload, arch: the objects, or names of built-in ones ("resnet50.conv2_x", "eyeriss_like").
    tiles: "divide", OPTIMAL is over trees in which every tile divides the enclosing one; "any", over all trees: the
    dividing ones go first (`dividing` of the result).
    constraints: what the mapping must meet besides, such as {"innermost": ["k"], "fanouts": {"X": {"forbid": ["m"]}},
    "store": {"GLB": {"must": ["W"]}}, "intrinsic": {"m": 16}, "min_utilization": 0.5, "limits": {"latency": 20000}}.
    workers: processes that share a long search; the value is the same for any number.
    memory_limit_mb: resident memory (of all processes, MB of 2^20 bytes) at which the search ends, as it does at the
    time limit.
    work_limit: steps after which it ends: each structure or program bounded (once per bound), each node of a search
    inside a structure, each mapping scored. `work` of the result counts them; the answer does not depend on the clock.
    Raises OptionError for an unknown objective or tile rule, a limit that is no positive number, or mistakes in the
    constraints.
    """
    return search(
        workload,
        arch,
        objective,
        tiles,
        time_limit_s=time_limit_s,
        workers=workers,
        seed=seed,
        on_progress=on_progress,
        constraints=constraints,
        memory_limit_mb=memory_limit_mb,
        work_limit=work_limit,
    )


def search(
    workload: Workload | str, arch: Architecture | str, objective: str = "energy", tiles: str = "any", **options: Any
) -> SearchResult:
    """Return what `explore` does. options: the other fields of `search.run.Options`, among them the clock that the time
    limit is measured by."""
    # Here and not above: `import polymap` holds this function, and must not load the search.
    from polymap.resolve import question_of
    from polymap.search.parts import search_front, search_order
    from polymap.search.run import (
        Options,
        anneal_near_mappings,
        bound_products,
        bound_structures,
        climb_to_the_end,
        enumerate_few_trees,
        meet_rules,
        read_question,
        refine_structures,
        refuse_clashing_words,
        refute_rules,
        sample_programs,
        search_dividing_tiles,
    )

    workload, arch = question_of(workload, arch)
    question = read_question(workload, arch, Options(objective, tiles, **options))
    return question.answer(
        (
            refuse_clashing_words,  # INFEASIBLE: what the words of the requirements exclude
            refute_rules,  # INFEASIBLE: rules that no mapping meets, whatever its tiles
            sample_programs,  # what the lattice search does not cover: the best of samples
            bound_structures,  # tiles of any size: what whole numbers of siblings prove of all mappings
            search_dividing_tiles,  # structures, bounds, branch and bound, with a certificate
            enumerate_few_trees,  # tiles of any size: all trees of a small space
            search_order,  # of an order: the best by its first part, by the next among these, ...
            search_front,  # of a front: the best of each part, then between the points that are known
            meet_rules,  # under rules that no dividing mapping meets: one that does
            refine_structures,  # else: what they prove structure by structure
            anneal_near_mappings,  # under rules: near the dividing answer
            bound_products,  # else, without windows: geometric programs over whole counts and tiles
            climb_to_the_end,  # else: structures and mappings in turn until the limit
        )
    )
