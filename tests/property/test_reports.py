"""Laws of reports on random cases: every text and picture can be made, and its numbers are those of the counts."""

from __future__ import annotations

import random
from xml.etree import ElementTree

import pytest

from polymap.costmodel.assembly import assemble, capacity_violations
from polymap.costmodel.bounds import compulsory_bits
from polymap.costmodel.footprint import footprints
from polymap.costmodel.nest import mapping_text
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.report.explanation import explain
from polymap.report.figures.nest_svg import mapping_svg
from polymap.report.figures.roofline import roofline_svg, roofline_text
from polymap.report.figures.traffic import traffic_figure, traffic_svg, traffic_text
from tests.cases import Case, random_case, random_general_case
from tests.times import few

CASES = [(kind, seed) for kind in (random_case, random_general_case) for seed in range(15)]
NAMES = [f"{kind.__name__}-{seed}" for kind, seed in CASES]


@pytest.fixture(params=CASES, ids=NAMES, scope="module")
def case(request: pytest.FixtureRequest) -> Case:
    kind, seed = request.param
    return kind(random.Random(seed))


def test_every_report_can_be_made(case: Case) -> None:
    counts = count_by_simulation(case.workload, case.arch, case.mapping)
    cost = assemble(case.workload, case.arch, counts, capacity_violations(case.arch, counts), "simulation")
    whole = (case.workload, case.arch, case.mapping, cost)
    text = " ".join(explain(*whole, (case.mapping, cost)).split())
    assert text.endswith("Its accesses cost the same at every level.")
    assert mapping_text(case.workload, case.mapping, case.arch)
    assert len(traffic_text(cost).splitlines()) == 2 + len(cost.traffic)
    assert roofline_text(case.workload, case.arch, cost)
    for picture in (
        mapping_svg(*whole),
        traffic_svg(case.workload, case.arch, cost),
        roofline_svg(case.workload, case.arch, [("", cost)]),
    ):
        ElementTree.fromstring(picture)
    for bar, (name, pj) in zip(
        traffic_figure(case.workload, case.arch, cost).bars, cost.energy_by_level_pj, strict=True
    ):
        assert bar.level == name
        assert sum(value for _, value in bar.pj) + bar.other_pj == pytest.approx(pj)


@pytest.mark.parametrize("seed", few(range(80), 12))
def test_first_tiles_of_one_accumulation_are_the_peak_of_the_simulator(seed: int) -> None:
    case = random_case(random.Random(seed))
    held = {level.name: 0 for level in case.arch.levels[1:]}
    for place in footprints(case.workload, case.arch, case.mapping):
        if place.node >= 0:
            assert place.elements is not None
            held[place.level] += place.elements * case.workload.tensor(place.tensor).bits
    uses = count_by_simulation(case.workload, case.arch, case.mapping).uses
    assert {use.level: use.occupancy_bits for use in uses[1:]} == held


def test_no_mapping_moves_less_than_the_compulsory_bits(case: Case) -> None:
    least = compulsory_bits(case.workload)
    assert least is not None
    outermost = case.arch.levels[0].name
    moved = sum(
        (row.reads + row.writes) * case.workload.tensor(row.tensor).bits
        for row in count_by_simulation(case.workload, case.arch, case.mapping).traffic
        if row.level == outermost
    )
    assert moved >= least
