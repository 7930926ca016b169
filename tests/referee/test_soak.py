"""The long tally tells the truth: it finds nothing in a fixed sample, and finds counters that are wrong."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from polymap.costmodel.assembly import assemble
from polymap.costmodel.closed_form.counts import count_closed_form
from polymap.costmodel.counts import Counts, LevelUse, Traffic
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.costmodel.tables.cost_arrays import evaluate_many
from polymap.ir.machine import Architecture, ComputeUnit, MemoryLevel
from polymap.schedules.check import check_mapping, placement_violations
from polymap.workload.einsums import einsum
from tests import soak
from tests.case_chains import input_window_case, output_window_case, random_chain_case
from tests.case_crossed import random_crossed_case
from tests.case_features import LONG_FEATURES
from tests.case_machines import cost_of
from tests.case_programs import random_program_case
from tests.case_scaled import random_family, without_busiest
from tests.cases import Case
from tests.times import few

ASKED = soak.Asked(first=5, sets_every=0)
STRETCH = 160


@pytest.mark.slow
@pytest.mark.parametrize("number", few(range(10), 1))
def test_a_fixed_sample_of_the_tally_is_right(number: int) -> None:
    tally = soak.tally_of(number * STRETCH, STRETCH, 10)
    assert tally.wrong == []
    assert tally.cases == STRETCH
    assert sum(tally.outcomes["closed form"].values()) == STRETCH - tally.unknown
    assert tally.outcomes["closed form"]["equal"] > STRETCH // 3
    assert tally.outcomes["sets"]["equal"] >= soak.KINDS - 2


@pytest.mark.slow
def test_the_sample_meets_every_feature_that_only_the_tally_draws() -> None:
    met = Counter(name for seed in range(5 * STRETCH) for name in soak.case_of(seed).features)
    assert {name for name in LONG_FEATURES if met[name] < 3} == set()


def test_what_agreed_is_told() -> None:
    text = soak.text(soak.tally_of(0, 4, 1))
    assert text.startswith(
        "4 random cases in 0 s (0 too large for a truth)\n\nclosed form    against the simulator: 4 "
    )
    assert "sets           against the simulator: 4 asked, 4 equal to the last word, 0 wrong, 0 left to others" in text
    assert "pairs of features: " in text
    assert " ms a case: simulator" in text


def test_stretches_add_up() -> None:
    whole, parts = soak.tally_of(0, 16, 0), soak.tally_of(0, 8, 0)
    parts.add(soak.tally_of(8, 8, 0))
    assert parts == whole
    assert soak.run(16, float("inf"), soak.Asked(0, 0), 1) == whole


def test_a_run_goes_on_with_the_tally_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "CHUNK", 8)
    kept = tmp_path / "new folder" / "tally.json"
    first = soak.run(16, float("inf"), ASKED, 1, kept)
    calls: list[int] = []
    honest = soak.tally_of

    def noted(first: int, *rest: int) -> soak.Tally:
        calls.append(first)
        return honest(first, *rest)

    monkeypatch.setattr(soak, "tally_of", noted)
    again = soak.run(24, float("inf"), ASKED, 1, kept)
    assert again == honest(5, 24, 0)
    assert calls == [21]
    assert again.wall > first.wall
    with pytest.raises(SystemExit, match="other seeds"):
        soak.run(24, float("inf"), replace(ASKED, first=6), 1, kept)
    monkeypatch.setattr(soak, "counters_version", lambda: "another")
    with pytest.raises(SystemExit, match="another version"):
        soak.run(24, float("inf"), ASKED, 1, kept)


def test_an_interrupted_run_keeps_its_stretches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(soak, "CHUNK", 4)
    kept = tmp_path / "tally.json"
    honest = soak.tally_of

    def interrupted(first: int, *rest: int) -> soak.Tally:
        if first >= 13:
            raise KeyboardInterrupt
        return honest(first, *rest)

    monkeypatch.setattr(soak, "tally_of", interrupted)
    assert soak.run(12, float("inf"), ASKED, 1, kept).cases == 8
    assert "the same command goes on" in capsys.readouterr().err
    monkeypatch.setattr(soak, "tally_of", honest)
    assert soak.run(12, float("inf"), ASKED, 1, kept) == honest(5, 12, 0)


@pytest.mark.slow
def test_several_workers_leave_no_stretch_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "CHUNK", 4)
    assert soak.run(18, float("inf"), soak.Asked(0, 0), 2) == soak.tally_of(0, 18, 0)


def one_step_more(*subject: object) -> object:
    counts = count_closed_form(*subject)  # type: ignore[arg-type]  # passed on
    return counts and replace(counts, steps=counts.steps + 1)


def a_word_more(*subject: object) -> object:
    counts = count_by_simulation(*subject)  # type: ignore[arg-type]  # passed on
    row = counts.traffic[0]
    return replace(counts, traffic=(replace(row, reads=row.reads + 1), *counts.traffic[1:]))


def a_cycle_more(*subject: object) -> object:
    cost = assemble(*subject)  # type: ignore[arg-type]  # passed on
    return replace(cost, latency_cycles=cost.latency_cycles + 1)


def more_energy(*subject: object) -> object:
    arrays = evaluate_many(*subject)  # type: ignore[arg-type]  # passed on
    return replace(arrays, energy_pj=arrays.energy_pj * 1.0000001 + 1)


@pytest.mark.parametrize(
    ("name", "counter", "wrong"),
    [
        ("count_closed_form", "closed form", one_step_more),
        ("counts_of_sets", "sets", a_word_more),
        ("assemble", "cost", a_cycle_more),
        ("evaluate_many", "table of tiles", more_energy),
    ],
)
def test_a_wrong_counter_is_found_and_its_seed_told(
    name: str, counter: str, wrong: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak, name, wrong)
    tally = soak.tally_of(0, 5, 1, 1)
    assert tally.outcomes[counter]["wrong"] >= 2
    assert (0, counter) in tally.wrong
    assert f"WRONG: seed 0, {counter}" in soak.text(tally)


@pytest.mark.parametrize(
    "draw", [random_crossed_case, random_chain_case, output_window_case, input_window_case, random_program_case]
)
def test_cases_are_readable_and_small(draw: Callable[[random.Random], Case]) -> None:
    for seed in range(60):
        case = draw(random.Random(seed))
        check_mapping(case.workload, case.arch, case.mapping)
        assert placement_violations(case.workload, case.arch, case.mapping) == ()
        counts = count_by_simulation(case.workload, case.arch, case.mapping)
        assert 0 <= counts.steps <= counts.instances <= 1000


def test_larger_members_of_a_family_lie_on_the_line_of_the_small_ones() -> None:
    told = 0
    for seed in range(40):
        family = random_family(random.Random(seed))
        m = family.least() + 3 + seed % 4
        truth = family.truth(m)
        walked = count_by_simulation(*family.member(m))
        check_mapping(*family.member(m))
        if truth is not None:
            told += 1
            assert truth == (without_busiest(walked) if family.is_spread() else walked), seed
    assert told >= 35


def test_what_counts_cost_is_computed_from_the_design() -> None:
    work = einsum("C[m] += A[m] * B[m]", m=4, bits={"A": 8, "B": 8, "C": 16})
    dram = MemoryLevel("DRAM", None, 64, Fraction(200), Fraction(100), Fraction(1, 8), Fraction(7, 3))
    arch = Architecture("one level", (dram, ComputeUnit("MAC", Fraction(1, 2), 3)))
    counts = Counts(
        4, 4, (Traffic("DRAM", "C", 0, 4, 0, 0), Traffic("DRAM", "A", 4, 0, 0, 0)), (LevelUse("DRAM", 0, 32, 64, 96),)
    )
    latency = 42  # ceil(96 * 3 / 7); 4 steps take 2 cycles
    assert cost_of(work, arch, counts) == (4 * 16 / 64 * 100 + 4 * 8 / 64 * 200 + 4 / 2 + latency / 8, latency)
    assert cost_of(work, replace(arch, overlap=False), counts)[1] == 44
