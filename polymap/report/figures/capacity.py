"""The size of a buffer against traffic and energy, with what nothing beats, the knee, and the machine's own size."""

from __future__ import annotations

from collections.abc import Callable

from polymap.formatting import energy, size
from polymap.inputs import expected_kind
from polymap.networks import CapacityCurve
from polymap.report.figures.chart import (
    BOUND,
    FOUND,
    WIDTH_PX,
    Axis,
    Frame,
    KeyRow,
    bytes_text,
    log_word,
    new_chart,
    round_axis,
    ticks_of,
)
from polymap.report.figures.svg import INK, Picture, circle, hint, line, polyline, text


def capacity_svg(figure: CapacityCurve, *, width_px: int = WIDTH_PX) -> Picture:
    """Return traffic above and energy below, over one logarithmic axis of sizes."""
    figure = expected_kind(figure, CapacityCurve, "the figure")
    layout = new_chart(f"What the size of {figure.level} buys", figure.title, width_px, high=(160, 160))
    above, below = layout.frames
    ends = [point.bits for point in figure.points] + ([figure.own] if figure.own else [])
    x = Axis(min(ends) / 1.4, max(ends) * 1.4, above.left, above.right, logarithmic=True)
    moved = [(p.bits, p.moved_bits / 8, p.moved_bound / 8) for p in figure.points if p.moved_bits is not None]
    paid = [(p.bits, p.energy_pj, p.energy_bound) for p in figure.points if p.energy_pj is not None]
    shapes = _panel(above, x, moved, f"moved at {figure.outermost}", bytes_text)
    shapes += _panel(below, x, paid, "energy", energy)
    for frame in layout.frames:
        shapes += _upright(frame, x, figure.own, "machine's own", 8) + _upright(frame, x, figure.knee, "knee", 22)
    shapes += below.uprights([(x.place(point.bits), size(point.bits)) for point in figure.points])
    shapes.append(below.across(f"size of {figure.level} (log)"))
    key = (KeyRow("dot", FOUND, "best mapping (dots)"), KeyRow("box", BOUND, "nothing is below (wide)"))
    return layout.picture(f"Size of {figure.level}: {figure.title}", shapes, key, figure, told=(figure.sentence,))


def _panel(
    frame: Frame, x: Axis, points: list[tuple[int, float, float]], name: str, unit: Callable[[float], str]
) -> list[str]:
    values = [value for _, found, bound in points for value in (found, bound) if value > 0] or [1.0]
    wide = max(values) > 20 * min(values)
    y = round_axis(values if wide else [0.0, *values], frame.bottom, frame.top, logarithmic=wide)
    shapes = list[str]()
    for tick in ticks_of(y):
        shapes += frame.level(y.place(tick), unit(tick) if tick else "0")
    bound = [(x.place(bits), y.place(max(low, y.low))) for bits, _, low in points]
    found = [(x.place(bits), y.place(value)) for bits, value, _ in points]
    shapes += [polyline(bound, stroke=BOUND, width=7), polyline(found, stroke=FOUND, width=2)]
    for place, (bits, value, low) in zip(found, points, strict=True):
        words = f"{size(bits)}: {name} {unit(value)}, nothing is below {unit(low)}"
        shapes.append(hint([circle(*place, 4, fill=FOUND)], words))
    return [*shapes, frame.up(log_word(name, y))]


def _upright(frame: Frame, x: Axis, bits: int | None, word: str, drop: float) -> list[str]:
    if bits is None or not x.low <= bits <= x.high:
        return []
    place = x.place(bits)
    dashed = line(place, frame.top, place, frame.bottom, stroke=INK, more='stroke-dasharray="2 3"')
    left = place > (frame.left + frame.right) / 2
    where, anchor = (place - 5, "end") if left else (place + 5, "start")
    return [dashed, text(where, frame.bottom - drop, word, size=11, fill=INK, anchor=anchor)]
