"""Reads back what any answer's `save` and any command's `--json` wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping as Table, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from polymap.costmodel import BufferCurve, Cost, CurvePoint
from polymap.inputs import (
    LIMITS,
    answers_in_words,
    arch_from_document,
    expected_kind,
    is_list,
    is_table,
    mapping_from_document,
    parse_json,
    read_text,
    refuse_yaml,
    shown,
)
from polymap.ir import Architecture, InputError, Mistake, PolymapError, Workload
from polymap.networks.buffer_sweep import with_capacity
from polymap.networks.comparison import Comparison, Member
from polymap.networks.exploration import LayerAnswer, NetworkAnswer, chosen_groups, group_answer, layer_answer
from polymap.networks.fusion import GroupAnswer, Passing
from polymap.networks.groups import plan_of
from polymap.networks.model import Feed, Network, NetworkLayer, Unmapped, View
from polymap.networks.resource_prices import NextChange, OtherAmount, ResourcePrice, Sensitivity
from polymap.networks.sweeps import SweepRow, SweepTable
from polymap.networks.told import told_cost
from polymap.search import mapping_with_cost, parsed_number, plain_numbers, result_from_document
from polymap.search.problem import objective_values, parse_single
from polymap.workload import workload_from_document


@answers_in_words
def load_result(path: str | Path) -> Any:
    """Return the answer that its `save(path)` or a command's `--json` wrote: a SearchResult (`explore`), NetworkAnswer
    (`explore` of a network), SweepTable (`sweep`), Comparison (`compare`), Cost (`evaluate`), Sensitivity or
    BufferCurve; it equals the original. What other commands wrote (`check`, `codegen`, `transform`, `verify`, `list`)
    is a table.

    It has no history, cannot be resumed and has no certificate. Raises
    InputError, with every mistake, for a file that is no such answer, has another format version, or contradicts
    itself.
    """
    path = Path(path) if isinstance(path, str) else expected_kind(path, Path, "the path", InputError)
    refuse_yaml(path, "result")
    where = shown(path.name)
    document = parse_json(read_text(path, LIMITS.answer_bytes), where, LIMITS.answer_bytes)
    if not is_table(document) or "schema" not in document:
        hint = "Expected what an answer's save() or `polymap explore --json FILE` wrote."
        raise InputError(Mistake("PM611", f"{where} is no result: it names no schema", hint))
    schema = document["schema"]
    read = _READERS.get(schema) if isinstance(schema, str) else None
    if read is None:
        what = f"{where} has the schema {shown(schema)}"
        raise InputError(Mistake("PM612", what, f"Answers of these schemas are read here: {', '.join(_READERS)}."))
    try:
        return read(document, where)
    except InputError:
        raise
    except PolymapError as error:
        raise InputError([Mistake(each.code, f"{where}: {each.what}", each.hint) for each in error.mistakes]) from None
    except (LookupError, ArithmeticError, TypeError, ValueError, AttributeError, StopIteration) as error:
        hint = "Write it again with the command or the method that made it."
        raise InputError(Mistake("PM611", f"{where} is not as it was written: {error}", hint)) from None


def _cost(document: Table[str, Any], where: str) -> Cost:
    workload = workload_from_document(document["workload"])
    arch = arch_from_document(document["arch"], "arch")
    figures = {name: value for name, value in document.items() if name not in _COST_HEAD}
    return mapping_with_cost(workload, arch, (document["mapping"], figures), where)[1]


def _comparison(document: Table[str, Any], where: str) -> Comparison:
    workload = workload_from_document(document["workload"])
    arch = arch_from_document(document["arch"], "arch")
    goal = parse_single(document["objective"], arch)
    members: list[Member] = []
    for number, each in enumerate(document["members"]):
        place, found, value = f"{where}: members[{number}]", (None, None), None
        if each["mapping"] is not None:
            found = mapping_with_cost(workload, arch, (each["mapping"], each["cost"]), place)
            value = float(objective_values(workload, arch, goal, found[1])[0])
        bound = float(parsed_number(each["bound"]) or 0)
        member = Member(str(each["family"]), str(each["status"]), *found, value, bound)
        told = parsed_number(each["value"]), parsed_number(each["gap"])
        if told != (value, member.gap) or (member.gap or 0) < 0 or (member.gap and member.status == "OPTIMAL"):
            raise ValueError(f"{place} has other numbers than its mapping, whose value is {value}")
        members.append(member)
    optimum, proven = parsed_number(document["optimum"]), bool(document["proven"])
    if any(each.value is not None and (optimum is None or each.value < optimum) for each in members):
        raise ValueError(f"a member's value is below the optimum {optimum}")
    options = plain_numbers(document.get("options"))
    return Comparison(workload, arch, goal.text, tuple(members), optimum, proven, options)


def _table(document: Table[str, Any], _: str) -> object:
    return plain_numbers(document)


_COST_HEAD = ("schema", "version", "workload", "arch", "units", "mapping")


Document = Table[str, Any]


def network_answer_from_document(document: Document, where: str) -> NetworkAnswer:
    """Return the answer about a network, each layer's answer read and checked as `result.save` writes it."""
    arch = arch_from_document(document["arch"], "arch")
    goal = parse_single(document["objective"], arch)
    results = [result_from_document(each, f"{where}: layers[{n}]") for n, each in enumerate(document["layers"])]
    layers = tuple(
        NetworkLayer(str(row["layer"]), each.workload, int(row["multiplicity"]), str(row["operator"]), bool(product))
        for row, each, product in zip(document["rows"], results, document["products"], strict=True)
    )
    answers = tuple(layer_answer(*each, arch, goal) for each in zip(layers, results, strict=True))
    net = _network(document, layers)
    parts = enumerate(document["groups"])
    groups = chosen_groups([_group(each, net, answers, f"{where}: groups[{n}]") for n, each in parts], answers, goal)
    passing = tuple(_passing(each) for each in document["passing"])
    return NetworkAnswer(net, arch, goal.text, answers, groups, passing, bool(document["fuse"]))


