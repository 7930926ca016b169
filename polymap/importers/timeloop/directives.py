"""Directives of Timeloop's mappings and constraints: targets, factors, permutations, data spaces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from polymap.importers.timeloop.arch import Machine
from polymap.importers.timeloop.findings import Findings
from polymap.importers.timeloop.parts import BYPASS
from polymap.importers.timeloop.yaml_tables import Record, Value
from polymap.inputs import shown
from polymap.ir import Workload, did_you_mean

_HEAD = ("target", "type")
_FACTOR = re.compile(r"(.*?)(<=|>=|=)([0-9]{1,100})")


class Directive(NamedTuple):
    """kind: "temporal", "spatial", or "bypass" for each of its three words."""

    target: str
    kind: str
    fields: Record
    where: Value


class Factor(NamedTuple):
    """sign: "=", "<=" or ">="; a factor = 0 stands for what other levels leave."""

    dim: str
    sign: str
    number: int
    where: Value


def head_of(value: Value, machine: Machine, known: Mapping[str, tuple[str, ...]], told: Findings) -> Directive:
    """Return a directive of a list. known: the fields of each type."""
    fields = value.table("a directive")
    for name in _HEAD:
        if name not in fields:
            hint = did_you_mean(name, tuple(fields)).replace("Known", "Found")
            raise value.refuse(f"a directive has no {name}", hint)
    kind = fields.text("type")
    if kind not in known:
        hint = did_you_mean(kind[:64], ("temporal", "spatial", "bypass", "dataspace"))
        raise fields["type"].refuse(f"the type {shown(kind)} is not read", hint)
    fields = value.fields(f"a {kind} directive", (*_HEAD, *known[kind]), told)
    target = _target(fields["target"], kind, machine)
    return Directive(target, "bypass" if kind in BYPASS else kind, fields, value)


def _target(value: Value, kind: str, machine: Machine) -> str:
    """Return the name of a target, which files of version 0.2 number from the innermost."""
    storage = [slot.name for slot in machine.slots if slot.kind in ("level", "dummy")]
    if isinstance(value.plain, int) and not isinstance(value.plain, bool):
        at = value.integer("target", 0)
        if at >= len(storage):
            raise value.refuse(
                f"the target {at} is unknown", f"Storage is numbered 0 (innermost) to {len(storage) - 1}."
            )
        return storage[-1 - at]
    target = value.text("target")
    known = list(dict.fromkeys([*storage, *machine.spreads]))
    if target not in known:
        raise value.refuse(f"the target {shown(target)} is unknown", did_you_mean(target[:64], known))
    if kind != "spatial" and target not in storage:
        raise value.refuse(f"the target {shown(target)} is no memory", did_you_mean(target[:64], storage))
    return target


def held_by(fields: Record, workload: Workload) -> tuple[list[str], list[str]]:
    """Return the tensors that a directive keeps and those that it bypasses, each named once."""
    kept: list[str] = []
    bypassed: list[str] = []
    known = [tensor.name for tensor in workload.tensors]
    for name, names in (("keep", kept), ("bypass", bypassed)):
        for each in fields.listed(name):
            tensor = each.text("a data space")
            if tensor not in known:
                hint = did_you_mean(tensor[:64], known)
                raise each.refuse(f"the problem has no data space {shown(tensor)}", hint)
            if tensor in (*kept, *bypassed):
                raise each.refuse(f"the data space {shown(tensor)} is named twice")
            names.append(tensor)
    return kept, bypassed


def factors_of(value: Value, workload: Workload) -> list[Factor]:
    """Return the factors, written as "C=4 M=2" or "C4 M2", a list of such, or a table."""
    found: list[Factor] = []
    if value.is_table:
        for dim, each in value.table("factors").items():
            found.append(Factor(dim, "=", each.integer(f"the factor of {dim}", 0), each))
    else:
        texts = [value] if isinstance(value.plain, str) else value.items("factors")
        for each in texts:
            words = [word for word in re.split(r"[\s,]+", each.text("factors").strip()) if word]
            found += [_factor(word, each, workload) for word in words]
    for at, (dim, sign, _, each) in enumerate(found):
        if dim not in workload.extents() or (dim, sign) in [other[:2] for other in found[:at]]:
            raise each.refuse(f"the factor of {dim!r}: no dimension of the problem, or given twice")
    return found


def _factor(word: str, where: Value, workload: Workload) -> Factor:
    if found := _FACTOR.fullmatch(word):
        return Factor(found[1], found[2], int(found[3]), where)
    dims = [dim for dim in workload.extents() if re.fullmatch(re.escape(dim) + "[0-9]{1,100}", word)]
    if len(dims) != 1:
        raise where.refuse(f"the factor {word!r} is not read", "Expected C=4: whole, without a remainder.")
    return Factor(dims[0], "=", int(word[len(dims[0]) :]), where)


def permutation_of(value: Value, workload: Workload) -> list[str]:
    """Return the dims of a permutation, innermost first: a text of single letters or with commas, or a list."""
    dims = list(workload.extents())
    if value.is_list:
        words = [each.text("a dimension") for each in value.items("permutation")]
    else:
        text = value.text("permutation")
        words = [word for word in re.split(r"[\s,]+", text) if word]
        words = words if set(words) <= set(dims) else [letter for word in words for letter in word]
    if len(set(words)) != len(words) or not set(words) <= set(dims):
        raise value.refuse(f"the permutation {value.told()} is not read", f"Dimensions: {', '.join(dims)}, each once.")
    return words
