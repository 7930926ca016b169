"""Pictures and tables of a sweep say what its rows say."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import polymap as pm
from polymap.report.machines import binding_figure, binding_svg, machine_front_figure, machine_front_svg

GRID = {"GLB.capacity_bits": [256, 2048], "X.size": [1, 2, 4], "DRAM.bandwidth_bits_per_cycle": [8, 64]}
LAYERS = [pm.matmul(m=4, n=4, k=4, name="square"), pm.matmul(m=8, n=2, k=4, name="flat")]


@pytest.fixture(scope="module")
def table() -> pm.study.SweepTable:
    return pm.sweep(LAYERS, {"base": "flat3", "grid": GRID}, ("latency", "energy"), tiles="divide", time_limit_s=20)


def fields_of(row: pm.study.SweepRow) -> Mapping[str, int]:
    assert isinstance(row.machine, dict)
    return row.machine


def test_every_row_has_the_mapping_of_its_value(table: pm.study.SweepTable) -> None:
    for row in table.rows:
        cost = pm.evaluate(row.layer, row.arch, row.mapping)
        value = Fraction(cost.latency_cycles) if row.objective == "latency" else cost.energy_pj_exact
        assert (cost.legal, value) == (True, row.value)
        assert row.arch.level_index("GLB") == 1
        assert row.arch.levels[1].capacity_bits == fields_of(row)["GLB.capacity_bits"]


def test_the_front_figure_marks_the_machines_that_no_other_beats(table: pm.study.SweepTable) -> None:
    figure = machine_front_figure(table)
    assert len(figure.points) == 12
    marked = {label for _, _, best, _, label in figure.points if best}
    assert len(marked) == len(table.front())
    totals: dict[str, list[Fraction]] = {}
    for total in table.totals():
        axes = [*total.values, total.on_chip_bits]
        totals[json.dumps(total.machine)] = [Fraction(axis) for axis in axes if axis is not None]
        assert len(totals[json.dumps(total.machine)]) == len(axes)
    beaten = {
        name
        for name, own in totals.items()
        for other in totals.values()
        if other != own and all(one <= two for one, two in zip(other, own, strict=True))
    }
    assert len(totals) - len(beaten) == len(marked)
    assert all(proven for _, _, _, proven, _ in figure.points)
    picture = str(machine_front_svg(figure))
    assert picture.count("<title>") >= len(figure.points)
    lines = set(re.findall(r'<(?:polyline|path)[^>]* stroke="([^"]+)"', picture))
    dots = set(re.findall(r'<circle[^>]* fill="([^"]+)"', picture))
    assert lines
    assert not lines & dots, "a dot is lost on the line"


def test_the_binding_figure_names_what_decides_most_cycles(table: pm.study.SweepTable) -> None:
    figure = binding_figure(table, "GLB.capacity_bits", "X.size")
    assert (figure.across[1], figure.up[1]) == ((256, 2048), (1, 2, 4))
    for i, up in enumerate(figure.up[1]):
        for j, across in enumerate(figure.across[1]):
            cycles: dict[str, int] = {}
            for row in table.rows:
                fields = fields_of(row)
                first = fields["DRAM.bandwidth_bits_per_cycle"] == 8 and row.objective == "latency"
                if (fields["GLB.capacity_bits"], fields["X.size"]) == (across, up) and first:
                    cost = pm.evaluate(row.layer, row.arch, row.mapping)
                    cycles[cost.bottleneck] = cycles.get(cost.bottleneck, 0) + cost.latency_cycles
            name, share, proven = figure.cells[i][j]
            assert proven
            assert cycles[name] == max(cycles.values())
            assert share == Fraction(cycles[name], sum(cycles.values()))
    assert "DRAM" in binding_svg(figure)


def test_fields_that_the_grid_lacks_are_refused_by_name(table: pm.study.SweepTable) -> None:
    with pytest.raises(pm.errors.OptionError, match="'Y.size'"):
        binding_figure(table, "Y.size", "X.size")
    with pytest.raises(pm.errors.OptionError, match="the figure is"):
        machine_front_svg(table)  # type: ignore[arg-type]


def test_a_sweep_is_a_table_with_a_column_per_field_and_saves(table: pm.study.SweepTable, tmp_path: Path) -> None:
    frame = table.table()
    rows = frame if isinstance(frame, list) else frame.to_dict("records")
    assert len(rows) == len(table.rows) == 48
    assert {"workload", "GLB.capacity_bits", "X.size", "objective", "status", "value"} <= set(rows[0])
    table.save(tmp_path / "sweep.json")
    document = json.loads((tmp_path / "sweep.json").read_text())
    assert (document["schema"], len(document["rows"])) == ("polymap.sweep/1", 48)


def test_where_machines_state_areas_the_front_is_of_areas(tmp_path: Path) -> None:
    """Dear registers and cheap buffers: another front than that of bits; the areas are sums by hand."""
    plain: dict[str, Any] = pm.io.arch_to_document(pm.load_arch("flat3"))
    nodes: list[dict[str, Any]] = [dict(node) for node in plain["nodes"]]
    own = {"GLB": {"area_um2_per_bit": 0.25, "area_um2": 7}, "RF": {"area_um2_per_bit": 2.5}, "MAC": {"area_um2": 6}}
    for node in nodes:
        node |= own.get(node.get("level") or node.get("compute", ""), {})
    grid = {"GLB.capacity_bits": [2048, 16384], "RF.capacity_bits": [64, 512], "X.size": [1, 4]}
    wide = [pm.matmul(m=16, n=32, k=64, name="wide")]
    machines = {"base": plain | {"nodes": nodes}, "grid": grid}
    table = pm.sweep(wide, machines, "energy", tiles="divide", time_limit_s=20)
    without = pm.sweep(wide, {"base": plain, "grid": grid}, "energy", tiles="divide", time_limit_s=20)
    assert [row.value for row in table.rows] == [row.value for row in without.rows], "values do not depend on areas"
    for row in table.rows:
        glb, rf, x = (fields_of(row)[name] for name in grid)
        siblings = 16 * x
        assert row.area_um2 == 7 + Fraction(glb, 4) + siblings * (Fraction(5, 2) * rf + 6)
    sums = {named(total): (total.values[0], area_of(total)) for total in table.totals()}
    beaten = {
        name
        for name, (value, area) in sums.items()
        for other, least in sums.values()
        if other <= value and least <= area and (other, least) != (value, area)
    }
    assert set(map(named, table.front())) == set(sums) - beaten
    assert set(map(named, table.front())) != set(map(named, without.front()))
    assert "area" in str(table)
    assert "area" not in str(without)
    assert "Energy against area" in machine_front_svg(machine_front_figure(table))
    table.save(str(tmp_path / "table.json"))
    assert pm.load_result(str(tmp_path / "table.json")) == table


def test_machines_without_areas_among_others_are_told(table: pm.study.SweepTable) -> None:
    flat3 = pm.load_arch("flat3")
    document: dict[str, Any] = pm.io.arch_to_document(flat3)
    stated = document | {"name": "stated", "nodes": [*document["nodes"][:-1], {"compute": "MAC", "area_um2": 500}]}
    mixed = pm.sweep(LAYERS[:1], [flat3, stated], "energy", tiles="divide", time_limit_s=20)
    assert "ranked by on-chip bits, not by area: 1 machine without one" in str(mixed)
    assert all(total.takes == total.on_chip_bits for total in mixed.totals())
    assert "not by area" not in str(table)


def test_bits_without_end_take_no_area() -> None:
    nodes = [{"level": "DRAM", "area_um2_per_bit": 1}, {"compute": "MAC"}]
    with pytest.raises(pm.errors.ArchError, match=r"'DRAM', has area_um2_per_bit, and no capacity"):
        pm.io.arch_from_document({"nodes": nodes})


def named(total: pm.study.MachineTotal) -> str:
    return json.dumps(total.machine, sort_keys=True)


def area_of(total: pm.study.MachineTotal) -> Fraction:
    assert total.area_um2 is not None
    return total.area_um2
