"""Timeloop's mappings as loop trees, and its constraints as those of `explore`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod
from typing import Any

from polymap.importers.timeloop_arch import Machine
from polymap.importers.yaml_tables import Value
from polymap.inputs import shown
from polymap.ir import (
    Compute,
    Fanout,
    Mapping,
    MappingNode,
    MemoryLevel,
    PolymapError,
    Spatial,
    Storage,
    Temporal,
    Workload,
    did_you_mean,
)
from polymap.schedules import check_mapping

_BYPASS = ("bypass", "datatype", "dataspace")
_HEAD = ("target", "type")
_FIELDS = {
    "temporal": (*_HEAD, "factors", "permutation"),
    "spatial": (*_HEAD, "factors", "permutation", "split"),
    **dict.fromkeys(_BYPASS, (*_HEAD, "keep", "bypass")),
}


@dataclass(slots=True)
class _Directives:
    """loops: (dim, factor, value) outermost first of temporal directives by level; spread: of spatial ones by fan-out.
    bypassed: tensors by level."""

    loops: dict[str, list[tuple[str, int, Value]]] = field(default_factory=dict[str, list[tuple[str, int, Value]]])
    spread: dict[str, list[tuple[str, int, Value]]] = field(default_factory=dict[str, list[tuple[str, int, Value]]])
    bypassed: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    seen: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def note(self, value: Value, target: str, kind: str) -> None:
        """Note a directive. Raises InputError for a second one of a target and kind."""
        kind = "bypass" if kind in _BYPASS else kind
        if (target, kind) in self.seen:
            raise value.refuse(f"a second {kind} directive of {target}", "Write one with all of both.")
        self.seen.add((target, kind))


def mapping_of(section: Value, workload: Workload, machine: Machine) -> Mapping:
    """Return the loop tree of the directives under `mapping`. Raises InputError (PM661) with the line of what is not
    read: targets, dims and factors that do not exist or do not multiply to the extents."""
    found = _Directives()
    for value in section.items("mapping"):
        _read_directive(value, workload, machine, found)
    _fill_remainders(section, workload, found)
    nodes: list[MappingNode] = []
    left = workload.extents()
    for node in machine.arch.nodes:
        match node:
            case MemoryLevel():
                bypassed = found.bypassed.get(node.name, set[str]())
                tensors = tuple(each.name for each in workload.tensors if each.name not in bypassed)
                nodes += [Storage(node.name, tensors)] if tensors else []
                for dim, factor, _ in found.loops.get(node.name, []):
                    left[dim] = left[dim] // factor
                    nodes += [Temporal(dim, left[dim])] if factor > 1 else []
            case Fanout():
                for dim, factor, _ in found.spread.get(node.name, []):
                    left[dim] = left[dim] // factor
                    nodes += [Spatial(dim, left[dim], node.name)] if factor > 1 else []
            case _:
                nodes.append(Compute(workload.statements[0].name))
    mapping = Mapping(tuple(nodes))
    try:
        check_mapping(workload, machine.arch, mapping)
    except PolymapError as error:
        raise section.refuse(f"the mapping is no loop tree: {error.mistakes[0].what}") from None
    return mapping


def _read_directive(value: Value, workload: Workload, machine: Machine, found: _Directives) -> None:
    fields, target, kind = _head(value, machine)
    found.note(value, target, kind)
    if kind in _BYPASS:
        found.bypassed[target] = set(_held(fields, workload)[1])
        return
    loops = _loops(fields, workload, value, any_order=kind == "spatial" and "split" not in fields)
    if kind == "temporal":
        found.loops[target] = loops
        return
    spread = machine.spreads.get(target)
    if spread is None:
        if any(factor != 1 for _, factor, _ in loops):
            raise value.refuse(f"{target} has no fan-out", f"Known: {', '.join(machine.spreads) or 'none'}.")
        return
    along_x = loops if spread.x else []
    if "split" in fields:  # so many innermost dims, of all dims
        along_x = loops[max(0, len(loops) - fields["split"].integer("split", 0)) :]
    along_y = loops[: len(loops) - len(along_x)]
    for name, part in ((spread.x, along_x), (spread.y, along_y)):
        used = [each for each in part if each[1] != 1]
        if used and not name:
            raise value.refuse(
                f"{target} has no fan-out along {'XY'[part is along_y]}, and {used[0][0]} is spread there"
            )
        if used:
            found.spread[name] = part


def _head(value: Value, machine: Machine) -> tuple[dict[str, Value], str, str]:
    """Return fields, target and type of a directive."""
    fields = value.table("a directive")
    for name in _HEAD:
        if name not in fields:
            hint = did_you_mean(name, tuple(fields)).replace("Known", "Found")
            raise value.refuse(f"a directive has no {name}", hint)
    target, kind = fields["target"].text("target"), fields["type"].text("type")
    if kind not in _FIELDS:
        hint = did_you_mean(kind[:64], ("temporal", "spatial", "bypass", "dataspace"))
        raise fields["type"].refuse(f"the type {shown(kind)} is not read", hint)
    fields = value.fields(f"a {kind} directive", _FIELDS[kind])
    levels = [level.name for level in machine.arch.levels]
    known = [*levels, *machine.spreads] if kind == "spatial" else levels
    if target not in known:
        raise fields["target"].refuse(f"the target {shown(target)} is unknown", did_you_mean(target[:64], known))
    return fields, target, kind


def _held(fields: dict[str, Value], workload: Workload) -> tuple[list[str], list[str]]:
    """Return the tensors that a directive keeps and those that it bypasses, each named once."""
    kept: list[str] = []
    bypassed: list[str] = []
    known = [tensor.name for tensor in workload.tensors]
    for name, names in (("keep", kept), ("bypass", bypassed)):
        for each in fields[name].items(name) if name in fields else []:
            tensor = each.text("a data space")
            if tensor not in known:
                hint = did_you_mean(tensor[:64], known)
                raise each.refuse(f"the problem has no data space {shown(tensor)}", hint)
            if tensor in (*kept, *bypassed):
                raise each.refuse(f"the data space {shown(tensor)} is named twice")
            names.append(tensor)
    return kept, bypassed


def _loops(
    fields: dict[str, Value], workload: Workload, value: Value, *, any_order: bool
) -> list[tuple[str, int, Value]]:
    """Return (dim, factor, where) of every dim, outermost first; a factor 0 stands for what other levels leave."""
    factors = _factors(fields["factors"], workload) if "factors" in fields else {}
    order = _permutation(fields["permutation"], workload) if "permutation" in fields else []
    unordered = [dim for dim, factor in factors.items() if dim not in order and factor != 1]
    several = len([factor for factor in factors.values() if factor != 1]) > 1
    if unordered and not any_order and (several or "split" in fields):
        raise value.refuse(f"the permutation says nothing of {', '.join(unordered)}", "Name every dim with a factor.")
    order += [dim for dim in workload.extents() if dim not in order]
    return [(dim, factors.get(dim, 1), value) for dim in reversed(order)]


def _factors(value: Value, workload: Workload) -> dict[str, int]:
    """Return the factors, written as "C=4 M=2", a list of such, or a table."""
    pairs: list[tuple[str, int, Value]] = []
    if value.is_table:
        pairs += [(dim, each.integer(f"the factor of {dim}", 0), each) for dim, each in value.table("factors").items()]
    else:
        texts = [value] if isinstance(value.plain, str) else value.items("factors")
        for each in texts:
            for word in re.split(r"[\s,]+", each.text("factors").strip()):
                dim, sign, number = word.partition("=")
                if not sign or not re.fullmatch(r"[0-9]{1,100}", number):
                    raise each.refuse(f"the factor {word!r} is not read", "Expected C=4: whole, without a remainder.")
                pairs.append((dim, int(number), each))
    found: dict[str, int] = {}
    for dim, factor, each in pairs:
        if dim not in workload.extents() or dim in found:
            raise each.refuse(f"the factor of {dim!r}: no dimension of the problem, or given twice")
        found[dim] = factor
    return found


def _permutation(value: Value, workload: Workload) -> list[str]:
    """Return the dims of a permutation, innermost first: a text of single letters or with commas, or a list."""
    dims = list(workload.extents())
    if value.is_list:
        words = [each.text("a dimension") for each in value.items("permutation")]
    else:
        text = value.text("permutation").strip()
        words = [word for word in re.split(r"[\s,]+", text) if word] if re.search(r"[\s,]", text) else list(text)
        words = [text] if text in dims else words
    if len(set(words)) != len(words) or not set(words) <= set(dims):
        raise value.refuse(f"the permutation {value.told()} is not read", f"Dimensions: {', '.join(dims)}, each once.")
    return words


def _fill_remainders(section: Value, workload: Workload, found: _Directives) -> None:
    """Replace a factor 0 by what the others leave, and check that the factors multiply to the extents."""
    everywhere = [*found.loops.values(), *found.spread.values()]
    for dim, extent in workload.extents().items():
        factors = [(loops, index) for loops in everywhere for index, each in enumerate(loops) if each[0] == dim]
        open_ones = [(loops, index) for loops, index in factors if loops[index][1] == 0]
        known = prod(loops[index][1] for loops, index in factors if loops[index][1])
        if len(open_ones) == 1 and extent % known == 0:
            loops, index = open_ones[0]
            loops[index] = (dim, extent // known, loops[index][2])
        elif open_ones or known != extent:
            where = next((loops[index][2] for loops, index in factors if loops[index][1] != 1), section)
            raise where.refuse(f"the factors of {dim} multiply to {known}, its size is {extent}")


def constraints_of(section: Value, workload: Workload, machine: Machine) -> dict[str, Any]:
    """Return the constraints of `explore`: bypass and dataspace directives as `store`, whole spatial factors as
    `fanouts`. Raises InputError (PM661) for others: orders and temporal factors of a level have no equal there."""
    if section.is_table and "targets" in section.plain:
        # `template` says which factors Timeloop's mapper tries.
        section = section.fields("constraints", ("version", "targets", "template"))["targets"]
    seen = _Directives()
    store: dict[str, dict[str, list[str]]] = {}
    fanouts: dict[str, dict[str, Any]] = {}
    for value in section.items("constraints"):
        fields, target, kind = _head(value, machine)
        seen.note(value, target, kind)
        if kind in _BYPASS:
            for word, tensors in zip(("must", "never"), _held(fields, workload), strict=True):
                if tensors:
                    store.setdefault(target, {})[word] = tensors
        elif kind == "spatial" and target in machine.spreads:
            _constrain_spread(value, fields, workload, machine, fanouts)
        else:
            raise value.refuse(
                f"a {kind} constraint of {target} is not read", "Read: bypass, dataspace, spatial factors."
            )
    found: dict[str, Any] = {"store": store} if store else {}
    return found | ({"fanouts": fanouts} if fanouts else {})


def _constrain_spread(
    value: Value, fields: dict[str, Value], workload: Workload, machine: Machine, fanouts: dict[str, dict[str, Any]]
) -> None:
    """Note spatial factors: 1 forbids a dim, more asks for so many; the order on one fan-out has no effect on costs."""
    target = fields["target"].text("target")
    if "permutation" in fields:
        _permutation(fields["permutation"], workload)
    names = [name for name in machine.spreads[target] if name]
    factors = _factors(fields["factors"], workload) if "factors" in fields else {}
    for dim, factor in factors.items():
        if factor == 1:
            for name in names:
                fanouts.setdefault(name, {}).setdefault("forbid", []).append(dim)
        elif factor > 1 and len(names) == 1:
            fanouts.setdefault(names[0], {}).setdefault("factors", {})[dim] = factor
        else:
            raise value.refuse(f"the spatial factor {factor} of {dim} at {target} is not read",
                               "Read: 1, and more on a fan-out along X or Y alone.")  # fmt: skip
    if "split" in fields:
        raise fields["split"].refuse("split of a constraint is not read")
