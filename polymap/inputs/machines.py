"""Machines as documents: JSON and TOML tables read into `Architecture` and written back.

All mistakes of a document are collected and raised at once as ArchError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from typing import Any, assert_never, cast

from polymap.inputs.arguments import answers_in_words
from polymap.inputs.reading import (
    Fields,
    as_fraction,
    as_whole,
    expected_kind,
    is_list,
    is_ratio,
    is_table,
    kinds_found,
    shown,
)
from polymap.inputs.tuning import TUNING
from polymap.ir import (
    ROLE_WORDS,
    ArchError,
    Architecture,
    ComputeUnit,
    Fanout,
    FanoutKind,
    MemoryLevel,
    Mistake,
    Node,
    Rule,
    kind_of_name,
    rules_of,
)

KINDS = ("level", "fanout", "compute")
UNREADABLE = "?"  # the name of a node whose own cannot be read
_ARCH_FIELDS = ("name", "source", "overlap", "start_cycles", "nodes")
_OF_BOUNDS = ("grains", "in_turn", "held_cycles_per_bit")  # fields of levels that no document has
_BANDWIDTHS = tuple(f"{which}bandwidth_bits_per_cycle" for which in ("", "read_", "write_"))


def _written(kind: type[Node], head: str) -> tuple[str, ...]:
    """Return the fields of a node's document, its name first."""
    return (head, *(each.name for each in rules_of(kind)[1:] if each.name not in _OF_BOUNDS))


_LEVEL_FIELDS = _written(MemoryLevel, "level")
_FANOUT_FIELDS = _written(Fanout, "fanout")
_COMPUTE_FIELDS = _written(ComputeUnit, "compute")
_CAPACITIES = ("capacity_bits", "capacity_bytes", "capacity_words")


@answers_in_words
def arch_from_document(document: object, where: str = "machine") -> Architecture:
    """Return the architecture that a JSON or TOML table describes; `where` names it in messages.

    Raises ArchError with every mistake: unknown and missing fields, values outside their ranges, capacities in two
    units, half a pair of bandwidths, names used twice, a first node that is no unlimited level, a last one that is no
    compute unit.
    """
    mistakes: list[Mistake] = []
    if is_table(document) and "einsum" in document and "nodes" not in document:
        hint = "It stands where WORKLOAD does; a machine has the field 'nodes'."
        raise ArchError(Mistake("PM313", f"{where} is a workload: it has the field 'einsum'", hint))
    fields = Fields.of(document, where, mistakes, known=_ARCH_FIELDS, required=("nodes",))
    items = fields.items("nodes")
    if len(items) > TUNING.most_nodes:
        mistakes.append(Mistake("PM301", f"{where} has {len(items)} nodes", f"At most {TUNING.most_nodes} are read."))
        items = ()
    nodes = [_node(item, f"nodes[{index}]", mistakes) for index, item in enumerate(items)]
    if is_list(fields.table.get("nodes")):
        mistakes += [*node_problems(nodes, where), *_field_problems(nodes)]
    arch = Architecture(
        name=fields.label("name", "machine"),
        nodes=tuple(node for node in nodes if node is not None),
        overlap=fields.flag("overlap", default=True),
        source=fields.text("source", ""),
        start_cycles=fields.number("start_cycles", Fraction(0)),
    )
    if mistakes:
        raise ArchError(mistakes)
    return arch


def node_problems(nodes: Sequence[Node | None], where: str = "machine") -> list[Mistake]:
    """Return what is wrong with the sequence of nodes as a machine: its ends, and names used twice.

    None stands for a node that could not be read: nothing is said of it.
    """
    mistakes: list[Mistake] = []
    if not nodes:
        return [Mistake("PM302", f"{where} has no nodes", "The least machine is a level and a compute unit.")]
    first, last = nodes[0], nodes[-1]
    if isinstance(first, Fanout | ComputeUnit):
        what = f"{where} lacks an outermost level: its first node is {_kind(first)}"
        mistakes.append(Mistake("PM302", what, "Start with a level without capacity, such as DRAM."))
    elif first is not None and first.capacity_bits is not None:
        what = f"nodes[0], the outermost level '{first.name}', has a capacity of {shown(first.capacity_bits)} bits"
        mistakes.append(Mistake("PM303", what, "It must hold the whole workload: leave its capacity out."))
    if isinstance(last, MemoryLevel | Fanout):
        what = f"{where} lacks a compute unit: its last node is {_kind(last)}"
        mistakes.append(Mistake("PM304", what, 'End with a node such as {"compute": "MAC"}.'))
    for index, node in enumerate(nodes[:-1]):
        if isinstance(node, ComputeUnit):
            what = f"nodes[{index}] is the compute unit '{node.name}', and nodes follow it"
            mistakes.append(Mistake("PM305", what, "The one compute unit is the last node."))
    return [*mistakes, *_names_used_twice(nodes)]


