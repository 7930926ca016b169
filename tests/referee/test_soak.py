"""The long tally tells the truth: it finds nothing in a short stretch, and finds a counter that is wrong."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from polymap.costmodel.closed_form import count_closed_form
from polymap.costmodel.simulate import count_by_simulation
from polymap.schedules.check import check_mapping, placement_violations
from tests import soak
from tests.case_crossed import random_crossed_case


def test_a_short_stretch_is_right_and_is_tallied() -> None:
    tally = soak.tally_of(0, 48, 8)
    assert tally.wrong == []
    assert tally.cases == sum(tally.closed.values()) == 48
    assert tally.closed["equal"] > 24
    assert tally.sets["equal"] == 8
    text = soak.text(tally, 1.0)
    assert text.startswith("48 random cases in 1 s\n\nclosed form against the simulator: 48 asked, ")
    assert "sets        against the simulator: 8 asked, 8 equal to the last word, 0 wrong, 0 left to others" in text
    assert "pairs of features: " in text


def test_stretches_add_up() -> None:
    whole, parts = soak.tally_of(0, 16, 0), soak.tally_of(0, 8, 0)
    parts.add(soak.tally_of(8, 8, 0))
    assert parts == whole
    assert soak.run(16, float("inf"), 0, 0, 1) == whole


def test_a_run_goes_on_with_the_tally_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "CHUNK", 8)
    kept = tmp_path / "tally.json"
    soak.run(16, float("inf"), 5, 3, 1, kept)
    calls: list[int] = []
    honest = soak.tally_of

    def noted(first: int, count: int, sets_every: int) -> soak.Tally:
        calls.append(first)
        return honest(first, count, sets_every)

    monkeypatch.setattr(soak, "tally_of", noted)
    assert soak.run(24, float("inf"), 5, 3, 1, kept) == honest(5, 24, 3)
    assert calls == [21]
    with pytest.raises(SystemExit, match="other seeds"):
        soak.run(24, float("inf"), 6, 3, 1, kept)
    monkeypatch.setattr(soak, "counters_version", lambda: "another")
    with pytest.raises(SystemExit, match="another version"):
        soak.run(24, float("inf"), 5, 3, 1, kept)


def test_several_workers_leave_no_stretch_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "CHUNK", 4)
    assert soak.run(18, float("inf"), 0, 0, 2) == soak.tally_of(0, 18, 0)


def test_a_wrong_counter_is_found_and_its_seed_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_step_more(*subject: object) -> object:
        counts = count_closed_form(*subject)  # type: ignore[arg-type]  # passed on
        return counts and replace(counts, steps=counts.steps + 1)

    monkeypatch.setattr(soak, "count_closed_form", one_step_more)
    tally = soak.tally_of(0, 16, 0)
    assert tally.closed["wrong"] > 8
    assert (0, "closed form") in tally.wrong
    assert "WRONG: seed 0, closed form" in soak.text(tally, 1.0)


def test_crossed_cases_are_readable_and_small() -> None:
    for seed in range(100):
        case = random_crossed_case(random.Random(seed))
        check_mapping(case.workload, case.arch, case.mapping)
        assert placement_violations(case.workload, case.arch, case.mapping) == ()
        counts = count_by_simulation(case.workload, case.arch, case.mapping)
        assert 0 <= counts.steps <= counts.instances <= 1000
