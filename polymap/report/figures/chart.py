"""The common frame of all charts: axes, grid lines with their numbers, title and names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log2, log10
from sys import float_info
from typing import NamedTuple

from polymap.formatting import energy, short, size
from polymap.inputs import as_integer, shown
from polymap.ir import Mistake, OptionError
from polymap.report.figures import svg

FOUND, BOUND = "#2f6fde", "#e4572e"  # what was found, what nothing beats
WIDTH_PX = 860  # of charts, unless another width is asked for


class Tuning(NamedTuple):
    """Lengths of pictures, in pixels (not swept)."""

    least_px: int = 320
    """The narrowest picture,"""
    beside_px: int = 640
    """the narrowest with its key at the right,"""
    key_px: int = 216
    """that key,"""
    most_px: int = 100_000
    """and the widest picture."""
    axis_px: float = 56.0
    """An axis' numbers and its name."""


TUNING = Tuning()


def unit_text(objective: str, digits: int = 3) -> Callable[[float], str]:
    """Return how values of an objective are written: energies in J, traffic in bytes, others with k, M, G."""
    if objective == "energy":
        return lambda pj: energy(pj, digits)
    if objective.startswith(("traffic:", "capacity:")):
        return lambda bits: size(round(bits), digits)
    return lambda value: short(value, digits)


def tick_text(objective: str) -> Callable[[float], str]:
    """Return how the numbers of an axis of an objective are written: as by `unit_text`, but in up to seven digits, so
    that neighbours of nearly the same value differ; 0 without a unit."""
    unit = unit_text(objective, digits=7)
    return lambda value: unit(value) if value else "0"


def unit_after(objective: str) -> str:
    """Return the unit that `unit_text` leaves out, after a space."""
    from polymap.search.problem import unit_of  # the search is loaded by charts of its values alone

    return "" if objective == "energy" or objective.startswith(("traffic:", "capacity:")) else unit_of(objective)


