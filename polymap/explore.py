"""From a workload and a machine to the best mapping: the table of contents of polymap, one line per prover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polymap.inputs import answers_in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from polymap.costmodel import Cost
    from polymap.ir import Mapping as LoopTree
    from polymap.resolve import ArchitectureLike, WorkloadLike
    from polymap.search import Kind, Progress, SearchResult, Table


@answers_in_words
def explore(
    workload: WorkloadLike,
    arch: ArchitectureLike,
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
    work_limit: steps after which it ends: each structure, program, pair of boxes bounded (once), each node of a search
    inside a structure, each mapping scored. `work` of the result counts them. Provers still get shares of the time
    limit: give one far above what the steps take; then no share ends first, and no answer depends on the clock.
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


@answers_in_words
def candidates(
    workload: WorkloadLike,
    arch: ArchitectureLike,
    objective: str = "energy",
    limit: int = 100,
    time_limit_s: float = 60,
    constraints: Mapping[str, object] | None = None,
) -> Iterator[tuple[LoopTree, Cost]]:
    """Yield legal mappings within capacity, best first, each with its cost; at most `limit` of them.

    The first is the optimum over dividing tiles. Of trees with equal counts (an order of loops that changes nothing,
    symmetric dims, equal fan-outs) one is given. Most trees are left out for which another order of the loops between
    their storage nodes costs less: the second one is the best of those that are given. Where the lattice search does
    not apply (programs, machines whose single steps take cycles), the first is what `explore` finds in half of the
    time, and the others are the best of those it evaluated.
    """
    from polymap.resolve import question_of
    from polymap.search import Options, asked_in_order, is_covered, rank_mappings

    words = Options(objective, "divide", time_limit_s=time_limit_s).check_words
    asked = asked_in_order(*question_of(workload, arch, words), objective, limit, time_limit_s, constraints)
    if is_covered(asked):
        yield from rank_mappings(asked, limit, time_limit_s)
    else:
        settings = {"time_limit_s": time_limit_s / 2, "constraints": constraints}
        yield from search(asked.workload, asked.arch, objective, "divide", **settings).top(limit)


def search(
    workload: WorkloadLike, arch: ArchitectureLike, objective: str = "energy", tiles: str = "any", **options: Any
) -> SearchResult:
    """Return what `explore` does. options: the other fields of `search.Options`, among them the clock that the time
    limit is measured by."""
    # Here and not above: `import polymap` holds this function, and must not load the search.
    from polymap.ir import Mistake, OptionError
    from polymap.resolve import question_of
    from polymap.search import Options, read_question

    asked = Options(objective, tiles, **options)
    workload, arch = question_of(workload, arch, asked.check_words)
    question, known = read_question(workload, arch, asked, provers)
    try:
        return question.answer(known)
    except OverflowError as error:
        what = f"values of {objective} are beyond 1.8e308, the largest number that an answer holds"
        raise OptionError(Mistake("PM579", what, "Ask for energy or latency, or for a smaller workload.")) from error


def provers(kinds: Kind) -> Table:
    """Return who is asked questions of some kinds, in order until the evidence is closed; with no share, for all."""
    from polymap.search import (
        TUNING,
        Kind,
        Line,
        begin_as_written,
        begin_padded_nests,
        begin_rounded_nests,
        bound_cells,
        bound_products,
        bound_structures,
        climb_near_mappings,
        enumerate_few_trees,
        first,
        further,
        of_rest,
        refine_structures,
        refuse_clashing_words,
        refute_rules,
        search_dividing_tiles,
        search_front,
        search_order,
        try_what_rules_limit,
    )

    asked, searched, refined = Kind.NESTS | Kind.PROGRAM, Kind.ANY_SIZE | Kind.PART, Kind.ONE_VALUE | Kind.LARGE
    return (
        Line(refuse_clashing_words, asked),  # refutes what the words of the requirements exclude
        Line(refute_rules, asked, rules=True),  # and rules that no mapping meets, whatever its tiles
        Line(enumerate_few_trees, Kind.PROGRAM),  # where one tensor is read through several accesses: all trees
        Line(bound_structures, Kind.SIZES | refined, first(TUNING.first_structures_share)),  # of all mappings
        *(provers_of_programs() if kinds & (Kind.PROGRAM | Kind.IN_STEPS) else ()),  # nests load none of them
        Line(search_dividing_tiles, Kind.NESTS),  # branch and bound, with a certificate
        Line(begin_rounded_nests, Kind.ONE_VALUE, rules=False),  # few tiles divide an extent with a large prime factor
        Line(enumerate_few_trees, Kind.SIZES),  # all trees of a small space
        Line(search_order, Kind.DIVIDING_ORDER | Kind.ORDER),  # one part after the other, each another question
        Line(search_front, Kind.DIVIDING_FRONT | Kind.FRONT),  # then what is between the points
        Line(try_what_rules_limit, searched, rules=True, without_mapping=True),  # another question
        Line(climb_near_mappings, searched, further(TUNING.share_to_meet_rules), rules=True, without_mapping=True),
        Line(refine_structures, refined, further(TUNING.structures_share_under_rules), rules=True),  # one by one
        Line(climb_near_mappings, Kind.ONE_VALUE, rules=True),
        Line(begin_padded_nests, Kind.ONE_VALUE, rules=False),  # to multiples of what these bounds spread
        Line(bound_cells, refined, of_rest(TUNING.products_share), rules=False),  # on one buffer: cells of tiles
        Line(refine_structures, refined, further(TUNING.structures_share), rules=False),
        Line(bound_products, refined, of_rest(TUNING.products_share), rules=False),  # geometric programs
        Line(search_dividing_tiles, Kind.ANY_SIZE, of_rest(TUNING.dividing_again_share), rules=False),  # again
        Line(refine_structures, refined, rules=False),
        Line(begin_as_written, Kind.ONE_VALUE, rules=False, without_mapping=True),
    )


def provers_of_programs() -> Table:
    """Return which provers are asked of what is no nest of one accumulation with an access per tensor."""
    from polymap.search import (
        TUNING,
        Kind,
        Line,
        Turns,
        begin_dividing_trees,
        begin_first_chains,
        begin_large_products,
        begin_near_relatives,
        begin_nest_after_nest,
        begin_product_chains,
        begin_timed_nests,
        begin_without_steps,
        bound_by_cases,
        bound_times,
        climb_timed_nests,
        further,
        go_on_with_chains,
        improve_trees,
        prove_chains,
        sample_programs,
        search_parts_by_tree,
        walk_timed_trees,
    )

    return (
        Line(begin_without_steps, Kind.IN_STEPS),  # a bound, and something to begin with
        Line(walk_timed_trees, Kind.PROGRAM),  # of a small space where each tree is counted by itself
        Line(begin_timed_nests, Kind.PROGRAM),  # of a large one: something to begin with
        Line(search_parts_by_tree, Kind.PROGRAM),  # and of orders and fronts part by part
        Line(begin_large_products, Kind.PROGRAM),  # a nest of too many tiles for the search of nests
        Line(begin_near_relatives, Kind.PROGRAM),  # there too: what related nests say of that one
        Line(begin_product_chains, Kind.PROGRAM, further(TUNING.product_chains_share)),  # in a row on one buffer
        Line(begin_nest_after_nest, Kind.PROGRAM | Kind.IN_STEPS),  # nests in sequence, each in its own best mapping
        Line(begin_dividing_trees, Kind.PROGRAM, turns_for=Turns.MAPPINGS),  # of several nests, beside any tiles
        Line(begin_first_chains, Kind.PROGRAM, turns_for=Turns.MAPPINGS),  # neighbouring nests that share loops
        Line(bound_by_cases, Kind.PROGRAM, turns_for=Turns.BOUNDS),  # nests alone, less what stays on chip
        Line(improve_trees, Kind.PROGRAM, turns_for=Turns.MAPPINGS),  # near the best of fused nests
        Line(go_on_with_chains, Kind.PROGRAM, turns_for=Turns.MAPPINGS),  # where several objectives lead to them
        Line(bound_times, Kind.PROGRAM, turns_for=Turns.BOUNDS),  # where levels work side by side
        Line(prove_chains, Kind.PROGRAM, turns_for=Turns.BOUNDS),  # that no chain costs less, of dividing tiles
        Line(climb_timed_nests, Kind.PROGRAM),  # of nests whose steps take cycles, near what relatives say
        Line(sample_programs, Kind.PROGRAM),  # else the best of samples
    )
