"""What would make a refused step legal: skew factors, other orders, shifts, partners. What is advised was tried."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations, permutations, product

from polymap.ir import Affine, ScheduleError, affine
from polymap.poly import Clock, Set, at_same_time, budget, differences, dim_bounds, function, nonnegative, same_value
from polymap.schedules import Loop, LoopKind, Schedule, TimeDim
from polymap.transform.edits import (
    blocked,
    bodies,
    distributed,
    edited,
    exchanged,
    fused,
    reversed_loop,
    shifted,
    skewed,
)
from polymap.transform.legality import carried_relations, clocks_of, inside, violations
from polymap.transform.lifetimes import is_foldable
from polymap.transform.storage import expand
from polymap.transform.tuning import TUNING
from polymap.workload import Kind, domain_of

Tried = tuple[str, Schedule]


def first_legal(tried: Iterable[Tried]) -> str:
    """Return the text of the first schedule that breaks nothing ("" if none does, or after TUNING.most_tried)."""
    for (text, schedule), _ in zip(tried, range(TUNING.most_tried), strict=False):
        if not violations(schedule):
            return text
    return ""


def band_distances(schedule: Schedule, loops: Sequence[Loop]) -> list[Set]:
    """Return the sets of distances along a band, of the dependences inside it that the order must keep.

    Call it inside `with budget():`.
    """
    first = min(loops, key=lambda loop: loop.position)
    relaxed = schedule.workload.associative and not schedule.strict
    found: list[Set] = []
    for dependence, relation in inside(schedule, first):
        if relaxed and dependence.kind is Kind.REDUCTION:
            continue
        clocks = clocks_of(schedule, dependence)
        start, end = (function(each.name, each.dims, [each.times[loop.position] for loop in loops]) for each in clocks)
        found.append(differences(relation, start, end, [loop.name for loop in loops]))
    return found


def smallest_skews(schedule: Schedule, loops: Sequence[Loop]) -> dict[tuple[str, str], int] | None:
    """Return (loop, outer loop) -> factor: the skews of smallest sum per loop after which no distance along the band is
    negative; None where factors up to TUNING.most_factor do not suffice."""
    ordered = sorted(loops, key=lambda loop: loop.position)
    found: dict[tuple[str, str], int] = {}
    with budget(what="the skew of a band"):
        distances = band_distances(schedule, ordered)
        for number, loop in enumerate(ordered):
            outer = [each.name for each in ordered[:number]]
            choices = sorted(product(range(TUNING.most_factor + 1), repeat=number), key=lambda each: (sum(each), each))
            for factors in choices[: TUNING.most_factors]:
                terms = ((1, loop.name), *zip(factors, outer, strict=True))
                if _never_negative(distances, affine(terms)):
                    found.update({(loop.name, name): each for each, name in zip(factors, outer, strict=True) if each})
                    break
            else:
                return None
    return found


def _never_negative(distances: Sequence[Set], combination: Affine) -> bool:
    return all(nonnegative(each, -combination - 1).is_empty() for each in distances)


def with_skews(schedule: Schedule, skews: dict[tuple[str, str], int]) -> Schedule:
    """Return the schedule with these skews, inner loops first, so that each factor is of unskewed counters."""
    loops = {loop.name: loop for loop in schedule.loops()}
    for (name, by), factor in sorted(skews.items(), key=lambda each: -loops[each[0][0]].position):
        schedule = skewed(schedule, loops[name], loops[by], factor)
    return schedule


def tile_advice(schedule: Schedule, loops: Sequence[Loop], levels: Sequence[Sequence[int]]) -> str:
    """Return the smallest skews after which the band can be tiled, or which of its loops can."""
    skews = smallest_skews(schedule, loops)
    if skews and not violations(blocked(with_skews(schedule, skews), loops, levels)):
        return f"Legal after {_skew_text(schedule, skews)}."
    parts = (
        (", ".join(loop.name for loop, _ in part), blocked(schedule, *zip(*part, strict=True)))
        for size in range(len(loops) - 1, 0, -1)
        for part in _parts(list(zip(loops, levels, strict=True)), size)
    )
    partial = first_legal(parts)
    return f"Tiling {partial} alone is legal." if partial else ""


def _parts(pairs: list[tuple[Loop, Sequence[int]]], size: int) -> list[tuple[tuple[Loop, Sequence[int]], ...]]:
    return [tuple(pairs[start : start + size]) for start in range(len(pairs) - size + 1)]


def _skew_text(schedule: Schedule, skews: dict[tuple[str, str], int]) -> str:
    position = {loop.name: loop.position for loop in schedule.loops()}
    ordered = sorted(skews.items(), key=lambda each: -position[each[0][0]])
    return ", ".join(f'skew "{name}" by="{by}" factor={factor}' for (name, by), factor in ordered)


def interchange_advice(schedule: Schedule, one: Loop, other: Loop) -> str:
    """Return the smallest skew after which the two loops can be exchanged, and the legal orders of their nest."""
    advice: list[str] = []
    outer, inner = sorted((one, other), key=lambda loop: loop.position)
    skew = first_legal(
        (str(factor), exchanged(skewed(schedule, inner, outer, factor), one, other))
        for factor in range(1, TUNING.most_factor + 1)
    )
    if skew:
        advice.append(f'Legal after skew "{inner.name}" by="{outer.name}" factor={skew}.')
    nest = [loop for loop in schedule.loops() if loop.statements == one.statements]
    if 2 < len(nest) <= TUNING.most_loops:
        orders = [
            " ".join(loop.name for loop in order)
            for order in permutations(nest)
            if list(order) != nest and not violations(_ordered(schedule, nest, order))
        ]
        advice.append(
            f"Other legal orders: {'; '.join(orders)}." if orders else "No other order of its loops is legal."
        )
    return " ".join(advice)


def _ordered(schedule: Schedule, nest: Sequence[Loop], order: Sequence[Loop]) -> Schedule:
    own = schedule.places_of
    found = {name: list(own[name].places) for name in nest[0].statements}
    for place, loop in zip(nest, order, strict=True):
        for name in nest[0].statements:
            found[name][place.position] = own[name].places[loop.position]
    return schedule.with_places(found)


def skew_advice(schedule: Schedule, loop: Loop, by: Loop) -> str:
    """Return the largest legal factor's neighbourhood: the first legal factor near zero."""
    tried = ((str(factor), skewed(schedule, loop, by, factor)) for size in range(1, 5) for factor in (size, -size))
    factor = first_legal(tried)
    return f"factor={factor} is legal." if factor else f"No skew of {loop.name} by {by.name} is legal."


