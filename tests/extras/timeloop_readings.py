"""What Timeloop reads in its files, written from its documentation and behaviour, with no code of polymap.

`Refused` stands for what must not be read in silence: an attribute that nobody knows, a value of another type,
something that is asked for and has no equal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from tests.extras.timeloop_mutants import SIZES, SPACES, Table


class Refused(Exception):
    """The file says what must not be read in silence."""


@dataclass(frozen=True)
class Level:
    """A memory. width: bits of an access of its table; words: that one copy may hold, None: all; bandwidths in bits per
    cycle (shared, read, write)."""

    name: str
    bits: int
    cluster: int
    width: int
    words: int | None
    bandwidths: tuple[Fraction | None, ...]
    energies: tuple[Fraction, ...]
    kept: tuple[str, ...]
    copies: tuple[int, int]


@dataclass(frozen=True)
class Unit:
    """The compute unit."""

    name: str
    energy: Fraction
    copies: tuple[int, int]


_STORAGE = ("DRAM", "SRAM", "regfile", "smartbuffer", "storage")
_COMPUTE = ("mac", "compute")
_ESTIMATES = {
    "technology", "n_banks", "type", "latency", "global_cycle_seconds", "energy_scale", "metadata_storage_width",
    "reduction_supported",
}  # fmt: skip
_NOTHING = [("min_utilization", 0), ("n_instances", 1), ("has_power_gating", False), ("allow_overbooking", False)]
_READ = {
    "word_bits", "word_width", "datawidth", "block_size", "n_words", "cluster_size", "width", "memory_width",
    "data_storage_width", "depth", "memory_depth", "data_storage_depth", "entries", "sizeKB", "multiple_buffering",
    "bandwidth", "shared_bandwidth", "read_bandwidth", "write_bandwidth", "instances", "meshX", "meshY",
}  # fmt: skip
_CAPACITIES = {"depth", "memory_depth", "data_storage_depth", "entries", "sizeKB"}
_NULLS = {
    "min_utilization", "allow_overbooking", "network_read", "network_fill_latency", "vector_access_energy",
    "power_gated_at", "n_instances", "has_power_gating",
}  # fmt: skip
# The elements of the smallest problem of the mutants: C = 4, P = 8, R = 3.
_LEAST_PROBLEM = 4 * (8 + 3 - 1) + 4 * 3 + 8
_SECTIONS = {"problem", "architecture", "ERT", "mapping", "constraints"}


def fields(value: Any, known: set[str] | None = None) -> dict[str, Any]:
    """A table's fields by names with _; two of one name, and unknown ones, are refused."""
    if not isinstance(value, Table):
        raise Refused(f"no table: {value!r}")
    found: dict[str, Any] = {}
    for key, each in value:
        name = key.replace("-", "_")
        if name in found or (known is not None and name not in known):
            raise Refused(f"key {key}")
        found[name] = each
    return found


