"""Axes with round numbers, and marks that differ in form as well as in colour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor, log10

from polymap.report import energy, short, size
from polymap.report.figures import GREY, INK, PAPER, Axis, Frame, circle, polyline, text

# Weight, output, input, row stationary, anything else: told apart by form too.
FORMS = {
    "weight-stationary": ("square", "#df8213"),
    "output-stationary": ("triangle", "#0d9373"),
    "input-stationary": ("diamond", "#2f6fde"),
    "row-stationary": ("cross", "#8a2f6b"),
    "optimum": ("ring", INK),
}
OTHER = ("dot", GREY)
Shapes = list[str]


def round_axis(values: Sequence[float], start: float, end: float, *, logarithmic: bool = False) -> Axis:
    """Return an axis around the values whose ends are round numbers."""
    low, high = min(values), max(values)
    if logarithmic:
        first, last = floor(log10(low) + 1e-9), ceil(log10(high) - 1e-9)
        if last - first > 1:
            return Axis(10.0**first, 10.0 ** max(last, first + 1), start, end, logarithmic=True)
        marks = [part * 10.0**power for power in range(first - 1, last + 2) for part in (1, 2, 5)]
        below = [mark for mark in marks if mark <= low * (1 + 1e-9)]
        above = [mark for mark in marks if mark >= high * (1 - 1e-9) and mark > below[-1]]
        return Axis(below[-1], above[0], start, end, logarithmic=True)
    step = _step(low, high)
    return Axis(floor(low / step) * step, max(ceil(high / step), floor(low / step) + 1) * step, start, end)


def ticks_of(axis: Axis) -> list[float]:
    """Return the round numbers of an axis: powers of ten, or 1, 2, 5 of each where there are few; else equal steps."""
    if axis.logarithmic:
        first, last = floor(log10(axis.low) + 1e-9), ceil(log10(axis.high) - 1e-9)
        parts = (1,) if last - first > 2 else (1, 2, 5)
        every = 2 if last - first > 8 else 1
        found = [part * 10.0**power for power in range(first, last + 1, every) for part in parts]
        return [value for value in found if axis.low * (1 - 1e-9) <= value <= axis.high * (1 + 1e-9)]
    step = _step(axis.low, axis.high)
    return [step * n for n in range(round(axis.low / step), round(axis.high / step) + 1)]


def _step(low: float, high: float) -> float:
    """Return the largest of 1, 2, 5 times a power of ten of which at least four fit between the two."""
    room = (high - low) or abs(high) or 1.0
    power = 10.0 ** floor(log10(room / 4))
    return max(part * power for part in (1, 2, 5) if part * power <= room / 4 * (1 + 1e-9))


def unit_text(objective: str) -> Callable[[float], str]:
    """Return how values of an objective are written: energies in J, traffic in bytes, others with k, M, G."""
    if objective == "energy":
        return energy
    if objective.startswith(("traffic:", "capacity:")):
        return lambda bits: size(round(bits))
    return short


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
