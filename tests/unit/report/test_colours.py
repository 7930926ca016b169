"""Colours that stand for different things differ for protan and deutan eyes too, or the figure has a second mark.

Simulation: Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency",
IEEE TVCG 15(6), 2009, table 1, severity 1.0, on linear RGB. Distance: CIEDE2000 (Sharma, Wu and Dalal, 2005).
"""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

import polymap as pm
from polymap.report.figures.chart import BOUND, FOUND
from polymap.report.figures.cloud import cloud_figure, cloud_svg
from polymap.report.figures.course import _COLOURS as FATES  # pyright: ignore[reportPrivateUsage]
from polymap.report.figures.nest_svg import mapping_svg
from polymap.report.figures.order_classes import _COLOURS as CLASSES, order_figure, order_svg
from polymap.report.figures.proof import KINDS
from polymap.report.figures.residency import residency_figure, residency_svg
from polymap.report.figures.roofline import ROOF_COLOURS, roofline_svg
from polymap.report.figures.svg import FORMS, MORE_COLOURS, OTHER, ROLE_COLOURS, mark, tensor_colours
from polymap.report.figures.traffic import traffic_svg

EYES = {
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}
LEAST = 20.0
SVG = "{http://www.w3.org/2000/svg}"
XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]

Vector = tuple[float, float, float]

# Colours that stand for different things in one figure.
SERIES: dict[str, tuple[str, ...]] = {
    "tensors of a layer": tuple(ROLE_COLOURS.values()),
    "best and bound": (FOUND, BOUND),
    "dataflows": (*(colour for _, colour in FORMS.values()), OTHER[1]),
    "roofs": ROOF_COLOURS,
    "fates": FATES,
    "refutations": tuple(colour for _, colour in KINDS.values()),
    "classes of orders": CLASSES,
    "further tensors": (*ROLE_COLOURS.values(), *MORE_COLOURS),
}
# What else tells them apart.
SECOND_MARK = {
    "dataflows": "form",
    "roofs": "the level's name at the line",
    "classes of orders": "a block of its own with a number",
    "further tensors": "the column's name, or place in the stack and in the key",
}


def lab(colour: str, eye: str | None) -> Vector:
    """Return CIELAB (D65) of an sRGB colour as an eye sees it."""
    coded = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    if eye:
        linear = np.clip(np.array(EYES[eye]) @ linear, 0, 1)
    xyz = np.array(XYZ) @ linear / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return float(116 * f[1] - 16), float(500 * (f[0] - f[1])), float(200 * (f[1] - f[2]))


