"""ZigZag's layers as workloads, and what its mappings say of them as constraints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import prod
from typing import NamedTuple

from polymap.importers.timeloop import Findings, Record, Value
from polymap.importers.zigzag_machine import ROLES, Array, sizes_by_name
from polymap.ir import Apply, InputError, Read, Workload, all_read, did_you_mean
from polymap.networks import Part
from polymap.workload import einsum

_LAYER = ("id", "name", "operator_type", "equation", "dimension_relations", "loop_dims", "loop_sizes",
          "operand_precision", "operand_source", "constant_operands", "pr_loop_dims", "pr_loop_sizes",
          "padding")  # fmt: skip
_NEEDED = ("id", "operator_type", "equation", "loop_dims", "loop_sizes", "operand_precision")
_MAPPING = ("name", "spatial_mapping", "spatial_mapping_hint", "memory_operand_links", "temporal_ordering")
_EQUATION = re.compile(r"(\w+)((?:\[\w*\])+)(\+?=)(\w+)((?:\[\w*\])*)(?:([*+])(\w+)((?:\[\w*\])*))?")
_RELATION = re.compile(r"(\w+)=(?:(\d+)\*)?(\w+)\+(?:(\d+)\*)?(\w+)")
_LINKS = {"O": "O", "I": "I1", "W": "I2"}
_PRODUCTS = ("Conv", "Conv_downsample", "Gemm")


class Layer(NamedTuple):
    """A layer. reads: the number of the layer that each operand comes from; itself for constants."""

    where: Value
    number: int
    name: str
    operator: str
    sizes: dict[str, int]
    reads: dict[str, int]
    part: Part


class _Access(NamedTuple):
    """A tensor of an equation and the words in its brackets."""

    tensor: str
    indices: tuple[str, ...]

    @staticmethod
    def of(tensor: str, brackets: str) -> _Access:
        words: list[str] = re.findall(r"\[(\w+)\]", brackets)  # a scalar's brackets are empty
        return _Access(tensor, tuple(words))

    def text(self, words: Mapping[str, str]) -> str:
        return f"{self.tensor}[{', '.join(words.get(each, each) for each in self.indices)}]"


def layer_of(value: Value, mappings: list[Record], told: Findings) -> tuple[Layer, Record]:
    """Return a layer, and the mapping of the file that is its own: by its name, else its operator, else the default."""
    fields = value.fields("a layer", _LAYER, told, _NEEDED)
    number, name, operator, sizes, sources, bits, equation = all_read(
        partial(fields.integer, "id", 0),
        lambda: fields.text("name") if fields.given("name") is not None else "",
        partial(fields.text, "operator_type"),
        partial(_sizes, fields),
        partial(_sources, fields),
        partial(_bits, fields, told),
        partial(_equation, fields["equation"]),
    )
    name = name or f"Layer{number}"
    mapping = _own(mappings, name, operator)
    links, relations = all_read(partial(_links, mapping), partial(_indices, fields, sizes))
    part = _part(_Asked(name, operator, sizes, bits, links, equation, *relations), fields, told)
    _check_operands(fields, mapping, part.workload)
    return Layer(value, number, name, operator, sizes, sources, part), mapping


class _Asked(NamedTuple):
    """What the parts of a layer say. bits, links: of its operands; words: the index expression of each word that a
    relation defines; extents: how many values it has."""

    name: str
    operator: str
    sizes: dict[str, int]
    bits: dict[str, int]
    links: dict[str, str]
    equation: re.Match[str]
    words: dict[str, str]
    extents: dict[str, int]


def _check_operands(fields: Record, mapping: Record, workload: Workload) -> None:
    """Raise InputError for operands that are named and that the equation has not; ZigZag's own may be left over."""
    known = dict.fromkeys((*(each.name for each in workload.tensors), *_LINKS, "O_final"))
    wrong = [
        value.refuse(f"{word}.{name[:60]} is no operand", did_you_mean(name[:60], tuple(known)))
        for word, given in (*fields.items(), *mapping.items())
        if word in ("operand_precision", "operand_source", "memory_operand_links") and given.is_table
        for name, value in given.table(word).items()
        if name not in known
    ]
    if wrong:
        raise InputError([mistake for each in wrong for mistake in each.mistakes])


def _own(mappings: list[Record], name: str, operator: str) -> Record:
    for word in (name, operator, "default"):
        for each in mappings:
            if each["name"].plain == word:
                return each
    return Record()


