"""Grids over axes, and marks that differ in form as well as in colour."""

from __future__ import annotations

from collections.abc import Callable

from polymap.report.figures.chart import Axis, Frame, ticks_of
from polymap.report.figures.svg import GREY, INK, PAPER, circle, polyline, text

# Weight, output, input, row stationary, anything else: told apart by form too.
FORMS = {
    "weight-stationary": ("square", "#df8213"),
    "output-stationary": ("triangle", "#0b8166"),
    "input-stationary": ("diamond", "#2f6fde"),
    "row-stationary": ("cross", "#8a2f6b"),
    "optimum": ("ring", INK),
}
OTHER = ("dot", GREY)
Shapes = list[str]


def grid(frame: Frame, x: Axis, y: Axis, across: Callable[[float], str], up: Callable[[float], str]) -> Shapes:
    """Return both axes' grid lines with their numbers; numbers across that would touch the last one are left out."""
    shapes: Shapes = []
    end = -100.0
    for value in ticks_of(x):
        place = x.place(value)
        room = place - end > 62
        end = place if room else end
        shapes += frame.upright(place, across(value) if room else "")
    for value in ticks_of(y):
        shapes += frame.level(y.place(value), up(value))
    return shapes


def log_word(name: str, axis: Axis) -> str:
    """Return an axis' name, which says so where it is logarithmic."""
    return f"{name} (log)" if axis.logarithmic else name


def mark(form: str, x: float, y: float, colour: str, radius: float = 6.5) -> Shapes:
    """Return a mark: dot, ring, square, triangle, diamond or cross."""
    r = radius
    if form == "dot":
        return [circle(x, y, r * 0.8, fill=colour)]
    if form == "ring":
        return [circle(x, y, r * 1.25, fill=PAPER, stroke=colour), circle(x, y, r * 0.6, fill=colour, stroke=colour)]
    if form == "cross":
        strokes = (((x - r, y - r), (x + r, y + r)), ((x - r, y + r), (x + r, y - r)))
        return [polyline(ends, stroke=colour, width=3) for ends in strokes]
    corners = {
        "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        "triangle": ((0, -1.15), (1.1, 0.9), (-1.1, 0.9)),
        "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    }[form]
    where = " ".join(f"{x + r * dx:.1f},{y + r * dy:.1f}" for dx, dy in corners)
    return [f'<polygon points="{where}" fill="{colour}" stroke="{PAPER}" stroke-width="1.2"/>']


def legend(frame: Frame, row: int, form: str, colour: str, words: str) -> Shapes:
    """Return a row of the legend at the right: a mark and what it means."""
    left, base = frame.right + 24, frame.top + 10 + 24 * row
    return [*mark(form, left + 5, base - 4, colour, 5.5), text(left + 18, base + 1, words, size=12)]
