"""A front of mappings, none as good as another in every objective: figure data, text and SVG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polymap.report import svg
from polymap.report.numbers import exact, percent, short, table, unit_of

if TYPE_CHECKING:
    from polymap.search.result import SearchResult

LEFT, RIGHT, TOP, BOTTOM = 96.0, 640.0, 96.0, 380.0
PROVEN, OPEN = "#2f6fde", "#e4572e"


@dataclass(frozen=True, slots=True)
class FrontFigure:
    """What is drawn: the two objectives' names, and per point its values and whether it is proven."""

    title: str
    across: str
    up: str
    points: tuple[tuple[float, float, bool], ...]


def front_figure(result: SearchResult) -> FrontFigure:
    """Return the figure of a front's first two objectives."""
    across, up = (name for name, _ in result.values[:2])
    points = tuple(
        (float(point.values[0][1]), float(point.values[1][1]), point.status == "OPTIMAL") for point in result.front
    )
    word = "proven complete" if result.status == "OPTIMAL" else "what is known so far"
    return FrontFigure(f"{len(points)} points, {word}", across, up, points)


def front_text(result: SearchResult) -> str:
    """Return a row per point of a front: its values, and how far the first may still fall."""
    names = [name for name, _ in result.values]
    head = ("", *(f"{name},{unit_of(name)}" if unit_of(name) else name for name in names), "gap", "")
    rows = [
        (
            f"{place}",
            *(exact(value) for _, value in point.values),
            "-" if point.gap is None else percent(point.gap),
            point.status,
        )
        for place, point in enumerate(result.front, start=1)
    ]
    told = "No mapping is as good as a point in all and better in one."
    return f"{table(head, rows, prose=1)}\n\n{told if result.status == 'OPTIMAL' else _unfinished(result)}"


def _unfinished(result: SearchResult) -> str:
    proven = sum(point.status == "OPTIMAL" for point in result.front)
    return f"The search did not end: {proven} of these points are proven, and there may be others."


def front_svg(result: SearchResult) -> svg.Picture:
    """Return the front as a staircase over its first two objectives; unproven points in another colour."""
    figure = front_figure(result)
    x = _Axis([point[0] for point in figure.points], LEFT, RIGHT)
    y = _Axis([point[1] for point in figure.points], BOTTOM, TOP)
    corners: list[tuple[float, float]] = []
    for place, (right, up, _) in enumerate(figure.points):
        if place:
            corners.append((x.place(right), corners[-1][1]))
        corners.append((x.place(right), y.place(up)))
    shapes = [
        svg.text(28, 38, f"{figure.up} against {figure.across}", size=17, bold=True),
        svg.text(28, 59, figure.title, size=12, fill=svg.GREY),
        *_scale(x, y),
        svg.polyline(corners, stroke=svg.FAINT, width=1.5),
        *(svg.circle(x.place(a), y.place(b), 4.5, fill=PROVEN if sure else OPEN) for a, b, sure in figure.points),
        svg.text((LEFT + RIGHT) / 2, BOTTOM + 42, _label(figure.across), size=11.5, fill=svg.GREY, anchor="middle"),
        svg.text(LEFT, TOP - 14, _label(figure.up), size=11.5, fill=svg.GREY),
        *_key(),
    ]
    return svg.picture(800, 436, f"{figure.up} against {figure.across}: {figure.title}", shapes)


def _label(name: str) -> str:
    return f"{name},{unit_of(name)}" if unit_of(name) else name


class _Axis:
    """A linear axis around the values, drawn from start to end."""

    def __init__(self, values: list[float], start: float, end: float) -> None:
        room = (max(values) - min(values)) * 0.08 or abs(max(values)) * 0.1 or 1.0
        self.low, self.high = max(0.0, min(values) - room), max(values) + room
        self.start, self.end = start, end

    def place(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def _scale(x: _Axis, y: _Axis) -> list[str]:
    shapes: list[str] = []
    for step in range(5):
        across = x.low + (x.high - x.low) * step / 4
        up = y.low + (y.high - y.low) * step / 4
        shapes.append(svg.line(x.place(across), TOP, x.place(across), BOTTOM, stroke=svg.RULE))
        shapes.append(svg.text(x.place(across), BOTTOM + 18, short(across), size=11, fill=svg.GREY, anchor="middle"))
        shapes.append(svg.line(LEFT, y.place(up), RIGHT, y.place(up), stroke=svg.RULE))
        shapes.append(svg.text(LEFT - 8, y.place(up) + 4, short(up), size=11, fill=svg.GREY, anchor="end"))
    return shapes


def _key() -> list[str]:
    shapes: list[str] = []
    for row, (colour, words) in enumerate(((PROVEN, "proven"), (OPEN, "not proven"))):
        base = TOP + 10 + 24 * row
        shapes.append(svg.circle(RIGHT + 24, base - 4, 4.5, fill=colour))
        shapes.append(svg.text(RIGHT + 36, base, words, size=12))
    return shapes
