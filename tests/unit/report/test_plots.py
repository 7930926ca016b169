"""The matplotlib figures draw the figure data, and say what to install where matplotlib is missing."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from matplotlib.patches import Patch, Rectangle

from polymap.ir.errors import MissingPackageError
from polymap.report.figures.plots import roofline_plot, traffic_plot
from polymap.report.figures.roofline import roofline_figure
from polymap.report.figures.traffic import traffic_figure
from tests.unit.report.shared import FLAT, PRODUCT, SPREAD, cost_of

COST = cost_of(PRODUCT, FLAT, SPREAD)


def end_of(bar: Patch) -> float:
    assert isinstance(bar, Rectangle)
    return bar.get_x() + bar.get_width()


def test_bars_end_where_the_data_say() -> None:
    data = traffic_figure(PRODUCT, FLAT, COST)
    moved, paid = traffic_plot(data).axes
    ends = {round(end_of(bar), 12) for bar in moved.patches}
    for bar in data.bars:
        if bar.elements:
            assert round(sum(value for _, value in bar.elements) * 1e-6, 12) in ends
    assert max(end_of(bar) for bar in paid.patches) == pytest.approx(
        1e-6 * max(sum(pj for _, pj in bar.pj) + bar.other_pj for bar in data.bars)
    )


def test_points_stand_where_the_data_say() -> None:
    data = roofline_figure(PRODUCT, FLAT, [("after", COST)])
    (axes,) = roofline_plot(data).axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    drawn = {(float(np.ravel(dot.get_xdata())[0]), float(np.ravel(dot.get_ydata())[0])) for dot in dots}
    assert drawn == {(point.operations_per_byte, point.operations_per_cycle) for point in data.points}


def test_a_missing_matplotlib_is_said_with_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingPackageError, match=r"(?s)PM751 plots need matplotlib.*pip install 'polymap\[plot\]'"):
        traffic_plot(traffic_figure(PRODUCT, FLAT, COST))
