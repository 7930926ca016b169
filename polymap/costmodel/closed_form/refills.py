"""Which entries of partial sums find nothing to take: those before which nothing left since the entry before.

docs/closed_form.md ("Entries that find nothing") derives what is counted here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple, TypeVar

from polymap.arithmetic import too_large
from polymap.costmodel.closed_form.carries import JudgedIdle, Scene, none_starts, none_stops
from polymap.costmodel.closed_form.digits import NOTHING, Cut, Part, Track, changes_with_past
from polymap.costmodel.closed_form.nest import Loop, Nest
from polymap.costmodel.closed_form.window_tables import Axis, WindowTable, window_table

Label = TypeVar("Label")
Kind = tuple[Label, bool, int, bool]  # label, whether none stops, position of the past's loop, whether one started


def entries_that_find_nothing(scene: Scene, nest: Nest) -> int:
    """Return how many events of a scene of merged siblings follow another event with no arrival between them."""
    if not _may_grow_twice(scene):
        return 0
    found = joint_changes(scene, nest, lambda _, tracks: none_starts(tracks))
    return sum(times for times, still, silent in found if silent and not all(still.values()))


def silent_events_of_shared(scene: Scene, nest: Nest) -> int:
    """Return the same of a tensor with windows. Raises BudgetError where what came before a carry's loop would have to
    be known."""
    total = 0
    for times, kinds in shared_changes(scene, nest):
        if any(kind.stops for kind in kinds) or not any(kind.starts for kind in kinds):
            continue
        latest = max(kinds, key=lambda kind: kind.place)
        if latest.place == NOTHING:
            raise too_large()
        total += times * latest.started
    return total


def moves_of_shared(scene: Scene, nest: Nest, *, leaving: bool) -> int:
    """Return how many elements of a tensor with windows enter merged siblings, or leave them."""
    total = scene.whole
    for table in _tables(scene, nest):
        total *= table.whole()
    for times, kinds in shared_changes(scene, nest):
        if not any(kind.stops if leaving else kind.starts for kind in kinds):
            total -= times
    return total


class Change(NamedTuple):
    """What happens to an element along one dim or window at a step of a carry (`WindowKind`)."""

    stops: bool
    starts: bool
    place: int
    started: bool


def shared_changes(scene: Scene, nest: Nest) -> Iterator[tuple[int, tuple[Change, ...]]]:
    """Yield (how often, changes along the windows and the dims with siblings that may idle) of the steps of all carries
    at which an element stays."""
    tables = list(zip(scene.tensor.windows, _tables(scene, nest), strict=True))
    judged = [dim for dim, line in scene.lines.items() if isinstance(line, JudgedIdle)]
    for carry, kept, cuts in _carries(scene, judged):
        per_factor: list[list[tuple[Change, int]]] = []
        for window, table in tables:
            moved = any(dim == carry.dim for dim, _ in window.terms)
            found = table.kinds(carry.position, moved=moved)
            per_factor.append([(Change(*kind[1:]), kind.often) for kind in found])
        for dim in judged:
            found_along = _kinds(scene, nest, dim, cuts[dim], lambda _, tracks: none_starts(tracks))
            per_factor.append(
                [(Change(not still, not same, place, grew), often) for (same, still, place, grew), often in found_along]
            )
        for combination in product(*per_factor):
            times = kept
            for _, often in combination:
                times *= often
            yield times, tuple(change for change, _ in combination)


def _tables(scene: Scene, nest: Nest) -> list[WindowTable]:
    return [
        window_table(
            tuple(Axis(factor, scene.extents[dim], scene.chains[dim], nest.chains[dim]) for dim, factor in each.terms)
        )
        for each in scene.tensor.windows
    ]


def _carries(scene: Scene, judged: list[int]) -> Iterator[tuple[Loop[int], int, list[Cut]]]:
    """Yield (loop, how often everything but windows and judged dims stays, cut of each dim) per carry."""
    outside = [0] * len(scene.chains)
    for loop in scene.above:
        outside[loop.dim] += 1
    for carry in reversed(scene.above):
        outside[carry.dim] -= 1
        kept = scene.fixed
        for dim, line in scene.lines.items():
            if dim not in judged:
                kept *= line.moving(outside[dim]) if dim == carry.dim else line.still(outside[dim])
        if kept:
            yield carry, kept, [Cut(each, dim == carry.dim) for dim, each in enumerate(outside)]


def _may_grow_twice(scene: Scene) -> bool:
    """Return whether siblings may come back twice without one idling: two TIME loops over one dim are needed."""
    return any(
        sum(part is Part.TIME for _, part, _ in scene.chains[dim]) > 1
        for dim, line in scene.lines.items()
        if isinstance(line, JudgedIdle)
    )


def joint_changes(
    scene: Scene, nest: Nest, label: Callable[[int, tuple[Track, ...]], Label]
) -> Iterator[tuple[int, dict[int, Label], bool]]:
    """Yield (how often, label per dim, silent) of the steps at which an element stays and may enter other siblings.

    Dims: those that the tensor lacks and along which siblings may idle. label: of what they have now and had before.
    silent: none stops, and the last change before was an entry.
    """
    judged = [dim for dim, line in scene.lines.items() if isinstance(line, JudgedIdle)]
    for _, kept, cuts in _carries(scene, judged):
        kinds = [_kinds(scene, nest, dim, cuts[dim], label) for dim in judged]
        for combination in product(*kinds):
            times = kept
            for (_, _, _, _), often in combination:
                times *= often
            found = [kind for kind, _ in combination]
            latest = max(found, key=lambda kind: kind[2], default=None)
            silent = latest is not None and all(kind[1] for kind in found) and latest[2] != NOTHING and latest[3]
            yield times, {dim: kind[0] for dim, kind in zip(judged, found, strict=True)}, silent


def _kinds(
    scene: Scene, nest: Nest, dim: int, cut: Cut, label: Callable[[int, tuple[Track, ...]], Label]
) -> list[tuple[Kind[Label], int]]:
    """Return the kinds of steps of one dim at a carry, and how often each occurs."""
    chain, loops = scene.chains[dim], nest.chains[dim]
    total: dict[Kind[Label], int] = {}
    for times, tracks, past in changes_with_past(scene.extents[dim], chain, cut):
        position = NOTHING if past.loop == NOTHING else loops[past.loop].position
        kind = (label(dim, tracks), none_stops(tracks), position, past.starts)
        total[kind] = total.get(kind, 0) + times
    return list(total.items())
