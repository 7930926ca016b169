"""ZigZag's accelerators as machines: memories and the operational array as levels and fan-outs of one chain."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from polymap.importers.timeloop import Findings, Place, Record, Value
from polymap.ir import Architecture, ComputeUnit, Fanout, MemoryLevel, Multicast, all_read
from polymap.resolve import arch_of

ROLES = {"I1": "@input", "I2": "@weight", "O": "@output"}
"""Of ZigZag's memory operands."""
_OPERANDS = tuple(ROLES)
_DIRECTIONS = ("fh", "th", "fl", "tl")
_MEMORY = ("size", "r_cost", "w_cost", "area", "latency", "mem_type", "auto_cost_extraction", "operands", "ports",
           "served_dimensions", "force_double_buffering", "double_buffering_support", "r_bw", "w_bw", "r_port",
           "w_port", "rw_port", "min_r_granularity", "min_w_granularity")  # fmt: skip
_ARRAY = ("is_imc", "imc_type", "adc_resolution", "bit_serial_precision", "input_precision", "dimensions", "sizes",
          "unit_energy", "unit_area", "multiplier_energy", "multiplier_area")  # fmt: skip
_FILE = ("name", "type", "memories", "operational_array", "multipliers", "dataflows")
COMPUTE = "mac"


class Array(NamedTuple):
    """The operational array: its dimensions with their sizes, and what one operation costs."""

    sizes: dict[str, int]
    pj: Fraction


class _Port(NamedTuple):
    """kind: "read", "write" or "read_write"; least, most: bits per cycle."""

    name: str
    kind: str
    least: int
    most: int


class _Memory(NamedTuple):
    """place: where it stands in the file; dims: dimensions of the array whose units share one copy."""

    level: MemoryLevel
    size_bits: int
    operands: tuple[str, ...]
    dims: frozenset[str]
    where: Value


class Machine(NamedTuple):
    """outermost: the bits that the outermost memory has there, and where it says so; here it holds all."""

    arch: Architecture
    array: Array
    outermost: tuple[str, int, Place]


def machine_of(file: Value, offchip: Value | None, told: Findings) -> Machine | None:
    """Return the machine of an accelerator's file; None where mistakes are told. offchip: the file of the core whose
    memories stand above all of it (Stream). Raises InputError (PM661)."""
    if file.is_table and "cores" in file.plain:
        hint = "Give the file of one core to from_zigzag(accelerator=...), and that of the off-chip core as offchip=."
        raise file.plain["cores"].refuse("several cores (Stream) have no equal here", hint)
    fields = file.fields("the accelerator", _FILE, told, ("memories",))
    arrays = [name for name in ("operational_array", "multipliers") if name in fields]
    if len(arrays) != 1:
        raise file.refuse("the accelerator has no operational_array, or two", "Expected operational_array: {...}.")
    array = told.attempt(lambda: _array(fields[arrays[0]], told))
    if "dataflows" in fields and fields["dataflows"].plain:
        told.note(fields["dataflows"].place, "dataflows limit ZigZag's search, not this one: constraints do that here")
    memories: list[_Memory] = []
    given = [(each, array) for each in fields["memories"].table("memories").items()]
    if offchip is not None:
        outside = offchip.fields("the off-chip core", _FILE, told, ("memories",))["memories"]
        given += [(each, None) for each in outside.table("memories").items()]
    for (name, value), served in given:
        with told.collecting():
            memory = _memory(name, value, served, told)
            memories.append(memory if served else memory._replace(dims=frozenset(array.sizes if array else ())))
    if array is None or len(memories) < len(given):
        return None
    ordered = _ordered(memories, array, fields["memories"], told)
    name = fields.text("name", "zigzag")
    first = ordered[0]
    with file.blamed():
        arch = arch_of(Architecture(name, tuple(_nodes(ordered, array))))
    return Machine(arch, array, (first.level.name, first.size_bits, first.where.place))


