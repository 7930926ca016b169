"""A result knows its question: it explains, tabulates, saves and loads itself, and needs nothing beside it."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import json
import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import polymap as pm
from polymap.report import results as page
from polymap.search import reading
from tests.times import few

SMALL = pm.conv2d(K=4, C=3, H=6, W=6, R=3, S=3, padding=1, name="small")
PRIME = pm.matmul(m=1, n=1, k=1009)
FLAT = pm.load_arch("flat3")
C_TEXT = """double A[8][8], b[8], x[8];
#pragma scop
for (int i = 0; i < N; i++)
  for (int j = 0; j <= i; j++)
    x[i] += A[i][j] * b[j];
#pragma endscop
"""
ASKED: dict[str, Callable[[], pm.SearchResult]] = {
    "dividing": lambda: pm.explore(SMALL, FLAT, tiles="divide", seed=3),
    "any": lambda: pm.explore(pm.matmul(m=6, n=5, k=4), FLAT, time_limit_s=5),
    "front": lambda: pm.explore(SMALL, FLAT, "pareto:energy,latency", tiles="divide"),
    "order": lambda: pm.explore(SMALL, FLAT, "lex:latency,energy", tiles="divide"),
    "constrained": lambda: pm.explore(SMALL, FLAT, tiles="divide", constraints={"innermost": ["k"]}),
    "infeasible": lambda: pm.explore(PRIME, FLAT, tiles="divide", constraints={"limits": {"latency": 1}}),
    "program": lambda: pm.explore(pm.from_c(C_TEXT, {"N": 8}), FLAT, time_limit_s=3),
    "large": lambda: pm.explore(pm.matmul(m=2**40, n=2**30, k=1), FLAT, tiles="divide", time_limit_s=3),
}


class Answers(dict[str, pm.SearchResult]):
    """Each question is asked when a test first wants its answer."""

    def __missing__(self, name: str) -> pm.SearchResult:
        return self.setdefault(name, ASKED[name]())


@pytest.fixture(scope="module")
def answers() -> dict[str, pm.SearchResult]:
    return Answers()


@pytest.mark.parametrize("name", ASKED)
def test_a_saved_result_is_equal_when_it_is_loaded(
    name: str, answers: dict[str, pm.SearchResult], tmp_path: Path
) -> None:
    result = answers[name]
    result.save(tmp_path / "run.json")
    loaded = pm.load_result(tmp_path / "run.json")
    assert loaded == result
    assert loaded.workload == result.workload
    assert loaded.arch == result.arch
    assert loaded.settings == result.settings
    if result.cost is not None:
        assert loaded.cost.energy_pj_exact == result.cost.energy_pj_exact
        assert loaded.cost.mapping == result.best
        assert loaded.explain() == result.explain()
        if name != "large":
            assert loaded.c() == result.c()
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "run.json").read_text()


@pytest.mark.parametrize("name", ASKED)
def test_results_are_pickled_whole(name: str, answers: dict[str, pm.SearchResult]) -> None:
    copied = pickle.loads(pickle.dumps(answers[name]))
    assert copied == answers[name]
    assert copied.settings == answers[name].settings
    assert str(copied) == str(answers[name])


def test_a_notebook_shows_sizes_trips_statement_traffic_and_proof(answers: dict[str, pm.SearchResult]) -> None:
    page_text = answers["dividing"]._repr_html_()
    for part in ("<svg ", "O[n,k,p,q] +=", "<table>", "Proven: no legal mapping with tiles that divide is better"):
        assert part in page_text, part
    assert "small on flat3" in page_text
    assert "energy" in page_text
    front = answers["front"]._repr_html_()
    assert "beats a point of the front" in front
    assert front.count("<svg ") == 2
    assert "latency" in answers["infeasible"]._repr_html_()
    cost = answers["dividing"].cost
    assert "<svg " in cost._repr_html_()
    assert "O[n,k,p,q] +=" in str(cost)


def test_tables_hold_the_traffic_the_points_or_nothing(
    answers: dict[str, pm.SearchResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    cost = answers["dividing"].cost
    frame = answers["dividing"].table()
    assert list(frame.columns) == ["level", "tensor", "reads", "writes", "fills", "drains", "bits", "energy_pj"]
    assert len(frame) == len(cost.traffic)
    compute = dict(cost.energy_by_level_pj)[FLAT.compute.name]
    assert frame["energy_pj"].sum() + compute == pytest.approx(cost.energy_pj)
    assert list(answers["front"].table()["energy"]) == [point.value for point in answers["front"].front]
    assert len(answers["infeasible"].table()) == 0
    hide_pandas(monkeypatch)
    rows = answers["dividing"].table()
    assert isinstance(rows, list)
    assert rows[0]["level"] == "DRAM"


def hide_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def hidden(name: str, *others: Any, **more: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return found(name, *others, **more)

    monkeypatch.setattr(builtins, "__import__", hidden)


def test_show_prints_where_there_is_no_notebook(
    answers: dict[str, pm.SearchResult], capsys: pytest.CaptureFixture[str]
) -> None:
    answers["dividing"].show()
    printed = capsys.readouterr().out
    assert printed == f"{answers['dividing']}\n"
    assert "one instance holds" in printed


def test_without_a_mapping_the_reason_is_told(answers: dict[str, pm.SearchResult]) -> None:
    none = answers["infeasible"]
    assert "these clash" in none.explain()
    with pytest.raises(pm.errors.OptionError, match="PM573 this INFEASIBLE answer has no mapping"):
        none.c()


def test_curves_and_comparisons_know_their_question(tmp_path: Path) -> None:
    layer = pm.matmul(m=8, n=8, k=8)
    curve = pm.study.buffer_curve(layer, FLAT, "GLB", [512, 4096], time_limit_s=4)
    assert (curve.workload, curve.arch) == (layer, FLAT)
    assert list(curve.table()["capacity_bits"]) == [512, 4096]
    assert pickle.loads(pickle.dumps(curve)) == curve
    curve.save(tmp_path / "curve.json")
    document = json.loads((tmp_path / "curve.json").read_text())
    assert (document["schema"], document["workload"]["sizes"]) == ("polymap.curve/1", {"m": 8, "n": 8, "k": 8})
    families = pm.compare(layer, FLAT, ["WS", "optimum"], time_limit_s=4)
    assert list(families.table()["family"]) == ["weight-stationary", "optimum"]
    families.save(tmp_path / "families.json")
    assert json.loads((tmp_path / "families.json").read_text())["members"][1]["status"] == "OPTIMAL"


def test_a_cost_saves_itself_with_its_question(answers: dict[str, pm.SearchResult], tmp_path: Path) -> None:
    cost = answers["dividing"].cost
    cost.save(tmp_path / "cost.json")
    document = json.loads((tmp_path / "cost.json").read_text())
    assert document["schema"] == "polymap.cost/1"
    assert pm.io.mapping_from_document(document) == answers["dividing"].best
    assert cost.explain() in answers["dividing"].explain()
    assert cost.c() == answers["dividing"].c()
    assert pm.load_result(tmp_path / "cost.json") == cost


def test_energies_that_no_decimal_says_survive(tmp_path: Path) -> None:
    thirds = pm.Architecture(
        "thirds",
        (
            pm.MemoryLevel("DRAM", read_pj=Fraction(200, 3), write_pj=Fraction(1, 7)),
            pm.MemoryLevel("RF", 4096, read_pj=Fraction(1, 3)),
            pm.ComputeUnit("MAC"),
        ),
    )
    result = pm.explore(pm.matmul(m=4, n=4, k=4), thirds, tiles="divide")
    result.save(tmp_path / "run.json")
    loaded = pm.load_result(tmp_path / "run.json")
    assert loaded.value == result.value
    assert loaded.best == result.best


def changed(document: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """Return a copy of a document with the field at `path` ("cost.traffic.0.reads") set, or removed for `...`."""
    copied = json.loads(json.dumps(document))
    place: Any = copied
    *before, last = (int(part) if part.isdigit() else part for part in path.split("."))
    for part in before:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return copied


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("schema", "polymap.result/2", "PM612"),
        ("schema", ..., "PM611"),
        ("workload", ..., "PM111 .*'workload'"),
        ("workload.sizes.k", "x", "PM2"),
        ("workload", {"name": "x", "text": "..."}, "PM611 .*no document says"),
        ("arch.nodes.0.capacity_bits", 8, "PM303"),
        ("surprise", 1, "PM110 .*'surprise'"),
        ("status", "BEST", "PM113 .*status"),
        ("value", [1], "PM112 .*value"),
        ("value", "1e5", "PM112 .*value"),
        ("options.seed", -1, "PM113 .*seed"),
        ("mapping.nodes.0.store", "L7", "PM40"),
        ("mapping.nodes", [], "PM"),
        ("cost", None, "PM112 .*cost is null"),
        ("cost.traffic.0.reads", 17, "PM613 .*DRAM"),
        ("cost.traffic.0.level", "L7", "PM112 .*level is 'L7'"),
        ("cost.energy_by_level_pj.GLB", 1.5, "PM613 .*GLB"),
        ("cost.traffic.0.fills", 17, "PM613 .*traffic is not what"),
        ("cost.latency_cycles", 1, "PM613 .*latency_cycles is not what"),
        ("cost.occupancy_bits.GLB", 1, "PM613 .*occupancy_bits is not what"),
        ("cost.energy_pj", 1.5, "PM613 .*energy_pj is not what"),
        ("value", 1.5, "PM613 .*the value is 1.5 of a legal mapping with energy"),
        ("bound", 1.5, "PM613 .*the status is OPTIMAL and the gap 0.0"),
        ("bound", "1" + "0" * 400, "PM613 .*bounds"),
        ("gap", 0.5, "PM613 .*the gap 0.5"),
        ("status", "TIMEOUT", "PM613 .*the status is TIMEOUT, and there is a mapping"),
        ("objective", "latency", "PM613 .*with latency"),
        ("objective", "traffic:L7", "PM5"),
        ("cost.traffic", {}, "PM112 .*traffic"),
        ("cost.violations", [1], "PM112 .*violations"),
        ("space", None, "PM112 .*space"),
        ("space.legal", "many", "PM112 .*legal"),
        ("clash", 3, "PM112 .*clash"),
    ],
)
def test_damaged_results_are_refused_by_name(
    path: str, value: object, message: str, answers: dict[str, pm.SearchResult], tmp_path: Path
) -> None:
    answers["dividing"].save(tmp_path / "run.json")
    document = changed(json.loads((tmp_path / "run.json").read_text()), path, value)
    (tmp_path / "run.json").write_text(json.dumps(document))
    with pytest.raises(pm.errors.InputError, match=f"(?s){message}"):
        pm.load_result(tmp_path / "run.json")


@pytest.mark.parametrize("shift", few((0, 3), 1))
def test_every_field_of_a_result_may_be_damaged(
    shift: int, answers: dict[str, pm.SearchResult], tmp_path: Path
) -> None:
    """Any one value replaced by any other kind: loaded, or refused with a PolymapError."""
    answers["order"].save(tmp_path / "run.json")
    document = json.loads((tmp_path / "run.json").read_text())
    values = (None, -1, "text", [], {}, ..., True, 10**30)
    for number, path in enumerate(paths_of(document)):
        with contextlib.suppress(pm.PolymapError):
            reading.result_from_document(changed(document, path, values[(number + shift) % 8]))


def paths_of(value: object, before: str = "") -> list[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found: list[str] = []
    for key, inner in items:
        if "." not in str(key):
            found += [f"{before}{key}", *paths_of(inner, f"{before}{key}.")]
    return found


def test_a_file_that_cannot_be_written_is_told(answers: dict[str, pm.SearchResult], tmp_path: Path) -> None:
    with pytest.raises(pm.errors.OutputError, match="PM701 cannot write"):
        answers["dividing"].save(tmp_path / "none" / "run.json")
    with pytest.raises(pm.errors.OutputError, match="PM701"):
        answers["dividing"].save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_costs_that_know_no_mapping_say_so() -> None:
    cost = pm.evaluate(SMALL, FLAT, pm.explore(SMALL, FLAT, tiles="divide").best)
    bare = dataclasses.replace(cost, mapping=None)
    with pytest.raises(pm.errors.OptionError, match="PM496"):
        bare.explain()
    assert page.frame([]) is not None
