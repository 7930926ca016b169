"""`polymap compare`: the families of mappings on the command line."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import polymap as pm
from polymap.cli.command_line import main
from polymap.cli.completion import completion_text

Captured = pytest.CaptureFixture[str]
SMALL = ("matmul", "m=4", "n=6", "k=2", "--arch", "flat3")


def compared(capsys: Captured, *words: str) -> dict[str, Any]:
    assert main(("compare", *words, "--json", "-")) == 0
    return json.loads(capsys.readouterr().out)


def test_compare_says_what_compare_and_explore_find(capsys: Captured) -> None:
    told = compared(capsys, *SMALL, "WS", "OS", "optimum", "--objective", "edp")
    found = pm.compare(pm.matmul(m=4, n=6, k=2), "flat3", ["WS", "OS", "optimum"], objective="edp")
    assert told["schema"] == "polymap.comparison/1"
    assert (told["objective"], told["units"]["value"]) == ("edp", {"edp": "pJ*cycle"})
    assert [each["family"] for each in told["members"]] == [each.family for each in found.members]
    for row, member in zip(told["members"], found.members, strict=True):
        assert (row["status"], row["value"], row["bound"]) == (member.status, member.value, member.bound)
        assert (row["cost"] is None) == (member.cost is None)
    best = pm.explore(pm.matmul(m=4, n=6, k=2), "flat3", "edp", tiles="divide")
    assert told["optimum"] == told["members"][-1]["value"] == best.value
    mapping = pm.io.mapping_from_document(told["members"][-1]["mapping"])
    cost = pm.evaluate(pm.matmul(m=4, n=6, k=2), "flat3", mapping)
    assert cost.energy_pj * cost.latency_cycles == best.value


def test_families_stand_among_the_sizes_by_name_or_short(capsys: Captured) -> None:
    told = compared(capsys, "matmul", "WS", "m=4", "n=6", "output-stationary", "k=2", "WS", "--arch", "flat3")
    assert told["options"]["families"] == ["weight-stationary", "output-stationary"]
    assert main(("compare", *SMALL, "optimum")) == 0
    text = capsys.readouterr().out
    assert "matmul on flat3, tiles that divide" in text
    assert "Every row is proven." in text


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((*SMALL, "weigth-stationary"), 2, "PM528 there is no family 'weigth-stationary'"),
        (SMALL[:4], 2, "PM553 compare needs --arch ARCH"),
        ((*SMALL, "--tiles", "any"), 2, "PM552 compare has no option '--tiles'"),
        ((*SMALL, "--objective", "pareto:energy,latency"), 2, "PM508"),
        ((*SMALL, "--json", "/nowhere/x.json"), 4, "PM701"),
    ],
)
def test_wrong_words_are_told(words: tuple[str, ...], code: int, message: str, capsys: Captured) -> None:
    assert main(("compare", *words)) == code
    told = capsys.readouterr()
    assert message in told.err
    assert told.out == ""


def test_no_family_has_an_answer_where_nothing_fits(capsys: Captured, tmp_path: Any) -> None:
    tight = {
        "name": "tight",
        "nodes": [
            {"level": "DRAM", "read_pj": 1},
            {"level": "RF", "capacity_bits": 8, "must_hold": ["A", "B"]},
            {"compute": "MAC"},
        ],
    }
    (tmp_path / "tight.json").write_text(json.dumps(tight))
    assert main(("compare", *SMALL[:4], "--arch", str(tmp_path / "tight.json"), "WS", "optimum")) == 3
    assert capsys.readouterr().out.count("INFEASIBLE") == 2, "proven of all mappings and so of each family"


def test_an_empty_list_of_families_is_refused() -> None:
    with pytest.raises(pm.PolymapError, match="PM528 no family is named"):
        pm.compare(pm.matmul(m=2, n=2, k=2), "flat3", [])


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_shells_complete_families_and_workloads_of_every_command(shell: str) -> None:
    lines = [line for line in completion_text(shell).splitlines() if "conv2d" in line]
    assert any("row-stationary" in line for line in lines)
    for command in ("explore", "evaluate", "codegen", "check", "report", "compare"):
        assert any(f"{command})" in line or f"from {command}'" in line for line in lines)


def test_a_family_that_can_have_no_mapping_is_told_so(capsys: Captured) -> None:
    words = ("C[m,n] += A[m,k]*B[k,n]", "m=7", "n=1", "k=13", "--arch", "eyeriss_like", "RS", "optimum")
    assert main(("compare", *words)) == 0
    told = capsys.readouterr().out
    assert re.search(r"row-stationary .* INFEASIBLE", told), "a product has no two sliding windows"
    assert "Best known" not in told
