"""The public names: each exists, is typed as it is loaded, and is listed."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import polymap as pm

TREE = ast.parse(Path(inspect.getfile(pm)).read_text(encoding="utf-8"))
INTERFACE = [
    "conv2d",
    "einsum",
    "matmul",
    "from_c",
    "load_arch",
    "explore",
    "evaluate",
    "simulate",
    "violations",
    "evaluate_many",
    "candidates",
    "generate_c",
    "run_c",
    "explain",
]


@pytest.mark.parametrize("name", dir(pm))
def test_every_listed_name_can_be_loaded(name: str) -> None:
    assert getattr(pm, name) is not None


@pytest.mark.parametrize("name", INTERFACE)
def test_the_interface_is_there(name: str) -> None:
    assert callable(getattr(pm, name))
    assert name in dir(pm)


def test_what_type_checkers_see_is_what_is_loaded() -> None:
    (block,) = [node for node in TREE.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    seen = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == vars(pm)["_MODULE_OF"]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'polymap' has no attribute 'evalute'"):
        pm.evalute  # type: ignore[attr-defined]  # noqa: B018


def test_explore_is_the_function_whatever_is_imported_first() -> None:
    program = "import polymap.explore, polymap, polymap.search.run.result; print(callable(polymap.explore))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_the_version_is_the_installed_one() -> None:
    assert version("polymap") == pm.__version__
