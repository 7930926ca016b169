"""Which entries of partial sums find nothing to take: those before which nothing left since the entry before.

docs/closed_form.md ("Entries that find nothing") derives what is counted here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import TypeVar

from polymap.costmodel.digits import NOTHING, Cut, Part, Track, changes_with_past
from polymap.costmodel.nest import Nest
from polymap.costmodel.scene import JudgedIdle, Scene, none_starts, none_stops

Label = TypeVar("Label")
Kind = tuple[Label, bool, int, bool]  # label, whether none stops, position of the past's loop, whether one started


def entries_that_find_nothing(scene: Scene, nest: Nest) -> int:
    """Return how many events of a scene of merged siblings follow another event with no arrival between them."""
    if not _may_grow_twice(scene):
        return 0
    found = joint_changes(scene, nest, lambda _, tracks: none_starts(tracks))
    return sum(times for times, still, silent in found if silent and not all(still.values()))


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
    others = [dim for dim in scene.lines if dim not in judged]
    fixed = scene.fixed
    outside = dict.fromkeys(range(len(scene.chains)), 0)
    for loop in scene.above:
        outside[loop.dim] += 1
    for carry in reversed(scene.above):
        outside[carry.dim] -= 1
        kept = fixed
        for dim in others:
            line = scene.lines[dim]
            kept *= line.moving(outside[dim]) if dim == carry.dim else line.still(outside[dim])
        if not kept:
            continue
        kinds = [_kinds(scene, nest, dim, Cut(outside[dim], dim == carry.dim), label) for dim in judged]
        for combination in product(*kinds):
            times = kept
            for (_, _, _, _), often in combination:
                times *= often
            found = [kind for kind, _ in combination]
            latest = max(found, key=lambda kind: kind[2])
            silent = all(kind[1] for kind in found) and latest[2] != NOTHING and latest[3]
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