def _array(value: Value, told: Findings) -> Array:
    fields = value.fields("operational_array", _ARRAY, told, ("dimensions", "sizes"))
    if fields.flag("is_imc"):
        raise fields["is_imc"].refuse("arrays that compute in memory (is_imc) are not modelled")
    energy = next((fields[name] for name in ("unit_energy", "multiplier_energy") if name in fields), None)
    if energy is None:
        raise value.refuse("operational_array has no unit_energy", "Expected unit_energy: 0.04 (pJ of one operation).")
    sizes, pj, _ = all_read(
        lambda: sizes_by_name(fields, "dimensions", "sizes"),
        lambda: Fraction(energy.number("unit_energy")),
        lambda: check_numbers(fields, ("unit_area", "multiplier_area")),
    )
    return Array(sizes, pj)


def sizes_by_name(fields: Record, names: str, numbers: str) -> dict[str, int]:
    """Return the integers of one list by the names of another."""
    words, sizes = all_read(
        lambda: all_read(*(partial(each.text, f"a name of {names}") for each in fields.listed(names))),
        lambda: all_read(*(partial(each.integer, f"one of {numbers}") for each in fields.listed(numbers))),
    )
    if len(words) != len(sizes) or len({each.lower() for each in words}) != len(words):
        what = f"{len(sizes)} {numbers} for {len(words)} {names}: {', '.join(words)[:100]}"
        raise fields[numbers].refuse(what, "Give one for each name, and each name once.")
    return dict(zip(words, sizes, strict=True))


def _memory(name: str, value: Value, array: Array | None, told: Findings) -> _Memory:
    fields = value.fields(f"memory {name}", _MEMORY, told, ("size", "operands", "ports", "served_dimensions"))
    if fields.flag("auto_cost_extraction"):
        hint = "Write CACTI's r_cost and w_cost into the file."
        told.no_equal(
            value.place, f"the costs of memory {name} are to be computed by CACTI (auto_cost_extraction)", hint
        )
    served = None if array is None else tuple(array.sizes)
    operands, dims, ports, *energies, _, _ = all_read(
        partial(_words, fields["operands"], "operands", _OPERANDS),
        partial(_words, fields["served_dimensions"], "served_dimensions", served),
        partial(_ports, name, fields),
        *(partial(_energy, name, word, value, fields, told) for word in ("r_cost", "w_cost")),
        partial(fields.integer, "size"),
        partial(check_numbers, fields, ("area", "latency")),
    )
    read, write = _bandwidths(name, fields["ports"], ports, told)
    is_shared = {each.kind for each in ports} == {"read_write"}
    doubled = [fields[each] for each in ("force_double_buffering", "double_buffering_support") if each in fields]
    level = MemoryLevel(
        name,
        capacity_bits=fields.integer("size"),
        word_bits=read,
        read_pj=energies[0],
        write_pj=energies[1] * read / write,  # of a write's own width
        bandwidth_bits_per_cycle=Fraction(read) if is_shared else None,
        read_bandwidth_bits_per_cycle=None if is_shared else Fraction(read),
        write_bandwidth_bits_per_cycle=None if is_shared else Fraction(write),
        buffering=2 if any(each.flag("double buffering") for each in doubled) else 1,
        holds=tuple(ROLES[each] for each in operands),
        must_hold=tuple(ROLES[each] for each in operands),
    )
    return _Memory(level, fields.integer("size"), operands, frozenset(dims), value)


def _energy(name: str, word: str, value: Value, fields: Record, told: Findings) -> Fraction:
    if word in fields and fields[word].plain is not None:
        return Fraction(fields[word].number(word))
    if "auto_cost_extraction" not in fields or not fields["auto_cost_extraction"].plain:
        told.no_equal(value.place, f"memory {name} has no {word}", "With strict=False it is 0.")
    return Fraction(0)


def check_numbers(fields: Record, names: tuple[str, ...]) -> None:
    """Raise InputError for those of these fields that no count depends on and that are no number >= 0."""
    all_read(*(partial(given.number, name) for name in names if (given := fields.given(name)) is not None))


