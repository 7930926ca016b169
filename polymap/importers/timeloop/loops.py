"""Timeloop's mappings as loop trees."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from polymap.importers.timeloop.arch import Machine, Spread
from polymap.importers.timeloop.directives import Directive, factors_of, head_of, held_by, permutation_of
from polymap.importers.timeloop.findings import Findings
from polymap.importers.timeloop.parts import BYPASS
from polymap.importers.timeloop.yaml_tables import Record, Value
from polymap.ir import Compute, Mapping, MappingNode, Spatial, Storage, Temporal, Workload
from polymap.schedules import check_mapping

_FIELDS = {
    "temporal": ("factors", "permutation"),
    "spatial": ("factors", "permutation", "split"),
    **dict.fromkeys(BYPASS, ("keep", "bypass")),
}
Loop = tuple[str, int, Value]


@dataclass(slots=True)
class _Loops:
    """loops: (dim, factor, value) outermost first of temporal directives by level; spread: of spatial ones by fan-out.
    bypassed: tensors by level."""

    loops: dict[str, list[Loop]] = field(default_factory=dict[str, list[Loop]])
    spread: dict[str, list[Loop]] = field(default_factory=dict[str, list[Loop]])
    bypassed: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


def mapping_of(section: Value, workload: Workload, machine: Machine, told: Findings) -> Mapping | None:
    """Return the loop tree of the directives under `mapping` and of the constraints of the machine's nodes, which hold
    where a directive says nothing; None where something is told. Raises InputError (PM661) with the line of what is not
    read: targets, dims and factors that do not exist or do not multiply to the extents."""
    found = _Loops(bypassed=dict(machine.bypassed))
    if section.plain == [] and max(workload.extents().values(), default=1) > 1:
        raise section.refuse("the mapping is empty", "Give the one that Timeloop's mapper found, or leave it out.")
    for directive in _directives(section, workload, machine, told):
        with told.collecting():
            _read_directive(directive, workload, machine, found)
    if told.has_mistakes:
        return None
    _fill_remainders(section, workload, found)
    mapping = Mapping(tuple(_nodes(workload, machine, found)))
    with section.blamed("the mapping is no loop tree: "):
        check_mapping(workload, machine.arch, mapping)
    return mapping


def _nodes(workload: Workload, machine: Machine, found: _Loops) -> list[MappingNode]:
    nodes: list[MappingNode] = []
    left = workload.extents()
    for kind, name in machine.slots:
        if kind == "compute":
            nodes.append(Compute(workload.statements[0].name))
        if kind == "level":
            bypassed = found.bypassed.get(name, ())
            tensors = tuple(each.name for each in workload.tensors if each.name not in bypassed)
            nodes += [Storage(name, tensors)] if tensors else []
        for dim, factor, _ in found.loops.get(name, []) if kind != "fanout" else []:
            left[dim] = left[dim] // factor
            nodes += [Temporal(dim, left[dim])] if factor > 1 else []
        for dim, factor, _ in found.spread.get(name, []) if kind == "fanout" else []:
            left[dim] = left[dim] // factor
            nodes += [Spatial(dim, left[dim], name)] if factor > 1 else []
    return nodes


def _directives(section: Value, workload: Workload, machine: Machine, told: Findings) -> list[Directive]:
    """Return one directive per target and kind; fields that it does not give are those of the node's constraints."""
    found: dict[tuple[str, str], Directive] = {}
    for value in section.items("mapping"):
        with told.collecting():
            directive = head_of(value, machine, _FIELDS, told)
            key = directive.target, directive.kind
            if key in found:
                what = f"a second {directive.kind} directive of {directive.target}"
                raise value.refuse(what, "Write one with all of both.")
            found[key] = directive
    for target, groups in machine.constraints.items():
        for kind in ("temporal", "spatial"):
            group = groups.get(kind)
            if group is None or not group.is_table or (kind == "spatial" and target not in machine.spreads):
                continue
            with told.collecting():
                fields = {name: value for name, value in group.plain.items() if name in _FIELDS[kind]}
                own = found.get((target, kind), Directive(target, kind, Record(), group))
                found[target, kind] = own._replace(
                    fields=_joined(own.fields, fields, workload, machine.spreads.get(target))
                )
    return list(found.values())


