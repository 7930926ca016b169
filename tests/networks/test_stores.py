"""Stores of sweeps: nothing acknowledged is lost, answers only tighten, and what cannot be used is said clearly."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

import polymap as pm
from polymap.cli.command_line import main
from polymap.networks.stores import Entry, State, entry_of, key_of, opened_store, states_of, tighter
from tests.kill_tally import Tally, rows, tallied

LAYERS = [pm.matmul(m=4, n=4, k=4, name="a"), pm.matmul(m=2, n=4, k=4, name="b")]
GRID = {"base": "flat3", "grid": {"GLB.capacity_bits": [64, 128], "X.size": [2, 4]}}
NAMES = ("runs.sqlite", "runs.jsonl")


@pytest.mark.slow
def test_killed_sweeps_lose_nothing_that_was_acknowledged() -> None:
    assert_nothing_lost(tallied(2, seed=1))


@pytest.mark.soak
def test_200_killed_sweeps_lose_nothing_that_was_acknowledged() -> None:
    assert_nothing_lost(tallied(200, seed=2))


def assert_nothing_lost(tally: Tally) -> None:
    assert (tally.lost, tally.torn, tally.different) == (0, 0, 0)
    assert tally.acknowledged > tally.writers


@pytest.mark.parametrize("name", NAMES)
def test_stores_of_both_kinds_answer_again(name: str, tmp_path: Path) -> None:
    first = pm.sweep(LAYERS, GRID, tiles="divide", store=tmp_path / name)
    again = pm.sweep(LAYERS, GRID, tiles="divide", store=tmp_path / name)
    assert again.asked == 0
    assert rows(again) == rows(first)
    states = states_of(tmp_path / name)
    assert {state: len(times) for state, times in states.items() if times} == {State.PROVEN: first.asked}


def test_a_cut_last_line_is_no_entry_and_does_not_damage_the_next(tmp_path: Path) -> None:
    store = tmp_path / "runs.jsonl"
    first = pm.sweep(LAYERS, GRID, tiles="divide", store=store)
    whole = store.read_bytes()
    store.write_bytes(whole[:-20])
    again = pm.sweep(LAYERS, GRID, tiles="divide", store=store)
    assert again.asked == 1
    assert rows(again) == rows(first)
    assert pm.sweep(LAYERS, GRID, tiles="divide", store=store).asked == 0


def test_parts_of_several_writers_merge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    for part, layer in zip(parts, LAYERS, strict=True):
        pm.sweep([layer], GRID, tiles="divide", store=part)
    target = tmp_path / "all.sqlite"
    count = pm.study.merge_stores(target, parts)
    assert count == sum(len(part.read_text().splitlines()) for part in parts) // 2  # running, then answered
    assert pm.sweep(LAYERS, GRID, tiles="divide", store=target).asked == 0
    assert main(("sweep", "merge", *map(str, parts), "--store", str(tmp_path / "again.jsonl"))) == 0
    assert re.search(rf"proven +{count}\b", capsys.readouterr().out)
    assert main(("sweep", "states", "--store", str(target), "--json", "-")) == 0
    assert json.loads(capsys.readouterr().out)["proven"]["questions"] == count
    with opened_store(target) as opened:
        assert opened is not None
        opened.put(entry_of({"time_limit_s": 1, "workload": "of a writer that was killed"}))
    assert main(("sweep", "states", "--store", str(target))) == 0
    assert re.search(r"running, or killed +1\b", capsys.readouterr().out)
    assert main(("sweep", "merge", "--store", str(target))) == 2
    with pytest.raises(pm.errors.OutputError, match="PM703 the store .* does not exist"):
        pm.study.merge_stores(target, [tmp_path / "none.jsonl"])


def test_two_writers_at_once_share_a_sqlite_store(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    with ThreadPoolExecutor(2) as pool:
        tables = list(pool.map(lambda _: pm.sweep(LAYERS, GRID, tiles="divide", store=store), range(2)))
    assert rows(tables[0]) == rows(tables[1]) == rows(pm.sweep(LAYERS, GRID, tiles="divide"))
    assert len(states_of(store)[State.RUNNING]) == 0


def test_writers_that_open_a_new_store_at_once_wait_for_each_other(tmp_path: Path) -> None:
    """Without waiting, one of ten such openings is refused: `database is locked`."""
    writers = 4
    for number in range(60):
        start = Barrier(writers)

        def put(each: int, number: int = number, start: Barrier = start) -> None:
            start.wait()
            with opened_store(tmp_path / f"{number}.sqlite") as store:
                assert store is not None
                store.put(entry_of({"each": each}))

        with ThreadPoolExecutor(writers) as pool:
            list(pool.map(put, range(writers)))
        assert len(states_of(tmp_path / f"{number}.sqlite")[State.RUNNING]) == writers


def answer(status: str, value: int | None, bound: int | None) -> dict[str, Any]:
    return {"status": status, "value": value, "bound": bound, "gap": None}


def test_answers_only_tighten() -> None:
    question = {"time_limit_s": 5}
    limit = entry_of(question, answer("FEASIBLE", 100, 50))
    assert tighter(None, limit) is limit
    assert tighter(limit, entry_of(question)) is limit
    better = tighter(limit, entry_of({"time_limit_s": 1}, answer("FEASIBLE", 90, 40)))
    assert better.answer is not None
    assert (better.answer["value"], better.answer["bound"], better.answer["gap"]) == (90, 50, float(40 / 90))
    assert better.question == {"time_limit_s": 5}
    none = tighter(limit, entry_of(question, answer("TIMEOUT", None, 60)))
    assert none.answer is not None
    assert (none.answer["status"], none.answer["value"], none.answer["bound"]) == ("FEASIBLE", 100, 60)
    met = tighter(limit, entry_of({"time_limit_s": 1}, answer("FEASIBLE", 120, 100)))
    assert met.answer is not None
    assert (met.state, met.answer["status"], met.answer["gap"]) == (State.PROVEN, "OPTIMAL", 0.0)
    assert tighter(limit, entry_of(question, answer("FEASIBLE", 120, 99))).state is State.LIMIT
    proven = entry_of(question, answer("OPTIMAL", 80, 80))
    assert tighter(limit, proven) is proven
    assert tighter(proven, limit) is proven


def test_a_value_that_meets_the_bound_is_proven_wherever_it_was_found(tmp_path: Path) -> None:
    """A limit ended the search on the larger machine above the optimum, with the optimum as its bound; on the smaller
    one the optimum was found. It was told as FEASIBLE, with value and bound equal."""
    store, machines = tmp_path / "runs.sqlite", {"base": "flat3", "grid": {"GLB.capacity_bits": [4096, 8192]}}
    layer, objective = pm.matmul(m=4, n=4, k=4, name="a"), "traffic:DRAM"
    sides = pm.sweep([layer], machines, objective, tiles="divide", store=store).rows
    assert len({row.value for row in sides}) == 1
    with opened_store(store) as opened:
        assert opened is not None
        (entry,) = opened.entries()
    worst = pm.io.mapping_from_document({"nodes": [*({"for": dim, "tile": 1} for dim in "kmn"), {"compute": "S"}]})
    large = pm.io.arch_from_document(entry.question["arch"])
    assert entry.answer is not None
    cost = pm.evaluate(layer, large, worst)
    moved = sum(row.reads + row.writes for row in cost.traffic if row.level == "DRAM") * 8
    assert moved > entry.answer["value"]
    cut = {"status": "FEASIBLE", "value": moved, "mapping": pm.io.mapping_to_document(worst)}
    other = store.with_name("cut.sqlite")
    with opened_store(other) as opened:
        assert opened is not None
        opened.put(Entry(entry.key, entry.question, State.LIMIT, 0.0, {**entry.answer, **cut}))
    again = pm.sweep([layer], machines, objective, tiles="divide", store=other).rows
    assert [(row.status, row.value, row.bound) for row in again] == [
        (row.status, row.value, row.bound) for row in sides
    ]


def test_what_is_proven_among_some_trees_neither_replaces_nor_bounds_what_is_less() -> None:
    question = {"time_limit_s": 5}
    named = entry_of(question, answer("OPTIMAL", 100, 100) | {"space": {"name": "chains"}})
    assert named.state is State.LIMIT, "a longer limit may find less"
    less, equal, more = (entry_of(question, answer("FEASIBLE", value, 40)) for value in (80, 100, 120))
    for pair in ((less, named), (named, less)):
        assert tighter(*pair).answer == less.answer
    for other in (equal, more):
        assert tighter(named, other).answer == tighter(other, named).answer == named.answer
    proven = entry_of(question, answer("OPTIMAL", 90, 90) | {"space": {}})
    assert tighter(named, proven) is tighter(proven, named) is proven


def test_a_longer_limit_asks_again_what_a_shorter_one_ended(tmp_path: Path) -> None:
    store, machines = tmp_path / "runs.sqlite", {"base": "flat3", "grid": {"X.size": [4]}}
    pm.sweep(LAYERS[:1], machines, tiles="divide", store=store, time_limit_s=5)
    with opened_store(store) as opened:
        assert opened is not None
        (entry,) = opened.entries()
        assert entry.answer is not None
        assert entry.key == key_of(entry.question)
        cut = {**entry.answer, "status": "FEASIBLE", "bound": 0}
    store.unlink()
    with opened_store(store) as opened:
        assert opened is not None
        opened.put(Entry(entry.key, entry.question, State.LIMIT, 0.0, cut))
    assert pm.sweep(LAYERS[:1], machines, tiles="divide", store=store, time_limit_s=4).asked == 0
    (row,) = pm.sweep(LAYERS[:1], machines, tiles="divide", store=store, time_limit_s=6).rows
    assert (row.status, row.how) == ("OPTIMAL", "searched")


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_is_said_and_leaves_the_store_whole(name: str, tmp_path: Path) -> None:
    store = tmp_path / name
    pm.sweep(LAYERS[:1], GRID, tiles="divide", store=store)
    known = len(states_of(store)[State.PROVEN])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (store.stat().st_size + 600, before[1]))
    try:
        with pytest.raises(pm.errors.OutputError, match="PM703 the store .* cannot be used"):
            pm.sweep(LAYERS, GRID, tiles="divide", store=store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(states_of(store)[State.PROVEN]) >= known
    assert rows(pm.sweep(LAYERS, GRID, tiles="divide", store=store)) == rows(pm.sweep(LAYERS, GRID, tiles="divide"))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may read: pytest's own are closed to them."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", NAMES)
def test_a_read_only_store_is_read_and_not_written(name: str, open_folder: Path) -> None:
    store = open_folder / name
    first = pm.sweep(LAYERS[:1], GRID, tiles="divide", store=store)
    store.chmod(0o444)
    open_folder.chmod(0o555)
    pm.sweep(LAYERS[1:], GRID, tiles="divide")  # so that all modules are loaded, which another user may not read
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(65534)  # permissions do not bind root
        assert rows(pm.sweep(LAYERS[:1], GRID, tiles="divide", store=store)) == rows(first)
        with pytest.raises(pm.errors.OutputError, match="PM703 .*\n.*further answers need a file that may be written"):
            pm.sweep(LAYERS, GRID, tiles="divide", store=store)
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wrong", ["\0", "\ud800"])
def test_what_is_no_name_of_a_file_is_refused(name: str, wrong: str) -> None:
    with pytest.raises(pm.errors.OutputError, match="PM703 .* cannot be used"):
        pm.sweep(LAYERS, GRID, store=wrong + name)
