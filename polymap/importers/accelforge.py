"""AccelForge's YAML as machine, layers and mapping, as far as it needs no Python: docs/howto/coming_from.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from polymap.importers.timeloop import Files, FileWarning, Findings, Record, Value, tree_of, value_of
from polymap.inputs import answers_in_words, as_fraction, mapping_from_document
from polymap.ir import (
    ROLE_WORDS,
    Architecture,
    ComputeUnit,
    Fanout,
    InputError,
    Mapping as LoopTree,
    MemoryLevel,
    Workload,
    did_you_mean,
)
from polymap.networks import MappedNode, Network, Part, network_of_nodes
from polymap.resolve import arch_of
from polymap.workload import einsum

_COMPONENT = ("name", "size", "leak_power", "area", "actions", "tensors", "spatial", "total_latency", "component_class",
              "extra_attributes_for_component_model", "enabled")  # fmt: skip
_ACTION = ("name", "energy", "throughput", "bits_per_action", "latency")
_SPATIAL = ("name", "fanout", "reuse", "may_reuse", "min_usage")
_ACCESS_FIELDS = ("name", "projection", "output", "persistent", "backing_storage_size_scale", "bits_per_value")
_SCALES = ("n_instances", "backing_storage_size_scale")
_NODES = {
    "!Storage": ("tensors", "component"),
    "!Temporal": ("rank_variable", "tile_shape"),
    "!Spatial": ("rank_variable", "tile_shape", "name", "component"),
    "!Compute": ("einsum", "component"),
}
"""Record of the nodes of mappings; all are needed."""
_WORKLOAD = ("rank_sizes", "iteration_space_shape", "shape", "bits_per_value", "persistent_tensors", "einsums")
_EINSUM = ("name", "einsum", "tensor_accesses", "iteration_space_shape", "shape", "renames", "rank_sizes",
           "is_copy_operation", "n_instances")  # fmt: skip
_RANGE = re.compile(r"\s*(?:(?P<low>-?\d+)\s*<=\s*(?P<name>\w+)\s*<\s*)?(?P<high>\d+)\s*")
_EINSUM_TEXT = re.compile(r"\s*(\w+)\s*\[([^]]*)\]\s*=\s*(.+)", re.DOTALL)
_ACCESS = re.compile(r"(\w+)\s*\[([^]]*)\]")
_SEPARATE = "max(a.n_calls / a.throughput for a in actions)"
_SHARED = "sum(a.n_calls / a.throughput for a in actions)"
_PJ_PER_J = 10**12
_Set = frozenset[str]
_SETS: dict[type[ast.operator], Callable[[_Set, _Set], _Set]] = {
    ast.BitOr: lambda a, b: a | b,
    ast.BitAnd: lambda a, b: a & b,
    ast.Sub: lambda a, b: a - b,
}


class AccelforgeLayer(NamedTuple):
    """An einsum by its name."""

    name: str
    workload: Workload


class AccelforgeFiles(NamedTuple):
    """AccelForge's files, read. layers: in the file's order; network: all of them, None without a workload; mapping: of
    the one layer, None without; warnings: what was read otherwise than it stands there, or left out."""

    arch: Architecture
    layers: tuple[AccelforgeLayer, ...] = ()
    network: Network | None = None
    mapping: LoopTree | None = None
    warnings: tuple[FileWarning, ...] = ()


@answers_in_words
def from_accelforge(
    arch: str | Path,
    workload: str | Path | None = None,
    mapping: str | Path | None = None,
    *,
    values: Mapping[str, object] | None = None,
    folders: Iterable[str | Path] = (),
    strict: bool = True,
) -> AccelforgeFiles:
    """Return machine, layers and mapping of AccelForge's files; needs the extra `timeloop` (YAML).

    Each argument is a path, or YAML as a text of several lines. values: of the names in Jinja templates; folders: what
    templates may include from. A cycle is the time of one operation of a compute unit, energies are joules there and
    pJ here. What Python decides there (component models, conditions, latencies) is refused; with strict=False left out
    and told in `.warnings`. Raises InputError with file and line, all mistakes at once: PM660 for what is no YAML,
    PM661 for what is not read.
    """
    told = Findings(strict=strict)
    paths = [Path(each) for each in folders]
    files = Files("from_accelforge", paths, dict(values or {}))
    reader = _Machine(told)
    machine = told.attempt(lambda: reader.read(_part(files, arch, "arch")))
    layers: list[AccelforgeLayer] = []
    edges: dict[str, tuple[str, tuple[str, ...]]] = {}
    if workload is not None:
        told.attempt(lambda: _layers(_part(files, workload, "workload"), layers, edges, told))
    tree = None
    if mapping is not None:
        tree = told.attempt(lambda: _mapping(_part(files, mapping, "mapping"), layers, machine, told))
    reader.tell_names({tensor.name for layer in layers for tensor in layer.workload.tensors})
    told.stop()
    assert machine is not None, "mistakes of the machine are raised"
    network = _network(layers, edges) if layers else None
    return AccelforgeFiles(machine, tuple(layers), network, tree, told.warnings)


def _part(files: Files, source: object, name: str) -> Value:
    found = files.read(source)
    table = found.table(f"the {name}")
    if name not in table:
        raise found.refuse(f"there is no {name}", f"Found: {', '.join(table)[:200] or 'nothing'}.")
    return table[name]


def _number(value: Value, what: str) -> Fraction | None:
    """Return a number >= 0, of arithmetic, too; None for inf."""
    plain = value.plain
    if isinstance(plain, str):
        plain = plain.strip()
        if plain in ("inf", ".inf"):
            return None
        plain = value_of(plain, {}) if value_of(plain, {}) is not None else plain
    found = None if isinstance(plain, bool) else as_fraction(plain)
    if found is None or found < 0:
        raise value.refuse(f"{what} is {value.told()}", "A number, arithmetic of numbers, or inf is read, no Python.")
    return found


class _Machine:
    """Reads an architecture. told: where mistakes and warnings go."""

    def __init__(self, told: Findings) -> None:
        self._told = told
        self._kept: dict[str, frozenset[str]] = {}  # level -> roles that it must keep
        self._clock: Fraction | None = None  # operations per second of a compute unit
        self._named: list[tuple[Value, str]] = []  # words of sets that are taken for tensors

    def read(self, arch: Value) -> Architecture:
        """Return the machine."""
        known = ("nodes", "extra_attributes_for_all_component_models")
        fields = arch.fields("arch", known, self._told, known[:1])
        values = fields["nodes"].items("arch.nodes")
        computes = [each for each in values if each.tag == "!Compute"]
        if len(computes) != 1 or values[-1] is not computes[0]:
            raise arch.refuse(f"arch has {len(computes)} compute units, or nodes below one", "One chain is read.")
        unit = self._told.attempt(lambda: self._compute(computes[0]))
        nodes: list[MemoryLevel | Fanout | ComputeUnit] = []
        for each in values[:-1]:
            with self._told.collecting():
                nodes += self._node(each)
        if unit is None:
            raise InputError(())
        nodes += [*self._fanouts(computes[0]), unit]
        with arch.blamed():
            return arch_of(Architecture("accelforge", tuple(nodes)))

    def _node(self, value: Value) -> list[MemoryLevel | Fanout | ComputeUnit]:
        if value.tag not in ("!Memory", "!Container"):
            self._told.no_equal(value.place, f"{value.tag or 'a node without a tag'} has no equal here")
            return []
        enabled = value.table("a node").get("enabled")
        if enabled is not None and enabled.plain is not True:
            if enabled.plain is False:
                return []
            self._told.no_equal(
                enabled.place, f"enabled is {enabled.told()}, which Python decides", "It is enabled here."
            )
        level = [self._memory(value)] if value.tag == "!Memory" else []
        return [*self._fanouts(value), *level]

    def _fanouts(self, value: Value) -> list[MemoryLevel | Fanout | ComputeUnit]:
        fields = value.table("a node")
        if value.tag == "!Container":
            fields = value.fields("a container", ("name", "spatial", "enabled"), self._told)
        found: list[MemoryLevel | Fanout | ComputeUnit] = []
        for each in fields.listed("spatial"):
            own = each.fields("spatial", _SPATIAL, self._told, _SPATIAL[:2])
            if "min_usage" in own or "reuse" in own:
                what = "min_usage and reuse limit AccelForge's search, not this one: constraints do that here"
                self._told.note(each.place, what)
            shared = own.get("may_reuse", own.get("reuse"))
            if shared is not None and not self._set(shared) >= frozenset(ROLE_WORDS):
                what = f"tensors that are not among {shared.told()} have no multicast there"
                self._told.no_equal(shared.place, what, "Here fan-outs share what their units read alike.")
            found.append(Fanout(own.text("name"), own.integer("fanout")))
        return found

    def _compute(self, value: Value) -> ComputeUnit:
        fields = self._component("the compute unit", value)
        actions = self._actions(fields, ("compute",), value)
        energy, rate, _ = actions.get("compute", (Fraction(0), None, 1))
        self._clock = rate
        return ComputeUnit(fields.text("name"), pj=energy * _PJ_PER_J)

    def _component(self, what: str, value: Value) -> Record:
        """Return the fields of a component."""
        fields = value.fields(what, _COMPONENT, self._told, ("name",))
        leak = fields.get("leak_power")
        if leak is not None and leak.plain not in (None, 0):
            self._told.no_equal(leak.place, f"leak_power is {leak.told()}", "No energy of leakage is counted here.")
        return fields

    def tell_names(self, tensors: set[str]) -> None:
        """Tell words of sets that are no roles, levels or tensors. tensors: of the workload, empty without one."""
        for value, word in self._named:
            if word not in tensors:
                what = f"{word[:60]} in the set {value.told()} is no role, memory above or tensor of the workload"
                told = self._told.no_equal if tensors else self._told.note
                told(
                    value.place,
                    what,
                    did_you_mean(word[:60], (*sorted(tensors), *self._kept, *(r[1:] for r in ROLE_WORDS))),
                )

    def _memory(self, value: Value) -> MemoryLevel:
        fields = self._component("a memory", value)
        name = fields.text("name")
        actions = self._actions(fields, ("read", "write"), value)
        bits = {width for _, _, width in actions.values()} or {1}
        if len(bits) > 1:
            raise value.refuse(f"{name}: read and write have bits_per_action {sorted(bits)}", "One width is read.")
        costs = {action: actions.get(action, (Fraction(0), None, 1)) for action in ("read", "write")}
        capacity = self._size(fields["size"]) if "size" in fields else None
        if capacity is not None and capacity.denominator > 1:
            raise fields["size"].refuse(f"{name} has {float(capacity)} bits", "A whole number of bits is read.")
        holds, must_hold = self._held(name, fields)
        (word,) = bits
        shared, read, write = self._rates(fields, {action: costs[action][1] for action in costs}, word)
        return MemoryLevel(
            name,
            None if capacity is None else int(capacity),
            word_bits=word,
            read_pj=costs["read"][0] * _PJ_PER_J,
            write_pj=costs["write"][0] * _PJ_PER_J,
            bandwidth_bits_per_cycle=shared,
            read_bandwidth_bits_per_cycle=read,
            write_bandwidth_bits_per_cycle=write,
            holds=holds,
            must_hold=must_hold,
        )

    def _size(self, value: Value) -> Fraction | None:
        """Return a capacity; None for inf, and for what Python computes."""
        try:
            return _number(value, "size")
        except InputError as error:
            if self._told.strict:
                raise
            self._told.note(value.place, error.mistakes[0].what.partition(": ")[2], "The level is unlimited here.")
            return None

    def _actions(
        self, fields: Record, names: tuple[str, ...], value: Value
    ) -> dict[str, tuple[Fraction, Fraction | None, int]]:
        """Return action -> (joules, actions per second or None, bits)."""
        found: dict[str, tuple[Fraction, Fraction | None, int]] = {}
        for each in fields.listed("actions"):
            own = each.fields("an action", _ACTION, self._told)
            name = own.text("name", "")
            if name not in names:
                raise each.refuse(f"the action {name[:40]!r} is not read", f"{' and '.join(names)} are.")
            if name in found:
                raise each.refuse(f"the action {name} is given twice")
            if "energy" not in own:
                self._told.no_equal(each.place, f"{name} has no energy: a component model would find it", "State it.")
            energy = _number(own["energy"], "energy") if "energy" in own else Fraction(0)
            if energy is None:
                raise each.refuse(f"{name} has an infinite energy")
            rate = self._rate(own)
            bits = own.integer("bits_per_action", default=1)
            found[name] = (energy, rate, bits)
        if "actions" not in fields and "component_class" in fields:
            what = "the component has no actions: its class would find their energies"
            self._told.no_equal(value.place, what, "State actions: [{name: read, energy: ...}].")
        return found

    def _rate(self, own: Record) -> Fraction | None:
        """Return the actions per second; None for any number."""
        given = [name for name in ("throughput", "latency") if name in own and own[name].plain is not None]
        if len(given) > 1 and own["latency"].plain == 0:  # no delay beside the throughput
            given = ["throughput"]
        if len(given) > 1:
            raise own["latency"].refuse("both throughput and latency", "Give throughput = 1 / latency.")
        found = _number(own[given[0]], given[0]) if given else None
        if given == ["latency"]:
            return 1 / found if found else None
        if found == 0:
            raise own["throughput"].refuse("throughput is 0", "Expected actions per second, or inf.")
        return found

    def _rates(
        self, fields: Record, rates: Mapping[str, Fraction | None], word: int
    ) -> tuple[Fraction | None, Fraction | None, Fraction | None]:
        """Return shared, read and write bandwidth, in bits per cycle."""
        text = fields.text("total_latency", _SHARED)
        if all(rate is None for rate in rates.values()) or text not in (_SEPARATE, _SHARED):
            if text not in (_SEPARATE, _SHARED):
                what = f"the latency {text[:60]!r} is Python's"
                self._told.no_equal(fields["total_latency"].place, what, f"Read are {_SHARED} and the same of max.")
            return None, None, None
        if self._clock is None:
            place = fields["actions"].place
            self._told.no_equal(place, "a throughput, but none of the compute unit: there is no cycle", "Give it one.")
            return None, None, None
        bits = {action: None if rate is None else rate * word / self._clock for action, rate in rates.items()}
        if text == _SEPARATE and None not in bits.values():
            return None, bits["read"], bits["write"]
        if bits["read"] == bits["write"]:
            return bits["read"], None, None
        what = "reads and writes of different throughputs that share a latency, or one without"
        self._told.no_equal(fields["actions"].place, what, "Give both one throughput, or the latency of max.")
        return None, None, None

    def _held(self, name: str, fields: Record) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        """Return holds and must_hold of a memory."""
        own = fields["tensors"].fields("tensors", ("keep", "may_keep"), self._told) if "tensors" in fields else Record()
        keep = self._set(own["keep"]) if "keep" in own else frozenset[str]()
        may = self._set(own["may_keep"]) if "may_keep" in own else frozenset(() if "keep" in own else ROLE_WORDS)
        is_first = not self._kept
        self._kept[name] = keep
        every = sorted(keep | may)
        if is_first and keep >= frozenset(ROLE_WORDS):
            return None, ()
        return (None if set(every) >= set(ROLE_WORDS) else tuple(every)), tuple(sorted(keep))

    def _set(self, value: Value) -> frozenset[str]:
        """Return the roles and tensors of a set expression; intermediates are tensors like others here."""
        text = value.text("a set of tensors")
        words = re.findall(r"\w+", text)
        known = {word[1:]: frozenset((word,)) for word in ROLE_WORDS}
        known |= {"All": frozenset(ROLE_WORDS), "Nothing": frozenset(), "Intermediates": frozenset()}
        known |= {"Inputs": frozenset(ROLE_WORDS[:2]), "Outputs": frozenset(ROLE_WORDS[2:]), **self._kept}
        self._named += [(value, word) for word in words if word.isidentifier() and word not in known]
        known |= {word: frozenset((word,)) for word in words if word.isidentifier() and word not in known}
        found = _evaluated(text, known)
        if found is None:
            hint = "Names with | & ~ - and brackets are read, such as input | weight, or ~output."
            raise value.refuse(f"the set {value.told()} is not read", hint)
        return found


def _evaluated(text: str, known: Mapping[str, frozenset[str]]) -> frozenset[str] | None:
    """Return the value of a set expression of Python: names with ~, -, & and |; None where it is none."""

    def value(node: ast.expr) -> frozenset[str]:
        match node:
            case ast.Name(id=name):
                return known[name]
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return known["All"] - value(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _SETS:
                return _SETS[type(op)](value(left), value(right))
            case _:
                raise KeyError(ast.dump(node))

    tree = tree_of(text)
    try:
        return None if tree is None else value(tree)
    except (KeyError, RecursionError):
        return None


def _layers(
    file: Value, layers: list[AccelforgeLayer], edges: dict[str, tuple[str, tuple[str, ...]]], told: Findings
) -> None:
    """Add the layers of a workload, and to `edges` the output and inputs of each."""
    fields = file.fields("the workload", _WORKLOAD, told, ("einsums",))
    common = _sizes(fields)
    _tell_scales(fields, told)
    if fields.given("persistent_tensors") is not None:
        place = fields["persistent_tensors"].place
        told.note(
            place, "persistent_tensors stay in memory there while other einsums run: each einsum is asked alone here"
        )
    for value in fields.listed("einsums"):
        with told.collecting():
            own = Record(einsum=value) if isinstance(value.plain, str) else value.fields("an einsum", _EINSUM, told)
            _tell_scales(own, told)
            accesses, given = _accesses(own, value, told)
            (output, target), *inputs = accesses
            ranks = _ranks(own)
            name = own.text("name", output)
            if name in edges:
                raise value.refuse(f"two einsums have the name {name[:60]}")
            sizes = common | _sizes(own)
            dims = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", " ".join(index for _, each in accesses for index in each)))
            extents = {each: sizes[each] if each in sizes else sizes.get(each.upper(), 0) for each in dims}
            unknown = [each for each, size in extents.items() if size < 1]
            if unknown:
                raise value.refuse(f"{name} has no sizes for {', '.join(unknown)}", "Give iteration_space_shape.")
            spare = [each for each in _sizes(own) if each.lower() not in map(str.lower, (*dims, *ranks))]
            if spare:
                told.note(value.place, f"{name}: nothing is indexed by {', '.join(spare)[:100]}")
            text = f"{output}[{', '.join(target)}] += " + " * ".join(f"{t}[{', '.join(i)}]" for t, i in inputs)
            widths = _widths(fields.get("bits_per_value"), given, accesses, own, value)
            with value.blamed(f"{name}: ", has_hint=True):
                made = einsum(text, sizes=extents, bits=widths, roles=_roles(own, accesses), name=name)
            _tell_skipped(own, sizes, made, told)
            layers.append(AccelforgeLayer(name, made))
            edges[name] = (output, tuple(tensor for tensor, _ in inputs))


def _tell_skipped(own: Record, sizes: dict[str, int], made: Workload, told: Findings) -> None:
    """Tell ranks that are smaller than their indices: accesses beyond them are skipped there."""
    for each in own.listed("tensor_accesses"):
        fields = each.table("an access")
        if fields["projection"].is_table:
            shape = made.tensor(fields.text("name")).shape
            for rank, size in zip(fields["projection"].table("projection"), shape, strict=True):
                if sizes.get(rank, size) < size:
                    what = f"the rank {rank} has {sizes[rank]} elements, and its indices {size}"
                    told.no_equal(
                        fields["projection"].place, what, "Accesses beyond a rank are skipped there, not here."
                    )


def _tell_scales(fields: Record, told: Findings) -> None:
    """Tell what makes more of an einsum or of a tensor."""
    for name in _SCALES:
        if name in fields and fields[name].plain != 1:
            told.no_equal(fields[name].place, f"{name} is {fields[name].told()}", "Each einsum is asked once here.")


def _ranks(own: Record) -> set[str]:
    """Return the names of ranks of an einsum's projections."""
    accesses = own.listed("tensor_accesses")
    given = [each.table("an access").get("projection") for each in accesses]
    tables = [each.table("projection") for each in given if each is not None and each.is_table]
    texts = _ACCESS.findall(own.text("einsum")) if "einsum" in own else []
    named = {part.partition(":")[0].strip() for _, text in texts for part in text.split(",")}
    return named | {rank for table in tables for rank in table}


