"""The roofline report against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import permutations

from polymap.costmodel.bounds import roofline
from polymap.report.figures.roofline import roofline_figure, roofline_text
from tests.unit.report.shared import CONVOLUTION, FLAT, PRODUCT, SPREAD, TUTORIAL, WEIGHTS_STAY, cost_of, nest

EVERYTHING = nest("GLB:A,B,C m1 n1 k1")
FAR = nest("m1 n1 k1")  # every access is one of DRAM
COST = cost_of(PRODUCT, FLAT, EVERYTHING)


def test_intensities_ridges_and_bounds() -> None:
    roof = roofline(PRODUCT, FLAT, COST)
    assert roof.peak == 256
    assert roof.usable == 1
    moved = 48 * 8 + 24 * 8 + 32 * 16
    assert roof.levels[0].moved_bits == moved
    assert roof.levels[0].intensity == Fraction(192 * 8, moved) == roof.compulsory_intensity
    assert roof.levels[0].ridge == 256 / Fraction(16)
    assert roof.levels[0].attainable == 16 * Fraction(192 * 8, moved)
    assert roof.levels[0].memory_bound
    assert (roof.levels[2].level, roof.levels[2].intensity, roof.levels[2].memory_bound) == ("RF", None, False)
    assert roof.bound_by == "MAC"  # one unit of 256 is busy: slower than any level


def test_a_level_without_bandwidth_binds_nothing() -> None:
    roof = roofline(CONVOLUTION, TUTORIAL, cost_of(CONVOLUTION, TUTORIAL, WEIGHTS_STAY))
    assert [level.ridge for level in roof.levels] == [None] * 5
    assert (roof.bound_by, roof.peak, roof.achieved) == ("MAC", 1, 1)


def test_the_text(golden: Callable[[str, str], None]) -> None:
    parts = (roofline_text(PRODUCT, FLAT, cost_of(PRODUCT, FLAT, SPREAD)), roofline_text(PRODUCT, FLAT, COST))
    golden("report/roofline.txt", "\n\n".join(parts) + "\n")


def test_figures_show_several_mappings() -> None:
    after = cost_of(PRODUCT, FLAT, SPREAD)
    figure = roofline_figure(PRODUCT, FLAT, [("before", COST), ("after", after)])
    assert figure.peak_operations_per_cycle == 512
    assert [(roof.level, roof.bytes_per_cycle) for roof in figure.roofs] == [("DRAM", 16), ("GLB", 64)]
    assert {(point.label, point.level) for point in figure.points} == {
        ("before", "DRAM"),
        ("before", "GLB"),
        ("after", "DRAM"),
        ("after", "GLB"),
    }
    for point in figure.points:
        roof = next(roof for roof in figure.roofs if roof.level == point.level)
        assert point.operations_per_cycle <= point.operations_per_byte * roof.bytes_per_cycle


def test_no_point_of_several_mappings_is_above_a_roof_of_separate_bandwidths() -> None:
    dram = replace(FLAT.nodes[0], bandwidth_bits_per_cycle=None)
    dram = replace(dram, read_bandwidth_bits_per_cycle=Fraction(20), write_bandwidth_bits_per_cycle=Fraction(4, 3))
    arch = replace(FLAT, nodes=(dram, *FLAT.nodes[1:]))
    costs = [(str(number), cost_of(PRODUCT, arch, tree)) for number, tree in enumerate((SPREAD, EVERYTHING, FAR))]
    for order in permutations(costs):
        figure = roofline_figure(PRODUCT, arch, order)
        roofs = {roof.level: roof.bytes_per_cycle for roof in figure.roofs}
        for point in figure.points:
            assert point.operations_per_cycle <= point.operations_per_byte * roofs[point.level] * (1 + 1e-12)
