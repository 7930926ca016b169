"""Other answers as JSON documents: what the command line prints with --json (docs/files.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from polymap.costmodel import BufferCurve, CurvePoint
from polymap.inputs import arch_to_document
from polymap.ir import Architecture, Workload
from polymap.report.summary import directions
from polymap.search import fields_document, head_document, mapping_document, number, violation_document
from polymap.workload import workload_to_document

if TYPE_CHECKING:
    from polymap.checker import Verdict
    from polymap.codegen import CRun
    from polymap.schedules import Checkup, Nests


def curve_document(curve: BufferCurve) -> dict[str, object]:
    """Return a buffer curve and its question."""
    points = [_point_document(point) for point in curve.points]
    own = {"level": curve.level, "traffic_level": curve.traffic_level, "tiles": curve.tiles}
    least = {"compulsory_bits": number(curve.compulsory_bits), "points": points}
    unfused = {"unfused": [_point_document(point) for point in curve.unfused]} if curve.unfused else {}
    return head_document("curve", curve.workload, curve.arch) | own | least | unfused


def _point_document(point: CurvePoint) -> dict[str, object]:
    return {
        "capacity_bits": number(point.capacity_bits),
        "schedule_bits": number(point.schedule_bits),
        "bound_bits": number(point.bound_bits),
        "best_bits": number(point.best_bits),
        "status": point.status,
        "proven": point.proven.value,
        "mapping": mapping_document(point.best),
    }


def list_document(workloads: Sequence[Workload], machines: Sequence[Architecture]) -> dict[str, object]:
    """Return what `polymap list` prints."""
    own = {"workloads": [workload_to_document(each) for each in workloads]}
    return head_document("list") | own | {"machines": [arch_to_document(each) for each in machines]}


def verdict_document(verdict: Verdict) -> dict[str, object]:
    """Return what `polymap verify` prints."""
    return head_document("verdict") | {
        "proven": verdict.proven,
        "unproven": list(verdict.unproven),
        "reason": verdict.reason,
        "objective": verdict.objective,
        "value": number(verdict.value),
        "bound": number(verdict.bound),
        "structures": verdict.structures,
        "head": verdict.head,
        "seconds": verdict.seconds,
    }


def run_document(run: CRun) -> dict[str, object]:
    """Return the result of a C program's run: whether it matches the reference, and the words it counted."""
    return {
        "matches_reference": run.matches_reference,
        "counts_match": run.counts_match,
        "counted": [fields_document(each) for each in run.counted],
        "seconds": run.seconds,
    }


def nests_document(nests: Nests) -> dict[str, object]:
    """Return parallel and vector loops, permutable bands with their skews, and fusable neighbours."""
    words: dict[str, bool | str] = {"yes": True, "no": False}
    return {
        "loops": [
            {
                "loop": each.name,
                "depth": each.depth,
                "statements": each.statements,
                "parallel": words.get(each.parallel.value, each.parallel.value),
                "vectorizable": each.vectorizable,
            }
            for each in nests.loops
        ],
        "bands": [
            {
                "loops": each.loops,
                "permutable": each.permutable,
                "skews": None
                if each.skews is None
                else {loop: {name: factor for factor, name in added} for loop, added in each.skews},
            }
            for each in nests.bands
        ],
        "neighbours": [
            {"first": each.first, "second": each.second, "fusable": each.broken is None} for each in nests.neighbours
        ],
    }


def checkup_document(found: Checkup) -> dict[str, object]:
    """Return what `polymap check` prints after the head."""
    document: dict[str, object] = {
        "dependences": [
            {
                "source": each.source,
                "sink": each.sink,
                "kind": each.kind.value,
                "array": each.tensor,
                "relation": each.relation_text,
                "distances": each.distances,
                "directions": [directions(sign) for sign in each.signs],
            }
            for each in found.dependences
        ],
        "loops": found.loops,
        "orders": fields_document(found.orders),
        "parallel": dict(found.parallel),
        "nests": nests_document(found.nests),
    }
    if found.violations is not None:
        document["violations"] = [violation_document(violation) for violation in found.violations]
    return document