def mappings_of(file: Value, told: Findings) -> list[Record]:
    """Return the fields of every mapping of a file."""
    found: list[Record] = []
    for each in file.items("the mappings"):
        with told.collecting():
            found.append(each.fields("a mapping", _MAPPING, told, ("name",)))
    return found


def _links(mapping: Record) -> dict[str, str]:
    """Return the memory operand of each operand."""
    if "memory_operand_links" not in mapping:
        return _LINKS

    def link(tensor: str, value: Value) -> str:
        found = value.text(f"memory_operand_links.{tensor}")
        if found not in ROLES:
            raise value.refuse(f"the operand {tensor} is linked to {found[:60]!r}", "Known: I1, I2, O.")
        return found

    table = mapping["memory_operand_links"].table("memory_operand_links")
    return dict(zip(table, all_read(*(partial(link, *each) for each in table.items())), strict=True))


def _sizes(fields: Record) -> dict[str, int]:
    return {name.lower(): size for name, size in sizes_by_name(fields, "loop_dims", "loop_sizes").items()}


def _sources(fields: Record) -> dict[str, int]:
    if fields.given("operand_source") is None:
        return {}
    return _integers(fields["operand_source"], "operand_source")


def _integers(value: Value, what: str) -> dict[str, int]:
    """Return the integers, 0 or more, of a table."""
    table = value.table(what)
    return dict(
        zip(table, all_read(*(partial(each.integer, f"{what}.{name}", 0) for name, each in table.items())), strict=True)
    )


def _equation(value: Value) -> re.Match[str]:
    match = _EQUATION.fullmatch(re.sub(r"\s", "", value.text("equation")).lower())
    if match is None:
        raise value.refuse(f"the equation {value.told()} is not read", "Expected O[b][k]+=W[k][c]*I[b][c].")
    return match


def _indices(fields: Record, sizes: dict[str, int]) -> tuple[dict[str, str], dict[str, int]]:
    """Return the index expression of each word that a relation defines, and how many values it has."""
    found: dict[str, str] = {}
    extents: dict[str, int] = {}

    def read(value: Value) -> None:
        match = _RELATION.fullmatch(value.text("a relation").replace(" ", "").lower())
        if match is None:
            raise value.refuse(f"the relation {value.told()} is not read", "Expected such as ix=2*ox+1*fx.")
        word, left, one, right, other = match.groups("1")
        if one not in sizes or other not in sizes:
            raise value.refuse(f"the relation {value.told()} names no loop_dims", f"Known: {', '.join(sizes)}.")
        found[word] = f"{left}*{one} + {right}*{other}"
        extents[word] = int(left) * (sizes[one] - 1) + int(right) * (sizes[other] - 1) + 1

    all_read(*(partial(read, each) for each in fields.listed("dimension_relations")))
    return found, extents


def _part(asked: _Asked, fields: Record, told: Findings) -> Part:
    """Return the workload of a layer; raises InputError with the line of its equation."""
    name, operator, sizes, bits, links, match, words, extents = asked
    value = fields["equation"]
    target = _Access.of(match[1].upper(), match[2])
    operands = [_Access.of(match[4].upper(), match[5])]
    operands += [_Access.of(match[7].upper(), match[8])] if match[7] else []
    dropped = [each for each in operands if bits.get(each.tensor) == 0]  # a pooling's window
    read = [each for each in operands if each not in dropped]
    if not read:
        raise value.refuse("every operand has a precision of 0 bits")
    for each in (target, *read):
        if each.tensor not in bits or each.tensor not in links:
            missing = "operand_precision" if each.tensor not in bits else "memory_operand_links"
            raise value.refuse(f"{missing} says nothing of {each.tensor}")
    unknown = [each for access in dropped for each in access.indices if each not in sizes and each not in words]
    if unknown:
        raise value.refuse(f"the equation has the index {unknown[0][:60]}", f"loop_dims: {', '.join(sizes)[:200]}.")
    right = " * ".join(each.text(words) for each in read)
    letters = {letter for each in (target, *read) for letter in each.indices}
    used = {dim for dim in sizes if dim in letters or any(dim in re.findall(r"\w+", words.get(w, "")) for w in letters)}
    left = [dim for dim in sizes if dim not in used and sizes[dim] > 1]
    if left:
        raise value.refuse(f"no operand is indexed by {', '.join(left)}", "Every loop dim must stand in the equation.")
    is_product = match[6] == "*" and len(read) == 2
    with value.blamed(f"the layer {name[:60]}: "):
        made = einsum(
            f"{target.text(words)} += {right}",
            sizes={dim: size for dim, size in sizes.items() if dim in used},
            bits={each.tensor: bits[each.tensor] for each in (target, *read)},
            roles={each.tensor: ROLES[links[each.tensor]][1:] for each in (target, *read)},
            name=name[:200],
        )
    if match[6] == "+" and len(read) == 2:
        made = _summed(made)
    _tell_padding(name, fields, extents, told)
    if not is_product and operator in _PRODUCTS:
        told.note(value.place, f"the layer {name[:60]} is a {operator}, and nothing is multiplied: it has no MACs")
    return Part(made, is_product)


