"""Pages about many searches: a network's layers on one machine, a sweep over machines."""

from __future__ import annotations

from fractions import Fraction
from html import escape

from polymap.formatting import exact, percent
from polymap.inputs import is_table
from polymap.ir import PolymapError
from polymap.networks import NetworkAnswer, SweepTable, share_of
from polymap.report.figures import layer_bars_figure, layer_bars_svg, machine_svg, machine_text, picture_html
from polymap.report.html import Cell, Section, folded, page, paragraphs, table, text_block
from polymap.report.machines import binding_figure, binding_svg, machine_front_figure, machine_front_svg
from polymap.report.networks import answer_text, machine_label, sweep_text
from polymap.search.problem import unit_of


def network_page(answer: NetworkAnswer) -> str:
    """Return the page about a network: totals and what is missing, a bar and a row per layer, the layers' mappings in
    sentences, the machine."""
    drawn = picture_html(layer_bars_svg(layer_bars_figure(answer))) if answer.layers else ""
    head = ("layer", "nodes", "MACs of one", "value of one", "no mapping below", "all nodes", "share, %", "status")
    rows: list[list[Cell]] = []
    for each in answer.layers:
        share, found = share_of(answer, each), each.exact is not None
        values = [_cell(each.exact if found else None), _cell(each.exact_bound)]
        totals: list[Cell] = [_cell(each.total if found else None), None if share is None else 100 * share]
        rows.append([each.layer.name, each.layer.multiplicity, each.layer.macs, *values, *totals, each.result.stated])
    layers = table(head, rows, f"Each distinct layer; values in the unit of {answer.objective}.")
    told = "".join(
        folded(f"{each.layer.name}: {each.result.stated}", paragraphs(each.result.explain()))
        for each in answer.layers
        if each.result.best is not None
    )
    sections = [
        Section("answer", "The answer", text_block(answer_text(answer)) + drawn),
        Section("layers", "Layers", layers),
        Section("why", "Why each layer costs what it costs", told or paragraphs("No layer has a mapping.")),
        Section(
            "machine", "The machine", picture_html(machine_svg(answer.arch)) + text_block(machine_text(answer.arch))
        ),
    ]
    value = (
        "no value" if answer.exact is None else f"{answer.objective} {exact(answer.exact)}{unit_of(answer.objective)}"
    )
    gap = "" if answer.gap is None else f", gap {percent(answer.gap)}"
    title = f"polymap: {answer.network.name} on {answer.arch.name}"
    return page(title, _lead(answer.stated, f"{value}{gap}"), sections)


def sweep_page(found: SweepTable) -> str:
    """Return the page about a sweep: the machines that none beats and what takes most, pictures, layers
    beside machines, a row per question."""
    areas = ("area, um2",) if any(each.area_um2 is not None for each in found.rows) else ()
    head = ("workload", "machine", "objective", "value", "no mapping below", "on-chip bits", *areas, "status", "from")
    rows: list[list[Cell]] = []
    for each in found.rows:
        value, bound = _cell(each.value), _cell(each.bound)
        named: list[Cell] = [each.workload, machine_label(each.machine), each.objective]
        taken = (each.on_chip_bits, *(_cell(each.area_um2) for _ in areas))
        rows.append([*named, value, bound, *taken, each.status, each.how])
    sections = [
        Section("answer", "The answer", text_block(sweep_text(found)) + _drawn(found)),
        Section("matrix", "Layers on machines", "".join(_matrix(found, each) for each in found.objectives)),
        Section("rows", "All rows", table(head, rows, "Values and bounds in the unit of the objective.")),
    ]
    proven = "OPTIMAL" if found.is_proven else "FEASIBLE"
    return page("polymap: a sweep over machines", _lead(proven, f"{len(found.rows):,} rows"), sections)


def _matrix(found: SweepTable, objective: str) -> str:
    """Return a row per machine and a column per layer: the values of all its nodes."""
    layers = [*dict.fromkeys(row.workload for row in found.rows)]
    machines: dict[str, dict[str, Cell]] = {}
    for row in found.rows:
        if row.objective == objective:
            value = None if row.value is None else row.value * row.multiplicity
            machines.setdefault(machine_label(row.machine), {})[row.workload] = _cell(value)
    rows = [[name, *(values.get(layer) for layer in layers)] for name, values in machines.items()]
    return table(("machine", *layers), rows, f"{objective},{unit_of(objective)} of all nodes of a layer.")


def _drawn(found: SweepTable) -> str:
    """Return the pictures that the sweep has: machines with their front, and what binds on a grid of two fields."""
    drawn = ""
    try:
        drawn += picture_html(machine_front_svg(machine_front_figure(found)))
        grid = found.rows[0].machine if found.rows else None
        if is_table(grid) and len(grid) > 1:
            across, up = [str(name) for name in grid][:2]
            drawn += picture_html(binding_svg(binding_figure(found, across, up)))
    except PolymapError as error:
        drawn += paragraphs(f"No further picture: {error.mistakes[0].what}.")
    return drawn


def _cell(value: Fraction | None) -> Cell:
    """Return a value as a cell: whole ones as integers of any length."""
    if value is None:
        return None
    return int(value) if value == int(value) else float(value)


def _lead(status: str, told: str) -> str:
    return f'<p><span class="status {escape(status)}">{escape(status)}</span> {escape(told)}</p>'