@dataclass(frozen=True, slots=True)
class Axis:
    """Values from low to high, drawn from start to end. is_size: bits of memory, whose round numbers are powers of two
    or steps of one."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False
    is_size: bool = False

    def place(self, value: float) -> float:
        """Return the coordinate of a value."""
        if self.logarithmic:
            share = (log10(max(value, float_info.min)) - log10(self.low)) / (log10(self.high) - log10(self.low))
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def round_axis(
    values: Sequence[float], start: float, end: float, *, logarithmic: bool = False, is_size: bool = False
) -> Axis:
    """Return an axis around the values whose ends are round numbers. logarithmic: where all of them are above 0."""
    low, high = min(values), max(values)
    if logarithmic and low > 0:
        if is_size:
            least = floor(log2(low))
            return Axis(2.0**least, 2.0 ** max(ceil(log2(high)), least + 1), start, end, logarithmic, is_size)
        first, last = floor(log10(low) + 1e-9), ceil(log10(high) - 1e-9)
        if last - first > 3:
            return Axis(10.0**first, 10.0**last, start, end, logarithmic=True)
        marks = [part * 10.0**power for power in range(first - 1, last + 2) for part in (1, 2, 5)]
        below = [mark for mark in marks if mark <= low * (1 + 1e-9)]
        above = [mark for mark in marks if mark >= high * (1 - 1e-9) and mark > below[-1]]
        return Axis(below[-1], above[0], start, end, logarithmic=True)
    step = _step(low, high, is_size=is_size)
    first = floor(low / step)
    return Axis(first * step, max(ceil(high / step), first + 1) * step, start, end, is_size=is_size)


def ticks_of(axis: Axis) -> list[float]:
    """Return the round numbers of an axis: powers of ten, or 1, 2, 5 of each where there are few (of sizes of memory
    powers of two); else equal steps."""
    if axis.is_size and axis.logarithmic:
        first, last = round(log2(axis.low)), round(log2(axis.high))
        return [2.0**power for power in range(first, last + 1, ceil((last - first) / 7))]
    if axis.logarithmic:
        first, last = floor(log10(axis.low) + 1e-9), ceil(log10(axis.high) - 1e-9)
        parts = (1, 2, 5) if axis.high < 300 * axis.low else (1,)
        every = 2 if last - first > 8 else 1
        found = [part * 10.0**power for power in range(first, last + 1, every) for part in parts]
        return [value for value in found if axis.low * (1 - 1e-9) <= value <= axis.high * (1 + 1e-9)]
    step = _step(axis.low, axis.high, is_size=axis.is_size)
    return [step * n for n in range(ceil(axis.low / step - 1e-9), floor(axis.high / step + 1e-9) + 1)]


def _step(low: float, high: float, *, is_size: bool) -> float:
    """Return the largest of 1, 2, 5 times a power of ten (for bits: power of two) of which four fit between the two."""
    quarter = ((high - low) or abs(high) or 1.0) / 4
    if is_size:
        return max(1.0, 2.0 ** floor(log2(quarter)))
    power = 10.0 ** floor(log10(quarter))
    return max(part * power for part in (1, 2, 5) if part * power <= quarter * (1 + 1e-9))


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the curves of a chart are drawn."""

    left: float = 96.0
    right: float = 640.0
    top: float = 96.0
    bottom: float = 380.0

    def upright(self, x: float, label: str = "") -> list[str]:
        """Return a grid line at x with its number below, further left where it would end far beyond the frame."""
        shapes = [svg.line(x, self.top, x, self.bottom, stroke=svg.RULE)]
        if label:
            middle = min(x, self.right + 24 - svg.text_width(label, 11) / 2)
            shapes.append(svg.text(middle, self.bottom + 18, label, size=11, fill=svg.GREY, anchor="middle"))
        return shapes

    def level(self, y: float, label: str) -> list[str]:
        """Return a grid line at y with its number at the left, smaller where it is long."""
        size = 11 * min(1, (self.left - 10) / max(1, svg.text_width(label, 11)))
        number = svg.text(self.left - 8, y + 4, label, size=size, fill=svg.GREY, anchor="end")
        return [svg.line(self.left, y, self.right, y, stroke=svg.RULE), number]

    def uprights(self, places: Sequence[tuple[float, str]]) -> list[str]:
        """Return grid lines from left to right, (x, number); numbers that would touch the last one are left out."""
        shapes, end = list[str](), -100.0
        for x, label in places:
            half = svg.text_width(label, 11) / 2
            room = x - half > end + 4
            end = x + half if room and label else end
            shapes += self.upright(x, label if room else "")
        return shapes

    def x_axis(self, values: Sequence[float], *, logarithmic: bool = False, is_size: bool = False) -> Axis:
        """Return a horizontal axis around the values whose ends are round numbers."""
        return round_axis(values, self.left, self.right, logarithmic=logarithmic, is_size=is_size)

    def y_axis(self, values: Sequence[float], *, logarithmic: bool = False, is_size: bool = False) -> Axis:
        """Return a vertical axis around the values whose ends are round numbers."""
        return round_axis(values, self.bottom, self.top, logarithmic=logarithmic, is_size=is_size)

    def columns(self, x: Axis, words: Callable[[float], str]) -> list[str]:
        """Return the grid lines of a horizontal axis with their numbers."""
        return self.uprights([(x.place(value), words(value)) for value in ticks_of(x)])

    def rows(self, y: Axis, words: Callable[[float], str]) -> list[str]:
        """Return the grid lines of a vertical axis with their numbers."""
        return [shape for value in ticks_of(y) for shape in self.level(y.place(value), words(value))]

    def row_name(self, middle: float, name: str) -> list[str]:
        """Return the name of a row at the left, in several lines where it is long; a word that is too long is cut."""
        lines = svg.wrapped(name, self.left - 26)
        first = middle + 4 - 7 * (len(lines) - 1)
        cut = [svg.fitted(line, self.left - 26) for line in lines]
        return [svg.text(self.left - 10, first + 14 * n, line, anchor="end") for n, line in enumerate(cut)]

    def pair(self, top: float, name: str, bars: Sequence[tuple[float, str, str, str]]) -> list[str]:
        """Return a row of bars below each other, 15 pixels each: (length, colour, words behind it, words under the
        pointer)."""
        shapes = self.row_name(top + 15, name)
        for place, (long, colour, words, told) in enumerate(bars):
            y = top + 15 * place
            bar = svg.rect(self.left, y, max(long, 0.5), 13, fill=colour, round_by=2)
            shapes.append(svg.hint([bar], told))
            shapes.append(svg.text(self.left + 7 + long, y + 11, words, size=11, fill=svg.GREY))
        return shapes

    def across(self, name: str) -> str:
        """Return the name of the horizontal axis."""
        middle = (self.left + self.right) / 2
        return svg.text(middle, self.bottom + 40, name, size=11.5, fill=svg.GREY, anchor="middle")

    def up(self, name: str) -> str:
        """Return the name of the vertical axis, above it; a long one begins further left."""
        return svg.text(self.begin(name, 11.5), self.top - 14, name, size=11.5, fill=svg.GREY)

    def begin(self, words: str, size: float = 12) -> float:
        """Return where words above the frame begin: with it, or as much further left as they are longer."""
        return max(16.0, min(self.left, self.right - svg.text_width(words, size)))


def log_word(name: str, axis: Axis) -> str:
    """Return an axis' name, which says so where it is logarithmic."""
    return f"{name} (log)" if axis.logarithmic else name