def _summed(workload: Workload) -> Workload:
    """Return a workload that adds its operands."""
    statement = replace(workload.statements[0], expression=Apply("+", (Read(0), Read(1))))
    return replace(workload, statements=(statement,))


def _bits(fields: Record, told: Findings) -> dict[str, int]:
    table, found = fields["operand_precision"], _integers(fields["operand_precision"], "operand_precision")
    final = found.pop("O_final", None)
    if final is not None and "O" in found and final != found["O"]:
        what = f"O has {found['O']} bits while it is summed and {final} (O_final) at the end: here it has one width"
        told.no_equal(table.plain["O_final"].place, what, f"With strict=False it has {found['O']} bits everywhere.")
    return found


def _tell_padding(name: str, fields: Record, extents: dict[str, int], told: Findings) -> None:
    """Tell padding, and inputs that have fewer elements than their indices: pr_loop_sizes of pr_loop_dims. extents:
    of the words that relations define."""
    words = "padding", "pr_loop_dims", "pr_loop_sizes"
    given = {word: value.items(word) if (value := fields.given(word)) else [] for word in words}
    for word in given["pr_loop_dims"]:
        if word.text("pr_loop_dims").lower() not in extents:
            raise word.refuse(
                f"pr_loop_dims names {word.told()}, which no relation does", f"Known: {', '.join(extents)}."
            )
    lists = {word: len(each) for word, each in given.items() if each}
    if len({*lists.values()}) > 1 or (lists and "pr_loop_dims" not in lists):
        raise fields[next(iter(lists))].refuse(f"{lists} are no lists of one length", "Give one item for each.")
    pads = [each.integer("padding", 0) for pair in given["padding"] for each in pair.items("padding")]
    pairs = zip(given["pr_loop_dims"], given["pr_loop_sizes"], strict=False)
    short = [value for word, value in pairs if value.integer("pr_loop_sizes") < extents[word.plain.lower()]]
    if any(pads) or short:
        what = f"the layer {name[:60]} has padding: its elements are read like others here, ZigZag reads none"
        told.note(fields["padding" if any(pads) else "pr_loop_sizes"].place, what)


def tell_unused(read: list[tuple[Layer, Record]], mappings: list[Record], told: Findings) -> None:
    """Tell mappings that no layer takes, and dims that none of the layers of a mapping has."""
    for mapping in mappings:
        layers = [layer for layer, own in read if own is mapping]
        dims = dict.fromkeys(dim for layer in layers for dim in layer.sizes)
        if layers:
            for value, dim in _named(mapping):
                if dim not in dims:
                    told.note(
                        value.place,
                        f"no layer of this mapping has a dim {dim[:60]}",
                        did_you_mean(dim[:60], tuple(dims)),
                    )
        elif mapping["name"].plain != "default":
            names = [word for layer, _ in read for word in (layer.name, layer.operator)]
            what = f"no layer takes the mapping {mapping['name'].told()}"
            told.note(mapping["name"].place, what, did_you_mean(str(mapping["name"].plain)[:60], names))


def _named(mapping: Record) -> Iterator[tuple[Value, str]]:
    """Yield the dims that a mapping names, which `constraints_of` has read."""
    for word, given in mapping.items():
        for each in given.plain.values() if word == "spatial_mapping" and given.is_table else ():
            yield from ((one, one.text(word).partition(",")[0].strip().lower()) for one in each.items(word))
        for each in given.items(word) if word == "temporal_ordering" and given.plain else ():
            yield each, each.items(word)[0].text(word).lower()


