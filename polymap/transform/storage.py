"""Storage of schedules: contraction to circular buffers, and expansion (privatisation)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polymap.inputs import answers_in_words
from polymap.ir import Access, Mistake, ScheduleError, Violation, dim
from polymap.poly import budget, ends_of, first_pair, function, same_value
from polymap.schedules import Fold, Schedule, instance_text, point
from polymap.transform.legality import checked, impossible
from polymap.transform.lifetimes import flow_of, is_foldable, smallest_moduli, with_fold


@answers_in_words
def contract(schedule: Schedule, tensor: str, *, moduli: Sequence[int] | None = None, unsafe: bool = False) -> Schedule:
    """Return the schedule with a temporary tensor kept in a circular buffer: the index of axis a modulo moduli[a].

    moduli: by default the legal ones of smallest product, from the exact lifetimes of its values under the schedule.

    Rewrite:
        for y {T[y] = ...; use T[y], T[y-2]}   ->   for y {T[y % 3] = ...; use T[y % 3], T[(y-2) % 3]}

    Later steps keep the fold and are refused where it would lose a value. BudgetError where there are too many moduli.
    """
    why = is_foldable(schedule, tensor)
    if why:
        raise impossible(why, "Tensors that are declared inside the program, or temporary, can be contracted.")
    schedule = schedule.normal()
    axes = len(schedule.workload.tensor(tensor).shape)
    if moduli is None:
        chosen = smallest_moduli(schedule, tensor)
    else:
        chosen = tuple(moduli)
        if len(chosen) != axes or min(chosen, default=1) < 1:
            raise impossible(
                f"{tensor} has {axes} axes: {list(chosen)} are no moduli of it", "Give one of at least 1 per axis."
            )

    def advice() -> str:
        return f"moduli={smallest_moduli(schedule, tensor)} are the smallest legal ones."

    after = replace(schedule, folds=with_fold(schedule, Fold(tensor, chosen)))
    return checked(after, f"contract {tensor} to {chosen}", unsafe=unsafe, advice=advice)


@answers_in_words
def expand(schedule: Schedule, tensor: str, *, loops: Sequence[str], unsafe: bool = False) -> Schedule:
    """Return the schedule over a workload in which each iteration of some loops has its own copy of a temporary tensor.

    loops: counters of the program (`schedule.workload.dims`) around every access to the tensor. No value may pass from
    one iteration to another.

    Rewrite:
        for i {t = a[i]; b[i] = t}   ->   for i {t[i] = a[i]; b[i] = t[i]}        # tensor="t", loops=["i"]
    """
    why = is_foldable(schedule, tensor)
    if why:
        raise impossible(why, "Tensors that are declared inside the program, or temporary, can be expanded.")
    work = schedule.workload
    extents = work.extents()
    for each in work.statements:
        touches = any(access.tensor == tensor for access in (each.target, *each.reads))
        if touches and not set(loops) <= set(each.dims):
            raise impossible(
                f"{each.name} uses {tensor} outside the loops {', '.join(loops)}", "Take loops around all uses."
            )
    if not unsafe:
        _refuse_crossing(schedule, tensor, loops)

    def moved(access: Access) -> Access:
        return replace(access, index=(*map(dim, loops), *access.index)) if access.tensor == tensor else access

    statements = tuple(
        replace(each, target=moved(each.target), reads=tuple(map(moved, each.reads))) for each in work.statements
    )
    own = work.tensor(tensor)
    larger = replace(
        own, shape=(*(extents[name] for name in loops), *own.shape), origin=(*(0 for _ in loops), *own.origin)
    )
    tensors = tuple(larger if each.name == tensor else each for each in work.tensors)
    after = replace(work, statements=statements, tensors=tensors)
    folds = tuple(each for each in schedule.folds if each.tensor != tensor)
    return replace(schedule, workload=after, folds=folds)


def _refuse_crossing(schedule: Schedule, tensor: str, loops: Sequence[str]) -> None:
    """Raise ScheduleError where a value is written in one iteration of the loops and read in another."""
    work = schedule.workload
    with budget(what=f"the values of {tensor}"):
        for relation in flow_of(Schedule.original(work), tensor):
            ends = [work.statement(name) for name in ends_of(relation)]
            counters = [function(each.name, each.dims, [dim(name) for name in loops]) for each in ends]
            pair = first_pair(relation.subtract(same_value(*counters)))
            if pair is not None:
                first, second = (point(work, each.name, at) for each, at in zip(ends, pair, strict=True))
                text = (
                    f"expand {tensor} is illegal. {instance_text(second)} reads what {instance_text(first)} wrote in "
                    f"another iteration of {', '.join(loops)}."
                )
                hint = "Expand over the loops inside which every value stays, or contract instead."
                found = Violation("dependence", text, (first, second))
                raise ScheduleError(Mistake("PM433", text, hint), (found,))
