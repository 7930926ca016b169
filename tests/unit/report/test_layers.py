"""Bars of a network's layers and parallel coordinates: their data, then what is drawn of them."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import polymap as pm
from polymap.costmodel.evaluation import evaluate
from polymap.inputs.presets import load_arch
from polymap.report.figures.coordinates import coordinates_figure
from polymap.report.figures.layer_bars import LayerBar, LayerBarsFigure, layer_bars_svg
from polymap.search.trees.samples import sample_mappings
from polymap.workload.layers import matmul
from tests.unit.report.test_space_figures import assert_inside, hints_of

LAYERS = (
    LayerBar("conv1", 2.5e6, 1, "OPTIMAL", (("DRAM", 1.5e6), ("GLB", 1e6))),
    LayerBar("a block with a name that is far longer than its room", 1e6, 3, "FEASIBLE"),
    LayerBar("fc", None, 2, "TIMEOUT"),
    LayerBar("pool", 0, 1, "OPTIMAL"),
)


def figure_of(*bars: LayerBar, objective: str = "energy") -> LayerBarsFigure:
    return LayerBarsFigure("net on flat3", objective, bars)


def test_bars_count_every_occurrence() -> None:
    figure = figure_of(*LAYERS)
    assert figure.total == 2.5e6 + 3 * 1e6
    assert [figure.share(number) for number in range(4)] == [2.5 / 5.5, 3 / 5.5, 0, 0]
    assert figure_of(LayerBar("fc", None, 1, "INFEASIBLE")).share(0) == 0


def test_bars_say_value_multiplicity_and_status() -> None:
    picture = str(layer_bars_svg(figure_of(*LAYERS)))
    assert_inside(picture)
    assert "4 layers, 7 with repetition: 5.5 uJ in all, 2 not proven" in picture
    assert hints_of(picture) == [
        "conv1: 1 of 2.5 uJ, in all 2.5 uJ (45.5 %), OPTIMAL; DRAM 1.5 uJ; GLB 1 uJ",
        "a block with a name that is far longer than its room: 3 of 1 uJ, in all 3 uJ (54.5 %), FEASIBLE",
        "fc: no mapping is known (TIMEOUT)",
        "pool: 1 of 0 pJ, in all 0 pJ (0 %), OPTIMAL",
    ]
    cycles = str(layer_bars_svg(figure_of(LayerBar("a", 640, 1, "OPTIMAL"), objective="latency")))
    assert "1 layer, 1 with repetition: 640 cycles in all, all proven" in cycles


def test_bars_are_as_long_as_their_share_of_the_axis_and_divided_by_level() -> None:
    picture = str(layer_bars_svg(figure_of(*LAYERS)))
    groups = ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}g")
    wide = [[float(rect.attrib["width"]) for rect in group if rect.tag.endswith("rect")] for group in groups]
    assert [len(each) for each in wide] == [2, 1, 0, 1]  # of the layer without a mapping there is none
    assert wide[1][0] / sum(wide[0]) == pytest.approx(3 / 2.5, rel=0.01)
    assert wide[0][0] / wide[0][1] == pytest.approx(1.5, rel=0.01)


def test_layers_of_answers_are_their_values() -> None:
    net = pm.network("alexnet").beginning(2)
    answers = [pm.explore_network(net, arch, tiles="divide", time_limit_s=20) for arch in ("flat3", "tpu_like")]
    one = pm.plot.layers(answers[0])
    assert [bar.value for bar in one.data.bars] == [float(each.exact) for each in answers[0].layers]
    for bar in one.data.bars:
        assert sum(pj for _, pj in bar.by_level_pj) == pytest.approx(bar.value)
    both = pm.plot.layers(answers)
    assert both.data.machines == ("flat3", "tpu_like")
    assert [[bar.value for bar in row] for row in both.data.cells] == [
        [float(each.layers[row].exact) for each in answers] for row in range(len(answers[0].layers))
    ]
    assert_inside(str(one))
    assert_inside(str(both))
    other = pm.explore_network(net.beginning(1), "flat3", tiles="divide")
    for wrong in ([], 7, [answers[0], 7], [answers[0], other]):
        with pytest.raises(pm.errors.OptionError, match="PM120"):
            pm.plot.layers(wrong)  # type: ignore[arg-type]


def test_layers_and_dataflows_are_what_compare_found() -> None:
    kinds = ["weight-stationary", "output-stationary"]
    found = [pm.compare(pm.matmul(m=4, n=n, k=4, name=f"n{n}"), "flat3", kinds, time_limit_s=5) for n in (2, 4)]
    figure = pm.plot.layers(found).data
    assert (figure.machines, figure.layers) == (tuple(kinds), ("n2", "n4"))
    assert [[bar.value for bar in row] for row in figure.cells] == [
        [member.value for member in each.members] for each in found
    ]
    assert_inside(str(pm.plot.layers(found)))
    assert "<svg" in found[0]._repr_html_()
    fewer = pm.compare(found[0].workload, "flat3", kinds[:1], time_limit_s=5)
    with pytest.raises(pm.errors.OptionError, match="PM120 2 comparisons of 2 kinds"):
        pm.plot.layers([found[0], fewer])


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


def test_coordinates_draw_a_line_per_mapping() -> None:
    sample = sample_mappings(matmul(m=8, n=8, k=8), load_arch("flat3"), 12, seed=1)
    picture = pm.plot.coordinates(sample)
    lines = ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}polyline")
    assert len(list(lines)) == len(sample)
    assert len(hints_of(picture)) == len(sample)
    assert len(picture.data.axes) == 9
    assert_inside(str(picture))
