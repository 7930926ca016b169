"""What results, costs, curves and comparisons answer: explain(), table(), show(), c(), save()."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from polymap.codegen import generate_c
from polymap.costmodel import BufferCurve, Cost, mapping_text
from polymap.inputs import write_text
from polymap.ir import Architecture, Mapping, Reports, Workload, report_with
from polymap.networks import (
    Comparison,
    NetworkAnswer,
    Sensitivity,
    SweepTable,
    answer_document,
    answer_rows,
    sensitivity,
    sweep_document,
    sweep_rows,
)
from polymap.report.answers import curve_document
from polymap.report.explanation import explain
from polymap.report.families import comparison_document
from polymap.report.figures import Picture, mapping_svg, subject_of
from polymap.report.prices import sensitivity_document, sensitivity_rows, sensitivity_text
from polymap.report.progress import notebook
from polymap.report.report import network_page, report_page, sweep_page
from polymap.report.summary import no_answer_text, proof_text, status_text
from polymap.search import SearchResult, evaluation_document, json_text, result_document

Value = TypeVar("Value")
Rows = list[dict[str, object]]


def result_rows(result: SearchResult) -> Rows:
    """Return a row per point of a front: its values and how sure they are; of other results the traffic."""
    if not result.front:
        return [] if result.cost is None else cost_rows(result.cost)
    return [
        {**dict(point.values), "status": point.status, "bound": point.bound, "gap": point.gap} for point in result.front
    ]


def cost_rows(cost: Cost) -> Rows:
    """Return a row per level and tensor: elements moved, bits, and the energy of these accesses."""
    workload, arch, _ = _question(cost)
    levels = {level.name: level for level in arch.levels}
    rows: Rows = []
    for row in cost.traffic:
        bits = workload.tensor(row.tensor).bits
        pj = levels[row.level].access_pj(row.reads * bits, row.writes * bits)
        elements = {"reads": row.reads, "writes": row.writes, "fills": row.fills, "drains": row.drains}
        both: dict[str, object] = {"level": row.level, "tensor": row.tensor, **elements}
        rows.append(both | {"bits": (row.reads + row.writes) * bits, "energy_pj": float(pj)})
    return rows


def curve_rows(curve: BufferCurve) -> Rows:
    """Return a row per size of the buffer, in bits; of a program also what its nests move unfused."""
    rows: Rows = [
        {
            "capacity_bits": point.capacity_bits,
            "schedule_bits": point.schedule_bits,
            "bound_bits": point.bound_bits,
            "best_bits": point.best_bits,
            "gap": point.gap,
            "proven": point.proven.value,
        }
        for point in curve.points
    ]
    for row, apart in zip(rows, curve.unfused, strict=False):
        row |= {"unfused_bound_bits": apart.bound_bits, "unfused_best_bits": apart.best_bits}
    return rows


def comparison_rows(comparison: Comparison) -> Rows:
    """Return a row per family."""
    return [
        {
            "family": member.family,
            "status": member.status,
            "value": member.value,
            "bound": member.bound,
            "gap": member.gap,
            "energy_pj": None if member.cost is None else member.cost.energy_pj,
            "latency_cycles": None if member.cost is None else member.cost.latency_cycles,
        }
        for member in comparison.members
    ]


def frame(rows: Rows) -> Any:
    """Return a pandas DataFrame of the rows, or the rows themselves where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)


def show(value: object) -> None:
    """Show a value in the notebook that runs this program, or print it."""
    if notebook() is not None:
        import_module("IPython.display").display(value)
    else:
        sys.stdout.write(f"{value}\n")


def result_sensitivity(result: SearchResult, time_limit_s: float) -> str:
    """Return what more or less of each resource is worth, searched now."""
    return sensitivity_text(sensitivity(result, time_limit_s=time_limit_s))


def result_explanation(result: SearchResult, other: object = None) -> str:
    """Return what is known and how surely, and sentences on the best mapping; or why there is none."""
    if result.best is None:
        return no_answer_text(result)
    sentences = explain(result.workload, result.arch, result.best, result.cost, _pair(other))
    return f"{status_text(result)}\n{proof_text(result)}\n{sentences}"


def cost_explanation(cost: Cost, other: object = None) -> str:
    """Return sentences on the mapping that the cost is of."""
    return explain(*_question(cost), cost, _pair(other))


def _pair(other: object) -> tuple[Mapping, Cost] | None:
    """Return the mapping and the cost of the answer to compare with."""
    if other is None:
        return None
    found = subject_of(other)  # type: ignore[arg-type]  # it tells what is wrong with other values
    return found.mapping, found.cost


def nest_text(answer: SearchResult | Cost) -> str:
    """Return the mapping as text."""
    found = subject_of(answer)
    return mapping_text(found.workload, found.mapping, found.arch)


def nest_picture(answer: SearchResult | Cost) -> Picture:
    """Return the picture of the mapping."""
    found = subject_of(answer)
    return mapping_svg(found.workload, found.arch, found.mapping, found.cost)


def write_page(result: SearchResult, path: str | Path, other: object = None) -> None:
    """Write the page about a result."""
    found, second = subject_of(result), _pair(other)
    beside = None if second is None else ("the other", second[0])
    write_text(path, report_page(found.workload, found.arch, result, beside))


def result_program(result: SearchResult) -> str:
    """Return the C program of the best mapping."""
    found = subject_of(result)
    return generate_c(found.workload, found.arch, found.mapping)


def cost_program(cost: Cost) -> str:
    """Return the C program of the mapping that the cost is of."""
    return generate_c(*_question(cost))


def _question(cost: Cost) -> tuple[Workload, Architecture, Mapping]:
    found = subject_of(cost)
    return found.workload, found.arch, found.mapping


def _writing(text: Callable[[Value], str]) -> Callable[[Value, str | Path], None]:
    return lambda value, path: write_text(path, text(value))


def _saving(document: Callable[[Value], dict[str, object]]) -> Callable[[Value, str | Path], None]:
    return _writing(lambda value: json_text(document(value)))


def _framing(rows: Callable[[Value], Rows]) -> Callable[[Value], Any]:
    return lambda value: frame(rows(value))


report_with(
    SearchResult,
    Reports(
        _framing(result_rows),
        show,
        _saving(result_document),
        explain=result_explanation,
        nest=nest_text,
        picture=nest_picture,
        page=write_page,
        code=result_program,
        prices=result_sensitivity,
    ),
)
report_with(
    Cost,
    Reports(
        _framing(cost_rows),
        show,
        _saving(evaluation_document),
        explain=cost_explanation,
        nest=nest_text,
        picture=nest_picture,
        code=cost_program,
    ),
)
report_with(BufferCurve, Reports(_framing(curve_rows), show, _saving(curve_document)))
report_with(Comparison, Reports(_framing(comparison_rows), show, _saving(comparison_document)))
report_with(NetworkAnswer, Reports(_framing(answer_rows), show, _saving(answer_document), page=_writing(network_page)))
report_with(SweepTable, Reports(_framing(sweep_rows), show, _saving(sweep_document), page=_writing(sweep_page)))
report_with(Sensitivity, Reports(_framing(sensitivity_rows), show, _saving(sensitivity_document)))