def _joined(own: Record, node: dict[str, Value], workload: Workload, spread: Spread | None) -> Record:
    """Return the fields of a directive, and those of its node that it leaves open. Raises InputError for factors of a
    node that the directive contradicts."""
    joined = Record(node | own)
    split = node.get("split")
    if split is not None and isinstance(split.plain, str) and "split" not in own:  # an expression
        joined.pop("split")
        if spread is not None and spread.x and spread.y:
            raise split.refuse(f"split is {split.told()}", "Expected an integer.")
    if "factors" in node:
        given = {each.dim: each.number for each in factors_of(own["factors"], workload)} if "factors" in own else {}
        factors = {dim: Value(number, own["factors"].place) for dim, number in given.items()}
        for dim, sign, number, where in factors_of(node["factors"], workload):
            is_met = {"=": given.get(dim, number) == number, "<=": given.get(dim, 1) <= number,
                      ">=": given.get(dim, 1) >= number}[sign]  # fmt: skip
            if not is_met and given.get(dim) != 0:
                what = f"the factor of {dim} is {given.get(dim, 1)}, and the node's constraint {dim}{sign}{number}"
                raise where.refuse(what, "Make them agree.")
            if sign == "=" and dim not in factors:
                factors[dim] = Value(number, where.place)
        joined["factors"] = Value(factors, node["factors"].place)
    return joined


def _read_directive(directive: Directive, workload: Workload, machine: Machine, found: _Loops) -> None:
    target, kind, fields, value = directive
    is_dummy = any(slot == ("dummy", target) for slot in machine.slots)
    if kind == "bypass":
        kept, bypassed = held_by(fields, workload)
        if is_dummy and len(bypassed) < len(workload.tensors):
            raise value.refuse(f"{target} is a dummy storage, which holds nothing", "Bypass every data space there.")
        node = [each for each in machine.bypassed.get(target, ()) if each not in (*kept, *bypassed)]
        found.bypassed[target] = (*bypassed, *node)
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
        along_x = loops[max(0, len(loops) - fields.integer("split", 0)) :]
    along_y = loops[: len(loops) - len(along_x)]
    for name, part in ((spread.x, along_x), (spread.y, along_y)):
        used = [each for each in part if each[1] != 1]
        if used and not name:
            what = f"{target} has no fan-out along {'XY'[part is along_y]}, and {used[0][0]} is spread there"
            raise value.refuse(what)
        if used:
            found.spread[name] = part


def _loops(fields: Record, workload: Workload, value: Value, *, any_order: bool) -> list[Loop]:
    """Return (dim, factor, where) of every dim, outermost first; a factor 0 stands for what other levels leave."""
    found = factors_of(fields["factors"], workload) if "factors" in fields else []
    for each in found:
        if each.sign != "=":
            raise each.where.refuse(f"the factor {each.dim}{each.sign}{each.number} is not read", "Expected C=4.")
    factors = {each.dim: each.number for each in found}
    order = permutation_of(fields["permutation"], workload) if "permutation" in fields else []
    unordered = [dim for dim, factor in factors.items() if dim not in order and factor != 1]
    several = len([factor for factor in factors.values() if factor != 1]) > 1
    if unordered and not any_order and (several or "split" in fields):
        raise value.refuse(f"the permutation says nothing of {', '.join(unordered)}", "Name every dim with a factor.")
    order += [dim for dim in workload.extents() if dim not in order]
    return [(dim, factors.get(dim, 1), value) for dim in reversed(order)]


def _fill_remainders(section: Value, workload: Workload, found: _Loops) -> None:
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
