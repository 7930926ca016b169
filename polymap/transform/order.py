"""Transformations of the order: split, interchange, tile, skew, shift, reverse; across nests: fuse, distribute.

Each returns a new schedule in normal form and refuses what breaks a dependence (ScheduleError, with two instances and
what would work) unless `unsafe`.
"""

from __future__ import annotations

from collections.abc import Mapping as Table, Sequence

from polymap.inputs import answers_in_words, as_integer
from polymap.schedules import Loop, Schedule
from polymap.transform.advice import (
    distribute_advice,
    fuse_advice,
    interchange_advice,
    reverse_advice,
    shift_advice,
    skew_advice,
    tile_advice,
)
from polymap.transform.edits import blocked, bodies, distributed, exchanged, fused, reversed_loop, shifted, skewed
from polymap.transform.legality import checked, impossible

Sizes = int | Sequence[int]


@answers_in_words
def split(schedule: Schedule, loop: str, *, inner: int, unsafe: bool = False) -> Schedule:
    """Return the schedule with a loop split in two: over blocks of `inner` iterations, and in a block.

    The order of the instances stays. The outer loop is called `i_tile`.

    Rewrite:
        for i {body}   ->   for i_tile { for i in block i_tile of 4 {body} }        # loop="i", inner=4
        S[i] -> [i]    ->   S[i] -> [floor(i/4), i]
    """
    return _blocked(schedule, {loop: (inner,)}, unsafe=unsafe, step=f"split {loop} by {inner}")


@answers_in_words
def tile(schedule: Schedule, sizes: Table[str, Sizes], *, unsafe: bool = False) -> Schedule:
    """Return the schedule with a band of perfectly nested loops tiled, at any number of levels.

    sizes: loop -> tile size, or sizes from the outermost level in. The loops over tiles stand in the order of `sizes`,
    outside the band's loops; any sizes are allowed, tiles at the border are partial.

    Rewrite:
        for i { for j {body} }   ->   for i_tile { for j_tile { for i in tile { for j in tile {body} } } }
        S[i,j] -> [i, j]         ->   S[i,j] -> [floor(i/32), floor(j/8), i, j]        # sizes={"i": 32, "j": 8}
    """
    levels = {name: (size,) if isinstance(size, int) else tuple(size) for name, size in sizes.items()}
    step = "tile " + ", ".join(f"{name} by {' and '.join(map(str, each))}" for name, each in levels.items())
    return _blocked(schedule, levels, unsafe=unsafe, step=step)


def _blocked(schedule: Schedule, levels: Table[str, tuple[int, ...]], *, unsafe: bool, step: str) -> Schedule:
    schedule = schedule.normal()
    loops = band(schedule, tuple(levels))
    sizes = tuple(levels.values())
    if len({len(each) for each in sizes}) != 1 or any((as_integer(size) or 0) < 1 for each in sizes for size in each):
        raise impossible(f"Cannot {step}: sizes are integers of at least 1, equally many per loop")
    after = blocked(schedule, loops, sizes)
    return checked(after, step, unsafe=unsafe, advice=lambda: tile_advice(schedule, loops, sizes))


@answers_in_words
def interchange(schedule: Schedule, outer: str, inner: str, *, unsafe: bool = False) -> Schedule:
    """Return the schedule with two loops of one perfect nest exchanged.

    Rewrite:
        for i { for j {body} }   ->   for j { for i {body} }        # outer="i", inner="j"
        S[i,j] -> [i, j]         ->   S[i,j] -> [j, i]
    """
    schedule = schedule.normal()
    one, other = band(schedule, (outer, inner))
    after = exchanged(schedule, one, other)
    step = f"interchange {outer} and {inner}"
    return checked(after, step, unsafe=unsafe, advice=lambda: interchange_advice(schedule, one, other))


@answers_in_words
def skew(schedule: Schedule, loop: str, *, by: str, factor: int = 1, unsafe: bool = False) -> Schedule:
    """Return the schedule with `factor` times the counter of `by` added to the counter of `loop`, in one nest.

    Legal for every factor where `by` stands outside `loop`.

    Rewrite:
        for t { for i {body} }   ->   for t { for i = i + 2*t {body} }        # loop="i", by="t", factor=2
        S[t,i] -> [t, i]         ->   S[t,i] -> [t, 2*t + i]
    """
    schedule = schedule.normal()
    one, other = schedule.loop(loop), schedule.loop(by)
    if not set(one.statements) <= set(other.statements) or one == other:
        raise impossible(f"Cannot skew {loop} by {by}: {by} is not around all statements of {loop}")
    after = skewed(schedule, one, other, factor)
    return checked(
        after, f"skew {loop} by {factor}*{by}", unsafe=unsafe, advice=lambda: skew_advice(schedule, one, other)
    )


