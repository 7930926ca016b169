"""`load_result` reads what answers and commands wrote, and what it returns equals the original."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import polymap as pm
from polymap.cli.command_line import main
from polymap.ir.reported import Tabled
from polymap.networks.model import Feed

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


def test_a_fused_network_is_read_back(tmp_path: Path) -> None:
    first, last = (pm.matmul(m=8, n=n, k=8, name=f"n{n}") for n in (8, 4))
    layers = (pm.io.NetworkLayer("a", first, 1, "Gemm"), pm.io.NetworkLayer("b", last, 1, "Gemm"))
    mapped, feeds = (("a", (0,)), ("b", (1,))), (Feed("a", "b", "A"),)
    net = pm.Network("pair", layers, edges=(("a", "b"),), mapped=mapped, feeds=feeds)
    answer = pm.explore_network(net, FLAT, tiles="divide", fuse=True, work_limit=60)
    assert [each.is_together for each in answer.groups] == [True]
    answer.save(tmp_path / "net.json")
    again = pm.load_result(tmp_path / "net.json")
    assert (str(again), again.groups, again.passing) == (str(answer), answer.groups, answer.passing)


def test_an_answer_counted_in_steps_is_read_back(tmp_path: Path) -> None:
    inner = {"level": "L1", "must_hold": ["@output"]}
    machine = {"name": "timed", "nodes": [{"level": "DRAM", "step_cycles": 9}, inner, {"compute": "MAC"}]}
    found = pm.explore(pm.matmul(m=2, n=1, k=1), machine, "latency", tiles="divide", time_limit_s=1)
    assert "Steps of L1" in found.explain(), "what single steps take is told"
    found.save(tmp_path / "timed.json")
    again = pm.load_result(tmp_path / "timed.json")
    assert (again.explain(), str(again)) == (found.explain(), str(found))


GEMM = pm.matmul(m=8, n=8, k=8)
RELU = pm.program(["T[m,n] += A[m,k] * B[k,n]", "C[m,n] = max(T[m,n], 0)"], m=4, n=4, k=2, temporary=["T"])
BUFFER = pm.io.arch_from_document(
    {"nodes": [{"level": "DRAM", "read_pj": 9}, {"level": "L1", "capacity_bits": 512}, {"compute": "MAC"}]}
)
THIRDS = pm.Architecture(
    "thirds",
    (
        pm.MemoryLevel("DRAM", read_pj=Fraction(1, 3), bandwidth_bits_per_cycle=Fraction(64, 3)),
        pm.MemoryLevel("L1", 512, write_pj=Fraction(123456789123456789123, 10**18)),
        pm.ComputeUnit("MAC", pj=Fraction(1, 7)),
    ),
)
ANSWERS: dict[str, Callable[[], tuple[Any, Callable[[Any], pm.Picture]]]] = {
    "answer": lambda: (pm.explore(GEMM, FLAT, tiles="divide"), pm.plot.mapping),
    "thirds": lambda: (pm.explore(GEMM, THIRDS, "edp", tiles="divide"), pm.plot.mapping),
    "network of thirds": lambda: (pm.explore_network(CHAIN, THIRDS, tiles="divide"), pm.plot.layers),
    "front": lambda: (pm.explore(GEMM, FLAT, "pareto:energy,latency", tiles="divide"), pm.plot.front),
    "program": lambda: (pm.explore(RELU, BUFFER, tiles="divide", work_limit=40), pm.plot.mapping),
    "cost": lambda: (pm.explore(GEMM, FLAT, tiles="divide").cost, pm.plot.traffic),
    "prices": lambda: (pm.study.sensitivity(GEMM, FLAT, "latency", tiles="divide", step=1.7), pm.plot.sensitivity),
    "curve": lambda: (pm.study.buffer_curve(GEMM, BUFFER, "L1", ["16 B", "1 KiB"]), pm.plot.capacity),
    "curve of a program": lambda: (
        pm.study.buffer_curve(RELU, BUFFER, "L1", ["16 B", "1 KiB"], time_limit_s=4),
        pm.plot.capacity,
    ),
    "comparison": lambda: (pm.compare(GEMM, FLAT, time_limit_s=20), lambda _: pm.plot.machine(FLAT)),
    "network": lambda: (pm.explore_network(CHAIN, FLAT, tiles="divide"), pm.plot.layers),
    "sweep": lambda: (
        pm.sweep([GEMM, RELU], {"base": BUFFER, "grid": SIZES}, tiles="divide", time_limit_s=1),
        pm.plot.machines,
    ),
}
SIZES = {"L1.capacity_bits": [128, 1024]}


@pytest.mark.parametrize("kind", ANSWERS)
def test_what_is_saved_is_read_back_with_equal_text_document_and_picture(kind: str, tmp_path: Path) -> None:
    answer, picture = ANSWERS[kind]()
    answer.save(tmp_path / "one.json")
    again = pm.load_result(tmp_path / "one.json")
    again.save(tmp_path / "two.json")
    assert (tmp_path / "one.json").read_text() == (tmp_path / "two.json").read_text()
    assert (type(again), str(again), repr(again)) == (type(answer), str(answer), repr(answer))
    assert again._repr_html_() == answer._repr_html_()
    assert str(again.table()) == str(answer.table())
    assert picture(again) == picture(answer)


def test_every_kind_of_answer_that_can_be_saved_is_among_them() -> None:
    def leaves(kind: type) -> set[str]:
        inner = kind.__subclasses__()
        return set[str]().union(*map(leaves, inner)) if inner else {kind.__name__}

    kinds = (
        pm.study.Sensitivity,
        pm.study.BufferCurve,
        pm.study.Comparison,
        pm.study.NetworkAnswer,
        pm.study.SweepTable,
    )
    assert {each.__name__ for each in (pm.SearchResult, pm.Cost, *kinds)} == leaves(Tabled)


def test_what_commands_write_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["alexnet.fc8", "--arch", "flat3"]
    limits = ["--tiles", "divide", "--time-limit", "20"]
    (tmp_path / "f.c").write_text("void f(int n, int A[n]) { for (int i = 1; i < n; i++) A[i] = A[i - 1]; }")
    (tmp_path / "spec.json").write_text('{"workloads": ["alexnet.fc8"], "machines": "flat3", "tiles": "divide"}')
    (tmp_path / "proof").write_text(pm.explore(GEMM, "flat3", tiles="divide").certificate())
    for number, words in enumerate((
        ["explore", *asked, *limits],
        ["evaluate", *asked, "--mapping", str(tmp_path / "0.json")],
        ["compare", "alexnet.fc8", "WS", "--arch", "flat3", "--time-limit", "1"],
        ["explore", "alexnet", "--arch", "flat3", *limits],
        ["sweep", str(tmp_path / "spec.json")],
        ["check", str(tmp_path / "f.c")],
        ["transform", str(tmp_path / "f.c"), "-o", str(tmp_path / "new.c")],
        ["codegen", *asked, "--mapping", str(tmp_path / "0.json"), "-o", str(tmp_path / "layer.c")],
        ["verify", str(tmp_path / "proof")],
        ["list"],
    )):  # fmt: skip
        where = tmp_path / f"{number}.json"
        assert main([*words, "--json", str(where)]) == 0
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


WRONG = [("value", 0.5), ("bound", 0.5), ("bound", 10**30)]
OF_CURVE = [("curve", "best_bits", 8), ("curve", "bound_bits", 10**30), ("curve", "capacity_bits", 8)]


@pytest.mark.parametrize(
    ("kind", "field", "number"), [*((kind, *each) for kind in ("comparison", "sweep") for each in WRONG), *OF_CURVE]
)
def test_numbers_that_are_not_those_of_the_mappings_are_refused(
    kind: str, field: str, number: float, tmp_path: Path
) -> None:
    answer, _ = ANSWERS[kind]()
    answer.save(tmp_path / "one.json")
    document = json.loads((tmp_path / "one.json").read_text())
    rows = next(document[name] for name in ("members", "rows", "points") if name in document)
    row = next(each for each in rows if each["status"] == "OPTIMAL")
    row[field] = number
    (tmp_path / "one.json").write_text(json.dumps(document))
    with pytest.raises(pm.errors.InputError, match=r"PM(613|703|611)"):
        pm.load_result(tmp_path / "one.json")


@pytest.mark.parametrize("path", ["energy_pj", "utilization", "instances", "traffic.0.reads"])
def test_numbers_beyond_every_float_are_refused(path: str, tmp_path: Path) -> None:
    pm.evaluate(GEMM, BUFFER, pm.sample_mappings(GEMM, BUFFER, 1).mappings[0]).save(tmp_path / "one.json")
    document = inner = json.loads((tmp_path / "one.json").read_text())
    *way, last = (int(word) if word.isdigit() else word for word in path.split("."))
    for word in way:
        inner = inner[word]
    inner[last] = "9" * 400
    (tmp_path / "one.json").write_text(json.dumps(document))
    with pytest.raises(pm.errors.InputError, match=r"one.json"):
        pm.load_result(tmp_path / "one.json")


def test_machines_of_a_grid_with_fractions_are_read_back_as_they_were(tmp_path: Path) -> None:
    table = pm.sweep([GEMM], {"base": "flat3", "grid": {"DRAM.read_pj": [0.1, 7.3]}}, tiles="divide")
    table.save(tmp_path / "one.json")
    again = pm.load_result(tmp_path / "one.json")
    assert (str(again), again) == (str(table), table), "exact, whatever the decimals of the file"


def test_an_answer_larger_than_inputs_is_read(tmp_path: Path) -> None:
    document = {"schema": "polymap.list/1", "version": pm.__version__, "more": "x" * (17 << 20)}
    (tmp_path / "one.json").write_text(json.dumps(document))
    assert pm.load_result(tmp_path / "one.json") == document


@pytest.mark.parametrize("size", ["1e3", "8.0"])
def test_numbers_of_a_grid_are_written_as_numbers(size: str, tmp_path: Path) -> None:
    machines = f'{{"base": "flat3", "grid": {{"X.size": [{size}]}}}}'
    (tmp_path / "spec.json").write_text(f'{{"workloads": ["alexnet.fc8"], "machines": {machines}, "tiles": "divide"}}')
    assert main(["sweep", str(tmp_path / "spec.json"), "--json", str(tmp_path / "out.json")]) == 0
    assert pm.load_result(tmp_path / "out.json").rows[0].machine == {"X.size": float(size)}, "as the file has them"
