"""Timeloop's files as workload, machine, mapping and constraints: versions 0.3 (trees) and 0.4 (lists of nodes).

What is read and what is refused: docs/howto/timeloop.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polymap.importers.timeloop_arch import machine_of
from polymap.importers.timeloop_loops import constraints_of, mapping_of
from polymap.importers.yaml_tables import Value, read_yaml
from polymap.inputs import answers_in_words, expected_kind, shown
from polymap.ir import InputError, PolymapError, Workload, did_you_mean
from polymap.workload import einsum

_SHAPE = ("name", "dimensions", "coefficients", "data_spaces", "version")
_SPACE = ("name", "projection", "read_write")
_DENSITIES = ("densities", "commonDensity")
_CONSTRAINTS = ("constraints", "architecture_constraints", "mapspace_constraints", "mapspace")
# Of one of Timeloop's files: what an argument may name, and what no answer depends on: how Timeloop searches, and what
# Accelergy computes its tables from. Expressions over variables are refused where they stand.
_SECTIONS = ("problem", "architecture", "arch", "ERT", "ART", "mapping", *_CONSTRAINTS)
_IGNORED = ("mapper", "compound_components", "components", "variables", "globals", "dumped_by_timeloop_front_end",
            "sparse_optimizations")  # fmt: skip


@answers_in_words
def from_timeloop(
    problem: str | Path,
    arch: str | Path,
    mapping: str | Path | None = None,
    constraints: str | Path | None = None,
) -> tuple[Any, ...]:
    """Return (workload, machine, mapping or None) of Timeloop's YAML files; needs the extra `timeloop`.

    Each argument is a path, or YAML as a text of several lines; all may be one file. With `constraints` there is a
    fourth value, for `explore(constraints=)`. Energies come from a table `ERT` (of Accelergy) in the file of the
    machine; without one they are 0. Raises InputError with file and line: PM660 for what is no YAML, PM661 for what is
    not read.
    """
    table = _section(problem, "problem")
    machine = machine_of(_section(arch, "architecture", "arch"), _optional(arch, "ERT"))
    workload = _workload(table, machine.bits)
    names = [tensor.name for tensor in workload.tensors]
    for each in machine.held:
        if each.plain not in names:
            raise each.refuse(f"the problem has no data space {each.told()}", did_you_mean(str(each.plain), names))
    found = None if mapping is None else mapping_of(_section(mapping, "mapping"), workload, machine)
    if constraints is None:
        return workload, machine.arch, found
    return workload, machine.arch, found, constraints_of(_section(constraints, *_CONSTRAINTS), workload, machine)


def _section(source: str | Path, *names: str) -> Value:
    """Return what stands under the one of these keys that the file has."""
    whole = read_yaml(source if isinstance(source, str) else expected_kind(source, Path, "the path", InputError))
    table = whole.table("the file")
    given = [name for name in names if name in table]
    if not given:
        raise whole.refuse(f"there is no key {names[0]!r}", f"Found: {', '.join(table)[:200] or 'nothing'}.")
    if len(given) > 1:
        raise table[given[1]].refuse(f"there are the keys {' and '.join(given)}", "Give one of them.")
    for name, value in table.items():
        what = f"the key {shown(name)} of the file is not read"
        if name == "sparse_optimizations" and _asks(value):
            raise value.refuse(what, "Tensors are dense here: leave it out.")
        if name not in (*_SECTIONS, *_IGNORED):
            raise value.refuse(what, did_you_mean(name[:64], _SECTIONS))
    return table[given[0]]


def _asks(sparse_optimizations: Value) -> bool:
    """Whether something stands there beside a version."""
    if not sparse_optimizations.is_table:
        return bool(sparse_optimizations.plain)
    return any(value.plain for name, value in sparse_optimizations.plain.items() if name != "version")


def _optional(source: str | Path, name: str) -> Value | None:
    return read_yaml(source).table("the file").get(name)


def _workload(problem: Value, bits: int) -> Workload:
    """Return the workload of a problem: its shape's dims and data spaces, its instance's sizes."""
    fields = problem.fields("problem", ("version", "shape", "instance"))
    for name in ("shape", "instance"):
        if name not in fields:
            raise problem.refuse(f"the problem has no {name}")
    shape = fields["shape"].fields("shape", _SHAPE)
    for name in ("dimensions", "data_spaces"):
        if name not in shape:
            raise fields["shape"].refuse(f"the shape has no {name}")
    dims = _once(shape["dimensions"].items("dimensions"), "a dimension")
    sizes = _sizes(dims, shape.get("coefficients"), fields["instance"])
    texts, written = _data_spaces(shape["data_spaces"], dims, sizes)
    inputs = [text for name, text in texts.items() if name not in written]
    if len(written) != 1 or not inputs:
        raise shape["data_spaces"].refuse(f"{len(written)} data spaces are read_write, {len(inputs)} are read only",
                                          "Expected one that is written and at least one that is read.")  # fmt: skip
    roles = {name: "weight" if name.lower().startswith("w") else "input" for name in texts if name not in written}
    extents = {dim: sizes[dim] for dim in dims}
    title = shape["name"].text("name") if "name" in shape else "problem"
    try:
        return einsum(f"{texts[written[0]]} += {' * '.join(inputs)}", bits=bits, roles=roles, sizes=extents, name=title)
    except PolymapError as error:
        raise fields["shape"].refuse(f"the shape is no loop nest that is read: {error.mistakes[0].what}") from None


def _once(values: list[Value], what: str) -> list[str]:
    """Return the texts, each of which stands there once."""
    found: list[str] = []
    for value in values:
        if value.text(what) in found:
            raise value.refuse(f"{what} {value.told()} is given twice")
        found.append(value.text(what))
    return found


def _sizes(dims: list[str], coefficients: Value | None, instance: Value) -> dict[str, int]:
    """Return the sizes of dims and coefficients; these may have defaults."""
    sizes: dict[str, int] = {}
    known = list(dims)
    for each in [] if coefficients is None else coefficients.items("coefficients"):
        fields = each.fields("coefficient", ("name", "default"))
        if "name" not in fields:
            raise each.refuse("a coefficient has no name")
        name = fields["name"].text("name")
        if name in known:
            raise each.refuse(f"the coefficient {shown(name)} is given twice, or named like a dimension")
        known.append(name)
        if "default" in fields:
            sizes[name] = fields["default"].integer("default")
    for name, value in instance.table("instance").items():
        if name not in known:
            hint = "Tensors are dense here." if name in _DENSITIES else did_you_mean(name[:64], known)
            what = f"instance.{name} is no dimension or coefficient of the shape (it is {value.told()})"
            raise value.refuse(what, hint)
        sizes[name] = value.integer(f"instance.{name}")
    missing = [name for name in known if name not in sizes]
    if missing:
        raise instance.refuse(f"the instance has no size of {', '.join(missing)}")
    return sizes


def _data_spaces(spaces: Value, dims: list[str], sizes: dict[str, int]) -> tuple[dict[str, str], list[str]]:
    """Return the access to each data space, by its name, and the names of those that are written."""
    texts: dict[str, str] = {}
    written: list[str] = []
    for space in spaces.items("data_spaces"):
        one = space.fields("data space", _SPACE)
        if "name" not in one or "projection" not in one:
            raise space.refuse("a data space lacks its name or projection")
        name = one["name"].text("name")
        if name in texts:
            raise one["name"].refuse(f"the data space {shown(name)} is given twice")
        axes = [_axis(axis, dims, sizes) for axis in one["projection"].items("projection")]
        texts[name] = f"{name}[{', '.join(axes)}]"
        if "read_write" in one and one["read_write"].flag(f"read_write of {name}"):
            written.append(name)
    return texts, written


def _axis(axis: Value, dims: list[str], sizes: dict[str, int]) -> str:
    """Return an axis of a projection, a list of [dim] and [dim, coefficient], as an index."""
    terms: list[str] = []
    for term in axis.items("an axis of a projection"):
        words = [each.text("a factor of a projection") for each in term.items("a term of a projection")]
        if len(words) not in (1, 2) or words[0] not in dims or any(w in dims or w not in sizes for w in words[1:]):
            raise term.refuse(f"the term {words} is not read", "Expected [DIMENSION] or [DIMENSION, COEFFICIENT].")
        factor = sizes[words[1]] if len(words) == 2 else 1
        terms.append(words[0] if factor == 1 else f"{factor}*{words[0]}")
    if not terms:
        raise axis.refuse("an axis of a projection is empty")
    return " + ".join(terms)
