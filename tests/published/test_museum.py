"""docs/published.md holds what benchmarks/published/museum.py recomputes: nothing there is older than the code."""

from __future__ import annotations

import importlib.util
import json
import re
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import pytest

from tests.times import few

ROOT = Path(__file__).parents[2]


def museum() -> ModuleType:
    spec = importlib.util.spec_from_file_location("museum", ROOT / "benchmarks" / "published" / "museum.py")
    assert spec is not None, "the script has moved"
    assert spec.loader is not None, "the script has moved"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rooms() -> list[str]:
    """Return the rooms of the page, in order, those last that search for seconds."""
    found = [title for title, _ in museum().ROOMS]
    return sorted(found, key=lambda title: title in ("TileFlow", "Orojenesis"))


@pytest.mark.parametrize("title", few(rooms(), len(rooms()) - 2))
def test_the_page_is_what_the_script_recomputes(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = museum()
    text = script.PAGE.read_text(encoding="utf-8")
    inside = text[text.index(script.START) + len(script.START) : text.index(script.END)].strip()
    parts = re.split(r"^(?=## )", inside, flags=re.MULTILINE)
    assert [part.split("\n")[0] for part in parts if part] == [f"## {name}" for name, _ in script.ROOMS]
    monkeypatch.setattr(script, "ROOMS", tuple(room for room in script.ROOMS if room[0] == title))
    assert next(part for part in parts if part.startswith(f"## {title}\n")).strip() == script.page().strip()


def test_a_number_that_is_not_ours_is_called_different() -> None:
    script = museum()
    tables = json.loads((ROOT / "benchmarks" / "published" / "tables.json").read_text(encoding="utf-8"))
    tables["eyeriss"]["networks"]["AlexNet"]["10^6 MACs"] = "667"
    (first, *_) = script.eyeriss(tables["eyeriss"])
    assert (first.published, first.polymap, first.verdict[:7]) == ("667", "666", "differs")
    tables["tpu"]["peak_tops"] = "91"
    assert [each.verdict[:7] for each in script.tpu(tables["tpu"])] == ["differs"]
    assert {each.verdict for each in script.eyeriss(json.loads(json.dumps(tables))["eyeriss"])} > {
        "exact to its digits"
    }


def test_the_chips_buffer_and_dram_are_sums_over_passes() -> None:
    """By hand: each pass reads its rows of inputs once, and takes and gives its sums once; filters come once a pass."""
    script = museum()
    table = json.loads((ROOT / "benchmarks" / "published" / "tables.json").read_text(encoding="utf-8"))["eyeriss_chip"]
    images = table["images"]
    for entry in table["layers"].values():
        dims, stride, passed = entry["sizes"], entry["stride"], entry["pass"]
        side, taps, edge = dims["y"], dims["r"], stride * (dims["y"] - 1) + dims["r"]
        starts = range(0, side, passed["e"])
        rows = sum(stride * (min(passed["e"], side - start) - 1) + taps for start in starts)
        inputs, sums = images * dims["c"] * rows * edge, images * dims["k"] * side**2
        at_once, channels = passed["p"] * passed["t"], passed["q"] * passed["v"]
        buffer = inputs * -(-dims["k"] // at_once) + 2 * sums * -(-dims["c"] // channels)
        filters = dims["k"] * dims["c"] * taps**2 * len(starts) * images // passed["n"]
        dram = inputs * -(-dims["k"] // passed["m"]) + sums + filters
        own = script.row_stationary(script.chip_layer(entry, table), entry, passed, table)
        assert own["MB at the buffer"] * 10**6 == 2 * entry["groups"] * buffer
        assert own["MB at DRAM"] * 10**6 == 2 * entry["groups"] * dram


def test_a_number_of_the_chip_or_of_a_simulation_that_is_not_ours_is_called_different() -> None:
    script = museum()
    table = json.loads((ROOT / "benchmarks" / "published" / "tables.json").read_text(encoding="utf-8"))["eyeriss_chip"]
    layer = table["layers"]["layer 1"]
    layer["published"] = {
        "10^6 MACs": "421.5",
        "10^3 weights": "34.7",
        "active units": "153",
        "MB at the buffer": "18.6",
    }
    layer["MB at DRAM"] = "6.0"
    table["layers"] = {"layer 1": layer}
    verdicts = [each.verdict[:7] for each in script.eyeriss_chip(table)]
    assert verdicts[:5] == ["differs"] * 5
    assert script.simulated("cycles", [99, 120], Fraction(100)).verdict == "differs by 1.0%"
    assert script.simulated("cycles", [101, 120], Fraction(100)).verdict == "takes 1.0% to 20.0% more"


@pytest.mark.parametrize("room", ["scale_sim", "interstellar", "flat"])
def test_each_number_of_a_room_that_is_not_ours_is_called_different(room: str) -> None:
    script = museum()
    table = json.loads((ROOT / "benchmarks" / "published" / "tables.json").read_text(encoding="utf-8"))[room]
    match room:
        case "scale_sim":
            table["products"] = table["products"][-1:]
            table["products"][0]["B"] += 1
        case "interstellar":
            table["accesses"] = {"L1": [204_800, 262_144, 18_433], "L0": [204_800, 262_145, 1_179_648]}
        case _:
            table["rows"] = [[768, 1024, 64, 1_308_786_689, 1_308_622_847]]
    assert {each.verdict[:7] for each in getattr(script, room)(table)} == {"differs"}


def test_tileflows_counters_are_sums_of_whole_operands() -> None:
    """By hand: a strip of rows reads A once, B and D again; each block of 16 x 16 passes sums once each way."""
    table = json.loads((ROOT / "benchmarks" / "published" / "tables.json").read_text(encoding="utf-8"))["tileflow"]
    for m, j, k, n, tile, _, counters in table["rows"]:
        blocks = m // 16
        passed = m * j * (k // 16) + m * n * (j // 16) + m * j
        loaded = m * k + (k * j + j * n) * blocks + m * j + passed
        words = [m * k + (k * j + j * n) * (m // tile), m * n, loaded, passed]
        assert counters == [16 * each for each in words]
    assert sum(row[5] for row in table["rows"]) == 131
    assert [sum(map(len, each)) for each in table["cycles"]] == [row[5] for row in table["rows"]]