def grid(frame: Frame, x: Axis, y: Axis, across: Callable[[float], str], up: Callable[[float], str]) -> list[str]:
    """Return both axes' grid lines with their numbers."""
    return frame.columns(x, across) + frame.rows(y, up)


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A row of a key: a mark of this form and colour ("" none, "line", "dashes", a form of `svg.mark`), words, a number
    at the end of the row, and smaller lines below the words. edge: of a square, the colour of its outline."""

    form: str
    colour: str
    words: str
    number: str = ""
    details: tuple[str, ...] = ()
    edge: str = ""

    @property
    def indent(self) -> float:
        """Where the words begin."""
        return 18.0 if self.form else 0.0

    @property
    def wide(self) -> float:
        """How much room the row takes if nothing of it is wrapped."""
        return self.indent + max(svg.text_width(self.words), *(svg.text_width(each, 11) for each in self.details), 0.0)


def _legend(
    rows: Sequence[KeyRow], corner: tuple[float, float], right: float, *, beside: bool
) -> tuple[list[str], float]:
    """Return a key and its height: beside a chart a row each, below it as many in a row as fit."""
    left, y = corner
    x, tall, shapes = left, 0.0, list[str]()
    for row in rows:
        wide = right - left if row.number else row.wide
        if x > left and (beside or x + wide > right):
            x, y, tall = left, y + tall, 0.0
        drawn, high = _key_row(row, x, y, right)
        shapes += drawn
        x, tall = x + wide + 14, max(tall, high)
    return shapes, y + tall - corner[1]


def _key_row(row: KeyRow, x: float, y: float, right: float) -> tuple[list[str], float]:
    """Return a row of a key from x on, and its height."""
    room = right - x - row.indent - svg.text_width(row.number)
    words = svg.wrapped(row.words, room)
    small = [line for each in row.details for line in svg.wrapped(each, room, 11)]
    shapes = _key_mark(row, x, y)
    fill = svg.GREY if row.number else svg.INK
    shapes += [svg.text(x + row.indent, y + 1 + 16 * n, line, size=12, fill=fill) for n, line in enumerate(words)]
    base = y + 1 + 16 * len(words)
    shapes += [svg.text(x + row.indent, base + 16 * n, line, size=11, fill=svg.GREY) for n, line in enumerate(small)]
    if row.number:
        shapes.append(svg.text(right, y + 1, row.number, size=12, anchor="end"))
    return shapes, 24.0 + 16 * (len(words) - 1 + len(small))


def _key_mark(row: KeyRow, x: float, y: float) -> list[str]:
    if row.form in ("line", "dashes"):
        dash = "3 3" if row.form == "dashes" else ""
        return [svg.line(x - 1, y - 3.5, x + 13, y - 3.5, stroke=row.colour, width=1.6, dash=dash)]
    if row.form == "box":
        return [svg.rect(x, y - 9, 11, 11, fill=row.colour, stroke=row.edge, round_by=2)]
    return svg.mark(row.form, x + 5.5, y - 3.5, row.colour, 5.5) if row.form else []


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart laid out for a width: its heading, the frames of its curves, one above the other, and where its key
    stands, at the right or, in a narrow picture, below."""

    width: int
    heading: tuple[str, ...]
    frames: tuple[Frame, ...]
    body: Frame  # all frames with the room at their right; the key is beside it or below
    beside: bool

    @property
    def frame(self) -> Frame:
        """The frame of a chart that has one."""
        return self.frames[0]

    @property
    def left(self) -> float:
        """Where texts begin."""
        return _begin(self.width)

    def picture(
        self,
        spoken: str,
        shapes: Sequence[str],
        key: Sequence[KeyRow],
        data: object,
        *,
        told: Sequence[str] = (),
        marks: Sequence[svg.Mark] = (),
        below: float = TUNING.axis_px,
    ) -> svg.Picture:
        """Return the picture: heading, shapes, key, and sentences below. spoken: what a screen reader says; marks: what
        a pointer finds in the interactive form; below: room under the frames for numbers and the axis' name."""
        body = self.body
        corner = (body.right + 24, body.top + 10) if self.beside else (16.0, body.bottom + below + 8)
        keyed, high = _legend(key, corner, self.width - 16, beside=self.beside)
        end = max(body.bottom + below, corner[1] + high)
        lines = [line for each in told for line in svg.wrapped(each, self.width - 44)]
        sentences = [svg.text(self.left, end + 6 + 17 * n, line) for n, line in enumerate(lines)]
        return svg.picture(
            self.width,
            end + (17 * len(lines) + 8 if lines else 0),
            spoken,
            (*self.heading, *shapes, *keyed, *sentences),
            data,
            marks,
        )


