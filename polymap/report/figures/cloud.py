"""Energy against latency of a sample of the space, with the best known of each family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polymap.formatting import energy, plural, short
from polymap.inputs import expected_kind
from polymap.ir import Shown, show_as_picture
from polymap.mapping_space import Sample
from polymap.networks import Comparison
from polymap.report.figures.axes import FORMS, OTHER, grid, legend, log_word, mark
from polymap.report.figures.chart import Axis, Frame, head, round_axis, stairs
from polymap.report.figures.svg import GREY, INK, Picture, picture, polyline, text

FRAME = Frame(left=96, right=620, top=96, bottom=430)
_DRAWN = 4000  # points that are drawn; front and axes are those of all
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


def cloud_svg(figure: CloudFigure) -> Picture:
    """Return both axes logarithmic, mappings that do not fit in another colour and hollow."""
    figure = expected_kind(figure, CloudFigure, "the figure")
    x, y = _axes(figure)
    every = max(1, len(figure.points) // _DRAWN)
    shapes = [*head("Energy against latency of the mapping space", figure.title), *grid(FRAME, x, y, short, energy)]
    for fits in (False, True):
        chosen = [point for point in figure.points[::every] if point[2] == fits]
        dots = "".join(f"M{x.place(a):.1f},{y.place(b):.1f}h0" for a, b, _ in chosen)
        colour, width = (_FITS, 3) if fits else (_TOO_LARGE, 1.6)
        shapes.append(f'<path d="{dots}" stroke="{colour}" stroke-width="{width}" stroke-linecap="round" fill="none"/>')
    front = [(x.place(a), y.place(b)) for a, b in figure.front]
    shapes.append(polyline(stairs(front), stroke=INK, width=1.6))
    for name, cycles, pj, _ in sorted(figure.marked, key=lambda each: each[0] != "optimum"):
        form, colour = FORMS.get(name, OTHER)
        shapes += mark(form, x.place(cycles), y.place(pj), colour)
    shapes += [FRAME.across(log_word("latency, cycles", x)), FRAME.up(log_word("energy", y)), *_key(figure)]
    return picture(900, 490, f"Energy against latency: {figure.title}", shapes, figure)


def cloud_places(figure: CloudFigure) -> tuple[tuple[float, float, str], ...]:
    """Return where each mapping and each family is drawn, (x, y) in the picture, and what there is to say of it."""
    x, y = _axes(figure)
    told = [(a, b, "fits the machine" if fits else "does not fit") for a, b, fits in figure.points]
    told += [(a, b, f"best known {name}") for name, a, b, _ in figure.marked]
    return tuple((x.place(a), y.place(b), f"{energy(b)}, {short(a)} cycles: {what}") for a, b, what in told)


def _axes(figure: CloudFigure) -> tuple[Axis, Axis]:
    ends = [*(point[:2] for point in figure.points), *((x, y) for _, x, y, _ in figure.marked)]
    x = round_axis([point[0] for point in ends], FRAME.left, FRAME.right, logarithmic=True)
    return x, round_axis([point[1] for point in ends], FRAME.bottom, FRAME.top, logarithmic=True)


def _key(figure: CloudFigure) -> list[str]:
    shapes = [*legend(FRAME, 0, "dot", _FITS, "fits the machine"), *legend(FRAME, 1, "dot", _TOO_LARGE, "does not fit")]
    base = FRAME.top + 10 + 48
    shapes.append(polyline([(FRAME.right + 22, base - 4), (FRAME.right + 36, base - 4)], stroke=INK, width=1.6))
    shapes.append(text(FRAME.right + 42, base + 1, "Pareto front of the sample", size=12))
    for row, (name, cycles, pj, proven) in enumerate(figure.marked):
        form, colour = FORMS.get(name, OTHER)
        shapes += legend(FRAME, 3 + 2 * row, form, colour, name + (", proven" if proven else ", best known"))
        told = f"{energy(pj)}, {short(cycles)} cycles"
        shapes.append(text(FRAME.right + 42, FRAME.top + 28 + 24 * (3 + 2 * row), told, size=11, fill=GREY))
    return shapes


show_as_picture(CloudFigure, cloud_svg)