def _field_problems(nodes: Sequence[Node | None]) -> Iterator[Mistake]:
    """Fields of levels that say nothing where they stand, or without others."""
    for index, node in enumerate(nodes):
        if not isinstance(node, MemoryLevel):
            continue
        where = f"nodes[{index}], the level '{node.name}',"
        if index and node.burst_bits is not None:
            what = f"{where} has burst_bits, and is not the outermost"
            yield Mistake("PM314", what, "Bursts are counted at the outermost level.")
        if node.instance_area_um2 is None:
            what = f"{where} has area_um2_per_bit, and no capacity"
            yield Mistake("PM316", what, "Give its area as area_um2, or give it a capacity.")
    yield from _no_caches(nodes)


def _no_caches(nodes: Sequence[Node | None]) -> Iterator[Mistake]:
    """Levels that are called caches and are none, and those that have lines without being caches."""
    for index, node in enumerate(nodes):
        if not isinstance(node, MemoryLevel):
            continue
        where = f"nodes[{index}], the level '{node.name}',"
        if node.implicit and index == 0:
            yield Mistake("PM315", f"{where} is implicit, and the outermost", "Caches stand inside of a memory.")
        elif node.implicit and node.capacity_bits is None:
            yield Mistake("PM315", f"{where} is implicit, and has no capacity", "Give the cache a capacity.")
        for field in ("line_bits", "ways", "miss_cycles", "write_miss_cycles"):
            if not node.implicit and getattr(node, field) not in (None, 0):
                hint = 'Lines, ways and misses are those of caches: add "implicit": true, or leave it out.'
                yield Mistake("PM315", f"{where} has {field}, and is not implicit", hint)


def _names_used_twice(nodes: Sequence[Node | None]) -> Iterator[Mistake]:
    places: dict[str, list[str]] = {}
    for index, node in enumerate(nodes):
        if node is not None:
            places.setdefault(node.name, []).append(f"nodes[{index}]")
    for name, users in places.items():
        if len(users) > 1 and name != UNREADABLE:
            times = "twice" if len(users) == 2 else f"{len(users)} times"
            what = f"the name '{name}' occurs {times}: {', '.join(users[:-1])} and {users[-1]} have it"
            yield Mistake("PM306", what, "Levels, fan-outs and the compute unit need names of their own.")


def arch_warnings(arch: Architecture) -> tuple[str, ...]:
    """Return what is odd about a machine but no mistake, one sentence each: an inner level dearer than an outer one.

    Compared per bit, between levels that may hold the same tensor. `no_energies` is said by searches for the least
    energy.
    """
    return tuple(_dearer_levels(arch.levels))


def no_energies(arch: Architecture) -> str:
    """Return the warning about a machine that states no energy."""
    return f"machine '{arch.name}' states no energies (read_pj, write_pj, pj): every mapping costs 0 pJ"


@answers_in_words
def arch_to_document(arch: Architecture) -> dict[str, object]:
    """Return the JSON table of an architecture, defaults left out; `arch_from_document` reads it back.

    Numbers that no decimal says are written as texts, such as "1/3". Raises ArchError where a level has a field that
    only machines of bounds have.
    """
    arch = expected_kind(arch, Architecture, "the machine", ArchError)
    unsaid = [
        Mistake(
            "PM317",
            f"level '{level.name}' has {name}, which no document says",
            "It stands on machines that bound others, inside of searches: leave it out.",
        )
        for level in arch.levels
        for name in _OF_BOUNDS
        if getattr(level, name)
    ]
    if unsaid:
        raise ArchError(unsaid)
    document: dict[str, object] = {"name": arch.name}
    if arch.source:
        document["source"] = arch.source
    if not arch.overlap:
        document["overlap"] = False
    if arch.start_cycles:
        document["start_cycles"] = _number(arch.start_cycles)
    document["nodes"] = [_node_to_document(node) for node in arch.nodes]
    return document


