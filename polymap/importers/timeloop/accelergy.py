"""Accelergy's tables: an energy reference table (ERT) as the energies of a machine, an area table (ART) as areas."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TypeVar

from polymap.importers.timeloop.findings import Findings
from polymap.importers.timeloop.yaml_tables import Value, read_yaml
from polymap.inputs import answers_in_words, shown
from polymap.ir import Architecture, ComputeUnit, MemoryLevel, all_read, did_you_mean
from polymap.resolve import ArchitectureLike, arch_of

_COMPUTE_ACTIONS = {"pj": ("compute", "mac_random", "mult_random", "mac", "mult", "multiply")}
_LEVEL_ACTIONS = {
    "read_pj": ("read", "random_read"),
    "write_pj": ("write", "update", "fill", "random_write", "random_update", "random_fill"),
    "leak_pj_per_cycle": ("leak", "idle"),
}
_OPTIONAL = "leak_pj_per_cycle"
# Of tensors that are not dense, of operands that stay, and what a compute unit loses while it waits: not counted.
_UNCOUNTED = re.compile(r"(.*_)?(gated|skipped|metadata|reused)(_.*)?|(de)?compression_count")
_COMPUTE_UNCOUNTED = ("leak", "idle")
# Of a summary: who estimated the numbers.
_ESTIMATORS = ("primitive_estimation(s)", "primitive_estimations")
# What Timeloop's front end calls the dummy storages of fan-outs, which have tables in an ART.
_DUMMIES = re.compile(r"inter_.+_spatial")
_RANGE = re.compile(r"\[.*?\]")
Found = TypeVar("Found")


@answers_in_words
def from_accelergy(
    arch: ArchitectureLike, ert: str | Path, art: str | Path | None = None, *, ignore: Sequence[str] = ()
) -> tuple[Architecture, dict[str, Fraction]]:
    """Return the machine with the energies of an ERT, and the area of one copy of each component in the unit of the ART
    (um^2 as Accelergy writes it; empty without one). Needs the extra `timeloop`.

    ert, art: paths, or YAML as texts of several lines; versions 0.3 and 0.4, or summaries. A table belongs to the
    level or compute unit that is called like the last part of its name, without ranges: `system.chip.PE[0..167].RF` is
    RF. An energy is taken as that of one access of the level's `word_bits`. Of an action with several sets of
    arguments the dearest counts. Levels take `read`, `write` (else `update`) and, where there is one, `leak` (else
    `idle`), the compute unit `compute` (else `mac_random`, `mac`, `multiply`). ignore: names of components that the
    machine leaves out, such as networks. Raises InputError with file and line, all mistakes at once: PM660 for what is
    no YAML, PM661 for tables that cannot be read, that no part of the machine is called like, or that lack an action.
    """
    machine = arch_of(arch)
    told = Findings(strict=True)
    wrong: set[str] = set()  # components whose tables cannot be read
    energies = _read(ert, "ERT", action_energies, told, wrong)
    areas = {} if art is None else _read(art, "ART", _area, told, set())
    parts = {node.name: node for node in machine.nodes if isinstance(node, MemoryLevel | ComputeUnit)}
    left_out = {str(name) for name in ignore}
    for found in (energies, areas):
        for name, (table, _) in found.items():
            if name not in parts and name not in left_out and not _DUMMIES.fullmatch(name):
                hint = did_you_mean(name, tuple(parts))
                what = f"{shown(name)} is no level or compute unit of '{machine.name}'"
                told.refuse(f"{table.place}: {what}", f"{hint} ignore=[{name!r}] leaves it out.")
    changed = {
        name: _with_energies(
            node, energies.get(name), Path(str(ert)).name if "\n" not in str(ert) else "the text", told
        )
        for name, node in parts.items()
        if name not in wrong
    }
    told.stop()
    nodes = tuple(changed.get(node.name, node) for node in machine.nodes)
    return replace(machine, nodes=nodes), {name: area for name, (_, area) in areas.items() if name in parts}


def _with_energies(
    node: MemoryLevel | ComputeUnit,
    table: tuple[Value, dict[str, Fraction]] | None,
    file: str,
    told: Findings,
) -> MemoryLevel | ComputeUnit:
    """Return the part of the machine with the energies of its table; adds the actions that it lacks."""
    if table is None:
        told.refuse(f"{file} has no table of {shown(node.name)}", "Every level needs one.")
        return node
    place, energies = table
    is_compute = isinstance(node, ComputeUnit)
    return replace(node, **fields_of_actions(node.name, place, energies, told, is_compute=is_compute))


def fields_of_actions(
    name: str, table: Value, energies: dict[str, Fraction], told: Findings, *, is_compute: bool
) -> dict[str, Fraction]:
    """Return the energies of a part of the machine by its fields; adds actions that it lacks, that are not known, and
    those of one field that differ."""
    wanted = _COMPUTE_ACTIONS if is_compute else _LEVEL_ACTIONS
    known = [action for actions in wanted.values() for action in actions]
    found: dict[str, Fraction] = {}
    for field, actions in wanted.items():
        given = {each: energies[each] for each in actions if each in energies}
        if len(set(given.values())) > 1:
            what = f"the table of {shown(name)} has {' and '.join(f'{each} {shown(pj)}' for each, pj in given.items())}"
            told.refuse(f"{table.place}: {what}", "One energy stands for all of them here: give one.")
        if given:
            found[field] = next(iter(given.values()))
        elif field != _OPTIONAL:
            what = f"the table of {shown(name)} has no action {' or '.join(actions)}"
            told.refuse(f"{table.place}: {what}", f"Found: {', '.join(energies) or 'none'}.")
    for action in energies:
        is_known = action in known or (is_compute and action in _COMPUTE_UNCOUNTED) or _UNCOUNTED.fullmatch(action)
        if not is_known:
            what = f"the action {shown(action)} of {shown(name)} is not read"
            told.refuse(f"{table.place}: {what}", did_you_mean(action[:64], known))
    return found


def _read(
    source: str | Path, key: str, read: Callable[[Value], Found], told: Findings, wrong: set[str]
) -> dict[str, tuple[Value, Found]]:
    """Return what the tables under a key say, by component, each with the table itself; adds what cannot be read, and
    to `wrong` the components that it is about."""
    whole = read_yaml(source, "from_accelergy")
    sections = whole.table("the file")
    section = sections.get(key) or sections.get(f"{key}_summary") or whole
    with told.collecting():
        section.check_version(key)
    return _by_component(section, key, read, told, wrong)


def energies_of(ert: Value | None, told: Findings) -> dict[str, tuple[Value, dict[str, Fraction]]] | None:
    """Return the energies of each component's actions, in pJ, with its table; None without an ERT."""
    return None if ert is None else _by_component(ert, "ERT", action_energies, told, set())


