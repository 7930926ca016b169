"""docs/published.md holds what benchmarks/published/museum.py recomputes: nothing there is older than the code."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def museum() -> ModuleType:
    spec = importlib.util.spec_from_file_location("museum", ROOT / "benchmarks" / "published" / "museum.py")
    assert spec is not None, "the script has moved"
    assert spec.loader is not None, "the script has moved"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_script_recomputes() -> None:
    script = museum()
    text = script.PAGE.read_text(encoding="utf-8")
    inside = text[text.index(script.START) + len(script.START) : text.index(script.END)]
    assert inside.strip() == script.page().strip()


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
