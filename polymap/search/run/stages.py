"""The stages of a search. Each returns the answer, or None where a later stage has to find it.

polymap/explore.py has them in their order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING
from warnings import warn

from polymap.arch import no_energies
from polymap.costmodel import evaluate
from polymap.ir import (
    Architecture,
    Mapping,
    MemoryLevel,
    Mistake,
    OptionError,
    Workload,
)
from polymap.schedules.space import SpaceSize
from polymap.search.dividing import CompletedMapping, Count, Found, Outcome, outcome_to_resume, solve
from polymap.search.enumeration import ExhaustiveResult
from polymap.search.heuristics import DividingPolish, TreeClimber, anneal_mappings, draw_by_annealing
from polymap.search.objective import (
    Measure,
    exact_score,
    is_confirmed,
    measure_of,
    measure_under,
    objective_values,
)
from polymap.search.problem import (
    AtMost,
    Goal,
    Objective,
    Rules,
    Utilization,
    clashes,
    parse_objective,
    rules_from_document,
)
from polymap.search.resources import Limits, Memory, Processes, Stop, never
from polymap.search.result import SearchResult, SpaceCount
from polymap.search.run.answer import Values, believed
from polymap.search.run.feasible import AnySize, Dividing, may_be_walked, walk_begun
from polymap.search.run.options import TUNING, Options
from polymap.search.run.programs import program_order
from polymap.search.run.refuted import is_refuted
from polymap.search.run.rule_clashes import clashing
from polymap.search.run.state import Asked, Divided, Search, counted_space

if TYPE_CHECKING:
    from polymap.search.sibling_bounds import SiblingSearch

Known = tuple[Mapping, Fraction]  # a mapping with its exact value
Report = Callable[[Mapping | None, Fraction | None, Fraction], None]


def read_question(workload: Workload, arch: Architecture, options: Options) -> Search:
    """Return the search of what is asked, of which nothing is done yet.

    Raises OptionError for an unknown objective or tile rule, a limit that is no positive number, or mistakes in the
    constraints.
    """
    options.check()
    goal = parse_objective(options.objective, arch)
    if not arch.has_energies and any(_is_of_energy(one) for one in (goal, *(part for _, part in goal.parts))):
        warn(no_energies(arch), RuntimeWarning, stacklevel=4)
    rules = () if options.constraints is None else rules_from_document(options.constraints, workload, arch)
    processes = Processes(options.workers)
    memory = Memory(options.memory_limit_mb, processes.pids)
    limits = Limits(options.clock, options.time_limit_s, memory, options.work_limit)
    asked = Asked(workload, arch, goal, options.tiles, rules, options.seed, options.hints)
    search = Search(asked, limits, processes, options.settings(), options.on_progress)
    search.raise_floor(0, options.hints.least)
    return search


def _is_of_energy(objective: Objective) -> bool:
    return objective.goal.powers is not None and objective.goal.powers.energy > 0


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


def begin_at(start: Mapping | None, search: Search) -> SearchResult | None:
    """Begin the search over tiles of any size at a mapping that is known (None: none is), not at a dividing one."""
    mappings = () if start is None else (start,)
    found = search.closed(mappings, (search.floors,), counted_space(None, Count()), None, whole=False)
    search.divided = Divided(found, mappings, Outcome((), None, Count(), 0, None))
    return None


def search_dividing_tiles(search: Search) -> SearchResult | None:
    """Search the tiles that divide: structures, their bounds, branch and bound. Where tiles of any size are asked for,
    or several parts, of which one after the other is cheaper than all at once, the answer begins with what is found
    here."""
    if search.outcome is None:
        _report_program_order(search)
    if search.divided is None:
        search.divided = _divided(search)
    by_parts = len(search.objective.singles) > 1 and not search.divided.is_final
    return search.divided.result if search.divides and not by_parts else None


def enumerate_few_trees(search: Search) -> SearchResult | None:
    """Answer with the best of all trees where they are few: the optimum over tiles of any size."""
    if search.divides:
        return None
    search.size = search.space_size(search.limits.until(search.limits.share() + TUNING.counting_share))
    done = walked(search, search.size)
    if done is None:
        return None
    if done.best is not None:
        space = replace(counted_space(search.size, Count(evaluated=done.legal)), distinct=done.distinct)
        return optimum(search, done.front_trees or (done.best,), done.front or (done.values,), space)
    if search.rules:
        return search.infeasible(_clashing(search, AnySize))
    return search.infeasible((f"none of the {done.legal:,} legal loop trees is within the capacities",))


def bound_structures(search: Search) -> SearchResult | None:
    """Raise the floors of tiles of any size to what whole numbers of siblings, and boxes of products on one buffer, say
    at once of all mappings."""
    if not search.divides:
        if not search.problem.classes:
            _bound_by_boxes(search)
        for place, one in enumerate(_siblings(search)):
            found = one.go_on(
                None, search.limits.until(TUNING.first_structures_share), search.limits.work, refined=False
            )
            search.raise_floor(place, found)
    return None


def _bound_by_boxes(search: Search) -> None:
    from polymap.search.product_bounds import bound_at_once  # searches over dividing tiles do without

    for place, one in enumerate(search.objective.singles):
        search.raise_floor(place, bound_at_once(search.problem, measure_of(one, search.workload, search.arch)))


def refine_structures(search: Search) -> SearchResult | None:
    """Raise the floors structure by structure, best first, and look for mappings there, for a part of the limit; answer
    where they meet."""
    assert search.divided is not None
    share = TUNING.structures_share_under_rules if search.rules else TUNING.structures_share
    return _refined(search, search.divided, search.limits.until(min(1, search.limits.share() + share)))


def _refined(search: Search, divided: Divided, stop: Stop) -> SearchResult | None:
    """Return the answer that structures and mappings looked for in turn give; None where `stop` says so before."""
    from polymap.search.sibling_bounds import climb_structures  # searches over dividing tiles do without

    first, best = _siblings(search)[0], _best_known(search, divided)
    best = climb_structures(first, _climber(search, best), best, stop, search.limits.work, search.report)
    search.raise_floor(0, first.value)
    if best is None and first.value is None:
        return search.infeasible(divided.result.clash)
    if best is None or search.floors[0] < best[1]:
        return None
    counted = counted_space(search.size, Count(evaluated=divided.outcome.nodes))
    return optimum(search, (best[0],), ((best[1],),), counted)


def meet_rules(search: Search) -> SearchResult | None:
    """Look, under rules that no dividing mapping is known to meet, for one of any tiles that does: the best by what
    they limit, then anything near them."""
    assert search.divided is not None
    if not search.rules or search.divided.result.best is not None or search.known:
        return None
    for rule in search.rules:
        if not search.known and isinstance(rule, AtMost):
            _try_best_by(search, search.arch, rule.objective)
        elif not search.known and isinstance(rule, Utilization):  # of the compute units, whatever is transferred
            _try_best_by(search, _without_bandwidth(search.arch), parse_objective("latency", search.arch))
    annealer, floor = search.annealer(divide=False), search.floors[0]
    if search.known or annealer is None or annealer.best is not None:
        return None
    stop = search.limits.until(min(1, search.limits.share() + TUNING.share_to_meet_rules))

    def report(mapping: Mapping, value: Fraction) -> None:
        search.report(mapping, value, floor)

    anneal_mappings(annealer, stop, search.limits.work, report, until_found=True)
    return None


def _try_best_by(search: Search, arch: Architecture, objective: Objective) -> None:
    """Keep the best mapping by an objective, under the rules that limit no numbers, if it meets all rules."""
    rules = tuple(rule for rule in search.rules if not isinstance(rule, AtMost | Utilization))
    asked = replace(search.asked, arch=arch, objective=objective, rules=rules)
    other = Search(asked, search.limits.part(TUNING.share_to_meet_rules), search.processes, search.settings)
    found = best_over_lattice(other).best
    search.limits.work.add(other.limits.work.done)
    if found is None:
        return
    cost = evaluate(search.workload, search.arch, found)
    if search.meets(found, cost):
        values = objective_values(search.workload, search.arch, search.objective, cost)
        search.known[values] = found
        search.report(found, values[0], search.floors[0])


def best_over_lattice(search: Search) -> SearchResult:
    """Return the answer to a question of one value that the lattice search covers."""
    return search.answer(
        (
            refuse_clashing_words,
            refute_rules,
            bound_structures,
            search_dividing_tiles,
            refine_structures,
            anneal_near_mappings,
            bound_products,
            climb_to_the_end,
        )
    )


def _without_bandwidth(arch: Architecture) -> Architecture:
    """Return the machine without limits of bandwidth: its latency is the compute cycles."""
    nothing = {f"{kind}bandwidth_bits_per_cycle": None for kind in ("", "read_", "write_")}
    nodes = tuple(replace(node, **nothing) if isinstance(node, MemoryLevel) else node for node in arch.nodes)
    return replace(arch, nodes=nodes)


def anneal_near_mappings(search: Search) -> SearchResult | None:
    """Answer, under rules, with the best that is near the one that is known."""
    if not search.rules:
        return None
    assert search.divided is not None
    mappings = _annealed(search, search.divided)
    space = counted_space(search.size, Count(evaluated=search.divided.outcome.nodes))
    found = search.closed(mappings, (search.floors,), space, None)
    return found if found.best is not None else replace(found, clash=search.divided.result.clash)


def bound_products(search: Search) -> SearchResult | None:
    """Raise the floor by geometric programs, where no tensor is a window and cost is linear; answer where it meets the
    best mapping."""
    assert search.divided is not None
    if search.limits():
        return None
    from polymap.search.product_bounds import ProductEngine  # searches over dividing tiles do without

    if search.products is None:
        measure = measure_of(search.objective, search.workload, search.arch)
        search.products = ProductEngine(search.problem, search.objective, measure)
    begun, best, floor = search.limits.share(), _best_known(search, search.divided), search.floors[0]

    def clock() -> float:
        return (search.limits.share() - begun) / (TUNING.products_share * max(0.0, 1 - begun) or 1)

    def report(mapping: Mapping | None, value: Fraction | None, bound: Fraction) -> None:
        search.report(mapping, value, max(bound, floor))

    found = search.products.go_on(best, clock, search.limits.work, report, _climber(search, best))
    if found is None:
        return None
    if found.bound is not None:
        search.raise_floor(0, found.bound)
    if found.best is None or (found.bound is not None and search.floors[0] < found.best[1]):
        return None
    evaluated = search.divided.outcome.nodes + found.solved
    counted = counted_space(search.size, Count(evaluated=evaluated))
    return optimum(search, (found.best[0],), ((found.best[1],),), counted)


def climb_to_the_end(search: Search) -> SearchResult:
    """Answer with the best mapping over tiles of any size that is found until the limit, and what no mapping beats."""
    assert search.divided is not None
    found = _refined(search, search.divided, search.limits)
    if found is not None:
        return found
    best = _best_known(search, search.divided)
    mapping = best[0] if best else search.written()
    space = counted_space(search.size, Count(evaluated=search.divided.outcome.nodes))
    return search.closed(() if mapping is None else (mapping,), (search.floors,), space, None)


def optimum(
    search: Search, mappings: tuple[Mapping, ...], claimed: tuple[Values, ...], counted: SpaceCount
) -> SearchResult | None:
    """Return the answer that nothing beats these mappings; None where one does not cost what is claimed of it, so that
    later stages have to prove it."""
    if believed(search.question, (), [(*claim, None) for claim in zip(mappings, claimed, strict=True)]):
        return None
    return search.closed(mappings, (), counted, claimed)


def _siblings(search: Search) -> tuple[SiblingSearch, ...]:
    """Return the structures of siblings as each part of the objective bounds them."""
    if not search.siblings:
        measures = [measure_under(one, search.workload, search.arch, search.rules) for one in search.objective.singles]
        from polymap.search.sibling_bounds import SiblingSearch  # searches over dividing tiles do without

        search.siblings = tuple(SiblingSearch(search.problem, one, search.caches) for one in measures)
    return search.siblings


def _climber(search: Search, best: Known | None) -> TreeClimber | None:
    """Return what climbs from the best mapping; None where there is none."""
    if best is None:
        return None
    if search.climber is None:
        search.climber = TreeClimber(search.problem, search.arch, search.objective, seed=search.asked.seed)
    return search.climber


def _best_known(search: Search, divided: Divided) -> Known | None:
    """Return the best mapping that is known, with its exact value."""
    drawn = search.annealers.get(False)
    found = [one.best[0] for one in (search.climber, search.products, drawn) if one is not None and one.best]
    mappings = [divided.result.best, *found, *search.known.values()]
    scored = [
        (score.value, number, mapping)
        for number, mapping in enumerate(mappings)
        if mapping is not None
        and (score := exact_score(search.workload, search.arch, search.objective, mapping)) is not None
    ]
    return (min(scored)[2], min(scored)[0]) if scored else None


def _report_program_order(search: Search) -> None:
    """Report the program in its own order: who interrupts a search gets that at least."""
    mapping = program_order(search.workload, search.arch)
    score = exact_score(search.workload, search.arch, search.objective, mapping)
    if score is not None and not score.excess and search.meets(mapping, score.cost):
        search.report(mapping, score.value, search.floors[0])


def _divided(search: Search) -> Divided:
    """Return the answer over dividing tiles. Of tiles of any size the answer begins with it."""
    outcome = _solved(search, *_limits_of_dividing(search))
    measure = measure_of(search.objective, search.workload, search.arch)
    mappings: tuple[Mapping, ...] = tuple(leaf.mapping for _, leaf in outcome.found)
    claims = [(leaf.mapping, measure.unscaled_values(value), None) for value, leaf in outcome.found]
    left = tuple(believed(search.question, _left(search, outcome), claims))
    if not mappings:
        written = search.written()
        if outcome.left == () and written is None:
            return Divided(search.infeasible(_clashing(search, Dividing)), (), outcome)
        mappings, left = (() if written is None else (written,)), (search.floors,)
    if search.divides and left and search.objective.goal is not Goal.PARETO:
        search.raise_floor(0, min(left)[0])  # of a front a point that was found may be less than all that is left
    size = search.space_size(search.limits) if search.divides else None
    claimed = None if left else tuple(values for _, values, _ in claims)
    found = search.closed(mappings, left, counted_space(size, outcome.count), claimed, whole=search.divides)
    found = _accounted(found, outcome.count)
    best = found.best
    if found.status == "OPTIMAL" and best is not None:
        question = search.workload, search.arch, search.objective.text
        found = replace(found, proof=partial(_certificate, *question, best, search.rules))
    return Divided(found, mappings, outcome)


def _limits_of_dividing(search: Search) -> tuple[Stop, Stop]:
    """Return when the search over dividing tiles ends, and when after its first descent: where others go on from what
    it finds, before the limit."""
    if not search.divides:
        return search.limits.first_descent(), search.limits.dividing()
    if len(search.objective.singles) == 1:
        return search.limits, never
    return search.limits.until(search.limits.share() + TUNING.joint_share * (1 - search.limits.share())), never


def _solved(search: Search, limit: Stop, others_wait: Stop) -> Outcome:
    measure = measure_under(search.objective, search.workload, search.arch, search.rules)
    product = _best_product(search, measure) if search.outcome is None and not search.divides else None
    if product is not None:
        search.outcome = product
        return product
    met = False

    def stop() -> bool:
        return met or limit()

    def report(found: Found, bound: int) -> None:
        nonlocal met
        least = measure.unscaled_values(bound) if search.divides else search.floors
        value = None if not found else measure.unscaled(found[0][0])
        # No mapping at all is better.
        met = value is not None and len(search.objective.singles) == 1 and value <= search.floors[0]
        front = tuple(leaf.mapping for _, leaf in found) if search.objective.goal is Goal.PARETO else ()
        search.report(found[0][1].mapping if found else None, value, search.raised(least)[0], front)

    polish = _dividing_polish(search)
    if search.outcome is None:
        search.outcome = _told_before(search, measure)
    if search.outcome is None and polish is not None and search.instances() > TUNING.quickly_counted:
        first = polish.first(TUNING.drawn_first)
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
        looks_first=search.asked.hints.start is None,
        others_wait=others_wait,
        lists_until=search.limits.time_is_up,  # what a share of the limit, or few steps, were too short for
    )
    return search.outcome


def _told_before(search: Search, measure: Measure) -> Outcome | None:
    """Return what the question tells of itself: a mapping, or what an earlier search of it left."""
    hints = search.asked.hints
    known = () if hints.start is None else (_known_start(search, hints.start, measure),)
    left = None if hints.left is None else outcome_to_resume(search.problem, hints.left, known)
    return left if left is not None or not known else Outcome(known, None, Count(), 0, None)


def _known_start(search: Search, mapping: Mapping, measure: Measure) -> tuple[int, CompletedMapping]:
    """Return a known mapping with its scaled value. Raises OptionError for one that is not legal."""
    cost = evaluate(search.workload, search.arch, mapping)
    if not cost.legal:
        hint = "Begin from a legal mapping of the question, or from none."
        raise OptionError(Mistake("PM120", "the mapping to start from is not legal here", hint))
    value = objective_values(search.workload, search.arch, search.objective, cost)[0]
    return math.ceil(value / measure.unscaled(1)), CompletedMapping((), mapping)


def _best_product(search: Search, measure: Measure) -> Outcome | None:
    """Return the best dividing mapping of a product, which needs no tables; None where there is none, time ends, or
    steps are limited, which are not counted here."""
    if search.limits.work.left is not None:
        return None
    from polymap.search.product_tiles import best_product_tiles, mappings_of_padded

    answer = best_product_tiles(search.problem, measure, search.limits)
    if answer is None or answer.found is None:
        return None
    value, leaf = answer.found
    best = leaf.mapping, measure.unscaled(value)
    if not is_confirmed(search.workload, search.arch, search.objective, leaf.mapping, (best[1],)):
        return None
    search.report(*best, search.floors[0])
    stop = search.limits.until(min(1, search.limits.share() + TUNING.padding_share))
    for mapping in mappings_of_padded(search.problem, search.objective, stop):
        score = exact_score(search.workload, search.arch, search.objective, mapping)
        if score is not None and not score.excess and score.value < best[1]:
            best = mapping, score.value
            search.known = {(score.value,): mapping}
            search.report(*best, search.floors[0])
    return Outcome((answer.found,), value, Count(), 1, ())


def _dividing_polish(search: Search) -> DividingPolish | None:
    annealer = search.annealer(divide=True)
    if annealer is None or len(search.objective.singles) > 1:
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


def _certificate(workload: Workload, arch: Architecture, objective: str, best: Mapping, rules: Rules) -> str:
    from polymap.search.run.certificate import certificate  # loads the checker, which takes a while

    return certificate(workload, arch, objective, best, rules)


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
    stop = search.limits if alone else search.limits.until(search.limits.share() + TUNING.clashing_share)
    return clashing(search.workload, search.arch, search.rules, over(search.workload, stop), stop)


def walked(search: Search, size: SpaceSize | None) -> ExhaustiveResult | None:
    """Return the answer that looking at all trees gives, where they are few; each is a step. Where the limit does not
    suffice, half of it is spent on a part of them, and the bounds have the rest."""
    trees, work = size and size.legal, search.limits.work
    if trees is None or trees > TUNING.few_trees or search.limits() or not may_be_walked(search.workload):
        return None
    if search.arch.has_wire_energies:
        return None  # the walk does not count what crosses fan-outs
    if search.walking is None:
        asked = search.workload, search.arch, search.objective, search.rules
        search.walking = walk_begun(*asked, count_distinct=True, tiles=search.asked.tiles)
    walking, before, noted = search.walking, search.walking.legal, work.done
    most = None if work.left is None or trees - before <= work.left else work.left // 2

    share = search.limits.share()
    stop = search.limits.until(share + (1 - share) * TUNING.walking_share)

    def is_over() -> bool:
        work.done = noted + walking.legal - before
        return stop() or (most is not None and walking.legal - before > most)

    found = walking.go_on(is_over)
    work.done = noted + walking.legal - before
    return found


def _annealed(search: Search, divided: Divided) -> tuple[Mapping, ...]:
    """Return the best mapping that is known, or a better one that is near; where there is none, walk until one is found
    or a limit is reached. () where there is none then."""
    annealer, best = search.annealer(divide=False), _best_known(search, divided)
    if annealer is None:
        return () if best is None else (best[0],)
    if best is not None:
        annealer.know(*best)
    floor = search.floors[0]

    def report(mapping: Mapping, value: Fraction) -> None:
        search.report(mapping, value, floor)

    anneal_mappings(annealer, search.limits, search.limits.work, report, until_found=best is None)
    return () if annealer.best is None else (annealer.best[0],)
