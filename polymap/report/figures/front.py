"""A Pareto front of mappings: figure data, text and SVG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polymap.formatting import exact, percent, table
from polymap.inputs import expected_kind
from polymap.ir import Mistake, OptionError
from polymap.report.figures import chart, svg
from polymap.search import among
from polymap.search.problem import unit_of

if TYPE_CHECKING:
    from polymap.search import SearchResult

PROVEN, OPEN = chart.FOUND, chart.BOUND


@dataclass(frozen=True, slots=True)
class FrontFigure:
    """What is drawn: the two objectives' names, and per point its values and whether it is proven.

    others: the objectives beyond these two; the points are no staircase then.
    """

    title: str
    across: str
    up: str
    points: tuple[tuple[float, float, bool], ...]
    others: tuple[str, ...] = ()


def front_figure(result: SearchResult) -> FrontFigure:
    """Return the figure of a front's first two objectives; raises OptionError where there is none."""
    from polymap.search import SearchResult  # loaded by those who have one

    names = [name for name, _ in expected_kind(result, SearchResult, "the result").values]
    if len(names) < 2 or not result.front:
        hint = "Ask for one: explore(..., objective='pareto:energy,latency')."
        raise OptionError(Mistake("PM575", f"the result of '{result.objective}' has no front", hint))
    across, up, *others = names
    points = tuple(
        (float(point.values[0][1]), float(point.values[1][1]), point.status == "OPTIMAL") for point in result.front
    )
    word = among("proven complete", result.space.name) if result.status == "OPTIMAL" else "what is known so far"
    told = f"{len(points)} point{'' if len(points) == 1 else 's'}, {word}"
    if others:
        told += f"; {' and '.join(others)} not drawn"
    return FrontFigure(told, across, up, points, tuple(others))


def front_text(result: SearchResult) -> str:
    """Return a row per point of a front: its values, and how far the first may still fall."""
    names = [name for name, _ in result.values]
    head = ("", *(f"{name},{unit_of(name)}" if unit_of(name) else name for name in names), "gap", "")
    rows = [
        (
            f"{place}",
            *(exact(value) for _, value in point.values),
            "-" if point.gap is None else percent(point.gap),
            point.stated,
        )
        for place, point in enumerate(result.front, start=1)
    ]
    told = f"{among('No mapping', result.space.name)} is as good as a point in all and better in one."
    return f"{table(head, rows, prose=1)}\n\n{told if result.status == 'OPTIMAL' else _unfinished(result)}"


def _unfinished(result: SearchResult) -> str:
    proven = sum(point.status == "OPTIMAL" for point in result.front)
    return f"The search did not end: {proven} of these points are proven, and there may be others."


def front_svg(result: SearchResult, *, width_px: int = chart.WIDTH_PX) -> svg.Picture:
    """Return the front over its first two objectives, a staircase if it has two; unproven points in another colour."""
    figure = front_figure(result)
    layout = chart.new_chart(f"{figure.up[:1].upper()}{figure.up[1:]} against {figure.across}", figure.title, width_px)
    frame = layout.frame
    x = frame.x_axis([point[0] for point in figure.points])
    y = frame.y_axis([point[1] for point in figure.points])
    names = (figure.across, figure.up)
    across, up = (chart.unit_text(name) for name in names)
    told = [f"{_label(names[0])} {across(a)}; {_label(names[1])} {up(b)}" for a, b, _ in figure.points]
    placed = [(x.place(a), y.place(b)) for a, b, _ in figure.points]
    colours = [PROVEN if sure else OPEN for _, _, sure in figure.points]
    shapes = [
        *chart.grid(frame, x, y, *(chart.tick_text(name) for name in names)),
        *(() if figure.others else (svg.polyline(chart.stairs(placed), stroke=svg.FAINT, width=1.5),)),
        *(
            svg.hint([svg.mark_of(*place, colour, hollow=colour == OPEN)], words)
            for place, colour, words in zip(placed, colours, told, strict=True)
        ),
        frame.across(_label(figure.across)),
        frame.up(_label(figure.up)),
    ]
    rows = (chart.KeyRow("dot", PROVEN, "proven"), chart.KeyRow("hollow", OPEN, "not proven"))
    key = [row for row in rows if row.colour in colours]
    return layout.picture(f"{figure.up} against {figure.across}: {figure.title}", shapes, key, figure)


def _label(name: str) -> str:
    """Return a name with its unit, where the numbers of `unit_text` do not say it."""
    spelled = chart.unit_after(name)
    return f"{name},{spelled}" if spelled else name
