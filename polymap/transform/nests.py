"""Transformations across nests: fuse and distribute."""

from __future__ import annotations

from collections.abc import Sequence

from polymap.schedules import Loop, Schedule
from polymap.transform.advice import distribute_advice, fuse_advice
from polymap.transform.edits import bodies, distributed, fused
from polymap.transform.legality import checked, impossible


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
