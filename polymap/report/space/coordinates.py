"""A sample of the space in parallel coordinates: a line per mapping, an axis per figure (plotly, the extra `plot`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import ceil, floor, log, log10, prod
from typing import Any

from polymap.formatting import energy, plural, short, size
from polymap.inputs import expected_kind
from polymap.ir import Mapping, MissingPackageError, Mistake, Spatial, Workload
from polymap.report.figures import expected_figure
from polymap.sampling import Sample
from polymap.schedules import view_of

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
class CoordinatesFigure:
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


def coordinates_plot(figure: CoordinatesFigure) -> Any:
    """Return the figure as a plotly.graph_objects.Figure, lines coloured by energy; axes can be dragged, and ranges of
    them selected. Raises MissingPackageError without plotly."""
    figure = expected_figure(figure, CoordinatesFigure)
    try:
        plotly: Any = import_module("plotly.graph_objects")
    except ImportError:
        what = "parallel coordinates need plotly, which is not installed"
        raise MissingPackageError(Mistake("PM751", what, "pip install 'polymap[plot]'")) from None
    dimensions = [
        {
            "label": f"{axis.name} (log)" if axis.logarithmic else axis.name,
            "values": axis.places(),
            "range": [axis.place(axis.marks[0][0]), axis.place(axis.marks[-1][0])],
            "tickvals": [axis.place(value) for value, _ in axis.marks],
            "ticktext": [words for _, words in axis.marks],
        }
        for axis in figure.axes
    ]
    line = {"color": dimensions[0]["values"], "colorscale": "Viridis", "reversescale": True}
    lines = plotly.Parcoords(line=line, dimensions=dimensions, labelangle=-20, labelside="bottom")
    return plotly.Figure(data=[lines], layout={"title": {"text": figure.title}, "margin": {"b": 110}})