def _sizes(fields: Record) -> dict[str, int]:
    """Return sizes of rank variables and of ranks."""
    found: dict[str, int] = {}
    for field in ("rank_sizes", "iteration_space_shape", "shape"):
        if field not in fields:
            continue
        given = fields[field]
        pairs = [("", each) for each in given.items(field)] if given.is_list else list(given.table(field).items())
        for name, value in pairs:
            size = value_of(str(value.plain), {})
            match = _RANGE.fullmatch(str(value.plain if size is None else size))
            if match is None or int(match["low"] or 0) != 0 or not (match["name"] or name):
                raise value.refuse(f"{field} has {value.told()}", "Expected a size, or a text like 0 <= m < 128.")
            found[match["name"] or name] = int(match["high"])
    return found


def _accesses(own: Record, value: Value, told: Findings) -> tuple[list[tuple[str, list[str]]], dict[str, int]]:
    """Return (tensor, index per axis) of each access, the output first, and the bits that accesses give."""
    if "einsum" in own:
        match = _EINSUM_TEXT.fullmatch(own.text("einsum"))
        inputs = _ACCESS.findall(match[3]) if match else []
        if match is None or not inputs or re.sub(r"[\s*]", "", _ACCESS.sub("", match[3])):
            raise own["einsum"].refuse("the einsum is no product", "Expected O[m, n] = A[m, k] * B[k, n].")
        if "tensor_accesses" in own:
            raise own["einsum"].refuse("both einsum and tensor_accesses", "Give one of them.")
        return [(tensor, _split(text)) for tensor, text in ((match[1], match[2]), *inputs)], {}
    found: list[tuple[bool, str, list[str]]] = []
    bits: dict[str, int] = {}
    for each in own.listed("tensor_accesses"):
        fields = each.fields("an access", _ACCESS_FIELDS, told, _ACCESS_FIELDS[:2])
        _tell_scales(fields, told)
        given = fields["projection"]
        axes = given.items("projection") if given.is_list else list(given.table("projection").values())
        is_output = fields.flag("output")
        name = fields.text("name")
        found.append((is_output, name, [axis.text("an index") for axis in axes]))
        if fields.given("bits_per_value") is not None:
            bits[name] = fields.integer("bits_per_value")
    if [is_output for is_output, _, _ in found].count(True) != 1 or len(found) < 2:
        raise value.refuse("an einsum needs one access with output: True, and inputs")
    return [(tensor, index) for _, tensor, index in sorted(found, key=lambda each: not each[0])], bits