def _network(document: Document, layers: tuple[NetworkLayer, ...]) -> Network:
    return Network(
        str(document["network"]),
        layers,
        tuple(View(*map(str, each)) for each in document["views"]),
        tuple(Unmapped(*map(str, each)) for each in document["unmapped"]),
        tuple((str(one), str(other)) for one, other in document["edges"]),
        tuple((str(node), tuple(map(int, numbers))) for node, numbers in document["nodes"]),
        tuple(Feed(*map(str, each)) for each in document["feeds"]),
        tuple((str(node), int(macs)) for node, macs in document["macs_left_out"]),
        frozenset(map(str, document["returned"])),
        frozenset(map(str, document["repeated"])),
    )


def _group(document: Document, net: Network, layers: Sequence[LayerAnswer], where: str) -> GroupAnswer:
    """Return the answer about equal groups of a network's nodes beside those about their layers."""
    result = result_from_document(document["answer"], where)
    names = [tuple(map(str, each)) for each in document["nests"]]
    groups = [group for group in plan_of(net).groups if group.names in names]
    layer = NetworkLayer(result.workload.name, result.workload, len(groups), is_product=False)
    goal = parse_single(result.objective, result.arch)
    return group_answer(groups, layer_answer(layer, result, result.arch, goal), layers, goal)


def _passing(document: Document) -> Passing:
    return Passing(
        str(document["producer"]),
        tuple(map(str, document["consumers"])),
        str(document["tensor"]),
        str(document["through"]),
        str(document["level"]) if document["on_chip"] else "",
        tuple(map(int, document["tile"])),
        tuple(map(int, document["shape"])),
        int(document["tile_bits"]),
        int(document["writes"]),
        str(document["reason"]),
        int(document["times"]),
    )


def sweep_from_document(document: Document, where: str) -> SweepTable:
    """Return the rows of a sweep."""
    objective = document["objective"]
    objectives = tuple(map(str, objective)) if is_list(objective) else (str(objective),)
    known = (
        [workload_from_document(each) for each in document["layers"]],
        [arch_from_document(each, f"{where}: machines[{n}]") for n, each in enumerate(document["machines"])],
        [mapping_from_document(each, f"{where}: mappings[{n}]") for n, each in enumerate(document["mappings"])],
    )
    rows = tuple(_sweep_row(each, known) for each in document["rows"])
    incomplete = tuple(
        Network(
            str(each["network"]),
            tuple(_layer(one) for one in each["layers"]),
            left_out=tuple(Unmapped(*map(str, one)) for one in each["unmapped"]),
        )
        for each in document["incomplete"]
    )
    return SweepTable(objectives, rows, incomplete)


def _layer(document: Document) -> NetworkLayer:
    workload, many = workload_from_document(document["workload"]), int(document["multiplicity"])
    return NetworkLayer(str(document["name"]), workload, many, str(document["operator"]), bool(document["product"]))


