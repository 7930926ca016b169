"""Traffic against the size of a buffer ("ski slope"): figure data, text and SVG."""

from __future__ import annotations

from dataclasses import dataclass

from polymap.costmodel.analysis import BufferCurve
from polymap.formatting import percent, short, size, table
from polymap.inputs import expected_kind
from polymap.report.figures import svg
from polymap.report.figures.chart import BOUND, FOUND, Axis, Frame, head, round_axis, ticks_of

FRAME = Frame()


@dataclass(frozen=True, slots=True)
class BufferFigure:
    """What is drawn: (bytes of buffer, bytes moved) of the best mappings, of what no loop tree beats and of what no
    schedule beats, and the compulsory bytes."""

    title: str
    level: str
    traffic_level: str
    found: tuple[tuple[float, float], ...]
    bound: tuple[tuple[float, float], ...]
    schedule: tuple[tuple[float, float], ...]
    compulsory: float | None


def buffer_figure(curve: BufferCurve) -> BufferFigure:
    """Return the figure of a curve; sizes at which nothing is known to be moved (0 bits) are left out."""
    points = curve.points
    return BufferFigure(
        title=f"{curve.workload.name} on {curve.arch.name}",
        level=curve.level,
        traffic_level=curve.traffic_level,
        found=tuple((point.capacity_bits / 8, point.best_bits / 8) for point in points if point.best_bits),
        bound=tuple((point.capacity_bits / 8, point.bound_bits / 8) for point in points if point.bound_bits),
        schedule=tuple((point.capacity_bits / 8, point.schedule_bits / 8) for point in points if point.schedule_bits),
        compulsory=curve.compulsory_bits / 8 if curve.compulsory_bits else None,
    )


def buffer_curve_text(curve: BufferCurve) -> str:
    """Return a row per size: what no schedule and no loop tree beats, the best mapping found, and what is proven."""
    head = (curve.level, "any schedule", "any loop tree", "best found", "gap", "proven")
    rows = [
        (
            size(point.capacity_bits),
            size(point.schedule_bits),
            size(point.bound_bits),
            "-" if point.best_bits is None else size(point.best_bits),
            "-" if point.gap is None else percent(point.gap),
            point.proven.value,
        )
        for point in curve.points
    ]
    where = f"{curve.workload.name} on {curve.arch.name}"
    rule = "tiles that divide" if curve.tiles == "divide" else "tiles of any size"
    lines = [f"{where}: moved at {curve.traffic_level} against the size of {curve.level}"]
    lines += ["", table(head, rows), ""]
    lines.append(
        "Any schedule: none at all moves less (a theorem). Any loop tree: none moves less, whatever its tiles."
    )
    lines.append(f"Best found: over {rule}. Gap: from there to what no loop tree beats.")
    if curve.compulsory_bits is not None:
        lines.append(f"Compulsory at any size: {size(curve.compulsory_bits)}.")
    return "\n".join(lines)


def buffer_curve_svg(curve: BufferCurve) -> svg.Picture:
    """Return the two curves as SVG, both axes logarithmic."""
    figure = buffer_figure(expected_kind(curve, BufferCurve, "the buffer curve"))
    sizes = [point.capacity_bits / 8 for point in curve.points]
    moved = [bits for _, bits in (*figure.found, *figure.bound, *figure.schedule)] or [1.0]
    x = Axis(min(sizes) / 1.3, max(sizes) * 1.3, FRAME.left, FRAME.right, logarithmic=True)
    y = round_axis(moved, FRAME.bottom, FRAME.top, logarithmic=True)
    shapes = [
        *head(f"What {figure.traffic_level} moves against the size of {figure.level}", figure.title),
        *_axes(figure, sizes, x, y),
        *_curve(figure.schedule, svg.GREY, x, y, more='stroke-dasharray="1 4"'),
        *_curve(figure.bound, BOUND, x, y, width=7, radius=7),
        *_curve(figure.found, FOUND, x, y),
        *_key(figure, x, y),
    ]
    return svg.picture(860, 436, f"Traffic against buffer size of {figure.title}", shapes)


def _axes(figure: BufferFigure, sizes: list[float], x: Axis, y: Axis) -> list[str]:
    shapes: list[str] = []
    last = -100.0
    for value in sorted(sizes):
        place = x.place(value)
        room = place - last > 56
        last = place if room else last
        shapes += FRAME.upright(place, size(round(8 * value)) if room else "")
    for value in ticks_of(y):
        shapes += FRAME.level(y.place(value), f"{short(value)}{'' if ' ' in short(value) else ' '}B")
    shapes += [FRAME.across(f"size of {figure.level} (log)"), FRAME.up(f"moved at {figure.traffic_level} (log)")]
    return shapes


def _curve(
    points: tuple[tuple[float, float], ...],
    colour: str,
    x: Axis,
    y: Axis,
    *,
    width: int = 2,
    radius: int = 4,
    more: str = "",
) -> list[str]:
    """Return a line with dots; a wide one is seen on both sides of a narrow one that lies on it."""
    placed = [(x.place(room), y.place(moved)) for room, moved in points]
    dots = [
        svg.hint(
            [svg.circle(left, base, radius, fill=colour)], f"{size(round(8 * room))}: {size(round(8 * moved))} moved"
        )
        for (left, base), (room, moved) in zip(placed, points, strict=True)
    ]
    return [svg.polyline(placed, stroke=colour, width=width, more=more), *dots] if placed else []


def _key(figure: BufferFigure, x: Axis, y: Axis) -> list[str]:
    words = (FOUND, "best mapping found"), (BOUND, "no loop tree moves less"), (svg.GREY, "no schedule moves less")
    shapes = [shape for place, (colour, word) in enumerate(words) for shape in FRAME.key(place, colour, word)]
    if figure.compulsory is not None and y.low <= figure.compulsory <= y.high:
        base = y.place(figure.compulsory)
        shapes.append(svg.line(FRAME.left, base, FRAME.right, base, stroke=svg.FAINT, more='stroke-dasharray="2 3"'))
        shapes.append(svg.text(FRAME.right + 24, base + 4, "compulsory", size=11, fill=svg.GREY))
    return shapes