def _split(text: str) -> list[str]:
    """Return the indices in brackets, without the names of ranks (`H: p + r`); a bare `M` is rank and variable m."""
    return [part.rpartition(":")[2].strip() for part in text.split(",") if part.strip()]


def _sets(accesses: list[tuple[str, list[str]]]) -> dict[str, frozenset[str]]:
    """Return the sets of tensors of an einsum by their names."""
    tensors = [tensor for tensor, _ in accesses]
    known = {tensor: frozenset((tensor,)) for tensor in tensors}
    known |= {"All": frozenset(tensors), "Nothing": frozenset(), "Outputs": frozenset(tensors[:1])}
    return known | {"Inputs": frozenset(tensors[1:])}


def _widths(
    value: Value | None,
    given: Mapping[str, int],
    accesses: list[tuple[str, list[str]]],
    own: Record,
    where: Value,
) -> dict[str, int]:
    """Return the bits of each tensor: given with its access, else of the sets that name it, a tensor's own name before
    sets."""
    known = _sets(accesses)
    known |= {role: frozenset((tensor,)) for tensor, role in (_roles(own, accesses) or {}).items()}
    tensors = [tensor for tensor, _ in accesses]
    found: dict[str, int] = {}
    named: dict[str, int] = {}
    for text, each in (Record() if value is None else value.table("bits_per_value")).items():
        bits = each.integer("bits_per_value")
        among = _evaluated(text, known)
        if among is None and not text.isidentifier():
            raise each.refuse(f"bits_per_value of {text[:60]!r} are not read", f"Known: {', '.join(known)[:200]}.")
        if text in tensors:
            named[text] = bits
        elif twice := [tensor for tensor in sorted(among or ()) if found.setdefault(tensor, bits) != bits]:
            raise each.refuse(f"bits_per_value has two widths of {', '.join(sorted(twice))}")
    found |= {**named, **given}
    missing = [tensor for tensor in tensors if tensor not in found]
    if missing:
        raise where.refuse(f"there are no bits_per_value of {', '.join(missing)}", "Give bits_per_value: {All: 8}.")
    return {tensor: found[tensor] for tensor in tensors}