def whole(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= 10**100:
        raise Refused(f"no integer: {value!r}")
    return value


def machine_read(file: Table) -> list[Level | Unit]:
    """The components of a machine, outermost first."""
    top = fields(file, _SECTIONS)
    arch = fields(top.get("architecture"), {"version", "subtree", "nodes"})
    if ("subtree" in arch) == ("nodes" in arch):
        raise Refused("neither or both forms")
    energies = _energies(top["ERT"]) if "ERT" in top else None
    parts = _components_of_tree(arch["subtree"], 1, set()) if "subtree" in arch else _components_of_nodes(arch["nodes"])
    found = _placed([_component(part, energies) for part in parts])
    empty = {part.name for part in parts if part.kind == "empty"}  # a capacity of 0: a fan-out's own storage
    if energies is not None and set(energies) - empty != {each.name for each in found} - empty:
        raise Refused("tables and components differ")
    found = [each for each in found if each.name not in empty]
    levels = [each for each in found if isinstance(each, Level)]
    if not found or not isinstance(found[-1], Unit) or len(levels) != len(found) - 1 or not levels:
        raise Refused("no chain of memories with a compute unit at its end")
    if levels[0].words is not None and levels[0].words < _LEAST_PROBLEM:
        raise Refused("the outermost memory does not hold the problem")
    outermost = replace(levels[0], words=None)
    return [_in_elements(each, outermost.bits) if isinstance(each, Level) else each for each in (outermost, *found[1:])]


def _in_elements(level: Level, bits: int) -> Level:
    """The level where a word is an element of so many bits: as many of them of everything."""
    scaled = (None if each is None else each * bits / level.bits for each in level.bandwidths)
    return replace(level, bits=bits, width=level.width * bits // level.bits, bandwidths=tuple(scaled))


def _placed(found: list[Level | Unit]) -> list[Level | Unit]:
    """The components with their copies along X and Y: where nothing was said as those above, else along X."""
    outer, placed = (1, 1), []
    for each in found:
        x, y = each.copies
        mesh = (x, y) if y else outer if x == outer[0] * outer[1] else (x, 1)
        if mesh[0] % outer[0] or mesh[1] % outer[1]:
            raise Refused("mesh")
        if isinstance(each, Level) and mesh[0] * mesh[1] % each.cluster:
            raise Refused("cluster")
        placed.append(replace(each, copies=mesh))
        outer = mesh
    return placed


def _energies(ert: Any) -> dict[str, dict[str, Fraction]]:
    found: dict[str, dict[str, Fraction]] = {}
    for each in _list(fields(ert, {"version", "tables"}), "tables"):
        one = fields(each, {"name", "actions"})
        actions: dict[str, Fraction] = {}
        for action in _list(one, "actions"):
            told = fields(action, {"name", "energy", "arguments"})
            if told.get("name") not in ("read", "write", "leak", "compute", "update", "idle"):
                raise Refused("action")
            actions[told["name"]] = max(actions.get(told["name"], Fraction(0)), _number(told.get("energy")))
        name = _text(one, "name").split("[")[0].rpartition(".")[2]
        if name in found:
            raise Refused("two tables")
        found[name] = actions
    return found


def _number(value: Any) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise Refused(f"no number: {value!r}")
    return Fraction(str(value))


def _list(of: dict[str, Any], name: str) -> list[Any]:
    if not isinstance(of.get(name), list) or isinstance(of[name], Table):
        raise Refused(f"no list: {name}")
    return of[name]


def _text(of: dict[str, Any], name: str) -> str:
    if not isinstance(of.get(name), str):
        raise Refused(f"no text: {name}")
    return of[name]


@dataclass
class _Part:
    name: str
    kind: str
    attributes: dict[str, Any]
    copies: tuple[int, int] | None  # of the whole machine; None: as the attributes say
    named: int
    kept: tuple[str, ...]
    default_bits: int | None


def _components_of_tree(subtree: Any, copies: int, around: set[str]) -> list[_Part]:
    if not isinstance(subtree, list) or len(subtree) != 1:
        raise Refused("branches")
    branch = fields(subtree[0], {"name", "local", "subtree", "attributes"})
    copies *= _copies_of(_text(branch, "name"))
    around = around | set(_attributes(branch.get("attributes", Table()), None, "storage"))
    found: list[_Part] = []
    for each in _list(branch, "local") if "local" in branch else []:
        one = fields(each, {"name", "class", "subclass", "attributes", "required_actions", "enabled"})
        if one.get("enabled", True) is not True:
            raise Refused("enabled")
        name = _text(one, "name")
        kind = _kind(_text(one, "class"))
        given = one.get("attributes", Table())
        is_table = isinstance(given, Table)
        if (
            is_table
            and kind == "storage"
            and any(key.replace("-", "_") in _CAPACITIES and _is_zero(value) for key, value in given)
        ):
            kind = "empty"
            given = Table((key, value) for key, value in given if key in ("instances", "meshX", "meshY"))
            around = set()
        attributes = _attributes(given, name.split("[")[0], kind)
        if around - set(attributes):
            raise Refused("an attribute around a component that it does not give")
        found.append(_Part(name.split("[")[0], kind, attributes, None, copies * _copies_of(name), (), 16))
    inner = _components_of_tree(branch["subtree"], copies, around) if "subtree" in branch else []
    return found + inner


def _is_zero(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value == 0


def _number_of(value: Any) -> Any:
    """The number that a text of version 0.4 says, which may be an expression."""
    return int(value) if isinstance(value, str) and value.isdigit() else value


def _copies_of(name: str) -> int:
    if "[" not in name:
        return 1
    first, last = name[name.index("[") + 1 : -1].split("..")
    return int(last) - int(first) + 1


def _components_of_nodes(listed: Any) -> list[_Part]:
    if not isinstance(listed, list) or isinstance(listed, Table):
        raise Refused("nodes")
    around: dict[str, Any] = {}
    x, y = 1, 1
    found: list[_Part] = []
    both = {"name", "attributes", "spatial", "constraints", "sparse_optimizations"}
    for each in listed:
        tag = getattr(each, "tag", "")
        if tag == "!Container":
            one = fields(each, both)
        else:
            one = fields(
                each, both | {"class", "subclass", "required_actions", "enabled", "area_scale", "energy_scale"}
            )
            if not isinstance(one.get("enabled", True), bool):
                raise Refused("enabled")
            if not one.get("enabled", True):
                continue
        name = _text(one, "name")
        mesh = fields(one.get("spatial", Table()), {"meshX", "meshY"})
        x, y = x * whole(_number_of(mesh.get("meshX", 1))), y * whole(_number_of(mesh.get("meshY", 1)))
        kind = "" if tag == "!Container" else _kind(_text(one, "class"))
        given = one.get("attributes", Table())
        if isinstance(given, Table):
            given = Table(((key, _number_of(value)) for key, value in given), given.tag)
        own = _attributes(given, name, kind)
        if {"instances", "meshX", "meshY"} & set(own):
            raise Refused("copies")
        kept: tuple[str, ...] = ()
        if "constraints" in one:
            inner = fields(one["constraints"], {"dataspace"})
            keep = fields(inner["dataspace"], {"keep"}) if inner else {}
            kept = tuple(_list(keep, "keep")) if keep else ()
            if kind != "storage" or not set(kept) <= {"I", "W", "O"}:
                raise Refused("kept")
        if tag == "!Container":
            around |= own
        else:
            inherited = {key: value for key, value in around.items() if key in _READ} if kind == "storage" else {}
            found.append(_Part(name, kind, inherited | own, (x, y), 1, kept, None))
    return found


def _kind(name: str) -> str:
    for kind, words in (("storage", _STORAGE), ("compute", _COMPUTE)):
        if any(word in name for word in words):
            return kind
    raise Refused("class")


def _attributes(given: Any, name: str | None, kind: str) -> dict[str, Any]:
    """The attributes that say something. name: of the component, None for a subtree."""
    found: dict[str, Any] = {}
    for key, value in fields(given).items():
        if value is None and (key in _READ | _ESTIMATES or key in _NULLS):
            found |= {key: None} if key in _READ else {}
        elif key in _ESTIMATES or (key in ("word_bits", "datawidth", "width") and kind == "compute"):
            continue
        elif key in ("instances", "meshX", "meshY") or (key in _READ and kind != "compute"):
            found[key] = value
        elif (key, value) not in _NOTHING and (key, value) != ("power_gated_at", name):
            raise Refused(f"attribute {key}")
    return found


def _component(part: _Part, energies: dict[str, dict[str, Fraction]] | None) -> Level | Unit:
    told = {key: value for key, value in part.attributes.items() if value is not None}

    def first(*names: str) -> int | None:
        return next((whole(told[name]) for name in names if name in told), None)

    copies = part.copies or _copies(first("instances") or part.named, first("meshX"), first("meshY"))
    if part.kind == "empty":
        return Unit(part.name, Fraction(0), copies)
    actions = {} if energies is None else energies.get(part.name)
    if actions is None:
        raise Refused("no table")
    if part.kind == "compute":
        if energies is not None and "compute" not in actions:
            raise Refused("no action")
        return Unit(part.name, actions.get("compute", Fraction(0)), copies)
    if energies is not None and not {"read", "write"} <= set(actions):
        raise Refused("no action")
    bits = first("word_bits", "word_width", "datawidth") or part.default_bits
    if bits is None:
        raise Refused("no datawidth")
    block, cluster, width = (
        first("block_size", "n_words"),
        first("cluster_size"),
        first("width", "memory_width", "data_storage_width"),
    )
    if part.default_bits is None:
        cluster = cluster or 1
    if width is None:
        block, cluster = block or 1, cluster or 1
    else:
        block, cluster = (
            block or width // bits // (cluster or 1),
            cluster or width // bits // (block or width // bits or 1),
        )
    width = width or bits * block * cluster
    if block * cluster * bits != width:
        raise Refused("width")
    depth, entries, kilobytes = first("depth", "memory_depth", "data_storage_depth"), first("entries"), first("sizeKB")
    words = entries or (depth * block if depth else kilobytes * 8192 // bits if kilobytes else None)
    buffering = _number(told.get("multiple_buffering", 1))
    if buffering < 1:
        raise Refused("multiple_buffering")
    words = None if words is None else int(words / buffering)
    bandwidths = _bandwidths_of(told, bits)
    found = tuple(actions.get(each, Fraction(0)) for each in ("read", "write", "leak"))
    return Level(part.name, bits, cluster, width, words, bandwidths, found, part.kept, copies)


def _bandwidths_of(told: dict[str, Any], bits: int) -> tuple[Fraction | None, ...]:
    """Bits per cycle: shared, read, write."""
    both, shared, read, write = (
        _number(told[name]) if name in told else None
        for name in ("bandwidth", "shared_bandwidth", "read_bandwidth", "write_bandwidth")
    )
    read, write = (each if each is not None else None if both is None else both / 2 for each in (read, write))
    return tuple(None if each is None else each * bits for each in (shared, read, write))


def _copies(instances: int, x: int | None, y: int | None) -> tuple[int, int]:
    if x is None and y is None:
        return instances, 0  # as the component above, or along X
    x, y = x or instances // (y or 1), y or instances // (x or 1)
    if x * y != instances:
        raise Refused("mesh")
    return x, y


# ---- what Timeloop reads in a problem


def problem_read(file: Table) -> tuple[dict[str, int], dict[str, list[dict[str, int]]], list[str]]:
    """Sizes of dims; for each data space and axis the factor of each dim; the data spaces that are written."""
    problem = fields(fields(file, _SECTIONS).get("problem"), {"version", "shape", "instance"})
    shape = fields(problem.get("shape"), {"name", "version", "dimensions", "coefficients", "data_spaces"})
    if not isinstance(shape.get("name", ""), str):
        raise Refused("name")
    dims = _list(shape, "dimensions")
    sizes = {}
    coefficients = []
    for each in _list(shape, "coefficients") if "coefficients" in shape else []:
        one = fields(each, {"name", "default"})
        coefficients.append(_text(one, "name"))
        if "default" in one:
            sizes[one["name"]] = 0 if _is_zero(one["default"]) else whole(one["default"])
    for key, value in fields(problem.get("instance")).items():
        if key == "densities":  # dense tensors are counted
            continue
        value = _number_of(value)
        sizes[key] = 0 if key in coefficients and _is_zero(value) else whole(value)
    known = [*dims, *coefficients]
    if len(set(known)) < len(known) or set(known) != set(sizes):
        raise Refused("sizes")
    spaces: dict[str, list[dict[str, int]]] = {}
    written = []
    for each in _list(shape, "data_spaces"):
        one = fields(each, {"name", "projection", "read_write"})
        name = _text(one, "name")
        if name in spaces or not isinstance(one.get("read_write", False), bool):
            raise Refused("data space")
        spaces[name] = [_axis(axis, dims, coefficients, sizes) for axis in _list(one, "projection")]
        written += [name] if one.get("read_write") else []
    return {dim: sizes[dim] for dim in dims}, spaces, written


def _axis(axis: Any, dims: list[str], coefficients: list[str], sizes: dict[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    if not isinstance(axis, list) or not axis:
        raise Refused("axis")
    for term in axis:
        if not isinstance(term, list) or len(term) not in (1, 2) or term[0] not in dims:
            raise Refused("term")
        if len(term) == 2 and term[1] not in coefficients:
            raise Refused("coefficient")
        found[term[0]] = found.get(term[0], 0) + (sizes[term[1]] if len(term) == 2 else 1)
    return {dim: factor for dim, factor in found.items() if factor}


_KINDS = {
    "temporal": {"target", "type", "factors", "permutation"},
    "spatial": {"target", "type", "factors", "permutation", "split"},
    **{name: {"target", "type", "keep", "bypass"} for name in ("bypass", "datatype", "dataspace")},
}


@dataclass
class _Directives:
    """temporal: (dim, factor) outermost first by level; spatial: along X and along Y; held: kept and bypassed."""

    temporal: dict[str, list[tuple[str, int]]]
    spatial: dict[str, tuple[list[tuple[str, int]], list[tuple[str, int]]]]
    held: dict[str, tuple[list[str], list[str]]]


def _directives(listed: Any) -> _Directives:
    found = _Directives({}, {}, {})
    if not isinstance(listed, list) or isinstance(listed, Table):
        raise Refused("directives")
    for each in listed:
        kind = dict(each).get("type") if isinstance(each, Table) else None
        if not isinstance(kind, str) or kind not in _KINDS:
            raise Refused("type")
        one = fields(each, _KINDS[kind])
        target = _text(one, "target")
        if target not in ("DRAM", "GLB", "Spad") or (kind == "spatial" and target != "GLB"):
            raise Refused("target")
        place = found.held if kind not in ("temporal", "spatial") else getattr(found, kind)
        if target in place:
            raise Refused("twice")
        if kind not in ("temporal", "spatial"):
            place[target] = tuple(_list(one, name) if name in one else [] for name in ("keep", "bypass"))
            named = [*place[target][0], *place[target][1]]
            if len(set(map(str, named))) < len(named) or not set(map(str, named)) <= set(SPACES):
                raise Refused("data spaces")
            continue
        factors = _factors_read(one["factors"]) if "factors" in one else {}
        order = _order_read(one["permutation"]) if "permutation" in one else []
        order += [dim for dim in SIZES if dim not in order]
        loops = [(dim, factors.get(dim, 1)) for dim in order]  # innermost first
        if kind == "temporal":
            place[target] = loops[::-1]
            continue
        split = one.get("split", len(SIZES))
        if type(split) is not int or not 0 <= split <= 10**100:
            raise Refused("split")
        place[target] = (loops[:split][::-1], loops[split:][::-1])
    return found


def _factors_read(value: Any) -> dict[str, int]:
    if isinstance(value, Table):
        pairs = list(value)
    else:
        texts = [value] if isinstance(value, str) else value if isinstance(value, list) else [None]
        words = [word for text in texts for word in (text.split() if isinstance(text, str) and text.strip() else ["?"])]
        pairs = [
            (word.partition("=")[0], int(word.partition("=")[2]) if word.partition("=")[2].isdigit() else None)
            for word in words
        ]
    for dim, factor in pairs:
        if dim not in SIZES or type(factor) is not int or not 0 <= factor <= 10**100:
            raise Refused("factor")
    if len(dict(pairs)) < len(pairs):
        raise Refused("factor twice")
    return dict(pairs)


def _order_read(value: Any) -> list[str]:
    if not isinstance(value, str | list) or isinstance(value, Table):
        raise Refused("permutation")
    found = [each for each in value if each != " "] if isinstance(value, str) else list(value)
    if not all(isinstance(each, str) for each in found) or len(set(found)) < len(found) or not set(found) <= set(SIZES):
        raise Refused("permutation")
    return found


def mapping_read(file: Table) -> list[tuple[object, ...]]:
    """Storage with its tensors and loops with their factors, outermost first, without loops of one iteration."""
    found = _directives(fields(file, _SECTIONS).get("mapping"))
    everywhere = [*found.temporal.values(), *(part for both in found.spatial.values() for part in both)]
    for dim, size in SIZES.items():
        known, loose = 1, 0
        for loops in everywhere:
            for name, factor in loops:
                known *= factor if name == dim and factor else 1
                loose += name == dim and factor == 0
        if loose > 1 or size % known or (not loose and known != size):
            raise Refused("factors")
        for loops in everywhere:
            loops[:] = [(name, size // known if name == dim and factor == 0 else factor) for name, factor in loops]
    nodes: list[tuple[object, ...]] = []
    for level in ("DRAM", "GLB", "Spad"):
        kept = tuple(each for each in SPACES if each not in found.held.get(level, ([], []))[1])
        nodes += [("store", level, kept)] if kept else []
        nodes += [("for", dim, factor) for dim, factor in found.temporal.get(level, []) if factor > 1]
        for axis, loops in zip(
            "XY", found.spatial.get(level, ([], [])), strict=True
        ):  # more than fit: `evaluate` says so
            nodes += [("par", axis, dim, factor) for dim, factor in loops if factor > 1]
    if nodes[0] != ("store", "DRAM", SPACES):
        raise Refused("outermost")
    return nodes


def constraints_read(file: Table) -> dict[str, Any]:
    """What levels must and must not hold, and what is spread over the fan-outs."""
    section = fields(file, _SECTIONS).get("constraints")
    if isinstance(section, Table):
        section = _list(fields(section, {"version", "targets", "template"}), "targets")
    found = _directives(section)
    if found.temporal or any("split" in dict(each) for each in section):
        raise Refused("temporal, split")
    store: dict[str, dict[str, list[str]]] = {}
    for level, (kept, bypassed) in found.held.items():
        rules = {word: names for word, names in (("must", kept), ("never", bypassed)) if names}
        store |= {level: rules} if rules else {}
    forbidden: list[str] = []
    for loops, _ in found.spatial.values():
        if any(factor not in (1,) for _, factor in loops):
            raise Refused("factors on two axes")
        given = next(dict(each) for each in section if dict(each)["type"] == "spatial").get("factors", Table())
        forbidden = list(_factors_read(given)) if given else []
    spread = {"forbid": forbidden}
    whole_ = {"store": store} if store else {}
    return whole_ | ({"fanouts": {"Spad_X": spread, "Spad_Y": spread}} if forbidden else {})