def shift_advice(schedule: Schedule, loop: Loop, statements: Sequence[str]) -> str:
    """Return the smallest legal shift of the statements."""
    tried = ((str(by), shifted(schedule, loop, statements, by)) for size in range(1, 9) for by in (size, -size))
    by = first_legal(tried)
    return f"by={by} is legal." if by else ""


def reverse_advice(schedule: Schedule) -> str:
    """Return which loops can be reversed."""
    legal = [loop.name for loop in schedule.loops() if not violations(reversed_loop(schedule, loop))]
    return f"Loops that can be reversed: {', '.join(legal)}." if legal else "No loop can be reversed."


def fuse_advice(schedule: Schedule, first: Loop, second: Loop) -> str:
    """Return the smallest legal shift of the second loop in the fusion."""
    least = _needed_shift(schedule, first, second)
    if least is None:
        return ""
    if violations(fused(schedule, first, second, least)):
        return "No shift makes this fusion legal."
    return f"Legal with shift={least}."


def _needed_shift(schedule: Schedule, first: Loop, second: Loop) -> int | None:
    """Return the largest lead of an iteration of the first loop over one of the second that depends on it."""
    most: int | None = None
    joined = Loop("", first.position - 1, (*first.statements, *second.statements), first.kind, 0)
    with budget(what="the shift of a fusion"):
        for dependence, relation in inside(schedule, joined):
            if dependence.source not in first.statements or dependence.sink not in second.statements:
                continue
            clocks = clocks_of(schedule, dependence)
            start, end = (function(each.name, each.dims, [each.times[first.position]]) for each in clocks)
            ((least, _),) = dim_bounds(differences(relation, start, end, ["lead"]))
            most = -least if most is None else max(most, -least)
    return most


def distribute_advice(schedule: Schedule, loop: Loop) -> str:
    """Return the finest legal distribution: where between its children the loop can be cut."""
    children = bodies(schedule, loop)
    cuts = [
        number
        for number in range(1, len(children))
        if not violations(distributed(schedule, loop, (sum(children[:number], ()), sum(children[number:], ()))))
    ]
    if not cuts:
        return "Its statements depend on each other in both directions and must stay in one loop."
    groups = [sum(children[start:end], ()) for start, end in zip([0, *cuts], [*cuts, len(children)], strict=True)]
    return f"Legal in the parts {'; '.join(', '.join(group) for group in groups)}."


