"""Costs and results of searches as JSON documents: what `result.save` writes (docs/files.md).

A document names its schema, the version of polymap, and the question: workload, machine, options. Counts beyond 2^53
are decimal strings, because many JSON readers round larger numbers. Tiles and sizes stay integers, so that a printed
mapping or workload is valid input.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction

from polymap.arch import arch_to_document
from polymap.costmodel import Cost, Traffic, WireUse
from polymap.inputs import as_fraction, is_list, is_table, mapping_to_document
from polymap.ir import Architecture, InstancePoint, Mapping, Violation, Workload, WorkloadError
from polymap.search.problem import objective_unit
from polymap.search.result import SearchResult, Settings
from polymap.search.rewritten import rewritten_document
from polymap.version import __version__
from polymap.workload import workload_text, workload_to_document

LARGEST_PLAIN = 2**53


def json_text(document: object) -> str:
    """Return the document as JSON text, ASCII, two spaces per level."""
    return json.dumps(document, indent=2, allow_nan=False)


def number(value: int | float | Fraction | None) -> int | float | str | None:
    """Return a number as JSON can represent it: integers beyond 2^53 as text, rationals as integer or float."""
    if isinstance(value, Fraction):
        value = value.numerator if value.denominator == 1 else float(value)
    if isinstance(value, int) and abs(value) > LARGEST_PLAIN:
        return str(value)
    return value


def head_document(kind: str, workload: Workload | None = None, arch: Architecture | None = None) -> dict[str, object]:
    """Return the head of every answer: schema ("polymap.result/1"), version, and the question as far as it is given.

    A program that the search rewrote has its C text and its new loops. One that no document can represent has its name
    and its text.
    """
    head: dict[str, object] = {"schema": f"polymap.{kind}/1", "version": __version__}
    if workload is not None:
        try:
            head["workload"] = workload_to_document(workload)
        except WorkloadError:
            plain = {"name": workload.name, "text": workload_text(workload)}
            head["workload"] = rewritten_document(workload) or plain
    if arch is not None:
        head["arch"] = arch_to_document(arch)
    return head


COST_UNITS = {"traffic": "elements", "occupancy": "bits", "energy": "pJ", "latency": "cycles"}


def traffic_rows(traffic: Iterable[Traffic]) -> list[dict[str, object]]:
    """Return one row per level and tensor, in elements."""
    return [
        {
            "level": row.level,
            "tensor": row.tensor,
            "reads": number(row.reads),
            "writes": number(row.writes),
            "fills": number(row.fills),
            "drains": number(row.drains),
        }
        for row in traffic
    ]


def wire_rows(wires: Iterable[WireUse]) -> list[dict[str, object]]:
    """Return one row per tensor and fan-out with energies, in elements."""
    return [
        {
            "fanout": row.fanout,
            "tensor": row.tensor,
            "messages": number(row.messages),
            "deliveries": number(row.deliveries),
            "collections": number(row.collections),
            "sums": number(row.sums),
        }
        for row in wires
    ]


def violation_document(violation: Violation) -> dict[str, object]:
    """Return a violation with its witness: two instances, or named numbers."""
    witness: dict[str, object] = {}
    points = [item for item in violation.witness if isinstance(item, InstancePoint)]
    for name, point in zip(("first", "second"), points, strict=False):
        witness[name] = {"statement": point.statement, **{dim: number(value) for dim, value in point.values}}
    for item in violation.witness:
        if not isinstance(item, InstancePoint):
            name, value = item
            witness[name] = value if isinstance(value, str) else number(value)
    return {"kind": violation.kind, "message": violation.message, "witness": witness}


def evaluation_document(cost: Cost) -> dict[str, object]:
    """Return the output of `polymap evaluate`: the cost and its question."""
    head = head_document("cost", cost.workload, cost.arch)
    return head | {"units": COST_UNITS} | cost_document(cost)


def cost_document(cost: Cost) -> dict[str, object]:
    """Return the figures of a cost, as a part of other answers."""
    wires: dict[str, object] = {"wires": wire_rows(cost.wires)} if cost.wires else {}
    return {
        "legal": cost.legal,
        "violations": [violation_document(violation) for violation in cost.violations],
        "instances": number(cost.instances),
        "method": cost.method,
        "traffic": traffic_rows(cost.traffic),
        "occupancy_bits": {level: number(bits) for level, bits in cost.occupancy_bits},
        "energy_pj": cost.energy_pj,
        "energy_by_level_pj": dict(cost.energy_by_level_pj),
        "compute_cycles": number(cost.compute_cycles),
        "latency_cycles": number(cost.latency_cycles),
        "utilization": cost.utilization,
        "bottleneck": cost.bottleneck,
        **wires,
    }


def mapping_document(mapping: Mapping | None) -> object:
    """Return the loop tree as a document that `--mapping` reads, null for none."""
    return None if mapping is None else mapping_to_document(mapping)


def result_document(result: SearchResult) -> dict[str, object]:
    """Return the document that `polymap explore` prints and `result.save` writes."""
    names = [name for name, _ in result.values] or [result.objective]
    head = head_document("result", result.workload, result.arch)
    options = {"options": _settings_document(result.settings), "units": units_document(names)}
    more = {} if result.prices is None else {"sensitivity": result.prices}
    return head | options | _answer_document(result) | more


def units_document(objectives: Iterable[str]) -> dict[str, object]:
    """Return the units of the values of objectives (null: none), and of the figures of a cost."""
    return {"value": {name: objective_unit(name) or None for name in objectives}, **COST_UNITS}


def _settings_document(settings: Settings) -> dict[str, object]:
    return {
        "tiles": settings.tiles,
        "seed": settings.seed,
        "time_limit_s": float(settings.time_limit_s),
        "workers": settings.workers,
        "memory_limit_mb": settings.memory_limit_mb,
        "work_limit": settings.work_limit,
        "constraints": _plain_values(settings.constraints),
    }


def _plain_values(value: object) -> object:
    """Return constraints, as Python or JSON users write them, as JSON values."""
    if is_table(value):
        return {name: _plain_values(inner) for name, inner in value.items()}
    if is_list(value):
        return [_plain_values(inner) for inner in value]
    if isinstance(value, str | bool) or value is None:
        return value
    exact = as_fraction(value)
    return str(value) if exact is None else number(exact)


def _answer_document(result: SearchResult) -> dict[str, object]:
    document = _plain_document(result)
    if result.clash:
        document["clash"] = list(result.clash)
    if result.dividing is not None:
        document["dividing"] = _answer_document(result.dividing)
    if result.values:
        document["values"] = {name: number(value) for name, value in result.values}
        document["bounds"] = {name: number(value) for name, value in result.bounds}
    if result.front:
        document["front"] = [_answer_document(point) for point in result.front]
    return document


def _plain_document(result: SearchResult) -> dict[str, object]:
    return {
        "status": result.status,
        "objective": result.objective,
        "value": number(result.value),
        "bound": number(result.bound),
        "gap": result.gap,
        "seconds": result.seconds,
        "mapping": mapping_document(result.best),
        "cost": None if result.cost is None else cost_document(result.cost),
        "space": {
            "syntactic": number(result.space.syntactic),
            "legal": number(result.space.legal),
            "distinct": number(result.space.distinct),
            "evaluated": number(result.space.evaluated),
            "pruned": number(result.space.pruned),
            "listed": number(result.space.listed),
            "infeasible": number(result.space.infeasible),
            **({"name": result.space.name} if result.space.name else {}),
        },
        "work": number(result.work),
    }
