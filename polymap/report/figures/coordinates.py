"""A sample of the space in parallel coordinates: a line per mapping, an axis per figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log, log10, prod

from polymap.formatting import energy, plural, short, size
from polymap.inputs import expected_kind
from polymap.ir import Mapping, Shown, Spatial, Workload, show_as_picture
from polymap.mapping_space import Sample
from polymap.report.figures.chart import FOUND, head
from polymap.report.figures.svg import (
    GREY,
    INK,
    PAPER,
    Picture,
    hint,
    line,
    picture,
    polyline,
    rect,
    text,
    text_width,
    tint,
    wrapped,
)
from polymap.schedules import view_of

_TOP, _BOTTOM, _APART = 90.0, 390.0, 104.0
_CLEAR = 'fill-opacity="0.8"'
_BYTES = (8.0, 16.0)  # marks at 1 B, 16 B, 256 B, 4 KiB, ...


@dataclass(frozen=True, slots=True)
class Coordinate:
    """One axis: what it shows, the value of each mapping, and its marks (value, as written), rising. Logarithmic axes
    show 0 at their lowest mark."""

    name: str
    values: tuple[float, ...]
    marks: tuple[tuple[float, str], ...]
    logarithmic: bool

    def places(self) -> tuple[float, ...]:
        """Return where the values stand on the axis: decimal logarithms of a logarithmic one, else the values."""
        return tuple(self.place(value) for value in self.values)

    def place(self, value: float) -> float:
        """Return where a value stands."""
        return log10(max(value, self.marks[0][0])) if self.logarithmic else value


@dataclass(frozen=True, slots=True)
class CoordinatesFigure(Shown):
    """The axes, each with one value per mapping, energy first."""

    title: str
    axes: tuple[Coordinate, ...]


def coordinates_figure(sample: Sample) -> CoordinatesFigure:
    """Return energy (pJ), latency (cycles), compute units used, per level but the outermost the bits held at most by an
    instance, per level the bits moved, and whether the mapping fits (1) or not (0), of all mappings of a sample."""
    sample = expected_kind(sample, Sample, "the sample")
    scores = sample.scores()
    axes = [
        _logarithmic("energy", scores.energy_pj.tolist(), energy),
        _logarithmic("latency, cycles", scores.latency_cycles.tolist(), short),
        _logarithmic("compute units", [_units(sample.workload, mapping) for mapping in sample], short),
        *(_logarithmic(f"held in {level}", bits.tolist(), _size, _BYTES) for level, bits in scores.occupancy_bits),
        *(_logarithmic(f"moved at {level}", bits.tolist(), _size, _BYTES) for level, bits in scores.moved_bits),
        Coordinate("fits", tuple(map(float, scores.fits.tolist())), ((0.0, "no"), (1.0, "yes")), logarithmic=False),
    ]
    count = plural(len(sample), "legal mapping")
    return CoordinatesFigure(f"{sample.workload.name} on {sample.arch.name}: {count}, drawn uniformly", tuple(axes))


def _logarithmic(
    name: str, values: Sequence[float], unit: Callable[[float], str], scale: tuple[float, float] = (1.0, 10.0)
) -> Coordinate:
    """Return an axis around the values above 0 with marks at the powers of a base times a factor. scale: (factor,
    base)."""
    factor, base = scale
    above = [value / factor for value in values if value > 0] or [1.0]
    first, last = floor(log(min(above), base) + 1e-9), ceil(log(max(above), base) - 1e-9)
    ends = range(first, max(last, first + 1) + 1)
    marks = [(factor * base**power, unit(factor * base**power)) for power in ends]
    if any(value <= 0 for value in values):
        marks[0] = marks[0][0], f"0 to {marks[0][1]}"
    return Coordinate(name, tuple(map(float, values)), tuple(marks), logarithmic=True)


def _size(bits: float) -> str:
    return size(round(bits))


def _units(workload: Workload, mapping: Mapping) -> int:
    """Return how many compute units a mapping with dividing tiles uses."""
    return prod(each.trips for each in view_of(workload.extents(), mapping).loops if isinstance(each.node, Spatial))


def coordinates_svg(figure: CoordinatesFigure) -> Picture:
    """Return an axis each, side by side, and a line per mapping, the cheapest darkest and in front, grey where it does
    not fit; what a line is of is said under the pointer."""
    figure = expected_kind(figure, CoordinatesFigure, "the figure")
    width = max(640.0, 90.0 + _APART * len(figure.axes))
    xs = [60.0 + _APART * (number + 0.5) for number in range(len(figure.axes))]
    ends = [(axis.place(axis.marks[0][0]), axis.place(axis.marks[-1][0])) for axis in figure.axes]
    places = [axis.places() for axis in figure.axes]
    heights = [
        [_BOTTOM - (_BOTTOM - _TOP) * (value - low) / ((high - low) or 1.0) for value in column]
        for column, (low, high) in zip(places, ends, strict=True)
    ]
    shapes: list[str] = head("Mappings over all axes", figure.title)
    fits = figure.axes[-1].values
    order = sorted(range(len(fits)), key=lambda number: (fits[number], -places[0][number]))
    first = fits.count(0.0)  # the mappings that do not fit come first, all others above them
    for rank, number in enumerate(order):
        share = (rank - first + 1) / max(1, len(order) - first)
        colour = tint(FOUND, 0.12 + 0.88 * share**2) if rank >= first else tint(GREY, 0.25)
        corners = [(x, column[number]) for x, column in zip(xs, heights, strict=True)]
        told = ", ".join(f"{axis.name} {axis.values[number]:.4g}" for axis in figure.axes)
        shapes.append(hint([polyline(corners, stroke=colour, width=1 + max(0.0, share) ** 8)], told))
    for x, axis, (low, high) in zip(xs, figure.axes, ends, strict=True):
        shapes.append(line(x, _TOP, x, _BOTTOM, stroke=INK))
        for value, words in axis.marks:
            y = _BOTTOM - (_BOTTOM - _TOP) * (axis.place(value) - low) / ((high - low) or 1.0)
            paper = rect(x - 10 - text_width(words, 10), y - 6, text_width(words, 10) + 5, 13, fill=PAPER, more=_CLEAR)
            words_ = text(x - 7, y + 4, words, size=10, anchor="end")
            shapes += [line(x - 4, y, x, y, stroke=INK), paper, words_]
        for row, words in enumerate(wrapped(axis.name, _APART - 12, 11)):
            shapes.append(text(x, _BOTTOM + 22 + 14 * row, words, size=11, anchor="middle"))
    shapes.append(
        text(28, _BOTTOM + 74, "logarithmic axes; dark: little energy; grey: does not fit", size=11.5, fill=GREY)
    )
    return picture(width, _BOTTOM + 92, f"Mappings over all axes: {figure.title}", shapes, figure)


show_as_picture(CoordinatesFigure, coordinates_svg)
