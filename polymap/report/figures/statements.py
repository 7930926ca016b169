"""The statements of a program and the dependences between them: a graph, data first."""

from __future__ import annotations

from dataclasses import dataclass

from polymap.inputs import expected_kind
from polymap.ir import (
    Shown,
    Workload,
    show_as_picture,
)
from polymap.report.figures.svg import GREY, INK, PAPER, RULE, Picture, hint, line, picture, rect, text
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
