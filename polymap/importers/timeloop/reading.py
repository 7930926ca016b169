"""Timeloop's files as workload, machine, mapping and constraints: versions 0.2 to 0.4, and what its front end writes.

What is read and what is refused: docs/howto/timeloop.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

from polymap.importers.timeloop.arch import Around, Machine, Spread, machine_of
from polymap.importers.timeloop.directives import Directive, factors_of, head_of, held_by, permutation_of
from polymap.importers.timeloop.expressions import resolved
from polymap.importers.timeloop.findings import FileWarning, Findings
from polymap.importers.timeloop.loops import mapping_of
from polymap.importers.timeloop.parts import CONSTRAINTS, directives_of, tell_sparse, tell_unread
from polymap.importers.timeloop.problem import problem_of
from polymap.importers.timeloop.yaml_tables import Files, Record, Value
from polymap.inputs import answers_in_words, is_list, is_table, shown
from polymap.ir import InputError, Mistake, Workload, did_you_mean

_CONSTRAINTS = ("constraints", "architecture_constraints", "mapspace_constraints", "mapspace")
_ARCHITECTURES = ("architecture", "arch")
_MAPPINGS = ("mapping", "extra_mapping_constraints")
# Of one of Timeloop's files: what an argument may name, and what no answer depends on: how Timeloop searches, and what
# Accelergy computes its tables from. Expressions over variables are refused where they stand.
_SECTIONS = ("problem", *_ARCHITECTURES, "ERT", "ART", *_MAPPINGS, *_CONSTRAINTS)
_IGNORED = ("mapper", "model", "compound_components", "components", "variables", "globals", "ERT_summary",
            "ART_summary", "dumped_by_timeloop_front_end", "sparse_optimizations", "version")  # fmt: skip
_LEFT_OUT = "ignore"
"""The front end leaves out keys that end so."""


class TimeloopFiles(tuple[Any, ...]):
    """What files say: (workload, machine, mapping or None), and constraints as a fourth where they were asked for."""

    _warnings: tuple[FileWarning, ...] = ()

    @staticmethod
    def of(values: tuple[Any, ...], warnings: tuple[FileWarning, ...]) -> TimeloopFiles:
        """Return the values with their warnings."""
        found = TimeloopFiles(values)
        found._warnings = warnings
        return found

    @property
    def warnings(self) -> tuple[FileWarning, ...]:
        """What was read otherwise than it stands in the files, or left out: file, line, what, and what would help."""
        return self._warnings


@answers_in_words
def from_timeloop(
    problem: str | Path,
    arch: str | Path,
    mapping: str | Path | None = None,
    constraints: str | Path | None = None,
    *,
    strict: bool = True,
    folders: Iterable[str | Path] = (),
    values: Mapping[str, str | int | float | bool] | None = None,
) -> TimeloopFiles:
    """Return (workload, machine, mapping or None) of Timeloop's files; needs the extra `timeloop`.

    Each argument is a path, or YAML as a text of several lines; all may be one file. A name that ends in .cfg is
    libconfig. With `constraints` there is a fourth value, for `explore(constraints=)`: of the file and of the machine's
    nodes. `.warnings` of what comes back tells what is read otherwise than it stands there; with strict=False also what
    is left out because nothing here is equal to it. folders: what templates may include files from, beside the folder
    of a file; values: of the names in templates, and of those that the files leave open in expressions. Energies come
    from a table `ERT` (of Accelergy) in the file of the machine; without one they are 0. Raises InputError with file
    and line, all mistakes at once: PM660 for what is no YAML, PM661 for what is not read.
    """
    told = Findings(strict=strict)
    files = _Files(Files("from_timeloop", _folders(folders), _values(values)), told)
    variables = _values(values)
    for source in (problem, arch):
        with told.collecting():
            files.read_variables(source, variables)
    found = told.attempt(lambda: problem_of(files.section(problem, "problem"), files.shape, variables, told))
    names = [] if found is None else found.names
    machine = told.attempt(lambda: _machine(arch, names, variables, files, constraints))
    told.stop()
    assert found is not None, "mistakes of the problem are raised"
    assert machine is not None, "mistakes of the machine are raised"
    workload = found.workload(machine.bits)
    _tell_outermost(machine, workload, told)
    whole: tuple[Any, ...] = workload, machine.arch, None
    with told.collecting():
        if mapping is not None:
            tree = mapping_of(_targets(files.section(mapping, *_MAPPINGS)), workload, machine, told)
            whole = workload, machine.arch, tree
    with told.collecting():
        if constraints is not None:
            whole = *whole, constraints_of(files.constraints(constraints), workload, machine, told)
        elif mapping is None:
            _tell_constraints(machine, told)
    told.stop()
    return TimeloopFiles.of(whole, told.warnings)


def _machine(
    arch: str | Path, names: list[str], variables: dict[str, object], files: _Files, constraints: str | Path | None
) -> Machine:
    section = files.section(arch, *_ARCHITECTURES)
    is_dump = bool(files.optional(arch, "dumped_by_timeloop_front_end"))
    sources = dict.fromkeys((arch, constraints or arch))
    around = Around(
        files.optional(arch, "ERT"),
        names,
        variables,
        lambda: [each for source in sources for each in files.constraints(source)],
        is_dump,
    )
    return machine_of(section, around, files.told)


def _folders(folders: object) -> list[Path]:
    if isinstance(folders, str | Path):
        folders = [folders]
    if not is_list(folders) or any(not isinstance(each, str | Path) for each in folders):
        raise InputError(Mistake("PM661", "folders are no list of paths", "Expected such as folders=['shapes']."))
    return [Path(str(each)) for each in folders]


def _values(values: object) -> dict[str, Any]:
    if values is None:
        return {}
    if not is_table(values) or any(not isinstance(each, str | int | float | bool) for each in values.values()):
        hint = "Expected such as values={'architecture': 'eyeriss_like'}."
        raise InputError(Mistake("PM661", "values are no table of texts, numbers and truth values", hint))
    return dict(values)


class _Files:
    """The sections of the files of one question; the keys of each file are looked through once."""

    def __init__(self, files: Files, told: Findings) -> None:
        self._files, self.told = files, told
        self._checked: set[str | Path] = set()

    def section(self, source: str | Path, *names: str) -> Value:
        """Return what stands under the one of these keys that the file has."""
        table = self._table(source)
        given = [name for name in names if name in table]
        if not given:
            told = ", ".join(table)[:200] or "nothing"
            raise self._files.read(source).refuse(f"there is no key {names[0]!r}", f"Found: {told}.")
        if len(given) > 1 and {*given} == {*_MAPPINGS} and not table["mapping"].plain:
            given = ["extra_mapping_constraints"]
        if len(given) > 1:
            raise table[given[1]].refuse(f"there are the keys {' and '.join(given)}", "Give one of them.")
        return table[given[0]]

    def constraints(self, source: str | Path) -> list[Value]:
        """Return the lists of constraints of a file; none where it has a machine, whose nodes may have some."""
        table = self._table(source)
        given = [table[name] for name in _CONSTRAINTS if name in table]
        if not given and not any(name in table for name in _ARCHITECTURES):
            self.section(source, *_CONSTRAINTS)
        return given

    def optional(self, source: str | Path, name: str) -> Value | None:
        """Return what stands under a key, None without it."""
        return self._table(source).given(name)

    def read_variables(self, source: str | Path, names: dict[str, object]) -> None:
        """Add the variables of a file, which expressions may name: a table, or a list of several."""
        found = self.optional(source, "variables")
        for each in [] if found is None else found.items("variables") if found.is_list else [found]:
            resolved(each.table("variables"), names)

    def shape(self, name: str) -> Value | None:
        """Return the file of a shape in the folders that are given."""
        return self._files.beside(name, (".yaml", ".yml", ".cfg"))

    def _table(self, source: str | Path) -> Record:
        whole = self._files.read(source)
        table = whole.table("the file")
        if source not in self._checked:
            self._checked.add(source)
            for name, value in {"the file": whole, **table}.items():
                with self.told.collecting():
                    value.check_version(name)
            for name, value in table.items():
                if name == "sparse_optimizations":
                    tell_sparse("the file", value, self.told)
                if name not in (*_SECTIONS, *_IGNORED) and not name.endswith(_LEFT_OUT):
                    what = f"the key {shown(name)} of the file is not read"
                    self.told.no_equal(value.place, what, did_you_mean(name[:64], _SECTIONS))
        return table


def _targets(section: Value) -> Value:
    """Return the list of directives, which may stand under `targets`."""
    return section.fields("mapping", ("version", "targets"))["targets"] if section.is_table and (
        "targets" in section.plain) else section  # fmt: skip


def _tell_outermost(machine: Machine, workload: Workload, told: Findings) -> None:
    """Tell a capacity of the outermost level that the problem's tensors exceed: here it holds all."""
    if machine.outermost is not None:
        name, where, elements = machine.outermost
        needed = sum(prod(tensor.shape) for tensor in workload.tensors)
        if needed > elements:
            what = f"the outermost level {name} has a capacity of {elements:,} elements, the problem has {needed:,}"
            told.no_equal(where.place, what, "The outermost level holds all: leave out its depth.")


