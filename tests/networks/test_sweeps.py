"""Sweeps: every row is what explore answers, a store asks nothing twice, the front is what no machine beats."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import le
from pathlib import Path

import pytest

import polymap as pm
from polymap.cli.command_line import main
from polymap.inputs import arch_from_document, mapping_from_document
from polymap.networks.sweeps import sweep_of_document
from polymap.workload import workload_from_document

GRID = {"base": "flat3", "grid": {"GLB.capacity_bits": [1024, 8192], "X.size": [2, 4]}}
LAYERS = [pm.matmul(m=8, n=8, k=8, name="a"), pm.matmul(m=4, n=16, k=4, name="b")]


def test_every_row_is_what_explore_answers() -> None:
    table = pm.sweep(LAYERS, GRID, tiles="divide")
    assert len(table.rows) == 8
    for row in table.rows:
        assert isinstance(row.machine, dict)
        document = pm.io.arch_to_document(pm.load_arch("flat3"))
        document["nodes"][1]["capacity_bits"] = row.machine["GLB.capacity_bits"]  # type: ignore[index]
        document["nodes"][2]["size"] = row.machine["X.size"]  # type: ignore[index]
        arch = pm.io.arch_from_document(document)
        layer = next(each for each in LAYERS if each.name == row.workload)
        result = pm.explore(layer, arch, tiles="divide")
        assert (row.status, row.value) == (result.status, result.value)
        assert row.on_chip_bits == arch.on_chip_bits


def test_a_store_asks_only_what_is_missing(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    first = pm.sweep(LAYERS[:1], GRID, tiles="divide", store=store)
    assert 1 <= first.asked <= 4
    second = pm.sweep(LAYERS, GRID, tiles="divide", store=store)
    assert 1 <= second.asked <= 4
    again = pm.sweep(LAYERS, GRID, tiles="divide", store=store)
    assert again.asked == 0
    assert _values(again) == _values(second) == _values(pm.sweep(LAYERS, GRID, tiles="divide"))
    assert sqlite3.connect(store).execute("SELECT count(*) FROM entries").fetchone() == (first.asked + second.asked,)


def test_no_machine_beats_one_of_the_front() -> None:
    table = pm.sweep(LAYERS, GRID, ("energy", "latency"), tiles="divide")
    totals, front = table.totals(), table.front()
    assert front
    for each in totals:
        figures = (*each.values, each.on_chip_bits or 0)
        others = [(*other.values, other.on_chip_bits or 0) for other in totals]
        better = [other for other in others if other != figures and all(map(le, other, figures))]
        assert (each in front) == (not better)


def test_a_network_stands_for_its_layers_and_their_multiplicities() -> None:
    net = pm.network("resnet50")
    part = replace(net, layers=net.layers[-2:])
    table = pm.sweep([part], ["flat3"], tiles="divide")
    (total,) = table.totals()
    assert total.values == (pm.explore_network(part, "flat3", tiles="divide").exact,)
    assert [row.multiplicity for row in table.rows] == [layer.multiplicity for layer in part.layers]


def test_machines_of_one_name_are_told_apart() -> None:
    table = pm.sweep(LAYERS[:1], ["flat3", pm.load_arch("flat3")], tiles="divide")
    assert [row.machine for row in table.rows] == ["flat3", "flat3#2"]
    assert len(table.totals()) == 2


def test_workloads_and_layers_of_one_name_are_told_apart(tmp_path: Path) -> None:
    small, large = pm.matmul(m=8, n=16, k=16), pm.matmul(m=32, n=16, k=16)
    for store in (None, tmp_path / "runs.sqlite", tmp_path / "runs.sqlite"):
        table = pm.sweep([small, large], ["flat3"], tiles="divide", store=store)
        assert [row.workload for row in table.rows] == ["matmul", "matmul#2"]
        assert str(table).startswith("2 workloads on 1 machine")
    named = (("fc", small), ("fc", large), ("fc#2", small))
    net = pm.Network("net", tuple(pm.io.NetworkLayer(name, each, 1) for name, each in named))
    assert [each.name for each in net.layers] == ["fc", "fc#3", "fc#2"]
    answer = pm.explore_network(net, "flat3", tiles="divide")
    path = tmp_path / "answer.json"
    answer.save(path)
    assert [each.layer.name for each in pm.load_result(path).layers] == ["fc", "fc#3", "fc#2"]
    for picture in (pm.plot.layers(answer), pm.plot.layers([answer, answer])):
        assert all(f">{each.name}<" in picture for each in net.layers)
    twice = [pm.compare(each, "flat3", ["weight-stationary"]) for each in (small, large)]
    assert ">matmul#2<" in pm.plot.layers(twice)


def _values(table: pm.study.SweepTable) -> list[tuple[object, ...]]:
    return [(row.workload, str(row.machine), row.objective, row.status, row.value, row.bound) for row in table.rows]


def test_on_chip_bits_count_every_copy() -> None:
    flat3 = pm.load_arch("flat3")
    assert flat3.on_chip_bits == 128 * 1024 * 8 + 256 * 512 * 8


def test_grids_and_stores_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    with pytest.raises(pm.errors.OptionError, match="PM565 the grid names 'GLC.size'"):
        pm.sweep(LAYERS, {"base": "flat3", "grid": {"GLC.size": [1]}})
    with pytest.raises(pm.errors.OptionError, match="PM565 the machines of the sweep"):
        pm.sweep(LAYERS, {"grid": {}})
    with pytest.raises(pm.errors.OptionError) as told:
        pm.sweep(LAYERS, {"base": "flat3", "grid": {"GBL.size": [1], "X": [2], "RF.capacity_bits": []}})
    said = ("the grid names 'GBL.size'", "the grid names 'X'", "the grid has no list of values for 'RF.capacity_bits'")
    assert [each.what.startswith(what) for each, what in zip(told.value.mistakes, said, strict=True)] == [True] * 3
    with pytest.raises(pm.errors.OptionError) as told:
        sweep_of_document({"workloads": [], "machines": [], "objectiv": "edp", "front_only": 1})
    assert len(told.value.mistakes) == 4
    with pytest.raises(pm.errors.OptionError) as told:
        pm.sweep(["fc"], {"base": "flat3", "grid": {"X.sise": [8], "C.size": [1]}}, ["enrgy", "traffic:C"])
    assert [each.code for each in told.value.mistakes] == ["PM501", "PM502", "PM230", "PM110", "PM565"]
    with pytest.raises(pm.errors.ArchError) as told:
        pm.sweep(LAYERS, {"base": "flat3", "grid": {"X.size": [8, 0, -1], "Y.size": [4, 8]}})
    assert ["Y.size = 4" in each.what for each in told.value.mistakes] == [True, True]
    with pytest.raises(pm.errors.OutputError, match="PM703"):
        pm.sweep(LAYERS, ["flat3"], store=tmp_path / "none" / "runs.sqlite")
    (tmp_path / "text").write_text("no database, but long enough to be read as one", encoding="utf-8")
    with pytest.raises(pm.errors.OutputError, match="PM703"):
        pm.sweep(LAYERS, ["flat3"], store=tmp_path / "text")


def test_mistakes_of_a_machine_in_a_specification_name_the_file_and_the_grid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dram = {"level": "DRAM", "bandwidth_bits_per_cycle": 8}
    base = {"nodes": [dram, {"level": "B", "capacity_bits": 4096}, {"compute": "M"}]}
    wrong = {"nodes": [{"level": "DRAM", "read_pJ": 8}, {"compute": "M"}]}
    field = "DRAM.read_bandwidth_bits_per_cycle"
    cases = (
        ("resnet50.fc", {"base": base, "grid": {field: [8]}}, "PM310 ", f"(in the grid of the sweep: {field} = 8)"),
        ("resnet50.fc", {"base": wrong}, "PM110 ", "(in machines.base)"),
        ("resnet50.fc", ["flat3", wrong], "PM110 ", "(in machines[1])"),
        ({"einsum": "C[m] += A[m]", "size": {"m": 4}}, ["flat3"], "PM110 ", "(in workloads[0])"),
        ("resnet-50.fc", ["flat3"], "PM230 ", "Did you mean 'resnet50.fc'?"),
    )
    for workload, machines, *parts in cases:
        spec = tmp_path / "spec.json"
        spec.write_text(json.dumps({"workloads": [workload], "machines": machines}), encoding="utf-8")
        assert main(("sweep", str(spec))) == 2
        told = capsys.readouterr().err
        assert all(part in told for part in (*parts, "spec.json")), told


def test_mistakes_of_all_parts_of_a_specification_are_told_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "spec.json"
    layers = [{"einsum": "C[m] += A[m]", "size": {"m": 4}}, "resnet-50.fc", 3]
    table = {"workloads": layers, "machines": {"base": "flat9"}, "tiles": "some", "time_limit_s": -1}
    spec.write_text(json.dumps(table), encoding="utf-8")
    assert main(("sweep", str(spec))) == 2
    told = capsys.readouterr().err
    parts = ("PM503", "PM504", "(in workloads[0])", "'resnet-50.fc'", "the workload is 3", "'flat9'")
    assert all(part in told for part in parts), told


@pytest.mark.parametrize("workloads, machines", [([], ["flat3"]), (["resnet50.fc"], []), ((), ())])
def test_a_sweep_of_nothing_is_refused(workloads: Sequence[str], machines: Sequence[str]) -> None:
    with pytest.raises(pm.errors.OptionError, match=r"PM565 the (workloads|machines) are an empty list") as refused:
        pm.sweep(workloads, machines)
    assert len(refused.value.mistakes) == 2 - bool(workloads) - bool(machines)


def test_the_command_line_sweeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, store = tmp_path / "spec.json", str(tmp_path / "runs.sqlite")
    layer = {"matmul": {"m": 8, "n": 8, "k": 8}}
    spec.write_text(json.dumps({"workloads": [layer], "machines": GRID, "tiles": "divide"}), encoding="utf-8")
    assert main(("sweep", str(spec), "--store", store, "--json", "-")) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["rows"]) == 4
    assert answer["front"]
    assert main(("sweep", str(spec), "--store", store)) == 0
    assert "0 questions searched" in capsys.readouterr().out
    spec.write_text("{}", encoding="utf-8")
    assert main(("sweep", str(spec))) == 2


def test_programs_that_are_rewritten_have_their_values_in_sweeps() -> None:
    text = "for (int i = 0; i < 6; i++) B[i] = A[i] * 2; for (int j = 0; j < 6; j++) C[j] = B[j] + 1;"
    program = pm.from_c(f"void f(double A[6], double B[6], double C[6]) {{ {text} }}")
    nodes = [{"level": "DRAM"}, {"level": "Buf", "capacity_bits": 64 * 3}, {"compute": "PE"}]
    arch = pm.io.arch_from_document({"name": "two", "nodes": nodes})
    alone = pm.explore(program, arch, "traffic:DRAM", tiles="divide", time_limit_s=20)
    assert alone.workload != program, "the two loops become one"
    (row,) = pm.sweep([program], [arch], "traffic:DRAM", tiles="divide", time_limit_s=20).rows
    assert (row.status, row.value) == (alone.stated, alone.value), "as asked alone"
    assert row.mapping is None, "no tree of the program as it is moves as little"
    prices = pm.study.sensitivity(program, arch, "traffic:DRAM", tiles="divide", time_limit_s=20)
    assert prices.value == alone.value, "as asked alone"


def test_what_is_proven_over_some_trees_is_told_as_that_and_bounds_no_other_machine() -> None:
    text = """void f(float A[2][2], float B[2], float C[2]) {
        for (int i = 0; i < 2; i++) for (int j = 0; j < 2; j++) B[i] += A[i][j];
        for (int k = 0; k < 2; k++) for (int l = 0; l < 2; l++) C[k] += A[k][l] * B[k];
    }"""
    program, machines = pm.from_c(text), list[pm.Architecture]()
    for bits in (64, 96):
        nodes = [{"level": "DRAM"}, {"level": "Buf", "capacity_bits": bits}, {"compute": "PE"}]
        machines.append(pm.io.arch_from_document({"name": f"{bits} bits", "nodes": nodes}))
    table = pm.sweep([program], machines, "traffic:DRAM", tiles="divide", time_limit_s=20)
    alone = [pm.explore(program, each, "traffic:DRAM", tiles="divide", time_limit_s=20) for each in machines]
    assert [each.space.name for each in alone] == ["rewritten program trees"] * 2, "else it says nothing of this law"
    assert [(row.status, row.value) for row in table.rows] == [(each.stated, each.value) for each in alone]
    assert not table.is_proven, "trees of other kinds may move less"
    assert {row.how for row in table.rows} == {"searched"}, "a proof over some trees says nothing of other machines"
    prices = pm.study.sensitivity(program, machines[0], "traffic:DRAM", tiles="divide", time_limit_s=20)
    assert prices.status == alone[0].stated, "the trees are named"
    assert {price.binds for price in prices.prices} <= {None, True}, "that more is worth nothing is not proven"


@pytest.mark.parametrize(
    "read, document, meant",
    [
        (sweep_of_document, {"networks": ["alexnet"], "machines": ["flat3"]}, "workloads"),
        (sweep_of_document, {"workloads": ["alexnet"], "chips": ["flat3"]}, "machines"),
        (sweep_of_document, {"workloads": ["alexnet"], "machines": ["flat3"], "objectve": "energy"}, "objective"),
        (arch_from_document, {"name": "a", "levels": []}, "nodes"),
        (arch_from_document, {"name": "a", "nodes": [{"levl": "D"}, {"compute": "M", "pj": 1}]}, "level"),
        (workload_from_document, {"equation": "C[m] += A[m]", "sizes": {"m": 3}}, "einsum"),
        (mapping_from_document, {"tree": []}, "nodes"),
    ],
)
def test_a_misspelt_field_is_told_with_the_one_that_is_meant(
    read: Callable[[object], object], document: object, meant: str
) -> None:
    with pytest.raises(pm.errors.PolymapError, match=f"(?i)did you mean '{meant}'"):
        read(document)


def test_an_interrupted_sweep_tells_the_machines_that_are_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table after a search holds whole machines, with the rows of the sweep that runs to its end."""
    seen: list[pm.study.SweepProgress] = []
    tables: list[pm.study.SweepTable] = []

    def note(progress: pm.study.SweepProgress) -> None:
        seen.append(progress)
        tables.append(progress.table())

    rows = pm.sweep(LAYERS, GRID, tiles="divide", on_progress=note).rows
    whole = {(row.workload, str(row.machine)): (row.status, row.value) for row in rows}
    assert set(dict(whole.values())) == {"OPTIMAL"}
    assert any(0 < len(table.rows) < 8 for table in tables)
    for table, progress in zip(tables, seen, strict=True):
        assert len(table.rows) <= progress.done
        assert len(table.rows) % len(LAYERS) == 0
        assert all(whole[row.workload, str(row.machine)] == (row.status, row.value) for row in table.rows)

    def interrupted(*args: object) -> None:
        (*_, told) = args
        told(next(each for each, table in zip(seen, tables, strict=True) if table.rows))  # type: ignore[operator]
        raise KeyboardInterrupt

    monkeypatch.setattr("polymap.cli.whole_networks.sweep_of_document", interrupted)
    (tmp_path / "spec.json").write_text("{}")
    assert main(("sweep", str(tmp_path / "spec.json"))) == 130
    printed = capsys.readouterr()
    assert "interrupted after" in printed.err
    assert "2 workloads on " in printed.out
