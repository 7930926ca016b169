"""Timeloop's machines: trees of version 0.3 and lists of nodes of version 0.4, as an `Architecture`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import Any, NamedTuple

from polymap.arch import arch_from_document
from polymap.importers.accelergy import action_energies, component_of, fields_of_actions, tables_of
from polymap.importers.timeloop_attributes import KINDS, Attributes, attributes_of, memory_of, reads, refuse_inherited
from polymap.importers.tuning import TUNING
from polymap.importers.yaml_tables import Value
from polymap.inputs import shown
from polymap.ir import Architecture, InputError, Mistake, PolymapError, did_you_mean

# Timeloop knows a class by a part of its name.
_CLASSES = {
    "storage": ("DRAM", "SRAM", "regfile", "smartbuffer", "storage"),
    "compute": ("mac", "intmac", "fpmac", "compute"),
}
_NETWORK_CLASSES = ("XY_NoC", "Legacy", "ReductionTree", "SimpleMulticast")
_COPIES = re.compile(r"(.*?)\[([0-9]{1,9})\.\.([0-9]{1,9})\]")

_BRANCH_FIELDS = ("name", "local", "subtree", "attributes")
_LOCAL_FIELDS = ("name", "class", "subclass", "attributes", "required_actions", "enabled")
_CONTAINER_FIELDS = ("name", "attributes", "spatial", "constraints", "sparse_optimizations", "networks")
_COMPONENT_FIELDS = (*_LOCAL_FIELDS, "spatial", "constraints", "sparse_optimizations", "area_scale", "energy_scale")


class Spread(NamedTuple):
    """The fan-outs that a spatial directive may use: along X and along Y, "" where there is none."""

    x: str
    y: str


@dataclass(frozen=True, slots=True)
class Machine:
    """arch; bits: of an element; spreads: by the name that a spatial directive targets (version 0.3: the storage above
    the fan-out; 0.4: the node that has it); held: the data spaces that levels must hold, as they are named."""

    arch: Architecture
    bits: int
    spreads: dict[str, Spread]
    held: tuple[Value, ...]


class _Mesh(NamedTuple):
    """Copies along X and Y."""

    x: int
    y: int


_ONE = _Mesh(1, 1)


@dataclass(slots=True)
class _Part:
    """A component, or a container of version 0.4 (kind ""). mesh: copies below the part above. copies: of the whole
    machine, as names say (version 0.3)."""

    name: str
    value: Value
    kind: str
    attributes: Attributes
    mesh: _Mesh = _ONE
    copies: int = 1
    dataspace: Value | None = None


@dataclass(slots=True)
class _Builder:
    """Nodes of the machine's document, outermost first. energies: the table of each component and its actions; None:
    there is no ERT."""

    energies: dict[str, tuple[Value, dict[str, Fraction]]] | None
    is_list: bool
    nodes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    spreads: dict[str, Spread] = field(default_factory=dict[str, Spread])
    held: list[Value] = field(default_factory=list[Value])
    bits: int = 0

    def fan_out(self, target: str, name: str, mesh: _Mesh) -> None:
        """Put fan-outs of so many copies, which directives of `target` use."""
        if mesh == _ONE:
            return
        sizes = {f"{name}_X": mesh.x, f"{name}_Y": mesh.y}
        used = {each: size for each, size in sizes.items() if size > 1}
        self.nodes += [{"fanout": each, "size": size} for each, size in used.items()]
        x, y = (each if each in used else "" for each in sizes)
        self.spreads[target] = Spread(x, y)

    def component(self, part: _Part) -> None:
        """Put a level or the compute unit."""
        if part.kind == "compute":
            self.nodes.append({"compute": part.name, "pj": Fraction(0)} | self.pj_of(part))
            return
        memory = memory_of(part.attributes, is_list=self.is_list)
        level = {"level": part.name} | memory.level | self.pj_of(part) | self.holding(part.dataspace)
        if self.bits not in (0, memory.bits):
            what = f"words of {part.name} have {memory.bits} bits, of an outer level {self.bits}"
            raise part.value.refuse(what, "Bits belong to tensors here: give all levels the same datawidth.")
        self.bits = memory.bits
        copies = prod(node["size"] for node in self.nodes if "fanout" in node)
        if copies % memory.cluster:
            what = f"{memory.cluster} copies of {part.name} share a memory, and there are {copies}"
            raise part.attributes.refuse("cluster_size", what, "Say the copies: instances, or names such as PE[0..7].")
        self.check_capacity(part, level)
        self.nodes.append(level)

    def check_capacity(self, part: _Part, level: dict[str, Any]) -> None:
        """Refuse a capacity of the outermost level, and that of another one which is not said."""
        is_outermost = not any("level" in node for node in self.nodes)
        if is_outermost and level.get("capacity_bits") is not None:
            hint = "Leave out its depth: it holds all."
            raise part.value.refuse(f"the outermost level {part.name} has a capacity", hint)
        if not is_outermost and "capacity_bits" not in level:
            hint = "Give depth, entries or sizeKB; depth: null says that it holds all."
            raise part.value.refuse(f"the level {part.name} has no capacity", hint)

    def holding(self, dataspace: Value | None) -> dict[str, Any]:
        """Return the fields of a level that say what it must hold, and may."""
        fields = {} if dataspace is None else dataspace.fields("dataspace", ("keep", "keep_only"))
        if len(fields) > 1:
            raise fields["keep"].refuse("dataspace has keep and keep_only", "Give one of them.")
        found: dict[str, Any] = {}
        for name, value in fields.items():
            self.held += value.items(name)
            tensors = [each.text("a data space") for each in value.items(name)]
            found |= {"must_hold": tensors} if name == "keep" else {"must_hold": tensors, "holds": tensors}
        return found

    def pj_of(self, part: _Part) -> dict[str, Fraction]:
        """Return the energies of a component in its table, none without an ERT."""
        if self.energies is None:
            return {}
        if part.name not in self.energies:
            raise part.value.refuse(f"the ERT has no table of {shown(part.name)}",
                                    did_you_mean(part.name, tuple(self.energies)))  # fmt: skip
        mistakes: list[Mistake] = []
        found = fields_of_actions(part.name, *self.energies[part.name], mistakes, is_compute=part.kind == "compute")
        if mistakes:
            raise InputError(mistakes)
        return found

    def check_tables(self) -> None:
        """Refuse tables of an ERT that belong to no component."""
        names = tuple(str(node.get("level") or node.get("compute")) for node in self.nodes if "fanout" not in node)
        for name, (table, _) in (self.energies or {}).items():
            if name not in names:
                hint = f"{did_you_mean(name, names)} Networks have no energy here: leave out their tables."
                raise table.refuse(f"the ERT has a table of {shown(name)}, which is no level or compute unit", hint)


def machine_of(architecture: Value, ert: Value | None) -> Machine:
    """Return the machine under the key `architecture`. Raises InputError (PM661) with the line of what is not read."""
    fields = architecture.table("architecture")
    if "nodes" not in fields and "subtree" not in fields:
        raise architecture.refuse("the architecture has neither subtree (0.3) nor nodes (0.4)")
    is_list = "nodes" in fields
    fields = architecture.fields("architecture", ("version", "nodes" if is_list else "subtree"))
    builder = _Builder(_energies(ert), is_list)
    if is_list:
        _read_list(list(_parts_of_list(fields["nodes"], {})), builder)
    else:
        _read_tree(list(_parts_of_tree(fields["subtree"], 1, {})), builder)
    builder.check_tables()
    try:
        arch = arch_from_document({"name": "timeloop", "nodes": builder.nodes})
    except PolymapError as error:
        raise architecture.refuse(f"the machine is not read: {error.mistakes[0].what}") from None
    return Machine(arch, builder.bits, builder.spreads, tuple(builder.held))


def _read_tree(parts: list[_Part], builder: _Builder) -> None:
    """Version 0.3: copies and meshes are of the whole machine; directives target the storage above a fan-out."""
    above, outer = "", _ONE
    for part in parts:
        mesh = _whole_mesh(part, outer)
        for axis, inner, around in (("X", mesh.x, outer.x), ("Y", mesh.y, outer.y)):
            if inner % around:
                what = f"{part.name} has {inner} copies along {axis}, no multiple of {around} of {above}"
                raise part.attributes.refuse(f"mesh{axis}", what, "Give meshX: copies along X of the whole machine.")
        builder.fan_out(above, part.name, _Mesh(mesh.x // outer.x, mesh.y // outer.y))
        builder.component(part)
        above, outer = part.name, mesh


def _whole_mesh(part: _Part, outer: _Mesh) -> _Mesh:
    """Return the copies of a component in the whole machine: all along X where nothing else is said, but as those above
    it where there are as many."""
    attributes, name = part.attributes, part.name
    said, x, y = (attributes.integer(each) for each in ("instances", "meshX", "meshY"))
    if said is not None and part.copies not in (1, said):
        what = f"instances of {name} is {said}, names say {part.copies} copies"
        raise attributes.refuse("instances", what, "Instances are of the whole machine: give one of the two.")
    copies = said or part.copies
    if x is None and y is None:
        return outer if copies == outer.x * outer.y else _Mesh(copies, 1)
    mesh = _Mesh(x or copies // (y or 1), y or copies // (x or 1))
    if mesh.x * mesh.y != copies:
        axis, size = ("X", x) if x is not None else ("Y", y)
        what = f"mesh{axis} of {name} is {size}" + (f", meshY {y}" if x is not None and y is not None else "")
        hint = "Say the copies of the whole machine: instances, or names such as PE[0..7]."
        raise attributes.refuse(f"mesh{axis}", f"{what}, and the whole machine has {copies} of it", hint)
    return mesh


def _parts_of_tree(subtree: Value, copies: int, around: dict[str, Value], depth: int = 0) -> Iterator[_Part]:
    """Yield components in order. around: attributes of the subtrees around them, which say nothing of components."""
    branches = subtree.items("subtree")
    if len(branches) != 1:
        raise subtree.refuse(f"a subtree has {len(branches)} branches", "Expected one: levels in a chain.")
    fields = branches[0].fields("a subtree", _BRANCH_FIELDS)
    if depth > TUNING.most_nodes or "name" not in fields:
        raise branches[0].refuse("a subtree has no name, or is nested too deeply")
    branch, count = _name_and_copies(fields["name"])
    copies *= count
    if "attributes" in fields:
        around = around | attributes_of(branch, fields["attributes"], KINDS)
    for value in fields["local"].items("local") if "local" in fields else []:
        component = value.fields("a component", _LOCAL_FIELDS)
        for needed in ("name", "class"):
            if needed not in component:
                raise value.refuse(f"a component has no {needed}")
        name, count = _name_and_copies(component["name"])
        if not _is_enabled(component):
            raise component["enabled"].refuse(f"enabled of {name} is false", "Leave the component out.")
        kind = _kind(component["class"], name)
        own = attributes_of(name, component["attributes"], (kind,)) if "attributes" in component else {}
        attributes = Attributes(name, value, own)
        refuse_inherited(attributes, {each: found for each, found in around.items() if reads(kind, each)})
        yield _Part(name, value, kind, attributes, copies=copies * count)
    if "subtree" in fields:
        yield from _parts_of_tree(fields["subtree"], copies, around, depth + 1)


def _name_and_copies(value: Value) -> tuple[str, int]:
    """Return a name without its range of copies, such as [0..7], and their number."""
    text = value.text("name")
    found = _COPIES.fullmatch(text)
    if found is None:
        return text, 1
    first, last = int(found[2]), int(found[3])
    if last < first:
        raise value.refuse(f"the range of {shown(text)} is empty", "Expected a range such as PE[0..7].")
    return found[1], last - first + 1


def _is_enabled(component: dict[str, Value]) -> bool:
    return component["enabled"].flag("enabled") if "enabled" in component else True


def _read_list(parts: list[_Part], builder: _Builder) -> None:
    """Version 0.4: a node's copies are below the node above; directives target the node that has them."""
    for part in parts:
        x, y = part.mesh
        if not part.kind and 1 in (x, y) and x * y > 1:  # one fan-out, of the node's name
            builder.nodes.append({"fanout": part.name, "size": x * y})
            builder.spreads[part.name] = Spread(part.name, "") if x > 1 else Spread("", part.name)
            continue
        builder.fan_out(part.name, part.name, part.mesh)
        if part.kind:
            builder.component(part)


