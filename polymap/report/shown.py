"""Shows values: registers their texts and pictures, each with what draws it loaded when such a value is shown."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from polymap import report
from polymap.costmodel import bare_text
from polymap.ir import OptionError, show_as_html, show_as_picture, show_as_text
from polymap.report import figures

if TYPE_CHECKING:
    from collections.abc import Callable

    from polymap.costmodel import Cost
    from polymap.search import SearchResult


def _cost_text(cost: Cost) -> str:
    if cost.mapping is not None and cost.workload is not None and cost.arch is not None:
        return report.cost_text(cost.workload, cost.arch, cost.mapping, cost)
    return "\n".join((*_illegal(cost), figures.traffic_text(cost), "", report.figures_text(cost)))


def _cost_html(cost: Cost) -> str:
    notes, nest = [*_illegal(cost), report.figures_text(cost)], ""
    if cost.mapping is not None and cost.workload is not None and cost.arch is not None:
        nest = f"<div>{figures.mapping_svg(cost.workload, cost.arch, cost.mapping, cost)}</div>"
        notes += ["", report.explain(cost.workload, cost.arch, cost.mapping, cost)]
    return f"{nest}{figures.traffic_html(cost)}<pre>{escape(chr(10).join(notes))}</pre>"


def _illegal(cost: Cost) -> list[str]:
    told = [report.violation_text(violation) for violation in cost.violations]
    return ["not legal:", *told, ""] if told else []


def _result_text(result: SearchResult) -> str:
    if result.best is not None and result.workload is not None and result.arch is not None:
        return f"{report.result_text(result.workload, result.arch, result)}\n\n{report.proof_text(result)}"
    parts = [f"{report.status_text(result)}\n{result.space}"]
    if result.front:
        parts.append(figures.front_text(result))
    if result.best is None:
        parts.append(report.no_answer_text(result))
    else:
        parts.append(bare_text(result.best))
    if result.cost is not None:
        parts.append(_cost_text(result.cost))
    return "\n\n".join(parts)


def _result_html(result: SearchResult) -> str:
    """Return status and proof; the front; the nest with sizes, trips and statement; traffic, figures, sentences."""
    lines = [
        report.status_text(result),
        *([report.dividing_text(result)] if result.dividing is not None else []),
        str(result.space),
    ]
    head = f"<pre>{escape(chr(10).join(lines))}</pre>"
    if result.best is None:
        return f"{head}<pre>{escape(report.no_answer_text(result))}</pre>"
    head += f"<p>{escape(report.proof_text(result))}</p>"
    if result.front:
        head += f"<div>{figures.front_svg(result)}</div><pre>{escape(figures.front_text(result))}</pre>"
    if result.cost is None or result.cost.mapping is None:
        head += f"<div>{figures.bare_svg(result.best)}</div>"
    return head + ("" if result.cost is None else _cost_html(result.cost))


def _study_text(value: Any) -> str:
    from polymap.report import families  # with all that searches: by those who have an answer of it

    return families.TEXTS[type(value)](value)


def _prices_text(value: Any) -> str:
    from polymap.report.prices import sensitivity_text  # as above

    return sensitivity_text(value)


def _workload_text(value: Any) -> str:
    from polymap.workload import workload_text

    return workload_text(value)


def _machines_svg(table: Any) -> str:
    from polymap.report.machines import machine_front_figure, machine_front_svg  # as above

    return machine_front_svg(machine_front_figure(table))


def _above_text(draw: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return what shows a value as its picture and its text; of one that cannot be drawn, the text alone."""

    def render(value: object) -> str:
        told = f"<pre>{escape(str(value))}</pre>"
        try:
            return f"<div>{draw(value)}</div>{told}"
        except OptionError:
            return told

    return render


for _kind in (
    "CapacityCurve",
    "Comparison",
    "CostArrays",
    "Sample",
    "Scores",
    "TileChoice",
    "TileStudy",
    "WinnerStudy",
):
    show_as_text(_kind, _study_text)
show_as_text("Architecture", lambda value: figures.machine_text(value))
show_as_text("BufferCurve", lambda value: figures.buffer_curve_text(value))
show_as_text("BurstCounts", lambda value: report.bursts_text(value))
show_as_text("CRun", lambda value: report.run_text(value))
show_as_text("CacheMisses", lambda value: report.misses_text(value))
show_as_text("Cost", _cost_text)
show_as_text("Dependence", lambda value: report.dependence_text(value))
show_as_text("Formula", lambda value: report.formula_text(value))
for _kind in ("GroupAnswer", "LayerAnswer"):
    show_as_text(_kind, lambda value: f"{value.title}: {value.result}")
    show_as_html(_kind, lambda value: f"<pre>{escape(value.title)}</pre>{_result_html(value.result)}")
show_as_text("LayoutChoice", lambda value: report.layouts_text(value))
show_as_text("Mapping", lambda value: bare_text(value))
show_as_text("Network", lambda value: report.network_text(value))
show_as_text("NetworkAnswer", lambda value: report.answer_text(value))
show_as_text("SearchResult", _result_text)
show_as_text("Sensitivity", _prices_text)
show_as_text("SideBySide", lambda value: figures.side_by_side_text(value))
show_as_text("SweepTable", lambda value: report.sweep_text(value))
show_as_text("SymbolicCheckup", lambda value: report.symbolic_text(value))
show_as_text("TransformReport", lambda value: report.transform_text(value))
show_as_text("Violation", lambda value: report.violation_text(value).strip())
show_as_text("Workload", _workload_text)
show_as_picture("Architecture", lambda value: figures.machine_svg(value))
show_as_picture("BufferCurve", lambda value: figures.buffer_curve_svg(value))
show_as_picture("CapacityCurve", lambda value: figures.capacity_svg(value))
show_as_picture("Fusion", lambda value: figures.fusion_svg(value))
show_as_picture("Mapping", lambda value: figures.bare_svg(value))
show_as_picture("Sensitivity", lambda value: figures.sensitivity_svg(value))
show_as_picture("SideBySide", lambda value: figures.side_by_side_svg(value))
show_as_picture("TileStudy", lambda value: figures.tile_map_svg(value))
show_as_picture("WinnerStudy", lambda value: figures.winner_svg(value))
show_as_html("Comparison", _above_text(lambda value: figures.layer_matrix_svg(figures.dataflow_matrix([value]))))
show_as_html("Cost", _cost_html)
show_as_html("NetworkAnswer", _above_text(lambda value: figures.layer_bars_svg(figures.layer_bars_figure(value))))
show_as_html("Sample", _above_text(lambda value: figures.cloud_svg(figures.cloud_figure(value))))
show_as_html("SearchResult", _result_html)
show_as_html("SweepTable", _above_text(_machines_svg))
