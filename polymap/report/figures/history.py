"""The course of a search: best value and bound over time, as figure data and SVG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polymap.report.figures import svg
from polymap.report.figures.chart import BOUND, FOUND, Axis, Frame, around, head, stairs
from polymap.report.numbers import short, unit_of

if TYPE_CHECKING:
    from polymap.search.run import SearchResult

FRAME = Frame()
_WIDE = 20  # times the least value: then the axis is logarithmic


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
    bounds = tuple(point for point in figure.bounds if point[1] > 0)
    x = Axis(0.0, figure.end or 1.0, FRAME.left, FRAME.right)
    y = _upright([value for _, value in (*figure.values, *bounds)])
    unit = unit_of(figure.name)
    shapes = [
        *head(f"{figure.name}: best mapping and bound", figure.title),
        *(shape for tick in x.ticks() for shape in FRAME.upright(x.place(tick), f"{tick:.3g}")),
        *(shape for tick in y.ticks() for shape in FRAME.level(y.place(tick), short(tick))),
        *_steps(bounds, BOUND, x, y),
        *_steps(figure.values, FOUND, x, y),
        FRAME.across("seconds"),
        FRAME.up(f"{figure.name},{unit}" if unit else figure.name),
        *FRAME.key(0, FOUND, "best mapping"),
        *FRAME.key(1, BOUND, "no mapping is below"),
    ]
    return svg.picture(840, 436, f"{figure.name} over the search: {figure.title}", shapes)


def _upright(values: list[float]) -> Axis:
    if values and max(values) > _WIDE * min(values):
        return Axis(min(values) / 1.3, max(values) * 1.3, FRAME.bottom, FRAME.top, logarithmic=True)
    return around(values, FRAME.bottom, FRAME.top)


def _steps(points: tuple[tuple[float, float], ...], colour: str, x: Axis, y: Axis) -> list[str]:
    """Return a staircase through the points that goes on to the right end, and a dot where it begins."""
    if not points:
        return []
    placed = [(x.place(min(seconds, x.high)), y.place(value)) for seconds, value in points]
    corners = [*stairs(placed), (FRAME.right, placed[-1][1])]
    return [svg.polyline(corners, stroke=colour, width=2), svg.circle(*placed[0], 4, fill=colour)]
