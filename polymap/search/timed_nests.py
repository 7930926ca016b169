"""Provers and proposers for nests of which each tree is counted by itself, as steps take cycles of their own
(docs/latency.md), or bursts or requests are asked for: what no mapping beats by sums of traffic bounds them, all trees
are walked where they are few, and local search looks at others."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from polymap.ir import Mapping, Operator
from polymap.resources import Stop
from polymap.schedules import SpaceSize
from polymap.search.dividing import Count
from polymap.search.driver import Kind, Search, counted_space
from polymap.search.enumeration import scored_trees
from polymap.search.evidence import Evidence
from polymap.search.feasible import may_be_walked
from polymap.search.options import TUNING
from polymap.search.problem import beyond_sums, exact_score, in_sums
from polymap.search.provers import climber_of


def walk_timed_trees(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Prove the best of all trees where they are few: each that may be better by sums of traffic is counted."""
    if search.kind is not Kind.PROGRAM or search.problem.reason is not None or len(search.objective.singles) > 1:
        return evidence
    size = size_of_few_trees(search)
    if size is None or size.legal is None:
        return evidence
    best, trees = evidence.best, _by_sums(search, evidence, stop)
    if trees is None:
        return evidence
    for least, mapping in trees:
        if best is not None and least >= best[1]:
            break
        search.limits.work.add(1)
        if stop():
            return _offered(search, evidence, best)
        score = exact_score(search.workload, search.arch, search.objective, mapping, None if best is None else best[1])
        if score is None:
            return _offered(search, evidence, best)  # not counted: it may be the best
        if score.excess or (best is not None and score.value >= best[1]):
            continue
        if not search.rules or search.meets(mapping, score.cost):
            best = mapping, score.value
            search.report(*best, evidence.floors[0])
    if best is None:
        rules = " and meets all rules" if search.rules else ""
        none = f"none of the {size.legal:,} legal loop trees is within the capacities{rules}"
        return replace(evidence, clash=(none,))
    space = counted_space(size, Count(evaluated=size.legal))
    return search.proven(evidence, ((best[0], (best[1],)),), space)


def size_of_few_trees(search: Search) -> SpaceSize | None:
    """Return the size of the space of a nest, where its trees are so few that all are walked; else None."""
    if search.workload.statements[0].operator is Operator.ASSIGN or not may_be_walked(search.workload):
        return None  # what overwrites is not enumerated
    size = search.space_size(search.limits.until(search.limits.share() + TUNING.counting_share))
    return None if size is None or size.legal is None or size.legal > TUNING.few_timed_trees else size


def _by_sums(search: Search, evidence: Evidence, stop: Stop) -> list[tuple[Fraction, Mapping]] | None:
    """Return the trees within the capacities, each with what it costs at least: by sums of traffic without steps, the
    least first, up to the mapping that is known. None where `stop` says so before."""
    plain, known = search.arch.without_steps(), evidence.best
    sums = in_sums(search.arch, search.objective).text
    found: list[tuple[Fraction, Mapping]] = []
    for tree in scored_trees(search.workload, plain, sums, search.asked.tiles):
        if stop():
            return None
        if tree.fits and (known is None or tree.value < known[1]):
            found.append((tree.value, tree.mapping))
    return sorted(found, key=lambda each: each[0])


def _is_one_value(search: Search) -> bool:
    is_nest = beyond_sums(search.arch, search.rules, search.objective) and len(search.workload.statements) == 1
    return bool(is_nest) and len(search.objective.singles) == 1


def _offered(search: Search, evidence: Evidence, best: tuple[Mapping, Fraction] | None) -> Evidence:
    return evidence if best is None else evidence.with_incumbents((search.incumbent(best[0]),))


def climb_timed_nests(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Propose mappings near the best one that is known and anywhere, where each tree is counted by itself, until one
    meets the floor."""
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
    return replace(evidence.with_incumbents((search.incumbent(best[0]),)), space=space)
