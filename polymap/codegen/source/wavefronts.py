"""Skewing of recurrences: where an innermost loop carries a dependence, several iterations of the loop around it run
side by side.

A recurrence such as `A[i][j] = f(A[i][j-1], A[i-1][j+1])` does one element per latency of its operations. At times
j + 2 i the rows of a strip are independent of each other, and the processor overlaps them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from polymap.codegen.source.contiguous import is_legal, step_of
from polymap.codegen.source.order_tuning import TUNING
from polymap.ir import Affine, Floor, Statement
from polymap.schedules import Loop, Schedule, TimeDim


def side_by_side(schedule: Schedule, kept: frozenset[str], until: float) -> tuple[Schedule, tuple[str, ...]]:
    """Return the schedule with such loops in strips, skewed as far as they must be, and the statements in them.

    kept: statements that stay as they are.
    """
    changed: list[str] = []
    for outer in schedule.loops():
        if kept & set(outer.statements) or set(changed) & set(outer.statements):
            continue
        waiting = _dependent_loops(schedule, outer, until)
        if not waiting:
            continue
        for skew in range(TUNING.wavefront_skew + 1):
            made, turned = (_in_strips(schedule, outer, waiting, skew, sign) for sign in (1, -1))
            if is_legal(made, until) and is_legal(turned, until):
                schedule = made
                changed += outer.statements
                break
    return schedule, tuple(changed)


def _dependent_loops(schedule: Schedule, outer: Loop, until: float) -> tuple[Loop, ...]:
    """Return the innermost loops directly inside a loop that carry dependences, and that walk along rows of arrays."""
    inner = [
        each
        for each in schedule.loops()
        if set(each.statements) <= set(outer.statements) and each.position > outer.position
    ]
    if not inner or len({each.position for each in inner}) > 1 or not _is_plain(schedule, outer):
        return ()
    own = {each.name: each for each in schedule.workload.statements}
    found: list[Loop] = []
    for loop in inner:
        statements = [own[name] for name in loop.statements]
        if (
            _is_plain(schedule, loop)
            and _recurs(schedule, loop, statements)
            and _has_strides(schedule, outer, statements)
        ):
            turned = _with_loop_reversed(schedule, loop)
            if not is_legal(turned, until):
                found.append(loop)
    return tuple(found)


def _is_plain(schedule: Schedule, loop: Loop) -> bool:
    """Return whether a loop runs over one large dim of each of its statements."""
    extents = schedule.workload.extents()
    for name in loop.statements:
        terms = schedule.scattering(name).places[loop.position].time.terms
        if len(terms) != 1 or not isinstance(terms[0][1], str) or extents[terms[0][1]] < TUNING.wavefront_extent:
            return False
    return True


def _recurs(schedule: Schedule, loop: Loop, statements: Sequence[Statement]) -> bool:
    """Return whether some statement reads what one of them writes a fixed number of iterations before: a float, as
    integers are added in one cycle."""
    for writer in statements:
        if not (schedule.workload.tensor(writer.target.tensor).element_type or "").startswith("float"):
            continue
        (dim,) = schedule.scattering(writer.name).places[loop.position].time.dims
        index = writer.target.index
        for access in (access for each in statements for access in each.reads if access.tensor == writer.target.tensor):
            steps = [one - other for one, other in zip(index, access.index, strict=True)]
            if all(not step.terms for step in steps):
                moves = any(step.constant for step in steps)
                if moves or all(dim not in entry.dims for entry in index):
                    return True
    return False


def _has_strides(schedule: Schedule, outer: Loop, statements: Sequence[Statement]) -> bool:
    """Return whether the loop around, if it were innermost, would step over elements; and whether it is worth it."""
    extents, total, far = schedule.workload.extents(), 0, False
    for each in statements:
        (dim,) = schedule.scattering(each.name).places[outer.position].time.dims
        steps = [step_of(schedule.workload, access, dim) for access in (each.target, *each.reads)]
        far |= any(step is None or abs(step) > 1 for step in steps)
        total += prod(extents[name] for name in each.dims)
    return far and total >= TUNING.wavefront_instances


def _with_loop_reversed(schedule: Schedule, loop: Loop) -> Schedule:
    """Return the schedule with a loop backwards: legal where its iterations do not wait for one another."""
    changed: dict[str, list[TimeDim]] = {}
    for name in loop.statements:
        places = list(schedule.scattering(name).places)
        places[loop.position] = TimeDim(-places[loop.position].time)
        changed[name] = places
    return schedule.with_places(changed)


def _in_strips(schedule: Schedule, outer: Loop, waiting: Sequence[Loop], skew: int, sign: int) -> Schedule:
    """Return the schedule with the iterations of a loop in strips; sign -1: backwards inside them."""
    inside = {name: each for each in waiting for name in each.statements}
    size = _rows_of_strip(schedule, outer)
    changed: dict[str, list[TimeDim]] = {}
    for name, part in _parts(schedule, outer):
        places = list(schedule.scattering(name).places)
        row = places[outer.position].time
        strip = TimeDim(Affine(((1, Floor(row, size)),)))
        head = [*places[: outer.position], strip, TimeDim(Affine((), part))]
        if name in inside:
            at = inside[name].position
            column = places[at].time
            changed[name] = [*head, TimeDim(column + row * skew), TimeDim(row * sign), *places[at + 1 :]]
        else:
            changed[name] = [*head, *places[outer.position :]]
    return schedule.with_places(changed)


def _rows_of_strip(schedule: Schedule, outer: Loop) -> int:
    """Return the rows of a strip: `chains`, or somewhat more where that leaves no shorter strip, as compilers write out
    loops of a known length; fewer where the rows of several arrays share the sets of the first cache."""
    workload = schedule.workload
    crowded: set[str] = set()
    rows = 0
    for each in workload.statements:
        if each.name in outer.statements:
            (dim,) = schedule.scattering(each.name).places[outer.position].time.dims
            rows = workload.extents()[dim]
            steps = {access.tensor: step_of(workload, access, dim) or 0 for access in (each.target, *each.reads)}
            bytes_of = {name: step * workload.tensor(name).bits // 8 for name, step in steps.items()}
            crowded |= {name for name, size in bytes_of.items() if size and size % TUNING.crowded_bytes == 0}
    if crowded:
        return TUNING.chains // min(len(crowded), 2)
    sizes = range(TUNING.chains, TUNING.chains + TUNING.chains // 2 + 1)
    return next((each for each in sizes if rows % each == 0), TUNING.chains)


def _parts(schedule: Schedule, outer: Loop) -> Iterator[tuple[str, int]]:
    """Yield the statements of a loop, with the places of its parts in its body."""
    for name in outer.statements:
        yield name, schedule.scattering(name).places[outer.position + 1].time.constant
