"""Importers say what to install where their package is missing."""

from __future__ import annotations

import sys

import pytest

import polymap as pm


def test_timeloop_files_need_the_extra_of_that_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)
    with pytest.raises(pm.errors.MissingPackageError, match=r"PM752 .*\n.*pip install 'polymap\[timeloop\]'"):
        pm.from_timeloop("a: 1\n", "b: 2\n")
    with pytest.raises(pm.errors.MissingPackageError, match=r"PM752 from_accelergy needs .*\n.*polymap\[timeloop\]'"):
        pm.io.from_accelergy("flat3", "a: 1\n")


def test_templates_of_timeloop_need_the_same_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(pm.errors.MissingPackageError, match=r"PM752 from_timeloop needs .*\n.*polymap\[timeloop\]'"):
        pm.from_timeloop("a: {{ 1 }}\n", "b: 2\n")
