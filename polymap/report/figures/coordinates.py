"""A sample of the space in parallel coordinates: a line per mapping, an axis per figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log, log10, prod

from polymap.formatting import energy, plural, short, size
from polymap.inputs import expected_kind
from polymap.ir import Mapping, Shown, Spatial, Workload
from polymap.report.figures import svg
from polymap.report.figures.chart import FOUND, WIDTH_PX, Axis, Frame, new_chart
from polymap.schedules import view_of
from polymap.search.trees import Sample

_APART = 44.0
_CLEAR = 'fill-opacity="0.8"'
_BYTES = (8.0, 16.0)  # marks at 1 B, 16 B, 256 B, 4 KiB, ...


@dataclass(frozen=True, slots=True)
class Coordinate:
    """One axis: what it shows, the value of each mapping, its marks (value, as written), rising, and how a value is
    written. Logarithmic axes show 0 at their lowest mark."""

    name: str
    values: tuple[float, ...]
    marks: tuple[tuple[float, str], ...]
    logarithmic: bool
    unit: Callable[[float], str] = field(compare=False, repr=False)

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
        Coordinate(
            "fits", tuple(map(float, scores.fits.tolist())), ((0.0, "no"), (1.0, "yes")), logarithmic=False, unit=_fits
        ),
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
    return Coordinate(name, tuple(map(float, values)), tuple(marks), logarithmic=True, unit=unit)


def _fits(value: float) -> str:
    return "yes" if value else "no"


def _size(bits: float) -> str:
    return size(round(bits))


def _units(workload: Workload, mapping: Mapping) -> int:
    """Return how many compute units a mapping with dividing tiles uses."""
    return prod(each.trips for each in view_of(workload.extents(), mapping).loops if isinstance(each.node, Spatial))


@svg.draws(CoordinatesFigure)
def coordinates_svg(figure: CoordinatesFigure, *, width_px: int = WIDTH_PX) -> svg.Picture:
    """Return an axis each, one below the other, and a line per mapping from the first to the last, the cheapest darkest
    and in front, grey where it does not fit; what a line is of is said under the pointer."""
    high = _APART * (len(figure.axes) - 1)
    told = "logarithmic axes; dark: little energy; grey: does not fit"
    layout = new_chart("Mappings over all axes", figure.title, width_px, left=122, right=24, high=(high,), key=20)
    frame = layout.frame
    ys = [frame.top + _APART * number for number in range(len(figure.axes))]
    scales = [Axis(axis.place(axis.marks[0][0]), axis.place(axis.marks[-1][0]), *_ends(frame)) for axis in figure.axes]
    places = [[scale.place(value) for value in axis.places()] for axis, scale in zip(figure.axes, scales, strict=True)]
    shapes, marks = list[str](), list[svg.Mark]()
    fits = figure.axes[-1].values
    order = sorted(range(len(fits)), key=lambda number: (fits[number], -places[0][number]))
    first = fits.count(0.0)  # the mappings that do not fit come first, all others above them
    for rank, number in enumerate(order):
        share = (rank - first + 1) / max(1, len(order) - first)
        colour = svg.tint(FOUND, 0.12 + 0.88 * share**2) if rank >= first else svg.tint(svg.GREY, 0.25)
        corners = tuple((column[number], y) for y, column in zip(ys, places, strict=True))
        words = ", ".join(f"{axis.name} {axis.unit(axis.values[number])}" for axis in figure.axes)
        shapes.append(svg.hint([svg.polyline(corners, stroke=colour, width=1 + max(0.0, share) ** 8)], words))
        marks.append((words, corners))
    for y, axis, scale in zip(ys, figure.axes, scales, strict=True):
        shapes += _axis(axis, scale, y, frame)
    return layout.picture(
        f"Mappings over all axes: {figure.title}", shapes, (), figure, told=(told,), marks=marks, below=32
    )


def _ends(frame: Frame) -> tuple[float, float]:
    return frame.left + 12, frame.right


def _axis(axis: Coordinate, scale: Axis, y: float, frame: Frame) -> list[str]:
    """Return an axis with its name at the left and its marks below; those that would touch are left out."""
    shapes, end = [svg.line(*(scale.start, y), *(scale.end, y), stroke=svg.INK)], -100.0
    names = svg.wrapped(axis.name, frame.left - 16, 11)
    for row, words in enumerate(names):
        base = y + 4 + 14 * (row - (len(names) - 1) / 2)
        shapes.append(svg.text(frame.left - 4, base, svg.fitted(words, frame.left - 8, 11), size=11, anchor="end"))
    for value, words in axis.marks:
        x, wide = scale.place(axis.place(value)), svg.text_width(words, 10)
        shapes.append(svg.line(x, y - 3, x, y + 3, stroke=svg.INK))
        if x - wide / 2 > end:
            end = x + wide / 2 + 4
            shapes.append(svg.rect(x - wide / 2 - 2, y + 4, wide + 4, 13, fill=svg.PAPER, more=_CLEAR))
            shapes.append(svg.text(x, y + 14, words, size=10, anchor="middle"))
    return shapes