def _roles(own: Record, accesses: list[tuple[str, list[str]]]) -> dict[str, str] | None:
    """Return tensor -> role as `renames` says; None where it says nothing. Other names are names of sets."""
    known = _sets(accesses)
    table = own["renames"].table("renames") if "renames" in own and own["renames"].plain else Record()
    found: dict[str, str] = {}
    for role, each in table.items():
        text = each.text(f"renames.{role}")
        tensors = _evaluated(text, known)
        if tensors is None:
            hint = did_you_mean(text[:60], tuple(known))
            raise each.refuse(f"renames.{role} is {text[:60]!r}, no tensor of the einsum", hint)
        if role in ("input", "weight", "output"):
            found |= dict.fromkeys(sorted(tensors), role)
        elif close := [word for word in ("input", "weight", "output") if word in role.lower()]:
            raise each.refuse(f"renames.{role} is no role", f"Did you mean '{close[0]}'?")
    return found or None


def _network(layers: list[AccelforgeLayer], edges: Mapping[str, tuple[str, tuple[str, ...]]]) -> Network:
    nodes = [
        MappedNode(each.name, "einsum", (Part(each.workload, is_product=len(edges[each.name][1]) > 1),))
        for each in layers
    ]
    makers = {output: name for name, (output, _) in edges.items()}
    pairs = [(makers[tensor], name) for name, (_, inputs) in edges.items() for tensor in inputs if tensor in makers]
    return network_of_nodes("accelforge", nodes, edges=pairs)