def _kind(node: Node) -> str:
    match node:
        case MemoryLevel():
            return f"the level '{node.name}'"
        case Fanout():
            return f"the fan-out '{node.name}'"
        case ComputeUnit():
            return f"the compute unit '{node.name}'"
        case _:
            assert_never(node)


def _node(item: object, where: str, mistakes: list[Mistake]) -> Node | None:
    """Return the node that a table describes, or None where it does not say what it is."""
    kinds = [kind for kind in KINDS if kind in item] if is_table(item) else []
    if not is_table(item) or len(kinds) != 1:
        found = f"is {shown(item)}" if not is_table(item) else kinds_found(kinds, item, KINDS)
        hint = "A node is a table with one of 'level', 'fanout' and 'compute', which gives its name."
        mistakes.append(Mistake("PM307", f"{where} {found}", hint))
        return None
    if isinstance(item[kinds[0]], str):
        where = f"{where} ({kinds[0]} {shown(item[kinds[0]])})"
    match kinds[0]:
        case "level":
            return _level(item, where, mistakes)
        case "fanout":
            return _fanout(item, where, mistakes)
        case _:
            return _compute(item, where, mistakes)


def _level(item: Mapping[str, object], where: str, mistakes: list[Mistake]) -> MemoryLevel:
    others = tuple(key for key in item if key.startswith("capacity") and key not in _CAPACITIES)
    for key in others:
        what = f"{where}: {key} {shown(item[key])}"
        hint = "Write capacity_bits = '512 KiB' (a size with its unit), or a number of capacity_bits, _bytes or _words."
        mistakes.append(Mistake("PM309", what, hint))
    fields = Fields.of(item, where, mistakes, known=(*_LEVEL_FIELDS, *_CAPACITIES, *others))
    _check_bandwidths(fields)
    capacity = _capacity_bits(fields)
    name = fields.name("level", UNREADABLE)
    return MemoryLevel(name, capacity, **_values(fields, MemoryLevel, ("name", "capacity_bits", *_OF_BOUNDS)))


def _values(fields: Fields, kind: type[Node], but: Sequence[str]) -> dict[str, Any]:
    """Return the values of a node's fields, but of some, as their rules say."""

    def read(rule: Rule) -> object:
        name, kind, null, default = rule
        match kind:
            case "Amount":
                return fields.bits(name, default, null=null)
            case "int" | "Offset":
                return fields.integer(name, default, least=int(kind == "int"), read=as_whole, null=null)
            case "Fraction":
                return fields.number(name, default, null=null)
            case "Rate":
                return _bandwidth(fields, name)
            case "bool":
                return fields.flag(name, default=default)
            case "Names" | "Dims":
                return fields.names(name, default, roles=ROLE_WORDS if kind == "Names" else (), null=null)
            case _:
                options = cast("type[Enum]", type(default))
                return options(fields.choice(name, default.value, [str(each.value) for each in options]))

    return {each.name: read(each) for each in rules_of(kind) if each.name not in but}


def _capacity_bits(fields: Fields) -> int | None:
    """Return the capacity from the one of three fields that says it; None where none does."""
    given = [name for name in _CAPACITIES if fields.has(name)]
    if len(given) > 1:
        text = " and ".join(f"{name} {shown(fields.table[name])}" for name in given)
        fields.mistakes.append(Mistake("PM308", f"{fields.where}: capacity in two units, {text}", "Keep one of them."))
    if not given:
        return None
    word_bits = Fields(fields.table, fields.where, []).bits("word_bits", 8)  # its mistakes are told where it is read
    per_number = {"capacity_bits": 1, "capacity_bytes": 8, "capacity_words": word_bits}[given[0]]
    if given[0] == "capacity_words" and isinstance(fields.table["capacity_words"], str):
        fields.refuse("PM112", "capacity_words", "Expected an integer >= 1.")
        return None
    return fields.bits(given[0], None, per_number=per_number, null=True)


