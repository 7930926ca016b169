"""Which loops of different nests may become one, shifted and skewed so that fusing and tiling them is legal: candidates
to be tried, each decided exactly afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count, product

import numpy as np

from polymap.ir import Access, Affine, Dim, Floor, PolymapError, Statement, Workload, affine, substituted, with_indices
from polymap.resources import never
from polymap.search.programs.instances import ACCUMULATE, READ, ProgramArrays
from polymap.search.programs.rewriting import Rewrite, Rewriting, with_values
from polymap.search.programs.tuning import TUNING
from polymap.transform import isl_order


@dataclass(frozen=True, slots=True)
class NewLoop:
    """What a loop becomes: its new name, what is added to its counter, and multiples of counters of loops around it."""

    name: str
    shift: int = 0
    skews: tuple[tuple[str, int], ...] = ()


def with_loops_apart(workload: Workload) -> tuple[Workload, Rewriting]:
    """Return the program with a dim of its own for every loop of the text, and the rewriting that gives loops their old
    names again: () where no two loops are over one dim."""
    owners: dict[str, tuple[object, ...]] = {}
    names: dict[tuple[object, ...], str] = {}
    own: list[tuple[str, ...]] = []
    for each in workload.statements:
        loops = [(each.position[: depth + 1], each.dims[: depth + 1]) for depth in range(len(each.dims))]
        for loop, dim in zip(loops, each.dims, strict=True):
            if owners.setdefault(dim, loop) == loop:
                names[loop] = dim
            elif loop not in names:
                taken = {*names.values(), *workload.extents()}
                names[loop] = next(name for n in count(2) if (name := f"{dim}_{n}") not in taken)
        own.append(tuple(names[loop] for loop in loops))
    if all(new == each.dims for new, each in zip(own, workload.statements, strict=True)):
        return workload, ()
    known = {each.name: each for each in workload.dims}
    dims: dict[str, Dim] = {}
    statements: list[Statement] = []
    back: list[Rewrite] = []
    for new, each in zip(own, workload.statements, strict=True):
        values = {old: affine(((1, name),)) for old, name in zip(each.dims, new, strict=True)}
        dims |= {name: replace(known[old], name=name) for old, name in zip(each.dims, new, strict=True)}
        constraints = tuple(substituted(one, values) for one in each.constraints)
        statements.append(replace(with_indices(each, values), dims=new, constraints=constraints, counters=()))
        back.append(Rewrite(each.name, each.position, tuple((old, values[old]) for old in each.dims)))
    return replace(workload, dims=tuple(dims.values()), statements=tuple(statements)), tuple(back)


def with_loops_joined(workload: Workload) -> Workload:
    """Return the program in which equally long loops of different nests that index one axis of a tensor alone are over
    one dim, as far as no statement has two loops over it."""
    extents, names = workload.extents(), {each.name: each.name for each in workload.dims}
    first: dict[tuple[str, int, int], str] = {}  # tensor, axis and what is added -> dim

    def may_join(old: str, new: str) -> bool:
        both = any({names[dim] for dim in each.dims} >= {old, new} for each in workload.statements)
        return extents[old] == extents[new] and not both

    for each in workload.statements:
        for access in (each.target, *each.reads):
            for axis, form in enumerate(access.index):
                if len(form.dims) == 1 and form.terms == ((1, form.dims[0]),):
                    own = names[form.dims[0]]
                    known = names[first.setdefault((access.tensor, axis, form.constant), own)]
                    if own != known and may_join(own, known):
                        names = {dim: known if name == own else name for dim, name in names.items()}
    if all(old == new for old, new in names.items()):
        return workload
    values = {old: affine(((1, new),)) for old, new in names.items()}
    statements = tuple(
        replace(
            with_values(each, values),
            dims=tuple(names[dim] for dim in each.dims),
            constraints=tuple(substituted(one, values) for one in each.constraints),
        )
        for each in workload.statements
    )
    used = set(names.values())
    dims = tuple(each for each in workload.dims if each.name in used)
    return replace(workload, dims=dims, statements=statements)


def merged_rewritings(workload: Workload) -> tuple[Rewriting, ...]:
    """Return rewritings to try, the plain one first: loops merged by the arrays that they index or by their depth, with
    shifts of 0 or as distances ask for."""
    return tuple(dict.fromkeys(((), *(_rewriting(workload, each) for each in _all_merged(workload)))))


def skewed_rewritings(workload: Workload) -> tuple[Rewriting, ...]:
    """Return the plain program and the merged ones with loops skewed by the ones around them."""
    every = [*_all_merged(workload), {each.name: NewLoop(each.name) for each in workload.dims}]
    skewed = [_skew_loops(workload, each, skew) for each in every for skew in range(1, TUNING.largest_skew + 1)]
    return tuple(dict.fromkeys(each for loops in skewed if (each := _rewriting(workload, loops))))


def every_rewriting(arrays: ProgramArrays) -> Iterator[Rewriting]:
    """Yield the plain program, then every other one in which loops that no statement has together are one loop, and
    every loop is skewed by the loops around it, by 0 up to the largest distance along it (docs/program_space.md)."""
    workload = arrays.workload
    around = {dim: each.dims[:place] for each in workload.statements for place, dim in enumerate(each.dims)}
    far = {dim: _largest_distance(arrays, dim) for dim in around}
    pairs = [(dim, outer) for dim in around for outer in around[dim]]
    yield ()
    for names in _all_names(workload, tuple(around), {}):
        for factors in product(*(range(far[dim] + 1) for dim, _ in pairs)):
            skews = dict(zip(pairs, factors, strict=True))
            loops = {
                dim: NewLoop(names[dim], 0, tuple((o, skews[dim, o]) for o in around[dim] if skews[dim, o]))
                for dim in around
            }
            found = _rewriting(workload, loops)
            if found:
                yield found


def _all_names(workload: Workload, dims: tuple[str, ...], names: dict[str, str]) -> Iterator[dict[str, str]]:
    """Yield new names of all loops: each its own or that of one before, no two of a statement the same."""
    if len(names) == len(dims):
        yield names
        return
    dim = dims[len(names)]
    beside = {other for each in workload.statements if dim in each.dims for other in each.dims}
    taken = {name for other, name in names.items() if other in beside}
    for name in (dim, *dict.fromkeys(names.values())):
        if name not in taken:
            yield from _all_names(workload, dims, {**names, dim: name})


def _largest_distance(arrays: ProgramArrays, dim: str) -> int:
    """Return by how much a loop's counter differs at most between two accesses to an element that keep their order."""
    counter = np.full(arrays.count, -1, dtype=np.int64)
    for statement, first, points in zip(arrays.workload.statements, arrays.first, arrays.points, strict=True):
        if dim in statement.dims:
            counter[first : first + points.shape[1]] = points[statement.dims.index(dim)]
    largest = 0
    for name in arrays.runs:
        own = arrays.accesses[name]
        ends: dict[int, dict[int, tuple[int, int]]] = {}  # element -> kind -> least and largest counter
        for element, kind, value in zip(own.element, own.kind, counter[own.instance], strict=True):
            if value >= 0:
                low, high = ends.setdefault(int(element), {}).get(int(kind), (int(value), int(value)))
                ends[int(element)][int(kind)] = min(low, int(value)), max(high, int(value))
        for kinds in ends.values():
            for (one, (low, _)), (other, (_, high)) in product(kinds.items(), repeat=2):
                free = one == other and (one == READ or (one >= ACCUMULATE and arrays.workload.associative))
                largest = largest if free else max(largest, high - low)
    return largest


