"""A user's schedule as the times of a region; its loops count from 0, so loop variables are replaced by such
counters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from polymap.codegen.source.contiguous import dim_of, step_of
from polymap.codegen.source.dependences import Times
from polymap.codegen.source.loops import OPENMP, LoopPragma
from polymap.codegen.source.order_tuning import TUNING as ORDER_TUNING
from polymap.codegen.source.region import Region, SourceStatement, region_of
from polymap.codegen.source.tuning import TUNING
from polymap.ir import Affine, Dim, Mistake, ScheduleError, Statement, Workload, WorkloadError, dim as variable
from polymap.poly import Counter, Frame, Map, budget
from polymap.schedules import Loop, LoopKind, Schedule
from polymap.workload.c import from_c, read_program


def workload_of_text(
    source: str, sizes: Mapping[str, int], file: str, examples: Sequence[int] = (TUNING.example_size,)
) -> Workload:
    """Return the workload of a C text for which schedules are made; parameters without sizes get example values: the
    first of `examples` at which subscripts stay inside arrays of known sizes, and statements run; as large all of them,
    or the first, or the last one the largest.

    Raises as `from_c` does.
    """
    program = read_program(source, sizes, file)
    with budget(TUNING.operations, what="the reading of a C program with symbolic sizes"):
        missing = [name for name in region_of(program, sizes, file).parameters if name not in sizes]
    tries = [
        {name: example // (number * part + 1) + 2 * number for number, name in enumerate(names)}
        for example in (examples if missing else examples[:1])
        for names, part in ((missing, 0), (missing, 1), (missing[::-1], 1))[: 3 if len(missing) > 1 else 1]
    ]
    for some in tries[:-1]:
        with suppress(WorkloadError):
            return from_c(source, {**sizes, **some}, file=file)
    return from_c(source, {**sizes, **tries[-1]}, file=file)


def demanded_loops(schedule: Schedule) -> tuple[LoopPragma, ...]:
    """Return the loops of a schedule that are not sequential."""
    found: list[LoopPragma] = []
    for loop in schedule.loops():
        statements = frozenset(loop.statements)
        match loop.kind:
            case LoopKind.SEQUENTIAL:
                pass
            case LoopKind.PARALLEL:
                found.append(LoopPragma(loop.position, statements, OPENMP))
            case LoopKind.VECTOR:
                found.append(LoopPragma(loop.position, statements, "#pragma omp simd"))
            case LoopKind.UNROLLED:
                found.append(unroll_mark(loop, loop.factor or TUNING.most_unrolled))
    return tuple(found)


def unroll_mark(loop: Loop, factor: int) -> LoopPragma:
    """Return the mark of a loop that compilers are to unroll."""
    text = f"#pragma GCC unroll {factor}"
    return LoopPragma(loop.position, frozenset(loop.statements), text, independent=False)


def strip_loops(schedule: Schedule, strips: Collection[str], pragma: str) -> tuple[LoopPragma, ...]:
    """Return the innermost loops of statements whose rows run side by side. pragma: keeps clang from gathering their
    elements, which are rows apart, into vectors; that takes up to 4 times as long."""
    loops = [each for each in schedule.loops() if not set(strips).isdisjoint(each.statements)]
    return tuple(
        LoopPragma(each.position, frozenset(each.statements), pragma, independent=False)
        for each in loops
        if not any(each.position < other.position and set(each.statements) & set(other.statements) for other in loops)
    )


def in_place_loops(schedule: Schedule, pragma: str, *, restrict: bool = True) -> tuple[LoopPragma, ...]:
    """Return the innermost loops that read other elements of an array than they set, or of any array where none is
    `restrict`, and step through memory one by one. Compilers may not see that no element is set and read in two
    iterations; the pragma says so where it is so."""
    workload, extents, loops = schedule.workload, schedule.workload.extents(), schedule.loops()
    own = {each.name: each for each in workload.statements}
    found: list[LoopPragma] = []
    for loop in loops:
        nested = [each for each in loops if set(loop.statements) & set(each.statements)]
        dims = {name: dim_of(schedule, own[name], loop) for name in loop.statements}
        inside = [(own[name], dim) for name, dim in dims.items()]
        if not nested[0].position < loop.position == max(each.position for each in nested) or not all(dims.values()):
            continue
        steps = {step_of(workload, access, dim) for each, dim in inside for access in each.reads}
        set_ones = {step_of(workload, each.target, dim) for each, dim in inside}
        targets = {each.target for each, _ in inside}
        arrays = {each.tensor for each in targets}
        reads = [access for each, _ in inside for access in each.reads if access not in targets]
        others = any(access.tensor in arrays or not restrict for access in reads)
        is_long = all(extents[dim] >= ORDER_TUNING.written_out_terms for _, dim in inside)
        if others and is_long and steps <= {0, 1} and set_ones == {1}:
            found.append(LoopPragma(loop.position, frozenset(loop.statements), pragma, optional=True))
    return tuple(found)


def given_times(region: Region, schedule: Schedule) -> Times:
    """Return the times of a schedule as maps over the region's loop variables; instances of a statement that have one
    time run in the order of its loops."""
    dims = {each.name: each for each in schedule.workload.dims}
    own = {each.name: each for each in schedule.workload.statements}
    found = {each.name: _statement_with_times(each, region, own) for each in region.statements}
    other = [each for each in region.statements if found[each.name] is None]
    if other:
        text = f"{other[0].name}[{','.join(other[0].dims)}] (line {other[0].line})"
        hint = "Make it for from_c(source, sizes), with sizes at which every statement runs."
        raise ScheduleError(Mistake("PM283", f"the schedule is one of other statements: it lacks {text}", hint))
    with budget(TUNING.operations, what="a schedule as a relation"):
        pairs = [(each, found[each.name]) for each in region.statements]
        times = {each.name: _given_time(each, like, dims, schedule, 0) for each, like in pairs if like is not None}
        if all(each.is_injective() for each in times.values()):
            return times
        most = max(len(each.dims) for each in region.statements)
        return {each.name: _given_time(each, like, dims, schedule, most) for each, like in pairs if like is not None}


def _statement_with_times(each: SourceStatement, region: Region, own: Mapping[str, Statement]) -> Statement | None:
    """Return the statement whose times a region's statement takes: the one of its name, or another piece of its
    assignment.

    The latter where it has no instance at the schedule's sizes. None if there is neither.
    """
    pieces = [other for other in region.statements if (other.line, other.dims) == (each.line, each.dims)]
    pieces = [other for other in pieces if other.position[:-1] == each.position[:-1] and other.name in own]
    pieces.sort(key=lambda other: abs(other.position[-1] - each.position[-1]))
    found = own.get(each.name) or (own[pieces[0].name] if pieces else None)
    return found if found is not None and len(found.dims) == len(each.dims) else None


def _given_time(
    each: SourceStatement, like: Statement, dims: Mapping[str, Dim], schedule: Schedule, inside: int
) -> Map:
    """Return the times of the schedule's statement `like` for another one, with counters for its loop variables.
    inside: how many entries follow, its counters and zeros."""
    pairs = zip(like.dims, each.dims, strict=True)
    counters = tuple(Counter(name, label, dims[name].origin, dims[name].step) for name, label in pairs)
    own = [*map(variable, like.dims), *(Affine(),) * inside][:inside]
    whole = Frame(each.name, counters, (), {}).function((*schedule.times[like.name], *own))
    return whole.intersect_domain(each.domain)