def _bandwidth(fields: Fields, name: str) -> Fraction | None:
    """Return a bandwidth in bits per cycle: a number, or an amount of memory with its unit."""
    found = fields.table.get(name)
    if isinstance(found, str) and not is_ratio(found):
        bits = fields.bits(name, None)
        return None if bits is None else Fraction(bits)
    return fields.number(name, None, positive=True, null=True)


def _check_bandwidths(fields: Fields) -> None:
    """Note a shared bandwidth beside separate ones, and half a pair of separate ones."""
    shared, reading, writing = (fields.table.get(name) is not None for name in _BANDWIDTHS)
    if shared and (reading or writing):
        what = f"{fields.where}: bandwidth_bits_per_cycle stands beside a read or write bandwidth"
        fields.mistakes.append(Mistake("PM310", what, "Give the shared one, or the two separate ones."))
    elif reading != writing:
        given, lacking = ("read", "write") if reading else ("write", "read")
        what = f"{fields.where}: {given}_bandwidth_bits_per_cycle stands without {lacking}_bandwidth_bits_per_cycle"
        fields.mistakes.append(Mistake("PM311", what, "Give both, or bandwidth_bits_per_cycle for the two together."))


def _fanout(item: Mapping[str, object], where: str, mistakes: list[Mistake]) -> Fanout:
    fields = Fields.of(item, where, mistakes, known=_FANOUT_FIELDS, required=("size",))
    name = fields.name("fanout", UNREADABLE)
    kind = FanoutKind(fields.choice("kind", kind_of_name(name).value, [option.value for option in FanoutKind]))
    size = fields.integer("size", 1, read=as_whole)
    return Fanout(name, size, kind=kind, **_values(fields, Fanout, ("name", "size", "kind")))


def _compute(item: Mapping[str, object], where: str, mistakes: list[Mistake]) -> ComputeUnit:
    fields = Fields.of(item, where, mistakes, known=_COMPUTE_FIELDS)
    return ComputeUnit(fields.name("compute", UNREADABLE), **_values(fields, ComputeUnit, ("name",)))


def _dearer_levels(levels: tuple[MemoryLevel, ...]) -> Iterator[str]:
    for index, inner in enumerate(levels):
        for outer in reversed(levels[:index]):
            words = [
                f"{verb} {shown(_number(cost))} pJ per {inner.word_bits}-bit word, '{outer.name}' "
                f"{shown(_number(other))} per {outer.word_bits}"
                for verb, cost, other in (
                    ("reads at", inner.read_pj, outer.read_pj),
                    ("writes at", inner.write_pj, outer.write_pj),
                )
                if cost * outer.word_bits > other * inner.word_bits
            ]
            if words and _may_share(inner, outer):
                yield f"level '{inner.name}' is dearer than '{outer.name}' outside it: it {'; it '.join(words)}"
                break


def _may_share(one: MemoryLevel, other: MemoryLevel) -> bool:
    """Return whether some tensor may live in both; a name may be of any role."""
    if one.holds is None or other.holds is None:
        return one.holds != () and other.holds != ()
    if set(one.holds) & set(other.holds):
        return True
    names = [any(not word.startswith("@") for word in level.holds or ()) for level in (one, other)]
    roles = [any(word.startswith("@") for word in level.holds or ()) for level in (one, other)]
    return (names[0] and roles[1]) or (roles[0] and names[1])


def _node_to_document(node: Node) -> dict[str, object]:
    head = {MemoryLevel: "level", Fanout: "fanout", ComputeUnit: "compute"}[type(node)]
    document: dict[str, object] = {head: node.name}
    for name, _, _, default in rules_of(type(node))[1:]:
        value: object = getattr(node, name)
        usual = kind_of_name(node.name) if name == "kind" else default
        if value != usual and name not in _OF_BOUNDS:
            document[name] = _plain(value)
    return document


def _plain(value: object) -> object:
    if isinstance(value, Fraction):
        return _number(value)
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _number(value: Fraction) -> int | float | str:
    """Return a number of a document that is read as this one: a fraction as text where no decimal that floats print
    is."""
    if value.denominator == 1:
        return value.numerator
    return float(value) if as_fraction(float(value)) == value else str(value)
