"""The stages of a search. Each returns the answer, or None where a later stage has to find it.

polymap/explore.py has them in their order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial

from polymap.ir import Architecture, Mapping, Workload
from polymap.schedules.space import SpaceSize
from polymap.search.any_size import AnySizeAnswer, anneal_mappings, enumeration_answer, has_region_bound, solve_regions
from polymap.search.dividing import Count, Found, Outcome, solve
from polymap.search.heuristics import DividingPolish, can_be_annealed, draw_by_annealing
from polymap.search.objective import exact_score, measure_of, measure_under
from polymap.search.problem import Goal, clashes, parse_objective, rules_from_document
from polymap.search.resources import Limits, Memory, Processes, Stop
from polymap.search.run.answer import Values
from polymap.search.run.certificate import certificate
from polymap.search.run.feasible import FEW_TREES, AnySize, Dividing, walk_begun
from polymap.search.run.options import check_options
from polymap.search.run.programs import program_order, sampled
from polymap.search.run.refuted import is_refuted
from polymap.search.run.result import SearchResult
from polymap.search.run.rule_clashes import clashing
from polymap.search.run.state import QUICKLY_COUNTED, Asked, Divided, OnProgress, Search, counted_space
from polymap.search.sibling_bounds import SiblingSearch

COUNTING_SHARE = 0.1  # of the limit, for the count before a search over tiles of any size
CLIMBING_SHARE = 0.3  # of the limit, for climbing over trees before regions
CLIMBED = 160  # rounds of it
CLIMBED_AT_ONCE = 8
STRUCTURES_CLIMBED = 12  # whose sibling counts it tries
STRUCTURES_SHARE = 0.3  # of the limit, for what structures of siblings prove
CLASHING_SHARE = 0.2  # of the limit, for which rules clash, before tiles of any size are looked at
DRAWN_FIRST = 80  # mappings that are scored before the structures of a large program are listed


def read_question(
    workload: Workload,
    arch: Architecture,
    objective: str,
    tiles: str,
    time_limit_s: float,
    workers: int,
    seed: int,
    on_progress: OnProgress | None,
    clock: Callable[[], float],
    constraints: object,
    memory_limit_mb: int | None,
    work_limit: int | None,
) -> Search:
    """Return the search of what is asked, of which nothing is done yet.

    Raises OptionError for an unknown objective or tile rule, a limit that is no positive number, or mistakes in the
    constraints.
    """
    check_options(tiles, time_limit_s, workers, seed, memory_limit_mb, work_limit)
    goal = parse_objective(objective, arch)
    rules = () if constraints is None else rules_from_document(constraints, workload, arch)
    processes = Processes(workers)
    limits = Limits(clock, time_limit_s, Memory(memory_limit_mb, processes.pids), work_limit)
    return Search(Asked(workload, arch, goal, tiles, rules, seed), limits, processes, on_progress)


def refuse_clashing_words(search: Search) -> SearchResult | None:
    """Answer INFEASIBLE where requirements clash by their words alone: a level has no room for what it must hold, or
    may not hold it."""
    clash = clashes(search.workload, search.arch, search.rules)
    return search.infeasible(clash) if clash else None


def refute_rules(search: Search) -> SearchResult | None:
    """Answer INFEASIBLE where it is proven without a search that no mapping, of whatever tiles, meets the rules."""
    if search.problem.reason is None and search.divides:
        return None  # the search over dividing tiles knows, and which limits the rest allows
    if search.rules and is_refuted(search.workload, search.arch, search.rules):
        return search.infeasible(_clashing(search, AnySize))
    return None


def sample_programs(search: Search) -> SearchResult | None:
    """Answer with the best of sampled and annealed mappings where the lattice search does not apply (several
    statements, recurrences, domains that are no box, ...)."""
    if search.problem.reason is None:
        return None
    floor = search.floors[0]
    search.drawn = sampled(
        search.workload,
        search.arch,
        search.objective,
        search.rules,
        search.limits,
        annealer=search.annealer(divide=search.divides),
        seed=search.asked.seed,
        before=search.drawn,
        work=search.limits.work,
        report=lambda mapping, value: search.report(mapping, value, floor),
    )
    mappings = tuple(mapping for _, mapping, _ in search.drawn.found)
    count = Count(evaluated=search.drawn.tried)
    return search.closed(mappings, (search.floors,), counted_space(search.space_size(search.limits), count))


def search_dividing_tiles(search: Search) -> SearchResult | None:
    """Search the tiles that divide: structures, their bounds, branch and bound. Where tiles of any size are asked for,
    their answer begins with what is found here."""
    if search.outcome is None:
        _report_program_order(search)
    if search.divided is None:
        search.divided = _divided(search)
    return search.divided.result if search.divides else None


def enumerate_few_trees(search: Search) -> SearchResult | None:
    """Answer with the best of all trees where they are few: the optimum over tiles of any size."""
    search.size = search.space_size(search.limits.until(search.limits.share() + COUNTING_SHARE))
    done = _walked(search, search.size)
    if done is None:
        return None
    if done.best is not None:
        space = replace(counted_space(search.size, Count(evaluated=done.evaluated)), distinct=done.distinct)
        return search.closed((done.best,), (), space)
    if search.rules:
        return search.infeasible(_clashing(search, AnySize))
    return search.infeasible((f"none of the {done.evaluated:,} legal loop trees is within the capacities",))


def bound_structures(search: Search) -> SearchResult | None:
    """Raise the floors to what whole numbers of siblings prove of all mappings; answer where the best value is met."""
    assert search.divided is not None
    best, value = _best_divided(search, search.divided)
    if not search.siblings:
        measures = [measure_under(one, search.workload, search.arch, search.rules) for one in search.objective.singles]
        search.siblings = tuple(SiblingSearch(search.problem, one) for one in measures)
    stop = search.limits.until(search.limits.share() + STRUCTURES_SHARE)
    bounds: list[Fraction] = []
    for place, one in enumerate(search.siblings):
        best_of_one = value if place == 0 else None
        bounds.append(one.go_on(best_of_one, stop, search.limits.work, lambda _: None) or search.floors[place])
    search.floors = search.raised(tuple(bounds))
    if best is None or value is None:
        nothing_fits = any(one.bound is None for one in search.siblings)
        return search.infeasible(search.divided.result.clash) if nothing_fits else None
    search.report(best, value, min(value, search.floors[0]))
    if search.floors[0] > value:
        raise AssertionError("a mapping is better than what siblings say that no mapping can beat")
    if search.floors[0] < value or len(search.siblings) > 1:
        return None
    space = counted_space(search.size, Count(evaluated=search.divided.outcome.nodes))
    return search.closed((best,), (), space)


def climb_trees(search: Search) -> SearchResult | None:
    """Look for better mappings near the best one and at sibling counts that bounds name; answer where one is proven."""
    assert search.divided is not None
    best, value = _best_divided(search, search.divided)
    climber = search.climber()
    if climber is None or best is None or value is None:
        return None
    climber.know(best, value)
    climber.structures = search.siblings[0].leading(STRUCTURES_CLIMBED)
    stop = search.limits.until(search.limits.share() + CLIMBING_SHARE)
    for _ in range(CLIMBED // CLIMBED_AT_ONCE):
        if stop() or (climber.best is not None and climber.best[1] <= search.floors[0]):
            break
        better = climber.walk(CLIMBED_AT_ONCE, stop)
        search.limits.work.add(CLIMBED_AT_ONCE)
        if better and climber.best is not None:
            search.report(*climber.best, search.floors[0])
    assert climber.best is not None
    best, better_value = climber.best
    if better_value < value:  # which refutes more structures
        bound = search.siblings[0].go_on(better_value, stop, search.limits.work, lambda _: None)
        search.floors = search.raised((search.floors[0] if bound is None else bound,))
    if search.floors[0] > better_value:
        raise AssertionError("a mapping is better than what siblings say that no mapping can beat")
    if search.floors[0] < better_value:
        return None
    space = counted_space(search.size, Count(evaluated=search.divided.outcome.nodes))
    return search.closed((best,), (), space)


def anneal_near_mappings(search: Search) -> SearchResult | None:
    """Answer, under rules and for objectives that regions do not bound, with the best that is near the dividing one."""
    if has_region_bound(search.objective) and not search.rules:
        return None
    assert search.divided is not None
    mappings = _annealed(search, search.divided)
    space = counted_space(search.size, Count(evaluated=search.divided.outcome.nodes))
    found = search.closed(mappings, (search.floors,), space)
    return found if found.best is not None else replace(found, clash=search.divided.result.clash)


def bound_regions(search: Search) -> SearchResult:
    """Answer with the best over tiles of any size, and what regions of tiles prove of it, from the dividing one on."""
    assert search.divided is not None
    found = _regions(search, search.divided)
    if found.best is None and found.is_final:
        return search.infeasible(search.divided.result.clash)
    evaluated = search.divided.outcome.nodes + found.evaluated
    space = counted_space(search.size, Count(evaluated=evaluated, pruned=found.pruned))
    mapping = found.best or search.written()
    left = ((max(search.floors[0], found.bound or search.floors[0]),),)
    return search.closed(() if mapping is None else (mapping,), left, space)


def _best_divided(search: Search, divided: Divided) -> tuple[Mapping | None, Fraction | None]:
    """Return the best dividing mapping with its exact value, of an order or a front its first part's."""
    best = divided.result.best
    score = None if best is None else exact_score(search.workload, search.arch, search.objective, best)
    return (None, None) if score is None else (best, score.value)


