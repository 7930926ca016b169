"""Tiles of nests that go through one array by rows and through another by columns.

`B[j][i] = A[i][j]` uses one element of a line of B before it comes to the next line, and comes back to it a whole row
later. In square tiles, as small as lines are long, every line is used whole while it is in the first cache.
"""

from __future__ import annotations

from polymap.codegen.source.contiguous import dim_of, is_legal, step_of
from polymap.codegen.source.contraction import tile_number
from polymap.codegen.source.order_tuning import TUNING
from polymap.ir import Statement
from polymap.schedules import Loop, Schedule, TimeDim


def in_line_tiles(schedule: Schedule, kept: frozenset[str], until: float) -> tuple[Schedule, tuple[str, ...]]:
    """Return the schedule with such nests of one statement tiled where that is legal, and what was tiled, in words.

    kept: statements that stay as they are.
    """
    words: list[str] = []
    for statement in schedule.workload.statements:
        loops = [each for each in schedule.loops() if statement.name in each.statements]
        for outer in loops[:-1] if statement.name not in kept else ():
            size = _size(schedule, statement, outer, loops[-1])
            made = _tile_loops(schedule, statement, outer, loops[-1], size) if size else None
            if made is not None and is_legal(made, until):
                sides = " x ".join(f"{size} {dim_of(schedule, statement, each)}" for each in (outer, loops[-1]))
                words.append(f"{statement.name} in tiles of {sides}, which use lines of caches whole")
                schedule = made
                break
    return schedule, tuple(words)


def _size(schedule: Schedule, statement: Statement, outer: Loop, inner: Loop) -> int:
    """Return the size of the tiles of two loops, 0 where they need none."""
    workload, extents = schedule.workload, schedule.workload.extents()
    dims = [dim_of(schedule, statement, each) for each in (outer, inner)]
    if len(outer.statements) > 1 or not all(dims) or any(not step_of(workload, statement.target, dim) for dim in dims):
        return 0
    if min(extents[dim] for dim in dims) < TUNING.line_tile_extent:
        return 0
    steps = [tuple(step_of(workload, each, dim) for dim in dims) for each in (statement.target, *statement.reads)]
    if not any(across in (1, -1) and along not in (0, 1, -1) for across, along in steps):
        return 0
    is_mixed = any(along in (1, -1) for _, along in steps[1:])
    return TUNING.mixed_line_tile if is_mixed else TUNING.line_tile


def _tile_loops(schedule: Schedule, statement: Statement, outer: Loop, inner: Loop, size: int) -> Schedule:
    """Return the schedule with two loops next to each other, innermost, and the numbers of their tiles outside of what
    was between them."""
    places = list(schedule.scattering(statement.name).places)
    first, last = outer.position, inner.position
    own = [places[first], places[last]]
    numbers = [TimeDim(tile_number(each.time, size)) for each in own]
    changed = [*places[:first], *numbers, *places[first + 1 : last], *own, *places[last + 1 :]]
    return schedule.with_places({statement.name: changed})
