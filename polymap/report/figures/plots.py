"""The figures drawn by matplotlib, for papers and slides (optional: the extra `plot`). The data come from elsewhere."""

# pyright: reportUnknownMemberType=false
# (matplotlib's own annotations leave its **kwargs without types)

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from polymap.ir import MissingPackageError, Mistake
from polymap.report.figures.buffer_curve import BOUND, FOUND, BufferFigure
from polymap.report.figures.roofline import ROOF_COLOURS, RooflineFigure
from polymap.report.figures.traffic import TrafficFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def traffic_plot(figure: TrafficFigure) -> Figure:
    """Return stacked bars, a level each: elements moved at the left, energy at the right.

    Raises MissingPackageError without matplotlib.
    """
    canvas = _figure(9.0, 0.6 * len(figure.bars) + 1.4)
    moved, paid = canvas.subplots(1, 2)
    names = [bar.level for bar in figure.bars]
    for place, bar in enumerate(figure.bars):
        _stack(moved, place, bar.elements, dict(figure.colours), scale=1e-6)
        _stack(paid, place, bar.pj, dict(figure.colours), scale=1e-6)
        rest = sum(pj for _, pj in bar.pj)
        paid.barh(place, bar.other_pj * 1e-6, left=rest * 1e-6, color="#9ca3af", height=0.66)
    for axes, title in ((moved, "elements read and written, millions"), (paid, "energy, uJ")):
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_title(title, fontsize=10, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    for tensor, colour in figure.colours:
        moved.barh(0, 0, color=colour, label=tensor)
    moved.legend(frameon=False, fontsize=9)
    canvas.suptitle(figure.title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    return canvas


def roofline_plot(figure: RooflineFigure) -> Figure:
    """Return the roofline: a roof per level with a bandwidth, a point per level and mapping.

    Raises MissingPackageError without matplotlib.
    """
    canvas = _figure(7.0, 4.4)
    axes = canvas.subplots()
    peak = figure.peak_operations_per_cycle
    ridges = [peak / roof.bytes_per_cycle for roof in figure.roofs]
    seen = [*ridges, *(point.operations_per_byte for point in figure.points), *filter(None, [figure.compulsory]), 1.0]
    low, high = min(seen) / 3, max(seen) * 3
    colours = {roof.level: ROOF_COLOURS[place % len(ROOF_COLOURS)] for place, roof in enumerate(figure.roofs)}
    for roof, ridge in zip(figure.roofs, ridges, strict=True):
        label = f"{roof.level}, {roof.bytes_per_cycle:g} bytes per cycle"
        axes.plot([low, ridge], [low * roof.bytes_per_cycle, peak], color=colours[roof.level], label=label)
    axes.plot([min([*ridges, high]), high], [peak, peak], color="#1f2937")
    for point in figure.points:
        axes.plot(point.operations_per_byte, point.operations_per_cycle, "o", color=colours[point.level])
        if point.label:
            where = (point.operations_per_byte, point.operations_per_cycle)
            axes.annotate(point.label, where, textcoords="offset points", xytext=(6, -12), fontsize=8)
    if figure.compulsory is not None:
        axes.axvline(figure.compulsory, color="#9ca3af", linestyle="--", linewidth=1, label="compulsory traffic only")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations per byte moved")
    axes.set_ylabel("operations per cycle")
    axes.set_title(figure.title, fontsize=11, loc="left", fontweight="bold")
    axes.legend(frameon=False, fontsize=9)
    return canvas


def buffer_curve_plot(figure: BufferFigure) -> Figure:
    """Return the traffic of the best mappings, and what nothing beats, against the size of a buffer (both logarithmic).

    Raises MissingPackageError without matplotlib.
    """
    canvas = _figure(7.0, 4.4)
    axes = canvas.subplots()
    for points, colour, style, label in (
        (figure.found, FOUND, "-", "best mapping found"),
        (figure.bound, BOUND, "--", "no loop tree moves less"),
        (figure.schedule, "#6b7280", ":", "no schedule moves less"),
    ):
        axes.plot(
            [room for room, _ in points], [moved for _, moved in points], style, color=colour, label=label, marker="o"
        )
    if figure.compulsory is not None:
        axes.axhline(figure.compulsory, color="#9ca3af", linestyle=":", linewidth=1, label="compulsory")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel(f"size of {figure.level}, bytes")
    axes.set_ylabel(f"moved at {figure.traffic_level}, bytes")
    axes.set_title(figure.title, fontsize=11, loc="left", fontweight="bold")
    axes.legend(frameon=False, fontsize=9)
    return canvas


def _stack(
    axes: Axes, place: int, parts: tuple[tuple[str, float], ...], colours: dict[str, str], *, scale: float
) -> None:
    left = 0.0
    for tensor, value in parts:
        axes.barh(place, value * scale, left=left, color=colours[tensor], height=0.66)
        left += value * scale


def _figure(width: float, height: float) -> Figure:
    try:
        # No pyplot: a figure of its own needs no display and leaves no state behind.
        module = import_module("matplotlib.figure")
    except ImportError:
        what = "plots need matplotlib, which is not installed"
        raise MissingPackageError(Mistake("PM751", what, "pip install 'polymap[plot]'")) from None
    figure: Figure = module.Figure(figsize=(width, height), layout="constrained")
    return figure
