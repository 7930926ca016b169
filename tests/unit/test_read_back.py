"""`load_result` reads what answers and commands wrote, and what it returns equals the original."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import polymap as pm
from polymap.cli.command_line import main

FLAT = pm.load_arch("flat3")
CHAIN = pm.Network(
    "chain",
    (
        pm.io.NetworkLayer("first", pm.matmul(m=8, n=8, k=8, name="first"), 2, "Gemm"),
        pm.io.NetworkLayer("last", pm.matmul(m=4, n=8, k=8, name="last"), 1, "Gemm"),
    ),
)


def test_an_answer_about_a_network_is_read_back(tmp_path: Path) -> None:
    answer = pm.explore_network(CHAIN, FLAT, tiles="divide", time_limit_s=30)
    answer.save(tmp_path / "net.json")
    again = pm.load_result(tmp_path / "net.json")
    assert (again.value, again.bound, again.status) == (answer.value, answer.bound, answer.status)
    assert again.exact == answer.exact
    assert again.network == answer.network
    assert [each.result.best for each in again.layers] == [each.result.best for each in answer.layers]
    assert pm.plot.layers(again) == pm.plot.layers(answer)
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "net.json").read_text()


@pytest.mark.slow
def test_a_fused_network_is_read_back(tmp_path: Path) -> None:
    net = pm.network("resnet50").beginning(4)
    answer = pm.explore_network(net, FLAT, tiles="divide", fuse=True, time_limit_s=20)
    answer.save(tmp_path / "net.json")
    again = pm.load_result(tmp_path / "net.json")
    assert (again.exact, again.exact_bound, again.passing) == (answer.exact, answer.exact_bound, answer.passing)
    assert [each.saved for each in again.groups] == [each.saved for each in answer.groups]


def test_an_answer_counted_in_steps_is_read_back(tmp_path: Path) -> None:
    inner = {"level": "L1", "must_hold": ["@output"]}
    machine = {"name": "timed", "nodes": [{"level": "DRAM", "step_cycles": 9}, inner, {"compute": "MAC"}]}
    found = pm.explore(pm.matmul(m=2, n=1, k=1), machine, "latency", tiles="divide", time_limit_s=1)
    assert "Steps of L1" in found.explain(), "what single steps take is told"
    found.save(tmp_path / "timed.json")
    again = pm.load_result(tmp_path / "timed.json")
    assert (again.explain(), str(again)) == (found.explain(), str(found))


def test_a_comparison_is_read_back(tmp_path: Path) -> None:
    found = pm.compare(pm.matmul(m=8, n=8, k=8), FLAT, time_limit_s=20)
    found.save(tmp_path / "families.json")
    again = pm.load_result(tmp_path / "families.json")
    assert again == found
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "families.json").read_text(), "its options, too"


def test_a_sweep_is_read_back(tmp_path: Path) -> None:
    grid = {"base": "flat3", "grid": {"X.size": [8, 16]}}
    table = pm.sweep([pm.matmul(m=8, n=8, k=8)], grid, tiles="divide")
    table.save(tmp_path / "sweep.json")
    again = pm.load_result(tmp_path / "sweep.json")
    assert again == table
    assert again.front() == table.front()
    lines, told = str(again).splitlines(), str(table).splitlines()
    assert [lines[0], *lines[-5:]] == [told[0], *told[-5:]], "what is proven, and all rows"
    assert "takes most" in str(table)
    assert "takes most" not in str(again), "which mappings say, and these are not kept"


def test_what_commands_write_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = str(tmp_path / "x.json")
    for words in (
        ["explore", "alexnet.fc8", "--arch", "flat3", "--tiles", "divide", "--json", where],
        ["compare", "alexnet.fc8", "WS", "--arch", "flat3", "--time-limit", "5", "--json", where],
        ["explore", "alexnet", "--arch", "flat3", "--tiles", "divide", "--time-limit", "20", "--json", where],
    ):
        assert main(words) == 0
        assert pm.load_result(where) is not None
    capsys.readouterr()


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    answer = pm.explore_network(CHAIN, FLAT, tiles="divide", time_limit_s=30)
    answer.save(tmp_path / "net.json")
    document = json.loads((tmp_path / "net.json").read_text())
    for field in document:
        for value in (..., 7, None, ["x"], {"x": 3}):
            broken = {name: each for name, each in document.items() if name != field}
            if value is not ...:
                broken[field] = value
            (tmp_path / "broken.json").write_text(json.dumps(broken))
            try:
                again = pm.load_result(tmp_path / "broken.json")
            except pm.errors.InputError:
                continue
            assert again.value == answer.value  # the field only repeats what others say


@pytest.mark.parametrize("size", ["1e3", "8.0"])
def test_numbers_of_a_grid_are_written_as_numbers(size: str, tmp_path: Path) -> None:
    machines = f'{{"base": "flat3", "grid": {{"X.size": [{size}]}}}}'
    (tmp_path / "spec.json").write_text(f'{{"workloads": ["alexnet.fc8"], "machines": {machines}, "tiles": "divide"}}')
    assert main(["sweep", str(tmp_path / "spec.json"), "--json", str(tmp_path / "out.json")]) == 0
    assert pm.load_result(tmp_path / "out.json").rows[0].machine == {"X.size": float(size)}, "as the file has them"