def scheduled_rewritings(
    workload: Workload, stop: Callable[[], bool] = never, *, by_work: bool = False
) -> tuple[Rewriting, ...]:
    """Return the program in the order that isl's scheduler finds (fused and skewed so that bands are permutable), none
    where it takes too much work, or longer than the search, or its loops are divided. by_work: isl may take so much
    CPU time that its operations decide, which are the same on every machine."""
    try:
        schedule = isl_order(
            workload, cpu_s=TUNING.long_scheduler_s if by_work else TUNING.scheduler_s, is_over=stop
        ).normal()
    except PolymapError:
        return ()
    found: list[Rewrite] = []
    names = {(each.position, name): each.name for each in schedule.loops() for name in each.statements}
    for scattering in schedule.scatterings:
        loops = [place for place in range(1, schedule.length, 2) if (place, scattering.statement) in names]
        last = loops[-1] + 1 if loops else 0
        times = scattering.times
        if any(isinstance(atom, Floor) for place in loops for _, atom in times[place].terms):
            return ()
        position = tuple(times[place].constant for place in range(0, last + 1, 2))
        row = tuple((names[place, scattering.statement], times[place]) for place in loops)
        found.append(Rewrite(scattering.statement, position, row))
    return (tuple(sorted(found, key=lambda each: each.position)),)


