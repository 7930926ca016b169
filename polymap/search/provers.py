"""The provers of a search, and the proposers, which raise incumbents only. Each returns the evidence with its own.

polymap/explore.py has the table of them: for which questions, in which order, with which shares of the limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING
from warnings import warn

from polymap.costmodel import not_in_steps, unsupported_in_steps
from polymap.costmodel.referees import ExhaustiveResult, TreeWalk, scored_trees
from polymap.inputs import no_energies
from polymap.ir import Architecture, Mapping, MemoryLevel, Mistake, Operator, OptionError, Workload, accesses_of, is_box
from polymap.resources import Limits, Memory, Processes, Stop, never
from polymap.schedules import any_order_is_legal
from polymap.search.answer import Question, Values, believed_bounds
from polymap.search.dividing import CompletedMapping, Count, Found, Outcome, outcome_to_resume, solve
from polymap.search.driver import Kind, Search, Table, certify_best, counted_space, further, kind_of, of_rest
from polymap.search.evidence import Evidence, Known
from polymap.search.feasible import AnySize, DividingMappings, may_be_walked, walk_begun
from polymap.search.options import TUNING, Hints, Options
from polymap.search.problem import (
    AtMost,
    Goal,
    Measure,
    Objective,
    Utilization,
    analyse,
    beyond_sums,
    check_laid,
    clashes,
    dependence,
    exact_score,
    in_sums,
    is_confirmed,
    measure_of,
    measure_under,
    parse_objective,
    rounded_up,
)
from polymap.search.program_search import program_order
from polymap.search.refuted import is_refuted
from polymap.search.result import SearchResult
from polymap.search.rule_clashes import clashing_rules
from polymap.search.trees import DividingPolish, TreeClimber, climb_beside, climber_for

if TYPE_CHECKING:
    from polymap.search.any_size import SiblingSearch


def read_question(
    workload: Workload, arch: Architecture, options: Options, provers: Callable[[Kind], Table]
) -> tuple[Search, Evidence]:
    """Return the search of what is asked with a table of provers, and what is known before it.

    Raises OptionError for an unknown objective or tile rule, a limit that is no positive number, or mistakes in the
    constraints.
    """
    goal, rules = options.read(workload, arch)
    if not arch.has_energies and any(_is_of_energy(one) for one in (goal, *(part for _, part in goal.parts))):
        warn(no_energies(arch), RuntimeWarning, stacklevel=4)
    reason = unsupported_in_steps(workload, arch) if arch.is_timed_by_step else ""
    if reason:
        raise OptionError(not_in_steps(workload, arch, reason))
    for one in (goal, *(rule.objective for rule in rules if isinstance(rule, AtMost))):
        check_laid(workload, arch, one)
    processes = Processes(options.workers)
    memory = Memory(options.memory_limit_mb, processes.pids)
    limits = Limits(options.clock, options.time_limit_s, memory, options.work_limit)
    asked = Question(workload, arch, goal, rules, options.tiles, options.seed, options.hints)
    problem = analyse(workload, arch, rules)
    kind, settings = kind_of(asked, problem), options.settings()
    search = Search(asked, problem, kind, limits, processes, settings, provers, options.on_progress)
    return search, Evidence(asked.floors()).with_floor(0, options.hints.least)


def _is_of_energy(objective: Objective) -> bool:
    return objective.goal.powers is not None and objective.goal.powers.energy > 0


def refuse_clashing_words(search: Search, evidence: Evidence, _stop: Stop) -> Evidence:
    """Refute where requirements clash by their words alone: a level has no room for what it must hold, or may not hold
    it."""
    clash = clashes(search.workload, search.arch, search.rules)
    return replace(evidence, clash=clash) if clash else evidence


def refute_rules(search: Search, evidence: Evidence, _stop: Stop) -> Evidence:
    """Refute where it is proven without a search that no mapping, of whatever tiles, meets the rules."""
    if search.problem.reason is None and search.divides:
        return evidence  # the search over dividing tiles knows, and which limits the rest allows
    if is_refuted(search.workload, search.arch, search.rules):
        return replace(evidence, clash=_clashing_rules(search, AnySize))
    return evidence


def search_dividing_tiles(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Search the tiles that divide: structures, their bounds, branch and bound. Where tiles of any size are asked for,
    or several parts, of which one after the other is cheaper than all at once, others go on from what is found here;
    with a share of its own this goes on, as long as these tiles may beat the best mapping known."""
    if evidence.dividing_is_final:
        return evidence
    if search.engines.get(Outcome) is None:
        _report_program_order(search, evidence)
    limits = _limits_of_dividing(search)
    if stop is not search.limits:
        hints = replace(search.asked.hints, enough=evidence.best[1] if evidence.best else None)
        search, limits = replace(search, asked=replace(search.asked, hints=hints)), (stop, never)
    outcome, evidence = _solve_dividing(search, evidence, *limits)
    measure = measure_of(search.objective, search.workload, search.arch)
    counted = [search.counted(leaf.mapping) for _, leaf in outcome.found]
    costs = [each[0].cost if each else None for each in counted]
    claims = [
        (leaf.mapping, measure.unscaled_values(v), cost) for (v, leaf), cost in zip(outcome.found, costs, strict=True)
    ]
    left = tuple(believed_bounds(search.asked, _unsearched_bounds(search, evidence, outcome), claims))
    found = tuple(each for one in counted for each in one)
    if not found:
        found = search.written()
        if outcome.left == () and not outcome.found and not found:
            return _without_dividing(search, evidence, outcome)
        left = (evidence.floors,)
    if search.divides and left and search.objective.goal is not Goal.PARETO:
        evidence = evidence.with_floor(0, min(left)[0])  # of a front a point may be less than all that is left
    size = search.space_size(search.limits) if search.divides else None
    own = Evidence(evidence.floors, left=left, space=counted_space(size, outcome.count)).with_incumbents(found)
    result = _account_for_structures(search.closed(own, whole=search.divides), outcome.count)
    if result.status == "OPTIMAL" and result.best is not None:
        result = replace(result, proof=partial(certify_best, search.asked, result.best))
    evidence = replace(evidence.with_incumbents(found), dividing=result, nodes=outcome.nodes)
    return replace(evidence, left=()) if search.divides and evidence.dividing_is_final else evidence