def new_chart(
    title: str,
    told: str,
    width_px: int,
    *,
    left: float = 96.0,
    right: float = 0.0,
    high: Sequence[float] = (284.0,),
    key: float = TUNING.key_px,
    apart: float = 46.0,
) -> Chart:
    """Return the layout of a chart. left, right: room in pixels for the numbers or names at the sides; high: of each
    frame; apart: between two; key: width of the key at the right, where the picture has at least 640 pixels. In a
    narrower one the key is below, and names get at most a third of the width. Raises OptionError for a width that is no
    integer of at least 320."""
    width = checked_width(width_px)
    beside = width >= TUNING.beside_px
    heading, top = _heading(title, told, width)
    start = left if beside else min(left, 0.36 * width if left > 120 else 66.0)
    end = width - key - right - 4 if beside else width - 24 - min(right, 0.3 * width)
    tops = [top + sum(high[:place]) + apart * place for place in range(len(high))]
    frames = tuple(Frame(start, end, at, at + tall) for at, tall in zip(tops, high, strict=True))
    body = Frame(start, end + right if beside else end, top, frames[-1].bottom if frames else top)
    return Chart(width, tuple(heading), frames, body, beside)


def cell_chart(
    title: str,
    told: str,
    width_px: int,
    cells: tuple[int, int],
    *,
    left: float,
    side: float,
    high: float = 0.0,
    key: float = TUNING.key_px,
) -> tuple[Chart, float]:
    """Return the layout of a map of cells and how wide a cell is: at most `side`, less where the width asks for it.
    cells: (columns, rows); high: of a row (0: as wide). The key stands at the right of the last column."""
    room = new_chart(title, told, width_px, left=left, high=(0.0,), key=key)
    wide = min(side, (room.frame.right - room.frame.left) / cells[0])
    needed = round(room.frame.left + wide * cells[0] + key + 4)
    width = max(TUNING.beside_px, min(room.width, needed)) if room.beside else room.width
    layout = new_chart(title, told, width, left=left, high=((high or wide) * cells[1],), key=key)
    frame = replace(layout.frame, right=layout.frame.left + wide * cells[0])
    return replace(layout, frames=(frame,), body=frame), wide


def cell_names(frame: Frame, columns: Sequence[str], rows: Sequence[str]) -> list[str]:
    """Return the names of a map's columns, below, those that would touch the last one left out, and of its rows, at the
    left, from the lowest row up."""
    wide, high = (frame.right - frame.left) / len(columns), (frame.bottom - frame.top) / len(rows)
    shapes, end = list[str](), -100.0
    for place, name in enumerate(columns):
        middle, half = frame.left + wide * (place + 0.5), svg.text_width(name, 11) / 2
        if middle - half > end:
            shapes.append(svg.text(middle, frame.bottom + 18, name, size=11, fill=svg.GREY, anchor="middle"))
            end = middle + half + 4
    for place, name in enumerate(rows):
        base, words = frame.bottom - high * (place + 0.5) + 4, svg.fitted(name, frame.left - 18, 11)
        shapes.append(svg.text(frame.left - 8, base, words, size=11, fill=svg.GREY, anchor="end"))
    return shapes


def _heading(title: str, told: str, width: int) -> tuple[list[str], float]:
    """Return a title and the line below it, in as many lines as they need, and where the first frame begins. A word
    that is too long is cut."""
    left = _begin(width)
    large, small = (
        [svg.fitted(line, width - 2 * left, size) for line in svg.wrapped(words, width - 2 * left, size)]
        for words, size in ((title, 17), (told, 12))
    )
    shapes = [svg.text(left, 38 + 21 * n, line, size=17, bold=True) for n, line in enumerate(large)]
    base = 38.0 + 21 * len(large)
    shapes += [svg.text(left, base + 16 * n, line, size=12, fill=svg.GREY) for n, line in enumerate(small)]
    return shapes, base + 16 * max(0, len(small) - 1) + 37


def _begin(width: float) -> float:
    return 28.0 if width >= TUNING.beside_px else 16.0


def checked_width(width_px: object) -> int:
    """Return the width of a picture; raises OptionError for one that is no integer from 320 to 100,000."""
    width = as_integer(width_px) or 0
    if not TUNING.least_px <= width <= TUNING.most_px:
        what = f"width_px is {shown(width_px)}"
        raise OptionError(Mistake("PM120", what, f"Expected an integer from {TUNING.least_px} to {TUNING.most_px}."))
    return width


def stairs(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the corners of a staircase whose steps are horizontal first."""
    corners: list[tuple[float, float]] = []
    for x, y in points:
        if corners:
            corners.append((x, corners[-1][1]))
        corners.append((x, y))
    return corners
