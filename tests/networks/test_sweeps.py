"""Sweeps: every row is what explore answers, a store asks nothing twice, the front is what no machine beats."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

import polymap as pm
from polymap.cli.command_line import main
from polymap.networks.sweeps import on_chip_bits

GRID = {"base": "flat3", "grid": {"GLB.capacity_bits": [1024, 8192], "X.size": [2, 4]}}
LAYERS = [pm.matmul(m=8, n=8, k=8, name="a"), pm.matmul(m=4, n=16, k=4, name="b")]


def test_every_row_is_what_explore_answers() -> None:
    table = pm.sweep(LAYERS, GRID, tiles="divide")
    assert len(table.rows) == 8
    for row in table.rows:
        assert isinstance(row.machine, dict)
        document = pm.arch_to_document(pm.load_arch("flat3"))
        document["nodes"][1]["capacity_bits"] = row.machine["GLB.capacity_bits"]  # type: ignore[index]
        document["nodes"][2]["size"] = row.machine["X.size"]  # type: ignore[index]
        arch = pm.arch_from_document(document)
        layer = next(each for each in LAYERS if each.name == row.workload)
        result = pm.explore(layer, arch, tiles="divide")
        assert (row.status, row.value) == (result.status, result.value)
        assert row.on_chip_bits == on_chip_bits(arch)


def test_a_store_asks_only_what_is_missing(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    first = pm.sweep(LAYERS[:1], GRID, tiles="divide", store=store)
    assert first.asked == 4
    second = pm.sweep(LAYERS, GRID, tiles="divide", store=store)
    assert second.asked == 4
    again = pm.sweep(LAYERS, GRID, tiles="divide", store=store)
    assert again.asked == 0
    assert again == second
    assert sqlite3.connect(store).execute("SELECT count(*) FROM answers").fetchone() == (8,)


def test_no_machine_beats_one_of_the_front() -> None:
    table = pm.sweep(LAYERS, GRID, tiles="divide")
    totals, front = table.totals(), table.front()
    assert front
    for each in totals:
        better = [o for o in totals if o[1] <= each[1] and o[2] <= each[2] and o[1:3] != each[1:3]]  # type: ignore[operator]
        assert (each in front) == (not better)


def test_on_chip_bits_count_every_copy() -> None:
    flat3 = pm.load_arch("flat3")
    assert on_chip_bits(flat3) == 128 * 1024 * 8 + 256 * 512 * 8


def test_grids_and_stores_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    with pytest.raises(pm.OptionError, match="PM565 the grid names 'GLC.size'"):
        pm.sweep(LAYERS, {"base": "flat3", "grid": {"GLC.size": [1]}})
    with pytest.raises(pm.OptionError, match="PM565 the machines of the sweep"):
        pm.sweep(LAYERS, {"grid": {}})
    with pytest.raises(pm.OutputError, match="PM703"):
        pm.sweep(LAYERS, ["flat3"], store=tmp_path / "none" / "runs.sqlite")
    (tmp_path / "text").write_text("no database, but long enough to be read as one", encoding="utf-8")
    with pytest.raises(pm.OutputError, match="PM703"):
        pm.sweep(LAYERS, ["flat3"], store=tmp_path / "text")


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
