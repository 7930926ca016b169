"""Energy against latency of a sample of the space, with the best known of each family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polymap.formatting import energy, plural, short
from polymap.inputs import expected_kind
from polymap.ir import Shown
from polymap.networks import Comparison
from polymap.report import TUNING
from polymap.report.figures import svg
from polymap.report.figures.chart import WIDTH_PX, Axis, Chart, KeyRow, grid, log_word, new_chart, stairs
from polymap.search.trees import Sample

_FITS, _TOO_LARGE = "#9db4d6", "#e3d6c2"


@dataclass(frozen=True, slots=True)
class CloudFigure(Shown):
    """What is drawn. points: (latency in cycles, energy in pJ, whether it fits) of each mapping sampled; front: those
    within capacity that none beats in both, by rising latency; marked: (name, cycles, pJ, whether proven)."""

    title: str
    points: tuple[tuple[float, float, bool], ...]
    front: tuple[tuple[float, float], ...]
    marked: tuple[tuple[str, float, float, bool], ...]


def cloud_figure(sample: Sample, comparison: Comparison | None = None) -> CloudFigure:
    """Return the figure of a sample; comparison: the families that are marked."""
    scores = expected_kind(sample, Sample, "the sample").scores()
    columns = zip(scores.latency_cycles.tolist(), scores.energy_pj.tolist(), scores.fits.tolist(), strict=True)
    points = tuple((float(cycles), float(pj), bool(fits)) for cycles, pj, fits in columns)
    members = () if comparison is None else expected_kind(comparison, Comparison, "the comparison").members
    marked = tuple(
        (each.family, float(each.cost.latency_cycles), each.cost.energy_pj, each.status == "OPTIMAL")
        for each in members
        if each.cost is not None
    )
    title = f"{sample.workload.name} on {sample.arch.name}: {plural(len(points), 'legal mapping')}, drawn uniformly"
    return CloudFigure(title, points, undominated([point[:2] for point in points if point[2]]), marked)


def undominated(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return the points that no other is as good as in both and better in one, by rising first number."""
    front: list[tuple[float, float]] = []
    for point in sorted(set(points)):
        if not front or point[1] < front[-1][1]:
            front.append(point)
    return tuple(front)


@svg.draws(CloudFigure)
def cloud_svg(figure: CloudFigure, *, width_px: int = WIDTH_PX) -> svg.Picture:
    """Return both axes logarithmic, mappings that do not fit in another colour and hollow."""
    layout = new_chart("Energy against latency of the mapping space", figure.title, width_px, high=(334,), key=264)
    x, y = _axes(figure, layout)
    every = max(1, len(figure.points) // TUNING.drawn_points)
    shapes = grid(layout.frame, x, y, short, energy)
    marks = list[svg.Mark]()
    for fits in (False, True):
        chosen = [point for point in figure.points[::every] if point[2] == fits]
        told = "fits the machine" if fits else "does not fit"
        marks += [(_told(a, b, told), ((x.place(a), y.place(b)),)) for a, b, _ in chosen]
        colour, width = (_FITS, 3) if fits else (_TOO_LARGE, 1.6)
        shapes.append(svg.dots([(x.place(a), y.place(b)) for a, b, _ in chosen], stroke=colour, width=width))
    front = [(x.place(a), y.place(b)) for a, b in figure.front]
    shapes.append(svg.polyline(stairs(front), stroke=svg.INK, width=1.6))
    for name, cycles, pj, _ in sorted(figure.marked, key=lambda each: each[0] != "optimum"):
        form, colour = svg.FORMS.get(name, svg.OTHER)
        place = x.place(cycles), y.place(pj)
        shapes += svg.mark(form, *place, colour)
        marks.append((_told(cycles, pj, f"best known {name}"), (place,)))
    shapes += [layout.frame.across(log_word("latency, cycles", x)), layout.frame.up(log_word("energy", y))]
    return layout.picture(f"Energy against latency: {figure.title}", shapes, _key(figure), figure, marks=marks)


def _told(cycles: float, pj: float, what: str) -> str:
    return f"{energy(pj)}, {short(cycles)} cycles: {what}"


def _axes(figure: CloudFigure, layout: Chart) -> tuple[Axis, Axis]:
    frame = layout.frame
    ends = [*(point[:2] for point in figure.points), *((x, y) for _, x, y, _ in figure.marked)]
    x = frame.x_axis([point[0] for point in ends], logarithmic=True)
    return x, frame.y_axis([point[1] for point in ends], logarithmic=True)


def _key(figure: CloudFigure) -> list[KeyRow]:
    rows = [KeyRow("dot", _FITS, "fits the machine"), KeyRow("dot", _TOO_LARGE, "does not fit")]
    rows.append(KeyRow("line", svg.INK, "Pareto front of the sample"))
    for name, cycles, pj, proven in figure.marked:
        form, colour = svg.FORMS.get(name, svg.OTHER)
        told = f"{energy(pj)}, {short(cycles)} cycles"
        rows.append(KeyRow(form, colour, name + (", proven" if proven else ", best known"), details=(told,)))
    return rows