def _report_program_order(search: Search) -> None:
    """Report the program in its own order: who interrupts a search gets that at least."""
    mapping = program_order(search.workload, search.arch)
    score = exact_score(search.workload, search.arch, search.objective, mapping)
    if score is not None and not score.excess and search.meets(mapping, score.cost):
        search.report(mapping, score.value, search.floors[0])


def _divided(search: Search) -> Divided:
    """Return the answer over dividing tiles. Of tiles of any size the answer begins with it."""
    alone = search.divides or not has_region_bound(search.objective)
    outcome = _solved(search, search.limits if alone else search.limits.dividing())
    mappings: tuple[Mapping, ...] = tuple(leaf.mapping for _, leaf in outcome.found)
    if outcome.left == () and not mappings:
        return Divided(search.infeasible(_clashing(search, Dividing)), (), outcome)
    left = _left(search, outcome)
    if not mappings:
        written = search.written()
        mappings, left = (() if written is None else (written,)), (search.floors,)
    size = search.space_size(search.limits) if search.divides else None
    found = search.closed(mappings, left, counted_space(size, outcome.count), whole=search.divides)
    found = _accounted(found, outcome.count)
    best = found.best
    if found.status == "OPTIMAL" and best is not None:
        question = search.workload, search.arch, search.objective.text
        found = replace(found, proof=partial(certificate, *question, best, search.rules))
    return Divided(found, mappings, outcome)


