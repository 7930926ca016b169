"""Programs: the dependences between their statements, and schedules as scattering matrices."""

from __future__ import annotations

from dataclasses import dataclass

from polymap.formatting import listing
from polymap.inputs import expected_kind
from polymap.ir import (
    Shown,
    Workload,
    show_as_picture,
)
from polymap.report.figures.svg import GREY, INK, PAPER, RULE, Picture, hint, line, picture, rect, text, text_width
from polymap.schedules import ScatteringMatrix, Schedule, scattering_matrices
from polymap.workload import Kind, dependences, statement_text

_LEFT, _TOP, _GAP, _HIGH, _LANE, _PORT = 250.0, 56.0, 26.0, 34.0, 22.0, 12.0
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
        StatementEdge(names[source], names[sink], kind, tensor, tuple(sorted(found[key], key=_order)))
        for key in sorted(found)
        for source, sink, kind, tensor in (key,)
    )
    texts = tuple((each.name, statement_text(each)) for each in workload.statements)
    return DependenceGraph(workload.name, texts, edges)


def _order(distance: tuple[int | None, ...]) -> tuple[tuple[bool, int], ...]:
    return tuple((value is None, value or 0) for value in distance)


def distance_text(edge: StatementEdge) -> str:
    """Return the distances as (1, 0), * where one varies; "" without common loops."""
    return " ".join(f"({', '.join('*' if value is None else str(value) for value in each)})" for each in edge.distances)


def dependence_graph_svg(figure: DependenceGraph) -> Picture:
    """Return the graph: statements downwards in textual order, at their right a lane per edge from source (dot) to sink
    (arrow); colour and dashes tell the kind."""
    figure = expected_kind(figure, DependenceGraph, "the figure")
    ends = {name: [each for each in _ends(figure) if each[1] == name] for name, _ in figure.statements}
    at: dict[tuple[int, str, bool], float] = {}
    wide = max(_LEFT, max(len(told) for _, told in figure.statements) * 7.4 + 96)
    shapes, low = [text(24, 34, f"Dependences of {figure.title}", size=15, bold=True)], _TOP
    for name, told in figure.statements:
        high = max(_HIGH, (len(ends[name]) + 1) * _PORT)
        shapes.append(rect(24, low, wide - 24, high, fill=PAPER, stroke=RULE, round_by=6))
        shapes += [text(36, low + 22, name, bold=True), text(72, low + 22, told, mono=True)]
        at.update({each: low + (place + 1) * high / (len(ends[name]) + 1) for place, each in enumerate(ends[name])})
        low += high + _GAP
    for lane, edge in enumerate(figure.edges):
        ys = at[lane, edge.source, False], at[lane, edge.sink, True]
        shapes.append(_edge(edge, ys, wide, wide + (lane + 1) * _LANE))
    shapes += [_told(edge, low + 14 + 20 * lane, lane) for lane, edge in enumerate(figure.edges)]
    width = max(wide + (len(figure.edges) + 1) * _LANE + 12, 460)
    return picture(width, low + 20 * len(figure.edges) + 24, f"Dependences of {figure.title}", shapes, figure)


def _ends(figure: DependenceGraph) -> list[tuple[int, str, bool]]:
    """Return (edge, statement, whether it is the sink) of both ends of all edges."""
    ends = [(lane, edge.source, False) for lane, edge in enumerate(figure.edges)]
    return sorted([*ends, *((lane, edge.sink, True) for lane, edge in enumerate(figure.edges))])


def _edge(edge: StatementEdge, ys: tuple[float, float], wide: float, x: float) -> str:
    kind = Kind(edge.kind)
    colour, dash = _COLOURS[kind], _DASHES[kind]
    more = f'stroke-dasharray="{dash}"' if dash else ""
    start, end = ys
    path = [line(wide, start, x, start, stroke=colour, width=1.5, more=more)]
    path.append(line(x, start, x, end, stroke=colour, width=1.5, more=more))
    path.append(line(x, end, wide + 6, end, stroke=colour, width=1.5, more=more))
    path.append(f'<path d="M{wide:.1f} {end:.1f} l8 -4 v8 z" fill="{colour}"/>')
    path.append(f'<circle cx="{wide:.1f}" cy="{start:.1f}" r="3" fill="{colour}"/>')
    return hint(path, f"{edge.source} to {edge.sink}: {edge.kind} of {edge.tensor} {distance_text(edge)}".strip())


