"""Answers about programs that the search rewrote are read back whole, and refused where they are no rewriting."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import polymap as pm
from polymap.cli.command_line import main
from polymap.inputs import parse_json
from polymap.search import result_document, result_from_document

STENCILS = """void f(double A[10][10], double C[10][10]%s) {%s
  for (int i = 1; i < 9; i++)
    for (int j = 1; j < 9; j++) B[i][j] = A[i][j] + A[i-1][j] + A[i+1][j];
  for (int i = 2; i < 8; i++)
    for (int j = 2; j < 8; j++) C[i][j] = B[i][j] + B[i-1][j] + B[i+1][j];
}"""
PROGRAMS = {
    "shifted": STENCILS % (", double B[10][10]", ""),
    "folded": STENCILS % ("", " double B[10][10];"),
    "skewed": """void f(double A[40], double B[40]) {
  for (int t = 0; t < 8; t++) {
    for (int i = 1; i < 39; i++) B[i] = A[i - 1] + A[i] + A[i + 1];
    for (int i = 1; i < 39; i++) A[i] = B[i - 1] + B[i] + B[i + 1];
  }
}""",
    "triangular": """void f(double A[8][8], double x[8], double y[8]) {
  for (int i = 0; i < 8; i++)
    for (int j = 0; j <= i; j++) x[i] = x[i] * A[i][j];
  for (int k = 0; k < 8; k++)
    for (int j = 0; j <= k; j++) y[k] = y[k] * A[k][j] + x[k];
}""",
}
PROGRAMS["expanded"] = """void f(double A[8][8], double B[8][9], double C[8][9]) {
  double t;
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < 9; j++) {
      t = 0;
      for (int k = 0; k < i; k++) {
        C[k][j] += B[i][j] * A[i][k];
        t += B[k][j] * A[i][k];
      }
      C[i][j] += B[i][j] * A[i][i] + t;
    }
}"""


def machine(name: str) -> dict[str, object]:
    """Return the machine that a program runs on: what is folded needs a small buffer to pay."""
    energies = {"word_bits": 64, "read_pj": 100, "write_pj": 100}
    buffer = {"capacity_bits": 512 if name == "folded" else 2048, "word_bits": 64, "read_pj": 1, "write_pj": 1}
    nodes = [{"level": "DRAM", **energies}, {"level": "GLB", **buffer}, {"compute": "MAC", "pj": 1}]
    return {"name": "two", "nodes": nodes}


@pytest.fixture(scope="module")
def answers() -> dict[str, pm.SearchResult]:
    found: dict[str, pm.SearchResult] = {}
    for name, text in PROGRAMS.items():
        arch = pm.io.arch_from_document(machine(name))
        found[name] = pm.explore(pm.from_c(text), arch, "traffic:DRAM", time_limit_s=60, work_limit=150)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_answers_about_rewritten_programs_are_read_back_whole(
    name: str, answers: dict[str, pm.SearchResult], tmp_path: Path
) -> None:
    found = answers[name]
    assert found.workload != pm.from_c(PROGRAMS[name])
    found.save(tmp_path / "run.json")
    document = json.loads((tmp_path / "run.json").read_text())
    rewritten = document["workload"]["rewritten"]
    assert ("folded" in rewritten, "expanded" in rewritten) == (name in ("folded", "expanded"), name == "expanded")
    jsonschema.validate(document, _schema())
    loaded = pm.load_result(tmp_path / "run.json")
    assert (loaded, loaded.workload, loaded.arch) == (found, found.workload, found.arch)
    assert loaded.c() == found.c()
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "run.json").read_text()


def _schema() -> Any:
    return json.loads((Path(pm.__file__).parent / "schemas" / "result.json").read_text())


FORGED = [
    ("shifted", "statements.1.counters.i_2", "i-1", "PM613 .*each instance once"),
    ("shifted", "statements.1.constraints", [], "PM613 .*each instance once"),
    ("shifted", "statements.1.position", [0, 0, 0], "PM"),
    ("shifted", "statements.0.position", [5, 0, 0], "PM613 .*order that keeps dependences"),
    ("shifted", "statements.1.statement", "S0", "PM112 .*counters"),
    ("shifted", "statements.0.dims", ["j", "x"], "PM113 .*dims"),
    ("shifted", "statements.0.counters", {"i": "i"}, "PM112 .*counters"),
    ("shifted", "statements.0.counters.i", "i*j", "PM112 .*counters: i is 'i\\*j'"),
    ("shifted", "statements.0.counters.i", "floor((i)/0)", "PM112 .*floor"),
    ("shifted", "statements.0.counters.i", "floor((" * 900 + "i", "PM112"),
    ("shifted", "statements.0.counters.i", "9" * 3999 + "*i", "PM112"),
    ("shifted", "dims.i", 10**9, "PM613 .*too many statement instances"),
    ("shifted", "dims.i", 0, "PM113 .*i is 0"),
    ("shifted", "folded", {"B": [3, 1]}, "PM613 .*loses values of B"),
    ("folded", "folded.B", [1, 1], "PM613 .*loses values of B"),
    ("folded", "folded.B", [1], "PM112 .*folded"),
    ("folded", "folded", {"Z": [1]}, "PM112 .*folded"),
    ("skewed", "statements.0.counters.i", "t1-t", "PM613 .*each instance once"),
]


@pytest.mark.parametrize(("name", "path", "value", "message"), FORGED)
def test_programs_that_are_no_rewriting_are_refused(
    name: str, path: str, value: object, message: str, answers: dict[str, pm.SearchResult]
) -> None:
    with pytest.raises(pm.PolymapError, match=f"(?s){message}"):
        result_from_document(_changed(answers[name], f"workload.rewritten.{path}", value))


def test_costs_of_small_rewritten_programs_are_counted_again(answers: dict[str, pm.SearchResult]) -> None:
    with pytest.raises(pm.errors.InputError, match=r"PM613 .*latency_cycles is not what the mapping has"):
        result_from_document(_changed(answers["skewed"], "cost.latency_cycles", 7))


def test_the_command_line_refuses_a_forged_answer_in_one_line(
    answers: dict[str, pm.SearchResult], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    document: Any = json.loads(json.dumps(result_document(answers["folded"])))
    document["workload"]["rewritten"]["folded"]["B"] = [1, 1]
    path.write_text(json.dumps(document))
    (tmp_path / "f.c").write_text(PROGRAMS["folded"])
    (tmp_path / "two.json").write_text(json.dumps(machine("folded")))
    asked = ["evaluate", str(tmp_path / "f.c"), "--arch", str(tmp_path / "two.json"), "--mapping", str(path)]
    assert main(asked) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_any_value_of_a_rewritten_program_may_be_damaged(answers: dict[str, pm.SearchResult]) -> None:
    """Loaded as an equal workload or refused with a PolymapError, whatever stands there."""
    values = (None, -1, "text", [], {}, True, 10**30, 2, "i", "0", "-i-j", 1.5)
    draw = random.Random(5)
    for name in ("folded", "skewed"):
        table = result_document(answers[name])["workload"]
        for path in _paths(table["rewritten"]):  # type: ignore[index]
            for value in draw.sample(values, 1):
                with contextlib.suppress(pm.PolymapError):
                    found = result_from_document(_changed(answers[name], f"workload.rewritten.{path}", value))
                    assert found.cost == answers[name].cost


def _changed(answer: pm.SearchResult, path: str, value: object) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(result_document(answer)))
    place: Any = copied
    *before, last = (int(part) if part.isdigit() else part for part in path.split("."))
    for part in before:
        place = place[part]
    place[last] = value
    found: Any = parse_json(json.dumps(copied), "the answer")
    return found


def _paths(value: object, before: str = "") -> list[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [each for key, inner in items for each in (f"{before}{key}", *_paths(inner, f"{before}{key}."))]