def _solved(search: Search, stop: Stop) -> Outcome:
    measure = measure_under(search.objective, search.workload, search.arch, search.rules)

    def report(found: Found, bound: int) -> None:
        least = measure.unscaled_values(bound) if search.divides else search.floors
        value = None if not found else measure.unscaled(found[0][0])
        front = tuple(leaf.mapping for _, leaf in found) if search.objective.goal is Goal.PARETO else ()
        search.report(found[0][1].mapping if found else None, value, search.raised(least)[0], front)

    polish = _dividing_polish(search)
    if search.outcome is None and polish is not None and search.instances() > QUICKLY_COUNTED:
        first = polish.first(DRAWN_FIRST)
        if first is not None:
            report((first,), 0)
            search.outcome = Outcome((first,), None, Count(), 0, None)
    search.outcome = solve(
        search.problem,
        measure,
        stop,
        report,
        before=search.outcome,
        processes=search.processes,
        work=search.limits.work,
        polish=polish,
        draw=draw_by_annealing(search.problem, measure),
        caches=search.caches,
    )
    return search.outcome


def _dividing_polish(search: Search) -> DividingPolish | None:
    annealer = search.annealer(divide=True)
    if annealer is None or not has_region_bound(search.objective):
        return None
    measure = measure_of(search.objective, search.workload, search.arch)
    windows = any(term.is_window for term in search.problem.terms)
    return DividingPolish(annealer, measure, search.limits, has_window=windows)


