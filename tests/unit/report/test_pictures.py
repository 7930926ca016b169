"""The pictures of the README are what the library draws now (python docs/pictures/draw.py)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.report.test_space_figures import assert_inside

FOLDER = Path(__file__).parents[3] / "docs" / "pictures"


def module(name: str) -> Any:
    """Return a script of the folder as a module."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found  # its dataclasses look themselves up
    spec.loader.exec_module(found)
    return found


def test_the_picture_of_scaling_is_drawn_from_the_table() -> None:
    scaling = module("scaling")
    rows = scaling.points((FOLDER.parent / "scaling.md").read_text(encoding="utf-8"))
    assert len(rows) == 23
    assert sum(row.is_proven for row in rows) == 22
    assert (FOLDER.parent / "scaling.svg").read_text(encoding="utf-8") == scaling.drawn(rows), "run scaling.py there"
    assert_inside(scaling.drawn(rows))


@pytest.mark.slow  # also because the sample is that of one release of numpy
def test_the_stored_pictures_are_drawn_from_the_stored_mapping() -> None:
    drawn = module("draw").pictures()
    assert set(drawn) == {path.name for path in FOLDER.glob("*.svg")}
    for name, text in drawn.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, f"run docs/pictures/draw.py: {name} has changed"
