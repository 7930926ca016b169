"""Two mappings of one layer side by side: what differs, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

from polymap.costmodel import dataflow, evaluate
from polymap.formatting import energy, exact, table, times
from polymap.inputs import expected_kind
from polymap.ir import Mapping, Shown, Spatial, Storage, Temporal, Workload
from polymap.report.figures.chart import BOUND, FOUND, head
from polymap.report.figures.svg import GREY, Picture, hint, mark, picture, rect, text
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


def side_by_side_svg(figure: SideBySide) -> Picture:
    """Return both loop nests, and below them the energy of both by level."""
    figure = expected_kind(figure, SideBySide, "the comparison of two mappings")
    told = f"{figure.title}: {figure.names[0]} ({figure.dataflows[0]}), {figure.names[1]} ({figure.dataflows[1]})"
    shapes: list[str] = head("Two mappings side by side", told)
    count = max(map(len, figure.loops))
    for column, (name, lines) in enumerate(zip(figure.names, figure.loops, strict=True)):
        left = 28 + 390 * column
        shapes += [
            *mark("square", left + 6, 86, (FOUND, BOUND)[column], 5.5),
            text(left + 20, 90, name, size=13, bold=True),
        ]
        shapes += [text(left, 112 + 17 * row, line_, size=11.5, mono=True) for row, line_ in enumerate(lines)]
    top = 112 + 17 * count + 20
    shapes.append(text(28, top, "energy by level (first bar above, second below)", size=12, fill=GREY))
    most = max(max(a, b) for _, a, b in figure.by_level) or 1.0
    for row, (name, *both) in enumerate(figure.by_level):
        base = top + 16 + 40 * row
        shapes.append(text(110, base + 19, name, size=12, anchor="end"))
        for place, (pj, colour) in enumerate(zip(both, (FOUND, BOUND), strict=True)):
            width = 480 * pj / most
            bar = rect(122, base + 15 * place, max(width, 0.5), 13, fill=colour, round_by=2)
            shapes.append(hint([bar], f"{figure.names[place]}: {energy(pj)} at {name}"))
            shapes.append(text(130 + width, base + 15 * place + 11, energy(pj), size=11, fill=GREY))
    return picture(800, top + 24 + 40 * len(figure.by_level), f"Side by side: {figure.title}", shapes, figure)