def _told(edge: StatementEdge, y: float, lane: int) -> str:
    colour, dash = _COLOURS[Kind(edge.kind)], _DASHES[Kind(edge.kind)]
    more = f'stroke-dasharray="{dash}"' if dash else ""
    words = f"{edge.kind} of {edge.tensor}, {edge.source} to {edge.sink}"
    parts = [text(24, y, str(lane + 1), fill=GREY), line(46, y - 4, 72, y - 4, stroke=colour, width=1.5, more=more)]
    parts += [text(80, y, words, fill=INK), text(300, y, distance_text(edge), fill=GREY, mono=True)]
    return "".join(parts)


show_as_picture(DependenceGraph, dependence_graph_svg)


_FIRST_PX, _CELL, _ROW_PX, _APART_PX = 64.0, 40.0, 24.0, 34.0


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


def schedule_svg(figure: ScheduleFigure) -> Picture:
    """Return the matrices below each other: counters above the columns, the times t0, t1, ... before the rows. Times
    that are 0 in all statements order nothing and are left out."""
    figure = expected_kind(figure, ScheduleFigure, "the figure")
    shapes = [text(24, 34, f"Schedule of {figure.title}", size=15, bold=True)]
    y, width = _FIRST_PX, 320.0
    longest = max((len(matrix.rows) for matrix in figure.matrices), default=0)
    kept = [t for t in range(longest) if any(any(m.rows[t]) for m in figure.matrices if t < len(m.rows))]
    for matrix in figure.matrices:
        shapes += [text(24, y, matrix.statement, bold=True), text(60, y, scattering_text(matrix), mono=True)]
        width = max(width, 84 + text_width(scattering_text(matrix), 12, mono=True))
        cells = [max(_CELL, text_width(name, 11, mono=True) + 12) for name in matrix.columns]
        ends = [88 + sum(cells[: place + 1]) for place in range(len(cells))]
        width = max(width, ends[-1] + 48)
        top = y + 34
        shapes += [
            text(x - 8, top - 8, name, size=11, fill=GREY, anchor="end", mono=True)
            for x, name in zip(ends, matrix.columns, strict=True)
        ]
        rows = [(time, matrix.rows[time]) for time in kept if time < len(matrix.rows)]
        for place, (time, row) in enumerate(rows):
            base = top + 16 + place * _ROW_PX
            shapes.append(text(76, base, f"t{time}", size=11, fill=GREY, anchor="end", mono=True))
            shapes += [
                text(x - 8, base, str(value), fill=INK if value else GREY, anchor="end", bold=bool(value), mono=True)
                for x, value in zip(ends, row, strict=True)
            ]
        bottom = top + len(rows) * _ROW_PX
        shapes += [*_bracket(88, top, bottom, 5), *_bracket(ends[-1] + 2, top, bottom, -5)]
        y = bottom + _APART_PX
    if len(kept) < longest:
        left = listing([f"t{time}" for time in range(longest) if time not in kept])
        words = f"0 in all statements: {left}"
        shapes.append(text(24, y, words, size=11, fill=GREY))
        y, width = y + 24, max(width, 48 + text_width(words, 11))
    return picture(width, y - 8, f"Schedule of {figure.title}", shapes, figure)


def _bracket(x: float, top: float, bottom: float, inwards: float) -> list[str]:
    return [
        line(x, top, x, bottom, stroke=GREY, width=1.5),
        line(x, top, x + inwards, top, stroke=GREY, width=1.5),
        line(x, bottom, x + inwards, bottom, stroke=GREY, width=1.5),
    ]


show_as_picture(ScheduleFigure, schedule_svg)
