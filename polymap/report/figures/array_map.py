"""Which compute unit works when: statement instances per unit, and how many units work in how many steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from polymap.formatting import exact, percent, plural
from polymap.ir import (
    Mapping,
    Mistake,
    OptionError,
    Shown,
    Spatial,
    Workload,
    is_box,
)
from polymap.report import TUNING
from polymap.report.figures import svg
from polymap.report.figures.chart import WIDTH_PX, Frame, KeyRow, cell_chart
from polymap.resolve import ArchitectureLike, WorkloadLike, mapping_of, question_of
from polymap.schedules import LoopInTree, check_mapping, view_of

_BUSY = "#2f6fde"
_SIDE_PX = 320.0  # of the longer side at most
Loops = tuple[LoopInTree, ...]


@dataclass(frozen=True, slots=True)
class ArrayFigure(Shown):
    """What is drawn. rows, columns: the fan-outs whose coordinates count there, outermost first. work: [row][column]
    statement instances that the unit executes. phases: (units that work, steps), most units first: in so many steps of
    the array so many of them have work."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    work: tuple[tuple[int, ...], ...]
    phases: tuple[tuple[int, int], ...]

    @property
    def units(self) -> int:
        """How many units there are."""
        return sum(map(len, self.work))

    @property
    def steps(self) -> int:
        """How many steps the array takes."""
        return sum(steps for _, steps in self.phases)


def array_figure(workload: WorkloadLike, arch: ArchitectureLike, mapping: Mapping) -> ArrayFigure:
    """Return the work of each compute unit in the lockstep model: all units run the temporal loops together, and one
    whose spatial tiles lie beyond the end of a dim waits (docs/counting.md, "A mapping is a loop tree").

    The last fan-out counts the columns, all others together the rows. Raises OptionError for programs of several
    statements, domains that are no box, dims of more than 10^6 indices and arrays of more than 65,536 units;
    MappingError for a tree that cannot be read as a program.
    """
    workload, arch = question_of(workload, arch)
    mapping = mapping_of(mapping)
    check_mapping(workload, arch, mapping)
    shape = {fanout.name: fanout.size for fanout in arch.fanouts}
    _check(workload, prod(shape.values()))
    loops = view_of(workload.extents(), mapping).loops
    work = np.ones((1,) * len(shape), dtype=object)
    phases = Counter({1: 1})
    for dim, extent in workload.extents().items():
        places, counts, active = _of_dim(loops, dim, extent, tuple(shape))
        work = _spread(work, places, counts)
        merged: Counter[int] = Counter()
        for (units, steps), (more, times) in product(phases.items(), active.items()):
            merged[units * more] += steps * times
        phases = merged
    full = np.zeros(tuple(shape.values()), dtype=object)
    full[tuple(slice(0, size) for size in work.shape)] = work
    table = full.reshape((-1, full.shape[-1])) if shape else full.reshape((1, 1))
    names = tuple(shape)
    return ArrayFigure(
        f"{workload.name} on {arch.name}",
        names[:-1],
        names[-1:],
        tuple(tuple(int(each) for each in row) for row in table),
        tuple(sorted(phases.items(), reverse=True)),
    )


def _check(workload: Workload, units: int) -> None:
    what = ""
    if len(workload.statements) != 1 or not is_box(workload.statements[0]):
        what = f"'{workload.name}' is not one statement over a box"
    elif max(workload.extents().values(), default=1) > TUNING.array_indices:
        what = f"a dim of '{workload.name}' has more than {TUNING.array_indices:,} indices"
    elif units > TUNING.array_units:
        what = f"the array has {exact(units)} units"
    if what:
        raise OptionError(Mistake("PM575", what, f"The map is drawn of a box, for up to {TUNING.array_units:,} units."))


def _of_dim(
    loops: Loops, dim: str, extent: int, fanouts: Sequence[str]
) -> tuple[list[tuple[int, ...]], list[int], Counter[int]]:
    """Return of one dim: the places along all fan-outs that its spatial loops reach, how many indices fall to each, and
    how many steps of its temporal loops have how many places active."""
    index = np.arange(extent, dtype=np.int64)
    place = np.zeros((extent, len(fanouts)), dtype=np.int64)
    step = np.zeros(extent, dtype=np.int64)
    for number, loop in enumerate(loops):
        if loop.node.dim != dim:
            continue
        digit, index = np.divmod(index, loop.tile)
        if isinstance(loop.node, Spatial):
            place[:, fanouts.index(loop.node.fanout)] += _stride(loop.node, loops[number + 1 :]) * digit
        else:
            step = step * loop.trips + digit
    places, counts = np.unique(place, axis=0, return_counts=True)
    per_step: list[int] = np.unique(step, return_counts=True)[1].tolist()
    return [tuple(each) for each in places.tolist()], counts.tolist(), Counter(per_step)


