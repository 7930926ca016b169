"""The common frame of all charts: axes, grid lines with their numbers, title and names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log2, log10

from polymap.formatting import energy, short, size
from polymap.inputs import as_integer, shown
from polymap.ir import Mistake, OptionError
from polymap.report.figures import svg
from polymap.search.problem import unit_of

FOUND, BOUND = "#2f6fde", "#e4572e"  # what was found, what nothing beats
LEAST_PX, BESIDE_PX, KEY_PX = 320, 640, 216  # narrowest picture, narrowest with its key at the right, that key
_LEAST = 1e-300  # a logarithm needs something


def unit_text(objective: str) -> Callable[[float], str]:
    """Return how values of an objective are written: energies in J, traffic in bytes, others with k, M, G."""
    if objective == "energy":
        return energy
    if objective.startswith(("traffic:", "capacity:")):
        return lambda bits: size(round(bits))
    return short


def unit_after(objective: str) -> str:
    """Return the unit that `unit_text` leaves out, after a space."""
    return "" if objective == "energy" or objective.startswith(("traffic:", "capacity:")) else unit_of(objective)


@dataclass(frozen=True, slots=True)
class Axis:
    """Values from low to high, drawn from start to end. is_size: of memory, with powers of two for round numbers."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False
    is_size: bool = False

    def place(self, value: float) -> float:
        """Return the coordinate of a value."""
        if self.logarithmic:
            share = (log10(max(value, _LEAST)) - log10(self.low)) / (log10(self.high) - log10(self.low))
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def round_axis(values: Sequence[float], start: float, end: float, *, logarithmic: bool = False) -> Axis:
    """Return an axis around the values whose ends are round numbers. logarithmic: where all of them are above 0."""
    low, high = min(values), max(values)
    if logarithmic and low > 0:
        first, last = floor(log10(low) + 1e-9), ceil(log10(high) - 1e-9)
        if last - first > 3:
            return Axis(10.0**first, 10.0**last, start, end, logarithmic=True)
        marks = [part * 10.0**power for power in range(first - 1, last + 2) for part in (1, 2, 5)]
        below = [mark for mark in marks if mark <= low * (1 + 1e-9)]
        above = [mark for mark in marks if mark >= high * (1 - 1e-9) and mark > below[-1]]
        return Axis(below[-1], above[0], start, end, logarithmic=True)
    step = _step(low, high)
    return Axis(floor(low / step) * step, max(ceil(high / step), floor(low / step) + 1) * step, start, end)


def size_axis(bits: Sequence[float], start: float, end: float) -> Axis:
    """Return a logarithmic axis around sizes of memory in bits, with a power of two below and one above them."""
    low, high = floor(log2(min(bits))), ceil(log2(max(bits)))
    return Axis(2.0**low, 2.0 ** max(high, low + 1), start, end, logarithmic=True, is_size=True)


def ticks_of(axis: Axis) -> list[float]:
    """Return the round numbers of an axis: powers of ten, or 1, 2, 5 of each where there are few (of sizes of memory
    powers of two); else equal steps."""
    if axis.is_size:
        first, last = round(log2(axis.low)), round(log2(axis.high))
        return [2.0**power for power in range(first, last + 1, ceil((last - first) / 7))]
    if axis.logarithmic:
        first, last = floor(log10(axis.low) + 1e-9), ceil(log10(axis.high) - 1e-9)
        parts = (1, 2, 5) if axis.high < 300 * axis.low else (1,)
        every = 2 if last - first > 8 else 1
        found = [part * 10.0**power for power in range(first, last + 1, every) for part in parts]
        return [value for value in found if axis.low * (1 - 1e-9) <= value <= axis.high * (1 + 1e-9)]
    step = _step(axis.low, axis.high)
    return [step * n for n in range(ceil(axis.low / step - 1e-9), floor(axis.high / step + 1e-9) + 1)]


def _step(low: float, high: float) -> float:
    """Return the largest of 1, 2, 5 times a power of ten of which at least four fit between the two."""
    room = (high - low) or abs(high) or 1.0
    power = 10.0 ** floor(log10(room / 4))
    return max(part * power for part in (1, 2, 5) if part * power <= room / 4 * (1 + 1e-9))


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the curves of a chart are drawn."""

    left: float = 96.0
    right: float = 640.0
    top: float = 96.0
    bottom: float = 380.0

    def upright(self, x: float, label: str = "") -> list[str]:
        """Return a grid line at x with its number below."""
        shapes = [svg.line(x, self.top, x, self.bottom, stroke=svg.RULE)]
        if label:
            shapes.append(svg.text(x, self.bottom + 18, label, size=11, fill=svg.GREY, anchor="middle"))
        return shapes

    def level(self, y: float, label: str) -> list[str]:
        """Return a grid line at y with its number at the left."""
        number = svg.text(self.left - 8, y + 4, label, size=11, fill=svg.GREY, anchor="end")
        return [svg.line(self.left, y, self.right, y, stroke=svg.RULE), number]

    def across(self, name: str) -> str:
        """Return the name of the horizontal axis."""
        middle = (self.left + self.right) / 2
        return svg.text(middle, self.bottom + 40, name, size=11.5, fill=svg.GREY, anchor="middle")

    def up(self, name: str, *, left: float | None = None) -> str:
        """Return the name of the vertical axis, above it or from `left` on."""
        return svg.text(self.left if left is None else left, self.top - 14, name, size=11.5, fill=svg.GREY)

    def key(self, row: int, colour: str, words: str) -> list[str]:
        """Return a row of the legend at the right: a square and what its colour means."""
        left, base = self.right + 24, self.top + 10 + 24 * row
        square = svg.rect(left, base - 9, 11, 11, fill=colour, round_by=2)
        return [square, svg.text(left + 18, base + 1, words, size=12)]


KeyRow = tuple[str, str, str]  # colour, its edge ("" for none), words


def legend(rows: Sequence[KeyRow], corner: tuple[float, float], right: float) -> tuple[list[str], float]:
    """Return a key and its height: beside a chart a row each, where there is more room as many in a row as fit."""
    left, y = corner
    x, shapes, beside = left, list[str](), right - left < KEY_PX
    for colour, edge, words in rows:
        wide = 18 + svg.text_width(words) + 14
        if x > left and (beside or x + wide > right):
            x, y = left, y + 24
        shapes.append(svg.rect(x, y - 9, 11, 11, fill=colour, stroke=edge, round_by=2))
        shapes.append(svg.text(x + 18, y + 1, words, size=12))
        x += wide
    return shapes, y - corner[1] + 12


def checked_width(width_px: object) -> int:
    """Return the width of a picture; raises OptionError for one that is no integer of at least 320."""
    width = as_integer(width_px) or 0
    if width < LEAST_PX:
        what = f"width_px is {shown(width_px)}"
        raise OptionError(Mistake("PM120", what, f"Expected an integer of at least {LEAST_PX}."))
    return width


def head(title: str, told: str) -> list[str]:
    """Return a chart's title and the line below it."""
    return [svg.text(28, 38, title, size=17, bold=True), svg.text(28, 59, told, size=12, fill=svg.GREY)]


def stairs(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the corners of a staircase whose steps are horizontal first."""
    corners: list[tuple[float, float]] = []
    for x, y in points:
        if corners:
            corners.append((x, corners[-1][1]))
        corners.append((x, y))
    return corners
