"""Timeloop's files as workload, machine, mapping and constraints: versions 0.3 (trees) and 0.4 (lists of nodes).

What is read and what is refused: docs/howto/timeloop.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polymap.importers.timeloop_arch import machine_of
from polymap.importers.timeloop_loops import constraints_of, mapping_of
from polymap.importers.yaml_tables import Value, read_yaml
from polymap.inputs import expected_kind
from polymap.ir import InputError, PolymapError, Workload
from polymap.workload import einsum

_SHAPE = ("name", "dimensions", "coefficients", "data_spaces", "version")
_SPACE = ("name", "projection", "read_write")


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
    found = None if mapping is None else mapping_of(_section(mapping, "mapping"), workload, machine)
    if constraints is None:
        return workload, machine.arch, found
    names = ("constraints", "architecture_constraints", "mapspace_constraints", "mapspace")
    return workload, machine.arch, found, constraints_of(_section(constraints, *names), workload, machine)


def _section(source: str | Path, *names: str) -> Value:
    """Return what stands under the first of these keys that the file has."""
    whole = read_yaml(source if isinstance(source, str) else expected_kind(source, Path, "the path", InputError))
    table = whole.table("the file")
    for name in names:
        if name in table:
            return table[name]
    raise whole.refuse(f"there is no key {names[0]!r}", f"Found: {', '.join(table)[:200] or 'nothing'}.")


def _optional(source: str | Path, name: str) -> Value | None:
    return read_yaml(source).table("the file").get(name)


def _workload(problem: Value, bits: int) -> Workload:
    """Return the workload of a problem: its shape's dims and data spaces, its instance's sizes."""
    fields = problem.table("problem")
    unread = [name for name in fields if name not in ("version", "shape", "instance")]
    if unread:
        raise fields[unread[0]].refuse(f"problem.{unread[0]} is not read", "Expected shape and instance.")
    for name in ("shape", "instance"):
        if name not in fields:
            raise problem.refuse(f"the problem has no {name}")
    shape = known_fields(fields["shape"], "shape", _SHAPE)
    instance = fields["instance"].table("instance")
    sizes = _sizes(shape, instance, fields["shape"])
    dims = [each.text("a dimension") for each in shape["dimensions"].items("dimensions")]
    texts: dict[str, str] = {}
    written: list[str] = []
    for space in shape["data_spaces"].items("data_spaces"):
        one = known_fields(space, "data space", _SPACE)
        if "name" not in one or "projection" not in one:
            raise space.refuse("a data space lacks its name or projection")
        name = one["name"].text("name")
        axes = [_axis(axis, dims, sizes) for axis in one["projection"].items("projection")]
        texts[name] = f"{name}[{', '.join(axes)}]"
        if "read_write" in one and one["read_write"].plain is True:
            written.append(name)
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


def known_fields(value: Value, what: str, names: tuple[str, ...]) -> dict[str, Value]:
    """Return the fields of a table, with - in names as _; refuses others than these names."""
    found = {name.replace("-", "_"): each for name, each in value.table(what).items()}
    for name, each in found.items():
        if name not in names:
            raise each.refuse(f"{what}.{name} is not read", f"Known: {', '.join(names)}.")
    return found


def _sizes(shape: dict[str, Value], instance: dict[str, Value], where: Value) -> dict[str, int]:
    """Return the sizes of dims and coefficients; these have defaults."""
    for name in ("dimensions", "data_spaces"):
        if name not in shape:
            raise where.refuse(f"the shape has no {name}")
    sizes: dict[str, int] = {}
    for each in shape["coefficients"].items("coefficients") if "coefficients" in shape else []:
        fields = known_fields(each, "coefficient", ("name", "default"))
        if "name" not in fields:
            raise each.refuse("a coefficient has no name")
        sizes[fields["name"].text("name")] = fields["default"].integer("default") if "default" in fields else 1
    dims = [each.text("a dimension") for each in shape["dimensions"].items("dimensions")]
    for name, value in instance.items():
        if name not in dims and name not in sizes:
            raise value.refuse(f"instance.{name} is no dimension or coefficient of the shape")
        sizes[name] = value.integer(f"instance.{name}")
    missing = [dim for dim in dims if dim not in sizes]
    if missing:
        raise where.refuse(f"the instance has no size of {', '.join(missing)}")
    return sizes


def _axis(axis: Value, dims: list[str], sizes: dict[str, int]) -> str:
    """Return an axis of a projection, a list of [dim] and [dim, coefficient], as an index."""
    terms: list[str] = []
    for term in axis.items("an axis of a projection"):
        words = [each.text("a factor of a projection") for each in term.items("a term of a projection")]
        if len(words) not in (1, 2) or words[0] not in dims or (len(words) == 2 and words[1] not in sizes):
            raise term.refuse(f"the term {words} is not read", "Expected [DIMENSION] or [DIMENSION, COEFFICIENT].")
        factor = sizes[words[1]] if len(words) == 2 else 1
        terms.append(words[0] if factor == 1 else f"{factor}*{words[0]}")
    if not terms:
        raise axis.refuse("an axis of a projection is empty")
    return " + ".join(terms)
