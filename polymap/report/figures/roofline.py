"""The roofline as figure data, text and SVG: operations per byte against operations per cycle, a roof per level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, log10
from typing import cast

from polymap.costmodel import OPERATIONS_PER_INSTANCE, Cost, LevelRoof, Roofline, roofline
from polymap.formatting import exact, percent, short, size, table
from polymap.inputs import expected_kind, expected_text, is_list, shown
from polymap.ir import Mistake, OptionError
from polymap.report.figures import svg
from polymap.report.figures.chart import WIDTH_PX, Axis, Frame, KeyRow, new_chart
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of

ROOF_COLOURS = ("#e4572e", "#2f6fde", "#0b8166", "#8a5cd6", "#c2417c", "#7a9c18")


@dataclass(frozen=True, slots=True)
class RoofLine:
    """A level's roof: bytes per cycle of all its instances together; of separate bandwidths for reads and writes, of
    the mapping that gets most of both."""

    level: str
    bytes_per_cycle: float


@dataclass(frozen=True, slots=True)
class RoofPoint:
    """A mapping's point under a level's roof: operations per byte moved there, operations per cycle achieved."""

    label: str
    level: str
    operations_per_byte: float
    operations_per_cycle: float


@dataclass(frozen=True, slots=True)
class RooflineFigure:
    """What is drawn. compulsory: operations per byte if the outermost level moved the compulsory traffic alone."""

    title: str
    peak_operations_per_cycle: float
    roofs: tuple[RoofLine, ...]
    points: tuple[RoofPoint, ...]
    compulsory: float | None


def roofline_text(workload: WorkloadLike, arch: ArchitectureLike, cost: Cost) -> str:
    """Return the mapping's roofline as text: a row per level that moves words, and the bottleneck."""
    workload, arch = question_of(workload, arch)
    roof = roofline(workload, arch, expected_kind(cost, Cost, "the cost"))
    unit = f"{workload.name}: a statement instance counts as {OPERATIONS_PER_INSTANCE} operations"
    head = ("level", "moved", "ops/byte", "ridge", "allows ops/cycle", "of peak", "bound")
    rows = [_cells(level, roof) for level in roof.levels if level.moved_bits]
    lines = [f"roofline of {unit}", "", table(head, rows), "", roofline_sentence(roof)]
    return "\n".join(lines)


def roofline_sentence(roof: Roofline) -> str:
    """Return one sentence on the mapping's throughput and its bottleneck."""
    peak, achieved = (OPERATIONS_PER_INSTANCE * value for value in (roof.peak, roof.achieved))
    text = f"It runs {short(achieved)} of {short(peak)} operations per cycle ({percent(achieved / peak)} of the peak)"
    tight = next((level for level in roof.levels if level.level == roof.bound_by), None)
    if tight is None:
        idle = "all of them busy" if roof.usable == roof.peak else f"{percent(roof.usable / roof.peak)} of them busy"
        return f"{text}: compute is the limit, the units of {roof.bound_by}, {idle}."
    per_byte, ridge = tight.operations_per_byte, tight.ridge
    assert per_byte is not None and ridge is not None, "a level without traffic or bandwidth limit binds nothing"
    return (
        f"{text}: memory is the limit, {tight.level} moves a byte for every {short(per_byte)} operations and would "
        f"need {short(OPERATIONS_PER_INSTANCE * ridge)} operations per byte."
    )


