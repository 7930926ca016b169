"""The README is true: its example prints what stands there, its picture is what comes out, its commands exist.

`pytest tests/test_readme.py --update-golden` rewrites the example's output, `python docs/pictures/draw.py --search` the
picture.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import polymap as pm
from polymap.cli.arguments import parse

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
EXAMPLE = re.compile(r"```python\n(?P<code>.*?)```\n\nprints\n\n```text\n(?P<output>.*?)```\n", re.DOTALL)
PICTURE = re.compile(r"!\[[^]]*\]\((?P<path>[^)]*\.svg)\)")


def readme() -> str:
    return README.read_text(encoding="utf-8")


def example() -> re.Match[str]:
    match = EXAMPLE.search(readme())
    assert match is not None, "the README has no example with its output"
    return match


def second_example() -> str:
    """Return the lines that draw the space; they go on from the first example."""
    return readme().split("## The space around it")[1].split("```python\n")[1].split("```")[0]


@pytest.mark.slow
def test_the_example_prints_what_the_readme_says(request: pytest.FixtureRequest) -> None:
    names: dict[str, object] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example()["code"], "README.md", "exec"), names)
    output = "\n".join(line.rstrip() for line in printed.getvalue().splitlines()) + "\n"
    found = PICTURE.search(readme())
    assert found is not None
    picture = ROOT / found["path"]
    if request.config.getoption("--update-golden"):
        start, end = example().span("output")
        README.write_text(readme()[:start] + output + readme()[end:], encoding="utf-8")
    assert output == example()["output"]
    assert names["picture"] == picture.read_text(encoding="utf-8")
    # Of the families the best of all alone: the docs' pictures are drawn with all of them, which takes ten seconds.
    asked = second_example().replace("pm.compare(layer, flat3)", "pm.compare(layer, flat3, ['WS', 'optimum'])")
    assert asked != second_example()
    exec(compile(asked, "README.md", "exec"), names)
    assert str(names["space"]).startswith("<svg ")
    families = names["families"]
    assert isinstance(families, pm.study.Comparison)
    assert families["optimum"].status == "OPTIMAL"


@pytest.mark.slow
def test_the_examples_are_typed_without_tests_for_none(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", readme(), re.DOTALL)
    assert len(blocks) >= 2
    (tmp_path / "pasted.py").write_text("".join(blocks), encoding="utf-8")
    settings = {"typeCheckingMode": "strict", "include": ["pasted.py"], "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "0 errors" in done.stdout, done.stdout + done.stderr


def test_the_example_is_short() -> None:
    lines = [line for line in example()["code"].splitlines() if line.strip()]
    assert len(lines) <= 12


def test_the_two_commands_come_first() -> None:
    text = readme()
    first = text.index("```")
    assert text[first:].startswith("```\nmake demo ")
    assert "\nmake test " in text[first : text.index("```", first + 3)]
    assert first < 40, "only the title stands before the two commands"


def test_the_commands_can_be_read() -> None:
    block = readme().split("## On the command line\n\n```\n")[1].split("```")[0]
    commands = re.findall(r"^polymap +(.*)$", block, re.MULTILINE)
    assert {parse(shlex.split(words)).command for words in commands} == {
        *("explore", "evaluate", "codegen", "check", "verify", "report", "compare", "list")
    }


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\bmake ([a-z]+)\b", (ROOT / name).read_text(encoding="utf-8")):
            assert target in targets, f"{name} names `make {target}`"


DOCUMENTS = [
    *(README, ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"),
    *sorted((ROOT / "docs").rglob("*.md")),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_linked_and_named_files_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("https://") or (document.parent / target).exists(), target
    for path in re.findall(r"\b(?:polymap|tests|docs|benchmarks|examples|notebooks)/[a-z_/]+(?:\.[a-z]+)?", text):
        assert (ROOT / path).exists(), f"{document.name} names {path}"


def test_documents_that_modules_name_exist() -> None:
    for module in (ROOT / "polymap").rglob("*.py"):
        for name in re.findall(r"\bdocs/[a-z_]+\.md", module.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{module} names {name}"


def test_the_files_of_the_documents_are_read() -> None:
    text = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    workload, program, mapping = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL))
    layer = pm.io.workload_from_document(workload)
    assert pm.io.workload_to_document(pm.io.workload_from_document(program))["temporary"] == ["T"]
    assert pm.evaluate(layer, pm.load_arch("flat3"), pm.io.mapping_from_document(mapping)).legal
