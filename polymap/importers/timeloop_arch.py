"""Timeloop's machines: trees of version 0.3 and lists of nodes of version 0.4, as an `Architecture`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from polymap.arch import arch_from_document
from polymap.importers.accelergy import COMPUTE_ACTIONS, action_energies, component_of, tables_of
from polymap.importers.yaml_tables import Value
from polymap.ir import Architecture, PolymapError

_COMPUTE = re.compile(r"mac|compute|alu|multiplier", re.IGNORECASE)
_STORAGE = re.compile(r"ram|reg|buffer|storage|scratch|memory|latch|spad|cache", re.IGNORECASE)
_COPIES = re.compile(r"(.*?)\[0\.\.([0-9]{1,9})\]")
_MOST_NODES = 64


class Spread(NamedTuple):
    """The fan-outs that a spatial directive may use: along X and along Y, "" where there is none."""

    x: str
    y: str


@dataclass(frozen=True, slots=True)
class Machine:
    """arch; bits: of an element; spreads: by the name that a spatial directive targets (version 0.3: the storage above
    the fan-out; 0.4: the node that has it)."""

    arch: Architecture
    bits: int
    spreads: dict[str, Spread]


@dataclass(slots=True)
class _Part:
    """A component, or a container of version 0.4 (kind ""). mesh: copies below the part above, and along X (None: not
    said)."""

    name: str
    value: Value
    kind: str
    attributes: dict[str, Value]
    copies: int = 1
    mesh_x: int | None = None
    dataspace: Value | None = None


@dataclass(slots=True)
class _Builder:
    """Nodes of the machine's document, outermost first."""

    nodes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    spreads: dict[str, Spread] = field(default_factory=dict[str, Spread])
    bits: int = 0

    def fan_out(self, target: str, name: str, copies: int, mesh_x: int, where: Value) -> None:
        """Put fan-outs of so many copies, `mesh_x` of them along X, which directives of `target` use."""
        if copies == 1:
            return
        if copies % mesh_x:
            raise where.refuse(f"{copies} copies are no rows of {mesh_x}")
        sizes = {f"{name}_X": mesh_x, f"{name}_Y": copies // mesh_x}
        used = {each: size for each, size in sizes.items() if size > 1}
        self.nodes += [{"fanout": each, "size": size} for each, size in used.items()]
        x, y = (each if each in used else "" for each in sizes)
        self.spreads[target] = Spread(x, y)

    def component(self, part: _Part, ert: dict[str, dict[str, Fraction]]) -> None:
        """Put a level or the compute unit."""
        energies = ert.get(part.name, {})
        if part.kind == "compute":
            pj = next((energies[name] for name in COMPUTE_ACTIONS if name in energies), Fraction(0))
            self.nodes.append({"compute": part.name, "pj": pj})
            return
        level = _level(part, is_outermost=not any("level" in node for node in self.nodes))
        bits = level.pop("bits")
        if self.bits not in (0, bits):
            raise part.value.refuse(f"words of {part.name} have {bits} bits, of an outer level {self.bits}",
                                    "Bits belong to tensors here: give all levels the same datawidth.")  # fmt: skip
        self.bits = bits
        level["read_pj"] = energies.get("read", Fraction(0))
        level["write_pj"] = energies.get("write", energies.get("update", Fraction(0)))
        level["leak_pj_per_cycle"] = energies.get("leak", energies.get("idle", Fraction(0)))
        self.nodes.append(level)


def machine_of(architecture: Value, ert: Value | None) -> Machine:
    """Return the machine under the key `architecture`. Raises InputError (PM661) with the line of what is not read."""
    fields = architecture.table("architecture")
    builder, energies = _Builder(), _energies(ert)
    if "nodes" in fields:
        _read_list(list(_parts_of_list(fields["nodes"])), builder, energies)
    elif "subtree" in fields:
        _read_tree(list(_parts_of_tree(fields["subtree"], 1)), builder, energies)
    else:
        raise architecture.refuse("the architecture has neither subtree (0.3) nor nodes (0.4)")
    try:
        arch = arch_from_document({"name": "timeloop", "nodes": builder.nodes})
    except PolymapError as error:
        raise architecture.refuse(f"the machine is not read: {error.mistakes[0].what}") from None
    return Machine(arch, builder.bits or 8, builder.spreads)


def _read_tree(parts: list[_Part], builder: _Builder, ert: dict[str, dict[str, Fraction]]) -> None:
    """Version 0.3: copies and meshX are of the whole machine; directives target the storage above a fan-out."""
    above, copies, mesh = "", 1, 1
    for part in parts:
        if part.copies % copies:
            raise part.value.refuse(f"{part.copies} copies of {part.name} do not share {copies} of {above} equally")
        ratio = part.copies // copies
        wide = part.mesh_x or (mesh if ratio == 1 else mesh * ratio)
        if wide % mesh:
            raise part.value.refuse(f"meshX of {part.name} is {wide}, no multiple of {mesh} above it")
        builder.fan_out(above, part.name, ratio, wide // mesh, part.value)
        builder.component(part, ert)
        above, copies, mesh = part.name, part.copies, wide


def _parts_of_tree(subtree: Value, copies: int, depth: int = 0) -> Iterator[_Part]:
    branches = subtree.items("subtree")
    if len(branches) != 1:
        raise subtree.refuse(f"a subtree has {len(branches)} branches", "Expected one: levels in a chain.")
    fields = branches[0].table("a subtree")
    if depth > _MOST_NODES or "name" not in fields:
        raise branches[0].refuse("a subtree has no name, or is nested too deeply")
    _, count = _name_and_copies(fields["name"])
    copies *= count
    for value in fields["local"].items("local") if "local" in fields else []:
        component = value.table("a component")
        for needed in ("name", "class"):
            if needed not in component:
                raise value.refuse(f"a component has no {needed}")
        name, count = _name_and_copies(component["name"])
        attributes = _attributes(component)
        part = _Part(name, value, _kind(component["class"], attributes, name), attributes, copies * count)
        part.mesh_x = attributes["meshX"].integer("meshX") if "meshX" in attributes else None
        yield part
    if "subtree" in fields:
        yield from _parts_of_tree(fields["subtree"], copies, depth + 1)


def _name_and_copies(value: Value) -> tuple[str, int]:
    text = value.text("name")
    found = _COPIES.fullmatch(text)
    return (text, 1) if found is None else (found[1], int(found[2]) + 1)


def _read_list(parts: list[_Part], builder: _Builder, ert: dict[str, dict[str, Fraction]]) -> None:
    """Version 0.4: a node's copies are below the node above; directives target the node that has them."""
    for part in parts:
        mesh = part.mesh_x or 1
        if not part.kind and part.copies > 1 and 1 in (mesh, part.copies // mesh):  # one fan-out, of the node's name
            builder.nodes.append({"fanout": part.name, "size": part.copies})
            builder.spreads[part.name] = Spread(part.name, "") if mesh > 1 else Spread("", part.name)
            continue
        builder.fan_out(part.name, part.name, part.copies, mesh, part.value)
        if part.kind:
            builder.component(part, ert)


def _parts_of_list(nodes: Value, depth: int = 0) -> Iterator[_Part]:
    for value in nodes.items("nodes"):
        fields = value.table("a node")
        if value.tag in ("!Hierarchical", "!Pipelined") and "nodes" in fields and depth < _MOST_NODES:
            yield from _parts_of_list(fields["nodes"], depth + 1)
            continue
        if value.tag not in ("!Component", "!Container") or "name" not in fields:
            what = f"a node with the tag {value.tag or 'none'!r}" + ("" if "name" in fields else " without a name")
            raise value.refuse(f"{what} is not read", "Expected !Component, !Container and !Hierarchical.")
        attributes, spatial = _attributes(fields), fields.get("spatial")
        mesh = {} if spatial is None else spatial.table("spatial")
        unread = [name for name in mesh if name not in ("meshX", "meshY")]
        if unread:
            raise mesh[unread[0]].refuse(f"spatial.{unread[0]} is not read")
        wide, high = (mesh[name].integer(name) if name in mesh else 1 for name in ("meshX", "meshY"))
        kind = ""
        if value.tag == "!Component":
            if "class" not in fields:
                raise value.refuse("a component has no class")
            kind = _kind(fields["class"], attributes, "")
        part = _Part(fields["name"].text("name"), value, kind, attributes, wide * high, wide)
        part.dataspace = _dataspace(fields.get("constraints"))
        yield part


def _dataspace(constraints: Value | None) -> Value | None:
    """Return the dataspace constraints of a node: what it must and must not hold."""
    if constraints is None:
        return None
    fields = constraints.table("constraints")
    unread = [name for name in fields if name != "dataspace"]
    if unread:
        raise fields[unread[0]].refuse(f"constraints.{unread[0]} of a node is not read", "Give it in constraints=.")
    return fields.get("dataspace")


def _attributes(fields: dict[str, Value]) -> dict[str, Value]:
    return fields["attributes"].table("attributes") if "attributes" in fields else {}


def _kind(value: Value, attributes: dict[str, Value], name: str) -> str:
    """Return "compute" or "storage". Refuses classes that are neither, such as adders and networks."""
    text = value.text("class")
    if _COMPUTE.search(text):
        return "compute"
    if _STORAGE.search(text) or {"depth", "entries", "sizeKB"} & set(attributes):
        return "storage"
    what = f"the class {text!r} of {name or 'a component'}"
    raise value.refuse(f"{what} is no memory or compute unit that is read")


def _level(part: _Part, *, is_outermost: bool) -> dict[str, Any]:
    """Return the document of a level, and under "bits" the bits of a data word."""
    found = {name.replace("-", "_"): value for name, value in part.attributes.items()}

    def integer(*names: str, default: int) -> int:
        return next((found[name].integer(name) for name in names if name in found), default)

    bits = integer("datawidth", "word_bits", default=8)
    width = integer("width", default=bits * integer("block_size", default=1))
    level: dict[str, Any] = {"level": part.name, "word_bits": width, "bits": bits}
    if "depth" in found:
        level["capacity_bits"] = integer("depth", default=1) * width
    elif "entries" in found:
        level["capacity_bits"] = integer("entries", default=1) * bits
    elif "sizeKB" in found:
        level["capacity_bits"] = integer("sizeKB", default=1) * 8192
    if is_outermost and "capacity_bits" in level:
        raise part.value.refuse(f"the outermost level {part.name} has a capacity", "Leave out its depth: it holds all.")
    level |= _bandwidths(found, bits, part)
    return level | _holding(part.dataspace)


def _bandwidths(found: dict[str, Value], bits: int, part: _Part) -> dict[str, Any]:
    """Return the bandwidths in bits per cycle, from words per cycle."""
    shared = next((name for name in ("shared_bandwidth", "shared_read_bandwidth") if name in found), None)
    if shared == "shared_bandwidth":
        return {"bandwidth_bits_per_cycle": found[shared].number(shared) * bits}
    if shared is not None:
        raise found[shared].refuse(f"{shared} is not read", "A bandwidth here is of each copy: read_bandwidth.")
    ways = [way for way in ("read", "write") if f"{way}_bandwidth" in found]
    if len(ways) == 1:
        raise part.value.refuse(f"{part.name} has a {ways[0]}_bandwidth alone", "Give both, or shared_bandwidth.")
    return {
        f"{way}_bandwidth_bits_per_cycle": found[f"{way}_bandwidth"].number(f"{way}_bandwidth") * bits for way in ways
    }


def _holding(dataspace: Value | None) -> dict[str, Any]:
    if dataspace is None:
        return {}
    fields = dataspace.table("dataspace")
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in ("keep", "keep_only"):
            raise value.refuse(f"dataspace.{name} of a node is not read", "Known: keep, keep_only.")
        tensors = [each.text("a data space") for each in value.items(name)]
        found |= {"must_hold": tensors} if name == "keep" else {"must_hold": tensors, "holds": tensors}
    return found


def _energies(ert: Value | None) -> dict[str, dict[str, Fraction]]:
    """Return the energies of an energy reference table of Accelergy: component -> action -> pJ."""
    if ert is None:
        return {}
    return {component_of(table): action_energies(table) for table in tables_of(ert, "ERT")}
