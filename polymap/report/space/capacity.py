"""The size of a buffer against traffic and energy, with what nothing beats, the knee, and the machine's own size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from polymap.buffer_sweep import sizes_of
from polymap.explore import search
from polymap.formatting import energy, short, size
from polymap.ir import (
    Architecture,
    Shown,
    Workload,
    show_as_picture,
)
from polymap.report.figures import (
    BOUND,
    FOUND,
    GREY,
    INK,
    Axis,
    Frame,
    Picture,
    circle,
    expected_figure,
    head,
    hint,
    line,
    picture,
    polyline,
    round_axis,
    text,
    ticks_of,
)
from polymap.report.space.axes import Shapes, log_word
from polymap.report.space.winners import with_capacity
from polymap.resolve import question_of
from polymap.search.run import Options

_MOVED = Frame(left=100, right=640, top=100, bottom=260)
_PAID = Frame(left=100, right=640, top=310, bottom=470)
_NEAR = Fraction(21, 20)  # of the least energy: from that size on more room saves less than 5 %


@dataclass(frozen=True, slots=True)
class CapacityPoint:
    """One size: bits moved at the outermost level and energy in pJ of the best mappings known (None: of none), and what
    no mapping with dividing tiles beats. fits: whether there is a mapping; None where that is not known."""

    bits: int
    moved_bits: float | None
    moved_bound: float
    energy_pj: float | None
    energy_bound: float
    fits: bool | None = True


@dataclass(frozen=True, slots=True)
class CapacityFigure(Shown):
    """Points by rising size; own: the machine's own size in bits (None: unlimited); knee: the least size whose
    energy is proven to be within 5 % of that of the largest, None where no size is proven to be the least one."""

    title: str
    level: str
    outermost: str
    points: tuple[CapacityPoint, ...]
    own: int | None
    knee: int | None

    @property
    def sentence(self) -> str:
        """Why the curve is flat where it is flat, as far as values and bounds prove it."""
        if all(point.fits is False for point in self.points):
            return "Nothing fits."
        if len(self.points) == 1:
            return "A single size does not tell what more would save."
        if self.knee is None:
            return f"Which size of {self.level} is large enough is not known: the values are not proven."
        if self.knee == self.points[-1].bits:
            return "No smaller size shown is enough: each costs over 5 % more energy than the largest."
        saved = f"more of {self.level}, up to {size(self.points[-1].bits)}, saves less than 5 % of the energy"
        if self.knee == self.points[0].bits:
            return f"Already {size(self.knee)} is enough: {saved}."
        return f"From {size(self.knee)} on {saved}; each smaller size shown costs over 5 % more."


def knee_of(points: Sequence[CapacityPoint]) -> int | None:
    """Return the least size (of points by rising size) whose least energy is at most 1.05 times that of the largest
    size; None where values and bounds do not prove which one that is.

    A size is near where its value is within 1.05 times the bound of the largest, and far where its bound is above 1.05
    times the value of the largest, or nothing fits it; between the two nothing is said.
    """
    last = points[-1]
    if last.energy_pj is None:
        return None
    for point in points:
        if point.energy_pj is not None and Fraction(point.energy_pj) <= _NEAR * Fraction(last.energy_bound):
            return point.bits
        if point.fits is not False and Fraction(point.energy_bound) <= _NEAR * Fraction(last.energy_pj):
            return None
    return None


def capacity_figure(
    workload: Workload | str,
    arch: Architecture | str,
    level: str,
    sizes_bits: Sequence[int],
    *,
    time_limit_s: float = 60,
) -> CapacityFigure:
    """Return the best traffic and the best energy (dividing tiles) for each size of a level below the outermost.

    Raises OptionError for an unknown level and sizes that are no integers of at least 1.
    """
    workload, arch = question_of(workload, arch)
    sizes = sizes_of(arch, level, sizes_bits)
    Options(tiles="divide", time_limit_s=time_limit_s).check()
    outermost = arch.levels[0].name
    share = time_limit_s / (2 * len(sizes))
    points: list[CapacityPoint] = []
    for bits in sizes:
        machine = with_capacity(arch, level, bits)
        moved = search(workload, machine, f"traffic:{outermost}", "divide", time_limit_s=share)
        paid = search(workload, machine, "energy", "divide", time_limit_s=share)
        values = (_number(moved.value), float(moved.bound or 0), _number(paid.value), float(paid.bound or 0))
        found = moved.best is not None or paid.best is not None
        fits = True if found else False if "INFEASIBLE" in (moved.status, paid.status) else None
        points.append(CapacityPoint(bits, *values, fits=fits))
    known = _shared(points)
    own = next(each.capacity_bits for each in arch.levels if each.name == level)
    return CapacityFigure(f"{workload.name} on {arch.name}", level, outermost, known, own, knee_of(known))


def _shared(points: Sequence[CapacityPoint]) -> tuple[CapacityPoint, ...]:
    """Return the points, where each size takes over what its neighbours prove: a mapping that fits a smaller size fits
    a larger one and costs the same there, and what no mapping of a larger size beats none of a smaller one does."""
    found = list(points)
    for place in range(1, len(found)):
        less, here = found[place - 1], found[place]
        found[place] = replace(
            here,
            moved_bits=_least(less.moved_bits, here.moved_bits),
            energy_pj=_least(less.energy_pj, here.energy_pj),
            fits=True if less.fits else here.fits,
        )
    for place in reversed(range(len(found) - 1)):
        here, more = found[place], found[place + 1]
        found[place] = replace(
            here,
            moved_bound=max(here.moved_bound, more.moved_bound),
            energy_bound=max(here.energy_bound, more.energy_bound),
            fits=False if more.fits is False else here.fits,
        )
    return tuple(found)


def _least(*values: float | None) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def capacity_svg(figure: CapacityFigure) -> Picture:
    """Return traffic above and energy below, over one logarithmic axis of sizes."""
    figure = expected_figure(figure, CapacityFigure)
    shapes: Shapes = head(f"What the size of {figure.level} buys", figure.title)
    ends = [point.bits for point in figure.points] + ([figure.own] if figure.own else [])
    x = Axis(min(ends) / 1.4, max(ends) * 1.4, _MOVED.left, _MOVED.right, logarithmic=True)
    moved = [(p.bits, p.moved_bits / 8, p.moved_bound / 8) for p in figure.points if p.moved_bits is not None]
    paid = [(p.bits, p.energy_pj, p.energy_bound) for p in figure.points if p.energy_pj is not None]
    shapes += _panel(_MOVED, x, moved, f"moved at {figure.outermost}", _bytes_text)
    shapes += _panel(_PAID, x, paid, "energy", energy)
    for frame in (_MOVED, _PAID):
        shapes += _upright(frame, x, figure.own, "machine's own", 8) + _upright(frame, x, figure.knee, "knee", 22)
    last = -100.0
    for point in figure.points:
        place = x.place(point.bits)
        if place - last > 58:
            shapes.append(text(place, _PAID.bottom + 18, size(point.bits), size=11, fill=GREY, anchor="middle"))
            last = place
    shapes.append(_PAID.across(f"size of {figure.level} (log)"))
    shapes += [*_MOVED.key(0, FOUND, "best mapping (dots)"), *_MOVED.key(1, BOUND, "nothing is below (dashed)")]
    shapes.append(text(28, 532, figure.sentence, size=12))
    return picture(890, 552, f"Size of {figure.level}: {figure.title}", shapes)


def _bytes_text(count: float) -> str:
    text_ = short(count)
    return f"{text_}B" if " " in text_ else f"{text_} B"


def _panel(
    frame: Frame, x: Axis, points: list[tuple[int, float, float]], name: str, unit: Callable[[float], str]
) -> Shapes:

    values = [value for _, found, bound in points for value in (found, bound) if value > 0] or [1.0]
    wide = max(values) > 20 * min(values)
    y = round_axis(values if wide else [0.0, *values], frame.bottom, frame.top, logarithmic=wide)
    shapes: Shapes = []
    for tick in ticks_of(y):
        shapes += frame.level(y.place(tick), unit(tick) if tick else "0")
    bound = [(x.place(bits), y.place(max(low, y.low))) for bits, _, low in points]
    found = [(x.place(bits), y.place(value)) for bits, value, _ in points]
    shapes.append(polyline(found, stroke=FOUND, width=2))
    for place, (bits, value, low) in zip(found, points, strict=True):
        words = f"{size(bits)}: {name} {unit(value)}, nothing is below {unit(low)}"
        shapes.append(hint([circle(*place, 4, fill=FOUND)], words))
    shapes.append(polyline(bound, stroke=BOUND, width=2, more='stroke-dasharray="5 4"'))
    return [*shapes, frame.up(log_word(name, y))]


def _upright(frame: Frame, x: Axis, bits: int | None, word: str, drop: float) -> Shapes:
    if bits is None or not x.low <= bits <= x.high:
        return []
    place = x.place(bits)
    dashed = line(place, frame.top, place, frame.bottom, stroke=INK, more='stroke-dasharray="2 3"')
    left = place > (frame.left + frame.right) / 2
    where, anchor = (place - 5, "end") if left else (place + 5, "start")
    return [dashed, text(where, frame.bottom - drop, word, size=11, fill=INK, anchor=anchor)]


show_as_picture(CapacityFigure, capacity_svg)