@answers_in_words
def shift(
    schedule: Schedule, loop: str, *, by: int, statements: Sequence[str] | None = None, unsafe: bool = False
) -> Schedule:
    """Return the schedule with some statements of a loop run `by` iterations later (all of them by default).

    Rewrite:
        for i {S0(i); S1(i)}                ->   for i {S0(i); S1(i-1)}        # by=1, statements=["S1"]
        S0[i] -> [i, 0], S1[i] -> [i, 1]    ->   S0[i] -> [i, 0], S1[i] -> [i + 1, 1]
    """
    schedule = schedule.normal()
    one = schedule.loop(loop)
    names = one.statements if statements is None else tuple(statements)
    if not set(names) <= set(one.statements):
        raise impossible(f"Cannot shift {', '.join(names)} in {loop}: its statements are {', '.join(one.statements)}")
    after = shifted(schedule, one, names, by)
    step = f"shift {', '.join(names)} by {by} in {loop}"
    return checked(after, step, unsafe=unsafe, advice=lambda: shift_advice(schedule, one, names))


@answers_in_words
def reverse(schedule: Schedule, loop: str, *, unsafe: bool = False) -> Schedule:
    """Return the schedule with a loop run backwards.

    Rewrite:
        for i from 0 up {body}   ->   for i from the last down {body}
        S[i] -> [i]              ->   S[i] -> [-i]
    """
    schedule = schedule.normal()
    one = schedule.loop(loop)
    after = reversed_loop(schedule, one)
    return checked(after, f"reverse {loop}", unsafe=unsafe, advice=lambda: reverse_advice(schedule))


def band(schedule: Schedule, names: Sequence[str]) -> tuple[Loop, ...]:
    """Return loops by their names; ScheduleError unless they are perfectly nested and each named once."""
    loops = tuple(schedule.loop(name) for name in names)
    if len(set(names)) != len(names) or len({loop.statements for loop in loops}) > 1:
        what = f"{', '.join(names)} are not different loops around the same statements"
        held = "; ".join(f"{loop.name} holds {', '.join(loop.statements)}" for loop in loops)
        raise impossible(what, f"{held}. Distribute the outer loop, or fuse the inner ones, first.")
    return loops


@answers_in_words
def fuse(schedule: Schedule, first: str, second: str, *, shift: int = 0, unsafe: bool = False) -> Schedule:
    """Return the schedule with two loops made one, which has the first one's name.

    Iteration i of the second runs after iteration i + shift of the first. What stood between them runs afterwards.

    Rewrite:
        for i {S0(i)}; for j {S1(j)}        ->   for i {S0(i); S1(i-2)}        # first="i", second="j", shift=2
        S0[i] -> [0, i], S1[j] -> [1, j]    ->   S0[i] -> [i, 0], S1[j] -> [j + 2, 1]

    Fuse inner loops by further calls.
    """
    schedule = schedule.normal()
    one, other = schedule.loop(first), schedule.loop(second)
    if one.position != other.position or _outside(schedule, one) != _outside(schedule, other) or one == other:
        raise impossible(
            f"{first} and {second} are not two loops in the same loops", "Fuse or split the outer loops first."
        )
    after = fused(schedule, one, other, shift)
    step = f"fuse {first} and {second}" + (f" with shift {shift}" if shift else "")
    return checked(after, step, unsafe=unsafe, advice=lambda: fuse_advice(schedule, one, other))


def _outside(schedule: Schedule, loop: Loop) -> tuple[str, ...]:
    """Return the loops around a loop."""
    inside = set(loop.statements)
    return tuple(
        each.name for each in schedule.loops() if each.position < loop.position and inside <= set(each.statements)
    )


@answers_in_words
def distribute(
    schedule: Schedule, loop: str, *, parts: Sequence[Sequence[str]] | None = None, unsafe: bool = False
) -> Schedule:
    """Return the schedule with one copy of the loop per part of its body, in the order of `parts`.

    parts: the statements of each copy; by default every child of the body gets its own. The first copy keeps the name.

    Rewrite:
        for i {S0(i); S1(i)}                ->   for i {S0(i)}; for i_2 {S1(i_2)}
        S0[i] -> [i, 0], S1[i] -> [i, 1]    ->   S0[i] -> [0, i], S1[i] -> [1, i]
    """
    schedule = schedule.normal()
    one = schedule.loop(loop)
    groups = bodies(schedule, one) if parts is None else tuple(tuple(part) for part in parts)
    if sorted(name for group in groups for name in group) != sorted(one.statements):
        raise impossible(
            f"The parts are not the statements of {loop}", f"They are {', '.join(one.statements)}, each once."
        )
    after = distributed(schedule, one, groups)
    return checked(after, f"distribute {loop}", unsafe=unsafe, advice=lambda: distribute_advice(schedule, one))
