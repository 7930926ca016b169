"""Reads the documents of networks, sweeps, resource prices and buffer curves that their `save` and `--json` write."""

from __future__ import annotations

from collections.abc import Mapping as Table, Sequence
from fractions import Fraction
from typing import Any

from polymap.costmodel import BufferCurve, CurvePoint
from polymap.inputs import arch_from_document, is_list, mapping_from_document
from polymap.ir import Architecture, Workload
from polymap.networks.buffer_sweep import with_capacity
from polymap.networks.exploration import LayerAnswer, NetworkAnswer, chosen_groups, group_answer, layer_answer
from polymap.networks.fusion import GroupAnswer, Passing
from polymap.networks.groups import plan_of
from polymap.networks.model import Feed, Network, NetworkLayer, Unmapped, View
from polymap.networks.resource_prices import NextChange, OtherAmount, ResourcePrice, Sensitivity
from polymap.networks.sweeps import SweepRow, SweepTable
from polymap.networks.told import told_cost
from polymap.search import parsed_number, plain_numbers, result_from_document
from polymap.search.problem import parse_single
from polymap.workload import workload_from_document

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
