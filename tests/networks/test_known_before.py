"""What a question is told before it is asked changes how long the answer takes, never the answer."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import polymap as pm
from polymap.inputs import mapping_to_document
from polymap.networks import sweep_run
from polymap.networks.exploration import run_question
from polymap.search import dividing
from tests.referee.problems import random_problem

LAYERS = [pm.conv2d(K=16, C=16, E=14, F=14, R=3, S=3, name="window"), pm.matmul(m=96, n=60, k=48, name="product")]


@pytest.mark.parametrize("tiles", ["divide", "any"])
@pytest.mark.parametrize("text", ["T[a,b] += U[b,a] * U[a,b]", "T[a] += U[a,b] * V[b]"])
def test_a_proof_does_not_depend_on_whether_the_space_is_counted(text: str, tiles: str) -> None:
    nodes = [{"level": "DRAM"}, {"level": "L1", "capacity_bits": 19}, {"level": "L2", "capacity_bits": 16}]
    nodes += [{"fanout": "X", "size": 2}, {"compute": "PE"}]
    asked = {"workload": pm.io.workload_to_document(pm.einsum(text, a=3, b=3, bits=4)), "tiles": tiles}
    asked |= {"arch": pm.io.arch_to_document(pm.io.arch_from_document({"name": "two", "nodes": nodes}))}
    asked |= {"objective": "traffic:DRAM", "time_limit_s": 60}
    told, untold = (run_question(asked | {"counts_space": counted}) for counted in (True, False))
    for name in ("status", "value", "bound"):
        assert told[name] == untold[name], name
    assert told["status"] == "OPTIMAL", "few trees are all looked at"


def question_of(seed: str) -> dict[str, Any] | None:
    """Return a random question about dividing tiles with one value; None for others."""
    problem = random_problem(random.Random(seed), most=20_000, tiles="divide")
    if ":" in problem.objective or "," in problem.objective:
        return None
    documents = {"workload": pm.io.workload_to_document(problem.workload), "arch": pm.io.arch_to_document(problem.arch)}
    return {**documents, "objective": problem.objective, "tiles": "divide", "time_limit_s": 60}


def resumed(question: dict[str, Any], steps: int, most: int = 400) -> tuple[dict[str, Any], int]:
    """Return the answer of a question that is ended after so many steps again and again, each time in what could be
    another process, and how often it was."""
    told: dict[str, Any] = {"work_limit": steps, "keeps_open": True, "counts_space": False}
    for times in range(most):
        answer = json.loads(json.dumps(run_question(question | told)))
        if answer["status"] in ("OPTIMAL", "INFEASIBLE"):
            return answer, times
        if "open" in answer:
            told["open"] = answer["open"]
            told["start"] = answer["mapping"]
        told["work_limit"] += steps
    raise AssertionError("it never ends")


@pytest.mark.parametrize("seeds", [pytest.param(8, marks=pytest.mark.slow), pytest.param(300, marks=pytest.mark.soak)])
def test_a_question_that_goes_on_has_the_answer_of_one_that_was_never_ended(
    seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By tables: products are solved in few steps without them."""
    monkeypatch.setattr(dividing, "best_product_tiles", lambda *_: None)
    went_on = 0
    for seed in range(seeds):
        question = question_of(f"goes on {seed}")
        if question is None:
            continue
        whole = run_question(question)
        answer, times = resumed(question, 2)
        assert (answer["status"], answer["value"]) == (whole["status"], whole["value"]), seed
        went_on += times > 2
    assert went_on > seeds // 6


@pytest.mark.parametrize("seeds", [pytest.param(8, marks=pytest.mark.slow), pytest.param(300, marks=pytest.mark.soak)])
def test_a_start_and_a_bound_change_no_value(seeds: int) -> None:
    told = 0
    for seed in range(seeds):
        question = question_of(f"told {seed}")
        if question is None:
            continue
        whole = run_question(question)
        if whole["mapping"] is None:
            continue
        workload, arch = pm.io.workload_from_document(question["workload"]), pm.io.arch_from_document(question["arch"])
        drawn = pm.sample_mappings(workload, arch, 10, seed=seed, within_capacity=True, tiles="divide").mappings
        for start in (*(mapping_to_document(one) for one in drawn[:2]), whole["mapping"]):
            answer = run_question(question | {"start": start, "counts_space": False})
            assert (answer["status"], answer["value"]) == ("OPTIMAL", whole["value"]), seed
            told += 1
        if isinstance(whole["value"], int):
            answer = run_question(question | {"least": [whole["value"], 1]})
            assert (answer["status"], answer["value"]) == ("OPTIMAL", whole["value"]), seed
    assert told > seeds


@pytest.mark.slow
def test_a_later_sweep_goes_on_where_a_limit_ended_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machines = {
        "base": "flat3",
        "grid": {"RF.capacity_bits": [256, 4096], "GLB.capacity_bits": [1 << 14, 1 << 17]},
    }
    undisturbed = pm.sweep(LAYERS, machines, tiles="divide")
    asked: list[dict[str, Any]] = []

    def limited(document: dict[str, Any]) -> dict[str, Any]:
        asked.append(document)
        return run_question(document | ({"work_limit": 30} if document["time_limit_s"] <= 1 else {}))

    monkeypatch.setattr(sweep_run, "run_question", limited)
    store = tmp_path / "runs.sqlite"
    first = pm.sweep(LAYERS, machines, tiles="divide", store=store, time_limit_s=1)
    assert "FEASIBLE" in [row.status for row in first.rows]
    asked.clear()
    second = pm.sweep(LAYERS, machines, tiles="divide", store=store, time_limit_s=60)
    assert [(row.status, row.value) for row in second.rows] == [(row.status, row.value) for row in undisturbed.rows]
    assert any("open" in each and each["time_limit_s"] < 60 for each in asked)
    for early, late in zip(first.rows, second.rows, strict=True):
        assert early.value is None or late.value is None or late.value <= early.value


@pytest.mark.parametrize(
    ("told", "named"),
    [
        ({"least": 3}, "least is 3"),
        ({"least": [1, 0]}, "least is"),
        ({"open": {"queue": []}}, "open is"),
        ({"open": {"listed": 1, "bounded": 2, "queue": [], "searched": [], "refuted": []}}, "open is"),
        ({"open": {"listed": 1, "bounded": 1, "queue": [[1, 5, 0]], "searched": [], "refuted": []}}, "open is"),
        ({"open": {"listed": 1, "bounded": 1, "queue": [3], "searched": [], "refuted": []}}, "open is"),
    ],
)
def test_what_cannot_be_known_is_named(told: dict[str, Any], named: str) -> None:
    question = {"workload": "resnet50.fc", "arch": "flat3", "tiles": "divide", "time_limit_s": 5}
    with pytest.raises(pm.errors.OptionError, match=named):
        pm.study.run_question(question | told)


def test_a_start_must_be_legal_there() -> None:
    layer = pm.matmul(m=64, n=64, k=64)
    best = pm.explore(layer, "flat3", tiles="divide")
    assert best.best is not None
    machine: dict[str, Any] = pm.io.arch_to_document(best.arch)
    for node in machine["nodes"]:
        if node.get("level") == "RF":
            node["capacity_bits"] = 48
    question = {"workload": pm.io.workload_to_document(layer), "arch": machine, "tiles": "divide"}
    with pytest.raises(pm.errors.OptionError, match="not legal"):
        pm.study.run_question(question | {"start": mapping_to_document(best.best)})
