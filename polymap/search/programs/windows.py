"""Programs that are made in tiles of what they end in, where statements read what others made through windows.

`O[q] += T[s*q+a] * V[a]` reads rows of T that no loop of the statement before it, `T[y] = ...`, has in common with it.
Cut into tiles of q, q = b*t + q', both have the loop over t: an iteration makes the rows of T that it needs,
y = s*b*t + y', and T is indexed [t,y']. Rows that several tiles need are made again in each.

Or made *in lines*: the rows of T that q = 0 needs, but the last s, come first, in a statement of their own. Then the
iteration q makes the s rows that are new, y = s*q + k - s + y' for k rows that one q needs, and those that it shares
with the next one stay in a node of T inside the loop, a line buffer. Each row is made once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import TypeVar

from polymap.ir import Access, Affine, Dim, Statement, Tensor, Workload, accesses_of, affine, bounds, dim
from polymap.search.programs.rewriting import with_values

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Rows:
    """What a loop becomes: name, of so many iterations, after so many steps of the common loop."""

    old: str
    name: str
    step: int
    many: int

    @property
    def before(self) -> int:
        """Return how many of the rows of an iteration are those of the one before."""
        return self.many - self.step

    def value(self, common: str) -> Affine:
        """Return the old counter."""
        rest = ((1, self.name),) if self.many > 1 else ()
        return affine(((self.step, common), *rest))


def in_tiles(workload: Workload, last: str, tile: int, ends: tuple[int, int] | None = None) -> Workload | None:
    """Return a program of which each iteration of one loop makes a tile of the result of the last statement, over a dim
    of it, and what that needs of temporary tensors; None where that is the same tile of each, some of one is not
    needed, or other statements need it, too. ends: of a run of statements, that are cut alone."""
    trips = workload.extents()[last] // tile
    common = last if tile == 1 else _unused_name(workload, f"{last}_by_{tile}")
    found = _cuts(workload, last, tile, ends)
    if found is None or all(rows.many <= tile for _, rows in found[1].values()):
        return None  # not through windows
    return _cut_loops(workload, common, trips, _name_cuts(workload, found[0]), found[1])


def in_lines(workload: Workload, last: str) -> Workload | None:
    """Return a program of which each iteration of a loop makes one row of the result of the last statement, over a dim
    of it, and the rows that this is the first to need of temporary tensors; those that the first iteration shares with
    the next one come before. None where none are shared, some are not needed, or others need them, too."""
    found = _cuts(workload, last, 1)
    if found is None or not any(rows.before for _, rows in found[1].values()):
        return None
    cuts, axes = found
    first = min(at for at, each in enumerate(workload.statements) if each.name in cuts)
    if any(each.name not in cuts for each in workload.statements[first:]):
        return None  # they may overwrite what others read
    taken = {each.name for each in (*workload.statements, *workload.tensors)}
    if any(f"{name}_first" in taken for name in (*cuts, *axes)):
        return None
    lines = {
        name: Line(axis, rows, f"{name}_first" if _is_read_anew(workload, name, axis, cuts) else name)
        for name, (axis, rows) in axes.items()
    }
    ends = {name: _unused_name(workload, f"{rows.old}_{rows.before}") for name, rows in cuts.items()}
    steps = {name: _unused_name(workload, f"{rows.old}_{rows.step}") for name, rows in cuts.items()}
    before = [_statement_ahead(each, cuts[each.name], ends[each.name], lines) for each in workload.statements[first:]]
    after = [_in_line(each, last, cuts[each.name], steps[each.name], lines) for each in workload.statements[first:]]
    statements = (*workload.statements[:first], *(each for each in before if each is not None), *after)
    statements = tuple(
        replace(each, position=(at, *each.position[1:])) if each.position[0] != at else each
        for at, each in enumerate(statements)
    )
    extents = workload.extents() | {ends[name]: rows.before for name, rows in cuts.items()}
    extents |= {steps[name]: rows.step for name, rows in cuts.items()}
    parts = {part.name: part for each in workload.tensors for part in _in_two(each, lines.get(each.name))}
    tensors = dict.fromkeys(access.tensor for each in statements for access in (each.target, *each.reads))
    used = dict.fromkeys(name for each in statements for name in each.dims)
    known = {each.name: each for each in workload.dims}
    dims = tuple(known.get(name, Dim(name, extents[name])) for name in (*extents,) if name in used)
    return replace(workload, dims=dims, tensors=tuple(parts[name] for name in tensors), statements=statements)


@dataclass(frozen=True, slots=True)
class Line:
    """Of a tensor that is made in lines the axis over its rows, how many are made when, and the name of what comes
    before: its own, where the first iteration reads them again."""

    axis: int
    rows: Rows
    first: str


def _is_read_anew(workload: Workload, tensor: str, axis: int, cuts: dict[str, Rows]) -> bool:
    """Return whether rows made before any iteration are read by none."""
    written = next(each for each in workload.statements if each.target.tensor == tensor)
    return all(
        access.index[axis].coefficients()[cuts[each.name].old] * cuts[each.name].before >= cuts[written.name].before
        for each in workload.statements
        if each is not written
        for access in accesses_of(each, tensor)
    )


def _in_two(tensor: Tensor, line: Line | None) -> tuple[Tensor, ...]:
    """Return the tensors of the rows made before any iteration and in them, if these are two."""
    if line is None or line.first == tensor.name or not line.rows.before:
        return (tensor,)
    rows, at = line.rows, line.axis
    left = tensor.shape[at] - rows.before
    first = replace(tensor, name=line.first, shape=_split_items(tensor.shape, at, (rows.before,)))
    return first, replace(tensor, shape=_split_items(tensor.shape, at, (left,)))


def _statement_ahead(statement: Statement, rows: Rows, name: str, lines: dict[str, Line]) -> Statement | None:
    """Return the statement that makes the rows that come before any iteration; None where none do."""
    if not rows.before:
        return None
    own = with_values(statement, {each: dim(name) if each == rows.old else dim(each) for each in statement.dims})

    def of_first(access: Access) -> Access:
        return replace(access, tensor=lines[access.tensor].first) if access.tensor in lines else access

    return replace(
        own,
        name=f"{statement.name}_first",
        dims=tuple(name if each == rows.old else each for each in statement.dims),
        target=of_first(own.target),
        reads=tuple(of_first(each) for each in own.reads),
    )


def _in_line(statement: Statement, common: str, rows: Rows, name: str, lines: dict[str, Line]) -> Statement:
    """Return the statement that makes in each iteration the rows that are new."""
    value = replace(rows, name=name, many=rows.step).value(common) + rows.before
    own = with_values(statement, {each: value if each == rows.old else dim(each) for each in statement.dims})
    dims = tuple(name if each == rows.old else each for each in statement.dims if each != rows.old or rows.step > 1)

    def of_rest(access: Access) -> Access:
        line = lines.get(access.tensor)
        if line is None or line.first == access.tensor:
            return access
        rest = access.index[line.axis] - line.rows.before
        return replace(access, index=_split_items(access.index, line.axis, (rest,)))

    target, reads = of_rest(own.target), tuple(of_rest(each) for each in own.reads)
    position = (statement.position[0], *((0,) * (len(dims) + 1)))
    return replace(own, dims=(common, *dims), position=position, target=target, reads=reads)


def _cuts(
    workload: Workload, last: str, tile: int, ends: tuple[int, int] | None = None
) -> tuple[dict[str, Rows], dict[str, tuple[int, Rows]]] | None:
    """Return what the loops of statements become, by statement, and by tensor the axis over these rows; None where some
    rows are not needed, or other statements need them, too."""
    trips = workload.extents()[last] // tile
    cuts: dict[str, Rows] = {}
    axes: dict[str, tuple[int, Rows]] = {}
    *others, end = workload.statements[slice(*ends or (0, None))]
    if any(access.tensor == end.target.tensor for access in end.reads):
        return None  # a recurrence, which another order of the loops may not keep
    cuts[end.name] = Rows(last, last, tile, tile)
    for each in reversed(others):
        readers = [one for one in workload.statements if one is not each and accesses_of(one, each.target.tensor)]
        found = _rows(workload, each, readers, cuts, trips)
        if found is not None:
            axes[each.target.tensor] = found
            cuts[each.name] = found[1]
        elif any(one.name in cuts and _reads_rows(one, each.target.tensor, cuts[one.name]) for one in readers):
            return None
    return cuts, axes


@lru_cache(maxsize=64)
def makes_rows_again(workload: Workload) -> bool:
    """Return whether a program of which runs of statements are in tiles has loops whose tiles need not divide those of
    the program."""
    runs = combinations(range(len(workload.statements) + 1), 2)
    ends = [(run, workload.statements[run[1] - 1].target) for run in runs if run[1] - run[0] > 1]
    cuts = (in_tiles(workload, name, 1, run) for run, end in ends for name in end.dims if name in end.dims_alone)
    return workload.original is None and any(cut is not None and made_again(workload, cut) > 0 for cut in cuts)


def made_again(workload: Workload, cut: Workload) -> int:
    """Return how many statement instances a program in tiles has more."""
    return cut.instances_of_boxes() - workload.instances_of_boxes()


def _reads_rows(statement: Statement, tensor: str, rows: Rows) -> bool:
    return any(rows.old in form.dims for access in accesses_of(statement, tensor) for form in access.index)


def _rows(
    workload: Workload, writer: Statement, readers: list[Statement], cuts: dict[str, Rows], trips: int
) -> tuple[int, Rows] | None:
    """Return the axis of a tensor that its readers, all in tiles, need in rows, and what the loop over it of the
    statement that writes it becomes; None where there is none, or some rows are not needed."""
    tensor, target, extents = workload.tensor(writer.target.tensor), writer.target, workload.extents()
    writers = [each for each in workload.statements if each.target.tensor == tensor.name]
    is_alone = tensor.temporary and not tensor.initial and target.is_plain and len(writers) == 1
    if not (is_alone and readers) or any(tensor.origin) or not all(each.name in cuts for each in readers):
        return None
    needs = set[tuple[int, int, int]]()  # axis, step, rows
    for each in readers:
        rows, inside = cuts[each.name], extents | {cuts[each.name].old: cuts[each.name].many}
        for access in accesses_of(each, tensor.name):
            over = [axis for axis, form in enumerate(access.index) if rows.old in form.dims]
            if len(over) != 1 or not access.index[over[0]].is_linear or not access.is_box:
                return None
            form = access.index[over[0]]
            low, high = bounds(form, inside)
            needs.add((over[0], form.coefficients()[rows.old] * rows.step, high + 1 if low == 0 else 0))
    if len(needs) != 1:
        return None
    axis, step, many = next(iter(needs))  # any order: it is one
    own = target.index[axis].dims[0]
    is_all = many >= step > 0 and step * (trips - 1) + many == tensor.shape[axis] == extents[own]
    return (axis, Rows(own, own, step, many)) if is_all and target.index[axis] == dim(own) else None


def _name_cuts(workload: Workload, cuts: dict[str, Rows]) -> dict[str, Rows]:
    """Return cuts of which loops that are not equally long have other names, also than loops that are not cut."""
    left = {name for each in workload.statements if each.name not in cuts for name in each.dims}
    lengths = {rows.old: {one.many for one in cuts.values() if one.old == rows.old} for rows in cuts.values()}
    return {
        each: replace(rows, name=_unused_name(workload, f"{rows.old}_{rows.many}"))
        if rows.old in left or len(lengths[rows.old]) > 1
        else rows
        for each, rows in cuts.items()
    }


def _cut_loops(
    workload: Workload, common: str, trips: int, cuts: dict[str, Rows], axes: dict[str, tuple[int, Rows]]
) -> Workload:
    """Return the program with the loops of some statements cut."""
    dims = {each.name: each for each in workload.dims}
    dims |= {rows.name: Dim(rows.name, rows.many) for rows in cuts.values()}
    dims[common] = Dim(common, trips)
    statements = tuple(
        _in_rows(each, common, cuts[each.name], axes) if each.name in cuts else each for each in workload.statements
    )
    used = {name for each in statements for name in each.dims}
    tensors = tuple(
        replace(each, shape=_split_items(each.shape, axes[each.name][0], (trips, axes[each.name][1].many)))
        if each.name in axes
        else each
        for each in workload.tensors
    )
    tensors = tuple(replace(each, origin=(0,) * len(each.shape)) if each.name in axes else each for each in tensors)
    return replace(
        workload,
        dims=tuple(each for name, each in dims.items() if name in used),
        tensors=tensors,
        statements=statements,
    )


def _in_rows(statement: Statement, common: str, rows: Rows, axes: dict[str, tuple[int, Rows]]) -> Statement:
    """Return a statement with one loop cut, the common one outermost."""
    value = rows.value(common)
    cut = with_values(statement, {name: value if name == rows.old else dim(name) for name in statement.dims})
    inner = tuple(
        rows.name if name == rows.old else name for name in statement.dims if name != rows.old or rows.many > 1
    )

    def split(access: Access) -> Access:
        if access.tensor not in axes:
            return access
        axis, own = axes[access.tensor]
        rest = access.index[axis] - dim(common) * own.step
        return replace(access, index=_split_items(access.index, axis, (dim(common), rest)))

    return replace(
        cut,
        dims=(common, *inner),
        position=(statement.position[0], *((0,) * (len(inner) + 1))),
        target=split(cut.target),
        reads=tuple(split(each) for each in cut.reads),
    )


def _split_items(items: tuple[Item, ...], at: int, parts: tuple[Item, ...]) -> tuple[Item, ...]:
    return (*items[:at], *parts, *items[at + 1 :])


def _unused_name(workload: Workload, name: str) -> str:
    while name in workload.extents():
        name += "_"
    return name