def roofline_figure(
    workload: WorkloadLike, arch: ArchitectureLike, costs: Sequence[tuple[str, Cost]]
) -> RooflineFigure:
    """Return the figure of one or more costs of the workload, each with its label ("before", "after")."""
    workload, arch = question_of(workload, arch)
    places = [(label, roofline(workload, arch, cost)) for label, cost in _labelled(costs)]
    first = places[0][1]
    roofs: dict[str, Fraction] = {}
    for level, band in ((one.level, one.bandwidth_bits_per_cycle) for _, place in places for one in place.levels):
        roofs |= {level: max(band, roofs.get(level, band))} if band is not None else {}
    return RooflineFigure(
        title=f"{workload.name} on {arch.name}",
        peak_operations_per_cycle=float(OPERATIONS_PER_INSTANCE * first.peak),
        roofs=tuple(RoofLine(level, float(most) / 8) for level, most in roofs.items()),
        points=tuple(
            RoofPoint(label, level.level, float(level.operations_per_byte), float(2 * place.achieved))
            for label, place in places
            for level in place.levels
            if level.operations_per_byte is not None and level.bandwidth_bits_per_cycle is not None
        ),
        compulsory=None
        if first.compulsory_intensity is None
        else float(OPERATIONS_PER_INSTANCE * first.compulsory_intensity),
    )


def _labelled(costs: object) -> list[tuple[str, Cost]]:
    """Return the labelled costs that a caller gave, at least one; raises OptionError for anything else."""
    pairs = costs if is_list(costs) else ()
    if not pairs or not all(isinstance(pair, tuple) and len(cast("tuple[object, ...]", pair)) == 2 for pair in pairs):
        hint = 'Expected a list of (label, Cost), such as [("best", result.cost)].'
        raise OptionError(Mistake("PM120", f"the costs are {shown(costs)}", hint))
    found = cast("Sequence[tuple[object, object]]", pairs)
    kind = "the cost"
    return [(expected_text(label, "the label", OptionError), expected_kind(cost, Cost, kind)) for label, cost in found]


def roofline_svg(
    workload: WorkloadLike, arch: ArchitectureLike, costs: Sequence[tuple[str, Cost]], *, width_px: int = WIDTH_PX
) -> svg.Picture:
    """Return the roofline of one or more labelled costs as SVG, both axes logarithmic."""
    workload, arch = question_of(workload, arch)
    figure = roofline_figure(workload, arch, costs)
    peak = figure.peak_operations_per_cycle
    ridges = [peak / roof.bytes_per_cycle for roof in figure.roofs]
    xs = [*ridges, *(point.operations_per_byte for point in figure.points), *filter(None, [figure.compulsory]), 1.0]
    ys = [peak, *(point.operations_per_cycle for point in figure.points)]
    layout = new_chart("Roofline", figure.title, width_px, left=86)
    frame = layout.frame
    x = Axis(min(xs) / 3, max(xs) * 3, frame.left, frame.right, logarithmic=True)
    y = Axis(min(min(ys) / 4, peak / 60), peak * 2, frame.bottom, frame.top, logarithmic=True)
    colours = {roof.level: ROOF_COLOURS[number % len(ROOF_COLOURS)] for number, roof in enumerate(figure.roofs)}
    shapes = [
        *_axes(frame, x, y),
        *_roofs(figure, colours, x, y),
        *_points(figure, colours, x, y, several=len(costs) > 1),
    ]
    return layout.picture(f"Roofline of {figure.title}", shapes, _key(figure, colours), figure)


def _cells(level: LevelRoof, roof: Roofline) -> tuple[str, ...]:
    per_byte = level.operations_per_byte
    ridge = "-" if level.ridge is None else short(OPERATIONS_PER_INSTANCE * level.ridge)
    return (
        level.level,
        size(level.moved_bits),
        "-" if per_byte is None else short(per_byte),
        ridge,
        short(OPERATIONS_PER_INSTANCE * level.attainable),
        percent(level.attainable / roof.peak),
        "memory" if level.memory_bound else "compute",
    )


def _axes(frame: Frame, x: Axis, y: Axis) -> list[str]:
    shapes = frame.uprights([(x.place(value), short(value)) for value in _decades(x)])
    for value in _decades(y):
        shapes += frame.level(y.place(value), short(value))
    return [*shapes, frame.across("operations per byte moved (log)"), frame.up("operations per cycle (log)")]


def _decades(axis: Axis) -> list[float]:
    return [10.0**power for power in range(ceil(log10(axis.low)), floor(log10(axis.high)) + 1)]


