"""Programs: the dependences between their statements, and schedules as scattering matrices."""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_lowercase

from polymap.formatting import listing, vectors
from polymap.inputs import expected_kind
from polymap.ir import Shown, Workload
from polymap.report.figures import svg
from polymap.report.figures.chart import WIDTH_PX, new_chart
from polymap.schedules import ScatteringMatrix, Schedule, scattering_matrices
from polymap.workload import Kind, dependences, statement_text

_LEFT, _GAP, _HIGH, _LANE, _PORT = 226.0, 26.0, 34.0, 22.0, 12.0
_COLOURS = {Kind.FLOW: "#2f6fde", Kind.ANTI: "#df8213", Kind.OUTPUT: "#c2417c", Kind.REDUCTION: "#0b8166"}
_DASHES = {Kind.FLOW: "", Kind.ANTI: "6 3", Kind.OUTPUT: "2 3", Kind.REDUCTION: "9 3 2 3"}


@dataclass(frozen=True, slots=True)
class StatementEdge:
    """All dependences of one kind through one array from a statement to another (or itself). distances: along the
    common loops, sorted, None where one varies; () where they have no loop in common."""

    source: str
    sink: str
    kind: str
    tensor: str
    distances: tuple[tuple[int | None, ...], ...]


@dataclass(frozen=True, slots=True)
class DependenceGraph(Shown):
    """statements: (name, text) in textual order. edges: in the order of their sources and sinks."""

    title: str
    statements: tuple[tuple[str, str], ...]
    edges: tuple[StatementEdge, ...]


def dependence_graph(workload: Workload) -> DependenceGraph:
    """Return the statements of a program with its memory-based dependences, one edge per kind and array."""
    names = [each.name for each in expected_kind(workload, Workload, "the workload").statements]
    found: dict[tuple[int, int, str, str], set[tuple[int | None, ...]]] = {}
    for each in dependences(workload):
        key = names.index(each.source), names.index(each.sink), each.kind.value, each.tensor
        found.setdefault(key, set()).update(distance for distance in each.distances if distance)
    edges = tuple(
        StatementEdge(names[source], names[sink], kind, tensor, tuple(distances))
        for key in sorted(found)
        for source, sink, kind, tensor in (key,)
        for distances in (sorted(found[key], key=_order),)  # any order: no ties
    )
    texts = tuple((each.name, statement_text(each)) for each in workload.statements)
    return DependenceGraph(workload.name, texts, edges)


def _order(distance: tuple[int | None, ...]) -> tuple[tuple[bool, int], ...]:
    return tuple((value is None, value or 0) for value in distance)


@svg.draws(DependenceGraph)
def dependence_graph_svg(figure: DependenceGraph, *, width_px: int = WIDTH_PX) -> svg.Picture:
    """Return the graph: statements downwards in textual order, at their right a lane per edge from source (dot) to sink
    (arrow); colour and dashes tell the kind."""
    ends = {name: [each for each in _ends(figure) if each[1] == name] for name, _ in figure.statements}
    at: dict[tuple[int, str, bool], float] = {}
    layout = new_chart(f"Dependences of {figure.title}", "", width_px, high=())
    left, lanes = layout.left, len(figure.edges)
    lane_px = min(_LANE, 0.4 * layout.width / (lanes + 1))
    room = layout.width - left - (lanes + 1) * lane_px - 12
    wide = min(room, left + max(_LEFT, *(72 + svg.text_width(told, mono=True) for _, told in figure.statements)))
    shapes, low = list[str](), layout.body.top - 20
    for name, told in figure.statements:
        words = svg.wrapped(told, wide - left - 60, mono=True)
        high = max(_HIGH + 16 * (len(words) - 1), (len(ends[name]) + 1) * _PORT)
        shapes.append(svg.rect(left, low, wide - left, high, fill=svg.PAPER, stroke=svg.RULE, round_by=6))
        shapes.append(svg.text(left + 12, low + 22, name, bold=True))
        shapes += [svg.text(left + 48, low + 22 + 16 * n, each, mono=True) for n, each in enumerate(words)]
        at.update({each: low + (place + 1) * high / (len(ends[name]) + 1) for place, each in enumerate(ends[name])})
        low += high + _GAP
    for lane, edge in enumerate(figure.edges):
        ys = at[lane, edge.source, False], at[lane, edge.sink, True]
        shapes.append(_edge(edge, ys, wide, wide + (lane + 1) * lane_px))
    for lane, edge in enumerate(figure.edges):
        told, low = _told(edge, lane, (left, low + 14), layout.width - 16)
        shapes += told
    return svg.picture(layout.width, low + 20, f"Dependences of {figure.title}", (*layout.heading, *shapes), figure)


