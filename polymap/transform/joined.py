"""Transformations that loop trees and schedules share: a Mapping gives a Mapping, a Schedule a Schedule."""

from __future__ import annotations

from typing import overload

from polymap.inputs import answers_in_words
from polymap.ir import Mapping
from polymap.schedules import Schedule
from polymap.transform import marks, order, trees
from polymap.transform.legality import impossible
from polymap.transform.trees import Place


@overload
def split(subject: Schedule, loop: str, *, inner: int, unsafe: bool = False) -> Schedule: ...
@overload
def split(subject: Mapping, loop: str, *, inner: int) -> Mapping: ...
@answers_in_words
def split(subject: Schedule | Mapping, loop: str, *, inner: int, unsafe: bool = False) -> Schedule | Mapping:
    """Return the schedule or loop tree with a loop split in two: over blocks of `inner` iterations, and in a block.

    The order of the instances stays. Of a tree, `loop` is the dim; of a schedule the outer loop is called `i_tile`.

    Rewrite:
        for i {body}   ->   for i_tile { for i in block i_tile of 4 {body} }        # loop="i", inner=4
        S[i] -> [i]    ->   S[i] -> [floor(i/4), i]

    Raises MappingError or ScheduleError where there is no such loop, or `inner` is below 1.
    """
    if isinstance(subject, Mapping):
        return trees.split(subject, loop, inner=inner)
    return order.split(subject, loop, inner=inner, unsafe=unsafe)


@overload
def interchange(subject: Schedule, loop: str, other: str, *, unsafe: bool = False) -> Schedule: ...
@overload
def interchange(subject: Mapping, loop: Place) -> Mapping: ...
@answers_in_words
def interchange(
    subject: Schedule | Mapping, loop: str | Place, other: str = "", *, unsafe: bool = False
) -> Schedule | Mapping:
    """Return the schedule with two loops of one perfect nest exchanged; of a tree, the loop at a place and the next.

    Rewrite:
        for i { for j {body} }   ->   for j { for i {body} }        # loop="i", other="j"
        S[i,j] -> [i, j]         ->   S[i,j] -> [j, i]

    Raises ScheduleError (MappingError of a tree) where these are no such loops, or the order is illegal.
    """
    if isinstance(subject, Mapping):
        return trees.interchange(subject, _place(loop))
    return order.interchange(subject, _name(loop), other, unsafe=unsafe)


@overload
def parallelize(subject: Schedule, loop: str, *, unsafe: bool = False) -> Schedule: ...
@overload
def parallelize(subject: Mapping, loop: Place, *, fanout: str) -> Mapping: ...
@answers_in_words
def parallelize(
    subject: Schedule | Mapping, loop: str | Place, *, fanout: str = "", unsafe: bool = False
) -> Schedule | Mapping:
    """Return the schedule with the iterations of a loop run in parallel: none may depend on another. Of a tree: the
    temporal loop at a place spread over `fanout`.

    Rewrite:
        for i {body}       ->   parallel for i {body}
        S[i,j] -> [i, j]   ->   S[i,j] -> [parallel i, j]

    Raises ScheduleError (MappingError of a tree) where there is no such loop, or iterations depend on each other.
    """
    if isinstance(subject, Mapping):
        return trees.parallelize(subject, _place(loop), fanout=fanout)
    return marks.parallelize(subject, _name(loop), unsafe=unsafe)


@overload
def serialize(subject: Schedule, loop: str) -> Schedule: ...
@overload
def serialize(subject: Mapping, loop: Place) -> Mapping: ...
@answers_in_words
def serialize(subject: Schedule | Mapping, loop: str | Place) -> Schedule | Mapping:
    """Return the schedule or loop tree with a loop run in order again (of a tree: the spatial loop at a place).

    Rewrite:
        parallel for i {body}   ->   for i {body}

    Raises ScheduleError (MappingError of a tree) where there is no such loop.
    """
    if isinstance(subject, Mapping):
        return trees.serialize(subject, _place(loop))
    return marks.serialize(subject, _name(loop))


def _place(loop: str | Place) -> Place:
    if isinstance(loop, str):
        raise impossible(f"{loop!r} is no place in a loop tree", "places(mapping) lists them.")
    return loop


def _name(loop: str | Place) -> str:
    if not isinstance(loop, str):
        raise impossible(f"{loop!r} is no name of a loop", "Loops of schedules are named by their counters.")
    return loop
