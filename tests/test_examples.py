"""The commands of README and examples/README.md run as they are pasted, in a copy of the examples."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import polymap as pm
from polymap.cli.command_line import main

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


def commands_of_the_readme() -> list[str]:
    block = (ROOT / "README.md").read_text(encoding="utf-8").split("## On the command line\n\n```\n")[1].split("```")[0]
    return re.findall(r"^polymap +(.*)$", block, re.MULTILINE)


def commands_of_the_examples() -> list[str]:
    return re.findall(r"`polymap ([^`]*)`", (EXAMPLES / "README.md").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("commands", [commands_of_the_readme(), commands_of_the_examples()], ids=["README", "examples"])
def test_commands_run_as_pasted(
    commands: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    assert len(commands) > 5
    for words in commands:
        # A limit that runs out, and a layer that takes seconds in the programs and certificates of several commands.
        shorter = words.replace("--time-limit 10", "--time-limit 1").replace("resnet50.conv2_x", "resnet50.fc")
        assert main(shlex.split(shorter)) == 0, words
        printed = capsys.readouterr()
        assert printed.out or "wrote" in printed.err, words
        assert "error" not in printed.err, words


def test_every_example_is_described() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.iterdir():
        assert path.name == "README.md" or f"`{path.name}`" in text, path.name


def test_the_mapping_by_hand_is_legal_and_not_the_best() -> None:
    layer = pm.load_workload(str(EXAMPLES / "my_layer.json"))
    arch = pm.load_arch(str(EXAMPLES / "my_machine.toml"))
    text = (EXAMPLES / "my_mapping.json").read_text(encoding="utf-8")
    cost = pm.evaluate(layer, arch, pm.io.mapping_from_document(json.loads(text)))
    result = pm.explore(layer, arch, tiles="divide")
    assert cost.legal
    assert result.status == "OPTIMAL"
    assert result.value is not None
    assert result.value < cost.energy_pj


def test_the_kernel_has_one_legal_order_of_its_loops() -> None:
    workload = pm.from_c((EXAMPLES / "kernel.c").read_text(encoding="utf-8"), sizes={"N": 8})
    assert [dim.name for dim in workload.dims] == ["t", "i"]
    assert {each.kind.value for each in pm.dependences(workload)} == {"flow", "anti", "output"}


@pytest.mark.slow
def test_c_and_python_call_the_function_of_a_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(EXAMPLES / "native", tmp_path / "native")
    monkeypatch.chdir(tmp_path / "native")
    text = (EXAMPLES / "native" / "main.c").read_text(encoding="utf-8")
    written = re.search(r"polymap (codegen.*?)\n \*     cc (.*?) &&", text, re.DOTALL)
    assert written is not None
    first, second = (group.replace("\\\n *", " ") for group in written.groups())
    assert main(shlex.split(first)) == 0
    assert capsys.readouterr() == ("", "")
    subprocess.run(["cc", "-Wall", "-Wextra", *shlex.split(second)], check=True)
    called = [["./main"], [sys.executable, "call.py", "./conv.so"]]
    lines = [subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines() for words in called]
    assert lines == [["corner 64, edge 96, inside 144"] * 2, ["corner 64, edge 96, inside 144"]]