def constraints_of(mapping: Record, sizes: dict[str, int], array: Array, told: Findings) -> dict[str, object]:
    """Return what a mapping demands, as `explore(constraints=)` reads it: spatial mappings as factors of fan-outs, a
    temporal ordering as the order of loops."""
    found: dict[str, object] = {}
    spatial = mapping.given("spatial_mapping")
    units = Record() if spatial is None else spatial.table("spatial_mapping")
    spreads = (partial(_spread, unit, value, sizes, array) for unit, value in units.items())
    order = mapping.given("temporal_ordering")
    *found_spreads, _ = all_read(*spreads, lambda: order is None or _pairs(order))
    fanouts = dict(zip(units, found_spreads, strict=True))
    if fanouts:
        found["fanouts"] = {unit: _demands(spread, sizes) for unit, spread in fanouts.items()}
    if order is not None and order.plain:
        dims = _order(order, sizes, fanouts, told)
        found |= {"order": dims} if len(dims) > 1 else {}
    hint = mapping.get("spatial_mapping_hint")
    if hint is not None and hint.plain:
        told.note(hint.place, "spatial_mapping_hint says where ZigZag's search begins: nothing is demanded by it")
    return found


def _demands(spread: dict[str, int], sizes: dict[str, int]) -> dict[str, object]:
    """Return the factors of a fan-out as a demand: all other dims are forbidden there."""
    demands: dict[str, object] = {"factors": spread, "forbid": [dim for dim in sizes if dim not in spread]}
    return {name: demand for name, demand in demands.items() if demand}


def _spread(unit: str, value: Value, sizes: dict[str, int], array: Array) -> dict[str, int]:
    """Return the factors of a fan-out over 1."""
    if unit not in array.sizes:
        raise value.refuse(f"the array has no dimension {unit[:60]}", f"Known: {', '.join(array.sizes)}.")
    factors: dict[str, int] = {}
    for each in value.items(f"spatial_mapping.{unit}"):
        dim, _, number = each.text(f"spatial_mapping.{unit}").replace(" ", "").lower().partition(",")
        if not number.isdecimal() or int(number[:18]) < 1:
            raise each.refuse(
                f"spatial_mapping.{unit} is {each.told()}", 'Expected a dim and a factor, such as "K, 32".'
            )
        if dim in factors:
            raise each.refuse(f"{dim} stands twice in spatial_mapping.{unit}")
        factors[dim] = min(int(number[:18]), sizes.get(dim, 1))  # as ZigZag does
    total = prod(factors.values())
    if total > array.sizes[unit]:
        raise value.refuse(f"{total} units of {unit} are asked for, and there are {array.sizes[unit]}")
    return {dim: factor for dim, factor in factors.items() if factor > 1}


def _order(value: Value, sizes: dict[str, int], fanouts: Mapping[str, Mapping[str, int]], told: Findings) -> list[str]:
    """Return the dims of a temporal ordering, outermost first; tells one in which a dim has several loops."""
    found: list[str] = []
    for each, dim, given in _pairs(value):
        if sizes.get(dim, 1) == 1:
            continue
        trips = -(-sizes[dim] // prod(spread.get(dim, 1) for spread in fanouts.values()))
        if dim not in found and given not in (None, trips):
            what = f"temporal_ordering has a loop of {given} over {dim}, which runs {trips} times here"
            told.no_equal(each.place, what, f'Write [{dim.upper()}, "*"].')
        if dim in found:
            what = f"temporal_ordering has several loops over {dim}: an order of loops here names each dim once"
            told.no_equal(each.place, what)
            return []
        found.append(dim)
    return found[::-1]


def _pairs(value: Value) -> list[tuple[Value, str, int | None]]:
    """Return the loops of a temporal ordering: the dim and the size of each, None for "*"."""

    def pair(each: Value) -> tuple[Value, str, int | None]:
        both = each.items("temporal_ordering")
        if len(both) != 2:
            raise each.refuse("a loop of temporal_ordering is no pair", 'Expected a dim and a size: [OX, 112], or "*".')
        size = None if both[1].plain == "*" else both[1].integer("a loop of temporal_ordering")
        return each, both[0].text("a dim").lower(), size

    return all_read(*(partial(pair, each) for each in value.items("temporal_ordering")))