def _rewriting(workload: Workload, loops: dict[str, NewLoop]) -> Rewriting:
    """Return the rewriting of loops: () where none changes. The order of the text stays."""
    if all(loop == NewLoop(old) for old, loop in loops.items()):
        return ()
    return tuple(
        Rewrite(each.name, each.position, tuple((loops[old].name, _value(old, loops[old])) for old in each.dims))
        for each in workload.statements
    )


def _value(old: str, loop: NewLoop) -> Affine:
    """Return a new counter as a function of the old ones."""
    return affine(((1, old), *((factor, outer) for outer, factor in loop.skews)), loop.shift)


def _all_merged(workload: Workload) -> list[dict[str, NewLoop]]:
    return [
        _merge_loops(workload, by_depth=by_depth, shifts=shifts)
        for by_depth in (False, True)
        for shifts in (False, True)
    ]


def _merge_loops(workload: Workload, *, by_depth: bool, shifts: bool) -> dict[str, NewLoop]:
    """Return every loop with the name of the loop of an earlier nest that it may be fused with."""
    loops: dict[str, NewLoop] = {}
    extents = workload.extents()
    before: list[Statement] = []
    for statement in workload.statements:
        for depth, dim in enumerate(statement.dims):
            if dim in loops:
                continue
            taken = {loops[each].name for each in statement.dims if each in loops}
            choices = [
                (score, old, shift)
                for old, score, shift in _partners(before, statement, depth, by_depth=by_depth)
                if loops[old].name not in taken
                and not loops[old].skews
                and 2 * min(extents[old], extents[dim]) >= max(extents[old], extents[dim])
                and not _together(workload, loops, dim, loops[old].name)
            ]
            if choices:
                _, old, shift = max(choices, key=lambda choice: choice[0])
                loops[dim] = NewLoop(loops[old].name, loops[old].shift + (shift if shifts else 0))
            else:
                loops[dim] = NewLoop(dim)
        before.append(statement)
    return loops


def _together(workload: Workload, loops: dict[str, NewLoop], dim: str, name: str) -> bool:
    """Return whether some statement has the loop and another one of that name."""
    return any(
        dim in each.dims and any(other in loops and loops[other].name == name for other in each.dims)
        for each in workload.statements
    )


def _partners(
    before: list[Statement], statement: Statement, depth: int, *, by_depth: bool
) -> Iterator[tuple[str, int, int]]:
    """Yield loops of earlier statements that a loop may be fused with, how much speaks for each, and the shift at which
    the later statement finds what the earlier one wrote."""
    dim = statement.dims[depth]
    seen: dict[str, tuple[int, int]] = {}
    for number, other in enumerate(before):
        for place, old in enumerate(other.dims):
            if old in statement.dims:
                continue
            score, shift = 0, 0
            for one in (other.target, *other.reads):
                for two in (statement.target, *statement.reads):
                    step = _distance(one, two, old, dim)
                    if step is not None:
                        score += 4
                        if one is other.target or two is statement.target:
                            score, shift = score + 8, max(shift, step)
            if place == depth:
                score = score + 1000 if by_depth else score + 1
            if score:
                known = seen.get(old, (0, 0))
                seen[old] = (max(known[0], score * 1000 + number), max(known[1], shift))
    for old, (score, shift) in seen.items():
        yield old, score, shift


def _distance(one: Access, two: Access, old: str, dim: str) -> int | None:
    """Return by how much the second access runs ahead of the first along an axis that both loops index alone."""
    if one.tensor != two.tensor:
        return None
    for first, second in zip(one.index, two.index, strict=True):
        if first.terms == ((1, old),) and second.terms == ((1, dim),):
            return second.constant - first.constant
    return None


def _skew_loops(workload: Workload, loops: dict[str, NewLoop], factor: int) -> dict[str, NewLoop]:
    """Return the loops with all inner ones skewed by the outermost loop of their nest."""
    skewed = dict(loops)
    for statement in workload.statements:
        if not statement.dims:
            continue
        outer = statement.dims[0]
        for dim in statement.dims[1:]:
            loop = loops[dim]
            if not loop.skews and loops[outer] == NewLoop(outer):
                skewed[dim] = NewLoop(loop.name, loop.shift, ((outer, factor),))
    return skewed