def _parts_of_list(nodes: Value, inherited: dict[str, Value], depth: int = 0) -> Iterator[_Part]:
    """Yield the nodes in order; components inherit the attributes of containers before them, noted in `inherited`."""
    for value in nodes.items("nodes"):
        fields = value.table("a node")
        if value.tag in ("!Hierarchical", "!Pipelined") and "nodes" in fields and depth < TUNING.most_nodes:
            inner = value.fields(f"a node {value.tag}", ("nodes",))["nodes"]
            yield from _parts_of_list(inner, inherited, depth + 1)
            continue
        if value.tag not in ("!Component", "!Container") or "name" not in fields:
            what = f"a node with the tag {value.tag or 'none'!r}" + ("" if "name" in fields else " without a name")
            raise value.refuse(f"{what} is not read", "Expected !Component, !Container and !Hierarchical.")
        name = fields["name"].text("name")
        is_component = value.tag == "!Component"
        fields = value.fields(name, _COMPONENT_FIELDS if is_component else _CONTAINER_FIELDS)
        if _is_enabled(fields):
            yield _node(name, value, fields, inherited, is_component=is_component)


def _node(
    name: str, value: Value, fields: dict[str, Value], inherited: dict[str, Value], *, is_component: bool
) -> _Part:
    """Return a node of version 0.4; a container's attributes are added to those that components inherit."""
    for empty in ("sparse_optimizations", "networks"):
        if empty in fields and fields[empty].plain:
            raise fields[empty].refuse(f"{empty} of {name} are not read", "Tensors are dense, networks fan-outs here.")
    kind = ""
    if is_component:
        if "class" not in fields:
            raise value.refuse("a component has no class")
        kind = _kind(fields["class"], name)
    own = attributes_of(name, fields["attributes"], (kind,) if kind else KINDS) if "attributes" in fields else {}
    for each in [each for each in ("instances", "meshX", "meshY") if each in own]:
        what = f"{name}.{each} is not read (it is {own[each].told()})"
        raise own[each].refuse(what, "Copies of a node are said by spatial: {meshX: 4, meshY: 2}.")
    if not kind:
        inherited.update(own)
    whole = {each: found for each, found in inherited.items() if kind and reads(kind, each)} | own
    mesh = fields["spatial"].fields("spatial", ("meshX", "meshY")) if "spatial" in fields else {}
    x, y = (mesh[each].integer(each) if each in mesh else 1 for each in ("meshX", "meshY"))
    dataspace = _dataspace(fields.get("constraints"))
    if kind != "storage" and dataspace is not None:
        raise dataspace.refuse(f"constraints.dataspace of {name} is not read", "Give it at a memory.")
    return _Part(name, value, kind, Attributes(name, value, whole), _Mesh(x, y), dataspace=dataspace)


