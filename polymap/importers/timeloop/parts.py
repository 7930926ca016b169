"""Components of Timeloop's machines in order: trees of versions 0.2 and 0.3, lists of nodes of version 0.4, and what
the front end and Accelergy write of these."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from polymap.importers.timeloop.attributes import (
    CAPACITIES,
    KINDS,
    NO_NETWORKS,
    Attributes,
    attributes_of,
    holds_nothing,
    reads,
    tell_inherited,
)
from polymap.importers.timeloop.expressions import check_numbers, resolved
from polymap.importers.timeloop.findings import Findings
from polymap.importers.timeloop.yaml_tables import Record, Value
from polymap.importers.tuning import TUNING
from polymap.inputs import shown
from polymap.ir import did_you_mean

# Timeloop knows a class by a part of its name.
_CLASSES = {
    "storage": ("DRAM", "SRAM", "regfile", "smartbuffer", "storage"),
    "compute": ("mac", "intmac", "fpmac", "compute"),
}
_NETWORK_CLASSES = ("XY_NoC", "Legacy", "ReductionTree", "SimpleMulticast")
# The front end writes one for a fan-out: it holds nothing, and spatial directives name it.
DUMMY_CLASS = "dummy_storage"
_RANGE = re.compile(r"\[([0-9]{1,9})\.\.([0-9]{1,9})\]")

_BRANCH_FIELDS = ("name", "local", "subtree", "attributes", "required_actions")
_LOCAL_FIELDS = ("name", "class", "subclass", "attributes", "required_actions", "enabled")
_LEAF_FIELDS = ("name", "attributes", "spatial", "constraints", "sparse_optimizations")
_CONTAINER_FIELDS = (*_LEAF_FIELDS, "networks")
_COMPONENT_FIELDS = (*_LOCAL_FIELDS, *_LEAF_FIELDS, "area_scale", "energy_scale")
BYPASS = ("bypass", "datatype", "dataspace")
_ITERATION = (
    "factors", "permutation", "default_max_factor", "default_min_factor", "remainders", "no_reuse", "factors_only",
    "no_iteration_over_dataspaces", "must_iterate_over_dataspaces", "maximize_dims", "maximize_dims_capacity",
)  # fmt: skip
CONSTRAINTS = {
    "temporal": (*_ITERATION, "rmw_first_update"),
    "spatial": (*_ITERATION, "split", "no_link_transfer"),
    **dict.fromkeys(BYPASS, ("keep", "bypass", "no_coalesce")),
    "utilization": ("min",),
    "max_overbooked_proportion": ("proportion",),
}
"""The fields of each kind of constraint, of nodes and of files."""
# Of constraints of a node: they change what Timeloop counts, and not only what its mapper tries.
_COUNTING = ("no_reuse", "no_coalesce", "rmw_first_update")
_NOT_SPARSE = "Sparse optimizations are not modelled: tensors are dense here, and counts those of dense ones."


class Mesh(NamedTuple):
    """Copies along X and Y."""

    x: int
    y: int


ONE = Mesh(1, 1)


@dataclass(slots=True)
class Part:
    """A component, or a container of version 0.4. kind: "storage", "compute", "dummy" (a fan-out's), "" (a container).
    mesh: copies below the part above. copies: of the whole machine, as names say (version 0.3). constraints: of a node,
    by their kind. elsewhere: data spaces that another branch beside it keeps."""

    name: str
    value: Value
    kind: str
    attributes: Attributes
    mesh: Mesh = ONE
    copies: int = 1
    constraints: dict[str, Value] = field(default_factory=dict[str, Value])
    elsewhere: tuple[str, ...] = ()


def tell_sparse(name: str, value: Value, told: Findings) -> None:
    """Tell that sparse optimizations are asked for, where they are."""
    asked = any(each.plain for key, each in value.plain.items() if key != "version") if value.is_table else value.plain
    if asked:
        told.no_equal(value.place, f"sparse_optimizations of {name} are not modelled", _NOT_SPARSE)


def tell_unread(name: str, group: Value, told: Findings, fields: tuple[str, ...] = _COUNTING) -> None:
    """Tell fields of a constraint or directive that something asks for and that have no equal."""
    for field_, value in group.plain.items() if group.is_table else ():
        if field_.replace("-", "_") in fields and value.plain:
            what = f"{field_} of {name} is not read (it is {value.told()})"
            told.no_equal(value.place, what, "Constraints here have no equal of it.")


def directives_of(section: Value) -> list[Value]:
    """Return the directives of a section of constraints: a list, or a table that has one or names one of several."""
    if not section.is_table:
        return section.items("constraints")
    table = section.table("constraints")
    named = [name for name in table if name.startswith("constraints_")]  # of which `constraints` may choose one
    # `template` says which factors Timeloop's mapper tries.
    fields = section.fields("constraints", ("version", "targets", "constraints", "template", *named))
    lists = {name: fields[name] for name in ("targets", "constraints") if name in fields}
    if not lists and "template" not in fields:
        raise section.refuse("the constraints have no targets", f"Found: {', '.join(table)[:200] or 'nothing'}.")
    chosen = lists.get("constraints")
    if chosen is not None and isinstance(chosen.plain, str):
        name = f"constraints_{chosen.plain}"
        if name not in table:
            raise chosen.refuse(f"there is no list {name}", f"Found: {', '.join(named) or 'none'}.")
        lists["constraints"] = table[name]
    return [each for name, value in lists.items() for each in value.items(name)]


def held_by_targets(sections: list[Value]) -> dict[str, Value]:
    """Return the directives on data spaces of sections of constraints, by their targets."""
    found: dict[str, Value] = {}
    for value in (each for section in sections for each in directives_of(section)):
        fields = value.table("a directive")
        if "target" in fields and "type" in fields and fields["type"].plain in BYPASS:
            found[str(fields["target"].plain)] = value
    return found


def parts_of_tree(subtree: Value, told: Findings, *, is_dump: bool) -> list[Part]:
    """Return the components of a tree (version 0.3); the compute unit is the innermost, wherever it stands.

    is_dump: the front end wrote it, and its variables with it."""
    parts = _branch(subtree, 1, {}, told, 0, is_dump=is_dump)
    return sorted(parts, key=lambda part: part.kind == "compute")


def parts_of_local(local: Value, told: Findings) -> list[Part]:
    """Return the components of a flattened architecture, as Accelergy writes it: names are whole paths, and what is
    deeper may stand first, or of one path what has more copies."""
    what = "components of a flattened architecture are taken from the outermost path and the fewest copies inwards"
    told.note(
        local.place, what, "Accelergy need not keep the order of one path: compare it with the machine's own file."
    )
    found = [(_local(value, 1, {}, told, has_variables=True), value) for value in local.items("local")]
    parts = [(part, _path_length(value)) for part, value in found if part is not None]
    return [part for part, _ in sorted(parts, key=lambda each: (each[1], each[0].copies, each[0].kind == "compute"))]


def _path_length(component: Value) -> int:
    return _RANGE.sub("", component.table("a component")["name"].text("name")).count(".")


def parts_of_levels(arch: dict[str, Value], told: Findings) -> list[Part]:
    """Return the components of a machine of version 0.2: storage, innermost first, and arithmetic."""
    for name in ("storage", "arithmetic"):
        if name not in arch:
            raise next(iter(arch.values())).refuse(f"the machine has no {name}")
    parts: list[Part] = []
    storage = arch["storage"].items("storage")
    for at, value in enumerate(reversed(storage)):
        fields = dict(value.table("storage"))
        name = fields.pop("name").text("name") if "name" in fields else f"level{len(storage) - 1 - at}"
        kind = "dummy" if holds_nothing(fields) else "storage"
        fields = {each: found for each, found in fields.items() if kind == "storage" or each not in CAPACITIES}
        own = attributes_of(name, Value(fields, value.place), ("storage",), told)
        parts.append(Part(name, value, kind, Attributes(name, value, own)))
    value = arch["arithmetic"]
    fields = dict(value.table("arithmetic"))
    name = fields.pop("name").text("name") if "name" in fields else "arithmetic"
    own = attributes_of(name, Value(fields, value.place), ("compute",), told)
    return [*parts, Part(name, value, "compute", Attributes(name, value, own))]


def _branch(
    subtree: Value, copies: int, around: dict[str, Value], told: Findings, depth: int, *, is_dump: bool
) -> Iterator[Part]:
    """Yield components in order. around: attributes of the subtrees around them, which say nothing of components."""
    branches = subtree.items("subtree")
    if len(branches) != 1:
        raise subtree.refuse(f"a subtree has {len(branches)} branches", "Expected one: levels in a chain.")
    fields = branches[0].fields("a subtree", _BRANCH_FIELDS, told)
    if depth > TUNING.most_nodes or "name" not in fields:
        raise branches[0].refuse("a subtree has no name, or is nested too deeply")
    branch, count = name_and_copies(fields["name"])
    copies *= count
    if "attributes" in fields:
        own = attributes_of(branch, fields["attributes"], KINDS, told, has_variables=is_dump)
        around = around | ({} if is_dump else own)
    for value in fields.listed("local"):
        with told.collecting():
            if part := _local(value, copies, around, told):
                yield part
    if "subtree" in fields:
        yield from _branch(fields["subtree"], copies, around, told, depth + 1, is_dump=is_dump)


def _local(
    value: Value, copies: int, around: dict[str, Value], told: Findings, *, has_variables: bool = False
) -> Part | None:
    """Return a component of a tree, None where it is told that it is left out. has_variables: Accelergy wrote it, with
    the variables and what it computed among the attributes."""
    component = value.fields("a component", _LOCAL_FIELDS, told, ("name",))
    name, count = name_and_copies(component["name"])
    if not component.flag("enabled", default=True):
        what = f"enabled of {name} is false"
        told.no_equal(component["enabled"].place, what, "Leave the component out.")
        return None
    kind = _kind(component, value, name, told)
    if not kind:
        return None
    given = component.get("attributes")
    if given is not None and kind == "storage" and holds_nothing(given.table(name)):
        kind = "dummy"
    own: dict[str, Value] = {}
    if given is not None and kind != "dummy":
        own = attributes_of(name, given, (kind,), told, has_variables=has_variables)
    if kind == "dummy" and given is not None:
        own = {each: found for each, found in given.table(name).items() if each in ("meshX", "meshY", "instances")}
    attributes = Attributes(name, value, own)
    if kind != "dummy":
        tell_inherited(attributes, {each: found for each, found in around.items() if reads(kind, each)}, told)
    return Part(name, value, kind, attributes, copies=copies * count)


def name_and_copies(value: Value) -> tuple[str, int]:
    """Return the last part of a name without its range of copies, such as [0..7], and how many all ranges say."""
    text = value.text("name")
    copies = 1
    for found in _RANGE.finditer(text):
        first, last = int(found[1]), int(found[2])
        if last < first:
            raise value.refuse(f"the range of {shown(text)} is empty", "Expected a range such as PE[0..7].")
        copies *= last - first + 1
    return _RANGE.sub("", text).rpartition(".")[2], copies


def _kind(component: Record, where: Value, name: str, told: Findings) -> str:
    """Return "storage", "compute" or "dummy", "" where it is told that the class is neither, such as an adder's."""
    if "class" not in component and "subclass" not in component:
        raise where.refuse(f"the component {name} has no class")
    value = component.get("class", component.get("subclass", where))
    if "class" not in component:
        what = f"{name} has no class, and the subclass {value.told()}"
        told.no_equal(value.place, what, "Timeloop reads the class, Accelergy the subclass: give both.")
    text = value.text("class")
    if text == DUMMY_CLASS:
        return "dummy"
    kind = next((kind for kind, parts in _CLASSES.items() if any(part in text for part in parts)), "")
    if not kind:
        known = tuple(part for parts in _CLASSES.values() for part in parts)
        hint = f"{did_you_mean(text[:64], known)} Timeloop itself leaves out components of other classes."
        if any(part in text for part in _NETWORK_CLASSES):
            hint = NO_NETWORKS
        what = f"the class {shown(text)} of {name} is no memory or compute unit that is read"
        told.no_equal(value.place, what, hint)
    return kind


class _List:
    """Reads lists of nodes (version 0.4). names: of the data spaces; variables: what expressions may name; sections: of
    constraints, which may say what branches of a !Parallel keep."""

    def __init__(
        self, names: list[str], variables: dict[str, object], sections: Callable[[], list[Value]], told: Findings
    ) -> None:
        self._names, self._sections, self._told = names, sections, told
        self._variables = dict(variables)
        self._inherited: dict[str, Value] = {}

    def nodes(self, nodes: Value, depth: int = 0) -> Iterator[Part]:
        """Yield the nodes in order; components inherit the attributes of containers before them."""
        for value in nodes.items("nodes"):
            with self._told.collecting():
                yield from self._node(value, depth)

    def _node(self, value: Value, depth: int) -> Iterator[Part]:
        if value.tag == "!Nothing":
            return
        fields = value.table("a node")
        if value.tag in ("!Hierarchical", "!Pipelined", "!Parallel") and "nodes" in fields:
            if depth >= TUNING.most_nodes:
                raise value.refuse("nodes are nested too deeply")
            inner = value.fields(f"a node {value.tag}", ("nodes",))["nodes"]
            yield from (self._parallel if value.tag == "!Parallel" else self.nodes)(inner, depth + 1)
            return
        if value.tag not in ("!Component", "!Container") or "name" not in fields:
            what = f"a node with the tag {value.tag or 'none'!r}" + ("" if "name" in fields else " without a name")
            hint = "Expected !Component, !Container, !Hierarchical, !Parallel and !Nothing."
            raise value.refuse(f"{what} is not read", hint)
        name, copies = name_and_copies(fields["name"])
        if copies != 1:
            what = f"{name} has {copies} copies by its name"
            raise fields["name"].refuse(what, "Copies of a node are said by spatial: {meshX: 4, meshY: 2}.")
        is_component = value.tag == "!Component"
        fields = value.fields(name, _COMPONENT_FIELDS if is_component else _CONTAINER_FIELDS, self._told)
        if fields.flag("enabled", default=True):
            part = self._part(name, value, fields, is_component=is_component)
            yield from () if part is None else (part,)

    def _part(self, name: str, value: Value, fields: Record, *, is_component: bool) -> Part | None:
        """Return a node; a container's attributes are added to those that components inherit."""
        if "sparse_optimizations" in fields:
            tell_sparse(name, fields["sparse_optimizations"], self._told)
        if "networks" in fields and fields["networks"].plain:
            self._told.no_equal(fields["networks"].place, f"networks of {name} are not read", NO_NETWORKS)
        kind = ""
        if is_component:
            kind = _kind(fields, value, name, self._told)
            if not kind:
                return None
        own = self._attributes(name, fields, kind)
        if not kind:
            self._inherited.update(own)
        whole = {each: found for each, found in self._inherited.items() if kind and reads(kind, each)} | own
        mesh = fields["spatial"].fields("spatial", ("meshX", "meshY")) if "spatial" in fields else Record()
        mesh = resolved(mesh, self._variables | {each: found.plain for each, found in whole.items()})
        x, y = (mesh[each].integer(each) if each in mesh else 1 for each in ("meshX", "meshY"))
        groups = fields["constraints"].table("constraints") if "constraints" in fields else Record()
        groups = {"dataspace" if each == "dataspaces" else each: group for each, group in groups.items()}
        return Part(name, value, kind, Attributes(name, value, whole), Mesh(x, y), constraints=groups)

    def _attributes(self, name: str, fields: Record, kind: str) -> dict[str, Value]:
        if "attributes" not in fields or kind == "dummy":
            return {}
        names = self._variables if not kind else dict(self._variables)  # a container's are those of what is inside
        given = Value(resolved(fields["attributes"].table(name), names), fields["attributes"].place)
        own = attributes_of(name, given, (kind,) if kind else KINDS, self._told)
        check_numbers(own if kind else {}, lambda each: f"{each} of {name}")
        for each in [each for each in ("instances", "meshX", "meshY") if each in own]:
            what = f"{name}.{each} is not read (it is {own[each].told()})"
            raise own[each].refuse(what, "Copies of a node are said by spatial: {meshX: 4, meshY: 2}.")
        return own

    def _parallel(self, nodes: Value, depth: int) -> Iterator[Part]:
        """Yield the parts of branches side by side: each holds the data spaces that it keeps, and no other."""
        branches: list[tuple[list[Part], set[str]]] = []
        for value in nodes.items("nodes"):
            parts = list(self._node(value, depth))
            for part in parts:
                if "dataspace" not in part.constraints and part.name in (held := held_by_targets(self._sections())):
                    part.constraints["dataspace"] = held[part.name]
            kept = {each for part in parts for each in kept_and_bypassed(part, self._names)[0]}
            if value.tag == "!Nothing" and value.is_table and "constraints" in value.plain:
                group = value.plain["constraints"].table("constraints").get("dataspace")
                kept |= set() if group is None else set(_held(group, self._names)[0])
            for part in parts:
                if part.kind not in ("storage", "compute") or part.mesh != ONE:
                    what = f"{part.name} in a !Parallel is a container, or has copies"
                    raise part.value.refuse(what, "The front end takes components without spatial there.")
            for _, others in branches:
                if kept & others:
                    raise value.refuse(f"{', '.join(sorted(kept & others))} is kept in two branches of a !Parallel")
            branches.append((parts, kept))
        missing = set(self._names).difference(*(kept for _, kept in branches))
        if missing:
            hint = "Add a branch for what passes by: - !Nothing {constraints: {dataspace: {keep: [...]}}}."
            raise nodes.refuse(f"no branch of a !Parallel keeps {', '.join(sorted(missing))}", hint)
        for parts, kept in branches:
            for part in parts:
                part.elsewhere = tuple(each for each in self._names if each not in kept)
                yield part


def parts_of_list(
    nodes: Value,
    names: list[str],
    variables: dict[str, object],
    sections: Callable[[], list[Value]],
    told: Findings,
) -> list[Part]:
    """Return the nodes of version 0.4 in order. names: of the data spaces; variables: what expressions may name;
    sections: of constraints, which may say what branches of a !Parallel keep."""
    return list(_List(names, variables, sections, told).nodes(nodes))


def kept_and_bypassed(part: Part, names: list[str]) -> tuple[list[str], list[str]]:
    """Return the data spaces that a node must hold, and those that it must not."""
    kept, bypassed = _held(part.constraints["dataspace"], names) if "dataspace" in part.constraints else ([], [])
    return kept, [*bypassed, *(each for each in part.elsewhere if each not in bypassed)]


def _held(group: Value, names: list[str]) -> tuple[list[str], list[str]]:
    known = ("keep", "bypass", "keep_only", "bypass_only", "no_coalesce", "type", "target")
    fields = group.fields("dataspace", known)
    lists = {name: _names(fields[name], name, names) for name in known[:4] if name in fields}
    for only, other in (("keep_only", "bypass"), ("bypass_only", "keep")):
        if only in lists:
            lists.setdefault(only.partition("_")[0], []).extend(lists[only])
            lists.setdefault(other, []).extend(each for each in names if each not in lists[only])
    kept, bypassed = (list(dict.fromkeys(lists.get(name, []))) for name in ("keep", "bypass"))
    both = [each for each in kept if each in bypassed]
    if both:
        raise group.refuse(f"{', '.join(both)} is kept and bypassed", "Give it once.")
    return kept, bypassed


def _names(value: Value, what: str, names: list[str]) -> list[str]:
    """Return the data spaces of a list, where `*` stands for all."""
    found: list[str] = []
    for each in value.items(what):
        name = each.text("a data space")
        if name != "*" and names and name not in names:
            raise each.refuse(f"the problem has no data space {each.told()}", did_you_mean(name[:64], names))
        found += names if name == "*" else [name]
    return found
