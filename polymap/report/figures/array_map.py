"""Which compute unit works when: statement instances per unit, how many units work in how many steps, and, on machines
timed by step, what single steps load, work on and store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, pairwise, product
from math import ceil, prod

import numpy as np

from polymap import ir
from polymap.costmodel import Cost, StepClass
from polymap.formatting import exact, percent, plural, short
from polymap.report import TUNING
from polymap.report.figures import svg
from polymap.report.figures.chart import WIDTH_PX, Frame, KeyRow, cell_chart, new_chart
from polymap.resolve import ArchitectureLike, WorkloadLike, mapping_of, question_of
from polymap.schedules import LoopInTree, check_mapping, view_of

_BUSY = "#2f6fde"
_SIDE_PX = 320.0  # of the longer side at most
_FIRST = -1  # what begins the first step, no loop
Loops = tuple[LoopInTree, ...]


@dataclass(frozen=True, slots=True)
class ArrayFigure(ir.Shown):
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


def array_figure(workload: WorkloadLike, arch: ArchitectureLike, mapping: ir.Mapping) -> ArrayFigure:
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


def _check(workload: ir.Workload, units: int) -> None:
    what = ""
    if len(workload.statements) != 1 or not ir.is_box(workload.statements[0]):
        what = f"'{workload.name}' is not one statement over a box"
    elif max(workload.extents().values(), default=1) > TUNING.array_indices:
        what = f"a dim of '{workload.name}' has more than {TUNING.array_indices:,} indices"
    elif units > TUNING.array_units:
        what = f"the array has {exact(units)} units"
    if what:
        raise ir.OptionError(
            ir.Mistake("PM575", what, f"The map is drawn of a box, for up to {TUNING.array_units:,} units.")
        )


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
        if isinstance(loop.node, ir.Spatial):
            place[:, fanouts.index(loop.node.fanout)] += _stride(loop.node, loops[number + 1 :]) * digit
        else:
            step = step * loop.trips + digit
    places, counts = np.unique(place, axis=0, return_counts=True)
    per_step: list[int] = np.unique(step, return_counts=True)[1].tolist()
    return [tuple(each) for each in places.tolist()], counts.tolist(), Counter(per_step)


def _stride(loop: ir.Spatial, inside: Loops) -> int:
    """Return how many instances of its fan-out one iteration of a loop covers; inside: the loops in it."""
    return prod(each.trips for each in inside if isinstance(each.node, ir.Spatial) and each.node.fanout == loop.fanout)


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


@dataclass(frozen=True, slots=True)
class LevelSteps:
    """The first steps of a level that holds tiles, of `steps` in all, each as its class in the mean, in order of time.
    step_cycles: to begin one."""

    level: str
    step_cycles: Fraction
    steps: int
    first: tuple[StepClass, ...]


@dataclass(frozen=True, slots=True)
class StepsFigure(ir.Shown):
    """The levels that hold tiles, outermost first, of a run of so many cycles."""

    title: str
    cycles: Fraction
    levels: tuple[LevelSteps, ...]


def steps_figure(arch: ir.Architecture, mapping: ir.Mapping, cost: Cost) -> StepsFigure:
    """Return the first steps of each level that holds tiles (docs/latency.md, "What follows"); raises OptionError for a
    machine that is not timed by step, and for a tree with branches."""
    if cost.steps is None or cost.workload is None:
        hint = "Give it step_cycles, beat_bits and the like, as gemmini_like has them (docs/latency.md)."
        raise ir.OptionError(ir.Mistake("PM575", f"'{arch.name}' does not say what single steps take", hint))
    if any(isinstance(node, ir.Branch) for node in mapping.nodes):
        hint = "explain() says what binds in the steps of each child of a branch."
        raise ir.OptionError(ir.Mistake("PM575", "the first steps of a tree with branches are not drawn", hint))
    levels: list[LevelSteps] = []
    for name in dict.fromkeys(each.level for each in cost.steps.classes):
        classes = [each for each in cost.steps.classes if each.level == name]
        innermost = max(
            n for n, node in enumerate(mapping.nodes) if isinstance(node, ir.Storage) and node.level == name
        )
        loops = [node for node in mapping.nodes[:innermost] if isinstance(node, ir.Temporal | ir.Spatial)]
        begun = _begun(loops, cost.workload.extents())
        known = dict(zip(sorted(begun), classes, strict=True))
        first = islice(_advances(loops, cost.workload.extents()), TUNING.timed_steps)
        level = arch.levels[arch.level_index(name)]
        steps = sum(each.steps for each in classes)
        levels.append(LevelSteps(name, level.step_cycles, steps, tuple(known[each] for each in first)))
    title = f"{cost.workload.name} on {arch.name}"
    return StepsFigure(title, cost.steps.cycles, tuple(levels))


def _begun(loops: Sequence[ir.Temporal | ir.Spatial], sizes: dict[str, int]) -> set[int]:
    """Return what begins steps: the first one, and the temporal loops, by their place among these, that cut the first
    tile, which is the largest."""
    found, left = {_FIRST}, dict(sizes)
    timed = 0
    for loop in loops:
        if isinstance(loop, ir.Temporal):
            found |= {timed} if left[loop.dim] > loop.tile else set()
            timed += 1
        left[loop.dim] = min(left[loop.dim], loop.tile)
    return found


def _advances(loops: Sequence[ir.Temporal | ir.Spatial], sizes: dict[str, int]) -> Iterator[int]:
    """Yield which loop begins each step of the first siblings: the outermost whose digit changes."""
    yield _FIRST
    for before, now in pairwise(_digits(loops, sizes)):
        yield next(place for place, (one, other) in enumerate(zip(before, now, strict=True)) if one != other)


def _digits(loops: Sequence[ir.Temporal | ir.Spatial], sizes: dict[str, int]) -> Iterator[tuple[int, ...]]:
    """Yield the digits of the temporal loops, step after step, where the first siblings have work."""
    if not loops:
        yield ()
        return
    loop, rest = loops[0], loops[1:]
    size = sizes[loop.dim]
    if isinstance(loop, ir.Spatial):
        yield from _digits(rest, sizes | {loop.dim: min(size, loop.tile)})
        return
    for low in range(0, size, loop.tile):
        for inner in _digits(rest, sizes | {loop.dim: min(size - low, loop.tile)}):
            yield low, *inner


_ROW_PX = 20.0
_KINDS = {  # what fills a period: its colour, and what it is
    "load": ("#2f6fde", "load: tiles come"),
    "work": ("#df8213", "work: what is inside"),
    "store": ("#1b9e77", "store: sums leave"),
    "issue": ("#7a5cc7", "issue: a step is begun"),
    "bus": ("#c2456f", "bus: loads and stores in turn"),
    "slots": ("#6b7280", "slots: all in turn"),
}


@svg.draws(StepsFigure)
def steps_svg(figure: StepsFigure, *, width_px: int = WIDTH_PX) -> svg.Picture:
    """Return a panel per level: step after step what it loads, works on and stores side by side, what binds in full
    colour."""
    kinds = [_kinds(level) for level in figure.levels]
    told = f"{figure.title}: {exact(ceil(figure.cycles))} cycles; what binds is in full colour"
    title, high = "What single steps take", [_ROW_PX * len(each) for each in kinds]
    layout = new_chart(title, told, width_px, left=64, high=high or [_ROW_PX], apart=84)
    shapes: list[str] = []
    for level, own, frame in zip(figure.levels, kinds, layout.frames, strict=False):
        shapes += _steps_drawn(level, own, frame)
    key = [KeyRow("box", *_KINDS[kind]) for kind in _KINDS if any(kind in own for own in kinds)]
    return layout.picture(f"{title}: {figure.title}", shapes, key, figure)


def _kinds(level: LevelSteps) -> list[str]:
    """Return the rows of a panel: work, and what else takes time."""
    own = {kind for each in level.first for kind, (_, long) in _spans(level, each).items() if long}
    return [kind for kind in _KINDS if kind in own | {"work"}]


def _spans(level: LevelSteps, each: StepClass) -> dict[str, tuple[Fraction, Fraction]]:
    """Return from when on in its period, and how long, a step does what: the first step's work waits for its load."""
    waits = each.period_cycles - each.work_cycles if not each.loop else Fraction(0)
    own = {
        "load": (Fraction(0), each.load_cycles),
        "work": (waits, each.work_cycles),
        "store": (Fraction(0), each.store_cycles),
        "issue": (Fraction(0), level.step_cycles),
    }
    return {each.binds: (Fraction(0), each.period_cycles)} | own  # the bus and all in turn take the period


