"""The five commands: what they print, where, and with which exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polymap.cli import commands as cli_commands
from polymap.cli.command_line import main
from polymap.report import progress as page_progress
from polymap.report.progress import ProgressLine, progress_text
from polymap.search.result import Progress

GEMM = ("C[m,n] += A[m,k] * B[k,n]", "m=512", "n=256", "k=32")
SMALL = ("C[m,n] += A[m,k] * B[k,n]", "m=4", "n=6", "k=2")
# The mapping that the interface's description of JSON shows, with the answers given there.
NODES = [
    {"store": "DRAM", "tensors": ["A", "B", "C"]},
    {"store": "GLB", "tensors": ["B"]},
    {"for": "m", "tile": 8},
    {"par": "m", "tile": 1, "over": "Y"},
    {"par": "k", "tile": 16, "over": "Y"},
    {"par": "k", "tile": 1, "over": "X"},
    {"store": "RF", "tensors": ["A"]},
    {"for": "n", "tile": 1},
    {"compute": "S"},
]

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def mapping_file(tmp_path: Path) -> str:
    path = tmp_path / "mapping.json"
    path.write_text(json.dumps({"nodes": NODES}), encoding="utf-8")
    return str(path)


def answer_of(capsys: Captured, *words: str, code: int = 0) -> dict[str, object]:
    """Return the JSON that the command prints on stdout, and nothing else."""
    assert main((*words, "--json", "-")) == code
    answer = json.loads(capsys.readouterr().out)
    assert isinstance(answer, dict)
    return answer


def test_evaluate_prints_the_documented_answer(capsys: Captured, mapping_file: str) -> None:
    answer = answer_of(capsys, "evaluate", *GEMM, "--arch", "flat3", "--mapping", mapping_file)
    assert answer["legal"] is True
    assert answer["violations"] == []
    assert answer["instances"] == 4194304
    row = {"level": "GLB", "tensor": "B", "reads": 524288, "writes": 8192, "fills": 8192, "drains": 0}
    assert row in answer["traffic"]  # type: ignore[operator]
    assert answer["occupancy_bits"] == {"GLB": 65536, "RF": 8}
    assert answer["energy_pj"] == 42729472.0
    by_level = {"DRAM": 31129600.0, "GLB": 3194880.0, "RF": 4210688.0, "MAC": 4194304.0}
    assert answer["energy_by_level_pj"] == by_level
    assert (answer["compute_cycles"], answer["latency_cycles"]) == (16384, 16384)
    assert (answer["utilization"], answer["bottleneck"]) == (1.0, "MAC")
    assert answer["method"] == "closed form"


def test_evaluate_prints_text(capsys: Captured, mapping_file: str) -> None:
    assert main(("evaluate", *GEMM, "--arch", "flat3", "--mapping", mapping_file)) == 0
    text = capsys.readouterr().out
    for piece in ("524,288", "42,729,472 pJ", "16,384 cycles", "for m"):
        assert piece in text


def test_simulate_counts_the_same(capsys: Captured, tmp_path: Path) -> None:
    nodes = [node for node in NODES if node.get("store") != "RF"]
    nodes[1] = {"store": "GLB", "tensors": ["B", "C"]}
    (tmp_path / "m.json").write_text(json.dumps({"nodes": nodes}))
    words = ("evaluate", *SMALL, "--arch", "flat3", "--mapping", str(tmp_path / "m.json"))
    closed, walked = answer_of(capsys, *words), answer_of(capsys, *words, "--simulate")
    assert walked.pop("method") != closed.pop("method")
    assert walked == closed


def test_counts_that_take_longer_than_the_limit_are_refused(capsys: Captured, tmp_path: Path) -> None:
    loops = "for (int i = 0; i < 900; i++) for (int j = 0; j <= i; j++)"
    program = f"void f(double C[900], double A[900]) {{ {loops} C[i] += A[j]; }}"
    (tmp_path / "triangle.c").write_text(program)
    outer = [{"for": "i", "tile": 7}, {"for": "j", "tile": 1}, {"store": "RF", "tensors": ["A"]}]
    nodes = [*outer, {"for": "i", "tile": 1}, {"compute": "S0"}]
    (tmp_path / "m.json").write_text(json.dumps({"nodes": nodes}))
    words = ("evaluate", str(tmp_path / "triangle.c"), "--arch", "flat3", "--mapping", str(tmp_path / "m.json"))
    assert main((*words, "--time-limit", "0.001")) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert "PM490 counting this mapping takes more than 0.001 s" in said.err
    assert "A longer time limit" in said.err
    assert answer_of(capsys, *words)["instances"] == 900 * 901 // 2


def test_an_illegal_mapping_is_answered(capsys: Captured, tmp_path: Path) -> None:
    nodes = [NODES[0], {"par": "m", "tile": 1, "over": "Y"}, *NODES[7:8], {"for": "k", "tile": 1}, NODES[8]]
    (tmp_path / "m.json").write_text(json.dumps({"nodes": nodes}))
    answer = answer_of(capsys, "evaluate", *GEMM, "--arch", "flat3", "--mapping", str(tmp_path / "m.json"))
    assert answer["legal"] is False
    assert [violation["kind"] for violation in answer["violations"]] == ["fanout"]  # type: ignore[union-attr]
    assert answer["instances"] == 4194304


def test_counts_beyond_2_to_the_53_are_texts(capsys: Captured, tmp_path: Path) -> None:
    size = 2**60
    nodes = [{"store": "DRAM", "tensors": ["C", "A"]}, {"for": "m", "tile": 1}, {"compute": "S"}]
    (tmp_path / "m.json").write_text(json.dumps({"nodes": nodes}))
    words = ("evaluate", "C[m] += A[m]", f"m={size}", "--arch", "flat3", "--mapping", str(tmp_path / "m.json"))
    answer = answer_of(capsys, *words)
    assert answer["instances"] == str(size)
    assert {row["reads"] for row in answer["traffic"]} == {0, str(size)}  # type: ignore[union-attr]


def test_explore_proves_and_its_answer_is_a_mapping(capsys: Captured, tmp_path: Path) -> None:
    answer = answer_of(capsys, "explore", *SMALL, "--arch", "flat3", "--tiles", "divide")
    assert (answer["status"], answer["objective"], answer["gap"]) == ("OPTIMAL", "energy", 0)
    assert answer["value"] == answer["bound"] == answer["cost"]["energy_pj"]  # type: ignore[index]
    assert set(answer["space"]) == {"syntactic", "legal", "distinct", "evaluated", "pruned", "listed", "infeasible"}  # type: ignore[call-overload]
    (tmp_path / "best.json").write_text(json.dumps(answer))
    cost = answer_of(capsys, "evaluate", *SMALL, "--arch", "flat3", "--mapping", str(tmp_path / "best.json"))
    assert {name: cost[name] for name in answer["cost"]} == answer["cost"]  # type: ignore[attr-defined]
    assert (cost["schema"], cost["workload"]) == ("polymap.cost/1", answer["workload"])


def test_explore_prints_text_and_writes_the_file(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    assert main(("explore", *SMALL, "--arch", "flat3", "--tiles", "divide", "--json", str(path))) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("OPTIMAL: energy ")
    assert json.loads(path.read_text())["status"] == "OPTIMAL"
    assert printed.err == ""


def test_explore_lists_a_front_by_rising_first_objective(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    nodes: list[dict[str, object]] = [
        {"level": "DRAM", "read_pj": 100, "write_pj": 100},
        {"level": "BUF", "capacity_bits": 256, "read_pj": 2, "write_pj": 2},
        {"compute": "MAC"},
    ]
    path.write_text(json.dumps({"name": "two", "nodes": nodes}))
    wanted = ("--objective", "pareto:traffic:DRAM,capacity:BUF", "--tiles", "divide")
    answer = answer_of(capsys, "explore", *SMALL, "--arch", str(path), *wanted)
    assert answer["status"] == "OPTIMAL"
    front = answer["front"]
    assert isinstance(front, list)
    assert len(front) >= 2
    values = [tuple(point["values"].values()) for point in front]
    assert values == sorted(values)
    assert [value[1] for value in values] == sorted({value[1] for value in values}, reverse=True)
    assert all(point["mapping"]["nodes"] and point["cost"]["legal"] for point in front)
    assert all((point["status"], point["gap"]) == ("OPTIMAL", 0) for point in front)
    assert answer["mapping"] == front[0]["mapping"]
    assert main(("explore", *SMALL, "--arch", str(path), *wanted)) == 0
    assert f"OPTIMAL: pareto:traffic:DRAM,capacity:BUF, {len(front)} points" in capsys.readouterr().out


def test_codegen_writes_a_program_and_runs_it(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "gemm.c"
    words = ("codegen", *SMALL, "--arch", "flat3", "--tiles", "divide", "-o", str(path), "--run")
    answer = answer_of(capsys, *words)
    run = answer["run"]
    assert isinstance(run, dict)
    assert (run["matches_reference"], run["counts_match"]) == (True, True)
    assert run["counted"] == answer["cost"]["traffic"]  # type: ignore[index]
    assert answer["status"] == "OPTIMAL"
    assert path.read_text() == answer["code"]


def test_codegen_prints_the_program_of_a_given_mapping(capsys: Captured, mapping_file: str) -> None:
    assert main(("codegen", *GEMM, "--arch", "flat3", "--mapping", mapping_file)) == 0
    printed = capsys.readouterr()
    assert "int main(" in printed.out
    assert printed.err == ""


def test_check_tells_orders(capsys: Captured) -> None:
    answer = answer_of(capsys, "check", *SMALL)
    orders = answer["orders"]
    assert isinstance(orders, dict)
    assert (orders["total"], orders["strict"], orders["relaxed"]) == (6, 6, 6)
    assert answer["loops"] == ["m", "n", "k"]
    assert answer["parallel"] == {"m": True, "n": True, "k": "reduction"}
    (dependence,) = answer["dependences"]  # type: ignore[misc]
    assert (dependence["kind"], dependence["array"]) == ("reduction", "C")
    assert main(("check", *SMALL)) == 0
    assert "reduction of C" in capsys.readouterr().out


def test_list_shows_what_is_built_in(capsys: Captured) -> None:
    assert main(("list",)) == 0
    text = capsys.readouterr().out
    for name in ("resnet50.conv2_x", "mobilenet_v2", "gpt2", "eyeriss_like", "host_cpu"):
        assert name in text


def test_a_file_that_cannot_be_written_is_known_before_the_search(capsys: Captured, tmp_path: Path) -> None:
    words = ("explore", *SMALL, "--arch", "flat3", "--json", str(tmp_path / "no" / "x.json"))
    assert main(words) == 4
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "PM701" in printed.err


def test_what_nobody_foresaw_is_one_line(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr(cli_commands, "explore", broken)
    monkeypatch.delenv("POLYMAP_TRACEBACK", raising=False)
    assert main(("explore", *SMALL, "--arch", "flat3")) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert "internal error at test_commands.py:" in printed.err
    assert "ZeroDivisionError: a b" in printed.err


def test_interrupting_prints_the_best_so_far(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    from polymap.explore import explore

    def interrupted(workload: object, arch: object, objective: str, **options: object) -> None:
        found = explore(workload, arch, objective, tiles="divide")  # type: ignore[arg-type]
        report = options["on_progress"]
        report(Progress(found.best, found.value, found.bound, 0.5, 1.0))  # type: ignore[operator]
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_commands, "explore", interrupted)
    answer = answer_of(capsys, "explore", *SMALL, "--arch", "flat3", code=130)
    assert (answer["status"], answer["gap"]) == ("FEASIBLE", 0.5)
    assert answer["mapping"] is not None


def test_progress_is_a_line_on_a_terminal_only(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    report = Progress(None, 1234567, 1000000, 0.19, 2.5)
    ProgressLine()(report)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    line = ProgressLine()
    line(report)
    line.clear()
    assert capsys.readouterr().err.startswith("\r" + progress_text(report, "energy"))
    assert progress_text(report) == "best 1,234,567   bound 1,000,000   gap 19.00 %   2.5 s"
    assert progress_text(report, "energy") == "best 1,234,567 pJ   bound 1,000,000 pJ   gap 19.00 %   2.5 s"
    assert progress_text(report, "pareto:latency,energy").startswith("best 1,234,567 cycles")
    assert "bits" in progress_text(report, "traffic:DRAM")
    assert len(progress_text(Progress(None, 1.234567e300, 1.234567e300, 0.5, 99999.9), "ed2p")) < 80
    assert len(progress_text(Progress(None, 999_999_999.0, 999_999_999.0, 0.5, 999.9), "edp")) < 80


def test_progress_in_a_pipe_is_a_line_now_and_then(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_progress, "TUNING", page_progress.TUNING._replace(told_every_s=0.05))
    with ProgressLine("latency") as line:
        time.sleep(0.12)
        line(Progress(None, 12, 10, 0.1, 0.1))
        time.sleep(0.2)
    printed = capsys.readouterr().err.splitlines()
    assert 3 <= len(printed) <= 7
    assert printed[0].startswith("polymap: searching ")
    assert printed[-1].startswith("polymap: best 12 cycles   bound 10 cycles   gap 10.00 %")
    time.sleep(0.15)
    assert capsys.readouterr().err == "", "it is over"


# The real process: streams that are closed or full, signals.


def run(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "polymap", *words]
    return subprocess.run(command, text=True, stderr=subprocess.PIPE, check=False, **options)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("words", [("list",), ("--help",)])
def test_a_reader_that_leaves_is_no_traceback(words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = run(*words, stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (4, "")


def test_a_full_disk_behind_stdout() -> None:
    with open("/dev/full", "w") as full:
        done = run("list", stdout=full)
    assert done.returncode == 4
    assert done.stderr == "polymap: PM702 cannot write to stdout: No space left on device\n"


def test_closed_streams() -> None:
    done = subprocess.run(["/bin/sh", "-c", f"{sys.executable} -m polymap list >&- 2>&-"], check=False)
    assert done.returncode == 4


def test_a_terminal_that_knows_only_ascii() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = run("explore", *SMALL, "--arch", "flat3", "--tiles", "divide", stdout=subprocess.PIPE, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_are_obeyed(number: int) -> None:
    words = [sys.executable, "-m", "polymap", "explore", "resnet50.conv2_x", "--arch", "simba_like", "--json", "-"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(4)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    *progress, last = err.splitlines()
    assert last == "polymap: interrupted"
    assert all(line.startswith("polymap: best ") for line in progress)
    # On a busy machine there may be no mapping yet.
    assert out == "" or json.loads(out)["status"] in ("FEASIBLE", "TIMEOUT")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_command_is_loaded_prints_one_line(number: int) -> None:
    """The package stops itself, as a signal would that comes right after its first lines."""
    code = (
        "import sys, os; sys.argv = ['/bin/polymap']\n"
        "class Sends:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == 'polymap.explore': os.kill(os.getpid(), {int(number)})\n"
        "sys.meta_path.insert(0, Sends()); import polymap"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "polymap: interrupted\n")
