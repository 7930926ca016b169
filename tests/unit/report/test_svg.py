"""The pictures are well-formed, stay on their canvas and show the numbers of the figure data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from polymap.inputs.presets import load_arch, preset_names
from polymap.ir.mapping import Mapping
from polymap.report.figures.machine import machine_svg
from polymap.report.figures.nest_svg import bare_svg, mapping_svg
from polymap.report.figures.roofline import roofline_svg
from polymap.report.figures.svg import Picture, fitted, shade, tensor_colours, tint
from polymap.report.figures.traffic import traffic_svg
from polymap.workload.einsums import einsum
from tests.unit.report.shared import CONVOLUTION, FLAT, PRODUCT, SPREAD, TUTORIAL, WEIGHTS_STAY, cost_of

NAMESPACE = "{http://www.w3.org/2000/svg}"
COST = cost_of(PRODUCT, FLAT, SPREAD)
PICTURES = {
    "mapping": mapping_svg(PRODUCT, FLAT, SPREAD, COST),
    "mapping without cost": mapping_svg(CONVOLUTION, TUTORIAL, WEIGHTS_STAY),
    "mapping alone": bare_svg(SPREAD),
    "traffic": traffic_svg(PRODUCT, FLAT, COST),
    "roofline": roofline_svg(PRODUCT, FLAT, [("", COST)]),
    "roofline without bandwidths": roofline_svg(
        CONVOLUTION, TUTORIAL, [("", cost_of(CONVOLUTION, TUTORIAL, WEIGHTS_STAY))]
    ),
    **{name: machine_svg(load_arch(name)) for name in preset_names()},
}


def words(picture: str) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(picture).iter(f"{NAMESPACE}text")]


def boxes(picture: str) -> Iterator[tuple[float, float, float, float]]:
    for element in ElementTree.fromstring(picture).iter(f"{NAMESPACE}rect"):
        yield tuple(float(element.attrib[key]) for key in ("x", "y", "width", "height"))  # type: ignore[misc]


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_well_formed_and_stay_on_their_canvas(name: str) -> None:
    root = ElementTree.fromstring(PICTURES[name])
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for x, y, wide, high in boxes(PICTURES[name]):
        assert min(x, y, wide, high) >= 0
        assert x + wide <= width + 0.2
        assert y + high <= height + 0.2
    for element in root.iter(f"{NAMESPACE}text"):
        assert 0 <= float(element.attrib["x"]) <= width
        assert 0 <= float(element.attrib["y"]) <= height


def test_a_mapping_shows_loops_levels_sizes_and_what_moves() -> None:
    seen = words(PICTURES["mapping"])
    for word in ("small product on flat3", "over X 8/16", "×8", "RF ×256", "C[m,n] += A[m,k] * B[k,n]", "64 B", "24"):
        assert word in seen
    rows = {(row.level, row.tensor): row for row in COST.traffic}
    assert f"↓ {rows['GLB', 'A'].fills}" in seen
    assert f"↑ {rows['GLB', 'C'].drains}" in seen


def test_names_are_escaped() -> None:
    layer = einsum("C[m] += A[m]", m=2, name='<b> & "co"')
    seen = words(mapping_svg(layer, FLAT, Mapping(())))
    assert seen[0] == '<b> & "co" on flat3'


def test_notebooks_show_a_picture() -> None:
    picture = PICTURES["mapping"]
    assert isinstance(picture, Picture)
    assert picture._repr_svg_() == picture


def test_colours() -> None:
    colours = tensor_colours(einsum("C[m] += A[m] * B[m] * D[m]", m=2))
    assert len(set(colours.values())) == 4
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in colours.values())
    assert (tint("#102030", 0), tint("#102030", 1)) == ("#ffffff", "#102030")
    assert (shade("#102030", 0), shade("#102030", 1)) == ("#102030", "#000000")


def test_long_texts_are_cut() -> None:
    assert fitted("short", 100) == "short"
    assert fitted("a text that is too long", 60).endswith("…")
