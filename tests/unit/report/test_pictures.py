"""The pictures of the README are what the library draws now (python docs/pictures/draw.py)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "docs" / "pictures"


@pytest.mark.slow  # also because the sample is that of one release of numpy
def test_the_stored_pictures_are_drawn_from_the_stored_mapping() -> None:
    spec = importlib.util.spec_from_file_location("draw", FOLDER / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)
    drawn = draw.pictures()
    assert set(drawn) == {path.name for path in FOLDER.glob("*.svg")}
    for name, text in drawn.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, f"run docs/pictures/draw.py: {name} has changed"