def _left(search: Search, outcome: Outcome) -> tuple[Values, ...]:
    """Return lower bounds, per part of the objective, of all dividing mappings that were not searched."""
    if outcome.left is None:
        return (search.floors,)
    measure = measure_of(search.objective, search.workload, search.arch)
    return tuple(search.raised(measure.unscaled_values(bound)) for bound in outcome.left)


def _accounted(found: SearchResult, count: Count) -> SearchResult:
    """Return a dividing answer that tells where every structure went: of an optimum those whose trees were not searched
    are refuted by what no mapping beats, if not by their own bounds."""
    if found.status != "OPTIMAL" or count.listed is None:
        return found
    refuted = count.listed - count.evaluated - count.infeasible
    return replace(found, space=replace(found.space, pruned=refuted))


def _clashing(search: Search, over: type[Dividing | AnySize]) -> tuple[str, ...]:
    """Return which rules no mapping meets together, over dividing tiles or those of any size; or that none fits."""
    if not search.rules:
        return ("every mapping with tiles that divide was refuted: none is within the capacities",)
    alone = search.divides
    stop = search.limits if alone else search.limits.until(search.limits.share() + CLASHING_SHARE)
    return clashing(search.workload, search.arch, search.rules, over(search.workload, stop), stop)


def _walked(search: Search, size: SpaceSize | None) -> AnySizeAnswer | None:
    """Return the answer that looking at all trees gives, where they are few; each is a step. Where the work left
    does not suffice, half of it is spent on a part of them, and the regions have the rest."""
    trees, work = size and size.legal, search.limits.work
    if trees is None or trees > FEW_TREES or search.objective.goal is Goal.PARETO or search.limits():
        return None
    if search.walking is None:
        asked = search.workload, search.arch, search.objective, search.rules
        search.walking = walk_begun(*asked, count_distinct=True)
    walking, before, noted = search.walking, search.walking.legal, work.done
    most = None if work.left is None or trees - before <= work.left else work.left // 2

    def is_over() -> bool:
        work.done = noted + walking.legal - before
        return search.limits() or (most is not None and walking.legal - before > most)

    found = enumeration_answer(walking, is_over)
    work.done = noted + walking.legal - before
    return found


def _annealed(search: Search, divided: Divided) -> tuple[Mapping, ...]:
    """Return the dividing mappings, or a better one of any size that is near; where there is none, walk until one
    is found or a limit is reached. For an order or a front any mapping serves where there is none."""
    annealer = search.annealer(divide=False)
    best, value = divided.result.best, divided.result.value
    if annealer is None or (best is not None and not can_be_annealed(search.workload, search.objective)):
        return divided.mappings
    if best is not None and value is not None:
        assert divided.result.cost is not None
        score = exact_score(search.workload, search.arch, search.objective, best)
        if score is None:
            return divided.mappings
        annealer.know(best, score.value)
    floor = search.floors[0]

    def report(mapping: Mapping, value: Fraction) -> None:
        search.report(mapping, value, floor)

    anneal_mappings(annealer, search.limits, search.limits.work, report, until_found=best is None)
    return divided.mappings if annealer.best is None else (annealer.best[0],)


def _regions(search: Search, divided: Divided) -> AnySizeAnswer:
    """Return what the search over regions of tiles of any size finds from the dividing answer on."""
    floor = search.floors[0]

    def report(mapping: Mapping | None, value: Fraction | None, bound: Fraction) -> None:
        search.report(mapping, value, max(bound, floor))

    climber = search.climber()
    climbed = None if climber is None or climber.best is None else climber.best[0]
    known = [divided.result.best, climbed, None if search.regions is None else search.regions.best]
    scored = [
        (score.value, number, mapping)
        for number, mapping in enumerate(known)
        if mapping is not None
        and (score := exact_score(search.workload, search.arch, search.objective, mapping)) is not None
    ]
    first = (min(scored)[2], min(scored)[0]) if scored else None
    if search.regions is None and search.limits():
        return AnySizeAnswer(first and first[0], floor, 0, 0)  # no time to list the orders of nodes
    measure = measure_of(search.objective, search.workload, search.arch)
    search.regions = solve_regions(
        search.problem,
        search.objective,
        measure,
        search.limits,
        first,
        report,
        climber,
        search.regions,
        floor,
    )
    return search.regions