def _dataspace(constraints: Value | None) -> Value | None:
    """Return the dataspace constraints of a node: what it must and must not hold."""
    if constraints is None:
        return None
    fields = constraints.table("constraints")
    unread = [name for name in fields if name != "dataspace"]
    if unread:
        raise fields[unread[0]].refuse(f"constraints.{unread[0]} of a node is not read", "Give it in constraints=.")
    return fields.get("dataspace")


def _kind(value: Value, name: str) -> str:
    """Return "storage" or "compute". Refuses classes that are neither, such as adders and networks."""
    text = value.text("class")
    kind = next((kind for kind, parts in _CLASSES.items() if any(part in text for part in parts)), None)
    if kind is None:
        known = tuple(part for parts in _CLASSES.values() for part in parts)
        hint = f"{did_you_mean(text[:64], known)} Timeloop itself leaves out components of other classes."
        if any(part in text for part in _NETWORK_CLASSES):
            hint = "Networks are not read: fan-outs of the machine may have energies (pj_per_word_hop)."
        what = f"the class {shown(text)} of {name} is no memory or compute unit that is read"
        raise value.refuse(what, hint)
    return kind


def _energies(ert: Value | None) -> dict[str, tuple[Value, dict[str, Fraction]]] | None:
    """Return the tables of an energy reference table of Accelergy: component -> table, and action -> pJ."""
    if ert is None:
        return None
    found: dict[str, tuple[Value, dict[str, Fraction]]] = {}
    for table in tables_of(ert, "ERT"):
        name = component_of(table)
        if name in found:
            raise table.refuse(f"{shown(name)} has a second table", f"The first is at {found[name][0].place}.")
        found[name] = table, action_energies(table)
    return found