def _stride(loop: Spatial, inside: Loops) -> int:
    """Return how many instances of its fan-out one iteration of a loop covers; inside: the loops in it."""
    return prod(each.trips for each in inside if isinstance(each.node, Spatial) and each.node.fanout == loop.fanout)


def _spread(work: np.ndarray, places: list[tuple[int, ...]], counts: list[int]) -> np.ndarray:
    """Return the work per unit with the loops of one more dim: every unit so far, moved by each place."""
    most = [max(place[axis] for place in places) for axis in range(work.ndim)]
    found = np.zeros([size + more for size, more in zip(work.shape, most, strict=True)], dtype=object)
    for place, count in zip(places, counts, strict=True):
        where = tuple(slice(start, start + size) for start, size in zip(place, work.shape, strict=True))
        found[where] += work * count
    return found


@svg.draws(ArrayFigure)
def array_svg(figure: ArrayFigure, *, width_px: int = WIDTH_PX) -> svg.Picture:
    """Return the array, a unit darker the more it works, hollow where it never does; and the steps by units at work."""
    busy = sum(map(sum, figure.work)) / (figure.units * figure.steps)
    told = f"{figure.title}: {percent(busy)} of the units busy over {plural(figure.steps, 'step')}"
    rows, columns = len(figure.work), len(figure.work[0])
    side = min(40.0, _SIDE_PX / max(rows, columns))
    layout, side = cell_chart(
        "Which compute unit works", told, width_px, (columns, rows), left=40, side=side, high=0.0, key=360
    )
    frame, shapes = layout.frame, list[str]()
    most = max(map(max, figure.work)) or 1
    for value in sorted({each for row in figure.work for each in row}):
        cells = [(i, j) for i, row in enumerate(figure.work) for j, each in enumerate(row) if each == value]
        shapes.append(_cells(frame, side, cells, value, most))
    shapes.append(frame.up(_counted("columns", figure.columns)))
    shapes.append(svg.text(frame.left, frame.bottom + 20, _counted("rows", figure.rows), size=11.5, fill=svg.GREY))
    return layout.picture(f"Which compute unit works: {told}", shapes, _phases(figure), figure, below=36)


def _counted(what: str, fanouts: tuple[str, ...]) -> str:
    """Return what rows or columns count: their fan-outs by name."""
    kind = "fan-outs" if len(fanouts) > 1 else "fan-out"
    return f"{what}: {kind} {' x '.join(fanouts)}" if fanouts else f"{what}: one"


def _cells(frame: Frame, side: float, cells: list[tuple[int, int]], value: int, most: int) -> str:
    """Return the units of one amount of work, as one shape that says so under the pointer."""
    gap = 2.0 if side > 8 else 0.4
    long = side - gap
    path = "".join(
        f"M{frame.left + side * j:.1f},{frame.top + side * i:.1f}h{long:.1f}v{long:.1f}h-{long:.1f}z" for i, j in cells
    )
    fill = svg.tint(_BUSY, 0.25 + 0.75 * value / most) if value else svg.PAPER
    shape = f'<path d="{path}" fill="{fill}" stroke="{svg.RULE if value else svg.FAINT}" stroke-width="0.6"/>'
    what = f"{plural(value, 'statement instance')} each" if value else "never works"
    return svg.hint([shape], f"{plural(len(cells), 'unit')}: {what}")


def _phases(figure: ArrayFigure) -> list[KeyRow]:
    """Return in how many steps how many units work."""
    shown, rest = figure.phases[: TUNING.array_phases], figure.phases[TUNING.array_phases :]
    rows = [(f"{exact(units)} of {exact(figure.units)} units work in", units, steps) for units, steps in shown]
    rows += [("fewer work in", rest[0][0], sum(steps for _, steps in rest))] if rest else []
    return [
        KeyRow(
            "box",
            svg.tint(_BUSY, 0.25 + 0.75 * units / figure.units),
            name,
            f"{plural(steps, 'step')}, {percent(steps / figure.steps)}",
        )
        for name, units, steps in rows
    ]
