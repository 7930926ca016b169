"""The public names: each exists, is typed as it is loaded, and is listed."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import polymap as pm
from polymap.faces import names_of_face

STUB = Path(inspect.getfile(pm)).with_suffix(".pyi")
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
    seen = names_of_face(STUB)
    assert set(dir(pm)) == {"__version__", *seen}
    for name, module in seen.items():
        assert getattr(pm, name) is getattr(import_module(module), name)


OLD = "Problem"


def test_names_of_before_are_deprecated_aliases() -> None:
    with pytest.warns(DeprecationWarning, match=r"polymap\.Problem is now polymap\.Mistake"):
        assert getattr(pm, OLD) is pm.Mistake
    error = pm.OptionError(pm.Mistake("PM500", "what"))
    assert error.problems == error.mistakes


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'polymap' has no attribute 'evalute'"):
        pm.evalute  # type: ignore[attr-defined]  # noqa: B018


def test_explore_is_the_function_whatever_is_imported_first() -> None:
    program = "import polymap.explore, polymap, polymap.search.result; print(callable(polymap.explore))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_the_version_is_the_installed_one() -> None:
    assert version("polymap") == pm.__version__
