"""Reuse per storage node: the loops during which its tile stays, and those that bring elements in again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from polymap.ir import Architecture, Mapping, Temporal, Workload, accesses_of
from polymap.schedules import LoopInTree, LoopView, StorageInTree, view_of


@dataclass(frozen=True, slots=True)
class Loop:
    """A temporal loop of more than one iteration, its dim as reports call it."""

    dim: str
    trips: int


@dataclass(frozen=True, slots=True)
class Stay:
    """A tensor's stays in a level.

    changing: loops above the node that change its tile, outermost first. again: loops that do not, but stand outside
    some that do (`swept`) or outside a branch around the node, so that each of their iterations brings the same
    elements in again. kept: loops between the changing ones and the node, during which the tile simply stays. used:
    loops below the node that reuse what it holds.
    """

    level: str
    tensor: str
    parent: str
    changing: tuple[Loop, ...]
    again: tuple[Loop, ...]
    swept: tuple[Loop, ...]
    kept: tuple[Loop, ...]
    used: tuple[Loop, ...]
    has_all: bool


def stays(workload: Workload, arch: Architecture, mapping: Mapping) -> tuple[Stay, ...]:
    """Return the stays of every tensor at every storage node below the outermost level, top to bottom."""
    outermost = arch.levels[0].name
    found: list[Stay] = []
    view = view_of(workload.extents(), mapping)
    for storage in view.storages:
        for tensor in storage.node.tensors if storage.node.level != outermost else ():
            around = (each.node for each in storage.above if isinstance(each, StorageInTree))
            *_, parent = outermost, *(node.level for node in around if tensor in node.tensors)
            found.append(_stay(workload, view, storage, tensor, parent))
    return tuple(found)


def _stay(workload: Workload, view: LoopView, storage: StorageInTree, tensor: str, parent: str) -> Stay:
    relevant = {
        name
        for statement in workload.statements
        for access in accesses_of(statement, tensor)
        for index in access.index
        for name in index.dims
    }
    above = _temporal(storage.loops)
    inside = view.computes_below(storage)
    own = {each.node.statement for each in inside}
    first, *others = inside
    # Loops above a branch around the node: nothing is kept from one execution of its child to the next.
    around = {loop for each in view.computes if each not in inside for loop in each.loops if loop in storage.loops}
    shared = set(first.loops).intersection(*(other.loops for other in others))
    below = _temporal(loop for loop in first.loops if loop.position > storage.position and loop in shared)
    last = max((number for number, loop in enumerate(above) if loop.dim in relevant), default=-1)
    last = max(last, len(_temporal(loop for loop in storage.loops if loop in around)) - 1)
    start = min((number for number, loop in enumerate(above) if loop.dim not in relevant), default=len(above))

    def named(loops: Iterable[Loop]) -> tuple[Loop, ...]:
        return tuple(Loop(loop.dim, loop.trips) for loop in loops)

    return Stay(
        level=storage.node.level,
        tensor=tensor,
        parent=parent,
        changing=named(loop for loop in above if loop.dim in relevant),
        again=named(loop for loop in above[: last + 1] if loop.dim not in relevant),
        swept=named(loop for loop in above[start:] if loop.dim in relevant),
        kept=named(above[last + 1 :]),
        used=named(loop for loop in below if loop.dim not in relevant),
        has_all=not any(
            accesses_of(statement, tensor) for statement in workload.statements if statement.name not in own
        ),
    )


def _temporal(loops: Iterable[LoopInTree]) -> list[Loop]:
    """Return the temporal loops of more than one iteration."""
    return [Loop(loop.node.dim, loop.trips) for loop in loops if isinstance(loop.node, Temporal) and loop.trips > 1]
