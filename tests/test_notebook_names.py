"""Names that notebooks take from the package exist: `make notebooks` runs them whole, which takes minutes."""

from __future__ import annotations

import ast
import json
from importlib import import_module
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def imports(notebook: Path) -> list[tuple[str, str]]:
    """Return (module, name) of what the cells of a notebook import from polymap by name."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    nodes = [node for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    return [(n.module, each.name) for n in nodes if n.module and n.module.startswith("polymap") for each in n.names]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_a_notebook_imports_exists(notebook: Path) -> None:
    missing = [f"{module}.{name}" for module, name in imports(notebook) if not hasattr(import_module(module), name)]
    assert not missing