def parallel_advice(schedule: Schedule, loop: Loop) -> str:
    """Return which loops can run in parallel, and what would free this one: private storage, partial results, or a
    wavefront."""
    with budget(what="the parallel loops of a schedule"):
        blocking = [dependence for dependence, _ in carried_relations(schedule, loop)]
        free = [each for each in schedule.loops() if _is_free(schedule, each) and _runs_several(schedule, each)]
    told = [each.name for each in free if not schedule.folds or not violations(_in_parallel(schedule, each))]
    others = f"Loops that can: {', '.join(told)}." if told else ""
    if not blocking:
        return " ".join(each for each in (_without_folds(schedule, loop), others) if each)
    tensors = tuple(dict.fromkeys(dependence.tensor for dependence in blocking))
    advice = [_private(schedule, loop, tensors) or _wavefront(schedule, loop)]
    if all(dependence.kind is Kind.REDUCTION for dependence in blocking):
        advice.append(f"The loop only accumulates into {', '.join(tensors)}: keep partial results per iteration.")
    return " ".join(each for each in (*advice, others) if each)


def _in_parallel(schedule: Schedule, loop: Loop) -> Schedule:
    def edit(places: list[TimeDim]) -> list[TimeDim]:
        places[loop.position] = replace(places[loop.position], kind=LoopKind.PARALLEL)
        return places

    return edited(schedule, loop.statements, edit)


def _without_folds(schedule: Schedule, loop: Loop) -> str:
    """Return that circular buffers alone keep a loop from running in parallel ("" where it is something else)."""
    if not schedule.folds or violations(_in_parallel(replace(schedule, folds=()), loop)):
        return ""
    names = ", ".join(fold.tensor for fold in schedule.folds)
    return f"Legal without the circular buffer of {names}: parallelize first, contract then."


def _runs_several(schedule: Schedule, loop: Loop) -> bool:
    """Return whether a loop runs two of its iterations, or more, while the loops around it stay in one.

    Call it inside `with budget():`.
    """
    for one, other in product(loop.statements, repeat=2):
        own = [schedule.workload.statement(name) for name in (one, other)]
        first, second = (Clock(each.name, each.dims, schedule.times[each.name]) for each in own)
        pairs = same_value(*(function(each.name, each.dims, []) for each in own))
        pairs = pairs.intersect_domain(domain_of(schedule.workload, own[0]))
        pairs = pairs.intersect_range(domain_of(schedule.workload, own[1]))
        for place in range(loop.position):
            pairs = pairs.intersect(at_same_time(first, second, place))
        if not pairs.subtract(at_same_time(first, second, loop.position)).is_empty():
            return True
    return False


def _is_free(schedule: Schedule, loop: Loop) -> bool:
    return not any(True for _ in carried_relations(schedule, loop))


def _private(schedule: Schedule, loop: Loop, tensors: Sequence[str]) -> str:
    """Return that the loop is parallel once each iteration has its own copy of the tensors ("" where it is not)."""
    counters = tuple(dict.fromkeys(name for each in loop.statements for name in _counters(schedule, each, loop)))
    if any(is_foldable(schedule, tensor) for tensor in tensors):
        return ""
    try:
        for tensor in tensors:
            schedule = expand(schedule, tensor, loops=counters)
    except ScheduleError:
        return ""
    with budget(what="the parallel loops of a schedule"):
        if not _is_free(schedule, loop) or not _runs_several(schedule, loop):
            return ""
    return " and ".join(f'expand "{tensor}" loops={list(counters)}' for tensor in tensors) + " makes it parallel."


def _counters(schedule: Schedule, statement: str, loop: Loop) -> tuple[str, ...]:
    return schedule.scattering(statement).places[loop.position].time.dims


def _wavefront(schedule: Schedule, loop: Loop) -> str:
    """Return the skew and interchange after which a loop of the nest of this one is parallel ("" where none is)."""
    nest = [each for each in schedule.loops() if each.statements == loop.statements]
    for outer, inner in combinations(nest, 2):
        for factor in range(1, TUNING.most_factor // 2 + 1):
            turned = exchanged(skewed(schedule, inner, outer, factor), outer, inner)
            with budget(what="a wavefront"):
                found = next(each for each in turned.loops() if each.name == outer.name)
                parallel = _is_free(turned, found) and _runs_several(turned, found)
            if parallel and not violations(turned):
                return (
                    f'After skew "{inner.name}" by="{outer.name}" factor={factor} and interchange "{outer.name}" and '
                    f'"{inner.name}", "{outer.name}" is parallel.'
                )
    return ""