def enumerate_few_trees(search: Search, evidence: Evidence, _stop: Stop) -> Evidence:
    """Prove the best of all trees where they are few: the optimum over tiles of any size; of a program, where it is one
    accumulation over a box in which one tensor is read through several accesses.

    Of such a program the walk takes a level's largest tiles to be there at one step, which dividing tiles are. Over
    tiles of any size it takes those of the first step, so that all trees that fit are among those looked at: their
    best, if it fits, is the best.
    """
    is_program = search.kind is Kind.PROGRAM
    if is_program and (not _has_one_union(search.workload) or search.limits()):
        return evidence
    counting = further(TUNING.counting_share)
    evidence = replace(evidence, size=(size := search.space_size(counting(search.limits))))
    done = _walk_trees(search, counting(search.limits))
    if done is None or (is_program and search.rules and done.best is None):
        return evidence
    best = done.front_trees or (() if done.best is None else (done.best,))
    if not best:
        none_fits = (f"none of the {done.legal:,} legal loop trees is within the capacities",)
        return replace(evidence, clash=_clashing_rules(search, AnySize) if search.rules else none_fits)
    if is_program and not search.divides and not all(search.incumbent(mapping).cost.legal for mapping in best):
        return evidence
    space = replace(counted_space(size, Count(evaluated=done.legal)), distinct=done.distinct)
    return search.proven(evidence, tuple(zip(best, done.front or (done.values,), strict=True)), space)


def _has_one_union(workload: Workload) -> bool:
    """Return whether a statement that accumulates in any order over a box reads one tensor through several accesses,
    and all others through one."""
    if len(workload.statements) != 1 or not workload.associative or not any_order_is_legal(workload):
        return False
    (statement,) = workload.statements
    several = sum(len(set(accesses_of(statement, tensor.name))) > 1 for tensor in workload.tensors)
    linear = all(index.is_linear for access in (statement.target, *statement.reads) for index in access.index)
    return several == 1 and linear and is_box(statement) and statement.operator is not Operator.ASSIGN


