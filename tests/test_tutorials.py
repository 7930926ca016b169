"""The tutorials run as they are typed: line by line into a plain interpreter, from an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TUTORIALS = sorted(path.stem for path in (ROOT / "docs/tutorials").glob("*.md") if path.stem != "index")
CELL = re.compile(r"^```\{code-cell\} ipython3\n((?::.*\n)*)(.*?)^```", re.MULTILINE | re.DOTALL)
INPUT = """
import ast, sys
for cell in {cells!r}:
    for each in ast.parse(cell).body:
        print(">>>", ast.unparse(each))
        exec(compile(ast.Interactive([each]), "<tutorial>", "single"))
"""


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.soak if each == "architect" else ()) for each in TUTORIALS]
)
def test_a_tutorial_runs_as_it_is_typed(name: str, tmp_path: Path) -> None:
    text = (ROOT / f"docs/tutorials/{name}.md").read_text(encoding="utf-8")
    cells = [code for _, code in CELL.findall(text)]
    assert len(cells) > 4, "a tutorial is code"
    command = [sys.executable, "-c", INPUT.format(cells=cells)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    longest = max(re.split(r"^>>> ", done.stdout, flags=re.MULTILINE), key=lambda each: each.count("\n"))
    assert longest.count("\n") < 100, f"one line answers with a screenful at most, not {longest[:500]}"
