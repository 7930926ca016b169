"""Answers about networks and sweeps as JSON documents, and their rows."""

from __future__ import annotations

from fractions import Fraction

from polymap.inputs import arch_to_document, is_table
from polymap.networks.columns import Provenance
from polymap.networks.exploration import LayerAnswer, NetworkAnswer
from polymap.networks.model import Network, NetworkLayer
from polymap.networks.sweep_run import MachineTotal
from polymap.networks.sweeps import SweepRow, SweepTable
from polymap.search import head_document, mapping_document, number, result_document
from polymap.workload import workload_to_document


def answer_rows(answer: NetworkAnswer) -> list[dict[str, object]]:
    """Return a row per distinct layer: name, multiplicity, MACs, status, value and bound of one node, total, share."""
    rows: list[dict[str, object]] = []
    for each in answer.layers:
        row: dict[str, object] = {"layer": each.layer.name, "operator": each.layer.operator}
        row |= {"multiplicity": each.layer.multiplicity, "macs": each.layer.macs, "status": each.result.stated}
        row |= {"value": number(each.exact), "bound": number(each.exact_bound), "total": number(each.total)}
        rows.append(row | {"share": share_of(answer, each), "seconds": each.result.seconds})
    return rows


def answer_document(answer: NetworkAnswer) -> dict[str, object]:
    """Return the answer as JSON: totals, a row per layer, and each layer's own answer."""
    net = answer.network
    document = head_document("network", None, answer.arch)
    document |= {"network": net.name, "objective": answer.objective, "status": answer.status}
    document |= {"headline": answer.headline, "complete": answer.complete, "proof": answer.proof}
    document |= {"mapped_nodes": net.mapped_nodes, "unmapped_nodes": len(net.left_out)}
    document |= {"unmapped_macs": None if net.unmapped_macs is None else number(Fraction(net.unmapped_macs))}
    document |= {"value": number(answer.exact), "bound": number(answer.exact_bound), "gap": answer.gap}
    document |= {"macs": number(Fraction(net.macs)), "rows": answer_rows(answer)}
    document |= {"views": [list(each) for each in net.views], "unmapped": [list(each) for each in net.left_out]}
    document |= {"layers": [result_document(each.result) for each in answer.layers]}
    document |= {"products": [each.layer.is_product for each in answer.layers]}
    return document | graph_document(net) | _fusion_fields(answer)


def graph_document(net: Network) -> dict[str, object]:
    """Return the nodes of a network with the numbers of their layers, and what passes between nodes."""
    return {
        "nodes": [[node, list(numbers)] for node, numbers in net.mapped],
        "edges": [list(each) for each in net.edges],
        "feeds": [list(each) for each in net.feeds],
        "returned": sorted(net.returned),
        "repeated": sorted(net.repeated),
        "macs_left_out": [[node, number(macs)] for node, macs in net.left_out_macs],
    }


def _layer_document(layer: NetworkLayer) -> dict[str, object]:
    own: dict[str, object] = {"name": layer.name, "workload": workload_to_document(layer.workload)}
    return own | {"multiplicity": layer.multiplicity, "operator": layer.operator, "product": layer.is_product}


def _fusion_fields(answer: NetworkAnswer) -> dict[str, object]:
    """Return the sum of the layers alone, what groups of neighbours cost, and what becomes of what nodes pass on."""
    groups: list[dict[str, object]] = []
    for each in answer.groups:
        row: dict[str, object] = {"nests": [list(names) for names in each.groups], "together": each.is_together}
        row |= {"status": each.result.status, "value": number(each.exact), "bound": number(each.exact_bound)}
        row |= {"apart": number(each.apart), "apart_bound": number(each.apart_bound)}
        groups.append(row | {"answer": result_document(each.result)})
    passing = [
        {"producer": each.producer, "consumers": list(each.consumers), "tensor": each.tensor, "times": each.times}
        | {"level": each.level or each.through, "on_chip": bool(each.level), "tile": list(each.tile)}
        | {"through": each.through, "shape": list(each.shape)}
        | {"tile_bits": number(Fraction(each.tile_bits)), "writes": number(Fraction(each.writes))}
        | {"reason": each.reason, "sentence": str(each)}
        for each in answer.passing
    ]
    return {
        "fuse": answer.fuse,
        "unfused": number(answer.unfused),
        "saving": answer.saving,
        "groups": groups,
        "passing": passing,
    }


def sweep_rows(found: SweepTable) -> list[dict[str, object]]:
    """Return a row per question: the grid's values (or the machine's name) as columns, value and bound as floats."""
    return [
        {"workload": each.workload}
        | (dict(each.machine) if is_table(each.machine) else {"machine": each.machine})
        | {"objective": each.objective, "status": each.status}
        | {name: None if one is None else float(one) for name, one in (("value", each.value), ("bound", each.bound))}
        | {"multiplicity": each.multiplicity, "on_chip_bits": each.on_chip_bits, **_area(each), "how": each.how}
        | {"seconds": each.seconds}
        for each in found.rows
    ]


def _area(each: SweepRow | MachineTotal) -> dict[str, object]:
    return {} if each.area_um2 is None else {"area_um2": float(each.area_um2)}


def sweep_document(found: SweepTable) -> dict[str, object]:
    """Return rows and front of a sweep as JSON; a row has the numbers of its layer, machine and mapping."""
    layers, machines, mappings = (
        list(dict.fromkeys(each for row in found.rows if (each := getattr(row, name)) is not None))
        for name in ("layer", "arch", "mapping")
    )
    numbers = [{each: number for number, each in enumerate(known)} for known in (layers, machines, mappings)]
    rows = [
        {"workload": each.workload, "machine": each.machine, "objective": each.objective, "status": each.status}
        | {"value": number(each.value), "bound": number(each.bound), "seconds": each.seconds}
        | {"multiplicity": each.multiplicity, "on_chip_bits": number(each.on_chip_bits), **_area(each), "how": each.how}
        | {
            "numbers": [
                known.get(one) for known, one in zip(numbers, (each.layer, each.arch, each.mapping), strict=True)
            ]
        }
        for each in found.rows
    ]
    front = [
        {"machine": each.machine, "value": number(each.values[0])}
        | {"values": {name: number(value) for name, value in zip(found.objectives, each.values, strict=True)}}
        | {"on_chip_bits": number(each.on_chip_bits), **_area(each), "status": each.status}
        for each in found.front()
    ]
    objective = found.objectives[0] if len(found.objectives) == 1 else list(found.objectives)
    counts = {how.value: found.count(how) for how in Provenance}
    missing = [
        {"network": net.name, "unmapped": [list(each) for each in net.left_out]}
        | {"layers": [_layer_document(each) for each in net.layers]}
        for net in found.incomplete
    ]
    document: dict[str, object] = {"objective": objective, "complete": not missing, "incomplete": missing}
    document |= {"asked": found.asked, "counts": counts, "rows": rows, "front": front}
    document |= {"layers": [workload_to_document(each) for each in layers]}
    document |= {"machines": [arch_to_document(each) for each in machines]}
    document |= {"mappings": [mapping_document(each) for each in mappings]}
    return head_document("sweep") | document


def share_of(answer: NetworkAnswer, each: LayerAnswer) -> float | None:
    """Return a layer's part of the sum of all values, each alone; None without one."""
    if answer.unfused is None or each.total is None:
        return None
    every = sum((one.total or Fraction(0) for one in answer.layers), Fraction(0))
    return float(each.total / every) if every else None