def _roofs(figure: RooflineFigure, colours: dict[str, str], x: Axis, y: Axis) -> list[str]:
    peak = figure.peak_operations_per_cycle
    shapes: list[str] = []
    labels: list[tuple[float, float]] = []
    for rate in dict.fromkeys(roof.bytes_per_cycle for roof in figure.roofs):
        equal = [roof.level for roof in figure.roofs if roof.bytes_per_cycle == rate]
        start = max(x.low, y.low / rate)
        ends = [(x.place(start), y.place(start * rate)), (x.place(peak / rate), y.place(peak))]
        for inside, level in enumerate(equal, 1):  # one roof is drawn in the middle of the others
            shapes.append(svg.polyline(ends, stroke=colours[level], width=2.2 + 3 * (len(equal) - inside)))
        left, base = (0.75 * low + 0.25 * high for low, high in zip(*ends, strict=True))
        words = svg.fitted(", ".join(equal), x.end - left - 10, 10.5)
        labels.append(_free_place(left, base + 10, svg.text_width(words, 10.5), labels))
        shapes.append(svg.text(*labels[-1], words, size=10.5, fill=svg.GREY))
    least = min([peak / roof.bytes_per_cycle for roof in figure.roofs] + [x.high])
    shapes.append(svg.line(x.place(least), y.place(peak), x.end, y.place(peak), stroke=svg.INK, width=2.2))
    shapes.append(svg.text(x.end - 4, y.place(peak) - 8, f"peak {exact(peak)}", size=11.5, bold=True, anchor="end"))
    return shapes


def _points(figure: RooflineFigure, colours: dict[str, str], x: Axis, y: Axis, *, several: bool) -> list[str]:
    shapes: list[str] = []
    if figure.compulsory is not None:
        place = x.place(figure.compulsory)
        shapes.append(svg.line(place, y.end, place, y.start, stroke=svg.FAINT, width=1.2, dash="4 4"))
    at_peak = y.place(figure.peak_operations_per_cycle) - 8
    labels = [(x.end - back, at_peak) for back in range(0, 100, 10)]  # the name of the peak
    for point in figure.points:
        left, base = x.place(point.operations_per_byte), y.place(point.operations_per_cycle)
        words = f"{short(point.operations_per_byte)} ops per byte, {short(point.operations_per_cycle)} ops per cycle"
        told = " ".join(filter(None, (point.label, f"at {point.level}: {words}")))
        shapes.append(svg.hint([svg.circle(left, base, 6.5, fill=colours[point.level])], told))
        if several:
            labels.append(_free_place(left, base - 11, svg.text_width(point.label, 10.5), labels))
            shapes.append(svg.text(*labels[-1], point.label, size=10.5, fill=svg.GREY))
    return shapes


def _free_place(x: float, y: float, room: float, labels: list[tuple[float, float]]) -> tuple[float, float]:
    """Return where the label of a point stands, at its right: beside it, or as little above or below as leaves the
    other labels free."""
    places = [(x + 10, y + 4 + down) for down in (0, -13, 13, -26, 26, -39, 39)]
    free = [at for at in places if all(abs(at[0] - one) > room or abs(at[1] - other) > 12 for one, other in labels)]
    return (free or places)[0]


def _key(figure: RooflineFigure, colours: dict[str, str]) -> list[KeyRow]:
    """Return per level: colour, bandwidth, and where the mapping stands."""
    rows: list[KeyRow] = []
    for roof in figure.roofs:
        details = [f"{exact(roof.bytes_per_cycle)} bytes per cycle"]
        for point in figure.points:
            if point.level == roof.level:
                words = f"{short(point.operations_per_byte)} ops per byte"
                details.append(f"{point.label}: {words}" if point.label else words)
        rows.append(KeyRow("box", colours[roof.level], roof.level, details=tuple(details)))
    if figure.compulsory is not None:
        rows.append(KeyRow("dashes", svg.FAINT, "compulsory traffic only"))
    return rows
