"""A search in parts answers what the search of the whole does, whatever the executor and the number of parts."""

from __future__ import annotations

import json
import random
from concurrent.futures import Future
from typing import Any

import pytest

import polymap as pm
from polymap.explore import search
from polymap.networks import parts as module
from tests.referee.problems import random_problem


class Plain:
    """An executor that runs each question at once, through JSON text; seen: the questions."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def submit(self, fn: Any, /, *args: Any) -> Future[Any]:
        question = json.loads(json.dumps(args[0]))
        self.seen.append(question)
        future: Future[Any] = Future()
        future.set_result(json.loads(json.dumps(fn(question))))
        return future


def unproven(*args: Any, **options: Any) -> pm.SearchResult:
    """Return what a search knows that its first step ends."""
    return search(*args, **{**options, "work_limit": 1})


@pytest.mark.slow
def test_parts_together_have_the_least_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "explore", unproven)
    met = 0
    for seed in range(24):
        rng = random.Random(f"parts {seed}")
        problem = random_problem(rng, most=20_000, tiles="divide")
        if ":" in problem.objective:
            continue
        whole = search(problem.workload, problem.arch, problem.objective, "divide", time_limit_s=60)
        plain = Plain()
        found = pm.explore_in_parts(
            problem.workload, problem.arch, problem.objective, executor=plain, parts=rng.choice((2, 5, 20))
        )
        if not plain.seen:
            continue
        assert (found.status, found.value) == (whole.status, whole.value), seed
        if found.best is not None:
            cost = pm.evaluate(problem.workload, problem.arch, found.best)
            assert cost.legal
            met += 1
    assert met > 4


def test_a_mapping_to_beat_is_no_answer_of_a_part() -> None:
    layer = pm.matmul(m=8, n=8, k=8)
    best = pm.explore(layer, "flat3", tiles="divide")
    from polymap.schedules import mapping_to_document

    question: dict[str, Any] = {"workload": pm.workload_to_document(layer), "arch": "flat3", "tiles": "divide"}
    asked = question | {"to_beat": mapping_to_document(best.best)}
    assert pm.run_question(asked)["status"] == "INFEASIBLE"
    poor = pm.sample_mappings(layer, "flat3", 20, seed=1, within_capacity=True)
    worst = max(poor.mappings, key=lambda mapping: pm.evaluate(layer, "flat3", mapping).energy_pj)
    answer = pm.run_question(question | {"to_beat": mapping_to_document(worst)})
    assert (answer["status"], answer["value"]) == ("OPTIMAL", best.value)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(pm.OptionError, match="executor"):
        pm.explore_in_parts("resnet50.fc", "flat3", executor=object())  # type: ignore[arg-type]
    with pytest.raises(pm.OptionError, match="parts is 0"):
        pm.explore_in_parts("resnet50.fc", "flat3", executor=Plain(), parts=0)
