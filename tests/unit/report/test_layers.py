"""Bars of a network's layers and parallel coordinates: their data, then what is drawn of them."""

from __future__ import annotations

import sys
from math import log10
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from polymap.arch.presets import load_arch
from polymap.costmodel.evaluation import evaluate
from polymap.ir.errors import MissingPackageError, OptionError
from polymap.report.figures.layer_bars import layer_bars_figure, layer_bars_svg
from polymap.report.space.coordinates import coordinates_figure, coordinates_plot
from polymap.sampling.sample import sample_mappings
from polymap.workload.layers import matmul
from tests.unit.report.test_space_figures import assert_inside, hints_of

LAYERS = [
    ("conv1", 2.5e6, 1, "OPTIMAL"),
    ("a block with a name that is far longer than its room", 1e6, 3, "FEASIBLE"),
    ("fc", None, 2, "TIMEOUT"),
    ("pool", 0, 1, "OPTIMAL"),
]


def test_bars_count_every_occurrence() -> None:
    figure = layer_bars_figure("net on flat3", LAYERS)
    assert figure.total == 2.5e6 + 3 * 1e6
    assert [figure.share(number) for number in range(4)] == [2.5 / 5.5, 3 / 5.5, 0, 0]
    assert layer_bars_figure("nothing", [("fc", None, 1, "INFEASIBLE")]).share(0) == 0


def test_bars_say_value_multiplicity_and_status() -> None:
    picture = str(layer_bars_svg(layer_bars_figure("net on flat3", LAYERS)))
    assert_inside(picture)
    assert "4 layers, 7 with repetition: 5.5 uJ in all, 2 not proven" in picture
    assert hints_of(picture) == [
        "conv1: 1 of 2.5 uJ, in all 2.5 uJ (45.5 %), OPTIMAL",
        "a block with a name that is far longer than its room: 3 of 1 uJ, in all 3 uJ (54.5 %), FEASIBLE",
        "fc: no mapping is known (TIMEOUT)",
        "pool: 1 of 0 pJ, in all 0 pJ (0 %), OPTIMAL",
    ]
    cycles = str(layer_bars_svg(layer_bars_figure("net", [("a", 640, 1, "OPTIMAL")], "latency")))
    assert "1 layer, 1 with repetition: 640 cycles in all, all proven" in cycles


def test_bars_are_as_long_as_their_share_of_the_axis() -> None:
    picture = str(layer_bars_svg(layer_bars_figure("net", LAYERS)))
    groups = ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}g")
    wide = [float(rect.attrib["width"]) for group in groups for rect in group if rect.tag.endswith("rect")]
    assert len(wide) == 3  # of the layer without a mapping there is none
    assert wide[1] / wide[0] == pytest.approx(3 / 2.5, rel=0.01)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([], "the list of layers is empty"),
        (7, "the list of layers is 7"),
        ([("a", 1.0, 1)], r"layer 0 is \('a', 1.0, 1\)"),
        ([("a", -1.0, 1, "OPTIMAL")], "layer 0"),
        ([("a", 1.0, 0, "OPTIMAL"), (3, 1.0, 1, "OPTIMAL")], r"(?s)layer 0.*layer 1"),
        ([("a", float("nan"), 1, "OPTIMAL")], "layer 0"),
    ],
)
def test_other_lists_are_refused(layers: object, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        layer_bars_figure("net", layers)  # type: ignore[arg-type]


def test_coordinates_are_the_costs() -> None:
    workload, arch = matmul(m=16, n=8, k=12), load_arch("flat3")
    sample = sample_mappings(workload, arch, 40, seed=3)
    axes = {axis.name: axis for axis in coordinates_figure(sample).axes}
    assert list(axes) == [
        *("energy", "latency, cycles", "compute units", "held in GLB", "held in RF"),
        *("moved at DRAM", "moved at GLB", "moved at RF", "fits"),
    ]
    for number, mapping in enumerate(sample):
        cost = evaluate(workload, arch, mapping)
        assert axes["energy"].values[number] == cost.energy_pj
        assert axes["latency, cycles"].values[number] == cost.latency_cycles
        assert axes["compute units"].values[number] * cost.compute_cycles == cost.instances
        assert axes["held in RF"].values[number] == dict(cost.occupancy_bits)["RF"]
        assert axes["fits"].values[number] == cost.legal
    for axis in axes.values():
        low, high = axis.place(axis.marks[0][0]), axis.place(axis.marks[-1][0])
        assert all(low <= place <= high for place in axis.places())


def test_the_plot_is_handed_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = coordinates_figure(sample_mappings(matmul(m=8, n=8, k=8), load_arch("flat3"), 12, seed=1))
    stand_in = SimpleNamespace(Parcoords=lambda **given: given, Figure=lambda **given: given)
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", stand_in)
    plot = coordinates_plot(figure)
    (lines,) = plot["data"]
    assert plot["layout"]["title"]["text"] == figure.title
    assert lines["line"]["color"] == tuple(map(log10, figure.axes[0].values))
    for axis, drawn in zip(figure.axes, lines["dimensions"], strict=True):
        assert drawn["values"] == axis.places()
        assert drawn["ticktext"] == [words for _, words in axis.marks]
        assert drawn["range"] == [drawn["tickvals"][0], drawn["tickvals"][-1]]


def test_a_missing_plotly_is_said_with_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = coordinates_figure(sample_mappings(matmul(m=2, n=2, k=2), load_arch("flat3"), 3))
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(MissingPackageError, match=r"(?s)PM751 .*plotly.*pip install 'polymap\[plot\]'"):
        coordinates_plot(figure)