def _steps_drawn(level: LevelSteps, kinds: list[str], frame: Frame) -> list[str]:
    total = sum((each.period_cycles for each in level.first), Fraction(0))
    x = frame.x_axis([0.0, float(total) or 1.0])
    words = f"{level.level}: first {plural(len(level.first), 'step')} of {exact(level.steps)}"
    shapes = [svg.text(frame.begin(words), frame.top - 12, words, bold=True), *frame.columns(x, short)]
    shapes += [each for n, kind in enumerate(kinds) for each in frame.row_name(frame.top + _ROW_PX * (n + 0.5), kind)]
    start = Fraction(0)
    for number, each in enumerate(level.first):
        for kind, (begins, long) in _spans(level, each).items():
            if not long:
                continue
            left, right = (x.place(float(start + at)) for at in (begins, begins + long))
            fill = svg.tint(_KINDS[kind][0], 1.0 if kind == each.binds else 0.35)
            bar = svg.rect(
                left,
                frame.top + _ROW_PX * kinds.index(kind) + 3,
                max(right - left - 1, 0.5),
                _ROW_PX - 6,
                fill=fill,
            )
            begun = f"{each.loop} advances" if each.loop else "the first"
            what = f"step {number} ({begun}): {kind} {short(float(long))} of {short(float(each.period_cycles))} cycles"
            shapes.append(svg.hint([bar], f"{what}; {each.binds} binds"))
        start += each.period_cycles
    return [*shapes, frame.across("cycles")]