def _by_component(
    section: Value, key: str, read: Callable[[Value], Found], told: Findings, wrong: set[str]
) -> dict[str, tuple[Value, Found]]:
    found: dict[str, tuple[Value, Found]] = {}
    for table in _tables_of(section, key):
        with told.collecting():
            name = component_of(table)
            if name in found:
                raise table.refuse(f"{shown(name)} has a second table", f"The first is at {found[name][0].place}.")
            wrong.add(name)
            found[name] = table, read(table)
            wrong.remove(name)
    return found


def _tables_of(section: Value, key: str) -> list[Value]:
    """Return the tables of an ERT or ART, or of a summary. Raises InputError (PM661) where there are none."""
    name = next((each for each in ("tables", "table_summary") if each in section.table(key)), None)
    if name is None:
        raise section.refuse(f"there is no {key} with tables", f"Expected {key}: {{version: ..., tables: [...]}}.")
    return section.fields(key, ("version", name))[name].items(f"{key}.{name}")


def component_of(table: Value) -> str:
    """Return the last part of a table's name, without ranges of copies."""
    fields = table.table("a table")
    if "name" not in fields:
        raise table.refuse("a table has no name")
    return _RANGE.sub("", fields.text("name")).rpartition(".")[2]


def action_energies(table: Value) -> dict[str, Fraction]:
    """Return the energy of each action of a table, in pJ: of several sets of arguments the dearest."""
    fields = table.fields("a table of the ERT", ("name", "actions", *_ESTIMATORS), needed=("actions",))
    found: dict[str, Fraction] = {}

    def read(action: Value) -> None:
        told = action.fields("an action", ("name", "arguments", "energy"), needed=("name", "energy"))
        name = told.text("name")
        found[name] = max(found.get(name, Fraction(0)), told["energy"].number("energy"))

    all_read(*(partial(read, action) for action in fields.listed("actions")))
    return found


def _area(table: Value) -> Fraction:
    return table.fields("a table of the ART", ("name", "area", *_ESTIMATORS), needed=("area",))["area"].number("area")
