"""Two mappings of one layer side by side: what differs, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

from polymap.costmodel import dataflow, evaluate
from polymap.formatting import energy, exact, table, times
from polymap.ir import Mapping, Shown, Spatial, Storage, Temporal, Workload
from polymap.report.figures import svg
from polymap.report.figures.chart import BOUND, FOUND, TUNING, WIDTH_PX, Frame, checked_width, new_chart
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of
from polymap.schedules import view_of


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of both mappings, as numbers and as they are written."""

    what: str
    one: float
    other: float
    written: tuple[str, str]

    @property
    def ratio(self) -> float | None:
        """The second over the first."""
        return self.other / self.one if self.one else None


@dataclass(frozen=True, slots=True)
class SideBySide(Shown):
    """names: of the two mappings. loops: the two loop nests, line by line. rows: figures that say what differs;
    by_level: (level, pJ, pJ)."""

    title: str
    names: tuple[str, str]
    dataflows: tuple[str, str]
    loops: tuple[tuple[str, ...], tuple[str, ...]]
    rows: tuple[Row, ...]
    by_level: tuple[tuple[str, float, float], ...]


def side_by_side(
    workload: WorkloadLike,
    arch: ArchitectureLike,
    one: Mapping,
    other: Mapping,
    names: tuple[str, str] = ("first", "second"),
) -> SideBySide:
    """Return what two mappings do differently: energies, cycles, and every tensor's traffic at every level where they
    differ."""
    workload, arch = question_of(workload, arch)
    costs = evaluate(workload, arch, one), evaluate(workload, arch, other)
    rows = [
        Row("energy", costs[0].energy_pj, costs[1].energy_pj, (energy(costs[0].energy_pj), energy(costs[1].energy_pj))),
        _count("latency, cycles", costs[0].latency_cycles, costs[1].latency_cycles),
    ]
    moved = [{(r.level, r.tensor): r.reads + r.writes for r in cost.traffic} for cost in costs]
    for level in arch.levels:
        for tensor in workload.tensors:
            a, b = (each.get((level.name, tensor.name), 0) for each in moved)
            if a != b:
                rows.append(_count(f"{tensor.name} at {level.name}, accesses", a, b))
    levels = zip(costs[0].energy_by_level_pj, costs[1].energy_by_level_pj, strict=True)
    flows = tuple(dataflow(workload, arch, each, cost).value for each, cost in zip((one, other), costs, strict=True))
    return SideBySide(
        f"{workload.name} on {arch.name}",
        names,
        (flows[0], flows[1]),
        (_lines(workload, one), _lines(workload, other)),
        tuple(rows),
        tuple((name, a, b) for (name, a), (_, b) in levels),
    )


def _count(what: str, one: int, other: int) -> Row:
    return Row(what, float(one), float(other), (exact(one), exact(other)))


def _lines(workload: Workload, mapping: Mapping) -> tuple[str, ...]:
    """Return a line per node, loops with their trips."""
    trips = {loop.position: loop.trips for loop in view_of(workload.extents(), mapping).loops}
    lines: list[str] = []
    for position, node in enumerate(mapping.nodes):
        if isinstance(node, Storage):
            lines.append(f"[{node.level}] {', '.join(node.tensors)}")
        elif isinstance(node, Temporal | Spatial):
            over = f" over {node.fanout}" if isinstance(node, Spatial) else ""
            lines.append(f"{'par' if over else 'for'} {node.dim} {trips[position]:,}{over}")
    return tuple(lines)


def side_by_side_text(figure: SideBySide) -> str:
    """Return the loop nests next to each other, and a row per figure that differs."""
    count = max(map(len, figure.loops))
    left, right = (each + ("",) * (count - len(each)) for each in figure.loops)
    nests = table(figure.names, [(a, b) for a, b in zip(left, right, strict=True)], left=2)
    rows = [(row.what, *row.written, "-" if row.ratio is None else times(row.ratio)) for row in figure.rows]
    flows = f"dataflows: {figure.dataflows[0]}; {figure.dataflows[1]}"
    return "\n".join((figure.title, "", nests, "", table(("", *figure.names, "ratio"), rows), "", flows))


@svg.draws(SideBySide, "the comparison of two mappings")
def side_by_side_svg(figure: SideBySide, *, width_px: int = WIDTH_PX) -> svg.Picture:
    """Return both loop nests, side by side where there is room, and below them the energy of both by level."""
    told = f"{figure.title}: {figure.names[0]} ({figure.dataflows[0]}), {figure.names[1]} ({figure.dataflows[1]})"
    columns = 2 if checked_width(width_px) >= TUNING.beside_px else 1
    room = (width_px - 44) / columns
    nests = [
        [part for each in lines for part in svg.wrapped(each, room - 20, 11.5, mono=True)] for lines in figure.loops
    ]
    heights = [17.0 * len(lines) + 40 for lines in nests]
    high = (max(heights) if columns == 2 else sum(heights), 40.0 * len(figure.by_level))
    layout = new_chart("Two mappings side by side", told, width_px, left=122, right=70, high=high, key=20, apart=20)
    shapes, top = list[str](), layout.frame.top
    for column, (name, lines) in enumerate(zip(figure.names, nests, strict=True)):
        left = layout.left + (room * column if columns == 2 else 0)
        shapes += svg.mark("square", left + 6, top - 4, (FOUND, BOUND)[column], 5.5)
        shapes.append(svg.text(left + 20, top, svg.fitted(name, room - 36, 13), size=13, bold=True))
        shapes += [svg.text(left, top + 22 + 17 * row, each, size=11.5, mono=True) for row, each in enumerate(lines)]
        top += 0 if columns == 2 else heights[column]
    shapes += _energies(figure, layout.frames[1])
    return layout.picture(f"Side by side: {figure.title}", shapes, (), figure, below=16)


def _energies(figure: SideBySide, frame: Frame) -> list[str]:
    """Return two bars per level, the first mapping's above."""
    told = "energy by level: first above, second below"
    shapes = [svg.text(frame.begin(told), frame.top - 12, told, size=12, fill=svg.GREY)]
    most = max(max(a, b) for _, a, b in figure.by_level) or 1.0
    for row, (name, *both) in enumerate(figure.by_level):
        bars = [
            ((frame.right - frame.left) * pj / most, colour, energy(pj), f"{whose}: {energy(pj)} at {name}")
            for pj, colour, whose in zip(both, (FOUND, BOUND), figure.names, strict=True)
        ]
        shapes += frame.pair(frame.top + 40 * row, name, bars)
    return shapes