def _tell_constraints(machine: Machine, told: Findings) -> None:
    """Tell constraints of nodes that were not asked for."""
    for name, groups in machine.constraints.items():
        for kind, group in groups.items():
            if kind != "dataspace" and group.plain:
                what = f"constraints.{kind} of {name} limits Timeloop's search, and nothing here"
                told.note(group.place, what, "from_timeloop(..., constraints=FILE) returns it as a fourth value.")


# `no_link_transfer` is how it is here: neighbours forward nothing.
_UNREAD = (
    "default_max_factor", "default_min_factor", "remainders", "no_reuse", "maximize_dims", "maximize_dims_capacity",
    "rmw_first_update", "no_coalesce", "min", "proportion",
)  # fmt: skip


def constraints_of(sections: list[Value], workload: Workload, machine: Machine, told: Findings) -> dict[str, Any]:
    """Return the constraints of `explore`: data spaces as `store`, spatial factors, orders and splits as `fanouts`, of
    the sections of a file and of the machine's nodes. Tells others (PM661): what a level's own loops must be has no
    equal there, unless it asks for nothing."""
    reader = _Constraints(workload, machine, told)
    for section in sections:
        seen: set[tuple[str, str]] = set()
        for value in directives_of(section):
            with told.collecting():
                directive = head_of(value, machine, CONSTRAINTS, told)
                if directive[:2] in seen:
                    what = f"a second {directive.kind} directive of {directive.target}"
                    raise value.refuse(what, "Write one with all of both.")
                seen.add(directive[:2])
                reader.read(directive)
    for target, groups in machine.constraints.items():
        for kind, group in groups.items():
            if kind == "dataspace" or kind not in CONSTRAINTS or not group.plain:
                continue  # a machine's levels say what they hold; what is not known is told with the machine
            with told.collecting():
                fields = group.fields(f"constraints.{kind}", ("type", "target", *CONSTRAINTS[kind]), told)
                reader.read(Directive(target, kind, fields, group))
    return reader.found()


