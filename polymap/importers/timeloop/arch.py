"""Timeloop's machines, in any of the forms of `parts`, as an `Architecture`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import Any, NamedTuple

from polymap.importers.timeloop.accelergy import energies_of, fields_of_actions
from polymap.importers.timeloop.attributes import memory_of
from polymap.importers.timeloop.findings import Findings
from polymap.importers.timeloop.parts import (
    CONSTRAINTS,
    ONE,
    Mesh,
    Part,
    kept_and_bypassed,
    parts_of_levels,
    parts_of_list,
    parts_of_local,
    parts_of_tree,
    tell_unread,
)
from polymap.importers.timeloop.yaml_tables import Value
from polymap.inputs import arch_from_document, shown
from polymap.ir import Architecture, did_you_mean


class Spread(NamedTuple):
    """The fan-outs that a spatial directive may use: along X and along Y, "" where there is none."""

    x: str
    y: str


class Slot(NamedTuple):
    """A place for loops, outermost first. kind: "level", "dummy" (of a storage that holds nothing), "fanout",
    "compute"."""

    kind: str
    name: str


class Outermost(NamedTuple):
    """The outermost level's own capacity, in elements."""

    name: str
    where: Value
    elements: int


@dataclass(frozen=True, slots=True)
class Machine:
    """arch; bits: of an element; slots: where loops stand; spreads: by the name that a spatial directive targets
    (version 0.3: the storage above the fan-out; 0.4: the node that has it); bypassed: the data spaces that pass by a
    level unless a mapping says otherwise; constraints: of nodes, by name and kind; storage: names of levels, innermost
    first, as files of version 0.2 number them."""

    arch: Architecture
    bits: int
    slots: tuple[Slot, ...]
    spreads: dict[str, Spread]
    bypassed: dict[str, tuple[str, ...]]
    constraints: dict[str, dict[str, Value]]
    outermost: Outermost | None

    @property
    def storage(self) -> tuple[str, ...]:
        """The names of the levels, innermost first."""
        return tuple(slot.name for slot in reversed(self.slots) if slot.kind == "level")


