"""Registers the text and notebook representation of each class; loaded before the first value is shown."""

from __future__ import annotations

from html import escape

from polymap.codegen.execute import CRun
from polymap.codegen.source import SymbolicCheckup, TransformReport
from polymap.costmodel import Cost
from polymap.costmodel.analysis import BufferCurve, bare_text
from polymap.costmodel.symbolic import Formula
from polymap.costmodel.tables import CostArrays
from polymap.ir import Architecture, Mapping, Violation, Workload, show_as_html, show_as_picture, show_as_text
from polymap.layouts import BurstCounts, CacheMisses, LayoutChoice
from polymap.networks import Network, NetworkAnswer, Sensitivity, SweepTable
from polymap.report.figures import (
    bare_svg,
    buffer_curve_svg,
    buffer_curve_text,
    front_svg,
    front_text,
    machine_svg,
    machine_text,
    mapping_svg,
    traffic_html,
    traffic_text,
)
from polymap.report.page import results as results
from polymap.report.page.families import (
    capacity_text,
    choice_text,
    comparison_text,
    costs_text,
    sample_text,
    scores_text,
    tiles_text,
    winners_text,
)
from polymap.report.page.prices import sensitivity_text
from polymap.report.space import SideBySide, side_by_side_svg, side_by_side_text
from polymap.report.text import (
    answer_text,
    bursts_text,
    cost_text,
    dependence_text,
    dividing_text,
    explain,
    figures_text,
    formula_text,
    layouts_text,
    misses_text,
    network_text,
    no_answer_text,
    proof_text,
    result_text,
    run_text,
    space_text,
    status_text,
    sweep_text,
    symbolic_text,
    transform_text,
    violation_text,
)
from polymap.sampling import Sample, Scores
from polymap.search.result import SearchResult
from polymap.study import CapacityCurve, Comparison, TileStudy, WinnerStudy
from polymap.tile_sizes import TileChoice
from polymap.workload import Dependence, workload_text


def _cost_text(cost: Cost) -> str:
    if cost.mapping is not None and cost.workload is not None and cost.arch is not None:
        return cost_text(cost.workload, cost.arch, cost.mapping, cost)
    return "\n".join((*_illegal(cost), traffic_text(cost), "", figures_text(cost)))


def _cost_html(cost: Cost) -> str:
    notes, nest = [*_illegal(cost), figures_text(cost)], ""
    if cost.mapping is not None and cost.workload is not None and cost.arch is not None:
        nest = f"<div>{mapping_svg(cost.workload, cost.arch, cost.mapping, cost)}</div>"
        notes += ["", explain(cost.workload, cost.arch, cost.mapping, cost)]
    return f"{nest}{traffic_html(cost)}<pre>{escape(chr(10).join(notes))}</pre>"


def _illegal(cost: Cost) -> list[str]:
    return ["not legal:", *(violation_text(violation) for violation in cost.violations), ""] if cost.violations else []


def _result_text(result: SearchResult) -> str:
    if result.best is not None and result.workload is not None and result.arch is not None:
        return f"{result_text(result.workload, result.arch, result)}\n\n{proof_text(result)}"
    parts = [f"{status_text(result)}\n{space_text(result)}"]
    if result.front:
        parts.append(front_text(result))
    if result.best is None:
        parts.append(no_answer_text(result))
    else:
        parts.append(bare_text(result.best))
    if result.cost is not None:
        parts.append(_cost_text(result.cost))
    return "\n\n".join(parts)


def _result_html(result: SearchResult) -> str:
    """Return status and proof; the front; the nest with sizes, trips and statement; traffic, figures, sentences."""
    lines = [status_text(result), *([dividing_text(result)] if result.dividing is not None else []), space_text(result)]
    head = f"<pre>{escape(chr(10).join(lines))}</pre>"
    if result.best is None:
        return f"{head}<pre>{escape(no_answer_text(result))}</pre>"
    head += f"<p>{escape(proof_text(result))}</p>"
    if result.front:
        head += f"<div>{front_svg(result)}</div><pre>{escape(front_text(result))}</pre>"
    if result.cost is None or result.cost.mapping is None:
        head += f"<div>{bare_svg(result.best)}</div>"
    return head + ("" if result.cost is None else _cost_html(result.cost))


show_as_text(Workload, workload_text)
show_as_text(Architecture, machine_text)
show_as_picture(Architecture, machine_svg)
show_as_text(Mapping, bare_text)
show_as_picture(Mapping, bare_svg)
show_as_text(Violation, violation_text)
show_as_text(Cost, _cost_text)
show_as_html(Cost, _cost_html)
show_as_text(Dependence, dependence_text)
show_as_text(Formula, formula_text)
show_as_text(BufferCurve, buffer_curve_text)
show_as_picture(BufferCurve, buffer_curve_svg)
show_as_text(Comparison, comparison_text)
show_as_text(Sample, sample_text)
show_as_text(Scores, scores_text)
show_as_text(TileChoice, choice_text)
show_as_text(Network, network_text)
show_as_text(NetworkAnswer, answer_text)
show_as_text(SweepTable, sweep_text)
show_as_text(BurstCounts, bursts_text)
show_as_text(LayoutChoice, layouts_text)
show_as_text(CacheMisses, misses_text)
show_as_text(SideBySide, side_by_side_text)
show_as_picture(SideBySide, side_by_side_svg)
show_as_text(CRun, run_text)
show_as_text(CapacityCurve, capacity_text)
show_as_text(WinnerStudy, winners_text)
show_as_text(TileStudy, tiles_text)
show_as_text(CostArrays, costs_text)
show_as_text(SymbolicCheckup, symbolic_text)
show_as_text(TransformReport, transform_text)
show_as_text(SearchResult, _result_text)
show_as_html(SearchResult, _result_html)
show_as_text(Sensitivity, sensitivity_text)
