"""Edits of schedules in normal form, without any check: what the transformations do, and what advice tries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from polymap.ir import Affine, block_of
from polymap.schedules import Loop, LoopKind, Schedule, TimeDim

Edit = Callable[[list[TimeDim]], list[TimeDim]]


def edited(schedule: Schedule, statements: Sequence[str], edit: Edit) -> Schedule:
    """Return the schedule with the places of some statements edited."""
    return schedule.with_places({name: edit(list(schedule.scattering(name).places)) for name in statements})


def retimed(
    schedule: Schedule, loop: Loop, statements: Sequence[str], time: Callable[[list[TimeDim]], Affine]
) -> Schedule:
    """Return the schedule with another time at a loop's place of some of its statements."""

    def edit(places: list[TimeDim]) -> list[TimeDim]:
        place = replace(places[loop.position], time=time(places), loop=loop.name)
        return [*places[: loop.position], place, *places[loop.position + 1 :]]

    return edited(schedule, statements, edit)


def skewed(schedule: Schedule, loop: Loop, by: Loop, factor: int) -> Schedule:
    """Return the schedule with `factor` times the counter of `by` added to the counter of `loop`."""
    return retimed(
        schedule, loop, loop.statements, lambda own: own[by.position].time * factor + own[loop.position].time
    )


def shifted(schedule: Schedule, loop: Loop, statements: Sequence[str], by: int) -> Schedule:
    """Return the schedule with some statements `by` iterations later."""
    return retimed(schedule, loop, statements, lambda own: own[loop.position].time + by)


def reversed_loop(schedule: Schedule, loop: Loop) -> Schedule:
    """Return the schedule with the loop run backwards."""
    return retimed(schedule, loop, loop.statements, lambda own: -own[loop.position].time)


def exchanged(schedule: Schedule, one: Loop, other: Loop) -> Schedule:
    """Return the schedule with two loops of one perfect nest exchanged."""

    def edit(places: list[TimeDim]) -> list[TimeDim]:
        result = list(places)
        result[one.position], result[other.position] = places[other.position], places[one.position]
        return result

    return edited(schedule, one.statements, edit)


def blocked(schedule: Schedule, loops: Sequence[Loop], levels: Sequence[Sequence[int]]) -> Schedule:
    """Return the schedule with loops over blocks before the outermost of `loops`; levels: sizes per loop, outermost
    level first."""
    start = min(loop.position for loop in loops)

    def edit(places: list[TimeDim]) -> list[TimeDim]:
        added = [
            TimeDim(block_of(places[loop.position].time, sizes[level]), f"{loop.name}_tile")
            for level in range(len(levels[0]))
            for loop, sizes in zip(loops, levels, strict=True)
        ]
        return [*places[:start], *added, *places[start:]]

    return edited(schedule, loops[0].statements, edit)


def fused(schedule: Schedule, first: Loop, second: Loop, shift: int) -> Schedule:
    """Return the schedule with the second loop's iteration i run after iteration i + shift of the first.

    Both stand at the same place, in the same loops.
    """
    before = schedule.scattering(first.statements[0]).places[first.position - 1]
    place = schedule.scattering(first.statements[0]).places[first.position]

    def edit(places: list[TimeDim], number: int) -> list[TimeDim]:
        own = replace(places[first.position], loop=first.name, kind=place.kind, factor=place.factor)
        own = replace(own, time=own.time + (shift if number else 0))
        inner = [TimeDim(Affine((), number)), *places[first.position + 1 :]]
        return [*places[: first.position - 1], before, own, *inner]

    table = dict.fromkeys(first.statements, 0) | dict.fromkeys(second.statements, 1)
    return schedule.with_places(
        {name: edit(list(schedule.scattering(name).places), number) for name, number in table.items()}
    )


def bodies(schedule: Schedule, loop: Loop) -> tuple[tuple[str, ...], ...]:
    """Return the statements of each child of the loop's body, in order."""
    found: dict[int, tuple[str, ...]] = {}
    for name in loop.statements:
        number = schedule.scattering(name).places[loop.position + 1].time.constant
        found[number] = (*found.get(number, ()), name)
    return tuple(found[number] for number in sorted(found))


def distributed(schedule: Schedule, loop: Loop, groups: Sequence[Sequence[str]]) -> Schedule:
    """Return the schedule with one copy of the loop per group of its statements, in the order of the groups."""
    order = {name: number for number, group in enumerate(groups) for name in group}

    def edit(name: str) -> list[TimeDim]:
        places = list(schedule.scattering(name).places)
        number = TimeDim(Affine((), order[name]))
        return [*places[: loop.position], number, *places[loop.position :]]

    return schedule.with_places({name: edit(name) for name in loop.statements})


def jammed(schedule: Schedule, loop: Loop, factor: int) -> Schedule:
    """Return the schedule with the loop over blocks of `factor` iterations, and these innermost and unrolled."""
    depth = _depths(schedule, loop)

    def edit(name: str) -> list[TimeDim]:
        places = list(schedule.scattering(name).places)
        own = places[loop.position]
        places[loop.position] = replace(own, time=block_of(own.time, factor), loop=f"{loop.name}_tile")
        inner = replace(own, kind=LoopKind.UNROLLED, factor=factor)
        return [*places[: depth[name]], inner, *places[depth[name] :]]

    return schedule.with_places({name: edit(name) for name in loop.statements})


def _depths(schedule: Schedule, loop: Loop) -> dict[str, int]:
    """Return per statement the place that the unrolled iterations get: after the innermost loop that it shares."""
    within = [
        each
        for each in schedule.loops()
        if each.position > loop.position and set(each.statements) <= set(loop.statements)
    ]
    found = dict.fromkeys(loop.statements, loop.position)
    for each in within:
        for name in each.statements:
            found[name] = max(found[name], each.position)
    for name in loop.statements:
        last = found[name]
        mates = [each for each in within if each.position > last and _same_until(schedule, name, each, last)]
        found[name] = last + 2 if mates else last + 1
    return found


def _same_until(schedule: Schedule, name: str, loop: Loop, place: int) -> bool:
    """Whether the loop stands in the same iteration as the statement up to `place`."""
    own, other = schedule.scattering(name).places, schedule.scattering(loop.statements[0]).places
    return all(
        bool(own[at].time.terms or other[at].time.terms) or own[at].time == other[at].time for at in range(place + 1)
    )