@dataclass(slots=True)
class _Builder:
    """Nodes of the machine's document, outermost first. energies: the table of each component and its actions; None:
    there is no ERT. names: of the data spaces, none where they are not known."""

    energies: dict[str, tuple[Value, dict[str, Fraction]]] | None
    is_list: bool
    names: list[str]
    told: Findings
    nodes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    slots: list[Slot] = field(default_factory=list[Slot])
    spreads: dict[str, Spread] = field(default_factory=dict[str, Spread])
    bypassed: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    outermost: Outermost | None = None
    bits: int = 0

    def fan_out(self, target: str, name: str, mesh: Mesh) -> None:
        """Put fan-outs of so many copies, which directives of `target` use."""
        if mesh == ONE:
            return
        sizes = {f"{name}_X": mesh.x, f"{name}_Y": mesh.y}
        used = {each: size for each, size in sizes.items() if size > 1}
        for each, size in used.items():
            self.put_fan_out(each, size)
        x, y = (each if each in used else "" for each in sizes)
        self.spreads[target] = Spread(x, y)

    def put_fan_out(self, name: str, size: int) -> None:
        """Put one fan-out."""
        self.nodes.append({"fanout": name, "size": size})
        self.slots.append(Slot("fanout", name))

    def component(self, part: Part) -> None:
        """Put a level or the compute unit."""
        if part.kind == "dummy":
            self.slots.append(Slot("dummy", part.name))
            return
        if part.kind == "compute":
            self.nodes.append({"compute": part.name, "pj": Fraction(0)} | self.pj_of(part))
            self.slots.append(Slot("compute", part.name))
            return
        memory = memory_of(part.attributes, self.told, is_list=self.is_list)
        if self.bits not in (0, memory.bits):
            what = f"words of {part.name} have {memory.bits} bits, of the outermost level {self.bits}"
            hint = f"A word is one element on both, as Timeloop counts: bits of traffic are those of {self.bits}."
            self.told.note(part.value.place, what, hint)
        self.bits = self.bits or memory.bits
        copies = prod(node["size"] for node in self.nodes if "fanout" in node)
        if copies % memory.cluster:
            what = f"{memory.cluster} copies of {part.name} share a memory, and there are {copies}"
            raise part.attributes.refuse(
                "cluster_size", what, "Say the copies: meshX of a container (0.4), instances or PE[0..7] (0.2, 0.3)."
            )
        if memory.cluster > 1 and self.energies is not None:
            what = f"{memory.cluster} copies of {part.name} share a memory"
            hint = "Energies here are of the copies in use; Timeloop pays for all that share one."
            self.told.note(part.value.place, what, hint)
        level = {"level": part.name} | memory.in_elements_of(self.bits)
        self.check_capacity(part, level)
        self.nodes.append(level | self.pj_of(part) | self.holding(part))
        self.slots.append(Slot("level", part.name))

    def check_capacity(self, part: Part, level: dict[str, Any]) -> None:
        """Keep a capacity of the outermost level for the problem's tensors; refuse one of another that is not said."""
        is_outermost = not any("level" in node for node in self.nodes)
        if not is_outermost and "capacity_bits" not in level:
            hint = "Give depth, entries or sizeKB; depth: null says that it holds all."
            raise part.value.refuse(f"the level {part.name} has no capacity", hint)
        if is_outermost and level.get("capacity_bits") is not None:
            bits = level.pop("capacity_bits") // level.pop("buffering", 1)
            self.outermost = Outermost(part.name, part.value, bits // self.bits)

    def holding(self, part: Part) -> dict[str, Any]:
        """Return the fields of a level that say what it must hold, and may; notes what passes by."""
        kept, bypassed = kept_and_bypassed(part, self.names)
        if bypassed and not any("level" in node for node in self.nodes):
            group = part.constraints["dataspace"]
            self.told.no_equal(group.place, f"{', '.join(bypassed)} bypasses the outermost level {part.name}",
                               "The outermost level holds all: leave it out.")  # fmt: skip
            bypassed = []
        self.bypassed[part.name] = tuple(bypassed)
        found: dict[str, Any] = {"must_hold": kept} if kept else {}
        if bypassed and self.names:
            found["holds"] = [each for each in self.names if each not in bypassed]
        return found

    def pj_of(self, part: Part) -> dict[str, Fraction]:
        """Return the energies of a component in its table, none without an ERT."""
        if self.energies is None:
            return {}
        if part.name not in self.energies:
            raise part.value.refuse(f"the ERT has no table of {shown(part.name)}",
                                    did_you_mean(part.name, tuple(self.energies)))  # fmt: skip
        return fields_of_actions(part.name, *self.energies[part.name], self.told, is_compute=part.kind == "compute")

    def check_tables(self) -> None:
        """Tell tables of an ERT that belong to no component; a dummy's says nothing."""
        names = tuple(slot.name for slot in self.slots if slot.kind != "fanout")
        for name, (table, _) in (self.energies or {}).items():
            if name not in names:
                hint = f"{did_you_mean(name, names)} Networks have no energy here: leave out their tables."
                what = f"the ERT has a table of {shown(name)}, which is no level or compute unit"
                self.told.no_equal(table.place, what, hint)


class Around(NamedTuple):
    """What stands around a machine: the table ERT; the names of data spaces, none where the problem is not read; what
    expressions may name; sections of constraints; whether the front end wrote the file."""

    ert: Value | None
    names: list[str]
    variables: dict[str, object]
    sections: Callable[[], list[Value]]
    is_dump: bool


def machine_of(architecture: Value, around: Around, told: Findings) -> Machine:
    """Return the machine under the key `architecture` or `arch`. Raises InputError (PM661) with the line of what is not
    read."""
    ert, names = around[:2]
    parts, is_list = _parts(architecture, around, told)
    builder = _Builder(energies_of(ert, told), is_list, names, told)
    if is_list:
        _read_list(parts, builder)
    else:
        _read_tree(parts, builder)
    if not told.has_mistakes:
        builder.check_tables()
    told.stop()
    with architecture.blamed("the machine is not read: "):
        arch = arch_from_document({"name": "timeloop", "nodes": builder.nodes})
    constraints = {part.name: part.constraints for part in parts if part.constraints}
    return Machine(arch, builder.bits, tuple(builder.slots), builder.spreads, builder.bypassed, constraints,
                   builder.outermost)  # fmt: skip


def _parts(architecture: Value, around: Around, told: Findings) -> tuple[list[Part], bool]:
    """Return the components in order, and whether copies are relative to the node above (version 0.4)."""
    fields = architecture.table("architecture")
    form = next((each for each in ("nodes", "subtree", "local", "storage") if each in fields), None)
    if form is None:
        hint = f"Found: {', '.join(fields)[:200] or 'nothing'}."
        raise architecture.refuse("the architecture has neither subtree (0.3), nodes (0.4) nor storage (0.2)", hint)
    known = ("version", form, "arithmetic") if form == "storage" else ("version", form)
    fields = architecture.fields("architecture", known, told)
    if form == "nodes":
        return parts_of_list(fields["nodes"], *around[1:4], told), True
    if form == "subtree":
        return parts_of_tree(fields["subtree"], told, is_dump=around.is_dump), False
    return (parts_of_local(fields["local"], told) if form == "local" else parts_of_levels(fields, told)), False


def _read_tree(parts: list[Part], builder: _Builder) -> None:
    """Version 0.3: copies and meshes are of the whole machine; directives target the storage above a fan-out."""
    above, outer = "", ONE
    for part in parts:
        with builder.told.collecting():
            mesh = _whole_mesh(part, outer)
            for axis, inner, around in (("X", mesh.x, outer.x), ("Y", mesh.y, outer.y)):
                if inner % around:
                    what = f"{part.name} has {inner} copies along {axis}, no multiple of {around} of {above}"
                    hint = "Give meshX: copies along X of the whole machine."
                    raise part.attributes.refuse(f"mesh{axis}", what, hint)
            builder.fan_out(above, part.name, Mesh(mesh.x // outer.x, mesh.y // outer.y))
            outer = mesh
            builder.component(part)
        above = part.name


def _whole_mesh(part: Part, outer: Mesh) -> Mesh:
    """Return the copies of a component in the whole machine: all along X where nothing else is said, but as those above
    it where there are as many."""
    attributes, name = part.attributes, part.name
    said, x, y = (attributes.integer(each) for each in ("instances", "meshX", "meshY"))
    if said is not None and part.copies not in (1, said):
        what = f"instances of {name} is {said}, names say {part.copies} copies"
        raise attributes.refuse("instances", what, "Instances are of the whole machine: give one of the two.")
    copies = said or part.copies
    if x is None and y is None:
        return outer if copies == outer.x * outer.y else Mesh(copies, 1)
    mesh = Mesh(x or copies // (y or 1), y or copies // (x or 1))
    if mesh.x * mesh.y != copies:
        axis, size = ("X", x) if x is not None else ("Y", y)
        what = f"mesh{axis} of {name} is {size}" + (f", meshY {y}" if x is not None and y is not None else "")
        hint = "Say the copies of the whole machine: instances, or names such as PE[0..7]."
        raise attributes.refuse(f"mesh{axis}", f"{what}, and the whole machine has {copies} of it", hint)
    return mesh


def _tell_constraints(part: Part, builder: _Builder) -> None:
    """Tell constraints of a node that change what is counted, or that belong elsewhere."""
    for kind, group in part.constraints.items():
        if kind not in ("spatial", "temporal", "dataspace", "utilization", "max_overbooked_proportion"):
            hint = did_you_mean(kind[:64], tuple(CONSTRAINTS))
            builder.told.no_equal(group.place, f"constraints.{kind} of {part.name} is not read", hint)
        elif kind != "dataspace" and group.plain is not None:
            group.fields(f"constraints.{kind}", ("type", "target", *CONSTRAINTS[kind]), builder.told)
        tell_unread(part.name, group, builder.told)
    kept, bypassed = kept_and_bypassed(part, builder.names)
    if part.kind != "storage" and not part.elsewhere and (kept or (bypassed and part.kind == "compute")):
        group = part.constraints["dataspace"]
        builder.told.no_equal(group.place, f"constraints.dataspace of {part.name} is not read", "Give it at a memory.")


def _read_list(parts: list[Part], builder: _Builder) -> None:
    """Version 0.4: a node's copies are below the node above; directives target the node that has them."""
    for part in parts:
        with builder.told.collecting():
            _tell_constraints(part, builder)
            x, y = part.mesh
            if not part.kind and 1 in (x, y) and x * y > 1:  # one fan-out, of the node's name
                builder.put_fan_out(part.name, x * y)
                builder.spreads[part.name] = Spread(part.name, "") if x > 1 else Spread("", part.name)
                continue
            builder.fan_out(part.name, part.name, part.mesh)
            if part.kind:
                builder.component(part)
