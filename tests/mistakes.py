"""Modules of polymap with a deliberate mistake: what a referee has to notice."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def mutant_of(module: ModuleType, right: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what a module defines when a mistake is made in it."""
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    assert source.count(right) == 1, "the mistake is made in one place"
    mutant = ModuleType("mutant")
    monkeypatch.setitem(sys.modules, "mutant", mutant)
    exec(compile(source.replace(right, wrong), "mutant", "exec"), mutant.__dict__)
    return mutant.__dict__
