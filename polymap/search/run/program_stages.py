"""Stages for programs that the lattice search does not cover: all trees of small ones, what other nests say about nests
that read one tensor through several accesses, climbing, samples and annealing."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from polymap.costmodel import evaluate
from polymap.costmodel.analysis import compulsory_bits
from polymap.ir import Mapping, Operator, Workload, accesses_of, is_box
from polymap.schedules.space import any_order_is_legal
from polymap.search.dividing import Count
from polymap.search.objective import floor_of, objective_values
from polymap.search.programs import ProgramSearch, ProgramTree, instance_bound, may_be_climbed
from polymap.search.resources import OutOfTime
from polymap.search.result import SearchResult
from polymap.search.run.options import TUNING
from polymap.search.run.programs import sampled
from polymap.search.run.relatives import mappings_of_relatives
from polymap.search.run.stages import optimum, walked
from polymap.search.run.state import Search, counted_space


def sample_programs(search: Search) -> SearchResult | None:
    """Answer with the best of sampled and annealed mappings where the lattice search does not apply (several
    statements, recurrences, domains that are no box, ...)."""
    if search.problem.reason is None:
        return None
    found = _best_of_few(search)
    if found is not None:
        return found
    if search.starts is None:
        search.starts = mappings_of_relatives(search)
    found = _best_start(search)
    if found is not None:
        return found
    _bound_by_capacities(search)
    annealer = search.annealer(divide=search.divides)
    climbed = _climbed(search, alone=annealer is None)
    if climbed is not None and annealer is None:
        return _tree_answer(search, climbed)
    floor, met = search.floors[0], False

    def report(mapping: Mapping, value: Fraction) -> None:
        nonlocal met
        met = value <= floor and len(search.objective.singles) == 1  # no mapping is better
        search.report(mapping, value, floor)

    search.drawn = sampled(
        search.workload,
        search.arch,
        search.objective,
        search.rules,
        lambda: met or search.limits(),
        annealer=annealer,
        seed=search.asked.seed,
        before=search.drawn,
        starts=search.starts,
        limits=search.limits,
        report=report,
    )
    if climbed is not None and not (search.drawn.found and search.drawn.found[0][0][0] <= climbed.value):
        return _tree_answer(search, climbed)
    mappings = tuple(mapping for _, mapping, _ in search.drawn.found)
    costs = tuple(cost for _, _, cost in search.drawn.found)
    space = counted_space(search.space_size(search.limits), Count(evaluated=search.drawn.tried))
    return search.closed(mappings, (search.floors,), space, None, costs=costs)


def _best_start(search: Search) -> SearchResult | None:
    """Return the answer that the first of the mappings to begin with is; None where it is not proven to be the best."""
    if not search.starts or len(search.objective.singles) > 1:
        return None
    mapping = search.starts[0]
    value = objective_values(
        search.workload, search.arch, search.objective, evaluate(search.workload, search.arch, mapping)
    )
    search.report(mapping, value[0], search.floors[0])
    if value[0] > search.floors[0]:
        return None
    return search.closed((mapping,), (search.floors,), counted_space(search.space_size(search.limits), Count()), None)


def _best_of_few(search: Search) -> SearchResult | None:
    """Answer with the best of all trees of one accumulation over a box in which one tensor is read through several
    accesses, where the trees are few.

    The walk takes a level's largest tiles to be there at one step, which dividing tiles are. Over tiles of any size it
    takes those of the first step, so that all trees that fit are among those looked at: their best, if it fits, is the
    best.
    """
    if not _has_one_union(search.workload) or search.limits():
        return None
    search.size = search.space_size(search.limits.until(search.limits.share() + TUNING.counting_share))
    done = walked(search, search.size)
    if done is None:
        return None
    if done.best is None:
        if search.rules:
            return None
        return search.infeasible((f"none of the {done.legal:,} legal loop trees is within the capacities",))
    best = done.front_trees or (done.best,)
    if not search.divides and not all(_fits(search, mapping) for mapping in best):
        return None
    space = replace(counted_space(search.size, Count(evaluated=done.legal)), distinct=done.distinct)
    return optimum(search, best, done.front or (done.values,), space)


def _has_one_union(workload: Workload) -> bool:
    """Return whether a statement that accumulates in any order over a box reads one tensor through several accesses,
    and all others through one."""
    if len(workload.statements) != 1 or not workload.associative or not any_order_is_legal(workload):
        return False
    (statement,) = workload.statements
    several = sum(len(set(accesses_of(statement, tensor.name))) > 1 for tensor in workload.tensors)
    linear = all(index.is_linear for access in (statement.target, *statement.reads) for index in access.index)
    return several == 1 and linear and is_box(statement) and statement.operator is not Operator.ASSIGN


def _fits(search: Search, mapping: Mapping) -> bool:
    return evaluate(search.workload, search.arch, mapping).legal


def _bound_by_capacities(search: Search) -> None:
    """Raise the floors of a program of not too many instances to what the capacities leave to be moved."""
    from polymap.search.program_bounds import MOST_INSTANCES, program_traffic_bits  # other searches do without

    workload, arch = search.workload, search.arch
    if instance_bound(workload) > MOST_INSTANCES:
        return
    try:
        bits = program_traffic_bits(workload, arch, search.limits.until(TUNING.program_bound_share))
    except OutOfTime:
        return
    more = bits - (compulsory_bits(workload) or 0)
    for place, one in enumerate(search.objective.singles):
        search.raise_floor(place, floor_of(workload, arch, one, max(0, more)))


def _climbed(search: Search, *, alone: bool) -> ProgramTree | None:
    """Return the best tree that climbing finds, in half of the limit if others search, too; None where none is found,
    or the program is too large."""
    if not may_be_climbed(search.workload, search.arch, search.objective):
        return None
    if search.climbed is None:
        search.climbed = ProgramSearch(search.workload, search.arch, search.objective, search.asked.seed)
    stop = search.limits if alone else search.limits.part(0.5)
    search.climbed.go_on(stop, search.meets)
    if stop is not search.limits:
        search.limits.work.add(stop.work.done)
    return search.climbed.best


def _tree_answer(search: Search, tree: ProgramTree) -> SearchResult:
    """Answer with a tree of the program asked for, or of the same with its loops renamed, shifted or skewed."""
    assert search.climbed is not None
    search.question = replace(search.question, workload=tree.workload)
    tried = search.climbed.scored + (search.drawn.tried if search.drawn else 0)
    counted = counted_space(None, Count(evaluated=tried))
    complete = search.climbed.complete if search.divides and not search.rules and not search.arch.fanouts else ""
    complete = complete if len(search.workload.statements) > 1 else ""
    counted = replace(counted, name=complete if tree.value > search.floors[0] else "")
    left = () if complete else (search.floors,)
    found = search.closed((tree.mapping,), left, counted, ((tree.value,),), costs=(tree.cost,))
    if tree.workload == search.workload:
        return found
    return replace(found, more=None)
