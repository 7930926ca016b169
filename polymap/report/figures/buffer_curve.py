"""Traffic and energy against the size of a buffer: of mappings searched size by size, and of the best of each size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from polymap.costmodel import BufferCurve, CurvePoint
from polymap.formatting import listing, percent, size, table
from polymap.inputs import expected_kind
from polymap.networks import CapacityCurve
from polymap.report.figures import chart, svg


@dataclass(frozen=True, slots=True)
class BufferFigure:
    """What is drawn: (bits of buffer, bits moved) of the best mappings, of what no loop tree beats and of what no
    schedule beats, and the compulsory bits. unfused, unfused_bound: of a program, the same where every nest runs as a
    program of its own; empty of one nest."""

    title: str
    level: str
    traffic_level: str
    found: tuple[tuple[int, int], ...]
    bound: tuple[tuple[int, int], ...]
    schedule: tuple[tuple[int, int], ...]
    compulsory: int | None
    unfused: tuple[tuple[int, int], ...] = ()
    unfused_bound: tuple[tuple[int, int], ...] = ()


def buffer_figure(curve: BufferCurve) -> BufferFigure:
    """Return the figure of a curve; sizes at which nothing is known to be moved (0 bits) are left out."""
    return BufferFigure(
        title=f"{curve.workload.name} on {curve.arch.name}",
        level=curve.level,
        traffic_level=curve.traffic_level,
        found=_moved((point.capacity_bits, point.best_bits) for point in curve.points),
        bound=_moved((point.capacity_bits, point.bound_bits) for point in curve.points),
        schedule=_moved((point.capacity_bits, point.schedule_bits) for point in curve.points),
        compulsory=curve.compulsory_bits or None,
        unfused=_moved((point.capacity_bits, point.best_bits) for point in curve.unfused),
        unfused_bound=_moved((point.capacity_bits, point.bound_bits) for point in curve.unfused),
    )


def _moved(pairs: Iterable[tuple[int, int | None]]) -> tuple[tuple[int, int], ...]:
    """Return the pairs but those of which nothing is known to be moved."""
    return tuple((room, moved) for room, moved in pairs if moved)


def buffer_curve_text(curve: BufferCurve) -> str:
    """Return a row per size: what no schedule and no loop tree beats, the best mapping found, and what is proven; of a
    program also with every nest as a program of its own."""
    where = f"{curve.workload.name} on {curve.arch.name}"
    rule = "tiles that divide" if curve.tiles == "divide" else "tiles of any size"
    lines = [f"{where}: moved at {curve.traffic_level} against the size of {curve.level}"]
    lines += ["", _table(curve.level, curve.points), ""]
    lines.append(
        "Any schedule: none at all moves less (a theorem). Any loop tree: none moves less, whatever its tiles."
    )
    lines.append(f"Best found: over {rule}. Gap: from there to what no loop tree beats.")
    if curve.compulsory_bits is not None:
        lines.append(f"Compulsory at any size: {size(curve.compulsory_bits)}.")
    if curve.unfused:
        told = (
            f"Unfused, every nest a program of its own: what one leaves for another goes through {curve.traffic_level}."
        )
        lines += ["", told, "", _table(curve.level, curve.unfused), "", *_saved(curve)]
    return "\n".join(lines)


def _table(level: str, points: Sequence[CurvePoint]) -> str:
    head = (level, "any schedule", "any loop tree", "best found", "gap", "proven")
    rows = [
        (
            size(point.capacity_bits),
            size(point.schedule_bits),
            size(point.bound_bits),
            "-" if point.best_bits is None else size(point.best_bits),
            "-" if point.gap is None else percent(point.gap),
            point.proven.value,
        )
        for point in points
    ]
    return table(head, rows)


def _saved(curve: BufferCurve) -> list[str]:
    """Return at which sizes fusion saves traffic, and where that is proven: less than any unfused way moves."""
    pairs = list(zip(curve.points, curve.unfused, strict=True))
    proven = [one for one, other in pairs if one.best_bits is not None and one.best_bits < other.bound_bits]
    both = [(one, one.best_bits, other.best_bits) for one, other in pairs if one not in proven]
    found = [one for one, best, other in both if best is not None and other is not None and best < other]
    said: list[str] = []
    if proven:
        sizes = listing([size(one.capacity_bits) for one in proven])
        said.append(f"Fused trees move less than anything unfused can, proven, at {sizes}.")
    if found:
        sizes = listing([size(one.capacity_bits) for one in found])
        said.append(f"Fused trees move less than what was found unfused at {sizes}.")
    return said or ["At none of these sizes was a fused tree found that moves less."]


def buffer_curve_svg(curve: BufferCurve, *, width_px: int = chart.WIDTH_PX) -> svg.Picture:
    """Return the curves as SVG, both axes logarithmic; of a program those of nest after nest are dashed, with hollow
    points. Raises OptionError for a width that is no integer of at least 320."""
    figure = buffer_figure(expected_kind(curve, BufferCurve, "the buffer curve"))
    layout = chart.new_chart(
        f"What {figure.traffic_level} moves against the size of {figure.level}", figure.title, width_px, left=72
    )
    frame = layout.frame
    sizes = sorted(point.capacity_bits for point in curve.points)
    drawn = (*figure.found, *figure.bound, *figure.schedule, *figure.unfused, *figure.unfused_bound)
    x = chart.Axis(sizes[0] / 1.3, sizes[-1] * 1.3, frame.left, frame.right, logarithmic=True)
    y = frame.y_axis([bits for _, bits in drawn] or [8], logarithmic=True, is_size=True)
    shapes = [
        *frame.uprights([(x.place(value), size(value)) for value in sizes]),
        *frame.rows(y, lambda bits: size(round(bits))),
        frame.across(f"size of {figure.level} (log)"),
        frame.up(f"moved at {figure.traffic_level} (log)"),
        *_curve(figure.schedule, svg.GREY, x, y, dash="1 4"),
        *_curve(figure.unfused_bound, svg.tint(chart.BOUND, 0.5), x, y, width=7, radius=7),
        *_curve(figure.bound, chart.BOUND, x, y, width=7, radius=7),
        *_curve(figure.unfused, chart.FOUND, x, y, dash="6 4", hollow=True),
        *_curve(figure.found, chart.FOUND, x, y),
        *_compulsory(figure, frame, y),
    ]
    return layout.picture(f"Traffic against buffer size of {figure.title}", shapes, _key(figure), figure)


def _curve(
    points: tuple[tuple[int, int], ...],
    colour: str,
    x: chart.Axis,
    y: chart.Axis,
    *,
    width: int = 2,
    radius: int = 4,
    dash: str = "",
    hollow: bool = False,
) -> list[str]:
    """Return a line with dots; a wide one is seen on both sides of a narrow one that lies on it."""
    placed = [(x.place(room), y.place(moved)) for room, moved in points]
    dots = [
        svg.hint(
            [svg.mark_of(left, base, colour, hollow=True) if hollow else svg.circle(left, base, radius, fill=colour)],
            f"{size(room)}: {size(moved)} moved",
        )
        for (left, base), (room, moved) in zip(placed, points, strict=True)
    ]
    return [svg.polyline(placed, stroke=colour, width=width, dash=dash), *dots] if placed else []


def _key(figure: BufferFigure) -> list[chart.KeyRow]:
    """Return the rows of the key."""
    if not figure.unfused:
        words = (
            (chart.FOUND, "best mapping found"),
            (chart.BOUND, "no loop tree moves less"),
            (svg.GREY, "no schedule moves less"),
        )
        return [chart.KeyRow("box", colour, word) for colour, word in words]
    return [
        chart.KeyRow("box", chart.FOUND, "best tree found"),
        chart.KeyRow("box", chart.BOUND, "no tree moves less"),
        chart.KeyRow("box", svg.PAPER, "unfused: best found", edge=chart.FOUND),
        chart.KeyRow("box", svg.tint(chart.BOUND, 0.5), "unfused: none moves less"),
        chart.KeyRow("box", svg.GREY, "no schedule moves less"),
    ]


def _compulsory(figure: BufferFigure, frame: chart.Frame, y: chart.Axis) -> list[str]:
    if figure.compulsory is None or not y.low <= figure.compulsory <= y.high:
        return []
    base = y.place(figure.compulsory)
    name = svg.text(frame.left + 6, base - 7, "compulsory", size=11, fill=svg.GREY)
    return [svg.line(frame.left, base, frame.right, base, stroke=svg.FAINT, dash="2 3"), name]


@svg.draws(CapacityCurve)
def capacity_svg(figure: CapacityCurve, *, width_px: int = chart.WIDTH_PX) -> svg.Picture:
    """Return traffic above and energy below, over one logarithmic axis of sizes."""
    layout = chart.new_chart(f"What the size of {figure.level} buys", figure.title, width_px, high=(160, 160))
    above, below = layout.frames
    ends = [point.bits for point in figure.points] + ([figure.own] if figure.own else [])
    x = chart.Axis(min(ends) / 1.4, max(ends) * 1.4, above.left, above.right, logarithmic=True)
    moved = [(p.bits, p.moved_bits, p.moved_bound) for p in figure.points if p.moved_bits is not None]
    paid = [(p.bits, p.energy_pj, p.energy_bound) for p in figure.points if p.energy_pj is not None]
    shapes = below.uprights([(x.place(point.bits), size(point.bits)) for point in figure.points])
    shapes += _panel(above, x, moved, f"moved at {figure.outermost}", "traffic:")
    shapes += _panel(below, x, paid, "energy", "energy")
    for frame in layout.frames:
        shapes += _upright(frame, x, figure.own, "machine's own", 8) + _upright(frame, x, figure.knee, "knee", 22)
    shapes.append(below.across(f"size of {figure.level} (log)"))
    key = (
        chart.KeyRow("dot", chart.FOUND, "best mapping (dots)"),
        chart.KeyRow("box", chart.BOUND, "nothing is below (wide)"),
    )
    return layout.picture(f"Size of {figure.level}: {figure.title}", shapes, key, figure, told=(figure.sentence,))


def _panel(
    frame: chart.Frame, x: chart.Axis, points: Sequence[tuple[int, float, float]], name: str, objective: str
) -> list[str]:
    unit, is_size = chart.unit_text(objective), objective != "energy"
    values = [value for _, found, bound in points for value in (found, bound) if value > 0] or [1.0]
    wide = max(values) > 20 * min(values)
    y = frame.y_axis(values if wide else [0.0, *values], logarithmic=wide, is_size=is_size)
    shapes = frame.rows(y, chart.tick_text(objective))
    bound = [(x.place(bits), y.place(max(low, y.low))) for bits, _, low in points]
    found = [(x.place(bits), y.place(value)) for bits, value, _ in points]
    shapes += [svg.polyline(bound, stroke=chart.BOUND, width=7), svg.polyline(found, stroke=chart.FOUND, width=2)]
    for place, (bits, value, low) in zip(found, points, strict=True):
        words = f"{size(bits)}: {name} {unit(value)}, nothing is below {unit(low)}"
        shapes.append(svg.hint([svg.circle(*place, 4, fill=chart.FOUND)], words))
    return [*shapes, frame.up(chart.log_word(name, y))]


def _upright(frame: chart.Frame, x: chart.Axis, bits: int | None, word: str, drop: float) -> list[str]:
    if bits is None or not x.low <= bits <= x.high:
        return []
    place = x.place(bits)
    dashed = svg.line(place, frame.top, place, frame.bottom, stroke=svg.INK, dash="2 3")
    left = place > (frame.left + frame.right) / 2
    where, anchor = (place - 5, "end") if left else (place + 5, "start")
    return [dashed, svg.text(where, frame.bottom - drop, word, size=11, fill=svg.INK, anchor=anchor)]
