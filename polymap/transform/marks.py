"""How loops run: unrolled, unrolled and jammed, as vectors, in parallel."""

from __future__ import annotations

from dataclasses import replace

from polymap.inputs import answers_in_words
from polymap.schedules import Loop, LoopKind, Schedule, TimeDim
from polymap.transform.advice import interchange_advice, parallel_advice
from polymap.transform.edits import blocked, edited, jammed
from polymap.transform.legality import checked, impossible


@answers_in_words
def unroll(schedule: Schedule, loop: str, *, factor: int = 0) -> Schedule:
    """Return the schedule with the loop's body written out `factor` times (0: once per iteration). No order changes.

    Rewrite:
        for i in 8 {body(i)}   ->   for i in 8 step 2 {body(i); body(i+1)}        # factor=2
    """
    schedule = schedule.normal()
    if factor < 0:
        raise impossible(f"{loop} cannot be unrolled {factor} times", "factor is at least 0.")
    return _marked(schedule, schedule.loop(loop), LoopKind.UNROLLED, factor).normal()


@answers_in_words
def unroll_and_jam(schedule: Schedule, loop: str, *, factor: int, unsafe: bool = False) -> Schedule:
    """Return the schedule with `factor` iterations of an outer loop run together in each innermost iteration.

    Rewrite:
        for i in 8 { for j {S(i, j)} }   ->   for i in 8 step 2 { for j {S(i, j); S(i+1, j)} }        # factor=2
        S[i,j] -> [i, j]                 ->   S[i,j] -> [floor(i/2), j, unrolled(2) i]
    """
    schedule = schedule.normal()
    one = schedule.loop(loop)
    if factor < 1:
        raise impossible(f"{loop} cannot be unrolled {factor} times", "factor is at least 1.")
    nest = [each for each in schedule.loops() if each.statements == one.statements and each.position > one.position]
    after = jammed(schedule, one, factor)
    step = f"unroll and jam {loop} by {factor}"

    def advice() -> str:
        return interchange_advice(schedule, one, nest[-1]) if nest else ""

    return checked(after, step, unsafe=unsafe, advice=advice)


@answers_in_words
def vectorize(schedule: Schedule, loop: str, *, width: int | None = None, unsafe: bool = False) -> Schedule:
    """Return the schedule with an innermost loop run as vectors of `width` iterations (None: of all iterations).

    Iterations of one vector must not depend on each other; with a width, distances of at least the width are no
    obstacle where blocks keep them apart.

    Rewrite:
        for j in 16 {S(j)}   ->   for j_tile in 4 { vector for j in 4 {S(j)} }        # width=4
        S[j] -> [j]          ->   S[j] -> [floor(j/4), vector j]
    """
    schedule = schedule.normal()
    one = schedule.loop(loop)
    inner = [each.name for each in schedule.loops() if each.position > one.position and _is_in(each, one)]
    if inner:
        hint = f"Interchange it inwards, or vectorize {inner[-1]}."
        raise impossible(f"{loop} is no innermost loop: {', '.join(inner)} stand inside it", hint)
    if width is not None and width < 1:
        raise impossible(f"Vectors of {width} iterations do not exist", "width is at least 1.")
    after = schedule if width is None else blocked(schedule, [one], [(width,)]).normal()
    after = _marked(after, after.loop(loop), LoopKind.VECTOR, 0)
    return checked(after, f"vectorize {loop}", unsafe=unsafe, advice=lambda: parallel_advice(schedule, one))


def parallelize(schedule: Schedule, loop: str, *, unsafe: bool = False) -> Schedule:
    """Return the schedule with the iterations of a loop run in parallel: none may depend on another.

    Rewrite:
        for i {body}       ->   parallel for i {body}
        S[i,j] -> [i, j]   ->   S[i,j] -> [parallel i, j]
    """
    schedule = schedule.normal()
    one = schedule.loop(loop)
    after = _marked(schedule, one, LoopKind.PARALLEL, 0)
    return checked(after, f"parallelize {loop}", unsafe=unsafe, advice=lambda: parallel_advice(schedule, one))


def serialize(schedule: Schedule, loop: str) -> Schedule:
    """Return the schedule with the loop run in order again.

    Rewrite:
        parallel for i {body}   ->   for i {body}
    """
    schedule = schedule.normal()
    return _marked(schedule, schedule.loop(loop), LoopKind.SEQUENTIAL, 0).normal()


def _is_in(inner: Loop, outer: Loop) -> bool:
    return set(inner.statements) <= set(outer.statements)


def _marked(schedule: Schedule, loop: Loop, kind: LoopKind, factor: int) -> Schedule:
    def edit(places: list[TimeDim]) -> list[TimeDim]:
        places[loop.position] = replace(places[loop.position], kind=kind, factor=factor)
        return places

    return edited(schedule, loop.statements, edit)