def _ends(figure: DependenceGraph) -> list[tuple[int, str, bool]]:
    """Return (edge, statement, whether it is the sink) of both ends of all edges."""
    ends = [(lane, edge.source, False) for lane, edge in enumerate(figure.edges)]
    return sorted([*ends, *((lane, edge.sink, True) for lane, edge in enumerate(figure.edges))])


def _edge(edge: StatementEdge, ys: tuple[float, float], wide: float, x: float) -> str:
    kind = Kind(edge.kind)
    colour, dash = _COLOURS[kind], _DASHES[kind]
    start, end = ys
    path = [svg.line(wide, start, x, start, stroke=colour, width=1.5, dash=dash)]
    path.append(svg.line(x, start, x, end, stroke=colour, width=1.5, dash=dash))
    path.append(svg.line(x, end, wide + 6, end, stroke=colour, width=1.5, dash=dash))
    path.append(f'<path d="M{wide:.1f} {end:.1f} l8 -4 v8 z" fill="{colour}"/>')
    path.append(f'<circle cx="{wide:.1f}" cy="{start:.1f}" r="3" fill="{colour}"/>')
    return svg.hint(
        path, f"{edge.source} to {edge.sink}: {edge.kind} of {edge.tensor} {vectors(edge.distances)}".strip()
    )


def _told(edge: StatementEdge, lane: int, corner: tuple[float, float], right: float) -> tuple[list[str], float]:
    """Return what an edge stands for, its distances in lines that fit, and where the next one may begin."""
    (left, y), colour, dash = corner, _COLOURS[Kind(edge.kind)], _DASHES[Kind(edge.kind)]
    words = f"{edge.kind} of {edge.tensor}, {edge.source} to {edge.sink}"
    parts = [svg.text(left, y, str(lane + 1), fill=svg.GREY)]
    parts += [svg.line(left + 22, y - 4, left + 48, y - 4, stroke=colour, width=1.5, dash=dash)]
    parts.append(svg.text(left + 56, y, svg.fitted(words, right - left - 56), fill=svg.INK))
    start = left + 56 + max(220.0, svg.text_width(words) + 16)
    distances = vectors(edge.distances)
    if start + svg.text_width(distances, mono=True) > right:
        start, y = left + 56, y + 16
    lines = svg.wrapped(distances, right - start, mono=True)
    parts += [svg.text(start, y + 16 * n, each, fill=svg.GREY, mono=True) for n, each in enumerate(lines)]
    return parts, y + 16 * max(0, len(lines) - 1) + 6


_CELL, _ROW_PX, _APART_PX = 40.0, 24.0, 34.0


@dataclass(frozen=True, slots=True)
class ScheduleFigure(Shown):
    """One matrix per statement, all of one number of rows."""

    title: str
    matrices: tuple[ScatteringMatrix, ...]


def schedule_figure(schedule: Schedule) -> ScheduleFigure:
    """Return the scattering functions of a schedule, statement by statement, as text and as matrices."""
    schedule = expected_kind(schedule, Schedule, "the schedule")
    return ScheduleFigure(schedule.workload.name, scattering_matrices(schedule))


def scattering_text(matrix: ScatteringMatrix) -> str:
    """Return `[i, j] -> [t0, t1]` with the times written out."""
    return f"[{', '.join(matrix.dims)}] -> [{', '.join(matrix.times)}]"


