"""Traffic as table and as figure data: the stacks add up to the cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from polymap.report.figures.traffic import traffic_figure, traffic_html, traffic_text
from tests.unit.report.shared import FLAT, PRODUCT, SPREAD, cost_of

COST = cost_of(PRODUCT, FLAT, SPREAD)


def test_the_table(golden: Callable[[str, str], None]) -> None:
    golden("report/traffic.txt", traffic_text(COST) + "\n")


def test_the_html_has_every_number() -> None:
    html = traffic_html(COST)
    assert html.count("<tr>") == 1 + len(COST.traffic)
    for row in COST.traffic:
        assert f"<td>{row.level}</td><td>{row.tensor}</td>" in html
        assert f">{row.reads:,}</td>" in html


def test_stacks_add_up_to_the_cost() -> None:
    figure = traffic_figure(PRODUCT, FLAT, COST)
    assert [bar.level for bar in figure.bars] == ["DRAM", "GLB", "RF", "MAC"]
    for bar, (level, pj) in zip(figure.bars, COST.energy_by_level_pj, strict=True):
        assert bar.level == level
        assert sum(value for _, value in bar.pj) + bar.other_pj == pytest.approx(pj)
    rows = {(row.level, row.tensor): row.reads + row.writes for row in COST.traffic}
    assert {(bar.level, tensor): value for bar in figure.bars for tensor, value in bar.elements} == rows


def test_leakage_is_no_tensors() -> None:
    levels = tuple(replace(node, leak_pj_per_cycle=Fraction(2)) if node.name == "GLB" else node for node in FLAT.nodes)
    leaky = replace(FLAT, nodes=levels)
    bars = {bar.level: bar for bar in traffic_figure(PRODUCT, leaky, cost_of(PRODUCT, leaky, SPREAD)).bars}
    assert bars["GLB"].other_pj == pytest.approx(2 * COST.latency_cycles)
    assert bars["DRAM"].other_pj == 0
