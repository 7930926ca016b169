"""How a search went: the best value and the bound against the seconds, as figure data and SVG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polymap.report import svg
from polymap.report.numbers import short, unit_of

if TYPE_CHECKING:
    from polymap.search.result import SearchResult

LEFT, RIGHT, TOP, BOTTOM = 96.0, 640.0, 96.0, 380.0
FOUND, BOUND = "#2f6fde", "#e4572e"


@dataclass(frozen=True, slots=True)
class HistoryFigure:
    """What is drawn: (seconds, value) of each better mapping and (seconds, bound) of each better bound."""

    title: str
    name: str
    values: tuple[tuple[float, float], ...]
    bounds: tuple[tuple[float, float], ...]
    end: float


def history_figure(result: SearchResult) -> HistoryFigure:
    """Return the figure of a search (of an order or a front: of its first part)."""
    values: dict[float, float] = {}
    bounds: dict[float, float] = {}
    for moment in result.history:
        if moment.value is not None:
            values.setdefault(float(moment.value), moment.seconds)
        bounds.setdefault(float(moment.bound), moment.seconds)
    gap = "" if result.gap is None else f", gap {100 * result.gap:.3g} %"
    name = result.values[0][0] if result.values else result.objective
    steps = tuple((seconds, value) for value, seconds in values.items())
    known = tuple((seconds, bound) for bound, seconds in bounds.items())
    return HistoryFigure(f"{result.status}{gap} after {result.seconds:.1f} s", name, steps, known, result.seconds)


def history_svg(result: SearchResult) -> svg.Picture:
    """Return value and bound as steps over time; where they meet, the optimum is proven."""
    figure = history_figure(result)
    seen = [value for _, value in figure.values] + [bound for _, bound in figure.bounds if bound > 0]
    low, high = min(seen, default=0.0), max(seen, default=1.0)
    room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    low, high = max(0.0, low - room), high + room
    end = figure.end or 1.0

    def point(seconds: float, value: float) -> tuple[float, float]:
        up = (max(value, low) - low) / (high - low)
        return LEFT + (RIGHT - LEFT) * min(seconds / end, 1.0), BOTTOM - (BOTTOM - TOP) * up

    shapes = [
        svg.text(28, 38, f"{figure.name}: best mapping and bound", size=17, bold=True),
        svg.text(28, 59, figure.title, size=12, fill=svg.GREY),
        *_scale(low, high, end),
        *_steps([point(*one) for one in figure.bounds], BOUND),
        *_steps([point(*one) for one in figure.values], FOUND),
        svg.text((LEFT + RIGHT) / 2, BOTTOM + 42, "seconds", size=11.5, fill=svg.GREY, anchor="middle"),
        svg.text(LEFT, TOP - 14, f"{figure.name}{',' + unit_of(figure.name)}".rstrip(","), size=11.5, fill=svg.GREY),
    ]
    for row, (colour, words) in enumerate(((FOUND, "best mapping"), (BOUND, "no mapping is below"))):
        shapes.append(svg.rect(RIGHT + 20, TOP + 1 + 24 * row, 11, 11, fill=colour, round_by=2))
        shapes.append(svg.text(RIGHT + 38, TOP + 11 + 24 * row, words, size=12))
    return svg.picture(820, 436, f"{figure.name} over the search: {figure.title}", shapes)


def _steps(points: list[tuple[float, float]], colour: str) -> list[str]:
    """Return a staircase through the points that goes on to the right end."""
    if not points:
        return []
    corners: list[tuple[float, float]] = []
    for x, y in points:
        if corners:
            corners.append((x, corners[-1][1]))
        corners.append((x, y))
    corners.append((RIGHT, corners[-1][1]))
    return [svg.polyline(corners, stroke=colour, width=2)]


def _scale(low: float, high: float, end: float) -> list[str]:
    shapes: list[str] = []
    for step in range(5):
        x, y = LEFT + (RIGHT - LEFT) * step / 4, BOTTOM - (BOTTOM - TOP) * step / 4
        shapes.append(svg.line(x, TOP, x, BOTTOM, stroke=svg.RULE))
        shapes.append(svg.text(x, BOTTOM + 18, f"{end * step / 4:.3g}", size=11, fill=svg.GREY, anchor="middle"))
        shapes.append(svg.line(LEFT, y, RIGHT, y, stroke=svg.RULE))
        value = low + (high - low) * step / 4
        shapes.append(svg.text(LEFT - 8, y + 4, short(value), size=11, fill=svg.GREY, anchor="end"))
    return shapes