def bound_structures(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Raise the floors for tiles of any size by two bounds that hold for all mappings at once: one from whole numbers
    of siblings, one from boxes of products on one buffer."""
    if not search.problem.classes:
        from polymap.search.single_level import bound_at_once  # searches over dividing tiles do without

        for place, one in enumerate(search.objective.singles):
            measure = measure_of(one, search.workload, search.arch)
            found = bound_at_once(search.problem, measure, stop)
            evidence = evidence.with_floor(place, found)
    for place, one in enumerate(_siblings(search)):
        found = one.go_on(None, stop, search.limits.work, refined=False)
        evidence = evidence.with_floor(place, found)
    return evidence


def begin_rounded_nests(search: Search, evidence: Evidence, _stop: Stop) -> Evidence:
    """Propose the best dividing mapping of a nest whose extents with large prime factors are rounded up, with tiles cut
    to size: few tiles divide such an extent."""
    extents = search.problem.extents
    longer = tuple(map(round_extent, extents))
    tried = search.engines.made(set, set[tuple[int, ...]])
    is_new = longer not in {extents, *tried} and not search.divides
    tried.add(longer)
    climber = climber_of(search, divide=False) if is_new else None
    if climber is not None and evidence.best is not None:
        climber.begin_at(evidence.best[0])  # from there on is another way
    return _with_longer(search, evidence, longer, TUNING.rounded_share) if is_new else evidence


def round_extent(extent: int) -> int:
    """Return an extent with a large prime factor rounded up to one with many divisors; any other as it is."""
    return rounded_up(extent, TUNING.bits_of_rounded, TUNING.most_prime)


def begin_padded_nests(search: Search, evidence: Evidence, _stop: Stop) -> Evidence:
    """Propose the best dividing mappings of slightly larger nests, with tiles cut to size: dims are rounded up to
    multiples of the sibling counts of structures of least bounds."""
    extents, is_timed = search.problem.extents, dependence(search.objective, leaks=False)[1]
    share = TUNING.timed_padded_share if is_timed else TUNING.padded_share
    tried = search.engines.made(set, set[tuple[int, ...]])
    for one in () if search.divides else _siblings(search)[0].leading(TUNING.structures_padded):
        counts = [math.prod(column) for column in zip(*one.counts, strict=True)] or [1] * len(extents)
        longer = tuple(-(-extent // count) * count for extent, count in zip(extents, counts, strict=True))
        is_near = is_timed or math.prod(longer) <= TUNING.most_padded * math.prod(extents)
        if longer in {extents, *tried} or not is_near or len(tried) > TUNING.padded_nests:
            continue
        if evidence.incumbents and search.limits.time_is_up():
            break
        tried.add(longer)
        evidence = _with_longer(search, evidence, longer, share)
    return evidence


def _with_longer(search: Search, evidence: Evidence, longer: tuple[int, ...], share: float) -> Evidence:
    """Return the evidence with the best dividing mapping of a longer nest, cut to size."""
    from polymap.search.dividing import cut_to, with_extents

    workload = with_extents(search.workload, dict(zip(search.problem.dims, longer, strict=True)))
    if workload is None:
        return evidence
    degree = measure_of(search.objective, search.workload, search.arch).degree
    growth = Fraction(math.prod(longer), math.prod(search.problem.extents)) ** degree  # about so much cutting saves
    enough = evidence.best[1] * growth if evidence.best else None
    hints = Hints(counts_space=False, enough=enough)
    asked = replace(search.asked, workload=workload, tiles="divide", hints=hints)
    found = search.ask(asked, Kind.DIVIDING, share)[0].best
    if found is None:
        return evidence
    mapping = cut_to(found, search.workload.extents())
    score = exact_score(search.workload, search.arch, search.objective, mapping)
    if score is None or score.excess:
        return evidence
    return search.tell(_offer_mapping(search, evidence, (mapping, score.value)))


def refine_structures(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Raise the floors structure by structure, least bound first, in turn with local search there, until bound and
    value meet."""
    from polymap.search.any_size import climb_structures  # searches over dividing tiles do without

    if search.divides:
        return evidence
    structures, best, climber = _siblings(search)[0], evidence.best, climber_of(search, divide=False)
    waits = stop is not search.limits and not search.rules and not evidence.dividing_is_final  # dividing tiles go on
    asked = structures, climber, best, stop, search.limits.work, search.report
    best = climb_structures(*asked, until_stalled=waits)
    evidence = _offer_mapping(search, evidence.with_floor(0, structures.value), best)
    if best is None and structures.value is None:
        return replace(evidence, clash=evidence.dividing_clash)
    return _bounded(search, evidence, best, evidence.floors[0])


def _offer_mapping(search: Search, evidence: Evidence, best: Known | None) -> Evidence:
    """Return the evidence with a mapping that an engine knows, if it is better than those that are known."""
    if best is None or (evidence.best is not None and evidence.best[1] <= best[1]):
        return evidence
    return evidence.with_incumbents(search.counted(best[0]))


def try_what_rules_limit(search: Search, evidence: Evidence, _stop: Stop) -> Evidence:
    """Propose, under rules that no mapping is known to meet, one that does: the best by what they limit."""
    for rule in search.rules:
        if not evidence.incumbents and isinstance(rule, AtMost):
            evidence = _try_best_by(search, evidence, search.arch, rule.objective)
        elif not evidence.incumbents and isinstance(rule, Utilization):  # of the compute units, whatever is transferred
            latency = parse_objective("latency", search.arch)
            evidence = _try_best_by(search, evidence, _without_bandwidth(search.arch), latency)
    return evidence


def _try_best_by(search: Search, evidence: Evidence, arch: Architecture, objective: Objective) -> Evidence:
    """Return the evidence with the best mapping by an objective, under the rules that limit no numbers, if it meets all
    rules."""
    rules = tuple(rule for rule in search.rules if not isinstance(rule, AtMost | Utilization))
    asked = replace(search.asked, arch=arch, objective=objective, rules=rules)
    mapping = search.ask(asked, Kind.RELATED, TUNING.share_to_meet_rules)[0].best
    if mapping is None:
        return evidence
    found = search.incumbent(mapping)
    if not search.meets(mapping, found.cost):
        return evidence
    return search.tell(evidence.with_incumbents((found,)))


def _without_bandwidth(arch: Architecture) -> Architecture:
    """Return the machine without limits of bandwidth: its latency is the compute cycles."""
    nothing = {f"{kind}bandwidth_bits_per_cycle": None for kind in ("", "read_", "write_")}
    nodes = tuple(replace(node, **nothing) if isinstance(node, MemoryLevel) else node for node in arch.nodes)
    return replace(arch, nodes=nodes)


def climb_near_mappings(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Propose, under rules, the best that is near the mapping that is known; where there is none, walk until one is
    found or a limit is reached."""
    climber, best, floor = climber_of(search, divide=False), evidence.best, evidence.floors[0]
    if climber is None:
        return evidence
    if best is not None:
        climber.know(*best)

    def report(mapping: Mapping, value: Fraction) -> None:
        search.report(mapping, value, floor)

    climb_beside(climber, stop, search.limits.work, report, until_found=best is None)
    return _offer_mapping(search, evidence, climber.best)


def bound_products(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Raise the floor by geometric programs, where no tensor is a window and cost is linear, and look for mappings near
    their optima, until they meet."""
    if search.limits() or search.divides:
        return evidence
    from polymap.search.any_size import ProductEngine  # searches over dividing tiles do without

    measure, floor, best = measure_of(search.objective, search.workload, search.arch), evidence.floors[0], evidence.best
    engine = search.engines.made(ProductEngine, lambda: ProductEngine(search.problem, search.objective, measure))
    climber = climber_of(search, divide=False)
    found = engine.go_on(best, floor, lambda: 2.0 * stop(), search.limits.work, search.report, climber)
    if found is None:
        return _offer_mapping(search, evidence, engine.best)
    return _bounded(search, evidence, found.best, found.bound, found.solved)


def bound_cells(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Raise the floor by cells of tiles on one buffer, where cost is linear, and look for mappings of these, until they
    meet."""
    if search.limits() or search.divides or evidence.best is None:
        return evidence
    from polymap.search.single_level import bound_at_once, solve_cells  # searches over dividing tiles do without

    measure, work = measure_of(search.objective, search.workload, search.arch), search.limits.work
    found = solve_cells(search.problem, search.objective, measure, evidence.best, stop, work)
    if found is None:  # the first share may have been too short for the bound of a product
        found = evidence.best, bound_at_once(search.problem, measure, stop) or evidence.floors[0]
    return _bounded(search, evidence, *found)


def _bounded(
    search: Search, evidence: Evidence, best: Known | None, bound: Fraction | None, solved: int = 0
) -> Evidence:
    """Return the evidence with a mapping and a lower bound over all mappings (None: all are searched), or the proof
    where the two meet."""
    evidence = _offer_mapping(search, evidence.with_floor(0, bound), best)
    if best is None or (bound is not None and evidence.floors[0] < best[1]):
        return evidence
    space = counted_space(evidence.size, Count(evaluated=evidence.nodes + solved))
    return search.proven(evidence, ((best[0], (best[1],)),), space)


def begin_timed_nests(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Propose a mapping by construction, for a large nest whose trees are counted one by one."""
    climber = climber_of(search, divide=search.divides) if _is_one_value(search) else None
    if climber is None or evidence.best is not None or search.instances() <= TUNING.quickly_counted:
        return evidence
    climber.walk(1, stop)
    search.limits.work.add(climber.scored)
    return search.tell(_offer_mapping(search, evidence, climber.best))


def begin_as_written(search: Search, evidence: Evidence, _stop: Stop) -> Evidence:
    """Propose the program in its own order."""
    return evidence.with_incumbents(search.written())


def _siblings(search: Search) -> tuple[SiblingSearch, ...]:
    """Return the structures of siblings as each part of the objective bounds them."""
    from polymap.search.any_size import SiblingSearch  # searches over dividing tiles do without

    def begun(single: Objective) -> SiblingSearch:
        measure = measure_under(single, search.workload, search.arch, search.rules)
        return SiblingSearch(search.problem, measure, search.caches)

    singles = search.objective.singles
    return tuple(search.engines.made(SiblingSearch, partial(begun, one), of=one) for one in singles)


def climber_of(search: Search, *, divide: bool) -> TreeClimber | None:
    """Return the local search; None where there is none. A resumed search goes on with it."""
    found = search.engines.get(TreeClimber, divide)
    if found is None:
        asked = search.workload, search.arch, search.objective, search.rules
        found = climber_for(*asked, divide=divide, seed=search.asked.seed)
        if found is not None:
            search.engines.keep(found, divide)
    return found


def _report_program_order(search: Search, evidence: Evidence) -> None:
    """Report the program in its own order: who interrupts a search gets that at least."""
    mapping = program_order(search.workload, search.arch)
    score = exact_score(search.workload, search.arch, search.objective, mapping)
    if score is not None and not score.excess and search.meets(mapping, score.cost):
        search.report(mapping, score.value, evidence.floors[0])


def _without_dividing(search: Search, evidence: Evidence, outcome: Outcome) -> Evidence:
    """Return the evidence that no mapping has dividing tiles."""
    clash = _clashing_rules(search, DividingMappings)
    evidence = replace(evidence, dividing=search.infeasible(clash), nodes=outcome.nodes)
    return replace(evidence, clash=clash) if search.divides else evidence


def _limits_of_dividing(search: Search) -> tuple[Stop, Stop]:
    """Return when the search over dividing tiles ends, and when after its first descent: where others go on from what
    it finds, before the limit."""
    if not search.divides:
        return search.limits.first_descent(), search.limits.dividing()
    if len(search.objective.singles) == 1:
        return search.limits, never
    return search.limits.until(search.limits.share() + TUNING.joint_share * (1 - search.limits.share())), never


def _solve_dividing(search: Search, evidence: Evidence, limit: Stop, others_wait: Stop) -> tuple[Outcome, Evidence]:
    """Return what the search over dividing tiles ends with, and what else was found on the way."""
    measure = measure_under(search.objective, search.workload, search.arch, search.rules)
    outcome, met, enough = search.engines.get(Outcome), False, search.asked.hints.enough
    told = None if outcome is not None else _told_before(search, measure)
    if outcome is None:
        outcome, evidence = _best_product(search, evidence, measure, limit if search.divides else others_wait)
        if outcome is not None and (outcome.left is not None or limit()):
            search.engines.keep(outcome)
            return outcome, evidence

    def stop() -> bool:
        return met or limit()

    def report(found: Found, bound: int) -> None:
        nonlocal met
        least = measure.unscaled_values(bound) if search.divides else evidence.floors
        value = None if not found else measure.unscaled(found[0][0])
        is_enough = enough is not None and max(measure.unscaled(bound), evidence.floors[0]) >= enough
        met = value is not None and len(search.objective.singles) == 1 and (value <= evidence.floors[0] or is_enough)
        front = tuple(leaf.mapping for _, leaf in found) if search.objective.goal is Goal.PARETO else ()
        search.report(found[0][1].mapping if found else None, value, max(least[0], evidence.floors[0]), front)

    polish = _dividing_polish(search)
    if outcome is None or (told is not None and told.found and told.found[0][0] < outcome.found[0][0]):
        outcome = told
    if outcome is None and polish is not None and search.instances() > TUNING.quickly_counted:
        first = polish.first(1)  # by construction
        if first is not None:
            report((first,), 0)
            outcome = Outcome((first,), None, Count(), 0, None)
            if met:
                search.engines.keep(outcome)
                return outcome, evidence
    outcome = solve(
        search.problem,
        measure,
        stop,
        report,
        before=outcome,
        processes=search.processes,
        work=search.limits.work,
        polish=polish,
        caches=search.caches,
        looks_first=search.asked.hints.start is None,
        others_wait=others_wait,
        lists_until=_limit_of_list(search, outcome, stop),
    )
    search.engines.keep(outcome)
    return outcome, evidence


def _limit_of_list(search: Search, outcome: Outcome | None, stop: Stop) -> Stop:
    """Return what ends the list of structures: a share of the limit, as what follows takes longer; the whole of it once
    the share, or few steps, were too short."""
    if outcome is not None and outcome.is_late:
        return search.limits.time_is_up
    share = further(TUNING.listing_share)(search.limits)
    return lambda: stop() or share()


def _told_before(search: Search, measure: Measure) -> Outcome | None:
    """Return the hints of the question: a mapping to begin with, or what an earlier search left."""
    hints = search.asked.hints
    known = () if hints.start is None else (_known_start(search, hints.start, measure),)
    left = None if hints.left is None else outcome_to_resume(search.problem, hints.left, known)
    return left if left is not None or not known else Outcome(known, None, Count(), 0, None)


def _known_start(search: Search, mapping: Mapping, measure: Measure) -> tuple[int, CompletedMapping]:
    """Return a known mapping with its scaled value. Raises OptionError for one that is not legal."""
    found = search.incumbent(mapping)
    if not found.cost.legal:
        hint = "Begin from a legal mapping of the question, or from none."
        raise OptionError(Mistake("PM120", "the mapping to start from is not legal here", hint))
    return math.ceil(found.values[0] / measure.unscaled(1)), CompletedMapping((), mapping)


def _best_product(search: Search, evidence: Evidence, measure: Measure, stop: Stop) -> tuple[Outcome | None, Evidence]:
    """Return the best dividing mapping of a product, which needs no tables, and over tiles of any size the evidence
    with the best padded one. What time ended, or begins from less, is no proof: then nothing is said of what is left.
    None where there is none, or it does not cost what is claimed."""
    from polymap.search.dividing import best_product_tiles, count_of_refuted

    answer = best_product_tiles(search.problem, measure, stop, search.limits.work)
    if answer is None or answer.found is None:
        return None, evidence
    value, leaf = answer.found
    best = leaf.mapping, measure.unscaled(value)
    if not is_confirmed(search.workload, search.arch, search.objective, leaf.mapping, best[1:]):
        return None, evidence
    if search.divides and answer.bound is not None:
        evidence = evidence.with_floor(0, measure.unscaled(answer.bound))
    search.report(*best, evidence.floors[0])
    if not answer.is_proven:
        return Outcome((answer.found,), None, Count(), 0, None), evidence
    if search.divides:
        counts, listing = search.asked.hints.counts_space, _limit_of_list(search, None, stop)
        count = count_of_refuted(search.problem, listing) if counts else Count(evaluated=1)
        return Outcome((answer.found,), value, count, 1, ()), evidence
    return Outcome((answer.found,), value, Count(), 1, ()), _with_padded(search, evidence, best)


def begin_large_products(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Search the dividing tiles of a product that has too many of them for tables, which its search does without."""
    is_one = len(search.objective.singles) == 1 and not beyond_sums(search.arch, search.rules, search.objective)
    if not is_one or not search.problem.terms:
        return evidence
    measure = measure_under(search.objective, search.workload, search.arch, search.rules)
    outcome, evidence = _best_product(search, evidence, measure, stop)
    if outcome is None:
        return evidence
    ((value, leaf),) = outcome.found
    evidence = evidence.with_incumbents(search.counted(leaf.mapping))
    if outcome.left is None or not search.divides:
        return evidence
    claims = ((leaf.mapping, measure.unscaled_values(value)),)
    return search.proven(evidence, claims, counted_space(search.space_size(search.limits), outcome.count))


def _with_padded(search: Search, evidence: Evidence, best: Known) -> Evidence:
    """Return the evidence with the best of a padded product's mappings, where it is better and meets the rules; none is
    looked for where nothing is better."""
    from polymap.search.dividing import mappings_of_padded

    share = further(TUNING.padding_share)(search.limits)

    def stop() -> bool:
        return best[1] <= evidence.floors[0] or share()

    for mapping in mappings_of_padded(search.problem, search.objective, stop, search.limits.work):
        score = exact_score(search.workload, search.arch, search.objective, mapping)
        if score is None or score.excess or score.value >= best[1] or not search.meets(mapping, score.cost):
            continue
        best = mapping, score.value
        evidence = search.tell(evidence.with_incumbents(search.counted(mapping)))
    return evidence


def _dividing_polish(search: Search) -> DividingPolish | None:
    climber = climber_of(search, divide=True)
    if climber is None or len(search.objective.singles) > 1:
        return None
    measure = measure_of(search.objective, search.workload, search.arch)
    windows = any(term.is_window for term in search.problem.terms)
    return DividingPolish(climber, measure, search.limits, has_window=windows)


def _unsearched_bounds(search: Search, evidence: Evidence, outcome: Outcome) -> tuple[Values, ...]:
    """Return lower bounds, per part of the objective, of all dividing mappings that were not searched."""
    if outcome.left is None:
        return (evidence.floors,)
    measure = measure_of(search.objective, search.workload, search.arch)
    bounds = (measure.unscaled_values(bound) for bound in outcome.left)
    return tuple(tuple(max(pair) for pair in zip(one, evidence.floors, strict=True)) for one in bounds)


def _account_for_structures(found: SearchResult, count: Count) -> SearchResult:
    """Return a dividing answer that tells where every structure went: of an optimum those whose trees were not searched
    are refuted by what no mapping beats, if not by their own bounds."""
    if found.status != "OPTIMAL" or count.listed is None:
        return found
    refuted = count.listed - count.evaluated - count.infeasible
    return replace(found, space=replace(found.space, pruned=refuted))


def _clashing_rules(search: Search, over: type[DividingMappings | AnySize]) -> tuple[str, ...]:
    """Return which rules no mapping meets together, over dividing tiles or those of any size; or that none fits."""
    if not search.rules:
        return ("every mapping with tiles that divide was refuted: none is within the capacities",)
    alone = search.divides
    stop = search.limits if alone else search.limits.until(search.limits.share() + TUNING.clashing_share)
    return clashing_rules(search.workload, search.arch, search.rules, over(search.workload, stop), stop)


def _walk_trees(search: Search, counting: Stop) -> ExhaustiveResult | None:
    """Return the answer that looking at all trees gives, where they are few; each is a step. Where the limit does not
    suffice, half of it is spent on a part of them, and the bounds have the rest."""
    if not may_be_walked(search.workload) or (trees := search.few_trees(TUNING.few_trees, counting)) is None:
        return None
    work = search.limits.work
    if search.limits():
        return None
    asked = search.workload, search.arch, search.objective, search.rules
    walking = search.engines.made(TreeWalk, lambda: walk_begun(*asked, count_distinct=True, tiles=search.asked.tiles))
    before, noted = walking.legal, work.done
    most = None if work.left is None or trees - before <= work.left else work.left // 2
    stop = of_rest(TUNING.walking_share)(search.limits)

    def is_over() -> bool:
        work.done = noted + walking.legal - before
        return stop() or (most is not None and walking.legal - before > most)

    found = walking.go_on(is_over)
    work.done = noted + walking.legal - before
    return found


def walk_timed_trees(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Prove the best of all trees where they are few, by rising sums of traffic: only a tree whose sum is below the
    incumbent is counted exactly."""
    if search.kind is not Kind.PROGRAM or search.problem.reason is not None or len(search.objective.singles) > 1:
        return evidence
    count, best = few_timed_trees(search), evidence.best
    trees = None if count is None else _by_sums(search, evidence, stop)
    if trees is None:
        return evidence
    for least, mapping in trees:
        if best is not None and least >= best[1]:
            break
        search.limits.work.add(1)
        if stop():
            return _offer_mapping(search, evidence, best)
        score = exact_score(search.workload, search.arch, search.objective, mapping, None if best is None else best[1])
        if score is None:
            return _offer_mapping(search, evidence, best)  # not counted: it may be the best
        if score.excess or (best is not None and score.value >= best[1]):
            continue
        if not search.rules or search.meets(mapping, score.cost):
            best = mapping, score.value
            search.report(*best, evidence.floors[0])
    if best is None:
        rules = " and meets all rules" if search.rules else ""
        none = f"none of the {count:,} legal loop trees is within the capacities{rules}"
        return replace(evidence, clash=(none,))
    space = counted_space(search.space_size(search.limits), Count(evaluated=count or 0))
    return search.proven(evidence, ((best[0], (best[1],)),), space)


def few_timed_trees(search: Search) -> int | None:
    """Return how many trees a nest has, where they are so few that all are walked; else None."""
    if search.workload.statements[0].operator is Operator.ASSIGN or not may_be_walked(search.workload):
        return None  # what overwrites is not enumerated
    return search.few_trees(TUNING.few_timed_trees, further(TUNING.counting_share)(search.limits))


def _by_sums(search: Search, evidence: Evidence, stop: Stop) -> list[tuple[Fraction, Mapping]] | None:
    """Return the trees within the capacities, each with a lower bound of its cost (sums of traffic, without steps), in
    rising order up to the incumbent. None: `stop` ended it."""
    known, sums = evidence.best, in_sums(search.arch, search.objective).text
    found: list[tuple[Fraction, Mapping]] = []
    for tree in scored_trees(search.workload, search.arch, sums, search.asked.tiles):
        if stop():
            return None
        if tree.fits and (known is None or tree.value < known[1]):
            found.append((tree.value, tree.mapping))
    return sorted(found, key=lambda each: each[0])


def _is_one_value(search: Search) -> bool:
    is_nest = beyond_sums(search.arch, search.rules, search.objective) and len(search.workload.statements) == 1
    return bool(is_nest) and len(search.objective.singles) == 1


def climb_timed_nests(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Propose mappings by local search from the incumbent and from new trees, each counted by itself, until one attains
    the floor."""
    climber, best, floor = climber_of(search, divide=search.divides), evidence.best, evidence.floors[0]
    if not _is_one_value(search) or climber is None or best is None:
        return evidence
    climber.know(*best)
    while best[1] > floor and not stop():
        before = climber.scored
        better = climber.walk(TUNING.trees_in_turn, stop)
        search.limits.work.add(climber.scored - before)
        if better and climber.best is not None:
            best = climber.best
            search.report(*best, floor)
    space = counted_space(search.space_size(search.limits), Count(evaluated=climber.scored))
    return replace(evidence.with_incumbents(search.counted(best[0])), space=space)
