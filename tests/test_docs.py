"""The reference pages name what the code has: error codes, fields of files, constraints, objectives, public names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path

import pytest

import polymap as pm
from polymap.cli.arguments import command_names
from polymap.explore import provers
from polymap.importers.timeloop import attributes
from polymap.inputs import machines, mappings
from polymap.search import Kind
from polymap.search.problem import objectives, read_rules
from polymap.workload import LAYERS, document as workloads, windows

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
CODE = re.compile(r"[\"' ](PM\d{3})[\" ]")


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def codes_of_the_program() -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "polymap").rglob("*.py"))
    return {code for text in texts for code in CODE.findall(text)}


def test_every_error_code_has_a_cause_and_a_cure() -> None:
    rows = re.findall(r"^\| (PM\d{3}) \| (.+) \| (.+) \|$", page("reference/errors.md"), re.MULTILINE)
    codes = [code for code, _, _ in rows]
    assert len(codes) == len(set(codes)), "a code stands twice"
    assert set(codes) == codes_of_the_program()
    assert codes == sorted(codes)
    for code, cause, cure in rows:
        assert len(cause) > 10, code
        assert len(cure) > 3, code


def fields_of_mappings() -> set[str]:
    return {field for fields in mappings._FIELDS.values() for field in fields}


def names_of_timeloop() -> set[str]:
    ignored = (name for names in attributes._IGNORED.values() for name in names)
    return {*attributes._READ["storage"], *ignored, *attributes._NEUTRAL}


FIELDS = [
    pytest.param("machines.md", machines._ARCH_FIELDS, id="machine"),
    pytest.param("machines.md", machines._LEVEL_FIELDS, id="level"),
    pytest.param("machines.md", machines._FANOUT_FIELDS, id="fan-out"),
    pytest.param("machines.md", machines._COMPUTE_FIELDS, id="compute"),
    pytest.param("files.md", workloads.FIELDS, id="workload"),
    pytest.param("files.md", fields_of_mappings(), id="mapping"),
    pytest.param("reference/constraints.md", read_rules.FIELDS, id="constraints"),
    pytest.param("reference/objectives.md", objectives.SINGLE_FORMS, id="objectives"),
    pytest.param("howto/timeloop.md", names_of_timeloop(), id="timeloop"),
    pytest.param(
        "howto/layer.md", (*windows.ALIASES, *LAYERS, *"NKCHWRSEFDTGL", "groups", "multiplier", "kind"), id="layers"
    ),
]


@pytest.mark.parametrize("name, fields", FIELDS)
def test_every_field_is_documented(name: str, fields: Iterable[str]) -> None:
    text = page(name)
    for field in fields:
        assert f"`{field}`" in text or f'"{field}"' in text, f"{name} does not say what {field} is"


def test_the_defaults_of_machines_are_those_of_the_page() -> None:
    rows = dict(re.findall(r"^\| \S* ?\| `(\w+)` \| ([^|]+) \|", page("machines.md"), re.MULTILINE))
    level = pm.MemoryLevel("level")
    for field in ("buffering", "leak_pj_per_cycle"):
        assert rows[field].strip() == str(getattr(level, field))
    assert f"| {level.word_bits}, {level.read_pj}, {level.write_pj} |" in page("machines.md")


def test_every_objective_goal_is_documented() -> None:
    for goal in objectives.Goal:
        assert f"`{goal.value}" in page("reference/objectives.md"), goal


def test_the_table_of_provers_is_the_one_that_is_asked() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", page("provers.md"), re.MULTILINE)
    assert rows == [line.prover.__name__ for line in provers(~Kind(0))]


def test_every_command_is_documented() -> None:
    assert set(command_names()) >= {"explore", "evaluate", "codegen", "check", "verify", "report", "list"}
    assert "command_usage(name)" in page("reference/command_line.md")


def test_every_public_name_is_in_a_group_of_the_api_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    from importlib import import_module

    api = import_module("api_groups")
    names = [name for _, _, names in api.groups() for name in names]
    assert len(names) == len(set(names))
    plain = {name for name in names if "." not in name}
    assert plain | set(api.NAMESPACES) == {name for name in dir(pm) if not name.startswith("_")}
    assert api.OTHERS[0] not in [title for title, _, _ in api.groups()]
    undocumented = [name for name in names if not (attrgetter(name)(pm).__doc__ or "").strip()]
    assert undocumented == []


def test_every_page_is_in_a_table_of_contents() -> None:
    pages = {str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md")} | {"reference/api"}
    listed = {"index"}
    for path in DOCS.rglob("*.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
            for line in block.splitlines():
                if line and not line.startswith(":") and "*" not in line:
                    listed.add(str((path.parent / line).resolve().relative_to(DOCS)))
    assert pages == listed
    assert not pages & {"search", "genindex"}, "Sphinx writes pages of its own under these names"
