"""Provers and proposers for nests on machines whose steps take cycles of their own (docs/latency.md): what no mapping
beats on a machine without steps bounds them, all trees are walked where they are few, and others are annealed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from polymap.ir import Mapping
from polymap.search.dividing import Count
from polymap.search.enumeration import scored_trees
from polymap.search.problem import exact_score
from polymap.search.resources import Stop
from polymap.search.run.driver import Search, counted_space
from polymap.search.run.evidence import Evidence
from polymap.search.run.feasible import may_be_walked
from polymap.search.run.options import TUNING
from polymap.search.run.provers import climber_of, kept_annealer


def walk_timed_trees(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Prove the best of all trees where they are few: each that may be better without steps is counted in steps."""
    if not _is_one_value(search) or search.rules or search.problem.reason is not None:
        return evidence
    size = search.space_size(search.limits.until(search.limits.share() + TUNING.counting_share))
    evidence = replace(evidence, size=size)
    if size is None or size.legal is None or size.legal > TUNING.few_timed_trees or not may_be_walked(search.workload):
        return evidence
    best = evidence.best
    for mapping in _may_be_better(search, evidence):
        search.limits.work.add(1)
        if stop():
            return _offered(search, evidence, best)
        score = exact_score(search.workload, search.arch, search.objective, mapping, None if best is None else best[1])
        if score is None:
            return _offered(search, evidence, best)  # not counted: it may be the best
        if not score.excess and (best is None or score.value < best[1]):
            best = mapping, score.value
            search.report(*best, evidence.floors[0])
    if best is None:
        none = f"none of the {size.legal:,} legal loop trees is within the capacities"
        return replace(evidence, clash=(none,))
    space = counted_space(size, Count(evaluated=size.legal))
    return search.proven(evidence, ((best[0], (best[1],)),), space)


def _may_be_better(search: Search, evidence: Evidence) -> Iterator[Mapping]:
    """Yield the trees within the capacities that cost less without steps than the mapping that is known."""
    plain, known = search.arch.without_steps(), evidence.best
    for tree in scored_trees(search.workload, plain, search.objective.text, search.asked.tiles):
        if tree.fits and (known is None or tree.value < known[1]):
            yield tree.mapping


def _is_one_value(search: Search) -> bool:
    is_nest = search.arch.is_timed_by_step and len(search.workload.statements) == 1
    return is_nest and len(search.objective.singles) == 1


def _offered(search: Search, evidence: Evidence, best: tuple[Mapping, Fraction] | None) -> Evidence:
    return evidence if best is None else evidence.with_incumbents((search.incumbent(best[0]),))


def anneal_timed_nests(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Propose mappings near the best one that is known and anywhere, where steps take cycles of their own: annealed
    ones, and over tiles of any size those that climbing finds, in turn until one meets the floor."""
    annealer, best = kept_annealer(search, divide=search.divides), evidence.best
    if not _is_one_value(search) or annealer is None or best is None:
        return evidence
    climber, floor = None if search.divides or search.rules else climber_of(search, best), evidence.floors[0]
    while best[1] > floor and not stop():
        annealer.know(*best)
        before = annealer.scored
        better = annealer.walk(TUNING.annealed_in_turn, stop)
        search.limits.work.add(annealer.scored - before)
        if better and annealer.best is not None:
            best = annealer.best
        if climber is not None:
            climber.know(*best)
            if climber.walk(TUNING.climbed_in_turn, stop) and climber.best is not None:
                better, best = True, climber.best
        if better:
            search.report(*best, floor)
    space = counted_space(search.space_size(search.limits), Count(evaluated=annealer.scored))
    return replace(evidence.with_incumbents((search.incumbent(best[0]),)), space=space)