def _mapping(
    file: Value, layers: list[AccelforgeLayer], machine: Architecture | None, told: Findings
) -> LoopTree | None:
    """Return the mapping of one einsum."""
    fields = file.fields("the mapping", ("nodes",), told)
    if len(layers) > 1 or "nodes" not in fields:
        told.no_equal(file.place, "a mapping of several einsums, or without nodes", "Those of one layer are read.")
        return None
    nodes = [_node(each, layers, machine) for each in fields["nodes"].items("mapping.nodes")]
    with file.blamed(has_hint=True):
        return mapping_from_document({"nodes": nodes})


def _node(value: Value, layers: list[AccelforgeLayer], machine: Architecture | None) -> dict[str, object]:
    """Return a node of a mapping as a document has it."""
    if value.tag not in _NODES:
        raise value.refuse(f"{value.tag or 'a node without a tag'} is not read in the mapping of one einsum")
    own = value.fields(f"a node {value.tag}", _NODES[value.tag], needed=_NODES[value.tag])
    if value.tag == "!Storage":
        tensors = [tensor.text("a tensor") for tensor in own.listed("tensors")]
        return {"store": own.text("component"), "tensors": tensors}
    if value.tag == "!Compute":
        for name, known in (
            ("einsum", [each.name for each in layers]),
            ("component", [] if machine is None else [machine.nodes[-1].name]),
        ):
            if known and own[name].text(name) not in known:
                raise own[name].refuse(f"{name} is {own[name].told()}", f"Known: {', '.join(known)}.")
        return {"compute": "S"}
    loop = {"for" if value.tag == "!Temporal" else "par": own.text("rank_variable")}
    own.text("component", "")
    over = {} if value.tag == "!Temporal" else {"over": own.text("name")}
    return {**loop, "tile": own["tile_shape"].plain, **over}