def _sweep_row(row: Document, known: tuple[Sequence[Any], ...]) -> SweepRow:
    """Return a row. known: layers, machines and mappings by number. Its mapping must have its value there."""
    on_chip = parsed_number(row["on_chip_bits"])
    found: list[Any] = [
        None if number is None else items[number] for items, number in zip(known, row["numbers"], strict=True)
    ]
    layer, arch, mapping = found
    value, bound, status = _fraction(row["value"]), _fraction(row["bound"]), str(row["status"])
    if mapping is not None:
        rounded, value = value, told_cost(layer, arch, str(row["objective"]), mapping, value)[1]
        bound = value if bound == rounded else bound
    if value is not None and (bound is None or bound > value or (bound < value and status.startswith("OPTIMAL"))):
        raise ValueError(f"a row is {status} with value {value} and bound {bound}")
    return SweepRow(
        str(row["workload"]),
        plain_numbers(row["machine"]),
        status,
        value,
        bound,
        float(row["seconds"]),
        None if on_chip is None else int(on_chip),
        str(row["objective"]),
        int(row["multiplicity"]),
        str(row["how"]),
        mapping,
        layer,
        arch,
        None if arch is None or "area_um2" not in row else arch.area_um2,
    )


def sensitivity_from_document(document: Document, where: str) -> Sensitivity:
    """Return what resources are worth."""
    return Sensitivity(
        workload_from_document(document["workload"]),
        arch_from_document(document["arch"], "arch"),
        str(document["objective"]),
        str(document["tiles"]),
        str(document["status"]),
        _fraction(document["value"]),
        tuple(_price(each) for each in document["prices"]),
        int(document["searches"]),
        float(document["seconds"]),
    )


def _price(row: Document) -> ResourcePrice:
    change = row["next_change"]
    sensed = row["sensitivity"]
    return ResourcePrice(
        str(row["resource"]),
        _fraction(row["amount"]),
        _other_amount(row["raised"]),
        None if row["lowered"] is None else _other_amount(row["lowered"]),
        None if row["binds"] is None else bool(row["binds"]),
        _fraction(row["price"]),
        None if sensed is None else float(sensed),
        None if change is None else _change(change),
    )


def _other_amount(row: Document) -> OtherAmount:
    amount, value, bound = (_fraction(row[name]) for name in ("amount", "value", "bound"))
    return OtherAmount(amount, value, bound, str(row["status"]), str(row["how"]))


def _change(row: Document) -> NextChange:
    bits = (parsed_number(row[name]) for name in ("none_to_bits", "from_bits"))
    none, some = (None if each is None else int(each) for each in bits)
    return NextChange(none, some, _fraction(row["value"]), is_exact=bool(row["is_exact"]))


def curve_from_document(document: Document, where: str) -> BufferCurve:
    """Return a buffer curve."""
    workload, arch = workload_from_document(document["workload"]), arch_from_document(document["arch"], "arch")
    compulsory = parsed_number(document["compulsory_bits"])
    return BufferCurve(
        workload,
        arch,
        str(document["level"]),
        str(document["traffic_level"]),
        str(document["tiles"]),
        None if compulsory is None else int(compulsory),
        tuple(_curve_point(each, workload, arch, document) for each in document["points"]),
        tuple(_curve_point(each, workload, arch, document) for each in document.get("unfused", ())),
    )


def _curve_point(row: Document, workload: Workload, arch: Architecture, curve: Document) -> CurvePoint:
    """Return a point of a curve. Its mapping must fit its size, and move there what it says."""
    names = ("capacity_bits", "schedule_bits", "bound_bits", "best_bits")
    capacity, schedule, bound, best = (parsed_number(row[name]) for name in names)
    mapping = None if row["mapping"] is None else mapping_from_document(row["mapping"])
    found = None if best is None else int(best)
    if mapping is not None:
        machine = with_capacity(arch, curve["level"], int(capacity or 0))
        told_cost(workload, machine, f"traffic:{curve['traffic_level']}", mapping, found)
    if found is not None and not 0 <= (bound or 0) <= found:
        raise ValueError(f"a point has the value {found} and the bound {bound}")
    return CurvePoint(int(capacity or 0), int(schedule or 0), int(bound or 0), found, mapping, str(row["status"]))


def _fraction(value: object) -> Any:
    number = parsed_number(value)
    return None if number is None else Fraction(number)


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "polymap.result/1": result_from_document,
    "polymap.network/1": network_answer_from_document,
    "polymap.sweep/1": sweep_from_document,
    "polymap.comparison/1": _comparison,
    "polymap.cost/1": _cost,
    "polymap.sensitivity/1": sensitivity_from_document,
    "polymap.curve/1": curve_from_document,
} | {f"polymap.{kind}/1": _table for kind in ("check", "program", "transform", "verdict", "list")}
