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
from polymap.networks.exploration import run_question
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


class Dealt(Exception):
    """The first questions are dealt."""


class FirstRound(Plain):
    """An executor that answers no question."""

    def submit(self, fn: Any, /, *args: Any) -> Future[Any]:
        self.seen.append(json.loads(json.dumps(args[0])))
        future: Future[Any] = Future()
        future.set_exception(Dealt())
        return future


def a_little(*args: Any, **options: Any) -> pm.SearchResult:
    """Return what a search knows that a few steps end."""
    return search(*args, **{**options, "work_limit": 2})


def answered_a_little(rng: random.Random) -> Any:
    """Return what answers questions after few steps, as if their time were short."""
    return lambda question: run_question(question | {"work_limit": rng.choice((2, 20, 1000))})


@pytest.mark.parametrize("seeds", [pytest.param(8, marks=pytest.mark.slow), pytest.param(300, marks=pytest.mark.soak)])
def test_parts_together_have_the_least_value(seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "explore", a_little)
    met = rounds = 0
    for seed in range(seeds):
        rng = random.Random(f"parts {seed}")
        monkeypatch.setattr(module, "run_question", answered_a_little(rng))
        problem = random_problem(rng, most=20_000, tiles="divide")
        if ":" in problem.objective or "," in problem.objective:
            continue
        whole = search(problem.workload, problem.arch, problem.objective, "divide", time_limit_s=60)
        plain = Plain()
        parts = rng.choice((2, 5, 20))
        found = pm.study.explore_in_parts(
            problem.workload, problem.arch, problem.objective, executor=plain, parts=parts, time_limit_s=10**6
        )
        assert (found.status, found.value) == (whole.status, whole.value), seed
        if found.best is not None:
            assert pm.evaluate(problem.workload, problem.arch, found.best).legal
            met += bool(plain.seen)
        rounds += len({question["time_limit_s"] for question in plain.seen}) > 1
    assert met > seeds // 4
    assert rounds > seeds // 8


@pytest.mark.slow
def test_a_round_hears_of_the_best_mapping_and_no_entry_is_dealt_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "explore", lambda *args, **options: search(*args, **{**options, "work_limit": 1600}))
    machine: dict[str, Any] = pm.io.arch_to_document(pm.load_arch("flat3"))
    for node in machine["nodes"]:
        node.update({"GLB": {"capacity_bits": 1 << 18}, "RF": {"capacity_bits": 512}}.get(node.get("level"), {}))
    arch = pm.io.arch_from_document(machine)
    executor = FirstRound()
    with pytest.raises(Dealt):
        pm.study.explore_in_parts("resnet50.conv2_x", arch, executor=executor, parts=4, time_limit_s=10**6)
    first = executor.seen
    assert len(first) == 4
    entries = [json.dumps(entry) for question in first for entry in question["open"]["queue"]]
    assert len(entries) == len(set(entries)) > 4
    assert len({json.dumps(question["start"]) for question in first}) == 1


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(pm.errors.OptionError, match="executor"):
        pm.study.explore_in_parts("resnet50.fc", "flat3", executor=object())  # type: ignore[arg-type]
    with pytest.raises(pm.errors.OptionError, match="parts is 0"):
        pm.study.explore_in_parts("resnet50.fc", "flat3", executor=Plain(), parts=0)