class _Constraints:
    """Collects constraints. Dims of extent 1 have no loops, whatever is asked of them."""

    def __init__(self, workload: Workload, machine: Machine, told: Findings) -> None:
        self._workload, self._machine, self._told = workload, machine, told
        self._dims = [dim for dim, extent in workload.extents().items() if extent > 1]
        self._store: dict[str, dict[str, list[str]]] = {}
        self._fanouts: dict[str, dict[str, Any]] = {}

    def found(self) -> dict[str, Any]:
        """Return what was read."""
        found = {"store": self._store, "fanouts": self._fanouts}
        return {name: table for name, table in found.items() if table}

    def read(self, directive: Directive) -> None:
        """Note a directive, or tell what of it has no equal."""
        target, kind, fields, where = directive
        tell_unread(target, Value(fields, where.place), self._told, _UNREAD)
        if kind == "bypass":
            self._hold(target, fields, where)
        if kind in ("temporal", "spatial"):
            factors, others = self._factors(fields)
            if others:
                hint = "Read: factors with =, such as C=4."
                self._told.no_equal(
                    where.place, f"the {kind} factors {', '.join(others)} of {target} are not read", hint
                )
            if kind == "temporal":
                self._temporal(target, fields, factors, where)
            else:
                self._spatial(target, fields, factors, where)

    def _hold(self, target: str, fields: Record, where: Value) -> None:
        kept, bypassed = held_by(fields, self._workload)
        if ("dummy", target) in self._machine.slots:
            if kept:
                raise where.refuse(
                    f"{target} is a dummy storage, which holds nothing", "Bypass every data space there."
                )
            return
        for word, tensors in (("must", kept), ("never", bypassed)):
            if tensors:
                names = self._store.setdefault(target, {}).setdefault(word, [])
                names += [each for each in tensors if each not in names]

    def _factors(self, fields: Record) -> tuple[dict[str, int], list[str]]:
        """Return what factors must be, of dims that have loops, and those of other forms as they are written."""
        found: dict[str, int] = {}
        others: list[str] = []
        given = [each for name in ("factors", "factors_only") if name in fields
                 for each in factors_of(fields[name], self._workload)]  # fmt: skip
        for dim, sign, number, where in given:
            if dim in self._dims and (sign != "=" or number == 0):
                others.append(f"{dim}{sign}{number}")
            elif dim in self._dims and found.setdefault(dim, number) != number:
                raise where.refuse(f"the factor of {dim} is {found[dim]} and {number}", "Give it once.")
        ones: list[str] = []
        if "factors_only" in fields:
            ones += self._dims
        for name, is_of in (("no_iteration_over_dataspaces", True), ("must_iterate_over_dataspaces", False)):
            if name in fields and fields[name].plain:
                held = held_by(Record(keep=fields[name]), self._workload)[0]
                dims = {dim for tensor in held for dim in self._dims_of(tensor)}
                ones += [dim for dim in self._dims if (dim in dims) is is_of]
        return dict.fromkeys(ones, 1) | found, others

    def _dims_of(self, tensor: str) -> set[str]:
        accesses = [access for each in self._workload.statements for access in (each.target, *each.reads)]
        indices = [index for access in accesses if access.tensor == tensor for index in access.index]
        return {dim for index in indices for _, dim in index.terms if isinstance(dim, str)}

    def _temporal(self, target: str, fields: Record, factors: dict[str, int], where: Value) -> None:
        """Loops of a level have no equal, but where nothing is asked: at a dummy storage, where none stand anyway, or
        of dims that have none."""
        if ("dummy", target) in self._machine.slots and set(factors.values()) <= {1}:
            return
        order = permutation_of(fields["permutation"], self._workload) if "permutation" in fields else []
        order = order if len(self._dims) > 1 else []
        asked = [f"{dim}={factor}" for dim, factor in factors.items()]
        if any(dim in self._dims for dim in order):
            asked.append(f"the permutation {','.join(order)}")
        if asked:
            hint = "A level's own loops have no equal: order, outermost and innermost are of all levels."
            self._told.no_equal(where.place, f"a temporal constraint of {target} is not read: {', '.join(asked)}", hint)

    def _spatial(self, target: str, fields: Record, factors: dict[str, int], where: Value) -> None:
        """Note spatial factors: 1 forbids a dim, more asks for so many; the order on one fan-out changes no cost."""
        spread = self._machine.spreads.get(target, Spread("", ""))
        asked = {dim: factor for dim, factor in factors.items() if factor > 1}
        if spread == ("", ""):
            if asked:
                raise where.refuse(f"{target} has no fan-out", f"Known: {', '.join(self._machine.spreads) or 'none'}.")
            return
        along_x = self._along_x(target, fields, factors, where)
        for axis, name in zip("XY", spread, strict=True):
            forbidden = [dim for dim, factor in factors.items() if factor == 1]
            if along_x is not None:
                forbidden += [dim for dim in self._dims if (dim in along_x) is (axis == "Y") and dim not in forbidden]
            if name and forbidden:
                names = self._fanouts.setdefault(name, {}).setdefault("forbid", [])
                names += [dim for dim in forbidden if dim not in names]
        for dim, factor in asked.items():
            names = [name for axis, name in zip("XY", spread, strict=True)
                     if name and (along_x is None or (dim in along_x) is (axis == "X"))]  # fmt: skip
            if len(names) == 1:
                self._fanouts.setdefault(names[0], {}).setdefault("factors", {})[dim] = factor
            else:
                told = "along X or Y alone, or with permutation and split"
                what = f"the spatial factor {factor} of {dim} at {target} is not read"
                self._told.no_equal(where.place, what, f"Read: 1, and more on a fan-out {told}.")

    def _along_x(self, target: str, fields: Record, factors: dict[str, int], where: Value) -> list[str] | None:
        """Return the dims that a split puts along X: so many of the permutation, innermost first; None without one."""
        order = permutation_of(fields["permutation"], self._workload) if "permutation" in fields else []
        if fields.given("split") is None:
            return None
        split = fields["split"]
        if not isinstance(split.plain, int):
            self._told.no_equal(split.place, f"split of {target} is {split.told()}", "Expected an integer.")
            return None
        if split.integer("split", 0) >= len(self._workload.extents()):
            return list(self._workload.extents())
        if split.plain > len(order) and any(dim not in order and factors.get(dim) != 1 for dim in self._dims):
            what = f"split of {target} is {split.plain}, of a permutation of {len(order)}"
            self._told.no_equal(where.place, what, "Name every dimension in the permutation.")
            return None
        return order[: split.plain]