@svg.draws(ScheduleFigure)
def schedule_svg(figure: ScheduleFigure, *, width_px: int = WIDTH_PX) -> svg.Picture:
    """Return the matrices below each other: counters above the columns, the times t0, t1, ... before the rows. Times
    that are 0 in all statements order nothing and are left out."""
    layout = new_chart(f"Schedule of {figure.title}", "", width_px, high=())
    left, y, shapes = layout.left, layout.body.top - 12, list[str]()
    longest = max((len(matrix.rows) for matrix in figure.matrices), default=0)
    kept = [t for t in range(longest) if any(any(m.rows[t]) for m in figure.matrices if t < len(m.rows))]
    for matrix in figure.matrices:
        shapes.append(svg.text(left, y, matrix.statement, bold=True))
        lines = svg.wrapped(scattering_text(matrix), layout.width - left - 52, mono=True)
        shapes += [svg.text(left + 36, y + 16 * n, each, mono=True) for n, each in enumerate(lines)]
        rows = [(time, matrix.rows[time]) for time in kept if time < len(matrix.rows)]
        drawn, bottom = _matrix(matrix, rows, (left, y + 16 * len(lines) + 18), layout.width - 16)
        shapes += drawn
        y = bottom + _APART_PX
    if len(kept) < longest:
        words = f"0 in all statements: {listing([f't{time}' for time in range(longest) if time not in kept])}"
        for each in svg.wrapped(words, layout.width - 2 * left, 11):
            shapes.append(svg.text(left, y, each, size=11, fill=svg.GREY))
            y += 16
    return svg.picture(layout.width, y, f"Schedule of {figure.title}", (*layout.heading, *shapes), figure)


def _matrix(
    matrix: ScatteringMatrix, rows: list[tuple[int, tuple[int, ...]]], corner: tuple[float, float], right: float
) -> tuple[list[str], float]:
    """Return the rows (time, factors) between brackets, and where they end. Where the counters would not fit above
    them, letters stand for them, which are explained below."""
    left, top = corner[0] + 64, corner[1]
    names, told = matrix.columns, list[str]()
    if sum(max(_CELL, svg.text_width(name, 11, mono=True) + 12) for name in names) > right - left - 8:
        letters = tuple(ascii_lowercase[place % 26] * (1 + place // 26) for place in range(len(names)))
        words = ", ".join(f"{letter} = {name}" for letter, name in zip(letters, names, strict=True))
        names, told = letters, svg.wrapped(words, right - corner[0], 11, mono=True)
    cells = [max(_CELL, svg.text_width(name, 11, mono=True) + 12) for name in names]
    part = min(1.0, (right - left - 8) / sum(cells))
    ends = [left + part * sum(cells[: place + 1]) for place in range(len(cells))]
    shapes = [
        svg.text(x - 5, top - 8, name, size=11, fill=svg.GREY, anchor="end", mono=True)
        for x, name in zip(ends, names, strict=True)
    ]
    for place, (time, row) in enumerate(rows):
        base = top + 16 + place * _ROW_PX
        shapes.append(svg.text(left - 12, base, f"t{time}", size=11, fill=svg.GREY, anchor="end", mono=True))
        for x, value in zip(ends, row, strict=True):
            ink = svg.INK if value else svg.GREY
            shapes.append(
                svg.text(x - 5, base, str(value), size=11, fill=ink, anchor="end", bold=bool(value), mono=True)
            )
    bottom = top + len(rows) * _ROW_PX
    shapes += [*_bracket(left, top, bottom, 5), *_bracket(ends[-1] + 2, top, bottom, -5)]
    shapes += [
        svg.text(corner[0], bottom + 22 + 15 * n, each, size=11, fill=svg.GREY, mono=True)
        for n, each in enumerate(told)
    ]
    return shapes, bottom + (15 * len(told) + 10 if told else 0)


def _bracket(x: float, top: float, bottom: float, inwards: float) -> list[str]:
    return [
        svg.line(x, top, x, bottom, stroke=svg.GREY, width=1.5),
        svg.line(x, top, x + inwards, top, stroke=svg.GREY, width=1.5),
        svg.line(x, bottom, x + inwards, bottom, stroke=svg.GREY, width=1.5),
    ]