def difference(one: Vector, other: Vector) -> float:
    """Return CIEDE2000 of two CIELAB colours, in the paper's steps."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    g = 0.5 * (1 - np.sqrt(mean**7 / (mean**7 + 25.0**7)))
    a1, a2 = (1 + g) * a1, (1 + g) * a2
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, a)) % 360 if c else 0.0 for a, b, c in ((a1, b1, c1), (a2, b2, c2)))
    turn = h2 - h1 if c1 * c2 else 0.0
    turn += -360 if turn > 180 else 360 if turn < -180 else 0
    dl, dc, dh = l2 - l1, c2 - c1, 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn) / 2)
    lm, cm, total = (l1 + l2) / 2, (c1 + c2) / 2, h1 + h2
    hm = total if not c1 * c2 else total / 2 + (0 if abs(h1 - h2) <= 180 else 180 if total < 360 else -180)
    t = 1 - 0.17 * np.cos(np.radians(hm - 30)) + 0.24 * np.cos(np.radians(2 * hm))
    t += 0.32 * np.cos(np.radians(3 * hm + 6)) - 0.2 * np.cos(np.radians(4 * hm - 63))
    sl, sc, sh = 1 + 0.015 * (lm - 50) ** 2 / np.sqrt(20 + (lm - 50) ** 2), 1 + 0.045 * cm, 1 + 0.015 * cm * t
    rc = 2 * np.sqrt(cm**7 / (cm**7 + 25.0**7))
    rt = -np.sin(np.radians(60 * np.exp(-(((hm - 275) / 25) ** 2)))) * rc
    return float(np.sqrt((dl / sl) ** 2 + (dc / sc) ** 2 + (dh / sh) ** 2 + rt * dc / sc * dh / sh))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, -1.3802, -84.2814), (50.0, 0.0, -82.7485), 1.0000),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_the_distance_is_that_of_the_papers_table(one: Vector, other: Vector, expected: float) -> None:
    assert difference(one, other) == pytest.approx(expected, abs=5e-5)


def closest(colours: tuple[str, ...]) -> float:
    return min(
        difference(lab(one, eye), lab(other, eye)) for eye in (None, *EYES) for one, other in combinations(colours, 2)
    )


@pytest.mark.parametrize("name", SERIES)
def test_colours_differ_for_all_eyes_or_carry_a_second_mark(name: str) -> None:
    assert name in SECOND_MARK or closest(SERIES[name]) >= LEAST


def test_second_marks_are_needed() -> None:
    assert {name for name, colours in SERIES.items() if closest(colours) < LEAST} == set(SECOND_MARK)


def test_dataflows_have_forms_of_their_own() -> None:
    forms = [form for form, _ in (*FORMS.values(), OTHER)]
    assert len(set(forms)) == len(forms)


def test_roofs_are_named_at_their_lines() -> None:
    layer, arch = pm.matmul(m=8, n=8, k=8), pm.load_arch("flat3")
    result = pm.explore(layer, arch, tiles="divide")
    texts = re.findall(r">([^<>]+)</text>", roofline_svg(layer, arch, [("", result.cost)]))
    for level in arch.levels:
        if level.bandwidth_bits_per_cycle is not None:
            assert texts.count(level.name) == 2  # at the line and in the key


def test_named_dataflows_and_the_optimum_are_marked_where_their_costs_are() -> None:
    layer, arch = pm.matmul(m=16, n=8, k=12), pm.load_arch("flat3")
    families = pm.compare(layer, arch, time_limit_s=10)
    figure = cloud_figure(pm.sample_mappings(layer, arch, 50), families)
    costs = {each.family: each.cost for each in families.members if each.cost is not None}
    assert {name: (x, y) for name, x, y, _ in figure.marked} == {
        name: (cost.latency_cycles, cost.energy_pj) for name, cost in costs.items()
    }
    assert "optimum" in costs
    drawn = cloud_svg(figure)
    places = {told.split("best known ")[1]: corners for told, corners in drawn.marks[len(figure.points) :]}
    assert set(places) == {name for name, *_ in figure.marked}
    for name, ((x, y),) in places.items():
        form, colour = FORMS[name]
        for shape in mark(form, x, y, colour):
            assert shape in drawn  # at its place
        assert re.search(rf">{name}, (proven|best known)<", drawn)  # in the key


def test_each_class_of_orders_is_a_block_below_its_number() -> None:
    small = pm.einsum("O[m,p,q] += I[p+r,q+s] * W[m,r,s]", m=4, p=3, q=3, r=2, s=2)
    figure = order_figure(small, "simple3")
    assert len(figure.classes) > 2
    root = ElementTree.fromstring(str(order_svg(figure)))
    blocks: list[tuple[float, float]] = []
    squares = [each for each in root.iter(f"{SVG}rect") if each.attrib["fill"] in CLASSES]
    for colour in dict.fromkeys(square.attrib["fill"] for square in squares):
        own = [float(square.attrib["y"]) for square in squares if square.attrib["fill"] == colour]
        blocks.append((min(own), max(own)))
    assert [len([s for s in squares if s.attrib["fill"] == c]) for c in CLASSES[: len(blocks)]] == [
        len(each.orders) for each in figure.classes
    ]
    assert all(before[1] < after[0] for before, after in pairwise(blocks))
    words = {each.text or "": float(each.attrib["y"]) for each in root.iter(f"{SVG}text")}
    for number, (each, (top, _)) in enumerate(zip(figure.classes, blocks, strict=True), start=1):
        word = next(word for word in words if word.startswith(f"class {number}: {len(each.orders)} order"))
        assert top - 70 <= words[word] < top


def test_further_tensors_are_named_in_one_order_in_every_picture() -> None:
    names = ["O", "A", "B", "C", "D", "E"]
    layer = pm.einsum("O[m] += A[m,k] * B[k] * C[m] * D[k] * E[m,k]", m=4, k=6)
    arch = pm.load_arch("flat3")
    best = pm.explore(layer, arch, tiles="divide", time_limit_s=10).best
    cost = pm.evaluate(layer, arch, best)
    assert len(set(tensor_colours(layer).values())) == len(names)
    pictures = {
        "mapping": mapping_svg(layer, arch, best, cost),
        "traffic": traffic_svg(layer, arch, cost),
        "residency": residency_svg(residency_figure(layer, arch, best)),
    }
    for what, picture in pictures.items():
        words = list(ElementTree.fromstring(str(picture)).iter(f"{SVG}text"))
        words.sort(key=lambda each: (float(each.attrib["y"]), float(each.attrib["x"])))
        first = dict.fromkeys((each.text or " ").split(" ")[0] for each in words)
        assert [word for word in first if word in names] == names, what