def _words(value: Value, what: str, known: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the words of a list, each once; known: what they may be (None: that is not known)."""
    found = [each.text(what) for each in value.items(what)]
    wrong = [each for each in found if known is not None and each not in known]
    if wrong or len({*found}) != len(found):
        told = f"{what} names {', '.join(wrong)[:100]}" if wrong else f"{what} names something twice"
        raise value.refuse(told, f"Known: {', '.join(known or ())}.")
    return tuple(found)


def _ports(name: str, fields: Record) -> list[_Port]:
    """Return the ports that an operand uses: as they are listed, or (version 2) by their numbers."""
    if any(word in fields for word in ("r_bw", "w_bw")):
        return _numbered_ports(name, fields)
    names: list[str] = []
    found = all_read(*(partial(_port, name, each, names) for each in fields.listed("ports")))
    if not any(found):
        raise fields["ports"].refuse(f"memory {name} has no port with an allocation")
    return [each for each in found if each is not None]


def _port(name: str, port: Value, names: list[str]) -> _Port | None:
    """Return a port of a memory, None where no operand uses it. names: of those before it."""
    needed = ("name", "type", "bandwidth_max", "allocation")
    one = port.fields(f"a port of {name}", ("bandwidth_min", *needed), needed=needed)
    kind = one.text("type")
    if kind not in ("read", "write", "read_write"):
        raise one["type"].refuse(f"type is {kind[:60]!r}", "Expected read, write or read_write.")
    for each in one.listed("allocation"):
        _check_allocation(each, kind)
    most = one.integer("bandwidth_max")
    least = one.integer("bandwidth_min", default=most)
    if least > most:
        raise one["bandwidth_min"].refuse(f"bandwidth_min is {least} and bandwidth_max {most}")
    label = one.text("name")
    if label in names or not label:
        raise one["name"].refuse(f"{name} has two ports of the name {label[:60]!r}, or one without")
    names.append(label)
    return _Port(label, kind, least, most) if one.listed("allocation") else None


def _check_allocation(value: Value, kind: str) -> None:
    operand, _, direction = value.text("allocation").replace(" ", "").partition(",")
    if operand not in _OPERANDS or direction not in _DIRECTIONS:
        raise value.refuse(f"allocation is {value.told()}", 'Expected an operand and a direction, such as "I1, tl".')
    if (kind == "read" and direction[0] == "f") or (kind == "write" and direction[0] == "t"):
        raise value.refuse(f"a {kind} port is allocated to {direction}", "fh and fl are writes, th and tl reads.")


def _numbered_ports(name: str, fields: Record) -> list[_Port]:
    """Return the ports of version 2: tables from directions to names such as r_port_1, one table per operand."""
    widths: dict[str, tuple[int, int]] = {}
    for kind, width, grain in (("read", "r_bw", "min_r_granularity"), ("write", "w_bw", "min_w_granularity")):
        if width not in fields:
            raise fields["ports"].refuse(f"memory {name} has no {width}")
        most = fields[width].integer(width)
        given = fields.given(grain)
        least = most if given is None else given.integer(grain)
        if given is not None and least > most:
            raise given.refuse(f"{grain} is {least} and {width} {most}")
        widths[kind] = least, most
    widths["read_write"] = widths["read"]
    if fields["r_bw"].plain != fields["w_bw"].plain and "rw_port" in fields and fields.integer("rw_port", 0):
        raise fields["rw_port"].refuse(f"memory {name} has a read-write port, and r_bw differs from w_bw")
    kinds = {"r": "read", "w": "write", "rw": "read_write"}
    found: dict[str, _Port] = {}
    for table in fields.listed("ports"):
        for direction, port in table.fields("ports", _DIRECTIONS).items():
            match = re.fullmatch(r"(rw|r|w)_port_(\d{1,9})", port.text(direction))
            if match is None:
                raise port.refuse(f"{direction} is {port.told()}", "Expected r_port_1, w_port_1 or rw_port_1.")
            label, kind, count = match[0], kinds[match[1]], fields.get(f"{match[1]}_port")
            if count is not None and not 1 <= int(match[2]) <= count.integer(f"{match[1]}_port", 0):
                raise port.refuse(f"{direction} is {label}, and {match[1]}_port {count.told()}")
            found[label] = _Port(label, kind, *widths[kind])
    if not found:
        raise fields["ports"].refuse(f"memory {name} has no ports")
    return list(found.values())


def _bandwidths(name: str, where: Value, ports: list[_Port], told: Findings) -> tuple[int, int]:
    """Return the bits that are read and written per cycle, which are those of one access, too: of the one port, or of
    one for reads and one for writes; others are told."""
    by_kind = {kind: [each for each in ports if each.kind == kind] for kind in ("read", "write", "read_write")}
    reads, writes = (by_kind[kind] + by_kind["read_write"] for kind in ("read", "write"))
    counts = tuple(len(by_kind[kind]) for kind in ("read", "write", "read_write"))
    if counts not in ((0, 0, 1), (1, 1, 0), (1, 0, 0), (0, 1, 0)):
        listed = ", ".join(f"{each.name} ({each.most} bits)" for each in ports)
        what = f"memory {name} has the ports {listed}: operands that wait for one of several ports have no equal here"
        hint = (
            "Expected one read_write port, or one for reads and one for writes. With strict=False the widest is taken."
        )
        told.no_equal(where.place, what, hint)
    if any(each.least < each.most for each in ports):
        what = (
            f"memory {name}: ZigZag counts transfers in whole bandwidth_min, here parts of an access cost their share"
        )
        told.note(where.place, what)
    most = [max((each.most for each in some), default=0) for some in (reads, writes)]
    read, write = (each or max(most) for each in most)
    if by_kind["read_write"]:
        read = write = max(read, write)
    return read, write


def _ordered(memories: list[_Memory], array: Array, where: Value, told: Findings) -> list[_Memory]:
    """Return the memories outermost first, as one chain: what one holds for several units of the array stands above
    what it holds for fewer. Tells what is no chain."""
    if not memories:
        raise where.refuse("there are no memories")
    listed = memories[::-1]  # files list the innermost first
    chain = sorted(listed, key=lambda each: -len(each.dims))
    first, everything = chain[0], frozenset(array.sizes)
    if first.dims != everything or {*first.operands} != {*_OPERANDS}:
        operands, dims = ", ".join(first.operands), ", ".join(sorted(first.dims))
        what = f"the outermost memory {first.level.name} holds {operands}, and is shared along {dims}"
        hint = f"Here it holds I1, I2 and O, and is shared by the whole array ({', '.join(array.sizes)})."
        raise first.where.refuse(what, hint)
    _check_listing(memories, chain)
    found: list[_Memory] = []
    for memory in chain:
        above = found[-1].dims if found else everything
        if not memory.dims <= above:
            lost = sorted(memory.dims - above)
            shared, other = ", ".join(sorted(memory.dims)), ", ".join(sorted(above)) or "no dimension"
            what = f"{memory.level.name} is shared along {shared}, {found[-1].level.name} along {other}"
            hint = (
                "Neither can stand above the other. With strict=False each unit along "
                f"{', '.join(lost)} has a copy of {memory.level.name} of its own."
            )
            told.no_equal(memory.where.place, what, hint)
            memory = memory._replace(dims=memory.dims & above)
        found.append(memory)
    return found


def _check_listing(memories: list[_Memory], chain: list[_Memory]) -> None:
    """Raise InputError for memories of one operand that stand otherwise in the chain than in the file."""
    for operand in _OPERANDS:
        listed = [each for each in reversed(memories) if operand in each.operands]
        ordered = [each for each in chain if operand in each.operands]
        for one, other in zip(listed, ordered, strict=True):
            if one is not other:
                what = f"{one.level.name} is listed above {other.level.name} of {operand}, and fewer units share it"
                raise one.where.refuse(what, "List memories from the array outwards.")


def _nodes(chain: list[_Memory], array: Array) -> list[MemoryLevel | Fanout | ComputeUnit]:
    nodes: list[MemoryLevel | Fanout | ComputeUnit] = []
    above = frozenset(array.sizes)
    for place, memory in enumerate(chain):
        nodes += [_fanout(dim, array) for dim in array.sizes if dim in above - memory.dims]
        above &= memory.dims
        level = memory.level
        nodes.append(level if place else replace(level, capacity_bits=None, buffering=1, holds=None, must_hold=()))
    nodes += [_fanout(dim, array) for dim in array.sizes if dim in above]
    return [*nodes, ComputeUnit(COMPUTE, pj=array.pj)]


def _fanout(dim: str, array: Array) -> Fanout:
    return Fanout(dim, array.sizes[dim], multicast=Multicast.UNION)
